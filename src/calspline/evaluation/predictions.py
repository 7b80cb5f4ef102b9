"""The checked input of an evaluation: probabilities, what happened, weights, and the classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calspline.arrays import Array, Counts
from calspline.evaluation.dependence import design_effect, row_powers, squared_sums
from calspline.labels import (
    check_binary_labels,
    check_label_array,
    check_matrix_labels,
    distinct_labels,
)
from calspline.scores import check_groups, check_scores, check_sums, check_weights, several_groups
from calspline.segments.labels import By, check_by

MIN_TOTAL_WEIGHT, MAX_TOTAL_WEIGHT = 1e-9, 1e15
"""Sums of weights that make sense as numbers of rows, and whose squares do not overflow."""


@dataclass(frozen=True)
class Predictions:
    """Checked probabilities and outcomes, without the rows of weight zero.

    For two classes ``probs`` has the probability of the second one for each row; for three or more, a column for each
    class. ``codes`` holds the positions in ``classes`` of what happened. ``groups`` numbers, from 0, the groups of rows
    that depend on each other; None: rows do not. ``by`` has the segments that rows are in, if any were given.
    """

    probs: Array
    codes: NDArray[np.intp]
    weight: Array | None
    classes: NDArray[Any]
    groups: NDArray[np.intp] | None = None
    by: By | None = None

    @property
    def binary(self) -> bool:
        """Whether there are two classes."""
        return self.probs.ndim == 1

    def counts(self) -> Counts:
        """Two classes: the distinct probabilities, with the weight of events and non-events at each."""
        squares = self.squares if self.unequal or self.groups is not None else None
        return Counts.from_rows(self.probs, self.codes == 1, self.weight, squares)

    @cached_property
    def w(self) -> Array:
        """The weight of each row."""
        return np.ones(len(self.codes)) if self.weight is None else self.weight

    @property
    def total(self) -> float:
        """Sum of the weights."""
        return float(self.w.sum())

    @property
    def unequal(self) -> bool:
        """Whether there are weights that do not just count rows."""
        return self.weight is not None and self.powers() is not self.weight

    def powers(self, power: float = 2.0) -> Array:
        """What each row's moment is multiplied by in that of a sum."""
        return row_powers(self.weight, len(self.codes), power)

    def squared_sums(self, values: Array) -> Array:
        """The variance of a weighted sum of values with mean zero."""
        return squared_sums(values, self.weight, self.groups)

    def score_variance(self, p: Array, features: Array) -> Array:
        """Two classes: that of the summed residuals about ``p`` times features (n, k): (k, k)."""
        return self.squared_sums((self.codes - p)[:, None] * features)

    @cached_property
    def squares(self) -> Array:
        """Two classes: what ``p (1 - p)`` of each row is multiplied by in the variance of the weight of events."""
        return self.design_effect * self.powers()

    @cached_property
    def design_effect(self) -> float:
        """Two classes: how many times the variance of independent rows that of the groups is."""
        if self.groups is None:
            return 1.0
        return design_effect(self.probs, self.codes == 1, self.weight, self.groups)

    @property
    def n_groups(self) -> int | None:
        """How many groups there are, if rows depend on each other."""
        return None if self.groups is None else int(self.groups.max()) + 1

    @property
    def event(self) -> Predictions:
        """The two-class problem that is judged: the rows themselves, or that of the top label."""
        return self if self.binary else self.top_label()

    def top_label(self) -> Predictions:
        """Three or more classes: whether the most probable one was right, as a two-class problem."""
        guess = self.probs.argmax(axis=1)
        confidence = self.probs[np.arange(len(guess)), guess]
        right = (guess == self.codes).astype(np.intp)
        return Predictions(confidence, right, self.weight, np.array(["wrong", "right"]), self.groups, self.by)

    def against_rest(self, j: int) -> Predictions:
        """Three or more classes: one of them against the rest, as a two-class problem."""
        label = self.classes.tolist()[j]
        classes = np.array([f"not {label}", label], dtype=object)
        return Predictions(self.probs[:, j], (self.codes == j).astype(np.intp), self.weight, classes, self.groups)


