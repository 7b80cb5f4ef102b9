"""Scores: finite numbers in one column, two, or one for each class."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from calspline.transforms import log_odds, log_odds_from_pair

Array = NDArray[np.float64]
Kind = Literal["probability", "margin"]

CHUNK = 1 << 15
ROW_SUM_TOLERANCE = 1e-3
LARGEST_MARGIN = 1e300


@dataclass(frozen=True)
class BinaryScores:
    """Checked scores of a two-class problem.

    ``values`` has one number a row: the probability of the second class, or a margin.
    ``first`` has the probability of the first class where two columns were given.
    """

    kind: Kind
    values: Array
    first: Array | None
    shape: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.values)

    def locations(self, rows: slice = slice(None)) -> Array:
        """Log-odds of probabilities, or the margins themselves."""
        if self.kind == "margin":
            return self.values[rows]
        if self.first is None:
            return log_odds(self.values[rows])
        return log_odds_from_pair(self.first[rows], self.values[rows])

    def take(self, rows: NDArray[np.bool_]) -> BinaryScores:
        """The rows where the mask is true."""
        first = None if self.first is None else self.first[rows]
        values = self.values[rows]
        return BinaryScores(self.kind, values, first, (len(values), *self.shape[1:]))


@dataclass(frozen=True)
class MatrixScores:
    """Checked scores of a problem with three or more classes: a column for each.

    Probabilities, whose rows sum to one, or margins such as a network's logits.
    """

    kind: Kind
    values: Array

    def __len__(self) -> int:
        return len(self.values)

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows and columns."""
        return self.values.shape

    def take(self, rows: NDArray[np.bool_]) -> MatrixScores:
        """The rows where the mask is true."""
        return MatrixScores(self.kind, self.values[rows])


def chunks(n: int) -> Iterator[slice]:
    """Slices of a bounded number of rows, small enough to stay in cache."""
    for start in range(0, n, CHUNK):
        yield slice(start, min(start + CHUNK, n))


def numeric_array(values: Any, name: str) -> Array:
    """``values`` as float64, one or two dimensions, all finite."""
    if hasattr(values, "tocsr") and hasattr(values, "nnz"):
        raise TypeError(f"{name} must be a dense array; got a sparse {type(values).__name__}")
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        row = int(np.argwhere(np.ma.getmaskarray(values))[0][0])
        raise ValueError(f"{name} has missing values; the first is in row {row}")
    try:
        array = np.asarray(values)
    except ValueError:
        raise ValueError(f"{name} must have rows of equal length") from None
    if array.dtype.kind == "O":
        array = _object_to_float(array, name)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"{name} must be real numbers; got dtype {array.dtype}")
    if array.ndim not in (1, 2):
        raise ValueError(f"{name} must have one or two dimensions; got shape {array.shape}")
    array = array.astype(np.float64, copy=False)
    # min and max carry a NaN along, and cost no temporary array.
    if array.size and not (np.isfinite(array.min()) and np.isfinite(array.max())):
        row = int(np.argwhere(~np.isfinite(array))[0][0])
        bad = np.atleast_1d(array[row])
        bad = bad[~np.isfinite(bad)][0]
        raise ValueError(f"{name} must be finite; row {row} is {bad}")
    return array


def _object_to_float(array: NDArray[Any], name: str) -> Array:
    for index, value in np.ndenumerate(array):
        if isinstance(value, (str, bytes, complex)) or (
            isinstance(value, np.generic) and value.dtype.kind not in "fiub"
        ):
            raise TypeError(f"{name} must be real numbers; row {index[0]} is {value!r}")
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError):
        for index, value in np.ndenumerate(array):
            try:
                float(value)
            except (TypeError, ValueError):
                kind = ValueError if is_missing(value) else TypeError
                raise kind(f"{name} must be real numbers; row {index[0]} is {value!r}") from None
        raise TypeError(f"{name} must be real numbers, one row like the next") from None


