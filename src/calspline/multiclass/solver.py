"""Penalised fits of ``eta = s(u) + W u + b``, their strengths learnt by evidence.

``s(u) = u + B(u) v``. The penalty is ``1/2 sum_g alpha_g |theta_g|^2`` over four groups:
intercepts ``b``, diagonal of ``W``, the rest of ``W``, and ``v`` (for which it is
``alpha / 2`` times the integral of ``s''^2``). Where the curve's slope is free, it is a fifth group with a given
strength: ``beta s'``, the inverse temperature it makes, has the prior ``N(1, 1)``. The others follow MacKay's update

    alpha = (gamma + 2) / (|theta|^2 + 2 / alpha_0),    gamma = sum_g (1 - alpha (H^{-1})_ii),

the fixed point of the Laplace evidence under a Gamma prior on ``alpha``, and never exceeds ``alpha_0``.
Arrays are class by class: shape (m, n).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from calspline.arrays import Array, blocks, map_blocks
from calspline.fitting.newton import Local, Newton, Point, inverse_root
from calspline.multiclass.scale import N_KNOTS, TEMPERATURE_PRIOR, CurveCells, Scale, curve_cells
from calspline.multiclass.spread import Spread
from calspline.multiclass.structured_map import StructuredMap

CURVE_STRENGTH = 300.0
PRIOR_COUNT = 2.0
SCARCE = 5.0
"""Rows per class that the defaults count as none: with few more, everything shrinks harder."""
STRENGTH_TOLERANCE, MIN_MOVE = 0.02, 0.005
"""Moves of ``log alpha`` below which a new quadratic confirms the strengths, and below which they stay."""
LEARN_BELOW = 1.0
TRUSTED = 20.0
"""Newton decrements, twice the gain in loss: to learn strengths below, and to believe a quadratic up to."""
SOLVED = 1e-3
"""The decrement at which the last step is taken; after it some 1e-8 is left."""
MAX_STEPS = 200
"""Some ten do for most data; weights over twelve decades take up to a hundred."""
MIN_STRENGTH = 1e-8
"""Below it a strength holds nothing, and a Hessian that rests on it is singular to rounding."""
MAX_UPDATES = 10
MIN_KEPT, SLACK, MAX_HALVINGS = 1e-4, 1e-9, 20
"""What a step has to keep: less than for a spline's fit, as another pass over the rows costs more than another step."""
JOINT_BLOCK = 1 << 14
"""Values to a block of the joint Hessian, which needs some thirty arrays of its size."""


def first_strengths(m: int, total: float) -> Array:
    """``alpha_0`` for ``m`` classes and this total weight.

    For the matrix they are the fixed strengths of structured matrix scaling, per row that is not scarce.
    """
    scarce = 1.0 + SCARCE * m / total
    return np.array([2.0 * m * scarce, 2.0 * m * scarce, 2.0 * m * (m - 1.0) * scarce, CURVE_STRENGTH])


def matrix_groups(m: int) -> NDArray[np.intp]:
    """The group of each entry of ``(b, W)``."""
    group = np.full((m, m + 1), 2)
    group[:, 0] = 0
    group[np.arange(m), np.arange(m) + 1] = 1
    return group


