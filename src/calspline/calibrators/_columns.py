"""Each class's score against the rest."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from calspline._validation import BinaryScores, MatrixScores, chunks

Array = NDArray[np.float64]


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
            rows = np.arange(len(scores))
            self._top = values.argmax(axis=1)
            others = values.copy()
            others[rows, self._top] = 0.0
            self._rest_of_top = others.sum(axis=1)

    def __getitem__(self, j: int) -> BinaryScores:
        values = self._values[:, j]
        if self.kind == "margin":
            return BinaryScores("margin", values, None, values.shape)
        rest = np.where(self._top == j, self._rest_of_top, 1.0 - values)
        return BinaryScores("probability", values, rest, values.shape)


def normalise(p: Array) -> None:
    """Make every row of ``p`` sum to one, in place; a row whose sum vanishes becomes uniform."""
    for rows in chunks(len(p)):
        sums = p[rows].sum(axis=1, keepdims=True)
        p[rows] = np.where(sums > 0.0, p[rows] / np.where(sums > 0.0, sums, 1.0), 1.0 / p.shape[1])
