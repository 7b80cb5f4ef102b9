"""Results of judging, watching and deciding whose numbers are kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
from scipy.special import expit, softmax
from sklearn.linear_model import LogisticRegression
from tests.golden import data
from tests.golden.cases_fits import by_country, by_country_and_device, of, quiet
from tests.golden.data import Rows
from tests.golden.record import Area, Case

from calspline import (
    Monitor,
    ScoreHistogram,
    SigmoidCalibrator,
    SplineCalibrator,
    calibration_learning_curve,
    compare,
    decide,
    drift,
    evaluate,
    expected,
    reliability,
    sample_batches,
    scorer,
)

COSTS = {"false_positive": 1.0, "false_negative": 5.0}
MEASURES = (
    "log_loss",
    "brier",
    "accuracy",
    "auc",
    "calibration_log_loss",
    "refinement_brier",
    "ece_debiased",
    "smooth_ece",
    "ici",
)
THRESHOLDS = [0.05, 0.2, 0.5, 0.8]
wavy, three, ten = data.wavy, data.three, data.ten


def given(rows: Rows) -> dict[str, Any]:
    """Weights, groups and segments as arguments of an evaluation."""
    return {
        key: value
        for key, value in rows.fit_arguments.items()
        if key not in ("scores", "y")
    }


def calibrated(rows: Rows) -> Any:
    """Probabilities nearer to the truth: log-odds of half the size."""
    if rows.scores.ndim == 2:
        return softmax(0.5 * np.log(rows.scores), axis=1)
    return expit(0.5 * np.log(rows.scores / (1.0 - rows.scores)))


def records(value: Any) -> Any:
    """Records as mappings, at any depth; what can be asked for is not."""
    if is_dataclass(value):
        return {each.name: records(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, dict):
        return {str(key): records(each) for key, each in value.items()}
    return (
        [records(each) for each in value] if isinstance(value, (list, tuple)) else value
    )


def evaluated(rows: Callable[[], Rows]) -> Callable[[], Any]:
    def result() -> Any:
        found = rows()
        evaluation = evaluate(found.y, found.scores, **given(found))
        return with_logarithms(evaluation.to_dict()) | {
            "limits": {key: list(pair) for key, pair in evaluation.limits.items()},
            "text": str(evaluation).splitlines(),
        }

    return result


def evaluated_for(label: str) -> Callable[[], Any]:
    """Probabilities of a class that is not the last one, and a single array."""

    def result() -> Any:
        rows = data.named(wavy(), "no", "yes")
        p = 1.0 - rows.scores
        options = {"pos_label": label}
        display = reliability(rows.y, p, **options)
        return {
            "evaluate": evaluate(rows.y, p, **options).to_dict(),
            "compare": with_logarithms(compare(rows.y, p, **options).to_dict()),
            "reliability": thinned(display.to_dict()),
            "decide": decide(rows.y, p, thresholds=THRESHOLDS, **options).to_dict(),
        }

    return result


def refused_decision() -> Any:
    """What is said of three classes."""
    rows = three()
    try:
        decide(rows.y, rows.scores, costs=COSTS)
    except ValueError as error:
        return {"error": str(error)}
    raise AssertionError("a decision of three classes was made")


def scored() -> Any:
    """Every measure of a scorer, of a classifier for two classes and for three."""
    found = {}
    for rows in (wavy(), three()):
        X = np.log(rows.scores if rows.scores.ndim == 2 else rows.scores[:, None])
        model = LogisticRegression().fit(X, rows.y)
        found[str(rows.scores.ndim)] = {
            measure: float(scorer(measure)(model, X, rows.y)) for measure in MEASURES
        }
    return found


def sampled() -> Any:
    """Rows drawn from batches of images."""
    z = data.normal(700, 6, 3, 4, 4).reshape(3, 2, 3, 4, 4)
    batches = [(z[k], z[k].argmax(axis=1)) for k in range(3)]
    rows = sample_batches(batches, max_rows=40, ignore_index=2, random_state=0)
    return {name: np.asarray(value).tolist() for name, value in rows._asdict().items()}


def single_numbers() -> Any:
    """One number is calibrated to one."""
    rows = wavy()
    cal = SplineCalibrator().fit(rows.scores, rows.y)
    numbers = [0.0, 0.3, 0.9, 1.0]
    return {str(p): float(cal.calibrate(p)) for p in numbers}


def with_logarithms(numbers: dict[str, Any]) -> dict[str, Any]:
    """The numbers, and logarithms of p-values too small for an absolute tolerance."""
    logarithms = {
        f"log_{key}": np.log(p)
        for key, p in numbers.items()
        if key.endswith("p_value") and 0.0 < p < 0.01
    }
    return numbers | logarithms


def compared(rows: Callable[[], Rows], **options: Any) -> Callable[[], Any]:
    def result() -> Any:
        found = rows()
        sets = {"raw": found.scores, "calibrated": calibrated(found)}
        comparison = compare(found.y, sets, **given(found), **options)
        return with_logarithms(comparison.to_dict()) | {
            "recommended": comparison.recommended,
            "recommendation": comparison.recommendation,
        }

    return result


def reliable(rows: Callable[[], Rows], **options: Any) -> Callable[[], Any]:
    def result() -> Any:
        found = rows()
        arguments = {key: value for key, value in given(found).items() if key != "by"}
        return thinned(
            reliability(found.y, found.scores, **arguments, **options).to_dict()
        )

    return result


def thinned(value: Any, longest: int = 15) -> Any:
    """Long lists reduced to evenly spread items; coefficients are left out."""
    if isinstance(value, dict):
        return {
            key: thinned(each, longest) for key, each in value.items() if key != "curve"
        }
    if isinstance(value, (list, tuple, np.ndarray)):
        chosen = np.linspace(0, len(value) - 1, min(longest, len(value))).astype(int)
        return [thinned(value[i], longest) for i in chosen]
    return value


def decided(rows: Callable[[], Rows], **options: Any) -> Callable[[], Any]:
    def result() -> Any:
        found = rows()
        sets = {"raw": found.scores, "calibrated": calibrated(found)}
        return decide(
            found.y, sets, thresholds=THRESHOLDS, **given(found), **options
        ).to_dict()

    return result


def moved(rows: Rows, level: float) -> Rows:
    """The same scores with labels of another time."""
    u = np.log(rows.scores / (1.0 - rows.scores))
    y = data.outcomes(300, expit(0.5 * u + 0.4 * np.sin(u) + level))
    return Rows(rows.scores, y, rows.probes, by=rows.by, probes_by=rows.probes_by)


def counts(rows: Rows) -> ScoreHistogram:
    by = {} if rows.by is None else {"by": rows.by}
    return ScoreHistogram.from_scores(rows.scores, rows.y, **by)


def drifted(
    rows: Callable[[], Rows], level: float, *, known: bool = True
) -> Callable[[], Any]:
    def result() -> Any:
        before = rows()
        after = moved(before, level)
        calibrator = SplineCalibrator().fit(**before.fit_arguments) if known else None
        return drift(counts(before), counts(after), calibrator=calibrator).to_dict()

    return result


def foreseen(
    make: Callable[[], Any], rows: Callable[[], Rows], **options: Any
) -> Callable[[], Any]:
    def result() -> Any:
        found = rows()
        calibrator = make().fit(**found.fit_arguments)
        return expected(calibrator, found.scores[::2], **options).to_dict()

    return result


def foreseen_from_counts() -> Any:
    rows = wavy()
    return expected(
        SplineCalibrator().fit(rows.scores, rows.y), counts(rows), costs=COSTS
    ).to_dict()


def watched(change: float, *, by: bool = False) -> Callable[[], Any]:
    """Twelve days, the last six of which have other odds."""

    def result() -> Any:
        rows = of(lambda: wavy(1200), *([by_country] if by else []))()
        monitor = Monitor(SplineCalibrator().fit(rows.scores, rows.y))
        for day in range(12):
            later = moved(rows, change if day >= 6 else 0.0)
            part = slice(100 * day, 100 * day + 100)
            if by:
                parts = ScoreHistogram.from_scores(
                    later.scores[part], later.y[part], by=rows.by[part]
                )
                update = {
                    label: parts[label] for label in sorted(set(rows.by[part].tolist()))
                }
            else:
                update = ScoreHistogram.from_scores(
                    later.scores[part], later.y[part], classes=[0, 1]
                )
            monitor.update(update, when=f"day {day + 1:02d}")
        return {
            "log": records(monitor.log),
            "alarm": monitor.alarm,
            "evidence": monitor.evidence,
            "text": str(monitor).splitlines(),
        }

    return result


def learnt(
    rows: Callable[[], Rows], make: Callable[[], Any] = SplineCalibrator, **options: Any
) -> Callable[[], Any]:
    def result() -> Any:
        found = rows()
        arguments = {
            "n_repeats": 2,
            "sizes": [50, 150, 400],
            "random_state": 0,
        } | options
        with quiet():
            curve = calibration_learning_curve(
                make(), found.scores, found.y, **given(found), **arguments
            )
        return curve.to_dict() | {"verdict": curve.verdict}

    return result


def weighted(rows: Rows) -> Rows:
    return data.weighted(rows)


MAKE = {
    "evaluate": evaluated(wavy),
    "evaluate-weights": evaluated(of(wavy, weighted)),
    "evaluate-groups": evaluated(of(wavy, data.grouped)),
    "evaluate-by": evaluated(of(lambda: wavy(2000), by_country)),
    "evaluate-by-two-columns": evaluated(of(lambda: wavy(2000), by_country_and_device)),
    "evaluate-by-groups": evaluated(of(lambda: wavy(2000), data.grouped, by_country)),
    "evaluate-exact-ends": evaluated(data.ends),
    "evaluate-rare": evaluated(data.rare),
    "evaluate-text-labels": evaluated(
        of(wavy, lambda rows: data.named(rows, "no", "yes"))
    ),
    "evaluate-three-classes": evaluated(three),
    "evaluate-three-classes-groups": evaluated(of(three, data.grouped)),
    "evaluate-three-classes-by": evaluated(of(three, by_country)),
    "evaluate-ten-classes": evaluated(ten),
    "compare": compared(wavy),
    "compare-weights": compared(of(wavy, weighted)),
    "compare-groups": compared(of(wavy, data.grouped)),
    "compare-by": compared(of(lambda: wavy(2000), by_country)),
    "compare-three-classes": compared(three),
    "compare-reference": compared(wavy, reference="calibrated", level=0.9, margin=0.05),
    "reliability": reliable(wavy),
    "reliability-uniform": reliable(wavy, strategy="uniform", n_bins=7, level=0.9),
    "reliability-weights": reliable(of(wavy, weighted)),
    "reliability-groups": reliable(of(wavy, data.grouped)),
    "reliability-three-classes": reliable(three),
    "decide-costs": decided(wavy, costs=COSTS),
    "decide-thresholds": decided(data.rare),
    "decide-weights": decided(of(wavy, weighted), costs=COSTS),
    "decide-at-least": decided(wavy, at_least={"precision": 0.6}),
    "decide-at-most": decided(wavy, at_most={"alert_rate": 0.3}),
    "decide-both": decided(
        wavy, at_least={"recall": 0.5}, at_most={"false_positive_rate": 0.4}, level=0.9
    ),
    "decide-impossible": decided(data.rare, at_least={"precision": 0.999}),
    "decide-groups": decided(of(wavy, data.grouped), at_least={"recall": 0.5}),
    "decide-by": decided(of(lambda: wavy(2000), by_country), at_least={"recall": 0.5}),
    "decide-three-classes": refused_decision,
    "pos-label-and-one-array": evaluated_for("no"),
    "scorer": scored,
    "sample-batches": sampled,
    "calibrate-a-number": single_numbers,
    "drift-none": drifted(wavy, 0.0),
    "drift-level": drifted(wavy, 0.7),
    "drift-without-calibrator": drifted(wavy, 0.7, known=False),
    "drift-by": drifted(of(lambda: wavy(9000), by_country), 0.4),
    "expected": foreseen(SplineCalibrator, wavy, costs=COSTS),
    "expected-sigmoid": foreseen(SigmoidCalibrator, wavy),
    "expected-three-classes": foreseen(SplineCalibrator, three),
    "expected-rows": foreseen(SplineCalibrator, data.margins, n_rows=50, level=0.8),
    "expected-from-counts": foreseen_from_counts,
    "monitor": watched(0.8),
    "monitor-unchanged": watched(0.0),
    "monitor-by": watched(1.5, by=True),
    "learning-curve": learnt(wavy),
    "learning-curve-groups": learnt(of(wavy, data.grouped), sizes=[20, 60]),
    "learning-curve-three-classes": learnt(three),
    "learning-curve-sigmoid": learnt(wavy, SigmoidCalibrator),
}

SINGULAR = "simultaneous limits need the root of a covariance that is singular"


WITH_DECISIONS = {name for name in MAKE if name.startswith("decide")} | {
    "pos-label-and-one-array"
}


def case(name: str) -> Case:
    if name in WITH_DECISIONS:
        return Case(MAKE[name], 1e-7, reason=SINGULAR)
    return Case(MAKE[name])


AREA = Area("evaluation", {name: case(name) for name in MAKE})
