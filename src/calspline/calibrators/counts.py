"""Rows of a two-class problem as counts: weight of either class at each distinct score."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calspline.arrays import Array

MIN_SPAN = 1e-290
"""Scores closer together than this are equal: a slope between them would overflow."""


@dataclass(frozen=True)
class Counts:
    """Distinct values, increasing, and the weight of positives and negatives at each."""

    x: Array
    positives: Array
    negatives: Array

    @classmethod
    def of(cls, x: Array, positive: NDArray[np.bool_], weight: Array | None) -> Counts:
        """Count rows."""
        distinct, place = np.unique(x, return_inverse=True)
        w = np.ones(len(x)) if weight is None else weight
        positives, negatives = (np.bincount(place, w * these, len(distinct)) for these in (positive, ~positive))
        return cls(distinct, positives.astype(np.float64), negatives.astype(np.float64))

    @property
    def totals(self) -> Array:
        """Weight at each value."""
        return self.positives + self.negatives

    @property
    def base_rate(self) -> float:
        """Share of positives."""
        n1, n0 = float(self.positives.sum()), float(self.negatives.sum())
        return n1 / (n1 + n0)

    @property
    def all_equal(self) -> bool:
        """Whether there is but one value."""
        return bool(self.x[-1] - self.x[0] <= MIN_SPAN)
