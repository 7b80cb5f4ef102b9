"""Rows of a fit: scores, classes, weights, groups and segments, checked once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from calspline._arrays import Array
from calspline._input.class_columns import check_matrix_labels
from calspline._input.hints import warn_if_features
from calspline._input.labels import check_binary_labels
from calspline._input.rows import LabelledRows
from calspline._input.scores import (
    BinaryScores,
    GivenScores,
    MatrixScores,
    Requirement,
    ScoreKind,
    decide_kind,
)
from calspline._input.segment_labels import By
from calspline._input.weights import importance_unit

Codes = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Rows:
    """What all rows have, however many classes there are."""

    kind: ScoreKind
    classes: NDArray[Any]
    weight: Array | None
    groups: Codes | None
    by: By | None

    def with_importance_weights(self) -> Self:
        """The same rows with importance weights, of which only ratios matter."""
        if self.weight is None:
            return self
        return replace(self, weight=self.weight / importance_unit(self.weight))


@dataclass(frozen=True, eq=False)
class BinaryRows(Rows):
    """Rows of two classes; ``positive`` says which are of the second."""

    scores: BinaryScores
    positive: NDArray[np.bool_]

    @property
    def codes(self) -> Codes:
        """The place of each row's class."""
        return self.positive.astype(np.intp)


@dataclass(frozen=True, eq=False)
class MatrixRows(Rows):
    """Rows of three or more classes; ``codes`` has the place of each row's class."""

    scores: MatrixScores
    codes: Codes

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.classes)

    @cached_property
    def total(self) -> float:
        """Sum of the weights."""
        return float(len(self.codes) if self.weight is None else self.weight.sum())


def rows_of_classes(
    rows: LabelledRows,
    requirement: Requirement,
    advice: str,
    classes: NDArray[Any] | None = None,
) -> BinaryRows | MatrixRows:
    """Interpret scores and labels.

    With ``classes``, labels are codes of them, and columns are in their order.
    """
    scores, classes, codes = _match_columns(rows, classes)
    kind = decide_kind(scores, requirement, advice)
    shared = (kind, classes, rows.weight, rows.groups, rows.by)
    if scores.n_columns <= 2:
        return BinaryRows(*shared, kind.binary(scores, advice), codes == 1)
    matrix = kind.matrix(scores, len(classes), advice)
    if kind.name == "margin":
        warn_if_features(matrix.values, codes, classes)
    return MatrixRows(*shared, matrix, codes)


def _match_columns(
    rows: LabelledRows, classes: NDArray[Any] | None
) -> tuple[GivenScores, NDArray[Any], NDArray[Any]]:
    """Scores with columns in the order of the classes, the classes, and the codes."""
    scores = rows.scores
    if classes is not None:
        if not np.ptp(rows.labels):
            only = classes.tolist()[int(rows.labels[0])]
            raise ValueError(f"y must have two classes; every row is {only!r}")
        return scores, classes, rows.labels
    if scores.n_columns > 2:
        classes, codes = check_matrix_labels(
            rows.labels, scores.n_columns, scores.names
        )
        return scores.in_class_order(classes), classes, codes
    classes, positive = check_binary_labels(rows.labels)
    return scores.in_class_order(classes), classes, positive
