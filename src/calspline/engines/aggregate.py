"""Histograms by aggregation: one group-by, in the engine that holds the rows.

The rows are summed in cells of a grid finer than a histogram will need, and the few thousand sums that come back are
merged here. Only if they show that the scores crowd in fewer cells than a histogram may use is a finer grid needed,
and another pass. The result is the histogram of the same rows in arrays: exact if there are few distinct scores,
else on the finest grid on which the scores occupy at most 4096 cells.

Locations of scores and their cells are expressions that every engine can run. They repeat
:func:`calspline.transforms.log_odds` and :func:`calspline.grid.cells_of` with logarithms, floors and comparisons
alone. An engine's logarithm may differ from numpy's in the last bit; exact 0 and 1, which are told from others by
their location, are put where numpy has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add, and_
from typing import TYPE_CHECKING, Any, TypeVar

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from calspline.arrays import Array
from calspline.engines.rows import LazyFrame
from calspline.fitting.groups import GroupMoments, GroupSizes, PooledLine
from calspline.grid import CORE, FINEST, FIRST_CELL, LAST_CELL, MAX_POINTS, Cells
from calspline.histogram import ScoreHistogram
from calspline.multiclass.one_vs_rest import LEAST_LOG_PROBABILITY
from calspline.scores import Kind
from calspline.segments.histogram import SegmentHistograms, level_of
from calspline.segments.labels import check_by
from calspline.transforms import ONE, SMALLEST_COMPLEMENT, SMALLEST_PROBABILITY, ZERO, highest_location

if TYPE_CHECKING:
    from calspline.engines.backends import Engine

Column = TypeVar("Column", nw.Expr, NDArray[np.float64])

FIRST_LEVEL = 34
"""1024 cells to a unit of log-odds: most data occupy some ten thousand, and need one pass."""
MAX_SUMS = 1 << 17
"""Sums that a pass may bring back, if it is not the first."""
MAX_SEGMENTS = 1 << 18
"""Segments, or combinations of those of several columns, whose sums are brought back."""
MAX_SAMPLE = 200_000
"""About how many rows a sample has."""
ALIKE = 0.01
"""Share of rows with the scores of others beyond which rows are grouped."""
SPREAD_OF_SIZE = 6.0
"""Standard deviations by which the size of a sample may differ from the one wanted."""
GOLDEN = 0.6180339887498949
SPREAD = 1e7
"""Digits of a score beyond the seventh choose."""
PLAIN = (nw.Boolean, nw.String, nw.Float64, nw.Float32, nw.Int64, nw.Int32, nw.Int16, nw.Int8)
"""Types that are the same in numpy's arrays and in Python."""
LOG_2 = float(np.log(2.0))
LARGE = 1e8
"""Beyond, ``asinh(x)`` is ``log(2 x)``, and the square of ``x`` might overflow."""


@dataclass(frozen=True)
class Sums:
    """What one pass brings back: for each cell, sums of weights and moments and the range of locations."""

    cells: Cells
    values: Array
    low: Array
    high: Array

    def __len__(self) -> int:
        return len(self.cells)


