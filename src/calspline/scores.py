"""What a calibrator is given, checked once: scores, labels and weights.

Scores are finite numbers in one column, two, or one for each class; labels and weights are one a row.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from calspline.arrays import Array, as_numpy, filled
from calspline.labels import (
    check_groups,
    check_label_array,
    column_names,
    is_missing,
    one_column,
    order_columns,
    several_groups,
    warn_user,
)
from calspline.transforms import log_odds, log_odds_from_pair

Kind = Literal["probability", "margin"]
MatrixKind = Literal["probability", "margin", "auto", "either"]
WeightMeaning = Literal["frequency", "importance", "checked"]

ROW_SUM_TOLERANCE = 5e-3  # ten probabilities rounded to three digits
ROUNDING = 1e-6
"""What lies no further outside [0, 1], in units of the largest score, is a probability, but for rounding."""
MARGIN_SHARE = 0.1
"""Scores whose kind nobody named are margins if more than this share of the rows lies outside [0, 1]."""
PER_CENT, PER_CENT_TOLERANCE = 100.0, 0.5
LEAST_CHANCE, FEWEST_ROWS = 1e-3, 3
"""How unlikely it must be that margins all lie in [0, 1], and of how many, to be worth a word."""
LARGEST_MARGIN = 1e300
SCORE_LIMITS: dict[Kind, tuple[float, float]] = {
    "probability": (-ROUNDING, 1.0 + ROUNDING),
    "margin": (-LARGEST_MARGIN, LARGEST_MARGIN),
}
"""What a single score may be in an export; probabilities are clipped to [0, 1] then."""
MARGIN_ADVICE = 'To calibrate margins, such as a decision_function gives, use transform="identity".'
MEND_ADVICE = "Where they should be probabilities, clip or mend them."
PER_CENT_WARNING = (
    "scores lie between 0 and 100, as percentages do: if that is what they are, divide them by 100. They are taken for "
    'margins, which transform="identity" says without this warning'
)


@dataclass(frozen=True, eq=False)
class GivenScores:
    """Scores as they came in: finite numbers, not yet taken for probabilities or for margins.

    ``names`` are those of a data frame's columns. ``margins`` declares that they are margins,
    even if all of them lie in [0, 1]. What is checked once, here, is passed on.
    """

    values: NDArray[np.floating[Any]]
    names: list[Any] | None = None
    margins: bool = False

    def __len__(self) -> int:
        return len(self.values)

    @property
    def n_columns(self) -> int:
        """Columns of scores."""
        return 1 if self.values.ndim == 1 else self.values.shape[1]

    @cached_property
    def limits(self) -> tuple[float, float]:
        """Least and largest score; NaN if there is one."""
        return (float(self.values.min()), float(self.values.max())) if self.values.size else (0.0, 0.0)

    @property
    def outside(self) -> bool:
        """Whether a score is outside [0, 1], by more than rounding."""
        return is_outside(*self.limits)

    @property
    def _outside(self) -> NDArray[np.bool_]:
        """Which scores are; not kept, as there may be many."""
        return np.asarray((self.values < -rounding(self.limits[1])) | (self.values > 1.0 + ROUNDING))

    @cached_property
    def n_outside(self) -> int:
        """Rows with a score outside [0, 1]."""
        return int(np.count_nonzero(self._outside if self.values.ndim == 1 else self._outside.any(axis=1)))

    @property
    def share_inside(self) -> float | None:
        """The share of rows in [0, 1], a little towards a half; None if all are."""
        return (len(self) - self.n_outside + 1.0) / (len(self) + 2.0) if self.outside else None

    def warn_if_probabilities(self, inside: float | None) -> None:
        """Warn if all of these margins lie in [0, 1], which by the share ``inside`` of the fit is no chance."""
        n, (low, high) = len(self), self.limits
        if inside is None or n < FEWEST_ROWS or low < 0.0 or high > 1.0 or inside**n >= LEAST_CHANCE:
            return
        warn_user(
            "scores all lie in [0, 1], as probabilities do, but this calibrator was fitted on margins, of which "
            f"{1.0 - inside:.0%} lay outside: give it what it was fitted on"
        )

    def kind(self, name: str = "scores", advice: str = MARGIN_ADVICE) -> Kind:
        """What the scores are, by their range; a few outside [0, 1] among others are an error."""
        if not self.outside:
            return "probability"
        if not taken_for_margins(self.n_outside, len(self)):
            raise ValueError(self.complaint(name, advice))
        if self.limits[0] >= 0.0 and self.limits[1] <= PER_CENT:
            if self.n_columns == 1:
                warn_user(PER_CENT_WARNING)
            elif np.all(np.abs(self.values.sum(axis=1) - PER_CENT) <= PER_CENT_TOLERANCE):
                raise ValueError(f"{name} must be probabilities, not percentages; divide them by 100")
        return "margin"

    def complaint(self, name: str, advice: str) -> str:
        """The first row outside [0, 1], and how many there are."""
        place, n = tuple(np.argwhere(self._outside)[0]), len(self)
        ways = [advice, f"{self.n_outside} of {n} rows are outside.", MEND_ADVICE if self.n_outside < n else ""]
        shown = f"row {place[0]} is {self.values[place]:g}"
        return f"{name} must be probabilities in [0, 1]; {shown}. {' '.join(filter(None, ways))}"

    def taken_as(self, kind: MatrixKind | None, name: str, advice: str) -> tuple[Kind, NDArray[np.floating[Any]]]:
        """What the scores are, and their values: probabilities in [0, 1], whose rows sum to one, or margins."""
        if kind != "probability" and max(-self.limits[0], self.limits[1]) > LARGEST_MARGIN:
            row = int(np.argwhere(np.abs(self.values) > LARGEST_MARGIN)[0][0])
            raise ValueError(f"{name} must be at most {LARGEST_MARGIN:g} in size; row {row} is larger")
        if kind in (None, "auto"):
            kind = self.kind(name, advice)
        elif kind == "either":
            kind = "margin" if self.columns_are_margins() else "probability"
        if kind == "margin":
            return "margin", self.values
        if self.outside:
            raise ValueError(self.complaint(name, advice))
        values = self.probabilities()
        if self.n_columns > 1:
            check_sums(values, name)
        return "probability", values

    def columns_are_margins(self) -> bool:
        """Whether several columns, said to be of either kind, are margins: some outside [0, 1], or not of sum one."""
        return self.outside or bool(_off_sums(self.values).any())

    def probabilities(self) -> NDArray[np.floating[Any]]:
        """The values, clipped to [0, 1], from which they differ by rounding at most."""
        low, high = self.limits
        return self.values if low >= 0.0 and high <= 1.0 else np.clip(self.values, 0.0, 1.0)

    def in_class_order(self, classes: NDArray[Any], name: str = "scores", *, known: bool = False) -> GivenScores:
        """Columns in the order of the classes, where a frame's columns are named after them."""
        order = order_columns(self.names, classes, name, known=known)
        return self if order is None else replace(self, values=self.values[:, order], names=list(classes))


