"""Watching a calibrator: ``python -m benchmarks.monitor`` writes ``benchmarks/MONITOR.md``.

* False alarms when nothing changes: ``Monitor``, looked at every day, next to probcal's ``CalibrationMonitor`` and
  river's ADWIN on the squared error.
* Days until the alarm after a change of level, slope or shape on day 60.

The probabilities are right before the change; they have two digits, so that histograms of many days stay small. What is
not installed is left out. Ten minutes on one core.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from benchmarks.tables import table
from calspline import Monitor, ScoreHistogram, SplineCalibrator
from calspline.scores import BinaryScores

Array = NDArray[np.float64]

CHANGE_RUNS, QUIET, LAST, ROWS, DIGITS = 15, 60, 150, 100, 2
CHANGES: dict[str, Callable[[Array], Array]] = {
    "level: u + 0.4": lambda u: u + 0.4,
    "slope: 0.6 u - 0.4": lambda u: 0.6 * (u + 1.0) - 1.0,
    "shape: u + 0.9 sin 1.5 u": lambda u: u + 0.9 * np.sin(1.5 * u),
}


class AsTheyAre(SplineCalibrator):
    """Scores that are right already."""

    def _two(self, scores: BinaryScores, codes: Any = None) -> Array:
        return scores.values.astype(np.float64)


class Ours:
    """The monitor."""

    name, runs, looks = "Monitor", 40, 1000

    def __init__(self) -> None:
        self.monitor = Monitor(AsTheyAre().fit([0.2, 0.4, 0.6, 0.8], [0, 1, 0, 1]))

    def alarm(self, p: Array, y: NDArray[np.bool_]) -> bool:
        """After a day more."""
        return self.monitor.update(ScoreHistogram.from_scores(p, y)).alarm


class Probcal:
    """probcal's monitor, with its defaults and a window of thirty days for speed."""

    name, runs, looks = "probcal", 10, 1000

    def __init__(self) -> None:
        self.monitor = import_module("probcal.monitor").CalibrationMonitor(plug_in_window=30)

    def alarm(self, p: Array, y: NDArray[np.bool_]) -> bool:
        """After a day more."""
        return bool(self.monitor.update(y.astype(int), p).alarm)


class River:
    """ADWIN on the squared error of each row."""

    name, runs, looks = "river ADWIN", 100, 1000

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
    return np.asarray(np.clip(np.round(expit(rng.normal(-1.0, 1.3, n)), DIGITS), least, 1.0 - least))


def first_alarm(watcher: Any, seed: int, days: int, change: Callable[[Array], Array] | None) -> int | None:
    """The day of the first alarm, counted from 1; the change comes after day ``QUIET``."""
    rng = np.random.default_rng(seed)
    for day in range(1, days + 1):
        p = scores(rng, ROWS)
        truth = p if change is None or day <= QUIET else expit(change(logit(p)))
        if watcher.alarm(p, rng.random(ROWS) < truth):
            return day
    return None


def row(cls: Any) -> list[str]:
    """False alarms and delays of one watcher."""
    false = sum(first_alarm(cls(), seed, cls.looks, None) is not None for seed in range(cls.runs))
    cells = [cls.name, f"{false} of {cls.runs}", f"{cls.looks:,}"]
    for change in CHANGES.values():
        found = [first_alarm(cls(), 1000 + seed, LAST, change) for seed in range(CHANGE_RUNS)]
        after = [day - QUIET if day is not None else LAST for day in found if day is None or day > QUIET]
        median = float(np.median(after)) if after else float("nan")
        early = sum(day is not None and day <= QUIET for day in found)
        cells.append(f"{median:.0f}" + (f" ({early} of {CHANGE_RUNS} before it)" if early else ""))
    return cells


def main() -> None:
    """Write the table."""
    rows = []
    for cls in (Ours, Probcal, River):
        try:
            rows.append(row(cls))
        except ImportError:
            print(f"{cls.name}: not installed")
    found = table(
        ["", "runs with a false alarm", "looks in a run", *(f"days to alarm, {name}" for name in CHANGES)], rows
    )
    text = (
        "# Watching a calibrator\n\n"
        f"Made by `python -m benchmarks.monitor`. {ROWS} rows a day, looked at every day at 5%. Days to the alarm are "
        f"medians of {CHANGE_RUNS} runs, less those with an alarm before the change, which comes after day {QUIET}; "
        f"{LAST} stands for none until day {LAST}."
        f"\n\n{found}\n"
    )
    Path(__file__).with_name("MONITOR.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
