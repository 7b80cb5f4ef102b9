"""Labels, the classes they show, and which column of scores belongs to which class.

Columns are told by their names before their places. :func:`order_columns` and :func:`classes_of_columns` are the one
rule for it: of arrays and frames, calibrators, histograms, evaluation, engines and the command line.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calspline.arrays import Array, Counts, as_numpy, chunks, map_blocks
from calspline.formatting import short_list

NEVER_MISSING = {str, bytes, int, bool}
USUAL_PREFIX = re.compile(r"(p|prob|proba|probability)_(.+)", re.IGNORECASE)
SEPARATORS = "_-.: "
WHOLE = re.compile(r"[+-]?\d+(\.0*)?")
SHOWN = 6
MAX_LABELS = 1000
"""A column with more different values has no classes."""
CLEARLY = -4.0
"""Standard errors below chance, which chance reaches once in thirty thousand fits of scores that mean nothing."""
LARGEST_AUC, LARGEST_SHARE = 0.38, 0.9
"""Only an AUC below this, and top choices right less often than this share of chance, are worth a word."""
COLUMN_ADVICE = (
    "Name the columns after the classes, as pandas.DataFrame(scores, columns=labels) does; evaluate, compare and "
    "reliability also take labels=[...]"
)


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line that called into this package, however deep the call."""
    level, frame = 1, sys._getframe()
    while frame is not None and frame.f_globals.get("__name__", "").startswith("calspline."):
        level, frame = level + 1, frame.f_back  # type: ignore[assignment]
    warnings.warn(message, category, stacklevel=level)


def by_value(label: Any) -> int | str:
    """What a label, or the name of a column, says: 1, 1.0, "1", "1.0" and True are the same."""
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


def column_names(scores: Any, n_dimensions: int) -> list[Any] | None:
    """Names of the columns of a data frame; None for anything else, and for the numbers pandas gives to columns."""
    if n_dimensions != 2 or isinstance(scores, (np.ndarray, list, tuple)):
        return None
    if hasattr(scores, "columns") and hasattr(scores, "iloc"):
        index = scores.columns  # of pandas: DataFrame({1: p, 0: q}) has a RangeIndex, too, which counts
        default = type(index).__name__ == "RangeIndex" and index.start == 0 and index.step == 1
        return None if default else list(index)
    import narwhals as nw

    frame = nw.from_native(scores, eager_only=True, pass_through=True)
    return list(frame.columns) if isinstance(frame, nw.DataFrame) else None


def order_columns(
    names: Sequence[Any] | None, classes: Sequence[Any] | NDArray[Any], name: str = "scores", *, known: bool = False
) -> list[int] | None:
    """The place of each class's column, by the columns' names; None: the columns are in the order of the classes.

    A name is that of a class if it is the same by value, or ends so: ``dog``, ``prob_dog``, ``model.dog``; 1, ``"1"``,
    ``"p_1.0"``. Names of some classes and not of others are an error. If no name is that of a class, a warning says
    which column is taken for which, unless the classes are the places 0 to m-1, or the order is ``known``, from a user.
    """
    listed, classes = _given_names(names), list(classes)
    if listed is None:
        return None
    if len(listed) == 1 and len(classes) == 2:
        _check_one_name(listed[0], classes, name)
        return None
    if len(listed) != len(classes):
        return None  # which is an error elsewhere
    for key in (str, by_value):
        wanted = [key(value) for value in classes]
        for tails in _readings(listed):
            found = [key(tail) for tail in tails]
            if len(set(wanted)) == len(wanted) and set(found) == set(wanted):
                return [found.index(value) for value in wanted]
    _check_none_named(listed, classes, name)
    if not (known or [by_value(value) for value in classes] == list(range(len(classes)))):
        pairs = [f"{column!r} is {value!r}" for column, value in zip(listed, plain_labels(classes), strict=True)]
        warn_user(
            f"the columns of {name} are not named after the classes, and are taken in their order: {_first(pairs)}"
        )
    return None


def _first(shown: Sequence[str]) -> str:
    return ", ".join(shown[:SHOWN]) + (", ..." if len(shown) > SHOWN else "")


