"""Grids of cells for scores, one for each power of two, and sums over cells."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from calspline._arrays import Array
from calspline._input.scores import Kind
from calspline.transforms import ONE, ZERO, exactly_one, highest_location

Cells = NDArray[np.int64]

MAX_POINTS = 4096
"""Largest number of distinct scores of an exact histogram, and of cells in use."""

CORE = 16.0
FINEST = 2.0**44
"""Cells per unit at level 0. A cell of level ``k`` contains ``2**k`` of them; levels
below 0 are finer."""
MAX_BITS = 61
"""Largest number of bits of a cell's number."""
FINEST_PROBABILITIES, FINEST_MARGINS = -8, -979
"""Finest levels: of log-odds, to tell any two from probabilities apart; of margins,
cells of 1e-308."""
COARSEST = 62
"""Coarsest level: one cell for negative values, one for the rest."""
FIRST_CELL, LAST_CELL = -(1 << 62), 1 << 62
WINDOW = 1 << 14
"""Number of adjacent cells that are counted in one array."""


def stretched(location: Array, kind: Kind) -> Array:
    """Scale on which cells are even.

    Log-odds up to 16 and ``16 + 16 log(u / 16)`` beyond; ``asinh`` of margins.
    """
    if kind == "margin":
        return np.asarray(np.arcsinh(location))
    if location.size and max(-location.min(), location.max()) > CORE:
        far = np.flatnonzero(np.abs(location) > CORE)
        location = location.copy()
        beyond = location[far]
        location[far] = np.sign(beyond) * (CORE + CORE * np.log(np.abs(beyond) / CORE))
    return location


def cells_of(location: Array, kind: Kind, level: int) -> Cells:
    """Cells at a level; exact 0 and 1 have cells of their own, at the ends."""
    line = stretched(location, kind) * (FINEST / 2.0**level)
    cells = np.floor(line, out=line).astype(np.int64)
    if kind == "probability" and location.size:
        if location.min() <= ZERO:
            cells[location <= ZERO] = FIRST_CELL
        if location.max() >= ONE:
            cells[exactly_one(location)] = LAST_CELL
    return cells


def finest_level(location: Array, kind: Kind) -> int:
    """Finest level at which the cell numbers of these locations are not too large."""
    if kind == "probability":
        return FINEST_PROBABILITIES
    if location.size:
        farthest = max(-float(location.min()), float(location.max()))
    else:
        farthest = 0.0
    bits = np.frexp(np.arcsinh(farthest) * FINEST)[1]
    if farthest > 0.0:
        return max(int(bits) - MAX_BITS, FINEST_MARGINS)
    return FINEST_MARGINS


def coarser(cells: Cells, levels: int) -> Cells:
    """The same cells some levels up; the ends remain."""
    return np.where(
        (cells == FIRST_CELL) | (cells == LAST_CELL), cells, cells >> min(levels, 63)
    )


