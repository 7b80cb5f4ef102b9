"""Finding the experiments and running a calibrator on one."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Array = NDArray[np.float64]
Labels = NDArray[np.intp]
Kind = Literal["binary", "multiclass"]

ROOT = Path(__file__).resolve().parents[2]


def folder() -> Path | None:
    """Where the experiments are, if they are anywhere."""
    if "CALSPLINE_ARENA" in os.environ:
        place = Path(os.environ["CALSPLINE_ARENA"])
    elif "CALSPLINE_DATA" in os.environ:
        place = Path(os.environ["CALSPLINE_DATA"]).parent / "arena"
    else:
        place = ROOT.parent / "shared" / "arena"
    return place if (place / "peers_binary.csv").is_file() else None


class Frozen(NamedTuple):
    """Results of the other methods: one row per experiment, one column per method."""

    losses: pd.DataFrame
    seconds: dict[str, float]
    rows: pd.Series
    classes: pd.Series


def frozen(place: Path, kind: Kind) -> Frozen:
    """Read the other methods' log-losses, their median seconds, and the size of each experiment."""
    table = pd.read_csv(place / f"peers_{kind}.csv").set_index("name")
    methods = [
        c
        for c in table
        if not c.startswith("t_") and c not in ("n", "m") and not c.endswith("_err")
    ]
    seconds = {c: float(table[f"t_{c}"].median()) for c in methods if f"t_{c}" in table}
    classes = table["m"] if "m" in table else pd.Series(2, index=table.index)
    return Frozen(table[methods], seconds, table["n"], classes)


class Experiment(NamedTuple):
    """Probabilities of all classes, and labels, of the calibration and the test rows."""

    fit_p: Array
    fit_y: Labels
    test_p: Array
    test_y: Labels


def load(path: Path, rows: int | None = None) -> Experiment:
    """Read one experiment, with all calibration rows or the first of them."""
    data: dict[str, NDArray[Any]] = dict(np.load(path))
    fit_p, test_p = (probabilities(data[f"probs_{part}"]) for part in ("cal", "test"))
    fit_y, test_y = (data[f"y_{part}"].astype(np.intp) for part in ("cal", "test"))
    return Experiment(fit_p[:rows], fit_y[:rows], test_p, test_y)


class Scores(NamedTuple):
    """Test scores of one set of probabilities."""

    log_loss: float
    brier: float
    accuracy: float


class Outcome(NamedTuple):
    """A calibrator and the raw probabilities on one experiment."""

    ours: Scores
    raw: Scores
    seconds: float


FAILED = Outcome(Scores(np.inf, np.nan, np.nan), Scores(np.nan, np.nan, np.nan), np.nan)


def run(make: Callable[[], Any], path: Path, rows: int | None = None) -> Outcome:
    """Fit on the calibration rows, or the first of them; score on the test rows."""
    fit_p, fit_y, test_p, test_y = load(path, rows)
    binary = fit_p.shape[1] == 2
    start = time.perf_counter()
    model = make()
    model.fit(fit_p[:, 1] if binary else fit_p, fit_y)
    found = np.asarray(model.predict_proba(test_p[:, 1] if binary else test_p))
    seconds = time.perf_counter() - start
    return Outcome(
        score(test_y, completed(found, fit_y, test_p)), score(test_y, test_p), seconds
    )


def completed(found: Array, fit_y: Labels, test_p: Array) -> Array:
    """An answer with a column for each class.

    It may have come as the probability of the second class alone, or without the
    classes that no calibration row has.
    """
    if found.ndim == 1 or found.shape[1] == 1:
        found = np.column_stack([1.0 - found.reshape(-1), found.reshape(-1)])
    classes = (
        np.unique(fit_y)
        if found.shape[1] < test_p.shape[1]
        else np.arange(test_p.shape[1])
    )
    out: Array = np.full_like(test_p, 1e-15)
    out[:, classes] = found
    return out


def score(y: Labels, p: Array) -> Scores:
    """Log-loss, Brier score (of the second class, or summed over many) and accuracy."""
    rows = np.arange(len(y))
    truth = np.zeros_like(p)
    truth[rows, y] = 1.0
    columns = slice(1, None) if p.shape[1] == 2 else slice(None)
    return Scores(
        float(-np.mean(np.log(np.clip(p[rows, y], 1e-15, 1.0)))),
        float(np.mean(np.sum((p - truth)[:, columns] ** 2, axis=1))),
        float(np.mean(np.argmax(p, axis=1) == y)),
    )


def probabilities(stored: NDArray[Any]) -> Array:
    """Stored probabilities, in double precision and summing to one again."""
    p = np.clip(stored.astype(np.float64), 0.0, 1.0)
    if p.ndim == 1:
        p = np.column_stack([1.0 - p, p])
    return np.asarray(p / p.sum(axis=1, keepdims=True))
