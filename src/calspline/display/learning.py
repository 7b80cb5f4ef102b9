"""Pictures of log-loss along a line: over the rows to calibrate on, and over the epochs of training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from calspline.arrays import Array
from calspline.display import style
from calspline.display.style import BLUE, INK, MUTED, VERMILION, SeriesStyle, add_strip_below, get_axes
from calspline.evaluation.losses import row_log_losses
from calspline.evaluation.predictions import check_predictions
from calspline.formatting import percent
from calspline.learning_curve import MIN_ROWS_FOR_RATE, CalibrationLearningCurve
from calspline.options import check_by_name, check_increasing
from calspline.scores import check_numeric_array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FARTHEST = 4.0
"""The size that is enough is drawn up to this multiple of the rows at hand; beyond, it is only written."""
TALLEST = 1.5
"""The uncalibrated level is drawn up to this multiple of the curve's spread above it; beyond, it is only written."""
ACCURACY_STRIP = 0.34


class LearningCurveDisplay:
    """Expected log-loss against the number of rows a calibrator is fitted on.

    Points with intervals are measured; the thin line is the fitted ``limit + rate / n``. Marked are the rows
    that are enough, with the events they hold, and the log-loss without calibration.

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

    def __init__(self, curve: CalibrationLearningCurve) -> None:
        self.curve = curve

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw, in ``ax`` or a new figure, and return self."""
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
        loss, d = float(self.curve.log_loss[-1]), self.curve.digits - 1
        ends = [(loss, f"calibrated\n{loss:.{d}f}", BLUE)]
        if np.isfinite(uncalibrated):
            words = f"uncalibrated\n{uncalibrated:.{d}f}" + ("" if fits else " ↑")
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
            words = f"about {c.amount} are enough:\nmore gains less than {c.gain:g}"
            where = {"xycoords": ax.get_xaxis_transform(), "va": "top", "ha": "right" if late else "left"}
            style.note(ax, words, (c.enough, 0.97), offset=(-6 if late else 6, 0), color=INK, **where)
        else:
            few = c.enough <= first
            words = f"{int(first):,} {c.unit} are enough" if few else f"enough: about {c.amount} →"
            style.note(ax, words, (0.98, 0.97), xycoords="axes fraction", ha="right", va="top", color=INK)

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


