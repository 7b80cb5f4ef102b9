"""``CalibrationCurveDisplay``: what a calibrator makes of each score, and how sure it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy.special import expit
from sklearn.utils.validation import check_is_fitted

from calspline.arrays import Array
from calspline.calibrators.base import BaseCalibrator
from calspline.curve import CalibrationCurve
from calspline.display import style
from calspline.display.axes import room, small_multiples
from calspline.display.probability_axis import CUSTOMARY, SCALES, ProbabilityScale, Scale, decades
from calspline.display.style import BLUE, MUTED, RULE, SAYS
from calspline.options import check_number, check_one_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

POINTS = 201


@dataclass(frozen=True, eq=False)
class CurveData:
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
            score = np.unique(
                np.concatenate([np.linspace(1e-6, 1.0 - 1e-6, POINTS), expit(np.linspace(-14, 14, POINTS))])
            )
        bands = [
            None if curve.variance is None else curve.band(score, level, simultaneous=whole) for whole in (False, True)
        ]
        return cls(name, score, curve(score), bands[0], bands[1], knots, margins)


class CalibrationCurveDisplay:
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
    ax_ : matplotlib Axes
        The first axes.
    axes_ : list of matplotlib Axes
    figure_ : matplotlib Figure

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

    ax_: Axes
    axes_: list[Axes]
    figure_: Figure | SubFigure

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
        check_is_fitted(calibrator, "curves_")
        if not calibrator.curves_:
            raise ValueError(
                f"calibrator must have a curve for each class; this {type(calibrator).__name__} has none "
                '(a spline for three or more classes has them with multiclass="ovr")'
            )
        names = [str(label) for label in calibrator.classes_.tolist()]
        names = names[1:] if len(calibrator.curves_) == 1 else names
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
            None: a new figure. Several curves divide its room.
        scale : {"probability", "logit"}
            For both axes; scores that are margins keep a plain axis.
        band, simultaneous : bool, default=True
            The pointwise band, and the one for the whole curve.
        knots : bool, default=True

        Returns
        -------
        self
        """
        check_one_of(scale, "scale", SCALES)
        panels = small_multiples(ax, len(self.curves)) if len(self.curves) > 1 else None
        self.axes_ = [room(ax)] if panels is None else panels.axes
        for one, own in zip(self.curves, self.axes_, strict=True):
            drawn = self._draw(own, one, scale, band, simultaneous, knots, small=panels is not None)
            if panels is None:
                style.legend(own, [handle for handle, _ in drawn], [name for _, name in drawn])
            else:
                style.title(own, style.class_title(one.name))
        if panels is not None:
            panels.quieten()
        self.ax_ = self.axes_[0]
        self.figure_ = self.ax_.figure
        return self

    def _draw(
        self,
        ax: Axes,
        one: CurveData,
        scale: Scale,
        band: bool,
        simultaneous: bool,
        knots: bool,
        *,
        small: bool,
    ) -> list[tuple[Any, str]]:
        """Draw one curve; what was drawn, with its names."""
        across, up = self._axes(one, scale)
        style.dress(ax)
        percent = f"{100.0 * self.level:g}%"
        if across is not None:
            ends = max(across.low, up.low), min(across.high, up.high)
            ax.plot(ends, ends, color=RULE, lw=1.1, zorder=1.5, gid="diagonal")
        x, y = (one.score, one.value) if across is None else across.cut(one.score, one.value)
        drawn: list[tuple[Any, str]] = [
            (ax.plot(x, y, color=BLUE, lw=2.2, zorder=4, gid="curve")[0], "calibration curve"),
        ]
        sure = (one.score >= one.knots[0]) & (one.score <= one.knots[-1])
        for wanted, limits, alpha, name, gid in (
            (band, one.band, 0.30, f"{percent} at each score", "band"),
            (simultaneous, one.simultaneous_band, 0.14, f"{percent} for the whole curve", "simultaneous-band"),
        ):
            if wanted and limits is not None and sure.any():
                shown = one.score[sure], *limits[sure].T
                score, low, high = shown if across is None else across.cut(*shown)
                made = ax.fill_between(score, low, high, color=BLUE, alpha=alpha, lw=0, zorder=2, gid=gid)
                drawn.append((made, name))
        up.put_on(ax, x=False, few=small)
        inside = one.knots
        if across is not None:
            across.put_on(ax, y=False, few=small)
            inside = inside[(inside >= across.low) & (inside <= across.high)]
        if knots:
            foot = ax.get_xaxis_transform()
            ax.vlines(inside, 0.0, 0.018, color=MUTED, lw=0.9, transform=foot, zorder=3, gid="knots")
        ax.set_xlabel("score" if one.margins else SAYS)
        ax.set_ylabel("calibrated" if small else "calibrated probability")
        return drawn

    @staticmethod
    def _axes(one: CurveData, scale: Scale) -> tuple[ProbabilityScale | None, ProbabilityScale]:
        """The axis of scores, none for margins, and that of probabilities."""
        if scale == "probability":
            plain = ProbabilityScale(scale, (0.0, 1.0))
            return None if one.margins else plain, plain
        up = ProbabilityScale(scale, (10.0**-CUSTOMARY, 1.0 - 10.0**-CUSTOMARY))
        if one.margins:
            return None, up
        # Scores may be far surer than what comes of them.
        reach = 10.0 ** -decades(one.knots), 1.0 - 10.0 ** -decades(1.0 - one.knots)
        return ProbabilityScale(scale, reach), up
