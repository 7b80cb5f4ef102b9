"""Optional sections of the report: segments and decisions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calspline._arrays import Array, Counts, run_starts
from calspline._formatting import decimals, rounded_percent
from calspline.evaluation.compare import Comparison
from calspline.evaluation.decisions import ALL, CostOfSet, Costs, Decision
from calspline.evaluation.predictions import Predictions
from calspline.evaluation.segments import (
    FALSE_SHARE,
    NO_SEGMENT,
    Coded,
    SegmentEvaluation,
)
from calspline.reporting.charts import CURVE_HEIGHT, Axis, Frame
from calspline.reporting.summary import MINUS, is_calibrated, table_row

WORST, PARTS, ROWS_IN_PART = 6, 5, 15
WIDTH, NEAREST, FARTHEST = 240.0, 1.25, 8.0
"""Width of the forest plot, and the limits of its scale: at least 1.25, at most 8."""
LINE = 14
ROWS = 1000
"""Costs and net benefits are given per this number of rows."""
ADVICE = "Fit the calibrator with by= to calibrate every segment."


def by_segment(
    rows: Mapping[str, Predictions], comparison: Comparison
) -> dict[str, Any] | None:
    """Data of the section on segments; None without segments.

    Shows at most two sets: the first, and the best other.
    """
    before = comparison.evaluations[comparison.reference].segments
    by = rows[comparison.reference].by
    if before is None or by is None:
        return None
    best = comparison.best_other
    sets = [comparison.reference]
    if best is not None:
        sets.append(best)
    evaluations = [comparison.evaluations[name].segments for name in sets]
    found = [segments for segments in evaluations if segments is not None]
    colors = [list(rows).index(name) for name in sets]
    reach = _log_reach(found)

    def x(ratio: Any) -> Array:
        with np.errstate(divide="ignore"):
            place = np.clip(np.log(ratio) / reach, -1.0, 1.0)
        return np.asarray(WIDTH * (0.5 + 0.48 * place))

    code = Coded.of(by).code
    worst = list(dict.fromkeys(i for one in found for i in one.miscalibrated))
    shown = []
    for i in worst[:WORST]:
        is_own = (code == i).any(axis=0)
        points = [
            {"color": color, "points": _points(rows[name].event, is_own)}
            for name, color in zip(sets, colors, strict=True)
        ]
        sentence = _sentence(found, i, best)
        shown.append({"name": before.names[i], "sentence": sentence, "sets": points})
    title = "The most miscalibrated segments"
    if best is not None:
        title += ", before and after"
    lines = []
    for k, one in enumerate(found):
        places = {key: x(one.table[key]) for key in ("ratio", "lower", "upper")}
        line = {"name": sets[k], "color": colors[k], "y": LINE * k + LINE // 2}
        lines.append(line | {"table": one.table, "x": places})
    n = before.table["rows"]
    return {
        "verdicts": _segment_verdicts(sets, found, comparison),
        "worst_title": title,
        "worst": shown,
        "ticks": [(float(x(tick)), f"{tick:g}") for tick in _ticks_within(reach)],
        "order": before.order,
        "names": before.names,
        "radius": np.maximum(1.8, 5.0 * np.sqrt(n / n.max())),
        "height": LINE * len(found),
        "sets": lines,
    }


def _log_reach(found: list[SegmentEvaluation]) -> float:
    """How far the axis of ratios reaches to either side, on a log scale."""
    ratios = np.concatenate([one.table["ratio"] for one in found])
    size = np.abs(np.log(ratios[ratios > 0.0]))
    reach = np.quantile(size, 0.98) * 1.3
    return float(np.clip(reach, np.log(NEAREST), np.log(FARTHEST)))


TICKS = (0.25, 0.5, 0.8, 1.0, 1.25, 2.0, 4.0)


def _ticks_within(reach: float) -> list[float]:
    """Ratios to mark on an axis; close ones only if there is room."""
    within = [tick for tick in TICKS if abs(np.log(tick)) <= reach]
    if reach < np.log(2.5):
        return within
    return [tick for tick in within if tick not in (0.8, 1.25)]


def _segment_verdicts(
    sets: list[str], found: list[SegmentEvaluation], comparison: Comparison
) -> list[str]:
    """A sentence about each set, about their difference, and what to do."""
    pairs = zip(sets, found, strict=True)
    verdicts = [f"{_capital(name)}: {one.verdict}" for name, one in pairs]
    best = comparison.best_other
    if best is not None:
        verdict = comparison.segments[best].verdict
        verdicts.append(f"{_capital(best)} against {comparison.reference}: {verdict}")
    if found[-1].p_value < FALSE_SHARE:
        verdicts.append(ADVICE)
    return verdicts


def _capital(name: str) -> str:
    return name[:1].upper() + name[1:]


def _sentence(found: list[SegmentEvaluation], i: int, best: str | None) -> str:
    """Sentence such as ``Portugal: mean score 37%, event rate 52%``."""
    before = found[0]
    name = before.names[i]
    where = "Rows without a segment" if name == NO_SEGMENT else name
    score = rounded_percent(float(before.table["mean_score"][i]))
    rate = rounded_percent(float(before.table["event_rate"][i]))
    how = before.table["verdict"][i]
    start = f"{where}: mean score {score}, event rate {rate}"
    if how.endswith("confident"):
        start += f" ({how})"
    if best is None:
        return f"{start}."
    lead = "after calibration" if is_calibrated(best) else f"with {best}"
    after = found[1].table
    if not after["miscalibrated"][i]:
        return f"{start}; {lead} no evidence of miscalibration."
    score = rounded_percent(float(after["mean_score"][i]))
    return f"{start}; {lead} mean score {score}, {after['verdict'][i]}."


def _points(rows: Predictions, inside: NDArray[np.bool_]) -> list[tuple[float, float]]:
    """Points of a small reliability diagram of one segment."""
    parts = int(np.clip(inside.sum() // ROWS_IN_PART, 1, PARTS))
    f = Counts.from_rows(
        rows.probs[inside], rows.codes[inside] == 1, rows.w[inside]
    ).coarsened(parts)
    places = zip(f.x.tolist(), (f.positives / f.w).tolist(), strict=True)
    return [(10.0 + 120.0 * score, 130.0 - 120.0 * rate) for score, rate in places]


def decisions(found: Decision, comparison: Comparison) -> dict[str, Any]:
    """Data of the section on decisions."""
    sets = list(comparison.evaluations)
    best = comparison.best_other
    bands = [found.net_benefit[name] for name in (*sets, ALL)]
    costs = found.costs
    if costs is None:
        sentences = _ranges(found, best)
        costs_table = []
        marked = None
    else:
        rate = comparison.evaluations[found.reference].base_rate
        sentences = _prices(found, costs, best, rate)
        costs_table = _table(found, costs, sets)
        marked = rounded_percent(costs.threshold)
    net_benefit = []
    for i in found.shown:
        cells = [_cell(b.value[i], b.lower[i], b.upper[i]) for b in bands]
        net_benefit.append((rounded_percent(found.thresholds[i]), cells))
    return {
        "per": f"{ROWS:,}",
        "sentences": sentences,
        "table": costs_table,
        "chart": _chart(found, sets) if len(found.thresholds) > 1 else None,
        "marked": marked,
        "columns": [*sets, ALL],
        "net_benefit": net_benefit,
    }


OUTCOMES = {
    "false_positive": "a false alarm",
    "false_negative": "a missed event",
    "true_positive": "an event found",
    "true_negative": "a row rightly left alone",
}


def _prices(found: Decision, costs: Costs, best: str | None, rate: float) -> list[str]:
    """Recommended action for the costs, its cost, and the savings."""
    given = [
        (OUTCOMES[key], f"{value:,g}")
        for key, value in asdict(costs).items()
        if value or key.startswith("false")
    ]
    outcome, price = given[0]
    prices = [f"{outcome} costs {price}"]
    prices += [f"{outcome} {price}" for outcome, price in given[1:]]
    given_costs = ", ".join(prices[:-1]) + " and " + prices[-1]
    out = [
        f"If {given_costs.replace('-', MINUS)}, it pays to act from a probability of "
        f"{rounded_percent(costs.threshold)} on."
    ]
    one = found.by_cost[best or found.reference]
    reference = found.by_cost[found.reference]
    of_none = float(costs.waiting(np.array(rate)))
    cost, low, high, everywhere, nowhere = _per_rows(
        [one.cost, one.cost_lower, one.cost_upper, found.by_cost[ALL].cost, of_none],
        one.cost_upper - one.cost_lower,
    )
    against = "" if best is None else _against(one, found.reference)
    out.append(
        f"Acting on {best or found.reference} then costs {cost} per {ROWS:,} rows "
        f"({low} to {high}){against}. "
        f"Acting on all rows would cost {everywhere}, on none {nowhere}."
    )
    if not reference.threshold_lower <= costs.threshold <= reference.threshold_upper:
        best_threshold = _threshold(reference)
        text = best_threshold["text"]
        beside = best_threshold["beside"]
        out.append(
            f"For {found.reference} itself, the best threshold is {text} ({beside})."
        )
    return out


def _against(one: CostOfSet, reference: str) -> str:
    low = one.difference_lower
    high = one.difference_upper
    if low <= 0.0 <= high:
        less, more = _per_rows([-low, high], high - low)
        return f", between {less} less and {more} more than acting on {reference}"
    sign, word = (-1.0, "less") if high < 0.0 else (1.0, "more")
    by, *limits = _per_rows(sign * np.array([one.difference, low, high]), high - low)
    interval = " to ".join(limits[:: int(sign)])
    return f", {by} {word} than acting on {reference} ({interval})"


def _ranges(found: Decision, best: str | None) -> list[str]:
    """Thresholds at which a set is better than the reference, or than no action."""
    if best is not None:
        name = best
        other = found.reference
        better = found.better(best)
        worse = found.worse(best)
    else:
        # The difference is that of acting on all.
        name = found.reference
        other = "all rows alike"
        better = found.worse(ALL)
        worse = found.better(ALL)
    parts = []
    for word, runs in (("better", better), ("worse", worse)):
        shown = [" to ".join(dict.fromkeys(map(rounded_percent, run))) for run in runs]
        if shown:
            where = " and ".join(shown)
            parts.append(
                f"significantly {word} than acting on {other} at thresholds of {where}"
            )
    verdict = ", ".join(parts)
    if not verdict:
        verdict = (
            f"at no threshold significantly better or worse than acting on {other}"
        )
    return [f"Acting on {name} is {verdict}."]


def _table(found: Decision, costs: Costs, sets: list[str]) -> list[dict[str, Any]]:
    """Rows of the table of costs, with a cell for each set of predictions."""
    known = [found.by_cost[name] for name in sets]
    level = f"{found.level:.0%} interval"
    t = costs.threshold
    acting = f"acting from {rounded_percent(t)} on"
    where = f"where the observed frequency is {rounded_percent(t)}"
    against = []
    for o in known[1:]:
        verdict = "unclear"
        if o.difference_upper < 0.0:
            verdict = "better"
        elif o.difference_lower > 0.0:
            verdict = "worse"
        cell = _cell(o.difference, o.difference_lower, o.difference_upper)
        against.append(cell | {"verdict": verdict})
    cost = [_cell(o.cost, o.cost_lower, o.cost_upper) for o in known]
    best = [
        {"text": _per_rows([o.best_cost], o.cost_upper - o.cost_lower)[0]}
        for o in known
    ]
    rows = [
        table_row(f"Cost per {ROWS:,} rows", f"{acting}; {level}", cost),
        table_row(
            f"against {found.reference}",
            f"paired, {level}",
            [{"text": ""}, *against],
            part=True,
        ),
        table_row(
            "Best threshold", f"{where}; {level}", [_threshold(o) for o in known]
        ),
        table_row("cost with it", f"per {ROWS:,} rows", best, part=True),
    ]
    return rows if len(sets) > 1 else [rows[0], *rows[2:]]


def _chart(found: Decision, sets: list[str]) -> dict[str, Any]:
    """Chart of net benefits with bands, default strategies and the threshold."""
    t = found.thresholds
    top = max(
        1e-9, *(ROWS * float(found.net_benefit[name].value.max()) for name in sets)
    )
    power = 10.0 ** np.floor(np.log10(1.1 * top / 4.0))
    step = next(
        s * power for s in (1.0, 2.0, 2.5, 5.0, 10.0) if 4.0 * s * power >= 1.1 * top
    )
    # Four round steps above zero and one below: acting on all rows falls without end.
    frame = Frame(
        Axis(0.0, 1.0 if t[-1] > 0.5 else float(t[-1])),
        Axis(-step, 4.0 * step),
        CURVE_HEIGHT,
    )
    everything = ROWS * found.net_benefit[ALL].value
    lines = [{"class": "base", "d": frame.line([0.0, frame.x_axis.high], [0.0, 0.0])}]
    lines.append({"class": "diagonal", "d": _within(frame, t, everything)})
    if found.costs is not None and frame.x_axis.contains(found.costs.threshold).all():
        lines.append(
            {
                "class": "mark",
                "d": frame.line([found.costs.threshold] * 2, [-step, 4.0 * step]),
            }
        )
    drawn: list[dict[str, Any]] = [{"color": 0, "paths": lines, "bins": []}]
    for i, name in enumerate(sets):
        band = found.net_benefit[name]
        area = frame.area(t, ROWS * band.lower, ROWS * band.upper)
        paths = [
            {"class": "band", "d": area},
            {"class": "curve", "d": _within(frame, t, ROWS * band.value)},
        ]
        drawn.append({"color": i, "paths": paths, "bins": []})
    titles = "Threshold", f"Net benefit per {ROWS:,} rows"
    label = "Decision curves: net benefit by the threshold from which one acts"
    return frame.chart(
        [], scale="decision", label=label, titles=titles, sets=drawn, diagonal=False
    )


def _within(frame: Frame, x: Array, y: Array) -> str:
    """A line, or nothing if it is outside the chart."""
    inside = frame.y_axis.contains(y)
    parts = np.split(np.arange(len(x)), run_starts(inside)[1:])
    return "".join(frame.line(x[part], y[part]) for part in parts if inside[part[0]])


def _threshold(one: CostOfSet) -> dict[str, str]:
    low = rounded_percent(one.threshold_lower)
    high = rounded_percent(one.threshold_upper)
    return {"text": rounded_percent(one.threshold), "beside": f"{low} to {high}"}


def _cell(value: float, low: float, high: float) -> dict[str, str]:
    text, *limits = _per_rows([value, low, high], high - low)
    return {"text": text, "beside": " to ".join(limits)}


def _per_rows(values: Any, width: float) -> list[str]:
    """Format numbers per ``ROWS`` rows, with equal and sufficient decimals."""
    digits = decimals(ROWS * width) if width > 0.0 else 1
    # Adding zero leaves no minus sign at a zero.
    return [
        f"{round(ROWS * float(value), digits) + 0.0:,.{digits}f}".replace("-", MINUS)
        for value in values
    ]
