"""The section "Acting on it": net benefit by threshold, what acting costs, and what to say of both."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from calspline.arrays import Array, run_starts
from calspline.evaluation.compare import Comparison
from calspline.evaluation.decisions import ALL, SHOWN, CostOfSet, Costs, Decision
from calspline.formatting import decimals, rounded_percent
from calspline.reporting.charts import CURVE_HEIGHT, Axis, Frame

ROWS = 1000
"""Costs and net benefits are told per so many rows."""
STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
ROOM = 1.1
"""How much higher than the highest net benefit the picture is, at least."""
MINUS = "\N{MINUS SIGN}"
OUTCOMES = {
    "false_positive": "a false alarm",
    "false_negative": "a missed event",
    "true_positive": "an event found",
    "true_negative": "a row rightly left alone",
}


def decisions(found: Decision, comparison: Comparison) -> dict[str, Any]:
    """The section as data."""
    sets = list(comparison.evaluations)
    best = comparison.best_other
    at = np.unique(np.linspace(0, len(found.thresholds) - 1, SHOWN).round().astype(int)).tolist()
    bands = [found.net_benefit[name] for name in (*sets, ALL)]
    rate = comparison.evaluations[found.reference].base_rate
    return {
        "per": f"{ROWS:,}",
        "sentences": _ranges(found, best) if found.costs is None else _prices(found, found.costs, best, rate),
        "table": _table(found, sets) if found.costs is not None else [],
        "chart": _chart(found, sets) if len(found.thresholds) > 1 else None,
        "marked": None if found.costs is None else rounded_percent(found.costs.threshold),
        "columns": [*sets, ALL],
        "net_benefit": [
            (rounded_percent(found.thresholds[i]), [_cell(b.value[i], b.lower[i], b.upper[i]) for b in bands])
            for i in at
        ],
    }


def _prices(found: Decision, costs: Costs, best: str | None, rate: float) -> list[str]:
    """What to do at these costs, what it costs, and what that saves."""
    given = {key: value for key, value in asdict(costs).items() if value or key.startswith("false")}
    first, *more = [f"{OUTCOMES[key]} {'costs ' * (not i)}{value:,g}" for i, (key, value) in enumerate(given.items())]
    said = " and ".join([", ".join([first, *more[:-1]]), more[-1]]).replace("-", MINUS)
    out = [f"If {said}, it pays to act from a probability of {rounded_percent(costs.threshold)} on."]
    one, reference = found.by_cost[best or found.reference], found.by_cost[found.reference]
    width = one.cost_upper - one.cost_lower
    cost, low, high, everywhere, nowhere = _told(
        [one.cost, one.cost_lower, one.cost_upper, found.by_cost[ALL].cost, float(costs.waiting(np.array(rate)))], width
    )
    against = "" if best is None else _against(one, found.reference)
    out.append(
        f"Acting on {best or found.reference} then costs {cost} per {ROWS:,} rows ({low} to {high}){against}. "
        f"To act on all rows would cost {everywhere}, on none {nowhere}."
    )
    if not reference.threshold_lower <= costs.threshold <= reference.threshold_upper:
        text, beside = _threshold(reference)
        out.append(f"Who has {found.reference} alone does best to act from {text} on ({beside}).")
    return out


def _against(one: CostOfSet, reference: str) -> str:
    low, high = one.difference_lower, one.difference_upper
    if low <= 0.0 <= high:
        less, more = _told([-low, high], high - low)
        return f", between {less} less and {more} more than acting on {reference}"
    sign, word = (-1.0, "less") if high < 0.0 else (1.0, "more")
    by, *limits = _told(sign * np.array([one.difference, low, high]), high - low)
    return f", {by} {word} than acting on {reference} ({' to '.join(limits[:: int(sign)])})"


def _ranges(found: Decision, best: str | None) -> list[str]:
    """At which thresholds the best of the others is worth more than the reference, or the only set than none."""
    if best is not None:
        name, other, better, worse = best, found.reference, found.better(best), found.worse(best)
    else:
        # The difference is that of acting on all.
        name, other, better, worse = found.reference, "all rows alike", found.worse(ALL), found.better(ALL)
    parts = [
        f"surely {word} than acting on {other} at thresholds of "
        + " and ".join(" to ".join(dict.fromkeys(map(rounded_percent, run))) for run in runs)
        for word, runs in (("better", better), ("worse", worse))
        if runs
    ]
    return [f"Acting on {name} is {', '.join(parts) or f'at no threshold surely better or worse than on {other}'}."]


def _table(found: Decision, sets: list[str]) -> list[dict[str, Any]]:
    """Rows of the table of costs: a label, what it is, and a cell for each set of predictions."""
    known, level = [found.by_cost[name] for name in sets], f"{found.level:.0%} interval"
    t = rounded_percent(found.costs.threshold) if found.costs is not None else ""
    against = [{"text": ""}] + [
        _cell(one.difference, one.difference_lower, one.difference_upper)
        | {"verdict": "better" if one.difference_upper < 0.0 else "worse" if one.difference_lower > 0.0 else "unclear"}
        for one in known[1:]
    ]
    rows = [
        (
            f"Cost per {ROWS:,} rows",
            f"acting from {t} on; {level}",
            [_cell(o.cost, o.cost_lower, o.cost_upper) for o in known],
        ),
        (f"against {found.reference}", f"paired, {level}", against),
        (
            "Best threshold",
            f"where the event happens {t} of the time; {level}",
            [dict(zip(("text", "beside"), _threshold(o), strict=True)) for o in known],
        ),
        (
            "cost with it",
            f"per {ROWS:,} rows",
            [{"text": _told([o.best_cost], o.cost_upper - o.cost_lower)[0]} for o in known],
        ),
    ]
    return [
        {"label": label, "hint": hint, "part": label[0].islower(), "cells": cells}
        for label, hint, cells in rows
        if cells is not against or len(sets) > 1
    ]


def _chart(found: Decision, sets: list[str]) -> dict[str, Any]:
    """Net benefits with their bands; to act on all rows and on none; the threshold that follows from the costs."""
    t = found.thresholds
    top = max(1e-9, *(ROWS * float(found.net_benefit[name].value.max()) for name in sets))
    power = 10.0 ** np.floor(np.log10(ROOM * top / 4.0))
    step = next(s * power for s in STEPS if 4.0 * s * power >= ROOM * top)
    # Four steps above zero and one below: acting on all rows falls without end.
    frame = Frame(Axis(0.0, 1.0 if t[-1] > 0.5 else float(t[-1])), Axis(-step, 4.0 * step), CURVE_HEIGHT)
    everything = ROWS * found.net_benefit[ALL].value
    lines = [{"class": "base", "d": frame.line([0.0, frame.x_axis.high], [0.0, 0.0])}]
    lines.append({"class": "diagonal", "d": _within(frame, t, everything)})
    if found.costs is not None and frame.x_axis.contains(found.costs.threshold).all():
        lines.append({"class": "mark", "d": frame.line([found.costs.threshold] * 2, [-step, 4.0 * step])})
    drawn: list[dict[str, Any]] = [{"color": 0, "paths": lines, "bins": []}]
    for i, name in enumerate(sets):
        band = found.net_benefit[name]
        area = frame.area(t, ROWS * band.lower, ROWS * band.upper)
        paths = [{"class": "band", "d": area}, {"class": "curve", "d": _within(frame, t, ROWS * band.value)}]
        drawn.append({"color": i, "paths": paths, "bins": []})
    titles = "Threshold", f"Net benefit per {ROWS:,} rows"
    label = "Decision curves: net benefit by the threshold from which one acts"
    return frame.chart("decision", label, titles, diagonal=False, sets=drawn, histograms=[])


def _within(frame: Frame, x: Array, y: Array) -> str:
    """A line, left out where it is not in the picture."""
    inside = frame.y_axis.contains(y)
    parts = np.split(np.arange(len(x)), run_starts(inside)[1:])
    return "".join(frame.line(x[part], y[part]) for part in parts if inside[part[0]])


def _threshold(one: CostOfSet) -> tuple[str, str]:
    low, high = rounded_percent(one.threshold_lower), rounded_percent(one.threshold_upper)
    return rounded_percent(one.threshold), f"{low} to {high}"


def _cell(value: float, low: float, high: float) -> dict[str, str]:
    text, *limits = _told([value, low, high], high - low)
    return {"text": text, "beside": " to ".join(limits)}


def _told(values: Any, width: float) -> list[str]:
    """Numbers per ``ROWS`` rows, all with as many decimals as show two digits of an interval's width."""
    digits = decimals(ROWS * width) if width > 0.0 else 1
    # Adding zero leaves no minus sign at a zero.
    return [f"{round(ROWS * float(value), digits) + 0.0:,.{digits}f}".replace("-", MINUS) for value in values]
