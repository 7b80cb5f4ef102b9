"""A bounded sample of rows that is the same in every engine and order."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import add
from typing import Any, TypeVar

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

Column = TypeVar("Column", nw.Expr, NDArray[np.float64])

MAX_ROWS = 200_000
GOLDEN = 0.6180339887498949
SPREAD = 1e7
"""Digits of a score beyond the seventh choose."""


def share(count: int) -> float:
    """The share of rows that a sample takes: all, or about ``MAX_ROWS`` of them."""
    return min(1.0, MAX_ROWS / count)


def chance(scores: Sequence[Column]) -> Column:
    """The fractional part of a sum over the scores of a row, each times a large irrational number.

    Rows of which it is below a share are that share of all.
    """
    parts: list[Any] = [one * (SPREAD * ((GOLDEN * (j + 1)) % 1.0 + 0.5)) for j, one in enumerate(scores)]
    whole = reduce(add, parts)
    floor: Any = whole.floor() if isinstance(whole, nw.Expr) else np.floor(whole)
    return whole - floor  # type: ignore[no-any-return]
