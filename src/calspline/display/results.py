"""Plots of results: decision curves, segments, monitors and learning curves.

Each function draws one result into the given axes or a new figure, and returns the
axes. They are called by the ``plot`` methods of the results.
"""

from __future__ import annotations

from functools import singledispatch
from typing import TYPE_CHECKING, Any

import numpy as np

import calspline.display.style as style
from calspline._formatting import percent
from calspline.display.reliability import ReliabilityDisplay
from calspline.display.style import BLUE, INK, MUTED, RULE, VERMILION
from calspline.evaluation.decisions import ALL, Decision
from calspline.evaluation.guarantees import RiskCoverage
from calspline.evaluation.reliability import Reliability
from calspline.evaluation.segments import SegmentEvaluation
from calspline.operations.learning_curve import (
    MIN_ROWS_FOR_RATE,
    CalibrationLearningCurve,
)
from calspline.operations.monitor import Monitor

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH = style.SIDE + 0.6
"""Inches of a figure with one axes."""
MOST_ROWS = 4.0
"""A sufficient size is marked up to this multiple of the number of rows."""


@singledispatch
def draw(result: Any, ax: Any = None, **options: Any) -> Any:
    """Plot a result; called by its ``plot`` method."""
    raise TypeError(f"a {type(result).__name__} cannot be drawn")


@draw.register(Reliability)
def draw_reliability(
    result: Reliability, ax: Any = None, **options: Any
) -> ReliabilityDisplay:
    """Plot a reliability diagram."""
    return ReliabilityDisplay(result).plot(ax, **options)


@draw.register(Decision)
def draw_decision(decision: Decision, ax: Axes | None = None) -> Axes:
    """Plot decision curves: net benefit against the threshold.

    Acting on all rows and on none is drawn in gray. With costs, their threshold is
    marked.
    """
    from matplotlib.ticker import FuncFormatter

    ax = style.get_styled_axes(ax, WIDTH, 4.4)
    t = decision.thresholds
    names = [name for name in decision.net_benefit if name != ALL]
    ax.axhline(0.0, color=RULE, lw=1.1, zorder=1.5, gid="none")
    entries = []
    for i, (name, look) in enumerate(
        zip(names, style.series_styles(len(names)), strict=True)
    ):
        band = decision.net_benefit[name]
        ax.fill_between(
            t,
            band.lower,
            band.upper,
            color=look.color,
            alpha=0.16,
            lw=0,
            gid=f"band-{i}",
        )
        options: dict[str, Any] = {
            "color": look.color,
            "ls": look.dashes,
            "gid": f"net-benefit-{i}",
        }
        (line,) = ax.plot(t, band.value, lw=2.0, zorder=4, **options)
        entries.append((line, name))
    act_on_all = decision.net_benefit[ALL].value
    (line,) = ax.plot(
        t, act_on_all, color=MUTED, lw=1.1, ls=(0, (4, 2)), zorder=2, gid="all"
    )
    entries.append((line, ALL))
    if decision.costs is not None:
        threshold = decision.costs.threshold
        ax.axvline(
            threshold, color=INK, lw=1.0, ls=(0, (1.2, 1.6)), zorder=3, gid="costs"
        )
    # Bands are wide at high thresholds, where one false positive outweighs many events,
    # and acting on all rows has no lower limit there.
    highest = max(float(np.max(decision.net_benefit[name].value)) for name in names)
    top = max(1e-3, highest)
    ax.set_ylim(-0.25 * top, 1.2 * top)
    ax.set_xlim(0.0, min(1.0, float(t[-1]) * 1.02))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda p, _: percent(round(p, 6))))
    ax.set_xlabel("threshold: act from this probability on")
    ax.set_ylabel("net benefit (events found per row)")
    style.legend(ax, entries, "upper right")
    return ax


@draw.register(RiskCoverage)
def draw_risk_coverage(curve: RiskCoverage, ax: Axes | None = None) -> Axes:
    """Plot the error rate among the most confident rows against their share."""
    ax = style.get_styled_axes(ax, WIDTH, 4.0)
    coverage = np.append(0.0, curve.coverage)
    risk = np.append(curve.risk[0], curve.risk)
    ax.plot(coverage, risk, color=BLUE, lw=2.0, zorder=4, gid="risk-coverage")
    ax.fill_between(coverage, 0.0, risk, color=BLUE, alpha=0.12, lw=0, gid="area")
    ax.set_xlim(0.0, 1.0)
    ax.set_ylim(0.0, 1.1 * max(float(risk.max()), 1e-3))
    ax.set_xlabel("coverage: share of the rows, most confident first")
    ax.set_ylabel("risk: error rate")
    ax.set_title(f"area {curve.area:.4f}")
    return ax


