"""Locations of scores and their cells, as expressions that every engine can run.

They repeat :func:`calspline.transforms.log_odds` and :func:`calspline.grid.cells_of` with logarithms, floors and
comparisons alone. An engine's logarithm may differ from numpy's in the last bit; exact 0 and 1, which are told from
others by their location, are put where numpy has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import add, and_
from typing import Any

import narwhals as nw
import numpy as np

from calspline.grid import CORE, FINEST, FIRST_CELL, LAST_CELL, ONE, ZERO
from calspline.scores import Kind
from calspline.transforms import SMALLEST_COMPLEMENT, SMALLEST_PROBABILITY

Frame = nw.LazyFrame[Any]

LOG_2 = float(np.log(2.0))
LARGE = 1e8
"""Beyond, ``asinh(x)`` is ``log(2 x)``, and the square of ``x`` might overflow."""


def log_odds(p: nw.Expr) -> nw.Expr:
    """Log-odds of a probability in one column."""
    clipped = _at_least(p, SMALLEST_PROBABILITY) / _at_least(1.0 - p, SMALLEST_COMPLEMENT)
    inner = nw.when(p < 1.0).then(clipped.log()).otherwise(nw.lit(ONE))
    return nw.when(p > SMALLEST_PROBABILITY).then(inner).otherwise(nw.lit(ZERO))


def log_odds_from_pair(p0: nw.Expr, p1: nw.Expr) -> nw.Expr:
    """Log-odds from the probabilities of both sides."""
    inner = _at_least(p1, SMALLEST_PROBABILITY).log() - _at_least(p0, SMALLEST_PROBABILITY).log()
    one = nw.when((p1 >= 1.0) & (p0 == SMALLEST_COMPLEMENT)).then(nw.lit(ONE)).otherwise(inner)
    high = nw.when((p1 >= 1.0) & (p0 <= SMALLEST_PROBABILITY)).then(nw.lit(-ZERO)).otherwise(one)
    return nw.when((p0 >= 1.0) & (p1 <= SMALLEST_PROBABILITY)).then(nw.lit(ZERO)).otherwise(high)


def one_vs_rest(frame: Frame, names: Sequence[str], kind: Kind, transform: str) -> Frame:
    """The location of each class's score against the rest, as in the one-vs-rest fit of arrays.

    The columns are named ``"0"``, ``"1"`` and so on.
    """
    p = [nw.col(name) for name in names]
    if kind == "margin":
        tops = [nw.when(_first_largest(p, j)).then(one).otherwise(nw.lit(0.0)) for j, one in enumerate(p)]
        frame = frame.with_columns(top=reduce(add, tops))
        frame = frame.with_columns(total=reduce(add, [(one - nw.col("top")).exp() for one in p]).log())
        locations = [one - nw.col("top") - nw.col("total") for one in p]
    elif transform == "identity":
        locations = p
    else:
        locations = []
        for j, one in enumerate(p):
            # What the largest leaves is summed, as 1 - p would round it away.
            others = reduce(add, [*p[:j], *p[j + 1 :]])
            rest = nw.when(_first_largest(p, j)).then(others).otherwise(1.0 - one)
            locations.append(log_odds_from_pair(rest, one))
    return frame.with_columns(**{str(j): location for j, location in enumerate(locations)})


def _first_largest(p: Sequence[nw.Expr], j: int) -> nw.Expr:
    """Whether a score is the largest, and the first of those as large.

    The functions of narwhals that look at several columns at once do not work for Dask.
    """
    return reduce(and_, [*[p[j] > one for one in p[:j]], *[p[j] >= one for one in p[j + 1 :]]])


def cell(location: nw.Expr, kind: Kind, level: int) -> nw.Expr:
    """The cell of a location on the grid of a level."""
    inner = (_stretched(location, kind) * (FINEST / 2.0**level)).floor().cast(nw.Int64)
    if kind == "margin":
        return inner
    last = (location == ONE) | (location >= -ZERO)
    return (
        nw.when(location <= ZERO)
        .then(nw.lit(FIRST_CELL, nw.Int64))
        .otherwise(nw.when(last).then(nw.lit(LAST_CELL, nw.Int64)).otherwise(inner))
    )


def _stretched(u: nw.Expr, kind: Kind) -> nw.Expr:
    if kind == "margin":
        near = _at_most(u.abs(), LARGE)
        length = (
            nw.when(u.abs() > LARGE)
            .then(_at_least(u.abs(), LARGE).log() + LOG_2)
            .otherwise((near + (near * near + 1.0).sqrt()).log())
        )
        return nw.when(u < 0.0).then(0.0 - length).otherwise(length)
    beyond = CORE + CORE * (_at_least(u.abs(), CORE) / CORE).log()
    outer = nw.when(u < 0.0).then(0.0 - beyond).otherwise(beyond)
    return nw.when(u.abs() <= CORE).then(u).otherwise(outer)


def _at_least(value: nw.Expr, limit: float) -> nw.Expr:
    return nw.when(value > limit).then(value).otherwise(nw.lit(limit))


def _at_most(value: nw.Expr, limit: float) -> nw.Expr:
    return nw.when(value < limit).then(value).otherwise(nw.lit(limit))
