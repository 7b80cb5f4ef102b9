"""The league table: who wins how often."""

from __future__ import annotations

from typing import NamedTuple

import pandas as pd

OURS = "calspline"
TIE = 1e-9
WORST_LOSS = 50.0
"""What a method gets where it failed."""


def settled(losses: pd.DataFrame) -> pd.DataFrame:
    """Log-losses with a number everywhere."""
    return losses.where(losses.abs() != float("inf")).fillna(WORST_LOSS)


def win_rates(losses: pd.DataFrame) -> pd.Series:
    """Share of won pairs, averaged over opponents; a tie is half a win."""
    rates = {}
    for a in losses:
        others = losses.drop(columns=a)
        ahead = others.sub(losses[a], axis=0)
        rates[a] = ((ahead > TIE) + 0.5 * (ahead.abs() <= TIE)).mean().mean()
    return pd.Series(rates).sort_values(ascending=False)


def harmed(losses: pd.DataFrame) -> pd.Series:
    """Share of experiments made worse than raw by more than 1% and more than 0.001 nats."""
    raw = losses["raw"]
    return (losses.gt(1.01 * raw, axis=0) & losses.gt(raw + 1e-3, axis=0)).mean()


def table(losses: pd.DataFrame, seconds: dict[str, float]) -> pd.DataFrame:
    """One row per method, best first."""
    rates = win_rates(losses)
    columns = {
        "win rate": rates,
        "mean log-loss": losses.mean(),
        "mean rank": losses.rank(axis=1).mean(),
        "harmed": harmed(losses),
        "median s": pd.Series(seconds),
    }
    return pd.DataFrame(columns).loc[rates.index]


class Lead(NamedTuple):
    """How far ahead of the best other method, by win rate."""

    experiments: int
    ours: float
    next_best: str
    theirs: float
    harmed: float

    @property
    def margin(self) -> float:
        """Difference of the win rates; negative is behind."""
        return self.ours - self.theirs


def lead(losses: pd.DataFrame) -> Lead:
    """Our lead in a set of experiments."""
    rates = win_rates(losses)
    others = rates.drop(OURS)
    return Lead(
        len(losses),
        float(rates[OURS]),
        str(others.idxmax()),
        float(others.max()),
        float(harmed(losses)[OURS]),
    )


class Duel(NamedTuple):
    """Us and one other method."""

    share: float
    """Experiments with the lower log-loss, a tie being none."""
    difference: float
    """Mean log-loss, ours less theirs."""


def duel(losses: pd.DataFrame, rival: str) -> Duel:
    """Head to head in a set of experiments."""
    difference = losses[OURS] - losses[rival]
    return Duel(float((difference < 0.0).mean()), float(difference.mean()))


def by_rows(rows: pd.Series) -> pd.Series:
    """Group of each experiment by its calibration rows."""
    names = ["under 500 rows", "500 to 1500", "above 1500"]
    return pd.cut(rows, [0, 499, 1500, float("inf")], labels=names)


def by_classes(classes: pd.Series) -> pd.Series:
    """Group of each experiment by its number of classes."""
    return pd.cut(
        classes,
        [2, 5, 11, float("inf")],
        labels=["3 to 5 classes", "6 to 11", "12 and more"],
    )


def by_family(rows: pd.Series) -> pd.Series:
    """Group of each experiment by its model, the end of its name; a deep network's has its source too."""
    models = [str(name).rpartition("__")[2] for name in rows.index]
    return pd.Series(
        ["network" if "_" in model else model for model in models], index=rows.index
    )


def lags(losses: pd.DataFrame, count: int) -> pd.DataFrame:
    """Experiments where the best other method is furthest ahead."""
    others = losses.drop(columns=OURS)
    found = pd.DataFrame(
        {
            "calspline": losses[OURS],
            "best": others.min(axis=1),
            "by": others.idxmin(axis=1),
            "behind": losses[OURS] - others.min(axis=1),
        }
    )
    return found.sort_values("behind", ascending=False).head(count)
