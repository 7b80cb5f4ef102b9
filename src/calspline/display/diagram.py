"""One reliability diagram on one axes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import logit

from calspline.arrays import Array
from calspline.display import style
from calspline.display.probability_axis import ProbabilityScale
from calspline.display.score_cells import Cells
from calspline.display.style import HAPPENED, INK, MUTED, RULE, SAYS, Look
from calspline.evaluation.reliability import Reliability

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MIN_AREA, AREA = 16.0, 330.0
"""Square points of a point: without rows, and with all of them."""
FAINT = "#94a0ab"
CORP_DASHES = (0, (1.0, 0.8))
LINE, WIDTH = 0.048, 0.36
"""Share of the height and of the width that a line of a legend or note takes."""


@dataclass(frozen=True)
class Parts:
    """What is drawn."""

    bins: bool
    corp: bool
    spline: bool
    legend: bool
    small: bool

    def only_legend_if(self, wanted: bool) -> Parts:
        """Without the legend, unless wanted."""
        return replace(self, legend=self.legend and wanted)


@dataclass(frozen=True, eq=False)
class Series:
    """A set of predictions: its name, numbers, spread and look."""

    name: str
    data: Reliability
    cells: Cells
    look: Look


@dataclass(frozen=True, eq=False)
class Diagram:
    """Sets of predictions and functions of the score (name, scores, values, look) in one picture.

    Artists carry a ``gid`` that says what they are, such as ``points-0``, which an SVG keeps.
    """

    series: list[Series]
    curves: list[tuple[str, Array, Array, Look]]
    axis: ProbabilityScale
    parts: Parts

    def draw(self, ax: Axes, strip: Axes | None, legend_ax: Axes | None = None) -> None:
        """Draw the diagram, in ``strip`` how the probabilities spread, and in ``legend_ax`` the legend."""
        style.dress(ax)
        self._diagonal(ax)
        for i, one in enumerate(self.series):
            if self.parts.corp:
                self._corp(ax, one, i)
            if self.parts.spline and one.data.spline is not None:
                self._spline(ax, one, i)
            if self.parts.bins:
                self._bins(ax, one, i)
        for i, (_, score, value, look) in enumerate(self.curves):
            x, y = self.axis.cut(score, value)
            ax.plot(x, y, color=look.colour, ls=look.dashes, lw=1.8, zorder=4, gid=f"function-{i}")
        said = self.axis.beyond([one.data.bins.mean_score for one in self.series])
        happened = self.axis.beyond([one.data.bins.observed for one in self.series])
        self.axis.put_on(ax, beyond=said, y=False, few=self.parts.small)
        self.axis.put_on(ax, beyond=happened, x=False, few=self.parts.small)
        ax.set_ylabel(self._happened(), parse_math=False)
        lowest = ax
        if strip is not None:
            self._spread(strip)
            self.axis.put_on(strip, y=False, beyond=said, few=self.parts.small)
            ax.tick_params(labelbottom=False)
            ax.set_xlabel("")
            lowest = strip
        lowest.set_xlabel(self._says(), parse_math=False)
        entries = self._entries() if self.parts.legend else []
        hidden = self._hidden(len(entries))
        corner = min(hidden, key=lambda name: hidden[name])
        if entries:
            where = "center left" if legend_ax is not None else corner
            style.legend(legend_ax or ax, *map(list, zip(*entries, strict=True)), loc=where)
        if not self.parts.small:
            free = [name for name, count in self._hidden(2).items() if count == 0]
            self._say_sides(ax, [name for name in free if not entries or name != corner])

    def _says(self) -> str:
        name = self.series[0].data.name
        if self.parts.small or name in ("1", "True"):
            return SAYS
        return f"{SAYS} (of its first choice)" if name == "top label" else f"{SAYS} (probability of {name})"

    def _happened(self) -> str:
        first_choice = self.series[0].data.name == "top label" and not self.parts.small
        return f"{HAPPENED} (it was right)" if first_choice else HAPPENED

    def _diagonal(self, ax: Axes) -> None:
        ends = self.axis.low, self.axis.high
        ax.plot(ends, ends, color=RULE, lw=1.1, zorder=1.5, gid="diagonal", solid_capstyle="round")

    def _bins(self, ax: Axes, one: Series, i: int) -> None:
        b, inside, size = one.data.bins, self.axis.inside, 0.3 if self.parts.small else 1.0
        x, width = inside(b.mean_score), 1.2 if self.parts.small else 1.6
        low, high = inside(b.interval_lower), inside(b.interval_upper)
        ax.vlines(x, low, high, color=one.look.colour, lw=width, alpha=0.5, zorder=5, gid=f"intervals-{i}")
        area = MIN_AREA + size * AREA * b.weight / one.data.total_weight
        ax.scatter(
            x,
            inside(b.observed),
            s=style.EVEN_AREA.get(one.look.marker, 1.0) * area,
            color=one.look.colour,
            marker=one.look.marker,
            edgecolor="white",
            linewidth=0.4 if self.parts.small else 0.8,
            zorder=6,
            gid=f"points-{i}",
            clip_on=False,
        )

    def _corp(self, ax: Axes, one: Series, i: int) -> None:
        c = one.data.corp
        x, y = self.axis.cut(np.column_stack([c.lower, c.upper]).ravel(), np.repeat(c.value, 2))
        score, low, high = self.axis.cut(c.score, c.band_lower, c.band_upper)
        colour, wide = one.look.colour, 1.1 if self.parts.small else 1.5
        ax.fill_between(score, low, high, color=RULE, alpha=0.35, lw=0, zorder=1.2, gid=f"corp-band-{i}")
        ax.plot(x, y, color=colour, lw=wide, zorder=3, gid=f"corp-{i}", ls=CORP_DASHES)

    def _spline(self, ax: Axes, one: Series, i: int) -> None:
        s = one.data.spline
        assert s is not None
        x, y, low, high = self.axis.cut(s.score, s.value, s.lower, s.upper)
        colour = one.look.colour
        ax.fill_between(x, low, high, color=colour, alpha=0.16, lw=0, zorder=2, gid=f"spline-band-{i}")
        ax.plot(x, y, color=colour, lw=1.4 if self.parts.small else 2.0, zorder=3.5, gid=f"spline-{i}")

    def _spread(self, ax: Axes) -> None:
        style.dress(ax)
        ax.grid(visible=False, axis="y")
        alone = len(self.series) == 1
        for i, one in enumerate(self.series):
            cells = one.cells.within(self.axis.low, self.axis.high)
            heights = cells.heights(log_odds_scale=self.axis.scale == "logit")
            colour = one.look.colour
            ax.stairs(heights, cells.edges, fill=True, color=colour, alpha=0.75 if alone else 0.28, gid=f"spread-{i}")
            if not alone:
                ax.stairs(heights, cells.edges, color=colour, lw=1.1, gid=f"spread-outline-{i}")
        ax.set_ylim(0.0, 1.08)
        ax.set_yticks([])
        ax.spines["left"].set_visible(False)
        ax.set_ylabel("" if self.parts.small else "rows", color=INK)

    def _entries(self) -> list[tuple[Any, str]]:
        """Handles and names of what is drawn; none if it is one set without a name, in bins."""
        from matplotlib.lines import Line2D
        from matplotlib.patches import Patch

        def line(colour: str, **look: Any) -> Any:
            return Line2D([], [], color=colour, **look)

        several, level = len(self.series) > 1, f"{100.0 * self.series[0].data.level:g}%"
        colour = MUTED if several else self.series[0].look.colour
        more: list[tuple[Any, str]] = []
        if self.parts.corp:
            more.append((line(colour, ls=CORP_DASHES, lw=1.5), "isotonic (CORP)"))
            more.append((Patch(color=RULE, alpha=0.5, lw=0), f"its {level} band if honest"))
        if self.parts.spline and any(one.data.spline is not None for one in self.series):
            more.append((line(colour, lw=2.0), f"spline, {level} band"))
        more += [(line(look.colour, ls=look.dashes, lw=1.8), name) for name, _, _, look in self.curves]
        sets = []
        for one in self.series:
            if self.parts.bins:
                point = line(one.look.colour, marker=one.look.marker, ls="", ms=6.5, mec="white", mew=0.8)
            else:
                point = line(one.look.colour, lw=2.0)
            if several or one.name or (self.parts.bins and more):
                sets.append((point, one.name or f"bins, {level} interval"))
        return sets + more

    def _hidden(self, lines: int) -> dict[str, int]:
        """How many bins so many lines of text would hide in either corner beside the diagonal."""
        low, high = self.axis.view()
        to_unit = logit if self.axis.scale == "logit" else np.asarray
        origin, reach = to_unit(low), to_unit(high) - to_unit(low)

        def place(p: Array) -> Array:
            return np.asarray((to_unit(self.axis.inside(p)) - origin) / reach)

        every = [one.data.bins for one in self.series]
        x = np.concatenate([place(b.mean_score) for b in every])
        bottom = np.concatenate([place(b.interval_lower) for b in every])
        top = np.concatenate([place(b.interval_upper) for b in every])
        height = LINE * (lines + 0.5)
        return {
            "upper left": int(np.sum((x < WIDTH) & (top > 1.0 - height))),
            "lower right": int(np.sum((x > 1.0 - WIDTH) & (bottom < height))),
        }

    def _say_sides(self, ax: Axes, corners: list[str]) -> None:
        """Say in some corners what this side of the diagonal means."""
        for corner, text, at in (
            ("upper left", "happens more often\nthan the model says", (0.03, 0.97)),
            ("lower right", "happens less often\nthan the model says", (0.97, 0.03)),
        ):
            if corner in corners:
                up, across = corner.split()
                sides: dict[str, Any] = {"va": "top" if up == "upper" else "bottom", "ha": across}
                style.note(ax, text, at, xycoords="axes fraction", color=FAINT, style="italic", zorder=1, **sides)
