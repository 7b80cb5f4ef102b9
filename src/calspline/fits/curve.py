"""The default fit of a curve: from a histogram of scores to probabilities.

1. Choose a scale; with many extreme scores, two scales are candidates.
2. Place the scores on it, within limits (:mod:`calspline.fits.limits`), and put knots
   at their quantiles.
3. Say what the curve is like without data: close to the line that leaves scores
   unchanged, and not steeper beyond the scores than that line.
4. Search the smoothing, on every candidate scale, and keep the scale that the marginal
   likelihood prefers.
5. Fit again with more knots where the curve uses up those that it has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from calspline._arrays import Array, Counts
from calspline._input.scores import Kind
from calspline.fits.limits import are_rounded, least_rounded, score_limits
from calspline.fits.options import Recipe
from calspline.fitting.fit import (
    Line,
    Shape,
    SplineFit,
    SplineTask,
    default_count,
    quantile_knots,
    trusted_line,
)
from calspline.fitting.newton import log_loss
from calspline.fitting.smoothing import (
    FIXED_SPREAD,
    SPREADS,
    Chosen,
    fit_fixed,
)
from calspline.histograms.score_histogram import ScoreHistogram
from calspline.maps.curve import CalibrationCurve, line
from calspline.maps.fit_info import FittedCurve
from calspline.maps.posterior import Posterior
from calspline.transforms import (
    LOGIT_CLIP,
    SMALLEST_PROBABILITY,
    ZERO,
    Transform,
    exactly_one,
)


@dataclass(frozen=True)
class PlacedScores:
    """A histogram on the scale of a transform, in effective rows.

    ``at_limits`` tells whether scores at either end count as closer than they are.
    """

    transform: Transform
    kind: Kind
    bins: Counts
    at_limits: tuple[bool, bool]


class Candidate(NamedTuple):
    """A spline to be fitted on one scale."""

    transform: Transform
    task: SplineTask


@dataclass(frozen=True)
class Method:
    """How a curve is fitted: scales, limits of scores, tasks, and smoothing."""

    transforms: Callable[[ScoreHistogram, Recipe], Sequence[Transform]]
    limits: Callable[[str, ScoreHistogram, float], tuple[float, float]]
    make_task: Callable[[PlacedScores, ScoreHistogram, Recipe], SplineTask]
    search: Callable[[SplineTask, Recipe], Chosen]


def fit_default_curve(histogram: ScoreHistogram, recipe: Recipe) -> FittedCurve:
    """Fit the curve of a histogram that holds both classes."""
    method = Method(default_transforms, score_limits, default_task, search_smoothing)
    return fit_by(method, histogram, recipe)


def fit_by(method: Method, histogram: ScoreHistogram, recipe: Recipe) -> FittedCurve:
    """Fit a curve by a method, and again with more knots where it used them up."""
    total = histogram.total / recipe.design_effect
    transforms = method.transforms(histogram, recipe)
    candidates = []
    for transform in transforms:
        limits = method.limits(transform.name, histogram, recipe.design_effect)
        placed = place_scores(transform, histogram, limits, recipe.design_effect)
        if placed is not None:
            task = method.make_task(placed, histogram, recipe)
            candidates.append(Candidate(transform, task))
    if not candidates:
        place = float(transforms[0](histogram.scores[:1])[0])
        return constant_fit(transforms[0], place, histogram.base_rate, total, recipe)
    if len(candidates) == 1:
        transform, task = candidates[0]
        choice = method.search(task, recipe)
    else:
        transform, task, choice = _choose_candidate(candidates, recipe)
        if not recipe.by_evidence:
            choice = method.search(task, recipe)
    fitted = _as_fitted_curve(transform, task.finish(choice), choice, total, recipe)
    if recipe.n_knots is not None or not recipe.by_evidence:
        # Where folds choose many parameters, they may just follow noise.
        return fitted
    return _with_enough_knots(method, fitted, histogram, recipe)


CLEAR_EVIDENCE = 5.0
"""Log Bayes factor that it takes to leave the first candidate.

