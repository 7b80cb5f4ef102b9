"""Weights of rows, and whether they count rows, as fits take them to.

A weight of 2 is a row seen twice. Survey weights, weights by inverse probability and
class weights are not counts: only their ratios matter. If they are treated as counts,
the number of rows is their sum ``sum w``, while the effective sample size is ``(sum
w)^2 / sum w^2``. The ratio of the two, ``sum w^2 / sum w``, is the factor by which the
variance of the fit is too small. If it is large, a warning is issued unless the weights
look like counts:

- most of them are 1, as of rows without their duplicates; or
- rows are distinct, and the same scores occur with several labels, as in a table of
  counts of scores and labels;

but not if each class has a weight of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calspline._arrays import Array, run_starts
from calspline._input.hints import warn_of_weights
from calspline._input.labels import one_column
from calspline._input.scores import check_numeric_array

FEWEST_A_ROW = 0.1
"""Weights with a smaller mean are not counts."""
LARGEST_UNIT = 2.5
"""Weights must look like counts if their sum exceeds the effective sample size by more
than this factor, at which 95% intervals cover about 90%."""
FEWEST_ROWS = 10
"""Whole weights of fewer rows are treated as counts."""
SMALLEST = 1e-300
"""Stands for a positive number too small for its square."""
FEWEST_ROWS_COUNTED, MOST_ROWS_COUNTED = 1e-300, 1e20
"""Sums of weights beyond which there is nothing but rounding left to fit."""
SHARE_OF_ONES = 0.5
"""Whole weights are counts if at least this share of them is 1."""
SHARED_SCORES, FEWEST_SHARED = 0.01, 2
"""Smallest share and number of scores with several labels in a table of counts."""


class Repetition(NamedTuple):
    """Numbers of rows, distinct rows and distinct scores.

    ``shared`` scores occur with several labels.
    """

    rows: int
    distinct: int
    scores: int
    shared: int

    @property
    def is_of_counts(self) -> bool:
        """Whether the rows look like a table of counts by score and label."""
        least = max(FEWEST_SHARED, SHARED_SCORES * self.scores)
        repeated = self.rows - self.distinct
        return self.shared >= least and self.shared > 2 * repeated


class WeightSums(NamedTuple):
    """Sums over the rows with positive weight: of weights, squares and ones."""

    rows: int
    total: float
    squares: float
    ones: int
    whole: bool

    @classmethod
    def of(cls, weight: Array) -> WeightSums:
        """Sums of the weights."""
        present = weight[weight > 0.0]
        largest = float(present.max(initial=SMALLEST))
        scaled = present / largest
        return cls(
            rows=len(present),
            total=float(present.sum()),
            squares=largest * float(scaled @ scaled) * largest,
            ones=int(np.count_nonzero(present == 1.0)),
            whole=are_whole(present),
        )

    @property
    def unit(self) -> float:
        """Total weight divided by the effective sample size."""
        return max(self.squares / self.total, SMALLEST)

    @property
    def too_small(self) -> bool:
        """Whether the sum is implausibly small for the number of rows."""
        return self.total < FEWEST_A_ROW * self.rows

    @property
    def too_large(self) -> bool:
        """Whether the sum is much larger than the effective sample size."""
        few = self.whole and self.rows < FEWEST_ROWS
        return self.unit > LARGEST_UNIT and not few

    @property
    def mostly_ones(self) -> bool:
        """Whether most weights are 1, and the others whole."""
        return self.whole and self.ones >= SHARE_OF_ONES * self.rows

    def warn(self, name: str, remedy: str) -> None:
        """Warn that weights are treated as counts; an error if they cannot be."""
        if not FEWEST_ROWS_COUNTED <= self.total <= MOST_ROWS_COUNTED:
            raise ValueError(
                f"{name} must sum to {FEWEST_ROWS_COUNTED:g} to {MOST_ROWS_COUNTED:g}, "
                f"as weights count rows; it sums to {self.total:.6g}: "
                f"{remedy}divide them by {self.unit:.3g}"
            )
        warn_of_weights(name, self.rows, self.total, self.unit, remedy)


class WeightedRepetition(NamedTuple):
    """Repetition of rows, and the range of weights by class."""

    rows: Repetition
    ranges: list[tuple[float, float]]

    @classmethod
    def of(
        cls,
        columns: Sequence[NDArray[Any]],
        codes: NDArray[np.intp],
        weight: Array,
    ) -> WeightedRepetition:
        """From scores (n,) or (n, m), codes of labels, and weights."""
        order = np.argsort(codes, kind="stable")
        starts = run_starts(codes[order])
        low = np.minimum.reduceat(weight[order], starts)
        high = np.maximum.reduceat(weight[order], starts)
        ranges = list(zip(low.tolist(), high.tolist(), strict=True))
        return cls(repetition(columns, codes), ranges)

    def is_of_counts(self, sums: WeightSums) -> bool:
        """Whether whole weights with these sums look like counts."""
        if self._are_class_weights:
            return False
        return sums.mostly_ones or self.rows.is_of_counts

    @property
    def _are_class_weights(self) -> bool:
        """Whether each class has one weight, and not all are equal."""
        constant = all(low == high for low, high in self.ranges)
        return constant and len({low for low, _ in self.ranges}) > 1


def check_weights(
    sample_weight: Any,
    n: int,
    name: str = "sample_weight",
    *,
    some: bool = True,
    beside: str = "scores",
) -> Array | None:
    """Validate weights: finite, not negative, ``some`` positive; None stays None."""
    if sample_weight is None:
        return None
    array = check_numeric_array(sample_weight, name)
    array = one_column(array, n, name, beside, type(sample_weight))
    if array.size and array.min() < 0.0:
        row = int(np.argmax(array < 0.0))
        raise ValueError(f"{name} must not be negative; row {row} is {array[row]:g}")
    if some and array.size and array.max() == 0.0:
        raise ValueError(f"{name} must not be all zero")
    if array.size and not np.isfinite(float(array.max()) * len(array)):
        raise ValueError(
            f"{name} must have a finite sum; the largest is {array.max():g}"
        )
    return array


def row_weight(weight: Array | None) -> float:
    """Weight per row: 1 for integers, otherwise that of importance weights."""
    if weight is None or are_whole(weight):
        return 1.0
    return importance_unit(weight)


def importance_unit(weight: Array) -> float:
    """Weight per row if only ratios matter: ``sum(w**2) / sum(w)``."""
    largest = float(weight.max())
    scaled = weight / largest
    return largest * float(scaled @ scaled / scaled.sum())


def counted_columns(
    scores: NDArray[Any], by: Any = None, groups: NDArray[np.intp] | None = None
) -> list[NDArray[Any]]:
    """Columns by which a table of counts would be grouped, besides labels."""
    segments = [] if by is None else [column.codes for column in by.columns]
    return [scores, *segments, *([] if groups is None else [groups])]


FIT_REMEDY = 'use SplineCalibrator(weights="importance") or '


def check_weights_as_counts(
    weight: Array,
    name: str = "sample_weight",
    *,
    labels: NDArray[Any],
    scores: Sequence[NDArray[Any]],
    remedy: str = FIT_REMEDY,
) -> None:
    """Warn if weights do not look like counts of rows.

    ``scores`` are columns that a table of counts would be grouped by, labels aside.
    """
    sums = WeightSums.of(weight)
    if not sums.rows:
        return
    if sums.too_small:
        sums.warn(name, remedy)
        return
    if not sums.too_large:
        return
    if sums.whole:
        present = weight > 0.0
        codes = np.unique(labels[present], return_inverse=True)[1].reshape(-1)
        columns = [np.asarray(column)[present] for column in scores]
        repetition_of_rows = WeightedRepetition.of(columns, codes, weight[present])
        if repetition_of_rows.is_of_counts(sums):
            return
    sums.warn(name, remedy)


def repetition(columns: Sequence[NDArray[Any]], codes: NDArray[np.intp]) -> Repetition:
    """Count rows by scores, (n,) or (n, m), and labels."""
    n = len(codes)
    n_classes = int(codes.max()) + 1
    place = np.zeros(n, dtype=np.intp)
    n_scores = 1
    for values in (part for column in columns for part in column.reshape(n, -1).T):
        if n_scores == n:
            break
        distinct, inverse = np.unique(values, return_inverse=True)
        key = place * len(distinct) + inverse.reshape(-1)
        scores, place = np.unique(key, return_inverse=True)
        n_scores = len(scores)
    rows = np.unique(place * n_classes + codes)
    labels_of_score = np.bincount(rows // n_classes)
    shared = int(np.count_nonzero(labels_of_score > 1))
    return Repetition(n, len(rows), n_scores, shared)


WHOLE_ROUNDING = 1e-6
"""Relative rounding error of whole numbers."""


def are_whole(weight: Array) -> bool:
    """Whether weights are whole numbers, up to rounding."""
    distance = np.abs(weight - np.rint(weight))
    return bool(np.all(distance <= WHOLE_ROUNDING * np.minimum(weight, 1.0)))
