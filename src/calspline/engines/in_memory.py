"""Frames in memory: their columns are arrays, and are fitted as arrays are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from calspline._arrays import Array
from calspline._input.labels import (
    check_hashable,
    check_label_array,
    distinct_labels,
    is_missing,
    label_array,
)
from calspline._input.scores import (
    LARGEST_MARGIN,
    BinaryScores,
    GivenScores,
    MatrixScores,
    check_columns_are_scores,
    decide_kind,
    show_outside,
)
from calspline._input.segment_labels import By, check_by
from calspline._input.weights import check_weights_as_counts, counted_columns
from calspline.calibrators.spline import SplineCalibrator
from calspline.engines.aggregate import PLAIN
from calspline.engines.rows import (
    Columns,
    Found,
    Locations,
    RowStats,
    check_label_count,
    float_column,
)
from calspline.fits.options import required_scores
from calspline.fitting.groups import GroupSums, PooledLine
from calspline.histograms.score_histogram import ScoreHistogram
from calspline.histograms.segment_histogram import SegmentHistograms
from calspline.multiclass.one_vs_rest import AgainstRest, tempered

COMPARED = (*PLAIN, nw.UInt32, nw.UInt16, nw.UInt8)
"""Types of labels that all frames compare with Python values."""


@dataclass(frozen=True)
class ArrayRows:
    """Scores, labels and weights of the rows that count, as arrays.

    Those of a frame in memory, of a partition of Dask, or of a sample. ``codes`` are
    places in ``labels``, -1 where there is none, and so are the numbers of groups. No
    weights are weights of one.
    """

    scores: dict[str, Array]
    codes: NDArray[np.intp]
    labels: list[Any]
    weight: Array | None
    groups: NDArray[np.intp] | None = None
    by: By | None = None

    def histograms(
        self, where: Locations, classes: NDArray[Any], seen: Sequence[int]
    ) -> dict[int, Found]:
        """A histogram for each class in ``seen``, by its number."""
        found: dict[int, Found] = {}
        scores = self._located(where)
        for j in seen:
            one = scores[j]
            positive = self._is(classes[j])
            found[j] = pooled = ScoreHistogram.collect(one, positive, self.weight)
            if self.by is not None:
                found[j] = SegmentHistograms.collect(
                    pooled, one, positive, self.weight, self.by
                )
        return found

    def group_sums(
        self, where: Locations, classes: NDArray[Any], lines: dict[int, PooledLine]
    ) -> tuple[list[GroupSums], list[float]]:
        """What groups say about classes, and the design effects of their segments."""
        groups = self._group_numbers()
        scores = self._located(where)
        if self.by is None:
            segments = []
        else:
            segments = [column.codes for column in self.by.columns]
        sums = []
        contrasts = []
        for j, line in lines.items():
            locations = scores[j].locations()
            positive = self._is(classes[j])
            residuals = line.residuals(locations, positive, self.weight, segments)
            sums.append(residuals.sums(groups))
            if segments:
                contrasts.append(residuals.contrast_effect(groups))
        return sums, contrasts

    def _group_numbers(self) -> NDArray[np.intp]:
        return np.unique(np.asarray(self.groups), return_inverse=True)[1]

    def _located(self, where: Locations) -> AgainstRest | dict[int, BinaryScores]:
        """Scores by the number of their class."""
        if where.two:
            scores = GivenScores(self.matrix(where.names))
            return {1: where.kind.binary(scores)}
        matrix = MatrixScores(where.kind.value_kind, self.matrix(where.names))
        if matrix.kind == "margin":
            return AgainstRest(tempered(matrix.values, where.unit), "auto")
        return AgainstRest(matrix, where.scale)

    def counting(self, used: NDArray[np.bool_]) -> ArrayRows:
        """Some of the rows."""
        scores = {name: values[used] for name, values in self.scores.items()}
        weight = None if self.weight is None else self.weight[used]
        groups = None if self.groups is None else self.groups[used]
        by = None if self.by is None else self.by.of(used)
        return ArrayRows(scores, self.codes[used], self.labels, weight, groups, by)

    def matrix(self, names: Sequence[str]) -> Array:
        """Some columns of scores, by class."""
        return np.column_stack([self.scores[name] for name in names])

    def _is(self, label: Any) -> NDArray[np.bool_]:
        """Which rows have a label."""
        if label in self.labels:
            return np.asarray(self.codes == self.labels.index(label))
        return self.codes < -1


def read_arrays(
    frame: nw.DataFrame[Any],
    numbers: dict[str, str],
    label: str,
    by: Sequence[str] = (),
) -> ArrayRows:
    """Columns of a frame, under our names, as arrays; what is missing is NaN, or -1."""
    arrays = {
        name: float_column(frame[column], "weight" if name == "w" else "score")
        for name, column in numbers.items()
    }
    weight = arrays.pop("w", None)
    codes, labels = _coded(frame[label])
    return ArrayRows(arrays, codes, labels, weight, by=frame_segments(frame, by))


def frame_segments(frame: nw.DataFrame[Any], by: Sequence[str]) -> By | None:
    """Columns of segments; a category counts by its own value."""
    if not by:
        return None
    for name in by:
        if (
            isinstance(frame.schema[name], (nw.Categorical, nw.Enum))
            and not frame.implementation.is_pandas_like()
        ):
            frame = frame.with_columns(_uncategorised(frame[name]))
    return check_by(frame.select(*by).to_native(), len(frame))


def _uncategorised(column: nw.Series[Any]) -> nw.Series[Any]:
    """Categories as their values, which in Arrow are of any type, else texts."""
    if not column.implementation.is_pyarrow():
        return column.cast(nw.String)
    native = column.to_native()
    values: nw.Series[Any] = nw.from_native(
        native.cast(native.type.value_type), series_only=True
    )
    return values.alias(column.name)


@dataclass(frozen=True, eq=False)
class FrameScores(GivenScores):
    """Scores in columns of a frame, which errors name."""

    def _where(self, wrong: NDArray[np.bool_]) -> tuple[str, Any]:
        """The column of the first value that is wrong, and the value."""
        place = tuple(np.argwhere(wrong.reshape(len(self), -1))[0])
        assert self.names is not None
        value = self.values.reshape(len(self), -1)[place]
        return f"column {self.names[place[1]]!r}", value

    def check_finite(self) -> None:
        """Check that scores are finite."""
        if not np.isfinite(self.limits).all():
            where, value = self._where(~np.isfinite(self.values))
            raise ValueError(f"score must be finite; {where} has {value}")

    def example_outside(self) -> str:
        """The first score outside [0, 1]."""
        where, value = self._where(self._is_outside)
        return f"{where} has {show_outside(value)}"

    def example_large(self) -> str:
        """The first score that is too large."""
        where, value = self._where(np.abs(self.values) > LARGEST_MARGIN)
        return f"{where} has {value:g}"


def fit_arrays(
    calibrator: SplineCalibrator,
    frame: nw.DataFrame[Any],
    columns: Columns,
    positive: Any,
    *,
    drop: bool,
) -> None:
    """Fit columns of a frame in memory as arrays."""
    rows, stats = read_rows(frame, columns)
    stats.check(columns, drop=drop)
    scores = _scores_of(rows, columns.names, columns.score)
    scores.check_finite()
    labels = stats.labels
    if len(columns.score) > 2:
        labels = distinct_labels(labels, "label")
        check_columns_are_scores(
            scores.n_improper,
            len(scores),
            columns.score,
            len(columns.score),
            labels,
            scores="score",
            y="label",
        )
    if len(columns.score) > 1:  # errors come before warnings about columns
        decide_kind(scores, required_scores(calibrator.scale))
    classes = columns.classes(frame, labels, positive)
    names = columns.in_class_order(classes)
    originals = [columns.numbers[name] for name in names]
    scores = _scores_of(rows, names, originals)
    _check_groups_and_segments(rows, columns)
    if rows.weight is not None and calibrator.weights == "frequency":
        parts = counted_columns(scores.values, rows.by, rows.groups)
        check_weights_as_counts(rows.weight, "weight", labels=rows.codes, scores=parts)
    place = np.zeros(len(rows.labels), dtype=np.intp)
    for j, label in enumerate(rows.labels):
        place[j] = next(iter(np.flatnonzero(classes == label)), 0)
    calibrator._fit_scores(
        scores,
        place[rows.codes],
        rows.weight,
        groups=rows.groups,
        by=rows.by,
        classes=classes,
    )


def _scores_of(
    rows: ArrayRows, names: Sequence[str], columns: Sequence[str]
) -> FrameScores:
    """Columns of scores, by our names and by those in the frame."""
    values = rows.scores[names[0]] if len(names) == 1 else rows.matrix(names)
    return FrameScores(values, list(columns), "score")


def _check_groups_and_segments(rows: ArrayRows, columns: Columns) -> None:
    if rows.groups is not None and not np.ptp(rows.groups):
        raise ValueError(
            "group must have at least two groups that count; all rows of "
            f"{columns.group!r} are of one"
        )
    if rows.by is not None and not all(column.values for column in rows.by.columns):
        raise ValueError("by must have labels; all of a column are missing")


def read_rows(frame: nw.DataFrame[Any], columns: Columns) -> tuple[ArrayRows, RowStats]:
    """The rows that count, and what is missing in the others."""
    rows = read_arrays(frame, columns.numbers, columns.label, columns.by)
    if columns.group is not None:
        groups = _numbered(frame[columns.group].to_list(), "group")
        rows = replace(rows, groups=groups)
    numbers = rows.scores if rows.weight is None else rows.scores | {"w": rows.weight}
    absent = {name: np.isnan(values) for name, values in numbers.items()}
    absent["y"] = rows.codes < 0
    if rows.groups is not None:
        absent["g"] = rows.groups < 0
    missing = {name: int(np.count_nonzero(where)) for name, where in absent.items()}
    weights = None
    if rows.weight is not None and missing["w"] < len(frame):
        weights = float(np.nanmin(rows.weight)), float(np.nanmax(rows.weight))
        absent["w"] |= rows.weight == 0.0
    used = ~np.logical_or.reduce(list(absent.values()))
    rows = rows if used.all() else rows.counting(used)
    present = np.flatnonzero(np.bincount(rows.codes))
    labels = label_array([rows.labels[k] for k in present])
    return rows, RowStats(labels, len(rows.codes), len(frame), missing, weights)


def _coded(column: nw.Series[Any]) -> tuple[NDArray[np.intp], list[Any]]:
    """Codes of labels, -1 if missing, and the labels; categories count by value."""
    if isinstance(column.dtype, (nw.Categorical, nw.Enum)):
        native = column.to_native()
        if column.implementation.is_pandas_like() and hasattr(
            native.dtype, "pyarrow_dtype"
        ):
            return _numbered_labels(column.to_list())
        if column.implementation.is_pandas_like():
            n_labels = len(native.cat.categories)
            check_label_count(n_labels)
            known = check_label_array(native.cat.categories, n_labels, "label")
            return native.cat.codes.to_numpy().astype(np.intp), known.tolist()
        column = _uncategorised(column)
    if not isinstance(column.dtype, COMPARED):
        return _numbered_labels(column.to_list())
    found = column.unique()
    check_label_count(len(found))
    labels = [value for value in found.to_list() if not is_missing(value)]
    codes = np.full(len(column), -1, dtype=np.intp)
    for k, label in enumerate(labels):
        codes[(column == label).fill_null(False).to_numpy().astype(bool)] = k
    return codes, label_array(labels).tolist()


def _numbered_labels(values: list[Any]) -> tuple[NDArray[np.intp], list[Any]]:
    """Codes of labels that are Python objects, and the distinct labels."""
    codes = _numbered(values, "label")
    labels = list(dict.fromkeys(value for value in values if not is_missing(value)))
    check_label_count(len(labels))
    return codes, label_array(labels).tolist()


def _numbered(values: list[Any], name: str) -> NDArray[np.intp]:
    """The number of each value among the distinct ones, -1 where there is none."""
    numbers: dict[Any, int] = {}
    try:
        found = [
            -1 if is_missing(one) else numbers.setdefault(one, len(numbers))
            for one in values
        ]
    except TypeError:
        check_hashable(values, name)
        raise
    return np.array(found, dtype=np.intp)