class Strengths:
    """The strengths ``alpha`` and their way to the fixed point of MacKay's update.

    The plain update creeps, or swings, by an unknown factor; a secant in ``log alpha`` for each group
    learns that factor from the last two updates. Groups in ``held`` keep the strength they are given.
    ``effective`` is the effective number of parameters ``gamma`` of each group, ``asked`` the strength that the data
    asked for, which may be more than ``alpha_0``.
    """

    def __init__(self, alpha0: Array, group: NDArray[np.intp], held: dict[int, float | None] | None = None) -> None:
        self.most = alpha0.copy()
        self.group = group
        self.effective = np.zeros(len(alpha0))
        self.asked = alpha0.copy()
        self._held = {g: alpha for g, alpha in (held or {}).items() if alpha is not None}
        for g, alpha in self._held.items():
            self.most[g] = alpha
        self.alpha = self.most.copy()
        self._last: tuple[Array, Array] | None = None

    @property
    def each(self) -> Array:
        """The strength of every variable."""
        return np.asarray(self.alpha[self.group])

    def update(self, theta: Array, inverse: Array) -> float:
        """Update from the estimate and the diagonal of ``H^{-1}``; the largest move of ``log alpha`` it asked for."""
        k, group = len(self.most), self.group.ravel()
        gamma = np.bincount(group, weights=1.0 - self.alpha[group] * inverse.ravel(), minlength=k)
        size = np.bincount(group, weights=theta.ravel() ** 2, minlength=k)
        self.effective = np.maximum(gamma, 0.0)  # below zero only by rounding
        target = (self.effective + PRIOR_COUNT) / (size + PRIOR_COUNT / self.most)
        self.asked = target
        target = np.clip(target, MIN_STRENGTH, self.most)
        target[list(self._held)] = self.most[list(self._held)]
        place = np.log(self.alpha)
        move = np.log(target) - place
        largest = float(np.abs(move).max())
        if largest < MIN_MOVE:
            return largest
        factor = np.ones(k)
        if self._last is not None:
            moved = place - self._last[0]
            far = np.abs(moved) > 1e-3
            slope = (move - self._last[1])[far] / moved[far]
            factor[far] = np.where(slope < 0.0, np.clip(-1.0 / np.minimum(slope, -1e-3), 0.5, 3.0), 3.0)
        self._last = place, move
        self.alpha = np.clip(np.exp(place + factor * move), MIN_STRENGTH, self.most)
        return largest

    def error_variance(self, inverse: Array, group: int | list[int]) -> Array:
        """The variance of an estimate that is shrunk by ``alpha`` where the data asked for ``a``, which may be more.

        It is ``(h + alpha^2 / a) / (h + alpha)^2``, ``h`` being the Hessian and ``inverse`` ``1 / (h + alpha)``.
        """
        alpha = self.alpha[group]
        return np.asarray(inverse * (1.0 - inverse * alpha * (1.0 - alpha / np.maximum(self.asked[group], alpha))))


@dataclass(frozen=True)
class Data:
    """Values ``u`` (m, n) on a scale, labels, weights, and the curve's basis on the values."""

    scale: Scale
    u: Array
    y: NDArray[np.intp]
    w: Array
    cells: CurveCells

    @classmethod
    def on_scale(
        cls,
        scale: Scale,
        x: Array,
        y: NDArray[np.intp],
        w: Array,
        n_knots: int = N_KNOTS,
        *,
        free_slope: bool = False,
    ) -> Data:
        """Put log-scores (n, m) on a scale, and lay out the basis of a curve whose slope is one, or free."""
        u = scale.by_class(x)
        return cls(scale, u, y, w, curve_cells(u, w, n_knots, 1.0 / scale.beta if free_slope else None))

    @property
    def curve_group(self) -> NDArray[np.intp]:
        """Zero for what bends the curve, one for its slope."""
        basis = self.cells.basis
        return np.repeat([0, 1], [basis.T.shape[1], basis.size - basis.T.shape[1]])

    def first_strengths(self) -> Array:
        """``alpha_0`` of the four groups, and the strength of the slope if that is free."""
        alpha = first_strengths(len(self.u), float(self.w.sum()))
        return alpha if self.cells.basis.slope is None else np.append(alpha, TEMPERATURE_PRIOR * self.scale.beta**2)

    def held(self, curve_strength: float | None, first: int = 0) -> dict[int, float | None]:
        """The strengths that are given, by group; ``first`` is the curve's."""
        return {first: curve_strength} | {first + 1 + i: float(a) for i, a in enumerate(self.first_strengths()[4:])}

    def lines(self) -> Array:
        """``eta`` where all coordinates are zero."""
        return self.cells.basis.first_slope * self.u

    def fitted(
        self,
        curve: Solved,
        W: Array | None,
        b: Array,
        strengths: Array,
        effective: Array,
        linear: dict[str, Array] | None = None,
    ) -> StructuredMap:
        """The map with these coordinates of the curve, matrix and intercepts; ``linear`` is the latters' posterior.

        The rows of the curve's root may go on: with what its errors add to intercepts and matrix.
        """
        basis = self.cells.basis
        pieces, k = basis.curve(curve.theta), basis.size
        spread = Spread((basis.at(pieces.breaks) @ curve.root[:k]).T, **linear or {})
        return StructuredMap(
            self.scale,
            pieces.breaks,
            pieces.coefficients,
            W,
            b,
            strengths[:4],
            effective[:4],
            converged=curve.converged,
            spread=spread,
        )

    def loss(self, fit: StructuredMap) -> float:
        """The summed loss of a map."""
        m, n = self.u.shape

        def part(rows: slice) -> list[Array]:
            y, u = self.y[rows], self.u[:, rows]
            eta = fit.curve(u)
            if fit.W is not None:
                eta += fit.W @ u if fit.W.ndim == 2 else fit.W[:, None] * u
            eta += fit.b[:, None]
            at_y = eta[y, np.arange(len(y))]
            _, log_total = softmax_columns(eta)
            return [np.asarray(self.w[rows] @ (log_total - at_y))]

        return float(added_up(part, blocks(n, m), n * m)[0])


