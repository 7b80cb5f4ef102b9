"""Fits of curves that are never worse on their own rows than what they start from."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from calspline.fits.curve import fit_default_curve
from calspline.fits.options import Recipe
from calspline.fits.paper import fit_paper_curve
from calspline.fitting.groups import Parts
from calspline.fitting.validation import is_worse_than_start
from calspline.histograms.score_histogram import ScoreHistogram
from calspline.maps.curve import CalibrationCurve, constant, line
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
    starts = [constant(histogram.kind, histogram.base_rate)]
    if histogram.kind == "probability":
        starts.append(line(Transform("logit"), 1.0, 0.0))
    losses = [_log_loss(start, histogram) for start in starts]
    best = int(np.argmin(losses))
    loss = _log_loss(fitted.curve, histogram)
    effect = recipe.design_effect
    tolerance = TOLERANCE + TOLERANCE_PER_ROW * histogram.total / effect
    if is_worse_than_start(loss / effect, losses[best] / effect, tolerance):
        return replace(fitted, curve=starts[best], edf=0.0, converged=False)
    return fitted


def _log_loss(curve: CalibrationCurve, histogram: ScoreHistogram) -> float:
    """Log-loss of all rows, in nats; no probability is more certain than rows allow."""
    least = 1.0 / (histogram.total + 2.0)
    z = curve.locate(histogram.locations, histogram.kind)
    p = np.clip(curve.respond(curve.value(z)), least, 1.0 - least)
    return float(-histogram.positives @ np.log(p) - histogram.negatives @ np.log1p(-p))