def rounding(high: float) -> float:
    """How far below 0 a probability may be, where the largest is ``high``: margins of 1e-9 are not rounded zeros."""
    return ROUNDING * min(max(high, 0.0), 1.0)


def is_outside(low: float, high: float) -> bool:
    """Whether scores within these limits are no probabilities, rounding apart."""
    return low < -rounding(high) or high > 1.0 + ROUNDING


def taken_for_margins(outside: int, rows: int) -> bool:
    """Whether so many rows outside [0, 1] make the scores margins; fewer are an error."""
    return outside > MARGIN_SHARE * rows and (outside > 1 or rows <= 2)


@dataclass(frozen=True)
class BinaryScores:
    """Checked scores of a two-class problem.

    ``values`` has one number a row, of any float type: the probability of the second
    class, or a margin. ``first`` has the probability of the first class where two columns
    were given. ``difference`` says what the margin of two columns is: their difference,
    or, where they are probabilities, the second.
    """

    kind: Kind
    values: NDArray[np.floating[Any]]
    first: NDArray[np.floating[Any]] | None
    shape: tuple[int, ...]
    difference: bool = False

    def __len__(self) -> int:
        return len(self.values)

    def locations(self, rows: slice = slice(None)) -> Array:
        """Log-odds of probabilities, or the margins themselves."""
        if self.kind == "margin":
            return self.values[rows].astype(np.float64, copy=False)
        if self.first is None:
            return log_odds(self.values[rows])
        return log_odds_from_pair(self.first[rows], self.values[rows])


@dataclass(frozen=True)
class MatrixScores:
    """Checked scores of a problem with three or more classes: a column for each.

    Probabilities, whose rows sum to one, or margins such as a network's logits.
    """

    kind: Kind
    values: NDArray[np.floating[Any]]


def check_numeric_array(values: Any, name: str) -> Array:
    """``values`` as float64, one or two dimensions, all finite."""
    return check_scores(values, name).values.astype(np.float64, copy=False)