def softmax_columns(eta: Array) -> tuple[Array, Array]:
    """Probabilities and the log-normaliser, in place of ``eta``."""
    top = eta.max(axis=0)
    eta -= top
    np.exp(eta, out=eta)
    total = eta.sum(axis=0)
    eta /= total
    return eta, top + np.log(total)


def added_up(part: Callable[[slice], list[Array]], rows: Iterable[slice], size: int) -> list[Array]:
    """The sums over all blocks of rows of what ``part`` gives for each."""
    totals: list[Array] = []
    for values in map_blocks(part, rows, size):
        totals = [a + b for a, b in zip(totals, values, strict=True)] if totals else values
    return totals


class Solved(NamedTuple):
    """A minimum, whether the way there came to an end, and the Cholesky factor of the Hessian near it."""

    theta: Array
    converged: bool
    factor: Array

    @property
    def root(self) -> Array:
        """``R`` with ``R R'`` the covariance of the posterior."""
        return inverse_root(self.factor)


def solve(problem: CurveAndMatrix | CurveOnly, strengths: Strengths, theta: Array, *, learn: bool = True) -> Solved:
    """Minimise by Newton's method from ``theta``, learning the strengths on the way.

    Once the Newton decrement is small, the quadratic at hand stands for the loss: the strengths go to their
    fixed point on it, which costs no pass over the data. They hold if the next quadratic does not move them. Where they
    run off to a quadratic of which no step is any good, they are taken back and learnt no further.
    """
    if not len(theta):
        return Solved(theta, True, np.empty((0, 0)))
    newton = Newton(problem, strengths.each, problem.at(theta), kept=MIN_KEPT, slack=SLACK)
    for _ in range(MAX_STEPS):
        before = strengths.alpha
        newton.aim()
        if learn and newton.promised < LEARN_BELOW:
            for updates in range(MAX_UPDATES):
                move = strengths.update(newton.point.u + newton.step, newton.inverse_diagonal())
                learn = learn and (updates > 0 or move > STRENGTH_TOLERANCE)
                if move < MIN_MOVE:
                    break
                newton.q = strengths.each
                newton.aim()
                if newton.promised > TRUSTED:
                    break
        if not learn and newton.promised < SOLVED:
            return Solved(newton.point.u + newton.step, True, newton.factor)
        if newton.search(MAX_HALVINGS):
            newton.move()
        elif learn and strengths.alpha is not before:
            strengths.alpha, learn = before, False
            newton.q = strengths.each
        else:
            return Solved(newton.point.u, True, newton.factor)  # rounding leaves nothing to gain
    return Solved(newton.point.u, False, newton.factor)


class Convex(ABC):
    """A loss whose value, gradient and Hessian come of one pass over the rows, as an objective for Newton's method."""

    @abstractmethod
    def local(self, theta: Array) -> tuple[float, Array, Array]:
        """Summed loss, gradient, Hessian at ``theta``."""

    def at(self, theta: Array) -> Point:
        """The loss at ``theta``, which is its own linear predictor."""
        return Point(theta, theta, Local(*self.local(theta)))

    def derivatives(self, point: Point) -> tuple[Array, Array]:
        """Gradient and Hessian."""
        return point.local.slope, point.local.curvature.copy()

    def along(self, point: Point, step: Array) -> Callable[[Any], Point]:
        """The point that is so many times ``step`` away."""
        return lambda scale: self.at(point.u + scale * step)


