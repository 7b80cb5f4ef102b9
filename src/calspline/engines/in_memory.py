"""Rows in memory: columns as arrays, summed as the fit of arrays sums them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from calspline.arrays import Array, chunks
from calspline.engines import aggregate
from calspline.engines.aggregate import check_no_groups, sample_place, sample_weights, share_scores
from calspline.engines.rows import Columns, ColumnStats, Found, Locations, Sample, check_label_count
from calspline.fitting.groups import GroupMoments, GroupSizes, PooledLine
from calspline.histogram import ScoreHistogram
from calspline.labels import is_missing, label_array
from calspline.multiclass.one_vs_rest import AgainstRest
from calspline.scores import ROUNDING, BinaryScores, MatrixScores, is_outside, rounding
from calspline.segments.histogram import SegmentHistograms
from calspline.segments.labels import By, check_by

if TYPE_CHECKING:
    from calspline.engines.backends import Engine


@dataclass(frozen=True)
class ArrayRows:
    """Scores, labels and weights of the rows that count, as arrays.

    ``codes`` are places in ``labels``, -1 where there is none, and so are the numbers of groups. No weights are weights
    of one.
    """

    scores: dict[str, Array]
    codes: NDArray[np.intp]
    labels: list[Any]
    weight: Array | None
    groups: NDArray[np.intp] | None = None
    by: By | None = None

    def clipped(self) -> ArrayRows:
        """The same with probabilities within [0, 1]."""
        return replace(self, scores={name: np.clip(values, 0.0, 1.0) for name, values in self.scores.items()})

    def weighted(self, factor: float) -> ArrayRows:
        """The same with all weights multiplied."""
        return replace(self, weight=None if self.weight is None else factor * self.weight)

    def histograms(self, where: Locations, classes: NDArray[Any], seen: Sequence[int]) -> dict[int, Found]:
        """A histogram for each class in ``seen``, by its number."""
        found: dict[int, Found] = {}
        scores = self._located(where)
        for j in seen:
            one, positive = scores[j], self._is(classes[j])
            found[j] = pooled = ScoreHistogram.collect(one, positive, self.weight)
            if self.by is not None:
                found[j] = SegmentHistograms.collect(pooled, one, positive, self.weight, self.by)
        return found

    def moments(
        self, where: Locations, classes: NDArray[Any], lines: dict[int, PooledLine]
    ) -> tuple[list[GroupMoments], GroupSizes]:
        """What groups say about the scores of the classes of ``lines``, and how large they are."""
        groups = np.unique(np.asarray(self.groups), return_inverse=True)[1]
        scores = self._located(where)
        sums = [
            line.sums(scores[j].locations(), self._is(classes[j]), self.weight, groups) for j, line in lines.items()
        ]
        return [GroupMoments.of(each) for each in sums], GroupSizes.of(groups, self.weight)

    def _located(self, where: Locations) -> AgainstRest | dict[int, BinaryScores]:
        """Scores by the number of their class."""
        if not where.two:
            return AgainstRest(MatrixScores(where.kind, self._matrix(where.names)), where.transform)
        first, values = self.scores[where.names[0]], self.scores[where.names[-1]]
        if where.difference:
            values = values - first
        pair = len(where.names) == 2 and where.kind == "probability"
        return {1: BinaryScores(where.kind, values, first if pair else None, values.shape)}

    def sample(self, names: list[str], share: float) -> Sample:
        """A share of the rows, which are the same ones in every engine."""
        matrix, codes, groups, by = self._matrix(names), self.codes, self.groups, self.by
        weight = np.ones(len(matrix)) if self.weight is None else self.weight
        if share < 1.0:
            taken = sample_place(list(matrix.T)) < share
            groups = None if groups is None else groups[taken]
            if share_scores(list(matrix[taken].T)):
                check_no_groups(groups)
                matrix, codes, weight, by = _grouped(matrix, codes, weight, by, share)
            else:
                matrix, codes, weight = matrix[taken], codes[taken], weight[taken]
                by = None if by is None else by.of(taken)
        return Sample(matrix, label_array(self.labels)[codes], weight, groups, by)

    def counting(self, used: NDArray[np.bool_]) -> ArrayRows:
        """Some of the rows."""
        scores = {name: values[used] for name, values in self.scores.items()}
        weight = None if self.weight is None else self.weight[used]
        groups = None if self.groups is None else self.groups[used]
        by = None if self.by is None else self.by.of(used)
        return ArrayRows(scores, self.codes[used], self.labels, weight, groups, by)

    def _matrix(self, names: list[str]) -> Array:
        return np.column_stack([self.scores[name] for name in names])

    def _is(self, label: Any) -> NDArray[np.bool_]:
        """Which rows have a label."""
        return np.asarray(self.codes == self.labels.index(label)) if label in self.labels else self.codes < -1


def read_arrays(frame: nw.DataFrame[Any], numbers: dict[str, str], label: str, by: Sequence[str] = ()) -> ArrayRows:
    """Columns of a frame, under our names, as arrays; what is missing is NaN, or -1."""
    columns = {name: frame[column].cast(nw.Float64).to_numpy() for name, column in numbers.items()}
    arrays = {name: np.asarray(values, dtype=np.float64) for name, values in columns.items()}
    weight = arrays.pop("w", None)
    codes, labels = _coded(frame[label])
    return ArrayRows(arrays, codes, labels, weight, by=frame_segments(frame, by))


def frame_segments(frame: nw.DataFrame[Any], by: Sequence[str]) -> By | None:
    """Columns of segments; a category counts by its own value."""
    if not by:
        return None
    dtypes = frame.schema
    texts = [name for name in by if isinstance(dtypes[name], (nw.Categorical, nw.Enum))]
    if texts and not frame.implementation.is_pandas_like():
        frame = frame.with_columns(nw.col(*texts).cast(nw.String))
    return check_by(frame.select(*by).to_native(), len(frame))


def array_rows(engine: Engine, frame: nw.DataFrame[Any], columns: Columns) -> tuple[ArrayRows, ColumnStats]:
    """Take the columns, look at what they hold, and leave out rows that do not count."""
    rows = read_arrays(frame, columns.numbers, columns.label, columns.by)
    if columns.group is not None:
        rows = replace(rows, groups=_numbered(frame[columns.group].to_list()))
    numbers = rows.scores if rows.weight is None else rows.scores | {"w": rows.weight}
    absent = {name: np.isnan(values) for name, values in numbers.items()} | {"y": rows.codes < 0}
    if rows.groups is not None:
        absent["g"] = rows.groups < 0
    missing = {name: int(np.count_nonzero(where)) for name, where in absent.items()}
    weights = None
    if rows.weight is not None and missing["w"] < len(frame):
        weights = float(np.nanmin(rows.weight)), float(np.nanmax(rows.weight))
        absent["w"] |= rows.weight == 0.0
    used = ~np.logical_or.reduce(list(absent.values()))
    rows = rows if used.all() else rows.counting(used)
    scores, n = list(rows.scores.values()), len(rows.codes)
    low = min(float(values.min(initial=np.inf)) for values in scores)
    high = max(float(values.max(initial=-np.inf)) for values in scores)
    outside = np.zeros(n, dtype=bool)
    if is_outside(low, high):
        for values in scores:
            outside |= (values < -rounding(high)) | (values > 1.0 + ROUNDING)
    w = np.empty(0) if rows.weight is None else rows.weight
    with np.errstate(invalid="ignore", over="ignore"):  # infinite weights are an error of their own
        weight_sums = float(w.sum()), float(w @ w), float(np.abs(w - np.rint(w)).sum())
    return rows, ColumnStats(
        labels=label_array([rows.labels[k] for k in np.flatnonzero(np.bincount(rows.codes))]),
        count=len(rows.codes),
        rows=len(frame),
        missing=missing,
        weights=weights,
        low=low,
        high=high,
        outside=int(np.count_nonzero(outside)),
        worst_sum=_worst_sum(scores) if len(scores) > 1 and n else 0.0,
        weight_sums=weight_sums,
    )


def _coded(column: nw.Series[Any]) -> tuple[NDArray[np.intp], list[Any]]:
    """Places of labels among the distinct ones, -1 where there is none; a category counts by its own value."""
    if isinstance(column.dtype, (nw.Categorical, nw.Enum)):
        native = column.to_native()
        if column.implementation.is_pandas_like():
            check_label_count(len(native.cat.categories))
            return native.cat.codes.to_numpy().astype(np.intp), native.cat.categories.tolist()
        if column.implementation.is_pyarrow():
            column = nw.from_native(native.cast(native.type.value_type), series_only=True)
        else:
            column = column.cast(nw.String)
    found = column.unique()
    check_label_count(len(found))
    labels = [value for value in found.to_list() if not is_missing(value)]
    codes = np.full(len(column), -1, dtype=np.intp)
    for k, label in enumerate(labels):
        codes[(column == label).fill_null(False).to_numpy().astype(bool)] = k
    return codes, label_array(labels).tolist()


def _grouped(
    matrix: Array, codes: NDArray[np.intp], weight: Array, by: By | None, share: float
) -> tuple[Array, NDArray[np.intp], Array, By | None]:
    """Rows of the same scores, label and segments as one, with their weights: all, or a sample if there are many."""
    segments = [] if by is None else by.columns
    keys = np.column_stack([matrix, codes, *[column.codes for column in segments]])
    rows, place, count = np.unique(keys, axis=0, return_inverse=True, return_counts=True)
    m = matrix.shape[1]
    total: Array = np.bincount(place.reshape(-1), weight, minlength=len(rows)).astype(np.float64)
    if len(rows) > aggregate.MAX_SAMPLE:
        taken = sample_place(list(rows[:, :m].T)) < count * share
        rows, total = rows[taken], sample_weights(total[taken], count[taken], share)
    found = rows[:, m:].astype(np.intp)
    if by is not None:
        by = By([replace(column, codes=found[:, k + 1]) for k, column in enumerate(segments)])
    return rows[:, :m], found[:, 0], total, by


def _numbered(values: list[Any]) -> NDArray[np.intp]:
    """The number of each value among the distinct ones, -1 where there is none."""
    numbers: dict[Any, int] = {}
    return np.array([-1 if is_missing(one) else numbers.setdefault(one, len(numbers)) for one in values], dtype=np.intp)


def _worst_sum(scores: list[Array]) -> float:
    """How far from one the scores of a row sum, at most."""
    with np.errstate(invalid="ignore"):  # infinite scores are an error of their own
        return max(float(np.abs(sum(one[rows] for one in scores) - 1.0).max()) for rows in chunks(len(scores[0])))
