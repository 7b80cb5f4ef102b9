"""Rows that belong together: how many independent ones they are worth.

Rows of a group may depend on each other; groups do not. A likelihood that takes all rows for independent still has its
maximum in the right place, but is too sure of it. The *design effect* says by how much: with ``r = y - p`` the
residuals of the line that fits all rows, ``D = (1, z)`` for each row, ``z`` being the log-odds or margin, and

    U_g = sum over group g of w r D,    J = sum over groups of U_g U_g',    V = sum over rows of w r^2 D D',

it is ``tr(V^{-1} J) / 2``. ``J`` is the variance of the score as the groups show it, ``V`` what it would be if each
row was a group of its own. The rows say as much as if ``deff`` copies of each had been counted, so all weights are
divided by it.

With few groups ``deff`` is itself uncertain, and taking too many rows for independent does more harm than taking too
few. So it is replaced by an upper confidence limit, by the infinitesimal jackknife over groups: giving a group a little
more weight moves ``deff`` in proportion to

    I_g = 1/2 (U_g' V^{-1} U_g - tr(V_g V^{-1} J V^{-1})),

so ``log deff`` has about the variance ``G / (G - 1) sum I_g^2 / deff^2``. The line has taken two of ``G`` degrees of
freedom, which a factor ``G / (G - 2)`` gives back. Where the rows of a group agree entirely, the design effect is the
mean weight of a row's group, ``sum W_g^2 / sum W_g``, which is never exceeded.

With more classes than two, ``deff`` is the mean over the classes, each against the rest, in proportion to their squared
residuals; its error is at most the mean of theirs.

References
----------
K.-Y. Liang and S. L. Zeger, *Longitudinal data analysis using generalized linear models*, Biometrika 73, 1986.
L. Kish, *Survey Sampling*, Wiley, 1965.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from calspline.arrays import Array, Counts
from calspline.fitting.newton import fit_logistic

LEVEL = 0.95
"""Confidence that the design effect is no larger."""
WEAK_RIDGE = 0.2
"""Of the line: it keeps one that separates the classes finite, and is worth less than one row."""
SINGULAR = 1e-10
PAIRS = ((0, 0), (0, 1), (1, 1))
MOST_LEFT_OUT = 200
"""Of more groups, several are left out together."""


@dataclass(frozen=True)
class PooledLine:
    """The line ``intercept + slope z`` of log-odds that fits all rows best, ``z = (x - middle) / unit``.

    ``x`` counts between ``low`` and ``high`` only.
    """

    low: float
    high: float
    intercept: float
    slope: float

    @property
    def middle(self) -> float:
        """Where ``z`` is 0."""
        return 0.5 * self.low + 0.5 * self.high

    @property
    def unit(self) -> float:
        """The length of a unit of ``z``, which runs from -1 to 1."""
        return 0.5 * self.high - 0.5 * self.low or 1.0

    @classmethod
    def fitted(cls, bins: Counts) -> PooledLine:
        """Fit to sorted values with counts."""
        low, high = float(bins.x[0]), float(bins.x[-1])
        flat = cls(low, high, 0.0, 0.0)
        X = np.column_stack([np.ones(len(bins)), (bins.x - flat.middle) / flat.unit])
        start = np.array([np.log(bins.base_rate / (1.0 - bins.base_rate)), 0.0])
        intercept, slope = fit_logistic(X, bins.positives, bins.negatives, np.full(2, WEAK_RIDGE), start).u
        return cls(low, high, float(intercept), float(slope))

    def sums(self, x: Array, positive: NDArray[np.bool_], w: Array | None, group: NDArray[np.intp]) -> Array:
        """``sum w r (1, z)`` and ``sum w r^2 (1, z, z^2)`` of each group: shape (5, G)."""
        z = (np.clip(x, self.low, self.high) - self.middle) / self.unit
        r = positive - scipy.special.expit(self.intercept + self.slope * z)
        wr = r if w is None else w * r
        terms = (wr, wr * z, wr * r, wr * r * z, wr * r * z * z)
        return np.array([np.bincount(group, weights=term) for term in terms])


@dataclass(frozen=True)
class GroupMoments:
    """What groups say about one class: the sum over groups of six numbers ``a`` and of their products ``a a'``.

    The numbers of a group are the entries of ``U_g U_g'`` and of ``V_g``, (0, 0), (0, 1) and (1, 1) of each.
    """

    first: Array
    second: Array

    @classmethod
    def of(cls, sums: Array) -> GroupMoments:
        """From the sums of each group, shape (5, G)."""
        a = np.vstack([sums[0] ** 2, sums[0] * sums[1], sums[1] ** 2, sums[2:]])
        return cls(a.sum(axis=1), a @ a.T)

    def design_effect(self) -> tuple[float, float]:
        """Estimate and standard error."""
        J, V = (np.array([[a, b], [b, c]]) for a, b, c in (self.first[:3], self.first[3:]))
        inverse = np.linalg.pinv(V, rcond=SINGULAR, hermitian=True)
        rank = max(round(float(np.trace(inverse @ V))), 1)
        middle = inverse @ J @ inverse
        # The off-diagonal entry of a symmetric matrix counts twice.
        influence = [(2.0 if i != j else 1.0) * inverse[i, j] for i, j in PAIRS]
        influence += [-(2.0 if i != j else 1.0) * middle[i, j] for i, j in PAIRS]
        variance = float(np.array(influence) @ self.second @ np.array(influence))
        return float(np.trace(inverse @ J)) / rank, float(np.sqrt(max(variance, 0.0))) / rank


@dataclass(frozen=True)
class GroupSizes:
    """How many groups and rows there are, and the mean weight of a row's group."""

    n_groups: int
    n_rows: int
    heaviest: float

    @classmethod
    def of(cls, group: NDArray[np.intp], weight: Array | None) -> GroupSizes:
        """Of rows, given the number of each row's group."""
        sizes = np.bincount(group, weights=weight).astype(np.float64)
        return cls(len(sizes), len(group), float(sizes @ sizes / sizes.sum()))


def design_effect(classes: Sequence[GroupMoments], sizes: GroupSizes) -> float:
    """The upper confidence limit of the design effect, at least 1 and at most the mean weight of a row's group.

    It is 1 if each row is a group of its own.
    """
    n_groups, heaviest = sizes.n_groups, sizes.heaviest
    if n_groups == sizes.n_rows:
        return 1.0
    share = np.array([each.first[3] for each in classes])
    estimate, error = np.array([each.design_effect() for each in classes]).T @ share
    if not estimate > 0.0 or n_groups <= 2:
        return max(heaviest, 1.0)
    spread = error / estimate * np.sqrt(n_groups / (n_groups - 1.0))
    corrected = estimate / share.sum() * n_groups / (n_groups - 2.0)
    upper = np.log(corrected) + scipy.special.stdtrit(n_groups - 1.0, LEVEL) * spread
    return float(np.exp(np.clip(upper, 0.0, np.log(max(heaviest, 1.0)))))


class Parts(NamedTuple):
    """Weights of positives and negatives at each bin, a row for each part of the data."""

    positives: Array
    negatives: Array


def deal_groups(weights: Array, k: int, seed: int) -> NDArray[np.intp]:
    """The part of each group, when whole groups are dealt out to ``k`` parts: heavy ones first."""
    shuffled = np.random.default_rng([seed, 1]).permutation(len(weights))
    order = shuffled[np.argsort(-weights[shuffled], kind="stable")]
    part = np.empty(len(weights), dtype=np.intp)
    part[order] = np.arange(len(weights)) % k
    return part
