"""Measures of the quality of predicted probabilities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np

from calspline._arrays import one_blas_thread
from calspline._formatting import (
    Row,
    format_number,
    grouping,
    p_equals,
    p_value,
    rounded_percent,
    rows_in_groups,
)
from calspline._input.options import check_one_of
from calspline._results import Block, Result, Table, text_of_blocks
from calspline.evaluation import losses
from calspline.evaluation.calibration_error import (
    ECE_BINS,
    curve_distances,
    ece,
    equal_width_bins,
    smooth_ece,
)
from calspline.evaluation.calibration_test import (
    calibration_p_value,
    combined_p_value,
)
from calspline.evaluation.limits import Limits, LimitsOfEvaluation
from calspline.evaluation.predictions import Predictions, check_predictions
from calspline.evaluation.recalibration import Recalibration, recalibration
from calspline.evaluation.segments import SegmentEvaluation, evaluate_segments

NUMBERS: tuple[str, ...] = (
    "n_rows", "total_weight", "log_loss", "brier", "accuracy", "auc",
    "calibration_log_loss", "refinement_log_loss",
    "discrimination_log_loss", "uncertainty_log_loss",
    "calibration_brier", "refinement_brier",
    "discrimination_brier", "uncertainty_brier",
    "ece", "ece_debiased", "smooth_ece", "ici", "e50", "e90", "emax",
    "base_rate", "mean_probability",
    "calibration_in_the_large", "calibration_in_the_large_se",
    "calibration_slope", "calibration_slope_se",
    "calibration_p_value", "impossible_weight",
)  # fmt: skip
"""Names of all numbers of an evaluation."""
OF_GROUPS = ("n_groups", "design_effect")
OF_CLASSES = (
    "class_wise_ece", "class_wise_ece_debiased", "class_wise_smooth_ece",
    "class_wise_p_value", "top_label_p_value",
)  # fmt: skip
LABELS = {
    "log_loss": "log-loss",
    "calibration_log_loss": "  calibration (avoidable)",
    "refinement_log_loss": "  refinement (remaining)",
    "brier": "Brier score",
    "calibration_brier": "  calibration (avoidable)",
    "refinement_brier": "  refinement (remaining)",
    "accuracy": "accuracy",
    "auc": "AUC",
    "ece": "ECE",
    "ece_debiased": "ECE, debiased",
    "smooth_ece": "smooth ECE",
    "ici": "ICI (mean distance from the curve)",
    "e50": "  E50 (median)",
    "e90": "  E90 (90th percentile)",
    "emax": "  Emax (maximum)",
    "mean_probability": "mean predicted probability",
    "base_rate": "observed frequency",
    "calibration_in_the_large": "calibration in the large (0 if calibrated)",
    "calibration_slope": "calibration slope (1 if calibrated)",
    "calibration_p_value": "p-value of the calibration test",
    "impossible_weight": "rows whose outcome had probability 0",
}
CLASS_LABELS = {
    "class_wise_ece": "ECE, mean over the classes",
    "class_wise_smooth_ece": "smooth ECE, mean over the classes",
}
FIRST = (
    "log_loss", "calibration_log_loss", "brier", "auc", "ece_debiased",
    "calibration_slope",
)  # fmt: skip
"""Names of the numbers that are printed first."""
OF_EVENT = (
    "ece", "ece_debiased", "smooth_ece", "ici", "mean_probability",
    "calibration_in_the_large", "calibration_slope",
)  # fmt: skip
OF_TOP_LABEL = ", most probable class"
SIGNIFICANT = 0.05
ONE_SIGN = 0.75
"""Share of all deviation that must be of one sign for "too high" or "too low"."""
Miscalibration = Literal[
    "over-confident",
    "under-confident",
    "too high",
    "too low",
    "reversed",
    "miscalibrated",
]
SCORERS = (
    "log_loss", "brier", "accuracy", "auc", "calibration_log_loss",
    "refinement_log_loss", "calibration_brier", "refinement_brier", "ece",
    "ece_debiased", "smooth_ece", "ici", "emax",
)  # fmt: skip
MORE_IS_BETTER = ("accuracy", "auc")


@dataclass(frozen=True, eq=False)
class Evaluation(Result):
    """The result of :func:`evaluate`.

    Numbers are computed on access. ``print`` shows a verdict and the most important
    numbers; :meth:`details` shows all, and :meth:`to_dict` and :meth:`to_frame` return
    them.

    Attributes
    ----------
    n_rows : int
        Number of rows with positive weight.
    total_weight : float
        Sum of the weights.
    classes : tuple
        Class labels, in the order of the columns.
    log_loss, brier, accuracy : float
        As defined by scikit-learn: for three or more classes, the Brier score is summed
        over classes.
    auc : float
        Area under the ROC curve; for three or more classes, the mean over classes that
        occur, each against the rest. NaN if only one class occurs.
    calibration_log_loss, refinement_log_loss : float
        Decomposition of the log-loss by isotonic recalibration: the loss that
        recalibration would avoid, and the remaining loss. The gain that isotonic
        regression achieves by fitting noise is subtracted, so
        ``calibration_log_loss`` is about 0 on average for calibrated probabilities, and
        may be negative.
    discrimination_log_loss, uncertainty_log_loss : float
        ``refinement_log_loss = uncertainty_log_loss - discrimination_log_loss``.
    calibration_brier, refinement_brier, discrimination_brier, uncertainty_brier : float
        Decomposition of the Brier score.
    ece, ece_debiased : float
        Expected calibration error on 15 bins of equal width, plain and debiased. For
        three or more classes, these and all of the following attributes refer to the
        most probable class.
    smooth_ece : float
        Expected calibration error by kernel smoothing instead of bins.
    ici, e50, e90, emax : float
        Mean, median, 90th percentile and maximum of the distance between the
        probabilities and a spline fitted to the outcomes. NaN if only one class occurs.
    base_rate, mean_probability : float
        Observed frequency and mean predicted probability of the event. For three or
        more classes, the event is that the most probable class is correct.
    calibration_in_the_large, calibration_in_the_large_se : float
        Shift of the log-odds that makes the mean probability equal to the observed
        frequency, and its standard error if that shift calibrates the probabilities;
        the limits do not assume that it does.
    calibration_slope, calibration_slope_se : float
        Slope of the recalibrated log-odds, and its standard error. Below 1, the
        probabilities are too extreme.
    calibration_p_value : float
        P-value of the hypothesis that the probabilities are calibrated; 0.001 is the
        smallest value of the simulation used for few rows. For three or more classes,
        the Cauchy combination of ``top_label_p_value`` and ``class_wise_p_value``.
    miscalibration : str
        In what way the probabilities are wrong, if the p-value says that they are:
        ``"over-confident"``, ``"under-confident"``, ``"too high"``, ``"too low"``,
        ``"reversed"`` (lower where the event is more frequent) or
        ``"miscalibrated"``.
    impossible_weight : float
        Weight of the rows whose outcome had predicted probability exactly 0. Their
        log-loss is infinite; it is counted as 36.04, as in scikit-learn.
    top_label : Evaluation or None
        For three or more classes, the evaluation of the most probable class as a
        two-class problem (correct or not).
    per_class : mapping
        For three or more classes, the evaluation of each class against the rest, by
        label. Empty for two classes.
    n_groups : int or None
        Number of groups of dependent rows; None without ``groups``.
    design_effect : float
        Number of rows divided by the effective sample size; 1 for independent rows. For
        three or more classes, that of the most probable class.
    segments : SegmentEvaluation or None
        With ``by``, the evaluation of each segment.
    limits : mapping of str to (float, float)
        95% confidence limits by name, as in ``limits["log_loss"]``. NaN if not
        available.
    rows : Predictions
        The validated input.
    """

    rows: Predictions = field(repr=False)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.rows.codes)

    @property
    def total_weight(self) -> float:
        """Sum of the weights."""
        return self.rows.total

    @property
    def classes(self) -> tuple[Any, ...]:
        """The labels."""
        return tuple(self.rows.classes.tolist())

    @property
    def n_groups(self) -> int | None:
        """Number of groups."""
        return self.rows.n_groups

    @property
    def design_effect(self) -> float:
        """Variance of sums over groups, relative to that of independent rows."""
        return self._event.rows.design_effect

    @cached_property
    def top_label(self) -> Evaluation | None:
        """The evaluation of the most probable class; None for two classes."""
        return None if self.rows.binary else Evaluation(self.rows.event)

    @cached_property
    def per_class(self) -> Mapping[Any, Evaluation]:
        """The evaluation of each class against the rest; empty for two classes."""
        if self.rows.binary:
            return {}
        problems = self.rows.against_rest
        return {
            label: Evaluation(problem)
            for label, problem in zip(self.classes, problems, strict=True)
        }

    @property
    def _event(self) -> Evaluation:
        """Evaluation of the event: for three or more classes, of the top label."""
        return self if self.top_label is None else self.top_label

    @cached_property
    def log_loss(self) -> float:
        """Mean negative log-likelihood."""
        rows = self.rows
        if rows.binary:
            return losses.log_loss(rows.counts)
        by_row = losses.row_log_losses(rows.probs, rows.codes)
        return float(np.average(by_row, weights=rows.weight))

    @cached_property
    def brier(self) -> float:
        """Mean squared error, summed over three or more classes."""
        if self.rows.binary:
            return losses.brier(self.rows.counts)
        return self._sum_over_classes("brier")

    @cached_property
    def accuracy(self) -> float:
        """Share of rows whose most probable class is right."""
        if self.rows.binary:
            return losses.accuracy(self.rows.counts)
        return self.base_rate

    @cached_property
    def auc(self) -> float:
        """Area under the ROC curve."""
        if self.rows.binary:
            return losses.auc(self.rows.counts)
        known = [one.auc for one in self.per_class.values() if not np.isnan(one.auc)]
        return float(np.mean(known)) if known else float("nan")

    @cached_property
    def _log_loss_parts(self) -> losses.LossParts:
        rows = self.rows
        overfit = float(rows.overfit.log_loss.mean())
        if rows.binary:
            return self._binary_parts(losses.log_loss, overfit)
        recalibrated = np.empty_like(rows.probs)
        for j, problem in enumerate(rows.against_rest):
            place = np.searchsorted(problem.counts.x, rows.probs[:, j])
            recalibrated[:, j] = problem.recalibrated[place]
        return losses.multiclass_log_loss_parts(
            self.log_loss, recalibrated, rows.codes, rows.weight, overfit
        )

    @cached_property
    def _brier_parts(self) -> losses.LossParts:
        rows = self.rows
        if rows.binary:
            overfit = float(rows.overfit.brier.mean())
            return self._binary_parts(losses.brier, overfit)
        refinement = float(rows.overfit.brier.mean())
        uncertainty = 0.0
        for problem in rows.against_rest:
            f = problem.counts
            refinement += losses.brier(f, problem.recalibrated)
            uncertainty += f.base_rate * (1.0 - f.base_rate)
        return losses.parts(self.brier, refinement, uncertainty)

    def _binary_parts(self, loss: losses.Loss, overfit: float) -> losses.LossParts:
        """Components of a loss for two classes."""
        f = self.rows.counts
        first = np.zeros(1, dtype=np.intp)
        uncertainty = loss(f.merged(first, np.array([f.base_rate])))
        refinement = loss(self.rows.pools) + overfit
        return losses.parts(loss(f), refinement, uncertainty)

    @property
    def calibration_log_loss(self) -> float:
        """Log-loss that recalibration would avoid."""
        return self._log_loss_parts.calibration

    @property
    def refinement_log_loss(self) -> float:
        """Log-loss that would remain after recalibration."""
        return self._log_loss_parts.refinement

    @property
    def discrimination_log_loss(self) -> float:
        """Difference of ``uncertainty_log_loss`` and ``refinement_log_loss``."""
        return self._log_loss_parts.discrimination

    @property
    def uncertainty_log_loss(self) -> float:
        """Log-loss of predicting the base rates."""
        return self._log_loss_parts.uncertainty

    @property
    def calibration_brier(self) -> float:
        """Brier score that recalibration would avoid."""
        return self._brier_parts.calibration

    @property
    def refinement_brier(self) -> float:
        """Brier score that would remain after recalibration."""
        return self._brier_parts.refinement

    @property
    def discrimination_brier(self) -> float:
        """Difference of ``uncertainty_brier`` and ``refinement_brier``."""
        return self._brier_parts.discrimination

    @property
    def uncertainty_brier(self) -> float:
        """Brier score of predicting the base rates."""
        return self._brier_parts.uncertainty

    @cached_property
    def _eces(self) -> tuple[float, float]:
        f = self._event.rows.counts
        return ece(f, equal_width_bins(f.x, ECE_BINS))

    @property
    def ece(self) -> float:
        """Expected calibration error."""
        return self._eces[0]

    @property
    def ece_debiased(self) -> float:
        """Debiased expected calibration error."""
        return self._eces[1]

    @cached_property
    def smooth_ece(self) -> float:
        """Expected calibration error without bins."""
        return smooth_ece(self._event.rows.counts)

    @cached_property
    def _distances(self) -> dict[str, float]:
        rows = self._event.rows
        return curve_distances(rows.counts, rows.spline)

    @property
    def ici(self) -> float:
        """Mean distance from the calibration curve."""
        return self._distances["ici"]

    @property
    def e50(self) -> float:
        """Median distance from the calibration curve."""
        return self._distances["e50"]

    @property
    def e90(self) -> float:
        """90th percentile of the distance from the calibration curve."""
        return self._distances["e90"]

    @property
    def emax(self) -> float:
        """Largest distance from the calibration curve."""
        return self._distances["emax"]

    @property
    def base_rate(self) -> float:
        """Observed frequency of the event."""
        return self._event.rows.counts.base_rate

    @property
    def mean_probability(self) -> float:
        """Mean predicted probability of the event."""
        return self._event.rows.counts.mean

    @cached_property
    def _recalibration(self) -> Recalibration:
        rows = self._event.rows
        return recalibration(rows.counts, rows)

    @property
    def calibration_in_the_large(self) -> float:
        """Shift of the log-odds that makes the mean equal to the base rate."""
        return self._recalibration.in_the_large

    @property
    def calibration_in_the_large_se(self) -> float:
        """Standard error of ``calibration_in_the_large``."""
        return self._recalibration.in_the_large_se

    @property
    def calibration_slope(self) -> float:
        """Slope of the log-odds."""
        return self._recalibration.slope

    @property
    def calibration_slope_se(self) -> float:
        """Standard error of ``calibration_slope``."""
        return self._recalibration.slope_se

    @cached_property
    def calibration_p_value(self) -> float:
        """P-value of the hypothesis that the probabilities are calibrated."""
        if self.rows.binary:
            return calibration_p_value(
                self.rows.counts, self.rows, simulate=not self.rows.of_many
            )
        return combined_p_value(
            np.array([self.top_label_p_value, self.class_wise_p_value])
        )

    @cached_property
    def impossible_weight(self) -> float:
        """Weight of the rows whose outcome had predicted probability 0."""
        rows = self.rows
        if rows.binary:
            return losses.impossible_weight(rows.counts)
        impossible = losses.probability_of_outcome(rows.probs, rows.codes) == 0.0
        return float(rows.w[impossible].sum())

    @cached_property
    def segments(self) -> SegmentEvaluation | None:
        """The evaluation by segment; None without ``by``."""
        if self.rows.by is None:
            return None
        with one_blas_thread():
            return evaluate_segments(self.rows, self.top_label_p_value)

    @cached_property
    def limits(self) -> Mapping[str, Limits]:
        """95% confidence limits by name, computed on access."""
        return LimitsOfEvaluation(self)

    @property
    def n_effective(self) -> float:
        """Effective sample size."""
        return self.total_weight / self.design_effect

    @property
    def grouping(self) -> str:
        """Effect of the groups on these rows, as a sentence; empty without groups."""
        return grouping(self.n_rows, self.n_groups, self.n_effective)

    @property
    def class_wise_ece(self) -> float:
        """Mean ECE over classes, each against the rest; the ECE for two classes."""
        return self._class_wise("ece")

    @property
    def class_wise_ece_debiased(self) -> float:
        """Mean debiased ECE over classes, each against the rest."""
        return self._class_wise("ece_debiased")

    @property
    def class_wise_smooth_ece(self) -> float:
        """Mean smooth ECE over classes, each against the rest."""
        return self._class_wise("smooth_ece")

    @property
    def class_wise_p_value(self) -> float:
        """Combined p-value of the classes, each against the rest."""
        if not self.per_class:
            return self.calibration_p_value
        return combined_p_value(
            np.array([one.calibration_p_value for one in self.per_class.values()])
        )

    @property
    def top_label_p_value(self) -> float:
        """P-value of the test for the most probable class."""
        return (
            self.calibration_p_value
            if self.top_label is None
            else self.top_label.calibration_p_value
        )

    def _class_wise(self, name: str) -> float:
        return float(
            np.mean([getattr(one, name) for one in self.per_class.values() or [self]])
        )

    def _sum_over_classes(self, name: str) -> float:
        return float(sum(getattr(one, name) for one in self.per_class.values()))

    def to_dict(self, *, limits: bool = True) -> dict[str, float]:
        """Return all numbers and, optionally, their limits as a flat dict.

        ``{"log_loss": ..., "log_loss_lower": ..., "log_loss_upper": ..., ...}``
        """
        names = NUMBERS + (() if self.n_groups is None else OF_GROUPS)
        if self.per_class:
            names += OF_CLASSES
        out: dict[str, float] = {}
        with one_blas_thread():
            for name in names:
                out[name] = float(getattr(self, name))
                if limits and name in self.limits:
                    out[f"{name}_lower"], out[f"{name}_upper"] = self.limits[name]
        out["n_classes"] = float(len(self.classes))
        return out if self.segments is None else out | self.segments.to_dict()

    def details(self) -> str:
        """Format all numbers with their limits as a table."""
        return text_of_blocks([self._title, self._details(), self.grouping])

    @property
    def verdict(self) -> str:
        """Result of the calibration test and the avoidable loss, as a sentence."""
        p = self.calibration_p_value
        if np.isnan(self.calibration_slope) and self.base_rate in (0.0, 1.0):
            return f"A single outcome occurs ({p_equals(p)})."
        if p >= SIGNIFICANT:
            return f"No evidence of miscalibration ({p_equals(p)})."
        sentence = f"{self._finding} ({p_equals(p)})"
        saved = self.calibration_log_loss
        if saved <= 0.0:
            return f"{sentence}."
        share = rounded_percent(saved / self.log_loss)
        return f"{sentence}: calibration would reduce the log-loss by {share}."

    @property
    def _finding(self) -> str:
        """Which probabilities are wrong, and in what way."""
        if not self.per_class:
            return f"The probabilities are {self.miscalibration}"
        if self.top_label_p_value < SIGNIFICANT:
            top = "The probabilities of the most probable class"
            return f"{top} are {self.miscalibration}"
        return "The probabilities of some classes are miscalibrated"

    @property
    def miscalibration(self) -> Miscalibration:
        """In what way the probabilities are wrong, if they are.

        They are reversed if the slope is below 0, and too high or too low if most of
        their distance from the curve has one sign and the slope is no stronger
        evidence; otherwise over- or under-confident, as the slope says.
        """
        low, high = self.limits["calibration_slope"]
        bias = self.mean_probability - self.base_rate
        one_sign = abs(bias) > ONE_SIGN * self.ici
        if self.per_class and one_sign:
            return "over-confident" if bias > 0.0 else "under-confident"
        if high < 0.0 and not self.per_class:
            return "reversed"
        if one_sign and not self._slope_is_clearer:
            return "too high" if bias > 0.0 else "too low"
        if high < 1.0:
            return "over-confident"
        return "under-confident" if low > 1.0 else "miscalibrated"

    @property
    def _slope_is_clearer(self) -> bool:
        """Whether the slope is more standard errors off than the level."""
        of_level = self.calibration_in_the_large / self.calibration_in_the_large_se
        of_slope = (self.calibration_slope - 1.0) / self.calibration_slope_se
        return abs(of_slope) > abs(of_level)

    @property
    def _title(self) -> str:
        rows = rows_in_groups(self.n_rows, self.n_groups)
        event = self.rows.event_title.replace("Event", ", event", 1)
        return f"{rows}, {len(self.classes)} classes{event}"

    def _line(self, name: str) -> Row:
        """Label, value and limits of a number."""
        label = (LABELS | CLASS_LABELS)[name]
        if name in OF_EVENT and self.per_class:
            label += OF_TOP_LABEL
        value = float(getattr(self, name))
        if name == "calibration_p_value":
            return label, p_value(value), ""
        shown = f"{value:g}" if name == "impossible_weight" else format_number(value)
        low, high = self.limits.get(name, (np.nan, np.nan))
        known = not np.isnan(low)
        limits = f"{format_number(low)} to {format_number(high)}" if known else ""
        return label, shown, limits

    def _table(self, names: Sequence[str]) -> Table:
        with one_blas_thread():
            rows = [self._line(name) for name in names]
        return Table(rows, ("", "value", "95% limits"))

    def _details(self) -> Table:
        names = [
            name
            for name in (*LABELS, *(CLASS_LABELS if self.per_class else ()))
            if name != "impossible_weight" or self.impossible_weight
        ]
        return self._table(names)

    def _blocks(self) -> list[Block]:
        segments: list[Block] = []
        if self.segments is not None:
            segments = ["\nBy segment", *self.segments._blocks()]
        first = self._table(FIRST)
        return [self._title, self.verdict, first, self.grouping, *segments]

    def _columns(self) -> dict[str, Any]:
        names = NUMBERS + (OF_CLASSES if self.per_class else ())
        unknown = (np.nan, np.nan)
        limits = [self.limits.get(name, unknown) for name in names]
        return {
            "name": list(names),
            "value": [float(getattr(self, name)) for name in names],
            "lower": [low for low, _ in limits],
            "upper": [high for _, high in limits],
        }

    def __repr__(self) -> str:
        return (
            f"Evaluation({self._title}: log_loss={self.log_loss:.4g}, "
            f"brier={self.brier:.4g}, "
            f"calibration_p_value={self.calibration_p_value:.3g})"
        )


def evaluate(
    y: Any,
    probs: Any,
    *,
    sample_weight: Any = None,
    labels: Any = None,
    pos_label: Any = None,
    groups: Any = None,
    by: Any = None,
) -> Evaluation:
    """Evaluate predicted probabilities.

    Computes proper scores and their decomposition into calibration and refinement,
    calibration errors, and a calibration test, with confidence limits.

    Parameters
    ----------
    y : array-like of shape (n,)
        Labels of any type.
    probs : array-like of shape (n,), (n, 1), (n, 2) or (n, m)
        Predicted probabilities of the second class, or of all classes.
    sample_weight : array-like of shape (n,), optional
        Sample weights; a weight of 2 is equivalent to two rows.
    labels : array-like, optional
        Class labels in the order of the columns. By default the sorted labels of ``y``;
        labels 0 and 1 (or 0 to m-1) need not all occur.
    pos_label : label, optional
        For two classes, the label to which a single column of probabilities refers, and
        the event that is evaluated. By default the second label.
    groups : array-like of shape (n,), optional
        Group of each row (patient, game). Rows of a group may depend on each other;
        groups are independent. Standard errors and tests take this into account.
    by : array-like of shape (n,) or (n, n_columns), optional
        Segment of each row (country, campaign). The attribute ``segments`` of the
        result then has a table, one test of the hypothesis that every segment is
        calibrated, and the miscalibrated segments. Several columns are evaluated one
        after the other, not in combination. Rows without a label form a segment.

    Returns
    -------
    result : Evaluation
        Numbers as attributes; ``print`` shows a summary.

    See Also
    --------
    compare : Compare several sets of predictions on the same rows.
    reliability : Compute a reliability diagram.

    Examples
    --------
    >>> import numpy as np
    >>> from calspline import evaluate
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(size=2000)
    >>> happened = rng.random(2000) < p
    >>> result = evaluate(happened, p)
    >>> result.calibration_p_value > 0.05, result.smooth_ece < 0.03
    (True, True)
    >>> overconfident = p**3 / (p**3 + (1 - p) ** 3)
    >>> result = evaluate(happened, overconfident)  # print it, to see all
    >>> round(result.calibration_log_loss, 3), round(result.calibration_slope, 1)
    (0.194, 0.3)

    In two of five countries, events are more or less frequent than predicted:

    >>> country = np.repeat(["it", "at", "fr", "de", "lu"], [380, 400, 500, 700, 20])
    >>> scores = p ** np.select([country == "fr", country == "it"], [1.6, 0.6], 1.0)
    >>> print(evaluate(happened, scores, by=country).segments)
    segment  rows  events  mean score  event rate  log-loss  ratio           95%  p-value    scores
    -----------------------------------------------------------------------------------------------
    fr        500     247      0.3775      0.4940    0.5202   1.31  1.22 to 1.40  < 0.001   too low
    it        380     202      0.6477      0.5316    0.5301   0.82  0.76 to 0.88  < 0.001  too high
    lu         20      13      0.4555      0.6500    0.7741   1.43  1.02 to 1.75    0.083
    at        400     210      0.5083      0.5250    0.4890   1.03  0.95 to 1.11    0.517
    de        700     336      0.4816      0.4800    0.4941   1.00  0.94 to 1.06    0.807
    Not every segment is calibrated (p < 0.001): 2 of 5 are miscalibrated.
    Multicalibration error: 0.0601 (6.7 standard deviations).
    """  # noqa: E501
    rows = check_predictions(
        y, probs, sample_weight, labels, groups=groups, by=by, pos_label=pos_label
    )
    return Evaluation(rows)


def scorer(measure: str) -> Any:
    """Make a scikit-learn scorer from a measure of :func:`~calspline.evaluate`.

    Parameters
    ----------
    measure : str
        ``"log_loss"``, ``"brier"``, ``"accuracy"``, ``"auc"``,
        ``"calibration_log_loss"``, ``"refinement_log_loss"``, ``"calibration_brier"``,
        ``"refinement_brier"``, ``"ece"``, ``"ece_debiased"``, ``"smooth_ece"``,
        ``"ici"`` or ``"emax"``.

    Returns
    -------
    scorer : callable
        Scorer that uses ``predict_proba``. As in scikit-learn, losses are negated.

    Notes
    -----
    A model that always predicts the base rate is calibrated. To select a model, use
    ``"log_loss"`` or ``"brier"``, or several measures with ``refit="log_loss"``.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.model_selection import cross_validate
    >>> from calspline import scorer
    >>> X, y = make_classification(random_state=0)
    >>> names = ("log_loss", "calibration_log_loss")
    >>> scoring = {name: scorer(name) for name in names}
    >>> scores = cross_validate(LogisticRegression(), X, y, scoring=scoring)
    >>> bool((scores["test_log_loss"] <= scores["test_calibration_log_loss"]).all())
    True
    """
    from sklearn.metrics import make_scorer

    check_one_of(measure, "measure", SCORERS)
    better = measure in MORE_IS_BETTER
    return make_scorer(
        _measured,
        response_method="predict_proba",
        greater_is_better=better,
        measure=measure,
    )


def _measured(
    y: Any, probs: Any, *, measure: str, sample_weight: Any = None, labels: Any = None
) -> float:
    found: float = getattr(
        evaluate(y, probs, sample_weight=sample_weight, labels=labels), measure
    )
    return found
