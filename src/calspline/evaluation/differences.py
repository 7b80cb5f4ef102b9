"""The interval of a difference of mean losses, paired by row.

A row's difference is ``d_1`` if the event happens and ``d_0`` if not, so the mean difference is a weighted sum of
events, and its variance depends on their probabilities. Few events say little about it: the bootstrap, which knows only
the outcomes that came, is sure of what it never saw. So the variance is that of a model. The log-odds of the event
are those of both sets, averaged and recalibrated, and moved along the difference itself,

    log-odds(a) = eta + a (d_1 - d_0),

which makes the expected difference ``m(a)`` whatever it is to be, by the least change of the probabilities (an
exponential tilt). With ``V(a)`` the variance of the mean difference under the model, the interval holds the ``m(a)``
from which what was seen is no further than chance allows, ``|D - m(a)| <= z sqrt(V(a))``: of a single probability, it
is Wilson's. ``V`` is corrected by what the rows themselves show, the more the more events there are.

With three or more classes, and where the difference is spread over many rows, the interval is ``D +- z`` standard
errors of what the rows show.

References
----------
E. B. Wilson, *Probable inference, the law of succession, and statistical inference*, JASA 22, 1927.
T. Hothorn, F. Bretz and P. Westfall, *Simultaneous inference in general parametric models*, Biometrical Journal 50,
2008.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, ndtri
from scipy.stats import t as student

from calspline.arrays import Array, Counts
from calspline.evaluation.predictions import Predictions
from calspline.evaluation.units import Ints, row_powers, squared_sums
from calspline.fitting.newton import DenseDesign, Problem, log_loss, minimize
from calspline.transforms import Transform

CELLS = 1024
SLOPE_PRECISION = 1.0
"""Of the prior of the recalibrating slope about one."""
LEAST_SPREAD, FIT_TOLERANCE = 1e-6, 1e-6
MODEL_EVENTS = 20.0
"""Events that the model's variance is worth, when it is corrected by that of the rows."""
MANY_EVENTS = 2000.0
"""Events from which the interval is symmetric."""
STEEPEST = 80.0
"""Log-odds that a tilt may move the row it moves most: beyond, what is certain stays so."""


@dataclass(frozen=True, eq=False)
class PairedDifference:
    """Losses by row of a set, ``rows``, minus those of a ``reference``."""

    losses: Callable[[Array, Ints], Array]
    rows: Predictions
    reference: Predictions

    def if_happened(self, codes: Ints) -> Array:
        """The difference of each row if these classes had happened."""
        return self.losses(self.rows.probs, codes) - self.losses(self.reference.probs, codes)

    @cached_property
    def seen(self) -> Array:
        """The difference of each row."""
        return self.if_happened(self.rows.codes)

    @property
    def value(self) -> float:
        """The mean difference."""
        return float(np.average(self.seen, weights=self.rows.weight))

    @property
    def total(self) -> float:
        """Sum of the weights."""
        weight = self.rows.weight
        return float(len(self.seen)) if weight is None else float(weight.sum())

    def influence(self) -> Array:
        """What each row moves the mean by, before weights."""
        return (self.seen - self.value) / self.total

    def interval(self, z: float) -> tuple[float, float]:
        """Limits that are ``z`` standard errors away."""
        rows, u = self.rows, self.influence()
        shown = float(squared_sums(u, rows.weight, rows.groups))
        units, squares, fourths = (row_powers(rows.weight, len(u), power) for power in (0.0, 2.0, 4.0))
        spread_over = float(squares @ u**2) ** 2 / max(float(fourths @ u**4), np.finfo(float).tiny)
        if not rows.binary or min(spread_over, *np.bincount(rows.codes, units, minlength=2)) > MANY_EVENTS:
            reach = z * np.sqrt(shown)
            return self.value - reach, self.value + reach
        model = _Tilt(self)
        return model.interval(z, shown) if model.scale > 0.0 else (self.value, self.value)


