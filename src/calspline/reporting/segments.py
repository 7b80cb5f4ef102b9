"""The section "By segment": a forest plot as a table, the worst segments before and after, and what to say of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from calspline.arrays import Array
from calspline.evaluation.compare import Comparison
from calspline.evaluation.predictions import Predictions
from calspline.evaluation.segments import NO_SEGMENT, Coded, SegmentEvaluation
from calspline.formatting import precise_percent, rounded_percent

WORST, PARTS, ROWS_IN_PART = 6, 5, 15
WIDTH, NEAREST, FARTHEST = 240.0, 1.25, 8.0
"""Of the forest plot; its scale goes at least to a ratio of 1.25, and at most to 8."""
TICKS = (0.25, 0.5, 0.8, 1.0, 1.25, 2.0, 4.0)
SMALLEST, LARGEST = 1.8, 5.0
LINE = 14


def by_segment(rows: Mapping[str, Predictions], comparison: Comparison) -> dict[str, Any] | None:
    """The section as data; None if there are no segments. At most two sets are shown: the first, and the best other."""
    before = comparison.evaluations[comparison.reference].segments
    if before is None:
        return None
    names = list(rows)
    best = comparison.best_other
    sets = [comparison.reference, *([best] if best is not None else [])]
    found = [s for name in sets if (s := comparison.evaluations[name].segments) is not None]
    colors = [names.index(name) for name in sets]
    ratios = np.concatenate([np.log(s.table["ratio"][(s.table["ratio"] > 0.0)]) for s in found])
    reach = float(np.clip(np.quantile(np.abs(ratios), 0.98) * 1.3, np.log(NEAREST), np.log(FARTHEST)))

    def x(ratio: Array) -> Array:
        with np.errstate(divide="ignore"):
            return np.asarray(WIDTH * (0.5 + 0.48 * np.clip(np.log(ratio) / reach, -1.0, 1.0)))

    places = [[x(s.table[key]) for key in ("ratio", "lower", "upper")] for s in found]
    n = before.table["rows"]
    radius = np.maximum(SMALLEST, LARGEST * np.sqrt(n / n.max()))
    verdicts = [f"{_capital(name)}: {s.verdict}" for name, s in zip(sets, found, strict=True)]
    if best is not None:
        verdicts.append(f"{_capital(best)} against {comparison.reference}: {comparison.segments[best].verdict}")
    worst = list(dict.fromkeys(i for s in found for i in s.off))[:WORST]
    coded = Coded.of(first.by) if (first := rows[comparison.reference]).by is not None else None
    ticks = [t for t in TICKS if abs(np.log(t)) <= reach and (reach < np.log(2.5) or t not in (0.8, 1.25))]
    return {
        "verdicts": verdicts,
        "worst_title": "The farthest off" + (", before and after" if best is not None else ""),
        "worst": [
            {
                "sentence": _sentence(found, i, best),
                "label": f"{before.names[i]}: said and happened",
                "sets": [
                    {"color": color} | _diagram(_event(rows[name]), coded, i)
                    for name, color in zip(sets, colors, strict=True)
                ],
            }
            for i in worst
            if coded is not None
        ],
        "columns": [
            ("name", "Segment"),
            ("rows", "Rows"),
            ("said", "Said"),
            ("happened", "Happened"),
            ("rank", "Judged"),
        ],
        "ticks": [(float(x(np.array([t]))[0]), f"{t:g}") for t in ticks],
        "middle": WIDTH / 2.0,
        "rows": [
            {
                "name": before.names[i],
                "n": float(n[i]),
                "rows": f"{n[i]:,.6g}",
                "said": precise_percent(float(before.table["said"][i])),
                "said_value": f"{before.table['said'][i]:.6g}",
                "happened": precise_percent(float(before.table["happened"][i])),
                "happened_value": f"{before.table['happened'][i]:.6g}",
                "status": [
                    {"color": c, "off": bool(s.table["off"][i]), "text": s.table["how"][i] or "within chance"}
                    for s, c in zip(found, colors, strict=True)
                ],
                "height": LINE * len(found),
                "label": "; ".join(
                    f"{name}: ratio {s.table['ratio'][i]:.2f}, {s.table['lower'][i]:.2f} to {s.table['upper'][i]:.2f}"
                    for name, s in zip(sets, found, strict=True)
                ),
                "ratios": [
                    {
                        "color": color,
                        "x": at[i],
                        "low": low[i],
                        "high": high[i],
                        "y": LINE * k + LINE // 2,
                        "radius": radius[i],
                    }
                    for k, (color, (at, low, high)) in enumerate(zip(colors, places, strict=True))
                ],
            }
            for i in before.order
        ],
    }


def _capital(name: str) -> str:
    return name[:1].upper() + name[1:]


def _event(rows: Predictions) -> Predictions:
    return rows if rows.binary else rows.top_label()


def _sentence(found: list[SegmentEvaluation], i: int, best: str | None) -> str:
    """What a manager reads: ``Portugal: said 37%, happened 52%; after calibration within chance``."""
    before = found[0]
    name = before.names[i]
    where = "Rows without a segment" if name == NO_SEGMENT else name
    said, happened = (rounded_percent(float(before.table[key][i])) for key in ("said", "happened"))
    how = before.table["how"][i]
    start = f"{where}: said {said}, happened {happened}" + (f" ({how})" if how.endswith("confident") else "")
    if best is None:
        return f"{start}."
    lead = "after calibration" if best.strip().lower() in ("calibrated", "after", "calibration") else f"with {best}"
    after = found[1].table
    if not after["off"][i]:
        return f"{start}; {lead} within chance."
    return f"{start}; {lead} said {rounded_percent(float(after['said'][i]))}, {after['how'][i]}."


def _diagram(rows: Predictions, coded: Coded, segment: int) -> dict[str, Any]:
    """Points of a small reliability diagram of one segment."""
    inside = np.flatnonzero((coded.code == segment).any(axis=0))
    p, y = rows.probs[inside], (rows.codes[inside] == 1).astype(np.float64)
    w = np.ones(len(p)) if rows.weight is None else rows.weight[inside]
    order = np.argsort(p, kind="stable")
    p, y, w = p[order], y[order], w[order]
    parts = int(np.clip(len(p) // ROWS_IN_PART, 1, PARTS))
    part = np.minimum(((np.cumsum(w) - 0.5 * w) / w.sum() * parts).astype(np.intp), parts - 1)
    total = np.bincount(part, w)
    used = total > 0.0
    said, happened = (np.bincount(part, w * values)[used] / total[used] for values in (p, y))
    points = [(10.0 + 120.0 * a, 130.0 - 120.0 * b) for a, b in zip(said.tolist(), happened.tolist(), strict=True)]
    return {"points": points, "path": "M" + "L".join(f"{a:.1f},{b:.1f}" for a, b in points)}
