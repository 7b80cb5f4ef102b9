"""The summary: all that a page says, as one plain dict of numbers, strings and lists."""

from __future__ import annotations

import hashlib
import math
import platform
from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import Any

import numpy as np
from scipy.special import expit

import calspline
from calspline.arrays import Array
from calspline.evaluation.compare import Comparison, Difference
from calspline.evaluation.decisions import Decision
from calspline.evaluation.evaluate import Evaluation
from calspline.evaluation.predictions import Predictions, grouping_hint
from calspline.formatting import decimals, number, p_equals, p_value, percent, precise_percent, rows_in_groups
from calspline.reporting.charts import View, calibrator_charts, reliability_charts, starting_scale, views
from calspline.reporting.headline import ALPHA, headline
from calspline.reporting.sections import by_segment, decisions

NO_BREAK_SPACE, MINUS = "\N{NO-BREAK SPACE}", "\N{MINUS SIGN}"
LOSSES = {"log_loss": ("Log-loss", "mean surprise in nats"), "brier": ("Brier score", "mean squared error")}
SMALL_DIFFERENCE = 0.001
GRID = 101
FAR = 9.2
"""Log-odds of 0.9999: how far a calibrator's curve is drawn."""
TOP_CELLS = 24
MIDDLE = (0.1, 0.9)
MAX_VALUES = 8

FACTS = {
    "transform_": "Transform",
    "smoothing_": "Smoothing (lambda)",
    "edf_": "Effective degrees of freedom",
    "n_effective_": "Independent rows it is worth",
    "n_iter_": "Newton steps",
    "converged_": "Converged",
    "temperature_": "Temperature",
}
"""What a fit chose, by attribute."""

Cell = dict[str, str]


def summarise(
    rows: Mapping[str, Predictions],
    comparison: Comparison,
    calibrator: Any = None,
    title: str | None = None,
    decision: Decision | None = None,
) -> dict[str, Any]:
    """The page as data; :func:`calspline.reporting.report.render` makes it HTML."""
    first = next(iter(rows.values()))
    shown = views(rows, comparison.evaluations)
    fit = None if calibrator is None else describe_calibrator(calibrator, first)
    curve = None if fit is None else fit["curve"]
    return {
        "title": "Calibration report" if title is None else title,
        "headline": [(list(rows).index(name), sentence) for name, sentence in headline(shown[0], comparison)],
        "recommendation": comparison.recommendation if len(rows) > 1 else None,
        "leave_it": comparison.recommended == comparison.reference,
        "facts": _facts(comparison, first),
        "grouping": comparison.grouping or grouping_hint(first),
        "grouped": bool(comparison.grouping),
        "sets": list(rows),
        "level": percent(comparison.level),
        "n_classes": len(first.classes),
        "table": _table(comparison),
        "scale": starting_scale(shown[0]),
        "views": [reliability_charts(view) for view in shown],
        "by_segment": by_segment(rows, comparison),
        "decisions": None if decision is None else decisions(decision, comparison),
        "losses": [_loss(comparison, name, label) for name, (label, _) in LOSSES.items()],
        "certainty": _certainty(shown[0], comparison),
        "fit": fit,
        "curve_charts": [] if curve is None else calibrator_charts(curve, shown[0]),
        "versions": _versions(),
        "fingerprints": _fingerprints(rows),
        "evaluations": {
            name: {key: value if math.isfinite(value) else None for key, value in e.to_dict().items()}
            for name, e in comparison.evaluations.items()
        },
    }


def _facts(comparison: Comparison, rows: Predictions) -> list[str]:
    e, n_sets = comparison.evaluations[comparison.reference], len(comparison.evaluations)
    weight = [] if math.isclose(e.total_weight, e.n_rows) else [f"total weight {e.total_weight:,.6g}"]
    classes = f"{len(rows.classes)} classes"
    if rows.binary:
        classes = f"event: {rows.classes.tolist()[1]} ({precise_percent(e.base_rate)} of rows)"
    sets = "1 set of predictions" if n_sets == 1 else f"{n_sets} sets of predictions"
    return [rows_in_groups(e.n_rows, e.n_groups), *weight, classes, sets]


