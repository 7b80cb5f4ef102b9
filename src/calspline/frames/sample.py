"""A bounded sample of rows that is the same in every engine and order."""

from __future__ import annotations

from functools import reduce
from operator import add
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from calspline.frames.rows import Rows

Array = NDArray[np.float64]

MOST_ROWS = 200_000
GOLDEN = 0.6180339887498949
SPREAD = 1e7
"""Digits of a score beyond the seventh choose."""


def sample(rows: Rows, names: list[str]) -> tuple[Array, NDArray[Any], Array]:
    """Scores, labels and weights of all rows, or of about ``MOST_ROWS`` of them.

    The chance of a row is the fractional part of a sum over its scores, each times a large irrational number.
    """
    taken = rows.frame.lazy()
    if rows.count > MOST_ROWS:
        parts = [nw.col(name) * (SPREAD * ((GOLDEN * (j + 1)) % 1.0 + 0.5)) for j, name in enumerate(names)]
        whole = reduce(add, parts)
        taken = taken.filter(whole - whole.floor() < MOST_ROWS / rows.count)
    found = taken.select(*names, "y", "w").collect()
    scores = np.column_stack([found[name].to_numpy() for name in names])
    labels = np.array(found["y"].to_list())
    return scores, labels, found["w"].to_numpy()
