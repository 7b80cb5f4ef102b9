"""How much the histogram's binning changes: ``python -m benchmarks.binning``.

Above 4096 distinct scores a fit sees cells of a fixed grid instead of the scores. This
fits the same data both ways and compares predictions, on a dense grid within the range
of the scores, and the log-loss on rows held out. Ends with 1 if a limit is not met.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple
from unittest import mock

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier

from calspline import ScoreHistogram, SplineCalibrator
from calspline.histograms import histogram

Array = NDArray[np.float64]
Labels = NDArray[np.int64]

MAX_CHANGE_OF_PREDICTION = 1e-4
MAX_CHANGE_OF_LOSS = 1e-6
GRID = 20_001


class Case(NamedTuple):
    """Rows to fit and rows held out."""

    name: str
    p: Array
    y: Labels
    p_held: Array
    y_held: Labels


class Change(NamedTuple):
    """What binning did to one case."""

    binned: ScoreHistogram
    exact: ScoreHistogram
    smoothing: tuple[float, float]
    scales: tuple[str, str]
    prediction: float
    where: float
    loss: float

    @property
    def small(self) -> bool:
        """Whether both limits are met."""
        return (
            self.prediction < MAX_CHANGE_OF_PREDICTION
            and abs(self.loss) < MAX_CHANGE_OF_LOSS
        )


def smooth_case(n: int = 200_000) -> Case:
    """Continuous scores and a curve that bends."""
    rng = np.random.default_rng(0)
    u = rng.normal(-1.0, 2.0, 2 * n)
    y = (rng.random(2 * n) < expit(0.7 * u + 0.2 + 0.4 * np.sin(1.5 * u))).astype(
        np.int64
    )
    p = expit(u)
    return Case("continuous scores", p[:n], y[:n], p[n:], y[n:])


def overconfident_case(n: int = 200_000) -> Case:
    """Scores far out, where the cells of the grid are wider."""
    rng = np.random.default_rng(1)
    u = rng.normal(0.0, 15.0, 2 * n)
    y = (rng.random(2 * n) < expit(0.1 * u + 0.2)).astype(np.int64)
    p = expit(u)
    return Case("over-confident scores", p[:n], y[:n], p[n:], y[n:])


def forest_case(n: int = 60_000) -> Case:
    """Shares of a random forest with several rows to a leaf, on rows it was not trained on."""
    train = 20_000
    x, y = make_classification(
        train + 2 * n,
        n_features=20,
        n_informative=8,
        class_sep=0.6,
        flip_y=0.1,
        weights=[0.7],
        random_state=0,
    )
    forest = RandomForestClassifier(100, min_samples_leaf=5, random_state=0).fit(
        x[:train], y[:train]
    )
    p = forest.predict_proba(x[train:])[:, 1]
    y = y[train:].astype(np.int64)
    return Case("random forest", p[:n], y[:n], p[n:], y[n:])


@contextmanager
def no_binning() -> Iterator[None]:
    """Let histograms keep every distinct score."""
    with mock.patch.object(histogram, "MAX_POINTS", sys.maxsize):
        yield


def compare(case: Case) -> Change:
    """Fit with and without binning."""
    binned = ScoreHistogram.from_scores(case.p, case.y)
    with no_binning():
        exact = ScoreHistogram.from_scores(case.p, case.y)
    if binned.exact or not exact.exact:
        raise ValueError(
            f"{case.name}: one histogram must be binned and one exact; got {binned} and {exact}"
        )
    models = [SplineCalibrator().fit_histogram(h) for h in (binned, exact)]
    grid = dense_grid(case.p)
    change = np.abs(models[0].calibrate(grid) - models[1].calibrate(grid))
    loss = [log_loss(case.y_held, model.calibrate(case.p_held)) for model in models]
    worst = int(np.argmax(change))
    return Change(
        binned,
        exact,
        (models[0].smoothing_, models[1].smoothing_),
        (models[0].scale_, models[1].scale_),
        float(change[worst]),
        float(grid[worst]),
        loss[0] - loss[1],
    )


def dense_grid(p: Array) -> Array:
    """Scores within the range of ``p``, even in the probability and even in the log-odds."""
    inside = p[(p > 0.0) & (p < 1.0)]
    low, high = logit(inside.min()), logit(inside.max())
    return np.concatenate(
        [np.linspace(p.min(), p.max(), GRID), expit(np.linspace(low, high, GRID))]
    )


def log_loss(y: Labels, p: Array) -> float:
    """Mean of ``-log`` of the probability given to what happened."""
    return float(-np.mean(np.where(y == 1, np.log(p), np.log1p(-p))))


def main() -> int:
    changes = []
    for case in (smooth_case(), forest_case(), overconfident_case()):
        change = compare(case)
        changes.append(change)
        distinct, cells = len(change.exact), len(change.binned)
        print(
            f"{case.name}: {len(case.p):,} rows, {distinct:,} distinct scores in {cells:,} cells"
        )
        print(
            f"  scale {' / '.join(change.scales)}, lambda {' / '.join(f'{s:.4g}' for s in change.smoothing)}"
        )
        print(
            f"  prediction changes by at most {change.prediction:.2g}, at score {change.where:.6g}"
        )
        print(f"  held-out log-loss changes by {change.loss:.2g}")
    good = all(change.small for change in changes)
    limits = f"{MAX_CHANGE_OF_PREDICTION:g} for a prediction, {MAX_CHANGE_OF_LOSS:g} for the log-loss"
    print(f"limits ({limits}): {'all hold' if good else 'NOT MET'}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
