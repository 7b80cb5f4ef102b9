"""Shifted: a map for other base rates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any

import numpy as np
import scipy

from calspline._arrays import Array
from calspline._codec import Kinds, check_fields
from calspline._domains import Number, Numbers
from calspline._expression import Constant, Lookup, Program, call, name
from calspline._input.options import check_number
from calspline._input.scores import Kind
from calspline.maps.base import CalibrationMap, Segments, Table
from calspline.maps.curve import CalibrationCurve
from calspline.maps.log_odds import LogOdds
from calspline.maps.one_vs_rest import OneVsRest
from calspline.maps.parametric import BetaMap, Clipping, ConstantRates, Temperature
from calspline.maps.segment_columns import SegmentColumn
from calspline.maps.segmented import SegmentedCurve
from calspline.maps.segmented_classes import SegmentedClasses
from calspline.maps.structured import StructuredMap
from calspline.transforms import Source

LEAST_PROBABILITY = 1e-15
BASE_MAPS = (
    CalibrationCurve,
    SegmentedCurve,
    OneVsRest,
    StructuredMap,
    SegmentedClasses,
    BetaMap,
    Temperature,
    ConstantRates,
    Clipping,
)
"""Every kind of map but this one."""


@dataclass(frozen=True, eq=False)
class Shifted(CalibrationMap[Any]):
    """A map whose classes have become more or less frequent.

    The probability of class j becomes proportional to ``p_j exp(log_ratios_j)``. This
    is always the outermost map.

    Attributes
    ----------
    base : CalibrationMap
        The map for the base rates of the fit.
    log_ratios : array of shape (n_classes,)
        Shifts of the log-probabilities.
    variance : float
        Variance of the shift of the log-odds, for two classes.
    base_rates : array of shape (n_classes,) or None
        The shares of the classes that the probabilities are for, in the order of
        ``classes_``. None if neither they nor those of the fit are known.
    errors : array of shape (n_classes,) or None
        Standard errors of shares that were estimated.
    p_value : float or None
        Of the hypothesis that a shift of the base rates explains the new scores, if
        they were estimated.
    """

    base: Annotated[CalibrationMap[Any], Kinds(*BASE_MAPS)]
    log_ratios: Annotated[Array, Numbers("m", least=2)]
    variance: Annotated[float, Number(not_negative=True)]
    base_rates: Annotated[Array, Numbers("m", positive=True)] | None = None
    errors: Annotated[Array, Numbers("m", not_negative=True)] | None = None
    p_value: Annotated[float, Number(not_negative=True)] | None = None

    def __post_init__(self) -> None:
        check_fields(self)

    def suits(self, kind: Kind, n_classes: int) -> bool:
        """Whether the base does, and each class has a ratio."""
        return len(self.log_ratios) == n_classes and self.base.suits(kind, n_classes)

    @property
    def log_odds_shift(self) -> float:
        """What is added to the log-odds of two classes."""
        return float(self.log_ratios[1] - self.log_ratios[0])

    @property
    def base_rate(self) -> float:
        """The share of the second of two classes."""
        return float("nan") if self.base_rates is None else float(self.base_rates[1])

    def limits(self, level: float = 0.95) -> Array:
        """Limits of the shares, shape (n_classes, 2); NaN if not estimated."""
        check_number(level, "level", above=0.0, below=1.0)
        if self.base_rates is None or self.errors is None:
            return np.full((len(self.log_ratios), 2), np.nan)
        reach = float(scipy.special.ndtri(0.5 + 0.5 * level)) * self.errors
        ends = np.column_stack([self.base_rates - reach, self.base_rates + reach])
        return np.clip(ends, 0.0, 1.0)

    @cached_property
    def curve(self) -> CalibrationCurve | None:
        """The base with its log-odds shifted, if it is a curve of log-odds."""
        base = self.base
        if isinstance(base, CalibrationCurve) and base.link == "logit":
            return base.shifted(self.log_odds_shift, self.variance)
        return None

    def probabilities(self, scores: Any, segments: Segments | None = None) -> Array:
        """Probabilities for the new base rates."""
        if self.curve is not None:
            return self.curve.probabilities(scores)
        p = self.base.probabilities(scores, segments)
        if p.ndim == 2:
            weighted = p * np.exp(self.log_ratios)
            return np.asarray(weighted / weighted.sum(axis=1, keepdims=True))
        odds = np.exp(self.log_odds_shift) * p
        shifted = odds / (odds + (1.0 - p))
        return np.asarray(np.clip(shifted, LEAST_PROBABILITY, 1.0 - LEAST_PROBABILITY))

    def log_odds(
        self, scores: Any, segments: Segments | None = None, *, at: Array | None = None
    ) -> LogOdds | None:
        """Log-odds, whose standard deviations include that of the shift."""
        if len(self.log_ratios) == 2:
            before = self.base.log_odds(scores, segments)
            if before is None:
                return None
            mean = before.mean + self.log_odds_shift
            return replace(
                before, mean=mean, sd=np.hypot(before.sd, np.sqrt(self.variance))
            )
        p = self.probabilities(scores, segments)
        unshifted = self.base.log_odds(scores, segments, at=p)
        if unshifted is None:
            return None
        sd = np.hypot(unshifted.sd, self._log_odds_errors)
        return replace(unshifted, sd=sd)

    def noise(self, scores: Any) -> Array:
        """Errors of the base and, if it is a curve of log-odds, that of the shift."""
        if self.curve is None:
            return self.base.noise(scores)
        return self.curve.noise(scores)

    def sum_variance(self, scores: Any, weights: Array) -> float:
        """Variance of a weighted sum of log-probabilities."""
        own = weights.sum(axis=0) * self._log_odds_errors
        return self.base.sum_variance(scores, weights) + float((own**2).sum())

    @property
    def _log_odds_errors(self) -> Array:
        """Standard errors of the log-odds of each share, zero if shares were given."""
        if self.base_rates is None or self.errors is None:
            return np.zeros(len(self.log_ratios))
        pairs = zip(self.base_rates, self.errors, strict=True)
        return np.array([log_odds_error(rate, error) for rate, error in pairs])

    def formula(self, source: Source, kind: Kind) -> Program:
        """The map in steps that every export can write."""
        if self.curve is not None:
            return self.curve.formula(source, kind)
        program = self.base.formula(source, kind)
        before = name("unshifted")
        steps = [*program.steps, ("unshifted", program.result)]
        if len(self.log_ratios) == 2:
            odds = float(np.exp(self.log_odds_shift))
            steps.append(("odds", odds * before))
            return Program(steps, name("odds") / (name("odds") + (1.0 - before)))
        ratios = np.exp(self.log_ratios).tolist()
        steps.append(("shifted", Constant("RATIOS", ratios).expression * before))
        return Program(steps, call("normalise", name("shifted")))

    def table(self, kind: Kind) -> Table:
        """The numbers of the map, for source code."""
        if self.curve is not None:
            return self.curve.table(kind)
        base = self.base.table(kind)
        if len(self.log_ratios) == 2:
            odds = float(np.exp(self.log_odds_shift))
            return {"type": "odds", "odds": odds, "base": base}
        ratios = np.exp(self.log_ratios).tolist()
        return {"type": "ratios", "ratios": ratios, "base": base}

    def describe(self) -> list[str]:
        """The base in words."""
        return self.base.describe()

    @property
    def common_curve(self) -> CalibrationCurve | None:
        """The shifted curve, if the base is a curve of log-odds."""
        return self.curve

    @property
    def segment_columns(self) -> Sequence[SegmentColumn]:
        """The columns of segments of the base."""
        return self.base.segment_columns

    @property
    def lookups(self) -> list[Lookup]:
        """What the names of segment effects stand for."""
        return self.base.lookups


def log_odds_error(rate: float, error: float) -> float:
    """Standard error of the log-odds of a share.

    It is half as far as twice the error of the share reaches to either side. A share
    that may be zero has log-odds without a lower limit; a tenth of the share counts as
    one.
    """
    rate = min(rate, 1.0 - rate)
    reach = min(2.0 * error, 1.0)
    low = max(rate - reach, 0.1 * rate)
    high = min(rate + reach, 1.0 - 0.1 * rate)
    return 0.25 * float(scipy.special.logit(high) - scipy.special.logit(low))
