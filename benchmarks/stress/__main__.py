"""Fits of nasty data: ``python -m benchmarks.stress``.

Fits 600 random data sets, each with the defaults and with one of the other options,
looks at what has to hold of every fit, and compares a sample with the exact maximum in
sixty digits. Then fits some 4,000 data sets with segments, groups, weights or several
classes next to simple methods. Writes ``STRESS.md``, and fails if anything does not
hold. Some ten minutes.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path

import numpy as np

from benchmarks.stress import adversary
from benchmarks.stress.page import against_simple_methods, page
from benchmarks.stress.precise import MAX_APART, SMOOTHING, farthest
from benchmarks.stress.shapes import Rows, rows_at
from benchmarks.stress.trial import Outcome, options_at, trial
from calspline import SplineCalibrator

RESULT = Path(__file__).parents[1] / "STRESS.md"
HUGE = {
    13: 10_000_000,
    40: 10_000_000,
    83: 1_000_000,
    121: 1_000_000,
    126: 1_000_000,
    179: 1_000_000,
}
"""Seeds of the few large data sets, and their rows."""
SAMPLE_ROWS = 40
"""Of the data sets that are compared with the exact maximum."""


def data_set(seed: int) -> Rows:
    """Every fifth has three classes or more; rows are two to three thousand, some a hundred thousand, few more."""
    many = seed % 5 == 4
    rng = np.random.default_rng([seed, 9])
    n = round(float(np.exp(rng.uniform(np.log(2.0), np.log(3000.0)))))
    if seed % 47 == 7:
        n = 100_000
    return rows_at(
        seed // 5 if many else seed - seed // 5, HUGE.get(seed, n), many=many
    )


def run(seeds: range, *, show: bool = True) -> list[Outcome]:
    """Both fits of every data set."""
    outcomes = []
    for seed in seeds:
        rows = data_set(seed)
        for options in ({}, options_at(seed, rows)):
            outcomes.append(trial(rows, options))
            if outcomes[-1].problems:
                print(
                    f"{seed} {rows.name}, {len(rows.y)} rows, {options}: {'; '.join(outcomes[-1].problems)}"
                )
        if show and seed % 100 == 99:
            print(f"{seed + 1} data sets", flush=True)
    return outcomes


def compare(seeds: range) -> dict[str, float]:
    """How far fits of given smoothing to small data sets are from the exact maximum."""
    apart = {}
    for seed in seeds:
        rows = rows_at(seed, SAMPLE_ROWS, many=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            cal = SplineCalibrator(smoothing=SMOOTHING, monotone=False).fit(
                rows.scores, rows.y, rows.weight
            )
        if np.isfinite(cal.smoothing_):
            apart[f"{seed}: {rows.name}"] = farthest(cal)
    return apart


def main() -> int:
    parser = argparse.ArgumentParser(description="Fit nasty data.")
    parser.add_argument("--sets", type=int, default=600)
    parser.add_argument(
        "--sample", type=int, default=60, help="fits compared with sixty digits"
    )
    parser.add_argument(
        "--share",
        type=float,
        default=1.0,
        help="of the data sets that are compared with simple methods",
    )
    parser.add_argument(
        "--first",
        type=int,
        default=0,
        help="first seed of these; with others than the page's, only they are run",
    )
    options = parser.parse_args()
    if options.first:
        verdicts = adversary.run(options.share, first=options.first)
        print("\n".join(against_simple_methods(verdicts)))
        return int(any(verdict.failed for verdict in verdicts))
    outcomes, apart = run(range(options.sets)), compare(range(options.sample))
    verdicts = adversary.run(options.share)
    text = page(outcomes, apart, SAMPLE_ROWS, verdicts)
    print(text)
    RESULT.write_text(text)
    wrong = any(outcome.problems for outcome in outcomes)
    harmed = any(verdict.failed for verdict in verdicts)
    return int(wrong or harmed or max(apart.values()) > MAX_APART)


if __name__ == "__main__":
    sys.exit(main())
