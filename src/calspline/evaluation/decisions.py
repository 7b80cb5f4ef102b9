"""Decision analysis: net benefit, costs and thresholds.

Acting from a probability ``t`` on means accepting ``t / (1 - t)`` false positives per
true positive. In units of true positives per row, the **net benefit** is

    NB(t) = TP / n - FP / n * t / (1 - t),

with ``TP`` and ``FP`` the events and non-events acted on (Vickers and Elkin 2006). It
is the mean over rows of ``1[p >= t] (y - (1 - y) t / (1 - t))``, so the covariances of
net benefits between thresholds, and between two sets of predictions on the same rows,
follow from the numbers of events and non-events above pairs of thresholds. The critical
value of a simultaneous band is the quantile of the largest of correlated normal
variables. In all variances, one more event and one more non-event count as acted on, so
that variances do not vanish at thresholds that few rows exceed.

**Costs** of the four outcomes determine the threshold for calibrated probabilities,

    t = (FP - TN) / (FP - TN + FN - TP).

For other probabilities, the best threshold is where the calibration curve crosses
``t``, and its interval contains all probabilities at which the band of the curve
includes ``t``. (The threshold with the lowest empirical cost is unstable: its error
decreases only with the cube root of the number of rows.)

References
----------
A. J. Vickers and E. B. Elkin, *Decision curve analysis: a novel method for evaluating
prediction models*, Medical Decision Making 26, 2006.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from calspline._arrays import Array, Counts, one_blas_thread, run_starts
from calspline._formatting import Row, format_number, percent
from calspline._input.options import check_increasing, check_number
from calspline._plots import draw
from calspline._results import Block, Result, Table
from calspline.evaluation.guarantees import (
    Constraint,
    Guarantee,
    RiskCoverage,
    check_constraints,
    guarantee,
    risk_coverage,
)
from calspline.evaluation.predictions import (
    Predictions,
    check_prediction_sets,
    largest_normal,
)
from calspline.evaluation.segments import Coded
from calspline.maps.fit_info import FittedCurve

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ALL = "act on all"
"""Name of the strategy that acts on every row."""
THRESHOLDS = np.arange(1, 100) / 100.0
DRAWS = 4000
SHOWN = 9
"""Thresholds shown in printed tables."""


@dataclass(frozen=True)
class Costs:
    """Costs of the four outcomes per row; gains are negative costs."""

    false_positive: float
    false_negative: float
    true_positive: float = 0.0
    true_negative: float = 0.0

    @property
    def threshold(self) -> float:
        """Threshold above which acting costs less than not acting."""
        of_acting = self.false_positive - self.true_negative
        of_waiting = self.false_negative - self.true_positive
        return of_acting / (of_acting + of_waiting)

    def acting(self, y: Array) -> Array:
        """Cost of acting on a row, given its outcome or probability."""
        return np.asarray(
            self.false_positive + (self.true_positive - self.false_positive) * y
        )

    def waiting(self, y: Array) -> Array:
        """Cost of not acting on a row."""
        return np.asarray(
            self.true_negative + (self.false_negative - self.true_negative) * y
        )


class Band(NamedTuple):
    """Values for all thresholds with a simultaneous band."""

    value: Array
    lower: Array
    upper: Array


@dataclass(frozen=True)
class CostOfSet:
    """Cost of a set of predictions per row.

    Attributes
    ----------
    threshold, threshold_lower, threshold_upper : float
        Best threshold for these predictions, with its interval; 0 means acting on all
        rows, 1 on none.
    best_cost : float
        Cost with the best threshold.
    cost, cost_lower, cost_upper : float
        Cost with the threshold that is optimal for calibrated probabilities.
    difference, difference_lower, difference_upper : float
        That cost minus the cost of the reference, paired by row; negative is better.
    """

    threshold: float
    threshold_lower: float
    threshold_upper: float
    best_cost: float
    cost: float
    cost_lower: float
    cost_upper: float
    difference: float
    difference_lower: float
    difference_upper: float


def check_costs(costs: Any) -> Costs:
    """Validate a mapping of costs."""
    names = [each.name for each in fields(Costs)]
    if not isinstance(costs, Mapping):
        raise TypeError(
            f'costs must be a mapping such as {{"false_positive": 1, "false_negative": '
            f"5}}; got {costs!r}"
        )
    for name in costs:
        if name not in names:
            raise ValueError(
                f"keys of costs must be among {', '.join(names)}; got {name!r}"
            )
    for name in names[:2]:
        if name not in costs:
            raise ValueError(f"costs must say what a {name} costs")
    checked = Costs(
        **{
            name: check_number(value, f'costs["{name}"]')
            for name, value in costs.items()
        }
    )
    if (
        checked.false_positive <= checked.true_negative
        or checked.false_negative <= checked.true_positive
    ):
        raise ValueError(
            "costs must be higher for a false_positive than a true_negative, and for a "
            "false_negative than "
            "a true_positive; otherwise no threshold makes sense"
        )
    return checked


@dataclass(frozen=True, eq=False)
class Decision(Result):
    """The result of :func:`decide`. ``str()`` is a table, :meth:`to_dict` is flat.

    Attributes
    ----------
    thresholds : array
        Thresholds at which the net benefit was computed.
    net_benefit : mapping of str to Band
        Net benefit by name of the set, including "act on all", with simultaneous bands.
        Acting on no row has net benefit 0.
    differences : mapping of str to Band
        Net benefit minus that of the reference, paired by row, with simultaneous bands.
    costs : Costs or None
        The given costs.
    by_cost : mapping of str to CostOfSet
        Costs and best thresholds by name; empty without costs.
    reference : str
        Name of the set that the others are compared with: the first.
    level : float
        Confidence level of bands and intervals.
    guarantees : mapping of str to Guarantee
        With constraints, the threshold that satisfies them, by name of the set.
    segments : mapping of str to mapping of str to Guarantee
        With constraints and ``by``, the guarantees of each segment, by name of the set
        and of the segment.
    risk_coverage : mapping of str to RiskCoverage
        Error rates among the most confident rows, and the area under this curve.
    event_title : str
        Which class is the event; empty if labels 0 and 1 say it.
    """

    thresholds: Array
    net_benefit: Mapping[str, Band]
    differences: Mapping[str, Band]
    costs: Costs | None
    by_cost: Mapping[str, CostOfSet]
    reference: str
    level: float
    guarantees: Mapping[str, Guarantee] = field(default_factory=dict)
    segments: Mapping[str, Mapping[str, Guarantee]] = field(default_factory=dict)
    risk_coverage: Mapping[str, RiskCoverage] = field(default_factory=dict)
    event_title: str = ""

    @property
    def threshold(self) -> float | None:
        """Threshold of the reference, by the constraints or the costs.

        None if no threshold can be guaranteed, or without constraints and costs.
        """
        if self.guarantees:
            return self.guarantees[self.reference].threshold
        return None if self.costs is None else self.costs.threshold

    def better(self, name: str) -> list[tuple[float, float]]:
        """Ranges of thresholds where a set is significantly better."""
        return self._runs(self.differences[name].lower > 0.0)

    def worse(self, name: str) -> list[tuple[float, float]]:
        """Ranges of thresholds where a set is significantly worse."""
        return self._runs(self.differences[name].upper < 0.0)

    def _runs(self, where: NDArray[np.bool_]) -> list[tuple[float, float]]:
        first = run_starts(where)
        last = np.append(first[1:], len(where)) - 1
        t = self.thresholds
        return [
            (float(t[i]), float(t[j]))
            for i, j in zip(first, last, strict=True)
            if where[i]
        ]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot the net benefit against the threshold with matplotlib."""
        axes: Axes = draw(self, ax)
        return axes

    def to_dict(self) -> dict[str, float | str | None]:
        """Return all numbers as a flat dict.

        Keys are ``"raw.cost"``, ``"raw.net_benefit_0.05"`` and so on.
        """
        out: dict[str, float | str | None] = {
            "reference": self.reference,
            "level": self.level,
        }
        out["threshold"] = self.threshold
        for name, one in self.guarantees.items():
            out |= _prefixed(name, one.to_dict())
        for name, by_segment in self.segments.items():
            for segment, one in by_segment.items():
                out |= _prefixed(f"{name}.{segment}", one.to_dict())
        for name, curve in self.risk_coverage.items():
            out[f"{name}.risk_coverage_area"] = curve.area
        if self.costs is not None:
            out |= {f"costs.{key}": value for key, value in asdict(self.costs).items()}
            out["costs.threshold"] = self.costs.threshold
        for name, cost in self.by_cost.items():
            out |= {f"{name}.{key}": value for key, value in asdict(cost).items()}
        for what, bands in (
            ("net_benefit", self.net_benefit),
            ("difference", self.differences),
        ):
            for name, band in bands.items():
                for t, value, low, high in zip(self.thresholds, *band, strict=True):
                    key = f"{name}.{what}_{t:g}"
                    out |= {
                        key: float(value),
                        f"{key}_lower": float(low),
                        f"{key}_upper": float(high),
                    }
        return out

    @property
    def shown(self) -> list[int]:
        """Indices of the thresholds shown in tables."""
        places = np.linspace(0, len(self.thresholds) - 1, SHOWN).round()
        return [int(place) for place in np.unique(places)]

    def _blocks(self) -> list[Block]:
        statements = [self.event_title]
        statements += [
            f"{name}: {one.statement}" for name, one in self.guarantees.items()
        ]
        for name, by_segment in self.segments.items():
            statements += [
                f"{name}, {segment}: {one.statement}"
                for segment, one in by_segment.items()
            ]
        costs = [] if self.costs is None else [self._cost_table(self.costs)]
        return [*statements, *costs, self._net_benefit_table(), *self.verdicts]

    def _cost_table(self, costs: Costs) -> Table:
        rows: list[Row] = []
        for name, one in self.by_cost.items():
            cost = _around(one.cost, one.cost_lower, one.cost_upper)
            limits = one.difference, one.difference_lower, one.difference_upper
            against = "" if name == self.reference else _around(*limits)
            best = _around(one.threshold, one.threshold_lower, one.threshold_upper)
            rows.append((name, cost, against, best, format_number(one.best_cost)))
        title = f"Costs [{percent(self.level)} interval], threshold"
        header = (
            "predictions",
            "cost per row",
            f"against {self.reference}",
            "best threshold",
            "cost with it",
        )
        return Table(rows, header, f"{title} {costs.threshold:.3g}")

    def _net_benefit_table(self) -> Table:
        rows: list[Row] = []
        for i in self.shown:
            bands = self.net_benefit.values()
            cells = [_around(b.value[i], b.lower[i], b.upper[i]) for b in bands]
            rows.append((f"{self.thresholds[i]:g}", *cells))
        title = f"Net benefit [simultaneous {percent(self.level)} band]"
        return Table(rows, ("threshold", *self.net_benefit), title)

    def _columns(self) -> dict[str, Any]:
        bands = self.net_benefit
        n = len(self.thresholds)
        return {
            "predictions": [name for name in bands for _ in range(n)],
            "threshold": np.tile(self.thresholds, len(bands)),
            "net_benefit": np.concatenate([band.value for band in bands.values()]),
            "lower": np.concatenate([band.lower for band in bands.values()]),
            "upper": np.concatenate([band.upper for band in bands.values()]),
        }

    @property
    def verdicts(self) -> list[str]:
        """Describe where sets are significantly better or worse than the reference."""
        out = []
        for name in self.differences:
            parts = [
                f"significantly {word} than {self.reference} at thresholds "
                + " and ".join(
                    " to ".join(dict.fromkeys(f"{t:g}" for t in run)) for run in runs
                )
                for word, runs in (
                    ("better", self.better(name)),
                    ("worse", self.worse(name)),
                )
                if runs
            ]
            found = "; ".join(parts)
            if not found:
                found = f"no significant difference from {self.reference}"
            out.append(f"{name}: {found}.")
        return out

    def __repr__(self) -> str:
        sets = ", ".join(name for name in self.net_benefit if name != ALL)
        return f"Decision({sets}; {len(self.thresholds)} thresholds)"


