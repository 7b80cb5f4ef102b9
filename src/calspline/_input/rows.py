"""Validated rows of a fit: scores, labels, weights, groups and segments."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calspline._arrays import Array
from calspline._input.groups import check_groups, several_groups
from calspline._input.labels import check_label_array
from calspline._input.scores import GivenScores, check_given_columns, check_scores
from calspline._input.segment_labels import By, check_by
from calspline._input.weights import (
    check_weights,
    check_weights_as_counts,
    counted_columns,
)


@dataclass(frozen=True)
class LabelledRows:
    """Rows of a fit.

    ``groups`` are numbers of groups, None if every row is one of its own; ``by`` has
    columns of segments.
    """

    scores: GivenScores
    labels: NDArray[Any]
    weight: Array | None
    groups: NDArray[np.intp] | None = None
    by: By | None = None

    def of(self, some: NDArray[np.bool_]) -> LabelledRows:
        """Some of the rows."""
        return LabelledRows(
            replace(self.scores, values=self.scores.values[some]),
            self.labels[some],
            None if self.weight is None else self.weight[some],
            None if self.groups is None else self.groups[some],
            None if self.by is None else self.by.of(some),
        )

    def check_weights_as_counts(self, name: str = "sample_weight") -> None:
        """Warn if weights do not look like counts of rows."""
        if self.weight is None:
            return
        columns = counted_columns(self.scores.values, self.by, self.groups)
        check_weights_as_counts(self.weight, name, labels=self.labels, scores=columns)


def check_rows(
    scores: Any, y: Any, sample_weight: Any, groups: Any = None, by: Any = None
) -> LabelledRows:
    """Validate the arguments of a fit."""
    given = check_scores(scores)
    segments = None if by is None else check_by(by, len(given), some=True)
    rows = label_scores(given, y, sample_weight, groups, segments)
    check_given_columns(rows.scores, rows.labels)
    return rows


def label_scores(
    scores: GivenScores,
    y: Any,
    sample_weight: Any = None,
    groups: Any = None,
    by: By | None = None,
) -> LabelledRows:
    """Combine scores with validated labels, weights and groups.

    Rows of weight zero are left out; at least two have to be left.
    """
    n = len(scores)
    weight = check_weights(sample_weight, n)
    labels = check_label_array(y, n)
    rows = LabelledRows(scores, labels, weight, check_groups(groups, n), by)
    if weight is not None and weight.size and weight.min() == 0.0:
        rows = rows.of(weight > 0.0)
    if len(rows.labels) < 2:
        raise ValueError(
            "scores must have at least two rows, of different classes; got "
            f"{len(rows.labels)}"
        )
    if rows.groups is None:
        return rows
    numbers = np.unique(rows.groups, return_inverse=True)[1]
    return replace(rows, groups=several_groups(numbers))
