"""Data of nasty shapes, drawn at random.

A shape makes scores; labels follow them by one of several rules; weights and the number
of rows are drawn apart. Scores in one column are probabilities or margins, in three or
more they are probabilities.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

Array = NDArray[np.float64]
Shape = Callable[[np.random.Generator, int], NDArray[Any]]


class Rows(NamedTuple):
    """What a calibrator is fitted to, and what it is called."""

    name: str
    scores: NDArray[Any]
    y: NDArray[np.intp]
    weight: Array | None


def ordinary(rng: np.random.Generator, n: int) -> Array:
    return np.asarray(expit(rng.normal(-0.5, 2.0, n)))


def tied(rng: np.random.Generator, n: int) -> Array:
    return rng.choice(rng.random(rng.integers(2, 7)), n)


def within_rounding(rng: np.random.Generator, n: int) -> Array:
    """Scores at most 1e-15 apart."""
    return np.asarray(rng.uniform(0.05, 0.95) + rng.integers(0, 9, n) * 2.0**-53)


def masses_at_the_ends(rng: np.random.Generator, n: int) -> Array:
    return np.where(
        rng.random(n) < 0.7, rng.integers(0, 2, n).astype(float), rng.random(n)
    )


def only_the_ends(rng: np.random.Generator, n: int) -> Array:
    return rng.integers(0, 2, n).astype(float)


def next_to_the_ends(rng: np.random.Generator, n: int) -> Array:
    """Within a few roundings of 0 and 1."""
    near = rng.integers(1, 50, n) * 2.0**-53
    return np.where(rng.random(n) < 0.5, near, 1.0 - near)


def any_magnitude(rng: np.random.Generator, n: int) -> Array:
    return np.asarray(10.0 ** rng.uniform(-305, 0, n))


def denormal(rng: np.random.Generator, n: int) -> Array:
    return np.asarray(rng.integers(0, 2**40, n) * 5e-324)


def all_small(rng: np.random.Generator, n: int) -> Array:
    """Far from the base rate: the model is sure, and wrong."""
    return np.asarray(10.0 ** rng.uniform(-12.1, -12.0, n))


def one_apart(rng: np.random.Generator, n: int) -> Array:
    """All equal but one."""
    score = np.full(n, rng.random())
    score[rng.integers(n)] = rng.random()
    return score


def two_clusters(rng: np.random.Generator, n: int) -> Array:
    return np.asarray(rng.choice([0.2, 0.9], n) + 1e-12 * rng.random(n))


def half_precision(rng: np.random.Generator, n: int) -> NDArray[Any]:
    return np.asarray(expit(rng.normal(0.0, 4.0, n)), dtype=np.float16)


def two_columns(rng: np.random.Generator, n: int) -> Array:
    """Log-odds at hundreds in two columns, as naive Bayes gives them."""
    u = rng.normal(0.0, 10.0 ** rng.uniform(0.0, 2.5), n)
    return np.column_stack([expit(-u), expit(u)])


def margins(rng: np.random.Generator, n: int) -> Array:
    return rng.normal(rng.normal(), 3.0, n)


def huge_margins(rng: np.random.Generator, n: int) -> Array:
    return np.asarray(rng.normal(0.0, 1.0, n) * 10.0 ** rng.uniform(100, 300))


def tiny_margins(rng: np.random.Generator, n: int) -> Array:
    return np.asarray(
        -np.abs(rng.normal(0.0, 1.0, n)) * 10.0 ** rng.uniform(-307, -100)
    )


def denormal_margins(rng: np.random.Generator, n: int) -> Array:
    return np.asarray(rng.integers(-1000, 1000, n) * 5e-324)


def crowded_margins(rng: np.random.Generator, n: int) -> Array:
    """Hardly more of them apart than numbers there are."""
    return np.asarray(
        10.0 ** rng.uniform(-3, 12)
        * (1.0 + rng.normal(0.0, 10.0 ** rng.uniform(-15, -11), n))
    )


def far_margins(rng: np.random.Generator, n: int) -> Array:
    """A narrow spread far from zero."""
    return np.asarray(10.0 ** rng.uniform(3, 12) + rng.normal(0.0, 1.0, n))


def one_far_margin(rng: np.random.Generator, n: int) -> Array:
    x = rng.normal(0.0, 1.0, n)
    x[rng.integers(n)] = 10.0 ** rng.uniform(3, 150)
    return x


def heavy_tails(rng: np.random.Generator, n: int) -> Array:
    return rng.standard_cauchy(n) ** 3


SHAPES: tuple[Shape, ...] = (
    ordinary,
    tied,
    within_rounding,
    masses_at_the_ends,
    only_the_ends,
    next_to_the_ends,
    any_magnitude,
    denormal,
    all_small,
    one_apart,
    two_clusters,
    half_precision,
    two_columns,
    margins,
    huge_margins,
    tiny_margins,
    denormal_margins,
    crowded_margins,
    far_margins,
    one_far_margin,
    heavy_tails,
)


def classes_ordinary(rng: np.random.Generator, n: int) -> Array:
    return np.asarray(
        softmax(2.0 * rng.normal(size=(n, int(rng.integers(3, 11)))), axis=1)
    )


def classes_extreme(rng: np.random.Generator, n: int) -> Array:
    """Log-probabilities down to hundreds below."""
    return np.asarray(
        softmax(
            10.0 ** rng.uniform(1, 3) * rng.normal(size=(n, int(rng.integers(3, 7)))),
            axis=1,
        )
    )


def classes_certain(rng: np.random.Generator, n: int) -> Array:
    """Every row a one and zeros."""
    m = int(rng.integers(3, 7))
    return np.asarray(np.eye(m)[rng.integers(0, m, n)])


def classes_voted(rng: np.random.Generator, n: int) -> Array:
    """Shares of ten votes, as a small forest gives them."""
    m = int(rng.integers(3, 9))
    return np.asarray(rng.multinomial(10, rng.dirichlet(np.ones(m)), n) / 10.0)


def classes_alike(rng: np.random.Generator, n: int) -> Array:
    """Within rounding of uniform."""
    m = int(rng.integers(3, 6))
    return np.asarray(1.0 / m + rng.integers(-3, 4, (n, m)) * 2.0**-53)


MANY: tuple[Shape, ...] = (
    classes_ordinary,
    classes_extreme,
    classes_certain,
    classes_voted,
    classes_alike,
)


def rows_at(seed: int, n: int, *, many: bool) -> Rows:
    """The data set of this seed."""
    rng = np.random.default_rng([seed, 0])
    shapes = MANY if many else SHAPES
    shape = shapes[seed % len(shapes)]
    scores = shape(rng, max(n, 3) if many else n)
    rule, y = _labels(rng, scores, many=many)
    weighing, weight = _weights(rng, y)
    return Rows(
        f"{shape.__name__.replace('_', ' ')}, {rule}, {weighing}", scores, y, weight
    )


def _labels(
    rng: np.random.Generator, scores: NDArray[Any], *, many: bool
) -> tuple[str, NDArray[np.intp]]:
    n = len(scores)
    if many:
        m = scores.shape[1]
        rule = str(
            rng.choice(["followed", "separated", "at random", "rare", "some absent"])
        )
        y = scores.argmax(axis=1)
        if rule in ("followed", "some absent"):
            y = np.where(rng.random(n) < 0.3, rng.integers(0, m, n), y)
        if rule == "some absent":
            y = np.minimum(y, 1)
        if rule == "at random":
            y = rng.integers(0, m, n)
        if rule == "rare":
            y = (np.arange(n) == rng.integers(n)).astype(np.intp)
        if y.min() > 0:  # labels without 0 might be those from 1 on
            y[0] = 0
    else:
        place = (
            np.argsort(
                np.argsort(scores[:, -1] if scores.ndim == 2 else scores, kind="stable")
            )
            / n
        )
        rule = str(
            rng.choice(
                ["followed", "separated", "turned round", "at random", "waves", "rare"]
            )
        )
        chance = {
            "followed": 0.1 + 0.8 * place,
            "separated": (place > rng.random()).astype(float),
            "turned round": (place < rng.random()).astype(float),
            "at random": np.full(n, rng.random()),
            "waves": (np.sin(40.0 * place) > 0.0).astype(float),
            "rare": np.full(n, 1e-4),
        }[rule]
        y = (rng.random(n) < chance).astype(np.intp)
    if len(np.unique(y)) < 2:  # one row of another class makes a fit
        y[rng.integers(n)] = 1 if y[0] == 0 else 0
    return rule, np.asarray(y, dtype=np.intp)


def _weights(rng: np.random.Generator, y: NDArray[np.intp]) -> tuple[str, Array | None]:
    rule = str(
        rng.choice(
            [
                "no weights",
                "no weights",
                "whole weights",
                "twelve decades",
                "tiny weights",
            ]
        )
    )
    if rule == "no weights":
        return rule, None
    n = len(y)
    if rule == "whole weights":
        w = rng.integers(0, 4, n).astype(float)
        w[[np.argmax(y == y[0]), np.argmax(y != y[0])]] = 1.0
        return rule, w
    exponent = (
        rng.uniform(-6, 6, n) if rule == "twelve decades" else rng.uniform(-9, -6, n)
    )
    return rule, np.asarray(10.0**exponent)
