"""Scores on a tempered scale.

A row of log-scores ``z`` becomes ``u_j = log((1 - e) softmax_j(beta z) + e / m)``: temperature
scaling, then a grain of the uniform distribution.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calspline.arrays import Array, blocks, map_blocks

MIN_LOG_PROBABILITY = -87.5
"""``log(1e-38)``."""
MAX_LOG_BETA = float(np.log(100.0))
MAX_EXPONENT = 690.0
"""With ``beta log m`` beyond, ``exp(beta z)`` could vanish in a whole row."""
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


def fit_temperature(z: Array, y: NDArray[np.intp], w: Array) -> float:
    """The inverse temperature ``beta`` that minimises ``-sum w log softmax_y(beta z) + (log beta)^2 / 2``.

    The rows of ``z`` are log-probabilities. Newton's method in ``t = log beta``. With ``E`` and ``V`` the mean and
    variance of ``z`` under ``softmax(beta z)``, the gradient is ``beta sum w (E - z_y) + t`` and the curvature,
    without the term that may be negative, ``beta^2 sum w V + 1``.
    """

    def local(t: float) -> tuple[float, float, float]:
        beta = float(np.exp(t))

        def part(rows: slice) -> tuple[float, float, float]:
            zb, wb = z[rows], w[rows]
            zy = zb[np.arange(len(zb)), y[rows]]
            e = beta * zb
            np.exp(e, out=e)
            total = e.sum(axis=1)
            e *= zb
            mean = e.sum(axis=1) / total
            square = np.einsum("ij,ij->i", e, zb) / total
            loss = np.log(total) - beta * zy
            return float(wb @ loss), float(wb @ (mean - zy)), float(wb @ (square - mean**2))

        f, g, h = (sum(values) for values in zip(*map_blocks(part, blocks(*z.shape), z.size), strict=True))
        return (
            f + 0.5 * TEMPERATURE_PRIOR * t * t,
            beta * g + TEMPERATURE_PRIOR * t,
            beta * beta * h + TEMPERATURE_PRIOR,
        )

    most = min(MAX_LOG_BETA, float(np.log(MAX_EXPONENT / np.log(z.shape[1]))))
    t, (f, g, h) = 0.0, local(0.0)
    for _ in range(100):
        step = float(np.clip(-g / (h + abs(g)), -1.5, 1.5))
        step = float(np.clip(t + step, -most, most)) - t
        if abs(step) < 1e-4:  # its square is what is left
            return float(np.exp(t + step))
        trial = local(t + step)
        while trial[0] > f + 1e-10 * abs(f) and abs(step) > 1e-9:
            step /= 2.0
            trial = local(t + step)
        t, (f, g, h) = t + step, trial
    return float(np.exp(t))


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
