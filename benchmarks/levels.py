"""Whether tests and comparisons keep their level: ``python -m benchmarks.levels`` writes ``benchmarks/LEVELS.md``.

* The calibration test of ``evaluate`` at 5%, for right probabilities, with weights of
  several kinds.
* The intervals of ``compare`` at 95%, with weights and with rare events, and how often
  it leaves a reference that is as good as ten other sets.
* ``drift`` at 95% in a world that does not change, with the calibrator in use.
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
from calspline import (
    ScoreHistogram,
    SigmoidCalibrator,
    SplineCalibrator,
    compare,
    drift,
)
from calspline._arrays import one_blas_thread
from calspline.evaluation.calibration_test import calibration_p_value
from calspline.evaluation.compare import PairedDifference
from calspline.evaluation.losses import row_briers, row_log_losses
from calspline.evaluation.predictions import Predictions

Array = NDArray[np.float64]

REPLICATIONS, COMPARED_SETS, DRIFTS = 500, 100, 100
CLASSES = np.array([0, 1])

WEIGHTS: dict[str, Callable[[np.random.Generator, int], Array | None]] = {
    "none": lambda rng, n: None,
    "all 0.5": lambda rng, n: np.full(n, 0.5),
    "uniform (0 to 2)": lambda rng, n: rng.uniform(0.0, 2.0, n),
    "exponential": lambda rng, n: rng.exponential(size=n),
    "log-normal": lambda rng, n: rng.lognormal(size=n),
}
EVENTS = {"common": 0.0, "2%": -4.5, "0.4%": -6.0}
"""Mean of the log-odds, whose standard deviation is 1."""
TRUTHS: dict[str, Callable[[Array], Array]] = {
    "right already": lambda u: u,
    "over-confident": lambda u: 0.5 * u - 0.5,
    "one bend": lambda u: np.where(u > 0.0, 0.4 * u, 1.5 * u),
    "rare events": lambda u: 0.7 * u - 5.0,
}


def sample(
    mean: float, n: int, seed: int, weights: str
) -> tuple[np.random.Generator, Array, Predictions]:
    """Log-odds, and right probabilities with what happened."""
    rng = np.random.default_rng([seed, n])
    u = rng.normal(mean, 1.0, n)
    y = (rng.random(n) < expit(u)).astype(np.intp)
    return rng, u, Predictions(expit(u), y, WEIGHTS[weights](rng, n), CLASSES)


def rejected(mean: float, n: int, weights: str) -> float:
    """Share of samples of right probabilities that the calibration test rejects."""
    found = []
    for seed in range(REPLICATIONS):
        rows = sample(mean, n, seed, weights)[2]
        found.append(calibration_p_value(rows.counts, rows) <= 0.05)
    return float(np.mean(found))


def covered(mean: float, n: int, weights: str) -> tuple[float, float]:
    """Share of samples whose intervals of the log-loss and of the Brier score hold the true difference."""

    def other(u: Array) -> Array:
        return np.asarray(expit(1.3 * u + 0.2))

    u = np.random.default_rng(0).normal(mean, 1.0, 2_000_000)
    p, q = expit(u), other(u)
    truths = (
        float(np.mean(p * np.log(p / q) + (1.0 - p) * np.log((1.0 - p) / (1.0 - q)))),
        float(np.mean((p - q) ** 2)),
    )
    found = []
    for seed in range(REPLICATIONS):
        _, u, right = sample(mean, n, seed, weights)
        wrong = Predictions(other(u), right.codes, right.weight, CLASSES)
        pairs = (
            PairedDifference(losses, wrong, right).interval(1.959964)
            for losses in (row_log_losses, row_briers)
        )
        found.append(
            [
                low <= truth <= high
                for (low, high), truth in zip(pairs, truths, strict=True)
            ]
        )
    log_loss, brier = np.mean(found, axis=0)
    return float(log_loss), float(brier)


def left(mean: float, n: int, weights: str) -> tuple[float, float]:
    """Of eleven equally good sets: how often the first is left, and coverage of the twenty intervals."""
    gone, inside = [], []
    for seed in range(COMPARED_SETS):
        rng, u, right = sample(mean, n, seed, weights)
        sets = {str(k): expit(u + rng.normal(0.0, 0.5, n)) for k in range(11)}
        found = compare(right.codes, sets, sample_weight=right.weight)
        gone.append(found.recommended != "0")
        both = (*found.log_loss.values(), *found.brier.values())
        inside.append(np.mean([d.lower <= 0.0 <= d.upper for d in both]))
    return float(np.mean(gone)), float(np.mean(inside))


def alarms(
    truth: Callable[[Array], Array], n: int, m: int, make: Callable[[], object]
) -> float:
    """Share of unchanged worlds in which the calibrator in use is called wrong."""
    found = []
    for seed in range(DRIFTS):
        rng = np.random.default_rng([seed, n, m])
        u = rng.normal(0.0, 1.5, n + m)
        p, y = expit(u), rng.random(n + m) < expit(truth(u))
        before, now = (
            ScoreHistogram.from_scores(p[part], y[part])
            for part in (slice(n), slice(n, None))
        )
        calibrator = make().fit(p[:n], y[:n])  # type: ignore[attr-defined]
        found.append(drift(before, now, calibrator=calibrator).miscalibrated)
    return float(np.mean(found))


def percent(share: float) -> str:
    return f"{100.0 * share:.1f}%"


def error(samples: int) -> str:
    """Standard error of a share that is 5%."""
    return percent(float(np.sqrt(0.05 * 0.95 / samples)))


def show(row: list[str]) -> list[str]:
    print(*row, file=sys.stderr, flush=True)
    return row


def main() -> None:
    warnings.simplefilter("ignore")
    with one_blas_thread():
        tests = [
            show(
                [
                    weights,
                    *(
                        percent(rejected(mean, n, weights))
                        for mean in EVENTS.values()
                        for n in (500, 2000)
                    ),
                ]
            )
            for weights in WEIGHTS
        ]
        sizes = {"common": 500, "2%": 500, "0.4%": 1000}
        intervals = [
            show(
                [
                    weights,
                    *(
                        " / ".join(map(percent, covered(EVENTS[name], n, weights)))
                        for name, n in sizes.items()
                    ),
                ]
            )
            for weights in WEIGHTS
        ]
        candidates = [
            show(
                [
                    f"{events}, {n:,} rows",
                    weights,
                    *map(percent, left(EVENTS[events], n, weights)),
                ]
            )
            for events, n in (("common", 500), ("2%", 1000))
            for weights in ("none", "exponential")
        ]
        drifts = [
            show(
                [
                    name,
                    *(
                        "-"
                        if make is SigmoidCalibrator and name == "one bend"
                        else percent(alarms(truth, n, m, make))
                        for make in (SplineCalibrator, SigmoidCalibrator)
                        for n, m in ((2000, 2000), (1000, 10_000))
                    ),
                ]
            )
            for name, truth in TRUTHS.items()
        ]
    columns = [f"{events}, n = {n:,}" for events in EVENTS for n in (500, 2000)]
    rows = ["2,000 / 2,000 rows", "1,000 / 10,000 rows"]
    makers = [f"{name}, {row}" for name in ("spline", "sigmoid") for row in rows]
    text = f"""# Levels: do tests and comparisons keep them?