"Very strong" on the scale of Kass and Raftery (1995).
"""


def _choose_candidate(
    candidates: list[Candidate], recipe: Recipe
) -> tuple[Transform, SplineTask, Chosen]:
    """The candidate that the marginal likelihood prefers, with its smoothing.

    The first is left only for clear evidence.
    """
    choices = [task.search_evidence(recipe.smoothing_grid) for _, task in candidates]
    best = 0
    for rival in range(1, len(candidates)):
        if choices[rival].evidence > choices[best].evidence + CLEAR_EVIDENCE:
            best = rival
    return *candidates[best], choices[best]


def default_transforms(histogram: ScoreHistogram, recipe: Recipe) -> list[Transform]:
    """The scale of the options, or ``logit`` and, for extreme scores, its rival."""
    name = recipe.scale
    if name == "auto" and histogram.kind == "margin":
        name = "identity"
    if name not in ("auto", "logit"):
        return [Transform(name)]
    limits = score_limits("logit", histogram, recipe.design_effect)
    return logit_transforms(
        histogram, limits, recipe.design_effect, with_rival=name == "auto"
    )


EXTREME_LOG_ODDS = 10.0
EXTREME_SHARE = 0.05
"""Share of more extreme rows from which ``asinh_logit`` is a candidate."""


def logit_transforms(
    histogram: ScoreHistogram,
    limits: tuple[float, float],
    design_effect: float,
    *,
    with_rival: bool,
) -> list[Transform]:
    """``logit`` and, if many scores are extreme, ``asinh_logit`` as a rival."""
    u = histogram.locations
    w = histogram.positives + histogram.negatives
    extreme = (np.abs(u) > LOGIT_CLIP) & (u > ZERO) & ~exactly_one(u)
    clip = None
    if np.isfinite(limits).all():
        if extreme.any():
            # Wide enough to tell scores beyond the usual clip apart.
            clip = SMALLEST_PROBABILITY
        elif are_rounded(histogram):
            clip = least_rounded(histogram, design_effect, limits)
    logit = Transform("logit", clip)
    far = np.abs(np.clip(u, *limits)) > EXTREME_LOG_ODDS
    if with_rival and w[far].sum() > EXTREME_SHARE * w.sum():
        return [logit, Transform("asinh_logit")]
    return [logit]


def place_scores(
    transform: Transform,
    histogram: ScoreHistogram,
    limits: tuple[float, float],
    design_effect: float,
) -> PlacedScores | None:
    """Scores on the scale of a transform; None if all of them coincide there."""
    low, high = limits
    x = np.clip(histogram.locations, low, high)
    if histogram.kind == "probability":
        x = transform.from_log_odds(x)
    if x[0] == x[-1]:
        return None
    positives = histogram.positives / design_effect
    negatives = histogram.negatives / design_effect
    below = bool(histogram.locations[0] < low)
    above = bool(histogram.locations[-1] > high)
    bins = Counts(x, positives, negatives)
    return PlacedScores(transform, histogram.kind, bins, (below, above))


def default_task(
    placed: PlacedScores, histogram: ScoreHistogram, recipe: Recipe
) -> SplineTask:
    """The spline to be fitted to placed scores."""
    knots = quantile_knots(placed.bins.x, placed.bins.w, knot_count(placed, recipe))
    return SplineTask(placed.bins, knots, default_shape(placed, histogram, recipe))


def knot_count(placed: PlacedScores, recipe: Recipe) -> int:
    """Number of knots."""
    if recipe.n_knots is not None:
        return recipe.n_knots
    return default_count(float(placed.bins.w.sum()))


def default_shape(
    placed: PlacedScores, histogram: ScoreHistogram, recipe: Recipe
) -> Shape:
    """What the curve is like without data.

    The curve starts from the line that leaves scores unchanged. Only if there is one is
    it worth averaging over how far the line may move. Platt's targets are those of all
    rows: with few effective ones, they would move all probabilities to the middle.
    """
    n1 = float(histogram.positives.sum())
    n0 = float(histogram.negatives.sum())
    targets = (1.0 / (n0 + 2.0), (n1 + 1.0) / (n1 + 2.0))
    unchanged = placed.transform.unchanged
    if unchanged is None:
        rate = placed.bins.base_rate
        prior_line = (float(np.log(rate / (1.0 - rate))), 0.0)
        trusted = trusted_line(placed.bins, targets)
        spreads = FIXED_SPREAD
    else:
        prior_line = unchanged
        trusted = Line(*unchanged)
        spreads = SPREADS
    return Shape(
        loss=log_loss,
        ridge=False,
        line=prior_line,
        targets=targets,
        trusted=trusted,
        monotone=recipe.monotone,
        bounds=None,
        spreads=spreads if recipe.by_evidence else None,
        ends=steepest_ends(placed),
        flat=placed.at_limits,
        turns=False,
    )


def steepest_ends(placed: PlacedScores) -> tuple[float, float]:
    """The steepest slope, in ``x``, of the log-odds below and above all scores.

    Beyond the limits of scores the curve is flat, or nearly so. Beyond the range of
    probabilities its slope is at most 1 in the log-odds of the score: if the few rows
    at the end of the range ask for more than that, it is mostly by chance, and nothing
    says that it goes on. Margins have no unit to compare a slope with.
    """
    low, high = flat_ends(placed)
    if placed.kind == "margin":
        return low, high
    below, above = placed.at_limits
    slopes = placed.transform.slopes_of_log_odds(placed.bins.x[[0, -1]]).tolist()
    if not below:
        low = slopes[0]
    if not above:
        high = slopes[1]
    return low, high


NEARLY_FLAT = 1e-4
"""Slope beyond the limits of probabilities: enough to keep their ranking."""


def flat_ends(placed: PlacedScores) -> tuple[float, float]:
    """The steepest slopes beyond limits of scores, and no limit elsewhere."""
    flat = 0.0 if placed.kind == "margin" else NEARLY_FLAT
    below, above = placed.at_limits
    return flat if below else np.inf, flat if above else np.inf


def search_smoothing(task: SplineTask, recipe: Recipe) -> Chosen:
    """The smoothing by marginal likelihood, or the one that the options give."""
    if recipe.by_evidence:
        return task.search_evidence(recipe.smoothing_grid)
    return fit_fixed(task.problem, task.coordinates, float(recipe.smoothing))


def _as_fitted_curve(
    transform: Transform, fit: SplineFit, choice: Chosen, total: float, recipe: Recipe
) -> FittedCurve:
    curve = CalibrationCurve(
        transform,
        fit.breaks,
        fit.coefficients,
        origin=fit.origin,
        unit=fit.unit,
        link=recipe.link,
        clip=recipe.probability_limits(total),
        posterior=fit.spread,
    )
    smoothing = choice.smoothing
    if choice.average is not None:
        smoothing = choice.average.smoothing
    return FittedCurve(
        smoothing,
        choice.grid,
        choice.criterion,
        fit.edf,
        fit.converged,
        fit.n_iter,
        curve,
    )


MAX_USED = 0.5
"""Degrees of freedom per knot from which the knots may hold a curve back.

