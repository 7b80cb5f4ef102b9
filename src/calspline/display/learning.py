"""``LearningCurveDisplay``: what more calibration data would gain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from calspline.display import style
from calspline.display.axes import get_axes
from calspline.display.style import BLUE, INK, MUTED, VERMILION
from calspline.formatting import percent
from calspline.learning_curve import MIN_ROWS_FOR_RATE, CalibrationLearningCurve

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

FARTHEST = 4.0
"""The size that is enough is drawn up to this multiple of the rows at hand; beyond, it is only written."""
TALLEST = 1.5
"""The uncalibrated level is drawn up to this multiple of the curve's spread above it; beyond, it is only written."""


class LearningCurveDisplay:
    """Expected log-loss against the number of rows a calibrator is fitted on.

    Points with intervals are measured; the thin line is the fitted ``limit + rate / n``. Marked are the rows
    that are enough and the log-loss without calibration.

    Parameters
    ----------
    curve : CalibrationLearningCurve
        What :func:`calibration_learning_curve` returns.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> import matplotlib; matplotlib.use("Agg")
    >>> import numpy as np
    >>> from calspline import SplineCalibrator, calibration_learning_curve
    >>> from calspline.display import LearningCurveDisplay
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(size=1000)
    >>> curve = calibration_learning_curve(SplineCalibrator(), p, rng.random(1000) < p**2, n_repeats=2)
    >>> LearningCurveDisplay(curve).plot().ax_.get_xlabel()
    'rows to calibrate on'
    """

    ax_: Axes
    figure_: Figure | SubFigure

    def __init__(self, curve: CalibrationLearningCurve) -> None:
        self.curve = curve

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw, in ``ax`` or a new figure.

        Returns
        -------
        self
        """
        self.ax_ = ax = get_axes(ax, style.SIDE + 0.6, 4.4)
        self.figure_ = ax.figure
        style.style_axes(ax)
        ax.set_xscale("log")
        self._draw_curve(ax)
        self._mark_enough(ax)
        uncalibrated, spread = self.curve.uncalibrated, np.ptp(self.curve.interval)
        fits = bool(uncalibrated <= self.curve.interval.max() + TALLEST * spread)
        if fits:
            ax.axhline(uncalibrated, color=VERMILION, lw=1.8, ls=(0, (5, 2)), zorder=2, gid="uncalibrated")
        self._set_ticks(ax)
        # Each line's name and value at the right, where it ends.
        loss = float(self.curve.log_loss[-1])
        ends = [(loss, f"calibrated\n{loss:.3f}", BLUE)]
        if np.isfinite(uncalibrated):
            words = f"uncalibrated\n{uncalibrated:.3f}" + ("" if fits else " ↑")
            ends.append((uncalibrated if fits else ax.get_ylim()[1], words, VERMILION))
        style.label_line_ends(ax, sorted(ends), lines=2)
        return self

    def _draw_curve(self, ax: Axes) -> None:
        c = self.curve
        low, high = c.interval.T
        ax.vlines(c.sizes, low, high, color=BLUE, lw=1.6, alpha=0.5, zorder=4, gid="intervals")
        points: dict[str, Any] = {"marker": "o", "ms": 6.5, "mec": "white", "mew": 0.8}
        ax.plot(c.sizes, c.log_loss, color=BLUE, lw=1.8, zorder=5, gid="curve", **points)
        limit = c.log_loss[-1] - c.rate / c.sizes[-1]
        end = max(float(c.sizes[-1]), min(float(c.enough), FARTHEST * float(c.sizes[-1])))
        # With fewer rows the prior dominates, and the law does not hold yet.
        grid = np.geomspace(min(MIN_ROWS_FOR_RATE, float(c.sizes[-3:][0])), 1.15 * end, 100)
        ax.plot(grid, limit + c.rate / grid, color=MUTED, lw=1.0, ls=(0, (4, 2)), zorder=3, gid="law")

    def _mark_enough(self, ax: Axes) -> None:
        c = self.curve
        first, last = float(c.sizes[0]), float(c.sizes[-1])
        if first < c.enough <= FARTHEST * last:
            ax.axvline(c.enough, color=INK, lw=1.0, ls=(0, (1.2, 1.6)), zorder=2, gid="enough")
            late = np.log(c.enough / first) > 0.55 * np.log(max(last, c.enough) / first)
            words = f"about {c.enough:,} rows are enough:\nmore gains less than {c.gain:g}"
            where = {"xycoords": ax.get_xaxis_transform(), "va": "top", "ha": "right" if late else "left"}
            style.note(ax, words, (c.enough, 0.97), offset=(-6 if late else 6, 0), color=INK, **where)
        else:
            words = f"{int(first):,} rows are enough" if c.enough <= first else f"enough: about {c.enough:,} rows →"
            style.note(ax, words, (0.98, 0.97), xycoords="axes fraction", ha="right", va="top", color=INK)

    def _set_ticks(self, ax: Axes) -> None:
        from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

        low, high = ax.get_ylim()
        ax.set_ylim(low, high + 0.14 * (high - low))
        ax.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        ax.xaxis.set_major_formatter(FuncFormatter(lambda n, _: f"{n:,.0f}"))
        ax.xaxis.set_minor_locator(NullLocator())
        ax.set_xlabel("rows to calibrate on")
        ax.set_ylabel(f"log-loss on new rows, nats ({percent(self.curve.level)} intervals)")
