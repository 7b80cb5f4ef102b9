"""Segments whose curves rise: slopes and bends are held back where they would turn the common curve."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from calspline.arrays import Array, blocks
from calspline.fitting.basis import PiecewiseCubic
from calspline.fitting.segments import Counted, Effects

MIN_SLOPE = 1e-7
"""What a curve that was held back keeps, so that rounding cannot turn it."""
PARTS = 4
"""Of a piece, on each of which its slope is bounded."""


def held(
    effects: Effects, counted: Counted, k: int, curve: PiecewiseCubic, pieces: Array, beta: Array, forgiven: float
) -> Effects:
    """Effects of column ``k`` that keep a segment's curve from falling where the common one rises.

    Slopes and bends are held back as far as it takes, unless that costs a segment's rows more than the nats that are
    ``forgiven``: then it is clear that its curve falls. ``pieces`` are the local coefficients of the directions.
    """
    bent = effects.theta[:, 1:]
    if not bent.any():
        return effects
    slopes, of_bends = _least_slopes(curve.breaks, curve.coefficients), _least_slopes(curve.breaks, pieces[:, :, 1:])
    rising = slopes >= 0.0
    room = np.maximum(slopes[rising] - MIN_SLOPE, 0.0)
    share = np.ones(len(bent))
    for rows in blocks(len(bent), int(rising.sum()) + 1):
        change = bent[rows] @ of_bends[rising].T
        most = np.divide(-room, change, out=np.full_like(change, np.inf), where=change < 0.0)
        share[rows] = np.minimum(most.min(axis=1, initial=1.0), 1.0)
    theta = effects.theta.copy()
    theta[:, 1:] *= share[:, None]
    if forgiven:
        bins = counted.bins(k)
        lost = bins.losses(beta + theta) - bins.losses(beta + effects.theta)
        theta = np.where((lost > forgiven)[:, None], effects.theta, theta)
    return replace(effects, theta=theta)


def _least_slopes(breaks: Array, coefficients: Array) -> Array:
    """Numbers between which all slopes of a piecewise cubic lie: its Bernstein coefficients on parts of its pieces."""
    a, b, c = coefficients[:3, 1:-1]
    found = []
    for i in range(PARTS):
        t, step = np.diff(breaks) * i / PARTS, np.diff(breaks) / PARTS
        t, step = (each.reshape(-1, *(1,) * (a.ndim - 1)) for each in (t, step))
        at = (3.0 * a * t + 2.0 * b) * t + c
        end = (3.0 * a * (t + step) + 2.0 * b) * (t + step) + c
        found += [at, at + (3.0 * a * t + b) * step, end]
    return np.concatenate(found)