Written by `python -m benchmarks.levels` (`make bench-levels`). Log-odds are normal with standard deviation 1.

## The calibration test under weights

How often `evaluate(...).calibration_p_value <= 0.05` for right probabilities: {REPLICATIONS:,} samples each, so that
the standard error is {error(REPLICATIONS)}; 5% is wanted.

{table(["weights", *columns], tests)}

## The intervals of compare

How often the 95% intervals of the log-loss and of the Brier score hold the true difference between right probabilities
and those with log-odds 1.3 u + 0.2; {REPLICATIONS:,} samples each.

{table(["weights", *(f"{name} events, n = {n:,}" for name, n in sizes.items())], intervals)}

## Ten other sets that are as good

How often `compare` recommends another set than the reference, where 5% is allowed; and the coverage of the twenty
intervals, each by itself. {COMPARED_SETS} samples each.

{table(["events", "weights", "reference left", "intervals cover"], candidates)}

## drift in a world that does not change

How often `drift(reference, current, calibrator=...)` says at 95% that the calibrator is no longer right, though nothing
has changed. The calibrator was fitted to the reference; {DRIFTS} samples each, so that the standard error is
{error(DRIFTS)}; at most 5% is wanted. Before, with a spline: 21% with 2,000 rows of either, 72% with 1,000 and 10,000.
A spline that hardly moves scores that are right alarms less often: its own error is smaller than its variance allows
for. A sigmoid cannot follow a bend, so it is wrong there from the start.

{table(["true log-odds", *makers], drifts)}
"""
    (Path(__file__).parent / "LEVELS.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
