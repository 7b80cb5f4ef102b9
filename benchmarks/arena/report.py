"""The arena's page, in Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.arena import league
from benchmarks.arena.experiments import Frozen, Kind, Outcome
from benchmarks.tables import table

RIVALS: dict[Kind, str] = {"multiclass": "sms"}
"""Whom to meet head to head, besides the league."""


def render(
    kind: Kind,
    losses: pd.DataFrame,
    known: Frozen,
    outcomes: Sequence[Outcome],
    worst: int,
) -> str:
    """Everything about the experiments of one kind, our log-losses being among ``losses``."""
    rival = RIVALS.get(kind)
    ours = float(np.nanmedian([o.seconds for o in outcomes]))
    parts = [
        f"## {kind.capitalize()}: {len(losses)} experiments",
        _league(losses, known.seconds | {league.OURS: ours}),
        _standing(losses, rival),
        "### By calibration rows",
        _leads(losses, league.by_rows(known.rows), rival),
    ]
    if kind == "multiclass":
        parts += [
            "### By classes",
            _leads(losses, league.by_classes(known.classes), rival),
        ]
    brier = (
        " The Brier score is summed over the classes." if kind == "multiclass" else ""
    )
    parts += [
        "### By model",
        _leads(losses, league.by_family(known.rows), rival),
        "### Against the raw scores",
        "Both from the stored probabilities, which are rounded: the frozen log-loss of raw can differ a little."
        + brier,
        _against_raw(outcomes),
        "### Furthest behind the best other method",
        _lags(losses, worst),
    ]
    return "\n\n".join(parts)


def _standing(losses: pd.DataFrame, rival: str | None) -> str:
    lead = league.lead(losses)
    text = (
        f"Margin over the next best, {lead.next_best}: {lead.margin:+.4f} in win rate."
    )
    if rival is not None:
        duel = league.duel(losses, rival)
        text += (
            f" Head to head, the log-loss is below that of {rival} in {duel.share:.3f} of the experiments, "
            f"and differs by {duel.difference:+.4f} on average."
        )
    return text


def _league(losses: pd.DataFrame, seconds: dict[str, float]) -> str:
    found = league.table(losses, seconds)
    rows = [
        [str(name), *("-" if np.isnan(v) else f"{v:.4f}" for v in row)]
        for name, row in _rows(found)
    ]
    return table(["method", *found.columns], rows)


def _leads(losses: pd.DataFrame, groups: pd.Series, rival: str | None) -> str:
    header = ["", "experiments", "calspline", "next best", "margin", "harmed"]
    if rival is not None:
        header += [f"beats {rival}", f"mean difference to {rival}"]
    rows = []
    for group in groups.drop_duplicates().sort_values():
        members = losses[groups == group]
        lead = league.lead(members)
        next_best = f"{lead.next_best} {lead.theirs:.3f}"
        rows.append(
            [
                group,
                str(lead.experiments),
                f"{lead.ours:.3f}",
                next_best,
                f"{lead.margin:+.3f}",
                f"{lead.harmed:.3f}",
            ]
        )
        if rival is not None:
            duel = league.duel(members, rival)
            rows[-1] += [f"{duel.share:.3f}", f"{duel.difference:+.4f}"]
    return table(header, rows)


def _against_raw(outcomes: Sequence[Outcome]) -> str:
    ours, raw = (
        pd.DataFrame([getattr(o, who) for o in outcomes]).dropna()
        for who in ("ours", "raw")
    )
    rows = []
    for name, sign in (("log_loss", 1.0), ("brier", 1.0), ("accuracy", -1.0)):
        change = sign * (ours[name] - raw[name])
        better, worse = (change < -league.TIE).mean(), (change > league.TIE).mean()
        means = [f"{ours[name].mean():.4f}", f"{raw[name].mean():.4f}"]
        rows.append([name.replace("_", "-"), *means, f"{better:.3f}", f"{worse:.3f}"])
    return table(
        ["mean over experiments", "calspline", "raw", "share better", "share worse"],
        rows,
    )


def _lags(losses: pd.DataFrame, worst: int) -> str:
    rows = [
        [str(name), f"{row[0]:.4f}", f"{row[1]:.4f}", str(row[2]), f"{row[3]:+.4f}"]
        for name, row in _rows(league.lags(losses, worst))
    ]
    return table(["experiment", "calspline", "best", "by", "behind"], rows)


def _rows(frame: pd.DataFrame) -> list[tuple[Any, list[Any]]]:
    return list(zip(frame.index, frame.to_numpy().tolist(), strict=True))
