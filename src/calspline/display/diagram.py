"""Drawing of a reliability diagram."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import expit, logit

import calspline.display.style as style
from calspline._arrays import Array
from calspline._formatting import percent
from calspline.display.style import (
    INK,
    MUTED,
    OBSERVED,
    PREDICTED,
    RULE,
    ProbabilityScale,
    SeriesStyle,
)
from calspline.evaluation.predictions import Predictions
from calspline.evaluation.reliability import Reliability
from calspline.transforms import log_odds

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CORP_DASHES = (0, (1.0, 0.8))
LINE_HEIGHT, TEXT_WIDTH = 0.048, 0.36
"""Share of the height and of the width that a legend line or a note takes."""
CELL, REACH = 0.5, 28
"""Width of a cell in log-odds, and range of the cells, up to about 1e-6 at either
end."""


class ScoreSpread(NamedTuple):
    """Histogram of the probabilities; ``edges`` are probabilities from 0 to 1."""

    edges: Array
    weight: Array

    def heights(self, scale: ProbabilityScale) -> tuple[Array, Array]:
        """Densities on a scale, relative to the highest, and their edges.

        The end cells include everything beyond.
        """
        edges = np.unique(np.clip(self.edges, scale.low, scale.high))
        middle = np.clip(
            0.5 * (self.edges[:-1] + self.edges[1:]), scale.low, scale.high
        )
        cell = np.clip(
            np.searchsorted(edges, middle, side="right") - 1, 0, len(edges) - 2
        )
        weight = np.bincount(cell, weights=self.weight, minlength=len(edges) - 1)
        density = weight / np.diff(logit(edges) if scale.logit else edges)
        return np.asarray(density / density.max()), edges


def log_odds_spreads(rows: Predictions) -> tuple[ScoreSpread, ...]:
    """Histograms in cells of equal width in log-odds, one per diagram.

    The outermost cells include everything beyond.
    """
    columns = [rows.probs] if rows.binary else [rows.probs.max(axis=1), *rows.probs.T]
    edges = expit(CELL * np.arange(-REACH, REACH + 1.0))
    edges[0], edges[-1] = 0.0, 1.0
    cells = [
        np.clip(np.floor(log_odds(p) / CELL).astype(np.intp) + REACH, 0, 2 * REACH - 1)
        for p in columns
    ]
    weights = [
        np.bincount(cell, weights=rows.weight, minlength=2 * REACH).astype(np.float64)
        for cell in cells
    ]
    return tuple(ScoreSpread(edges, weight) for weight in weights)


class Series(NamedTuple):
    """A set of predictions: name, numbers, histogram and style."""

    name: str
    data: Reliability
    spread: ScoreSpread
    style: SeriesStyle


class Diagram(NamedTuple):
    """Sets of predictions and calibration functions in one diagram.

    Artists have a ``gid`` that identifies them, such as ``points-0``, which is kept in
    SVG files.
    """

    series: list[Series]
    curves: list[tuple[str, Array, Array, SeriesStyle]]
    scale: ProbabilityScale
    bins: bool
    corp: bool
    spline: bool
    legend: bool
    small: bool

    def draw(self, ax: Axes, strip: Axes | None, legend_ax: Axes | None = None) -> None:
        """Draw the diagram, its histogram in ``strip``, and its legend."""
        ends = self.scale.low, self.scale.high
        style.style_axes(ax)
        ax.plot(
            ends,
            ends,
            color=RULE,
            lw=1.1,
            zorder=1.5,
            gid="diagonal",
            solid_capstyle="round",
        )
        for i, one in enumerate(self.series):
            if self.corp:
                self._draw_corp(ax, one, i)
            if self.spline and one.data.spline is not None:
                self._draw_spline(ax, one, i)
            if self.bins:
                self._draw_bins(ax, one, i)
        for i, (_, score, value, look) in enumerate(self.curves):
            x, y = self.scale.cut(score, value)
            ax.plot(
                x,
                y,
                color=look.color,
                ls=look.dashes,
                lw=1.8,
                zorder=4,
                gid=f"function-{i}",
            )
        predicted = self.scale.beyond([one.data.bins.mean_score for one in self.series])
        observed = self.scale.beyond([one.data.bins.observed for one in self.series])
        self.scale.apply(ax, "x", beyond=predicted, few=self.small)
        self.scale.apply(ax, "y", beyond=observed, few=self.small)
        if strip is not None:
            self._draw_spread(strip)
            self.scale.apply(strip, "x", beyond=predicted, few=self.small)
            ax.tick_params(labelbottom=False)
        x_label, y_label = self._axis_labels()
        (ax if strip is None else strip).set_xlabel(x_label, parse_math=False)
        ax.set_ylabel(y_label, parse_math=False)
        self._explain(ax, legend_ax)

    def _axis_labels(self) -> tuple[str, str]:
        name = self.series[0].data.name
        if self.small or name in ("1", "True"):
            return PREDICTED, OBSERVED
        if name == "top label":
            return f"{PREDICTED} (of its first choice)", f"{OBSERVED} (it was right)"
        return f"{PREDICTED} (probability of {name})", OBSERVED

    def _draw_bins(self, ax: Axes, one: Series, i: int) -> None:
        b = one.data.bins
        clip = self.scale.clip
        small = self.small
        color = one.style.color
        x = clip(b.mean_score)
        low = clip(b.interval_lower)
        high = clip(b.interval_upper)
        ax.vlines(
            x,
            low,
            high,
            color=color,
            lw=1.2 if small else 1.6,
            alpha=0.5,
            zorder=5,
            gid=f"intervals-{i}",
        )
        area = 16.0 + (0.3 if small else 1.0) * 330.0 * b.weight / one.data.total_weight
        area *= style.EVEN_AREA.get(one.style.marker, 1.0)
        width = 0.4 if small else 0.8
        if one.style.is_open:
            width = 1.0 if small else 1.6
        ax.scatter(
            x,
            clip(b.observed),
            s=area,
            facecolor=one.style.fill,
            edgecolor=one.style.edge,
            linewidth=width,
            marker=one.style.marker,
            clip_on=False,
            zorder=6,
            gid=f"points-{i}",
        )

    def _draw_corp(self, ax: Axes, one: Series, i: int) -> None:
        c = one.data.corp
        width = 1.1 if self.small else 1.5
        x, y = self.scale.cut(
            np.column_stack([c.lower, c.upper]).ravel(), np.repeat(c.value, 2)
        )
        score, low, high = self.scale.cut(c.score, c.band_lower, c.band_upper)
        ax.fill_between(
            score,
            low,
            high,
            color=RULE,
            alpha=0.35,
            lw=0,
            zorder=1.2,
            gid=f"corp-band-{i}",
        )
        ax.plot(
            x,
            y,
            color=one.style.color,
            lw=width,
            zorder=3,
            gid=f"corp-{i}",
            ls=CORP_DASHES,
        )

    def _draw_spline(self, ax: Axes, one: Series, i: int) -> None:
        s = one.data.spline
        color = one.style.color
        assert s is not None
        x, y, low, high = self.scale.cut(s.score, s.value, s.lower, s.upper)
        ax.fill_between(
            x,
            low,
            high,
            color=color,
            alpha=0.16,
            lw=0,
            zorder=2,
            gid=f"spline-band-{i}",
        )
        ax.plot(
            x,
            y,
            color=color,
            lw=1.4 if self.small else 2.0,
            zorder=3.5,
            gid=f"spline-{i}",
        )

    def _draw_spread(self, ax: Axes) -> None:
        style.style_axes(ax)
        ax.grid(visible=False, axis="y")
        alone = len(self.series) == 1
        for i, one in enumerate(self.series):
            drawn = one.spread.heights(self.scale)
            ax.stairs(
                *drawn,
                fill=True,
                color=one.style.color,
                alpha=0.75 if alone else 0.28,
                gid=f"spread-{i}",
            )
            if not alone:
                ax.stairs(
                    *drawn, color=one.style.color, lw=1.1, gid=f"spread-outline-{i}"
                )
        ax.set_ylim(0.0, 1.08)
        ax.set_yticks([])
        ax.spines["left"].set_visible(False)
        ax.set_ylabel("" if self.small else "rows", color=INK)

    def _explain(self, ax: Axes, legend_ax: Axes | None) -> None:
        """Place a legend where it hides the fewest bins, and a note in a corner."""
        entries = self._legend_entries() if self.legend else []
        corner = ""
        if entries:
            hidden = self._hidden_bins(ax, len(entries))
            corner = min(hidden, key=lambda name: hidden[name])
            loc = corner if legend_ax is None else "center left"
            style.legend(legend_ax or ax, entries, loc)
        if self.small:
            return
        for side, count in self._hidden_bins(ax, 2).items():
            if count == 0 and side != corner:
                above = side == "upper left"
                text = f"predictions\ntoo {'low' if above else 'high'}"
                where: dict[str, Any] = {
                    "va": "top" if above else "bottom",
                    "ha": "left" if above else "right",
                }
                at = (0.03, 0.97) if above else (0.97, 0.03)
                style.label(
                    ax,
                    text,
                    at,
                    xycoords="axes fraction",
                    color="#94a0ab",
                    style="italic",
                    zorder=1,
                    **where,
                )

    def _legend_entries(self) -> list[tuple[Any, str]]:
        """Legend handles and names; empty for a single set without a name."""
        from matplotlib.lines import Line2D
        from matplotlib.patches import Patch

        def line(color: str, **options: Any) -> Any:
            return Line2D([], [], color=color, **options)

        several = len(self.series) > 1
        level = percent(self.series[0].data.level)
        color = MUTED if several else self.series[0].style.color
        more: list[tuple[Any, str]] = []
        if self.corp:
            more.append((line(color, ls=CORP_DASHES, lw=1.5), "isotonic (CORP)"))
            more.append(
                (Patch(color=RULE, alpha=0.5, lw=0), f"its {level} band if calibrated")
            )
        if self.spline and any(one.data.spline is not None for one in self.series):
            more.append((line(color, lw=2.0), f"spline, {level} band"))
        more += [
            (line(look.color, ls=look.dashes, lw=1.8), name)
            for name, _, _, look in self.curves
        ]
        sets = []
        for one in self.series:
            handle = line(one.style.color, lw=2.0)
            if self.bins:
                handle = line(
                    one.style.color,
                    marker=one.style.marker,
                    ls="",
                    ms=6.5,
                    mfc=one.style.fill,
                    mec=one.style.edge,
                    mew=1.4 if one.style.is_open else 0.8,
                )
            if several or one.name or (self.bins and more):
                sets.append((handle, one.name or f"bins, {level} interval"))
        return sets + more

    def _hidden_bins(self, ax: Axes, lines: int) -> dict[str, int]:
        """Number of bins that lines of text would hide in either corner."""
        bins = [one.data.bins for one in self.series]
        to_axes = ax.transData - ax.transAxes
        names = ("mean_score", "interval_lower", "interval_upper")
        mean, low, high = (
            self.scale.clip(np.concatenate([getattr(b, name) for b in bins]))
            for name in names
        )
        x, bottom = to_axes.transform(np.column_stack([mean, low])).T
        top = to_axes.transform(np.column_stack([mean, high]))[:, 1]
        height = LINE_HEIGHT * (lines + 0.5)
        return {
            "upper left": int(np.sum((x < TEXT_WIDTH) & (top > 1.0 - height))),
            "lower right": int(np.sum((x > 1.0 - TEXT_WIDTH) & (bottom < height))),
        }
