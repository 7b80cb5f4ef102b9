"""Grids of cells for scores, one for every power of two, and sums over their cells."""

from __future__ import annotations

from bisect import bisect_left

import numpy as np
from numpy.typing import NDArray

from calspline._validation import Kind
from calspline.transforms import SMALLEST_COMPLEMENT, SMALLEST_PROBABILITY

Array = NDArray[np.float64]
Cells = NDArray[np.int64]

MOST_POINTS = 4096
"""Distinct scores that a histogram keeps apart; beyond, the number of cells it may use."""

CORE = 16.0
ZERO = float(np.log(SMALLEST_PROBABILITY))
ONE = float(np.log(1.0 / SMALLEST_COMPLEMENT))
FINEST = 2.0**44
"""Cells to a unit at level 0. A cell of level ``k`` holds ``2**k`` of them."""
FIRST_CELL, LAST_CELL = -(1 << 62), 1 << 62
WINDOW = 1 << 14
"""Cells next to each other that are counted in one array."""


def stretched(location: Array, kind: Kind) -> Array:
    """The line on which cells are even.

    For log-odds it is their own up to 16 and logarithmic beyond, ``16 + 16 log(u / 16)``; for
    margins it is their ``asinh``.
    """
    if kind == "margin":
        return np.asarray(np.arcsinh(location))
    far = np.flatnonzero(np.abs(location) > CORE)
    if far.size:
        location = location.copy()
        beyond = location[far]
        location[far] = np.sign(beyond) * (CORE + CORE * np.log(np.abs(beyond) / CORE))
    return location


def cells_of(location: Array, kind: Kind, level: int) -> Cells:
    """Cells of a level. Each is the union of two of the level below.

    Exact 0 and 1 (log-odds as clipped by :func:`~calspline.transforms.log_odds`) have cells
    of their own, at the ends.
    """
    cells = np.floor(stretched(location, kind) * (FINEST / 2.0**level)).astype(np.int64)
    if kind == "probability" and location.size:
        if location.min() <= ZERO:
            cells[location <= ZERO] = FIRST_CELL
        if location.max() >= ONE:
            cells[(location == ONE) | (location >= -ZERO)] = LAST_CELL
    return cells


def coarser(cells: Cells, levels: int) -> Cells:
    """The same cells, some levels up; the ends stay where they are."""
    return np.where((cells == FIRST_CELL) | (cells == LAST_CELL), cells, cells >> levels)


