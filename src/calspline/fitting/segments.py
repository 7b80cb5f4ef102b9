"""Segments that share strength: a common curve, and for each segment an intercept, a slope and a bend of its own.

Let ``f`` be the curve of all rows together, ``r(x)`` the directions in which curves may differ (one, the line, and a
few of least curvature), and ``s`` the segment of a row. Its log-odds are

    eta = f(x) + r(x)' (beta + theta_s),    theta_s ~ N(0, diag(tau)),

where ``tau`` has a variance for intercepts, one for slopes and one for bends, which are learnt from the data: so an
effect is kept as far as it stands out from chance, and a kind of effect that never does is dropped. ``beta`` moves the
common curve to where it lies between the segments, however unequal they are in size. A tilt of the likelihood keeps it
at zero as long as no segment differs: then every segment has the curve of all rows, to the last bit.

With ``D = diag(1 / tau)`` and ``H_s`` the information of a segment's rows, the Hessian has the shape of an arrowhead.
With ``A_s = (H_s + D)^{-1}`` and ``B_s = A_s H_s``,

    P = (sum_s H_s - H_s B_s + Q)^{-1}    is the covariance of beta,
    V_s = A_s + B_s P B_s'                that of theta_s,

so that work and memory are linear in the number of segments. The variances are found along with the mode: theirs is
a step of Fisher scoring on the Laplace approximation of the marginal likelihood, as long as the secant of the last two
says. Its fixed point is that of MacKay (*Bayesian interpolation*, Neural Computation 4, 1992) and of Fellner and Schall
(*Estimation in generalized linear models with random effects*, Biometrika 78, 1991),
``tau = sum theta_s^2 / sum(1 - V_s / tau)``.

Several columns of segments have effects that are added up. They are fitted in turn, given the others.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from calspline.arrays import Array
from calspline.fitting.smoothing import WEAK_PRIOR

START = 0.02
"""Variance that the search begins with."""
MAX_ROUNDS = 100
LARGEST_FALL = 0.95
"""Of a variance in a round, as a share of it."""
SHORTEST, LONGEST = 0.5, 2.0
"""How many steps of the variances may be taken at once, as far as the last one says..."""
SURE = 3
"""...which it does after so many rounds, when the effects are near their mode."""
NEGLIGIBLE = 0.05
"""Effective parameters, of all segments together, below which a kind of effect is dropped."""
SETTLED, CLOSE = 1e-7, 1e-4
"""Nats that a step of the variances, and one of the effects, still promise when the search ends."""
MAX_HALVINGS = 30
SWEEPS = 30
"""How often each of several columns may have its turn."""
LARGEST_VARIANCE = 25.0
STILL = 1e-5
"""Change of an effect, in log-odds, below which the turns of several columns end."""

Codes = NDArray[np.intp]


class Summed(NamedTuple):
    """A loss, and its derivatives summed by segment: a number, shapes (S, m) and (S, m, m)."""

    value: float
    gradient: Array
    hessian: Array


Likelihood = Callable[[Array], Summed]
"""The loss of all rows, given the coordinates of each segment: an array of shape (S, m)."""


class SegmentRows(ABC):
    """Rows with the segments of one column or several: ``codes`` has those of each row, -1 where it has none."""

    codes: list[Codes]

    @abstractmethod
    def likelihood(self, k: int, thetas: Sequence[Array] = ()) -> Likelihood:
        """The loss as a function of the coordinates of column ``k``, given the effects of the others, if any."""

    @property
    def sizes(self) -> list[int]:
        """How many segments each column has."""
        return [int(code.max(initial=-1)) + 1 for code in self.codes]

    def sorted_by(self, k: int) -> tuple[Codes, Codes]:
        """Rows sorted by the segments of column ``k``, without those that have none, and where each segment begins."""
        code = self.codes[k]
        order = np.argsort(code, kind="stable")
        order = order[np.searchsorted(code[order], 0) :]
        return order, np.searchsorted(code[order], np.arange(self.sizes[k] + 1)).astype(np.intp)


class Components(NamedTuple):
    """Which variance each direction has: ``kind`` of segments' effects, ``common`` of the common one's.

    ``start`` has the variances to begin with; those of zero stay so. Of ``common``, -1 is a direction with a weak
    prior, and ``usual`` are the means of exponential priors on the standard deviations.
    """

    kind: Codes
    common: Codes
    start: Array
    usual: Array


@dataclass(frozen=True)
class Effects:
    """What was learnt of ``S`` segments in ``m`` directions.

    ``beta`` is the common effect, ``covariance`` its posterior, ``alone`` what that would be if no segment differed.
    ``theta`` (S, m) is the effect of each segment, ``sd`` how uncertain it is, given the common curve, and ``kept`` the
    share of its own estimate that it keeps. ``difference`` (S, m, m) is what the covariance of ``beta + theta_s`` has
    in excess of that of ``beta``. There is one of the ``variances`` for each kind of effect, zero where it was dropped;
    ``spread`` has those of the directions, and ``used`` says which directions there are effects in.
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
    used: NDArray[np.bool_]
    converged: bool
    n_iter: int