def decide(
    y: Any,
    predictions: Any,
    *,
    costs: Mapping[str, float] | None = None,
    thresholds: Any = None,
    at_least: Mapping[str, float] | None = None,
    at_most: Mapping[str, float] | None = None,
    groups: Any = None,
    by: Any = None,
    sample_weight: Any = None,
    labels: Any = None,
    pos_label: Any = None,
    level: float = 0.95,
) -> Decision:
    """Decision analysis of predictions for two classes.

    Parameters
    ----------
    y, sample_weight, labels, pos_label, groups
        As for :func:`evaluate`.
    predictions : mapping of str to array-like, or array-like
        Probabilities by name, each as for :func:`evaluate`. The first is the reference.
    costs : mapping, optional
        Costs of a ``"false_positive"`` and a ``"false_negative"`` and, optionally, of a
        ``"true_positive"`` and a ``"true_negative"``; gains are negative costs.
    thresholds : array-like of floats in (0, 1), optional
        Thresholds at which to compute the net benefit. By default 0.01, 0.02, ...,
        0.99.
    at_least, at_most : mapping of str to float, optional
        Constraints on ``"precision"``, ``"recall"``, ``"specificity"``,
        ``"false_positive_rate"``, ``"negative_predictive_value"`` or ``"alert_rate"``
        (the share of rows acted on), as in ``at_least={"precision": 0.9}``. The result
        has a threshold that satisfies all of them with confidence ``level`` or, if
        there is none, the number of rows that would be needed. With ``thresholds``,
        only these are considered. If several thresholds satisfy them, the result has
        the highest, which acts on the fewest rows, if a constraint rules out high
        thresholds (a minimum of recall or negative predictive value, for example);
        otherwise the lowest, which finds the most events.
    by : array-like of shape (n,) or (n, n_columns), optional
        Segment of each row. With constraints, each segment gets a threshold of its own
        in addition; the confidence is that of each segment separately.
    level : float in (0, 1), default=0.95
        Confidence level of bands and intervals.

    Returns
    -------
    result : Decision
        Net benefit, costs and thresholds; ``print`` shows a table.

    See Also
    --------
    compare : Compare log-loss and Brier score.
    expected : Expected cost before labels are available.

    Notes
    -----
    A row is acted on if its probability is at least the threshold.

    Examples
    --------
    >>> import numpy as np
    >>> from calspline import decide
    >>> rng = np.random.default_rng(0)
    >>> p = rng.beta(1, 4, size=4000)
    >>> happened = rng.random(4000) < p
    >>> overconfident = p**2 / (p**2 + (1 - p) ** 2)
    >>> sets = {"raw": overconfident, "calibrated": p}
    >>> found = decide(happened, sets, costs={"false_positive": 1, "false_negative": 5})
    >>> found.by_cost["calibrated"].difference < 0, found.better("calibrated")
    (True, [(0.01, 0.2)])

    A threshold that satisfies a constraint with 95% confidence:

    >>> result = decide(happened, p, at_least={"recall": 0.9})
    >>> print(result.guarantees["probabilities"].statement)
    With 95% confidence (one-sided), threshold 0.1 has recall at least 90%. It is the highest such threshold, which acts on the fewest rows. On these rows, with two-sided 95% limits: recall 0.9213 (0.8998 to 0.9394). It acts on 65% of them, and 27% of these are events.
    """  # noqa: E501
    level = check_number(level, "level", above=0.0, below=1.0)
    rows = check_prediction_sets(
        y, predictions, sample_weight, labels, groups, by, pos_label=pos_label
    )
    constraints = check_constraints(at_least, at_most)
    return decide_predictions(
        rows, costs=costs, thresholds=thresholds, constraints=constraints, level=level
    )


