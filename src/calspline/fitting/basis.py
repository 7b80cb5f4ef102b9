"""Piecewise cubic functions and natural cubic splines: the paper's basis and B-splines.

A natural cubic spline with knots ``phi_1 < ... < phi_K`` is a cubic on each
interval between knots, has two continuous derivatives, and is linear beyond
``phi_1`` and ``phi_K``. Such functions form a space of dimension ``K``. This
module has two bases of it:

* :func:`natural_cubic_basis` is the truncated-power basis ``N_1 .. N_K`` that
  the paper prints. It is what ``penalty="ridge"`` penalizes.
* :class:`NaturalSpline` is the B-spline basis with the two natural conditions
  eliminated. Every function has support on at most four knot intervals, so
  Gram matrices are banded, and its curvature penalty is exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from calspline._arrays import Array, run_starts

Pieces = NDArray[np.intp]

MAX_CELLS = 8192
FEW = 1024
"""Values whose pieces are found sooner without a table of cells."""
NARROWEST = 1e-300
"""A span of breaks below which their number to a unit could overflow."""
TOUCHING = 1e-9
"""Share of an interval that a B-spline must overlap; less is a rounding error at its
end."""

POWERS = np.add.outer(np.arange(4), np.arange(4))
"""Powers of the products of two cubics."""
SMALL_GRAM = 400_000
"""Multiplications up to which one dense product beats that by moments."""


def anchors(breaks: Array) -> Array:
    """Origin of the local coordinate of each piece."""
    return np.concatenate([breaks[:1], breaks])


def evaluate_pieces(coefficients: Array, piece: Pieces, t: Array) -> Array:
    """Polynomials at local coordinates ``t`` of their pieces, by Horner's rule.

    ``coefficients`` has shape (degree + 1, pieces), highest power first, or (degree +
    1, pieces, m) for m functions.
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

    ``coefficients`` has shape (4, K + 1), highest power first, in local coordinates ``x
    - anchor``: the line before the first break, the pieces between, the line after the
    last.
    """

    breaks: Array
    coefficients: Array

    def __call__(self, x: Array) -> Array:
        """The value."""
        return evaluate_pieces(self.coefficients, *self.locate(x))

    def slope(self, x: Array) -> Array:
        """The derivative."""
        return evaluate_pieces(
            self.coefficients[:3] * np.array([[3.0], [2.0], [1.0]]), *self.locate(x)
        )

    def locate(self, x: Array) -> tuple[Pieces, Array]:
        """The piece that each ``x`` lies in, and its distance from the anchor."""
        if x.size < FEW or self._index is None:
            piece = np.searchsorted(self.breaks, x, side="right")
        else:
            per_unit, first, following = self._index
            with np.errstate(over="ignore"):
                cell = np.clip(
                    (x - self.breaks[0]) * per_unit + 1.0, 0.0, len(first) - 1.0
                ).astype(np.intp)
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
        end = np.zeros_like(c)
        end[1:-1] = np.diff(self.breaks)
        # The derivative 3a t^2 + 2b t + c is least at an end of the piece or at its
        # vertex.
        bend = 3.0 * a
        vertex = np.divide(-b, bend, out=np.zeros_like(b), where=bend != 0.0)
        t = np.stack([end, np.minimum(np.maximum(vertex, 0.0), end)])
        inner = (bend * t + 2.0 * b) * t + c
        return float(min(c.min(), inner.min()))

    def extremes(self, low: float = 0.0, high: float = 1.0) -> tuple[float, float]:
        """The least and the largest value on an interval."""
        a, b, c, d = self.coefficients
        start = (
            np.clip(np.concatenate([[-np.inf], self.breaks]), low, high) - self._anchors
        )
        end = (
            np.clip(np.concatenate([self.breaks, [np.inf]]), low, high) - self._anchors
        )
        with np.errstate(divide="ignore", invalid="ignore"):
            root = np.sqrt(b * b - 3.0 * a * c)
            stationary = [
                (-b + root) / (3.0 * a),
                (-b - root) / (3.0 * a),
                -c / (2.0 * b),
            ]
        places = [start, end] + [
            np.clip(np.nan_to_num(t), start, end) for t in stationary
        ]
        values = np.array([((a * t + b) * t + c) * t + d for t in places])[
            :, end > start
        ]
        return float(values.min()), float(values.max())


def natural_cubic_basis(x: Array, knots: Array) -> Array:
    """The natural cubic basis exactly as the paper prints it.

    ``N_1(x) = 1``, ``N_2(x) = x``, ``N_{k+2}(x) = d_k(x) - d_{K-1}(x)`` for
    ``k = 1 .. K-2``, where ``d_k(x) = ((x - phi_k)_+^3 - (x - phi_K)_+^3) /
    (phi_K - phi_k)``.

    Parameters
    ----------
    x : array of shape (n,)
    knots : array of shape (K,)
        Strictly increasing, ``K >= 2``.

    Returns
    -------
    array of shape (n, K)

    References
    ----------
    B. Lucena, *Spline-Based Probability Calibration*, section 3.2.

    Examples
    --------
    >>> natural_cubic_basis(np.array([0.0, 2.0]), np.array([0.0, 1.0, 2.0])).round(2)
    array([[1., 0., 0.],
           [1., 2., 3.]])
    """
    x = np.asarray(x, dtype=np.float64)
    last = knots[-1]
    beyond_last = np.maximum(x - last, 0.0) ** 3
    d = (np.maximum(x[:, None] - knots[None, :-1], 0.0) ** 3 - beyond_last[:, None]) / (
        last - knots[:-1]
    )
    return np.column_stack([np.ones_like(x), x, d[:, :-1] - d[:, -1:]])


@dataclass(frozen=True)
class NaturalSpline:
    """The natural cubic splines on ``knots``, in B-spline coordinates.

    With the end knots repeated, cubic B-splines ``B_0 .. B_{K+1}`` span all
    cubic splines on ``[phi_1, phi_K]``. ``f'' = 0`` at either end ties the first
    and the last coefficient to their two neighbors, which leaves ``K`` free
    coefficients; :attr:`elimination` is the ``(K+2, K)`` matrix that restores
    the tied ones.
    """

    knots: Array

    @property
    def size(self) -> int:
        """Dimension of the space, ``K``."""
        return len(self.knots)

    @cached_property
    def _clamped(self) -> Array:
        first = self.knots[0]
        last = self.knots[-1]
        return np.concatenate([[first] * 3, self.knots, [last] * 3])

    @cached_property
    def elimination(self) -> Array:
        """Coefficients of the clamped B-splines of which the natural ones are made."""
        K = self.size
        t = self._clamped
        matrix = np.zeros((K + 2, K))
        matrix[1:-1] = np.eye(K)
        # f'' = 0 at an end: the control polygon's first two slopes are equal.
        left = (t[4] - t[1]) / (t[5] - t[2])
        right = (t[-2] - t[-5]) / (t[-3] - t[-6])
        matrix[0, :2] = 1.0 + left, -left
        matrix[-1, -2:] = -right, 1.0 + right
        return matrix

    @cached_property
    def pieces(self) -> Array:
        """Local cubic coefficients of every basis function, shape (4, K+1, K).

        Piece ``i`` holds on ``knots[i-1] <= x < knots[i]``; pieces ``0`` and ``K`` are
        the lines beyond the end knots. With ``t = x - anchors(knots)[i]`` basis
        function ``j`` is ``sum_m pieces[m, i, j] * t**(3 - m)``. It is De Boor's
        recursion at the knots, where three B-splines are not zero.
        """
        t = self._clamped[:, None]
        c = self.elimination
        first = c[:-2]
        middle = c[1:-1]
        third = c[2:]
        back = t[3:-3] - t[2:-4]
        ahead = t[4:-2] - t[3:-3]
        low = t[4:-2] - t[1:-5]
        high = t[5:-1] - t[2:-4]
        share = back / (back + ahead)
        slopes = 3.0 * (middle - first) / low, 3.0 * (third - middle) / high
        local = np.zeros((4, self.size + 1, self.size))
        local[3, 1:] = (
            (1.0 - share) * (ahead * first + (t[3:-3] - t[1:-5]) * middle) / low
        )
        local[3, 1:] += share * ((t[5:-1] - t[3:-3]) * middle + back * third) / high
        local[2, 1:] = (1.0 - share) * slopes[0] + share * slopes[1]
        local[1, 2:-1] = ((slopes[1] - slopes[0]) / (back + ahead))[1:-1]
        local[0, 1:-1] = np.diff(local[1, 1:], axis=0) / (3.0 * ahead[:-1])
        local[2:, 0] = local[2:, 1]
        return local

    def design(self, x: Array) -> PiecewiseDesign:
        """The basis at ``x``, linear beyond the end knots."""
        return PiecewiseDesign(self.pieces, self.places(x))

    def places(self, x: Array) -> Places:
        """The piece that each ``x`` lies in, and where."""
        piece = np.searchsorted(self.knots, x, side="right")
        return Places(piece, x - anchors(self.knots)[piece])

    def interpolate(self, values: Array) -> Array:
        """Coefficients of the splines with these ``values`` (K, m) at the knots."""
        return np.asarray(np.linalg.solve(self.pieces[3, 1:], values))

    @cached_property
    def second_derivatives(self) -> Array:
        """Matrix from coefficients to ``f''`` at the knots, shape (K, K)."""
        return 2.0 * self.pieces[1, 1:]

    @cached_property
    def mass(self) -> Array:
        """``M``, the Gram matrix of hat functions at the interior knots: tridiagonal.

        ``f''`` is linear between knots and zero at the ends, so with ``gamma`` its
        values at the interior knots ``gamma' M gamma`` is the integral of ``f''^2``.
        """
        gaps = np.diff(self.knots)
        M = np.diag((gaps[:-1] + gaps[1:]) / 3.0)
        inner = np.arange(self.size - 3)
        M[inner, inner + 1] = M[inner + 1, inner] = gaps[1:-1] / 6.0
        return np.asarray(M)

    @cached_property
    def curvature(self) -> Array:
        """``S``, such that ``c' S c`` is the integral of ``f''^2``; banded."""
        D = self.second_derivatives[1:-1]
        return np.asarray(D.T @ self.mass @ D)

    @cached_property
    def greville(self) -> Array:
        """Greville abscissae: the ``K + 2`` B-spline coefficients of ``x`` itself."""
        return np.asarray(
            (self._clamped[1:-3] + self._clamped[2:-2] + self._clamped[3:-1]) / 3.0
        )

    def supported(self, low: float, high: float) -> NDArray[np.bool_]:
        """Which of the ``K + 2`` B-splines are not zero on some interval."""
        touch = TOUCHING * (high - low)
        return np.asarray(
            (self._clamped[:-4] < high - touch) & (self._clamped[4:] > low + touch)
        )

    @cached_property
    def line(self) -> Array:
        """Coefficients of the constant 1 and of ``x`` itself, shape (2, K)."""
        return np.vstack([np.ones(self.size), self.greville[1:-1]])


