"""The style of the pictures, set on one axes at a time: nothing global is touched.

Colours are those of Okabe and Ito, chosen to differ for every kind of colour vision, in an
order that keeps neighbours apart; yellow is left out, as it vanishes on white. Series also differ by marker and
dashes, so that a grey print can be read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.optimize import isotonic_regression

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.text import Text

INK, MUTED, RULE, GRID = "#1b2733", "#5b6875", "#aab4be", "#e8ecf0"
BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY = "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"

MARKERS = ("o", "s", "D", "^", "v", "P")
EVEN_AREA = {"s": 0.8, "D": 0.65, "P": 1.2, "^": 1.1, "v": 1.1}
"""What makes markers of one nominal size look equally large."""
DASHES = ("-", (0, (5, 2)), (0, (1.2, 1.6)), (0, (6, 2, 1.2, 2)), (0, (3, 1.5)), (0, (8, 2, 1.2, 2, 1.2, 2)))

TEXT, SMALL = 10.0, 9.0
LINE = 0.055
"""Share of an axes' height that a line of text takes."""
SIDE = 6.0
"""Inches of a figure of our own: notebook size."""
PREDICTED, OBSERVED = "what the model says", "what happened"


class SeriesStyle(NamedTuple):
    """How a series is told from the others."""

    color: str
    marker: str
    dashes: Any


def series_styles(count: int, colors: Any = None) -> list[SeriesStyle]:
    """Styles that tell ``count`` series apart.

    One alone is blue. Of several the first is vermilion and the second blue: what was
    before, and what is better.
    """
    several = (VERMILION, BLUE, GREEN, PURPLE, ORANGE, SKY)
    order = tuple(colors) if colors is not None else (BLUE,) if count == 1 else several
    dashes = DASHES if count == 1 else (DASHES[1], DASHES[0], *DASHES[2:])
    return [
        SeriesStyle(order[i % len(order)], MARKERS[i % len(MARKERS)], dashes[(i + i // len(order)) % len(dashes)])
        for i in range(count)
    ]


def curve_styles(count: int) -> list[SeriesStyle]:
    """Styles of functions laid over points: ink first, then colours that the points do not have."""
    order = (INK, GREEN, PURPLE, ORANGE, SKY, MUTED)
    return [SeriesStyle(order[i % len(order)], "", DASHES[i % len(DASHES)]) for i in range(count)]


def style_axes(ax: Axes) -> None:
    """Give an axes two light spines, a light grid behind, small ticks and one colour of text."""
    ax.set_facecolor("white")
    ax.set_axisbelow(True)
    ax.grid(visible=True, which="major", color=GRID, linewidth=0.8, linestyle="-")
    ax.grid(visible=False, which="minor")
    for side, spine in ax.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(RULE)
        spine.set_linewidth(0.8)
    ax.tick_params(which="major", color=RULE, labelcolor=MUTED, labelsize=SMALL, length=3, width=0.8)
    ax.tick_params(which="minor", length=0)
    for label in (ax.xaxis.label, ax.yaxis.label):
        label.set_color(INK)
        label.set_fontsize(TEXT)


def title(ax: Axes, text: str) -> Text:
    """A title at the left, shown literally: no name is read as mathematics."""
    return ax.set_title(text, loc="left", fontsize=TEXT + 1, fontweight="bold", color=INK, pad=8, parse_math=False)


def class_title(name: str) -> str:
    """A label fit to stand above a small diagram: a bare number says too little."""
    return f"class {name}" if name.isdigit() else name


def note(ax: Axes, text: str, at: tuple[float, float], *, offset: tuple[float, float] = (0.0, 0.0), **more: Any) -> Any:
    """A label next to what it names, in place of a legend; ``offset`` is in points."""
    options: dict[str, Any] = {"color": MUTED, "fontsize": SMALL, "parse_math": False, "annotation_clip": False} | more
    return ax.annotate(text, at, xytext=offset, textcoords="offset points", **options)


def label_line_ends(ax: Axes, ends: list[tuple[float, str, str]], lines: int = 1) -> None:
    """Write names (value, name, color; in order of value) to the right of lines, apart where they would overlap."""
    low, high = ax.get_ylim()
    steps = LINE * lines * np.arange(len(ends))
    wanted = np.array([(value - low) / (high - low) for value, _, _ in ends])
    # The nearest places that keep a line of text between neighbours.
    places = isotonic_regression(wanted - steps).x + steps
    for place, (_, name, color) in zip(places, ends, strict=True):
        where = {"xycoords": "axes fraction", "va": "center", "fontweight": "bold", "fontsize": TEXT, "color": color}
        note(ax, name, (1.0, float(place)), offset=(6, 0), **where)


def legend(ax: Axes, handles: list[Any], names: list[str], **more: Any) -> Any:
    """A legend without a box, whose names are shown literally.

    Names go in after the legend is made: matplotlib drops a label that begins with an
    underscore and reads dollars as mathematics.
    """
    options: dict[str, Any] = {
        "loc": "upper left",
        "fontsize": SMALL,
        "frameon": True,
        "facecolor": "white",
        "edgecolor": "none",
        "framealpha": 0.85,
        "borderaxespad": 0.3,
        "handlelength": 2.2,
    } | more
    made = ax.legend(handles, [f"series {i}" for i in range(len(names))], **options)
    for text, name in zip(made.get_texts(), names, strict=True):
        text.set_parse_math(False)
        text.set_text(name)
        text.set_color(INK)
    return made
