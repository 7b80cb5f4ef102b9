"""Each class's score against the rest, and rows of probabilities that sum to one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from calspline._arrays import Array, filled
from calspline._input.scores import BinaryScores, Kind, MatrixScores
from calspline.multiclass.scale import log_scores

LEAST_LOGIT = float(np.log(1e-9))
"""Lower limit of logits relative to the largest of the row, in their unit, which
applies to masked classes at -1e9 or the like."""

CLASSES_AT_ONCE = 16
"""Number of classes to read together: shares the overhead, but fits into the cache."""


class AgainstRest:
    """Each class's score against the rest.

    Of probabilities, the class's own and the sum of the others: where a class has
    almost all of the probability that sum keeps what ``1 - p`` rounds away; with
    ``scale="identity"`` only its own. Margins are taken as they are.
    """

    def __init__(self, scores: MatrixScores, scale: str) -> None:
        self.kind: Kind = scores.kind if scale != "identity" else "margin"
        self.n_classes = scores.values.shape[1]
        values = scores.values.astype(np.float64, copy=False)
        self._values = values
        if self.kind == "probability":
            self._top = np.empty(len(values), dtype=np.intp)
            self._rest_of_top = filled(
                np.empty(len(values)), self._rest, values.shape[1]
            )

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
            yield from self.take(
                list(range(start, min(start + CLASSES_AT_ONCE, self.n_classes)))
            )

    def take(self, members: list[int]) -> Iterator[BinaryScores]:
        """Scores of some classes, read from memory together."""
        for j, values in zip(
            members, np.ascontiguousarray(self._values[:, members].T), strict=True
        ):
            if self.kind == "margin":
                yield BinaryScores("margin", values, None, values.shape)
            else:
                rest = np.where(self._top == j, self._rest_of_top, 1.0 - values)
                yield BinaryScores("probability", values, rest, values.shape)


def tempered(logits: NDArray[np.floating[Any]], unit: float) -> MatrixScores:
    """The softmax of logits times ``unit``.

    No class counts as less than 1e-9 times as probable as the first.
    """

    def part(rows: slice) -> Array:
        in_unit = log_scores(logits[rows], LEAST_LOGIT, unit)
        return np.asarray(scipy.special.softmax(in_unit, axis=1))

    return MatrixScores("probability", filled(np.empty(logits.shape), part))


def normalise(p: Array) -> None:
    """Make every row of ``p`` sum to one, in place; zero rows become uniform."""

    def normalized(rows: slice) -> Array:
        sums = p[rows].sum(axis=1, keepdims=True)
        return np.where(
            sums > 0.0, p[rows] / np.where(sums > 0.0, sums, 1.0), 1.0 / p.shape[1]
        )

    filled(p, normalized)