def decide_predictions(
    rows: Mapping[str, Predictions],
    *,
    costs: Mapping[str, float] | None = None,
    thresholds: Any = None,
    constraints: tuple[Constraint, ...] = (),
    level: float = 0.95,
) -> Decision:
    """Decision analysis of validated predictions."""
    known = None if costs is None else check_costs(costs)
    tested = None
    if thresholds is not None:
        tested = _check_thresholds(thresholds)
    t = THRESHOLDS if tested is None else tested
    if not all(one.binary for one in rows.values()):
        raise ValueError(
            "predictions must be of two classes; of more, take one against the rest"
        )
    if ALL in rows:
        raise ValueError(
            f"the names of predictions must not be {ALL!r}, which is reserved"
        )
    first, base = next(iter(rows.items()))
    every = dict(rows) | {ALL: replace(base, probs=np.ones(len(base.probs)))}
    with one_blas_thread():
        values = {name: net_benefit(one.counts, t) for name, one in every.items()}
        own = {
            name: _covariance(one, one, values[name], values[name], t)
            for name, one in every.items()
        }
        # One event and one non-event more count as acted on: none above a threshold is
        # no certainty.
        odds = t / (1.0 - t)
        spare = (1.0 + np.outer(odds, odds)) * (
            float(base.squares.sum()) / base.total**2
        ) ** 2
        bands = {name: _band(values[name], own[name] + spare, level) for name in every}
        differences = {}
        for name in list(every)[1:]:
            both = _covariance(every[name], base, values[name], values[first], t)
            covariance = own[name] + own[first] - both - both.T + spare
            differences[name] = _band(values[name] - values[first], covariance, level)
        by_cost = {}
        if known is not None:
            by_cost = {
                name: _cost_of(one, base, known, level) for name, one in every.items()
            }
    guarantees = {}
    if constraints:
        guarantees = {
            name: guarantee(one, constraints, tested, level)
            for name, one in rows.items()
        }
    return Decision(
        thresholds=t,
        net_benefit=bands,
        differences=differences,
        costs=known,
        by_cost=by_cost,
        reference=first,
        level=level,
        guarantees=guarantees,
        segments=_by_segment(rows, constraints, tested, level),
        risk_coverage={name: risk_coverage(one) for name, one in rows.items()},
        event_title=base.event_title,
    )


