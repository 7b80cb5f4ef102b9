"""Pictures of a calibrator: its curve with bands, how its smoothing was chosen, and how many rows are enough for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from calspline.arrays import Array
from calspline.calibrators.base import BaseCalibrator
from calspline.curve import CalibrationCurve
from calspline.display import style
from calspline.display.style import (
    BLUE,
    INK,
    MUTED,
    PREDICTED,
    RULE,
    VERMILION,
    AxesDisplay,
    Display,
    ProbabilityScale,
    Scale,
)
from calspline.evaluation.reliability import probability_grid
from calspline.fitting.criteria import CRITERIA, EVIDENCE
from calspline.formatting import percent, scientific
from calspline.learning_curve import MIN_ROWS_FOR_RATE, CalibrationLearningCurve
from calspline.options import check_fitted, check_number, check_one_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

POINTS = 201
MOST_ROWS = 4.0
"""The size that is enough is drawn up to this multiple of the rows at hand; beyond, it is only written."""
TALLEST = 1.5
"""The uncalibrated level is drawn up to this multiple of the curve's spread above it; beyond, it is only written."""


class CurveData(NamedTuple):
    """A curve on a grid of scores, with its bands where it has them."""

    name: str
    score: Array
    value: Array
    band: Array | None
    simultaneous_band: Array | None
    knots: Array
    margins: bool

    @classmethod
    def of(cls, curve: CalibrationCurve, name: str, level: float) -> CurveData:
        """The curve over [0, 1], or over its breaks and a little beyond if it takes margins."""
        margins = not curve.transform.takes_probabilities
        knots = curve.transform.inverse(curve.origin + curve.unit * curve.breaks)
        if margins:
            reach = 0.05 * float(np.ptp(knots)) or 1.0
            score = np.linspace(float(knots[0]) - reach, float(knots[-1]) + reach, POINTS)
        else:
            score = probability_grid(1e-6, 1.0 - 1e-6, POINTS)
        bands: list[Any] = [None, None]
        if curve.has_band:
            bands = [curve.band(score, level, simultaneous=whole) for whole in (False, True)]
        return cls(name, score, curve(score), bands[0], bands[1], knots, margins)