MOST_SEGMENTS = 30
RATIO_TICKS = (0.125, 0.25, 0.5, 0.8, 1.0, 1.25, 2.0, 4.0, 8.0)
SMALLEST_RATIO = 1e-3
"""Smallest ratio on the logarithmic axis."""


@draw.register(SegmentEvaluation)
def draw_segments(segments: SegmentEvaluation, ax: Axes | None = None) -> Axes:
    """Plot a forest plot: the ratio of event rate to mean score by segment.

    The worst segments are drawn, at most thirty, sorted by their ratio. The area of a
    point grows with its rows; segments that are not calibrated are filled.
    """
    from matplotlib.ticker import FuncFormatter, NullFormatter

    worst = sorted(
        segments.order[:MOST_SEGMENTS], key=lambda i: float(segments.table["ratio"][i])
    )
    ax = style.get_styled_axes(ax, WIDTH, 1.4 + 0.28 * len(worst))
    table = {
        key: np.asarray(segments.table[key])[worst]
        for key in ("ratio", "lower", "upper", "rows", "miscalibrated")
    }
    ratio, low, high = (
        np.maximum(table[key], SMALLEST_RATIO) for key in ("ratio", "lower", "upper")
    )
    y = np.arange(len(worst))
    ax.axvline(1.0, color=RULE, lw=1.1, zorder=1.5, gid="calibrated")
    ax.hlines(y, low, high, color=BLUE, lw=1.4, zorder=3, gid="interval")
    area = np.maximum(8.0, 80.0 * table["rows"] / segments.table["rows"].max())
    fill = ["white" if not wrong else BLUE for wrong in table["miscalibrated"]]
    ax.scatter(ratio, y, s=area, c=fill, edgecolors=BLUE, lw=1.4, zorder=4, gid="ratio")
    largest = float(np.exp(np.abs(np.log(ratio))).max())
    reach = float(np.clip(1.3 * largest, 1.25, 8.0))
    ax.set_xscale("log")
    ax.set_xlim(1.0 / reach, reach)
    ax.set_xticks([tick for tick in RATIO_TICKS if 1.0 / reach <= tick <= reach])
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.xaxis.set_minor_formatter(NullFormatter())
    # A dollar sign would begin a formula.
    ax.set_yticks(y, [segments.names[i].replace("$", r"\$") for i in worst])
    ax.set_ylim(-0.8, len(worst) - 0.2)
    ax.set_xlabel("event rate / mean score")
    return ax


MOST_MARKED = 30
"""Up to so many updates are marked; a line does not show a single one."""


@draw.register(Monitor)
def draw_monitor(monitor: Monitor, ax: Axes | None = None) -> Axes:
    """Plot the evidence after each update, and the event rates below."""
    from matplotlib.ticker import MaxNLocator

    log = monitor.log
    if not log:
        raise ValueError("monitor must have had an update; there is nothing to draw")
    ax = style.get_styled_axes(ax, style.SIDE + 1.2, 4.8)
    below = style.add_strip_below(ax, 0.36)
    n = np.arange(1, len(log) + 1)
    evidence = np.clip([entry["evidence"] for entry in log], 1e-6, 1e12)
    limit = 1.0 / monitor.alpha
    ax.set_yscale("log")
    ax.axhline(limit, color=VERMILION, lw=1.2, ls=(0, (5, 2)), gid="limit")
    style.label(ax, f"alarm from {limit:g} on", (float(n[0]), limit), offset=(0, 4))
    marker = "o" if len(n) <= MOST_MARKED else None
    ax.plot(n, evidence, color=BLUE, lw=2.0, marker=marker, ms=4, gid="evidence")
    alarms = np.flatnonzero([entry["alarm"] for entry in log])
    if len(alarms):
        first = alarms[0]
        ax.plot(n[first], evidence[first], "o", color=VERMILION, ms=7, gid="alarm")
    ax.set_ylabel("evidence")
    ax.set_ylim(
        min(float(evidence.min()) / 2.0, 0.1), max(float(evidence.max()), limit) * 3.0
    )
    expected_rates = [entry["expected_rate"] for entry in log]
    observed_rates = [entry["rate"] for entry in log]
    dashed: dict[str, Any] = {"color": MUTED, "lw": 1.4, "ls": (0, (4, 2))}
    (expected,) = below.plot(
        n, expected_rates, marker=marker, ms=3, gid="expected", **dashed
    )
    (observed,) = below.plot(
        n, observed_rates, color=BLUE, lw=1.4, marker=marker, ms=3, gid="rate"
    )
    below.set_ylabel("event rate")
    below.set_xlabel("update")
    below.set_xlim(n[0] - 0.5, n[-1] + 0.5)
    below.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    style.legend(below, [(expected, "expected"), (observed, "observed")], "best")
    return ax


TALLEST = 1.5
"""The uncalibrated loss is drawn up to this multiple of the range of the curve."""