def _check_thresholds(thresholds: Any) -> Array:
    """Check that thresholds increase and lie between 0 and 1."""
    checked = check_increasing(thresholds, "thresholds", least=1)
    for end in (checked[0], checked[-1]):
        if not 0.0 < end < 1.0:
            raise ValueError(f"thresholds must be in (0, 1); got {end:g}")
    return checked


def _by_segment(
    rows: Mapping[str, Predictions],
    constraints: tuple[Constraint, ...],
    thresholds: Array | None,
    level: float,
) -> dict[str, dict[str, Guarantee]]:
    """Guarantees by set and segment; empty without constraints or segments."""
    by = next(iter(rows.values())).by
    if by is None or not constraints:
        return {}
    coded = Coded.of(by)
    inside = [(coded.code == i).any(axis=0) for i in range(len(coded.names))]
    segments: dict[str, dict[str, Guarantee]] = {}
    for name, one in rows.items():
        parts = zip(coded.names, inside, strict=True)
        segments[name] = {
            label: guarantee(one.where(rows_in), constraints, thresholds, level)
            for label, rows_in in parts
        }
    return segments


def net_benefit(f: Counts, thresholds: Array) -> Array:
    """Net benefit of acting on rows whose probability is at least the threshold."""
    first = np.searchsorted(f.x, thresholds, side="left")
    # From the top down, so that a sum over no rows is exactly zero.
    hits, alarms = (
        np.append(np.cumsum(w[::-1])[::-1], 0.0)[first]
        for w in (f.positives, f.negatives)
    )
    return np.asarray(
        hits / f.total - alarms / f.total * thresholds / (1.0 - thresholds)
    )


