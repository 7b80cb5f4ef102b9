"""The temperature of scores, and the tempered scale on which a structured map works.

A row of log-scores ``z`` becomes ``u_j = log((1 - e) softmax_j(beta z) + e / m)``: temperature
scaling, then a grain of the uniform distribution.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import exp

import numpy as np
from numpy.typing import NDArray

from calspline.arrays import Array, blocks, map_blocks

MIN_LOG_PROBABILITY = -87.5
"""``log(1e-38)``."""
MAX_LOG_BETA = float(np.log(100.0))
MAX_EXPONENT = 690.0
"""With ``beta log m`` beyond, ``exp(beta z)`` could vanish in a whole row."""
MAX_STEPS = 1000
"""Some ten do; a class that all but separates from the others takes more, one for every log-odd."""
TEMPERATURE_PRIOR = 1.0
"""Precision of the normal prior on ``log beta``: one observation's worth, for separable data."""


def log_softmax(z: Array) -> Array:
    """``z - log sum_j exp(z_j)`` for every row."""
    out: Array = z - z.max(axis=1, keepdims=True)
    out -= np.log(np.exp(out).sum(axis=1, keepdims=True))
    return out


def log_scores(z: Array, floor: float) -> Array:
    """Log-softmax of every row, nothing below ``floor``."""
    return np.maximum(log_softmax(z), floor)


def floored(z: Array, w: Array) -> tuple[Array, float]:
    """Log-softmax of every row, and the floor under it.

    The floor is the log of half the least positive probability among rows that count, at least 1e-38.
    """
    x = np.empty_like(z)

    def part(rows: slice) -> float:
        x[rows] = log_softmax(z[rows])
        block = x[rows][w[rows] > 0.0]
        return float(block.min(initial=0.0, where=np.isfinite(block)))

    least = min(map_blocks(part, blocks(*z.shape), z.size))
    floor = max(least - float(np.log(2.0)), MIN_LOG_PROBABILITY)
    return np.maximum(x, floor, out=x), floor


Derivatives = tuple[float, float, float]
"""A loss as a function of the inverse temperature: value, first and second derivative."""


def softmax_loss(
    z: Callable[[slice], Array], y: NDArray[np.intp], w: Array, n_classes: int
) -> Callable[[float], Derivatives]:
    """``-sum w log softmax_y(beta z)`` as a function of ``beta``; ``z`` gives some rows of logits, none positive.

    With ``E`` and ``V`` the mean and variance of ``z`` under ``softmax(beta z)``, its derivatives are
    ``sum w (E - z_y)`` and ``sum w V``.
    """

    def at(beta: float) -> Derivatives:
        def part(rows: slice) -> Derivatives:
            zb, wb = z(rows), w[rows]
            zy = zb[np.arange(len(zb)), y[rows]]
            e = beta * zb
            np.exp(e, out=e)
            total = e.sum(axis=1)
            e *= zb
            mean = e.sum(axis=1) / total
            square = np.einsum("ij,ij->i", e, zb) / total
            loss = np.log(total) - beta * zy
            return float(wb @ loss), float(wb @ (mean - zy)), float(wb @ (square - mean**2))

        n = len(y)
        f, g, h = (sum(values) for values in zip(*map_blocks(part, blocks(n, n_classes), n * n_classes), strict=True))
        return f, g, h

    return at


def inverse_temperature(
    loss: Callable[[float], Derivatives], low: float, high: float, *, prior: float = 0.0, tolerance: float = 1e-8
) -> float:
    """The ``beta`` with ``t = log beta`` between two limits that minimises ``loss(beta) + prior t^2 / 2``.

    Newton's method in ``t``, on a loss that is convex in ``beta``. The gradient is ``beta loss' + prior t`` and the
    curvature, without the term that may be negative, ``beta^2 loss'' + prior``. It stops at a step below
    ``tolerance``, whose square is what is left. Without a prior the minimum may lie at infinity, where nothing is left
    of the derivatives, so the upper limit is tried first.
    """

    def local(t: float) -> Derivatives:
        beta = exp(t)
        f, g, h = loss(beta)
        return f + 0.5 * prior * t * t, beta * g + prior * t, beta * beta * h + prior

    if prior == 0.0 and local(high)[1] <= 0.0:
        return exp(high)
    t, (f, g, h) = 0.0, local(0.0)
    for _ in range(MAX_STEPS):
        step = min(max(-g / (h + abs(g)), -1.5), 1.5)
        step = min(max(t + step, low), high) - t
        if abs(step) < tolerance:
            return exp(t + step)
        trial = local(t + step)
        while trial[0] > f + 1e-10 * abs(f) and abs(step) > 1e-9:
            step /= 2.0
            trial = local(t + step)
        t, (f, g, h) = t + step, trial
    return exp(t)


def fit_temperature(z: Array, y: NDArray[np.intp], w: Array) -> float:
    """The inverse temperature of log-probabilities, with a weak prior."""
    most = min(MAX_LOG_BETA, float(np.log(MAX_EXPONENT / np.log(z.shape[1]))))
    loss = softmax_loss(z.__getitem__, y, w, z.shape[1])
    return inverse_temperature(loss, -most, most, prior=TEMPERATURE_PRIOR, tolerance=1e-4)


@dataclass(frozen=True)
class Scale:
    """``z -> u``: floor, inverse temperature and the share of the uniform distribution."""

    floor: float
    beta: float
    uniform: float

    def by_class(self, x: Array) -> Array:
        """``u = log((1 - e) softmax(beta x) + e / m)``, shape (m, n), of log-scores (n, m) that have their floor."""
        n, m = x.shape
        out = np.empty((m, n))

        def part(rows: slice) -> None:
            u: Array = self.beta * x[rows]
            np.exp(u, out=u)
            u *= (1.0 - self.uniform) / u.sum(axis=1, keepdims=True)
            u += self.uniform / m
            out[:, rows] = np.log(u, out=u).T

        for _ in map_blocks(part, blocks(n, m), n * m):
            pass
        return out