class _State(NamedTuple):
    """A place in the search, and what was summed up there."""

    beta: Array
    theta: Array
    summed: Summed


def fit_columns(columns: SegmentRows, components: Components) -> list[Effects]:
    """The effects of each column of segments, all added up.

    Columns are fitted in turn, given the effects of the others, until nothing moves any more. All share one common
    effect; the last turn's is that of all.
    """
    m, sizes = len(components.kind), columns.sizes
    alone = [columns.likelihood(k) for k in range(len(sizes))]
    thetas = [np.zeros((S, m)) for S in sizes]
    before = [likelihood(theta) for likelihood, theta in zip(alone, thetas, strict=True)]
    pulls = [_pull(summed) for summed in before]
    found: list[Effects] = []
    for sweep in range(SWEEPS):
        moved = 0.0
        for k in range(len(sizes)):
            start = replace(found[k], beta=found[k - 1].beta) if sweep else None
            first = sweep == k == 0
            likelihood = alone[k] if first else columns.likelihood(k, thetas)
            effects = fit_effects(likelihood, pulls[k], components, start=start, at=before[k] if first else None)
            moved = max(moved, float(np.abs(effects.theta - thetas[k]).max(initial=0.0)))
            thetas[k] = effects.theta
            found[k : k + 1] = [effects]
        if len(sizes) == 1 or moved < STILL:
            break
    return found


def fit_effects(
    likelihood: Likelihood,
    pull: Array,
    components: Components,
    *,
    start: Effects | None = None,
    at: Summed | None = None,
) -> Effects:
    """Find variances, common effect and effects of segments.

    ``pull`` has a row for each segment, which tilts its loss: see :func:`_pull`. The last of the variances is that of
    the common bends. ``at`` is the loss at the start, if it is known.
    """
    kind, common = components.kind, components.common
    tau = (components.start if start is None else start.variances).copy()
    beta = np.zeros(len(kind)) if start is None else start.beta
    theta = np.zeros((len(pull), len(kind))) if start is None else start.theta

    def state(beta: Array, theta: Array, at: Summed | None = None) -> _State:
        value, gradient, hessian = likelihood(beta + theta) if at is None else at
        return _State(beta, theta, Summed(value - float((pull * (beta + theta)).sum()), gradient - pull, hessian))

    now = state(beta, theta, at)
    converged, round_ = False, 0
    step = last = np.zeros(len(tau))
    for round_ in range(1, MAX_ROUNDS + 1):
        arrow = _Arrowhead(now.summed.hessian, tau, components)
        now, promised = _descend(now, arrow, state)
        change, edf, gain = arrow.scoring(now.beta, now.theta)
        if promised < CLOSE and gain < SETTLED:
            converged = True
            break
        # The secant: as far as the last step went, for as much as it took off what was left to go.
        less = last - change
        times = np.divide(step, less, out=np.full(len(tau), LONGEST), where=step * less > 0.0) if round_ > SURE else 1.0
        step, last = change * np.clip(times, SHORTEST, LONGEST), change
        new = np.where(tau > 0.0, np.minimum(tau * np.exp(step), LARGEST_VARIANCE), 0.0)
        new[(edf < NEGLIGIBLE) & (change < 0.0)] = 0.0
        dropped = ((new == 0.0) & (tau > 0.0)).any()
        tau[:] = new
        if dropped:
            left = np.where((common >= 0) & (tau[common] == 0.0), 0.0, now.beta)
            now = state(left, np.where(tau[kind] == 0.0, 0.0, now.theta))
    arrow = _Arrowhead(now.summed.hessian, tau, components)
    sd, kept = arrow.shrinkage()
    used = (tau[kind] > 0.0) | (common < 0) | (tau[common] > 0.0)
    return Effects(
        now.beta, arrow.P, arrow.alone, now.theta, sd, arrow.difference(), kept, tau, tau[kind], used, converged, round_
    )


