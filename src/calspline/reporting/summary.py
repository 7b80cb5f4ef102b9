"""Texts and numbers of the report: headline, tables, certainty and fit."""

from __future__ import annotations

import hashlib
import math
import platform
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from calspline._arrays import Array
from calspline._formatting import (
    decimals,
    format_number,
    p_equals,
    p_value,
    percent,
    precise_percent,
    rounded_percent,
    rows_in_groups,
)
from calspline._version import __version__
from calspline.evaluation.compare import Comparison, Difference, Verdict
from calspline.evaluation.evaluate import Evaluation, Miscalibration
from calspline.evaluation.predictions import Predictions
from calspline.reporting.charts import View
from calspline.transforms import log_odds

NO_BREAK_SPACE, MINUS = "\N{NO-BREAK SPACE}", "\N{MINUS SIGN}"
LOSSES = {
    "log_loss": ("Log-loss", "mean surprise in nats"),
    "brier": ("Brier score", "mean squared error"),
}
GRID, BAND_CELLS = 101, 512
FAR = 9.2
"""Range of the plotted calibration curve in log-odds, up to 0.9999."""
MAX_VALUES = 8

FACTS = {
    "scale_": "Scale",
    "smoothing_": "Smoothing (lambda)",
    "edf_": "Effective degrees of freedom",
    "n_effective_": "Effective sample size",
    "n_iter_": "Newton steps",
    "converged_": "Converged",
    "temperature_": "Temperature",
}
"""Fitted attributes to show, with their labels."""

Cell = dict[str, str]
Kind = Miscalibration | Literal["right", "unknown", "one-sided"]

RARE = np.array(
    [1e-6, 1e-5, 0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05]
)
LEVELS = np.concatenate([RARE, np.arange(1.0, 10.0) / 10.0, 1.0 - RARE[::-1]])
"""Round probabilities to use in sentences."""
USUAL, PLAIN = 0.9, 0.1
COMMON = 0.02
"""Smallest share of rows near a level that makes it worth mentioning."""
ALPHA = 0.05
SLIGHT = 0.2
"""Errors of the log-odds below this value are slight: 2% may be 1.7% or 2.4%."""
WIDE, WIDE_LOG_ODDS = 0.1, 0.8
"""Half-widths of a band that is uninformative, in probability and in log-odds: 2% may
be 0.9% or 4.4%."""


def facts(comparison: Comparison, rows: Predictions) -> list[str]:
    """Numbers of rows, classes and sets."""
    e = comparison.evaluations[comparison.reference]
    n_sets = len(comparison.evaluations)
    if math.isclose(e.total_weight, e.n_rows):
        weight = []
    else:
        weight = [f"total weight {e.total_weight:,.6g}"]
    classes = f"{len(rows.classes)} classes"
    if rows.binary:
        classes = (
            f"event: {rows.classes.tolist()[1]} "
            f"({precise_percent(e.base_rate)} of rows)"
        )
    sets = "1 set of predictions" if n_sets == 1 else f"{n_sets} sets of predictions"
    return [rows_in_groups(e.n_rows, e.n_groups), *weight, classes, sets]


def table_row(
    label: str, hint: str, cells: list[Cell], *, part: bool = False
) -> dict[str, Any]:
    """Row of the table of measures: label, description, and a cell per set."""
    return {"label": label, "hint": hint, "cells": cells, "part": part}


