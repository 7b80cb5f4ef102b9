"""Pictures of a monitor: evidence by update."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import numpy as np

from calspline.display import style
from calspline.display.style import BLUE, MUTED, VERMILION, add_strip_below, get_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from calspline.monitoring.monitor import Monitor

STRIP = 0.36
SHOWN = 1e-6, 1e12
"""Evidence is drawn within these limits."""


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
        evidence = np.clip([entry["evidence"] for entry in log], *SHOWN)
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
