"""Fitting every row of the table on calibration rows, and judging it on test rows."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import brier_score_loss, log_loss

from benchmarks.paper.rows import ROWS, Row
from benchmarks.tables import table

Array = NDArray[np.float64]
Labels = NDArray[np.intp]


class Scores(NamedTuple):
    """A model's probabilities of both classes, on rows to calibrate with and to judge on."""

    fit_p: Array
    fit_y: Labels
    test_p: Array
    test_y: Labels


class Judged(NamedTuple):
    """Log-loss, Brier score and seconds to fit."""

    loss: float
    brier: float
    seconds: float


def judge(row: Row, scores: Scores) -> Judged:
    """Calibrate as one row says, and judge."""
    p, seconds = scores.test_p, 0.0
    if row.calibrator is not None:
        start = time.perf_counter()
        fitted = row.calibrator().fit(scores.fit_p, scores.fit_y)
        seconds = time.perf_counter() - start
        p = fitted.predict_proba(scores.test_p)
    return Judged(
        log_loss(scores.test_y, p), brier_score_loss(scores.test_y, p[:, 1]), seconds
    )


def judge_all(scores: Scores) -> dict[str, Judged]:
    """Every row of the table."""
    return {row.name: judge(row, scores) for row in ROWS}


def as_table(
    runs: list[dict[str, Judged]], paper: str, told_as: str = "log-loss, paper"
) -> str:
    """Mean and standard deviation over runs, beside the paper's column, under the heading ``told_as``."""
    lines = []
    for row in ROWS:
        losses = np.array([run[row.name].loss for run in runs])
        told: Any = getattr(row, paper)
        spread = f" ± {losses.std(ddof=1):.4f}" if len(runs) > 1 else ""
        lines.append(
            [
                row.name,
                "" if told is None else f"{told:.4f}",
                f"{losses.mean():.4f}{spread}",
                f"{np.mean([run[row.name].brier for run in runs]):.4f}",
                ""
                if row.calibrator is None
                else f"{1e3 * np.median([run[row.name].seconds for run in runs]):.0f} ms",
            ]
        )
    return table(["", told_as, "log-loss, ours", "Brier", "time to fit"], lines)
