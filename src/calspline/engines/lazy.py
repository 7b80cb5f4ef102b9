"""Lazy rows: columns under names of our own, and sums computed by their engine."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import add, or_
from typing import TYPE_CHECKING, Any, Self

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from calspline._input.labels import MAX_LABELS, is_missing, label_array
from calspline._input.scores import (
    ROUNDING,
    ROW_SUM_TOLERANCE,
    MatrixScores,
)
from calspline._input.segment_labels import By
from calspline._input.weights import Repetition, WeightedRepetition
from calspline.engines import aggregate
from calspline.engines.aggregate import (
    check_no_groups,
    columns_of,
    log_odds,
    log_odds_from_pair,
    one_vs_rest_locations,
    sample_place,
    sample_weights,
    segment_histograms,
    share_scores,
)
from calspline.engines.in_memory import ArrayRows, frame_segments, read_arrays
from calspline.engines.rows import (
    Columns,
    ColumnStats,
    Found,
    LazyFrame,
    Locations,
    check_label_count,
)
from calspline.fitting.groups import GroupSums, PooledLine
from calspline.multiclass.scale import mask_distance, unit_of_logits

if TYPE_CHECKING:
    from calspline.engines.engine import Engine

MAX_ADDED = 8
"""Sums that one task adds up, so that no worker has to hold those of all partitions."""
CATEGORY_KINDS = {"i": "Int64", "u": "Int64", "f": "float64", "b": "boolean"}
"""Types of pandas that hold such categories and missing values."""
SCORE = re.compile(r"s\d+")
Sums = dict[int, Found]

# PostgreSQL takes a literal with a point for a decimal.
ZERO, ONE = nw.lit(0).cast(nw.Float64), nw.lit(1).cast(nw.Float64)


@dataclass(frozen=True)
class LazyRows:
    """Rows that count, with columns under names of our own.

    These are ``s0`` ... (scores), ``y``, ``w``, ``g`` (groups), ``b0`` ... (``by``).
    """

    frame: LazyFrame
    engine: Engine
    by: Sequence[str] = ()

    @property
    def _segments(self) -> list[str]:
        return [f"b{k}" for k in range(len(self.by))]

    def clipped(self) -> Self:
        """The rows with probabilities clipped to [0, 1]."""
        names = [
            name
            for name in self.frame.collect_schema().names()
            if SCORE.fullmatch(name)
        ]
        return replace(
            self,
            frame=self.frame.with_columns(
                **{name: _within(nw.col(name)) for name in names}
            ),
        )

    def weighted(self, factor: float) -> Self:
        """The rows with all weights multiplied by a factor."""
        return replace(self, frame=self.frame.with_columns(w=nw.col("w") * factor))

    def histograms(
        self, where: Locations, classes: NDArray[Any], seen: Sequence[int]
    ) -> dict[int, Found]:
        """A histogram by class in ``seen``, in one pass unless there are segments."""
        taken = self._located(where, classes, self._segments)
        pooled = aggregate.histograms(
            taken, [str(j) for j in seen], where.column_kind, self.engine
        )
        if not self.by:
            return {j: pooled[str(j)] for j in seen}
        rows = self.engine.barrier(taken)
        found: dict[int, Found] = {}
        for j in seen:
            own = nw.when(nw.col("code") == j).then(ONE).otherwise(ZERO)
            frame = self.engine.barrier(
                rows.select("w", *self._segments, u=nw.col(str(j)), code=own)
            )
            found[j] = segment_histograms(frame, pooled[str(j)], self.by)
        return found

    def repetition(self) -> WeightedRepetition:
        """How rows repeat, and the range of the weights of each class."""
        names = self.frame.collect_schema().names()
        keys = [name for name in names if name not in ("y", "w")]
        weight = nw.col("w")
        distinct = (
            self.frame.select(*keys, "y", "w", rows=ONE)
            .group_by(*keys, "y")
            .agg(nw.col("rows").sum(), low=weight.min(), high=weight.max())
        )
        scores = (
            distinct.select(*keys, "rows", labels=ONE)
            .group_by(*keys)
            .agg(nw.col("rows", "labels").sum())
        )
        is_shared = nw.when(nw.col("labels") > ONE).then(ONE).otherwise(ZERO)
        counted = scores.select("rows", "labels", scores=ONE, shared=is_shared)
        sums = columns_of(counted.select(nw.all().sum()))
        ranges = columns_of(
            distinct.group_by("y")
            .agg(nw.col("low").min(), nw.col("high").max())
            .select("low", "high")
        )
        return WeightedRepetition(
            Repetition(
                rows=int(sums["rows"][0]),
                distinct=int(sums["labels"][0]),
                scores=int(sums["scores"][0]),
                shared=int(sums["shared"][0]),
            ),
            list(zip(ranges["low"].tolist(), ranges["high"].tolist(), strict=True)),
        )

    def group_sums(
        self, where: Locations, classes: NDArray[Any], lines: dict[int, PooledLine]
    ) -> tuple[list[GroupSums], list[float]]:
        """What groups say about classes, and the design effects of their segments.

        With segments they are those of rows in memory: all, or a sample.
        """
        if self.by:
            return self._sampled(where, classes).group_sums(where, classes, lines)
        taken = self._located(where, classes, ["g"])
        return [
            aggregate.group_sums(taken, j, line, self.engine)
            for j, line in lines.items()
        ], []

    def _sampled(self, where: Locations, classes: NDArray[Any]) -> ArrayRows:
        """All rows as arrays, or a sample of them."""
        counted = self.frame.select(n=ONE, one=ONE).group_by("one")
        n_rows = float(columns_of(counted.agg(nw.col("n").sum()))["n"][0])
        taken = self._thinned(where.names, aggregate.MAX_SAMPLE / n_rows)
        names = dict.fromkeys(where.names)
        rows = taken.select(*names, "y", "w", "g", *self._segments).collect()
        return self._as_arrays(rows, where.names, classes)

    def _thinned(self, names: Sequence[str], share: float) -> LazyFrame:
        """A share of the rows: the same ones in every engine."""
        if share >= 1.0:
            return self.frame
        return self.frame.filter(sample_place([nw.col(name) for name in names]) < share)

    def _as_arrays(
        self, rows: nw.DataFrame[Any], names: Sequence[str], classes: NDArray[Any]
    ) -> ArrayRows:
        """Rows that are here, with the places of their labels among the classes."""
        places = {label: j for j, label in enumerate(classes.tolist())}
        labels = label_array(rows["y"].to_list()).tolist()
        codes = np.array([places[label] for label in labels], dtype=np.intp)
        groups = None
        if "g" in rows.columns:
            groups = np.unique(label_array(rows["g"].to_list()), return_inverse=True)[1]
        scores = {name: rows[name].to_numpy() for name in names}
        weight = rows["w"].to_numpy()
        by = named_segments(rows, self.by)
        return ArrayRows(scores, codes, classes.tolist(), weight, groups, by)

    def shared(self, correlation: float) -> Self:
        """The rows without segments, weighted by the dependence within groups."""
        sizes = self.frame.select("g", "w").group_by("g").agg(size=nw.col("w").sum())
        effect = (nw.col("size") - 1.0) * correlation + 1.0
        effects = sizes.select(
            "g", effect=nw.when(effect > 1.0).then(effect).otherwise(ONE)
        )
        names = [
            name
            for name in self.frame.collect_schema().names()
            if name not in ("w", *self._segments)
        ]
        joined = self.frame.join(self.engine.barrier(effects), on="g", how="inner")
        rows = joined.select(*names, w=nw.col("w") / nw.col("effect"))
        return replace(self, frame=self.engine.barrier(rows), by=())

    def _located(
        self, where: Locations, classes: NDArray[Any], more: Sequence[str]
    ) -> LazyFrame:
        """Locations by number of class, weights, codes of classes, and ``more``."""
        if where.two:
            located = self.frame.with_columns(_location(where).alias("1"))
            keys = ["1"]
        else:
            located = one_vs_rest_locations(
                self.frame, where.names, where.kind.value_kind, where.scale, where.unit
            )
            keys = [str(j) for j in range(len(where.names))]
        return located.select("w", *keys, *more, code=_code(classes))

    def unit_of_logits(
        self, names: list[str], classes: NDArray[Any], n_rows: int
    ) -> float:
        """The inverse temperature of logits that fits them best.

        Of more rows than a sample has, each step of Newton's method is a pass over
        all. A sample then tells masked classes only.
        """
        alone = replace(self, frame=self.frame.select(*names, "y", "w"), by=())
        sample = alone.sample(names, classes, n_rows)
        logits = MatrixScores("margin", sample.matrix(names))
        if n_rows <= aggregate.MAX_SAMPLE:
            return unit_of_logits(logits, sample.codes, sample.weight)
        reach = mask_distance(logits, sample.weight)
        rows = self.frame.select(*names, "w", code=_code(classes))
        return aggregate.unit_of_logits(rows, names, reach, self.engine)

    def sample(self, names: list[str], classes: NDArray[Any], n_rows: int) -> ArrayRows:
        """A sample of the rows, which are ``n_rows``: the same ones in every engine.

        If many rows have the same scores, they are grouped by them instead.
        """
        share = aggregate.MAX_SAMPLE / n_rows
        grouped = ["g"] if "g" in self.frame.collect_schema() else []
        taken = self._thinned(names, share)
        found = taken.select(*names, "y", "w", *grouped, *self._segments).collect()
        rows = self._as_arrays(found, names, classes)
        if share >= 1.0 or not share_scores([rows.scores[name] for name in names]):
            return rows
        check_no_groups(rows.groups)
        keys = [*names, "y", *self._segments]
        counted = self.frame.select(*keys, "w", n=ONE).group_by(*keys)
        groups = counted.agg(nw.col("w", "n").sum())
        found = groups.head(aggregate.MAX_SAMPLE + 1).collect()
        if len(found) <= aggregate.MAX_SAMPLE:
            return self._as_arrays(found, names, classes)
        place = sample_place([nw.col(name) for name in names])
        found = groups.filter(place < nw.col("n") * share).collect()
        rows = self._as_arrays(found, names, classes)
        assert rows.weight is not None
        count = found["n"].to_numpy()
        return replace(rows, weight=sample_weights(rows.weight, count, share))


def lazy_rows(
    engine: Engine, frame: LazyFrame, columns: Columns
) -> tuple[LazyRows, ColumnStats]:
    """The rows that count, and what their columns hold, found in one pass."""
    schema = frame.collect_schema()
    nan = engine.has_nan(frame.to_native())
    own = {
        name: nw.col(engine.reference(column)).cast(nw.Float64)
        for name, column in columns.numbers.items()
    }
    own["y"] = _label(engine.reference(columns.label), schema[columns.label])
    absent = {name: _absent(name, nan=nan) for name in columns.numbers}
    if columns.group is not None:
        own["g"] = _label(engine.reference(columns.group), schema[columns.group])
        absent["g"] = _absent("g", nan=nan and schema[columns.group].is_float())
    for k, column in enumerate(columns.by):
        value = _label(engine.reference(column), schema[column])
        own[f"b{k}"] = (
            nw.when(~value.is_nan()).then(value)
            if nan and schema[column].is_float()
            else value
        )
    rows = engine.barrier(frame.select(**({"w": ONE} | own)))
    no_label = _absent("y", nan=nan and schema[columns.label].is_float())
    found = _by_label(rows, columns.names, absent)
    missing_label = np.array([is_missing(value) for value in found["y"]], dtype=bool)
    missing = {name: int(found[f"no_{name}"].sum()) for name in absent}
    missing["y"] = int(found["rows"][missing_label].sum())
    rows = rows.filter(~reduce(or_, [*absent.values(), no_label]))
    weights = None
    if columns.weight is not None:
        low = found["low_known_weight"]
        high = found["high_known_weight"]
        if not np.isnan(low).all():
            weights = (float(np.nanmin(low)), float(np.nanmax(high)))
        rows = rows.filter(nw.col("w") > 0.0)
    here = ~missing_label & (found["used"] > 0.0)

    def total(name: str) -> float:
        return float(found[name][here].sum())

    def lowest(name: str) -> float:
        return float(found[f"low_{name}"][here].min(initial=np.inf))

    def highest(name: str) -> float:
        return float(found[f"high_{name}"][here].max(initial=-np.inf))

    names = columns.names
    return LazyRows(rows, engine, columns.by), ColumnStats(
        score=columns.score,
        labels=label_array(found["y"][here].tolist()),
        n_rows=int(total("rows")),
        rows=int(found["rows"].sum()),
        missing=missing,
        weights=weights,
        limits=(min(map(lowest, names)), max(map(highest, names))),
        n_outside=int(total("out")),
        n_negative=int(total("negative")),
        n_off=int(total("off")) if len(names) > 1 else 0,
        n_improper=int(total("improper")),
        sums=(lowest("total"), highest("total")),
        weight_sums=(
            total("w"),
            total("square"),
            total("fraction"),
            int(total("single")),
        ),
    )


def _within(p: nw.Expr) -> nw.Expr:
    return (
        nw.when(p < 0.0).then(ZERO).otherwise(nw.when(p > 1.0).then(ONE).otherwise(p))
    )


def _absent(name: str, *, nan: bool) -> nw.Expr:
    """Whether a value is missing."""
    value = nw.col(name)
    # A condition hides the range that a Parquet file states for its numbers: DuckDB
    # takes it for that of NaN as well.
    if nan:
        return value.is_null() | nw.when(~value.is_null()).then(value).is_nan()
    return value.is_null()


def _label(column: str, dtype: nw.dtypes.DType) -> nw.Expr:
    value = nw.col(column)
    if isinstance(dtype, (nw.Categorical, nw.Enum)):
        return value.cast(nw.String)
    return value


def _by_label(
    rows: LazyFrame, names: list[str], absent: dict[str, nw.Expr]
) -> dict[str, NDArray[Any]]:
    """What rows hold, for each label and by whether they are ``used``.

    Rows are used that lack nothing but perhaps a label, and have a positive weight.
    """
    scores = [nw.col(name) for name in names]
    counts = ~reduce(or_, absent.values()) & (nw.col("w") > 0.0)
    weight = nw.when(~absent["w"]).then(nw.col("w")) if "w" in absent else nw.col("w")
    outside = [(one < -ROUNDING) | (one > 1.0 + ROUNDING) for one in scores]
    rows = rows.select(
        "y",
        "w",
        *names,
        used=_indicator(counts),
        known_weight=weight,
        total=reduce(add, scores),
        out=_indicator(reduce(or_, outside)),
        negative=_indicator(reduce(or_, [one < 0.0 for one in scores])),
        **{f"no_{name}": _indicator(where) for name, where in absent.items()},
    )
    w = nw.col("w")
    off = (nw.col("total") - 1.0).abs() > ROW_SUM_TOLERANCE
    rows = rows.with_columns(
        rows=ONE,
        off=_indicator(off),
        improper=_indicator(off | (nw.col("out") > 0.0)),
        square=w * w,
        fraction=(w - w.round()).abs(),
        single=_indicator(w == ONE),
    )
    sums = [f"no_{name}" for name in absent]
    sums += ["rows", "w", "square", "fraction", "single"]
    sums += ["off", "improper", "out", "negative"]
    ranges = [*names, "total", "known_weight"]
    groups = rows.group_by("y", "used").agg(
        *[nw.col(name).min().alias(f"low_{name}") for name in ranges],
        *[nw.col(name).max().alias(f"high_{name}") for name in ranges],
        nw.col(*sums).sum(),
    )
    stats = columns_of(groups.head(2 * MAX_LABELS + 1), values=["y"])
    check_label_count(len(set(stats["y"].tolist())))
    return stats


def _indicator(condition: nw.Expr) -> nw.Expr:
    """One where a condition holds, else zero."""
    one = nw.when(condition).then(nw.lit(1)).otherwise(nw.lit(0))
    return one.cast(nw.Float64)


def _location(where: Locations) -> nw.Expr:
    """Log-odds or margin of the second of two classes."""
    scores = [nw.col(name) for name in where.names]
    if where.kind.is_difference:
        return scores[1] - scores[0]
    if where.kind.value_kind == "margin":
        return scores[-1]
    if len(scores) == 1:
        return log_odds(scores[0])
    return log_odds_from_pair(scores[0], scores[1])


def _code(classes: NDArray[Any]) -> nw.Expr:
    """The number of a row's class."""
    if classes.dtype.kind in "iu" and np.array_equal(classes, np.arange(len(classes))):
        return nw.col("y").cast(nw.Int64)
    code = nw.lit(0)
    for j, label in enumerate(classes.tolist()[1:], start=1):
        code = nw.when(nw.col("y") == label).then(nw.lit(j)).otherwise(code)
    return code


