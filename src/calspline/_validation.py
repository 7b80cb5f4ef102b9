"""The only gate for user input: scores, labels, weights and options.

Errors are ``ValueError`` (a value is wrong) or ``TypeError`` (a kind is wrong). They name
the argument, what was expected, and the first offending row, counting from 0.
"""

from __future__ import annotations

import numbers
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from calspline.transforms import log_odds, log_odds_from_pair

Array = NDArray[np.float64]
Kind = Literal["probability", "margin"]

CHUNK = 1 << 15
ROW_SUM_TOLERANCE = 1e-3
LARGEST_MARGIN = 1e300


# Scores


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
                kind = ValueError if _is_missing(value) else TypeError
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
    bad_row = None if outside else _first_bad_sum(array)
    if bad_row is not None and kind != "margin":
        raise ValueError(
            f"each row of {name} must sum to one (within {ROW_SUM_TOLERANCE:g}); "
            f"row {bad_row} sums to {array[bad_row].sum():.6g}"
        )
    if outside or (kind == "margin" and bad_row is not None):
        _check_size(array, name)
        return BinaryScores("margin", array[:, 1] - array[:, 0], None, array.shape)
    first = None if kind == "margin" else array[:, 0]
    return BinaryScores(kind or "probability", array[:, 1], first, array.shape)


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


# Labels and weights


def _is_missing(value: Any) -> bool:
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, (float, np.floating)) and bool(np.isnan(value))


def label_array(y: Any, n: int, name: str = "y") -> NDArray[Any]:
    """Labels as a one-dimensional array of ``n`` values, none missing."""
    if hasattr(y, "tocsr") and hasattr(y, "nnz"):
        raise TypeError(f"{name} must be dense; got a sparse {type(y).__name__}")
    array = np.asarray(y)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise ValueError(f"{name} must have one dimension; got shape {array.shape}")
    if len(array) != n:
        raise ValueError(f"scores and {name} must have the same length; got {n} and {len(array)}")
    kind = array.dtype.kind
    if kind == "O":
        for row, value in enumerate(array):
            if _is_missing(value):
                raise ValueError(f"{name} has missing labels; the first is in row {row}")
    elif kind == "f" and array.size and not np.isfinite(array.sum()):
        bad = ~np.isfinite(array)
        if bad.any():
            raise ValueError(f"{name} has missing or infinite labels; the first is in row {int(np.argmax(bad))}")
    elif kind in "cmMV":
        raise TypeError(f"{name} must be class labels; got dtype {array.dtype}")
    return array


