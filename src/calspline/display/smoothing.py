"""``SmoothingDisplay``: how the smoothing was chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from calspline.arrays import Array
from calspline.display import style
from calspline.display.axes import get_panels
from calspline.display.style import BLUE, VERMILION
from calspline.fitting.smoothing import CRITERIA, EVIDENCE
from calspline.formatting import scientific

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure


class SmoothingPath(NamedTuple):
    """Values of lambda tried, increasing, what each scored, the one chosen, and the effective parameters it leaves."""

    name: str
    smoothing: Array
    criterion: Array
    chosen: float
    edf: float


class SmoothingDisplay:
    """The criterion that chooses the smoothing, against lambda; the chosen value is marked.

    To the left the curve may bend at will, to the right it is a line. Make one with :meth:`from_calibrator`.

    Parameters
    ----------
    paths : list of SmoothingPath
        One for two classes, else one for each class.
    label : str
        What the criterion is.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The first axes.
    axes_ : list of matplotlib Axes
    figure_ : matplotlib Figure

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

    ax_: Axes
    axes_: list[Axes]
    figure_: Figure | SubFigure

    def __init__(self, paths: list[SmoothingPath], *, label: str = "criterion") -> None:
        self.paths = paths
        self.label = label

    @classmethod
    def from_calibrator(cls, calibrator: Any, *, ax: Axes | None = None) -> Self:
        """Draw the ``smoothing_path_`` of a fitted :class:`SplineCalibrator`."""
        check_is_fitted(calibrator, "curves_")
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
        """Draw, in ``ax`` or a new figure; several paths divide it.

        Returns
        -------
        self
        """
        panels = get_panels(ax, len(self.paths), height=4.2)
        every = np.concatenate([one.smoothing for one in self.paths])
        for i, (one, own) in enumerate(zip(self.paths, panels.axes, strict=True)):
            self._draw(own, one, small=panels.small)
            own.set_xlim(every.min() / 3.0, every.max() * 3.0)
            if panels.small:
                style.title(own, style.class_title(one.name))
                own.set_ylabel(self.label if panels.is_first(i) else "")
        panels.hide_inner_labels(y=False)
        self.axes_, self.ax_, self.figure_ = panels.axes, panels.axes[0], panels.axes[0].figure
        return self

    def _draw(self, ax: Axes, one: SmoothingPath, *, small: bool) -> None:
        from matplotlib.ticker import LogLocator, NullLocator

        style.style_axes(ax)
        ax.set_xscale("log")
        ax.plot(one.smoothing, one.criterion, color=BLUE, lw=1.8, marker="o", ms=4, mec="white", mew=0.7, gid="path")
        if len(one.smoothing):
            at = int(np.argmin(np.abs(np.log(one.smoothing / one.chosen))))
            chosen = one.smoothing[at], one.criterion[at]
            ax.axvline(chosen[0], color=VERMILION, lw=1.0, ls=(0, (4, 3)), zorder=1.5, gid="chosen-line")
            ax.plot(*chosen, marker="D", ms=9, color=VERMILION, mec="white", mew=1.0, ls="", zorder=5, gid="chosen")
            words = f"λ = {scientific(one.chosen)}" + ("" if small else f"\n{one.edf:.1f} effective parameters")
            right = np.log(chosen[0] / one.smoothing[0]) > 0.6 * np.log(one.smoothing[-1] / one.smoothing[0])
            where = {"ha": "right" if right else "left", "va": "top", "color": VERMILION, "fontweight": "bold"}
            place = (chosen[0], 0.97)
            style.note(ax, words, place, offset=(-6 if right else 6, 0), xycoords=ax.get_xaxis_transform(), **where)
        ax.margins(y=0.12)
        ax.xaxis.set_major_locator(LogLocator(numticks=5 if small else 9))
        ax.xaxis.set_minor_locator(NullLocator())
        ax.set_xlabel("smoothing λ" if small else "smoothing λ   (left: free to bend, right: a straight line)")
        ax.set_ylabel(self.label if small else f"{self.label}   (lower is better)")


def _path(name: str, path: Any, chosen: float, edf: float) -> SmoothingPath:
    """A path in increasing order, without values that have no score."""
    smoothing, criterion = np.asarray(path["smoothing"], float), np.asarray(path["criterion"], float)
    known = np.isfinite(criterion) & np.isfinite(smoothing)
    order = np.argsort(smoothing[known])
    return SmoothingPath(name, smoothing[known][order], criterion[known][order], float(chosen), float(edf))
