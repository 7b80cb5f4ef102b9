"""Damped Newton for penalized likelihoods.

Over the coordinates ``u`` the objective is a convex loss and a ridge::

    F(u) = loss(u) + 1/2 sum_j q_j u_j^2,

so ``F`` has one minimum, also under linear constraints ``A u >= b``. :class:`Newton`
holds the state of a search for it. Usually the loss is that of a :class:`Problem`, a
generalized linear model on bins::

    loss(u) = sum_b loss(eta_b; w_b, s_b),    eta = offset + Z u,

where ``w_b`` is the weight in bin ``b`` and ``s_b`` the weight times the target.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dpotri, dpotrs, dtrtrs

from calspline._arrays import Array
from calspline.fitting.basis import PiecewiseDesign

MAX_ITERATIONS = 200
"""Largest number of steps. Ordinary data need ten to twenty; weights over twelve
decades up to 170."""
MAX_HALVINGS = 40
ROUNDING, SOLVER_ROUNDING = 1e-15, 1e-10
"""Promised decrease, as a share of the objective, that rounding would eat up."""
EXCHANGES = 100
"""Largest number of changes of the active set per constraint; extreme weights need
about ten."""
FEW_EXCHANGES, NO_GAIN = 8, 1e-13
"""Largest number of exchanges of constraints, and the cosine that counts as a right
angle."""

LAST_DIGITS = 1e-9
"""Tolerance for regressions on a few features: its square is below rounding."""
LIFTS = (1e-14, 1e-12, 1e-10, 1e-8, 1e-6, 1e-4, 1e-2, 1.0)


class Local(NamedTuple):
    """A loss at ``eta``: its sum, first and second derivative per bin."""

    value: float
    slope: Array
    curvature: Array


Loss = Callable[[Array, Array, Array], Local]
"""Convex loss of the linear predictor ``eta``, given ``w`` and ``s``, summed over
bins."""


def log_loss(eta: Array, w: Array, s: Array) -> Local:
    """``w log(1 + exp(eta)) - s eta``: the negative Bernoulli log-likelihood.

    Value and slope keep their digits where a bin of one class is almost certain to be
    of it.
    """
    e = np.exp(-np.abs(eta))
    upper = 1.0 / (1.0 + e)
    # log(1 + exp(eta)) = max(eta, 0) + log(1 + exp(-|eta|)), and the mean is 1 - e *
    # upper or e * upper.
    unsure = e * upper
    unsure *= w
    beyond = np.where(np.signbit(eta), 0.0, w)
    beyond -= s
    value = float(w @ np.log1p(e, out=e) + beyond @ eta)
    slope = beyond - np.copysign(unsure, eta)
    unsure *= upper
    return Local(value, slope, unsure)


def brier_loss(eta: Array, w: Array, s: Array) -> Local:
    """``1/2 w eta^2 - s eta + 1/2 s``: half the squared error of ``eta``."""
    slope = w * eta - s
    return Local(0.5 * float(np.add.reduce(eta * (slope - s) + s)), slope, w)


@dataclass(frozen=True)
class DenseDesign:
    """A design matrix ``Z`` that is given as its array: tall, with few columns."""

    rows: Array

    def dot(self, u: Array) -> Array:
        """``Z u``."""
        return np.asarray(self.rows @ u)

    def tdot(self, r: Array) -> Array:
        """``Z' r``."""
        return np.asarray(r @ self.rows)

    def gram(self, v: Array) -> Array:
        """``Z' diag(v) Z``."""
        return np.asarray((self.rows.T * v) @ self.rows)


class Point(NamedTuple):
    """Coordinates, their linear predictor, and the loss: a starting point."""

    u: Array
    eta: Array
    local: Local


