"""Penalized fits of ``eta = s(u) + W u + b``, their strengths learned by evidence.

``s(u) = u + B(u) v``. The penalty is ``1/2 sum_g alpha_g |theta_g|^2`` over five
groups: intercepts ``b``, diagonal of ``W``, the rest of ``W``, what bends the curve
(for which it is ``alpha / 2`` times the integral of ``s''^2``), and its slope, where
that is free. The last has a given strength: ``beta s'``, the inverse temperature it
makes, has the prior ``N(1, 1)``. The others follow MacKay's update

    alpha = (gamma + 2) / (|theta|^2 + 2 / alpha_0),
    gamma = sum_g (1 - alpha (H^{-1})_ii),

the fixed point of the Laplace evidence under a Gamma prior on ``alpha``, and never
exceed ``alpha_0``. Arrays have a row for each row of scores: shape (n, m).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from calspline._arrays import Array, Workspace, added_up, blocks, filled
from calspline.fitting.newton import Local, Newton, Objective, Point, inverse_root
from calspline.multiclass.scale import (
    N_KNOTS,
    TEMPERATURE_PRIOR,
    CurveCells,
    Scale,
    curve_cells,
)

SOLVED = 1e-3
"""The decrement at which the last step is taken; after it some 1e-8 is left."""
ROUNDING = 1e-6
"""The decrement that rounding may hide, as a share of the loss."""
MIN_KEPT, SLACK, MAX_HALVINGS = 1e-4, 1e-9, 20
"""Required share of the promised decrease: less than for a spline, as passes over the
rows are expensive."""
CURVE_STRENGTH = 300.0
PRIOR_COUNT = 2.0
SCARCE = 5.0
"""Number of rows per class from which the defaults assume information; with fewer,
shrinkage is stronger."""
STRENGTH_TOLERANCE, MIN_MOVE = 0.02, 0.005
"""Changes of ``log alpha`` below which a new quadratic confirms the strengths, and
below which they are fixed."""
MIN_STRENGTH = 1e-8
"""Smaller strengths have no effect, and a Hessian that depends on them is numerically
singular."""


def first_strengths(m: int, total: float) -> Array:
    """``alpha_0`` for ``m`` classes and this total weight.

    For the matrix they are the fixed strengths of structured matrix scaling, per row
    that is not scarce.
    """
    scarce = 1.0 + SCARCE * m / total
    return np.array(
        [
            2.0 * m * scarce,
            2.0 * m * scarce,
            2.0 * m * (m - 1.0) * scarce,
            CURVE_STRENGTH,
        ]
    )


def matrix_groups(m: int) -> NDArray[np.intp]:
    """The group of each entry of ``(b, W)``."""
    group = np.full((m, m + 1), 2)
    group[:, 0] = 0
    group[np.arange(m), np.arange(m) + 1] = 1
    return group


class Strengths:
    """The strengths ``alpha`` and their way to the fixed point of MacKay's update.

    The plain update creeps, or swings, by an unknown factor; a secant in ``log alpha``
    for each group learns that factor from the last two updates. Groups in ``held`` keep
    the strength they are given. ``effective`` is the effective number of parameters
    ``gamma`` of each group.
    """

    def __init__(
        self,
        alpha0: Array,
        group: NDArray[np.intp],
        held: dict[int, float | None] | None = None,
    ) -> None:
        self.most = alpha0.copy()
        self.group = group
        self.effective = np.zeros(len(alpha0))
        given = {g: alpha for g, alpha in (held or {}).items() if alpha is not None}
        self._held = list(given)
        self.most[self._held] = list(given.values())
        self.alpha = self.most.copy()
        self._last: tuple[Array, Array] | None = None
        self._seen: tuple[Array, Array, Array] | None = None

    @property
    def each(self) -> Array:
        """The strength of every variable."""
        return np.asarray(self.alpha[self.group])

    def update(self, theta: Array, inverse: Array) -> float:
        """Update the strengths; return the largest change of ``log alpha``."""
        k = len(self.most)
        group = self.group.ravel()
        gamma = np.bincount(
            group, weights=1.0 - self.alpha[group] * inverse.ravel(), minlength=k
        )
        size = np.bincount(group, weights=theta.ravel() ** 2, minlength=k)
        self.effective = np.maximum(gamma, 0.0)  # below zero only by rounding
        target = (self.effective + PRIOR_COUNT) / (size + PRIOR_COUNT / self.most)
        self._seen = theta, inverse, target
        target = np.clip(target, MIN_STRENGTH, self.most)
        target[self._held] = self.most[self._held]
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
            factor[far] = np.where(
                slope < 0.0, np.clip(-1.0 / np.minimum(slope, -1e-3), 0.5, 3.0), 3.0
            )
        self._last = place, move
        self.alpha = np.clip(np.exp(place + factor * move), MIN_STRENGTH, self.most)
        return largest

    def error_variance(self, inverse: Array, group: int | list[int]) -> Array:
        """Variance of an estimate that is shrunk by ``alpha``.

        It is ``(h + alpha^2 / a) / (h + alpha)^2``, ``h`` being the Hessian and
        ``inverse`` ``1 / (h + alpha)``.
        """
        return np.asarray(inverse * (1.0 - inverse * self._excess(group)))

    def error_root(self, root: Array, groups: list[int]) -> Array:
        """Root of the covariance of the errors of all variables.

        With ``H^{-1} = R R'`` it is a root of ``H^{-1} (H - Q + Q A^{-1} Q) H^{-1}``.
        """
        excess = np.zeros(len(self.alpha))
        excess[groups] = self._excess(groups)
        taken, along = scipy.linalg.eigh((root.T * excess[self.group]) @ root)
        return np.asarray(root @ along * np.sqrt(np.maximum(1.0 - taken, 0.0)))

    def _excess(self, group: int | list[int]) -> Array:
        """``alpha - alpha^2 / a``."""
        asked = np.array(
            [self.asked(g) for g in np.atleast_1d(group).tolist()]
        ).reshape(np.shape(group))
        return np.asarray(self.alpha[group] * (1.0 - self.alpha[group] / asked))

    def asked(self, g: int) -> float:
        """The strength that the data ask for of a group, which is at least ``alpha``.

        It is what the last update asked for, unless that is more than ``alpha_0``: then
        it is the fixed point beyond. There each variable stands alone; what the data
        say of it is ``h = 1 / (H^{-1})_ii - alpha``.
        """
        alpha = float(self.alpha[g])
        if self._seen is None:
            return alpha
        if self._seen[2][g] <= self.most[g]:
            return max(alpha, float(self._seen[2][g]))
        theta, inverse = (
            values.ravel()[self.group.ravel() == g] for values in self._seen[:2]
        )
        h = np.maximum(1.0 / inverse - alpha, 0.0)

        def left(log_a: float) -> float:
            """What the fixed point's two sides differ by."""
            a = np.exp(log_a)
            size = float((((h + alpha) / (h + a) * theta) ** 2).sum())
            return float(
                a * (size + PRIOR_COUNT / self.most[g])
                - (h / (h + a)).sum()
                - PRIOR_COUNT
            )

        low = np.log(alpha)
        high = np.log(self.most[g] * (1.0 + len(h) / PRIOR_COUNT))
        if left(low) >= 0.0:
            return alpha
        return float(np.exp(scipy.optimize.brentq(left, low, high)))


