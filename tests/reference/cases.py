"""The data sets on which calspline and mgcv are compared.

Everything is drawn from ``numpy.random.RandomState``, whose streams are frozen, so that
the reference values stay those of the same data.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray

Array = NDArray[np.float64]

TEST_ROWS = 5000


@dataclass(frozen=True)
class Case:
    """How scores arise, as log-odds ``u``, and the true log-odds at each of them."""

    seed: int
    rows: int
    draw: Callable[[RandomState, int], Array]
    truth: Callable[[Array], Array]


@dataclass(frozen=True)
class Data:
    """A calibration set and a test set."""

    scores: Array
    y: NDArray[np.intp]
    test_scores: Array
    test_y: NDArray[np.intp]


def sigmoid(u: Array) -> Array:
    return np.asarray(1.0 / (1.0 + np.exp(-u)))


def wide(rng: RandomState, n: int) -> Array:
    return np.asarray(2.0 * rng.standard_normal(n))


def skewed(rng: RandomState, n: int) -> Array:
    """Most scores are small, some very small, few are above one half."""
    return np.asarray(0.5 - 1.5 * rng.standard_exponential(n))


def tied(rng: RandomState, n: int) -> Array:
    """Scores that are multiples of 1/200, between 1/200 and 199/200."""
    p = (
        np.clip(np.round(200.0 * sigmoid(1.5 * rng.standard_normal(n))), 1.0, 199.0)
        / 200.0
    )
    return np.asarray(np.log(p / (1.0 - p)))


def kink(u: Array) -> Array:
    return np.asarray(1.5 * np.minimum(u, 0.0) + 0.3 * np.maximum(u, 0.0))


CASES = {
    "over-confident": Case(1, 2000, wide, lambda u: 0.4 * u - 0.2),
    "under-confident": Case(2, 600, wide, lambda u: 1.6 * u),
    "bend": Case(3, 5000, wide, lambda u: 0.6 * u + 0.5 * np.sin(u)),
    "bend, few rows": Case(4, 600, wide, lambda u: 0.6 * u + 0.5 * np.sin(u)),
    "kink": Case(5, 2000, wide, kink),
    "rare": Case(6, 5000, wide, lambda u: 0.6 * u - 4.0),
    "skewed": Case(7, 2000, skewed, lambda u: 0.8 * u + 0.3 * np.cos(u)),
    "tied": Case(8, 5000, tied, lambda u: 1.2 * u + 0.4 * np.sin(2.0 * u)),
}


def generate(case: Case) -> Data:
    rng = RandomState(case.seed)
    parts = []
    for n in (case.rows, TEST_ROWS):
        u = case.draw(rng, n)
        parts += [
            sigmoid(u),
            (rng.random_sample(n) < sigmoid(case.truth(u))).astype(np.intp),
        ]
    return Data(*parts)


def log_loss(p: Array, y: NDArray[np.intp]) -> float:
    return float(-np.mean(np.log(np.where(y == 1, p, 1.0 - p))))
