"""The live arena's page and its leaderboard."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from benchmarks.arena import league
from benchmarks.arena.experiments import Kind
from benchmarks.arena.live import RAW
from benchmarks.arena.rivals import RIVALS, Present
from benchmarks.tables import table

WORST_BRIER = 2.0
HEADER = [
    "method",
    "win rate",
    "mean log-loss",
    "mean Brier",
    "mean rank",
    "harmed",
    "median s",
    "failed",
]


def standings(results: pd.DataFrame, kind: Kind) -> pd.DataFrame:
    """One row per method, best win rate first."""
    mine = results[results["kind"] == kind]
    losses, briers, seconds = (
        mine.pivot(index="experiment", columns="method", values=what)
        for what in ("log_loss", "brier", "seconds")
    )
    settled = league.settled(losses)
    found = league.table(settled, seconds.median().to_dict())
    found.insert(2, "mean Brier", briers.replace(np.inf, WORST_BRIER).mean())
    found["failed"] = np.isinf(losses).sum()
    return found


def render(results: pd.DataFrame, present: Present, command: str) -> str:
    """The whole page."""
    versions = ", ".join(
        f"{name} {number}" for name, number in present.versions.items()
    )
    parts = [
        "# The live arena",
        f"Made by `{command}`: every calibrator with its defaults, fitted on the calibration rows of each "
        "experiment and judged on its test rows. The win rate is the share of other methods, our own among them, with "
        "a higher log-loss, averaged over experiments, a tie being half a win; harmed is the share of experiments made "
        "worse than raw by more than 1% and 0.001 nats; the time is what fit and prediction took of the processor. "
        f"A method that fails loses the experiment, with a log-loss of {league.WORST_LOSS:g} and a Brier score of "
        f"{WORST_BRIER:g}.",
        "Models that are well calibrated already, by number of rows, are on [a page of their own](CALIBRATED.md).",
        f"{versions}.",
    ]
    if present.missing:
        absent = ", ".join(
            f"{rival.name}" for rival in RIVALS if rival.package in present.missing
        )
        parts.append(f"Not installed, and so not compared: {absent}.")
    parts.append("![Win rates](live.png)")
    for kind in _kinds(results):
        count = results.loc[results["kind"] == kind, "experiment"].nunique()
        found = standings(results, kind)
        rows = [
            [str(name), *map(_number, row[:-1]), f"{row[-1]:.0f}"]
            for name, row in _rows(found)
        ]
        parts += [
            f"## {str(kind).capitalize()}: {count} experiments",
            table(HEADER, rows),
        ]
    return "\n\n".join(parts) + "\n"


def draw(results: pd.DataFrame) -> Any:
    """Win rates as bars, best on top, ours in colour."""
    from matplotlib.figure import Figure

    from calspline.display import style

    kinds = _kinds(results)
    tables = [standings(results, kind).drop(index=RAW) for kind in kinds]
    longest = max(len(found) for found in tables)
    figure = Figure(
        figsize=(6.2 * len(kinds), 1.2 + 0.34 * longest),
        layout="constrained",
        dpi=130,
        facecolor="white",
    )
    for ax, kind, found in zip(
        np.ravel(figure.subplots(1, len(kinds))), kinds, tables, strict=True
    ):
        style.style_axes(ax)
        names, rates = [str(name) for name in found.index], found["win rate"].to_numpy()
        colours = [_colour(name, style) for name in names]
        places = np.arange(len(names))
        ax.barh(places, rates, color=colours, height=0.72)
        for place, rate, harmed in zip(places, rates, found["harmed"], strict=True):
            style.label(
                ax,
                f"{rate:.2f}, harms {harmed:.0%}",
                (float(rate), float(place)),
                offset=(4, -3),
            )
        ax.set_yticks(places, names)
        for label, name in zip(ax.get_yticklabels(), names, strict=True):
            label.set_fontweight("bold" if name == league.OURS else "normal")
        ax.set_ylim(longest - 0.5, -0.5)
        ax.set_xlim(0.0, 1.25)
        ax.set_xticks(np.linspace(0.0, 1.0, 5))
        ax.grid(visible=False, axis="y")
        ax.set_xlabel("win rate against the others, by test log-loss")
        count = results.loc[results["kind"] == kind, "experiment"].nunique()
        style.title(ax, f"{kind}, {count} experiments")
    return figure


def _colour(name: str, style: Any) -> str:
    if name == league.OURS:
        return str(style.BLUE)
    return str(style.SKY) if name.startswith("calspline ") else str(style.RULE)


def _kinds(results: pd.DataFrame) -> list[Kind]:
    return [
        kind for kind in ("binary", "multiclass") if (results["kind"] == kind).any()
    ]


def _number(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:.4f}"


def _rows(frame: pd.DataFrame) -> list[tuple[Any, list[Any]]]:
    return list(zip(frame.index, frame.to_numpy().tolist(), strict=True))
