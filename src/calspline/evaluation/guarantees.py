"""Thresholds with a guarantee: a constraint that holds with 95% confidence.

A constraint is a bound on a share, such as "precision at least 0.9". Its one-sided
confidence limit at a threshold is exact (Clopper and Pearson), with the effective
sample size in place of the number of rows. Among many thresholds, some would pass by
chance, so they are tested in a fixed sequence.

* A share that can only fall or rise with the threshold (recall, alert rate, ...) is
  tested from the threshold where it is satisfied, and testing stops at the first
  failure. No correction is needed (Bauer 1991).
* Precision and negative predictive value are not monotone, and few rows lie beyond
  extreme thresholds. Sequences begin at several shares of rows acted on, each with an
  equal part of the error probability (Angelopoulos et al. 2021).

Several constraints share the error probability, and a threshold must pass all of them.
Of the thresholds that do, one end is chosen. Constraints that high thresholds break,
such as a least recall, make it the highest: they say which events must be found, and
no more rows than necessary should be acted on. Without any of these it is the lowest,
which finds the most events.

References
----------
P. Bauer, *Multiple testing in clinical trials*, Statistics in Medicine 10, 1991.
A. N. Angelopoulos, S. Bates, E. J. Candès, M. I. Jordan and L. Lei, *Learn then test:
calibrating predictive algorithms to achieve risk control*, arXiv 2110.01052, 2021.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, expit

from calspline._arrays import Array
from calspline._formatting import (
    format_number,
    percent,
    rounded_percent,
    rows_in_groups,
)
from calspline._input.options import check_number
from calspline._plots import draw
from calspline.evaluation.predictions import Predictions

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GRID = np.unique(
    np.concatenate([expit(np.linspace(-9.0, 9.0, 181)), np.arange(1, 100) / 100.0])
)
"""Thresholds to test, chosen without looking at the data."""
STARTS = (0.5, 0.2, 0.1, 0.05, 0.02)
"""Shares of rows acted on at which the sequences of tests begin."""
MOST_ROWS = 1e9


class Share(NamedTuple):
    """A share of rows, and how it depends on the threshold.

    ``direction`` is 1 if the share can only rise with the threshold, -1 if it can only
    fall, and 0 if it is not monotone.
    """

    among: str
    counted: str
    direction: int


SHARES = {
    "precision": Share("acted on", "event", 0),
    "negative_predictive_value": Share("left alone", "non-event", 0),
    "recall": Share("event", "acted on", -1),
    "specificity": Share("non-event", "left alone", 1),
    "false_positive_rate": Share("non-event", "acted on", -1),
    "alert_rate": Share("row", "acted on", -1),
}


class Constraint(NamedTuple):
    """A bound on a share."""

    name: str
    bound: float
    at_least: bool

    @property
    def limits_from_above(self) -> bool:
        """Whether high thresholds break it, as they do a least recall."""
        falls = self.name == "negative_predictive_value"
        if SHARES[self.name].direction < 0:
            falls = True
        return falls == self.at_least

    def __str__(self) -> str:
        side = "at least" if self.at_least else "at most"
        return f"{self.name.replace('_', ' ')} {side} {percent(self.bound)}"


class Achieved(NamedTuple):
    """A share at the chosen threshold with its 95% limits."""

    value: float
    lower: float
    upper: float


@dataclass(frozen=True, eq=False)
class Guarantee:
    """A threshold that satisfies all constraints, with confidence ``level``.

    Attributes
    ----------
    constraints : tuple of Constraint
    threshold : float or None
        None if no threshold is guaranteed to satisfy them.
    is_highest : bool
        Whether it is the highest of the thresholds that satisfy them, which acts on the
        fewest rows, or the lowest, which finds the most events.
    achieved : mapping of str to Achieved
        Shares at the threshold with two-sided limits; empty without a threshold.
    rows_needed : int or None
        Without a threshold, an estimate of the number of rows needed if the shares stay
        the same; None if no threshold satisfies the constraints on these rows.
    n_rows : int
    level : float
    alone : mapping of str to (float, float) or None
        Where no threshold satisfies several constraints on these rows: lowest and
        highest threshold that satisfies each of them; None if there is none.
    alert_rate, precision : float
        Share of these rows that are acted on, and share of events among them; NaN
        without a threshold.
    """

    constraints: tuple[Constraint, ...]
    threshold: float | None
    is_highest: bool
    achieved: Mapping[str, Achieved]
    rows_needed: int | None
    n_rows: int
    level: float
    alert_rate: float = np.nan
    precision: float = np.nan
    alone: Mapping[str, tuple[float, float] | None] = field(default_factory=dict)

    @property
    def statement(self) -> str:
        """Result as a sentence."""
        wanted = " and ".join(map(str, self.constraints))
        if self.threshold is not None:
            achieved = ", ".join(
                f"{name.replace('_', ' ')} {format_number(one.value)} "
                f"({format_number(one.lower)} to {format_number(one.upper)})"
                for name, one in self.achieved.items()
            )
            end = "lowest such threshold, which finds the most events"
            if self.is_highest:
                end = "highest such threshold, which acts on the fewest rows"
            level = percent(self.level)
            return (
                f"With {level} confidence (one-sided), threshold "
                f"{self.threshold:.4g} has {wanted}. It is the {end}. "
                f"On these rows, with two-sided {level} limits: {achieved}. "
                f"It acts on {self._action}."
            )
        rows = rows_in_groups(self.n_rows, None)
        start = f"No threshold can guarantee {wanted} with {rows}"
        if self.rows_needed is None and self.alone:
            ranges = "; ".join(
                f"{name} {_range_of(ends)}" for name, ends in self.alone.items()
            )
            return f"{start}; no threshold satisfies all on these rows ({ranges})."
        if self.rows_needed is None:
            return f"{start}; no threshold satisfies it on these rows."
        return f"{start}; about {self.rows_needed:,} would be needed."

    @property
    def _action(self) -> str:
        """On what share of the rows it acts, and how many of them are events."""
        if self.alert_rate == 0.0:
            return "none of them"
        return (
            f"{rounded_percent(self.alert_rate)} of them, and "
            f"{rounded_percent(self.precision)} of these are events"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the threshold, the shares and the statement as a flat dict."""
        out: dict[str, Any] = {
            "guaranteed_threshold": self.threshold,
            "rows_needed": self.rows_needed,
            "statement": self.statement,
        }
        for key, share in self.achieved.items():
            out[key] = share.value
            out[f"{key}_lower"], out[f"{key}_upper"] = share.lower, share.upper
        return out