class Objective(ABC):
    """Convex loss without the ridge, whose linear predictor is ``u`` itself."""

    @abstractmethod
    def at(self, u: Array) -> Point:
        """The loss at ``u``."""

    def derivatives(self, point: Point) -> tuple[Array, Array]:
        """Gradient and Hessian in ``u``."""
        return point.local.slope, point.local.curvature

    def moves(self, step: Array) -> Array:
        """What a step adds to ``eta``."""
        return step

    def after(self, point: Point, step: Array, moves: Array) -> Point:
        """The point that is one step away."""
        return self.at(point.u + step)


@dataclass(frozen=True)
class Problem(Objective):
    """What is fitted: a design on bins, with the sums each bin carries.

    With a ``tilt`` the loss is ``loss(u) - tilt' u``: with the gradient of ``F`` at
    some place, that is the minimum.
    """

    design: PiecewiseDesign | DenseDesign
    offset: Array
    w: Array
    s: Array
    loss: Loss
    tilt: Array | None = None

    def at(self, u: Array) -> Point:
        """The loss at ``u``."""
        return self._point(u, self.offset + self.design.dot(u))

    def derivatives(self, point: Point) -> tuple[Array, Array]:
        """Gradient and Hessian in ``u``."""
        gradient = self.design.tdot(point.local.slope)
        if self.tilt is not None:
            gradient = gradient - self.tilt
        return gradient, self.design.gram(point.local.curvature)

    def moves(self, step: Array) -> Array:
        """What a step adds to ``eta``."""
        return self.design.dot(step)

    def after(self, point: Point, step: Array, moves: Array) -> Point:
        """The point that is one step away."""
        return self._point(point.u + step, point.eta + moves)

    def values(self, U: Array) -> Array:
        """The loss at each row of ``U``."""
        if self.loss is not log_loss or self.tilt is not None:
            return np.array([self.at(u).local.value for u in U])
        eta = self.offset + self.design.dot(U.T).T
        softplus = np.maximum(eta, 0.0) + np.log1p(np.exp(-np.abs(eta)))
        return np.asarray(softplus @ self.w - eta @ self.s)

    def _point(self, u: Array, eta: Array) -> Point:
        local = self.loss(eta, self.w, self.s)
        if self.tilt is not None:
            local = local._replace(value=local.value - float(self.tilt @ u))
        return Point(u, eta, local)


@dataclass(frozen=True)
class Constraints:
    """``A u >= b``."""

    A: Array
    b: Array


class Solution(NamedTuple):
    """Minimizer ``u`` of ``F``, its linear predictor, and the last Cholesky factor."""

    u: Array
    eta: Array
    objective: float
    factor: Array
    converged: bool
    n_iter: int

    @property
    def log_det(self) -> float:
        """Log-determinant of the Hessian ``Z' V Z + Q``."""
        return 2.0 * float(np.add.reduce(np.log(self.factor.diagonal())))

    def covariance_root(self) -> Array:
        """``R`` with ``R R' = (Z' V Z + Q)^{-1}``."""
        return inverse_root(self.factor)


