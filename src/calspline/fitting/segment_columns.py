"""Several columns of segments, whose effects are added up.

With ``theta_k`` the effects of column ``k`` and ``s_k`` the segment that a row has
there, the log-odds of a row are ``f(x) + r(x)' (beta + sum_k theta_k[s_k])``. The mode
of all effects is found together, by Newton's method: it does not depend on the order of
columns, however much they are confounded. The linear equations of a step have no
arrowhead; they are solved by conjugate gradients, preconditioned with the blocks of the
segments, so that work and memory are linear in rows and segments.

The variances of all columns are updated at once, each from the covariance of its
effects given those of the other columns. A kind of effect may look superfluous until
the others are in place: effects of two confounded columns may cancel out. So variances
may at first only rise, and none is set to zero before all have settled.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from calspline._arrays import Array
from calspline.fitting.segments import (
    CLOSE,
    LARGEST_VARIANCE,
    LONGEST,
    MAX_HALVINGS,
    MAX_ROUNDS,
    NEGLIGIBLE,
    SETTLED,
    SHORTEST,
    SURE,
    Arrowhead,
    Codes,
    Components,
    Effects,
    LocalLoss,
    SegmentRows,
    fit_effects,
    new_variances,
)
from calspline.fitting.validation import is_worse_than_start

TOLERANCE = 1.0
"""Nats of all rows by which effects may be worse than none: labels were weighted."""
LEAST_VARIANCE = 1e-6
"""Smallest variance between segments during the search, so that an effect may
return."""
ROUGH, FINE, MAX_SOLVER_STEPS = 1e-3, 1e-8, 500
"""Residuals of conjugate gradients relative to the start, and the most steps."""
POLISHED, MAX_POLISHING = 1e-13, 20
"""Promised decrease at which Newton stops, relative to the loss, and the most steps."""


def fit_columns(rows: SegmentRows, components: Components) -> list[Effects]:
    """The effects of each column of segments; all share one common effect."""
    balanced = rows.balanced(len(components.kind))
    if len(rows.codes) == 1:
        effects = [fit_effects(balanced.likelihood(), rows.sizes[0], components)]
    else:
        effects = _JointSearch(balanced, components).run()
    if any(each.spread.any() for each in effects):
        return effects
    return [each.without(converged=each.converged) for each in effects]


def check_against_pooled(rows: SegmentRows, effects: list[Effects]) -> list[Effects]:
    """The effects; none, not converged, if rows have a higher loss than without any."""
    if not any(each.spread.any() for each in effects):
        return effects
    loss = rows.loss(effects[0].beta, [each.theta for each in effects])
    if is_worse_than_start(loss, rows.pooled_loss(), TOLERANCE):
        return [each.without(converged=False) for each in effects]
    return effects


@dataclass
class _Place:
    """Coordinates of all effects, one column after the other, and the loss there."""

    x: Array
    local: LocalLoss


class _JointSearch:
    """The search for the effects and the variances of all columns."""

    def __init__(self, rows: SegmentRows, components: Components) -> None:
        self.joint = rows.joint()
        self.components = components
        self.m = len(components.kind)
        self.sizes = rows.sizes
        self.members = membership(self.joint.codes, self.sizes)
        self.units = self.members.T.tocsr()
        ends = np.cumsum([1, *self.sizes]).tolist()
        self.columns = [slice(*pair) for pair in itertools.pairwise(ends)]
        self.tau = np.tile(components.start, (len(self.sizes), 1))

    def split(self, x: Array) -> tuple[Array, list[Array]]:
        """The common effect, and those of each column."""
        return x[0], [x[column] for column in self.columns]

    def at(self, x: Array) -> _Place:
        """The loss at coordinates of all effects."""
        return _Place(x, self.joint.at(self.units @ x))

    def run(self) -> list[Effects]:
        """Alternate steps of effects and variances until both have settled."""
        now = self.at(np.zeros((self.members.shape[0], self.m)))
        converged = False
        rising = True
        step = last = np.zeros_like(self.tau)
        round_ = 0
        for round_ in range(1, MAX_ROUNDS + 1):
            system = _System(self, now)
            now, promised = system.descend(ROUGH)
            change, edf, gain = system.scoring(now.x)
            falls = change < 0.0
            if rising:
                change = np.where(falls, 0.0, change)
                gain = np.where(falls, 0.0, gain)
            held = falls & (self.tau <= LEAST_VARIANCE)
            gain = np.where(held, 0.0, gain)
            if promised < CLOSE and gain.sum() < SETTLED:
                if rising:
                    rising = False
                    step = last = np.zeros_like(self.tau)
                    continue
                needless = (edf < NEGLIGIBLE) & (self.tau > 0.0)
                if needless.any():
                    now = self.drop(now, needless)
                    continue
                converged = bool((self.tau < LARGEST_VARIANCE).all())
                break
            # The secant, as of a single column.
            less = last - change
            far = np.full_like(change, LONGEST)
            times = np.divide(step, less, out=far, where=step * less > 0.0)
            if round_ > SURE:
                step = change * np.clip(times, SHORTEST, LONGEST)
            else:
                step = change
            last = change
            new = np.clip(self.tau * np.exp(step), LEAST_VARIANCE, LARGEST_VARIANCE)
            self.tau = np.where(self.tau > 0.0, new, 0.0)
        if not converged:
            now = self.drop(now, (edf < NEGLIGIBLE) & (self.tau > 0.0))
        return self.finish(now, converged, round_)

    def drop(self, now: _Place, needless: NDArray[np.bool_]) -> _Place:
        """Set variances, and the effects that have them, to zero."""
        self.tau = np.where(needless, 0.0, self.tau)
        return self.at(np.where(_System(self, now).active, now.x, 0.0))

    def finish(self, now: _Place, converged: bool, n_iter: int) -> list[Effects]:
        """The mode to the last digits, and its covariances."""
        for _ in range(MAX_POLISHING):
            system = _System(self, now)
            now, promised = system.descend(FINE)
            if promised <= POLISHED * abs(now.local.value):
                break
        system = _System(self, now)
        beta, thetas = self.split(now.x)
        moved = system.arrows[0].moved
        covariances = np.zeros((self.m, *now.x.shape))
        for j in moved:
            unit = np.zeros_like(now.x)
            unit[0, j] = 1.0
            covariances[j] = system.solve(unit, ROUGH)
        gradients = self.split(self.members @ now.local.gradient)[1]
        P = covariances[:, 0]
        P = 0.5 * (P + P.T)
        across = [self.split(row)[1] for row in covariances]
        effects = []
        for k, (arrow, theta) in enumerate(zip(system.arrows, thetas, strict=True)):
            sd, kept = arrow.shrinkage()
            with_beta = np.stack([each[k] for each in across], axis=2)
            tau = self.tau[k]
            kind = self.components.kind
            common = self.components.common
            used = (tau[kind] > 0.0) | (common < 0) | (tau[common] > 0.0)
            effects.append(
                Effects(
                    beta=beta,
                    covariance=P,
                    alone=arrow.alone,
                    theta=theta,
                    sd=sd,
                    difference=arrow.difference(P, with_beta),
                    kept=kept,
                    variances=tau,
                    spread=tau[kind],
                    new=new_variances(theta, gradients[k], system.hessians[k], arrow),
                    used=used,
                    converged=converged,
                    n_iter=n_iter,
                )
            )
        return effects


def membership(codes: list[Codes], sizes: Sequence[int]) -> scipy.sparse.csr_array:
    """Which units are in a segment: a row for all units, and one for each segment.

    The segments are those of one column after the other; a code of -1 is in none.
    """
    n = len(codes[0])
    rows = [np.zeros(n, dtype=np.intp)]
    columns = [np.arange(n)]
    first = 1
    for code, size in zip(codes, sizes, strict=True):
        known = np.flatnonzero(code >= 0)
        rows.append(first + code[known])
        columns.append(known)
        first += size
    entries = np.concatenate(rows), np.concatenate(columns)
    return scipy.sparse.csr_array((np.ones(len(entries[0])), entries), (first, n))


class _System:
    """The Hessian of the loss and the penalty at a place."""

    def __init__(self, search: _JointSearch, place: _Place) -> None:
        self.search = search
        self.place = place
        self.local = place.local
        sums = self.local.hessian_sums(search.members)
        common, self.hessians = search.split(sums)
        self.arrows = [
            Arrowhead(H, tau, search.components, common)
            for H, tau in zip(self.hessians, search.tau, strict=True)
        ]
        self.penalty = np.zeros(place.x.shape)
        self.active = np.zeros(place.x.shape, dtype=np.bool_)
        first = self.arrows[0]
        moved = first.moved
        self.penalty[0] = first.Q
        self.active[0, moved] = True
        square = np.ix_(moved, moved)
        block = common[square] + np.diag(first.Q[moved])
        self.inner = np.zeros((search.m, search.m))
        self.inner[square] = np.linalg.inv(block)
        for column, arrow in zip(search.columns, self.arrows, strict=True):
            self.penalty[column] = arrow.D
            self.active[column, arrow.own] = True

    def times(self, v: Array) -> Array:
        """The Hessian times a vector of all coordinates."""
        by_unit = self.local.times(self.search.units @ v)
        image = self.search.members @ by_unit + self.penalty * v
        return np.where(self.active, image, 0.0)

    def precondition(self, v: Array) -> Array:
        """The inverses of the blocks times a vector."""
        solved = np.zeros_like(v)
        solved[0] = self.inner @ v[0]
        for column, arrow in zip(self.search.columns, self.arrows, strict=True):
            theta = v[column, arrow.own, None]
            solved[column, arrow.own] = (arrow.A @ theta)[:, :, 0]
        return solved

    def solve(self, b: Array, accuracy: float) -> Array:
        """Conjugate gradients, up to a residual relative to the initial one."""
        b = np.where(self.active, b, 0.0)
        x = np.zeros_like(b)
        residual = b
        z = self.precondition(residual)
        direction = z
        rho = start = float(np.vdot(residual, z))
        for _ in range(MAX_SOLVER_STEPS):
            if rho <= accuracy**2 * start:
                break
            image = self.times(direction)
            length = rho / float(np.vdot(direction, image))
            x = x + length * direction
            residual = residual - length * image
            z = self.precondition(residual)
            before = rho
            rho = float(np.vdot(residual, z))
            direction = z + (rho / before) * direction
        return x

    def objective(self, place: _Place) -> float:
        """The loss and its penalty."""
        return place.local.value + 0.5 * float(np.vdot(self.penalty, place.x**2))

    def descend(self, accuracy: float) -> tuple[_Place, float]:
        """Newton step, halved until the objective decreases."""
        now = self.place
        gradient = self.search.members @ self.local.gradient + self.penalty * now.x
        step = self.solve(-gradient, accuracy)
        promised = -float(np.vdot(gradient, step))
        before = self.objective(now)
        scale = 1.0
        for _ in range(MAX_HALVINGS):
            new = self.search.at(now.x + scale * step)
            enough = 1e-4 * scale * promised - 1e-12 * abs(before)
            if self.objective(new) <= before - enough:
                return new, promised
            scale *= 0.5
        return now, promised

    def scoring(self, x: Array) -> tuple[Array, Array, Array]:
        """Changes of log variances, effective parameters and gains, by column."""
        beta, thetas = self.search.split(x)
        P = np.mean([arrow.P for arrow in self.arrows], axis=0)
        found = []
        for arrow, theta in zip(self.arrows, thetas, strict=True):
            found.append(arrow.scoring(beta, theta, P))
        changes, edfs, gains = (np.array(each) for each in zip(*found, strict=True))
        return changes, edfs, gains