class CalibrationCurveDisplay(Display):
    """The calibration curve of a fitted calibrator with its pointwise and simultaneous band.

    The darker band holds at any one score, the lighter for the whole curve at once; they end where the scores of the
    fit end. Ticks along the bottom are knots. Make one with :meth:`from_calibrator`.

    Parameters
    ----------
    curves : list of CurveData
        One for two classes, else one for each class.
    level : float
        Of the bands.

    Attributes
    ----------
    axes_ : list of matplotlib Axes

    Examples
    --------
    >>> import matplotlib; matplotlib.use("Agg")
    >>> import numpy as np
    >>> from calspline import SplineCalibrator
    >>> from calspline.display import CalibrationCurveDisplay
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(size=2000)
    >>> cal = SplineCalibrator().fit(p, rng.random(2000) < p**2)
    >>> CalibrationCurveDisplay.from_calibrator(cal).ax_.get_ylabel()
    'calibrated probability'
    """

    def __init__(self, curves: list[CurveData], *, level: float) -> None:
        self.curves = curves
        self.level = level

    @classmethod
    def from_calibrator(
        cls, calibrator: BaseCalibrator, *, level: float = 0.95, ax: Axes | None = None, **plot_options: Any
    ) -> Self:
        """Evaluate and draw a fitted calibrator's curves.

        Parameters
        ----------
        calibrator : calibrator
            With a curve of its own: of two classes, or one against the rest.
        level : float in (0, 1), default=0.95
        ax : matplotlib Axes, optional
        **plot_options
            As for :meth:`plot`.

        Returns
        -------
        CalibrationCurveDisplay
        """
        level = check_number(level, "level", above=0.0, below=1.0)
        check_fitted(calibrator)
        if not calibrator.curves_:
            raise ValueError(
                f"calibrator must have a curve for each class; this {type(calibrator).__name__} has none "
                '(a spline for three or more classes has them with multiclass="ovr")'
            )
        names = [str(label) for label in calibrator.classes_.tolist()]
        if len(calibrator.curves_) == 1:
            names = names[1:] if len(names) == 2 else ["top class"]
        pairs = zip(calibrator.curves_, names, strict=True)
        return cls([CurveData.of(curve, name, level) for curve, name in pairs], level=level).plot(ax, **plot_options)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        scale: Scale = "probability",
        band: bool = True,
        simultaneous: bool = True,
        knots: bool = True,
    ) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            None: a new figure. Several curves divide it.
        scale : {"probability", "logit"}
            For both axes; scores that are margins keep a plain axis.
        band, simultaneous : bool, default=True
            The pointwise band, and the one for the whole curve.
        knots : bool, default=True

        Returns
        -------
        self
        """
        check_one_of(scale, "scale", style.SCALES)
        panels = style.get_panels(ax, len(self.curves))
        for one, own in zip(self.curves, panels.axes, strict=True):
            across, up = _scales(one, scale)
            style.style_axes(own)
            drawn = self._draw_curve(own, one, across, band=band, simultaneous=simultaneous)
            up.apply(own, "y", few=panels.small)
            inside = one.knots
            if across is not None:
                ends = max(across.low, up.low), min(across.high, up.high)
                own.plot(ends, ends, color=RULE, lw=1.1, zorder=1.5, gid="diagonal")
                across.apply(own, "x", few=panels.small)
                inside = inside[(inside >= across.low) & (inside <= across.high)]
            if knots:
                foot = own.get_xaxis_transform()
                own.vlines(inside, 0.0, 0.018, color=MUTED, lw=0.9, transform=foot, zorder=3, gid="knots")
            own.set_xlabel("score" if one.margins else PREDICTED)
            own.set_ylabel("calibrated" if panels.small else "calibrated probability")
            if panels.small:
                style.class_title(own, one.name)
            else:
                style.legend(own, drawn)
        panels.hide_inner_labels()
        self.axes_, self.ax_, self.figure_ = panels.axes, panels.axes[0], panels.axes[0].figure
        return self

    def _draw_curve(
        self, ax: Axes, one: CurveData, across: ProbabilityScale | None, *, band: bool, simultaneous: bool
    ) -> list[tuple[Any, str]]:
        """Draw one curve with its bands; handles and names of what was drawn."""
        level, cut = percent(self.level), (lambda *lines: lines) if across is None else across.cut
        (line,) = ax.plot(*cut(one.score, one.value), color=BLUE, lw=2.2, zorder=4, gid="curve")
        drawn: list[tuple[Any, str]] = [(line, "calibration curve")]
        inside = (one.score >= one.knots[0]) & (one.score <= one.knots[-1])
        for wanted, limits, alpha, name, gid in (
            (band, one.band, 0.30, f"{level} at each score", "band"),
            (simultaneous, one.simultaneous_band, 0.14, f"{level} for the whole curve", "simultaneous-band"),
        ):
            if wanted and limits is not None and inside.any():
                shown = cut(one.score[inside], *limits[inside].T)
                drawn.append((ax.fill_between(*shown, color=BLUE, alpha=alpha, lw=0, zorder=2, gid=gid), name))
        return drawn


def _scales(one: CurveData, scale: Scale) -> tuple[ProbabilityScale | None, ProbabilityScale]:
    """The scale of scores, none for margins, and that of probabilities."""
    if scale == "probability":
        up = across = ProbabilityScale(scale, (0.0, 1.0))
    else:
        up = ProbabilityScale(scale, (10.0**-style.MIN_DECADES, 1.0 - 10.0**-style.MIN_DECADES))
        # Scores may be far surer than what comes of them.
        limits = 10.0 ** -style.decades(one.knots), 1.0 - 10.0 ** -style.decades(1.0 - one.knots)
        across = ProbabilityScale(scale, limits)
    return None if one.margins else across, up


class PathData(NamedTuple):
    """Values of lambda tried, increasing, what each scored, the one chosen, and the effective parameters it leaves."""

    name: str
    smoothing: Array
    criterion: Array
    chosen: float
    edf: float


class SmoothingDisplay(Display):
    """The criterion that chooses the smoothing, against lambda; the chosen value is marked.

    To the left the curve may bend at will, to the right it is a line. Make one with :meth:`from_calibrator`.

    Parameters
    ----------
    paths : list of PathData
        One for two classes, else one for each class.
    label : str
        What the criterion is.

    Attributes
    ----------
    axes_ : list of matplotlib Axes

    Examples
    --------
    >>> import matplotlib; matplotlib.use("Agg")
    >>> from calspline import SplineCalibrator
    >>> from calspline.display import SmoothingDisplay
    >>> cal = SplineCalibrator().fit([0.1, 0.2, 0.4, 0.6, 0.7, 0.9], [0, 0, 1, 0, 1, 1])
    >>> display = SmoothingDisplay.from_calibrator(cal)
    >>> display.ax_.get_xscale(), display.paths[0].chosen == cal.smoothing_
    ('log', True)
    """

    def __init__(self, paths: list[PathData], *, label: str = "criterion") -> None:
        self.paths = paths
        self.label = label

    @classmethod
    def from_calibrator(cls, calibrator: Any, *, ax: Axes | None = None) -> Self:
        """Draw the ``smoothing_path_`` of a fitted :class:`SplineCalibrator`."""
        check_fitted(calibrator)
        if not hasattr(calibrator, "smoothing_path_"):
            raise TypeError(f"calibrator must have a smoothing_path_; got {type(calibrator).__name__}")
        paths = calibrator.smoothing_path_
        several = isinstance(paths, list)
        names = [str(label) for label in calibrator.classes_.tolist()] if several else [""]
        columns = names, paths if several else [paths], np.ravel(calibrator.smoothing_), np.ravel(calibrator.edf_)
        found = [_path(*one) for one in zip(*columns, strict=True)]
        if not any(len(one.smoothing) for one in found):
            raise ValueError("calibrator must have chosen its smoothing along a path; this one has none")
        how = CRITERIA[calibrator.smoothing] if isinstance(calibrator.smoothing, str) else EVIDENCE
        return cls(found, label=how.label).plot(ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw, in ``ax`` or a new figure, and return self; several paths divide it."""
        panels = style.get_panels(ax, len(self.paths), height=4.2)
        every = np.concatenate([one.smoothing for one in self.paths])
        for one, own in zip(self.paths, panels.axes, strict=True):
            self._draw_path(own, one, small=panels.small)
            own.set_xlim(every.min() / 3.0, every.max() * 3.0)
            if panels.small:
                style.class_title(own, one.name)
        panels.hide_inner_labels(y_ticks=False)
        self.axes_, self.ax_, self.figure_ = panels.axes, panels.axes[0], panels.axes[0].figure
        return self

    def _draw_path(self, ax: Axes, one: PathData, *, small: bool) -> None:
        from matplotlib.ticker import LogLocator, NullLocator

        style.style_axes(ax)
        ax.set_xscale("log")
        ax.plot(one.smoothing, one.criterion, color=BLUE, lw=1.8, marker="o", ms=4, mec="white", mew=0.7, gid="path")
        if len(one.smoothing):
            chosen = one.chosen, np.interp(np.log(one.chosen), np.log(one.smoothing), one.criterion)
            ax.axvline(chosen[0], color=VERMILION, lw=1.0, ls=(0, (4, 3)), zorder=1.5, gid="chosen-line")
            ax.plot(*chosen, marker="D", ms=9, color=VERMILION, mec="white", mew=1.0, ls="", zorder=5, gid="chosen")
            words = f"λ = {scientific(one.chosen)}" + ("" if small else f"\n{one.edf:.1f} effective parameters")
            right = np.log(chosen[0] / one.smoothing[0]) > 0.6 * np.log(one.smoothing[-1] / one.smoothing[0])
            where = {"ha": "right" if right else "left", "va": "top", "color": VERMILION, "fontweight": "bold"}
            place = (chosen[0], 0.97)
            style.label(ax, words, place, offset=(-6 if right else 6, 0), xycoords=ax.get_xaxis_transform(), **where)
        ax.margins(y=0.12)
        ax.xaxis.set_major_locator(LogLocator(numticks=5 if small else 9))
        ax.xaxis.set_minor_locator(NullLocator())
        ax.set_xlabel("smoothing λ" if small else "smoothing λ   (left: free to bend, right: a straight line)")
        ax.set_ylabel(self.label if small else f"{self.label}   (lower is better)")


