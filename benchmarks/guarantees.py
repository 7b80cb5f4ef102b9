"""Whether guaranteed thresholds keep their promise: ``python -m benchmarks.guarantees``.

Writes ``benchmarks/GUARANTEES.md``: how often the true share breaks the constraint at
the chosen threshold (at most 5% is promised), how often there is a threshold, and how
much is given away compared with the oracle, which knows the true shares.

With ``--mapie`` it compares with MAPIE's ``BinaryClassificationController`` on fewer
data sets instead, and writes ``benchmarks/GUARANTEES_MAPIE.md``.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
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
MAPIE_SIMULATIONS = 400
MAPIE_SIZES = (500, 2000)
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


def true_shares(spread: float, thresholds: Array) -> dict[str, Array]:
    """Shares at each threshold in a large population."""
    p, y, _ = draw(np.random.default_rng(12345), POPULATION, spread)
    place = np.searchsorted(thresholds, p, side="right")
    n = len(thresholds) + 1
    acted = np.cumsum(np.bincount(place, minlength=n)[::-1])[::-1][1:]
    events = np.cumsum(np.bincount(place, y, n)[::-1])[::-1][1:]
    return {
        "recall": events / y.sum(),
        "precision": events / np.maximum(acted, 1),
        "alert_rate": acted / len(p),
    }


Choice = Callable[
    [tuple[Constraint, ...], Array, Array, "NDArray[np.intp] | None"], "float | None"
]
"""A method: from constraints, scores, outcomes and groups to a threshold."""


def choose(
    constraints: tuple[Constraint, ...],
    p: Array,
    y: Array,
    groups: NDArray[np.intp] | None,
) -> float | None:
    """The threshold of ``decide``."""
    rows = Predictions(p, y.astype(np.intp), None, np.array([0, 1]), groups)
    return guarantee(rows, constraints).threshold


def choose_by_mapie(
    constraints: tuple[Constraint, ...],
    p: Array,
    y: Array,
    groups: NDArray[np.intp] | None,
) -> float | None:
    """The threshold of MAPIE with its defaults, but the same confidence and aim.

    It does not know groups.
    """
    from mapie.risk_control import BinaryClassificationController, BinaryRisk

    names = {"alert_rate": "predicted_positive_fraction"}
    risks: list[str | BinaryRisk] = [names.get(o.name, o.name) for o in constraints]
    bounds = [one.bound for one in constraints]
    several = len(constraints) > 1
    aim = "precision" if constraints[0].name == "recall" else "recall"
    controller = BinaryClassificationController(
        lambda x: np.column_stack([1.0 - x, x]),
        risk=risks if several else risks[0],
        target_level=bounds if several else bounds[0],
        confidence_level=0.95,
        best_predict_param_choice=aim,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that no threshold was found
        best = controller.calibrate(p, y.astype(int)).best_predict_param
    return None if best is None else float(best)


def simulate(
    constraints: tuple[Constraint, ...],
    n: int,
    spread: float,
    method: Choice = choose,
    thresholds: Array = GRID,
    simulations: int = SIMULATIONS,
) -> list[str]:
    """Violations, thresholds found, and the alert rate next to the oracle's."""
    truth = true_shares(spread, thresholds)
    kept = np.ones(len(thresholds), dtype=bool)
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
    for seed in range(simulations):
        rng = np.random.default_rng([seed, n])
        p, y, group = draw(rng, n, spread)
        threshold = method(constraints, p, y, group if spread else None)
        if threshold is None:
            continue
        place = int(np.searchsorted(thresholds, threshold - 1e-9))
        violated += not kept[place]
        rates.append(truth["alert_rate"][place])
    acted = f"{100 * np.mean(rates):.1f}%" if rates else "-"
    shares = [
        f"{100 * violated / simulations:.1f}%",
        f"{100 * len(rates) / simulations:.0f}%",
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


def main_with_mapie() -> None:
    methods: dict[str, tuple[Choice, Array]] = {
        "calspline": (choose, GRID),
        "MAPIE": (choose_by_mapie, np.linspace(0.0, 0.99, 100)),
    }
    rows = []
    for name, constraints in CONSTRAINTS.items():
        for spread in (0.0, 1.0):
            for n in MAPIE_SIZES:
                kind = f"groups of {GROUP_SIZE}" if spread else "independent"
                for library, (method, thresholds) in methods.items():
                    found = simulate(
                        constraints, n, spread, method, thresholds, MAPIE_SIMULATIONS
                    )
                    rows.append([name, kind, f"{n:,}", library, *found])
                    print(*rows[-1], file=sys.stderr, flush=True)
    header = [
        "constraint",
        "rows are",
        "rows",
        "library",
        "violated",
        "threshold found",
        "acted on",
        "oracle",
    ]
    text = f"""# Thresholds with a guarantee, next to MAPIE

Written by `python -m benchmarks.guarantees --mapie`: {MAPIE_SIMULATIONS:,} simulated data sets each. At most 5% may be
violated. MAPIE's `BinaryClassificationController` has its default thresholds (100) and correction (Bonferroni-Holm), and
the same confidence and aim; it takes no groups. The other columns are those of [GUARANTEES.md](GUARANTEES.md); the
oracle has the thresholds of each library.

{table(header, rows)}
"""
    Path(__file__).with_name("GUARANTEES_MAPIE.md").write_text(text)


if __name__ == "__main__":
    if "--mapie" in sys.argv:
        main_with_mapie()
    else:
        main()
