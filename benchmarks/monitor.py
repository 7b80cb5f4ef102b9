"""Watching a calibrator: ``python -m benchmarks.monitor`` writes ``benchmarks/MONITOR.md``.

* False alarms when nothing changes: ``Monitor``, looked at every day, next to ``drift`` repeated every day, probcal's
  ``CalibrationMonitor`` and river's ADWIN on the squared error.
* Days until the alarm after a change of level, slope or shape on day 60.

The probabilities are right before the change. What is not installed is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from benchmarks.tables import table
from calspline import Monitor, ScoreHistogram, SplineCalibrator, drift
from calspline.scores import BinaryScores

Array = NDArray[np.float64]

RUNS, LOOKS, CHANGE_RUNS, QUIET, LAST, ROWS = 20, 1000, 20, 60, 150, 100
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

    name = "Monitor"

    def __init__(self) -> None:
        self.monitor = Monitor(AsTheyAre().fit([0.2, 0.4, 0.6, 0.8], [0, 1, 0, 1]))

    def alarm(self, p: Array, y: NDArray[np.bool_]) -> bool:
        """After a day more."""
        return self.monitor.update(ScoreHistogram.from_scores(p, y)).alarm


class Daily:
    """The test of ``drift`` at 5%, on the last thirty days, every day."""

    name = "drift every day"

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        u = rng.normal(-1.0, 1.3, 5000)
        self.reference = ScoreHistogram.from_scores(expit(u), rng.random(5000) < expit(u))
        self.calibrator = AsTheyAre().fit([0.2, 0.4, 0.6, 0.8], [0, 1, 0, 1])
        self.days: list[ScoreHistogram] = []

    def alarm(self, p: Array, y: NDArray[np.bool_]) -> bool:
        """After a day more."""
        self.days = [*self.days[-29:], ScoreHistogram.from_scores(p, y)]
        current = sum(self.days[1:], self.days[0])
        return drift(self.reference, current, calibrator=self.calibrator).miscalibrated


class Probcal:
    """probcal's monitor, with its defaults and a window of thirty days for speed."""

    name = "probcal"

    def __init__(self) -> None:
        self.monitor = import_module("probcal.monitor").CalibrationMonitor(plug_in_window=30)

    def alarm(self, p: Array, y: NDArray[np.bool_]) -> bool:
        """After a day more."""
        return bool(self.monitor.update(y.astype(int), p).alarm)


class River:
    """ADWIN on the squared error of each row."""

    name = "river ADWIN"

    def __init__(self) -> None:
        self.detector = import_module("river.drift").ADWIN()

    def alarm(self, p: Array, y: NDArray[np.bool_]) -> bool:
        """After a day more."""
        found = False
        for error in ((p - y) ** 2).tolist():
            self.detector.update(error)
            found = found or self.detector.drift_detected
        return found


def first_alarm(watcher: Any, seed: int, days: int, change: Callable[[Array], Array] | None) -> int | None:
    """The day of the first alarm, counted from 1; the change comes after day ``QUIET``."""
    rng = np.random.default_rng(seed)
    for day in range(1, days + 1):
        u = rng.normal(-1.0, 1.3, ROWS)
        truth = u if change is None or day <= QUIET else change(u)
        if watcher.alarm(expit(u), rng.random(ROWS) < expit(truth)):
            return day
    return None


def row(cls: Any) -> list[str]:
    """False alarms and delays of one watcher."""
    looks = 100 if cls is Daily else LOOKS
    false = sum(first_alarm(cls(), seed, looks, None) is not None for seed in range(RUNS))
    cells = [cls.name, f"{false / RUNS:.0%} in {looks:,} looks"]
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
    for cls in (Ours, Daily, Probcal, River):
        try:
            rows.append(row(cls))
        except ImportError:
            print(f"{cls.name}: not installed")
    found = table(["", "false alarms", *(f"days to alarm, {name}" for name in CHANGES)], rows)
    text = (
        "# Watching a calibrator\n\n"
        f"Made by `python -m benchmarks.monitor`. {RUNS} runs each, {ROWS} rows a day; the change comes after day "
        f"{QUIET}, and {LAST} stands for none within {LAST} days. Medians of those that gave no alarm before it.\n\n"
        f"{found}\n"
    )
    Path(__file__).with_name("MONITOR.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