def _path(name: str, path: Any, chosen: float, edf: float) -> PathData:
    """A path in increasing order, without values that have no score."""
    smoothing, criterion = np.asarray(path["smoothing"], float), np.asarray(path["criterion"], float)
    known = np.isfinite(criterion) & np.isfinite(smoothing)
    order = np.argsort(smoothing[known])
    return PathData(name, smoothing[known][order], criterion[known][order], float(chosen), float(edf))


class LearningCurveDisplay(AxesDisplay):
    """Expected log-loss against the number of rows a calibrator is fitted on.

    Points with intervals are measured; the thin line is the fitted ``limit + rate / n``. Marked are the rows
    that are enough, with the events they hold, and the log-loss without calibration.

    Parameters
    ----------
    curve : CalibrationLearningCurve
        What :func:`calibration_learning_curve` returns.

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

    def __init__(self, curve: CalibrationLearningCurve) -> None:
        self.curve = curve

    def _draw(self, ax: Axes) -> None:
        ax.set_xscale("log")
        self._draw_curve(ax)
        self._mark_enough(ax)
        uncalibrated, spread = self.curve.uncalibrated, np.ptp(self.curve.interval)
        fits = bool(uncalibrated <= self.curve.interval.max() + TALLEST * spread)
        if fits:
            ax.axhline(uncalibrated, color=VERMILION, lw=1.8, ls=(0, (5, 2)), zorder=2, gid="uncalibrated")
        self._set_ticks(ax)
        # Each line's name and value at the right, where it ends.
        loss, d = float(self.curve.log_loss[-1]), self.curve.digits - 1
        ends = [(loss, f"calibrated\n{loss:.{d}f}", BLUE)]
        if np.isfinite(uncalibrated):
            words = f"uncalibrated\n{uncalibrated:.{d}f}" + ("" if fits else " ↑")
            ends.append((uncalibrated if fits else ax.get_ylim()[1], words, VERMILION))
        style.label_line_ends(ax, sorted(ends), lines=2)

    def _draw_curve(self, ax: Axes) -> None:
        c = self.curve
        low, high = c.interval.T
        ax.vlines(c.sizes, low, high, color=BLUE, lw=1.6, alpha=0.5, zorder=4, gid="intervals")
        points: dict[str, Any] = {"marker": "o", "ms": 6.5, "mec": "white", "mew": 0.8}
        ax.plot(c.sizes, c.log_loss, color=BLUE, lw=1.8, zorder=5, gid="curve", **points)
        limit = c.log_loss[-1] - c.rate / c.sizes[-1]
        end = max(float(c.sizes[-1]), min(float(c.enough), MOST_ROWS * float(c.sizes[-1])))
        # With fewer rows the prior dominates, and the law does not hold yet.
        grid = np.geomspace(min(MIN_ROWS_FOR_RATE, float(c.sizes[-3:][0])), 1.15 * end, 100)
        ax.plot(grid, limit + c.rate / grid, color=MUTED, lw=1.0, ls=(0, (4, 2)), zorder=3, gid="law")

    def _mark_enough(self, ax: Axes) -> None:
        c = self.curve
        first, last = float(c.sizes[0]), float(c.sizes[-1])
        if first < c.enough <= MOST_ROWS * last:
            ax.axvline(c.enough, color=INK, lw=1.0, ls=(0, (1.2, 1.6)), zorder=2, gid="enough")
            late = np.log(c.enough / first) > 0.55 * np.log(max(last, c.enough) / first)
            words = f"about {c.amount} are enough:\nmore gains less than {c.gain:g}"
            where = {"xycoords": ax.get_xaxis_transform(), "va": "top", "ha": "right" if late else "left"}
            style.label(ax, words, (c.enough, 0.97), offset=(-6 if late else 6, 0), color=INK, **where)
        else:
            few = c.enough <= first
            words = f"{int(first):,} {c.unit} are enough" if few else f"enough: about {c.amount} →"
            style.label(ax, words, (0.98, 0.97), xycoords="axes fraction", ha="right", va="top", color=INK)

    def _set_ticks(self, ax: Axes) -> None:
        from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

        low, high = ax.get_ylim()
        ax.set_ylim(low, high + 0.14 * (high - low))
        first, last = ax.get_xlim()
        ax.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if last < 1000.0 * first else (1.0,)))
        ax.xaxis.set_major_formatter(FuncFormatter(lambda n, _: f"{n:,.0f}"))
        ax.xaxis.set_minor_locator(NullLocator())
        ax.set_xlabel(f"{self.curve.unit} to calibrate on")
        ax.set_ylabel(f"log-loss on new rows, nats ({percent(self.curve.level)} intervals)")