def table(comparison: Comparison) -> list[dict[str, Any]]:
    """Table of measures."""
    evaluations = comparison.evaluations.values()
    rows = []
    if comparison.evaluations[comparison.reference].per_class:
        top = " of the top label"
    else:
        top = ""

    def measured(
        label: str, hint: str, name: str, *, part: bool = False
    ) -> dict[str, Any]:
        return table_row(
            label,
            hint,
            [_with_limits(e, name) for e in evaluations],
            part=part,
        )

    for name, (label, hint) in LOSSES.items():
        rows.append(measured(label, f"{hint}; lower is better", name))
        rows.append(
            measured(
                "calibration",
                "avoidable by calibration",
                f"calibration_{name}",
                part=True,
            )
        )
        rows.append(
            measured(
                "refinement",
                "remaining after calibration",
                f"refinement_{name}",
                part=True,
            )
        )
        if len(evaluations) > 1:
            cells = [
                _difference(getattr(comparison, name).get(one))
                for one in comparison.evaluations
            ]
            hint = f"paired, {percent(comparison.level)} interval"
            rows.append(
                table_row(f"against {comparison.reference}", hint, cells, part=True)
            )
    p_values = [
        {"text": p_value(e.calibration_p_value).replace(" ", NO_BREAK_SPACE)}
        for e in evaluations
    ]
    return [
        *rows,
        measured("Accuracy", "share of correct predictions", "accuracy"),
        measured("AUC", "how well the scores rank", "auc"),
        measured(
            f"ECE{top}, debiased",
            "mean distance from the observed frequency, 15 bins; minus the part due to "
            "chance",
            "ece_debiased",
        ),
        measured(f"Smooth ECE{top}", "ECE without bins", "smooth_ece"),
        measured(
            f"Slope{top}",
            "of the log-odds; below 1 the scores are too extreme",
            "calibration_slope",
        ),
        table_row(
            "Test of calibration",
            "p-value; small values are evidence of miscalibration",
            p_values,
        ),
    ]


def _with_limits(e: Evaluation, name: str) -> Cell:
    cell = {"text": format_number(getattr(e, name)).replace("-", MINUS)}
    low, high = e.limits[name]
    if not math.isnan(low):
        shown = f"{format_number(low)} to {format_number(high)}"
        cell["beside"] = shown.replace("-", MINUS)
    return cell


def _difference(d: Difference | None) -> Cell:
    if d is None:
        return {"text": ""}
    # Differences too small for four digits get more, all three alike.
    digits = 4 if max(abs(d.lower), abs(d.upper)) >= 0.001 else 6
    value, lower, upper = (
        f"{x:+.{digits}f}".replace("-", MINUS) for x in (d.value, d.lower, d.upper)
    )
    return {"text": value, "beside": f"{lower} to {upper}", "verdict": d.verdict}


def losses(comparison: Comparison) -> list[tuple[str, str, float]]:
    """Name and label of each loss, and the largest loss for the width of bars."""
    every = comparison.evaluations.values()
    largest = {
        name: max(
            getattr(e, key) for e in every for key in (name, f"uncertainty_{name}")
        )
        for name in LOSSES
    }
    return [(name, label, largest[name] or 1.0) for name, (label, _) in LOSSES.items()]


def certainty(view: View, comparison: Comparison) -> list[str]:
    """Result of the calibration test and width of the band, by set."""
    out = []
    for name, forecast in view.forecasts.items():
        spline = forecast.diagram.spline
        band = "with a single outcome there is no curve"
        if spline is not None:
            f = forecast.counts.coarsened(BAND_CELLS)
            lower, upper = spline.curve.band(f.x, comparison.level).T
            width = 50.0 * float(np.average(upper - lower, weights=f.w))
            band = (
                f"the curve is known to ± {width:.{max(1, decimals(width))}f} points "
                f"on average"
            )
        out.append(f"{_test(comparison.evaluations[name])}; {band}.")
    return out


def _test(e: Evaluation) -> str:
    p = e.calibration_p_value
    if p < ALPHA:
        verdict = "The probabilities are miscalibrated"
    else:
        verdict = "No evidence of miscalibration"
    rows = f"{e.impossible_weight:g} {'row' if e.impossible_weight == 1.0 else 'rows'}"
    if e.impossible_weight:
        impossible = f"; {rows} with an outcome of probability 0"
    else:
        impossible = ""
    return f"{verdict} ({p_equals(p)}{impossible})"


def describe_calibrator(calibrator: Any, rows: Predictions) -> dict[str, Any]:
    """Name, summary, parameters, facts and curve of a fitted calibrator."""
    name = type(calibrator).__name__
    if hasattr(calibrator, "summary"):
        text = calibrator.summary()
    else:
        text = f"{name} for {len(calibrator.classes_)} classes"
    if rows.binary:
        curve = _binary_curve(calibrator)
    else:
        curve = _top_label_curve(calibrator, rows)
    parameters = sorted(calibrator.get_params(deep=False).items())
    return {
        "name": name,
        "kind": calibrator.model_.kind.value_kind,
        "top_label": not rows.binary,
        "summary": text,
        "parameters": {key: repr(value) for key, value in parameters},
        "facts": {
            label: _text(getattr(calibrator, key))
            for key, label in FACTS.items()
            if hasattr(calibrator, key)
        },
        "falls": _falls(calibrator),
        "curve": curve,
    }


