"""``evaluate``: measures of how good probabilities are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from calspline.arrays import Array, Counts, map_blocks, one_blas_thread
from calspline.evaluation import calibration, losses
from calspline.evaluation.calibration import combined_p_value
from calspline.evaluation.predictions import Predictions, check_predictions
from calspline.evaluation.segments import SegmentEvaluation, evaluate_segments
from calspline.formatting import format_number, grouping, html_table, p_value, rows_in_groups, text_table, with_error
from calspline.options import check_one_of

SUMMED_OVER_CLASSES = (
    "brier", "calibration_brier", "refinement_brier", "discrimination_brier", "uncertainty_brier",
    "murphy_reliability", "murphy_resolution", "murphy_uncertainty", "murphy_within_bins",
)  # fmt: skip
SCORERS = (
    "log_loss", "brier", "accuracy", "auc", "calibration_log_loss", "refinement_log_loss", "calibration_brier",
    "refinement_brier", "ece", "ece_debiased", "smooth_ece", "ici", "emax",
)  # fmt: skip
MORE_IS_BETTER = ("accuracy", "auc")


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The result of :func:`evaluate`. ``str()`` is a table, :meth:`to_dict` is flat.

    Attributes
    ----------
    n_rows : int
        Number of rows with positive weight.
    total_weight : float
    classes : tuple
        The labels, in the order of the columns.
    log_loss, brier, accuracy : float
        As scikit-learn defines them: with three or more classes the Brier score is summed over them.
    auc : float
        Area under the ROC curve; with three or more classes the mean of those that occur against the rest. NaN
        where only one class occurs.
    calibration_log_loss, refinement_log_loss : float
        The two parts of the log-loss, by isotonic recalibration: what better calibration would save, and the rest.
    discrimination_log_loss, uncertainty_log_loss : float
        ``refinement_log_loss = uncertainty_log_loss - discrimination_log_loss``.
    calibration_brier, refinement_brier, discrimination_brier, uncertainty_brier : float
        The same for the Brier score.
    murphy_reliability, murphy_resolution, murphy_uncertainty, murphy_within_bins : float
        The classic decomposition on 15 bins of equal width: ``brier = reliability - resolution + uncertainty +
        within_bins``.
    ece, ece_debiased : float
        Expected calibration error on 15 bins of equal width, plain and debiased. With three or more classes that of the
        most probable class, as are all of the following.
    ece_equal_mass, ece_equal_mass_debiased : float
        On 15 bins of equal weight.
    smooth_ece : float
        Without bins.
    ici, e50, e90, emax : float
        Mean, median, 90th percentile and maximum of the distance between the probabilities and a spline curve of what
        happened, over the rows. NaN where only one class occurs.
    base_rate, mean_probability : float
        How often the event happened, and how often it was predicted to. With three or more classes the event is that
        the most probable class is the right one.
    calibration_in_the_large, calibration_in_the_large_se : float
        Shift of the log-odds that makes the mean right, and its standard error.
    calibration_slope, calibration_slope_se : float
        Slope of the log-odds; below 1 the probabilities are too extreme.
    calibration_p_value : float
        P-value of "the probabilities are right"; 0.001 is the least that the simulation used for few rows can show.
        With three or more classes, the Cauchy combination of ``top_label_p_value`` and ``class_wise_p_value``.
    impossible_weight : float
        Weight of the rows whose outcome had probability exactly 0. Their log-loss is infinite; it is counted as 36.04,
        as scikit-learn does.
    top_label : Evaluation or None
        With three or more classes, the evaluation of the most probable class, right or wrong, as a two-class problem.
    per_class : mapping
        With three or more classes, the evaluation of each against the rest, by label. Empty for two.
    n_groups : int or None
        How many groups of rows that depend on each other there are; None if none were given.
    design_effect : float
        By how much the rows are too many, as rows of a group depend on each other; 1 if they do not. With three or more
        classes, that of the most probable class.
    segments : SegmentEvaluation or None
        With ``by``, the same judged by segment.
    """

    n_rows: int
    total_weight: float
    classes: tuple[Any, ...]
    log_loss: float
    brier: float
    accuracy: float
    auc: float
    calibration_log_loss: float
    refinement_log_loss: float
    discrimination_log_loss: float
    uncertainty_log_loss: float
    calibration_brier: float
    refinement_brier: float
    discrimination_brier: float
    uncertainty_brier: float
    murphy_reliability: float
    murphy_resolution: float
    murphy_uncertainty: float
    murphy_within_bins: float
    ece: float
    ece_debiased: float
    ece_equal_mass: float
    ece_equal_mass_debiased: float
    smooth_ece: float
    ici: float
    e50: float
    e90: float
    emax: float
    base_rate: float
    mean_probability: float
    calibration_in_the_large: float
    calibration_in_the_large_se: float
    calibration_slope: float
    calibration_slope_se: float
    calibration_p_value: float
    impossible_weight: float
    top_label: Evaluation | None = None
    per_class: Mapping[Any, Evaluation] = field(default_factory=dict)
    n_groups: int | None = None
    design_effect: float = 1.0
    segments: SegmentEvaluation | None = None

    @property
    def n_effective(self) -> float:
        """How many independent rows these are worth."""
        return self.total_weight / self.design_effect

    @property
    def grouping(self) -> str:
        """What groups mean for these rows, in a sentence; empty without groups."""
        return grouping(self.n_rows, self.n_groups, self.n_effective)

    @property
    def class_wise_ece(self) -> float:
        """Mean ECE of the classes against the rest; for two classes the ECE."""
        return self._class_wise("ece")

    @property
    def class_wise_ece_debiased(self) -> float:
        """Mean debiased ECE of the classes against the rest; for two classes the debiased ECE."""
        return self._class_wise("ece_debiased")

    @property
    def class_wise_smooth_ece(self) -> float:
        """Mean smooth ECE of the classes against the rest; for two classes the smooth ECE."""
        return self._class_wise("smooth_ece")

    @property
    def class_wise_p_value(self) -> float:
        """The p-values of the classes against the rest, combined; for two classes the p-value."""
        if not self.per_class:
            return self.calibration_p_value
        return combined_p_value(np.array([one.calibration_p_value for one in self.per_class.values()]))

    @property
    def top_label_p_value(self) -> float:
        """P-value for the most probable class; for two classes the p-value."""
        return self.calibration_p_value if self.top_label is None else self.top_label.calibration_p_value

    def _class_wise(self, name: str) -> float:
        return float(np.mean([getattr(one, name) for one in self.per_class.values() or [self]]))

    def to_dict(self) -> dict[str, float]:
        """All numbers, flat: ``{"log_loss": ..., "brier": ..., ...}``."""
        others = {"classes", "top_label", "per_class", "segments"}
        others |= set() if self.n_groups else {"n_groups", "design_effect"}
        out = {f.name: float(getattr(self, f.name)) for f in fields(self) if f.name not in others}
        out["n_classes"] = float(len(self.classes))
        if self.per_class:
            names = ("ece", "ece_debiased", "smooth_ece", "p_value")
            out |= {f"class_wise_{name}": float(getattr(self, f"class_wise_{name}")) for name in names}
            out["top_label_p_value"] = self.top_label_p_value
        return out if self.segments is None else out | self.segments.to_dict()

    def _rows(self) -> list[tuple[str, str]]:
        top = ", most probable class" if self.per_class else ""
        numbers = [
            ("log-loss", self.log_loss),
            ("  calibration (would be saved)", self.calibration_log_loss),
            ("  refinement (would remain)", self.refinement_log_loss),
            ("Brier score", self.brier),
            ("  calibration (would be saved)", self.calibration_brier),
            ("  refinement (would remain)", self.refinement_brier),
            ("accuracy", self.accuracy),
            ("AUC", self.auc),
            (f"ECE{top}", self.ece),
            ("  debiased", self.ece_debiased),
            ("  on bins of equal weight", self.ece_equal_mass),
            ("  the same, debiased", self.ece_equal_mass_debiased),
            (f"smooth ECE{top}", self.smooth_ece),
            (f"ICI{top} (distance from the spline curve)", self.ici),
            ("  E50 (median)", self.e50),
            ("  E90 (90th percentile)", self.e90),
            ("  Emax (largest)", self.emax),
        ]
        if self.per_class:
            numbers.append(("ECE, mean of the classes", self.class_wise_ece))
            numbers.append(("smooth ECE, mean of the classes", self.class_wise_smooth_ece))
        numbers += [(f"mean probability{top}", self.mean_probability), ("  what happened", self.base_rate)]
        large = with_error(self.calibration_in_the_large, self.calibration_in_the_large_se)
        rows = [(label, format_number(value)) for label, value in numbers] + [
            ("calibration in the large (0 is right)", large),
            ("calibration slope (1 is right)", with_error(self.calibration_slope, self.calibration_slope_se)),
            ("p-value of 'the probabilities are right'", p_value(self.calibration_p_value)),
        ]
        if self.impossible_weight:
            rows.append(("happened with probability 0 (rows)", f"{self.impossible_weight:g}"))
        return rows

    def _title(self) -> str:
        return f"{rows_in_groups(self.n_rows, self.n_groups)}, {len(self.classes)} classes"

    def __str__(self) -> str:
        by_segment = "" if self.segments is None else f"\nBy segment\n{self.segments}"
        return "\n".join(filter(None, (self._title(), text_table(self._rows()), self.grouping, by_segment)))

    def __repr__(self) -> str:
        return (
            f"Evaluation({self._title()}: log_loss={self.log_loss:.4g}, brier={self.brier:.4g}, "
            f"smooth_ece={self.smooth_ece:.4g}, calibration_p_value={self.calibration_p_value:.3g})"
        )

    def _repr_html_(self) -> str:
        by_segment = "" if self.segments is None else self.segments._repr_html_()
        return html_table(self._rows(), caption=". ".join(filter(None, (self._title(), self.grouping)))) + by_segment