def _table(comparison: Comparison) -> list[dict[str, Any]]:
    """Rows of the table of measures: a label, what it is, and a cell for each set of predictions."""
    evaluations = comparison.evaluations.values()
    top = " of the top label" if comparison.evaluations[comparison.reference].per_class else ""
    out: list[dict[str, Any]] = []

    def add(label: str, hint: str, measure: str | Callable[[Evaluation], Cell], *, part: bool = False) -> None:
        cells = [{"text": number(getattr(e, measure))} if isinstance(measure, str) else measure(e) for e in evaluations]
        out.append({"label": label, "hint": hint, "part": part, "cells": cells})

    for name, (label, hint) in LOSSES.items():
        add(label, f"{hint}; lower is better", name)
        add("calibration", "what better calibration would save", f"calibration_{name}", part=True)
        add("refinement", "what would remain", f"refinement_{name}", part=True)
        if len(evaluations) > 1:
            differences = getattr(comparison, name)
            cells = [_difference(differences.get(name)) for name in comparison.evaluations]
            hint = f"paired, {percent(comparison.level)} interval"
            out.append({"label": f"against {comparison.reference}", "hint": hint, "part": True, "cells": cells})
    add("Accuracy", "share of right answers", "accuracy")
    add("AUC", "how well the scores rank", "auc")
    add(f"ECE{top}", "mean gap between said and happened, 15 bins", "ece")
    add(f"Smooth ECE{top}", "the same without bins", "smooth_ece")
    add(f"Slope{top}", "of the log-odds; below 1 the scores are too extreme", _slope)
    add(
        "Test of calibration",
        "p-value of “the probabilities are right”",
        lambda e: {"text": p_value(e.calibration_p_value).replace(" ", NO_BREAK_SPACE)},
    )
    return out


def _difference(d: Difference | None) -> Cell:
    if d is None:
        return {"text": ""}
    # Differences too small for four digits get more, all three alike.
    digits = 4 if max(abs(d.lower), abs(d.upper)) >= SMALL_DIFFERENCE else 6
    value, lower, upper = (f"{x:+.{digits}f}".replace("-", MINUS) for x in (d.value, d.lower, d.upper))
    return {"text": value, "beside": f"{lower} to {upper}", "verdict": d.verdict}


def _slope(e: Evaluation) -> Cell:
    slope, error = e.calibration_slope, e.calibration_slope_se
    return {"text": number(slope)} if math.isnan(error) else {"text": f"{slope:.3f}", "beside": f"± {error:.3f}"}


def _loss(comparison: Comparison, name: str, label: str) -> dict[str, Any]:
    """One loss of all sets with its parts, and the largest of all for the width of bars."""
    parts = ("calibration", "refinement", "discrimination", "uncertainty")
    sets = [
        {"name": set_name, "loss": getattr(e, name)} | {part: getattr(e, f"{part}_{name}") for part in parts}
        for set_name, e in comparison.evaluations.items()
    ]
    return {"label": label, "sets": sets, "largest": max(max(one["loss"], one["uncertainty"]) for one in sets) or 1.0}


def _certainty(view: View, comparison: Comparison) -> list[str]:
    """For each set: the test, and how wide the band of its curve is."""
    out = []
    for name, forecast in view.forecasts.items():
        spline, band = forecast.diagram.spline, "with one outcome only there is no curve"
        if spline is not None:
            lower, upper = spline.curve.band(forecast.p, comparison.level).T
            width = 50.0 * float(np.average(upper - lower, weights=forecast.weight))
            band = f"the curve is known to ± {width:.{max(1, decimals(width))}f} points on average"
        out.append(f"{_test(comparison.evaluations[name])}; {band}.")
    return out


def _test(e: Evaluation) -> str:
    p = e.calibration_p_value
    verdict = "The probabilities are not right" if p < ALPHA else "Nothing speaks against the probabilities"
    rows = f"{e.impossible_weight:g} {'row' if e.impossible_weight == 1.0 else 'rows'}"
    impossible = f"; {rows} happened with probability 0" if e.impossible_weight else ""
    return f"{verdict} ({p_equals(p)}{impossible})"


def describe_calibrator(calibrator: Any, rows: Predictions) -> dict[str, Any]:
    """Name, summary, parameters, facts and curve of a fitted calibrator; ``rows`` are what it is meant for."""
    name = type(calibrator).__name__
    kind = calibrator.kind_
    return {
        "name": name,
        "summary": getattr(calibrator, "summary", lambda: f"{name} for {len(calibrator.classes_)} classes")(),
        "parameters": {key: repr(value) for key, value in sorted(calibrator.get_params(deep=False).items())},
        "facts": {label: _text(getattr(calibrator, key)) for key, label in FACTS.items() if hasattr(calibrator, key)},
        "falls": _falls(calibrator),
        "curve": _binary_curve(calibrator, kind) if rows.binary else _top_label_curve(calibrator, kind, rows),
    }