def has_training_rows(calibrator: Any, rows: Mapping[str, Predictions]) -> bool:
    """Whether a set holds the probabilities of the rows the calibrator was fitted to.

    They are recognized by the counts that the model keeps; those of a model with
    segments are not.
    """
    reference = calibrator.model_.reference
    if reference is None:
        return False
    return any(
        reference.matches(
            one.probs if one.binary else one.probs.max(axis=1), one.codes, one.weight
        )
        for one in rows.values()
    )


def _falls(calibrator: Any) -> str:
    """Sentence on where a curve decreases; empty if it does not."""
    curves = getattr(calibrator, "curves_", None) or []
    found = []
    for curve, label in zip(curves, calibrator.classes_[-len(curves) :], strict=False):
        where = " and ".join(
            f"from {low:.3g} to {high:.3g}" for low, high in curve.falls()
        )
        of = "The curve" if len(curves) == 1 else f"The curve of {label}"
        if where:
            found.append(
                f"{of} falls {where}: there, a higher score means a lower probability."
            )
    return " ".join(found)


def _text(value: Any) -> str:
    if isinstance(value, (bool, np.bool_)):
        return "yes" if value else "no"
    if isinstance(value, (list, np.ndarray)):
        shown = [_text(one) for one in list(value)[:MAX_VALUES]]
        if len(value) > MAX_VALUES:
            shown.append("…")
        return ", ".join(shown)
    if isinstance(value, (float, np.floating)):
        return f"{value:.4g}"
    return str(value)


def _binary_curve(calibrator: Any) -> dict[str, Any] | None:
    """The calibration curve with its band."""
    if calibrator.model_.kind.value_kind == "margin":
        if not calibrator.curves_:
            return None
        curve = calibrator.curves_[0]
        ends = curve.transform.inverse(
            curve.origin + curve.unit * curve.breaks[[0, -1]]
        )
        score = np.linspace(ends[0], ends[1], 2 * GRID)
    else:
        # Even in probability and in log-odds, so that both ends are smooth.
        even = np.linspace(1e-4, 1.0 - 1e-4, GRID)
        in_log_odds = expit(np.linspace(-FAR, FAR, GRID))
        score = np.unique(np.concatenate([even, in_log_odds]))
    has_band = hasattr(calibrator, "interval") and calibrator.curves_[0].has_band
    band = calibrator.interval(score).T if has_band else None
    return {"score": score, "value": calibrator.calibrate(score), "band": band}


def _top_label_curve(calibrator: Any, rows: Predictions) -> dict[str, Any] | None:
    """Mean calibrated probability of the top label, and the middle 80% of rows."""
    if calibrator.model_.kind.value_kind != "probability":
        return None
    order = np.argsort(rows.probs.max(axis=1), kind="stable")
    guess = rows.probs[order].argmax(axis=1)
    weight = rows.w[order]
    before = rows.probs[order, guess]
    after = calibrator.predict_proba(rows.probs)[order, guess]
    cell = ((np.cumsum(weight) - 0.5 * weight) / weight.sum() * 24).astype(np.intp)
    inside = [cell == k for k in np.unique(cell)]
    return {
        "score": [float(np.average(before[k], weights=weight[k])) for k in inside],
        "value": [float(np.average(after[k], weights=weight[k])) for k in inside],
        "band": [
            [_quantile(after[k], weight[k], share) for k in inside]
            for share in (0.1, 0.9)
        ],
    }


def _quantile(values: Array, weight: Array, share: float) -> float:
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weight[order]) >= share * weight.sum()
    return float(values[order][np.argmax(reached)])


@cache
def versions() -> dict[str, str]:
    """Versions of the software.

    There is no time stamp, so the same input gives the same page.
    """
    return {
        "calspline": __version__,
        "Python": platform.python_version(),
        **{name: version(name) for name in ("numpy", "scipy", "scikit-learn")},
    }


def fingerprints(rows: Mapping[str, Predictions]) -> dict[str, str]:
    """SHA-256 of the outcomes and of each set of predictions.

    Numbers are hashed as 64-bit little-endian values, in the order of rows.
    """
    first = next(iter(rows.values()))
    outcomes = first.codes.astype("<i8").tobytes()
    if first.weight is not None:
        outcomes += first.weight.astype("<f8").tobytes()
    if first.groups is not None:
        outcomes += first.groups.astype("<i8").tobytes()
    for column in first.by.columns if first.by is not None else []:
        outcomes += column.codes.astype("<i8").tobytes() + repr(column.values).encode()
    inputs = {"outcomes": outcomes} | {
        name: one.probs.astype("<f8").tobytes() for name, one in rows.items()
    }
    return {
        name: hashlib.sha256(content).hexdigest() for name, content in inputs.items()
    }