def classes_of_columns(
    found: NDArray[Any],
    names: Sequence[Any] | None,
    n_columns: int,
    name: str = "y",
    *,
    beside: str = "scores",
    advice: str = COLUMN_ADVICE,
) -> NDArray[Any]:
    """The classes of three or more columns, sorted, from the distinct labels that the rows show.

    Columns that are named after classes have these, whether rows show them or not. Else integers from 0 to m-1, 0
    among them, name columns; labels of any other kind must show as many classes as there are columns.
    """
    listed = _given_names(names)
    named = None if listed is None else _classes_named(found, listed)
    if named is not None:
        return named
    if listed is not None:
        _check_none_named(listed, found.tolist(), name=beside)
    if len(found) == n_columns:
        return found
    shown = _first([repr(label) for label in found.tolist()])
    whole = found.dtype.kind in "iu" and found[0] >= 0
    # Without 0 they may as well count from 1. A single label, to be evaluated, is taken at its word, unless it is 1.
    doubtful = whole and (found[0] == 1 or (found[0] > 1 and len(found) > 1))
    if whole and not doubtful and found[-1] < n_columns:
        return np.arange(n_columns, dtype=found.dtype)
    if doubtful and found[-1] <= n_columns:
        raise ValueError(
            f"{name} shows {len(found)} of the classes of {n_columns} columns, {shown}, which may be those from 0 to "
            f"{n_columns - 1} or from 1 to {n_columns}. {advice}"
        )
    raise ValueError(
        f"{name} must show as many classes as {beside} has columns, or be integers from 0 to {n_columns - 1}; "
        f"got {len(found)} classes for {n_columns} columns: {shown}. {advice}"
    )


def _given_names(names: Sequence[Any] | None) -> list[Any] | None:
    """Names, unless they are those that polars gives to columns without."""
    if names is None or list(names) == [f"column_{j}" for j in range(len(names))]:
        return None
    return list(names)


def _readings(names: list[Any]) -> Iterator[list[Any]]:
    """The parts of names that may name classes: all, what the usual prefixes leave, or what a common one leaves."""
    yield names
    if not all(isinstance(name, str) for name in names):
        return
    yield [match[2] if (match := USUAL_PREFIX.fullmatch(name)) else name for name in names]
    first = names[0] if len(names) > 1 else ""
    for end in range(len(first), 0, -1):
        if first[end - 1] in SEPARATORS and all(name.startswith(first[:end]) for name in names):
            yield [name[end:] for name in names]


def _classes_named(found: NDArray[Any], names: list[Any]) -> NDArray[Any] | None:
    """The classes that names name, if all labels are among them."""
    labels = found.tolist()
    for key in (str, by_value):
        seen = {key(label): label for label in labels}
        for tails in _readings(names):
            by_key = {key(tail): tail for tail in tails}
            if len(seen) == len(labels) and len(by_key) == len(names) and set(seen) <= set(by_key):
                classes = [seen[one] if one in seen else _alike(tail, labels[0]) for one, tail in by_key.items()]
                if None not in classes:
                    return label_array(sorted(classes), found.dtype)
    return None


def _alike(name: Any, label: Any) -> Any:
    """A name as a label of the type that others have; None if it is none."""
    value = by_value(name)
    if isinstance(label, str):
        return name if isinstance(name, str) else str(value)
    if not isinstance(value, int) or (isinstance(label, bool) and value not in (0, 1)):
        return None
    return type(label)(value) if isinstance(label, (bool, int, float, Decimal)) else None


def label_array(labels: list[Any], dtype: Any = None) -> NDArray[Any]:
    """Labels as numpy has them: of one type, or as objects. Decimals of a database are integers, or else floats."""
    if labels and all(isinstance(value, Decimal) for value in labels):
        whole = all(value == int(value) for value in labels)
        labels = [int(value) if whole else float(value) for value in labels]
    kinds = {type(value) for value in labels}
    if dtype is not None and np.dtype(dtype).kind in "biuf":
        return np.array(labels, dtype=dtype)
    if kinds <= {bool, int, float, str} and len(kinds) == 1 and (dtype is None or np.dtype(dtype).kind != "O"):
        return np.array(labels)
    array = np.empty(len(labels), dtype=object)
    array[:] = labels
    return array


def _check_none_named(names: list[Any], classes: list[Any], name: str) -> None:
    """Complain about names of which some, but not all, are those of classes."""
    keys = {by_value(value) for value in classes}
    for tails in _readings(names):
        hits = [column for column, tail in zip(names, tails, strict=True) if by_value(tail) in keys]
        if not hits:
            continue
        others = [column for column in names if column not in hits]
        trouble = f"{others[0]!r} is not" if others else "some of them after the same one, or not after every one"
        raise ValueError(
            f"the columns of {name} must be named after the classes, or none of them: {hits[0]!r} is, {trouble}. "
            f"The columns are {short_list(names)}, and the classes {short_list(plain_labels(classes))}. Rename the "
            "columns, or give an array whose columns are in the order of the classes"
        )


