"""Probabilities of many classes, and outcomes: seeded, or an experiment of the arena."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Labels = NDArray[np.intp]

DESCRIPTION = "true class logits t ~ N(c_j, 1.5), offsets c_j ~ N(0, 0.5); the model says softmax(z + 0.3 sin z), z = 1.8 t"
CONFUSABLE = (
    "classes in families of ten that share a part of t ~ N(0, 2), and the model takes 0.3 of a class's t for its "
    "neighbour's"
)
HELD_OUT = 10_000
REAL = ("m_cifar10__resnet110_markus93", "m_cifar100__wideresnet-16-4_netcal")
VALUES_AT_ONCE = 1 << 18


class Rows(NamedTuple):
    """Rows of probabilities and their classes."""

    p: Array
    y: Labels


class Case(NamedTuple):
    """Rows to fit and rows held out."""

    name: str
    fit: Rows
    held: Rows


def make(n: int, m: int, *, confusable: bool = False) -> Rows:
    """The same ``n`` rows of ``m`` classes at every call; ``confusable`` ones come in families.

    Filled in small parts, so that making the data leaves no peak of memory behind.
    """
    rng = np.random.default_rng([n, m])
    offsets = rng.normal(0.0, 0.5, m)
    data = Rows(np.empty((n, m)), np.empty(n, dtype=np.intp))
    step = max(VALUES_AT_ONCE // m, 1)
    for start in range(0, n, step):
        p, y = data.p[start : start + step], data.y[start : start + step]
        truth = rng.normal(0.0, 1.5, p.shape) + offsets
        if confusable:
            truth += np.repeat(rng.normal(0.0, 2.0, (len(p), m // 10)), 10, axis=1)
        y[:] = np.argmax(truth + rng.gumbel(size=p.shape), axis=1)
        if confusable:
            truth += 0.3 * np.roll(truth, 1, axis=1)
        truth *= 1.8
        p[:] = softmax(truth + 0.3 * np.sin(truth))
    return data


def softmax(x: Array) -> Array:
    """As one writes it in numpy."""
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return np.asarray(e / e.sum(axis=1, keepdims=True))


def synthetic(n: int, m: int) -> Case:
    """Rows to fit, and as many classes' rows held out."""
    rows = make(n + HELD_OUT, m)
    return Case(
        f"{n:,} x {m}", Rows(rows.p[:n], rows.y[:n]), Rows(rows.p[n:], rows.y[n:])
    )


def real() -> Iterator[Case]:
    """Experiments of the arena, where it is."""
    from benchmarks.arena.experiments import folder, load

    place = folder()
    for name in REAL:
        if place is not None and (path := place / f"{name}.npz").is_file():
            found = load(path)
            n, m = found.fit_p.shape
            yield Case(
                f"{name}, {n:,} x {m}",
                Rows(found.fit_p, found.fit_y),
                Rows(found.test_p, found.test_y),
            )


def log_loss(p: Array, y: Labels) -> float:
    """Mean over the rows."""
    return float(-np.mean(np.log(np.clip(p[np.arange(len(y)), y], 1e-15, 1.0))))
