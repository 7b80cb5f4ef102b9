"""Display of a fitted calibration curve with its bands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

import calspline.display.style as style
from calspline._arrays import Array
from calspline._formatting import percent
from calspline._input.options import check_number, check_one_of
from calspline.calibrators.base import BaseCalibrator
from calspline.calibrators.checks import check_fitted
from calspline.display.style import (
    BLUE,
    MUTED,
    PREDICTED,
    RULE,
    Display,
    ProbabilityScale,
    Scale,
)
from calspline.evaluation.reliability import probability_grid
from calspline.maps.curve import CalibrationCurve

if TYPE_CHECKING:
    from matplotlib.axes import Axes

POINTS = 201


class CurveData(NamedTuple):
    """A curve on a grid of scores, with its bands if it has any."""

    name: str
    score: Array
    value: Array
    band: Array | None
    simultaneous_band: Array | None
    knots: Array
    margins: bool

    @classmethod
    def of(cls, curve: CalibrationCurve, name: str, level: float) -> CurveData:
        """Evaluate a curve on [0, 1] or, for margins, slightly beyond its breaks."""
        margins = not curve.transform.takes_probabilities
        knots = curve.transform.inverse(curve.origin + curve.unit * curve.breaks)
        if margins:
            reach = 0.05 * float(np.ptp(knots)) or 1.0
            score = np.linspace(
                float(knots[0]) - reach, float(knots[-1]) + reach, POINTS
            )
        else:
            score = probability_grid(1e-6, 1.0 - 1e-6, POINTS)
        bands: list[Any] = [None, None]
        if curve.has_band:
            bands = [
                curve.band(score, level, simultaneous=whole) for whole in (False, True)
            ]
        return cls(name, score, curve(score), bands[0], bands[1], knots, margins)


class CalibrationCurveDisplay(Display):
    """Calibration curve of a fitted calibrator, with pointwise and simultaneous bands.

    The darker band is pointwise, the lighter one simultaneous; both end where the
    calibration scores end. Ticks at the bottom are knots. Use :meth:`from_calibrator`
    to create a display.

    Parameters
    ----------
    curves : list of CurveData
        One curve for two classes, otherwise one per class.
    level : float
        Confidence level of the bands.

    Attributes
    ----------
    axes_ : list of matplotlib Axes
        Axes of the curves.

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
        cls,
        calibrator: BaseCalibrator,
        *,
        level: float = 0.95,
        ax: Axes | None = None,
        **plot_options: Any,
    ) -> Self:
        """Evaluate and plot the curves of a fitted calibrator.

        Parameters
        ----------
        calibrator : fitted calibrator
            Calibrator with curves: of two classes, or of each class against the rest.
        level : float in (0, 1), default=0.95
            Confidence level of the bands.
        ax : matplotlib Axes, optional
            Axes to plot into. By default a new figure.
        **plot_options : dict
            Options of :meth:`plot`.

        Returns
        -------
        display : CalibrationCurveDisplay
            The display, after plotting.
        """
        level = check_number(level, "level", above=0.0, below=1.0)
        check_fitted(calibrator)
        if not calibrator.curves_:
            raise ValueError(
                "calibrator must have a curve for each class; this "
                f"{type(calibrator).__name__} has none "
                '(a spline for three or more classes has them with multiclass="ovr")'
            )
        names = [str(label) for label in calibrator.classes_.tolist()]
        if len(calibrator.curves_) == 1:
            names = names[1:]
        pairs = zip(calibrator.curves_, names, strict=True)
        return cls(
            [CurveData.of(curve, name, level) for curve, name in pairs], level=level
        ).plot(ax, **plot_options)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        scale: Scale = "probability",
        band: bool = True,
        simultaneous: bool = True,
        knots: bool = True,
    ) -> Self:
        """Plot the curves.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Axes to plot into, divided among several curves. By default a new figure.
        scale : {"probability", "logit"}, default="probability"
            Scale of both axes; margins always have a linear axis.
        band, simultaneous : bool, default=True
            Whether to plot the pointwise and the simultaneous band.
        knots : bool, default=True
            Whether to mark the knots.

        Returns
        -------
        self : CalibrationCurveDisplay
            The display.
        """
        check_one_of(scale, "scale", style.SCALES)
        panels = style.get_panels(ax, len(self.curves))
        for one, own in zip(self.curves, panels.axes, strict=True):
            across, up = _scales(one, scale)
            style.style_axes(own)
            drawn = self._draw_curve(
                own, one, across, band=band, simultaneous=simultaneous
            )
            up.apply(own, "y", few=panels.small)
            inside = one.knots
            if across is not None:
                ends = max(across.low, up.low), min(across.high, up.high)
                own.plot(ends, ends, color=RULE, lw=1.1, zorder=1.5, gid="diagonal")
                across.apply(own, "x", few=panels.small)
                inside = inside[(inside >= across.low) & (inside <= across.high)]
            if knots:
                foot = own.get_xaxis_transform()
                own.vlines(
                    inside,
                    0.0,
                    0.018,
                    color=MUTED,
                    lw=0.9,
                    transform=foot,
                    zorder=3,
                    gid="knots",
                )
            own.set_xlabel("score" if one.margins else PREDICTED)
            own.set_ylabel("calibrated" if panels.small else "calibrated probability")
            if panels.small:
                style.class_title(own, one.name)
            else:
                style.legend(own, drawn)
        panels.hide_inner_labels()
        self.axes_ = panels.axes
        self.ax_ = panels.axes[0]
        self.figure_ = panels.axes[0].figure
        return self

    def _draw_curve(
        self,
        ax: Axes,
        one: CurveData,
        across: ProbabilityScale | None,
        *,
        band: bool,
        simultaneous: bool,
    ) -> list[tuple[Any, str]]:
        """Draw one curve with its bands; return legend handles and names."""
        level = percent(self.level)
        cut = (lambda *lines: lines) if across is None else across.cut
        (line,) = ax.plot(
            *cut(one.score, one.value), color=BLUE, lw=2.2, zorder=4, gid="curve"
        )
        drawn: list[tuple[Any, str]] = [(line, "calibration curve")]
        inside = (one.score >= one.knots[0]) & (one.score <= one.knots[-1])
        for wanted, limits, alpha, name, gid in (
            (band, one.band, 0.30, f"{level} at each score", "band"),
            (
                simultaneous,
                one.simultaneous_band,
                0.14,
                f"{level} for the whole curve",
                "simultaneous-band",
            ),
        ):
            if wanted and limits is not None and inside.any():
                shown = cut(one.score[inside], *limits[inside].T)
                drawn.append(
                    (
                        ax.fill_between(
                            *shown, color=BLUE, alpha=alpha, lw=0, zorder=2, gid=gid
                        ),
                        name,
                    )
                )
        return drawn


def _scales(
    one: CurveData, scale: Scale
) -> tuple[ProbabilityScale | None, ProbabilityScale]:
    """Scales of scores (None for margins) and of probabilities."""
    if scale == "probability":
        up = across = ProbabilityScale(scale, (0.0, 1.0))
    else:
        up = ProbabilityScale(
            scale, (10.0**-style.MIN_DECADES, 1.0 - 10.0**-style.MIN_DECADES)
        )
        # # Scores may be far more extreme than calibrated probabilities.
        limits = (
            10.0 ** -style.decades(one.knots),
            1.0 - 10.0 ** -style.decades(1.0 - one.knots),
        )
        across = ProbabilityScale(scale, limits)
    return None if one.margins else across, up
