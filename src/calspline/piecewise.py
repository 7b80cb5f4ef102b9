"""Piecewise cubics: values, slopes and extremes of every curve in this package."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from calspline.arrays import Array

Pieces = NDArray[np.intp]

MAX_CELLS = 8192
NARROWEST = 1e-300
"""A span of breaks below which their number to a unit could overflow."""


def anchors(breaks: Array) -> Array:
    """Where each piece's local coordinate is zero: its left end, or for the first piece its right one."""
    return np.concatenate([breaks[:1], breaks])


def evaluate(coefficients: Array, piece: Pieces, t: Array) -> Array:
    """Polynomials at local coordinates ``t`` of their pieces, by Horner's rule.

    ``coefficients`` has shape (degree + 1, pieces), highest power first, or (degree + 1, pieces, m) for m functions.
    """
    if coefficients.ndim == 3:
        t = t[:, None]
    out: Array = coefficients[0][piece]
    for power in coefficients[1:]:
        out *= t
        out += power[piece]
    return out


@dataclass(frozen=True, eq=False)
class PiecewiseCubic:
    """A function that is cubic between ``breaks`` and a line beyond them.

    ``coefficients`` has shape (4, K + 1), highest power first, in local coordinates ``x - anchor``: the line before the
    first break, the pieces between, the line after the last.
    """

    breaks: Array
    coefficients: Array

    def __call__(self, x: Array) -> Array:
        """The value."""
        return evaluate(self.coefficients, *self.locate(x))

    def slope(self, x: Array) -> Array:
        """The derivative."""
        return evaluate(self.coefficients[:3] * np.array([[3.0], [2.0], [1.0]]), *self.locate(x))

    def locate(self, x: Array) -> tuple[Pieces, Array]:
        """The piece that each ``x`` lies in, and its distance from the anchor."""
        if self._index is None:
            piece = np.searchsorted(self.breaks, x, side="right")
        else:
            per_unit, first, following = self._index
            with np.errstate(over="ignore"):
                cell = np.clip((x - self.breaks[0]) * per_unit + 1.0, 0.0, len(first) - 1.0).astype(np.intp)
            piece = first[cell]
            piece += x >= following[piece]
        return piece, x - self._anchors[piece]

    @cached_property
    def _anchors(self) -> Array:
        return anchors(self.breaks)

    @cached_property
    def _index(self) -> tuple[float, Pieces, Array] | None:
        """Uniform cells, each knowing the piece at its left edge.

        Finding a piece is then a multiplication, a look-up and one comparison,
        as long as no cell holds two breaks.
        """
        span = self.breaks[-1] - self.breaks[0]
        closest = np.diff(self.breaks).min(initial=span)
        n = 2 ** int(np.ceil(np.log2(1.01 * span / closest)))
        if n > MAX_CELLS or span < NARROWEST:
            return None
        edges = self.breaks[0] + span / n * np.arange(-1, n + 1)
        first = np.searchsorted(self.breaks, edges, side="right")
        return n / span, first, np.append(self.breaks, np.inf)

    @cached_property
    def smallest_slope(self) -> float:
        """The least derivative, exactly, over the whole line."""
        a, b, c = self.coefficients[:3]
        t_end = np.concatenate([[0.0], np.diff(self.breaks), [0.0]])
        # The derivative 3a t^2 + 2b t + c is least at an end of the piece or at its vertex.
        with np.errstate(divide="ignore", invalid="ignore"):
            vertex = np.where(a != 0.0, -b / (3.0 * a), 0.0)
        vertex = np.clip(vertex, 0.0, t_end)
        slopes = [(3.0 * a * t + 2.0 * b) * t + c for t in (np.zeros_like(t_end), vertex, t_end)]
        return float(np.min(slopes))

    def extremes(self, low: float = 0.0, high: float = 1.0) -> tuple[float, float]:
        """The least and the largest value on an interval."""
        a, b, c, d = self.coefficients
        start = np.clip(np.concatenate([[-np.inf], self.breaks]), low, high) - self._anchors
        end = np.clip(np.concatenate([self.breaks, [np.inf]]), low, high) - self._anchors
        with np.errstate(divide="ignore", invalid="ignore"):
            root = np.sqrt(b * b - 3.0 * a * c)
            stationary = [(-b + root) / (3.0 * a), (-b - root) / (3.0 * a), -c / (2.0 * b)]
        places = [start, end] + [np.clip(np.nan_to_num(t), start, end) for t in stationary]
        values = np.array([((a * t + b) * t + c) * t + d for t in places])[:, end > start]
        return float(values.min()), float(values.max())
