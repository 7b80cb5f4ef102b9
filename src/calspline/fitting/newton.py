"""Damped Newton for penalised likelihoods of a spline.

Over the coordinates ``u`` the objective is::

    F(u) = sum_b loss(eta_b; w_b, s_b) + 1/2 sum_j q_j u_j^2,    eta = offset + Z u,

where ``w_b`` is the weight in bin ``b`` and ``s_b`` the weight times the target. Both
losses are convex in ``eta``, so ``F`` has one minimum, also under linear constraints
``A u >= b``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy.linalg import lstsq
from scipy.linalg.lapack import dpotrf, dpotrs, dtrtrs
from scipy.optimize import nnls

from calspline.arrays import Array

MAX_ITERATIONS = 200
"""Ordinary data take ten to twenty; weights over twelve decades, one after another to be fitted, up to 170."""
MAX_HALVINGS = 40
ROUNDING, SOLVER_ROUNDING = 1e-15, 1e-10
"""Promised decrease, as a share of the objective, that rounding would eat up."""
EXCHANGES = 100
"""How often, for each of them, constraints may take turns in being active. Weights over many decades take some ten."""
MIN_KEPT = 0.25
LIFTS = (0.0, 1e-14, 1e-12, 1e-10, 1e-8, 1e-6, 1e-4, 1e-2, 1.0)


class Local(NamedTuple):
    """A loss at ``eta``: its sum (a number, or one for each row of a stack), first and second derivative per bin."""

    value: Any
    slope: Array
    curvature: Array


class Loss(Protocol):
    """A convex loss of the linear predictor, summed over bins: the last axis."""

    def __call__(self, eta: Array, w: Array, s: Array) -> Local:
        """Value and derivatives at ``eta``."""
        ...


def log_loss(eta: Array, w: Array, s: Array) -> Local:
    """``w log(1 + exp(eta)) - s eta``: the negative Bernoulli log-likelihood."""
    size = np.abs(eta)
    e = np.exp(-size)
    upper = 1.0 / (1.0 + e)
    lower = e * upper
    mean = np.where(eta >= 0.0, upper, lower)
    # log(1 + exp(eta)) = (eta + |eta|) / 2 - log(upper)
    value = w * (0.5 * (eta + size) - np.log(upper)) - s * eta
    return Local(np.add.reduce(value, axis=-1), w * mean - s, w * (lower * upper))


def brier_loss(eta: Array, w: Array, s: Array) -> Local:
    """``1/2 w eta^2 - s eta + 1/2 s``: half the squared error of the probability ``eta``."""
    slope = w * eta - s
    return Local(0.5 * np.add.reduce(eta * (slope - s) + s, axis=-1), slope, w)


class Design(Protocol):
    """A linear map ``Z`` from coordinates to the bins."""

    def dot(self, u: Array) -> Array:
        """``Z u``."""
        ...

    def tdot(self, r: Array) -> Array:
        """``Z' r``."""
        ...

    def gram(self, v: Array) -> Array:
        """``Z' diag(v) Z``."""
        ...

    @property
    def rows(self) -> Array:
        """``Z`` as an array."""
        ...


@dataclass(frozen=True)
class Problem:
    """What is fitted: a design on bins, with the sums each bin carries."""

    design: Design
    offset: Array
    w: Array
    s: Array
    loss: Loss

    def at(self, u: Array) -> Point:
        """The loss at ``u``."""
        eta = self.offset + self.design.dot(u)
        return Point(u, eta, self.loss(eta, self.w, self.s))


class Point(NamedTuple):
    """Coordinates, their linear predictor, and the loss there: a place to start from."""

    u: Array
    eta: Array
    local: Local


@dataclass(frozen=True)
class Constraints:
    """``A u >= b``."""

    A: Array
    b: Array


@dataclass(frozen=True)
class Solution:
    """A minimiser of ``F``, and the Cholesky factor of the Hessian at the last step."""

    point: Point
    objective: float
    factor: Array
    converged: bool
    n_iter: int

    @property
    def log_det(self) -> float:
        """Log-determinant of the Hessian ``Z' V Z + Q``."""
        return 2.0 * float(np.add.reduce(np.log(self.factor.diagonal())))

    def leverages(self, rows: Array) -> Array:
        """``z' (Z' V Z + Q)^{-1} z`` for each row ``z``."""
        return np.asarray((dtrtrs(self.factor, rows.T, lower=1)[0] ** 2).sum(axis=0))

    def covariance_root(self) -> Array:
        """``R`` with ``R R' = (Z' V Z + Q)^{-1}``."""
        return np.asarray(dtrtrs(self.factor, np.eye(len(self.factor)), lower=1, trans=1)[0])


