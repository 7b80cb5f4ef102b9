"""Forests and neighbours, whose scores are votes with exact 0 and 1: ``python -m benchmarks.forests``.

Writes ``benchmarks/FORESTS.md``. Real models on scikit-learn's own data and, where they
are to be had, those in the folder that ``CALSPLINE_DATA`` names; few calibration rows;
against the raw scores, clipped at half a calibration row.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.tables import table
from calspline import SplineCalibrator

Array = NDArray[np.float64]

ROWS, DRAWS = (200, 500, 1000, 2000), 3
MOST_FIT, MOST_CALIBRATION, MOST_TEST = 5000, 6000, 8000
FOLDER = Path(
    os.environ.get(
        "CALSPLINE_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"
    )
)
FILES = {
    "adult": ("adult_train.csv.gz", "income", (">50K", "1"), ("split",)),
    "bank": ("bank_additional_full.csv.gz", "y", ("yes", "1"), ()),
    "gusto": ("gusto1_mortality.csv.gz", "day30", ("1",), ()),
}
MODELS: dict[str, Any] = {
    "20 trees": RandomForestClassifier(20, random_state=0),
    "50 trees": RandomForestClassifier(50, random_state=0),
    "200 trees": RandomForestClassifier(200, random_state=0),
    "50 extra trees": ExtraTreesClassifier(50, random_state=0),
    "5 neighbours": make_pipeline(StandardScaler(), KNeighborsClassifier(5)),
    "20 neighbours": make_pipeline(StandardScaler(), KNeighborsClassifier(20)),
}


def data_sets() -> Iterator[tuple[str, Array, NDArray[np.bool_]]]:
    """Name, features and labels."""
    X, y = load_digits(return_X_y=True)
    yield "digits, odd", X, y % 2 == 1
    yield "digits, 8", X, y == 8
    X, y = load_breast_cancer(return_X_y=True)
    yield "breast cancer", X, y == 1
    for name, (file, target, positive, left_out) in FILES.items():
        if not (FOLDER / file).is_file():
            print(f"{name} is skipped: no {FOLDER / file}", file=sys.stderr)
            continue
        frame = pd.read_csv(FOLDER / file, sep=None, engine="python").drop(
            columns=list(left_out), errors="ignore"
        )
        labels = (
            frame.pop(target)
            .astype(str)
            .str.strip()
            .str.rstrip(".")
            .isin(positive)
            .to_numpy()
        )
        yield (
            name,
            np.column_stack([_numbers(frame[column]) for column in frame]),
            labels,
        )


def _numbers(column: pd.Series) -> Array:
    if pd.api.types.is_numeric_dtype(column):
        return np.asarray(column.fillna(column.median()), dtype=np.float64)
    return np.asarray(pd.factorize(column)[0], dtype=np.float64)


class Result(NamedTuple):
    """One calibration: log-loss of the test rows less that of the raw scores, and its standard error."""

    model: str
    rows: int
    data: str
    difference: float
    error: float


def results() -> Iterator[Result]:
    """Every model on every data set, with as many calibration rows as there are."""
    for data, features, labels in data_sets():
        order = np.random.default_rng(0).permutation(len(labels))
        X, y = features[order], labels[order]
        fit, calibration = (
            min(len(y) // 3, MOST_FIT),
            min(len(y) // 3, MOST_CALIBRATION),
        )
        test = slice(fit + calibration, fit + calibration + MOST_TEST)
        for name, model in MODELS.items():
            model.fit(X[:fit], y[:fit])
            scores, told = (
                model.predict_proba(X[fit : fit + calibration])[:, 1],
                model.predict_proba(X[test])[:, 1],
            )
            for n in ROWS:
                for draw in range(min(DRAWS, calibration // n)):
                    rows = slice(draw * n, (draw + 1) * n)
                    p = (
                        SplineCalibrator()
                        .fit(scores[rows], y[fit : fit + calibration][rows])
                        .calibrate(told)
                    )
                    clipped = np.clip(told, 0.5 / n, 1.0 - 0.5 / n)
                    lost = _losses(p, y[test]) - _losses(clipped, y[test])
                    yield Result(
                        name,
                        n,
                        data,
                        float(lost.mean()),
                        float(lost.std() / np.sqrt(len(lost))),
                    )
        print(data, file=sys.stderr, flush=True)


def _losses(p: Array, y: NDArray[np.bool_]) -> Array:
    return np.asarray(-np.log(np.clip(np.where(y, p, 1.0 - p), 1e-15, 1.0)))


def _summary(found: pd.DataFrame, by: str) -> str:
    rows = []
    for value, members in found.groupby(by, sort=False):
        z = members["difference"] / members["error"]
        change, behind, ahead = (
            members["difference"].mean(),
            (z > 2.0).mean(),
            (z < -2.0).mean(),
        )
        rows.append(
            [
                str(value),
                str(len(members)),
                f"{change:+.4f}",
                f"{100 * ahead:.0f}%",
                f"{100 * behind:.0f}%",
            ]
        )
    return table(
        [
            by,
            "calibrations",
            "log-loss less raw",
            "ahead by 2 errors",
            "behind by 2 errors",
        ],
        rows,
    )


def main() -> None:
    found = pd.DataFrame(results()).replace({"error": {0.0: np.finfo(float).tiny}})
    worst = found.sort_values("difference").tail(5)
    lines = [
        f"{r.model}, {r.data}, {r.rows} rows: {r.difference:+.4f}"
        for r in worst.itertuples()
    ]
    text = f"""# Forests and neighbours

Written by `python -m benchmarks.forests`: `SplineCalibrator()` on votes of trees and neighbours, many of them exactly
0 or 1, with few calibration rows. Raw scores are clipped at half a calibration row. Errors are those of the test rows
alone: with thousands of them they are far smaller than what 200 calibration rows leave open.

{_summary(found, "model")}

{_summary(found.sort_values("rows"), "rows")}

Furthest behind: {"; ".join(lines)}.
"""
    Path(__file__).with_name("FORESTS.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