def _falls(calibrator: Any) -> str:
    """A sentence on where a curve falls, so that a higher score means a lower probability; empty if none does."""
    curves = getattr(calibrator, "curves_", None) or []
    found = []
    for curve, label in zip(curves, calibrator.classes_[-len(curves) :], strict=False):
        where = " and ".join(f"from {low:.3g} to {high:.3g}" for low, high in curve.falls())
        of = "The curve" if len(curves) == 1 else f"The curve of {label}"
        if where:
            found.append(f"{of} falls {where}: there, a higher score means a lower probability.")
    return " ".join(found)


def _text(value: Any) -> str:
    if isinstance(value, (bool, np.bool_)):
        return "yes" if value else "no"
    if isinstance(value, (list, np.ndarray)):
        return ", ".join(_text(one) for one in list(value)[:MAX_VALUES]) + (", …" if len(value) > MAX_VALUES else "")
    return f"{value:.4g}" if isinstance(value, (float, np.floating)) else str(value)


def _binary_curve(calibrator: Any, kind: str) -> dict[str, Any] | None:
    """The calibration curve with its band."""
    if kind == "margin":
        if not calibrator.curves_:
            return None
        curve = calibrator.curves_[0]
        ends = curve.transform.inverse(curve.origin + curve.unit * curve.breaks[[0, -1]])
        score = np.linspace(ends[0], ends[1], 2 * GRID)
    else:
        # Even in probability and in log-odds, so that both ends are smooth.
        score = np.unique(np.concatenate([np.linspace(1e-4, 1.0 - 1e-4, GRID), expit(np.linspace(-FAR, FAR, GRID))]))
    has_band = hasattr(calibrator, "interval") and calibrator.curves_[0].has_band
    return {
        "kind": kind,
        "top_label": False,
        "score": score,
        "value": calibrator.calibrate(score),
        "band": calibrator.interval(score).T if has_band else None,
    }


def _top_label_curve(calibrator: Any, kind: str, rows: Predictions) -> dict[str, Any] | None:
    """The calibrated probability of the class that was most probable, by what it was, on the rows given.

    Mean, and from where to where the middle 80% of rows go.
    """
    if kind != "probability":
        return None
    guess = rows.probs.argmax(axis=1)
    each = np.arange(len(guess))
    before, after = rows.probs[each, guess], calibrator.predict_proba(rows.probs)[each, guess]
    order = np.argsort(before, kind="stable")
    weight = np.ones(len(order)) if rows.weight is None else rows.weight[order]
    before, after = before[order], after[order]
    cell = ((np.cumsum(weight) - 0.5 * weight) / weight.sum() * TOP_CELLS).astype(np.intp)
    inside = [cell == k for k in np.unique(cell)]
    return {
        "kind": kind,
        "top_label": True,
        "score": [float(np.average(before[k], weights=weight[k])) for k in inside],
        "value": [float(np.average(after[k], weights=weight[k])) for k in inside],
        "band": [[_quantile(after[k], weight[k], share) for k in inside] for share in MIDDLE],
    }


def _quantile(values: Array, weight: Array, share: float) -> float:
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weight[order]) >= share * weight.sum()
    return float(values[order][np.argmax(reached)])


def _versions() -> dict[str, str]:
    """Versions of what computed the numbers. There is no time, so that the same input gives the same page."""
    return {
        "calspline": calspline.__version__,
        "Python": platform.python_version(),
        **{name: version(name) for name in ("numpy", "scipy", "scikit-learn")},
    }


def _fingerprints(rows: Mapping[str, Predictions]) -> dict[str, str]:
    """SHA-256 of what happened and of each set of predictions, as 64-bit little-endian numbers in the order of rows."""
    first = next(iter(rows.values()))
    happened = first.codes.astype("<i8").tobytes()
    if first.weight is not None:
        happened += first.weight.astype("<f8").tobytes()
    if first.groups is not None:
        happened += first.groups.astype("<i8").tobytes()
    for column in first.by.columns if first.by is not None else []:
        happened += column.codes.astype("<i8").tobytes() + repr(column.values).encode()
    inputs = {"what happened": happened} | {name: one.probs.astype("<f8").tobytes() for name, one in rows.items()}
    return {name: hashlib.sha256(content).hexdigest() for name, content in inputs.items()}