def _range_of(ends: tuple[float, float] | None) -> str:
    if ends is None:
        return "at none"
    low, high = ends
    return f"at {low:.4g}" if low == high else f"from {low:.4g} to {high:.4g}"


def check_constraints(at_least: Any, at_most: Any) -> tuple[Constraint, ...]:
    """Make constraints from two mappings of names to bounds."""
    constraints = []
    for argument, given in (("at_least", at_least), ("at_most", at_most)):
        if given is None:
            continue
        if not isinstance(given, Mapping):
            raise TypeError(
                f'{argument} must be a mapping such as {{"precision": 0.9}}; got '
                f"{given!r}"
            )
        for name, bound in given.items():
            if name not in SHARES:
                raise ValueError(
                    f"keys of {argument} must be among {', '.join(SHARES)}; "
                    f"got {name!r}"
                )
            bound = check_number(bound, f'{argument}["{name}"]', above=0.0, below=1.0)
            constraints.append(Constraint(name, bound, argument == "at_least"))
    return tuple(constraints)


class ShareCounts(NamedTuple):
    """Numerators and denominators of a share by threshold, as independent rows."""

    counted: Array
    among: Array

    @property
    def value(self) -> Array:
        """Value of the share; NaN without rows."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(self.counted / self.among)

    def lower(self, tail: float, scale: float = 1.0) -> Array:
        """Exact lower confidence limits with error probability ``tail``."""
        counted = scale * self.counted
        others = scale * np.maximum(self.among - self.counted, 0.0)
        none = counted <= 0.0
        return np.where(
            none, 0.0, betaincinv(np.where(none, 1.0, counted), others + 1.0, tail)
        )

    def upper(self, tail: float, scale: float = 1.0) -> Array:
        """Exact upper confidence limits with error probability ``tail``."""
        others = ShareCounts(np.maximum(self.among - self.counted, 0.0), self.among)
        return 1.0 - others.lower(tail, scale)

    def passes(
        self, constraint: Constraint, tail: float, scale: float = 1.0
    ) -> NDArray[np.bool_]:
        """Whether the confidence limit satisfies the constraint."""
        if constraint.at_least:
            return np.asarray(self.lower(tail, scale) >= constraint.bound)
        return np.asarray(self.upper(tail, scale) <= constraint.bound)


def count(rows: Predictions, thresholds: Array, name: str) -> ShareCounts:
    """Count the rows of a share at each threshold."""
    acting = rows.probs[:, None] >= thresholds
    masks = {
        "acted on": acting,
        "left alone": ~acting,
        "event": np.broadcast_to((rows.codes == 1)[:, None], acting.shape),
        "non-event": np.broadcast_to((rows.codes == 0)[:, None], acting.shape),
        "row": np.ones(acting.shape, dtype=bool),
    }
    share = SHARES[name]
    among = masks[share.among]
    counted = among & masks[share.counted]
    weight = rows.w
    total = weight @ among
    hits = weight @ counted
    if not rows.unequal and rows.groups is None:
        return ShareCounts(hits, total)
    with np.errstate(invalid="ignore", divide="ignore"):
        rate = np.where(total > 0.0, hits / total, 0.0)
    effect = np.ones(len(thresholds))
    for j in range(len(thresholds)):
        residual = among[:, j] * (counted[:, j] - rate[j])
        independent = float(weight @ residual**2)
        if independent > 0.0:
            effect[j] = float(rows.squared_sums(residual)) / independent
    if rows.n_groups is not None:
        effect *= rows.n_groups / (rows.n_groups - 1.0)
    # Where all rows are alike nothing shows the effect; it is that of other thresholds.
    effect = np.maximum(effect, np.median(effect))
    if not rows.unequal:
        effect = np.maximum(effect, 1.0)
    return ShareCounts(hits / effect, total / effect)


def certify(
    rows: Predictions,
    constraint: Constraint,
    counts: ShareCounts,
    thresholds: Array,
    tail: float,
) -> Any:
    """Thresholds that satisfy a constraint, with error probability ``tail``."""
    direction = SHARES[constraint.name].direction * (1 if constraint.at_least else -1)
    certified = np.zeros(len(thresholds), dtype=bool)
    if direction != 0:
        passed = counts.passes(constraint, tail)
        # From the threshold where the constraint is easiest to keep.
        order = slice(None, None, -1) if direction > 0 else slice(None)
        certified[order] = np.logical_and.accumulate(passed[order])
        return certified
    passed = counts.passes(constraint, tail / len(STARTS))
    downward = constraint.name == "precision"
    if not constraint.at_least:
        downward = not downward
    for share in STARTS:
        level = 1.0 - share if constraint.name == "precision" else share
        begin = int(
            np.clip(
                np.searchsorted(thresholds, np.quantile(rows.probs, level)),
                0,
                len(thresholds) - 1,
            )
        )
        step = -1 if downward else 1
        for j in range(begin, -1 if downward else len(thresholds), step):
            if not passed[j]:
                break
            certified[j] = True
    return certified


def guarantee(
    rows: Predictions,
    constraints: tuple[Constraint, ...],
    thresholds: Array | None = None,
    level: float = 0.95,
) -> Guarantee:
    """Find the threshold that is guaranteed to satisfy all constraints.

    It is the highest such threshold, which acts on the fewest rows, if a constraint
    limits thresholds from above; otherwise the lowest, which finds the most events.
    """
    grid = GRID if thresholds is None else thresholds
    tail = (1.0 - level) / len(constraints)
    counted = {one.name: count(rows, grid, one.name) for one in constraints}
    certified = np.ones(len(grid), dtype=bool)
    for one in constraints:
        certified &= certify(rows, one, counted[one.name], grid, tail)
    is_highest = any(one.limits_from_above for one in constraints)
    n_rows = len(rows.codes)
    if not certified.any():
        needed = _rows_needed(n_rows, constraints, counted, tail)
        alone = {}
        if needed is None and len(constraints) > 1:
            alone = {str(one): _satisfied(one, counted, grid) for one in constraints}
        return Guarantee(
            constraints, None, is_highest, {}, needed, n_rows, level, alone=alone
        )
    places = np.flatnonzero(certified)
    best = places[-1] if is_highest else places[0]
    achieved = {}
    half = 0.5 * (1.0 - level)
    for name, counts in counted.items():
        lower = float(counts.lower(half)[best])
        upper = float(counts.upper(half)[best])
        achieved[name] = Achieved(float(counts.value[best]), lower, upper)
    threshold = float(grid[best])
    acting = rows.probs >= threshold
    alerts = float(rows.w @ acting)
    precision = (
        float(rows.w[acting] @ rows.codes[acting]) / alerts if alerts else np.nan
    )
    return Guarantee(
        constraints,
        threshold,
        is_highest,
        achieved,
        None,
        n_rows,
        level,
        alerts / rows.total,
        precision,
    )


def _satisfied(
    constraint: Constraint, counted: Mapping[str, ShareCounts], thresholds: Array
) -> tuple[float, float] | None:
    """Lowest and highest threshold that satisfies a constraint on these rows."""
    value = counted[constraint.name].value
    satisfied = value <= constraint.bound
    if constraint.at_least:
        satisfied = value >= constraint.bound
    if not satisfied.any():
        return None
    return float(thresholds[satisfied].min()), float(thresholds[satisfied].max())


def _rows_needed(
    n_rows: int,
    constraints: tuple[Constraint, ...],
    counted: Mapping[str, ShareCounts],
    tail: float,
) -> int | None:
    """Estimate the number of rows with which some threshold would pass."""
    scale = 1.0
    while scale * n_rows < MOST_ROWS:
        scale *= 1.1
        passed = [
            counted[one.name].passes(
                one, tail if SHARES[one.name].direction else tail / len(STARTS), scale
            )
            for one in constraints
        ]
        if np.all(passed, axis=0).any():
            return int(float(f"{scale * n_rows:.2g}"))
    return None


class RiskCoverage(NamedTuple):
    """Error rate among the most confident rows, by their share of all rows."""

    coverage: Array
    risk: Array
    area: float
    """Mean risk over all coverages; lower is better."""

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot the curve with matplotlib."""
        axes: Axes = draw(self, ax)
        return axes


def risk_coverage(rows: Predictions) -> RiskCoverage:
    """The risk-coverage curve of predicting the more probable class."""
    confidence = np.maximum(rows.probs, 1.0 - rows.probs)
    wrong = (rows.probs > 0.5) != (rows.codes == 1)
    order = np.argsort(-confidence, kind="stable")
    weight = rows.w[order]
    last = np.append(np.diff(confidence[order]) != 0.0, True)
    covered = np.cumsum(weight)[last]
    errors = np.cumsum(weight * wrong[order])[last]
    risk = errors / covered
    coverage = covered / covered[-1]
    area = float(np.diff(coverage, prepend=0.0) @ risk)
    return RiskCoverage(coverage, risk, area)
