"""Dependent rows in groups: the effective sample size.

Rows of a group may depend on each other; groups do not. A likelihood that takes all
rows for independent is over-confident, and one large group may dominate the curve. So
the rows of a group of weight ``W_g`` count for

    W_g / (1 + rho (W_g - 1))

of them (Kish 1965): all of them if they are independent, one if they agree entirely. If
groups are equal in size, this divides all weights by the same *design effect*; else
large groups count for less per row, as they do in generalized estimating equations with
an exchangeable correlation.

``rho`` is estimated from the residuals ``r = y - p`` of the line that fits all rows,
once for the level and once for the slope, ``D = 1`` and ``D = z``, with ``z`` the
standardised log-odds or margin. With ``v = p (1 - p)`` and sums over the rows of a
group

    U_g = sum w r D,    V_g = sum w v D^2,    C_g = sum w sqrt(v) |D|,

the model is ``var U_g = S_g = phi (V_g + rho (C_g^2 - V_g))``; the dispersion ``phi``,
the sum of ``w r^2 D^2`` over that of ``w v D^2``, corrects for what the line gets
wrong. A line moved by ``(a, b)`` changes ``U_g`` by ``a sum w v D + b sum w v z D``:
this is fitted to the ``U_g`` by weighted least squares, with weights ``1 / S_g``, and
taken off. So a group that the line of all rows goes through, as it has most of them,
does not hide how far groups differ. With ``e_g`` the standardised residuals and ``h_g``
their leverages, ``rho`` solves

    sum q_g e_g^2 = sum q_g (1 - h_g),    q_g = (C_g^2 - V_g) / S_g / (2 + S_g / V_g^2).

This is the estimate of Paule and Mandel (1982), but for the weights ``q_g``: the
derivative of ``log S_g`` by ``rho`` over the variance of ``e_g^2``, which is 2 for
normal sums and more for a group with few events. They keep rare events from having all
the say, and groups of one row from having any.

With few groups ``rho`` is uncertain, and this estimate is more often too small than too
large. So it is replaced by an upper confidence limit, a little above the median: as in
the Q profile of Viechtbauer (2007), the left side over the right is taken for a
chi-squared variable over its degrees of freedom, which are found from the variance of
the ``e_g^2`` (Satterthwaite).

The mean of level and slope is what counts. With several classes it is the mean over the
classes, each against the rest, in proportion to their squared residuals.

Effects of *segments* are differences between segments: what a group adds to all of its
rows cancels, and what a segment explains is no dependence. See
:meth:`Residuals.contrast_effect`.

References
----------
L. Kish, *Survey Sampling*, Wiley, 1965.
K.-Y. Liang and S. L. Zeger, *Longitudinal data analysis using generalized linear
models*, Biometrika 73, 1986.
R. C. Paule and J. Mandel, *Consensus values and weighting factors*, Journal of Research
of the National Bureau of Standards 87, 1982.
W. Viechtbauer, *Confidence intervals for the amount of heterogeneity in meta-analysis*,
Statistics in Medicine 26, 2007.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from calspline._arrays import Array, Counts
from calspline._user_warnings import warn_user
from calspline.fitting.newton import fit_logistic

Codes = NDArray[np.intp]

WEAK_RIDGE = 0.2
"""Prior precision of the line, less than one row's, which keeps separable fits
finite."""


@dataclass(frozen=True)
class PooledLine:
    """Best line ``intercept + slope z`` of all rows, ``z = (x - middle) / unit``.

    ``x`` counts between ``low`` and ``high`` only. Weighted by ``p (1 - p)``, ``z`` has
    mean 0 and variance 1.
    """

    low: float
    high: float
    middle: float
    unit: float
    intercept: float
    slope: float

    @classmethod
    def fitted(cls, bins: Counts) -> PooledLine:
        """Fit to sorted values with counts."""
        low = float(bins.x[0])
        high = float(bins.x[-1])
        middle = 0.5 * low + 0.5 * high
        unit = 0.5 * high - 0.5 * low or 1.0
        z = (bins.x - middle) / unit
        X = np.column_stack([np.ones_like(z), z])
        base = np.array([np.log(bins.base_rate / (1.0 - bins.base_rate)), 0.0])
        ridge = np.full(2, WEAK_RIDGE)
        fit = fit_logistic(X, bins.positives, bins.negatives, ridge, base)
        intercept, slope = (float(each) for each in fit.u)
        p = scipy.special.expit(X @ fit.u)
        information = bins.w * p * (1.0 - p)
        mean = float(np.average(z, weights=information))
        spread = float(np.sqrt(np.average((z - mean) ** 2, weights=information)))
        spread = spread or 1.0
        return cls(
            low,
            high,
            middle=middle + unit * mean,
            unit=unit * spread,
            intercept=intercept + slope * mean,
            slope=slope * spread,
        )

    def standardised(self, x: Array) -> Array:
        """``z`` of each row."""
        return np.asarray((np.clip(x, self.low, self.high) - self.middle) / self.unit)

    def residuals(
        self,
        x: Array,
        positive: NDArray[np.bool_],
        w: Array | None,
        columns: Sequence[Codes] = (),
    ) -> Residuals:
        """What the line leaves of the rows, given their segments in each column.

        Residuals are those about the own levels of the segments, if there are any.
        """
        z = self.standardised(x)
        eta = self.intercept + self.slope * z
        weight = np.ones(len(z)) if w is None else w
        if columns:
            eta = _with_own_levels(eta, positive, weight, columns)
        p = scipy.special.expit(eta)
        r = positive - p
        return Residuals(z, weight * r, weight * r * r, p * (1.0 - p), weight, columns)


class GroupSums(NamedTuple):
    """Sums over the rows of each group, of one class against the rest.

    ``rows`` and ``weight`` count them. With residuals ``r`` and ``v = p (1 - p)``, the
    others are the sums of ``w r``, ``w r z``, ``w v``, ``w v z``, ``w v z^2``, ``w
    sqrt(v)``, ``w sqrt(v) |z|``, ``w r^2`` and ``w r^2 z^2``. ``own`` is the part of
    the information of the level, ``w v``, that the own levels of segments use up beyond
    what the level of all rows does.
    """

    rows: Array
    weight: Array
    u: Array
    uz: Array
    v: Array
    vz: Array
    vzz: Array
    c: Array
    cz: Array
    rr: Array
    rrzz: Array
    own: Array

    @property
    def alone(self) -> bool:
        """Whether each row is a group of its own."""
        return bool(np.all(self.rows == 1.0))

    def correlation(self) -> float:
        """The correlation: the mean of those of level and slope."""
        own = self.own / np.maximum(self.v, TINY)
        level = Direction(self.u, self.v, self.vz, self.c, own, float(self.rr.sum()))
        if not self.vzz.any():
            return level.correlation()
        none = np.zeros_like(own)
        slope = Direction(
            self.uz, self.vzz, self.vz, self.cz, none, float(self.rrzz.sum())
        )
        return 0.5 * (level.correlation() + slope.correlation())


TINY = 1e-300
LEVEL = 0.55
"""Confidence that the correlation is no larger, of level and slope each."""
LEAST_CORRELATION = 1e-6
"""A smaller one is zero."""
SMALLEST_PAIRS = 1e-9
"""Smallest ``C_g^2 - V_g``, as a share of ``V_g``, in a group of several rows."""
MOST_EXPLAINED = 0.999
"""Share of a group that its segments explain beyond which it says nothing."""
SINGULAR = 1e-10


@dataclass(frozen=True)
class Direction:
    """What groups say about the correlation of rows in one direction, level or slope.

    ``U_g``, ``V_g`` and ``C_g`` are as above, ``other`` is the sum of ``w v z``,
    ``own`` the leverage of the levels of segments, and ``squared`` the sum of ``w r^2
    D^2`` over all rows.
    """

    U: Array
    V: Array
    other: Array
    C: Array
    own: Array
    squared: float

    @cached_property
    def pairs(self) -> Array:
        """The variance that pairs of rows would add if they agreed entirely."""
        return np.maximum(self.C**2 - self.V, 0.0)

    def correlation(self) -> float:
        """The correlation; 1 if fewer than three groups have several rows.

        It is 0 if segments explain all groups: then nothing is known of more
        dependence.
        """
        several = (self.pairs > SMALLEST_PAIRS * self.V) & (self.V > 0.0)
        share = self.V / max(float(self.V.sum()), TINY)
        free = (self.own < SINGULAR) | (self.own + share < MOST_EXPLAINED)
        if several.any() and not (several & free).any():
            return 0.0
        several &= free
        if np.count_nonzero(several) <= 2 or not self.squared > 0.0:
            return 1.0
        phi = self.squared / float(self.V.sum())
        few = Direction(
            self.U[several],
            self.V[several],
            self.other[several],
            self.C[several],
            self.own[several],
            self.squared,
        )

        def excess(rho: float) -> float:
            e2, expected, q = few.standardised(rho, phi)
            return float(q @ e2 - q @ expected)

        estimate = _root(excess)
        e2, expected, q = few.standardised(estimate, phi)
        quantile = _lower_quantile(e2, expected, q)
        if quantile >= 1.0:
            return estimate

        def above_quantile(rho: float) -> float:
            squares, mean, _ = few.standardised(rho, phi)
            return float(q @ squares - quantile * (q @ mean))

        return max(estimate, _root(above_quantile, estimate))

    @cached_property
    def _of_single_rows(self) -> Array:
        """One over the square of ``V_g``."""
        return np.asarray(1.0 / np.maximum(self.V * self.V, TINY))

    def standardised(self, rho: float, phi: float) -> tuple[Array, Array, Array]:
        """Squares of standardised residuals, expectations, and weights of groups."""
        U = self.U
        V = self.V
        x = self.other
        S = np.maximum(V + rho * self.pairs, TINY)
        t = 1.0 / S
        Vt = V * t
        xt = x * t
        p, pq, q2 = _inverse(float(Vt @ V), float(Vt @ x), float(xt @ x))
        of_level = float(Vt @ U)
        of_slope = float(xt @ U)
        a = p * of_level + pq * of_slope
        b = pq * of_level + q2 * of_slope
        e = U - a * V - b * x
        leverage = (p * V + (2.0 * pq) * x) * Vt
        leverage += q2 * x * xt
        q = self.pairs * t / (2.0 + S * self._of_single_rows)
        return e * e * t / phi, np.maximum(1.0 - leverage - self.own, 0.0), q


def _inverse(a: float, b: float, c: float) -> tuple[float, float, float]:
    """That of the matrix ``[[a, b], [b, c]]``; the pseudo-inverse if it is singular."""
    determinant = a * c - b * b
    trace = a + c
    if determinant > SINGULAR * trace * trace:
        return c / determinant, -b / determinant, a / determinant
    if not trace > 0.0:
        return 0.0, 0.0, 0.0
    square = trace * trace
    return a / square, b / square, c / square


def _lower_quantile(e2: Array, expected: Array, q: Array) -> float:
    """That of the mean of squares over its expectation, as a chi-squared variable.

    Its degrees of freedom are those of normal sums, or fewer if the squares vary more.
    """
    G = len(q)
    mean = float(q @ expected)
    ratio = float(q @ e2) / mean if mean > 0.0 else 0.0
    of_normal = 2.0 * float(q**2 @ expected**2) * min(ratio, 1.0) ** 2
    shown = float(q**2 @ (e2 - ratio * expected) ** 2) * G / (G - 1.0)
    variance = max(of_normal, shown)
    if not variance > 0.0:
        return 1.0
    half = (ratio * mean) ** 2 / variance
    if half > 0.0:
        return float(scipy.special.gammaincinv(half, 1.0 - LEVEL) / half)
    return 0.0


USUAL_CORRELATION, STRIDE = 0.02, 8.0
"""Where a root is looked for first, and the factor by which to go on from there."""


def _root(falling: Callable[[float], float], start: float = 0.0) -> float:
    """Where a function of the correlation falls to zero, between 0 and 1."""
    low = min(max(start or USUAL_CORRELATION, LEAST_CORRELATION), 1.0)
    value = falling(low)
    if value > 0.0:
        high = low
        while value > 0.0:
            if high >= 1.0:
                return 1.0
            low = high
            high = min(STRIDE * high, 1.0)
            value = falling(high)
    else:
        high = low
        while value <= 0.0:
            if low <= LEAST_CORRELATION:
                return 0.0
            low, high = max(low / STRIDE, LEAST_CORRELATION), low
            value = falling(low)
    try:
        where = scipy.optimize.brentq(
            lambda log: falling(np.exp(log)), np.log(low), np.log(high), xtol=1e-10
        )
    except ValueError:  # no change of sign: the values at both ends are rounding
        return low
    return float(np.exp(where))


def correlation_in_groups(classes: Sequence[GroupSums]) -> float:
    """How far the rows of a group agree: 0 if independent, 1 if entirely.

    Of several classes it is the mean in proportion to their squared residuals.
    """
    if classes[0].alone:
        return 0.0
    share = [float(each.rr.sum()) for each in classes]
    if not any(share):
        return 1.0
    return float(np.average([each.correlation() for each in classes], weights=share))


def group_effects(correlation: float, weights: Array) -> Array:
    """The design effect of each group, given its weight: its rows are divided by it."""
    return np.maximum(1.0 + correlation * (weights - 1.0), 1.0)


DOMINATING_SHARE, DOMINATING_EFFECT = 0.4, 2.0
"""Share of all rows, and design effect, from which one group is worth a warning."""


def warn_if_dominated(correlation: float, weights: Array) -> None:
    """Warn if one group has much of all rows, of which most do not count."""
    largest = float(weights.max())
    total = float(weights.sum())
    effect = float(group_effects(correlation, np.array([largest]))[0])
    if largest < DOMINATING_SHARE * total or effect < DOMINATING_EFFECT:
        return
    warn_user(
        f"one group has {largest:.6g} of {total:.6g} rows, which count as only "
        f"{largest / effect:.1f} independent rows, since rows of a group may agree: "
        "the fit rests on the other groups; leave out groups if all rows are "
        "independent"
    )


def mean_contrast(
    classes: Sequence[GroupSums], contrasts: Sequence[float]
) -> float | None:
    """Mean of design effects over classes, weighted by squared residuals."""
    if not contrasts:
        return None
    share = [float(each.rr.sum()) for each in classes]
    return float(np.average(contrasts, weights=share)) if any(share) else 1.0


OWN_STEPS = 6
"""Newton steps towards the own level of each segment, of all columns in turn."""
SMALL_STEP = 0.02
"""A longest step, in log-odds, after which no other is taken."""
LONGEST_STEP = 2.0
"""Longest step, in log-odds."""


def _with_own_levels(
    log_odds: Array,
    positive: NDArray[np.bool_],
    weight: Array,
    columns: Sequence[Codes],
) -> Array:
    """The log-odds of each row with the fitted levels of its segments added."""
    eta = log_odds.copy()
    # The last level, which -1 refers to, is that of rows without a segment.
    levels = [np.zeros(int(code.max(initial=-1)) + 2) for code in columns]
    places = [code % len(level) for code, level in zip(columns, levels, strict=True)]
    for _ in range(OWN_STEPS):
        longest = 0.0
        for place, level in zip(places, levels, strict=True):
            p = scipy.special.expit(eta)
            n = len(level)
            gradient = np.bincount(place, weight * (positive - p), minlength=n)
            information = np.bincount(place, weight * p * (1.0 - p), minlength=n)
            step = (gradient - WEAK_RIDGE * level) / (information + WEAK_RIDGE)
            step = np.clip(step, -LONGEST_STEP, LONGEST_STEP)
            step[-1] = 0.0
            level += step
            eta += step[place]
            longest = max(longest, float(np.abs(step).max()))
        if longest < SMALL_STEP:
            break
    return eta


class SegmentGroups(NamedTuple):
    """What rows have a segment and a group in common: of each row, and of each cell."""

    of_row: Codes
    segment: Codes
    group: Codes


DENSE = 4
"""Cells for each row up to which all that there may be are counted."""


def _cells(segment: Codes, group: Codes) -> SegmentGroups:
    """The cells of rows that all have a segment."""
    n_groups = int(group.max()) + 1
    key = segment * n_groups + group
    n_keys = (int(segment.max()) + 1) * n_groups
    if n_keys <= DENSE * len(key):
        present = np.flatnonzero(np.bincount(key, minlength=n_keys))
        place = np.zeros(n_keys, dtype=np.intp)
        place[present] = np.arange(len(present))
        of_row = place[key]
    else:
        present, of_row = np.unique(key, return_inverse=True)
    return SegmentGroups(of_row, present // n_groups, present % n_groups)


PRIOR_SEGMENTS = 0.5
"""Prior weight of a design effect of 1, in segments with many groups."""


@dataclass(frozen=True)
class Residuals:
    """Rows with ``z``, ``w r``, ``w r^2``, ``v = p (1 - p)`` and ``w``.

    ``columns`` has the segment of each row, -1 for none, in one column or several.
    """

    z: Array
    wr: Array
    wrr: Array
    v: Array
    weight: Array
    columns: Sequence[Codes]

    def sums(self, group: Codes) -> GroupSums:
        """What the rows of each group add up to."""
        z = self.z
        wr = self.wr
        size = np.abs(self.z)
        wv = self.weight * self.v
        root = self.weight * np.sqrt(self.v)
        wvz = wv * z
        wrrz = self.wrr * z
        terms = (wr, wr * z, wv, wvz, wvz * z, root, root * size, self.wrr, wrrz * z)
        u, uz, v, vz, vzz, c, cz, rr, rrzz = (
            np.bincount(group, term).astype(np.float64) for term in terms
        )
        rows = np.bincount(group).astype(np.float64)
        weight = np.bincount(group, self.weight).astype(np.float64)
        own = np.zeros(len(rows))
        for code in self.columns:
            own += self._own_information(code, group, len(rows))
        return GroupSums(rows, weight, u, uz, v, vz, vzz, c, cz, rr, rrzz, own)

    def _own_information(self, code: Codes, group: Codes, n_groups: int) -> Array:
        """Part of each group's information that the levels of segments use.

        A single segment has the level of all rows, which uses nothing more.
        """
        used = code >= 0
        if not used.any():
            return np.zeros(n_groups)
        cells = _cells(code[used], group[used])
        v = np.bincount(cells.of_row, (self.weight * self.v)[used])
        V = np.bincount(cells.segment, v)
        taken = v * v / np.maximum(V[cells.segment], TINY)
        of_group = np.bincount(cells.group, v, minlength=n_groups)
        of_all_rows = of_group * of_group / max(float(V.sum()), TINY)
        return np.asarray(
            np.bincount(cells.group, taken, minlength=n_groups) - of_all_rows
        )

    def contrast_effect(self, group: Codes) -> float:
        """Design effect of differences between segments: the largest of all columns.

        What a segment explains is no dependence, as residuals are those about its own
        level. With ``u_sg`` their sum over the rows of segment ``s`` in group ``g``,
        ``V_s`` the information of a segment and ``h_s`` its share of all, the level of
        a segment, compared with that of all rows, has the score

            sum over g of  u_sg - h_s u_g,    u_g = sum over s of u_sg,

        whose terms are independent: what a group adds to all segments alike cancels.
        The design effect is the sum of their squares over that of single rows, each
        over its expectation if rows are independent, which takes account of the level
        (a segment in a single group says nothing). Segments count alike if they are
        large, and less if they are worth less than a row. What is left of a segment's
        sum, as a separable level stays finite, is taken off in proportion to the
        information. It is an estimate and no limit: to shrink too much costs as much as
        to shrink too little.
        """
        return max(self._contrast_effect(code, group) for code in self.columns)

    def _contrast_effect(self, code: Codes, group: Codes) -> float:
        used = code >= 0
        weight = self.weight[used]
        wv = (self.weight * self.v)[used]
        if not wv.any():
            return 1.0
        segment = code[used]
        of_row, owner, in_group = _cells(segment, group[used])
        if len(owner) == len(of_row):
            return 1.0
        V = np.bincount(segment, wv)
        share = V / V.sum()
        worth = 1.0 / (V + 1.0)
        everywhere = float(worth @ share**2)

        compared = np.bincount(owner)[owner] > 1  # a segment in one group says nothing
        v = np.bincount(of_row, wv)
        left = np.bincount(segment, self.wr[used]) / np.maximum(V, TINY)
        u = np.bincount(of_row, self.wr[used]) - v * left[owner]
        u = np.where(compared, u, 0.0)
        u_group = np.bincount(in_group, u)
        terms = u * u - 2.0 * share[owner] * u * u_group[in_group]
        shown = worth[owner] @ terms + everywhere * (u_group @ u_group)
        v_cell = np.where(compared, v, 0.0)
        m = v_cell * (1.0 - v_cell / (V[owner] + WEAK_RIDGE))
        of_independent = worth * (1.0 - 2.0 * share)
        expected = of_independent[owner] @ m + everywhere * m.sum()

        # The same for rows that are groups of their own.
        wrr = np.bincount(segment, self.wrr[used])
        wvv = np.bincount(segment, wv * wv / weight)
        m_rows = V - wvv / (V + WEAK_RIDGE)
        of_rows = of_independent @ wrr + everywhere * wrr.sum()
        expected_of_rows = of_independent @ m_rows + everywhere * m_rows.sum()
        if not (of_rows > 0.0 and expected_of_rows > 0.0):
            return 1.0
        dispersion = of_rows / expected_of_rows
        effect = (shown / dispersion + PRIOR_SEGMENTS) / (expected + PRIOR_SEGMENTS)
        sizes = np.bincount(of_row, weight)
        most = float(sizes @ sizes / sizes.sum())
        return float(np.clip(effect, 1.0, max(most, 1.0)))


class Parts(NamedTuple):
    """Weights of positives and negatives at each bin, by part of the data."""

    positives: Array
    negatives: Array


def deal_groups(weights: Array, k: int, seed: int) -> NDArray[np.intp]:
    """Assign whole groups to ``k`` parts, the heaviest first."""
    shuffled = np.random.default_rng([seed, 1]).permutation(len(weights))
    order = shuffled[np.argsort(-weights[shuffled], kind="stable")]
    part = np.empty(len(weights), dtype=np.intp)
    part[order] = np.arange(len(weights)) % k
    return part
