"""Bad and odd input by its number in the contract, and calls that meet it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import softmax
from tests.faults.table import Case as Number
from tests.golden import data

from calspline import BetaCalibrator, SplineCalibrator
from calspline.fitting import newton

N = 60
Column = tuple[Number, str, Any]
"""Number in the contract, what is odd, and the column that is."""
MAKE: dict[str, Callable[[], Any]] = {
    "spline": SplineCalibrator,
    "beta": BetaCalibrator,
}


class Book:
    """Calls that end in a message."""

    def __init__(self) -> None:
        self.entries: list[tuple[Number, str, Callable[[], Any]]] = []

    def add(
        self,
        number: Number,
        what: str,
        call: Callable[..., Any],
        *given: Any,
        **named: Any,
    ) -> None:
        """Note a call: its number in the contract, what is odd, and its arguments."""
        self.entries.append((number, what, partial(call, *given, **named)))


def scores_of(m: int, n: int = N) -> tuple[Any, Any]:
    """Scores and labels of two classes, in one column, or of more."""
    z = 1.5 * data.normal(400 + m, n, m)
    gumbel = -np.log(-np.log(data.uniform(410 + m, n, m)))
    y = (0.5 * z + gumbel).argmax(axis=1)
    p = softmax(z, axis=1)
    return (p[:, 1], y) if m == 2 else (p, y)


TWO, THREE = scores_of(2), scores_of(3)
MANY, MANY_THREE = scores_of(2, 600), scores_of(3, 600)
PROBLEMS = {"two classes": TWO, "three classes": THREE}
SHUFFLED = MANY_THREE[0][:, [1, 2, 0]]
ONE_AND_TWO = np.minimum(THREE[1], 1) + 1
"""Labels of two of three classes, counted from 1."""
WEIGHT = 0.5 + data.uniform(420, N)
FEATURES = data.normal(430, N, 6)
"""No scores, but what a model takes."""
THREES = np.arange(N) % 3
NEW = np.where(np.arange(N) < 7, 99, THREES)
"""Segments, the first seven of them new."""


def put(column: Any, row: int, value: Any) -> Any:
    """A copy of an array with another value in a row."""
    text = value is None or isinstance(value, str)
    out = np.array(column, dtype=object if text else None)
    if isinstance(value, float):
        out = out.astype(float)
    out[(row,) + (0,) * (out.ndim - 1)] = value
    return out


def pairs(p: Any) -> Any:
    """Scores in a column for each class."""
    return np.column_stack([1.0 - p, p]) if p.ndim == 1 else p.copy()


def changed_row(p: Any, row: int, values: Any) -> Any:
    out = pairs(p)
    out[row] = values
    return out


def in_one_step(fit: Callable[..., Any], *given: Any, **named: Any) -> Any:
    """The answer of a fit whose iteration ends after one step."""
    allowed = newton.MAX_ITERATIONS
    newton.MAX_ITERATIONS = 1
    try:
        return fit(*given, **named)
    finally:
        newton.MAX_ITERATIONS = allowed


def bad_scores(p: Any) -> Iterator[Column]:
    """Scores that are refused at fit."""
    columns = 2 if p.ndim == 1 else p.shape[1]
    first = (np.arange(N) < 3).reshape(N, *[1] * (p.ndim - 1))
    yield 1, "NaN", put(p, 3, np.nan)
    yield 1, "None", put(p, 3, None)
    yield 2, "infinite", put(p, 3, np.inf)
    yield 2, "minus infinite", put(p, 3, -np.inf)
    yield "3b", "one outside", put(p, 5, 1.2)
    yield "3b", "three outside", np.where(first, 1.2, p)
    yield 4, "no rows", p[:0]
    yield 6, "three dimensions", np.full((N, 2, 2), 0.5)
    yield 6, "a number", 0.5
    yield 7, "complex", p + 0j
    yield 8, "texts", p.astype(str)
    yield 8, "one text", put(p, 5, "0.5")
    yield 9, "sparse", sparse.csr_array(pairs(p))
    yield 40, "a row sums to too little", changed_row(p, 3, 0.3)
    yield 41, "a negative entry", changed_row(p, 3, [-0.2, 1.2] + [0.0] * (columns - 2))
    yield 42, "a row of zeros", changed_row(p, 5, 0.0)


def bad_labels(y: Any) -> Iterator[Column]:
    yield 20, "NaN", put(y.astype(float), 2, np.nan)
    yield 20, "None", put(y, 2, None)
    yield 21, "one class", ["yes"] * N
    yield 24, "continuous", np.linspace(0.1, 0.9, N)
    yield 25, "more classes than columns", np.arange(N) % (y.max() + 2)
    yield 26, "too short", y[:55]


def bad_weights() -> Iterator[Column]:
    ones = np.ones(N)
    yield 30, "negative", put(ones, 4, -1.0)
    yield 31, "all zero", 0.0 * ones
    yield 32, "NaN", put(ones, 1, np.nan)
    yield 32, "infinite", put(ones, 1, np.inf)
    yield 35, "too short", ones[:3]
    yield "35a", "a sum of one", WEIGHT / WEIGHT.sum()
    yield "35a", "a mean of a million", 1e6 * WEIGHT


def bad_groups() -> Iterator[Column]:
    groups = np.arange(N) // 2
    yield "54a", "groups that are too short", groups[:50]
    yield "54a", "a group that is NaN", put(groups, 7, np.nan)
    yield "54a", "a group that is None", put(groups, 7, None)
    yield "54b", "one group", 0 * groups


def bad_segments() -> Iterator[Column]:
    yield "54a", "segments that are too short", THREES[:50]
    yield "54a", "segments that are sets", [{1}] * N
    yield "54a", "no segment at all", [None] * N
