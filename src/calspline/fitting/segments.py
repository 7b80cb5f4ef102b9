"""Random effects of segments: a common curve, and deviations of each segment.

Let ``f`` be the curve of all rows together, ``r(x)`` the directions in which curves may
differ (one, the line, and a few of least curvature), and ``s`` the segment of a row.
Its log-odds are

    eta = f(x) + r(x)' (beta + theta_s),    theta_s ~ N(0, diag(tau)),

where ``tau`` has a variance for intercepts, one for slopes and one for bends, which are
estimated from the data: effects are shrunk by their noise, and a kind of effect whose
variance vanishes is dropped. ``beta`` moves the common curve to where it
lies between the segments, however unequal they are in size. Weights of labels keep it
at zero as long as no segment differs (:mod:`calspline.fitting.label_weights`): then
every segment has the curve of all rows.

With ``D = diag(1 / tau)`` and ``H_s`` the information of a segment's rows, the Hessian
has the shape of an arrowhead. With ``A_s = (H_s + D)^{-1}`` and ``B_s = A_s H_s``,

    P = (sum_s H_s - H_s B_s + Q)^{-1}    is the covariance of beta,
    V_s = A_s + B_s P B_s'                that of theta_s,

so that work and memory are linear in the number of segments. The variances are found
along with the mode: theirs is a step of Fisher scoring on the Laplace approximation of
the marginal likelihood, as long as the secant of the last two says. Its fixed point is
that of MacKay (*Bayesian interpolation*, Neural Computation 4, 1992) and of Fellner and
Schall (*Estimation in generalized linear models with random effects*, Biometrika 78,
1991), ``tau = sum theta_s^2 / sum(1 - V_s / tau)``.

Several columns of segments have effects that are added up:
:mod:`calspline.fitting.segment_columns`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
import scipy
from numpy.typing import NDArray

from calspline._arrays import Array
from calspline.fitting.new_segments import new_variance
from calspline.fitting.smoothing import WEAK_PRIOR

START = 0.02
"""Variance that the search begins with."""
MAX_ROUNDS = 100
LARGEST_FALL = 0.95
"""Largest decrease of a variance per round, as a share of it."""
SHORTEST, LONGEST = 0.5, 2.0
"""Largest multiple of a step of the variances, relative to the last one..."""
SURE = 3
"""...which it does after so many rounds, when the effects are near their mode."""
NEGLIGIBLE = 0.05
"""A kind of effect is dropped below this number of effective parameters."""
SETTLED, CLOSE = 1e-6, 1e-2
"""Promised gains in nats at which the search ends, of the variances and of the
effects."""
MAX_HALVINGS = 30
ROUNDING = 1e-13
"""Of the Hessian, as a share: weights of 1e13 leave nothing of its small parts."""
LARGEST_VARIANCE = 100.0
"""Largest variance between segments, in log-odds; a search that ends there has not
converged."""

Codes = NDArray[np.intp]


class Summed(NamedTuple):
    """Loss and its derivatives by segment: a number, shapes (S, m) and (S, m, m)."""

    value: float
    gradient: Array
    hessian: Array


Likelihood = Callable[[Array], Summed]
"""Loss of all rows as a function of the segments' coordinates, of shape (S, m)."""


class LocalLoss(ABC):
    """The loss at some place, and its derivatives in the coordinates of each unit."""

    value: float
    gradient: Array

    @abstractmethod
    def times(self, V: Array) -> Array:
        """The Hessian of each unit times the same row of ``V``, of shape (n, m)."""

    @abstractmethod
    def hessian_sums(self, members: scipy.sparse.csr_array) -> Array:
        """The Hessians summed over the members of each segment, shape (S, m, m)."""


class JointLoss(NamedTuple):
    """The loss of units: rows, or rows that have the same segments in all columns.

    ``codes`` has the segment of each unit in each column, -1 where it has none, and
    ``at`` is the loss as a function of the coordinates of the units, an array of shape
    (n, m).
    """

    codes: list[Codes]
    at: Callable[[Array], LocalLoss]


