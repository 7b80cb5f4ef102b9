"""Where the knots go."""

from __future__ import annotations

import numpy as np

from calspline.arrays import Array

MAX_KNOTS = 512
CELLS = 256
CLOSEST = 1e-3
"""Least distance of two chosen knots, as a share of the range."""


def default_count(total_weight: float) -> int:
    """Knots for this many rows: 24 up to 10,000, then slowly more, 64 at most.

    The penalty decides how much the curve bends; knots only have to leave it room.
    """
    return int(np.clip(round(24.0 * (max(total_weight, 1.0) / 1e4) ** 0.2), 24, 64))


def quantile_knots(x: Array, w: Array, count: int) -> Array:
    """Knots at quantiles of the square root of the density of sorted ``x``, ends included.

    The square root moves knots from crowded places to sparse ones, where scores
    are extreme and the curve still has to be right. The density is that of
    256 equal cells, so knots hardly depend on how ``x`` was binned. With no more
    values than knots, the values are the knots.
    """
    values = x[np.diff(x, prepend=-np.inf) > 0.0]
    count = min(count, MAX_KNOTS)
    if len(values) <= count:
        return apart(values, values[-1] - values[0])
    low, high = values[0], values[-1]
    edges = np.linspace(low, high, CELLS + 1)
    cell = np.minimum((x - low) / (high - low) * CELLS, CELLS - 1.0).astype(np.intp)
    mass = np.sqrt(np.bincount(cell, weights=w, minlength=CELLS))
    share = np.concatenate([[0.0], np.cumsum(mass)])
    knots = np.interp(np.linspace(0.0, share[-1], count), share, edges)
    knots[0], knots[-1] = low, high
    return apart(knots, high - low)


def sampled_knots(x: Array, count: int, rng: np.random.Generator) -> Array:
    """The paper's step 1: a random sample of the distinct values."""
    values = np.unique(x)
    count = min(count, MAX_KNOTS)
    if len(values) > count:
        chosen = apart(np.sort(rng.choice(values, size=count, replace=False)), values[-1] - values[0])
        return chosen if len(chosen) > 1 else values[[0, -1]]
    return apart(values, values[-1] - values[0])


def apart(knots: Array, span: float) -> Array:
    """Drop knots that crowd their neighbours, on data of this span; the last one stays."""
    least = CLOSEST * span
    kept = [knots[-1]]
    for knot in knots[-2::-1]:
        if kept[-1] - knot >= least:
            kept.append(knot)
    # The first stays too, at the cost of the one that crowds it.
    if len(kept) > 1 and kept[-1] != knots[0]:
        kept[-1] = knots[0]
    return np.array(kept[::-1])
