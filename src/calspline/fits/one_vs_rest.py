"""Fit one map per class against the rest: the paper's Algorithm 3, for any method."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from calspline._arrays import Array
from calspline._input.scores import BinaryScores, Kind
from calspline.fits.curve import constant_fit
from calspline.fits.grouped import GroupedRows, estimate_dependence
from calspline.fits.options import Recipe
from calspline.fits.validated import fit_curve
from calspline.histograms.score_histogram import ScoreHistogram
from calspline.maps.fit_info import FittedCurve
from calspline.multiclass.one_vs_rest import AgainstRest
from calspline.transforms import Transform

MOST_CLASSES = 32
"""Classes that are asked how rows of a group depend on each other."""

F = TypeVar("F")


def fit_classes(
    columns: AgainstRest,
    codes: NDArray[np.intp],
    weight: Array | None,
    fit: Callable[[BinaryScores, NDArray[np.bool_]], F],
    constant: Callable[[float, float], F],
) -> list[F]:
    """Fit each class against the rest, given its scores and whether a row is of it.

    A class that no row shows keeps the probability that the rule of succession gives
    it, ``1 / (n + 2)``, whatever its score; a class that all rows show has the rest of
    that. ``constant`` makes a fit of such a probability and the total weight.
    """
    total = float(len(columns) if weight is None else weight.sum())
    counts = np.bincount(codes, minlength=columns.n_classes)

    def fitted(j: int, column: BinaryScores) -> F:
        if 0 < counts[j] < len(codes):
            return fit(column, codes == j)
        return constant(_succession(bool(counts[j] > 0), total), total)

    return [fitted(j, column) for j, column in enumerate(columns)]


def fit_one_vs_rest(
    columns: AgainstRest,
    codes: NDArray[np.intp],
    weight: Array | None,
    recipe: Recipe,
    grouped: GroupedRows | None = None,
) -> list[FittedCurve]:
    """Fit a spline of each column to whether a row is of its class."""

    def fit(column: BinaryScores, positive: NDArray[np.bool_]) -> FittedCurve:
        histogram = ScoreHistogram.collect(column, positive, weight)
        parts = None
        if grouped is not None:
            parts = grouped.parts(histogram, column, positive, recipe)
        return fit_curve(histogram, recipe, parts)

    def fit_constant(rate: float, total: float) -> FittedCurve:
        return _constant(columns.kind, rate, total, recipe)

    return fit_classes(columns, codes, weight, fit, fit_constant)


def share_out_classes(
    columns: AgainstRest,
    codes: NDArray[np.intp],
    grouped: GroupedRows,
    recipe: Recipe,
    segments: Sequence[NDArray[np.intp]] = (),
) -> tuple[GroupedRows, Recipe]:
    """Rows with the weights that they count for, and a recipe with design effects.

    Of the most frequent classes, each is taken against the rest. Rows that are all
    right, or all wrong, may say the same in every group: groups then count as single
    rows.
    """
    m = columns.n_classes
    rows = np.bincount(codes, minlength=m)[:m]
    counts = np.bincount(codes, weights=grouped.weight, minlength=m)[:m]
    most_first = np.argsort(-counts, kind="stable")[:MOST_CLASSES].tolist()
    frequent = [j for j in most_first if 0 < rows[j] < len(codes)]
    sums = []
    contrasts = []
    for j, column in zip(frequent, columns.take(frequent), strict=True):
        histogram = ScoreHistogram.collect(column, codes == j, grouped.weight)
        residuals = grouped.residuals(histogram, column, codes == j, segments)
        sums.append(residuals.sums(grouped.group))
        if segments:
            contrasts.append(residuals.contrast_effect(grouped.group))
    dependence = estimate_dependence(sums, contrasts, grouped.sizes)
    return grouped.shared(dependence), dependence.in_recipe(recipe, grouped.sizes)


def fit_histograms(
    histograms: list[ScoreHistogram | None], kind: Kind, recipe: Recipe
) -> list[FittedCurve]:
    """The same from a histogram for each class; None for a class that no row shows."""
    total = next(histogram.total for histogram in histograms if histogram is not None)

    def fitted(histogram: ScoreHistogram | None) -> FittedCurve:
        shown = histogram is not None and bool(histogram.positives.any())
        if histogram is not None and shown and histogram.negatives.any():
            return fit_curve(histogram, recipe)
        return _constant(kind, _succession(shown, total), total, recipe)

    return [fitted(histogram) for histogram in histograms]


def _succession(shown: bool, total: float) -> float:
    """The probability, by the rule of succession, of what no row shows, or all do."""
    return 1.0 - 1.0 / (total + 2.0) if shown else 1.0 / (total + 2.0)


def _constant(kind: Kind, rate: float, total: float, recipe: Recipe) -> FittedCurve:
    transform = Transform("logit" if kind == "probability" else "identity")
    return constant_fit(transform, 0.0, rate, total / recipe.design_effect, recipe)