class SegmentRows(ABC):
    """Rows with segments in one or more columns; code -1 stands for none."""

    codes: list[Codes]

    @abstractmethod
    def likelihood(self) -> Likelihood:
        """Loss as a function of the coordinates of the segments of the first column."""

    @abstractmethod
    def joint(self) -> JointLoss:
        """Loss as a function of the coordinates of rows."""

    @abstractmethod
    def balanced(self, m: int) -> Self:
        """Reweight rows so that no effect in ``m`` directions lowers the loss."""

    @abstractmethod
    def loss(self, beta: Array, thetas: Sequence[Array]) -> float:
        """The loss of rows that have a segment in any column, given all effects."""

    @abstractmethod
    def pooled_loss(self) -> float:
        """Loss of all rows without effects."""

    @property
    def sizes(self) -> list[int]:
        """How many segments each column has."""
        return [int(code.max(initial=-1)) + 1 for code in self.codes]

    def sorted_by(self, k: int) -> tuple[Codes, Codes]:
        """Rows sorted by the segments of column ``k``, and their starts."""
        code = self.codes[k]
        order = np.argsort(code, kind="stable")
        order = order[np.searchsorted(code[order], 0) :]
        return order, np.searchsorted(code[order], np.arange(self.sizes[k] + 1)).astype(
            np.intp
        )


class Components(NamedTuple):
    """Variance components of the directions.

    ``start`` has the variances to begin with; those of zero stay so. Of ``common``, -1
    is a direction with a weak prior, and ``usual`` are the means of exponential priors
    on the standard deviations.
    """

    kind: Codes
    common: Codes
    start: Array
    usual: Array


@dataclass(frozen=True)
class Effects:
    """What was learned of ``S`` segments in ``m`` directions.

    ``beta`` is the common effect, ``covariance`` its posterior, ``alone`` what that
    would be if no segment differed. ``theta`` (S, m) is the effect of each segment,
    ``sd`` how uncertain it is, given the common curve, and ``kept`` the share of its
    own estimate that it keeps. ``difference`` (S, m, m) is what the covariance of
    ``beta + theta_s`` has in excess of that of ``beta``. There is one of the
    ``variances`` for each kind of effect, zero where it was dropped; ``spread`` has
    those of the directions, and ``used`` says which directions there are effects in.
    ``new`` are the variances of an effect of a segment never seen, for limits: they
    allow for how uncertain the variances are.
    """

    beta: Array
    covariance: Array
    alone: Array
    theta: Array
    sd: Array
    difference: Array
    kept: Array
    variances: Array
    spread: Array
    new: Array
    used: NDArray[np.bool_]
    converged: bool
    n_iter: int

    def without(self, *, converged: bool) -> Effects:
        """No effects: every segment has the curve of all rows."""
        zeros = np.zeros_like
        return Effects(
            beta=zeros(self.beta),
            covariance=self.alone,
            alone=self.alone,
            theta=zeros(self.theta),
            sd=zeros(self.sd),
            difference=zeros(self.difference),
            kept=zeros(self.kept),
            variances=zeros(self.variances),
            spread=zeros(self.spread),
            new=self.new,
            used=zeros(self.used),
            converged=converged,
            n_iter=self.n_iter,
        )


class _State(NamedTuple):
    """A place in the search, and what was summed up there."""

    beta: Array
    theta: Array
    summed: Summed


def fit_effects(likelihood: Likelihood, S: int, components: Components) -> Effects:
    """Find variances, common effect and effects of ``S`` segments.

    The last of the variances is that of the common bends.
    """
    kind = components.kind
    common = components.common
    tau = components.start.copy()

    def state(beta: Array, theta: Array) -> _State:
        return _State(beta, theta, likelihood(beta + theta))

    now = state(np.zeros(len(kind)), np.zeros((S, len(kind))))
    converged, round_ = False, 0
    step = last = np.zeros(len(tau))
    for round_ in range(1, MAX_ROUNDS + 1):
        arrow = Arrowhead(now.summed.hessian, tau, components)
        now, promised = _descend(now, arrow, state)
        change, edf, gain = arrow.scoring(now.beta, now.theta, arrow.P)
        if promised < CLOSE and gain.sum() < SETTLED:
            converged = bool((tau < LARGEST_VARIANCE).all())
            # The step was so small that the Hessian is still that of the arrowhead.
            break
        # The secant: as far as the last step went, for as much as it took off what was
        # left to go.
        less = last - change
        times = np.ones(len(tau))
        if round_ > SURE:
            times[:] = LONGEST
            np.divide(step, less, out=times, where=step * less > 0.0)
        step = change * np.clip(times, SHORTEST, LONGEST)
        last = change
        new = np.where(tau > 0.0, np.minimum(tau * np.exp(step), LARGEST_VARIANCE), 0.0)
        new[(edf < NEGLIGIBLE) & (change < 0.0)] = 0.0
        dropped = ((new == 0.0) & (tau > 0.0)).any()
        tau[:] = new
        if dropped:
            left = np.where((common >= 0) & (tau[common] == 0.0), 0.0, now.beta)
            now = state(left, np.where(tau[kind] == 0.0, 0.0, now.theta))
    else:
        arrow = Arrowhead(now.summed.hessian, tau, components)
    sd, kept = arrow.shrinkage()
    used = (tau[kind] > 0.0) | (common < 0) | (tau[common] > 0.0)
    return Effects(
        beta=now.beta,
        covariance=arrow.P,
        alone=arrow.alone,
        theta=now.theta,
        sd=sd,
        difference=arrow.difference(arrow.P),
        kept=kept,
        variances=tau,
        spread=tau[kind],
        new=new_variances(now.theta, now.summed.gradient, now.summed.hessian, arrow),
        used=used,
        converged=converged,
        n_iter=round_,
    )


