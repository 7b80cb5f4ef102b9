"""Labels and weights: one a row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calspline.arrays import Array
from calspline.scores import (
    BinaryScores,
    GivenScores,
    Kind,
    MatrixKind,
    MatrixScores,
    check_binary_scores,
    check_matrix_scores,
    check_numeric_array,
    check_scores,
    is_missing,
)

NEVER_MISSING = {str, bytes, int, bool}


def check_label_array(y: Any, n: int, name: str = "y", *, beside: str = "scores") -> NDArray[Any]:
    """Labels as a one-dimensional array of ``n`` values, as many as ``other`` has rows, none missing."""
    if hasattr(y, "tocsr") and hasattr(y, "nnz"):
        raise TypeError(f"{name} must be dense; got a sparse {type(y).__name__}")
    try:
        array = np.asarray(y)
    except ValueError:
        raise ValueError(f"{name} must have one label a row") from None
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise ValueError(f"{name} must have one dimension; got {type(y).__name__} of shape {array.shape}")
    if len(array) != n:
        raise ValueError(f"{beside} and {name} must have the same length; got {n} and {len(array)}")
    kind = array.dtype.kind
    if kind == "O":
        if not set(map(type, array)) <= NEVER_MISSING:
            for row, value in enumerate(array):
                if is_missing(value):
                    raise ValueError(f"{name} has missing labels; the first is in row {row}")
    elif kind == "f" and array.size and not np.isfinite(array.sum()):
        bad = ~np.isfinite(array)
        if bad.any():
            raise ValueError(f"{name} has missing or infinite labels; the first is in row {int(np.argmax(bad))}")
    elif kind in "cmMV":
        raise TypeError(f"{name} must be class labels; got dtype {array.dtype}")
    return array


def check_binary_labels(
    y: Any, n: int, classes: NDArray[Any] | None = None, name: str = "y"
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """The two classes, in sorted order, and which rows are of the second.

    With ``classes`` given the labels must be among them, and one may be absent.
    """
    array = check_label_array(y, n, name)
    if classes is None:
        if n == 0:
            raise ValueError(f"{name} must have two classes; there are no rows")
        classes = _two_classes(array, name)
    positive = np.asarray(array == classes[1])
    if not np.all(positive | (array == classes[0])):
        row = int(np.argmax(~(positive | (array == classes[0]))))
        raise ValueError(
            f"{name} must be one of the classes {classes[0]!r} and {classes[1]!r}; row {row} is {array[row]!r}"
        )
    return classes, positive


def check_matrix_labels(
    y: Any, n: int, n_columns: int, names: list[str] | None, name: str = "y", *, beside: str = "scores", least: int = 2
) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """The classes of a matrix of scores, one a column, and the class of every row.

    Integers from 0 to m-1 name columns, and so do strings that are names of a frame's
    columns: then a class may be absent from the rows. Labels of any other
    kind must show as many classes as there are columns, which are theirs in sorted order.
    """
    array = check_label_array(y, n, name, beside=beside)
    found = distinct_labels(array, name)
    if len(found) < least:
        raise ValueError(f"{name} must have at least two classes; every row is {found.tolist()[0]!r}")
    if found.dtype.kind in "iu" and found[0] >= 0 and found[-1] < n_columns:
        classes = np.arange(n_columns, dtype=found.dtype)
    elif names is not None and len(set(names)) == n_columns and set(map(str, found)) <= set(names):
        classes = np.array(sorted(names), dtype=found.dtype if found.dtype.kind == "O" else None)
        array = array.astype(classes.dtype)
    elif len(found) == n_columns:
        classes = found
    else:
        raise ValueError(
            f"{name} must show as many classes as {beside} has columns, or be integers from 0 to {n_columns - 1}; "
            f"got {len(found)} classes for {n_columns} columns"
        )
    return classes, np.searchsorted(classes, array)


def distinct_labels(array: NDArray[Any], name: str) -> NDArray[Any]:
    """Distinct labels, sorted; continuous values are an error."""
    if array.dtype.kind == "O":
        try:
            labels = sorted(set(array.tolist()))
        except TypeError:
            other = next(row for row, value in enumerate(array) if type(value) is not type(array[0]))
            raise TypeError(
                f"{name} must be labels of one type; row 0 is {array[0]!r} and row {other} is {array[other]!r}"
            ) from None
        found = np.empty(len(labels), dtype=object)
        found[:] = labels
    else:
        found = np.unique(array)
    if found.dtype.kind == "f" and np.any(found != np.floor(found)):
        row = int(np.argmax(array != np.floor(array)))
        raise ValueError(f"{name} must be class labels, not continuous values; row {row} is {float(array[row])!r}")
    return found


def _two_classes(array: NDArray[Any], name: str) -> NDArray[Any]:
    found = None
    if array.dtype.kind in "biuf":
        # Two passes instead of a sort, for the usual case.
        ends = np.array([array.min(), array.max()])
        if ends[0] != ends[1] and np.all((array == ends[0]) | (array == ends[1])):
            found = distinct_labels(ends, name) if np.all(ends == np.floor(ends)) else None
    if found is None:
        found = distinct_labels(array, name)
    if len(found) == 1:
        raise ValueError(f"{name} must have two classes; every row is {found.tolist()[0]!r}")
    if len(found) > 2:
        shown = ", ".join(repr(value) for value in found[:5].tolist())
        raise ValueError(f"{name} must have two classes for one column of scores; got {len(found)}: {shown}")
    return found


def check_weights(
    sample_weight: Any, n: int, name: str = "sample_weight", *, some: bool = True, beside: str = "scores"
) -> Array | None:
    """Weights as float64, finite, not negative, ``some`` of them positive; None stays None."""
    if sample_weight is None:
        return None
    array = check_numeric_array(sample_weight, name)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise ValueError(f"{name} must have one dimension; got shape {array.shape}")
    if len(array) != n:
        raise ValueError(f"{beside} and {name} must have the same length; got {n} and {len(array)}")
    if array.size and array.min() < 0.0:
        row = int(np.argmax(array < 0.0))
        raise ValueError(f"{name} must not be negative; row {row} is {array[row]:g}")
    if some and array.size and array.max() == 0.0:
        raise ValueError(f"{name} must not be all zero")
    if array.size and not np.isfinite(float(array.max()) * len(array)):
        raise ValueError(f"{name} must have a finite sum; the largest is {array.max():g}")
    return array


def check_two_classes(classes: Any) -> NDArray[Any]:
    """Check a list of the two classes."""
    array = np.asarray(classes)
    if array.shape != (2,) or array[0] == array[1]:
        raise ValueError(f"classes must be two different labels; got {classes!r}")
    return array


@dataclass(frozen=True)
class LabelledRows:
    """Scores, labels and weights that go together; rows of weight zero are gone."""

    scores: GivenScores
    labels: NDArray[Any]
    weight: Array | None


def check_rows(scores: Any, y: Any, sample_weight: Any) -> LabelledRows:
    """Check what a calibrator is fitted on: at least two rows that count."""
    given = check_scores(scores)
    weight = check_weights(sample_weight, len(given))
    labels = check_label_array(y, len(given))
    if weight is not None and weight.size and weight.min() == 0.0:
        present = weight > 0.0
        given, labels, weight = given.of(present), labels[present], weight[present]
    if len(given) < 2:
        raise ValueError(f"scores must have at least two rows, of different classes; got {len(given)}")
    return LabelledRows(given, labels, weight)


@dataclass(frozen=True)
class TrainingRows:
    """What a calibrator learns from: scores of a known kind, the class of every row, and weights."""

    scores: BinaryScores | MatrixScores
    classes: NDArray[Any]
    codes: NDArray[np.intp]
    weight: Array | None


def check_training_rows(scores: Any, y: Any, sample_weight: Any, *, kind: MatrixKind, advice: str) -> TrainingRows:
    """Check what a calibrator is fitted on, and take its scores for probabilities or for margins.

    In one or two columns, ``"either"`` means margins.
    """
    rows = check_rows(scores, y, sample_weight)
    n, m = len(rows.labels), rows.scores.n_columns
    if m > 2:
        classes, codes = check_matrix_labels(rows.labels, n, m, rows.scores.names)
        matrix = check_matrix_scores(rows.scores.in_class_order(classes), kind=kind, advice=advice)
        return TrainingRows(matrix, classes, codes, rows.weight)
    classes, positive = check_binary_labels(rows.labels, n)
    wanted: Kind | None = None if kind == "auto" else "probability" if kind == "probability" else "margin"
    binary = check_binary_scores(
        rows.scores.in_class_order(classes),
        kind=wanted,
        difference=True if rows.scores.margins else None,
        advice=advice,
    )
    return TrainingRows(binary, classes, positive.astype(np.intp), rows.weight)
