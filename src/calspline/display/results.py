"""Pictures of results: net benefit by threshold, segments one by one, and the evidence of a monitor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Self

import numpy as np

from calspline.display import style
from calspline.display.style import BLUE, INK, MUTED, RULE, VERMILION, add_strip_below, get_axes
from calspline.evaluation.decisions import ALL, Decision
from calspline.evaluation.segments import SegmentEvaluation
from calspline.formatting import percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from calspline.monitoring.monitor import Monitor

BELOW = 0.25
"""How far below zero the axis reaches, as a share of the highest net benefit: acting on all rows falls without end."""
MOST_SEGMENTS = 30
SMALLEST, LARGEST = 8.0, 80.0
NEAREST, FARTHEST = 1.25, 8.0
STRIP = 0.36
SHOWN_EVIDENCE = 1e-6, 1e12
"""It is drawn within these limits."""


class DecisionDisplay:
    """Decision curves: the net benefit of each set of predictions, with its band, against the threshold.

    To act on all rows and on none are drawn in grey. With costs, the threshold that follows from them is marked.

    Parameters
    ----------
    decision : Decision
        What :func:`decide` returns.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> import matplotlib; matplotlib.use("Agg")
    >>> import numpy as np
    >>> from calspline import decide
    >>> from calspline.display import DecisionDisplay
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(size=1000)
    >>> DecisionDisplay(decide(rng.random(1000) < p, {"model": p})).plot().ax_.get_ylabel()
    'net benefit (events found per row)'
    """

    def __init__(self, decision: Decision) -> None:
        self.decision = decision

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw, in ``ax`` or a new figure, and return self."""
        from matplotlib.lines import Line2D
        from matplotlib.ticker import FuncFormatter

        self.ax_ = ax = get_axes(ax, style.SIDE + 0.6, 4.4)
        self.figure_ = ax.figure
        style.style_axes(ax)
        found = self.decision
        t, sets = found.thresholds, [name for name in found.net_benefit if name != ALL]
        ax.axhline(0.0, color=RULE, lw=1.1, zorder=1.5, gid="none")
        ax.plot(t, found.net_benefit[ALL].value, color=MUTED, lw=1.1, ls=(0, (4, 2)), zorder=2, gid="all")
        looks = style.series_styles(len(sets))
        entries = []
        for i, (name, look) in enumerate(zip(sets, looks, strict=True)):
            band = found.net_benefit[name]
            ax.fill_between(t, band.lower, band.upper, color=look.color, alpha=0.16, lw=0, zorder=2, gid=f"band-{i}")
            ax.plot(t, band.value, color=look.color, lw=2.0, ls=look.dashes, zorder=4, gid=f"net-benefit-{i}")
            entries.append((Line2D([], [], color=look.color, lw=2.0, ls=look.dashes), name))
        entries.append((Line2D([], [], color=MUTED, lw=1.1, ls=(0, (4, 2))), ALL))
        if found.costs is not None:
            ax.axvline(found.costs.threshold, color=INK, lw=1.0, ls=(0, (1.2, 1.6)), zorder=3, gid="costs")
        # Bands are wide at high thresholds, where a false alarm costs as much as many events.
        top = max(1e-3, *(float(np.max(found.net_benefit[name].value)) for name in sets))
        ax.set_ylim(-BELOW * top, 1.2 * top)
        ax.set_xlim(0.0, min(1.0, float(t[-1]) * 1.02))
        ax.xaxis.set_major_formatter(FuncFormatter(lambda p, _: percent(round(p, 6))))
        ax.set_xlabel("threshold: act from this probability on")
        ax.set_ylabel("net benefit (events found per row)")
        style.legend(ax, entries, "upper right")
        return self


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
        worst = first.order[:MOST_SEGMENTS]
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


class MonitorDisplay:
    """The evidence that a calibrator is wrong, update by update, and below it what was expected and what happened.

    Parameters
    ----------
    monitor : Monitor

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> import matplotlib; matplotlib.use("Agg")
    >>> import numpy as np
    >>> from calspline import Monitor, ScoreHistogram, SplineCalibrator
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(size=500)
    >>> day = ScoreHistogram.from_scores(p, rng.random(500) < p)
    >>> Monitor(SplineCalibrator().fit_histogram(day)).update(day).plot().ax_.get_ylabel()
    'evidence'
    """

    def __init__(self, monitor: Monitor) -> None:
        self.monitor = monitor

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw, in ``ax`` or a new figure, and return self."""
        from matplotlib.lines import Line2D
        from matplotlib.ticker import MaxNLocator

        log = self.monitor.log
        if not log:
            raise ValueError("monitor must have had an update; there is nothing to draw")
        self.ax_ = ax = get_axes(ax, style.SIDE + 1.2, 4.8)
        self.figure_ = ax.figure
        below = add_strip_below(ax, STRIP)
        n = np.arange(1, len(log) + 1)
        for one in (ax, below):
            style.style_axes(one)
        evidence = np.clip([entry["evidence"] for entry in log], *SHOWN_EVIDENCE)
        ax.set_yscale("log")
        limit = 1.0 / self.monitor.alpha
        ax.axhline(limit, color=VERMILION, lw=1.2, ls=(0, (5, 2)), gid="limit")
        style.note(ax, f"alarm from {limit:g} on", (float(n[0]), limit), offset=(0, 4))
        ax.plot(n, evidence, color=BLUE, lw=2.0, gid="evidence")
        alarms = np.array([entry["alarm"] for entry in log])
        if alarms.any():
            ax.plot(n[alarms.argmax()], evidence[alarms.argmax()], "o", color=VERMILION, ms=7, gid="alarm")
        ax.set_ylabel("evidence")
        ax.set_ylim(min(float(evidence.min()) / 2.0, 0.1), max(float(evidence.max()), limit) * 3.0)
        below.plot(n, [entry["expected_rate"] for entry in log], color=MUTED, lw=1.4, ls=(0, (4, 2)), gid="expected")
        below.plot(n, [entry["rate"] for entry in log], color=BLUE, lw=1.4, gid="rate")
        below.set_ylabel("rate")
        below.set_xlabel("update")
        below.xaxis.set_major_locator(MaxNLocator(integer=True))
        lines = [(Line2D([], [], color=MUTED, ls=(0, (4, 2))), "expected"), (Line2D([], [], color=BLUE), "happened")]
        style.legend(below, lines, "best")
        return self
