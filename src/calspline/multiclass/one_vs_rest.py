"""One map per class against the rest, then rows are normalised: the paper's Algorithm 3, for any two-class method."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

import numpy as np
import scipy
from numpy.typing import NDArray

from calspline.arrays import Array, filled
from calspline.binary_fit import FittedCurve, GroupedRows, Recipe, constant_fit, fit_curve
from calspline.expression import LEAST_SHARE
from calspline.histogram import ScoreHistogram
from calspline.scores import BinaryScores, Kind, MatrixScores
from calspline.transforms import Transform

LEAST_LOG_PROBABILITY = float(np.log(1e-15))
"""Of a class's logit against the rest: masked classes, at -1e9 or the like, are no further down."""
CLASSES_AT_ONCE = 16
"""Classes whose scores are read together: enough to share the overhead, few enough to stay in the cache."""

MOST_CLASSES = 32
"""Classes that are asked how rows of a group depend on each other."""

F = TypeVar("F")


class ScoreMap(Protocol):
    """Scores in, probabilities out."""

    def evaluate(self, scores: BinaryScores) -> Array:
        """Calibrated probabilities of checked scores."""
        ...


class AgainstRest:
    """Each class's score against the rest.

    Of probabilities, the class's own and the sum of the others: where a class has almost
    all of the probability that sum keeps what ``1 - p`` rounds away; with ``transform="identity"``
    only its own. Of logits, the class's log-probability, so that a constant added to a row
    changes nothing, and at least that of 1e-15; margins that are not logits are taken as they are.
    """

    def __init__(self, scores: MatrixScores, transform: str, *, logits: bool = True) -> None:
        self.kind: Kind = scores.kind if transform != "identity" else "margin"
        self.n_classes = scores.values.shape[1]
        values = scores.values.astype(np.float64, copy=False)
        if scores.kind == "margin" and logits:
            values = filled(
                np.empty(values.shape),
                lambda rows: np.maximum(scipy.special.log_softmax(scores.values[rows], axis=1), LEAST_LOG_PROBABILITY),
            )
        self._values = values
        if self.kind == "probability":
            self._top = np.empty(len(values), dtype=np.intp)
            self._rest_of_top = filled(np.empty(len(values)), self._rest, values.shape[1])

    def _rest(self, rows: slice) -> Array:
        """The sum of all probabilities but the highest, which is noted."""
        others = self._values[rows].copy()
        self._top[rows] = top = others.argmax(axis=1)
        others[np.arange(len(others)), top] = 0.0
        return np.asarray(others.sum(axis=1))

    def __len__(self) -> int:
        """Number of rows."""
        return len(self._values)

    def __getitem__(self, j: int) -> BinaryScores:
        return next(self.take([j]))

    def __iter__(self) -> Iterator[BinaryScores]:
        for start in range(0, self.n_classes, CLASSES_AT_ONCE):
            yield from self.take(list(range(start, min(start + CLASSES_AT_ONCE, self.n_classes))))

    def codes(self, codes: NDArray[np.intp]) -> NDArray[np.intp]:
        """The column of each row's class."""
        return codes

    def recipe(self, recipe: Recipe) -> Recipe:
        """How to fit the columns."""
        return recipe

    def combined(self, p: Array) -> Array:
        """Probabilities of all classes from those of the columns, which are overwritten."""
        normalise(p)
        return p

    def spread(self, p: Array, deviation: Array) -> Array:
        """Standard deviations of the log-odds of all classes, which have probability ``p``, from those of the columns.

        Errors of the others' curves only make up for that of its own, as probabilities sum to one: if each curve is
        right, so is the sum before rows are normalised.
        """
        return deviation

    def take(self, members: list[int]) -> Iterator[BinaryScores]:
        """The scores of some classes. Taken together, they are read from memory in one go."""
        for j, values in zip(members, np.ascontiguousarray(self._values[:, members].T), strict=True):
            if self.kind == "margin":
                yield BinaryScores("margin", values, None, values.shape)
            else:
                rest = np.where(self._top == j, self._rest_of_top, 1.0 - values)
                yield BinaryScores("probability", values, rest, values.shape)


