"""The one experiment that we share with CalArena, next to the results published there.

``python -m benchmarks.calarena`` writes ``CALARENA.md``. The experiment is ``c10,
resnet110`` of the benchmark ``cv-multiclass``. ``calarena_published.csv`` has the results
of all its methods, from https://github.com/probkit/CalArena (``results/cv-multiclass``).
That our rows are theirs is checked: the raw probabilities must have the published
log-loss, Brier score, ECE and accuracy.
"""

from __future__ import annotations

import csv
from pathlib import Path
from time import process_time

import numpy as np
from numpy.typing import NDArray

from benchmarks.arena.experiments import Experiment, folder, load
from benchmarks.tables import table
from calspline import SplineCalibrator, TemperatureCalibrator, compare
from calspline.calibrators.base import BaseCalibrator

HERE = Path(__file__).parent
EXPERIMENT = "m_cifar10__resnet110_markus93"
PUBLISHED = HERE / "calarena_published.csv"
MEASURES = ("log_loss", "brier", "ece", "accuracy")
TOLERANCE = 1e-5
"""Of a published number: CalArena bins in single precision."""
TITLE = "# CalArena: the experiment we share"

Array = NDArray[np.float64]
Labels = NDArray[np.intp]


def measures(p: Array, y: Labels) -> dict[str, float]:
    """The measures of CalArena: its ECE has 15 bins of equal width for the top label."""
    p = p / p.sum(axis=1, keepdims=True)
    rows = np.arange(len(y))
    confidence = p.max(axis=1)
    right = p.argmax(axis=1) == y
    bins = np.clip(np.ceil(15 * confidence).astype(int) - 1, 0, 14)
    gaps = np.bincount(bins, right - confidence, minlength=15)
    return {
        "log_loss": float(-np.log(p[rows, y]).mean()),
        "brier": float(np.square(p - np.eye(p.shape[1])[y]).sum(axis=1).mean()),
        "ece": float(np.abs(gaps).sum() / len(y)),
        "accuracy": float(right.mean()),
    }


def published() -> dict[str, dict[str, float]]:
    """Results of each method of CalArena."""
    with PUBLISHED.open(encoding="utf-8", newline="") as file:
        return {
            row.pop("method"): {name: float(value) for name, value in row.items()}
            for row in csv.DictReader(file)
        }


def fitted(calibrator: BaseCalibrator, data: Experiment) -> tuple[Array, float]:
    """Calibrated test rows, and the processor time of fit and prediction."""
    start = process_time()
    p = calibrator.fit(data.fit_p, data.fit_y).predict_proba(data.test_p)
    return p, process_time() - start


def page(data: Experiment) -> str:
    """The Markdown page."""
    theirs = published()
    raw = measures(data.test_p, data.test_y)
    for name in MEASURES:
        if abs(raw[name] - theirs["Base-model"][name]) > TOLERANCE:
            raise ValueError(f"{EXPERIMENT} is not the experiment: {name} {raw[name]}")
    p, seconds = fitted(SplineCalibrator(), data)
    temperature, _ = fitted(TemperatureCalibrator(), data)
    results = theirs | {"calspline": measures(p, data.test_y) | {"seconds": seconds}}
    difference = compare(
        data.test_y, {"temperature": temperature, "calspline": p}
    ).log_loss["calspline"]
    order = sorted(results, key=lambda method: results[method]["log_loss"])
    rows = []
    for place, method in enumerate(order, start=1):
        found = results[method]
        shown = f"**{method}**" if method == "calspline" else method
        rows.append(
            [
                str(place),
                shown,
                *(f"{found[name]:.4f}" for name in MEASURES),
                f"{found['seconds']:.2f}",
            ]
        )
    header = ["", "method", "log-loss", "Brier score", "ECE", "accuracy", "seconds"]
    return "\n".join(
        [
            TITLE,
            "",
            "Made by `python -m benchmarks.calarena`.",
            "",
            "[CalArena](https://github.com/probkit/CalArena) ([Berta, Holzmüller, Bach and Jordan,",
            "2026](https://arxiv.org/abs/2605.30188)) compares post-hoc calibrators on nearly 2,000",
            "experiments. One of them is also in our arena: `c10, resnet110` of its benchmark",
            "`cv-multiclass`, a residual network on CIFAR-10 with 5,000 rows to calibrate and 10,000",
            "to test. The uncalibrated probabilities give the published numbers, so the rows are the",
            "same. The table has all methods that CalArena publishes for it, by log-loss; `SMS` is",
            "structured matrix scaling, `Spline` the package ml-insights, `TS` temperature scaling.",
            "",
            table(header, rows),
            "",
            "ECE is that of the top label with 15 bins of equal width. Seconds are those published,",
            "measured on another machine; ours are processor time of fit and prediction.",
            "",
            "How much of this is chance? Row by row, the log-loss of calspline is lower than that of",
            f"temperature scaling (our `TemperatureCalibrator`) by {-difference.value:.4f}, 95% interval",
            f"{-difference.upper:.4f} to {-difference.lower:.4f}. The distance to `SMS` is smaller than this",
            "interval is wide, and one experiment is no leaderboard:",
            "[our arena](arena/RESULTS.md) has 71. `python -m benchmarks.arena --live --data FOLDER`",
            "reads CalArena's files, for whoever has downloaded the others.",
            "",
        ]
    )


def main() -> None:
    """Write the page."""
    place = folder()
    if place is None or not (path := place / f"{EXPERIMENT}.npz").is_file():
        raise FileNotFoundError(f"the arena has no {EXPERIMENT}; see README.md")
    text = page(load(path))
    (HERE / "CALARENA.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
