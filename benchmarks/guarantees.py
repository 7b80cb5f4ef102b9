"""Whether guaranteed thresholds keep their promise: ``python -m benchmarks.guarantees``.

Writes ``benchmarks/GUARANTEES.md``: how often the true share breaks the constraint at
the chosen threshold (at most 5% is promised), how often there is a threshold, and how
much is given away compared with the oracle, which knows the true shares.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from benchmarks.tables import table
from calspline.evaluation.guarantees import GRID, Constraint, guarantee
from calspline.evaluation.predictions import Predictions

Array = NDArray[np.float64]

SIMULATIONS = 2000
SIZES = (500, 2000, 10_000)
POPULATION = 1_000_000
GROUP_SIZE = 5
CONSTRAINTS = {
    "recall at least 90%": (Constraint("recall", 0.9, True),),
    "precision at least 70%": (Constraint("precision", 0.7, True),),
    "alert rate at most 10%": (Constraint("alert_rate", 0.1, False),),
    "precision at least 60%, alert rate at most 15%": (
        Constraint("precision", 0.6, True),
        Constraint("alert_rate", 0.15, False),
    ),
}


def draw(
    rng: np.random.Generator, n: int, spread: float
) -> tuple[Array, Array, NDArray[np.intp]]:
    """Scores, outcomes and groups; log-odds of a group share a normal effect."""
    group = np.arange(n) // GROUP_SIZE
    x = rng.normal(-1.5, 1.5, n)
    effect = spread * rng.standard_normal(group[-1] + 1)[group]
    y = rng.random(n) < expit(x + effect)
    return expit(x), y.astype(np.float64), group


def true_shares(spread: float) -> dict[str, Array]:
    """Shares at each threshold in a large population."""
    p, y, _ = draw(np.random.default_rng(12345), POPULATION, spread)
    place = np.searchsorted(GRID, p, side="right")
    acted = np.cumsum(np.bincount(place, minlength=len(GRID) + 1)[::-1])[::-1][1:]
    events = np.cumsum(np.bincount(place, y, len(GRID) + 1)[::-1])[::-1][1:]
    return {
        "recall": events / y.sum(),
        "precision": events / np.maximum(acted, 1),
        "alert_rate": acted / len(p),
    }


def simulate(constraints: tuple[Constraint, ...], n: int, spread: float) -> list[str]:
    """Violations, thresholds found, and the alert rate next to the oracle's."""
    truth = true_shares(spread)
    kept = np.ones(len(GRID), dtype=bool)
    for one in constraints:
        share = truth[one.name]
        kept &= share >= one.bound if one.at_least else share <= one.bound
    keeps_recall = constraints[0].name == "recall"
    oracle = (
        truth["alert_rate"][kept].min()
        if keeps_recall
        else truth["alert_rate"][kept].max()
    )
    violated = 0
    rates = []
    for seed in range(SIMULATIONS):
        rng = np.random.default_rng([seed, n])
        p, y, group = draw(rng, n, spread)
        groups = group if spread else None
        rows = Predictions(p, y.astype(np.intp), None, np.array([0, 1]), groups)
        threshold = guarantee(rows, constraints).threshold
        if threshold is None:
            continue
        place = int(np.searchsorted(GRID, threshold))
        violated += not kept[place]
        rates.append(truth["alert_rate"][place])
    acted = f"{100 * np.mean(rates):.1f}%" if rates else "-"
    shares = [
        f"{100 * violated / SIMULATIONS:.1f}%",
        f"{100 * len(rates) / SIMULATIONS:.0f}%",
    ]
    return [*shares, acted, f"{100 * oracle:.1f}%"]


def main() -> None:
    rows = []
    for name, constraints in CONSTRAINTS.items():
        for spread in (0.0, 1.0):
            for n in SIZES:
                kind = f"groups of {GROUP_SIZE}" if spread else "independent"
                rows.append([name, kind, f"{n:,}", *simulate(constraints, n, spread)])
                print(*rows[-1], file=sys.stderr, flush=True)
    header = [
        "constraint",
        "rows are",
        "rows",
        "violated",
        "threshold found",
        "acted on",
        "oracle",
    ]
    text = f"""# Thresholds with a guarantee: do they keep it?

Written by `python -m benchmarks.guarantees`: {SIMULATIONS:,} simulated data sets each. At most 5% may be violated.
"Acted on" is the share of rows acted on at the chosen threshold, on average over the data sets that have one, next
to that of the oracle, the best threshold that truly keeps the constraints.

{table(header, rows)}
"""
    Path(__file__).with_name("GUARANTEES.md").write_text(text)


if __name__ == "__main__":
    main()
