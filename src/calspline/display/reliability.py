"""Display of reliability diagrams."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

import calspline.display.style as style
from calspline._arrays import Array
from calspline._input.options import check_by_name, check_increasing, check_one_of
from calspline._input.scores import check_numeric_array
from calspline.calibrators.base import BaseCalibrator
from calspline.display.diagram import Diagram, ScoreSpread, Series, log_odds_spreads
from calspline.display.style import (
    SCALES,
    Display,
    ProbabilityScale,
    Scale,
    SeriesStyle,
    decades,
)
from calspline.evaluation.predictions import check_predictions
from calspline.evaluation.reliability import Reliability, diagram_predictions

if TYPE_CHECKING:
    from matplotlib.axes import Axes

RARE = 0.1
"""If all bins are below this value, a log-odds axis shows only the lower half."""


class ReliabilityDisplay(Display):
    """Reliability diagram: observed frequency against predicted probability.

    Calibrated predictions lie on the diagonal; points below it are predicted too high,
    points above it too low. The area of a point is proportional to its number of rows,
    bars are exact intervals. Use :meth:`from_predictions` or :meth:`from_estimator` to
    create a display.

    Parameters
    ----------
    reliability : Reliability or dict of name to Reliability
        Results of :func:`reliability`; several are drawn in one diagram.
    curves : dict of name to calibrator or callable, optional
        Calibration functions to draw: fitted calibrators of two classes, or functions
        of an array of probabilities.

    Attributes
    ----------
    reliability : dict of name to Reliability
        The plotted diagrams.
    curves : dict of name to callable
        The plotted calibration functions.
    histogram_ax_ : matplotlib Axes or None
        Axes of the histogram, or of the first of several.
    axes_ : list of matplotlib Axes
        Axes of all diagrams.

    See Also
    --------
    reliability : Compute a reliability diagram.
    report : HTML report with reliability diagrams.

    Examples
    --------
    >>> import matplotlib; matplotlib.use("Agg")
    >>> import numpy as np
    >>> from calspline import ReliabilityDisplay, SplineCalibrator
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(size=2000)
    >>> y = rng.random(2000) < p**2
    >>> cal = SplineCalibrator().fit(p, y)
    >>> display = ReliabilityDisplay.from_predictions(
    ...     y, {"raw": p, "calibrated": cal.calibrate(p)}, curves={"spline": cal})
    >>> display.ax_.get_xlabel(), display.ax_.get_ylabel()
    ('', 'observed frequency')
    >>> display.histogram_ax_.get_xlabel()
    'predicted probability'
    """

    def __init__(
        self,
        reliability: Reliability | Mapping[str, Reliability],
        *,
        curves: Any = None,
    ) -> None:
        self.reliability: dict[str, Reliability] = check_by_name(
            reliability, "reliability", None
        )
        self.curves: dict[str, Callable[[Array], Any]] = _check_curves(curves)
        self._log_odds_spreads: dict[str, tuple[ScoreSpread, ...]] = {}

    @classmethod
    def from_predictions(
        cls,
        y: Any,
        probs: Any,
        *,
        n_bins: int = 10,
        strategy: Literal["quantile", "uniform"] | None = None,
        sample_weight: Any = None,
        labels: Any = None,
        pos_label: Any = None,
        groups: Any = None,
        level: float = 0.95,
        name: str | None = None,
        curves: Any = None,
        ax: Axes | None = None,
        **plot_options: Any,
    ) -> Self:
        """Compute and plot a reliability diagram from predictions.

        Parameters
        ----------
        y : array-like of shape (n,)
            Labels.
        probs : array-like or dict of name to array-like
            Predicted probabilities, each of shape (n,), (n, 1), (n, 2) or (n, m).
            Several sets, such as before and after calibration, share the axes.
        strategy : {"quantile", "uniform"}, optional
            Strategy of binning, as for :func:`reliability`. By default ``"quantile"``,
            but ``"uniform"`` for a diagram of each class: a single class is improbable
            in most rows, so bins of equal weight would all lie near zero.
        n_bins, sample_weight, labels, pos_label, groups, level
            As for :func:`reliability`.
        name : str, optional
            Name for the legend.
        curves : dict of name to calibrator or callable, optional
            Calibration functions to draw.
        ax : matplotlib Axes, optional
            Axes to plot into. By default a new figure.
        **plot_options : dict
            Options of :meth:`plot`.

        Returns
        -------
        display : ReliabilityDisplay
            The display, after plotting.
        """
        if strategy is None:
            if plot_options.get("classes", "top") == "top":
                strategy = "quantile"
            else:
                strategy = "uniform"
        found = {}
        spreads = {}
        for key, one in check_by_name(probs, "probs", name).items():
            rows = check_predictions(
                y, one, sample_weight, labels, groups=groups, pos_label=pos_label
            )
            found[key] = diagram_predictions(rows, n_bins, strategy, level)
            spreads[key] = log_odds_spreads(rows)
        display = cls(found, curves=curves)
        display._log_odds_spreads = spreads
        return display.plot(ax, **plot_options)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, name: str | None = None, **options: Any
    ) -> Self:
        """Compute and plot a reliability diagram from a fitted classifier.

        Parameters
        ----------
        estimator : classifier, or dict of name to classifier
            Fitted classifiers with ``predict_proba``.
        X, y : array-like
            Features and labels of rows on which the classifier was not trained.
        name : str, optional
            Name for the legend. By default the name of the classifier's class.
        **options : dict
            Options of :meth:`from_predictions`.

        Returns
        -------
        display : ReliabilityDisplay
            The display, after plotting.
        """
        if not isinstance(estimator, Mapping):
            estimator = {type(estimator).__name__ if name is None else name: estimator}
        elif name is not None:
            raise ValueError(
                f"name must be None when estimator is a mapping; got {name!r}"
            )
        for key, one in estimator.items():
            if not hasattr(one, "predict_proba"):
                raise TypeError(
                    f"estimator must have predict_proba; {key!r} is a "
                    f"{type(one).__name__} without"
                )
        options = {"labels": _common_classes(estimator)} | options
        return cls.from_predictions(
            y, {key: one.predict_proba(X) for key, one in estimator.items()}, **options
        )

    def plot(
        self,
        ax: Axes | None = None,
        *,
        scale: Scale = "probability",
        classes: Any = "top",
        bins: bool = True,
        corp: bool = False,
        spline: bool = False,
        histogram: Any = True,
        limits: tuple[float, float] | None = None,
        colors: Any = None,
        legend: bool = True,
    ) -> Self:
        """Plot the diagram.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Axes to plot into. By default a new figure.
        scale : {"probability", "logit"}, default="probability"
            Scale of the axes; ``"logit"`` expands both ends. Probabilities beyond the
            limits, such as exact 0 and 1, are drawn at the limit, which is then marked
            with ≤ or ≥.
        classes : {"top", "all"} or list of labels, default="top"
            For three or more classes, whether to plot the top label or a small diagram
            for each class.
        bins : bool, default=True
            Whether to plot the bins with their exact intervals.
        corp : bool, default=False
            Whether to plot the isotonic (CORP) curve, and its consistency band around
            the diagonal.
        spline : bool, default=False
            Whether to plot the spline curve with its pointwise band.
        histogram : bool or matplotlib Axes, default=True
            Whether to plot a histogram of the probabilities below, or axes for it.
        limits : (float, float), optional
            Smallest and largest probability shown.
        colors : list of colors, optional
            Colors of the sets.
        legend : bool, default=True
            Whether to add a legend.

        Returns
        -------
        self : ReliabilityDisplay
            The display.
        """
        check_one_of(scale, "scale", SCALES)
        chosen = self._chosen(classes)
        small = len(chosen) > 1 or not isinstance(classes, str)
        axis = ProbabilityScale(scale, self._limits(scale, limits, chosen))
        if not small:
            height = style.SIDE + (0.5 if histogram is True else 0.0)
            alone = style.get_axes(ax, style.SIDE, height)
            panels = style.Panels([alone])
            if histogram is True:
                panels = style.Panels(
                    [alone], strips=[style.add_strip_below(alone, 0.16)]
                )
            elif histogram:
                panels = style.Panels([alone], strips=[histogram])
        elif isinstance(histogram, bool):
            panels = style.small_multiples(ax, len(chosen), 0.2 if histogram else None)
        else:
            raise TypeError(
                "histogram must be True or False with several diagrams; got "
                f"{histogram!r}"
            )
        strips: Sequence[Axes | None] = panels.strips or [None] * len(chosen)
        places = zip(chosen, panels.axes, strips, strict=True)
        for i, (place, own, strip) in enumerate(places):
            series = self._series(place, axis, colors)
            curves = self._curves(axis.grid())
            diagram = Diagram(
                series, curves, axis, bins, corp, spline, legend and i == 0, small
            )
            diagram.draw(own, strip, legend_ax=panels.spare)
            if small:
                style.class_title(own, series[0].data.name)
        panels.hide_inner_labels()
        self.axes_ = panels.axes
        self.ax_ = panels.axes[0]
        self.histogram_ax_ = strips[0]
        self.figure_ = self.ax_.figure
        return self

    def _chosen(self, classes: Any) -> list[int]:
        """Indices of the diagrams to draw: 0 is the top label, then the classes."""
        first = next(iter(self.reliability.values()))
        names = [one.name for one in first.classes]
        for key, one in self.reliability.items():
            if [other.name for other in one.classes] != names:
                raise ValueError(
                    f"all sets must be of the same classes; {key!r} is not"
                )
        if isinstance(classes, str):
            check_one_of(classes, "classes", ("top", "all"))
            return list(range(1, len(names) + 1)) if classes == "all" and names else [0]
        wanted = [str(label) for label in classes]
        unknown = [label for label in wanted if label not in names]
        if unknown or not wanted:
            raise ValueError(
                f"classes must be 'top', 'all' or a list of some of {names}; got "
                f"{list(classes)!r}"
            )
        return [names.index(label) + 1 for label in wanted]

    def _at(self, place: int) -> dict[str, Reliability]:
        return {
            key: one.classes[place - 1] if place else one
            for key, one in self.reliability.items()
        }

    def _limits(
        self, scale: Scale, limits: Any, chosen: list[int]
    ) -> tuple[float, float]:
        if limits is not None:
            return _check_limits(limits, open_=scale == "logit")
        if scale == "probability":
            return 0.0, 1.0
        # Far out only where there is something to see: a tiny probability with a
        # handful of rows behind it says no more at its own place than at the customary
        # limit.
        every = [one.bins for place in chosen for one in self._at(place).values()]
        low = np.concatenate(
            [np.maximum(b.mean_score, b.interval_upper) for b in every]
        )
        high = np.concatenate(
            [np.minimum(b.mean_score, b.interval_lower) for b in every]
        )
        least = 10.0 ** -decades(low)
        most = 1.0 - 10.0 ** -decades(1.0 - high)
        return (
            0.5 if high.min() > 1.0 - RARE else least,
            0.5 if low.max() < RARE else most,
        )

    def _series(self, place: int, axis: ProbabilityScale, colors: Any) -> list[Series]:
        sets = self._at(place)
        out = []
        for (key, one), look in zip(
            sets.items(), style.series_styles(len(sets), colors), strict=True
        ):
            spreads = self._log_odds_spreads.get(key) if axis.logit else None
            if spreads is None:
                spread = ScoreSpread(one.histogram_edges, one.histogram_weight)
            else:
                spread = spreads[place]
            out.append(Series(key, one, spread, look))
        return out

    def _curves(self, scores: Array) -> list[tuple[str, Array, Array, SeriesStyle]]:
        """Evaluate calibration functions, which must return finite numbers."""
        out = []
        for (name, function), look in zip(
            self.curves.items(), style.curve_styles(len(self.curves)), strict=True
        ):
            values = function(scores)
            if np.shape(values) != scores.shape:
                wanted = f"one number for each of {len(scores)} scores"
                raise ValueError(
                    f"curves[{name!r}] must give {wanted}; got shape {np.shape(values)}"
                )
            out.append(
                (
                    name,
                    scores,
                    check_numeric_array(values, f"what curves[{name!r}] gives"),
                    look,
                )
            )
        return out


def _common_classes(estimators: Mapping[str, Any]) -> Any:
    """Classes that all classifiers share, in order; None if the first has none."""
    first, *others = estimators
    classes = getattr(estimators[first], "classes_", None)
    for name in others:
        other = getattr(estimators[name], "classes_", None)
        if not np.array_equal(np.asarray(classes), np.asarray(other)):
            found = f"{first!r} has {classes} and {name!r} has {other}"
            raise ValueError(f"estimators must have the same classes_; {found}")
    return classes


def _check_curves(curves: Any) -> dict[str, Callable[[Array], Any]]:
    """Validate calibration functions by name.

    These are callables, or calibrators of two classes fitted to probabilities.
    """
    if curves is not None and not isinstance(curves, Mapping):
        raise TypeError(
            f'curves must be a mapping such as {{"spline": calibrator}}; got '
            f"{type(curves).__name__}"
        )
    found = check_by_name(curves, "curves", None) if curves else {}
    for name, curve in found.items():
        if not hasattr(curve, "calibrate"):
            if not callable(curve):
                what = type(curve).__name__
                raise TypeError(
                    f"curves[{name!r}] must be a fitted calibrator or a callable; got "
                    f"{what}"
                )
        elif len(getattr(curve, "classes_", (0, 1))) > 2:
            raise ValueError(
                f"curves[{name!r}] must be of two classes; it was fitted to "
                f"{len(curve.classes_)}"
            )
        elif (
            isinstance(curve, BaseCalibrator)
            and not curve.model_.kind.lies_in_unit_interval
        ):
            raise ValueError(
                f"curves[{name!r}] must be fitted on probabilities; it was fitted on "
                "margins"
            )
    return {name: getattr(curve, "calibrate", curve) for name, curve in found.items()}


def _check_limits(limits: Any, *, open_: bool) -> tuple[float, float]:
    """Check the limits of an axis of probabilities; ``open_`` excludes 0 and 1."""
    array = check_increasing(limits, "limits", least=2)
    low = float(array[0])
    high = float(array[-1])
    outside = low <= 0.0 or high >= 1.0 if open_ else low < 0.0 or high > 1.0
    if len(array) != 2 or outside:
        raise ValueError(
            f"limits must be two numbers in {'(0, 1)' if open_ else '[0, 1]'}; got "
            f"{array.tolist()}"
        )
    return low, high