SINGLE_COST = 1e7
"""Number of multiplications per gradient, ``n m^2``, from which single precision is
used."""


@dataclass(frozen=True)
class FitData:
    """Values ``u`` (n, m), labels, weights, and the basis of the curve.

    ``room`` is an array like ``u`` for :meth:`predictor`, that of one problem at a
    time.
    """

    scale: Scale
    u: Array
    y: NDArray[np.intp]
    w: Array
    cells: CurveCells
    room: Array | None = None

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
    ) -> FitData:
        """Transform log-scores in place, and set up the basis of the curve."""
        u = scale.tempered(x)
        return cls(
            scale,
            u,
            y,
            w,
            curve_cells(u, w, n_knots, 1.0 / scale.beta if free_slope else None),
        )

    @property
    def curve_group(self) -> NDArray[np.intp]:
        """The group of each coordinate of the curve."""
        basis = self.cells.basis
        return np.repeat([3, 4], [basis.T.shape[1], basis.size - basis.T.shape[1]])

    def strengths(
        self, group: NDArray[np.intp], curve_strength: float | None = None
    ) -> Strengths:
        """Initial strengths of groups of variables; that of the curve may be given."""
        alpha0 = first_strengths(self.u.shape[1], float(self.w.sum()))
        slope = TEMPERATURE_PRIOR * self.scale.beta**2
        return Strengths(np.append(alpha0, slope), group, {3: curve_strength, 4: slope})

    @property
    def precision(self) -> type[Any]:
        """That of passes over many rows of many classes."""
        n, m = self.u.shape
        return np.float32 if n * m * m > SINGLE_COST else np.float64

    def halved(self) -> FitData:
        """Convert to single precision where it suffices, reusing memory."""
        if self.precision is np.float64:
            return self
        halves = self.u.view(np.float32).reshape(2, *self.u.shape)
        for rows in blocks(*self.u.shape):
            halves[0, rows] = self.u[rows]  # what is overwritten has been read
        return replace(self, u=halves[0], room=halves[1])

    def predictor(
        self, precision: type[Any], v: Array | None = None, B: Array | None = None
    ) -> Array:
        """``s(u) + W u + b`` of all rows, with optional parts."""
        m = self.u.shape[1]
        slope = self.cells.basis.first_slope
        B = np.zeros((m, 2)) if B is None else B
        b = precision(B[:, 0])
        if B.shape[1] == 2:
            W = precision(slope + B[:, 1])
        else:
            W = precision(slope * np.eye(m) + B[:, 1:])
        bend = None if v is None else (self.cells.table @ v).astype(precision)

        def part(rows: slice) -> Array:
            u = self.u[rows].astype(precision, copy=False)
            eta: Array = u * W if W.ndim == 1 else u @ W.T
            eta += b
            if bend is not None:
                eta += bend.take(self.cells.cell[rows].astype(np.intp), mode="clip")
            return eta

        return filled(
            np.empty(self.u.shape, dtype=precision) if self.room is None else self.room,
            part,
        )

    def start_penalty(self) -> float:
        """Slope that corresponds to the temperature, from which a fit starts."""
        strengths = self.strengths(self.curve_group)
        straight = self.cells.basis.straight
        return 0.5 * float(strengths.each @ (straight * straight))