def _check_one_name(column: Any, classes: list[Any], name: str) -> None:
    """One column has the scores of the second class, so it must not be named after the first."""
    if not isinstance(column, str) or WHOLE.fullmatch(column):
        return  # a number is as a rule a place
    tails = [tails[0] for tails in _readings([column])]
    first, second = map(by_value, classes)
    if first in map(by_value, tails) and second not in map(by_value, tails):
        shown = plain_labels(classes)
        raise ValueError(
            f"{name} in one column must be those of the class {shown[1]!r}; the column {column!r} is named after "
            f"{shown[0]!r}. Give the other column, or both"
        )


def plain_labels(values: Iterable[Any]) -> list[Any]:
    """Labels as Python has them."""
    return [value.item() if isinstance(value, np.generic) else value for value in values]


def is_missing(value: Any) -> bool:
    """Whether a value stands for none: None, NaN, NA or NaT."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, (float, np.floating)) and bool(np.isnan(value))


def one_column(array: NDArray[Any], n: int, name: str, beside: str, given: type) -> NDArray[Any]:
    """An array, or its only column, of one dimension with ``n`` values, as many as ``beside`` has rows."""
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise ValueError(f"{name} must have one dimension; got {given.__name__} of shape {array.shape}")
    if len(array) != n:
        raise ValueError(f"{beside} and {name} must have the same length; got {n} and {len(array)}")
    return array


def check_label_array(y: Any, n: int, name: str = "y", *, beside: str = "scores") -> NDArray[Any]:
    """Labels as a one-dimensional array of ``n`` values, none missing."""
    if hasattr(y, "tocsr") and hasattr(y, "nnz"):
        raise TypeError(f"{name} must be dense; got a sparse {type(y).__name__}")
    try:
        array = as_numpy(y)
    except ValueError:
        raise ValueError(f"{name} must have one label a row") from None
    array = one_column(array, n, name, beside, type(y))
    kind = array.dtype.kind
    if kind == "O" and not set(map(type, array)) <= NEVER_MISSING:
        missing = next((row for row, value in enumerate(array) if is_missing(value)), None)
        if missing is not None:
            raise ValueError(f"{name} has missing labels; the first is in row {missing}")
    elif kind == "f" and array.size and not np.isfinite(array.sum()):
        bad = ~np.isfinite(array)
        if bad.any():
            raise ValueError(f"{name} has missing or infinite labels; the first is in row {int(np.argmax(bad))}")
    elif kind in "cmMV":
        raise TypeError(f"{name} must be class labels; got dtype {array.dtype}")
    return array


def check_groups(groups: Any, n: int, name: str = "groups", *, beside: str = "scores") -> NDArray[np.intp] | None:
    """The number of each row's group, from 0 and in sorted order; None stays None."""
    if groups is None:
        return None
    if isinstance(groups, list) or getattr(getattr(groups, "dtype", None), "kind", "") in ("M", "m"):
        groups = np.asarray(groups, dtype=object)
    array = check_label_array(groups, n, name, beside=beside)
    if array.dtype.kind == "O":
        values = array.tolist()
        try:
            order = {value: place for place, value in enumerate(sorted(set(values), key=_by_type))}
        except TypeError:
            raise TypeError(f"{name} must be one hashable value a row; row 0 is {values[0]!r}") from None
        array = np.array([order[value] for value in values], dtype=np.intp)
    return np.asarray(np.unique(array, return_inverse=True)[1], dtype=np.intp)


def _by_type(value: Any) -> tuple[Any, ...]:
    """Sorts numbers by size and the rest by type, so that 1 and "1" are two groups."""
    number = isinstance(value, (int, float, np.number))
    return ("", value) if number else (type(value).__name__, value if isinstance(value, str) else repr(value))


def several_groups(group: NDArray[np.intp] | None) -> NDArray[np.intp] | None:
    """The groups, of which there have to be two at least; None if each row is one of its own."""
    if group is None:
        return None
    n_groups = int(group.max()) + 1
    if n_groups < 2:  # one alone says nothing about how groups differ
        raise ValueError("groups must have at least two groups that count; all rows are of one")
    return group if n_groups < len(group) else None


