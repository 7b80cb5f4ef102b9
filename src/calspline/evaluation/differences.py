"""Differences of mean losses, paired by row: their intervals, of all rows and by segment.

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
errors of what the rows show. So is that of a segment, whose variance is with two classes at least what the
probabilities of both sets say: few rows may all have turned out alike.

References
----------
E. B. Wilson, *Probable inference, the law of succession, and statistical inference*, JASA 22, 1927.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit
from scipy.stats import false_discovery_control
from scipy.stats import t as student

from calspline.arrays import Array, Counts
from calspline.evaluation.calibration import Ints
from calspline.evaluation.predictions import Predictions, cell_sums, group_squares, largest_normal
from calspline.evaluation.segments import FALSE_SHARE, LEVEL, SHOWN, Coded
from calspline.fitting.newton import DenseDesign, Problem, log_loss, minimize
from calspline.formatting import p_value, percent, text_table
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

    def influence(self) -> Array:
        """What each row moves the mean by, before weights."""
        return (self.seen - self.value) / self.rows.total

    def interval(self, z: float) -> tuple[float, float]:
        """Limits that are ``z`` standard errors away."""
        rows, u = self.rows, self.influence()
        shown = float(rows.squared_sums(u))
        units, squares, fourths = (rows.powers(power) for power in (0.0, 2.0, 4.0))
        spread_over = float(squares @ u**2) ** 2 / max(float(fourths @ u**4), np.finfo(float).tiny)
        if not rows.binary or min(spread_over, *np.bincount(rows.codes, units, minlength=2)) > MANY_EVENTS:
            reach = z * np.sqrt(shown)
            return self.value - reach, self.value + reach
        model = _Tilt(self)
        return model.interval(z, shown) if model.scale > 0.0 else (self.value, self.value)


class _Tilt:
    """The model of one difference."""

    def __init__(self, difference: PairedDifference) -> None:
        rows, total = difference.rows, difference.rows.total
        self.value, self.grouped = difference.value, rows.groups is not None
        self.share = rows.w / total
        self.squares = rows.powers() / total**2
        self.d0, d1 = (difference.if_happened(np.full(len(rows.codes), code)) for code in (0, 1))
        self.delta = d1 - self.d0
        self.scale = float(np.abs(self.delta).max())
        if self.scale == 0.0:
            return
        self.eta = _log_odds(difference)
        self.seen_at = self._where(self.value)
        p, _ = self._model(self.seen_at)
        away = (self.d0 - self.value) ** 4 * (1.0 - p) + (d1 - self.value) ** 4 * p
        fourths = rows.powers(4.0) / total**4
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
    intercept, slope = fit.u
    return np.asarray(x + intercept + slope * (x - f.mean) / spread)


def family_critical_value(differences: list[PairedDifference], level: float, draws: int, seed: int) -> float:
    """Standard errors by which the farthest of all differences is off with chance ``1 - level``."""
    covariance = differences[0].rows.squared_sums(np.column_stack([one.influence() for one in differences]))
    return largest_normal(covariance, level, draws, [seed, 0])


@dataclass(frozen=True, eq=False)
class SegmentDifferences:
    """The mean log-loss of each segment minus that of the reference. Below 0 is better.

    Attributes
    ----------
    table : dict
        A value for each segment under each name: ``column`` (if there are several) and ``segment``; ``rows``;
        ``difference`` with its limits ``lower`` and ``upper``; ``p_value``, that there is none; ``adjusted``, the same
        after correction for all segments and sets looked at; and ``verdict``, "better" or "worse" where that is below
        0.05, else "unclear". On average, at most one in twenty such verdicts is there by chance.
    names : list of str
        What the segments are called.
    """

    table: dict[str, Any]
    names: list[str]

    def __len__(self) -> int:
        return len(self.names)

    def having(self, verdict: str) -> list[int]:
        """Places in the table of the segments with a verdict, the clearest first."""
        return [i for i in np.argsort(self.table["p_value"], kind="stable") if self.table["verdict"][i] == verdict]

    @property
    def verdict(self) -> str:
        """How many gain and lose, in a sentence."""
        better, worse = len(self.having("better")), len(self.having("worse"))
        rest = len(self) - better - worse
        return f"Of {len(self):,} segments {better:,} gain, {worse:,} lose, and for {rest:,} it cannot be told."

    def to_dict(self) -> dict[str, float]:
        """How many segments have each verdict."""
        return {f"segments_{verdict}": float(len(self.having(verdict))) for verdict in ("better", "worse", "unclear")}

    def __str__(self) -> str:
        t = self.table
        rows = [
            (
                self.names[i],
                f"{t['rows'][i]:g}",
                f"{t['difference'][i]:+.4f}",
                f"{t['lower'][i]:+.4f} to {t['upper'][i]:+.4f}",
                p_value(float(t["p_value"][i])),
                t["verdict"][i],
            )
            for i in np.argsort(t["p_value"], kind="stable")[:SHOWN]
        ]
        header = "segment", "rows", "log-loss", percent(LEVEL), "p-value", "verdict"
        return f"{text_table(rows, header, len(self))}\n{self.verdict}"


def segment_differences(paired: Mapping[str, PairedDifference]) -> Mapping[str, SegmentDifferences]:
    """Differences of each set by segment; none if there are no segments."""
    first = next(iter(paired.values()), None)
    if first is None or first.rows.by is None:
        return MappingProxyType({})
    coded = Coded.of(first.rows.by)
    parts = {name: _by_segment(one, coded) for name, one in paired.items()}
    adjusted = false_discovery_control(np.concatenate([part["p_value"] for part in parts.values()]))
    out = {}
    for (name, part), q in zip(parts.items(), np.split(adjusted, len(parts)), strict=True):
        verdict = np.where(q < FALSE_SHARE, np.where(part["difference"] < 0.0, "better", "worse"), "unclear")
        table = coded.table() | part | {"adjusted": q, "verdict": verdict.tolist()}
        out[name] = SegmentDifferences(table, coded.names)
    return MappingProxyType(out)


def _by_segment(one: PairedDifference, coded: Coded) -> dict[str, Array]:
    """Mean difference, limits and p-value of each segment."""
    rows, S, code = one.rows, len(coded.labels), coded.code
    total = partial(cell_sums, cell=code, n=S)
    weight = total(rows.w)
    mean = total(rows.w * one.seen) / weight
    away = one.seen - mean[code]
    if rows.groups is None:
        squares, freedom = total(rows.powers() * away**2), np.full(S, np.inf)
    else:
        squares, G = group_squares(rows.w * away, code, rows.groups, S)
        freedom = G - 1.0
    if rows.binary:
        p = 0.5 * (rows.probs + one.reference.probs)
        d0, d1 = (one.if_happened(np.full(len(p), code)) for code in (0, 1))
        squares = np.maximum(squares, total(rows.powers() * p * (1.0 - p) * (d1 - d0) ** 2))
    error, known = np.sqrt(squares) / weight, freedom > 0.0
    z = np.divide(np.abs(mean), error, out=np.zeros(S), where=error > 0.0)
    t = student(np.where(known, freedom, 1.0))
    reach = np.where(known, t.isf(0.5 - 0.5 * LEVEL), np.inf)
    far = np.multiply(reach, error, out=np.zeros(S), where=error > 0.0)
    return {
        "rows": weight,
        "difference": mean,
        "lower": mean - far,
        "upper": mean + far,
        "p_value": np.where(known, 2.0 * t.sf(z), 1.0),
    }