@dataclass(frozen=True)
class PartitionRows(LazyRows):
    """Rows in partitions that are pandas frames, each read once for all classes."""

    def histograms(
        self, where: Locations, classes: NDArray[Any], seen: Sequence[int]
    ) -> Sums:
        """Histograms of all partitions, added up in a tree, by number of class."""
        from dask import delayed

        of_partition = delayed(partial(_of_partition, where, classes, seen, self.by))
        total = delayed(_total)
        parts = [of_partition(part) for part in self.frame.to_native().to_delayed()]
        while len(parts) > 1:
            parts = [
                total(parts[k : k + MAX_ADDED]) for k in range(0, len(parts), MAX_ADDED)
            ]
        found: Sums = parts[0].compute()
        return found


def _of_partition(
    where: Locations,
    classes: NDArray[Any],
    seen: Sequence[int],
    by: Sequence[str],
    part: Any,
) -> Sums:
    own = {name: name for name in [*where.names, "w"]}
    frame = nw.from_native(part, eager_only=True)
    return replace(
        read_arrays(frame, own, "y"), by=named_segments(frame, by)
    ).histograms(where, classes, seen)


def _total(parts: list[Sums]) -> Sums:
    return {key: reduce(add, [part[key] for part in parts]) for key in parts[0]}


def named_segments(frame: nw.DataFrame[Any], by: Sequence[str]) -> By | None:
    """The columns ``b0``, ``b1`` ... under the names that they had."""
    found = frame_segments(frame, [f"b{k}" for k in range(len(by))])
    return found and found.named(by)


def partition_rows(
    engine: Engine, frame: LazyFrame, columns: Columns
) -> tuple[PartitionRows, ColumnStats]:
    """As :func:`lazy_rows`, for Dask."""
    dask = frame.to_native()
    schema = frame.collect_schema()
    for name in (columns.label, *columns.by):
        if isinstance(schema[name], (nw.Categorical, nw.Enum)):
            # Numbers among categories stay numbers; what is no number is text, as
            # elsewhere.
            values = dask[name] if dask[name].cat.known else dask[name].cat.as_known()
            kind = CATEGORY_KINDS.get(values._meta.cat.categories.dtype.kind)
            dask = dask.assign(**{name: values.astype(kind)}) if kind else dask
    rows, stats = lazy_rows(engine, nw.from_native(dask), columns)
    return PartitionRows(rows.frame, engine, columns.by), stats