class Finding(NamedTuple):
    """Summary of one set of predictions: a probability, ``level``, and the curve there.

    The kind is ``"right"`` without evidence of miscalibration, ``"unknown"`` if there
    are too few rows, and ``"one-sided"`` if all outcomes are equal.
    """

    name: str
    kind: Kind
    level: float
    observed: float
    lower: float
    upper: float


def headline(view: View, comparison: Comparison) -> list[tuple[str, str]]:
    """Names and sentences: the set in use and the best other set."""
    reference = comparison.reference
    best = comparison.best_other
    n = comparison.evaluations[reference].n_rows
    if best is None:
        return [
            (
                reference,
                _reference_sentence(
                    _judge(view, comparison, reference, LEVELS), view, n, alone=True
                ),
            )
        ]
    # At a level that both reach.
    before = _judge(
        view, comparison, reference, _within(LEVELS, view.forecasts[best].p)
    )
    sentences = [(reference, _reference_sentence(before, view, n, alone=False))]
    if before.kind not in ("unknown", "one-sided"):
        after = _judge(view, comparison, best, LEVELS, before.level)
        sentences.append(
            (best, _other_sentence(after, before, n, comparison.log_loss[best].verdict))
        )
    return sentences


def _judge(
    view: View,
    comparison: Comparison,
    name: str,
    levels: Array,
    level: float | None = None,
) -> Finding:
    """Summarise one set of predictions, at a given level or at the best choice."""
    forecast = view.forecasts[name]
    p = forecast.p
    evaluation = forecast.evaluation
    spline = forecast.diagram.spline
    if spline is None:
        rate = evaluation.base_rate
        return Finding(name, "one-sided", evaluation.mean_probability, rate, rate, rate)
    levels, near = _levels(p, forecast.weight, levels)
    observed = spline.curve(levels)
    lower, upper = spline.curve.band(levels, forecast.diagram.level).T
    rejected = evaluation.calibration_p_value < ALPHA
    if level is not None and level in levels:
        at = int(np.flatnonzero(levels == level)[0])
    elif rejected:
        # Where the error is large and common; of much the same, at the plainer number,
        # and where the model is sure.
        agrees = _agrees(evaluation.miscalibration, observed, levels)
        outside = agrees & ((levels < lower) | (levels > upper))
        # In standard errors, so that a rare event given ten times too often is an
        # error, however few points it is.
        middle = 0.5 * (observed + levels)
        error = np.abs(observed - levels) / np.sqrt(middle * (1.0 - middle))
        weight = error * np.sqrt(near) * np.where(levels > 0.5, 1.1, 1.0)
        weight *= np.where((levels >= PLAIN) & (levels <= 1.0 - PLAIN), 1.5, 1.0)
        weight *= np.where(agrees, 1.0, 0.01)
        # A prediction above one half is easier to understand, where there are any.
        likely = outside & (levels > 0.5) & (near >= COMMON)
        if likely.any():
            outside = likely
        at = int(np.argmax(weight * np.where(outside, 1.0, 0.01)))
    else:
        common = near >= min(COMMON, near.max())
        at = int(
            np.argmin(
                np.where(common, np.abs(log_odds(levels) - log_odds([USUAL])), np.inf)
            )
        )
    band = np.array([lower[at], upper[at]])
    tells_nothing = (
        0.5 * np.ptp(band) > WIDE or 0.5 * np.ptp(log_odds(band)) > WIDE_LOG_ODDS
    )
    unrejected: Kind = "unknown" if tells_nothing else "right"
    kind = comparison.evaluations[name].miscalibration if rejected else unrejected
    return Finding(name, kind, float(levels[at]), float(observed[at]), *band.tolist())


def _agrees(kind: Miscalibration, observed: Array, levels: Array) -> NDArray[np.bool_]:
    """Where probabilities are wrong in this way: nowhere too low if too high."""
    if kind == "too high":
        return levels > observed
    if kind == "too low":
        return levels < observed
    return np.ones(len(levels), bool)