def evaluate(
    y: Any, probs: Any, *, sample_weight: Any = None, labels: Any = None, groups: Any = None, by: Any = None
) -> Evaluation:
    """Evaluate probabilities: scores, their decomposition, and a test of calibration.

    Parameters
    ----------
    y : array-like of shape (n,)
        What happened: labels of any type.
    probs : array-like of shape (n,), (n, 1), (n, 2) or (n, m)
        Probabilities: of the second class, or a column for each class.
    sample_weight : array-like of shape (n,), optional
        A weight counts as that many rows.
    labels : array-like, optional
        The classes in the order of the columns. By default those of ``y``, sorted; labels 0 and 1 (or 0 to m-1) need
        not all occur.
    groups : array-like of shape (n,), optional
        Rows with the same value belong together and may depend on each other; different groups do not. Standard errors
        and tests then count rows for what they are worth.
    by : array-like of shape (n,), or several (a frame, a list of columns), optional
        The segments that rows are in, such as countries. The result then has ``segments``: a table, one test of "every
        segment is calibrated" and the segments that are off. Segments of several columns overlap; combinations are not
        looked at. Rows without a label are a segment of their own.

    Returns
    -------
    Evaluation

    See Also
    --------
    compare : Several sets of predictions on the same rows.
    reliability : The reliability diagram as data.

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
    (0.206, 0.3)

    Segments: in two of five countries, events are more frequent, or less, than is said.

    >>> country = np.repeat(["it", "at", "fr", "de", "lu"], [380, 400, 500, 700, 20])
    >>> said = p ** np.select([country == "fr", country == "it"], [1.6, 0.6], 1.0)
    >>> print(evaluate(happened, said, by=country).segments)
    segment  rows  events    said  happened  log-loss  ratio           95%  p-value       off
    -----------------------------------------------------------------------------------------
    fr        500     247  0.3775    0.4940    0.5202   1.31  1.22 to 1.40  < 0.001   too low
    it        380     202  0.6477    0.5316    0.5301   0.82  0.76 to 0.88  < 0.001  too high
    lu         20      13  0.4555    0.6500    0.7741   1.43  1.02 to 1.75    0.074
    at        400     210  0.5083    0.5250    0.4890   1.03  0.95 to 1.11    0.517
    de        700     336  0.4816    0.4800    0.4941   1.00  0.94 to 1.06    0.807
    Not every segment is calibrated (p < 0.001): 2 of 5 are off.
    Multicalibration error: 0.0601 (6.7 standard deviations).
    """
    rows = check_predictions(y, probs, sample_weight, labels, groups=groups, by=by)
    with one_blas_thread():
        found = _binary(rows)[0] if rows.binary else _multiclass(rows)
        if rows.by is None:
            return found
        return replace(found, segments=evaluate_segments(rows, found.top_label_p_value))