def check_binary_labels(
    y: Any, n: int, classes: NDArray[Any] | None = None, name: str = "y"
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """The two classes, sorted or as given (then one may be absent), and which rows are of the second."""
    array = check_label_array(y, n, name)
    if classes is None:
        if n == 0:
            raise ValueError(f"{name} must have two classes; there are no rows")
        classes, positive = _two_classes(array, name)
    else:
        positive = _second(array, classes)
    if positive is None:
        row = int(np.argmax((array != classes[0]) & (array != classes[1])))
        raise ValueError(
            f"{name} must be one of the classes {classes[0]!r} and {classes[1]!r}; row {row} is {array[row]!r}"
        )
    return classes, positive


def check_matrix_labels(
    y: Any, n: int, n_columns: int, names: list[Any] | None, name: str = "y", *, beside: str = "scores", least: int = 2
) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """The class of every row and those of the columns, of which some may be absent; see :func:`classes_of_columns`."""
    array = check_label_array(y, n, name, beside=beside)
    found = distinct_labels(array, name)
    if len(found) < least:
        raise ValueError(f"{name} must have at least two classes; every row is {found.tolist()[0]!r}")
    classes = classes_of_columns(found, names, n_columns, name, beside=beside)
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


def _two_classes(array: NDArray[Any], name: str) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
    if array.dtype.kind in "biuf":
        # Two passes instead of a sort, for the usual case.
        ends = np.array([array.min(), array.max()])
        if ends[0] != ends[1] and np.all(ends == np.floor(ends)):
            positive = _second(array, ends)
            if positive is not None:
                return ends, positive
    found = distinct_labels(array, name)
    if len(found) == 1:
        raise ValueError(f"{name} must have two classes; every row is {found.tolist()[0]!r}")
    if len(found) > 2:
        shown = ", ".join(repr(value) for value in found[:5].tolist())
        raise ValueError(f"{name} must have two classes for one column of scores; got {len(found)}: {shown}")
    return found, _second(array, found)


def _second(array: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.bool_] | None:
    """Which labels are the second of two classes; None if one is neither."""
    positive = np.empty(len(array), dtype=bool)

    def mark(rows: slice) -> bool:
        positive[rows] = array[rows] == classes[1]
        return bool(np.all(positive[rows] | (array[rows] == classes[0])))

    return positive if all(map_blocks(mark, chunks(len(array)), len(array))) else None


def check_two_classes(classes: Any) -> NDArray[Any]:
    """Check a list of the two classes."""
    array = np.asarray(classes)
    if array.shape != (2,) or array[0] == array[1]:
        raise ValueError(f"classes must be two different labels; got {classes!r}")
    return array


def warn_if_reversed(counts: Counts, classes: NDArray[Any], design_effect: float = 1.0) -> None:
    """Warn if scores are clearly lower where the second class happened (the test of Mann and Whitney)."""
    n1, n0 = float(counts.positives.sum()), float(counts.negatives.sum())
    if not (n1 > 0.0 and n0 > 0.0):
        return
    below = np.cumsum(counts.negatives) - 0.5 * counts.negatives
    auc = float((counts.positives / n1) @ (below / n0))
    rows1, rows0 = n1 / design_effect, n0 / design_effect
    z = (auc - 0.5) / np.sqrt((rows1 + rows0 + 1.0) / (12.0 * rows1 * rows0))
    if auc < LARGEST_AUC and z < CLEARLY:
        first, second = classes.tolist()
        warn_user(
            f"scores are lower where the class is {second!r} (AUC {auc:.2f}): perhaps they are those of {first!r}, or "
            "the labels are reversed. They are calibrated as they are"
        )


def warn_if_rows_reversed(
    x: Array, positive: NDArray[np.bool_], weight: Array | None, classes: NDArray[Any], design_effect: float
) -> None:
    """The same for rows, which are sorted only if the means say so too."""
    w = np.ones(len(x)) if weight is None else weight
    with np.errstate(over="ignore", invalid="ignore"):
        means = [float(np.average(x[where], weights=w[where])) for where in (positive, ~positive) if where.any()]
    if len(means) == 2 and means[0] < means[1]:
        warn_if_reversed(Counts.from_rows(x, positive, weight), classes, design_effect)


def warn_if_columns_shuffled(
    values: NDArray[Any], codes: NDArray[np.intp], weight: Array | None, classes: NDArray[Any], design_effect: float
) -> None:
    """Warn if top choices are right clearly less often than if they had nothing to do with what happened."""
    top, m = values.argmax(axis=1), values.shape[1]
    w = np.full(len(top), 1.0 / len(top)) if weight is None else weight / weight.sum()
    right = float(w[top == codes].sum())
    chance = float(np.bincount(top, w, m) @ np.bincount(codes, w, m))
    rows = 1.0 / float(w @ w) / design_effect
    z = (right - chance) / np.sqrt(max(chance * (1.0 - chance), 1e-300) / rows)
    if right < LARGEST_SHARE * chance and z < CLEARLY:
        shown = _first([repr(label) for label in classes.tolist()])
        warn_user(
            f"the class of the largest score is right in {right:.1%} of the rows, less often than by chance "
            f"({chance:.1%}): perhaps the columns are in another order than the classes ({shown}). Columns of a data "
            "frame that are named after the classes are put in their order"
        )
