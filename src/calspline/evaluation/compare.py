"""Comparison of sets of predictions by paired differences of mean losses.

A row's difference is ``d_1`` if the event occurs and ``d_0`` if not, so the mean
difference is a weighted sum of events, and its variance depends on their probabilities.
With few events, the bootstrap underestimates this variance, because it resamples
observed outcomes only. The variance is therefore that of a model. Its log-odds of the
event are the average of both sets, recalibrated and tilted along the difference,

    log-odds(a) = eta + a (d_1 - d_0),

which attains any expected difference ``m(a)`` with the smallest change of the
probabilities (exponential tilting). With ``V(a)`` the variance of the mean difference
under the model, the interval contains all ``m(a)`` with ``|D - m(a)| <= z sqrt(V(a))``
for the observed difference ``D``; for a single probability, this is Wilson's interval.
``V`` is corrected by the empirical variance, the more the more events there are.

For three or more classes, and if the difference is spread over many rows, the interval
is ``D +- z`` empirical standard errors.

References
----------
E. B. Wilson, *Probable inference, the law of succession, and statistical inference*,
JASA 22, 1927.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any, Literal

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit

from calspline._arrays import Array, Counts
from calspline._formatting import (
    Row,
    first_few,
    format_number,
    p_value,
    percent,
)
from calspline._input.options import check_number, check_seed
from calspline._results import Block, Result, Table
from calspline.evaluation.coin_flips import Ints
from calspline.evaluation.evaluate import Evaluation
from calspline.evaluation.limits import reach
from calspline.evaluation.losses import row_briers, row_log_losses
from calspline.evaluation.predictions import (
    Predictions,
    check_prediction_sets,
    largest_normal,
)
from calspline.evaluation.recalibration import recalibrated_log_odds
from calspline.evaluation.segments import SegmentDifferences, segment_differences
from calspline.transforms import Transform

Verdict = Literal["better", "no worse", "worse", "unclear"]

MODEL_EVENTS = 20.0
"""Prior weight of the model's variance, in events, when it is corrected by that of the
rows."""
MANY_EVENTS = 2000.0
"""Number of events from which the interval is symmetric."""
STEEPEST = 80.0
"""Limit of the tilt, in log-odds of the row that moves most: near-certain predictions
stay near-certain."""
TINY = np.finfo(float).tiny


@dataclass(frozen=True)
class Difference:
    """Paired difference of mean losses from the reference; negative is better.

    Attributes
    ----------
    value, lower, upper : float
        Difference and its confidence limits.
    verdict : {"better", "no worse", "worse", "unclear"}
        ``"better"`` if the interval is entirely below 0, ``"worse"`` if it is above 0,
        ``"no worse"`` if it is below the margin (by default 1% of the loss of the
        reference), and ``"unclear"`` otherwise, or if only one class occurs.
    """

    value: float
    lower: float
    upper: float
    verdict: Verdict

    def __str__(self) -> str:
        return (
            f"{self.value:+.4f} [{self.lower:+.4f}, {self.upper:+.4f}] {self.verdict}"
        )


@dataclass(frozen=True, eq=False)
class Comparison(Result):
    """The result of :func:`compare`. ``str()`` is a table, :meth:`to_dict` is flat.

    Attributes
    ----------
    reference : str
        Name of the set that the others are compared with.
    evaluations : mapping of str to Evaluation
        Evaluations of all sets, including the reference, in the given order.
    log_loss, brier : mapping of str to Difference
        Differences of all other sets from the reference.
    level : float
        Confidence level of the intervals.
    margin : float
        Non-inferiority margin, as a share of the loss of the reference.
    recommended : str
        Name of the recommended set: the reference if no other is significantly better.
    recommendation : str
        Recommendation as a sentence.
    segments : mapping of str to SegmentDifferences
        With ``by``, the differences of the log-loss by segment.
    """

    reference: str
    evaluations: Mapping[str, Evaluation]
    log_loss: Mapping[str, Difference]
    brier: Mapping[str, Difference]
    level: float
    margin: float
    recommended: str
    recommendation: str
    segments: Mapping[str, SegmentDifferences] = field(default_factory=dict)

    def to_dict(self) -> dict[str, float | str]:
        """Return all numbers as a flat dict.

        Keys are ``"raw.log_loss"``, ``"spline.log_loss_difference"``, ``"recommended"``
        and so on.
        """
        out: dict[str, float | str] = {}
        for name, evaluation in self.evaluations.items():
            out |= {
                f"{name}.{key}": value for key, value in evaluation.to_dict().items()
            }
            for measure, differences in (
                ("log_loss", self.log_loss),
                ("brier", self.brier),
            ):
                if name in differences:
                    d, key = differences[name], f"{name}.{measure}"
                    out |= {
                        f"{key}_difference": d.value,
                        f"{key}_difference_lower": d.lower,
                    }
                    out |= {
                        f"{key}_difference_upper": d.upper,
                        f"{key}_verdict": d.verdict,
                    }
            if name in self.segments:
                out |= {
                    f"{name}.{key}": value
                    for key, value in self.segments[name].to_dict().items()
                }
        return out | {"reference": self.reference, "recommended": self.recommended}

    def _blocks(self) -> list[Block]:
        segments: list[Block] = []
        for name, differences in self.segments.items():
            table, *sentences = differences._blocks()
            assert isinstance(table, Table)
            title = f"By segment, {name} against {self.reference}"
            segments += [table._replace(title=title), *sentences]
        event = self.evaluations[self.reference].rows.event_title
        return [event, self._table(), self.recommendation, self.grouping, *segments]

    def _table(self) -> Table:
        level = percent(self.level)
        rows: list[Row] = []
        for name, e in self.evaluations.items():
            low, high = e.limits["calibration_log_loss"]
            avoidable = format_number(e.calibration_log_loss)
            differences = (
                str(of_set[name]) if name in of_set else ""
                for of_set in (self.log_loss, self.brier)
            )
            rows.append(
                (
                    name,
                    format_number(e.log_loss),
                    f"{avoidable} [{format_number(low)}, {format_number(high)}]",
                    format_number(e.brier),
                    p_value(e.calibration_p_value),
                    *differences,
                )
            )
        against = f"against {self.reference} [{level}]"
        header = (
            "predictions",
            "log-loss",
            f"calibration [{level}]",
            "Brier",
            "p-value",
            f"log-loss {against}",
            f"Brier {against}",
        )
        return Table(rows, header)

    def _columns(self) -> dict[str, Any]:
        columns: dict[str, Any] = {"predictions": list(self.evaluations)}
        numbers = [e.to_dict() for e in self.evaluations.values()]
        columns |= {key: [one.get(key) for one in numbers] for key in numbers[0]}
        for measure, differences in (
            ("log_loss", self.log_loss),
            ("brier", self.brier),
        ):
            for part in ("value", "lower", "upper"):
                name = f"{measure}_difference"
                name += "" if part == "value" else f"_{part}"
                columns[name] = [
                    getattr(differences.get(one), part, np.nan)
                    for one in self.evaluations
                ]
        return columns

    @property
    def best_other(self) -> str | None:
        """Recommended set or, if that is the reference, the other with the lowest loss.

        None if there is only the reference.
        """
        others = (name for name in self.evaluations if name != self.reference)
        return min(
            others,
            key=lambda n: (n != self.recommended, self.evaluations[n].log_loss),
            default=None,
        )

    @property
    def grouping(self) -> str:
        """Effect of the groups on these rows, as a sentence; empty without groups."""
        return self.evaluations[self.reference].grouping

    def __repr__(self) -> str:
        return (
            f"Comparison({', '.join(self.evaluations)}; "
            f"recommended: {self.recommended})"
        )


def compare(
    y: Any,
    predictions: Any,
    *,
    sample_weight: Any = None,
    labels: Any = None,
    pos_label: Any = None,
    groups: Any = None,
    by: Any = None,
    reference: str | None = None,
    level: float = 0.95,
    margin: float = 0.01,
    random_state: Any = None,
) -> Comparison:
    """Compare several sets of predictions on the same rows, and recommend one.

    Losses are compared row by row, so rows that are hard for both sets cancel out. The
    intervals are valid for each difference separately, also if events are few, and
    take groups into account. The recommendation is conservative: another set is
    preferred to the reference only if it is better in log-loss or Brier score and
    worse in neither, after correction for the number of sets and losses. If all sets
    are equally good, the reference is recommended with a probability of at least
    ``level``. Among several better sets, the one with the lowest log-loss is
    recommended.

    Parameters
    ----------
    y, sample_weight, labels, pos_label, groups, by
        As for :func:`evaluate`. With ``by``, the result also has the differences by
        segment.
    predictions : mapping of str to array-like, or array-like
        Probabilities by name, each as for :func:`evaluate`.
    reference : str, optional
        Name of the set to compare with, usually the one in use. By default the first.
    level : float in (0, 1), default=0.95
        Confidence level of the intervals.
    margin : float in (0, 1), default=0.01
        Non-inferiority margin: a set is "no worse" if the upper limit of its excess
        loss is below this share of the loss of the reference.
    random_state : int, RandomState or None
        Random state for the simulation of the largest difference among equally good
        sets. None is a fixed seed.

    Returns
    -------
    result : Comparison
        Evaluations, differences and the recommendation; ``print`` shows a table.

    See Also
    --------
    evaluate : Evaluate one set of predictions.

    Examples
    --------
    >>> import numpy as np
    >>> from calspline import compare
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(size=3000)
    >>> happened = rng.random(3000) < p
    >>> overconfident = p**3 / (p**3 + (1 - p) ** 3)
    >>> result = compare(happened, {"raw": overconfident, "calibrated": p})
    >>> result.log_loss["calibrated"].verdict
    'better'
    >>> print(compare(happened, {"raw": p, "overdone": overconfident}).recommendation)
    Keep raw: no other set is significantly better.
    """
    level = check_number(level, "level", above=0.0, below=1.0)
    margin = check_number(margin, "margin", above=0.0, below=1.0)
    seed = check_seed(random_state, "random_state")
    rows = check_prediction_sets(
        y, predictions, sample_weight, labels, groups, by, pos_label=pos_label
    )
    return compare_predictions(rows, reference, level=level, margin=margin, seed=seed)


def compare_predictions(
    rows: Mapping[str, Predictions],
    reference: str | None = None,
    *,
    level: float = 0.95,
    margin: float = 0.01,
    seed: int = 0,
) -> Comparison:
    """Compare validated predictions."""
    reference = next(iter(rows)) if reference is None else reference
    if reference not in rows:
        raise ValueError(
            f"reference must be one of {', '.join(map(repr, rows))}; got {reference!r}"
        )
    base, others = rows[reference], [name for name in rows if name != reference]
    evaluations = {name: Evaluation(one) for name, one in rows.items()}
    z = reach(base, level)
    paired, found = {}, {}
    for measure, losses in (("log_loss", row_log_losses), ("brier", row_briers)):
        slack = (
            margin * getattr(evaluations[reference], measure)
            if len(np.unique(base.codes)) > 1
            else np.nan
        )
        paired[measure] = {
            name: PairedDifference(losses, rows[name], base) for name in others
        }
        found[measure] = {
            name: _judged(one, z, slack) for name, one in paired[measure].items()
        }
    verdicts = {
        name: [found[measure][name].verdict for measure in found] for name in others
    }
    better = [
        name
        for name in others
        if "better" in verdicts[name] and "worse" not in verdicts[name]
    ]
    surely = []
    if better:
        every = [one for of_measure in paired.values() for one in of_measure.values()]
        family = max(z, family_critical_value(every, level, seed))
        surely = [
            name
            for name in better
            if any(one[name].interval(family)[1] < 0.0 for one in paired.values())
        ]
    best = min(surely, key=lambda name: evaluations[name].log_loss, default=reference)
    sentence = _doubt(evaluations[reference], reference, len(others), better, level)
    if best != reference:
        by_log = found["log_loss"][best].verdict == "better"
        d = found["log_loss" if by_log else "brier"][best]
        sentence = (
            f"Use {best}: its {'log-loss' if by_log else 'Brier score'} is lower than "
            f"that of {reference} by "
            f"{-d.value:.4f} ({percent(level)} interval {-d.upper:.4f} to "
            f"{-d.lower:.4f})."
        )
        losses = row_log_losses if by_log else row_briers
        as_good = [
            name
            for name in better
            if name != best
            and PairedDifference(losses, rows[name], rows[best]).interval(z)[0] <= 0.0
        ]
        if as_good:
            sentence += f" It is not significantly better than {first_few(as_good)}."
    return Comparison(
        reference=reference,
        evaluations=evaluations,
        **found,
        level=level,
        margin=margin,
        recommended=best,
        recommendation=sentence,
        segments=segment_differences(paired["log_loss"]),
    )


def _judged(one: PairedDifference, z: float, slack: float) -> Difference:
    """Difference with its verdict; it is ``"unclear"`` if ``slack`` is NaN."""
    low, high = one.interval(z)
    verdict: Verdict = "no worse" if high <= slack else "unclear"
    if (high < 0.0 or low > 0.0) and not np.isnan(slack):
        verdict = "better" if high < 0.0 else "worse"
    return Difference(one.value, low, high, verdict)


def _doubt(
    own: Evaluation, reference: str, n_others: int, better: list[str], level: float
) -> str:
    """Explain why the reference is kept although some sets look ``better``."""
    if not n_others:
        return f"Nothing to compare {reference} with."
    why = "no other set is significantly better"
    if own.calibration_p_value > 1.0 - level:
        why += ", and there is no evidence of miscalibration"
    if better:
        why += (
            f"; {better[0]} has a lower loss, but among {n_others} sets "
            "the difference may be due to chance"
        )
    elif own.base_rate in (0.0, 1.0) and not own.per_class:
        why = "with a single outcome, the sets cannot be compared"
    return f"Keep {reference}: {why}."


@dataclass(frozen=True, eq=False)
class PairedDifference:
    """Differences between the losses of two sets, row by row."""

    losses: Callable[[Array, Ints], Array]
    rows: Predictions
    reference: Predictions

    def if_outcome(self, codes: Ints | int) -> Array:
        """Difference of each row if its class were the given one."""
        codes = np.broadcast_to(codes, self.rows.codes.shape)
        return self.losses(self.rows.probs, codes) - self.losses(
            self.reference.probs, codes
        )

    @cached_property
    def seen(self) -> Array:
        """Observed difference of each row."""
        return self.if_outcome(self.rows.codes)

    @property
    def value(self) -> float:
        """The mean difference."""
        return float(np.average(self.seen, weights=self.rows.weight))

    def influence(self) -> Array:
        """Contribution of each row to the mean difference, before weighting."""
        return (self.seen - self.value) / self.rows.total

    def interval(self, z: float) -> tuple[float, float]:
        """Limits at ``z`` standard errors from the mean."""
        rows, u = self.rows, self.influence()
        shown = float(rows.squared_sums(u))
        units, squares, fourths = (rows.powers(power) for power in (0.0, 2.0, 4.0))
        fourth = float(fourths @ np.square(u**2))
        spread_over = float(squares @ u**2) ** 2 / max(fourth, TINY)
        if (
            not rows.binary
            or min(spread_over, *np.bincount(rows.codes, units, minlength=2))
            > MANY_EVENTS
        ):
            reach = z * np.sqrt(shown)
            return self.value - reach, self.value + reach
        return self._model.interval(z)

    @cached_property
    def _model(self) -> TiltedModel:
        return TiltedModel(self, float(self.rows.squared_sums(self.influence())))


class TiltedModel:
    """Model of the outcomes, tilted along the difference of the losses.

    ``shown`` is the empirical variance, by which that of the model is corrected.
    """

    def __init__(self, difference: PairedDifference, shown: float) -> None:
        rows, total = difference.rows, difference.rows.total
        self.value = value = difference.value
        self.d0, d1 = difference.if_outcome(0), difference.if_outcome(1)
        self.delta = d1 - self.d0
        self.scale = float(np.abs(self.delta).max())
        self.factor = 1.0
        if self.scale == 0.0:
            return
        self.share, self.squares = rows.w / total, rows.powers() / total**2
        logit = Transform("logit")
        x = 0.5 * (logit(rows.probs) + logit(difference.reference.probs))
        counts = Counts.from_rows(x, rows.codes == 1, rows.weight, rows.squares)
        self.log_odds = recalibrated_log_odds(counts, x)
        self.center = self._tilt_to_value()
        p, _, variance = self(self.center)
        self.factor = shown / max(variance, TINY)
        if rows.groups is None:
            away = np.square((self.d0 - value) ** 2) * (1.0 - p)
            away += np.square((d1 - value) ** 2) * p
            fourth = float((rows.powers(4.0) / total**4) @ away)
            events = variance**2 / max(fourth, TINY)
            weighted = events * self.factor + MODEL_EVENTS
            self.factor = weighted / (events + MODEL_EVENTS)
        self.step = self._step(float(np.sqrt(self.factor * variance)), p)

    def _tilt_to_value(self) -> float:
        """Tilt at which the mean difference is the observed one."""
        p, mean, _ = self(0.0)
        side = 1.0 if mean < self.value else -1.0
        step = self._step(abs(self.value - mean), p)
        end = side * STEEPEST
        return _root(lambda a: side * (self(a)[1] - self.value), 0.0, end, step)

    def _step(self, change: float, p: Array) -> float:
        """Step of the tilt that changes the mean difference by about that much."""
        slope = float((self.share * p * (1.0 - p)) @ self.delta**2) / self.scale
        return min(change / max(slope, TINY), STEEPEST)

    def __call__(self, a: float) -> tuple[Array, float, float]:
        """Probabilities, mean difference and variance at a tilt.

        The tilt is the change of the log-odds of the row that moves most. The variance
        includes that of the outcomes and of the sampling of rows.
        """
        p = expit(self.log_odds + a * (self.delta / self.scale))
        each = self.d0 + p * self.delta
        mean = float(self.share @ each)
        squares = p * (1.0 - p) * self.delta**2 + (each - mean) ** 2
        return p, mean, float(self.squares @ squares)

    def interval(self, z: float) -> tuple[float, float]:
        """Limits at ``z`` standard errors."""
        if self.scale == 0.0:
            return self.value, self.value
        low, high = (self._end(side, z) for side in (-1.0, 1.0))
        return min(low, self.value), max(high, self.value)

    def _end(self, side: float, z: float) -> float:
        def beyond(a: float) -> float:
            _, mean, variance = self(a)
            error = float(np.sqrt(self.factor * variance))
            return side * (mean - self.value) - z * error

        return self(_root(beyond, self.center, side * STEEPEST, z * self.step))[1]


def _root(f: Callable[[float], float], start: float, end: float, step: float) -> float:
    """Root of a function that increases with the step, or the nearer end.

    ``step`` is an estimate of the distance from ``start``.
    """
    f = cache(f)
    if f(start) >= 0.0:
        return start
    if 1.5 * step < abs(end - start):
        middle = start + float(np.copysign(1.5 * step, end - start))
        if f(middle) > 0.0:
            end = middle
    return end if f(end) <= 0.0 else float(brentq(f, start, end, xtol=1e-10))


N_DRAWS = 2000
"""Number of simulations of the largest difference among equally good sets."""


def family_critical_value(
    differences: list[PairedDifference], level: float, seed: int
) -> float:
    """Critical value for the largest of all differences, at level ``level``."""
    covariance = differences[0].rows.squared_sums(
        np.column_stack([one.influence() for one in differences])
    )
    return largest_normal(covariance, level, N_DRAWS, [seed, 0])