@draw.register(CalibrationLearningCurve)
def draw_learning_curve(
    curve: CalibrationLearningCurve, ax: Axes | None = None
) -> Axes:
    """Plot the expected log-loss against the number of calibration rows.

    Points with intervals are measured; the thin line is the fitted ``limit + rate /
    n``. The sufficient number of rows and the log-loss without calibration are marked.
    """
    ax = style.get_styled_axes(ax, WIDTH, 4.4)
    ax.set_xscale("log")
    _draw_losses(ax, curve)
    _mark_sufficient_rows(ax, curve)
    range_of_losses = np.ptp(curve.interval)
    fits = bool(curve.uncalibrated <= curve.interval.max() + TALLEST * range_of_losses)
    if fits:
        options: dict[str, Any] = {
            "ls": (0, (5, 2)),
            "zorder": 2,
            "gid": "uncalibrated",
        }
        ax.axhline(curve.uncalibrated, color=VERMILION, lw=1.8, **options)
    _set_ticks_of_rows(ax, curve)
    _label_losses(ax, curve, uncalibrated_fits=fits)
    return ax


def _draw_losses(ax: Axes, curve: CalibrationLearningCurve) -> None:
    low, high = curve.interval.T
    ax.vlines(
        curve.sizes, low, high, color=BLUE, lw=1.6, alpha=0.5, zorder=4, gid="intervals"
    )
    points: dict[str, Any] = {"marker": "o", "ms": 6.5, "mec": "white", "mew": 0.8}
    ax.plot(
        curve.sizes, curve.log_loss, color=BLUE, lw=1.8, zorder=5, gid="curve", **points
    )
    last = float(curve.sizes[-1])
    limit = curve.log_loss[-1] - curve.rate / last
    end = max(last, min(float(curve.enough), MOST_ROWS * last))
    # With fewer rows the prior dominates, and the law does not hold yet.
    start = min(MIN_ROWS_FOR_RATE, float(curve.sizes[-3:][0]))
    grid = np.geomspace(start, 1.15 * end, 100)
    ax.plot(
        grid,
        limit + curve.rate / grid,
        color=MUTED,
        lw=1.0,
        ls=(0, (4, 2)),
        zorder=3,
        gid="law",
    )


def _mark_sufficient_rows(ax: Axes, curve: CalibrationLearningCurve) -> None:
    first = float(curve.sizes[0])
    last = float(curve.sizes[-1])
    if first < curve.enough <= MOST_ROWS * last:
        ax.axvline(
            curve.enough, color=INK, lw=1.0, ls=(0, (1.2, 1.6)), zorder=2, gid="enough"
        )
        is_late = np.log(curve.enough / first) > 0.55 * np.log(
            max(last, curve.enough) / first
        )
        words = f"about {curve.amount} are enough:\nmore gains less than {curve.gain:g}"
        place: dict[str, Any] = {"xycoords": ax.get_xaxis_transform(), "va": "top"}
        if is_late:
            place |= {"ha": "right", "offset": (-6, 0)}
        else:
            place |= {"ha": "left", "offset": (6, 0)}
        style.label(ax, words, (curve.enough, 0.97), color=INK, **place)
        return
    words = f"enough: about {curve.amount} →"
    if curve.enough <= first:
        words = f"{int(first):,} {curve.unit} are enough"
    corner: dict[str, Any] = {"xycoords": "axes fraction", "ha": "right", "va": "top"}
    style.label(ax, words, (0.98, 0.97), color=INK, **corner)


def _set_ticks_of_rows(ax: Axes, curve: CalibrationLearningCurve) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    low, high = ax.get_ylim()
    ax.set_ylim(low, high + 0.14 * (high - low))
    first, last = ax.get_xlim()
    subdivisions = (1.0, 2.0, 5.0) if last < 1000.0 * first else (1.0,)
    ax.xaxis.set_major_locator(LogLocator(subs=subdivisions))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda n, _: f"{n:,.0f}"))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_xlabel(f"{curve.unit} to calibrate on")
    ax.set_ylabel(f"log-loss on new rows, nats ({percent(curve.level)} intervals)")


def _label_losses(
    ax: Axes, curve: CalibrationLearningCurve, *, uncalibrated_fits: bool
) -> None:
    """Write the name and value of each line at its right end."""
    digits = curve.digits - 1
    loss = float(curve.log_loss[-1])
    labels = [(loss, f"calibrated\n{loss:.{digits}f}", BLUE)]
    if np.isfinite(curve.uncalibrated):
        words = f"uncalibrated\n{curve.uncalibrated:.{digits}f}"
        place = curve.uncalibrated
        if not uncalibrated_fits:
            words += " ↑"
            place = ax.get_ylim()[1]
        labels.append((place, words, VERMILION))
    style.label_line_ends(ax, sorted(labels), lines=2)