def new_variances(
    theta: Array, gradient: Array, hessian: Array, arrow: Arrowhead
) -> Array:
    """Variances of the effects of an unseen segment, beyond those of the common effect.

    A kind with several directions has the variance between segments that was found.
    """
    kind = arrow.components.kind
    variances = arrow.tau[kind]
    for j in range(len(kind)):
        if (kind == kind[j]).sum() > 1:
            continue
        h = hessian[:, j, j]
        step = np.divide(gradient[:, j], h, out=np.zeros(len(h)), where=h > 0.0)
        variance = new_variance(
            theta[:, j] - step, h, float(arrow.components.usual[kind[j]])
        )
        variances[j] = max(variances[j], variance - arrow.P[j, j])
    return variances


def _descend(
    now: _State, arrow: Arrowhead, state: Callable[[Array, Array], _State]
) -> tuple[_State, float]:
    """Newton step, halved until the objective decreases, and the promised decrease."""
    to_beta, to_theta, promised = arrow.step(now)
    before = arrow.objective(now)
    scale = 1.0
    for _ in range(MAX_HALVINGS):
        new = state(now.beta + scale * to_beta, now.theta + scale * to_theta)
        if arrow.objective(new) <= before - 1e-4 * scale * promised + 1e-12 * abs(
            before
        ):
            return new, promised
        scale *= 0.5
    return now, promised


def _block(H: Array, rows: Codes, columns: Codes) -> Array:
    """Some rows and columns of every matrix."""
    whole = len(rows) == len(columns) == H.shape[1]
    return H if whole else np.asarray(H[:, rows[:, None], columns])


def _inverse(H: Array) -> Array:
    """The inverses of matrices; of those that rounding makes singular, nearly."""
    try:
        return np.asarray(np.linalg.inv(H), dtype=np.float64)
    except np.linalg.LinAlgError:
        size = np.trace(H, axis1=-2, axis2=-1)[..., None, None]
        H = H + ROUNDING * size * np.eye(H.shape[-1])
        return np.asarray(np.linalg.inv(H), dtype=np.float64)