def _binary(rows: Predictions) -> tuple[Evaluation, Counts, Array]:
    """All measures of a two-class problem, its distinct probabilities, and the same recalibrated."""
    f = rows.counts()
    q, base = losses.recalibrated(f), f.base_rate
    log_loss, brier = losses.log_loss(f), losses.brier(f)
    equal_width = calibration.equal_width_bins(f.x, calibration.ECE_BINS)
    plain, debiased = calibration.ece(f, equal_width)
    cox = calibration.recalibration(f, rows)
    plain_equal_mass, debiased_equal_mass = calibration.ece(f, f.equal_weight_bins(calibration.ECE_BINS))
    result = Evaluation(
        n_rows=len(rows.codes),
        total_weight=f.total,
        classes=tuple(rows.classes.tolist()),
        log_loss=log_loss,
        brier=brier,
        accuracy=losses.accuracy(f),
        auc=losses.auc(f),
        **losses.parts("log_loss", log_loss, losses.log_loss(f, q), losses.log_loss(f, np.full(len(f), base))),
        **losses.parts("brier", brier, losses.brier(f, q), base * (1.0 - base)),
        **losses.murphy(f, brier, equal_width),
        ece=plain,
        ece_debiased=debiased,
        ece_equal_mass=plain_equal_mass,
        ece_equal_mass_debiased=debiased_equal_mass,
        smooth_ece=calibration.smooth_ece(f),
        **calibration.curve_distances(f, rows.design_effect),
        base_rate=base,
        mean_probability=f.mean,
        **{f"calibration_{name}": value for name, value in cox._asdict().items()},
        calibration_p_value=calibration.calibration_p_value(f, rows),
        impossible_weight=losses.impossible_weight(f),
        n_groups=rows.n_groups,
        design_effect=rows.design_effect,
    )
    return result, f, q


