"""Histograms by aggregation: one group-by, in the engine that holds the rows.

The rows are summed in cells of a grid finer than a histogram will need, and the few
thousand sums that come back are merged here. Only if they show that the scores crowd in
fewer cells than a histogram may use is a finer grid needed, and another pass. The
result is the histogram of the same rows in arrays: exact if there are few distinct
scores, else on the finest grid on which the scores occupy at most 4096 cells.

Locations of scores and their cells are expressions that every engine can run. They
repeat :func:`~calspline.transforms.log_odds` and
:func:`~calspline.histograms.grid.cells_of` with logarithms, floors and comparisons
alone. An engine's logarithm may differ from numpy's in the last bit; exact 0 and 1,
which are identified by their location, are set to numpy's values.
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

from calspline._arrays import MIN_SPAN, Array
from calspline._input.scores import Kind
from calspline._input.segment_labels import check_by
from calspline.engines.rows import LazyFrame
from calspline.fitting.groups import GroupSums, PooledLine
from calspline.histograms.grid import (
    CORE,
    FINEST,
    FIRST_CELL,
    LAST_CELL,
    MAX_POINTS,
    Cells,
)
from calspline.histograms.score_histogram import ScoreHistogram
from calspline.histograms.segment_histogram import SegmentHistograms, level_of
from calspline.multiclass.one_vs_rest import LEAST_LOGIT
from calspline.multiclass.scale import Derivatives, sized_logit_unit
from calspline.transforms import (
    ONE,
    SMALLEST_COMPLEMENT,
    SMALLEST_PROBABILITY,
    ZERO,
    highest_location,
)

if TYPE_CHECKING:
    from calspline.engines.engine import Engine

Column = TypeVar("Column", nw.Expr, NDArray[np.float64])

FIRST_LEVEL = 34
"""1024 cells to a unit of log-odds: most data occupy 10,000, and need one pass."""
MAX_SUMS = 1 << 17
"""Sums that a pass may bring back, if it is not the first."""
MAX_SEGMENTS = 1 << 18
"""Largest number of segments, or of combinations, whose sums are brought back."""
MAX_GROUPS = 1 << 20
"""Groups whose sums are brought back."""
MAX_SAMPLE = 200_000
"""About how many rows a sample has."""
ALIKE = 0.01
"""Share of rows with the scores of others beyond which rows are grouped."""
SPREAD_OF_SIZE = 6.0
"""Standard deviations by which the size of a sample may differ from the one wanted."""
GOLDEN = 0.6180339887498949
SPREAD = 1e7
"""Digits of a score beyond the seventh choose."""
PLAIN = (
    nw.Boolean,
    nw.String,
    nw.Float64,
    nw.Float32,
    nw.Int64,
    nw.Int32,
    nw.Int16,
    nw.Int8,
)
"""Types that are the same in numpy's arrays and in Python."""
LOG_2 = float(np.log(2.0))
LARGE = 1e8
"""Beyond, ``asinh(x)`` is ``log(2 x)``, and the square of ``x`` might overflow."""


@dataclass(frozen=True)
class Sums:
    """Results of one pass: by cell, sums of weights and moments, and the range."""

    cells: Cells
    values: Array
    low: Array
    high: Array

    def __len__(self) -> int:
        return len(self.cells)


