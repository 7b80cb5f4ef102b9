"""Labels of rows, and classes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calspline._arrays import as_numpy, chunks, is_masked

CONTAINERS = (tuple, frozenset)
"""Hashable containers, which are not labels: NumPy would make rows of them."""
WHOLE = re.compile(r"[+-]?\d+(\.0*)?")
MAX_LABELS = 1000
"""A column with more distinct values does not hold classes."""


def by_value(label: Any) -> int | str:
    """Normal form of a label or name: 1, 1.0, "1", "1.0" and True are equal."""
    if isinstance(label, np.generic):
        label = label.item()
    if isinstance(label, str):
        text = label.strip()
        if text.lower() in ("true", "false"):
            return int(text.lower() == "true")
        return int(text.partition(".")[0]) if WHOLE.fullmatch(text) else text
    if isinstance(label, (bool, int, float, Decimal)) and label == label // 1:
        return int(label)
    return str(label)


def label_array(labels: list[Any], dtype: Any = None) -> NDArray[Any]:
    """Convert labels to an array of one type, or of objects.

    Decimals of databases become integers or floats.
    """
    if labels and all(isinstance(value, Decimal) for value in labels):
        whole = all(value == int(value) for value in labels)
        labels = [int(value) if whole else float(value) for value in labels]
    kinds = {type(value) for value in labels}
    if kinds == {int} and dtype is None:
        return _integer_array(labels)
    if dtype is not None and np.dtype(dtype).kind in "biuf":
        return np.array(labels, dtype=dtype)
    if (
        kinds <= {bool, int, float, str}
        and len(kinds) == 1
        and (dtype is None or np.dtype(dtype).kind != "O")
    ):
        return np.array(labels)
    array = np.empty(len(labels), dtype=object)
    array[:] = labels
    return array


def _integer_array(values: list[int]) -> NDArray[Any]:
    """Convert integers to the smallest type that holds all of them exactly."""
    low = min(values)
    high = max(values)
    for dtype in (np.int64, np.uint64):
        if np.iinfo(dtype).min <= low and high <= np.iinfo(dtype).max:
            return np.array(values, dtype=dtype)
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def plain_labels(values: Iterable[Any]) -> list[Any]:
    """Convert labels to Python objects."""
    return [
        value.item() if isinstance(value, np.generic) else value for value in values
    ]


def is_missing(value: Any) -> bool:
    """Whether a value is missing: None, NaN, NA or NaT."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, (float, np.floating)) and bool(np.isnan(value))


def one_column(
    array: NDArray[Any], n: int, name: str, beside: str, given: type
) -> NDArray[Any]:
    """Array of one dimension with ``n`` values, as many rows as ``beside``."""
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise ValueError(
            f"{name} must have one dimension; got {given.__name__} of shape "
            f"{array.shape}"
        )
    if len(array) != n:
        raise ValueError(
            f"{beside} and {name} must have the same length; got {n} and {len(array)}"
        )
    return array


NEVER_MISSING = {str, bytes, int, bool}


def check_label_array(
    y: Any, n: int, name: str = "y", *, beside: str = "scores"
) -> NDArray[Any]:
    """Validate labels: a one-dimensional array of ``n`` values, none missing."""
    if isinstance(y, Mapping):
        raise TypeError(
            f"{name} must be an array of labels; got a {type(y).__name__}. "
            "Sets of predictions are passed after the labels"
        )
    if hasattr(y, "tocsr") and hasattr(y, "nnz"):
        raise TypeError(f"{name} must be dense; got a sparse {type(y).__name__}")
    if is_masked(y):
        row = int(np.argwhere(np.ma.getmaskarray(y))[0][0])
        raise ValueError(f"{name} has missing labels; the first is in row {row}")
    try:
        array = as_numpy(y)
    except ValueError:
        raise ValueError(f"{name} must have one label a row") from None
    array = one_column(array, n, name, beside, type(y))
    if array.dtype.kind == "T":  # StringDType, which no file has
        array = array.astype(object)
    kind = array.dtype.kind
    if kind == "O" and not set(map(type, array)) <= NEVER_MISSING:
        missing = next(
            (row for row, value in enumerate(array) if is_missing(value)), None
        )
        if missing is not None:
            raise ValueError(
                f"{name} has missing labels; the first is in row {missing}"
            )
    elif kind == "f" and array.size and not np.isfinite(array.sum()):
        bad = ~np.isfinite(array)
        if bad.any():
            raise ValueError(
                f"{name} has missing or infinite labels; the first is in row "
                f"{int(np.argmax(bad))}"
            )
    elif kind in "cmMV":
        raise TypeError(f"{name} must be class labels; got dtype {array.dtype}")
    return array


