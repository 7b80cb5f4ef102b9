"""One curve per class against the rest: the paper's Algorithm 3."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from calspline.arrays import Array
from calspline.binary_fit import FittedCurve, Recipe, constant_fit, fit_curves
from calspline.curve import CalibrationCurve
from calspline.histogram import ScoreHistogram
from calspline.multiclass.columns import Columns, normalise
from calspline.scores import Kind, MatrixScores
from calspline.transforms import Transform

CLASSES_AT_ONCE = 16
"""Classes fitted together: enough to share the overhead, few enough to stay in the cache."""


def fit_one_vs_rest(
    scores: MatrixScores, codes: NDArray[np.intp], weight: Array | None, recipe: Recipe
) -> list[FittedCurve]:
    """Fit the curve of each column against whether a row is of its class.

    A class that no row shows keeps the probability that the rule of succession gives
    it, ``1 / (n + 2)``, whatever its score.
    """
    total = float(len(scores) if weight is None else weight.sum())
    columns = Columns(scores, recipe.transform)
    seen = np.unique(codes)

    def fit_group(group: slice) -> dict[int, FittedCurve]:
        members = seen[group].tolist()
        each = zip(members, columns.take(members), strict=True)
        histograms = [ScoreHistogram.collect(column, codes == j, weight) for j, column in each]
        return dict(zip(members, fit_curves(histograms, recipe), strict=True))

    fits: dict[int, FittedCurve] = {}
    groups = [slice(i, i + CLASSES_AT_ONCE) for i in range(0, len(seen), CLASSES_AT_ONCE)]
    for fitted in map(fit_group, groups):  # threads would wait for the interpreter's lock
        fits |= fitted
    unseen = _unseen(columns.kind, total, recipe)
    return [fits.get(j, unseen) for j in range(scores.values.shape[1])]


def fit_histograms(histograms: list[ScoreHistogram | None], kind: Kind, recipe: Recipe) -> list[FittedCurve]:
    """The same from a histogram for each class; None for a class that no row shows."""
    seen = [j for j, histogram in enumerate(histograms) if histogram is not None]
    present = [histogram for histogram in histograms if histogram is not None]
    fits: list[FittedCurve] = []
    for start in range(0, len(present), CLASSES_AT_ONCE):
        fits += fit_curves(present[start : start + CLASSES_AT_ONCE], recipe)
    fitted = dict(zip(seen, fits, strict=True))
    unseen = _unseen(kind, present[0].total, recipe)
    return [fitted.get(j, unseen) for j in range(len(histograms))]


def _unseen(kind: Kind, total: float, recipe: Recipe) -> FittedCurve:
    transform = Transform("logit" if kind == "probability" else "identity")
    return constant_fit(transform, 0.0, 1.0 / (total + 2.0), total, recipe)


def combine(curves: list[CalibrationCurve], scores: MatrixScores, transform: str) -> Array:
    """``f_i(x_i) / sum_j f_j(x_j)``; a row whose sum vanishes becomes uniform."""
    columns = Columns(scores, transform)
    n, m = scores.values.shape
    out = np.empty((n, m))
    for start in range(0, m, CLASSES_AT_ONCE):
        members = list(range(m)[start : start + CLASSES_AT_ONCE])
        for j, column in zip(members, columns.take(members), strict=True):
            out[:, j] = curves[j].evaluate(column)
    normalise(out)
    return out
