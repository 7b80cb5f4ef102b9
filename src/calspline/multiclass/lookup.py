"""Powers, logarithms and the curve from tables: what predictions need of them, in a few cheap passes.

The leading binary digits of a positive number are its cell, and ``t = x / c`` in ``[1, 1 + 2^-digits]``, with ``c``
the cell's left edge, its place there. What is a product or a sum of a part of ``c`` and a part of ``t``, as
``x^beta = c^beta t^beta`` and ``log x = log c + log t``, needs one table and one polynomial for all cells.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.polynomial import Chebyshev, Polynomial
from numpy.typing import NDArray

from calspline.arrays import Array

Indices = NDArray[np.int64]

MANTISSA = 52
"""Digits of a double behind its leading one."""
POWER_DIGITS, CURVE_DIGITS = 7, 8
"""With so many, a quartic has powers and logarithms to rounding: what increases still does from cell to cell."""


@dataclass(frozen=True)
class Cells:
    """Cells of the numbers from ``edges[0]`` to ``edges[-1]``, ``2^digits`` in every octave."""

    digits: int
    first: int
    edges: Array

    @classmethod
    def reaching(cls, low: float, digits: int) -> Cells:
        """Cells of the numbers from ``low`` to one."""
        first, last = (np.array([low, 1.0]).view(np.int64) >> (MANTISSA - digits)).tolist()
        edges = np.arange(first, last + 2, dtype=np.int64) << (MANTISSA - digits)
        return cls(digits, first, edges.view(np.float64))

    def find(self, x: Array, cell: Indices) -> None:
        """The cell of every number, into ``cell``."""
        np.right_shift(x.view(np.int64), MANTISSA - self.digits, out=cell)
        cell -= self.first

    def polynomial(self, function: Callable[[Array], Array]) -> list[float]:
        """The quartic in ``t`` nearest to a function on ``[1, 1 + 2^-digits]``, highest power first."""
        near = Chebyshev.interpolate(function, 4, domain=[1.0, 1.0 + 0.5**self.digits])
        return [float(c) for c in near.convert(kind=Polynomial, domain=[-1, 1]).coef[::-1]]


class Workspace:
    """Room for a block of rows: three arrays of numbers and one of cells."""

    def __init__(self, rows: int, m: int) -> None:
        self._arrays = *np.empty((3, rows, m)), np.empty((rows, m), dtype=np.int64)

    def first(self, rows: int) -> tuple[Array, Array, Array, Indices]:
        """So many rows of each."""
        x, t, part, cell = self._arrays
        return x[:rows], t[:rows], part[:rows], cell[:rows]


class PowerTable:
    """``x^beta`` for ``x`` in ``[low, 1]``."""

    def __init__(self, beta: float, low: float) -> None:
        steeper = max(int(np.ceil(np.log2(beta / 3.0))), 0)
        self.cells = Cells.reaching(low, POWER_DIGITS + steeper)
        edges = self.cells.edges[:-1]
        self.inverse, self.power = 1.0 / edges, edges**beta
        self.coefficients = self.cells.polynomial(lambda t: t**beta)

    def raise_(self, x: Array, t: Array, cell: Indices) -> None:
        """``c^beta t^beta`` in place of ``x``; ``t`` and ``cell`` are overwritten."""
        self.cells.find(x, cell)
        self.inverse.take(cell, mode="clip", out=t)
        t *= x
        _horner(self.coefficients, t, x)
        x *= self.power.take(cell, mode="clip", out=t)


class CurveTable:
    """``u = log q`` and the bend ``s(u) - u`` for ``q`` in ``[low, 1]``.

    Of the bend every cell has a parabola in ``t``, through its values at both ends and in the middle,
    which is within some 1e-9 of it.
    """

    def __init__(self, curve: Callable[[Array], Array], low: float) -> None:
        self.cells = Cells.reaching(low, CURVE_DIGITS)
        edges = self.cells.edges
        self.inverse, self.logarithm = 1.0 / edges[:-1], np.log(edges[:-1])
        self.coefficients = self.cells.polynomial(np.log)
        middle = 0.5 * (edges[:-1] + edges[1:])
        at_edges, at_middle = (curve(np.log(q)) - np.log(q) for q in (edges, middle))
        h = np.diff(edges) / edges[:-1]
        rise, sag = np.diff(at_edges), at_middle - at_edges[:-1]
        slope, bow = (4.0 * sag - rise) / h, 2.0 * (rise - 2.0 * sag) / h**2
        # a + slope (t - 1) + bow (t - 1)^2, by powers of t
        self.parabolas = np.array([bow, slope - 2.0 * bow, at_edges[:-1] - slope + bow])

    def bend(self, q: Array, t: Array, part: Array, cell: Indices, out: Array) -> None:
        """``log q`` in place of ``q`` and ``s(log q) - log q`` into ``out``; the rest is overwritten."""
        self.cells.find(q, cell)
        self.inverse.take(cell, mode="clip", out=t)
        t *= q
        _horner(self.coefficients, t, q)
        q += self.logarithm.take(cell, mode="clip", out=part)
        self.parabolas[0].take(cell, mode="clip", out=out)
        for row in self.parabolas[1:]:
            out *= t
            out += row.take(cell, mode="clip", out=part)


def _horner(coefficients: list[float], t: Array, out: Array) -> None:
    np.multiply(t, coefficients[0], out=out)
    out += coefficients[1]
    for c in coefficients[2:]:
        out *= t
        out += c
