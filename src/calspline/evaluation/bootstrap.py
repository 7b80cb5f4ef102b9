"""Bootstrap of a weighted mean, for any number of rows in milliseconds.

A weight counts as that many rows, so the Poisson bootstrap draws how often each value occurs from a Poisson
distribution with the weight as its mean. Equal values are drawn together. Beyond 1024 distinct values neighbours
of equal total weight are too, at their mean; what varies inside such cells is added as one normal term, so that
mean and variance of the bootstrap distribution are those of the rows.
"""

from __future__ import annotations

import numpy as np

from calspline.arrays import Array

CELLS = 1024


def bootstrap_means(values: Array, weight: Array | None, draws: int, seed: int) -> Array:
    """Bootstrap replicates of the weighted mean of ``values``; they do not depend on the order of rows."""
    w = np.ones(len(values)) if weight is None else weight
    distinct, place = np.unique(values, return_inverse=True)
    w = np.bincount(place, weights=w).astype(np.float64)
    total = float(w.sum())
    inside = 0.0
    if len(distinct) > CELLS:
        cell = ((np.cumsum(w) - 0.5 * w) / total * CELLS).astype(np.intp)
        first = np.flatnonzero(np.diff(cell, prepend=-1))
        sums = np.add.reduceat(w, first)
        means = np.add.reduceat(w * distinct, first) / sums
        inside = max(0.0, float(w @ distinct**2 - sums @ means**2))
        distinct, w = means, sums
    rng = np.random.default_rng([seed, 0])
    counts = rng.poisson(w, size=(draws, len(w))).astype(np.float64)
    size = counts.sum(axis=1)
    sums_drawn = counts @ distinct + np.sqrt(inside) * rng.standard_normal(draws)
    # An empty draw, possible with a row or two, tells nothing: it counts as the mean.
    mean = float(w @ distinct) / total
    return np.asarray(np.divide(sums_drawn, size, out=np.full(draws, mean), where=size > 0.0))
