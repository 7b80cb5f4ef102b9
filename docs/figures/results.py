"""Figures of the committed results of the arena and of the timings."""

from __future__ import annotations

from docs.figures.sheet import sheet
from docs.site.tables import find_table
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from calspline.display import style

OURS = "calspline"
ROWS = {"1k": 1e3, "10k": 1e4, "100k": 1e5, "1M": 1e6, "10M": 1e7}
COLOURS = {
    OURS: style.BLUE,
    "isotonic": style.VERMILION,
    "sigmoid": style.GREEN,
    "betacal": style.PURPLE,
    "splinecalib": style.ORANGE,
    "splinator": style.MUTED,
}


def draw() -> dict[str, Figure]:
    """Win rates, and times to fit."""
    arena = sheet(7.6, 3.5)
    for ax, kind in zip(arena.subplots(1, 2), ("Binary", "Multiclass"), strict=True):
        _win_rates(ax, kind)
    speed = sheet(6.4, 3.8)
    _times(speed.subplots())
    growth = sheet(7.6, 9.0)
    parts = ("Rows", "Classes", "Segments")
    for line, of in zip(growth.subplots(3, 2), parts, strict=True):
        for ax, what in zip(line, ("fit", "calibrate"), strict=True):
            _growth(ax, of, what)
    return {"arena": arena, "speed": speed, "growth": growth}


def _win_rates(ax: Axes, kind: str) -> None:
    rates = [
        (row["method"], float(row["win rate"]))
        for row in _rows("benchmarks/arena/RESULTS.md", kind)
    ]
    style.style_axes(ax)
    for place, (name, rate) in enumerate(reversed(rates)):
        colour = style.BLUE if name == OURS else style.RULE
        ax.plot(
            [0.0, rate], [place, place], color=colour, lw=2.0, solid_capstyle="round"
        )
        ax.plot(rate, place, "o", color=colour, ms=6.5)
        note = {"va": "center", "color": style.BLUE if name == OURS else style.MUTED}
        style.label(ax, f"{rate:.2f}", (rate, place), offset=(8, 0), **note)
    ax.set_yticks(
        range(len(rates)), [name for name, _ in reversed(rates)], color=style.INK
    )
    ax.grid(visible=False, axis="y")
    ax.set(xlim=(0.0, 1.08), xlabel="share of comparisons won")
    ax.set_xticks([0.0, 0.25, 0.5, 0.75, 1.0])
    style.title(ax, {"Binary": "two classes", "Multiclass": "three and more"}[kind])


def _times(ax: Axes) -> None:
    style.style_axes(ax)
    ends = []
    for row in _rows("benchmarks/speed/RESULTS.md", "Fit, milliseconds"):
        name = row["rows"]
        if name not in COLOURS:
            continue
        points = [
            (rows, float(row[key].replace(",", "")))
            for key, rows in ROWS.items()
            if row[key] != "-"
        ]
        ax.plot(
            *zip(*points, strict=True),
            "-o",
            color=COLOURS[name],
            lw=2.4 if name == OURS else 1.4,
            ms=4,
        )
        ends.append((*points[-1], name))
    ax.set(xscale="log", yscale="log", xlabel="rows", ylabel="time to fit, ms")
    for x, y, name in ends:
        lift = {"isotonic": 5, "betacal": -8}.get(name, 0)
        bold = "bold" if name == OURS else "normal"
        style.label(
            ax,
            name,
            (x, y),
            offset=(7, lift),
            va="center",
            color=COLOURS[name],
            fontweight=bold,
        )
    ax.set_xlim(right=1.2e8)
    ax.set_xticks(list(ROWS.values()), list(ROWS))


def _growth(ax: Axes, of: str, what: str) -> None:
    style.style_axes(ax)
    for row in _rows("benchmarks/GROWTH.md", f"{of}: {what}"):
        name = row.pop("method")
        points = [
            (float(n), float(ms.replace(",", ""))) for n, ms in row.items() if ms != "-"
        ]
        dashes = "--" if name.endswith(("one core", f"{OURS}, ovr")) else "-"
        colour = COLOURS[name.partition(",")[0]]
        ax.plot(
            *zip(*points, strict=True),
            dashes,
            marker="o",
            color=colour,
            lw=1.6,
            ms=3,
            label=name,
        )
    ax.set(xscale="log", yscale="log", xlabel=of.lower(), ylabel=f"time to {what}, ms")
    if what == "fit":
        ax.legend(frameon=False, fontsize="small")


def _rows(file: str, heading: str) -> list[dict[str, str]]:
    """A table as one dictionary to a row."""
    lines = [
        [cell.strip() for cell in line.strip("| ").split("|")]
        for line in find_table(file, heading).splitlines()
    ]
    names = lines[0]
    names[0] = names[0] or "name"
    return [dict(zip(names, line, strict=True)) for line in lines[2:]]
