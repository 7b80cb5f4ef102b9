"""Fits of curves that are never worse on their own rows than what they start from."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.special import expit

from calspline._arrays import Array
from calspline.fits.curve import fit_default_curve
from calspline.fits.options import Recipe
from calspline.fits.paper import fit_paper_curve
from calspline.fitting.groups import Parts
from calspline.fitting.validation import is_worse_than_start
from calspline.histograms.score_histogram import ScoreHistogram
from calspline.maps.curve import constant, line
from calspline.maps.fit_info import FittedCurve
from calspline.transforms import Transform

TOLERANCE, TOLERANCE_PER_ROW = 5.0, 0.005
"""Nats by which a curve may be worse on its own rows than its starting point.

The prior takes up to three where exact zeros and ones are rightly certain.
"""


def fit_curve(
    histogram: ScoreHistogram, recipe: Recipe, parts: Parts | None = None
) -> FittedCurve:
    """Fit the curve of a histogram that holds both classes, and validate it.

    Folds of a cross-validation are ``parts`` of the rows, if given.
    """
    if recipe.is_default:
        fitted = fit_default_curve(histogram, recipe)
    else:
        fitted = fit_paper_curve(histogram, recipe, parts)
    if recipe.penalty == "ridge":
        # The paper's penalty shrinks the starting line, too.
        return fitted
    return check_against_start(fitted, histogram, recipe)


def check_against_start(
    fitted: FittedCurve, histogram: ScoreHistogram, recipe: Recipe
) -> FittedCurve:
    """The curve or, if clearly worse, the better of raw scores and base rate."""
    rate = histogram.base_rate
    of_rate = _log_loss(np.asarray(rate), histogram)
    of_scores = np.inf
    if histogram.kind == "probability":
        of_scores = _log_loss(expit(histogram.locations), histogram)
    curve = fitted.curve
    z = curve.locate(histogram.locations, histogram.kind)
    of_curve = _log_loss(curve.respond(curve.value(z)), histogram)
    effect = recipe.design_effect
    tolerance = TOLERANCE + TOLERANCE_PER_ROW * histogram.total / effect
    best = min(of_rate, of_scores)
    if not is_worse_than_start(of_curve / effect, best / effect, tolerance):
        return fitted
    if of_scores < of_rate:
        start = line(Transform("logit"), 1.0, 0.0)
    else:
        start = constant(histogram.kind, rate)
    return replace(fitted, curve=start, edf=0.0, converged=False)


def _log_loss(p: Array, histogram: ScoreHistogram) -> float:
    """Log-loss of all rows, in nats; no probability is more certain than rows allow."""
    least = 1.0 / (histogram.total + 2.0)
    p = np.clip(p, least, 1.0 - least)
    positive = histogram.positives * np.log(p)
    negative = histogram.negatives * np.log1p(-p)
    return -float(positive.sum() + negative.sum())
