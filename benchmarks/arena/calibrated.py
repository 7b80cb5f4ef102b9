"""The arena's other half: models that are well calibrated already, by the number of calibration rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks.arena import league
from benchmarks.arena.experiments import Kind, frozen, run
from benchmarks.tables import table

SIZES = {"300 rows": "-n300", "1,000 rows": "-n1000", "all rows (1,000 to 10,000)": ""}
KINDS: dict[Kind, str] = {"binary": "Two classes", "multiclass": "Several classes"}


def split(name: str) -> tuple[str, int | None]:
    """The file of an experiment, and how many of its calibration rows count."""
    stem, found, rows = name.rpartition("-n")
    return (stem, int(rows)) if found else (name, None)


def our_losses(
    place: Path, names: pd.Index, make: Callable[[], Any]
) -> list[tuple[float, float, float]]:
    """Log-loss of a calibrator on each experiment, with its Brier score and that of the raw scores."""
    found = []
    for name in names:
        stem, rows = split(str(name))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            outcome = run(make, place / f"{stem}.npz", rows)
        found.append((outcome.ours.log_loss, outcome.ours.brier, outcome.raw.brier))
    return found


def render(place: Path, make: Callable[[], Any], made_by: str) -> str:
    """The page, in Markdown."""
    parts = [
        "# The arena's other half: well-calibrated models",
        f"Made by `{made_by}`: boosting with early stopping, tuned forests, logistic regression with splines, and "
        "averages of them. Raw scores are hard to beat here; the question is what a calibrator costs. Harmed is the "
        "share of experiments made worse than raw by more than 1% and more than 0.001 nats.",
    ]
    for kind, title in KINDS.items():
        known = frozen(place, kind)
        ours = our_losses(place, known.losses.index, make)
        losses = league.settled(
            known.losses.assign(**{league.OURS: [log_loss for log_loss, _, _ in ours]})
        )
        brier = pd.DataFrame(
            ours, index=losses.index, columns=["log-loss", "ours", "raw"]
        )
        sizes = {
            size: [_belongs(str(name), suffix) for name in losses.index]
            for size, suffix in SIZES.items()
        }
        parts += [
            f"## {title}",
            _overview({size: losses[members] for size, members in sizes.items()}),
        ]
        for size, members in sizes.items():
            parts += [
                f"### {size}: {sum(members)} experiments",
                _league(losses[members]),
            ]
            means = brier[members].mean()
            parts.append(
                f"Mean Brier score {means['ours']:.5f}, of the raw scores {means['raw']:.5f}."
            )
    return "\n\n".join(parts) + "\n"


def _belongs(name: str, suffix: str) -> bool:
    return split(name)[1] == (int(suffix[2:]) if suffix else None)


def _overview(by_size: dict[str, pd.DataFrame]) -> str:
    """Win rate and share harmed of every method, by number of rows."""
    rates = {size: league.win_rates(losses) for size, losses in by_size.items()}
    harmed = {size: league.harmed(losses) for size, losses in by_size.items()}
    methods = sum(rates.values()).sort_values(ascending=False).index
    rows = [
        [
            str(method),
            *(
                f"{rates[size][method]:.2f}, {100 * harmed[size][method]:.0f}%"
                for size in by_size
            ),
        ]
        for method in methods
    ]
    return table(["won, harmed", *by_size], rows)


def _league(losses: pd.DataFrame) -> str:
    rates, harmed = league.win_rates(losses), league.harmed(losses)
    rows = [
        [
            str(m),
            f"{rates[m]:.3f}",
            f"{100 * harmed[m]:.1f}%",
            f"{losses[m].mean():.5f}",
        ]
        for m in rates.index
    ]
    return table(["method", "win rate", "harmed", "mean log-loss"], rows)
