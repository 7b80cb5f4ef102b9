"""Pictures of results: net benefit by threshold, segments one by one, the evidence of a monitor, epochs of training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from calspline.arrays import Array
from calspline.display import style
from calspline.display.style import BLUE, INK, MUTED, RULE, VERMILION, AxesDisplay, SeriesStyle, add_strip_below
from calspline.evaluation.decisions import ALL, Decision
from calspline.evaluation.losses import row_log_losses
from calspline.evaluation.predictions import check_predictions
from calspline.evaluation.segments import SegmentEvaluation
from calspline.formatting import percent
from calspline.options import check_by_name, check_increasing
from calspline.scores import check_numeric_array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from calspline.monitoring.monitor import Monitor


class DecisionDisplay(AxesDisplay):
    """Decision curves: the net benefit of each set of predictions, with its band, against the threshold.

    To act on all rows and on none are drawn in grey. With costs, the threshold that follows from them is marked.

    Parameters
    ----------
    decision : Decision
        What :func:`decide` returns.

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

    def _draw(self, ax: Axes) -> None:
        from matplotlib.ticker import FuncFormatter

        found = self.decision
        t, sets = found.thresholds, [name for name in found.net_benefit if name != ALL]
        ax.axhline(0.0, color=RULE, lw=1.1, zorder=1.5, gid="none")
        all_rows = ax.plot(t, found.net_benefit[ALL].value, color=MUTED, lw=1.1, ls=(0, (4, 2)), zorder=2, gid="all")
        entries = []
        for i, (name, look) in enumerate(zip(sets, style.series_styles(len(sets)), strict=True)):
            band = found.net_benefit[name]
            ax.fill_between(t, band.lower, band.upper, color=look.color, alpha=0.16, lw=0, zorder=2, gid=f"band-{i}")
            drawn = ax.plot(t, band.value, color=look.color, lw=2.0, ls=look.dashes, zorder=4, gid=f"net-benefit-{i}")
            entries.append((drawn[0], name))
        if found.costs is not None:
            ax.axvline(found.costs.threshold, color=INK, lw=1.0, ls=(0, (1.2, 1.6)), zorder=3, gid="costs")
        # Bands are wide at high thresholds, where a false alarm costs as much as many events, and acting on all rows
        # falls without end.
        top = max(1e-3, *(float(np.max(found.net_benefit[name].value)) for name in sets))
        ax.set_ylim(-0.25 * top, 1.2 * top)
        ax.set_xlim(0.0, min(1.0, float(t[-1]) * 1.02))
        ax.xaxis.set_major_formatter(FuncFormatter(lambda p, _: percent(round(p, 6))))
        ax.set_xlabel("threshold: act from this probability on")
        ax.set_ylabel("net benefit (events found per row)")
        style.legend(ax, [*entries, (all_rows[0], ALL)], "upper right")


class SegmentDisplay(AxesDisplay):
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
        first = next(iter(self.segments.values()))
        self.places_ = sorted(first.order[:30], key=lambda i: float(first.table["ratio"][i]))
        self._size = style.SIDE + 0.6, 1.4 + 0.28 * len(self.places_)

    def _draw(self, ax: Axes) -> None:
        from matplotlib.lines import Line2D
        from matplotlib.ticker import FuncFormatter, NullFormatter

        places, names = self.places_, next(iter(self.segments.values())).names
        ax.axvline(1.0, color=RULE, lw=1.1, zorder=1.5, gid="right")
        looks = style.series_styles(len(self.segments))
        entries, largest = [], 1.0
        for k, ((name, found), look) in enumerate(zip(self.segments.items(), looks, strict=True)):
            t = {key: np.asarray(found.table[key])[places] for key in ("ratio", "lower", "upper", "rows", "off")}
            y = np.arange(len(places)) + 0.3 * (0.5 * (len(self.segments) - 1) - k)
            low, high = (np.maximum(t[key], 1e-3) for key in ("lower", "upper"))
            ax.hlines(y, low, high, color=look.color, lw=1.4, zorder=3, gid=f"interval-{k}")
            area = np.maximum(8.0, 80.0 * t["rows"] / found.table["rows"].max())
            fill = [look.color if off else "white" for off in t["off"]]
            ratio = np.maximum(t["ratio"], 1e-3)
            ax.scatter(ratio, y, s=area, c=fill, edgecolors=look.color, lw=1.4, zorder=4, gid=f"ratio-{k}")
            largest = max(largest, float(np.exp(np.abs(np.log(ratio))).max()))
            entries.append((Line2D([], [], color=look.color, marker="o", lw=1.4), name))
        reach = float(np.clip(1.3 * largest, 1.25, 8.0))
        ax.set_xscale("log")
        ax.set_xlim(1.0 / reach, reach)
        ax.set_xticks([t for t in (0.125, 0.25, 0.5, 0.8, 1.0, 1.25, 2.0, 4.0, 8.0) if 1.0 / reach <= t <= reach])
        ax.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
        ax.xaxis.set_minor_formatter(NullFormatter())
        # A dollar sign would begin a formula.
        ax.set_yticks(range(len(places)), [names[i].replace("$", r"\$") for i in places])
        ax.set_ylim(-0.8, len(places) - 0.2)
        ax.set_xlabel("happened / said")
        if len(entries) > 1:
            style.legend(ax, entries, "lower right")


