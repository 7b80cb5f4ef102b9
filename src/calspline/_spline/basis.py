"""Natural cubic splines: the paper's basis, and a banded one with the same span.

A natural cubic spline with knots ``phi_1 < ... < phi_K`` is a cubic on each
interval between knots, has two continuous derivatives, and is linear beyond
``phi_1`` and ``phi_K``. Such functions form a space of dimension ``K``. This
module has two bases of it:

* :func:`natural_cubic_basis` is the truncated-power basis ``N_1 .. N_K`` that
  the paper prints. It is what ``penalty="ridge"`` penalises.
* :class:`NaturalSpline` is the B-spline basis with the two natural conditions
  eliminated. Every function has support on at most four knot intervals, so
  Gram matrices are banded, and its curvature penalty is exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import BSpline

Array = NDArray[np.float64]


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
    d = (np.maximum(x[:, None] - knots[None, :-1], 0.0) ** 3 - beyond_last[:, None]) / (last - knots[:-1])
    return np.column_stack([np.ones_like(x), x, d[:, :-1] - d[:, -1:]])


@dataclass(frozen=True)
class NaturalSpline:
    """The natural cubic splines on ``knots``, in B-spline coordinates.

    With the end knots repeated, cubic B-splines ``B_0 .. B_{K+1}`` span all
    cubic splines on ``[phi_1, phi_K]``. ``f'' = 0`` at either end ties the first
    and the last coefficient to their two neighbours, which leaves ``K`` free
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
        first, last = self.knots[0], self.knots[-1]
        return np.concatenate([[first] * 3, self.knots, [last] * 3])

    @cached_property
    def elimination(self) -> Array:
        K, t = self.size, self._clamped
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

        Piece ``i`` holds on ``knots[i-1] <= x < knots[i]``; pieces ``0`` and ``K``
        are the lines beyond the end knots. With ``t = x - anchors[i]`` basis
        function ``j`` is ``sum_m pieces[m, i, j] * t**(3 - m)``.
        """
        spline = BSpline.construct_fast(self._clamped, self.elimination, 3)
        local = np.zeros((4, self.size + 1, self.size))
        local[3, 1:] = spline(self.knots)
        local[2, 1:] = spline(self.knots, nu=1)
        local[1, 2:-1] = spline(self.knots[1:-1], nu=2) / 2.0
        local[0, 1:-1] = spline(self.knots[:-1], nu=3) / 6.0
        local[2:, 0] = local[2:, 1]
        return local

    @cached_property
    def anchors(self) -> Array:
        """Where each piece's local coordinate is zero, shape (K+1,)."""
        return np.concatenate([self.knots[:1], self.knots])

    def design(self, x: Array) -> BandedDesign:
        """The basis at ``x``, linear beyond the end knots."""
        K = self.size
        width = min(4, K)
        first = np.clip(np.arange(K + 1) - 2, 0, K - width)
        local = self.pieces[:, np.arange(K + 1), first + np.arange(width)[:, None]]
        piece = np.searchsorted(self.knots, x, side="right")
        t = x - self.anchors[piece]
        values = local[0][:, piece]
        for c in local[1:]:
            values *= t
            values += c[:, piece]
        return BandedDesign(first[piece], values, K)

    def interpolate(self, values: Array) -> Array:
        """Coefficients of the splines with these ``values`` (K, m) at the knots."""
        at_knots = self.pieces[3, 1:]
        return np.asarray(np.linalg.solve(at_knots, values))

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
        """``S``, with ``c' S c`` equal to the integral of ``f''^2``: zero beyond three diagonals."""
        D = self.second_derivatives[1:-1]
        return np.asarray(D.T @ self.mass @ D)

    @cached_property
    def greville(self) -> Array:
        """Greville abscissae: the ``K + 2`` B-spline coefficients of ``x`` itself."""
        return np.asarray((self._clamped[1:-3] + self._clamped[2:-2] + self._clamped[3:-1]) / 3.0)

    def supported(self, low: float, high: float) -> NDArray[np.bool_]:
        """Which of the ``K + 2`` B-splines are not zero somewhere between two places."""
        return np.asarray((self._clamped[:-4] < high) & (self._clamped[4:] > low))

    @property
    def line(self) -> Array:
        """Coefficients of the constant 1 and of ``x`` itself, shape (2, K)."""
        return np.vstack([np.ones(self.size), self.greville[1:-1]])


class BandedDesign:
    """A design matrix whose rows have at most ``width`` adjacent non-zeros.

    ``values`` has shape (width, n): row ``b`` of the matrix holds ``values[:, b]`` in columns
    ``start[b] .. start[b] + width - 1``. Sums over rows go run by run of equal ``start``, of
    which there are few where the rows are sorted.
    """

    def __init__(self, start: NDArray[np.intp], values: Array, n_columns: int) -> None:
        self.start = start
        self.values = values
        self.n_columns = n_columns

    def dot(self, c: Array) -> Array:
        """``X c`` for a vector or a matrix ``c``."""
        if c.ndim == 1:
            return sum((row * c[self.start + i] for i, row in enumerate(self.values)), np.zeros(len(self.start)))
        out = self.values[0][:, None] * c[self.start]
        for i, row in enumerate(self.values[1:], 1):
            out += row[:, None] * c[self.start + i]
        return out

    def tdot(self, r: Array) -> Array:
        """``X' r`` for a vector ``r``."""
        columns = self.start[self._runs] + np.arange(len(self.values))[:, None]
        return self._add_up(self.values * r, columns, self.n_columns)

    def gram(self, v: Array) -> Array:
        """``X' diag(v) X``, shape (n_columns, n_columns)."""
        K = self.n_columns
        later, earlier = np.tril_indices(len(self.values))
        places = self.start[self._runs] * (K + 1) + (later * K + earlier)[:, None]
        lower = self._add_up(self._products * v, places, K * K).reshape(K, K)
        return np.asarray(lower + lower.T)

    @cached_property
    def _products(self) -> Array:
        """Products of the entries of each row; halved on the diagonal, for ``lower + lower'``."""
        later, earlier = np.tril_indices(len(self.values))
        halved = np.where(later == earlier, 0.5, 1.0)[:, None]
        return np.asarray(self.values[later] * (self.values[earlier] * halved))

    @cached_property
    def _runs(self) -> NDArray[np.intp]:
        return np.flatnonzero(np.diff(self.start, prepend=-1))

    def _add_up(self, terms: Array, places: NDArray[np.intp], size: int) -> Array:
        """Sums of the terms (m, n) at the places (m, runs) of their runs."""
        sums = np.add.reduceat(terms, self._runs, axis=1)
        return np.bincount(places.ravel(), weights=sums.ravel(), minlength=size)
