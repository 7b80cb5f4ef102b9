"""Curves as tables of cells of equal width, for targets that choose a cell by a product rather than by bisection."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from calspline.arrays import Array
from calspline.expression import Pieces
from calspline.fitting.basis import PiecewiseCubic

FEWEST_CELLS, MOST_CELLS = 256, 8192


class Table(NamedTuple):
    """Cubics on cells of equal width, in ``t = (x - start) / width`` less the cell; the outer two have no end."""

    start: float
    width: float
    coefficients: Array


def table_of(pieces: Pieces, exact: float, eps: float) -> Table | None:
    """The table of a curve; None if it has corners, or is so steep that a place in the table is not exact."""
    breaks = np.array(pieces.breaks)
    curve = PiecewiseCubic(breaks, np.array(pieces.columns))
    low, high = pieces.breaks[0], pieces.breaks[-1]
    if np.abs(curve.slope(breaks)).max() * (high - low) * eps > 100.0 * exact:
        return None
    a, b, c, _ = curve.coefficients[:, -2]
    gap, n = breaks[-1] - breaks[-2], FEWEST_CELLS
    end = (3.0 * a * gap + 2.0 * b) * gap + c
    while n <= MOST_CELLS:
        h = (high - low) / n
        edges = np.linspace(low, high, n + 1)
        f, slope = curve(edges), h * curve.slope(edges)
        slope[-1] = h * end  # of the cubic, not of the line after it
        rise, left, right = np.diff(f), slope[:-1], slope[1:]
        inner = np.stack([left + right - 2.0 * rise, 3.0 * rise - 2.0 * left - right, left, f[:-1]], axis=1)
        # A cell without a break has its very cubic.
        cell = np.minimum(((breaks - low) / h).astype(np.intp), n - 1)
        probes = np.concatenate([breaks, *(low + h * (cell + part) for part in (0.25, 0.5, 0.75))])
        cell = np.tile(cell, 4)
        a, b, c, d = inner[cell].T
        t = (probes - low) / h - cell
        if np.abs(((a * t + b) * t + c) * t + d - curve(probes)).max() <= exact:
            slopes = h * curve.coefficients[2, [0, -1]]
            first, last = [0.0, 0.0, slopes[0], f[0] - slopes[0]], [0.0, 0.0, slopes[1], f[-1]]
            return Table(pieces.origin + pieces.unit * low, pieces.unit * h, np.concatenate([[first], inner, [last]]))
        n *= 2
    return None
