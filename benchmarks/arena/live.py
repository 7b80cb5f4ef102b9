"""Every calibrator that is installed on every experiment, with a journal that an interrupted run goes on from."""

from __future__ import annotations

import json
import sys
import time
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from benchmarks.arena.experiments import Experiment, Kind, completed, score
from benchmarks.arena.rivals import Rival
from benchmarks.arena.sources import Source
from benchmarks.paper.progress import Progress

RAW = "raw"
COLUMNS = [
    "kind",
    "experiment",
    "method",
    "log_loss",
    "brier",
    "accuracy",
    "seconds",
    "problem",
]


class Result(NamedTuple):
    """One calibrator on one experiment; where it failed the scores are infinite and ``problem`` says why."""

    kind: Kind
    experiment: str
    method: str
    log_loss: float
    brier: float
    accuracy: float
    seconds: float
    problem: str = ""


class Journal:
    """Results as lines of a file. The file goes when the run is complete: the next one begins anew."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.results: dict[tuple[str, str], Result] = {}
        if path.is_file():
            for line in path.read_text(encoding="utf-8").splitlines():
                try:
                    result = Result(*json.loads(line))
                except (ValueError, TypeError):  # the line that the interruption cut
                    continue
                self.results[result.experiment, result.method] = result

    def add(self, result: Result) -> None:
        """Keep a result."""
        self.results[result.experiment, result.method] = result
        with self.path.open("a", encoding="utf-8") as file:
            file.write("\n" * bool(self._cut()) + json.dumps(result) + "\n")

    def _cut(self) -> bool:
        if not self.path.is_file() or not self.path.stat().st_size:
            return False
        with self.path.open("rb") as file:
            file.seek(-1, 2)
            return file.read(1) != b"\n"

    def close(self) -> None:
        """Forget all, the run being complete."""
        self.path.unlink(missing_ok=True)


def run_all(
    places: list[Source], rivals: list[Rival], journal: Journal
) -> pd.DataFrame:
    """All results, one row each."""
    progress = Progress(len(places))
    results: list[Result] = []
    for source in places:
        experiment = source.read()
        kind: Kind = "binary" if experiment.fit_p.shape[1] == 2 else "multiclass"
        todo = [rival for rival in rivals if kind in rival.kinds]
        cached = all((source.name, rival.name) in journal.results for rival in todo)
        raw = score(experiment.test_y, experiment.test_p)
        results.append(Result(kind, source.name, RAW, *raw, np.nan))
        for rival in todo:
            if (source.name, rival.name) not in journal.results:
                journal.add(judge(rival, experiment, kind, source.name))
            results.append(journal.results[source.name, rival.name])
        progress.step(source.name, cached=cached)
    return pd.DataFrame(results, columns=COLUMNS)


def judge(rival: Rival, experiment: Experiment, kind: Kind, name: str) -> Result:
    """One calibrator on one experiment. An error loses the experiment, and is shown."""
    fit_p, fit_y, test_p, test_y = experiment
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        start = time.process_time()
        try:
            found = np.asarray(
                rival.calibrate(fit_p.copy(), fit_y.copy(), test_p.copy()),
                dtype=np.float64,
            )
            seconds = time.process_time() - start
            p = completed(found, fit_y, test_p)
            if not np.isfinite(p).all():
                raise ValueError(
                    f"{(~np.isfinite(p).all(axis=1)).sum()} rows without finite probabilities"
                )
        except Exception as error:
            problem = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
            print(f"{name}, {rival.name}: {problem}", file=sys.stderr, flush=True)
            return Result(kind, name, rival.name, np.inf, np.inf, 0.0, np.nan, problem)
    return Result(kind, name, rival.name, *score(test_y, p), seconds)