@dataclass(frozen=True, eq=False)
class Places:
    """Locations: the ``piece`` and its local coordinate ``t``."""

    piece: Pieces
    t: Array

    @cached_property
    def runs(self) -> Pieces:
        """Where a run of places in one piece begins: few, if the places are sorted."""
        return run_starts(self.piece)

    @cached_property
    def _ends(self) -> Pieces:
        return np.concatenate([self.runs[1:], [len(self.t)]])

    @cached_property
    def centres(self) -> Array:
        """The middle of each run, in its local coordinate."""
        return np.asarray(0.5 * (self.t[self.runs] + self.t[self._ends - 1]))

    @cached_property
    def _from_centre(self) -> Array:
        return self.t - np.repeat(self.centres, self._ends - self.runs)

    def moments(self, v: Array, highest: int) -> Array:
        """``sum v (t - centre)**k`` of each run, for ``k`` from ``highest`` down to 0.

        About the centre they keep their digits, however far the knots are from the
        places.
        """
        terms = np.empty((highest + 1, *v.shape))
        terms[-1] = v
        for k in range(highest, 0, -1):
            np.multiply(terms[k], self._from_centre, out=terms[k - 1])
        return np.asarray(np.add.reduceat(terms, self.runs, axis=-1))


class PiecewiseDesign:
    """Design matrix ``Z`` of piecewise cubic functions, with a row per location.

    ``local``, of shape (4, pieces, K), has their coefficients, highest power first. On
    one piece ``Z' r`` and ``Z' diag(v) Z`` are linear in the moments of ``r`` up to the
    third and of ``v`` up to the sixth: all that they need of the rows.
    """

    def __init__(self, local: Array, places: Places) -> None:
        self.local = local
        self.places = places
        self.small = len(places.t) * local.shape[2] ** 2 <= SMALL_GRAM

    def in_coordinates(self, T: Array) -> PiecewiseDesign:
        """``Z T``."""
        return PiecewiseDesign(self.local @ T, self.places)

    @cached_property
    def rows(self) -> Array:
        """``Z`` itself."""
        return evaluate_pieces(self.local, self.places.piece, self.places.t)

    @cached_property
    def _turned(self) -> Array:
        """``Z'``, along whose rows weights are multiplied faster."""
        return np.ascontiguousarray(self.rows.T)

    def dot(self, u: Array) -> Array:
        """``Z u`` for a vector or a matrix ``u``."""
        if self.small and u.ndim == 1:
            return np.asarray(self.rows @ u)
        return evaluate_pieces(self.local @ u, self.places.piece, self.places.t)

    def tdot(self, r: Array) -> Array:
        """``Z' r`` for a vector ``r``, or for each row of a matrix."""
        if self.small:
            return np.asarray(r @ self.rows)
        moments = self.places.moments(r, 3)
        return np.asarray(np.einsum("k...r,rkj->...j", moments, self._on_runs))

    def gram(self, v: Array) -> Array:
        """``Z' diag(v) Z``, shape (K, K)."""
        if self.small:
            return np.asarray((self._turned * v) @ self.rows)
        by_power = self.places.moments(v, 6)[POWERS]
        weighted = np.moveaxis(by_power, 2, 0) @ self._on_runs
        K = self.local.shape[2]
        return np.asarray(self._on_runs.reshape(-1, K).T @ weighted.reshape(-1, K))

    @cached_property
    def _on_runs(self) -> Array:
        """Coefficients about the centre of each run, shape (runs, 4, K)."""
        c = self.places.centres[:, None]
        a0, a1, a2, a3 = self.local[:, self.places.piece[self.places.runs]]
        about = [
            a0,
            3.0 * a0 * c + a1,
            (3.0 * a0 * c + 2.0 * a1) * c + a2,
            ((a0 * c + a1) * c + a2) * c + a3,
        ]
        return np.stack(about, axis=1)