def minimize(
    problem: Problem, q: Array, start: Point, *, tolerance: float, constraints: Constraints | None = None
) -> Solution:
    """Minimise ``F`` by damped Newton.

    Stops after a step that moves no ``eta`` by more than ``tolerance``. Newton
    converges quadratically, so what is left then is of order ``tolerance**2``.

    Parameters
    ----------
    problem : Problem
    q : array of shape (K,)
        Diagonal of the penalty.
    start : Point
        Where to start; feasible, if there are constraints.
    tolerance : float
        Largest change of the linear predictor in the last step.
    constraints : Constraints, optional
        Each step then solves a quadratic programme. The line between feasible
        points is feasible, so damping needs no further care.
    """
    design, w, s, loss = problem.design, problem.w, problem.s, problem.loss
    point = start
    objective = _objective(point, q)
    for iteration in range(1, MAX_ITERATIONS + 1):
        gradient = design.tdot(point.local.slope) + q * point.u
        factor = factorize(design.gram(point.local.curvature), q)
        if constraints is None:
            step = -dpotrs(factor, gradient, lower=1)[0]
        else:
            step = _constrained_step(factor, gradient, constraints.A, constraints.b - constraints.A @ point.u)
        moves = design.dot(step)
        promised = -float(gradient @ step)
        scale = 1.0
        for _ in range(MAX_HALVINGS):
            eta = point.eta + scale * moves
            trial = Point(point.u + scale * step, eta, loss(eta, w, s))
            value = _objective(trial, q)
            if sufficient(value, objective, scale * promised):
                break
            scale *= 0.5
        point, objective = trial, value
        settled = promised <= (ROUNDING if constraints is None else SOLVER_ROUNDING) * abs(objective)
        if settled or scale * np.abs(moves).max() <= tolerance:
            return Solution(point, objective, factor, True, iteration)
    return Solution(point, objective, factor, False, MAX_ITERATIONS)


def _objective(point: Point, q: Array) -> float:
    return float(point.local.value + 0.5 * (q @ (point.u * point.u)))


def sufficient(value: Any, objective: Any, promised: Any) -> Any:
    """Whether a step to ``value`` keeps enough of what it promised (Armijo), rounding aside.

    A step to the minimum of a quadratic keeps half. With little asked for, a step may leap across
    the minimum and back for ever, just a little lower each time.
    """
    return value <= objective - MIN_KEPT * promised + 1e-12 * abs(objective)


def factorize(gram: Array, q: Array) -> Array:
    """Cholesky factor of ``gram + diag(q)``, the diagonal lifted until it exists.

    Without a prior (``penalty="ridge"``) and with almost no smoothing the Hessian can
    be singular to rounding. A lift of the diagonal, in proportion to itself if that will do, only
    shortens the step.
    """
    entries = np.einsum("ii->i", gram)
    entries += q
    diagonal = entries.copy()
    for relative in (True, False):
        for lift in LIFTS:
            if lift > 0.0:
                entries[:] = diagonal + lift * (diagonal if relative else np.abs(diagonal).max())
            factor, info = dpotrf(gram, lower=1)
            if info == 0:
                return np.asarray(factor)
    raise np.linalg.LinAlgError("the Hessian has no Cholesky factor")


def _constrained_step(factor: Array, gradient: Array, A: Array, b: Array) -> Array:
    """Minimise ``1/2 d' H d + g' d`` subject to ``A d >= b``, with ``H = L L'``.

    With ``y = L' d + L^{-1} g`` this is the least-distance problem ``min |y|`` subject to
    ``G y >= h``, which non-negative least squares solves (Lawson and Hanson, *Solving
    Least Squares Problems*, chapter 23).
    """
    v = dtrtrs(factor, gradient, lower=1)[0]
    G = dtrtrs(factor, A.T, lower=1)[0].T
    h = b + G @ v
    if np.all(h <= 0.0):
        y = np.zeros_like(v)
    else:
        scale = 1.0 / np.maximum(np.sqrt((G * G).sum(axis=1) + h * h), np.finfo(float).tiny)
        E = np.vstack([(G * scale[:, None]).T, h * scale])
        f = np.zeros(len(E))
        f[-1] = 1.0
        active = nnls(E, f, maxiter=EXCHANGES * E.shape[1])[0] > 0.0
        # The shortest y on the active constraints. What nnls leaves over is in proportion to it, but if small has few
        # digits.
        y = lstsq(E[:-1, active].T, E[-1, active], lapack_driver="gelsy")[0]
    return np.asarray(dtrtrs(factor, y - v, lower=1, trans=1)[0])