class Grid:
    """Running sums over cells, for negatives and positives apart, on the finest grid that will do.

    Rows are first counted in a window of neighbouring cells, which is merged into the
    sorted sums when rows leave it, and at the end.
    """

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.level = 0
        self.cells = np.empty(0, dtype=np.int64)
        self.sums = np.zeros((0, 4))
        self.highest = -np.inf
        self.low = 0
        self.window: tuple[Array, Array] | None = None

    def add(self, location: Array, positive: NDArray[np.bool_], w: Array | None) -> None:
        """Add rows: weight and weighted location, by cell and label."""
        if not location.size:
            return
        top = float(location.max())
        if top == ONE and self.kind == "probability":
            top = float(np.max(location, initial=-np.inf, where=location != ONE))
        self.highest = max(self.highest, top)
        moment = location if w is None else w * location
        cells = cells_of(location, self.kind, self.level)
        if not self._fits(cells):
            self._flush()
            cells = cells_of(location, self.kind, self.level)
            if not self._open(cells):
                used, place = np.unique(cells, return_inverse=True)
                self._merge(used, *_count(place, positive, w, moment, len(used)))
                return
        # 0 and 1 have the places just outside the others.
        place = np.clip(cells, self.low - 1, self.low + WINDOW) - (self.low - 1)
        counted = _count(place, positive, w, moment, WINDOW + 2)
        self.window = counted if self.window is None else (self.window[0] + counted[0], self.window[1] + counted[1])

    def _fits(self, cells: Cells) -> bool:
        low, high = _inner_range(cells)
        return self.window is not None and low >= self.low and high < self.low + WINDOW

    def _open(self, cells: Cells) -> bool:
        """Place the window around these cells, if it can hold them."""
        low, high = _inner_range(cells)
        self.low = (low + high) // 2 - WINDOW // 2
        return high - low < WINDOW

    def _flush(self) -> None:
        """Merge the window into the sums."""
        if self.window is not None:
            weights, moments = self.window
            used = np.flatnonzero(weights[:, 0] + weights[:, 1])
            cells = used + (self.low - 1)
            cells[used == 0] = FIRST_CELL
            cells[used == WINDOW + 1] = LAST_CELL
            self.window = None
            self._merge(cells, weights[used], moments[used])

    def add_points(self, locations: Array, weights: Array, cells: Cells, level: int | None, highest: float) -> None:
        """Add weights (n, 2) at sorted locations: exact ones, or means in cells of a level."""
        if level is None:
            cells = cells_of(locations, self.kind, self.level)
        else:
            self._coarsen(level - self.level)
            cells = coarser(cells, self.level - level)
        self.highest = max(self.highest, highest)
        self._merge(cells, weights, weights * locations[:, None])

    def _merge(self, cells: Cells, weights: Array, moments: Array) -> None:
        """Add sums at cells that never decrease."""
        both = np.concatenate([self.cells, cells])
        order = np.argsort(both, kind="stable")
        sums = np.vstack([self.sums, np.hstack([weights, moments])])
        self._collapse(both[order], sums[order])
        if len(self.cells) > MOST_POINTS:
            self._coarsen(bisect_left(range(64), -MOST_POINTS, key=lambda levels: -_occupied(self.cells, levels)))

    def _collapse(self, cells: Cells, sums: Array) -> None:
        """Add up the sums of equal cells, which stand together."""
        first = np.flatnonzero(np.diff(cells, prepend=FIRST_CELL - 1))
        self.cells = cells[first]
        self.sums = np.add.reduceat(sums, first, axis=0) if len(first) else sums

    def _coarsen(self, levels: int) -> None:
        """Move to a grid some levels up."""
        if levels > 0:
            self._collapse(coarser(self.cells, levels), self.sums)
            self.level += levels

    def points(self) -> tuple[Array, Array, Cells]:
        """Locations, weights (n, 2) and cells: two locations a cell, one for each label that it holds."""
        self._flush()
        cell, label = np.nonzero(self.sums[:, :2])
        w = self.sums[cell, label]
        location = self.sums[cell, label + 2] / w
        order = np.lexsort((location, cell))
        weights = np.zeros((len(w), 2))
        weights[np.arange(len(w)), label[order]] = w[order]
        # A mean may round over the edge of its cell; locations still never decrease.
        return np.maximum.accumulate(location[order]), weights, self.cells[cell[order]]


def _occupied(cells: Cells, levels: int) -> int:
    """How many of the cells are left some levels up."""
    return int(np.count_nonzero(np.diff(coarser(cells, levels)))) + 1


def _count(place: Cells, positive: NDArray[np.bool_], w: Array | None, moment: Array, size: int) -> tuple[Array, Array]:
    """Weights and moments at each place, for negatives and positives."""
    both = place * 2 + positive
    weights = np.bincount(both, weights=w, minlength=2 * size).astype(np.float64)
    moments = np.bincount(both, weights=moment, minlength=2 * size).astype(np.float64)
    return weights.reshape(-1, 2), moments.reshape(-1, 2)


def _inner_range(cells: Cells) -> tuple[int, int]:
    """Least and largest cell other than those of exact 0 and 1."""
    low, high = int(cells.min()), int(cells.max())
    if low == FIRST_CELL or high == LAST_CELL:
        inner = cells[(cells != FIRST_CELL) & (cells != LAST_CELL)]
        low, high = (int(inner.min()), int(inner.max())) if inner.size else (0, 0)
    return low, high