def histograms(frame: LazyFrame, names: list[str], kind: Kind, engine: Engine) -> dict[str, ScoreHistogram]:
    """A histogram for each of these columns of locations, all from the same pass.

    The frame has the columns ``names``, which are numbers of classes, ``w`` and ``code``: the number of the row's
    class. A row is positive for the column whose number it is.
    """
    frame = engine.barrier(frame)
    done: dict[str, ScoreHistogram] = {}
    level: int | None = FIRST_LEVEL
    left = names
    while left:
        found = aggregate(frame, left, kind, level, engine)
        for name in left:
            histogram = _settled(found[name], kind, level)
            if histogram is not None:
                done[name] = histogram
        left = [name for name in left if name not in done]
        if left and level is not None:
            finer = int(np.log2(MAX_SUMS // max(len(found[name]) for name in left)))
            level = max(level - max(finer, 1), 0) if level else None
    return done


def _settled(sums: Sums, kind: Kind, level: int | None) -> ScoreHistogram | None:
    """The histogram, unless a finer grid is needed."""
    apart = np.array_equal(sums.low, sums.high)  # each cell holds a single location
    if level is None or (apart and len(sums) <= MAX_POINTS):
        return ScoreHistogram.from_locations(kind, sums.low, positives=sums.values[1], negatives=sums.values[0])
    if len(sums) <= MAX_POINTS:
        return None
    top = highest_location(sums.high, probabilities=kind == "probability")
    return ScoreHistogram.from_cells(kind, sums.cells, sums.values, level, top)


def aggregate(frame: LazyFrame, names: list[str], kind: Kind, level: int | None, engine: Engine) -> dict[str, Sums]:
    """Sums over the cells of a level; without a level, over locations."""
    rows = _long(frame, names, engine).select(
        "which",
        "u",
        cell=nw.col("u") if level is None else cell(nw.col("u"), kind, level),
        w1=nw.col("w") * nw.col("positive"),
        w0=nw.col("w") * (1.0 - nw.col("positive")),
    )
    rows = rows.with_columns(m1=nw.col("w1") * nw.col("u"), m0=nw.col("w0") * nw.col("u"))
    sums = [nw.col(name).sum() for name in ("w0", "w1", "m0", "m1")]
    found = columns_of(rows.group_by("which", "cell").agg(*sums, low=nw.col("u").min(), high=nw.col("u").max()))
    return {name: _merged({key: values[found["which"] == name] for key, values in found.items()}) for name in names}


def segment_histograms(frame: LazyFrame, pooled: ScoreHistogram, names: Sequence[str]) -> SegmentHistograms:
    """Histograms of segments, given that of all rows: one group-by more.

    The frame has the columns ``u`` (locations), ``w``, ``code`` (1 for positives, else 0) and ``b0``, ``b1`` ..., the
    segments, by their ``names`` in the frame that they are from.
    """
    keys = [f"b{k}" for k in range(len(names))]
    segments = int(frame.select(*keys).unique().select(n=nw.len()).collect()["n"].to_list()[0])
    if segments > MAX_SEGMENTS:
        raise ValueError(f"by must be segments, at most {MAX_SEGMENTS:,} different ones; the frame has {segments:,}")
    level = level_of(pooled, segments)
    place = nw.col("u") if level is None else cell(nw.col("u"), pooled.kind, level)
    rows = frame.select(*keys, cell=place, w1=nw.col("w") * nw.col("code"), w=nw.col("w"), m=nw.col("w") * nw.col("u"))
    found = rows.group_by(*keys, "cell").agg(*[nw.col(name).sum() for name in ("w", "w1", "m")]).collect()
    w, w1, moment = (found[name].to_numpy() for name in ("w", "w1", "m"))
    by = check_by([found[key].to_list() for key in keys], len(found)).named(names)
    return SegmentHistograms.from_sums(pooled, by, level, found["cell"].to_numpy(), np.array([w - w1, w1, moment]))


def _long(frame: LazyFrame, names: list[str], engine: Engine) -> LazyFrame:
    """Columns ``which`` (the name of a column), ``u`` (its value), ``positive`` (1.0 or 0.0) and ``w``."""
    if len(names) == 1:
        own = nw.when(nw.col("code") == int(names[0])).then(nw.lit(1.0)).otherwise(nw.lit(0.0))
        return frame.select("w", u=nw.col(names[0]), which=nw.lit(names[0]), positive=own)
    rows = engine.unpivot(frame.select("w", *names, own=nw.col("code").cast(nw.String)), names)
    own = nw.when(nw.col("own") == nw.col("which")).then(nw.lit(1.0)).otherwise(nw.lit(0.0))
    return rows.with_columns(positive=own)


def columns_of(frame: LazyFrame, *, values: Sequence[str] = ()) -> dict[str, NDArray[Any]]:
    """The columns of what an engine has summed; those in ``values`` as Python has their values, None if missing."""
    schema = frame.collect_schema()
    if frame.implementation.is_duckdb() and all(schema[name] in PLAIN for name in schema):
        # Its own arrays: those of pyarrow take pandas, and longer to import than DuckDB.
        found = frame.to_native().fetchnumpy()
        lists = {name: found[name].tolist() for name in values}
        found = {
            name: np.ma.filled(column, np.nan) if column.dtype.kind == "f" else np.asarray(column)
            for name, column in found.items()
        }
    else:
        collected = frame.collect()
        found = {name: collected[name].to_numpy() for name in collected.columns if name not in values}
        lists = {name: collected[name].to_list() for name in values}
    for name, column in lists.items():
        found[name] = np.empty(len(column), dtype=object)
        found[name][:] = column
    return found


def _merged(column: dict[str, NDArray[Any]]) -> Sums:
    """Sums of equal cells together, in the order of the cells."""
    cells, place = np.unique(column["cell"], return_inverse=True)
    sums = np.array([np.bincount(place, column[key], minlength=len(cells)) for key in ("w0", "w1", "m0", "m1")])
    low, high = np.full(len(cells), np.inf), np.full(len(cells), -np.inf)
    np.minimum.at(low, place, column["low"])
    np.maximum.at(high, place, column["high"])
    return Sums(cells, sums, low, high)


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


def one_vs_rest_locations(frame: LazyFrame, names: Sequence[str], kind: Kind, transform: str) -> LazyFrame:
    """The location of each class's score against the rest, as in the fit of arrays, in columns ``"0"``, ``"1"``, ..."""
    p = [nw.col(name) for name in names]
    if kind == "margin":
        tops = [nw.when(_first_largest(p, j)).then(one).otherwise(nw.lit(0.0)) for j, one in enumerate(p)]
        frame = frame.with_columns(top=reduce(add, tops))
        frame = frame.with_columns(total=reduce(add, [(one - nw.col("top")).exp() for one in p]).log())
        locations = [_at_least(one - nw.col("top") - nw.col("total"), LEAST_LOG_PROBABILITY) for one in p]
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


def share_scores(scores: Sequence[Array]) -> bool:
    """Whether a sample shows that rows have their scores in common, so that many of them go into it together, or not.

    Then there are equal ones in it; or its size is far from ``MAX_SAMPLE``, because the most frequent ones are not.
    """
    n = len(scores[0])
    return len(np.unique(sample_place(scores))) < (1.0 - ALIKE) * n or abs(n - MAX_SAMPLE) > SPREAD_OF_SIZE * n**0.5


def check_no_groups(groups: object) -> None:
    """Complain about groups among rows that have to be grouped by their scores."""
    if groups is not None:
        raise ValueError(
            f'multiclass must be "ovr" with group where more than {MAX_SAMPLE:,} rows have few distinct scores: the '
            "structured fit would need a sample of them, and a sample of equal scores knows nothing of groups"
        )


def sample_weights(weight: Array, count: Array, share: float) -> Array:
    """Weights of groups of equal scores in a sample that takes a group of ``count`` rows with chance ``count * share``.

    A group that is taken for certain has the weight that its share of rows would have; another, that of one row.
    """
    return weight * share / np.minimum(count * share, 1.0)


def group_moments(frame: LazyFrame, code: int, line: PooledLine, engine: Engine) -> tuple[GroupMoments, GroupSizes]:
    """What groups say about the locations of a class and whether ``code`` is this: one pass, and no row comes back.

    The frame has the columns ``w``, ``code``, ``g`` and the locations, by the number of the class. The engine sums
    residuals by group, squares and multiplies these sums, and adds them up.
    """
    z = (_at_most(_at_least(nw.col(str(code)), line.low), line.high) - line.middle) / line.unit
    rows = engine.barrier(frame.select("g", "w", "code", z=z))
    odds = (nw.col("z") * (0.0 - line.slope) - line.intercept).exp()
    own = nw.when(nw.col("code") == code).then(nw.lit(1.0)).otherwise(nw.lit(0.0))
    rows = engine.barrier(rows.select("g", "w", "z", r=own - 1.0 / (odds + 1.0)))
    w, r, z = (nw.col(name) for name in ("w", "r", "z"))
    rows = rows.select(
        "g", "w", n=w * 0.0 + 1.0, u0=w * r, u1=w * r * z, a3=w * r * r, a4=w * r * r * z, a5=w * r * r * z * z
    )
    sums = engine.barrier(rows.group_by("g").agg(nw.col("w", "n", "u0", "u1", "a3", "a4", "a5").sum()))
    u0, u1 = nw.col("u0"), nw.col("u1")
    terms = [f"a{i}" for i in range(6)]
    wide = engine.barrier(
        sums.select("w", "n", "a3", "a4", "a5", one=nw.col("n") * 0.0 + 1.0, a0=u0 * u0, a1=u0 * u1, a2=u1 * u1)
    )
    products = {f"{a}{b}": nw.col(a) * nw.col(b) for i, a in enumerate(terms) for b in terms[i:]}
    wide = wide.select("one", "w", "n", *terms, ww=nw.col("w") * nw.col("w"), groups=nw.col("one"), **products)
    totals = ("w", "n", "ww", "groups", *terms, *products)
    found = columns_of(wide.group_by("one").agg(*[nw.col(name).sum() for name in totals]))
    value = {name: float(found[name][0]) for name in totals}
    second = np.array([[value[f"a{min(i, j)}a{max(i, j)}"] for j in range(6)] for i in range(6)])
    moments = GroupMoments(np.array([value[name] for name in terms]), second)
    return moments, GroupSizes(round(value["groups"]), round(value["n"]), value["ww"] / value["w"])


def sample_place(scores: Sequence[Column]) -> Column:
    """The fractional part of a sum over the scores of a row, each times a large irrational number.

    Rows of which it is below a share are that share of all: the same ones in every engine and order.
    """
    parts: list[Any] = [one * (SPREAD * ((GOLDEN * (j + 1)) % 1.0 + 0.5)) for j, one in enumerate(scores)]
    whole = reduce(add, parts)
    floor: Any = whole.floor() if isinstance(whole, nw.Expr) else np.floor(whole)
    return whole - floor  # type: ignore[no-any-return]
