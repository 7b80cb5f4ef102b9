"""Log-loss and accuracy while a model is trained: the paper's second figure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from calspline._arrays import Array
from calspline._formatting import percent
from calspline._input.options import check_by_name, check_increasing
from calspline._input.scores import check_numeric_array
from calspline.display import style
from calspline.display.style import (
    Display,
    SeriesStyle,
    add_strip_below,
    get_styled_axes,
)
from calspline.evaluation.losses import row_log_losses
from calspline.evaluation.predictions import check_predictions

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class EpochsDisplay(Display):
    """How log-loss, and if given accuracy, moves while a model is trained: the paper's second figure.

    Past some epoch a network's accuracy still grows while its log-loss already suffers
    from over-confidence; calibrated, it need not be stopped early. The best epoch of
    each series is marked.

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
    >>> from benchmarks.paper.epochs import EpochsDisplay
    >>> display = EpochsDisplay({"before": [0.6, 0.5, 0.7], "after": [0.5, 0.4, 0.35]}).plot()
    >>> display.ax_.get_xlabel()
    'epoch'
    """

    def __init__(
        self, log_loss: Any, *, accuracy: Any = None, epochs: Any = None
    ) -> None:
        count = None
        if epochs is not None:
            epochs = check_increasing(epochs, "epochs", least=1)
            count = len(epochs)
        self.log_loss = _check_series(log_loss, "log_loss", count)
        count = len(next(iter(self.log_loss.values())))
        self.accuracy = (
            None if accuracy is None else _check_series(accuracy, "accuracy", count)
        )
        self.epochs: Array = np.arange(1.0, count + 1.0) if epochs is None else epochs
        self._height = 4.2 if accuracy is None else 5.4

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
            losses[name] = [
                np.average(row_log_losses(c.probs, c.codes), weights=c.weight)
                for c in checked
            ]
            guesses = [
                c.probs > 0.5 if c.binary else c.probs.argmax(axis=1) for c in checked
            ]
            right[name] = [
                np.average(g == c.codes, weights=c.weight)
                for g, c in zip(guesses, checked, strict=True)
            ]
        return cls(losses, accuracy=right if accuracy else None, epochs=epochs).plot(ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw, into ``ax`` or a new figure, and return self."""
        self.ax_ = get_styled_axes(ax, style.SIDE + 0.6, self._height)
        self.figure_ = self.ax_.figure
        self._draw(self.ax_)
        return self

    def _draw(self, ax: Axes) -> None:
        from matplotlib.ticker import FuncFormatter

        styles = dict(
            zip(self.log_loss, style.series_styles(len(self.log_loss)), strict=True)
        )
        self._draw_lines(ax, self.log_loss, styles, best=np.argmin)
        style.label_line_ends(
            ax,
            sorted(
                (float(v[-1]), name, styles[name].color)
                for name, v in self.log_loss.items()
            ),
        )
        corner: dict[str, Any] = {
            "xycoords": "axes fraction",
            "ha": "right",
            "va": "top",
            "style": "italic",
        }
        style.label(ax, "marked: the best epoch", (0.98, 0.98), **corner)
        ax.set_ylabel("log-loss, nats per row")
        self.accuracy_ax_ = None
        if self.accuracy is not None:
            self.accuracy_ax_ = below = add_strip_below(ax, 0.34, 0.08)
            others = dict(
                zip(self.accuracy, style.series_styles(len(self.accuracy)), strict=True)
            )
            self._draw_lines(below, self.accuracy, others | styles, best=np.argmax)
            below.yaxis.set_major_formatter(FuncFormatter(lambda p, _: percent(p)))
            below.set_ylabel("accuracy")
        (self.accuracy_ax_ or ax).set_xlabel("epoch")

    def _draw_lines(
        self,
        ax: Axes,
        series: dict[str, Array],
        styles: dict[str, SeriesStyle],
        *,
        best: Any,
    ) -> None:
        from matplotlib.ticker import MaxNLocator

        for i, (name, values) in enumerate(series.items()):
            own, at = styles[name], int(best(values))
            ax.plot(
                self.epochs,
                values,
                color=own.color,
                ls=own.dashes,
                lw=2.0,
                zorder=3,
                gid=f"line-{i}",
            )
            point: dict[str, Any] = {
                "marker": own.marker,
                "ms": 8,
                "mec": "white",
                "mew": 1.0,
                "ls": "",
                "zorder": 4,
            }
            ax.plot(
                self.epochs[at], values[at], color=own.color, gid=f"best-{i}", **point
            )
        ax.margins(x=0.02, y=0.1)
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))


def _check_series(given: Any, name: str, count: int | None = None) -> dict[str, Array]:
    """Check named series of finite numbers, all of one length."""
    if not isinstance(given, Mapping) or not given:
        raise TypeError(
            f'{name} must be a mapping such as {{"before": values}}; got {given!r}'
        )
    out = {}
    for key, values in check_by_name(given, name, None).items():
        out[key] = array = check_numeric_array(values, f"{name}[{key!r}]")
        count = len(array) if count is None and array.ndim == 1 else count
        if array.ndim != 1 or len(array) != count or count == 0:
            raise ValueError(
                f"{name}[{key!r}] must be one number for each of {count} epochs; got shape {array.shape}"
            )
    return out
