"""The headline: what the numbers say, in plain words."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy.special import expit

from calspline.arrays import Array
from calspline.curve import CalibrationCurve
from calspline.evaluation.compare import Comparison, Verdict
from calspline.formatting import decimals, rounded_percent
from calspline.reporting.charts import Forecast, View
from calspline.transforms import log_odds

Kind = Literal["over-confident", "under-confident", "too high", "too low", "off", "right", "unknown", "one-sided"]

RARE = np.array([1e-6, 1e-5, 0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05])
LEVELS = np.concatenate([RARE, np.arange(1.0, 10.0) / 10.0, 1.0 - RARE[::-1]])
"""Round numbers to speak of."""
USUAL, PLAIN = 0.9, 0.1
COMMON = 0.02
"""Share of the rows near a level that makes it worth speaking of."""
ALPHA = 0.05
ONE_SIGN = 0.75
"""Share of all deviation that must be of one sign for "too high" or "too low"."""
SLIGHT = 0.2
"""Log-odds that are off by less are off slightly: 2% may be 1.7% or 2.4%."""
WIDE, WIDE_LOG_ODDS = 0.1, 0.8
"""Half a band this wide tells next to nothing, in points or in log-odds: 2% may be 0.9% or 4.4%."""


@dataclass(frozen=True)
class Finding:
    """What can be said of one set of predictions: a probability, ``level``, and the curve there with its band.

    The kind is ``"right"`` if nothing speaks against the probabilities, ``"unknown"`` if nor could it, with so few
    rows, and ``"one-sided"`` if the event happened always or never.
    """

    name: str
    kind: Kind
    level: float
    happened: float
    lower: float
    upper: float

    @property
    def half_width(self) -> float:
        """Half the width of the band."""
        return 0.5 * (self.upper - self.lower)


def headline(view: View, comparison: Comparison) -> list[tuple[str, str]]:
    """Name and sentence: of the set in use and, if there is another, of the best of the others."""
    reference, best = comparison.reference, comparison.best_other
    n = comparison.evaluations[reference].n_rows
    if best is None:
        return [(reference, _reference_sentence(_judge(view, reference, LEVELS), view, n, alone=True))]
    # At a level that both reach.
    before = _judge(view, reference, _within(LEVELS, view.forecasts[best].p))
    sentences = [(reference, _reference_sentence(before, view, n, alone=False))]
    if before.kind not in ("unknown", "one-sided"):
        after = _judge(view, best, LEVELS, before.level)
        sentences.append((best, _other_sentence(after, before, n, comparison.log_loss[best].verdict)))
    return sentences


def _judge(view: View, name: str, levels: Array, level: float | None = None) -> Finding:
    """Judge one set of predictions, at one of some levels, or at a given one if it has scores there."""
    forecast = view.forecasts[name]
    p, evaluation, spline = forecast.p, forecast.evaluation, forecast.diagram.spline
    if spline is None:
        rate = evaluation.base_rate
        return Finding(name, "one-sided", evaluation.mean_probability, rate, rate, rate)
    levels, near = _levels(p, forecast.weight, levels)
    happened = spline.curve(levels)
    lower, upper = spline.curve.band(levels, forecast.diagram.level).T
    rejected = evaluation.calibration_p_value < ALPHA
    if level is not None and level in levels:
        at = int(np.flatnonzero(levels == level)[0])
    elif rejected:
        # Where the error is large and common; of much the same, at the plainer number, and where the model is sure.
        outside = (levels < lower) | (levels > upper)
        # In standard errors, so that a rare event given ten times too often is an error, however few points it is.
        middle = 0.5 * (happened + levels)
        error = np.abs(happened - levels) / np.sqrt(middle * (1.0 - middle))
        weight = error * np.sqrt(near) * np.where(levels > 0.5, 1.1, 1.0)
        weight *= np.where((levels >= PLAIN) & (levels <= 1.0 - PLAIN), 1.5, 1.0)
        at = int(np.argmax(weight * np.where(outside, 1.0, 0.01)))
    else:
        common = near >= min(COMMON, near.max())
        at = int(np.argmin(np.where(common, np.abs(log_odds(levels) - log_odds([USUAL])), np.inf)))
    found = Finding(name, "right", float(levels[at]), float(happened[at]), float(lower[at]), float(upper[at]))
    if rejected:
        return replace(found, kind=_kind(forecast, spline.curve, view.top_label))
    low, high = log_odds([found.lower, found.upper])
    tells_nothing = found.half_width > WIDE or 0.5 * (high - low) > WIDE_LOG_ODDS
    return replace(found, kind="unknown") if tells_nothing else found


def _levels(p: Array, weight: Array | None, levels: Array) -> tuple[Array, Array]:
    """Levels within the range of the probabilities, with the share of rows that are nearest to each."""
    inside = _within(levels, p)
    if not len(inside):
        return np.array([np.average(p, weights=weight)]), np.ones(1)
    x = log_odds(inside)
    nearest = np.searchsorted(expit(0.5 * (x[1:] + x[:-1])), p)
    near = np.bincount(nearest, weights=weight, minlength=len(inside))
    return inside, near / near.sum()


def _within(levels: Array, p: Array) -> Array:
    return np.asarray(levels[(levels >= p.min()) & (levels <= p.max())])


def _kind(forecast: Forecast, curve: CalibrationCurve, top_label: bool) -> Kind:
    """In what way wrong probabilities are wrong."""
    p, evaluation = forecast.p, forecast.evaluation
    bias = evaluation.mean_probability - evaluation.base_rate
    deviation = float(np.average(np.abs(p - curve(p)), weights=forecast.weight))
    if abs(bias) > ONE_SIGN * deviation:
        if top_label:
            return "over-confident" if bias > 0.0 else "under-confident"
        return "too high" if bias > 0.0 else "too low"
    slope, error = evaluation.calibration_slope, evaluation.calibration_slope_se
    if abs(slope - 1.0) > 1.96 * error:
        return "over-confident" if slope < 1.0 else "under-confident"
    return "off"


def _reference_sentence(f: Finding, view: View, n: int, *, alone: bool) -> str:
    name, level = "raw scores" if _is_raw(f.name) else f.name, rounded_percent(f.level)
    if f.kind == "one-sided":
        e = view.forecasts[f.name].evaluation
        what = "answers were right" if view.top_label else "events happened"
        share = "All" if f.happened == 1.0 else "None"
        return (
            f"{share} of the {n:,} {what}, where {name} expected {e.mean_probability * e.total_weight:.3g}: "
            "with one outcome only, there is no more to say."
        )
    if f.kind == "unknown":
        return (
            f"{n:,} rows are too few to say whether {name} can be trusted: "
            f"{level} may mean anything from {rounded_percent(f.lower)} to {rounded_percent(f.upper)}."
        )
    if f.kind == "right":
        return f"{_subject(f.name)} {'' if alone else 'already '}well calibrated: {_meaning(f)}."
    given, happened = log_odds([f.level, f.happened])
    slightly = "slightly " if abs(given - happened) < SLIGHT else ""
    what, verb = ("answers", "were right") if view.top_label else ("events", "happened")
    said = f"{what} given {level} {verb} {rounded_percent(f.happened)} of the time"
    return f"{_subject(f.name)} {slightly}{f.kind}: {said}."


def _other_sentence(f: Finding, before: Finding, n: int, verdict: Verdict) -> str:
    known = f.name.strip().lower() in ("calibrated", "after", "after calibration", "calibration")
    lead = "After calibration" if known else f"With {f.name},"
    if f.kind == "unknown":
        return (
            f"{lead} nothing speaks against it, but {n:,} rows leave {rounded_percent(f.level)} "
            f"anywhere between {rounded_percent(f.lower)} and {rounded_percent(f.upper)}."
        )
    if f.kind == "right":
        return f"{lead} {_meaning(f)}."
    if before.kind == "right" or verdict == "worse":
        tail = "worse than before"
    else:
        tail = "better, but not right yet" if verdict == "better" else "not right either"
    return f"{lead} {_meaning(f)}: {tail}."


def _meaning(f: Finding) -> str:
    """``90% means 90% ± 1.6%``, or from where to where if the band is lopsided."""
    up, down = f.upper - f.happened, f.happened - f.lower
    if max(up, down) > 1.5 * min(up, down):
        return f"{rounded_percent(f.level)} means {rounded_percent(f.lower)} to {rounded_percent(f.upper)}"
    half = 100.0 * f.half_width
    digits = decimals(half) if half < 0.1 else 1
    shown = f"{100.0 * f.happened:.{digits}f}%" if half < 0.5 else rounded_percent(f.happened)
    return f"{rounded_percent(f.level)} means {shown} ± {half:.{0 if half >= 10.0 else digits}f}%"


def _is_raw(name: str) -> bool:
    return name.strip().lower() in ("raw", "raw scores")


def _subject(name: str) -> str:
    if _is_raw(name):
        return "Raw scores are"
    start = name[0].upper() + name[1:] if name.replace(" ", "").isalpha() and name[0].islower() else name
    return f"{start} is"