def check_scores(
    values: Any, name: str = "scores", *, margins: bool = False, names: Sequence[Any] | None = None
) -> GivenScores:
    """``values`` as floats, one or two dimensions, all finite; ``names`` are those of columns that have none."""
    if isinstance(values, GivenScores):
        return values
    if values is None:
        raise TypeError(f"{name} must be given; got None")
    if hasattr(values, "tocsr") and hasattr(values, "nnz"):
        raise TypeError(f"{name} must be a dense array; got a sparse {type(values).__name__}")
    masked = "numpy.ma" in sys.modules  # else there are none, and it takes time to import
    if masked and isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        row = int(np.argwhere(np.ma.getmaskarray(values))[0][0])
        raise ValueError(f"{name} has missing values; the first is in row {row}")
    try:
        array = as_numpy(values)
    except ValueError:
        raise ValueError(f"{name} must have rows of equal length") from None
    if array.ndim not in (1, 2):
        raise ValueError(f"{name} must have one or two dimensions; got {type(values).__name__} of shape {array.shape}")
    if array.dtype.kind == "O":
        array = _object_to_float(array, name)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"{name} must be real numbers; got dtype {array.dtype}")
    if array.dtype.kind != "f":
        array = array.astype(np.float64)
    found = column_names(values, array.ndim) if names is None else list(names)
    given = GivenScores(array, found, margins)
    if not np.isfinite(given.limits).all():
        place = tuple(np.argwhere(~np.isfinite(array))[0])
        raise ValueError(f"{name} must be finite; row {place[0]} is {array[place]}")
    return given


def _object_to_float(array: NDArray[Any], name: str) -> Array:
    for (row, *_), value in np.ndenumerate(array):
        if isinstance(value, (str, bytes, complex, np.complexfloating, np.datetime64, np.timedelta64, np.void)):
            raise TypeError(f"{name} must be real numbers; row {row} is {value!r}")
        try:
            float(0.0 if value is None else value)  # None becomes NaN
        except (TypeError, ValueError):
            kind = ValueError if is_missing(value) else TypeError
            raise kind(f"{name} must be real numbers; row {row} is {value!r}") from None
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be real numbers, one row like the next") from None


def check_binary_scores(
    scores: Any,
    *,
    kind: MatrixKind | None = "auto",
    difference: bool | None = None,
    name: str = "scores",
    advice: str = MARGIN_ADVICE,
) -> BinaryScores:
    """Check scores of a two-class problem, in one column or two.

    ``kind`` is what they are to be: ``"auto"`` and None leave it to :meth:`GivenScores.kind`; ``"either"`` is a margin.
    ``difference`` says what the margin of two columns is: their difference, or the second of probabilities, whose rows
    sum to one; None: whichever they are. A calibrator of one margin has False, so that it refuses two of them.
    """
    if isinstance(scores, BinaryScores):
        return scores
    given = check_scores(scores, name)
    array = given.values
    if given.n_columns > 2 or not given.n_columns:
        raise ValueError(f"{name} must have one or two columns for a two-class problem; got shape {array.shape}")
    two = given.n_columns == 2
    taken, array = given.taken_as("margin" if kind == "either" else kind, name, advice)
    if taken == "probability":
        first, values = (array[:, 0], array[:, 1]) if two else (None, array.reshape(-1))
        return BinaryScores("probability", values, first, array.shape)
    difference = two and (given.columns_are_margins() if difference is None else difference)
    if two and not difference and (off := _off_sums(array)).any():
        row = int(np.argmax(off))
        raise ValueError(
            f"{name} must be one column of margins, as in the fit; got two, which are no probabilities either: "
            f"row {row} sums to {array[row].sum():.6g}"
        )
    values = array.astype(np.float64, copy=False)[:, 1] if two else array.reshape(-1)
    if difference:
        values = values - array[:, 0]
    return BinaryScores("margin", values, None, array.shape, difference)


def check_matrix_scores(
    scores: Any, *, kind: MatrixKind, n_columns: int | None = None, name: str = "scores", advice: str = MARGIN_ADVICE
) -> MatrixScores:
    """Check scores of a problem with three or more classes, in so many columns.

    ``kind`` is as for two classes, but ``"either"`` also takes rows that do not sum to one for margins.
    """
    given = check_scores(scores, name)
    array = given.values
    if array.ndim != 2 or (n_columns is not None and array.shape[1] != n_columns):
        wanted = "a column for each class" if n_columns is None else f"{n_columns} columns, one for each class"
        raise ValueError(f"{name} must have {wanted}; got shape {array.shape}")
    return MatrixScores(*given.taken_as(kind, name, advice))