It is then fitted again with twice as many, up to ``MAX_KNOTS``: the work grows with
their cube.
"""
MAX_KNOTS = 128


def _with_enough_knots(
    method: Method, fitted: FittedCurve, histogram: ScoreHistogram, recipe: Recipe
) -> FittedCurve:
    """A fit with more knots, as long as a curve uses up more than half of them."""
    scale = fitted.curve.transform.name
    count = len(fitted.curve.breaks)
    while fitted.edf > MAX_USED * count and count < MAX_KNOTS:
        more = replace(recipe, scale=scale, n_knots=min(2 * count, MAX_KNOTS))
        refitted = fit_by(method, histogram, more)
        if not refitted.converged or len(refitted.curve.breaks) <= count:
            break  # there are no more values to put knots at
        fitted = refitted
        count = len(fitted.curve.breaks)
    return fitted


def constant_fit(
    transform: Transform, place: float, rate: float, total: float, recipe: Recipe
) -> FittedCurve:
    """The same probability everywhere, with the variance of a binomial share."""
    variance = 1.0 / (total * rate * (1.0 - rate))
    level = float(np.log(rate / (1.0 - rate))) if recipe.link == "logit" else rate
    flat = line(transform, 0.0, level, origin=place)
    curve = replace(flat, link=recipe.link, clip=recipe.probability_limits(total))
    if recipe.link == "logit":
        powers = np.zeros((7, 3))
        powers[-1] = variance
        modes = np.full((1, 2), np.sqrt(variance))
        curve = replace(curve, posterior=Posterior(powers, 0.0, modes))
    none: Array = np.empty(0)
    return FittedCurve(
        np.inf, none, none, edf=1.0, converged=True, n_iter=0, curve=curve
    )