class Arrowhead:
    """The Hessian at a place, solved segment by segment."""

    def __init__(
        self, H: Array, tau: Array, components: Components, total: Array | None = None
    ) -> None:
        kind = components.kind
        common = components.common
        self.tau = tau
        self.components = components
        precision = np.divide(1.0, tau, out=np.zeros_like(tau), where=tau > 0.0)
        self.D = precision[kind]
        self.Q = np.where(common < 0, WEAK_PRIOR, precision[common])
        self.own = np.flatnonzero(tau[kind] > 0.0)
        self.moved = np.flatnonzero((common < 0) | (tau[common] > 0.0))
        self.bent = np.flatnonzero((common >= 0) & (self.Q > 0.0))
        own = self.own
        moved = self.moved
        self.A = _inverse(_block(H, own, own) + np.diag(self.D[own]))
        cross = _block(H, own, moved)
        self.B = self.A @ cross
        square = np.ix_(moved, moved)
        if total is None:
            total = H.sum(axis=0)
        total = total[square]
        explained = np.tensordot(cross, self.B, axes=([0, 1], [0, 1]))
        schur = total - explained + np.diag(self.Q[moved])
        self.inner = _inverse(0.5 * (schur + schur.T))
        self.P, self.alone = np.zeros((2, len(kind), len(kind)))
        self.P[square] = self.inner
        self.alone[square] = _inverse(total + np.diag(self.Q[moved]))

    def objective(self, now: _State) -> float:
        """The loss and its penalty."""
        penalty = self.Q @ now.beta**2 + ((now.theta**2) @ self.D).sum()
        return float(now.summed.value + 0.5 * penalty)

    def step(self, now: _State) -> tuple[Array, Array, float]:
        """Newton's step in beta and theta, and twice the decrease that it promises."""
        own = self.own
        moved = self.moved
        g_beta = (now.summed.gradient.sum(axis=0) + self.Q * now.beta)[moved]
        g_theta = now.summed.gradient[:, own] + self.D[own] * now.theta[:, own]
        to_beta = np.zeros(len(now.beta))
        to_theta = np.zeros_like(now.theta)
        left = g_beta - np.einsum("saj,sa->j", self.B, g_theta)
        to_beta[moved] = -self.inner @ left
        alone = np.einsum("sab,sb->sa", self.A, g_theta)
        to_theta[:, own] = -alone - self.B @ to_beta[moved]
        promised = -float(g_beta @ to_beta[moved] + (g_theta * to_theta[:, own]).sum())
        return to_beta, to_theta, promised

    def shrinkage(self) -> tuple[Array, Array]:
        """Standard deviations of the effects, and their shrinkage factors."""
        variance = np.einsum("sjj->sj", self.A)
        sd, kept = np.zeros((2, len(self.A), len(self.D)))
        sd[:, self.own] = np.sqrt(np.maximum(variance, 0.0))
        kept[:, self.own] = np.clip(1.0 - variance * self.D[self.own], 0.0, 1.0)
        return sd, kept

    def _spread(self, inner: Array) -> Array:
        """``B_s P B_s'``; the first product is that of one long matrix."""
        S, n, m = self.B.shape
        return np.asarray(
            (self.B.reshape(S * n, m) @ inner).reshape(S, n, m) @ self.B.swapaxes(1, 2)
        )

    def difference(self, P: Array, with_beta: Array | None = None) -> Array:
        """Excess of the covariance over ``P``: ``V_s + C_s + C_s'``.

        ``with_beta`` has the covariances ``C_s`` of theta_s and beta; of a single
        column they are ``- B_s P``.
        """
        m = len(self.D)
        inner = P[np.ix_(self.moved, self.moved)]
        V = np.zeros((len(self.A), m, m))
        V[:, self.own[:, None], self.own] = self.A + self._spread(inner)
        if with_beta is None:
            with_beta = np.zeros_like(V)
            with_beta[:, self.own[:, None], self.moved] = -self.B @ inner
        D = V + with_beta + with_beta.swapaxes(1, 2)
        return np.asarray(0.5 * (D + D.swapaxes(1, 2)))

    def scoring(
        self, beta: Array, theta: Array, P: Array
    ) -> tuple[Array, Array, Array]:
        """Change of log tau, effective parameters and gain in nats, by kind of effect.

        ``P`` is the covariance of beta.

        It is a step of Fisher scoring for tau, which is all that it takes where
        segments are alike in size; one for log tau goes much too far up. What would
        fall too far is held, and the others are solved for again.
        """
        kind = self.components.kind
        common = self.components.common
        root = np.sqrt(self.D[self.own])
        V = self.A + self._spread(self.inner)
        W = np.eye(len(self.own)) - root[:, None] * V * root
        n = len(self.tau)
        member = (kind[self.own] == np.arange(n)[:, None]).astype(np.float64)
        edf = member @ np.einsum("sjj->j", W)
        size = member @ (theta[:, self.own] ** 2 * self.D[self.own]).sum(axis=0)
        information = member @ np.einsum("sjk,sjk->jk", W, W) @ member.T
        bent = self.bent
        if len(bent):
            k = common[bent[0]]
            W_common = np.eye(len(bent)) - self.Q[bent[0]] * P[np.ix_(bent, bent)]
            edf[k] = np.trace(W_common)
            size[k] = self.Q[bent[0]] * (beta[bent] ** 2).sum()
            information[k, k] = (W_common**2).sum()
        prior = np.sqrt(self.tau) / self.components.usual
        score = size - edf - prior
        change = np.zeros(n)
        free = (np.diag(information) > 0.0) & (
            (self.tau < LARGEST_VARIANCE) | (score < 0.0)
        )
        information += np.diag(0.5 * prior)
        while free.any():
            rest = score - information @ np.where(free, 0.0, change)
            change[free] = np.linalg.solve(information[np.ix_(free, free)], rest[free])
            falls = free & (change < -LARGEST_FALL)
            if not falls.any():
                break
            change[falls] = -LARGEST_FALL
            free &= ~falls
        return np.log1p(change), edf, 0.25 * score * change