def binary_labels(
    y: Any, n: int, classes: NDArray[Any] | None = None, name: str = "y"
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """The two classes, in sorted order, and which rows are of the second.

    With ``classes`` given the labels must be among them, and one may be absent.
    """
    array = label_array(y, n, name)
    if classes is None:
        classes = _two_classes(array, name)
    positive = np.asarray(array == classes[1])
    if not np.all(positive | (array == classes[0])):
        row = int(np.argmax(~(positive | (array == classes[0]))))
        raise ValueError(
            f"{name} must be one of the classes {classes[0]!r} and {classes[1]!r}; row {row} is {array[row]!r}"
        )
    return classes, positive


def _two_classes(array: NDArray[Any], name: str) -> NDArray[Any]:
    if array.dtype.kind in "biuf":
        # Two passes instead of a sort, for the usual case.
        ends = np.array([array.min(), array.max()])
        two = ends[0] != ends[1] and np.all((array == ends[0]) | (array == ends[1]))
        found = ends if two else np.unique(array)
    else:
        try:
            found = np.unique(array)
        except TypeError:
            kinds = sorted({type(value).__name__ for value in array})
            raise TypeError(f"{name} must be labels of one type; got {' and '.join(kinds)}") from None
    if found.dtype.kind == "f" and np.any(found != np.floor(found)):
        row = int(np.argmax(array != np.floor(array)))
        raise ValueError(f"{name} must be class labels, not continuous values; row {row} is {array[row]!r}")
    if len(found) == 1:
        raise ValueError(f"{name} must have two classes; every row is {found[0]!r}")
    if len(found) > 2:
        shown = ", ".join(repr(value) for value in found[:5].tolist())
        raise ValueError(f"{name} must have two classes for one column of scores; got {len(found)}: {shown}")
    return found


def weight_array(sample_weight: Any, n: int, name: str = "sample_weight") -> Array | None:
    """Weights as float64, finite, not negative, not all zero; None stays None."""
    if sample_weight is None:
        return None
    array = numeric_array(sample_weight, name)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise ValueError(f"{name} must have one dimension; got shape {array.shape}")
    if len(array) != n:
        raise ValueError(f"scores and {name} must have the same length; got {n} and {len(array)}")
    if array.size and array.min() < 0.0:
        row = int(np.argmax(array < 0.0))
        raise ValueError(f"{name} must not be negative; row {row} is {array[row]:g}")
    if array.size and array.max() == 0.0:
        raise ValueError(f"{name} must not be all zero")
    return array


# Options


def one_of(value: Any, name: str, choices: tuple[Any, ...]) -> None:
    """Check that an option is one of a few names."""
    if not any(type(value) is type(choice) and value == choice for choice in choices):
        shown = ", ".join(repr(choice) for choice in choices)
        raise ValueError(f"{name} must be one of {shown}; got {value!r}")


def number(value: Any, name: str, *, above: float = -np.inf, below: float = np.inf, also: str = "") -> float:
    """Check that an option is a number strictly between two limits."""
    limits = f"a number in ({above:g}, {below:g}){also}"
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real):
        raise _wrong(value, name, limits)
    if not above < float(value) < below:
        raise ValueError(f"{name} must be {limits}; got {value!r}")
    return float(value)


def whole_number(value: Any, name: str, *, least: int, also: str = "") -> int:
    """Check that an option is an integer of at least ``least``."""
    expected = f"an integer of at least {least}{also}"
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Integral):
        raise _wrong(value, name, expected)
    if value < least:
        raise ValueError(f"{name} must be {expected}; got {value!r}")
    return int(value)


def _wrong(value: Any, name: str, expected: str) -> Exception:
    kind = ValueError if isinstance(value, (str, numbers.Real)) else TypeError
    return kind(f"{name} must be {expected}; got {value!r}")


def increasing(values: Any, name: str, *, least: int) -> Array:
    """Check that an option is a strictly increasing list of numbers."""
    array = numeric_array(values, name)
    if array.ndim != 1 or len(array) < least:
        raise ValueError(f"{name} must be one list of at least {least} numbers; got shape {array.shape}")
    steps = np.diff(array)
    if len(steps) and steps.min() <= 0.0:
        at = int(np.argmax(steps <= 0.0)) + 1
        raise ValueError(f"{name} must be sorted, without repeats; item {at} is {array[at]:g} after {array[at - 1]:g}")
    return array


def not_negative(value: Any, name: str, also: str = "") -> float:
    """Check that an option is a number of at least zero; infinity will do."""
    expected = f"a number of at least 0{also}"
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real):
        raise _wrong(value, name, expected)
    if not float(value) >= 0.0:
        raise ValueError(f"{name} must be {expected}; got {value!r}")
    return float(value)


def positive_list(values: Any, name: str) -> Array:
    """Check that an option is a list of positive numbers."""
    array = numeric_array(values, name)
    if array.ndim != 1 or len(array) == 0 or array.min() <= 0.0:
        raise ValueError(f"{name} must be one list of positive numbers; got {values!r}")
    return array


def seed(value: Any, name: str) -> int:
    """A seed from an integer, a RandomState (a new one every time) or None (always 0)."""
    if value is None:
        return 0
    if isinstance(value, np.random.RandomState):
        return int(value.randint(2**31))
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Integral) or not 0 <= int(value) < 2**32:
        raise ValueError(f"{name} must be an integer in [0, 2**32), a RandomState or None; got {value!r}")
    return int(value)


def two_classes_given(classes: Any) -> NDArray[Any]:
    """Check a list of the two classes."""
    array = np.asarray(classes)
    if array.shape != (2,) or array[0] == array[1]:
        raise ValueError(f"classes must be two different labels; got {classes!r}")
    return array
