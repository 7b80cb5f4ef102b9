"""The paper's fits of a curve (Lucena, *Spline-Based Probability Calibration*).

The paper's algorithms go through these steps, each of which is an option of its own:

1. Algorithm 1 calibrates the score itself. Algorithm 2 puts it on the compact logit,
   which turns straight at ``epsilon``: a heuristic looks at the largest score below 1.
2. Knots are sampled from the distinct scores.
3. A natural cubic spline has an L2 penalty on the coefficients of its basis, the line
   included (``penalty="ridge"``).
4. Cross-validation chooses the strength of the penalty.

Algorithm 3 does so for each class against the rest. ``loss="brier"`` fits probabilities
by least squares, without a link. Options that are not the paper's are those of the
default fit (:mod:`calspline.fits.curve`). With sampled knots or the ridge penalty,
scores count wherever they are, and the curve goes on as it ends.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from calspline.fits.curve import (
    Method,
    PlacedScores,
    default_shape,
    default_transforms,
    fit_by,
    flat_ends,
    knot_count,
    logit_transforms,
    search_smoothing,
)
from calspline.fits.limits import EVERYWHERE, score_limits
from calspline.fits.options import Recipe
from calspline.fitting.cross_validation import cross_validation, task_folds
from calspline.fitting.fit import (
    Line,
    Shape,
    SplineTask,
    quantile_knots,
    sampled_knots,
)
from calspline.fitting.groups import Parts
from calspline.fitting.newton import brier_loss, log_loss
from calspline.fitting.smoothing import Chosen, smoothing_grid
from calspline.histograms.score_histogram import ScoreHistogram
from calspline.maps.fit_info import FittedCurve
from calspline.transforms import TRANSFORMS, Transform, epsilon_from_log_odds

LABELS = (0.0, 1.0)
"""Targets of negatives and positives: the labels themselves."""


def fit_paper_curve(
    histogram: ScoreHistogram, recipe: Recipe, parts: Parts | None = None
) -> FittedCurve:
    """Fit a curve with options of the paper.

    Folds of the cross-validation are ``parts`` of the rows, if given.
    """
    make_task = partial(paper_task, parts=parts)
    limits = no_limits if _ends_are_free(recipe) else score_limits
    method = Method(paper_transforms, limits, make_task, search_penalty)
    return fit_by(method, histogram, recipe)


def paper_transforms(histogram: ScoreHistogram, recipe: Recipe) -> list[Transform]:
    """Step 1: the compact logit with its epsilon, or another scale of the options."""
    name = recipe.scale
    if name == "auto" and recipe.loss == "brier":
        name = "identity"
    if name != "auto" and TRANSFORMS[name].takes_epsilon:
        epsilon = recipe.epsilon
        if epsilon == "auto":
            epsilon = epsilon_from_log_odds(histogram.highest)
        return [Transform(name, epsilon)]
    if histogram.kind == "probability" and name in ("auto", "logit"):
        effect = recipe.design_effect
        limits = EVERYWHERE
        if not _ends_are_free(recipe):
            limits = score_limits("logit", histogram, effect)
        return logit_transforms(histogram, limits, effect, with_rival=name == "auto")
    return default_transforms(histogram, replace(recipe, scale=name))


def no_limits(
    transform: str, histogram: ScoreHistogram, design_effect: float
) -> tuple[float, float]:
    """Limits where scores count wherever they are."""
    return EVERYWHERE


def _ends_are_free(recipe: Recipe) -> bool:
    """Whether knots or penalty are the paper's: limits of scores would be knots."""
    return recipe.knots == "sample" or recipe.penalty == "ridge"


def paper_task(
    placed: PlacedScores,
    histogram: ScoreHistogram,
    recipe: Recipe,
    parts: Parts | None = None,
) -> SplineTask:
    """Steps 2 and 3: knots and penalty."""
    bins = placed.bins
    count = knot_count(placed, recipe)
    if recipe.knots == "sample":
        generator = np.random.default_rng([recipe.seed, 0])
        knots = sampled_knots(bins.x, count, generator)
    else:
        knots = quantile_knots(bins.x, bins.w, count)
    total = histogram.total / recipe.design_effect
    if recipe.penalty == "ridge":
        shape = ridge_shape(placed, total, recipe)
    elif recipe.loss == "brier":
        shape = brier_shape(placed, total, recipe)
    else:
        shape = default_shape(placed, histogram, recipe)
    if _ends_are_free(recipe):
        shape = replace(shape, ends=(np.inf, np.inf), turns=True)
    if parts is not None:
        effect = recipe.design_effect
        parts = Parts(parts.positives / effect, parts.negatives / effect)
    return SplineTask(bins, knots, shape, parts)


def ridge_shape(placed: PlacedScores, total: float, recipe: Recipe) -> Shape:
    """The paper's penalty shrinks the whole curve to zero."""
    is_brier = recipe.loss == "brier"
    return Shape(
        loss=brier_loss if is_brier else log_loss,
        ridge=True,
        line=(0.0, 0.0),
        targets=LABELS,
        trusted=Line(0.0, 0.0),
        monotone=False if recipe.monotone == "auto" else recipe.monotone,
        bounds=recipe.probability_limits(total) if is_brier else None,
        ends=(np.inf, np.inf),
        flat=placed.at_limits,
    )


def brier_shape(placed: PlacedScores, total: float, recipe: Recipe) -> Shape:
    """A curve of probabilities, which starts from the scores or from the base rate."""
    x = placed.bins.x
    are_probabilities = not placed.transform.takes_probabilities
    if are_probabilities and x[0] >= 0.0 and x[-1] <= 1.0:
        start = (0.0, 1.0)
    else:
        start = (placed.bins.base_rate, 0.0)
    return Shape(
        loss=brier_loss,
        ridge=False,
        line=start,
        targets=LABELS,
        trusted=Line(*start),
        monotone=recipe.monotone,
        bounds=recipe.probability_limits(total),
        ends=flat_ends(placed),
        flat=placed.at_limits,
    )


def search_penalty(task: SplineTask, recipe: Recipe) -> Chosen:
    """Step 4: cross-validation, if the options say so."""
    if recipe.smoothing == "cv":
        folds = task_folds(task, recipe.cv, recipe.seed)
        grid = smoothing_grid(recipe.smoothing_grid)
        return cross_validation(task.problem, task.coordinates, grid, folds)
    return search_smoothing(task, recipe)