def _multiclass(rows: Predictions) -> Evaluation:
    p, codes, weight = rows.probs, rows.codes, rows.weight
    recalibrated = np.empty_like(p)

    def against_rest(j: int) -> Evaluation:
        one, f, q = _binary(rows.against_rest(j))
        recalibrated[:, j] = q[np.searchsorted(f.x, p[:, j])]
        return one

    ovr = list(map_blocks(against_rest, range(p.shape[1]), p.size))
    top = _binary(rows.event)[0]
    log_loss = float(np.average(losses.row_log_losses(p, codes), weights=weight))
    aucs = [one.auc for one in ovr if not np.isnan(one.auc)]
    class_wise = combined_p_value(np.array([one.calibration_p_value for one in ovr]))
    impossible = losses.probability_of_outcome(p, codes) == 0.0
    classes = tuple(rows.classes.tolist())
    summed: dict[str, Any] = {name: float(sum(getattr(one, name) for one in ovr)) for name in SUMMED_OVER_CLASSES}
    return replace(
        top,
        classes=classes,
        log_loss=log_loss,
        accuracy=top.base_rate,
        auc=float(np.mean(aucs)) if aucs else float("nan"),
        **losses.multiclass_log_loss_parts(log_loss, recalibrated, codes, weight),
        **summed,
        calibration_p_value=combined_p_value(np.array([top.calibration_p_value, class_wise])),
        impossible_weight=float(rows.w[impossible].sum()),
        top_label=top,
        per_class=dict(zip(classes, ovr, strict=True)),
    )


def scorer(measure: str) -> Any:
    """A measure of :func:`~calspline.evaluate` as a scorer, for ``scoring=`` of scikit-learn.

    Parameters
    ----------
    measure : str
        ``"log_loss"``, ``"brier"``, ``"accuracy"``, ``"auc"``, ``"calibration_log_loss"``, ``"refinement_log_loss"``,
        ``"calibration_brier"``, ``"refinement_brier"``, ``"ece"``, ``"ece_debiased"``, ``"smooth_ece"``, ``"ici"`` or
        ``"emax"``.

    Returns
    -------
    scorer
        It calls ``predict_proba``. Of a measure of which less is better it gives the negative, as scikit-learn does.

    Notes
    -----
    Calibration alone is best for a model that always says the base rate: to choose a model, take ``"log_loss"`` or
    ``"brier"``, or several measures and ``refit="log_loss"``.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.model_selection import cross_validate
    >>> from calspline.evaluation.evaluate import scorer
    >>> X, y = make_classification(random_state=0)
    >>> names = ("log_loss", "calibration_log_loss")
    >>> found = cross_validate(LogisticRegression(), X, y, scoring={name: scorer(name) for name in names})
    >>> bool((found["test_log_loss"] <= found["test_calibration_log_loss"]).all())
    True
    """
    from sklearn.metrics import make_scorer

    check_one_of(measure, "measure", SCORERS)
    better = measure in MORE_IS_BETTER
    return make_scorer(_measured, response_method="predict_proba", greater_is_better=better, measure=measure)


def _measured(y: Any, probs: Any, *, measure: str, sample_weight: Any = None, labels: Any = None) -> float:
    found: float = getattr(evaluate(y, probs, sample_weight=sample_weight, labels=labels), measure)
    return found