def histograms(
    frame: LazyFrame, names: list[str], kind: Kind, engine: Engine
) -> dict[str, ScoreHistogram]:
    """A histogram for each of these columns of locations, all from the same pass.

    The frame has the columns ``names``, which are numbers of classes, ``w`` and
    ``code``: the number of the row's class. A row is positive for the column whose
    number it is.
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
        return ScoreHistogram.from_locations(
            kind, sums.low, positives=sums.values[1], negatives=sums.values[0]
        )
    if len(sums) <= MAX_POINTS:
        return None
    top = highest_location(sums.high, probabilities=kind == "probability")
    return ScoreHistogram.from_cells(kind, sums.cells, sums.values, level, top)


def aggregate(
    frame: LazyFrame, names: list[str], kind: Kind, level: int | None, engine: Engine
) -> dict[str, Sums]:
    """Sums over the cells of a level; without a level, over locations."""
    rows = _long(frame, names, engine).select(
        "which",
        "u",
        cell=nw.col("u") if level is None else cell(nw.col("u"), kind, level),
        w1=nw.col("w") * nw.col("positive"),
        w0=nw.col("w") * (1.0 - nw.col("positive")),
    )
    rows = rows.with_columns(
        m1=nw.col("w1") * nw.col("u"), m0=nw.col("w0") * nw.col("u")
    )
    sums = [nw.col(name).sum() for name in ("w0", "w1", "m0", "m1")]
    found = columns_of(
        rows.group_by("which", "cell").agg(
            *sums, low=nw.col("u").min(), high=nw.col("u").max()
        )
    )
    return {
        name: _merged(
            {key: values[found["which"] == name] for key, values in found.items()}
        )
        for name in names
    }


def segment_histograms(
    frame: LazyFrame, pooled: ScoreHistogram, names: Sequence[str]
) -> SegmentHistograms:
    """Histograms of segments, given that of all rows: one group-by more.

    The frame has the columns ``u`` (locations), ``w``, ``code`` (1 for positives, else
    0) and ``b0``, ``b1`` ..., the segments, by their ``names`` in the frame that they
    are from.
    """
    keys = [f"b{k}" for k in range(len(names))]
    segments = int(
        frame.select(*keys).unique().select(n=nw.len()).collect()["n"].to_list()[0]
    )
    if segments > MAX_SEGMENTS:
        raise ValueError(
            f"by must be segments, at most {MAX_SEGMENTS:,} different ones; the frame "
            f"has {segments:,}"
        )
    level = level_of(pooled, segments)
    place = nw.col("u") if level is None else cell(nw.col("u"), pooled.kind, level)
    rows = frame.select(
        *keys,
        cell=place,
        w1=nw.col("w") * nw.col("code"),
        w=nw.col("w"),
        m=nw.col("w") * nw.col("u"),
    )
    found = (
        rows.group_by(*keys, "cell")
        .agg(*[nw.col(name).sum() for name in ("w", "w1", "m")])
        .collect()
    )
    w, w1, moment = (found[name].to_numpy() for name in ("w", "w1", "m"))
    by = check_by([found[key].to_list() for key in keys], len(found)).named(names)
    return SegmentHistograms.from_sums(
        pooled, by, level, found["cell"].to_numpy(), np.array([w - w1, w1, moment])
    )


def _long(frame: LazyFrame, names: list[str], engine: Engine) -> LazyFrame:
    """Columns ``which`` (a column's name), ``u`` (its value), ``positive``, ``w``."""
    if len(names) == 1:
        own = (
            nw.when(nw.col("code") == int(names[0]))
            .then(nw.lit(1.0))
            .otherwise(nw.lit(0.0))
        )
        return frame.select(
            "w", u=nw.col(names[0]), which=nw.lit(names[0]), positive=own
        )
    rows = engine.unpivot(
        frame.select("w", *names, own=nw.col("code").cast(nw.String)), names
    )
    own = (
        nw.when(nw.col("own") == nw.col("which"))
        .then(nw.lit(1.0))
        .otherwise(nw.lit(0.0))
    )
    return rows.with_columns(positive=own)


def columns_of(
    frame: LazyFrame, *, values: Sequence[str] = ()
) -> dict[str, NDArray[Any]]:
    """The columns of sums as arrays; those in ``values`` hold Python values."""
    schema = frame.collect_schema()
    if frame.implementation.is_duckdb() and all(
        schema[name] in PLAIN for name in schema
    ):
        # Its own arrays: those of pyarrow take pandas, and longer to import than
        # DuckDB.
        found = frame.to_native().fetchnumpy()
        lists = {name: found[name].tolist() for name in values}
        found = {
            name: np.ma.filled(column, np.nan)
            if column.dtype.kind == "f"
            else np.asarray(column)
            for name, column in found.items()
        }
    else:
        collected = frame.collect()
        found = {
            name: collected[name].to_numpy()
            for name in collected.columns
            if name not in values
        }
        lists = {name: collected[name].to_list() for name in values}
    for name, column in lists.items():
        found[name] = np.empty(len(column), dtype=object)
        found[name][:] = column
    return found


def _merged(column: dict[str, NDArray[Any]]) -> Sums:
    """Sums of equal cells together, in the order of the cells."""
    cells, place = np.unique(column["cell"], return_inverse=True)
    sums = np.array(
        [
            np.bincount(place, column[key], minlength=len(cells))
            for key in ("w0", "w1", "m0", "m1")
        ]
    )
    low = np.full(len(cells), np.inf)
    high = np.full(len(cells), -np.inf)
    np.minimum.at(low, place, column["low"])
    np.maximum.at(high, place, column["high"])
    return Sums(cells, sums, low, high)


def log_odds(p: nw.Expr) -> nw.Expr:
    """Log-odds of a probability in one column."""
    clipped = _at_least(p, SMALLEST_PROBABILITY) / _at_least(
        1.0 - p, SMALLEST_COMPLEMENT
    )
    inner = nw.when(p < 1.0).then(clipped.log()).otherwise(nw.lit(ONE))
    return nw.when(p > SMALLEST_PROBABILITY).then(inner).otherwise(nw.lit(ZERO))


def log_odds_from_pair(p0: nw.Expr, p1: nw.Expr) -> nw.Expr:
    """Log-odds from the probabilities of both sides."""
    inner = (
        _at_least(p1, SMALLEST_PROBABILITY).log()
        - _at_least(p0, SMALLEST_PROBABILITY).log()
    )
    one = (
        nw.when((p1 >= 1.0) & (p0 == SMALLEST_COMPLEMENT))
        .then(nw.lit(ONE))
        .otherwise(inner)
    )
    high = (
        nw.when((p1 >= 1.0) & (p0 <= SMALLEST_PROBABILITY))
        .then(nw.lit(-ZERO))
        .otherwise(one)
    )
    return (
        nw.when((p0 >= 1.0) & (p1 <= SMALLEST_PROBABILITY))
        .then(nw.lit(ZERO))
        .otherwise(high)
    )


def one_vs_rest_locations(
    frame: LazyFrame, names: Sequence[str], kind: Kind, scale: str, unit: float
) -> LazyFrame:
    """Locations of each class against the rest, in columns ``"0"``, ``"1"``, ..."""
    p = [nw.col(name) for name in names]
    if kind == "margin":
        tops = [
            nw.when(_first_largest(p, j)).then(one).otherwise(nw.lit(0.0))
            for j, one in enumerate(p)
        ]
        frame = frame.with_columns(top=reduce(add, tops))
        frame = frame.with_columns(
            **{f"logit{j}": _in_unit(one, unit) for j, one in enumerate(p)}
        )
        logits = [nw.col(f"logit{j}") for j in range(len(p))]
        frame = frame.with_columns(total=reduce(add, [logit.exp() for logit in logits]))
        frame = frame.with_columns(
            **{f"p{j}": one.exp() / nw.col("total") for j, one in enumerate(logits)}
        )
        p = [nw.col(f"p{j}") for j in range(len(p))]
    if scale == "identity":
        locations = p
    else:
        locations = []
        for j, one in enumerate(p):
            # What the largest leaves is summed, as 1 - p would round it away.
            others = reduce(add, [*p[:j], *p[j + 1 :]])
            rest = nw.when(_first_largest(p, j)).then(others).otherwise(1.0 - one)
            locations.append(log_odds_from_pair(rest, one))
    return frame.with_columns(
        **{str(j): location for j, location in enumerate(locations)}
    )


def _in_unit(logit: nw.Expr, unit: float) -> nw.Expr:
    """Logit times ``unit`` relative to the largest of the row, limited below."""
    return _at_least(logit - nw.col("top"), LEAST_LOGIT / unit) * unit


def unit_of_logits(
    frame: LazyFrame, names: Sequence[str], reach: float, engine: Engine
) -> float:
    """The inverse temperature of logits that fits them best, by passes over all rows.

    The frame has the logits, ``w`` and ``code``, the number of the row's class. A logit
    more than ``reach`` below the largest of its row is one of a masked class.
    """
    logits = [nw.col(name) for name in names]
    tops = [
        nw.when(_first_largest(logits, j)).then(one).otherwise(nw.lit(0.0))
        for j, one in enumerate(logits)
    ]
    frame = engine.barrier(frame.with_columns(top=reduce(add, tops)))
    lowered = [_at_least(one - nw.col("top"), -reach) for one in logits]
    places = [f"z{j}" for j in range(len(names))]
    frame = frame.select("w", "code", **dict(zip(places, lowered, strict=True)))
    z = [nw.col(place) for place in places]
    mean = reduce(add, z) * (1.0 / len(z))
    deviation = reduce(add, [(one - mean).abs() for one in z]) * (1.0 / len(z))
    sizes = columns_of(
        frame.select("w", size=nw.col("w") * deviation).select(nw.all().sum())
    )
    size = float(sizes["size"][0] / sizes["w"][0])
    if size <= MIN_SPAN:
        return 1.0
    frame = frame.select("w", "code", *[one / size for one in z])
    own = [
        nw.when(nw.col("code") == j).then(one).otherwise(nw.lit(0.0))
        for j, one in enumerate(z)
    ]
    frame = engine.barrier(frame.select("w", *places, own=reduce(add, own)))

    def loss(beta: float) -> Derivatives:
        powers = [(one * beta).exp() for one in z]
        rows = frame.select(
            "w",
            "own",
            total=reduce(add, powers),
            first=reduce(add, [e * one for e, one in zip(powers, z, strict=True)]),
            second=reduce(
                add, [e * one * one for e, one in zip(powers, z, strict=True)]
            ),
        )
        rows = engine.barrier(rows)
        w, own, total = (nw.col(name) for name in ("w", "own", "total"))
        mean = nw.col("first") / total
        sums = rows.select(
            f=w * (total.log() - own * beta),
            g=w * (mean - own),
            h=w * (nw.col("second") / total - mean * mean),
        )
        found = columns_of(sums.select(nw.all().sum()))
        return float(found["f"][0]), float(found["g"][0]), float(found["h"][0])

    return sized_logit_unit(loss).beta / size


def _first_largest(p: Sequence[nw.Expr], j: int) -> nw.Expr:
    """Whether a score is the largest, and the first of those as large.

    The functions of narwhals that look at several columns at once do not work for Dask.
    """
    return reduce(
        and_, [*[p[j] > one for one in p[:j]], *[p[j] >= one for one in p[j + 1 :]]]
    )


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
    """Whether a sample shows that many rows have the same scores.

    Then there are equal ones in it; or its size is far from ``MAX_SAMPLE``, because the
    most frequent ones are not.
    """
    n = len(scores[0])
    return (
        len(np.unique(sample_place(scores))) < (1.0 - ALIKE) * n
        or abs(n - MAX_SAMPLE) > SPREAD_OF_SIZE * n**0.5
    )


def check_no_groups(groups: object) -> None:
    """Complain about groups among rows that have to be grouped by their scores."""
    if groups is not None:
        raise ValueError(
            f'multiclass must be "ovr" with group where more than {MAX_SAMPLE:,} rows '
            "have few distinct scores: the "
            "structured fit would need a sample of them, and a sample of equal scores "
            "knows nothing of groups"
        )


def sample_weights(weight: Array, count: Array, share: float) -> Array:
    """Weights of groups of equal scores in a sample.

    A group of ``count`` rows is taken with probability ``count * share``.

    A group that is taken for certain has the weight that its share of rows would have;
    another, that of one row.
    """
    return weight * share / np.minimum(count * share, 1.0)


def group_sums(
    frame: LazyFrame, code: int, line: PooledLine, engine: Engine
) -> GroupSums:
    """Sums of residuals by group for the class with number ``code``, in one pass.

    The frame has the columns ``w``, ``code``, ``g`` and the locations, by the number of
    the class. What comes back is twelve sums for each group; of more than
    ``MAX_GROUPS`` groups, for so many of them.
    """
    z = (
        _at_most(_at_least(nw.col(str(code)), line.low), line.high) - line.middle
    ) / line.unit
    rows = engine.barrier(frame.select("g", "w", "code", z=z))
    odds = (nw.col("z") * (0.0 - line.slope) - line.intercept).exp()
    own = nw.when(nw.col("code") == code).then(nw.lit(1.0)).otherwise(nw.lit(0.0))
    # 1 - p is taken from the odds, as p may be rounded to 1.
    rows = rows.select("g", "w", "z", own=own, odds=odds)
    rows = engine.barrier(
        rows.select(
            "g",
            "w",
            "z",
            "own",
            p=1.0 / (nw.col("odds") + 1.0),
            q=nw.col("odds") / (nw.col("odds") + 1.0),
        )
    )
    w, z, p = (nw.col(name) for name in ("w", "z", "p"))
    rows = engine.barrier(
        rows.select("g", "w", "z", r=nw.col("own") - p, v=p * nw.col("q"), size=z.abs())
    )
    r = nw.col("r")
    v = nw.col("v")
    root = nw.col("v").sqrt()
    terms = {
        "rows": w * 0.0 + 1.0,
        "weight": w,
        "u": w * r,
        "uz": w * r * z,
        "v": w * v,
        "vz": w * v * z,
        "vzz": w * v * z * z,
        "c": w * root,
        "cz": w * root * nw.col("size"),
        "rr": w * r * r,
        "rrzz": w * r * r * z * z,
        "own": w * 0.0,
    }
    named = {f"a_{name}": term for name, term in terms.items()}
    sums = (
        rows.select("g", **named)
        .group_by("g")
        .agg(*[nw.col(name).sum() for name in named])
    )
    found = columns_of(sums.select(*named).head(MAX_GROUPS))
    return GroupSums(
        *(found[f"a_{name}"].astype(np.float64) for name in GroupSums._fields)
    )


def sample_place(scores: Sequence[Column]) -> Column:
    """A number in [0, 1) for each row, which depends on the digits of its scores.

    Rows of which it is below a share are that share of all: the same ones in every
    engine and order.
    """
    parts: list[Any] = [
        one * (SPREAD * ((GOLDEN * (j + 1)) % 1.0 + 0.5))
        for j, one in enumerate(scores)
    ]
    whole = reduce(add, parts)
    floor: Any = whole.floor() if isinstance(whole, nw.Expr) else np.floor(whole)
    return whole - floor  # type: ignore[no-any-return]
