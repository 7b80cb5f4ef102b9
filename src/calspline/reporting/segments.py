"""The section "By segment": a forest plot as a table, the worst segments before and after, and what to say of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calspline.arrays import Array, Counts
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
    before, by = comparison.evaluations[comparison.reference].segments, rows[comparison.reference].by
    if before is None or by is None:
        return None
    best, coded = comparison.best_other, Coded.of(by)
    sets = [comparison.reference, *([best] if best is not None else [])]
    found = [s for name in sets if (s := comparison.evaluations[name].segments) is not None]
    colors = [list(rows).index(name) for name in sets]
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
    ticks = [t for t in TICKS if abs(np.log(t)) <= reach and (reach < np.log(2.5) or t not in (0.8, 1.25))]
    return {
        "verdicts": verdicts,
        "worst_title": "The farthest off" + (", before and after" if best is not None else ""),
        "worst": [
            {
                "sentence": _sentence(found, i, best),
                "label": f"{before.names[i]}: said and happened",
                "sets": [
                    {"color": color} | _diagram(rows[name].event, (coded.code == i).any(axis=0))
                    for name, color in zip(sets, colors, strict=True)
                ],
            }
            for i in worst
        ],
        "ticks": [(float(x(np.array([t]))[0]), f"{t:g}") for t in ticks],
        "rows": [
            {
                "name": before.names[i],
                "n": float(n[i]),
                "rows": f"{n[i]:,.6g}",
                "said": precise_percent(float(before.table["said"][i])),
                "said_value": f"{before.table['said'][i]:.6g}",
                "happened": precise_percent(float(before.table["happened"][i])),
                "happened_value": f"{before.table['happened'][i]:.6g}",
                "height": LINE * len(found),
                "radius": radius[i],
                "label": "; ".join(
                    f"{name}: ratio {s.table['ratio'][i]:.2f}, {s.table['lower'][i]:.2f} to {s.table['upper'][i]:.2f}"
                    for name, s in zip(sets, found, strict=True)
                ),
                "sets": [
                    {"color": color, "y": LINE * k + LINE // 2, "off": bool(s.table["off"][i])}
                    | {"text": s.table["how"][i] or "within chance", "x": at[i], "low": low[i], "high": high[i]}
                    for k, (color, s, (at, low, high)) in enumerate(zip(colors, found, places, strict=True))
                ],
            }
            for i in before.order
        ],
    }


def _capital(name: str) -> str:
    return name[:1].upper() + name[1:]


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


def _diagram(rows: Predictions, inside: NDArray[np.bool_]) -> dict[str, Any]:
    """Points of a small reliability diagram of the rows inside a segment."""
    parts = int(np.clip(inside.sum() // ROWS_IN_PART, 1, PARTS))
    f = Counts.from_rows(rows.probs[inside], rows.codes[inside] == 1, rows.w[inside]).coarsened(parts)
    places = zip(f.x.tolist(), (f.positives / f.w).tolist(), strict=True)
    points = [(10.0 + 120.0 * said, 130.0 - 120.0 * happened) for said, happened in places]
    return {"points": points, "path": "M" + "L".join(f"{a:.1f},{b:.1f}" for a, b in points)}
