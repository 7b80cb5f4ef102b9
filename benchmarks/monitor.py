"""Watching a calibrator: ``python -m benchmarks.monitor`` writes ``benchmarks/MONITOR.md``.

* False alarms when nothing changes: ``Monitor``, looked at every day, next to ``drift``
  on the last thirty days, repeated every day, probcal's ``CalibrationMonitor`` and
  river's ADWIN on the squared error.
* Days until the alarm after a change of level, slope or shape on day 60.

The probabilities are right before the change; they have two digits, so that histograms
of many days stay small. What is not installed is left out. Half an hour on one core;
with ``--keep FILE`` the alarms found so far are kept in a file, and a run that was
broken off goes on where it was.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit
from scipy.stats import binomtest

from benchmarks.tables import table
from calspline import Monitor, ScoreHistogram, SplineCalibrator, drift
from calspline._input.scores import BinaryScores

Array = NDArray[np.float64]

LOOKS, CHANGE_RUNS, QUIET, LAST, ROWS, DIGITS, WINDOW = 1000, 15, 60, 150, 100, 2, 30
CHANGES: dict[str, Callable[[Array], Array]] = {
    "level: u + 0.4": lambda u: u + 0.4,
    "slope: 0.6 u - 0.4": lambda u: 0.6 * (u + 1.0) - 1.0,
    "shape: u + 0.9 sin 1.5 u": lambda u: u + 0.9 * np.sin(1.5 * u),
}


class AsTheyAre(SplineCalibrator):
    """Scores that are right already."""

    def _two(self, scores: BinaryScores, **segments: Any) -> Array:
        return scores.values.astype(np.float64)


@cache
def in_use() -> tuple[SplineCalibrator, ScoreHistogram]:
    """A calibrator fitted to a million rows in which what happened is what was said, and those rows."""
    p, rows = np.unique(scores(np.random.default_rng(0), 1_000_000), return_counts=True)
    reference = ScoreHistogram.from_counts(p, positives=p * rows, totals=rows)
    return SplineCalibrator().fit_histogram(reference), reference


class Ours:
    """The monitor."""

    name, runs = "Monitor", 300

    def __init__(self) -> None:
        self.monitor = Monitor(AsTheyAre().fit([0.2, 0.4, 0.6, 0.8], [0, 1, 0, 1]))

    def alarm(self, p: Array, y: NDArray[np.bool_]) -> bool:
        """After a day more."""
        return self.monitor.update(ScoreHistogram.from_scores(p, y)).alarm


class Daily:
    """The test of ``drift`` at 5%, on the last thirty days, every day."""

    name, runs = "`drift` every day", 40

    def __init__(self) -> None:
        self.days: list[ScoreHistogram] = []

    def alarm(self, p: Array, y: NDArray[np.bool_]) -> bool:
        """After a day more."""
        self.days = [*self.days[-WINDOW + 1 :], ScoreHistogram.from_scores(p, y)]
        current = sum(self.days[1:], self.days[0])
        calibrator, reference = in_use()
        return drift(reference, current, calibrator=calibrator).miscalibrated


class Probcal:
    """probcal's monitor, with its defaults and a window of thirty days for speed."""

    name, runs = "probcal", 10

    def __init__(self) -> None:
        self.monitor = import_module("probcal.monitor").CalibrationMonitor(
            plug_in_window=WINDOW
        )

    def alarm(self, p: Array, y: NDArray[np.bool_]) -> bool:
        """After a day more."""
        return bool(self.monitor.update(y.astype(int), p).alarm)


class River:
    """ADWIN on the squared error of each row."""

    name, runs = "river ADWIN", 100

    def __init__(self) -> None:
        self.detector = import_module("river.drift").ADWIN()

    def alarm(self, p: Array, y: NDArray[np.bool_]) -> bool:
        """After a day more."""
        found = False
        for error in ((p - y) ** 2).tolist():
            self.detector.update(error)
            found = found or self.detector.drift_detected
        return found


def scores(rng: np.random.Generator, n: int) -> Array:
    """Probabilities of two digits, none of them 0 or 1."""
    least = 10.0**-DIGITS
    return np.asarray(
        np.clip(np.round(expit(rng.normal(-1.0, 1.3, n)), DIGITS), least, 1.0 - least)
    )


def first_alarm(
    watcher: Any, seed: int, days: int, change: Callable[[Array], Array] | None
) -> int | None:
    """The day of the first alarm, counted from 1; the change comes after day ``QUIET``."""
    rng = np.random.default_rng(seed)
    for day in range(1, days + 1):
        p = scores(rng, ROWS)
        truth = p if change is None or day <= QUIET else expit(change(logit(p)))
        if watcher.alarm(p, rng.random(ROWS) < truth):
            return day
    return None


class Kept:
    """First alarms by watcher, change and seed, in a file if there is one."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.found: dict[str, int | None] = (
            json.loads(path.read_text()) if path and path.exists() else {}
        )

    def first_alarms(
        self, cls: Any, days: int, seeds: range, change: str | None = None
    ) -> list[int | None]:
        """The first alarm of every run."""
        keys = [f"{cls.name}, {change}, {seed}" for seed in seeds]
        for key, seed in zip(keys, seeds, strict=True):
            if key not in self.found:
                self.found[key] = first_alarm(
                    cls(), seed, days, None if change is None else CHANGES[change]
                )
                if self.path:
                    self.path.write_text(json.dumps(self.found))
        return [self.found[key] for key in keys]


def row(cls: Any, kept: Kept) -> list[str]:
    """False alarms and delays of one watcher."""
    false = sum(
        day is not None for day in kept.first_alarms(cls, LOOKS, range(cls.runs))
    )
    low, high = binomtest(false, cls.runs).proportion_ci()
    cells = [cls.name, f"{false} of {cls.runs}", f"{low:.1%} to {high:.1%}"]
    for change in CHANGES:
        found = kept.first_alarms(cls, LAST, range(1000, 1000 + CHANGE_RUNS), change)
        after = [
            day - QUIET if day is not None else LAST
            for day in found
            if day is None or day > QUIET
        ]
        median = float(np.median(after)) if after else float("nan")
        early = sum(day is not None and day <= QUIET for day in found)
        cells.append(
            f"{median:.0f}"
            + (f" ({early} of {CHANGE_RUNS} before it)" if early else "")
        )
    return cells


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--keep", type=Path, help="a JSON file for the alarms found so far"
    )
    kept, rows = Kept(parser.parse_args().keep), []
    for cls in (Ours, Daily, Probcal, River):
        try:
            rows.append(row(cls, kept))
        except ImportError:
            print(f"{cls.name}: not installed")
    found = table(
        [
            "",
            "runs with a false alarm",
            "95% limits",
            *(f"days to alarm, {name}" for name in CHANGES),
        ],
        rows,
    )
    text = (
        "# Watching a calibrator\n\n"
        f"Made by `python -m benchmarks.monitor`. {ROWS} rows a day, looked at every day at 5%. False alarms are those "
        f"in {LOOKS:,} days without a change. Days to the alarm are medians of {CHANGE_RUNS} runs, less those with an "
        f"alarm before the change, which comes after day {QUIET}; {LAST} stands for none until day {LAST}. `drift` "
        f"looks at the last {WINDOW} days: a test at 5%, repeated every day."
        f"\n\n{found}\n"
    )
    Path(__file__).with_name("MONITOR.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
