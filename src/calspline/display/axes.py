"""Room to draw in: a new figure, or the axes given, whole or divided."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from calspline.display.style import SIDE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PANEL = 2.4
"""Inches of one of several small diagrams."""
WIDEST = 6


def room(ax: Axes | None, width: float = SIDE, height: float = SIDE) -> Axes:
    """The axes given, or those of a new figure that pyplot knows and a notebook shows."""
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("pictures need matplotlib: pip install 'calspline[plot]'") from error
    _, ax = plt.subplots(figsize=(width, height), layout="constrained", facecolor="white")
    return ax


def strip_below(ax: Axes, share: float, gap: float = 0.05) -> Axes:
    """Give the lower ``share`` of an axes' room to a new one with the same x axis.

    The slot in the grid is divided, not the figure, so that it holds among other axes and
    under any layout.
    """
    figure, slot = ax.figure, ax.get_subplotspec()
    if slot is not None:
        parts = slot.subgridspec(2, 1, height_ratios=[1.0 - share, share], hspace=gap)
        ax.set_subplotspec(parts[0])
        below = figure.add_subplot(parts[1], sharex=ax)
    else:
        x, y, width, height = ax.get_position(original=True).bounds
        ax.set_position((x, y + height * (share + gap), width, height * (1.0 - share - gap)))
        below = figure.add_axes((x, y, width, height * share), sharex=ax)
    ax.tick_params(labelbottom=False)
    return below


@dataclass(frozen=True)
class Panels:
    """Small diagrams in rows: axes, the strips below them if wanted, and a place left over for a legend."""

    axes: list[Axes]
    strips: list[Axes] | None
    spare: Axes | None
    columns: int

    def is_first(self, i: int) -> bool:
        """Whether a diagram begins a row."""
        return i % self.columns == 0

    def is_lowest(self, i: int) -> bool:
        """Whether there is no diagram below."""
        return i + self.columns >= len(self.axes)

    def lowest(self, i: int) -> Axes:
        """The axes that bears the x axis of a diagram."""
        return self.axes[i] if self.strips is None else self.strips[i]

    def quieten(self, *, y: bool = True) -> None:
        """Take away the names of ticks and axes that a neighbour shows too.

        The x axis is named once, at the lower left: in narrow diagrams names would run into each other.
        """
        for i, ax in enumerate(self.axes):
            if y and not self.is_first(i):
                ax.set_ylabel("")
                ax.tick_params(labelleft=False)
            if not self.is_lowest(i):
                self.lowest(i).tick_params(labelbottom=False)
            if not (self.is_lowest(i) and self.is_first(i)):
                self.lowest(i).set_xlabel("")


def columns_for(count: int) -> int:
    """Columns that leave few places empty in a block rather wider than high."""

    def cost(columns: int) -> float:
        rows = -(-count // columns)
        return 1.5 * (rows * columns - count) + 2.0 * abs(columns / rows - 1.7)

    return min(range(1, min(count, WIDEST) + 1), key=cost)


def small_multiples(ax: Axes | None, count: int, strip: float | None = None) -> Panels:
    """Small diagrams in a new figure or in the room of the axes given, which goes blank.

    ``strip`` is the share of each that a strip below takes.
    """
    columns = columns_for(count)
    rows = -(-count // columns)
    ax = room(ax, PANEL * columns, PANEL * rows * (1.0 if strip is None else 1.15))
    slot = ax.get_subplotspec()
    if slot is None:
        raise ValueError("ax must be one of a figure's subplots to be divided into several")
    ax.set_axis_off()
    # One grid for all, so that every diagram has the same size.
    ratios = [1.0] * rows if strip is None else [1.0 - strip, strip] * rows
    parts, deep = slot.subgridspec(len(ratios), columns, height_ratios=ratios), len(ratios) // rows
    places = [(deep * (i // columns), i % columns) for i in range(rows * columns)]
    axes = [ax.figure.add_subplot(parts[place]) for place in places[:count]]
    strips = None
    if strip is not None:
        below = [(row + 1, column) for row, column in places[:count]]
        strips = [ax.figure.add_subplot(parts[place], sharex=one) for place, one in zip(below, axes, strict=True)]
    spare = None
    if count < len(places):
        spare = ax.figure.add_subplot(parts[places[count]])
        spare.set_axis_off()
    return Panels(axes, strips, spare, columns)