class CurveAndMatrix(Convex):
    """Loss, gradient and Hessian in ``theta = (v, [b_j, W_j] per class)``; the problem is convex.

    With ``x = (1, u)`` and ``p = softmax(eta)``: ``d eta_j / d (b_j, W_j) = x`` and ``d eta / d v = B(u) = D``.
    The gradient is ``sum w (p - e_y)' d eta``, the Hessian ``sum w d eta' (diag p - p p') d eta``. Its matrix
    blocks are sums of ``p_j (delta_jk - p_k) x_a x_b``: of two lists of pairs, one matrix product. For the curve
    see :class:`CurveOnly`.
    """

    def __init__(self, data: Data) -> None:
        self.data = data
        self.group = np.concatenate([3 + data.curve_group, matrix_groups(len(data.u)).ravel()])
        self.start = np.zeros(len(self.group))
        self.start[: data.cells.basis.size] = data.cells.basis.straight

    def split(self, theta: Array) -> tuple[Array, Array, Array]:
        """``v``, ``b``, ``W``."""
        m, k = len(self.data.u), self.data.cells.basis.size
        B = theta[k:].reshape(m, m + 1)
        return theta[:k], B[:, 0], B[:, 1:]

    def local(self, theta: Array) -> tuple[float, Array, Array]:
        """Summed loss, gradient, Hessian at ``theta``."""
        data, table = self.data, self.data.cells.table
        m, n = data.u.shape
        d, k = m + 1, table.shape[1]
        v, B = theta[:k], theta[k:].reshape(m, d)
        bend, by_coordinate, size = table @ v, np.ascontiguousarray(table.T), len(table)
        ja, jb = np.triu_indices(m)
        xa, xb = np.triu_indices(d)
        same = np.flatnonzero(ja == jb)

        def part(rows: slice) -> list[Array]:
            y, w, cell = data.y[rows], data.w[rows], data.cells.cell[:, rows].astype(np.intp)
            c = len(y)
            x = np.ones((d, c))
            x[1:] = data.u[:, rows]
            eta = B @ x
            eta += data.cells.basis.first_slope * x[1:]
            eta += bend.take(cell)
            at_y = eta[y, np.arange(c)]
            p, log_total = softmax_columns(eta)
            wp = w * p
            residual = wp.copy()
            residual[y, np.arange(c)] -= w
            spread = -wp[ja] * p[jb]
            spread[same] += wp
            # The curve's coordinates come first: inner loops run over rows.
            D = by_coordinate.take(cell, axis=1)
            mean = np.einsum("jc,kjc->kc", p, D)
            D -= mean[:, None]
            D *= wp
            return [
                np.asarray(w @ (log_total - at_y)),
                np.bincount(cell.ravel(), weights=wp.ravel(), minlength=size).astype(np.float64),
                np.bincount(cell[y, np.arange(c)], weights=w, minlength=size).astype(np.float64),
                residual @ x.T,
                (mean * w) @ mean.T,
                D.transpose(1, 0, 2) @ x.T,
                spread @ (x[xa] * x[xb]).T,
            ]

        f, mass, observed, gB, outer, Hv, pairs = added_up(part, blocks(n, m, JOINT_BLOCK), n * m)
        symmetric = np.empty((len(ja), d, d))
        symmetric[:, xa, xb] = symmetric[:, xb, xa] = pairs
        full = np.empty((m, m, d, d))
        full[ja, jb] = full[jb, ja] = symmetric
        H = np.empty((k + m * d, k + m * d))
        H[k:, k:] = full.transpose(0, 2, 1, 3).reshape(m * d, m * d)
        H[k:, :k] = Hv.transpose(0, 2, 1).reshape(m * d, k)
        H[:k, k:] = H[k:, :k].T
        H[:k, :k] = (table.T * mass) @ table - outer
        return float(f), np.concatenate([(mass - observed) @ table, gB.ravel()]), H


class CurveOnly(Convex):
    """Loss, gradient and Hessian in ``v`` alone, ``eta = base + B(u) v``.

    The basis is constant on cells, so ``sum p B B'`` needs only the sum of ``p`` in each cell, and a
    row's mean of ``B`` is a sparse row of ``p`` by cell times the table.
    """

    def __init__(self, data: Data, base: Array | None = None) -> None:
        self.data = data
        self.base = data.lines() if base is None else base
        self.group = data.curve_group

    def local(self, v: Array) -> tuple[float, Array, Array]:
        """Summed loss, gradient, Hessian at ``v``."""
        data, table = self.data, self.data.cells.table
        m, n = data.u.shape
        bend, size = table @ v, len(table)

        def part(rows: slice) -> list[Array]:
            y, w, cell = data.y[rows], data.w[rows], data.cells.cell[:, rows]
            eta = self.base[:, rows] + bend.take(cell)
            at_y = eta[y, np.arange(len(y))]
            p, log_total = softmax_columns(eta)
            by_row = cell.T.ravel()
            indptr = np.arange(0, m * len(y) + 1, m)
            shares = scipy.sparse.csr_array((p.T.ravel(), by_row.astype(np.int32), indptr), shape=(len(y), size))
            mean = shares @ table
            return [
                np.asarray(w @ (log_total - at_y)),
                np.bincount(by_row, weights=(p * w).T.ravel(), minlength=size).astype(np.float64),
                np.bincount(cell[y, np.arange(len(y))], weights=w, minlength=size).astype(np.float64),
                (mean.T * w) @ mean,
            ]

        f, mass, observed, outer = added_up(part, blocks(n, m), n * m)
        return float(f), (mass - observed) @ table, (table.T * mass) @ table - outer
