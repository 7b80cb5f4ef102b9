"""``compare``: several sets of predictions on the same rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from scipy.stats import t as student

from calspline.evaluation.differences import (
    PairedDifference,
    SegmentDifferences,
    family_critical_value,
    segment_differences,
)
from calspline.evaluation.evaluate import Evaluation, evaluate_rows
from calspline.evaluation.losses import row_briers, row_log_losses
from calspline.evaluation.predictions import Predictions, check_prediction_sets
from calspline.formatting import Row, html_table, number, p_value, percent, text_table
from calspline.options import check_integer, check_number, check_seed

Verdict = Literal["better", "no worse", "worse", "unclear"]


@dataclass(frozen=True)
class Difference:
    """The mean loss minus that of the reference, paired by row, with its interval. Below 0 is better.

    Attributes
    ----------
    value, lower, upper : float
    verdict : {"better", "no worse", "worse", "unclear"}
        ``"better"``: the whole interval is below 0. ``"worse"``: above 0. ``"no worse"``: below the margin (by default
        1% of the reference's loss). ``"unclear"``: none of these; there are too few rows to tell, or only one class
        occurs.
    """

    value: float
    lower: float
    upper: float
    verdict: Verdict

    def __str__(self) -> str:
        return f"{self.value:+.4f} [{self.lower:+.4f}, {self.upper:+.4f}] {self.verdict}"


@dataclass(frozen=True, eq=False)
class Comparison:
    """The result of :func:`compare`. ``str()`` is a table, :meth:`to_dict` is flat.

    Attributes
    ----------
    reference : str
        The set that the others are compared with.
    evaluations : mapping of str to Evaluation
        All sets, the reference included, in the order given.
    log_loss, brier : mapping of str to Difference
        Differences from the reference, for all other sets.
    level : float
        Confidence of the intervals.
    margin : float
        Share of the reference's loss up to which a set is "no worse".
    recommended : str
        The set to use; the reference if no other is surely better.
    recommendation : str
        The same as a sentence.
    segments : mapping of str to SegmentDifferences
        With ``by``, the differences of the log-loss by segment: who gains and who loses. The evaluations have
        ``segments``, too.
    """

    reference: str
    evaluations: Mapping[str, Evaluation]
    log_loss: Mapping[str, Difference]
    brier: Mapping[str, Difference]
    level: float
    margin: float
    recommended: str
    recommendation: str
    segments: Mapping[str, SegmentDifferences] = field(default_factory=lambda: MappingProxyType({}))

    def to_dict(self) -> dict[str, float | str]:
        """All numbers, flat: ``{"raw.log_loss": ..., "spline.log_loss_difference": ..., "recommended": ...}``."""
        out: dict[str, float | str] = {}
        for name, evaluation in self.evaluations.items():
            out |= {f"{name}.{key}": value for key, value in evaluation.to_dict().items()}
            for measure, differences in (("log_loss", self.log_loss), ("brier", self.brier)):
                if name in differences:
                    d = differences[name]
                    out |= {
                        f"{name}.{measure}_difference": d.value,
                        f"{name}.{measure}_difference_lower": d.lower,
                        f"{name}.{measure}_difference_upper": d.upper,
                        f"{name}.{measure}_verdict": d.verdict,
                    }
            if name in self.segments:
                out |= {f"{name}.{key}": value for key, value in self.segments[name].to_dict().items()}
        return out | {"reference": self.reference, "recommended": self.recommended}

    def _table(self) -> tuple[list[Row], Row]:
        """Rows and header."""
        against = [f"{loss} against {self.reference} [{percent(self.level)}]" for loss in ("log-loss", "Brier")]
        rows: list[Row] = []
        for name, e in self.evaluations.items():
            losses = number(e.log_loss), number(e.calibration_log_loss), number(e.brier)
            differences = (str(found[name]) if name in found else "" for found in (self.log_loss, self.brier))
            rows.append((name, *losses, p_value(e.calibration_p_value), *differences))
        return rows, ("predictions", "log-loss", "of it calibration", "Brier", "p-value", *against)

    @property
    def best_other(self) -> str | None:
        """Of the sets but the reference, the recommended one or that with the least log-loss; None without others."""
        others = (name for name in self.evaluations if name != self.reference)
        return min(others, key=lambda n: (n != self.recommended, self.evaluations[n].log_loss), default=None)

    @property
    def grouping(self) -> str:
        """What groups mean for these rows, in a sentence; empty without groups."""
        return self.evaluations[self.reference].grouping

    def __str__(self) -> str:
        by_segment = [f"\nBy segment, {name} against {self.reference}\n{d}" for name, d in self.segments.items()]
        return "\n".join(filter(None, (text_table(*self._table()), self.recommendation, self.grouping, *by_segment)))

    def __repr__(self) -> str:
        return f"Comparison({', '.join(self.evaluations)}; recommended: {self.recommended})"

    def _repr_html_(self) -> str:
        return html_table(*self._table(), caption=" ".join(filter(None, (self.recommendation, self.grouping))))


def compare(
    y: Any,
    predictions: Mapping[str, Any],
    *,
    sample_weight: Any = None,
    labels: Any = None,
    groups: Any = None,
    by: Any = None,
    reference: str | None = None,
    level: float = 0.95,
    margin: float = 0.01,
    n_bootstrap: int = 2000,
    random_state: Any = None,
) -> Comparison:
    """Compare several sets of predictions on the same rows, and recommend one.

    The difference of two mean losses is taken row by row, so rows that are hard for both sets cancel out. Its interval
    holds for each difference by itself, and also where events are few; rows of a group count together. The
    recommendation is cautious: it prefers another set to the reference only if that set is "better" in log-loss or
    Brier score and "worse" in neither, and surely so among as many sets and losses as were looked at: where all sets
    are equally good, the reference is left in at most a share ``1 - level`` of data sets. Among several better sets, it
    takes the one with the least log-loss.

    Parameters
    ----------
    y, sample_weight, labels, groups, by
        As for :func:`evaluate`. With ``by``, the result says which segments gain and which lose.
    predictions : mapping of str to array-like
        Probabilities by name, each as for :func:`evaluate`.
    reference : str, optional
        The set to compare with, usually the one in use. The default is the first.
    level : float in (0, 1), default=0.95
        Confidence of the intervals.
    margin : float in (0, 1), default=0.01
        A set is "no worse" if its loss surely exceeds that of the reference by less than this share of it.
    n_bootstrap : int, default=2000
        Number of draws of the largest difference among all sets that are equally good.
    random_state : int, RandomState or None
        None always gives the same draws.

    Returns
    -------
    Comparison

    See Also
    --------
    evaluate : One set of predictions.

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
    Leave it alone: keep raw; no other set is surely better.
    """
    level = check_number(level, "level", above=0.0, below=1.0)
    margin = check_number(margin, "margin", above=0.0, below=1.0)
    draws = check_integer(n_bootstrap, "n_bootstrap", least=1)
    seed = check_seed(random_state, "random_state")
    rows = check_prediction_sets(y, predictions, sample_weight, labels, groups, by)
    if reference is not None and reference not in rows:
        raise ValueError(f"reference must be one of {', '.join(map(repr, rows))}; got {reference!r}")
    return compare_rows(rows, reference, level=level, margin=margin, n_bootstrap=draws, seed=seed)


def compare_rows(
    rows: Mapping[str, Predictions],
    reference: str | None = None,
    *,
    level: float = 0.95,
    margin: float = 0.01,
    n_bootstrap: int = 2000,
    seed: int = 0,
) -> Comparison:
    """Compare sets of predictions that are checked already."""
    reference = next(iter(rows)) if reference is None else reference
    evaluations = {name: evaluate_rows(one) for name, one in rows.items()}
    base = rows[reference]
    one_outcome = len(np.unique(base.codes)) == 1
    # Standard errors: of the normal distribution, or of Student's for few groups.
    z = float(student.isf(0.5 * (1.0 - level), np.inf if base.n_groups is None else max(base.n_groups - 1, 1)))
    paired = {
        (measure, name): PairedDifference(losses, one, base)
        for measure, losses in (("log_loss", row_log_losses), ("brier", row_briers))
        for name, one in rows.items()
        if name != reference
    }
    differences: dict[str, dict[str, Difference]] = {"log_loss": {}, "brier": {}}
    for (measure, name), one in paired.items():
        slack = margin * getattr(evaluations[reference], measure)
        differences[measure][name] = _difference(one, z, np.nan if one_outcome else slack)
    surely = [key for key, one in paired.items() if differences[key[0]][key[1]].verdict == "better"]
    if surely:
        family = max(z, family_critical_value(list(paired.values()), level, n_bootstrap, seed))
        surely = [key for key in surely if paired[key].interval(family)[1] < 0.0]
    recommended, sentence = _recommend(reference, evaluations, differences, {name for _, name in surely}, level)
    return Comparison(
        reference=reference,
        evaluations=MappingProxyType(evaluations),
        log_loss=MappingProxyType(differences["log_loss"]),
        brier=MappingProxyType(differences["brier"]),
        level=level,
        margin=margin,
        recommended=recommended,
        recommendation=sentence,
        segments=segment_differences({name: one for (measure, name), one in paired.items() if measure == "log_loss"}),
    )


def _difference(one: PairedDifference, z: float, slack: float) -> Difference:
    """The difference with its verdict, which is unclear where the ``slack`` is NaN."""
    low, high = one.interval(z)
    verdict: Verdict = "no worse" if high <= slack else "unclear"
    if (high < 0.0 or low > 0.0) and not np.isnan(slack):
        verdict = "better" if high < 0.0 else "worse"
    return Difference(one.value, low, high, verdict)


def _recommend(
    reference: str,
    evaluations: dict[str, Evaluation],
    differences: dict[str, dict[str, Difference]],
    surely: set[str],
    level: float,
) -> tuple[str, str]:
    """The set to use, and why; ``surely`` has those that are better however many were looked at."""
    by_log, by_brier = differences["log_loss"], differences["brier"]
    verdicts = {name: (by_log[name].verdict, by_brier[name].verdict) for name in by_log}
    better = [name for name, both in verdicts.items() if "better" in both and "worse" not in both]
    by_chance = [name for name in better if name not in surely]
    better = [name for name in better if name in surely]
    if better:
        best = min(better, key=lambda name: evaluations[name].log_loss)
        measure, d = ("log-loss", by_log[best]) if by_log[best].verdict == "better" else ("Brier score", by_brier[best])
        return best, (
            f"Use {best}: its {measure} is lower than that of {reference} by {-d.value:.4f} "
            f"({percent(level)} interval {-d.upper:.4f} to {-d.lower:.4f})."
        )
    if not by_log:
        return reference, f"Nothing to compare {reference} with."
    right = evaluations[reference].calibration_p_value > 1.0 - level
    why = "no other set is surely better" + (", and nothing speaks against its calibration" if right else "")
    if by_chance:
        why += f"; {by_chance[0]} looks better, but among {len(by_log)} sets one may look so by chance"
    elif evaluations[reference].base_rate in (0.0, 1.0) and not evaluations[reference].per_class:
        why = "with one outcome only, nothing can be told"
    return reference, f"Leave it alone: keep {reference}; {why}."