def _pull(before: Summed) -> Array:
    """The gradient of the loss without any effects, shared out to the segments by their information.

    The curve of all rows is no minimum of their loss: it was held back. Less this gradient, it is.
    """
    _, gradient, hessian = before
    share = hessian[:, 0, 0] / hessian[:, 0, 0].sum()
    return np.asarray(share[:, None] * gradient.sum(axis=0))


def _descend(now: _State, arrow: _Arrowhead, state: Callable[[Array, Array], _State]) -> tuple[_State, float]:
    """Along the Newton step, halved until the objective falls; and twice the decrease that the step promised."""
    to_beta, to_theta, promised = arrow.step(now)
    before, scale = arrow.objective(now), 1.0
    for _ in range(MAX_HALVINGS):
        new = state(now.beta + scale * to_beta, now.theta + scale * to_theta)
        if arrow.objective(new) <= before - 1e-4 * scale * promised + 1e-12 * abs(before):
            return new, promised
        scale *= 0.5
    return now, promised


def _block(H: Array, rows: Codes, columns: Codes) -> Array:
    """Some rows and columns of every matrix."""
    whole = len(rows) == len(columns) == H.shape[1]
    return H if whole else np.asarray(H[:, rows[:, None], columns])


class _Arrowhead:
    """The Hessian at a place, solved segment by segment."""

    def __init__(self, H: Array, tau: Array, components: Components) -> None:
        kind, common = components.kind, components.common
        self.tau, self.components = tau, components
        precision = np.divide(1.0, tau, out=np.zeros_like(tau), where=tau > 0.0)
        self.D, self.Q = precision[kind], np.where(common < 0, WEAK_PRIOR, precision[common])
        self.own = np.flatnonzero(tau[kind] > 0.0)
        self.moved = np.flatnonzero((common < 0) | (tau[common] > 0.0))
        own, moved = self.own, self.moved
        self.A = np.linalg.inv(_block(H, own, own) + np.diag(self.D[own]))
        cross = _block(H, own, moved)
        self.B = self.A @ cross
        total = H.sum(axis=0)[np.ix_(moved, moved)]
        schur = total - np.tensordot(cross, self.B, axes=([0, 1], [0, 1])) + np.diag(self.Q[moved])
        self.inner = np.linalg.inv(0.5 * (schur + schur.T))
        self.P, self.alone = np.zeros((2, len(kind), len(kind)))
        self.P[np.ix_(moved, moved)] = self.inner
        self.alone[np.ix_(moved, moved)] = np.linalg.inv(total + np.diag(self.Q[moved]))

    def objective(self, now: _State) -> float:
        """The loss and its penalty."""
        return float(now.summed.value + 0.5 * (self.Q @ now.beta**2 + ((now.theta**2) @ self.D).sum()))

    def step(self, now: _State) -> tuple[Array, Array, float]:
        """Newton's step in beta and theta, and twice the decrease that it promises."""
        own, moved = self.own, self.moved
        g_beta = (now.summed.gradient.sum(axis=0) + self.Q * now.beta)[moved]
        g_theta = now.summed.gradient[:, own] + self.D[own] * now.theta[:, own]
        to_beta, to_theta = np.zeros(len(now.beta)), np.zeros_like(now.theta)
        to_beta[moved] = -self.inner @ (g_beta - np.einsum("saj,sa->j", self.B, g_theta))
        to_theta[:, own] = -np.einsum("sab,sb->sa", self.A, g_theta) - self.B @ to_beta[moved]
        promised = -float(g_beta @ to_beta[moved] + (g_theta * to_theta[:, own]).sum())
        return to_beta, to_theta, promised

    def shrinkage(self) -> tuple[Array, Array]:
        """Standard deviations of effects, given the common one, and what is kept of each segment's own estimate."""
        sd, kept = np.zeros((2, len(self.A), len(self.D)))
        sd[:, self.own] = np.sqrt(np.einsum("sjj->sj", self.A))
        kept[:, self.own] = np.clip(1.0 - np.einsum("sjj->sj", self.A) * self.D[self.own], 0.0, 1.0)
        return sd, kept

    def _spread(self) -> Array:
        """``B_s P B_s'``, the first product as that of one long matrix, which is quicker."""
        S, n, m = self.B.shape
        return np.asarray((self.B.reshape(S * n, m) @ self.inner).reshape(S, n, m) @ self.B.swapaxes(1, 2))

    def difference(self) -> Array:
        """What the covariance of ``beta + theta_s`` has in excess of ``P``: ``V_s - B_s P - P B_s'``."""
        m = len(self.D)
        V, BP = np.zeros((2, len(self.A), m, m))
        V[:, self.own[:, None], self.own] = self.A + self._spread()
        BP[:, self.own[:, None], self.moved] = self.B @ self.inner
        D = V - BP - BP.swapaxes(1, 2)
        return np.asarray(0.5 * (D + D.swapaxes(1, 2)))

    def scoring(self, beta: Array, theta: Array) -> tuple[Array, Array, float]:
        """The change of log tau, the effective parameters of each kind, and the nats that are gained.

        It is a step of Fisher scoring for tau, which is all that it takes where segments are alike in size; one for
        log tau goes much too far up. What would fall too far is held, and the others are solved for again.
        """
        kind, common = self.components.kind, self.components.common
        root = np.sqrt(self.D[self.own])
        V = self.A + self._spread()
        W = np.eye(len(self.own)) - root[:, None] * V * root
        n = len(self.tau)
        member = (kind[self.own] == np.arange(n)[:, None]).astype(np.float64)
        edf = member @ np.einsum("sjj->j", W)
        size = member @ (theta[:, self.own] ** 2 * self.D[self.own]).sum(axis=0)
        information = member @ np.einsum("sjk,sjk->jk", W, W) @ member.T
        bent = np.flatnonzero((common >= 0) & (self.Q > 0.0))
        if len(bent):
            k = common[bent[0]]
            W_common = np.eye(len(bent)) - self.Q[bent[0]] * self.P[np.ix_(bent, bent)]
            edf[k], size[k] = np.trace(W_common), self.Q[bent[0]] * (beta[bent] ** 2).sum()
            information[k, k] = (W_common**2).sum()
        prior = np.sqrt(self.tau) / self.components.usual
        score = size - edf - prior
        change = np.zeros(n)
        free = (np.diag(information) > 0.0) & ((self.tau < LARGEST_VARIANCE) | (score < 0.0))
        information += np.diag(0.5 * prior)
        while free.any():
            rest = score - information @ np.where(free, 0.0, change)
            change[free] = np.linalg.solve(information[np.ix_(free, free)], rest[free])
            falls = free & (change < -LARGEST_FALL)
            if not falls.any():
                break
            change[falls] = -LARGEST_FALL
            free &= ~falls
        return np.log1p(change), edf, 0.25 * float(score @ change)