def _covariance(
    a: Predictions, b: Predictions, of_a: Array, of_b: Array, thresholds: Array
) -> Array:
    """Covariances of the net benefits of two sets on the same rows."""
    m = len(thresholds) + 1
    odds = thresholds / (1.0 - thresholds)
    cell_a, cell_b = (
        np.searchsorted(thresholds, one.probs, side="right") for one in (a, b)
    )
    squares = np.bincount(
        (a.codes * m + cell_a) * m + cell_b, weights=a.squares, minlength=2 * m * m
    )
    # Rows of a class at or above the i-th threshold in one set and the j-th in the
    # other, counted from one.
    above = (
        squares.reshape(2, m, m)[:, ::-1, ::-1]
        .cumsum(axis=1)
        .cumsum(axis=2)[:, ::-1, ::-1]
    )
    raw = above[1, 1:, 1:] + np.outer(odds, odds) * above[0, 1:, 1:]
    sum_a = above[1, 1:, 0] - odds * above[0, 1:, 0]
    sum_b = above[1, 0, 1:] - odds * above[0, 0, 1:]
    centred = (
        raw
        - np.outer(sum_a, of_b)
        - np.outer(of_a, sum_b)
        + np.outer(of_a, of_b) * above[:, 0, 0].sum()
    )
    return np.asarray(centred / a.total**2)


