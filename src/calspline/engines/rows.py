"""Rows to fit: their columns, and what one pass finds in them, with checks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, ClassVar

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from calspline._arrays import Array
from calspline._formatting import short_list
from calspline._input.class_columns import (
    check_matrix_labels,
    order_columns,
)
from calspline._input.labels import MAX_LABELS, check_label_array, distinct_labels
from calspline._input.scores import (
    Kind,
    ScoreKind,
    float_array,
    is_outside,
    show_outside,
)
from calspline._input.weights import FIT_REMEDY, WeightedRepetition, WeightSums
from calspline.histograms.score_histogram import ScoreHistogram
from calspline.histograms.segment_histogram import SegmentHistograms

LazyFrame = nw.LazyFrame[Any]
Found = ScoreHistogram | SegmentHistograms

SHOWN = 5
OTHER_FAMILIES = {
    nw.Date: "date",
    nw.Datetime: "datetime",
    nw.Time: "time",
    nw.Duration: "timedelta",
    nw.Binary: "bytes",
}
"""Python types of labels, by type of column; others may hold anything."""
ARRAY_NUMBERS = (nw.Boolean, nw.Object, nw.Unknown)
"""Types other than those of numbers whose values arrays take for numbers, or may."""
NOT_CLASSES = (nw.Datetime, nw.Duration)
"""Types of labels that are not classes, as in arrays."""


@dataclass(frozen=True)
class Columns:
    """The columns to fit, by their names in the frame.

    Our own names are ``s0`` ..., ``y``, ``w``, ``g`` and ``b0`` ...
    """

    score: list[str]
    label: str
    weight: str | None = None
    group: str | None = None
    by: Sequence[str] = ()

    @property
    def names(self) -> list[str]:
        """Our names of the scores."""
        return [f"s{j}" for j in range(len(self.score))]

    @property
    def numbers(self) -> dict[str, str]:
        """Columns of numbers, from our names to those of the frame."""
        known = dict(zip(self.names, self.score, strict=True))
        return known if self.weight is None else known | {"w": self.weight}

    def in_class_order(self, classes: NDArray[Any]) -> list[str]:
        """Our names of the scores, one for each class where there are as many."""
        order = order_columns(self.score, classes, "score")
        return self.names if order is None else [self.names[place] for place in order]

    def classes(
        self, frame: nw.DataFrame[Any] | LazyFrame, labels: NDArray[Any], positive: Any
    ) -> NDArray[Any]:
        """The classes: of two, the positive one last, else those of the columns."""
        if len(self.score) > 2:
            classes, _ = check_matrix_labels(
                check_label_array(labels, len(labels), "label", beside="score"),
                len(self.score),
                self.score,
                "label",
                beside="score",
            )
            if order_columns(self.score, classes, known=True) is None:
                self._check_sorted(
                    frame, labels, "Name the columns of scores after the classes."
                )
            return classes
        if labels.dtype.kind == "f" and np.any(labels != np.floor(labels)):
            odd = labels[labels != np.floor(labels)][0]
            raise ValueError(
                f"label must be classes, not continuous values; column {self.label!r} "
                f"has {float(odd)!r}"
            )
        found = distinct_labels(labels, "label")
        shown = short_list(found.tolist(), SHOWN)
        if len(found) != 2:
            raise ValueError(
                f"label must have two classes for one score; column {self.label!r} has "
                f"{len(found)}: {shown}"
            )
        if positive is None:
            self._check_sorted(
                frame,
                found,
                "Name the class that the score is the probability of with positive.",
            )
        elif not np.any(found == positive):
            raise ValueError(
                f"positive must be a label; column {self.label!r} has {shown}, not "
                f"{positive!r}"
            )
        return found if positive is None or found[1] == positive else found[::-1].copy()

    def _check_sorted(
        self, frame: nw.DataFrame[Any] | LazyFrame, labels: NDArray[Any], advice: str
    ) -> None:
        """Check that a declared order of labels, if any, is the sorted one."""
        ranked = [
            value
            for value in _declared_order(frame, self.label)
            if np.any(labels == value)
        ]
        if ranked != sorted(ranked):
            shown = " < ".join(repr(value) for value in ranked[:SHOWN]) + (
                " ..." if len(ranked) > SHOWN else ""
            )
            raise ValueError(
                "label has a declared order that is not the sorted one; column "
                f"{self.label!r} has {shown}. {advice}"
            )


@dataclass(frozen=True)
class RowStats:
    """Labels, and what is missing.

    ``labels`` are the distinct labels of the rows that count, which are ``n_rows`` of
    all ``rows``. ``missing`` counts missing values, by our names of the columns, and
    ``weights`` is the range of weights, if there are any.
    """

    labels: NDArray[Any]
    n_rows: int
    rows: int
    missing: dict[str, int]
    weights: tuple[float, float] | None

    def check(self, columns: Columns, *, drop: bool) -> None:
        """Check missing values, unless they are to be dropped, scores and weights."""
        names = columns.numbers | {"y": columns.label, "g": str(columns.group)}
        missing = [
            f"{count} of {self.rows} in {names[name]!r}"
            for name, count in self.missing.items()
            if count
        ]
        if missing and not drop:
            raise ValueError(
                "frame must have no nulls or NaN in its columns; found "
                f"{', '.join(missing)}. To leave such rows out, use missing="
                '"drop".'
            )
        low, high = (1.0, 1.0) if self.weights is None else self.weights
        for value in (low, high):
            if not np.isfinite(value):
                raise ValueError(
                    f"weight must be finite; column {columns.weight!r} has {value}"
                )
        if low < 0.0:
            raise ValueError(
                f"weight must not be negative; column {columns.weight!r} has {low:g}"
            )
        if high == 0.0:
            raise ValueError(
                f"weight must not be all zero; column {columns.weight!r} is"
            )
        if self.n_rows < 2:
            raise ValueError(
                "frame must have at least two rows, of different classes; got "
                f"{self.n_rows}"
            )


@dataclass(frozen=True)
class ColumnStats(RowStats):
    """What one pass over the rows finds: a summary of scores, labels and weights.

    ``weight_sums`` has the sum of the weights, that of their squares, that of their
    fractions, and the number of ones. The other fields are those of a
    :class:`~calspline._input.scores.ScoreSummary`; ``n_improper`` counts rows that are
    not probabilities.
    """

    name: ClassVar[str] = "score"
    score: Sequence[str]
    limits: tuple[float, float]
    n_outside: int
    n_negative: int
    n_off: int
    n_improper: int
    sums: tuple[float, float]
    weight_sums: tuple[float, float, float, int] = (0.0, 0.0, 0.0, 0)

    @property
    def n_columns(self) -> int:
        """Columns of scores."""
        return len(self.score)

    @property
    def _where(self) -> str:
        return f"column {short_list(self.score, SHOWN)}"

    def example_outside(self) -> str:
        """The lowest or highest score."""
        low, high = self.limits
        return (
            f"{self._where} has {show_outside(low if is_outside(low, 0.0) else high)}"
        )

    def example_large(self) -> str:
        """The lowest or highest score."""
        low, high = self.limits
        return f"{self._where} has {low if -low > high else high:g}"

    def example_off(self) -> str:
        """The sum that is the farthest from one."""
        return f"a row sums to {max(self.sums, key=lambda each: abs(each - 1.0)):.6g}"

    def importance(self) -> float:
        """Factor of weights for their sum to be the effective number of rows."""
        total, squares, *_ = self.weight_sums
        return total / squares

    def check_weights_as_counts(
        self, repetition: Callable[[], WeightedRepetition]
    ) -> None:
        """Warn if weights do not look like counts."""
        if self.weights is None:
            return
        total, squares, fractions, ones = self.weight_sums
        sums = WeightSums(self.n_rows, total, squares, ones, whole=fractions == 0.0)
        if sums.too_small or (
            sums.too_large and not (sums.whole and repetition().is_of_counts(sums))
        ):
            sums.warn("weight", FIT_REMEDY)

    def check_finite(self) -> None:
        """Check that scores are finite."""
        for value in self.limits:
            if not np.isfinite(value):
                raise ValueError(f"score must be finite; {self._where} has {value}")


@dataclass(frozen=True)
class Locations:
    """How columns of scores give locations.

    ``names`` are one for each class, or that of the second of two.

    Two classes have one location, that of class 1. Of more classes each has its own,
    against the rest, after the softmax of logits times ``unit``.
    """

    names: list[str]
    kind: ScoreKind
    scale: str = "auto"
    unit: float = 1.0

    @property
    def two(self) -> bool:
        """Whether there are two classes."""
        return len(self.names) <= 2

    @property
    def column_kind(self) -> Kind:
        """What the scores of a class are."""
        if self.scale == "identity":
            return "margin"
        return self.kind.value_kind if self.two else "probability"


def check_number_columns(
    names: Any, argument: str, frame: nw.DataFrame[Any] | LazyFrame
) -> list[str]:
    """Columns of numbers; those of frames in memory are checked as arrays are."""
    schema = frame.collect_schema()
    listed = check_column_list(names, argument, schema)
    for name in listed:
        dtype = schema[name]
        by_value = isinstance(frame, nw.DataFrame) and isinstance(dtype, ARRAY_NUMBERS)
        if not dtype.is_numeric() and not by_value:
            raise TypeError(
                f"{argument} must be a column of numbers; {name!r} is of type {dtype}"
            )
    return listed


def float_column(column: nw.Series[Any], argument: str) -> Array:
    """A column of a frame in memory as floats, NaN where it is missing."""
    if isinstance(column.dtype, (nw.Object, nw.Unknown)):
        values = float_array(column.to_native(), f"{argument} {column.name!r}")
    else:
        values = column.cast(nw.Float64).to_numpy()
    return np.asarray(values, dtype=np.float64)


def check_label_columns(names: Any, argument: str, schema: nw.Schema) -> list[str]:
    """Columns of labels."""
    listed = check_column_list(names, argument, schema)
    for name in listed:
        check_label_type(name, argument, schema)
    return listed


def check_column_list(names: Any, argument: str, schema: nw.Schema) -> list[str]:
    """Columns of a frame: one name, or a list of them."""
    if isinstance(names, str):
        listed = [names]
    elif isinstance(names, Sequence):
        listed = list(names)
    else:
        raise TypeError(
            f"{argument} must be the name of a column or a list of names; got "
            f"{type(names).__name__}"
        )
    if not listed:
        raise ValueError(f"{argument} must name at least one column; got an empty list")
    for name in listed:
        check_column(name, argument, schema)
    if len(set(listed)) < len(listed):
        raise ValueError(f"{argument} must be different columns; got {listed!r}")
    return listed


def check_column(name: Any, argument: str, schema: nw.Schema) -> str:
    """The name of a column that the frame has."""
    if not isinstance(name, str):
        raise TypeError(
            f"{argument} must be the name of a column; got {type(name).__name__}"
        )
    if name not in schema:
        names = list(schema)
        close = get_close_matches(name, names, n=1)
        if close:
            hint = f"Did you mean {close[0]!r}?"
        else:
            hint = f"Its columns are {short_list(names, SHOWN)}."
        raise ValueError(
            f"{argument} must be a column of frame; there is no {name!r}. {hint}"
        )
    return name


def check_label_type(name: str, argument: str, schema: nw.Schema) -> None:
    """Check that a column does not hold lists or the like, which are not labels."""
    if schema[name].is_nested():
        raise TypeError(
            f"{argument} must be a column of labels, such as texts, numbers or "
            f"booleans; {name!r} is of type "
            f"{schema[name]}"
        )


def check_class_type(name: str, schema: nw.Schema) -> None:
    """Check that a column may hold the labels of classes."""
    check_label_type(name, "label", schema)
    if isinstance(schema[name], NOT_CLASSES):
        raise TypeError(
            f"label must be class labels; column {name!r} is of type {schema[name]}"
        )


def family_of_type(dtype: nw.dtypes.DType) -> str | None:
    """Family of a column's labels; see ``calspline._input.segment_labels.family``."""
    if dtype.is_numeric() or isinstance(dtype, nw.Boolean):
        return "number"
    if isinstance(dtype, (nw.String, nw.Categorical, nw.Enum)):
        return "text"
    return next(
        (name for kind, name in OTHER_FAMILIES.items() if isinstance(dtype, kind)), None
    )


def _declared_order(frame: nw.DataFrame[Any] | LazyFrame, column: str) -> list[Any]:
    """The categories of a column in their declared order, if there is one."""
    dtype = frame.collect_schema()[column]
    if isinstance(dtype, nw.Categorical) and frame.implementation.is_pyarrow():
        values = frame.to_native()[column]
        if not (values.type.ordered and values.num_chunks):
            return []
        return list(values.unify_dictionaries().chunk(0).dictionary.to_pylist())
    return list(dtype.categories) if isinstance(dtype, nw.Enum) else []


def check_label_count(found: int) -> None:
    """Labels are few."""
    if found > MAX_LABELS:
        raise ValueError(
            f"label must be classes; the column has more than {MAX_LABELS} different "
            "values"
        )
