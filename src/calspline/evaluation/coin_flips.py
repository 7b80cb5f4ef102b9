"""Coin flips: the outcomes of rows whose probabilities are right.

Both calibration tests, of all rows and by segment, and the simulations of isotonic
regression describe rows in this way.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from calspline._arrays import Array, Counts, run_starts
from calspline.evaluation.protocols import EvaluatedRows
from calspline.transforms import Transform

Ints = NDArray[np.intp]

SIZES_PER_OCTAVE, SIZE_CLASSES = 4, 64
"""Classes of weights in simulations, each a factor of two wide or less; the range is
65,536."""
SEED = 0


@dataclass(frozen=True, eq=False)
class CoinFlips:
    """Independent coin flips that add up in sums.

    ``count`` flips are 1 with probability ``p``, and then add ``size`` to the sum
    ``code``. With several columns of segments, ``code`` has a row for each column.
    """

    p: Array
    count: Array
    size: Array
    code: Ints

    @classmethod
    def of_counts(cls, f: Counts) -> CoinFlips:
        """Flips of equal size at each probability, with the variance of its weight."""
        squares = f.squares
        rows = np.divide(f.w, squares, out=np.ones_like(f.w), where=squares > 0.0)
        count = np.maximum(np.rint(f.w * rows), 1.0)
        return cls(f.x, count, np.sqrt(squares / count), np.arange(len(f)))

    @classmethod
    def of_rows(cls, p: Array, cell: Ints, squares: Array) -> CoinFlips:
        """A flip for each row, at the probability of its cell.

        Rows of similar size are pooled. Each cell has a sum, in order.
        """
        largest = float(squares.max())
        octave = -0.5 * np.log2(np.maximum(squares / largest, np.finfo(float).tiny))
        kind = cell * SIZE_CLASSES + np.minimum(
            SIZES_PER_OCTAVE * octave, SIZE_CLASSES - 1.0
        ).astype(np.intp)
        count = np.bincount(kind)
        sums = np.bincount(kind, squares)
        used = np.flatnonzero(count)
        code = used // SIZE_CLASSES
        count = count[used]
        return cls(p[code], count.astype(np.float64), np.sqrt(sums[used] / count), code)

    def select(self, flips: slice | Ints) -> CoinFlips:
        """Some of the flips."""
        return CoinFlips(
            self.p[flips], self.count[flips], self.size[flips], self.code[flips]
        )

    @cached_property
    def z(self) -> Array:
        """Log-odds."""
        return np.asarray(Transform("logit")(self.p))

    @cached_property
    def v(self) -> Array:
        """Variance of one flip of size one."""
        return self.p * (1.0 - self.p)

    @property
    def variance(self) -> Array:
        """Variance of what equal flips add."""
        return self.count * self.size**2 * self.v

    @property
    def fourth_cumulant(self) -> Array:
        """Fourth cumulant of what equal flips add."""
        return self.count * self.size**4 * self.v * (1.0 - 6.0 * self.v)

    def cumulants(self) -> tuple[Array, Array]:
        """Variance and fourth cumulant of each sum, of flips in the order of sums."""
        first = run_starts(self.code)
        return (
            np.add.reduceat(self.variance, first),
            np.add.reduceat(self.fourth_cumulant, first),
        )

    def deviations(self, draws: int) -> Array:
        """Simulated sums minus their means, of flips in the order of sums.

        One row per draw; the draws are always the same.
        """
        rng = np.random.default_rng(SEED)
        p = self.p
        events: Array
        if self.count.max() <= 1.0:
            events = (rng.random((draws, len(p))) < p).astype(np.float64)
        else:
            # One probability after the other: numpy sets up a binomial distribution
            # once while it stays the same.
            count = self.count.astype(np.int64)
            events = rng.binomial(
                count[:, None], p[:, None], size=(len(p), draws)
            ).T.astype(np.float64)
        events -= self.count * p
        events *= self.size
        first = run_starts(self.code)
        if len(first) == len(p):
            return events
        return np.asarray(np.add.reduceat(events, first, axis=1))


def flips_like(
    f: Counts, rows: EvaluatedRows | None, n_cells: int
) -> tuple[Counts, CoinFlips]:
    """Probabilities in at most ``n_cells`` cells, and flips that represent them."""
    first = cell_starts(f, n_cells)
    cells = f.merged(first)
    if rows is None or rows.groups is not None or not rows.unequal:
        return cells, CoinFlips.of_counts(cells)
    seen = (rows.probs >= f.x[0]) & (rows.probs <= f.x[-1])
    cell = np.searchsorted(f.x[first], rows.probs[seen], side="right") - 1
    return cells, CoinFlips.of_rows(cells.x, cell, rows.squares[seen])


def cell_starts(f: Counts, n_cells: int) -> Ints:
    """Start of each cell, for at most the given number of cells."""
    return f.bin_starts(n_cells) if len(f) > n_cells else np.arange(len(f))