def _band(value: Array, covariance: Array, level: float) -> Band:
    """Simultaneous band of equal width in standard errors."""
    # A variance of zero may be slightly below it, by rounding.
    error = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    reach = (
        max(
            largest_normal(covariance, level, DRAWS, seed=0),
            float(ndtri(0.5 + 0.5 * level)),
        )
        * error
    )
    return Band(value, value - reach, value + reach)


def _cost_of(
    rows: Predictions, base: Predictions, costs: Costs, level: float
) -> CostOfSet:
    z = float(ndtri(0.5 + 0.5 * level))

    def mean(values: Array) -> tuple[float, float, float]:
        value = float(np.average(values, weights=rows.weight))
        error = float(np.sqrt(rows.squared_sums(values - value))) / rows.total
        return value, value - z * error, value + z * error

    def by_row(one: Predictions, threshold: float) -> Array:
        y = one.codes.astype(np.float64)
        return np.where(one.probs >= threshold, costs.acting(y), costs.waiting(y))

    best = best_threshold(rows.counts, rows.spline, costs.threshold, level)
    own = by_row(rows, costs.threshold)
    return CostOfSet(
        *best,
        mean(by_row(rows, best[0]))[0],
        *mean(own),
        *mean(own - by_row(base, costs.threshold)),
    )


def best_threshold(
    f: Counts, fit: FittedCurve | None, target: float, level: float
) -> tuple[float, float, float]:
    """Best threshold for a true probability of ``target``, and its interval."""
    if fit is None:
        everything = 0.0 if f.positives.any() else 1.0
        return everything, 0.0, 1.0
    curve = fit.curve(f.x)
    band = fit.curve.band(f.x, level)
    # What acting on all rows from the i-th value on gains, by the curve; at the end, on
    # none.
    gain = np.append(np.cumsum((f.w * (curve - target))[::-1])[::-1], 0.0)
    at = int(np.argmax(gain))
    x = np.concatenate([[0.0], f.x, [1.0]])
    best = 0.5 * (x[at] + x[at + 1]) if 0 < at < len(f) else 0.0 if at == 0 else 1.0
    unclear = np.flatnonzero((band[:, 0] <= target) & (target <= band[:, 1]))
    if not len(unclear):
        return best, best, best
    low = 0.0 if unclear[0] == 0 else f.x[unclear[0]]
    high = 1.0 if unclear[-1] == len(f) - 1 else f.x[unclear[-1]]
    return best, min(float(low), best), max(float(high), best)


def _prefixed(name: str, numbers: Mapping[str, Any]) -> dict[str, Any]:
    return {f"{name}.{key}": value for key, value in numbers.items()}


def _around(value: float, low: float, high: float) -> str:
    return f"{format_number(value)} [{format_number(low)}, {format_number(high)}]"
