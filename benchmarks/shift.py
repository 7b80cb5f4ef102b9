"""Another base rate from scores alone: ``python -m benchmarks.shift`` writes ``benchmarks/SHIFT.md``.

Scores are normal in each class on the scale of log-odds, a distance of two apart. A
calibrator is fitted to rows of which 30% are events, and shifted to 10,000 unlabelled
rows of another base rate: error and coverage of the estimate, next to QuaPy's EM on the
same probabilities (which has no interval), and how often the test of "a mere shift of
the base rate explains the scores" rejects at 5%, under label shift and when scores of a
class change, too.
"""

from __future__ import annotations

import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from benchmarks.tables import table
from calspline import SplineCalibrator

Array = NDArray[np.float64]

REPLICATIONS, ROWS, OLD = 100, 10_000, 0.3
RATES = 0.001, 0.01, 0.05, 0.2, 0.5


def draw(
    rng: np.random.Generator, n: int, rate: float, spread: float = 1.0
) -> tuple[Array, NDArray[np.bool_]]:
    """Scores and labels."""
    y = rng.random(n) < rate
    return expit(rng.normal(2.0 * y - 1.0, spread)), y


def quapy(p: Array, old: Array) -> float:
    """QuaPy's estimate; NaN where it is not installed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return float(import_module("quapy.method.aggregative").EMQ.EM(old, p)[0][1])
        except ImportError:
            return float("nan")


def shift(calibrator: SplineCalibrator, new: Array) -> Any:
    """The shift to new scores, whatever the test says of it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return calibrator.shifted(unlabelled=new).shift_


def estimates(n: int, rate: float) -> list[str]:
    """A row of the first table."""
    ours, theirs, held, rejected = [], [], 0, 0
    for seed in range(REPLICATIONS):
        rng = np.random.default_rng([seed, n])
        score, y = draw(rng, n, OLD)
        calibrator = SplineCalibrator().fit(score, y)
        new, _ = draw(rng, ROWS, rate)
        found = shift(calibrator, new)
        low, high = found.limits()[1]
        ours.append(found.base_rate)
        theirs.append(
            quapy(calibrator.predict_proba(new), np.array([1.0 - y.mean(), y.mean()]))
        )
        held += low <= rate <= high
        rejected += found.p_value < 0.05
    errors = (float(np.mean(np.abs(np.array(each) - rate))) for each in (ours, theirs))
    shares = (f"{count / REPLICATIONS:.0%}" for count in (held, rejected))
    return [f"{n:,}", f"{rate:.1%}", *(f"{error:.5f}" for error in errors), *shares]


def power(spread: float) -> list[str]:
    """A row of the second table."""
    rejected = 0
    for seed in range(REPLICATIONS):
        rng = np.random.default_rng(seed)
        calibrator = SplineCalibrator().fit(*draw(rng, 3000, OLD))
        rejected += shift(calibrator, draw(rng, 3000, 0.1, spread)[0]).p_value < 0.05
    return [f"{spread:g}", f"{rejected / REPLICATIONS:.0%}"]


def main() -> None:
    """Write the tables."""
    header = [
        "rows of the fit",
        "true rate",
        "mean error",
        "QuaPy's EM",
        "95% limits hold",
        "test rejects at 5%",
    ]
    first = table(
        header, [estimates(n, rate) for n in (1000, 10_000) for rate in RATES]
    )
    second = table(
        ["spread of scores (1 before)", "rejects at 5%"],
        [power(s) for s in (1.0, 1.1, 1.2, 1.4)],
    )
    text = (
        "# Another base rate from scores alone\n\n"
        f"Made by `python -m benchmarks.shift`. {REPLICATIONS} samples each; {ROWS:,} unlabelled rows.\n\n{first}\n\n"
        "QuaPy stops when an estimate moves by less than 1e-4 and gives no interval and no test.\n\n"
        "When scores of the same class change, too (3,000 rows in both samples, base rate 10%):\n\n"
        + second
        + "\n"
    )
    Path(__file__).with_name("SHIFT.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
