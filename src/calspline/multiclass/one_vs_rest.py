"""One map per class against the rest, then rows are normalised: the paper's Algorithm 3, for any two-class method."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from calspline.arrays import MIN_THREADED_SIZE, Array, filled, map_blocks
from calspline.binary_fit import FittedCurve, GroupedRows, Recipe, constant_fit, fit_curve
from calspline.histogram import ScoreHistogram
from calspline.scores import BinaryScores, Kind, MatrixScores
from calspline.transforms import Transform

LEAST_LOG_PROBABILITY = float(np.log(1e-15))
"""Of a class's logit against the rest: masked classes, at -1e9 or the like, are no further down."""
CLASSES_AT_ONCE = 16
"""Classes fitted together: enough to share the overhead, few enough to stay in the cache."""

MOST_CLASSES = 32
"""Classes that are asked how rows of a group depend on each other."""

C = TypeVar("C")
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
                lambda rows: np.maximum(log_softmax(scores.values[rows], axis=1), LEAST_LOG_PROBABILITY),
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

    def take(self, members: list[int]) -> Iterator[BinaryScores]:
        """The scores of some classes. Taken together, they are read from memory in one go."""
        for j, values in zip(members, np.ascontiguousarray(self._values[:, members].T), strict=True):
            if self.kind == "margin":
                yield BinaryScores("margin", values, None, values.shape)
            else:
                rest = np.where(self._top == j, self._rest_of_top, 1.0 - values)
                yield BinaryScores("probability", values, rest, values.shape)


def fit_classes(
    columns: AgainstRest,
    codes: NDArray[np.intp],
    weight: Array | None,
    fit: Callable[[list[tuple[BinaryScores, NDArray[np.bool_]]]], list[F]],
    constant: Callable[[float, float], F],
) -> list[F]:
    """Fit each class against the rest, several at once.

    A class that no row shows keeps the probability that the rule of succession gives
    it, ``1 / (n + 2)``, whatever its score.

    Parameters
    ----------
    columns : AgainstRest
    codes : array of shape (n,)
        The class of each row.
    weight : array of shape (n,), optional
    fit : callable
        Fits of some classes, given the scores of each and whether a row is of it.
    constant : callable
        A fit with the same probability everywhere, given that and the total weight.
    """
    total = float(len(columns) if weight is None else weight.sum())
    seen = np.unique(codes).tolist()

    def fit_some(members: list[int]) -> list[F]:
        return fit([(column, codes == j) for j, column in zip(members, columns.take(members), strict=True)])

    return _fit_seen(columns.n_classes, seen, fit_some, lambda: constant(1.0 / (total + 2.0), total))


def fit_one_vs_rest(
    scores: MatrixScores,
    codes: NDArray[np.intp],
    weight: Array | None,
    recipe: Recipe,
    grouped: GroupedRows | None = None,
) -> list[FittedCurve]:
    """Fit a spline of each column to whether a row is of its class."""
    columns = AgainstRest(scores, recipe.transform)

    def fit(classes: list[tuple[BinaryScores, NDArray[np.bool_]]]) -> list[FittedCurve]:
        histograms = _of_classes(lambda one: ScoreHistogram.collect(*one, weight), classes, len(codes))
        return [
            fit_curve(found, recipe, None if grouped is None else grouped.parts(found, *one, recipe))
            for found, one in zip(list(histograms), classes, strict=True)
        ]

    return fit_classes(
        columns,
        codes,
        weight,
        fit,
        lambda rate, total: _constant(columns.kind, rate, total / recipe.design_effect, recipe),
    )


def classes_design_effect(scores: MatrixScores, codes: NDArray[np.intp], grouped: GroupedRows, recipe: Recipe) -> float:
    """By how much rows in groups are too many: the mean over the most frequent classes, each against the rest."""
    columns = AgainstRest(scores, recipe.transform)
    counts = np.bincount(codes, weights=grouped.weight, minlength=columns.n_classes)
    frequent = [j for j in np.argsort(-counts, kind="stable")[:MOST_CLASSES].tolist() if counts[j] > 0.0]
    moments = []
    for j, column in zip(frequent, columns.take(frequent), strict=True):
        histogram = ScoreHistogram.collect(column, codes == j, grouped.weight)
        moments.append(grouped.moments(histogram, column, codes == j))
    return grouped.design_effect(moments)


def class_histograms(columns: AgainstRest, codes: NDArray[np.intp]) -> list[ScoreHistogram]:
    """The histogram of each class against the rest."""
    every = range(columns.n_classes)
    return [
        ScoreHistogram.collect(column, codes == j, None)
        for j, column in zip(every, columns.take(list(every)), strict=True)
    ]


def fit_histograms(histograms: list[ScoreHistogram | None], kind: Kind, recipe: Recipe) -> list[FittedCurve]:
    """The same from a histogram for each class; None for a class that no row shows."""
    present = {j: histogram for j, histogram in enumerate(histograms) if histogram is not None}
    total = next(iter(present.values())).total
    return _fit_seen(
        len(histograms),
        list(present),
        lambda members: [fit_curve(present[j], recipe) for j in members],
        lambda: _constant(kind, 1.0 / (total + 2.0), total / recipe.design_effect, recipe),
    )


def _fit_seen(n_classes: int, seen: list[int], fit: Callable[[list[int]], list[F]], unseen: Callable[[], F]) -> list[F]:
    fits: dict[int, F] = {}
    for start in range(0, len(seen), CLASSES_AT_ONCE):  # threads would wait for the interpreter's lock
        members = seen[start : start + CLASSES_AT_ONCE]
        fits |= zip(members, fit(members), strict=True)
    return [fits[j] if j in fits else unseen() for j in range(n_classes)]


def _constant(kind: Kind, rate: float, total: float, recipe: Recipe) -> FittedCurve:
    transform = Transform("logit" if kind == "probability" else "identity")
    return constant_fit(transform, 0.0, rate, total, recipe)


def combine(maps: Sequence[ScoreMap], columns: AgainstRest) -> Array:
    """``f_i(x_i) / sum_j f_j(x_j)``; a row whose sum vanishes becomes uniform."""
    n, m = len(columns), columns.n_classes
    out = np.empty((n, m))

    def fill(start: int) -> None:
        members = list(range(start, min(start + CLASSES_AT_ONCE, m)))
        for j, column in zip(members, columns.take(members), strict=True):
            out[:, j] = maps[j].evaluate(column)

    for _ in _of_classes(fill, range(0, m, CLASSES_AT_ONCE), n):
        pass
    normalise(out)
    return out


def _of_classes(function: Callable[[C], F], classes: Iterable[C], n: int) -> Iterator[F]:
    """Apply ``function`` to classes of ``n`` rows: on several cores if it does not share out the rows itself."""
    return map_blocks(function, classes, MIN_THREADED_SIZE if n < MIN_THREADED_SIZE else 0)


def normalise(p: Array) -> None:
    """Make every row of ``p`` sum to one, in place; a row whose sum vanishes becomes uniform."""

    def normalised(rows: slice) -> Array:
        sums = p[rows].sum(axis=1, keepdims=True)
        return np.where(sums > 0.0, p[rows] / np.where(sums > 0.0, sums, 1.0), 1.0 / p.shape[1])

    filled(p, normalised)
