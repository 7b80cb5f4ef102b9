"""Histograms by aggregation: one group-by, in the engine that holds the rows.

The rows are summed in cells of a grid finer than a histogram will need, and the few thousand sums that come back are
merged here. Only if they show that the scores crowd in fewer cells than a histogram may use is a finer grid needed,
and another pass. The result is the histogram of the same rows in arrays: exact if there are few distinct scores,
else on the finest grid on which the scores occupy at most 4096 cells.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from calspline.arrays import Array
from calspline.engines.barrier import once
from calspline.engines.expressions import cell
from calspline.engines.unpivot import long
from calspline.grid import MAX_POINTS, Cells, exactly_one
from calspline.histogram import ScoreHistogram
from calspline.scores import Kind

Frame = nw.LazyFrame[Any]

FIRST_LEVEL = 34
"""1024 cells to a unit of log-odds: most data occupy some ten thousand, and need one pass."""
MAX_ROWS = 1 << 17
"""Sums that a pass may bring back, if it is not the first."""


@dataclass(frozen=True)
class Sums:
    """What one pass brings back: for each cell, sums of weights and moments and the range of locations."""

    cells: Cells
    values: Array
    low: Array
    high: Array

    def __len__(self) -> int:
        return len(self.cells)

    @property
    def apart(self) -> bool:
        """Whether each cell holds a single location."""
        return bool(np.all(self.low == self.high))


def histograms(frame: Frame, names: list[str], kind: Kind) -> dict[str, ScoreHistogram]:
    """A histogram for each of these columns of locations, all from the same pass.

    The frame has the columns ``names``, which are numbers of classes, ``w`` and ``code``: the number of the row's
    class. A row is positive for the column whose number it is.
    """
    frame = once(frame)
    done: dict[str, ScoreHistogram] = {}
    level: int | None = FIRST_LEVEL
    left = names
    while left:
        found = aggregate(frame, left, kind, level)
        for name in left:
            histogram = _settled(found[name], kind, level)
            if histogram is not None:
                done[name] = histogram
        left = [name for name in left if name not in done]
        if left and level is not None:
            finer = int(np.log2(MAX_ROWS // max(len(found[name]) for name in left)))
            level = max(level - max(finer, 1), 0) if level else None
    return done


def _settled(sums: Sums, kind: Kind, level: int | None) -> ScoreHistogram | None:
    """The histogram, unless a finer grid is needed."""
    below_one = sums.high[~exactly_one(sums.high)] if kind == "probability" else sums.high
    highest = float(below_one.max(initial=-np.inf))
    if level is None or (sums.apart and len(sums) <= MAX_POINTS):
        return ScoreHistogram.from_locations(kind, sums.low, positives=sums.values[1], negatives=sums.values[0])
    if len(sums) <= MAX_POINTS:
        return None
    return ScoreHistogram.from_cells(kind, sums.cells, sums.values, level, highest)


def aggregate(frame: Frame, names: list[str], kind: Kind, level: int | None) -> dict[str, Sums]:
    """Sums over the cells of a level; without a level, over locations."""
    column = _grouped(long(frame, names), kind, level)
    return {name: _merged({key: values[column["which"] == name] for key, values in column.items()}) for name in names}


def _grouped(frame: Frame, kind: Kind, level: int | None) -> dict[str, NDArray[Any]]:
    """One group-by: the work of the engine."""
    rows = frame.select(
        "which",
        "u",
        cell=nw.col("u") if level is None else cell(nw.col("u"), kind, level),
        w1=nw.col("w") * nw.col("positive"),
        w0=nw.col("w") * (1.0 - nw.col("positive")),
    )
    rows = rows.with_columns(m1=nw.col("w1") * nw.col("u"), m0=nw.col("w0") * nw.col("u"))
    sums = [nw.col(name).sum() for name in ("w0", "w1", "m0", "m1")]
    found = rows.group_by("which", "cell").agg(*sums, low=nw.col("u").min(), high=nw.col("u").max()).collect()
    return {name: found[name].to_numpy() for name in found.columns}


def _merged(column: dict[str, NDArray[Any]]) -> Sums:
    """Sums of equal cells together, in the order of the cells."""
    cells, place = np.unique(column["cell"], return_inverse=True)
    sums = np.array([np.bincount(place, column[key], minlength=len(cells)) for key in ("w0", "w1", "m0", "m1")])
    low, high = np.full(len(cells), np.inf), np.full(len(cells), -np.inf)
    np.minimum.at(low, place, column["low"])
    np.maximum.at(high, place, column["high"])
    return Sums(cells, sums, low, high)
