"""Rows to fit: their columns, what one pass tells of them, with checks of both, and what an engine makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from calspline.arrays import Array
from calspline.formatting import short_list
from calspline.histogram import ScoreHistogram
from calspline.labels import MAX_LABELS, check_matrix_labels, distinct_labels, order_columns, warn_user
from calspline.scores import (
    LARGEST_MARGIN,
    MARGIN_ADVICE,
    MEND_ADVICE,
    PER_CENT,
    PER_CENT_WARNING,
    ROW_SUM_TOLERANCE,
    Kind,
    check_weight_scale,
    is_outside,
    rounding,
    taken_for_margins,
)
from calspline.segments.histogram import SegmentHistograms
from calspline.segments.labels import By

LazyFrame = nw.LazyFrame[Any]
Found = ScoreHistogram | SegmentHistograms

SHOWN = 5


@dataclass(frozen=True)
class Columns:
    """The columns to fit, by their names in the frame; in ours, ``s0`` ..., ``y``, ``w``, ``g`` and ``b0`` ..."""

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

    def classes(self, frame: nw.DataFrame[Any] | LazyFrame, labels: NDArray[Any], positive: Any) -> NDArray[Any]:
        """The classes among distinct labels: of two, the positive one last; else, those of the columns of scores."""
        if len(self.score) > 2:
            classes, _ = check_matrix_labels(labels, len(labels), len(self.score), self.score, "label", beside="score")
            if order_columns(self.score, classes, known=True) is None:
                self._check_sorted(frame, labels, "Name the columns of scores after the classes.")
            return classes
        if labels.dtype.kind == "f" and np.any(labels != np.floor(labels)):
            odd = labels[labels != np.floor(labels)][0]
            raise ValueError(f"label must be classes, not continuous values; column {self.label!r} has {float(odd)!r}")
        found = distinct_labels(labels, "label")
        shown = short_list(found.tolist(), SHOWN)
        if len(found) != 2:
            raise ValueError(
                f"label must have two classes for one score; column {self.label!r} has {len(found)}: {shown}"
            )
        if positive is None:
            self._check_sorted(frame, found, "Name the class that the score is the probability of with positive.")
        elif not np.any(found == positive):
            raise ValueError(f"positive must be a label; column {self.label!r} has {shown}, not {positive!r}")
        return found if positive is None or found[1] == positive else found[::-1].copy()

    def _check_sorted(self, frame: nw.DataFrame[Any] | LazyFrame, labels: NDArray[Any], advice: str) -> None:
        """Complain about a declared order of labels that is not the sorted one: either may be meant."""
        ranked = [value for value in _declared_order(frame, self.label) if np.any(labels == value)]
        if ranked != sorted(ranked):
            shown = " < ".join(repr(value) for value in ranked[:SHOWN]) + (" ..." if len(ranked) > SHOWN else "")
            raise ValueError(
                f"label has a declared order that is not the sorted one; column {self.label!r} has {shown}. {advice}"
            )


@dataclass(frozen=True)
class ColumnStats:
    """What one pass over the rows tells.

    ``labels`` are the distinct labels of the rows that count, ``count`` is how many these are of all ``rows``, ``low``
    and ``high`` are the range of their scores, ``outside`` is how many have a score that is no probability,
    and ``worst_sum`` is how far from one the scores of a row sum, at most.
    ``missing`` counts values that are missing, by our names of the columns; ``weights`` is the range of weights, if
    there are any, and ``weight_sums`` has their sum, that of their squares, and that of their fractions.
    """

    labels: NDArray[Any]
    count: int
    rows: int
    missing: dict[str, int]
    weights: tuple[float, float] | None
    low: float
    high: float
    outside: int
    worst_sum: float
    weight_sums: tuple[float, float, float] = (0.0, 0.0, 0.0)

    def kind(self, columns: Sequence[str]) -> Kind:
        """What the scores are, by their range, as :meth:`calspline.scores.GivenScores.kind` has it."""
        if not is_outside(self.low, self.high):
            return "probability"
        if not taken_for_margins(self.outside, self.count):
            self.check_range(columns, probability=True)
        if self.low >= 0.0 and self.high <= PER_CENT and len(columns) == 1:
            warn_user(PER_CENT_WARNING)
        return "margin"

    @property
    def columns_are_margins(self) -> bool:
        """Whether several columns, said to be of either kind, are margins."""
        return self.outside > 0 or self.worst_sum > ROW_SUM_TOLERANCE

    def importance(self) -> float:
        """What weights are multiplied by for their sum to be the effective number of rows."""
        total, squares, _ = self.weight_sums
        return total / squares

    def check_weight_scale(self) -> None:
        """Warn about weights that make no sense as counts."""
        if self.weights is not None:
            check_weight_scale(self.count, self.weight_sums[0], counts=self.weight_sums[2] == 0.0, name="weight")

    def check_range(self, columns: Sequence[str], *, probability: bool) -> None:
        """Check that scores are finite, and probabilities if they have to be."""
        where = short_list(columns, SHOWN)
        for value in (self.low, self.high):
            if not np.isfinite(value):
                raise ValueError(f"score must be finite; column {where} has {value}")
        if probability and is_outside(self.low, self.high):
            value = self.low if self.low < -rounding(self.high) else self.high
            mend = f" {MEND_ADVICE}" if self.outside < self.count else ""
            raise ValueError(
                f"score must be probabilities in [0, 1]; column {where} has {value:g}. {MARGIN_ADVICE} "
                f"{self.outside} of {self.count} rows are outside.{mend}"
            )
        for value in (self.low, self.high):
            if abs(value) > LARGEST_MARGIN:
                raise ValueError(f"score must be at most {LARGEST_MARGIN:g} in size; column {where} has {value:g}")

    def check(self, columns: Columns, *, drop: bool) -> None:
        """Complain about missing values, unless their rows are to be dropped; weights; and fewer than two rows."""
        names = columns.numbers | {"y": columns.label, "g": str(columns.group)}
        missing = [f"{count} of {self.rows} in {names[name]!r}" for name, count in self.missing.items() if count]
        if missing and not drop:
            raise ValueError(
                f"frame must have no nulls or NaN in its columns; found {', '.join(missing)}. To leave such rows out, "
                'use missing="drop".'
            )
        low, high = (1.0, 1.0) if self.weights is None else self.weights
        for value in (low, high):
            if not np.isfinite(value):
                raise ValueError(f"weight must be finite; column {columns.weight!r} has {value}")
        if low < 0.0:
            raise ValueError(f"weight must not be negative; column {columns.weight!r} has {low:g}")
        if high == 0.0:
            raise ValueError(f"weight must not be all zero; column {columns.weight!r} is")
        if self.count < 2:
            raise ValueError(f"frame must have at least two rows, of different classes; got {self.count}")

    def check_sums(self) -> None:
        """Rows of probabilities sum to one."""
        if self.worst_sum > ROW_SUM_TOLERANCE:
            raise ValueError(
                f"score must be columns whose rows sum to one (within {ROW_SUM_TOLERANCE:g}); "
                f"one is off by {self.worst_sum:.6g}"
            )


class Sample(NamedTuple):
    """Rows as arrays."""

    scores: Array
    labels: NDArray[Any]
    weight: Array
    groups: NDArray[Any] | None
    by: By | None


@dataclass(frozen=True)
class Locations:
    """How the scores in columns ``names``, one for each class or that of the second of two, give locations.

    Two classes have one location, that of class 1; with ``difference``, two margins count by theirs. Of more classes
    each has its own, against the rest.
    """

    names: list[str]
    kind: Kind
    transform: str = "auto"
    difference: bool = False

    @property
    def two(self) -> bool:
        """Whether there are two classes."""
        return len(self.names) <= 2

    @property
    def column_kind(self) -> Kind:
        """What the scores of a class are."""
        return "margin" if self.transform == "identity" else self.kind


def check_column_list(names: Any, argument: str, schema: nw.Schema, *, numbers: bool = True) -> list[str]:
    """Columns, of numbers as a rule: one name, or a list of them."""
    if isinstance(names, str):
        listed = [names]
    elif isinstance(names, Sequence):
        listed = list(names)
    else:
        raise TypeError(f"{argument} must be the name of a column or a list of names; got {type(names).__name__}")
    if not listed:
        raise ValueError(f"{argument} must name at least one column; got an empty list")
    for name in listed:
        check_column(name, argument, schema)
        if numbers and not schema[name].is_numeric():
            raise TypeError(f"{argument} must be a column of numbers; {name!r} is of type {schema[name]}")
    if len(set(listed)) < len(listed):
        raise ValueError(f"{argument} must be different columns; got {listed!r}")
    return listed


def check_column(name: Any, argument: str, schema: nw.Schema) -> str:
    """The name of a column that the frame has."""
    if not isinstance(name, str):
        raise TypeError(f"{argument} must be the name of a column; got {type(name).__name__}")
    if name not in schema:
        names = list(schema)
        close = get_close_matches(name, names, n=1)
        hint = f"Did you mean {close[0]!r}?" if close else f"Its columns are {short_list(names, SHOWN)}."
        raise ValueError(f"{argument} must be a column of frame; there is no {name!r}. {hint}")
    return name


def _declared_order(frame: nw.DataFrame[Any] | LazyFrame, column: str) -> list[Any]:
    """The categories of a column in the order that was declared for them, if one was."""
    dtype = frame.collect_schema()[column]
    if isinstance(dtype, nw.Categorical) and frame.implementation.is_pyarrow():
        values = frame.to_native()[column]
        ordered = values.type.ordered and values.num_chunks
        return values.unify_dictionaries().chunk(0).dictionary.to_pylist() if ordered else []
    return list(dtype.categories) if isinstance(dtype, nw.Enum) else []


def check_label_count(found: int) -> None:
    """Labels are few."""
    if found > MAX_LABELS:
        raise ValueError(f"label must be classes; the column has more than {MAX_LABELS} different values")
