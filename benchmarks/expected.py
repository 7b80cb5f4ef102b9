"""Measures before labels come: ``python -m benchmarks.expected`` writes ``benchmarks/EXPECTED.md``.

How often the log-loss, Brier score, AUC, accuracy, rate and cost that then happen on 2,000 rows are within the 95%
limits of ``expected``, by the number of calibration rows, for a truth that is a line in the log-odds and for one with
waves; next to the same with isotonic calibration and the sampling error alone, which is what CBPE of NannyML does on
rows; and under a change of how scores relate to events, which nothing can see without labels.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from benchmarks.tables import table
from calspline import IsotonicCalibrator, SplineCalibrator, evaluate, expected

Array = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], tuple[Array, NDArray[np.bool_]]]

REPLICATIONS, ROWS = 100, 2000
COSTS = {"false_positive": 1.0, "false_negative": 5.0}
NAMES = "log_loss", "brier", "auc", "accuracy", "rate", "cost"


def draw(
    rng: np.random.Generator, n: int, *, moved: float = 0.0, waves: float = 0.0
) -> tuple[Array, NDArray[np.bool_]]:
    """Scores that are too extreme and too high, and labels."""
    u = rng.normal(-1.0, 1.5, n)
    return expit(u), rng.random(n) < expit(0.8 * u - 0.2 + moved + waves * np.sin(2.0 * u))


def row(name: str, cls: Any, n: int, before: Draw = draw, then_drawn: Draw | None = None) -> list[str]:
    """Coverage of each measure; rows to come are as those before, unless they are drawn otherwise."""
    held = dict.fromkeys(NAMES, 0)
    for seed in range(REPLICATIONS):
        rng = np.random.default_rng([seed, n])
        calibrator = cls().fit(*before(rng, n))
        score, y = (then_drawn or before)(rng, ROWS)
        p = calibrator.calibrate(score)
        then = evaluate(y, p).to_dict()
        then |= {"rate": then["base_rate"], "cost": float(np.mean(np.where(p >= 1 / 6, ~y * 1.0, y * 5.0)))}
        for measure, (low, high) in expected(calibrator, score, costs=COSTS).limits.items():
            held[measure] += low <= then[measure] <= high
    return [name, f"{n:,}", *(f"{held[measure] / REPLICATIONS:.0%}" for measure in NAMES)]


def main() -> None:
    """Write the table."""
    wavy = partial(draw, waves=0.8)
    rows = [row("calspline", SplineCalibrator, n) for n in (200, 1000, 5000, 20_000)]
    rows += [row("calspline, waves", SplineCalibrator, n, wavy) for n in (200, 1000)]
    rows += [row("isotonic, sampling error only", IsotonicCalibrator, n) for n in (200, 1000, 5000, 20_000)]
    rows.append(row("calspline, log-odds moved by 0.5", SplineCalibrator, 5000, draw, partial(draw, moved=0.5)))
    found = table(["limits", "calibration rows", *NAMES], rows)
    text = (
        "# Measures before labels come\n\n"
        f"Made by `python -m benchmarks.expected`. Coverage of 95% limits over {REPLICATIONS} samples, {ROWS:,} rows "
        f"to come.\n\n{found}\n\nWith waves the log-odds have `0.8 sin(2 u)` added. With 200 rows of it the cost is "
        "held too seldom: the limits know of the variance of the curve, not of its bias.\n\nThe last row is what it "
        "cannot do: a change that does not show in the scores.\n"
    )
    Path(__file__).with_name("EXPECTED.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
