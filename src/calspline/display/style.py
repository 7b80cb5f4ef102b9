"""Shared style of all plots: series, axes, panels and scales of probabilities.

The style is applied to individual axes; nothing global is changed. Colors are those of
Okabe and Ito, which are safe for color blindness, without yellow. Series also differ by
marker and dashes, so that plots can be read in gray.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from scipy.optimize import isotonic_regression
from scipy.special import expit, logit

from calspline._arrays import Array
from calspline._formatting import percent
from calspline.evaluation.reliability import probability_grid

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

INK, MUTED, RULE, GRID = "#1b2733", "#5b6875", "#aab4be", "#e8ecf0"
BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#cc79a7",
    "#e69f00",
    "#56b4e9",
)

MARKERS = ("o", "s", "D", "^", "v", "P")
"""Of several sets, the first two have circles: open, as of raw scores, and filled."""
EVEN_AREA = {"s": 0.8, "D": 0.65, "P": 1.2, "^": 1.1, "v": 1.1}
"""Factors that make markers of one nominal size look equally large."""
DASHES = (
    "-",
    (0, (5, 2)),
    (0, (1.2, 1.6)),
    (0, (6, 2, 1.2, 2)),
    (0, (3, 1.5)),
    (0, (8, 2, 1.2, 2, 1.2, 2)),
)

TEXT, SMALL = 10.0, 9.0
SIDE = 6.0
"""Side of our own figures, in inches."""
PREDICTED, OBSERVED = "predicted probability", "observed frequency"

PANEL = 2.4
"""Side of a small diagram, in inches."""

Scale = Literal["probability", "logit"]

SCALES = ("probability", "logit")
MIN_DECADES, MAX_DECADES = 3, 6
"""Number of decades from 0 and from 1 that a log-odds axis shows."""


class SeriesStyle(NamedTuple):
    """Style of a series."""

    color: str
    marker: str
    dashes: Any
    is_open: bool = False

    @property
    def fill(self) -> str:
        """Color inside markers."""
        return "white" if self.is_open else self.color

    @property
    def edge(self) -> str:
        """Color of the edges of markers."""
        return self.color if self.is_open else "white"


def series_styles(count: int, colors: Any = None) -> list[SeriesStyle]:
    """Styles of series: blue for a single one; otherwise vermilion, blue, ...

    Markers and colors of two sets are those of the report: open, then filled circles.
    """
    order: Sequence[Any] = (BLUE,)
    dashes: Sequence[Any] = DASHES
    markers: Sequence[str] = MARKERS
    if count > 1:
        order = (VERMILION, BLUE, GREEN, PURPLE, ORANGE, SKY)
        dashes = (DASHES[1], DASHES[0], *DASHES[2:])
        markers = (MARKERS[0], *MARKERS)
    if colors is not None:
        order = tuple(colors)
    styles = []
    for i in range(count):
        # After all colors, the dashes move on, so that no two styles are equal.
        dash = dashes[(i + i // len(order)) % len(dashes)]
        marker = markers[i % len(markers)]
        is_open = count > 1 and i == 0
        styles.append(SeriesStyle(order[i % len(order)], marker, dash, is_open=is_open))
    return styles


def curve_styles(count: int) -> list[SeriesStyle]:
    """Styles of functions over points: black first, then colors not used by points."""
    order = (INK, GREEN, PURPLE, ORANGE, SKY, MUTED)
    return [
        SeriesStyle(order[i % len(order)], "", DASHES[i % len(DASHES)])
        for i in range(count)
    ]


def style_axes(ax: Axes) -> None:
    """Apply our spines, grid, ticks and colors to axes."""
    ax.set_facecolor("white")
    ax.set_axisbelow(True)
    ax.grid(visible=True, which="major", color=GRID, linewidth=0.8, linestyle="-")
    ax.grid(visible=False, which="minor")
    for side, spine in ax.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(RULE)
        spine.set_linewidth(0.8)
    ax.tick_params(
        which="major",
        color=RULE,
        labelcolor=MUTED,
        labelsize=SMALL,
        length=3,
        width=0.8,
    )
    ax.tick_params(which="minor", length=0)
    for label in (ax.xaxis.label, ax.yaxis.label):
        label.set_color(INK)
        label.set_fontsize(TEXT)


def title(ax: Axes, text: str) -> Any:
    """Add a title at the left, without interpreting it as mathematics."""
    return ax.set_title(
        text,
        loc="left",
        fontsize=TEXT + 1,
        fontweight="bold",
        color=INK,
        pad=8,
        parse_math=False,
    )


def class_title(ax: Axes, name: str) -> None:
    """Title for the diagram of a class; a bare number would be unclear."""
    title(ax, f"class {name}" if name.isdigit() else name)


def label(
    ax: Axes,
    text: str,
    at: tuple[float, float],
    *,
    offset: tuple[float, float] = (0.0, 0.0),
    **more: Any,
) -> Any:
    """Add a label next to an element; ``offset`` is in points."""
    options: dict[str, Any] = {
        "color": MUTED,
        "fontsize": SMALL,
        "parse_math": False,
        "annotation_clip": False,
    } | more
    return ax.annotate(text, at, xytext=offset, textcoords="offset points", **options)


def label_line_ends(
    ax: Axes, ends: list[tuple[float, str, str]], lines: int = 1
) -> None:
    """Write names at the right ends of lines, without overlaps.

    Names are tuples (value, name, color), in order of value.
    """
    low, high = ax.get_ylim()
    steps = 0.055 * lines * np.arange(len(ends))
    wanted = np.array([(value - low) / (high - low) for value, _, _ in ends])
    # The nearest places that keep a line of text, 0.055 of the height, between
    # neighbors.
    places = isotonic_regression(wanted - steps).x + steps
    for place, (_, name, color) in zip(places, ends, strict=True):
        where = {
            "xycoords": "axes fraction",
            "va": "center",
            "fontweight": "bold",
            "fontsize": TEXT,
            "color": color,
        }
        label(ax, name, (1.0, float(place)), offset=(6, 0), **where)


def legend(ax: Axes, entries: list[tuple[Any, str]], loc: str = "upper left") -> Any:
    """Add a legend without a box, whose names are shown literally.

    Names are set after the legend is created, since matplotlib drops labels that begin
    with an underscore and interprets dollars as mathematics.
    """
    handles, names = zip(*entries, strict=True)
    box: dict[str, Any] = {
        "frameon": True,
        "facecolor": "white",
        "edgecolor": "none",
        "framealpha": 0.85,
    }
    sizes: dict[str, Any] = {
        "fontsize": SMALL,
        "borderaxespad": 0.3,
        "handlelength": 2.2,
    }
    made = ax.legend(
        handles, [f"series {i}" for i in range(len(names))], loc=loc, **box, **sizes
    )
    for text, name in zip(made.get_texts(), names, strict=True):
        text.set_parse_math(False)
        text.set_text(name)
        text.set_color(INK)
    return made


def get_axes(ax: Axes | None, width: float = SIDE, height: float = SIDE) -> Axes:
    """Return the given axes, or those of a new figure."""
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            "plots need matplotlib: pip install 'calspline[plot]'"
        ) from error
    _, ax = plt.subplots(
        figsize=(width, height), layout="constrained", facecolor="white"
    )
    return ax


def get_styled_axes(ax: Axes | None, width: float, height: float) -> Axes:
    """Return the given axes or those of a new figure, with our style."""
    ax = get_axes(ax, width, height)
    style_axes(ax)
    return ax


def add_strip_below(ax: Axes, share: float, gap: float = 0.05) -> Axes:
    """Add axes below the given ones that share their x axis.

    They get the lower ``share`` of the slot in the grid, if there is one.
    """
    figure = ax.figure
    slot = ax.get_subplotspec()
    if slot is not None:
        parts = slot.subgridspec(2, 1, height_ratios=[1.0 - share, share], hspace=gap)
        ax.set_subplotspec(parts[0])
        below = figure.add_subplot(parts[1], sharex=ax)
    else:
        x, y, width, height = ax.get_position(original=True).bounds
        ax.set_position(
            (x, y + height * (share + gap), width, height * (1.0 - share - gap))
        )
        below = figure.add_axes((x, y, width, height * share), sharex=ax)
    style_axes(below)
    ax.tick_params(labelbottom=False)
    return below


class Display:
    """Data that ``plot`` draws."""

    ax_: Axes
    """Axes of the plot, or the first of several."""
    figure_: Figure | SubFigure
    """Figure of the axes."""


class Panels(NamedTuple):
    """Axes of one diagram or of several, their strips, and axes for the legend."""

    axes: list[Axes]
    columns: int = 1
    small: bool = False
    strips: list[Axes] | None = None
    spare: Axes | None = None

    def hide_inner_labels(self, *, y_ticks: bool = True) -> None:
        """Hide labels of ticks and axes that a neighbor shows too.

        The x axis is named once, at the lower left; in narrow diagrams, names would
        overlap.
        """
        for i, (ax, lowest) in enumerate(
            zip(self.axes, self.strips or self.axes, strict=True)
        ):
            first_in_row = i % self.columns == 0
            in_last_row = i + self.columns >= len(self.axes)
            if not first_in_row:
                ax.set_ylabel("")
                ax.tick_params(labelleft=not y_ticks)
            if not in_last_row:
                lowest.tick_params(labelbottom=False)
            if not (in_last_row and first_in_row):
                lowest.set_xlabel("")


def columns_for(count: int) -> int:
    """Number of columns of a block of panels that is wider than high."""

    def cost(columns: int) -> float:
        rows = -(-count // columns)
        return 1.5 * (rows * columns - count) + 2.0 * abs(columns / rows - 1.7)

    return min(range(1, min(count, 6) + 1), key=cost)


def get_panels(ax: Axes | None, count: int, height: float = SIDE) -> Panels:
    """Use the given axes for one diagram, or create small ones for several."""
    if count == 1:
        return Panels([get_axes(ax, height=height)])
    return small_multiples(ax, count)


def small_multiples(ax: Axes | None, count: int, strip: float | None = None) -> Panels:
    """Create small diagrams with strips, in a new figure or in place of axes."""
    columns = columns_for(count)
    rows = -(-count // columns)
    ax = get_axes(ax, PANEL * columns, PANEL * rows * (1.0 if strip is None else 1.15))
    figure = ax.figure
    slot = ax.get_subplotspec()
    if slot is None:
        raise ValueError(
            "ax must be one of a figure's subplots to be divided into several"
        )
    ax.set_axis_off()
    # One grid for all, so that every diagram has the same size.
    ratios = [1.0] * rows if strip is None else [1.0 - strip, strip] * rows
    parts = slot.subgridspec(len(ratios), columns, height_ratios=ratios)
    per_row = len(ratios) // rows
    axes = [
        figure.add_subplot(parts[per_row * (i // columns), i % columns])
        for i in range(count)
    ]
    strips = spare = None
    if strip is not None:
        below = [parts[per_row * (i // columns) + 1, i % columns] for i in range(count)]
        strips = [
            figure.add_subplot(place, sharex=one)
            for place, one in zip(below, axes, strict=True)
        ]
    if count < rows * columns:
        spare = figure.add_subplot(parts[per_row * (rows - 1), count % columns])
        spare.set_axis_off()
    return Panels(axes, columns, True, strips, spare)


def decades(smallest: Array) -> int:
    """Number of decades to show so that the smallest probability is inside."""
    least = float(np.min(smallest, initial=1.0))
    return int(
        np.clip(np.ceil(-np.log10(max(least, 1e-300)) - 1e-9), MIN_DECADES, MAX_DECADES)
    )


def ticks(low: float, high: float) -> Array:
    """Ticks 0.1%, 1%, 10%, 50%, 90%, ... between two limits, or every other one."""
    tails = 10.0 ** -np.arange(MAX_DECADES, 0, -1.0)
    values = np.concatenate([tails, [0.5], 1.0 - tails[::-1]])
    shown = (values >= low * (1.0 - 1e-9)) & (values <= high + 1e-12)
    if shown.sum() > 9:
        # Every other decade, counted from the middle.
        shown &= (MAX_DECADES - np.arange(len(values))) % 2 == 0
    return np.asarray(values[shown])


class ProbabilityScale:
    """Limits, ticks and positions of probabilities on an axis.

    The limits are the smallest and the largest probability shown. On the log-odds
    scale, probabilities beyond are drawn at the limit, which is then marked with ≤ or
    ≥.
    """

    def __init__(self, scale: Scale, limits: tuple[float, float]) -> None:
        self.logit = scale == "logit"
        self.low, self.high = limits

    def clip(self, p: Array) -> Array:
        """Positions at which probabilities are drawn."""
        return np.asarray(np.clip(p, self.low, self.high) if self.logit else p)

    def beyond(self, probabilities: list[Array]) -> tuple[bool, bool]:
        """Whether probabilities lie below or above the limits."""
        values = np.concatenate(probabilities)
        return bool(values.min() < self.low), bool(values.max() > self.high)

    def cut(self, x: Array, *ys: Array) -> tuple[Array, ...]:
        """The visible part of lines over increasing ``x``, with interpolated ends."""
        ends = [end for end in (self.low, self.high) if x[0] < end < x[-1]]
        within = x[(x >= self.low) & (x <= self.high)]
        at = np.unique(np.concatenate([within, ends])) if ends else within
        return (at, *(np.interp(at, x, y) for y in ys))

    def grid(self, count: int = 201) -> Array:
        """Grid of probabilities, even on both scales, without 0 and 1."""
        return probability_grid(max(self.low, 1e-6), min(self.high, 1.0 - 1e-6), count)

    def view_limits(self) -> tuple[float, float]:
        """Limits of the axis, slightly wider than those of the probabilities."""
        low, high = (
            (logit(self.low), logit(self.high)) if self.logit else (self.low, self.high)
        )
        margin = 0.03 * (high - low)
        ends = low - margin, high + margin
        return (float(expit(ends[0])), float(expit(ends[1]))) if self.logit else ends

    def apply(
        self,
        ax: Axes,
        which: Literal["x", "y"],
        *,
        beyond: tuple[bool, bool] = (False, False),
        few: bool = False,
    ) -> None:
        """Set scale, limits and ticks of the x or the y axis.

        ``beyond`` states whether probabilities lie below or above the limits; ``few``
        keeps ticks only at the ends and in the middle.
        """
        from matplotlib.ticker import (
            FixedFormatter,
            FixedLocator,
            FuncFormatter,
            MaxNLocator,
            NullLocator,
        )

        axis: Any = ax.xaxis if which == "x" else ax.yaxis
        set_scale = ax.set_xscale if which == "x" else ax.set_yscale
        if self.logit:
            set_scale("logit", nonpositive="clip")
            places = ticks(self.low, self.high)
            if few:
                places = places[[0, len(places) // 2, -1]]
            names = [percent(float(p)) for p in places]
            if beyond[0] and np.isclose(places[0], self.low):
                names[0] = f"≤{names[0]}"
            if beyond[1] and np.isclose(places[-1], self.high):
                names[-1] = f"≥{names[-1]}"
            axis.set_major_locator(FixedLocator(places.tolist()))
            axis.set_major_formatter(FixedFormatter(names))
        else:
            set_scale("linear")
            whole = (self.low, self.high) == (0.0, 1.0)
            steps = 2 if few else 5
            even = FixedLocator(np.linspace(0.0, 1.0, steps + 1).tolist())
            axis.set_major_locator(even if whole else MaxNLocator(steps))
            axis.set_major_formatter(FuncFormatter(lambda p, _: percent(p)))
        axis.set_minor_locator(NullLocator())
        ax.set(**{f"{which}lim": self.view_limits()})
