"""One curve per class against the rest: the paper's Algorithm 3."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from calspline._recipe import FittedCurve, Recipe, constant_fit, fit_curve
from calspline._validation import MatrixScores
from calspline.calibrators._columns import Columns, normalise
from calspline.curve import CalibrationCurve
from calspline.histogram import ScoreHistogram
from calspline.transforms import Transform

Array = NDArray[np.float64]


def fit_one_vs_rest(
    scores: MatrixScores, codes: NDArray[np.intp], weight: Array | None, recipe: Recipe
) -> list[FittedCurve]:
    """Fit the curve of each column against whether a row is of its class.

    A class that no row shows keeps the probability that the rule of succession gives
    it, ``1 / (n + 2)``, whatever its score.
    """
    total = float(len(scores) if weight is None else weight.sum())
    columns = Columns(scores, recipe.transform)
    fits = []
    for j in range(scores.values.shape[1]):
        positive = codes == j
        if positive.any():
            fits.append(fit_curve(ScoreHistogram.collect(columns[j], positive, weight), recipe))
        else:
            transform = Transform("logit" if columns.kind == "probability" else "identity")
            fits.append(constant_fit(transform, 0.0, 1.0 / (total + 2.0), total, recipe))
    return fits


def combine(curves: list[CalibrationCurve], scores: MatrixScores, transform: str) -> Array:
    """``f_i(x_i) / sum_j f_j(x_j)``; a row whose sum vanishes becomes uniform."""
    columns = Columns(scores, transform)
    n, m = scores.values.shape
    out = np.empty((n, m))
    for j, curve in enumerate(curves):
        out[:, j] = curve.evaluate(columns[j])
    normalise(out)
    return out