def softmax(eta: Array, y: NDArray[np.intp], w: Array) -> float:
    """The summed loss of rows, and their probabilities in place of ``eta``."""
    row = np.arange(len(y))
    at_y = eta[row, y]
    # In rows, the largest is found sooner by its place, and a product with ones is a
    # quick sum.
    top = eta[row, eta.argmax(axis=1)] if eta.flags.c_contiguous else eta.max(axis=1)
    eta -= top[:, None]
    np.exp(eta, out=eta)
    total = eta @ np.ones(eta.shape[1], dtype=eta.dtype)
    eta *= (1.0 / total)[:, None]
    return float(w @ (top - at_y + np.log(total, dtype=np.float64)))


class Solved(NamedTuple):
    """A minimum, whether it converged, and a root ``R R'`` of the inverse Hessian.

    ``start_loss`` and ``loss`` are the summed losses, without the penalty, at the start
    and at the minimum.
    """

    theta: Array
    converged: bool
    root: Array
    start_loss: float
    loss: float

    @classmethod
    def from_newton(
        cls, newton: Newton, start_loss: float, *, last_step: bool, converged: bool
    ) -> Solved:
        """Last point of a search, or the minimum of its quadratic model."""
        theta = newton.point.u
        loss = newton.point.local.value
        if last_step:
            penalty = 0.5 * float(newton.q @ (theta * theta))
            theta = theta + newton.step
            loss += (
                penalty
                - 0.5 * newton.promised
                - 0.5 * float(newton.q @ (theta * theta))
            )
        return cls(theta, converged, inverse_root(newton.factor), start_loss, loss)


LEARN_BELOW = 1.0
TRUSTED = 20.0
"""Newton decrements (twice the gain) at which strengths are learned, and at which a
quadratic is trusted."""
MAX_STEPS = 200
"""Some ten do for most data; weights over twelve decades take up to a hundred."""
MAX_UPDATES = 10