class TopAgainstRest(AgainstRest):
    """The score of each row's most probable class against the rest: one column, whose first class is 'right'.

    Logits become probabilities. Of these, the largest and the sum of the others; with ``transform="identity"``, which
    of logits says no more than that they are some, only the largest.
    """

    def __init__(self, scores: MatrixScores, transform: str) -> None:
        if scores.kind == "margin":
            z, softmax = scores.values, scipy.special.softmax
            p = filled(
                np.empty(z.shape), lambda rows: np.maximum(softmax(z[rows].astype(np.float64), axis=1), LEAST_SHARE)
            )
            scores, transform = MatrixScores("probability", p), "logit"
        super().__init__(scores, "logit")
        self.kind = "margin" if transform == "identity" else "probability"
        self.n_classes = 1

    def take(self, members: list[int]) -> Iterator[BinaryScores]:
        """The only column."""
        rest = self._rest_of_top if self.kind == "probability" else None
        yield BinaryScores(self.kind, self._values[np.arange(len(self)), self._top], rest, self._top.shape)

    def codes(self, codes: NDArray[np.intp]) -> NDArray[np.intp]:
        """0, the only column, for rows whose most probable class is theirs, else 1."""
        return np.asarray(codes != self._top, dtype=np.intp)

    def recipe(self, recipe: Recipe) -> Recipe:
        """The identity says that scores are logits, which have become probabilities."""
        logits = self.kind == "probability" and recipe.transform == "identity"
        return replace(recipe, transform="auto") if logits else recipe

    def combined(self, p: Array) -> Array:
        """Probabilities of all classes: the others share what the top leaves as they did before."""
        q = p[:, 0]

        def share(rows: slice) -> Array:
            others, chosen = np.maximum(self._values[rows], LEAST_SHARE), (np.arange(len(q[rows])), self._top[rows])
            others[chosen] = 0.0
            others *= ((1.0 - q[rows]) / others.sum(axis=1))[:, None]
            others[chosen] = q[rows]
            return others

        return filled(np.empty(self._values.shape), share, self._values.shape[1])

    def spread(self, p: Array, deviation: Array) -> Array:
        """What the others have together moves with the top, ``d logit p_j = -q / (1 - p_j) d logit q``."""
        q = p[np.arange(len(p)), self._top]
        out = deviation * q[:, None] / (1.0 - p)
        out[np.arange(len(p)), self._top] = deviation[:, 0]
        return np.asarray(out)


def fit_classes(
    columns: AgainstRest,
    codes: NDArray[np.intp],
    weight: Array | None,
    fit: Callable[[BinaryScores, NDArray[np.bool_]], F],
    constant: Callable[[float, float], F],
) -> list[F]:
    """Fit each class against the rest, given its scores and whether a row is of it.

    A class that no row shows keeps the probability that the rule of succession gives it, ``1 / (n + 2)``, whatever its
    score; what all rows show (a top class that is always right) the rest of that. ``constant`` makes a fit of such a
    probability and the total weight.
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
        found = ScoreHistogram.collect(column, positive, weight)
        return fit_curve(found, recipe, None if grouped is None else grouped.parts(found, column, positive, recipe))

    return fit_classes(columns, codes, weight, fit, lambda rate, total: _constant(columns.kind, rate, total, recipe))


def classes_design_effect(columns: AgainstRest, codes: NDArray[np.intp], grouped: GroupedRows) -> float:
    """By how much rows in groups are too many: the mean over the most frequent classes, each against the rest.

    Rows that are all right, or all wrong, may say the same in every group: it is as large as groups are then.
    """
    rows, counts = (
        np.bincount(codes, weights=w, minlength=columns.n_classes)[: columns.n_classes] for w in (None, grouped.weight)
    )
    frequent = [j for j in np.argsort(-counts, kind="stable")[:MOST_CLASSES].tolist() if 0 < rows[j] < len(codes)]
    if not frequent:
        return float(max(grouped.sizes.mean(), 1.0))
    moments = []
    for j, column in zip(frequent, columns.take(frequent), strict=True):
        histogram = ScoreHistogram.collect(column, codes == j, grouped.weight)
        moments.append(grouped.moments(histogram, column, codes == j))
    return grouped.design_effect(moments)


def fit_histograms(histograms: list[ScoreHistogram | None], kind: Kind, recipe: Recipe) -> list[FittedCurve]:
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


def combine(maps: Sequence[Callable[[BinaryScores], Array]], columns: AgainstRest) -> Array:
    """``f_i(x_i) / sum_j f_j(x_j)``, a row whose sum vanishes being uniform; or what else the columns ask for."""
    out = np.empty((len(columns), columns.n_classes))
    for j, column in enumerate(columns):
        out[:, j] = maps[j](column)
    return columns.combined(out)


def normalise(p: Array) -> None:
    """Make every row of ``p`` sum to one, in place; a row whose sum vanishes becomes uniform."""

    def normalised(rows: slice) -> Array:
        sums = p[rows].sum(axis=1, keepdims=True)
        return np.where(sums > 0.0, p[rows] / np.where(sums > 0.0, sums, 1.0), 1.0 / p.shape[1])

    filled(p, normalised)