class EpochsDisplay:
    """How log-loss, and if given accuracy, moves while a model is trained: the paper's second figure.

    Past some epoch a network's accuracy still grows while its log-loss already suffers from over-confidence;
    calibrated, it need not be stopped early. The best epoch of each series is marked.

    Parameters
    ----------
    log_loss : dict of name to array-like of shape (n_epochs,)
    accuracy : dict of name to array-like of shape (n_epochs,), optional
        Drawn below.
    epochs : array-like of shape (n_epochs,), optional
        Increasing. None: 1, 2, ...

    Attributes
    ----------
    ax_ : matplotlib Axes
        Log-loss.
    accuracy_ax_ : matplotlib Axes or None
    figure_ : matplotlib Figure

    Examples
    --------
    >>> import matplotlib; matplotlib.use("Agg")
    >>> from calspline.display import EpochsDisplay
    >>> display = EpochsDisplay({"before": [0.6, 0.5, 0.7], "after": [0.5, 0.4, 0.35]}).plot()
    >>> display.ax_.get_xlabel()
    'epoch'
    """

    def __init__(self, log_loss: Any, *, accuracy: Any = None, epochs: Any = None) -> None:
        count = None
        if epochs is not None:
            epochs = check_increasing(epochs, "epochs", least=1)
            count = len(epochs)
        self.log_loss = _check_series(log_loss, "log_loss", count)
        count = len(next(iter(self.log_loss.values())))
        self.accuracy = None if accuracy is None else _check_series(accuracy, "accuracy", count)
        self.epochs: Array = np.arange(1.0, count + 1.0) if epochs is None else epochs

    @classmethod
    def from_predictions(
        cls,
        y: Any,
        probs: Any,
        *,
        sample_weight: Any = None,
        labels: Any = None,
        epochs: Any = None,
        accuracy: bool = True,
        ax: Axes | None = None,
    ) -> Self:
        """Compute and draw from the predictions of every epoch for the same rows.

        Parameters
        ----------
        y : array-like of shape (n,)
        probs : dict of name to list of probabilities, one entry an epoch
            Each entry as for :func:`evaluate`.
        sample_weight, labels
            As for :func:`evaluate`.
        epochs : array-like, optional
        accuracy : bool, default=True
        ax : matplotlib Axes, optional

        Returns
        -------
        EpochsDisplay
        """
        losses, right = {}, {}
        for name, each in check_by_name(probs, "probs", None).items():
            checked = [check_predictions(y, one, sample_weight, labels) for one in each]
            losses[name] = [np.average(row_log_losses(c.probs, c.codes), weights=c.weight) for c in checked]
            guesses = [c.probs > 0.5 if c.binary else c.probs.argmax(axis=1) for c in checked]
            right[name] = [np.average(g == c.codes, weights=c.weight) for g, c in zip(guesses, checked, strict=True)]
        return cls(losses, accuracy=right if accuracy else None, epochs=epochs).plot(ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw, in ``ax`` or a new figure, and return self."""
        has_accuracy = self.accuracy is not None
        self.ax_ = ax = get_axes(ax, style.SIDE + 0.6, 5.4 if has_accuracy else 4.2)
        self.figure_ = ax.figure
        self.accuracy_ax_ = add_strip_below(ax, ACCURACY_STRIP, 0.08) if has_accuracy else None
        styles = dict(zip(self.log_loss, style.series_styles(len(self.log_loss)), strict=True))
        self._draw_lines(ax, self.log_loss, styles, best=np.argmin)
        style.label_line_ends(ax, sorted((float(v[-1]), name, styles[name].color) for name, v in self.log_loss.items()))
        corner: dict[str, Any] = {"xycoords": "axes fraction", "ha": "right", "va": "top", "style": "italic"}
        style.note(ax, "marked: the best epoch", (0.98, 0.98), **corner)
        ax.set_ylabel("log-loss, nats per row")
        lowest = ax
        if self.accuracy is not None and self.accuracy_ax_ is not None:
            from matplotlib.ticker import FuncFormatter

            lowest = self.accuracy_ax_
            others = dict(zip(self.accuracy, style.series_styles(len(self.accuracy)), strict=True))
            self._draw_lines(lowest, self.accuracy, others | styles, best=np.argmax)
            lowest.yaxis.set_major_formatter(FuncFormatter(lambda p, _: percent(p)))
            lowest.set_ylabel("accuracy")
            ax.tick_params(labelbottom=False)
        lowest.set_xlabel("epoch")
        return self

    def _draw_lines(self, ax: Axes, series: dict[str, Array], styles: dict[str, SeriesStyle], *, best: Any) -> None:
        from matplotlib.ticker import MaxNLocator

        style.style_axes(ax)
        for i, (name, values) in enumerate(series.items()):
            own, at = styles[name], int(best(values))
            ax.plot(self.epochs, values, color=own.color, ls=own.dashes, lw=2.0, zorder=3, gid=f"line-{i}")
            point: dict[str, Any] = {"marker": own.marker, "ms": 8, "mec": "white", "mew": 1.0, "ls": "", "zorder": 4}
            ax.plot(self.epochs[at], values[at], color=own.color, gid=f"best-{i}", **point)
        ax.margins(x=0.02, y=0.1)
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))


def _check_series(given: Any, name: str, count: int | None = None) -> dict[str, Array]:
    """Check named series of finite numbers, all of one length."""
    if not isinstance(given, Mapping) or not given:
        raise TypeError(f'{name} must be a mapping such as {{"before": values}}; got {given!r}')
    out = {}
    for key, values in check_by_name(given, name, None).items():
        out[key] = array = check_numeric_array(values, f"{name}[{key!r}]")
        count = len(array) if count is None and array.ndim == 1 else count
        if array.ndim != 1 or len(array) != count or count == 0:
            raise ValueError(f"{name}[{key!r}] must be one number for each of {count} epochs; got shape {array.shape}")
    return out
