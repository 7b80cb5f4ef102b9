"""Out-of-bag scores against five folds: ``python -m benchmarks.oob``.

Calibrates the same forest both ways and judges both on rows held out: log-loss, and the
time of the whole fit, taken in turn. Writes ``OOB.md`` beside this file.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import (
    load_breast_cancer,
    load_digits,
    load_wine,
    make_classification,
)
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from benchmarks import datasets
from benchmarks.tables import table
from calspline import CalibratedClassifierCV

RESULT = Path(__file__).with_name("OOB.md")
TREES = 200
SPLITS = 3


class Case(NamedTuple):
    """Features and classes."""

    name: str
    X: NDArray[Any]
    y: NDArray[Any]


def cases() -> Iterator[Case]:
    """Bundled, simulated, and, where they are, real data sets."""
    for load in (load_breast_cancer, load_digits, load_wine):
        yield Case(load.__name__.removeprefix("load_"), *load(return_X_y=True))
    yield Case(
        "simulated, 15% flipped",
        *make_classification(4000, 20, flip_y=0.3, random_state=0),
    )
    real: dict[str, Callable[[], Any]] = {
        "SUPPORT2": datasets.load_support2,
        "GUSTO-I": datasets.load_gusto,
        "bank": datasets.load_bank,
    }
    for name, loader in real.items():
        try:
            frame, y = loader()
        except FileNotFoundError as reason:
            print(f"{name} left out: {reason}")
            continue
        import pandas as pd

        yield Case(
            name, pd.get_dummies(frame).fillna(-1.0).to_numpy(dtype=np.float64), y
        )


class Outcome(NamedTuple):
    """Log-losses and seconds, over the splits of one case."""

    losses: dict[str, float]
    seconds: dict[str, float]


def run(case: Case, forest: Any) -> Outcome:
    """Both ways in turn, on several splits."""
    losses: dict[str, list[float]] = {"none": [], "5": [], "oob": []}
    seconds: dict[str, list[float]] = {"5": [], "oob": []}
    for split in range(SPLITS):
        X, X_test, y, y_test = train_test_split(
            case.X, case.y, test_size=0.4, random_state=split, stratify=case.y
        )
        labels = np.unique(case.y)
        raw = forest.fit(X, y).predict_proba(X_test)
        losses["none"].append(log_loss(y_test, raw, labels=labels))
        for name, cv in (("5", 5), ("oob", "oob")):
            start = time.perf_counter()
            model = CalibratedClassifierCV(forest, cv=cv).fit(X, y)
            seconds[name].append(time.perf_counter() - start)
            losses[name].append(
                log_loss(y_test, model.predict_proba(X_test), labels=labels)
            )
    return Outcome(
        {name: float(np.mean(v)) for name, v in losses.items()},
        {name: float(min(v)) for name, v in seconds.items()},
    )


def main() -> None:
    """Run all cases and write the table."""
    forests = {
        "random forest": RandomForestClassifier(TREES, random_state=0),
        "extra trees": ExtraTreesClassifier(TREES, bootstrap=True, random_state=0),
    }
    rows, gaps, ratios = [], [], []
    for case in cases():
        for name, forest in forests.items():
            losses, seconds = run(case, forest)
            gaps.append(losses["oob"] - losses["5"])
            ratios.append(seconds["oob"] / seconds["5"])
            numbers = [f"{losses[way]:.4f}" for way in ("none", "5", "oob")]
            rows.append(
                [case.name, name, f"{len(case.y):,}", *numbers, f"{ratios[-1]:.2f}"]
            )
            print(*rows[-1], flush=True)
    header = [
        "data",
        "model",
        "rows",
        "uncalibrated",
        "five folds",
        "out of bag",
        "time ratio",
    ]
    text = (
        "# Out-of-bag calibration against five folds\n\n"
        f"`python -m benchmarks.oob`: forests of {TREES} trees, log-loss on 40% of the rows held out, mean of {SPLITS} "
        "splits; time of the whole fit, out of bag / five folds, best of each.\n\n"
        f"{table(header, rows)}\n\n"
        f"Out of bag less five folds, in log-loss: mean {np.mean(gaps):+.4f}, from {min(gaps):+.4f} to "
        f"{max(gaps):+.4f}. Time ratio: median {np.median(ratios):.2f}.\n"
    )
    RESULT.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
