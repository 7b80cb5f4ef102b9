"""Tables of curves on cells of equal width, where a cell is found by a product."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from calspline._arrays import Array
from calspline._expression import Pieces
from calspline.fitting.basis import PiecewiseCubic

FEWEST_CELLS = 256
MOST_CELLS = 1 << 14
PARTS = 0.25, 0.5, 0.75
"""Places in a cell where a table is compared with its curve."""


class CellTable(NamedTuple):
    """Polynomials in ``t = (x - start) / width - cell``, the highest power first.

    The first and the last cell are lines without an end.
    """

    start: float
    width: float
    coefficients: Array


def cell_table(
    pieces: Pieces, degree: int, error: float, rounding: float
) -> CellTable | None:
    """The table of a curve in cubics (degree 3) or lines (degree 1).

    Its error is at most ``error``. None if that takes too many cells, or if the curve
    is so steep that the ``rounding`` of a score matters.
    """
    breaks = np.array(pieces.breaks)
    curve = PiecewiseCubic(breaks, np.array(pieces.columns))
    span = breaks[-1] - breaks[0]
    if np.abs(curve.slope(breaks)).max() * span * rounding > 100.0 * error:
        return None
    n = FEWEST_CELLS
    while n <= MOST_CELLS:
        inner = _polynomials(curve, n, degree)
        if _largest_error(curve, inner) <= error:
            h = float(span / n)
            start = pieces.origin + pieces.unit * float(breaks[0])
            table = _with_ends(curve, inner, h)
            return CellTable(start - pieces.unit * h, pieces.unit * h, table)
        n *= 2
    return None


def _polynomials(curve: PiecewiseCubic, n: int, degree: int) -> Array:
    """Interpolate values, and slopes unless by lines, at the ends of ``n`` cells."""
    edges = np.linspace(curve.breaks[0], curve.breaks[-1], n + 1)
    value = curve(edges)
    rise = np.diff(value)
    if degree == 1:
        return np.stack([rise, value[:-1]])
    slope = curve.slope(edges) * (edges[-1] - edges[0]) / n
    # At the last break the slope is that of the cubic, not of the line after it.
    gap = curve.breaks[-1] - curve.breaks[-2]
    a, b, c, _ = curve.coefficients[:, -2]
    slope[-1] = ((3.0 * a * gap + 2.0 * b) * gap + c) * (edges[-1] - edges[0]) / n
    left = slope[:-1]
    right = slope[1:]
    cubic = left + right - 2.0 * rise
    square = 3.0 * rise - 2.0 * left - right
    return np.stack([cubic, square, left, value[:-1]])


def _largest_error(curve: PiecewiseCubic, inner: Array) -> float:
    """The error at breaks, and within the cells that have one; of lines, in all."""
    n = inner.shape[1]
    low = curve.breaks[0]
    h = (curve.breaks[-1] - low) / n
    at_breaks = np.minimum(((curve.breaks - low) / h).astype(np.intp), n - 1)
    cells = np.arange(n) if len(inner) == 2 else at_breaks
    z = np.concatenate([curve.breaks, *(low + h * (cells + part) for part in PARTS)])
    cell: NDArray[np.intp] = np.concatenate([at_breaks, np.tile(cells, len(PARTS))])
    t = (z - low) / h - cell
    value = np.zeros_like(z)
    for power in inner:
        value = value * t + power[cell]
    return float(np.abs(value - curve(z)).max())


def _with_ends(curve: PiecewiseCubic, inner: Array, h: float) -> Array:
    """Put the line before the first break and that after the last around cells."""
    slopes = h * curve.coefficients[2, [0, -1]]
    first, last = curve(curve.breaks[[0, -1]])
    table = np.pad(inner, ((0, 0), (1, 1)))
    table[-2:, 0] = slopes[0], first - slopes[0]
    table[-2:, -1] = slopes[1], last
    return np.asarray(table)
