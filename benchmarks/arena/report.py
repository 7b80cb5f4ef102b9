"""The arena's page, in Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.arena import league
from benchmarks.arena.experiments import Kind, Outcome
from benchmarks.tables import table


def render(
    kind: Kind,
    losses: pd.DataFrame,
    seconds: dict[str, float],
    rows: pd.Series,
    outcomes: Sequence[Outcome],
    worst: int,
) -> str:
    """Everything about the experiments of one kind."""
    lead = league.lead(losses)
    standing = f"Margin over the next best, {lead.next_best}: {lead.margin:+.4f} in win rate."
    return "\n\n".join(
        [
            f"## {kind.capitalize()}: {len(losses)} experiments",
            _league(losses, seconds),
            standing,
            "### By calibration rows",
            _leads(losses, league.by_rows(rows)),
            "### By model",
            _leads(losses, league.by_family(rows)),
            "### Against the raw scores",
            "Both from the stored probabilities, which are rounded: the frozen log-loss of raw can differ a little.",
            _against_raw(outcomes),
            "### Furthest behind the best other method",
            _lags(losses, worst),
        ]
    )


def _league(losses: pd.DataFrame, seconds: dict[str, float]) -> str:
    found = league.table(losses, seconds)
    rows = [[str(name), *("-" if np.isnan(v) else f"{v:.4f}" for v in row)] for name, row in _rows(found)]
    return table(["method", *found.columns], rows)


def _leads(losses: pd.DataFrame, groups: pd.Series) -> str:
    rows = []
    for group in groups.drop_duplicates().sort_values():
        lead = league.lead(losses[groups == group])
        next_best = f"{lead.next_best} {lead.theirs:.3f}"
        rows.append(
            [group, str(lead.experiments), f"{lead.ours:.3f}", next_best, f"{lead.margin:+.3f}", f"{lead.harmed:.3f}"]
        )
    return table(["", "experiments", "calspline", "next best", "margin", "harmed"], rows)


def _against_raw(outcomes: Sequence[Outcome]) -> str:
    ours, raw = (pd.DataFrame([getattr(o, who) for o in outcomes]).dropna() for who in ("ours", "raw"))
    rows = []
    for name, sign in (("log_loss", 1.0), ("brier", 1.0), ("accuracy", -1.0)):
        change = sign * (ours[name] - raw[name])
        better, worse = (change < -league.TIE).mean(), (change > league.TIE).mean()
        means = [f"{ours[name].mean():.4f}", f"{raw[name].mean():.4f}"]
        rows.append([name.replace("_", "-"), *means, f"{better:.3f}", f"{worse:.3f}"])
    return table(["mean over experiments", "calspline", "raw", "share better", "share worse"], rows)


def _lags(losses: pd.DataFrame, worst: int) -> str:
    rows = [
        [str(name), f"{row[0]:.4f}", f"{row[1]:.4f}", str(row[2]), f"{row[3]:+.4f}"]
        for name, row in _rows(league.lags(losses, worst))
    ]
    return table(["experiment", "calspline", "best", "by", "behind"], rows)


def _rows(frame: pd.DataFrame) -> list[tuple[Any, list[Any]]]:
    return list(zip(frame.index, frame.to_numpy().tolist(), strict=True))
