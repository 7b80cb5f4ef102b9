"""Calibration tests of many segments: sums of residuals and a joint test.

If the probabilities are right, the outcomes are coin flips of known chances. Of each
segment two sums are judged: the residuals ``U = sum w (y - p)``, its *level*, and the
residuals times the log-odds less their mean, its *slope*.

**One segment.** With ``K(t)`` the logarithm of the moment generating function of a sum
and ``K'(t) = U``, the chance of a larger one is ``1 - Phi(r + log(u / r) / r)``, where
``r = sign(t) sqrt(2 (t U - K(t)))`` and ``u = t sqrt(K''(t))`` (Lugannani and Rice).
Its logarithm is right to a few percent far into the tails and for a handful of rows;
for the count of events it is the mid-p. Where a few rows decide the sum, as with
confident probabilities, the approximation fails, and the mid-p is that of the exact
distribution (:mod:`calspline.evaluation.lattice_tail`). The segment's p-value is the
smaller of the two sums', each doubled, corrected for two looks.

**All segments.** Three p-values are combined (Liu and Xie's Cauchy combination): that
of all rows together; the smallest of the segments', corrected for their number, which
finds one that is far off; and that of ``Q = sum U^2 / (V + 1 / tau^2)``, with ``V`` the
variance of ``U``, which finds many that are a little off. ``tau`` is how much segments
usually differ, so that a segment of few rows counts for little. Mean and variance of
``Q`` follow from the second and fourth cumulants of the flips, those that segments of
several columns have in common included; its tail is that of a gamma distribution with
this mean and variance.

**Groups.** Rows that depend on each other are judged twice: as if they did not, and by
the sums of their groups alone (Student's test of these, and signs of groups drawn at
random for ``Q``). The larger p-value counts.

References
----------
R. Lugannani and S. Rice, *Saddle point approximation for the distribution of the sum of
independent random variables*, Advances in Applied Probability 12, 1980. Y. Benjamini
and Y. Hochberg, *Controlling the false discovery rate*, JRSS B 57, 1995. F. E.
Satterthwaite, *An approximate distribution of estimates of variance components*,
Biometrics Bulletin 2, 1946.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from scipy.special import expit, ndtr
from scipy.stats import t as student

from calspline._arrays import Array
from calspline.evaluation.calibration_test import combined_p_value, gamma_tail
from calspline.evaluation.coin_flips import SEED, CoinFlips, Ints
from calspline.evaluation.lattice_tail import upper_tails
from calspline.evaluation.losses import probability_of_outcome
from calspline.evaluation.predictions import Predictions, cell_sums
from calspline.transforms import Transform

USUAL_SPREAD = (0.5, 0.2)
"""Standard deviation of shifts and slopes between segments at which power is
highest."""
MANY_ROWS, CELLS_PER_UNIT = 50_000, 40
"""From this number of rows on, rows of a segment are pooled in cells, given per unit of
log-odds."""
LEAST = 1e-9
MANY_FLIPS = 10.0
"""Effective number of flips in a sum from which the saddlepoint approximation is
accurate."""
NEAR_MEAN = 0.1
"""Within this many standard deviations of the mean, the tail formula is replaced by its
limit."""
FLIPS = 199
MOST_STEPS, CLOSE = 100, 1e-10
LONGEST = 500.0


def root(f: Callable[[Array], Array], step: Array, far: float = 1e6) -> Array:
    """Roots of many increasing functions, within ``far`` steps."""
    low = np.zeros_like(step)
    high = step.copy()
    end = far * step
    below = f(low)
    above = f(high)
    while np.any(more := (above < 0.0) & (high < end)):
        low = np.where(more, high, low)
        below = np.where(more, above, below)
        high = np.where(more, np.minimum(2.0 * high, end), high)
        above = np.where(more, f(high), above)
    never = above < 0.0
    low = np.where(never, high, low)
    below = np.where(never, above, below)
    for i in range(MOST_STEPS):
        if np.all(high - low <= CLOSE * step):
            break
        # The chord, and now and then the middle, which never fails.
        at = 0.5 * (low + high)
        if i % 3 < 2:
            np.divide(
                above * low - below * high, above - below, out=at, where=above > below
            )
        value = f(at)
        up = value >= 0.0
        # The value at an end that stays counts half at the next step (Illinois).
        below = np.where(up, 0.5 * below, value)
        above = np.where(up, value, 0.5 * above)
        low = np.where(up, low, at)
        high = np.where(up, at, high)
    return np.asarray(0.5 * (low + high))


def pooled_flips(rows: Predictions, code: Ints, n: int) -> tuple[CoinFlips, Ints]:
    """Coin flips that represent the rows of ``n`` segments, and the place of each row.

    Many rows are pooled if they are in the same segments and at similar probabilities.
    """
    units, w, p = rows.powers(0.0), rows.w, np.clip(rows.probs, LEAST, 1.0 - LEAST)
    if len(p) <= MANY_ROWS:
        return CoinFlips(p, units, w / units, code), np.arange(len(p))
    key = np.rint(CELLS_PER_UNIT * Transform("logit")(p)).astype(np.intp)
    for column in code:
        key = np.unique((key - key.min()) * n + column, return_inverse=True)[1]
    _, first = np.unique(key, return_index=True)
    mass, moment, squares = (
        np.bincount(key, values) for values in (w, w * p, rows.powers())
    )
    pooled = np.clip(moment / mass, LEAST, 1.0 - LEAST)
    return CoinFlips(pooled, mass**2 / squares, squares / mass, code[:, first]), key


class SegmentSums:
    """Rows of a two-class problem in ``n`` segments.

    ``sums`` are the level and the slope of each segment, and ``features`` what
    residuals are multiplied by in them, by column and cell.
    """

    def __init__(self, rows: Predictions, code: Ints, n: int) -> None:
        self.rows = rows
        self.code = code
        self.n = n
        self.residual = rows.w * (rows.codes - rows.probs)
        self.cells, self.place = c, place = pooled_flips(rows, code, n)
        v = c.variance
        apart = c.z - (self.over_cells(v * c.z) / self.over_cells(v))[c.code]
        # A mean of equal numbers may differ from them in its last digits.
        self.features = (
            np.ones(c.code.shape),
            np.where(np.abs(apart) > LEAST, apart, 0.0),
        )
        self.sums = [self.total(f[:, place] * self.residual) for f in self.features]

    def total(self, values: NDArray[Any]) -> Array:
        """Sums of row values, of shape (n,) or (columns, n), over each segment."""
        return cell_sums(values, self.code, self.n)

    def over_cells(self, values: Array) -> Array:
        """Sums of cell values over each segment."""
        return cell_sums(values, self.cells.code, self.n)

    @cached_property
    def p_values(self) -> tuple[Array, Array]:
        """Two-sided p-values of level and slope of each segment."""
        level, slope = (
            self._tail(U, f) for U, f in zip(self.sums, self.features, strict=True)
        )
        impossible = probability_of_outcome(self.rows.probs, self.rows.codes) == 0.0
        level = np.where(self.total(impossible) > 0.0, 0.0, level)
        if self.rows.groups is None:
            return level, slope
        of_groups = self._student()
        return np.maximum(level, of_groups[: self.n]), np.maximum(
            slope, of_groups[self.n :]
        )

    def _tail(self, U: Array, feature: Array) -> Array:
        """Two-sided tail probability of sums ``U`` (saddlepoint)."""
        c = self.cells
        code = self.cells.code
        b = np.sign(U)[code] * c.size * feature
        U = np.abs(U)
        V = self.over_cells(c.count * b**2 * c.v)
        top = self.over_cells(c.count * np.where(b > 0.0, b * (1.0 - c.p), -b * c.p))
        # All happened that could: there is no saddlepoint, but one way to get there.
        extreme = top * (1.0 - 1e-9) <= U
        one_way = np.where(b > 0.0, np.log(c.p), np.log1p(-c.p)) * (b != 0.0)
        exact = np.minimum(np.exp(self.over_cells(c.count * one_way)), 1.0)
        U = np.where(extreme, 0.0, U)

        def tilted(t: Array) -> Array:
            return np.asarray(expit(c.z + t[code] * b))

        t = root(
            lambda t: self.over_cells(c.count * b * (tilted(t) - c.p)) - U,
            U / np.maximum(V, 1e-300),
        )
        q = tilted(t)
        tb = t[code] * b
        K = self.over_cells(
            c.count * (np.log1p(c.p * np.expm1(np.minimum(tb, LONGEST))) - tb * c.p)
        )
        r = np.sqrt(np.maximum(2.0 * (t * U - K), 0.0))
        tilted_variance = self.over_cells(c.count * b**2 * q * (1.0 - q))
        u = t * np.sqrt(tilted_variance)
        sd = np.sqrt(np.maximum(V, 1e-60))
        skewness = self.over_cells(c.count * b**3 * c.v * (1.0 - 2.0 * c.p)) / sd**3
        star = U / sd + np.clip(
            skewness / 6.0 * (1.0 - (U / sd) ** 2), -NEAR_MEAN, NEAR_MEAN
        )
        far = (r > NEAR_MEAN) & (u > 0.0)
        star[far] = r[far] + np.log(u[far] / r[far]) / r[far]
        p = np.minimum(2.0 * ndtr(-star), 1.0)
        fourth = self.over_cells(c.count * b**4 * q * (1.0 - q))
        few = (t > 0.0) & (tilted_variance**2 < MANY_FLIPS * fourth)
        p[few] = self._exact_tail(b, t, few)[few]
        return np.asarray(np.where(extreme, np.where(top > 0.0, exact, 1.0), p))

    def _exact_tail(self, b: Array, t: Array, few: NDArray[np.bool_]) -> Array:
        """Twice the exact mid-p of sums of ``few`` flips of sizes ``b``."""
        c = self.cells
        weight = np.bincount(self.place, self.rows.w * self.rows.codes, len(c.p))
        events = weight / c.size
        column, cell = np.nonzero(few[c.code] & (b != 0.0))
        size, code = b[column, cell], c.code[column, cell]
        flips = CoinFlips(c.p[cell], c.count[cell], size, code)
        return np.minimum(2.0 * upper_tails(flips, events[cell], t), 1.0)

    @cached_property
    def _group_sums(self) -> csr_matrix:
        """Contribution of each group to levels and slopes of segments."""
        assert self.rows.groups is not None
        values = [(f[:, self.place] * self.residual).ravel() for f in self.features]
        at = (
            np.concatenate([self.code, self.code + self.n]).ravel(),
            np.tile(self.rows.groups, 2 * len(self.code)),
        )
        sums = csr_matrix(
            (np.concatenate(values), at), shape=(2 * self.n, self.rows.n_groups)
        )
        sums.sum_duplicates()
        return sums

    def _student(self) -> Array:
        """P-values of Student's test that group sums have mean zero."""
        sums = self._group_sums
        G = np.tile(
            np.diff(sums.indptr)[: self.n].astype(np.float64), 2
        )  # groups with rows in each segment
        U = np.asarray(sums.sum(axis=1)).ravel()
        squares = np.asarray(sums.power(2).sum(axis=1)).ravel()
        spread = (squares - U**2 / G) * G / np.maximum(G - 1.0, 1.0)
        known = (G > 1.0) & (spread > 0.0)
        t = np.divide(
            np.abs(U),
            np.sqrt(np.maximum(spread, 0.0)),
            out=np.zeros_like(U),
            where=known,
        )
        return np.asarray(
            np.where(known, 2.0 * student.sf(t, np.maximum(G - 1.0, 1.0)), 1.0)
        )

    @cached_property
    def segment_p_values(self) -> Array:
        """P-value of each segment: the smaller of two, corrected."""
        return corrected(np.minimum(*self.p_values), 2)

    @property
    def many_p_value(self) -> float:
        """P-value of ``Q``, which detects many small deviations."""
        c = self.cells
        parts = []
        Q = 0.0
        mean = 0.0
        for U, f, tau in zip(self.sums, self.features, USUAL_SPREAD, strict=True):
            V = self.over_cells(c.variance * f**2)
            H = self.over_cells(c.count * c.size * c.v * f**2)
            worth = np.divide(
                (H * tau) ** 2,
                V * (V + (H * tau) ** 2),
                out=np.zeros_like(V),
                where=V > 0.0,
            )
            Q = Q + float(worth @ U**2)
            mean = mean + float(worth @ V)
            parts.append((f, worth))
        if mean == 0.0:
            return 1.0
        p = gamma_tail(Q, mean, self._variance_of_squares(parts))
        if self.rows.groups is None:
            return p
        # As if the sums of groups had their signs by chance.
        signs = 1.0 - 2.0 * np.random.default_rng(SEED).integers(
            0, 2, size=(self._group_sums.shape[1], FLIPS)
        )
        null = (
            np.concatenate([worth for _, worth in parts])
            @ (self._group_sums @ signs) ** 2
        )
        return max(p, gamma_tail(Q, null.mean(), null.var()))

    def _variance_of_squares(self, parts: list[tuple[Array, Array]]) -> float:
        """Variance of the sum over segments of weighted squared sums."""
        c = self.cells
        out = 0.0
        second = c.variance
        fourth = c.fourth_cumulant
        for j, first in enumerate(c.code):
            for i, other in enumerate(c.code[: j + 1]):
                _, at, pair = np.unique(
                    first * self.n + other, return_index=True, return_inverse=True
                )
                for (f, b), (g, d) in product(parts, repeat=2):
                    both = f[j] * g[i]
                    joint = (
                        np.bincount(pair, fourth * both**2)
                        + 2.0 * np.bincount(pair, second * both) ** 2
                    )
                    out += (1.0 if i == j else 2.0) * float(
                        (b[first] * d[other])[at] @ joint
                    )
        return out

    def p_value(self, of_all_rows: float) -> float:
        """P-value of the hypothesis that every segment is calibrated."""
        least = float(corrected(self.segment_p_values.min(), self.n))
        return combined_p_value(np.array([of_all_rows, self.many_p_value, least]))


def corrected(p: Array, looks: int) -> Array:
    """Šidák correction of the smallest of ``n`` p-values."""
    return np.asarray(-np.expm1(looks * np.log1p(-np.minimum(p, 1.0 - 1e-15))))
