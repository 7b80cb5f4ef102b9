"""Random draws: a bootstrap of the rows, and outcomes simulated as if the probabilities were right.

A weight counts as that many rows. The Poisson bootstrap of a weighted mean draws how often each value occurs from a
Poisson distribution with the weight as its mean; equal values are drawn together. Beyond 1024 distinct values,
neighbours of equal total weight are drawn together too, at their mean; the variance inside such cells is added as one
normal term, so that mean and variance of the bootstrap distribution are those of the rows. So it takes milliseconds
for any number of rows.
"""

from __future__ import annotations

import numpy as np

from calspline.arrays import Array, Counts, run_starts

BOOTSTRAP_CELLS = 1024
SEED = 0


def bootstrap_means(values: Array, weight: Array | None, draws: int, seed: int) -> Array:
    """Bootstrap replicates of the weighted mean of ``values``; they do not depend on the order of rows."""
    w = np.ones(len(values)) if weight is None else weight
    distinct, place = np.unique(values, return_inverse=True)
    w = np.bincount(place, weights=w).astype(np.float64)
    total = float(w.sum())
    inside = 0.0
    if len(distinct) > BOOTSTRAP_CELLS:
        cell = ((np.cumsum(w) - 0.5 * w) / total * BOOTSTRAP_CELLS).astype(np.intp)
        first = run_starts(cell)
        sums = np.add.reduceat(w, first)
        means = np.add.reduceat(w * distinct, first) / sums
        inside = max(0.0, float(w @ distinct**2 - sums @ means**2))
        distinct, w = means, sums
    rng = np.random.default_rng([seed, 0])
    counts = rng.poisson(w, size=(draws, len(w))).astype(np.float64)
    size = counts.sum(axis=1)
    sums_drawn = counts @ distinct + np.sqrt(inside) * rng.standard_normal(draws)
    # An empty draw, possible with one or two rows, counts as the mean.
    mean = float(w @ distinct) / total
    return np.asarray(np.divide(sums_drawn, size, out=np.full(draws, mean), where=size > 0.0))


def simulated_events(f: Counts, draws: int) -> Array:
    """Weight of events at each probability if the probabilities are right, one row per draw; always the same draws.

    A weight counts as that many coin flips; the part beyond a whole number is one more flip, of that size.
    """
    rng = np.random.default_rng(SEED)
    whole = np.floor(f.w)
    part = f.w - whole
    size = draws, len(f)
    events: Array
    if whole.max() <= 1.0:
        events = np.where(rng.random(size) < f.x, whole, 0.0)
    else:
        # One probability after the other: numpy sets up a binomial distribution once while it stays the same.
        events = rng.binomial(whole.astype(np.int64)[:, None], f.x[:, None], size=size[::-1]).T.astype(np.float64)
    if part.any():
        events += np.where(rng.random(size) < f.x, part, 0.0)
    return events
