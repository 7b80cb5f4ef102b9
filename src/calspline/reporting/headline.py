"""The headline: what the numbers say, in plain words."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy.special import expit

from calspline.arrays import Array
from calspline.curve import CalibrationCurve
from calspline.evaluation.compare import Comparison, Verdict
from calspline.reporting.views import Forecast, View
from calspline.transforms import log_odds

Kind = Literal["over-confident", "under-confident", "too high", "too low", "off", "right", "unknown", "one-sided"]

LEVELS = np.array([0.001, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.999])
"""Round numbers to speak of."""
USUAL, PLAIN = 0.9, 0.1
COMMON = 0.02
"""Share of the rows near a level that makes it worth speaking of."""
ALPHA = 0.05
ONE_SIGN = 0.75
"""Share of all deviation that must be of one sign for "too high" or "too low"."""
SLIGHT = 0.02
WIDE = 0.1
"""Half a band this wide tells next to nothing."""


@dataclass(frozen=True)
class Finding:
    """What can be said of one set of predictions.

    Attributes
    ----------
    kind : str
        ``"right"``: nothing speaks against the probabilities. ``"unknown"``: nor could it, with so few rows.
        ``"one-sided"``: the event happened always or never.
    level : float
        The probability to speak of.
    happened, lower, upper : float
        What it means: the calibration curve there, with its band.
    """

    name: str
    kind: Kind
    level: float
    happened: float
    lower: float
    upper: float

    @property
    def reach(self) -> float:
        """Half the width of the band."""
        return 0.5 * (self.upper - self.lower)


def headline(view: View, comparison: Comparison) -> list[tuple[str, str]]:
    """Name and sentence: of the set in use and, if there is another, of the best of the others."""
    others = [name for name in view.forecasts if name != comparison.reference]
    n = comparison.evaluations[comparison.reference].n_rows
    if not others:
        return [(comparison.reference, _of_the_reference(_judge(view, comparison.reference), view, n, alone=True))]
    best = min(others, key=lambda name: (name != comparison.recommended, comparison.evaluations[name].log_loss))
    before = _judge(view, comparison.reference, beside=best)
    sentences = [(before.name, _of_the_reference(before, view, n, alone=False))]
    if before.kind not in ("unknown", "one-sided"):
        after = _judge(view, best, level=before.level)
        sentences.append((best, _of_another(after, before, n, comparison.log_loss[best].verdict)))
    return sentences


def _judge(view: View, name: str, *, beside: str | None = None, level: float | None = None) -> Finding:
    """Judge one set, at a level that the one beside it reaches too."""
    levels = LEVELS
    if beside is not None:
        levels = _within(LEVELS, view.forecasts[beside].p)
    return find(name, view.forecasts[name], view.top_label, levels, level)


def find(name: str, forecast: Forecast, top_label: bool, levels: Array = LEVELS, level: float | None = None) -> Finding:
    """Judge one set of predictions, at one of some levels, or at a given one if it has scores there."""
    p, evaluation, spline = forecast.p, forecast.evaluation, forecast.diagram.spline
    if spline is None:
        mean = evaluation.mean_probability
        return Finding(name, "one-sided", mean, evaluation.base_rate, evaluation.base_rate, evaluation.base_rate)
    levels, near = _levels(p, forecast.weight, levels)
    happened = spline.curve(levels)
    lower, upper = spline.curve.band(levels, forecast.diagram.level).T
    rejected = evaluation.calibration_p_value < ALPHA
    if level is not None and level in levels:
        at = int(np.flatnonzero(levels == level)[0])
    elif rejected:
        # Where the error is large and common; of much the same, at the plainer number, and where the model is sure.
        sure = (levels < lower) | (levels > upper)
        weight = np.abs(happened - levels) * np.sqrt(near) * np.where(levels > 0.5, 1.1, 1.0)
        weight *= np.where((levels >= PLAIN) & (levels <= 1.0 - PLAIN), 1.5, 1.0)
        at = int(np.argmax(weight * np.where(sure, 1.0, 0.01)))
    else:
        common = near >= min(COMMON, near.max())
        at = int(np.argmin(np.where(common, np.abs(log_odds(levels) - log_odds([USUAL])), np.inf)))
    found = Finding(name, "right", float(levels[at]), float(happened[at]), float(lower[at]), float(upper[at]))
    if rejected:
        return replace(found, kind=_kind(forecast, spline.curve, top_label))
    return replace(found, kind="unknown") if found.reach > WIDE else found


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


def _of_the_reference(f: Finding, view: View, n: int, *, alone: bool) -> str:
    subject = _subject(f.name)
    if f.kind == "one-sided":
        e = view.forecasts[f.name].evaluation
        what = "answers were right" if view.top_label else "events happened"
        share = "All" if f.happened == 1.0 else "None"
        return (
            f"{share} of the {n:,} {what}, where {_name(f.name)} expected {e.mean_probability * e.total_weight:.3g}: "
            "with one outcome only, there is no more to say."
        )
    if f.kind == "unknown":
        return (
            f"{n:,} rows are too few to say whether {_name(f.name)} can be trusted: "
            f"{percent(f.level)} may mean anything from {percent(f.lower)} to {percent(f.upper)}."
        )
    if f.kind == "right":
        already = "" if alone else "already "
        return f"{subject} {already}well calibrated: {_meaning(f)}."
    slightly = "slightly " if abs(f.happened - f.level) < SLIGHT else ""
    what = "answers given {} were right {} of the time" if view.top_label else "events given {} happened {} of the time"
    said = what.format(percent(f.level), percent(f.happened))
    return f"{subject} {slightly}{f.kind}: {said}."


def _of_another(f: Finding, before: Finding, n: int, verdict: Verdict) -> str:
    lead = _lead(f.name)
    if f.kind == "unknown":
        return (
            f"{lead} nothing speaks against it, but {n:,} rows leave {percent(f.level)} "
            f"anywhere between {percent(f.lower)} and {percent(f.upper)}."
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
        return f"{percent(f.level)} means {percent(f.lower)} to {percent(f.upper)}"
    reach = 100.0 * f.reach
    shown = f"{100.0 * f.happened:.1f}%" if reach < 0.5 else percent(f.happened)
    return f"{percent(f.level)} means {shown} ± {reach:.{0 if reach >= 10.0 else 1 if reach >= 0.1 else 2}f}%"


def percent(x: float) -> str:
    """A share in per cent, with decimals where it is near 0 or 1."""
    least = min(x, 1.0 - x)
    digits = 0 if least >= 0.015 or least == 0.0 else 1 if least >= 0.0005 else 2
    shown = f"{100.0 * x:.{digits}f}"
    return f"{shown.rstrip('0').rstrip('.') if digits else shown}%"


def _plain(name: str) -> str:
    return name.strip().lower()


def _name(name: str) -> str:
    return "raw scores" if _plain(name) in ("raw", "raw scores") else name


def _subject(name: str) -> str:
    if _plain(name) in ("raw", "raw scores"):
        return "Raw scores are"
    start = name[0].upper() + name[1:] if name.replace(" ", "").isalpha() and name[0].islower() else name
    return f"{start} is"


def _lead(name: str) -> str:
    known = ("calibrated", "after", "after calibration", "calibration")
    return "After calibration" if _plain(name) in known else f"With {name},"
