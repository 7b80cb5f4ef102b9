"""Each class's score against the rest."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.special import log_softmax

from calspline.arrays import Array, blocks, chunks
from calspline.scores import BinaryScores, MatrixScores


class Columns:
    """Each class's score against the rest.

    Of probabilities, the class's own and the sum of the others: where a class has almost
    all of the probability that sum keeps what ``1 - p`` rounds away. Of logits, the
    class's log-probability, so that a constant added to a row changes nothing.
    """

    def __init__(self, scores: MatrixScores, transform: str) -> None:
        self.kind = scores.kind if transform != "identity" else "margin"
        values = scores.values.astype(np.float64, copy=False)
        if scores.kind == "margin":
            self._values = np.asarray(log_softmax(values, axis=1))
            return
        self._values = values
        if self.kind == "probability":
            self._top = values.argmax(axis=1)
            self._rest_of_top = np.empty(len(values))
            for rows in blocks(*values.shape):
                others = values[rows].copy()
                others[np.arange(len(others)), self._top[rows]] = 0.0
                self._rest_of_top[rows] = others.sum(axis=1)

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


def normalise(p: Array) -> None:
    """Make every row of ``p`` sum to one, in place; a row whose sum vanishes becomes uniform."""
    for rows in chunks(len(p)):
        sums = p[rows].sum(axis=1, keepdims=True)
        p[rows] = np.where(sums > 0.0, p[rows] / np.where(sums > 0.0, sums, 1.0), 1.0 / p.shape[1])