def binary_scores(scores: Any, *, kind: Kind | None, name: str = "scores") -> BinaryScores:
    """Check scores of a two-class problem.

    Parameters
    ----------
    scores : array-like of shape (n,), (n, 1) or (n, 2)
    kind : {"probability", "margin"} or None
        What the scores have to be; None takes scores outside [0, 1] for margins.
    """
    array = numeric_array(scores, name)
    if array.ndim == 2 and array.shape[1] not in (1, 2):
        raise ValueError(f"{name} must have one or two columns for a two-class problem; got shape {array.shape}")
    if array.ndim == 2 and array.shape[1] == 2:
        return _from_pair(array, kind, name)
    values = array.reshape(-1)
    outside = bool(values.size) and bool(values.min() < 0.0 or values.max() > 1.0)
    if kind == "probability" and outside:
        raise ValueError(_outside_message(values, name))
    kind = kind or ("margin" if outside else "probability")
    if kind == "margin":
        _check_size(values, name)
    return BinaryScores(kind, values, None, array.shape)


def _from_pair(array: Array, kind: Kind | None, name: str) -> BinaryScores:
    outside = bool(array.size) and bool(array.min() < 0.0 or array.max() > 1.0)
    if outside and kind == "probability":
        raise ValueError(_outside_message(array, name))
    if not outside and kind != "margin":
        _check_sums(array, name)
    if outside or (kind == "margin" and _first_bad_sum(array) is not None):
        _check_size(array, name)
        return BinaryScores("margin", array[:, 1] - array[:, 0], None, array.shape)
    first = None if kind == "margin" else array[:, 0]
    return BinaryScores(kind or "probability", array[:, 1], first, array.shape)


def matrix_scores(
    scores: Any, *, kind: Kind | None, n_columns: int | None = None, name: str = "scores"
) -> MatrixScores:
    """Check scores of a problem with three or more classes.

    Parameters
    ----------
    scores : array-like of shape (n, m)
    kind : {"probability", "margin"} or None
        What the scores have to be; None takes scores outside [0, 1] for margins.
    n_columns : int, optional
        How many columns there have to be.
    """
    array = numeric_array(scores, name)
    if array.ndim != 2 or (n_columns is not None and array.shape[1] != n_columns):
        wanted = "a column for each class" if n_columns is None else f"{n_columns} columns, one for each class"
        raise ValueError(f"{name} must have {wanted}; got shape {array.shape}")
    outside = bool(array.size) and bool(array.min() < 0.0 or array.max() > 1.0)
    if kind == "margin" or (kind is None and outside):
        _check_size(array, name)
        return MatrixScores("margin", array)
    if outside:
        raise ValueError(_outside_message(array, name))
    _check_sums(array, name)
    return MatrixScores("probability", array)


def column_names(scores: Any) -> list[str] | None:
    """Names of the columns of a data frame; None for anything else."""
    if isinstance(scores, (np.ndarray, list, tuple)) or np.ndim(scores) != 2:
        return None
    frame = nw.from_native(scores, eager_only=True, pass_through=True)
    return list(frame.columns) if isinstance(frame, nw.DataFrame) else None


def in_class_order(array: Array, names: list[str] | None, classes: NDArray[Any]) -> Array:
    """Columns in the order of the classes, where a frame's columns are named after them."""
    wanted = [str(value) for value in classes]
    if names is None or names == wanted or sorted(names) != sorted(wanted):
        return array
    return array[:, [names.index(value) for value in wanted]]


def _check_sums(array: Array, name: str) -> None:
    bad_row = _first_bad_sum(array)
    if bad_row is not None:
        raise ValueError(
            f"each row of {name} must sum to one (within {ROW_SUM_TOLERANCE:g}); "
            f"row {bad_row} sums to {array[bad_row].sum():.6g}"
        )


def _first_bad_sum(array: Array) -> int | None:
    for rows in chunks(len(array)):
        bad = np.abs(array[rows].sum(axis=1) - 1.0) > ROW_SUM_TOLERANCE
        if bad.any():
            return int(rows.start) + int(np.argmax(bad))
    return None


def _outside_message(array: Array, name: str) -> str:
    row = int(np.argwhere((array < 0.0) | (array > 1.0))[0][0])
    values = np.atleast_1d(array[row])
    value = values[(values < 0.0) | (values > 1.0)][0]
    return (
        f"{name} must be probabilities in [0, 1]; row {row} is {value:g}. "
        'To calibrate margins, such as a decision_function gives, use transform="identity".'
    )


def _check_size(array: Array, name: str) -> None:
    if array.size and max(-array.min(), array.max()) > LARGEST_MARGIN:
        row = int(np.argwhere(np.abs(array) > LARGEST_MARGIN)[0][0])
        raise ValueError(f"{name} must be at most {LARGEST_MARGIN:g} in size; row {row} is larger")


def is_missing(value: Any) -> bool:
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, (float, np.floating)) and bool(np.isnan(value))