class MonitorDisplay(AxesDisplay):
    """The evidence that a calibrator is wrong, update by update, and below it what was expected and what happened.

    Parameters
    ----------
    monitor : Monitor

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

    _size = style.SIDE + 1.2, 4.8

    def __init__(self, monitor: Monitor) -> None:
        if not monitor.log:
            raise ValueError("monitor must have had an update; there is nothing to draw")
        self.monitor = monitor

    def _draw(self, ax: Axes) -> None:
        from matplotlib.ticker import MaxNLocator

        log, below = self.monitor.log, add_strip_below(ax, 0.36)
        n = np.arange(1, len(log) + 1)
        evidence = np.clip([entry["evidence"] for entry in log], 1e-6, 1e12)
        ax.set_yscale("log")
        limit = 1.0 / self.monitor.alpha
        ax.axhline(limit, color=VERMILION, lw=1.2, ls=(0, (5, 2)), gid="limit")
        style.label(ax, f"alarm from {limit:g} on", (float(n[0]), limit), offset=(0, 4))
        ax.plot(n, evidence, color=BLUE, lw=2.0, gid="evidence")
        alarms = np.array([entry["alarm"] for entry in log])
        if alarms.any():
            ax.plot(n[alarms.argmax()], evidence[alarms.argmax()], "o", color=VERMILION, ms=7, gid="alarm")
        ax.set_ylabel("evidence")
        ax.set_ylim(min(float(evidence.min()) / 2.0, 0.1), max(float(evidence.max()), limit) * 3.0)
        rates = [[entry[key] for entry in log] for key in ("expected_rate", "rate")]
        (expected,) = below.plot(n, rates[0], color=MUTED, lw=1.4, ls=(0, (4, 2)), gid="expected")
        (happened,) = below.plot(n, rates[1], color=BLUE, lw=1.4, gid="rate")
        below.set_ylabel("rate")
        below.set_xlabel("update")
        below.xaxis.set_major_locator(MaxNLocator(integer=True))
        style.legend(below, [(expected, "expected"), (happened, "happened")], "best")


class EpochsDisplay(AxesDisplay):
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
    accuracy_ax_ : matplotlib Axes or None

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
        self._size = style.SIDE + 0.6, 4.2 if accuracy is None else 5.4

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

    def _draw(self, ax: Axes) -> None:
        from matplotlib.ticker import FuncFormatter

        styles = dict(zip(self.log_loss, style.series_styles(len(self.log_loss)), strict=True))
        self._draw_lines(ax, self.log_loss, styles, best=np.argmin)
        style.label_line_ends(ax, sorted((float(v[-1]), name, styles[name].color) for name, v in self.log_loss.items()))
        corner: dict[str, Any] = {"xycoords": "axes fraction", "ha": "right", "va": "top", "style": "italic"}
        style.label(ax, "marked: the best epoch", (0.98, 0.98), **corner)
        ax.set_ylabel("log-loss, nats per row")
        self.accuracy_ax_ = None
        if self.accuracy is not None:
            self.accuracy_ax_ = below = add_strip_below(ax, 0.34, 0.08)
            others = dict(zip(self.accuracy, style.series_styles(len(self.accuracy)), strict=True))
            self._draw_lines(below, self.accuracy, others | styles, best=np.argmax)
            below.yaxis.set_major_formatter(FuncFormatter(lambda p, _: percent(p)))
            below.set_ylabel("accuracy")
        (self.accuracy_ax_ or ax).set_xlabel("epoch")

    def _draw_lines(self, ax: Axes, series: dict[str, Array], styles: dict[str, SeriesStyle], *, best: Any) -> None:
        from matplotlib.ticker import MaxNLocator

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
