"""How much evidence rows are: what is independent of what, and how it varies by chance.

Every sum that is judged here is one over independent *units*, and its variance is the sum of the units' squared sums.

* Without weights a unit is a row. Whole weights count rows, so that a weight of 3 is three units.
* Other weights say how much a row stands for. It is one unit still, and with a residual of variance ``v`` its part in
  a sum has the variance ``w^2 v``. Only the ratios of such weights matter.
* Rows of a group may depend on each other: the unit is the group, and its squared sum is that of its rows' parts.
  Of the probabilities themselves only the variance of independent rows is known; the *design effect* says how many
  times larger that of the groups is (Kish, *Survey Sampling*, 1965).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calspline.arrays import Array, Counts
from calspline.transforms import Transform

Ints = NDArray[np.intp]

SIZES_PER_OCTAVE, SIZE_CLASSES = 4, 64
"""Classes of weights in simulations; beyond the last, a weight is 65,536 times smaller than the largest."""
SEED = 0


def unit_sums(values: Array, weight: Array | None, groups: Ints | None = None) -> tuple[Array, Array]:
    """Sums of weighted values by unit, and how many units there are of each kind.

    ``values`` is (n,) or (n, k). ``groups`` numbers the groups from 0.
    """
    whole = weight is None or _whole(weight)
    if groups is not None:
        w = np.ones(len(values)) if weight is None else weight
        columns = (w[:, None] * values.reshape(len(values), -1)).T
        sums = np.array([np.bincount(groups, column) for column in columns]).T
        return sums.reshape(-1, *values.shape[1:]), np.ones(len(sums))
    if weight is None or whole:
        return values, np.ones(len(values)) if weight is None else weight
    return (values.T * weight).T, np.ones(len(values))


def squared_sums(values: Array, weight: Array | None, groups: Ints | None = None) -> Array:
    """The variance of a weighted sum of values with mean zero: squares summed over units; a matrix for (n, k)."""
    sums, count = unit_sums(values, weight, groups)
    return np.asarray((sums.T * count) @ sums)


def row_powers(weight: Array | None, n: int, power: float = 2.0) -> Array:
    """What each row's moment, its variance for the power 2, is multiplied by in that of a sum.

    It is ``w^power``, or ``w`` for ``w`` rows of their own.
    """
    if weight is None:
        return np.ones(n)
    return weight if _whole(weight) else weight**power


def _whole(weight: Array) -> bool:
    return bool((weight == np.floor(weight)).all())


def design_effect(p: Array, happened: NDArray[np.bool_], weight: Array | None, groups: Ints) -> float:
    """How many times the variance of independent rows that of the groups is, on average over level and slope.

    With residuals ``r = y - p``, ``D = [1, z]`` of the log-odds standardised by ``v = s p (1 - p)``, and ``J`` the
    squared sums of ``r D`` by group, it is ``trace(J) / (2 sum(v))``, and at least 1.
    """
    s = row_powers(weight, len(p))
    x = Transform("logit")(p)
    v = s * p * (1.0 - p)
    if not v.any():
        return 1.0
    z = x - np.average(x, weights=v)
    spread = np.sqrt(np.average(z**2, weights=v))
    D = np.column_stack([np.ones_like(z), z / spread]) if spread > 0.0 else np.ones((len(z), 1))
    J = squared_sums((happened - p)[:, None] * D, weight, groups)
    return max(1.0, float(np.trace(J / v.sum())) / D.shape[1])


@dataclass(frozen=True, eq=False)
class Clusters:
    """Rows of a two-class problem in groups: what was said, what happened, weights, and the number of each group."""

    p: Array
    happened: NDArray[np.bool_]
    weight: Array | None
    groups: Ints

    def score_variance(self, p: Array, features: Array) -> Array:
        """The variance of the summed residuals about ``p`` times features (n, k), by the sums of groups: (k, k)."""
        return squared_sums((self.happened - p)[:, None] * features, self.weight, self.groups)

    def bin_effects(self, bins: Ints, used: Ints, overall: float) -> Array:
        """The design effect of how often the event happened in each of the bins that are used, at least 1.

        It is the ``overall`` one where all rows of a bin turned out alike.
        """
        size = int(used.max()) + 1
        w = np.ones(len(bins)) if self.weight is None else self.weight
        total = np.bincount(bins, weights=w, minlength=size)
        rate = np.divide(np.bincount(bins, weights=w * self.happened, minlength=size), np.maximum(total, 1e-300))
        r = w * (self.happened - rate[bins])
        pairs, place = np.unique(self.groups * size + bins, return_inverse=True)
        of_groups = np.bincount(pairs % size, weights=np.bincount(place, weights=r) ** 2, minlength=size)
        powers = row_powers(self.weight, len(bins))
        of_rows = np.bincount(bins, weights=powers * (self.happened - rate[bins]) ** 2, minlength=size)
        n = np.bincount(pairs % size, minlength=size)
        found = np.divide(
            of_groups * n, of_rows * np.maximum(n - 1.0, 1.0), out=np.full(size, overall), where=of_rows > 0.0
        )
        return np.asarray(np.maximum(found, 1.0)[used])


@dataclass(frozen=True, eq=False)
class Flips:
    """Independent coin flips like the rows: at each of some probabilities, how many there are, of what size.

    ``cell`` has the place of the probability, increasing, and each place occurs.
    """

    p: Array
    cell: Ints
    count: NDArray[np.int64]
    size: Array

    @classmethod
    def like(cls, f: Counts) -> Flips:
        """Flips of equal size at each probability, with the variance that its weight says."""
        squares = f.squares
        count = np.maximum(np.rint(f.w * np.divide(f.w, squares, out=np.ones_like(f.w), where=squares > 0.0)), 1.0)
        return cls(f.x, np.arange(len(f)), count.astype(np.int64), np.sqrt(squares / count))

    @classmethod
    def of_rows(cls, p: Array, cell: Ints, squares: Array) -> Flips:
        """A flip for each row at the probability of its cell; rows of about the same size are taken together."""
        largest = float(squares.max())
        octave = -0.5 * np.log2(np.maximum(squares / largest, np.finfo(float).tiny))
        kind = cell * SIZE_CLASSES + np.minimum(SIZES_PER_OCTAVE * octave, SIZE_CLASSES - 1.0).astype(np.intp)
        count = np.bincount(kind)
        sums = np.bincount(kind, squares)
        used = np.flatnonzero(count)
        return cls(p, used // SIZE_CLASSES, count[used], np.sqrt(sums[used] / count[used]))

    def cumulants(self) -> tuple[Array, Array]:
        """Variance, and fourth cumulant, of the sum of flips at each probability."""
        q = self.p * (1.0 - self.p)
        first = np.searchsorted(self.cell, np.arange(len(self.p)))
        squares, fourths = (np.add.reduceat(self.count * self.size**k, first) for k in (2.0, 4.0))
        return squares * q, fourths * q * (1.0 - 6.0 * q)

    def deviations(self, draws: int) -> Array:
        """Sums of ``size * (event - p)`` at each probability, one row per draw; always the same draws."""
        rng = np.random.default_rng(SEED)
        p = self.p[self.cell]
        events: Array
        if self.count.max() <= 1:
            events = (rng.random((draws, len(p))) < p).astype(np.float64)
        else:
            # One probability after the other: numpy sets up a binomial distribution once while it stays the same.
            events = rng.binomial(self.count[:, None], p[:, None], size=(len(p), draws)).T.astype(np.float64)
        events -= self.count * p
        events *= self.size
        if len(p) == len(self.p):
            return events
        return np.asarray(np.add.reduceat(events, np.searchsorted(self.cell, np.arange(len(self.p))), axis=1))
