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

The functions at the end choose where the knots go.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import BSpline

from calspline.arrays import Array
from calspline.piecewise import anchors, evaluate

TOUCHING = 1e-9
"""Share of an interval that a B-spline has to reach into to count there: a knot at its end is off by rounding."""

SMALL_GRAM = 400_000
"""Multiplications up to which one dense product beats that by moments."""

MAX_KNOTS = 512
CELLS = 256
CLOSEST = 1e-3
"""Least distance of two chosen knots, as a share of the range."""


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
        """Coefficients of the clamped B-splines of which the natural ones are made."""
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
        return anchors(self.knots)

    def design(self, x: Array) -> PiecewiseDesign:
        """The basis at ``x``, linear beyond the end knots."""
        piece = np.searchsorted(self.knots, x, side="right")
        return PiecewiseDesign(self.pieces, Places(piece, x - self.anchors[piece]))

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
        """Which of the ``K + 2`` B-splines are not zero somewhere between two places, but for rounding at the ends."""
        touch = TOUCHING * (high - low)
        return np.asarray((self._clamped[:-4] < high - touch) & (self._clamped[4:] > low + touch))

    @property
    def line(self) -> Array:
        """Coefficients of the constant 1 and of ``x`` itself, shape (2, K)."""
        return np.vstack([np.ones(self.size), self.greville[1:-1]])


class Places:
    """Where functions are evaluated: the piece that each ``x`` lies in, and its local coordinate ``t``."""

    def __init__(self, piece: NDArray[np.intp], t: Array) -> None:
        self.piece = piece
        self.t = t

    def __len__(self) -> int:
        return len(self.t)

    @cached_property
    def runs(self) -> NDArray[np.intp]:
        """Where a run of places in one piece begins: few, if the places are sorted."""
        return np.flatnonzero(np.diff(self.piece, prepend=-1))

    @cached_property
    def centres(self) -> Array:
        """The middle of each run, in its local coordinate."""
        last = np.append(self.runs[1:], len(self.t)) - 1
        return np.asarray(0.5 * (self.t[self.runs] + self.t[last]))

    @cached_property
    def _from_centre(self) -> Array:
        return self.t - np.repeat(self.centres, np.diff(self.runs, append=len(self.t)))

    def moments(self, v: Array, highest: int) -> Array:
        """``sum v (t - centre)**k`` of each run, for ``k`` from ``highest`` down to 0.

        About the centre they keep their digits, however far the knots are from the places.
        """
        terms = np.empty((highest + 1, len(v)))
        terms[-1] = v
        for k in range(highest, 0, -1):
            np.multiply(terms[k], self._from_centre, out=terms[k - 1])
        return np.asarray(np.add.reduceat(terms, self.runs, axis=1))


class PiecewiseDesign:
    """The design matrix ``Z`` of functions that are cubic on every piece.

    Parameters
    ----------
    local : array of shape (4, pieces, K)
        Coefficients of each function on each piece, highest power first.
    places : Places
        The rows of the matrix.

    Notes
    -----
    On one piece ``Z' r`` and ``Z' diag(v) Z`` are linear in the moments of ``r`` up to the third and
    of ``v`` up to the sixth: all that they need of the rows.
    """

    def __init__(self, local: Array, places: Places) -> None:
        self.local = local
        self.places = places
        self.small = len(places) * local.shape[2] ** 2 <= SMALL_GRAM

    def in_coordinates(self, T: Array) -> PiecewiseDesign:
        """``Z T``."""
        return PiecewiseDesign(self.local @ T, self.places)

    @cached_property
    def rows(self) -> Array:
        """``Z`` itself."""
        return evaluate(self.local, self.places.piece, self.places.t)

    def dot(self, u: Array) -> Array:
        """``Z u`` for a vector or a matrix ``u``."""
        if self.small and u.ndim == 1:
            return np.asarray(self.rows @ u)
        return evaluate(self.local @ u, self.places.piece, self.places.t)

    def tdot(self, r: Array) -> Array:
        """``Z' r`` for a vector ``r``."""
        if self.small:
            return np.asarray(r @ self.rows)
        return np.asarray(self.places.moments(r, 3).T.ravel() @ self._on_runs.reshape(-1, self.local.shape[2]))

    def gram(self, v: Array) -> Array:
        """``Z' diag(v) Z``, shape (K, K)."""
        if self.small:
            return np.asarray(self.rows.T @ (v[:, None] * self.rows))
        by_power = self.places.moments(v, 6)[np.add.outer(np.arange(4), np.arange(4))]
        weighted = np.moveaxis(by_power, 2, 0) @ self._on_runs
        K = self.local.shape[2]
        return np.asarray(self._on_runs.reshape(-1, K).T @ weighted.reshape(-1, K))

    @cached_property
    def _on_runs(self) -> Array:
        """Coefficients about the centre of each run, shape (runs, 4, K)."""
        c = self.places.centres[:, None]
        a0, a1, a2, a3 = self.local[:, self.places.piece[self.places.runs]]
        about = [a0, 3.0 * a0 * c + a1, (3.0 * a0 * c + 2.0 * a1) * c + a2, ((a0 * c + a1) * c + a2) * c + a3]
        return np.stack(about, axis=1)


def default_count(total_weight: float) -> int:
    """Knots for this many rows: 24 up to 10,000, then slowly more, 64 at most.

    The penalty decides how much the curve bends; knots only have to leave it room.
    """
    return int(np.clip(round(24.0 * (max(total_weight, 1.0) / 1e4) ** 0.2), 24, 64))


def quantile_knots(x: Array, w: Array, count: int) -> Array:
    """Knots at quantiles of the square root of the density of sorted ``x``, ends included.

    The square root moves knots from crowded places to sparse ones, where scores
    are extreme and the curve still has to be right. The density is that of
    256 equal cells, so knots hardly depend on how ``x`` was binned. With no more
    values than knots, the values are the knots.
    """
    values = x[np.diff(x, prepend=-np.inf) > 0.0]
    count = min(count, MAX_KNOTS)
    if len(values) <= count:
        return apart(values, values[-1] - values[0])
    low, high = values[0], values[-1]
    edges = np.linspace(low, high, CELLS + 1)
    cell = np.minimum((x - low) / (high - low) * CELLS, CELLS - 1.0).astype(np.intp)
    mass = np.sqrt(np.bincount(cell, weights=w, minlength=CELLS))
    share = np.concatenate([[0.0], np.cumsum(mass)])
    knots = np.interp(np.linspace(0.0, share[-1], count), share, edges)
    knots[0], knots[-1] = low, high
    return apart(knots, high - low)


def sampled_knots(x: Array, count: int, rng: np.random.Generator) -> Array:
    """The paper's step 1: a random sample of the distinct values."""
    values = np.unique(x)
    count = min(count, MAX_KNOTS)
    if len(values) > count:
        chosen = apart(np.sort(rng.choice(values, size=count, replace=False)), values[-1] - values[0])
        return chosen if len(chosen) > 1 else values[[0, -1]]
    return apart(values, values[-1] - values[0])


def apart(knots: Array, span: float) -> Array:
    """Drop knots that crowd their neighbours, on data of this span; the last one stays."""
    least = CLOSEST * span
    kept = [knots[-1]]
    for knot in knots[-2::-1]:
        if kept[-1] - knot >= least:
            kept.append(knot)
    # The first stays too, at the cost of the one that crowds it.
    if len(kept) > 1 and kept[-1] != knots[0]:
        kept[-1] = knots[0]
    return np.array(kept[::-1])