def check_predictions(
    y: Any,
    probs: Any,
    sample_weight: Any = None,
    labels: Any = None,
    name: str = "probs",
    *,
    groups: Any = None,
    by: Any = None,
) -> Predictions:
    """Check probabilities and what happened.

    Without ``labels``, the classes are what the rows show, in sorted order; labels 0 and 1, booleans and, for
    three or more columns, integers from 0 to m-1 need not all occur.
    """
    given = check_scores(probs, name)
    array = given.values
    if len(array) == 0 or (array.ndim == 2 and array.shape[1] == 0):
        raise ValueError(f"{name} must have at least one row and one column; got shape {array.shape}")
    if given.outside:
        raise ValueError(given.complaint(name, ""))
    array = given.probabilities()
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim == 2:
        check_sums(array, name)
    n = len(array)
    weight = check_weights(sample_weight, n, beside=name)
    if weight is not None and not MIN_TOTAL_WEIGHT <= float(weight.sum()) <= MAX_TOTAL_WEIGHT:
        raise ValueError(
            f"sample_weight counts rows, so its sum must be between {MIN_TOTAL_WEIGHT:g} and {MAX_TOTAL_WEIGHT:g}; "
            f"got {weight.sum():g}"
        )
    group = check_groups(groups, n, beside=name)
    segments = None if by is None else check_by(by, n, beside=name)
    found = check_label_array(y, n, beside=name)
    n_classes = 2 if array.ndim == 1 else array.shape[1]
    if labels is not None:
        classes = _label_list(labels, n_classes)
        codes = _codes(found, classes)
    elif n_classes == 2:
        classes, positive = check_binary_labels(found, n, _zero_and_one(found))
        codes = positive.astype(np.intp)
    else:
        classes, codes = check_matrix_labels(found, n, n_classes, given.names, beside=name, least=1)
    # Columns that are named after the classes may come in any order.
    array = given.in_class_order(classes, name, known=labels is not None).probabilities()
    if n_classes == 2 and array.ndim == 2:
        array = array[:, -1]
    values = array.astype(np.float64, copy=False)
    if weight is not None and weight.min() == 0.0:
        present = weight > 0.0
        values, codes, weight = values[present], codes[present], weight[present]
        group = None if group is None else np.unique(group[present], return_inverse=True)[1]
        segments = None if segments is None else segments.of(present)
    return Predictions(values, codes, weight, classes, None if group is None else several_groups(group), segments)


def _zero_and_one(found: NDArray[Any]) -> NDArray[Any] | None:
    """The classes 0 and 1, which need not both occur, if the labels are such."""
    if found.dtype.kind not in "biuf" or not np.all((found == 0) | (found == 1)):
        values = distinct_labels(found, "y")
        if len(values) == 1:
            raise ValueError(
                f"y shows one class, {values.tolist()[0]!r}; give both as labels, the second being what probs is of"
            )
        return None
    return np.array([0, 1], dtype=found.dtype)


def _label_list(labels: Any, count: int) -> NDArray[Any]:
    array = check_label_array(labels, len(labels) if hasattr(labels, "__len__") else 0, "labels", beside="labels")
    values = array.tolist()
    if len(values) != count or len(set(values)) != count:
        raise ValueError(f"labels must be {count} different classes, one a column of probs; got {labels!r}")
    return array


def _codes(found: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.intp]:
    """Positions of the labels in a list of classes in any order."""
    codes = np.full(len(found), -1, dtype=np.intp)
    for j, value in enumerate(classes.tolist()):
        codes[np.asarray(found == value)] = j
    if codes.min() < 0:
        row = int(np.argmax(codes < 0))
        raise ValueError(f"y must be one of the labels {classes.tolist()!r}; row {row} is {found[row]!r}")
    return codes


def check_prediction_sets(
    y: Any, sets: Any, sample_weight: Any = None, labels: Any = None, groups: Any = None, by: Any = None
) -> dict[str, Predictions]:
    """Check several sets of predictions by name: each of them, and that all are of the same classes."""
    if not isinstance(sets, Mapping):
        raise TypeError(f'predictions must be a mapping such as {{"raw": probs, ...}}; got {type(sets).__name__}')
    if not sets:
        raise ValueError("predictions must hold at least one set")
    for name in sets:
        if not isinstance(name, str):
            raise TypeError(f"the names of predictions must be strings; got {name!r}")
    checked = {
        name: check_predictions(y, probs, sample_weight, labels, f'predictions["{name}"]', groups=groups, by=by)
        for name, probs in sets.items()
    }
    first, n_classes = next((name, len(rows.classes)) for name, rows in checked.items())
    for name, rows in checked.items():
        if len(rows.classes) != n_classes:
            raise ValueError(
                f"predictions must all be of the same classes; {first} has {n_classes} and {name} has "
                f"{len(rows.classes)}"
            )
    return checked