def check_binary_labels(
    array: NDArray[Any], classes: NDArray[Any] | None = None, name: str = "y"
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """The two classes of checked labels, and which rows are of the second.

    Classes are sorted, or those given, of which one may be absent.
    """
    if classes is None:
        if not len(array):
            raise ValueError(f"{name} must have two classes; there are no rows")
        classes, positive = _two_classes(array, name)
    else:
        positive = _second(array, classes)
    if positive is None:
        row = int(np.argmax((array != classes[0]) & (array != classes[1])))
        first, second = plain_labels(classes)
        [other] = plain_labels(array[row : row + 1])
        raise ValueError(
            f"{name} must be one of the classes {first!r} and {second!r}; row {row} is "
            f"{other!r}"
        )
    return classes, positive


def distinct_labels(array: NDArray[Any], name: str) -> NDArray[Any]:
    """Distinct labels, sorted; continuous values raise an error."""
    if array.dtype.kind == "O":
        try:
            labels = sorted(set(array.tolist()))
        except TypeError:
            check_hashable(array, name)
            other = next(
                (
                    row
                    for row, value in enumerate(array)
                    if type(value) is not type(array[0])
                ),
                None,
            )
            if other is None:
                raise TypeError(
                    f"{name} must be labels that can be sorted; row 0 is {array[0]!r}"
                ) from None
            raise TypeError(
                f"{name} must be labels of one type; row 0 is {array[0]!r} and row "
                f"{other} is {array[other]!r}"
            ) from None
        if any(isinstance(label, CONTAINERS) for label in labels):
            check_hashable(array, name)
        found = np.empty(len(labels), dtype=object)
        found[:] = labels
    else:
        found = np.unique(array)
    if found.dtype.kind == "f" and np.any(found != np.floor(found)):
        row = int(np.argmax(array != np.floor(array)))
        raise ValueError(
            f"{name} must be class labels, not continuous values; row {row} is "
            f"{float(array[row])!r}"
        )
    return found


def check_hashable(values: Iterable[Any], name: str) -> None:
    """Check that labels are not lists, tuples or the like."""
    for row, value in enumerate(values):
        if isinstance(value, CONTAINERS) or not _is_hashable(value):
            raise TypeError(
                f"{name} must be labels, such as texts, numbers or booleans; row {row} "
                f"is {value!r}, a "
                f"{type(value).__name__}"
            )


def _is_hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _two_classes(
    array: NDArray[Any], name: str
) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
    if array.dtype.kind in "biuf":
        # Two passes instead of a sort, for the usual case.
        ends = np.array([array.min(), array.max()])
        if ends[0] != ends[1] and np.all(ends == np.floor(ends)):
            positive = _second(array, ends)
            if positive is not None:
                return ends, positive
    found = distinct_labels(array, name)
    if len(found) == 1:
        raise ValueError(
            f"{name} must have two classes; every row is {found.tolist()[0]!r}"
        )
    if len(found) > 2:
        shown = ", ".join(repr(value) for value in found[:5].tolist())
        raise ValueError(
            f"{name} must have two classes for one column of scores; got {len(found)}: "
            f"{shown}"
        )
    return found, _second(array, found)


def _second(array: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.bool_] | None:
    """Which labels are of the second class; None if one is of neither."""
    positive = np.empty(len(array), dtype=bool)
    for rows in chunks(len(array)):
        positive[rows] = array[rows] == classes[1]
        if not np.all(positive[rows] | (array[rows] == classes[0])):
            return None
    return positive


def check_two_classes(classes: Any) -> NDArray[Any]:
    """Validate a list of two classes."""
    array = np.asarray(classes)
    if array.shape != (2,) or array[0] == array[1]:
        raise ValueError(f"classes must be two different labels; got {classes!r}")
    return array