def check_sums(array: NDArray[np.floating[Any]], name: str) -> None:
    """Check that every row sums to one."""
    off = _off_sums(array)
    if off.any():
        row = int(np.argmax(off))
        raise ValueError(
            f"each row of {name} must sum to one (within {ROW_SUM_TOLERANCE:g}); row {row} sums to "
            f"{array[row].sum():.6g}"
        )


def _off_sums(array: NDArray[np.floating[Any]]) -> NDArray[np.bool_]:
    """Which rows do not sum to one."""
    return filled(
        np.zeros(len(array), dtype=bool),
        lambda rows: np.abs(array[rows].sum(axis=1, dtype=np.float64) - 1.0) > ROW_SUM_TOLERANCE,
        array.shape[1],
    )


def check_weights(
    sample_weight: Any, n: int, name: str = "sample_weight", *, some: bool = True, beside: str = "scores"
) -> Array | None:
    """Weights as float64, finite, not negative, ``some`` of them positive; None stays None."""
    if sample_weight is None:
        return None
    array = one_column(check_numeric_array(sample_weight, name), n, name, beside, type(sample_weight))
    if array.size and array.min() < 0.0:
        row = int(np.argmax(array < 0.0))
        raise ValueError(f"{name} must not be negative; row {row} is {array[row]:g}")
    if some and array.size and array.max() == 0.0:
        raise ValueError(f"{name} must not be all zero")
    if array.size and not np.isfinite(float(array.max()) * len(array)):
        raise ValueError(f"{name} must have a finite sum; the largest is {array.max():g}")
    return array


FEWEST_A_ROW, MOST_A_ROW = 0.1, 10.0
"""Mean weights beyond these make no sense as counts, unless large ones are whole numbers."""


def check_weight_scale(rows: int, total: float, *, counts: bool, name: str = "sample_weight") -> None:
    """Warn if weights, which count rows, say that there is much less or much more data than there are rows."""
    if rows and (total < FEWEST_A_ROW * rows or (total > MOST_A_ROW * rows and not counts)):
        warn_user(
            f"{name} sums to {total:.6g} for {rows} rows. Weights count rows (2 is a row seen twice), so the fit takes "
            f"these for about {total:.3g} rows. If only their ratios matter, use "
            'SplineCalibrator(weights="importance"), or divide them by their mean'
        )


def check_weights_as_counts(weight: Array, name: str = "sample_weight") -> None:
    """The same for weights themselves; those of zero do not count."""
    present = weight[weight > 0.0]
    check_weight_scale(len(present), float(present.sum()), counts=are_whole(present), name=name)


def are_whole(weight: Array) -> bool:
    """Whether weights are whole numbers, but for rounding."""
    return bool(np.all(np.abs(weight - np.rint(weight)) <= ROUNDING * np.minimum(weight, 1.0)))


def row_weight(weight: Array | None) -> float:
    """How much weight is worth a row: 1 of whole numbers, which count rows, else as of importance weights."""
    return 1.0 if weight is None or are_whole(weight) else importance_unit(weight)


def importance_unit(weight: Array) -> float:
    """How much weight is worth a row if only ratios count: sum w^2 / sum w. All are worth (sum w)^2 / sum w^2 rows."""
    largest = float(weight.max())
    scaled = weight / largest
    return largest * float(scaled @ scaled / scaled.sum())


@dataclass(frozen=True)
class LabelledRows:
    """Scores, labels and weights that go together, the numbers of groups, and segments; no row has weight zero."""

    scores: GivenScores
    labels: NDArray[Any]
    weight: Array | None
    groups: NDArray[np.intp] | None = None
    by: Any = None


def check_rows(
    scores: Any, y: Any, sample_weight: Any, groups: Any = None, by: Any = None, *, weights: WeightMeaning = "frequency"
) -> LabelledRows:
    """Check what a calibrator is fitted on: at least two rows that count, in at least two groups.

    ``by`` are columns of segments that were checked already. A caller may have ``"checked"`` the scale of weights.
    """
    given = check_scores(scores)
    weight = check_weights(sample_weight, len(given))
    labels = check_label_array(y, len(given))
    group = check_groups(groups, len(given))
    if weight is not None and weight.size and weight.min() == 0.0:
        present = weight > 0.0
        given, labels, weight = replace(given, values=given.values[present]), labels[present], weight[present]
        group = None if group is None else np.unique(group[present], return_inverse=True)[1]
        by = None if by is None else by.of(present)
    if len(given) < 2:
        raise ValueError(f"scores must have at least two rows, of different classes; got {len(given)}")
    if weight is not None and weights == "importance":
        weight = weight / importance_unit(weight)
    elif weight is not None and weights == "frequency":
        check_weights_as_counts(weight)
    return LabelledRows(given, labels, weight, several_groups(group), by)