class _Tilt:
    """The model of one difference."""

    def __init__(self, difference: PairedDifference) -> None:
        rows, weight = difference.rows, difference.rows.weight
        n, total = len(difference.seen), difference.total
        self.value, self.grouped = difference.value, rows.groups is not None
        self.share = (np.ones(n) if weight is None else weight) / total
        self.squares = row_powers(weight, n) / total**2
        self.d0, d1 = (difference.if_happened(np.full(n, code)) for code in (0, 1))
        self.delta = d1 - self.d0
        self.scale = float(np.abs(self.delta).max())
        if self.scale == 0.0:
            return
        self.eta = _log_odds(difference)
        self.seen_at = self._where(self.value)
        p, _ = self._model(self.seen_at)
        away = (self.d0 - self.value) ** 4 * (1.0 - p) + (d1 - self.value) ** 4 * p
        fourths = row_powers(weight, n, 4.0) / total**4
        self.events = self._variance(self.seen_at) ** 2 / max(float(fourths @ away), np.finfo(float).tiny)

    def _model(self, a: float) -> tuple[Array, Array]:
        """Probabilities of the events and expected differences at a tilt, in log-odds of the row it moves most."""
        p = expit(self.eta + a * (self.delta / self.scale))
        return p, self.d0 + p * self.delta

    def _mean(self, a: float) -> float:
        return float(self.share @ self._model(a)[1])

    def _variance(self, a: float) -> float:
        """Of the mean: of outcomes given the rows, and of rows."""
        p, m = self._model(a)
        return float(self.squares @ (p * (1.0 - p) * self.delta**2 + (m - self.share @ m) ** 2))

    def _where(self, mean: float) -> float:
        """The tilt with this mean, or the nearest."""
        if self._mean(STEEPEST) <= mean:
            return STEEPEST
        if self._mean(-STEEPEST) >= mean:
            return -STEEPEST
        return float(brentq(lambda a: self._mean(a) - mean, -STEEPEST, STEEPEST, xtol=1e-8))

    def interval(self, z: float, shown: float) -> tuple[float, float]:
        """Limits, with the variance corrected by what the rows have ``shown``."""
        factor = shown / max(self._variance(self.seen_at), np.finfo(float).tiny)
        if not self.grouped:
            factor = (self.events * factor + MODEL_EVENTS) / (self.events + MODEL_EVENTS)

        def beyond(a: float, side: float) -> float:
            return side * (self._mean(a) - self.value) - z * float(np.sqrt(factor * self._variance(a)))

        ends = []
        for side in (-1.0, 1.0):
            far = side * STEEPEST
            a = far if beyond(far, side) <= 0.0 else brentq(beyond, self.seen_at, far, args=(side,), xtol=1e-8)
            ends.append(self._mean(a))
        return min(ends[0], self.value), max(ends[1], self.value)


def _log_odds(difference: PairedDifference) -> Array:
    """Log-odds of the event: the mean of both sets, recalibrated by a line."""
    rows = difference.rows
    x = 0.5 * (Transform("logit")(rows.probs) + Transform("logit")(difference.reference.probs))
    f = Counts.from_rows(x, rows.codes == 1, rows.weight, rows.squares).coarsened(CELLS)
    # As many rows as would say as much, and half a row of either outcome more, so that neither is impossible.
    w = f.effective
    share = w / w.sum()
    spread = max(float(np.sqrt(share @ (f.x - f.mean) ** 2)), LEAST_SPREAD)
    line = DenseDesign(np.column_stack([np.ones_like(f.x), (f.x - f.mean) / spread]))
    problem = Problem(line, f.x, w + share, w * (f.positives / f.w) + 0.5 * share, log_loss)
    fit = minimize(
        problem, np.array([0.0, SLOPE_PRECISION / spread**2]), problem.at(np.zeros(2)), tolerance=FIT_TOLERANCE
    )
    intercept, slope = fit.point.u
    return np.asarray(x + intercept + slope * (x - f.mean) / spread)


def critical_value(level: float, n_groups: int | None) -> float:
    """How many standard errors an interval reaches: of the normal distribution, or of Student's for few groups."""
    tail = 0.5 * (1.0 - level)
    return float(-ndtri(tail)) if n_groups is None else float(student.isf(tail, max(n_groups - 1, 1)))


def family_critical_value(differences: list[PairedDifference], level: float, draws: int, seed: int) -> float:
    """Standard errors by which the farthest of all differences is off with chance ``1 - level``.

    The largest absolute value of correlated normal variables, with the correlation that the units show (max-T).
    """
    first = differences[0].rows
    U = np.column_stack([one.influence() for one in differences])
    covariance = squared_sums(U, first.weight, first.groups)
    varies = np.diag(covariance) > 0.0
    covariance, deviation = covariance[np.ix_(varies, varies)], np.sqrt(np.diag(covariance)[varies])
    values, vectors = np.linalg.eigh(covariance / np.outer(deviation, deviation))
    normal = np.random.default_rng([seed, 0]).standard_normal((draws, len(values)))
    largest = np.abs(normal @ (vectors * np.sqrt(np.maximum(values, 0.0))).T).max(axis=1, initial=0.0)
    return float(np.quantile(largest, level))
