"""Outcomes drawn as if the probabilities were right."""

from __future__ import annotations

import numpy as np

from calspline.arrays import Array
from calspline.evaluation.forecasts import Forecasts

SEED = 0


def drawn_events(f: Forecasts, draws: int) -> Array:
    """Weight of events at each probability, one row a draw; always the same draws.

    A weight counts as that many coin flips. What it has beyond a whole number is one more, of that size.
    """
    rng = np.random.default_rng(SEED)
    whole = np.floor(f.w)
    part = f.w - whole
    size = draws, len(f)
    events: Array
    if whole.max() <= 1.0:
        events = np.where(rng.random(size) < f.p, whole, 0.0)
    else:
        # One probability after the other: numpy prepares for a binomial distribution once while it stays the same.
        events = rng.binomial(whole.astype(np.int64)[:, None], f.p[:, None], size=size[::-1]).T.astype(np.float64)
    if part.any():
        events += np.where(rng.random(size) < f.p, part, 0.0)
    return events