def solve(
    problem: CurveAndMatrix | CurveOnly,
    strengths: Strengths,
    theta: Array,
    *,
    learn: bool = True,
) -> Solved:
    """Minimise by Newton's method from ``theta``, learning the strengths on the way.

    Once the Newton decrement is small, the quadratic at hand stands for the loss: the
    strengths go to their fixed point on it, which costs no pass over the data. They
    hold if the next quadratic does not move them. Where they run off to a quadratic of
    which no step is any good, they are taken back and learned no further.
    """
    start = problem.at(theta)
    start_loss = start.local.value
    if not len(theta):
        return Solved(theta, True, np.empty((0, 0)), start_loss, start_loss)
    newton = Newton(problem, strengths.each, start, kept=MIN_KEPT, slack=SLACK)
    for _ in range(MAX_STEPS):
        before = strengths.alpha
        newton.aim()
        off = newton.promised
        if learn and off < LEARN_BELOW:
            for updates in range(MAX_UPDATES):
                move = strengths.update(
                    newton.point.u + newton.step, newton.inverse_diagonal()
                )
                learn = learn and (updates > 0 or move > STRENGTH_TOLERANCE)
                if move < MIN_MOVE:
                    break
                newton.q = strengths.each
                newton.aim()
                if newton.promised > TRUSTED:
                    break
        if off < problem.solved[0] and newton.promised < problem.solved[1]:
            return Solved.from_newton(
                newton, start_loss, last_step=True, converged=True
            )
        if newton.search(MAX_HALVINGS):
            newton.move()
        elif learn and strengths.alpha is not before:
            strengths.alpha = before
            learn = False
            newton.q = strengths.each
        else:
            # No step gains anything: rounding hides what is left, if that is little.
            rounding = max(problem.solved[1], ROUNDING * abs(newton.point.local.value))
            converged = newton.promised <= rounding
            return Solved.from_newton(
                newton, start_loss, last_step=False, converged=converged
            )
    return Solved.from_newton(newton, start_loss, last_step=False, converged=False)


JOINT_BLOCK = 1 << 14
"""Number of values per block of the joint Hessian, which needs about thirty such
arrays."""


class CurveAndMatrix(Objective):
    """Loss, gradient and Hessian in ``theta = (v, [b_j, W_j] per class)``; convex.

    With ``x = (1, u)`` and ``p = softmax(eta)``: ``d eta_j / d (b_j, W_j) = x`` and ``d
    eta / d v = B(u) = D``. The gradient is ``sum w (p - e_y)' d eta``, the Hessian
    ``sum w d eta' (diag p - p p') d eta``. Its matrix blocks are sums of ``p_j
    (delta_jk - p_k) x_a x_b``: of two lists of pairs, one matrix product. For the curve
    see :class:`CurveOnly`.
    """

    def __init__(self, data: FitData) -> None:
        self.data = data
        self.solved = (SOLVED, SOLVED)
        self.group = np.concatenate(
            [data.curve_group, matrix_groups(data.u.shape[1]).ravel()]
        )
        self.start = np.zeros(len(self.group))
        self.start[: data.cells.basis.size] = data.cells.basis.straight

    def split(self, theta: Array) -> tuple[Array, Array, Array]:
        """``v``, ``b``, ``W``."""
        m = self.data.u.shape[1]
        k = self.data.cells.basis.size
        B = theta[k:].reshape(m, m + 1)
        return theta[:k], B[:, 0], B[:, 1:]

    def at(self, theta: Array) -> Point:
        """Summed loss, gradient, Hessian at ``theta``."""
        data = self.data
        table = self.data.cells.table
        n, m = data.u.shape
        d = m + 1
        k = table.shape[1]
        v = theta[:k]
        B = theta[k:].reshape(m, d)
        bend = table @ v
        by_coordinate = np.ascontiguousarray(table.T)
        size = len(table)
        ja, jb = np.triu_indices(m)
        xa, xb = np.triu_indices(d)
        same = np.flatnonzero(ja == jb)

        def part(rows: slice) -> list[Array]:
            # Class by class: inner loops run over rows.
            y = data.y[rows]
            w = data.w[rows]
            cell = data.cells.cell[rows].T.astype(np.intp, order="C")
            c = len(y)
            x = np.ones((d, c))
            x[1:] = data.u[rows].T
            p = B @ x
            p += data.cells.basis.first_slope * x[1:]
            p += bend.take(cell)
            loss = softmax(p.T, y, w)
            wp = w * p
            residual = wp.copy()
            residual[y, np.arange(c)] -= w
            spread = -wp[ja] * p[jb]
            spread[same] += wp
            D = by_coordinate.take(cell, axis=1)
            mean = np.einsum("jc,kjc->kc", p, D)
            D -= mean[:, None]
            D *= wp
            mass = np.bincount(cell.ravel(), weights=wp.ravel(), minlength=size)
            own = cell[y, np.arange(c)]
            observed = np.bincount(own, weights=w, minlength=size)
            return [
                np.asarray(loss),
                mass.astype(np.float64),
                observed.astype(np.float64),
                residual @ x.T,
                (mean * w) @ mean.T,
                D.transpose(1, 0, 2) @ x.T,
                spread @ (x[xa] * x[xb]).T,
            ]

        f, mass, observed, gB, outer, Hv, pairs = added_up(
            part, blocks(n, m, JOINT_BLOCK)
        )
        symmetric = np.empty((len(ja), d, d))
        symmetric[:, xa, xb] = symmetric[:, xb, xa] = pairs
        full = np.empty((m, m, d, d))
        full[ja, jb] = full[jb, ja] = symmetric
        H = np.empty((k + m * d, k + m * d))
        H[k:, k:] = full.transpose(0, 2, 1, 3).reshape(m * d, m * d)
        H[k:, :k] = Hv.transpose(0, 2, 1).reshape(m * d, k)
        H[:k, k:] = H[k:, :k].T
        H[:k, :k] = (table.T * mass) @ table - outer
        return Point(
            theta,
            theta,
            Local(float(f), np.concatenate([(mass - observed) @ table, gB.ravel()]), H),
        )