def _levels(p: Array, weight: Array | None, levels: Array) -> tuple[Array, Array]:
    """Levels within the range of the probabilities, with shares of nearby rows."""
    inside = _within(levels, p)
    if not len(inside):
        return np.array([np.average(p, weights=weight)]), np.ones(1)
    x = log_odds(inside)
    nearest = np.searchsorted(expit(0.5 * (x[1:] + x[:-1])), p)
    near = np.bincount(nearest, weights=weight, minlength=len(inside))
    return inside, near / near.sum()


def _within(levels: Array, p: Array) -> Array:
    return np.asarray(levels[(levels >= p.min()) & (levels <= p.max())])


def _reference_sentence(f: Finding, view: View, n: int, *, alone: bool) -> str:
    name = PLURALS.get(f.name.strip().lower(), f.name)
    level = rounded_percent(f.level)
    if f.kind == "one-sided":
        e = view.forecasts[f.name].evaluation
        what = "answers were right" if view.top_label else "rows are events"
        share = "All" if f.observed == 1.0 else "None"
        return (
            f"{share} of the {n:,} {what}, where {name} expected "
            f"{e.mean_probability * e.total_weight:.3g}: "
            "calibration cannot be assessed with a single outcome."
        )
    if f.kind == "unknown":
        return (
            f"{n:,} rows are too few to assess the calibration of {name}: "
            f"{level} may mean anything from {rounded_percent(f.lower)} to "
            f"{rounded_percent(f.upper)}."
        )
    if f.kind == "right":
        already = "" if alone else "already "
        return f"{_subject(f.name)} {already}well calibrated: {_meaning(f)}."
    given, observed = log_odds([f.level, f.observed])
    slightly = "slightly " if abs(given - observed) < SLIGHT else ""
    what = "observed frequency"
    if view.top_label:
        what = "accuracy"
    observed_level = rounded_percent(f.observed)
    return (
        f"{_subject(f.name)} {slightly}{f.kind}: "
        f"where {level} is predicted, the {what} is {observed_level}."
    )


def _other_sentence(f: Finding, before: Finding, n: int, verdict: Verdict) -> str:
    lead = "After calibration" if is_calibrated(f.name) else f"With {f.name},"
    if f.kind == "unknown":
        return (
            f"{lead} there is no evidence of miscalibration, but with {n:,} rows, "
            f"{rounded_percent(f.level)} may mean anything from "
            f"{rounded_percent(f.lower)} to {rounded_percent(f.upper)}."
        )
    if f.kind == "right":
        return f"{lead} {_meaning(f)}."
    if before.kind == "right" or verdict == "worse":
        tail = "worse than before"
    else:
        if verdict == "better":
            tail = "better, but still miscalibrated"
        else:
            tail = "also miscalibrated"
    return f"{lead} {_meaning(f)}: {tail}."


def _meaning(f: Finding) -> str:
    """Text such as ``90% means 90% ± 1.6%``, or a range if the band is asymmetric."""
    up = f.upper - f.observed
    down = f.observed - f.lower
    if max(up, down) > 1.5 * min(up, down):
        return (
            f"{rounded_percent(f.level)} means {rounded_percent(f.lower)} "
            f"to {rounded_percent(f.upper)}"
        )
    half = 50.0 * (f.upper - f.lower)
    digits = decimals(half) if half < 0.1 else 1
    if half < 0.5:
        shown = f"{100.0 * f.observed:.{digits}f}%"
    else:
        shown = rounded_percent(f.observed)
    return (
        f"{rounded_percent(f.level)} means {shown} "
        f"± {half:.{0 if half >= 10.0 else digits}f}%"
    )


def is_calibrated(name: str) -> bool:
    """Whether the name of a set says that it is calibrated."""
    return name.strip().lower() in (
        "calibrated",
        "after",
        "after calibration",
        "calibration",
    )


PLURALS = {
    "raw": "raw scores",
    "raw scores": "raw scores",
    "probabilities": "the probabilities",  # a single array
}


def _subject(name: str) -> str:
    plural = PLURALS.get(name.strip().lower())
    if plural is not None:
        return f"{plural.capitalize()} are"
    if name.replace(" ", "").isalpha() and name[0].islower():
        start = name[0].upper() + name[1:]
    else:
        start = name
    return f"{start} is"