class Newton:
    """State of damped Newton. A round is :meth:`aim`, :meth:`search` and :meth:`move`.

    After the first aim, :meth:`minimum` takes all rounds that are left. ``q``, the
    diagonal of the penalty, may be replaced from round to round. With
    ``constraints``, which the start has to meet, each step solves a quadratic
    programme. The line between feasible points is feasible, so damping needs no further
    care. A step has to keep the share ``kept`` of the decrease it promised (Armijo),
    rounding aside (``slack``, as a share of the objective). A step to the minimum of a
    quadratic keeps half. With little asked for, a step may leap across the minimum and
    back for ever, just a little lower each time.
    """

    def __init__(
        self,
        objective: Objective,
        q: Array,
        start: Point,
        constraints: Constraints | None = None,
        *,
        kept: float = 0.25,
        slack: float = 1e-12,
    ) -> None:
        self.objective = objective
        self.q = q
        self.point = start
        self.constraints = constraints
        self.kept = kept
        self.slack = slack
        self._active: NDArray[np.bool_] | None = None
        self._derivatives: tuple[Array, Array] | None = None

    def aim(self) -> None:
        """Compute the Newton step and the promised decrease, twice the gain."""
        u = self.point.u
        if self._derivatives is None:
            self._derivatives = self.objective.derivatives(self.point)
        gradient, hessian = self._derivatives
        gradient = gradient + self.q * u
        self.factor = factorize(hessian, self.q)
        if self.constraints is None:
            self.step = -dpotrs(self.factor, gradient, lower=1)[0]
        else:
            A = self.constraints.A
            b = self.constraints.b
            self.step, self._active = _constrained_step(
                self.factor, gradient, A, b - A @ u, self._active
            )
        self.promised = -float(gradient @ self.step)
        self.moves = self.objective.moves(self.step)
        self.reach = float(np.maximum.reduce(np.abs(self.moves)))

    def search(self, halvings: int | None = None) -> bool:
        """Halve the step until the decrease is sufficient; return whether it is."""
        before = self._penalized(self.point)
        scale = 1.0
        for _ in range(halvings or MAX_HALVINGS):
            self._trial = self.objective.after(
                self.point, scale * self.step, scale * self.moves
            )
            self.moved = scale * self.reach
            self.value = self._penalized(self._trial)
            if (
                self.value
                <= before - self.kept * scale * self.promised + self.slack * abs(before)
            ):
                return True
            scale *= 0.5
        return False

    def move(self) -> None:
        """Take the step."""
        self.point = self._trial
        self._derivatives = None

    def settled(self, tolerance: float) -> bool:
        """Whether the step was small, or its gain is below rounding errors."""
        rounding = ROUNDING if self.constraints is None else SOLVER_ROUNDING
        return self.promised <= rounding * abs(self.value) or self.moved <= tolerance

    def minimum(self, tolerance: float) -> Solution:
        """Iterate until the minimum of the quadratic is within ``tolerance``.

        Newton converges quadratically, so what is left then is of order
        ``tolerance**2``.
        """
        for iteration in range(1, MAX_ITERATIONS + 1):
            if self.reach <= tolerance:
                return self.expected(iteration)
            self.search()
            self.move()
            if self.settled(tolerance):
                break
            self.aim()
        return Solution(
            self.point.u,
            self.point.eta,
            self.value,
            self.factor,
            self.settled(tolerance),
            iteration,
        )

    def expected(self, iteration: int = 1) -> Solution:
        """The minimum of the quadratic about the point, which the step leads to."""
        u = self.point.u + self.step
        eta = self.point.eta + self.moves
        bent = self.promised  # the step's square in the Hessian, if it is free
        if self.constraints is not None:
            turned = self.factor.T @ self.step
            bent = float(turned @ turned)
        value = self._penalized(self.point) - self.promised + 0.5 * bent
        return Solution(u, eta, value, self.factor, True, iteration)

    def inverse_diagonal(self) -> Array:
        """Diagonal of the inverse of the Hessian."""
        return np.asarray(dpotri(self.factor, lower=1)[0].diagonal())

    def _penalized(self, point: Point) -> float:
        return point.local.value + 0.5 * float(self.q @ (point.u * point.u))


def minimize(
    problem: Objective,
    q: Array,
    start: Point,
    *,
    tolerance: float,
    constraints: Constraints | None = None,
) -> Solution:
    """Minimize ``F`` by damped Newton; see :class:`Newton`."""
    newton = Newton(problem, q, start, constraints)
    newton.aim()
    return newton.minimum(tolerance)


def fit_logistic(
    X: Array, positives: Array, negatives: Array, ridge: Array, start: Array
) -> Solution:
    """Logistic regression on a handful of features, to the last digits.

    Minimises ``sum positives log(1 + exp(-eta)) + negatives log(1 + exp(eta)) + ridge
    u^2 / 2`` with ``eta = X u``, divided by the sum of weights. A row may be part
    positive, part negative. (scikit-learn's stops at a gradient, takes no soft targets
    and warns where classes separate.)
    """
    total = float(positives.sum() + negatives.sum())
    positives = positives / total
    negatives = negatives / total
    problem = Problem(
        DenseDesign(X), np.zeros(len(X)), positives + negatives, positives, log_loss
    )
    return minimize(problem, ridge / total, problem.at(start), tolerance=LAST_DIGITS)