class Grid:
    """Running sums over cells by label, on the finest grid that suffices.

    ``sums`` has a row each for the weights of negatives and positives and for their
    moments.

    Rows are first counted in a window of neighboring cells, which is merged into the
    sorted sums when rows leave it, and at the end.
    """

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.level = finest_level(np.empty(0), kind)
        self.cells = np.empty(0, dtype=np.int64)
        self.sums = np.zeros((4, 0))
        self.highest = -np.inf
        self.low = 0
        self.window: Array | None = None

    def settle(self, locations: Array) -> None:
        """Choose the level of an empty grid for a sorted sample of its rows."""
        self._make_room(locations)
        self.level += levels_to_go(cells_of(locations, self.kind, self.level))

    def add(
        self, location: Array, positive: NDArray[np.bool_], w: Array | None
    ) -> None:
        """Add rows: weight and weighted location, by cell and label."""
        if not location.size:
            return
        self.highest = max(
            self.highest,
            highest_location(location, probabilities=self.kind == "probability"),
        )
        if self._add_in_window(location, positive, w):
            return
        self._flush()
        self._make_room(location)
        cells = cells_of(location, self.kind, self.level)
        if self._open(cells):
            self._add_in_window(location, positive, w)
            return
        used, place = np.unique(cells, return_inverse=True)
        self._merge(
            used,
            _by_label(np.array(_count(place, positive, w, location, 2 * len(used)))),
        )

    def _add_in_window(
        self, location: Array, positive: NDArray[np.bool_], w: Array | None
    ) -> bool:
        """Add rows if all of them are in the window; return whether they are."""
        if self.window is None or finest_level(location, self.kind) > self.level:
            return False
        cells = cells_of(location, self.kind, self.level)
        least, largest, ends = _inner_range(cells)
        if least < self.low or largest >= self.low + WINDOW:
            return False
        cells -= self.low - 1
        if ends:  # they have the places just outside the others
            np.clip(cells, 0, WINDOW + 1, out=cells)
        for total, part in zip(
            self.window, _count(cells, positive, w, location), strict=True
        ):
            total[: len(part)] += part
        return True

    def _make_room(self, location: Array) -> None:
        """Change to a level on which these locations have cells."""
        self._coarsen(finest_level(location, self.kind) - self.level)

    def _open(self, cells: Cells) -> bool:
        """Open the window around these cells, if it can hold them."""
        low, high, _ = _inner_range(cells)
        # Little room below, so that counts, which begin where the window does, are
        # short.
        self.low = low - min(WINDOW // 8, (WINDOW - 1 - (high - low)) // 2)
        if high - low < WINDOW:
            self.window = np.zeros((2, 2 * (WINDOW + 2)))
        return self.window is not None

    def _flush(self) -> None:
        """Close the window and merge it into the sums."""
        if self.window is not None:
            sums = _by_label(self.window)
            used = np.flatnonzero(sums[0] + sums[1])
            cells = used + (self.low - 1)
            cells[used == 0] = FIRST_CELL
            cells[used == WINDOW + 1] = LAST_CELL
            self.window = None
            self._merge(cells, sums[:, used])

    def add_points(
        self,
        locations: Array,
        negatives: Array,
        positives: Array,
        cells: Cells,
        level: int | None,
        highest: float,
    ) -> None:
        """Add weights at sorted locations: exact ones, or means in cells of a level."""
        if level is None:
            self._make_room(locations)
            cells = cells_of(locations, self.kind, self.level)
            level = self.level
        sums = np.vstack(
            [negatives, positives, negatives * locations, positives * locations]
        )
        self.add_sums(cells, sums, level, highest)

    def add_sums(self, cells: Cells, sums: Array, level: int, highest: float) -> None:
        """Add sums at sorted cells of a level."""
        self._coarsen(level - self.level)
        self.highest = max(self.highest, highest)
        self._merge(coarser(cells, self.level - level), sums)

    def _merge(self, cells: Cells, sums: Array) -> None:
        """Add sums at nondecreasing cells."""
        if len(self.cells):
            cells = np.concatenate([self.cells, cells])
            sums = np.hstack([self.sums, sums])
            order = np.argsort(cells, kind="stable")
            cells = cells[order]
            sums = sums[:, order]
        levels = levels_to_go(cells)
        self.level += levels
        self._collapse(coarser(cells, levels), sums)

    def _collapse(self, cells: Cells, sums: Array) -> None:
        """Add up the sums of equal, adjacent cells."""
        new = np.diff(cells, prepend=FIRST_CELL - 1) != 0
        place = np.cumsum(new) - 1
        self.cells = cells[new]
        self.sums = np.array(
            [np.bincount(place, weights=row, minlength=len(self.cells)) for row in sums]
        )

    def _coarsen(self, levels: int) -> None:
        """Change to a grid some levels up."""
        if levels > 0:
            self._collapse(coarser(self.cells, levels), self.sums)
            self.level += levels

    def points(self) -> tuple[Array, Array, Array, Cells]:
        """Locations, negatives, positives and cells.

        There are two locations per cell, one for each label that it contains.
        """
        self._flush()
        w0, w1, m0, m1 = self.sums
        x0, x1 = (
            np.divide(m, w, out=np.full_like(w, np.inf), where=w > 0.0)
            for m, w in ((m0, w0), (m1, w1))
        )
        if self.kind == "probability":
            for x in (x0, x1):
                _restore_ends(self.cells, x)
        turned = x0 > x1
        location = np.column_stack([np.minimum(x0, x1), np.maximum(x0, x1)]).ravel()
        negatives = np.column_stack(
            [np.where(turned, 0.0, w0), np.where(turned, w0, 0.0)]
        ).ravel()
        positives = np.column_stack(
            [np.where(turned, w1, 0.0), np.where(turned, 0.0, w1)]
        ).ravel()
        used = np.flatnonzero(location < np.inf)
        # A mean may round over the edge of its cell; locations still never decrease.
        return (
            np.maximum.accumulate(location[used]),
            negatives[used],
            positives[used],
            self.cells[used // 2],
        )


def _restore_ends(cells: Cells, means: Array) -> None:
    """Restore locations of exact 0 and 1, which sums may have rounded."""
    if not len(cells):
        return
    if cells[0] == FIRST_CELL and means[0] < np.inf:
        means[0] = ZERO
    if cells[-1] == LAST_CELL:
        for one in (ONE, -ZERO):  # in one column, and in two
            if np.isclose(means[-1], one, rtol=1e-9, atol=0.0):
                means[-1] = one


def levels_to_go(cells: Cells, most: int = MAX_POINTS) -> int:
    """Number of levels up at which at most ``most`` of these sorted cells remain.

    Two neighbors fall together once the highest bit in which they differ is shifted
    out. Negative cells never join the others, and the ends never join any.
    """
    if len(cells) <= most:
        return 0
    apart = cells[1:] ^ cells[:-1]
    ends = (cells[:-1] == FIRST_CELL) | (cells[1:] == LAST_CELL)
    apart[(apart < 0) | (ends & (apart != 0))] = np.iinfo(np.int64).max
    high = apart >> 32  # each half is exact as a float, whose exponent counts its bits
    bits = np.where(
        high > 0,
        32 + np.frexp(high.astype(np.float64))[1],
        np.frexp(apart.astype(np.float64))[1],
    )
    left = 1 + np.cumsum(np.bincount(bits, minlength=64)[::-1])[::-1]
    return int(np.argmax(left[1:] <= most))


def _count(
    place: Cells,
    positive: NDArray[np.bool_],
    w: Array | None,
    location: Array,
    size: int = 0,
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Weights at each index, and moments, alternating between labels."""
    place <<= 1
    place += positive
    return np.bincount(place, w, size), np.bincount(
        place, location if w is None else w * location, size
    )


def _by_label(sums: Array) -> Array:
    """Weights and moments, with a row each for negatives and positives."""
    return sums.reshape(2, -1, 2).transpose(0, 2, 1).reshape(4, -1)


def _inner_range(cells: Cells) -> tuple[int, int, bool]:
    """Range of the cells without exact 0 and 1, and whether these occur."""
    low = int(cells.min())
    high = int(cells.max())
    ends = low == FIRST_CELL or high == LAST_CELL
    if ends:
        inner = cells[(cells != FIRST_CELL) & (cells != LAST_CELL)]
        low, high = (int(inner.min()), int(inner.max())) if inner.size else (0, 0)
    return low, high, ends
