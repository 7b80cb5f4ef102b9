"""Forecasts of a yes-or-no event: distinct probabilities with what happened at each."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from calspline.arrays import Array


@dataclass(frozen=True, eq=False)
class Forecasts:
    """Distinct probabilities, increasing, with the weight of events and non-events and the number of rows at each.

    Every measure of a two-class problem is a function of this table, so the rows are sorted once.
    """

    p: Array
    positives: Array
    negatives: Array
    count: NDArray[np.intp]

    @classmethod
    def collect(cls, p: Array, positive: NDArray[np.bool_], weight: Array | None = None) -> Forecasts:
        """Group rows by probability."""
        order = np.argsort(p)
        p, positive = p[order], positive[order]
        w = np.ones(len(p)) if weight is None else weight[order]
        first = np.flatnonzero(np.diff(p, prepend=-1.0))
        total = np.add.reduceat(w, first)
        w1 = np.add.reduceat(w * positive, first)
        return cls(p[first], w1, np.maximum(total - w1, 0.0), np.diff(first, append=len(p)))

    @cached_property
    def w(self) -> Array:
        """Weight at each probability."""
        return self.positives + self.negatives

    @cached_property
    def total(self) -> float:
        """Sum of all weights."""
        return float(self.w.sum())

    @property
    def base_rate(self) -> float:
        """Share of events."""
        return float(self.positives.sum()) / self.total

    @property
    def mean(self) -> float:
        """Mean probability."""
        return float(self.w @ self.p) / self.total

    def __len__(self) -> int:
        return len(self.p)

    def where(self, keep: NDArray[np.bool_]) -> Forecasts:
        """Some of the probabilities."""
        return Forecasts(self.p[keep], self.positives[keep], self.negatives[keep], self.count[keep])

    def gathered(self, cell: NDArray[np.intp]) -> Forecasts:
        """Probabilities gathered in cells, numbered without decrease: their mean stands for them."""
        first = np.flatnonzero(np.diff(cell, prepend=-1))
        w1, w0 = np.add.reduceat(self.positives, first), np.add.reduceat(self.negatives, first)
        w = np.add.reduceat(self.w, first)
        mean = np.add.reduceat(self.w * self.p, first) / w
        # A mean of equal numbers may round past its neighbours.
        mean = np.clip(mean, self.p[first], self.p[np.append(first[1:], len(cell)) - 1])
        return Forecasts(mean, w1, w0, np.add.reduceat(self.count, first))

    def coarse(self, most: int) -> Forecasts:
        """At most about ``most`` probabilities: neighbours of equal weight stand together."""
        return self if len(self) <= most else self.gathered(self.equal_mass(most))

    def equal_mass(self, count: int) -> NDArray[np.intp]:
        """The cell of each probability when ``count`` cells share the weight evenly.

        Equal probabilities are never split: each goes where the middle of its weight lies.
        """
        middle = (np.cumsum(self.w) - 0.5 * self.w) / self.total
        return np.minimum((middle * count).astype(np.intp), count - 1)

    def equal_width(self, count: int) -> NDArray[np.intp]:
        """The cell of each probability among ``count`` of equal width; the last one holds 1."""
        return np.minimum((self.p * count).astype(np.intp), count - 1)