def factorize(gram: Array, q: Array) -> Array:
    """Cholesky factor of ``gram + diag(q)``, the diagonal lifted until it exists.

    Without a prior (``penalty="ridge"``) and with almost no smoothing the Hessian can
    be singular to rounding. A lift of the diagonal, in proportion to itself if that
    will do, only shortens the step.
    """
    H = gram.copy(order="F")
    entries = H.ravel(order="K")[:: len(H) + 1]
    entries += q
    factor, info = dpotrf(H, lower=1)
    if info == 0:
        return np.asarray(factor)
    diagonal = entries.copy()
    for unit in (diagonal, np.abs(diagonal).max()):
        for lift in LIFTS:
            entries[:] = diagonal + lift * unit
            factor, info = dpotrf(H, lower=1)
            if info == 0:
                return np.asarray(factor)
    raise np.linalg.LinAlgError("the Hessian has no Cholesky factor")


def inverse_root(factor: Array) -> Array:
    """``R`` with ``R R' = (L L')^{-1}`` for a lower Cholesky factor ``L``."""
    return np.asarray(dtrtrs(factor, np.eye(len(factor)), lower=1, trans=1)[0])


def _constrained_step(
    factor: Array,
    gradient: Array,
    A: Array,
    b: Array,
    guess: NDArray[np.bool_] | None = None,
) -> tuple[Array, NDArray[np.bool_]]:
    """Minimize ``1/2 d' H d + g' d`` subject to ``A d >= b``, where ``H = L L'``.

    With ``y = L' d + L^{-1} g`` this is the least-distance problem ``min |y|`` subject
    to ``G y >= h``, which non-negative least squares solves (Lawson and Hanson,
    *Solving Least Squares Problems*, chapter 23). ``guess`` are constraints that may be
    active.
    """
    v = dtrtrs(factor, gradient, lower=1)[0]
    G = dtrtrs(factor, A.T, lower=1)[0].T
    h = b + G @ v
    active = h > 0.0
    y = np.zeros_like(v)
    if active.any():
        scale = 1.0 / np.maximum(
            np.sqrt((G * G).sum(axis=1) + h * h), np.finfo(float).tiny
        )
        E = np.vstack([(G * scale[:, None]).T, h * scale])
        active = _active(E, active if guess is None or not guess.any() else guess)
        # The shortest y on the active constraints. What least squares leave over is in
        # proportion to it, but if small has few digits.
        y = scipy.linalg.lstsq(E[:-1, active].T, E[-1, active], lapack_driver="gelsy")[
            0
        ]
    return np.asarray(dtrtrs(factor, y - v, lower=1, trans=1)[0]), active


def _active(E: Array, guess: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The columns that non-negative least squares use for ``(0, ..., 0, 1)``.

    A few exchanges mostly lead there from a good guess. Else scipy finds them; to
    import its solver takes as long as many a fit.
    """
    f = np.zeros(len(E))
    f[-1] = 1.0
    used = guess
    for _ in range(FEW_EXCHANGES):
        x = np.zeros(E.shape[1])
        x[used] = scipy.linalg.lstsq(
            E[:, used], f, lapack_driver="gelsy", check_finite=False
        )[0]
        if np.any(x[used] <= 0.0):
            used = x > 0.0
            continue
        rest = f - E @ x
        gain = np.where(used, 0.0, rest @ E)
        if gain.max() <= NO_GAIN * float(np.sqrt(rest @ rest)):
            return used
        used = used | (gain == gain.max())
    return np.asarray(
        scipy.optimize.nnls(E, f, maxiter=EXCHANGES * E.shape[1])[0] > 0.0
    )