NEARLY_SOLVED = 0.2, 1.0
"""The decrements in single precision, used for many rows: before strengths are learned,
and with them; about 1e-5 is left after the last step."""
LANES = 4
"""Columns of a table are a multiple of what processors multiply at once."""


class CurveOnly(Objective):
    """Loss, gradient and Hessian in ``v`` alone, given ``B``.

    The basis is constant on cells, so ``sum p B B'`` needs only the sum of ``p`` in
    each cell, and a row's mean of ``B`` is a sparse row of ``p`` by cell times the
    table. That is for the Hessian, which single precision is enough for; it is for all
    the rest unless ``exact``.
    """

    def __init__(
        self, data: FitData, B: Array | None = None, *, exact: bool = True
    ) -> None:
        self.data = data
        self.group = data.curve_group
        self.precision: type[Any] = np.float64 if exact else data.precision
        if self.precision is np.float32:
            self.solved = NEARLY_SOLVED
        else:
            self.solved = (SOLVED, SOLVED)
        self._fixed = data.predictor(self.precision, B=B)
        self._rows = list(blocks(*data.u.shape))
        self._workspace = Workspace(
            self._rows,
            data.u.shape[1],
            self.precision,
            self.precision,
            np.intp,
            np.int32,
        )
        size, k = data.cells.table.shape
        self._coarse = np.zeros((size, -(-k // LANES) * LANES), dtype=np.float32)
        self._coarse[:, :k] = data.cells.table

    def at(self, v: Array) -> Point:
        """Summed loss, gradient, Hessian at ``v``."""
        data = self.data
        table = self.data.cells.table
        size, k = table.shape
        m = data.u.shape[1]
        bend = (table @ v).astype(self.precision)

        def part(rows: slice) -> list[Array]:
            y = data.y[rows]
            w = data.w[rows]
            p, t, cell, place = self._workspace.views(rows)
            place[:] = cell[:] = data.cells.cell[rows]
            np.add(self._fixed[rows], bend.take(cell, mode="clip", out=t), out=p)
            loss = softmax(p, y, w)
            share = p.astype(np.float32, copy=False)
            ends = np.arange(0, m * len(y) + 1, m, dtype=np.int32)
            shares = scipy.sparse.csr_array(
                (share.ravel(), place.ravel(), ends), shape=(len(y), size)
            )
            mean = shares @ self._coarse
            p *= w[:, None]
            return [
                np.asarray(loss),
                np.bincount(cell.ravel(), weights=p.ravel(), minlength=size),
                np.bincount(cell[np.arange(len(y)), y], weights=w, minlength=size),
                (mean.T * w) @ mean,
            ]

        f, mass, observed, outer = added_up(part, self._rows)
        hessian = (table * mass[:, None]).T @ table - outer[:k, :k]
        return Point(v, v, Local(float(f), (mass - observed) @ table, hessian))
