"""Seeded scores and outcomes to measure on."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

Array = NDArray[np.float64]
Labels = NDArray[np.int64]
Variant = Literal["smooth", "votes", "overconfident"]

VARIANTS: dict[Variant, str] = {
    "smooth": "log-odds u ~ N(-1, 2), true log-odds 0.7 u + 0.2",
    "votes": "shares of 1000 votes, binomial around the smooth case: ties, exact 0 and 1",
    "overconfident": "log-odds u ~ N(0, 15), true log-odds 0.1 u + 0.2",
}
ROWS_AT_ONCE = 1 << 16


class Data(NamedTuple):
    """Scores in [0, 1] and labels 0 or 1."""

    p: Array
    y: Labels


def make(n: int, variant: Variant = "smooth") -> Data:
    """The same ``n`` rows at every call.

    Filled in small parts, so that making the data leaves no peak of memory behind.
    """
    rng = np.random.default_rng([n, list(VARIANTS).index(variant)])
    data = Data(np.empty(n), np.empty(n, dtype=np.int64))
    for start in range(0, n, ROWS_AT_ONCE):
        rows = slice(start, min(start + ROWS_AT_ONCE, n))
        size = rows.stop - rows.start
        u = (
            rng.normal(0.0, 15.0, size)
            if variant == "overconfident"
            else rng.normal(-1.0, 2.0, size)
        )
        slope = 0.1 if variant == "overconfident" else 0.7
        data.y[rows] = rng.random(size) < expit(slope * u + 0.2)
        data.p[rows] = (
            rng.binomial(1000, expit(u)) / 1000.0 if variant == "votes" else expit(u)
        )
    return data
