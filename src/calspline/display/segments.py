"""Pictures of segments: the ratio of what happened to what was said."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Self

import numpy as np

from calspline.display import style
from calspline.display.style import RULE, get_axes
from calspline.evaluation.segments import SegmentEvaluation

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST = 30
SMALLEST, LARGEST = 8.0, 80.0
NEAREST, FARTHEST = 1.25, 8.0


class SegmentDisplay:
    """A forest plot: for each segment, the ratio of what happened to what was said, with its interval.

    The worst segments of the first set are drawn, at most thirty, sorted by their ratio; the area of a point grows with
    the rows. Segments that are off are filled.

    Parameters
    ----------
    segments : mapping of str to SegmentEvaluation
        What :func:`evaluate` says of each set of predictions, ``evaluate(..., by=...).segments``.

    Attributes
    ----------
    places_ : list of int
        The segments that are drawn, as places in the table, from the bottom.
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> import matplotlib; matplotlib.use("Agg")
    >>> import numpy as np
    >>> from calspline import evaluate
    >>> from calspline.display import SegmentDisplay
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(size=1000)
    >>> found = evaluate(rng.random(1000) < p, p, by=np.repeat(["at", "de"], 500)).segments
    >>> SegmentDisplay({"model": found}).plot().ax_.get_xlabel()
    'happened / said'
    """

    def __init__(self, segments: Mapping[str, SegmentEvaluation]) -> None:
        self.segments = dict(segments)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw, in ``ax`` or a new figure, and return self."""
        from matplotlib.lines import Line2D
        from matplotlib.ticker import FuncFormatter, NullFormatter

        first = next(iter(self.segments.values()))
        worst = first.order[:MOST]
        self.places_ = places = sorted(worst, key=lambda i: float(first.table["ratio"][i]))
        self.ax_ = ax = get_axes(ax, style.SIDE + 0.6, 1.4 + 0.28 * len(places))
        self.figure_ = ax.figure
        style.style_axes(ax)
        ax.axvline(1.0, color=RULE, lw=1.1, zorder=1.5, gid="right")
        looks = style.series_styles(len(self.segments))
        entries, largest = [], 1.0
        for k, ((name, found), look) in enumerate(zip(self.segments.items(), looks, strict=True)):
            t = {key: np.asarray(found.table[key])[places] for key in ("ratio", "lower", "upper", "rows", "off")}
            y = np.arange(len(places)) + 0.3 * (0.5 * (len(self.segments) - 1) - k)
            low, high = (np.maximum(t[key], 1e-3) for key in ("lower", "upper"))
            ax.hlines(y, low, high, color=look.color, lw=1.4, zorder=3, gid=f"interval-{k}")
            area = np.maximum(SMALLEST, LARGEST * t["rows"] / found.table["rows"].max())
            fill = [look.color if off else "white" for off in t["off"]]
            ratio = np.maximum(t["ratio"], 1e-3)
            ax.scatter(ratio, y, s=area, c=fill, edgecolors=look.color, lw=1.4, zorder=4, gid=f"ratio-{k}")
            largest = max(largest, float(np.exp(np.abs(np.log(ratio))).max()))
            entries.append((Line2D([], [], color=look.color, marker="o", lw=1.4), name))
        reach = float(np.clip(1.3 * largest, NEAREST, FARTHEST))
        ax.set_xscale("log")
        ax.set_xlim(1.0 / reach, reach)
        ax.set_xticks([t for t in (0.125, 0.25, 0.5, 0.8, 1.0, 1.25, 2.0, 4.0, 8.0) if 1.0 / reach <= t <= reach])
        ax.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
        ax.xaxis.set_minor_formatter(NullFormatter())
        # A dollar sign would begin a formula.
        ax.set_yticks(range(len(places)), [first.names[i].replace("$", r"\$") for i in places])
        ax.set_ylim(-0.8, len(places) - 0.2)
        ax.set_xlabel("happened / said")
        if len(entries) > 1:
            style.legend(ax, entries, "lower right")
        return self
