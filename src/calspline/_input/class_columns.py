"""Assignment of columns of scores to classes.

Names of columns take precedence over positions. :func:`order_columns` and
:func:`classes_of_columns` are the only rule for it: for arrays and frames, calibrators,
histograms, evaluation, engines and the command line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calspline._formatting import first_few, short_list
from calspline._input.hints import warn_of_unnamed_columns
from calspline._input.labels import (
    WHOLE,
    by_value,
    distinct_labels,
    label_array,
    plain_labels,
)

USUAL_PREFIX = re.compile(r"(p|prob|proba|probability)_(.+)", re.IGNORECASE)


def column_names(scores: Any, n_dimensions: int) -> list[Any] | None:
    """Names of the columns of a data frame; None if there are none.

    The default integer names of pandas do not count as names.
    """
    if n_dimensions != 2 or isinstance(scores, (np.ndarray, list, tuple)):
        return None
    if hasattr(scores, "columns") and hasattr(scores, "iloc"):
        index = scores.columns
        # DataFrame({1: p, 0: q}) has a RangeIndex, too, which counts.
        is_range = type(index).__name__ == "RangeIndex"
        if is_range and index.start == 0 and index.step == 1:
            return None
        return [
            name_as_text(name) if isinstance(name, tuple) else name for name in index
        ]
    import narwhals as nw

    frame = nw.from_native(scores, eager_only=True, pass_through=True)
    return list(frame.columns) if isinstance(frame, nw.DataFrame) else None


def name_as_text(name: Any) -> str:
    """Name of a column as a string; for several levels, ``("p", 1)`` is ``p_1``."""
    if isinstance(name, tuple):
        return "_".join(str(level) for level in name if level != "")
    return str(name)


def order_columns(
    names: Sequence[Any] | None,
    classes: Sequence[Any] | NDArray[Any],
    name: str = "scores",
    *,
    known: bool = False,
) -> list[int] | None:
    """Index of each class's column, by name; None if the order is that of the classes.

    A name is that of a class if it is the same by value, or ends so: ``dog``,
    ``prob_dog``, ``model.dog``; 1, ``"1"``, ``"p_1.0"``. Names of some classes and not
    of others are an error. If no name is that of a class, a warning says which column
    is taken for which, unless the classes are the places 0 to m-1, or the order is
    ``known``, from a user.
    """
    listed = _given_names(names)
    classes = list(classes)
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
    if not (
        known or [by_value(value) for value in classes] == list(range(len(classes)))
    ):
        warn_of_unnamed_columns(name, listed, classes)
    return None


COLUMN_ADVICE = (
    "Name the columns after the classes, as pandas.DataFrame(scores, columns=labels) "
    "does; evaluate, compare and reliability also take labels=[...]"
)


def classes_of_columns(
    found: NDArray[Any],
    names: Sequence[Any] | None,
    n_columns: int,
    name: str = "y",
    *,
    beside: str = "scores",
    advice: str = COLUMN_ADVICE,
) -> NDArray[Any]:
    """Classes of three or more columns, sorted, given the distinct labels of the rows.

    Columns that are named after classes have these, whether rows show them or not. Else
    integers from 0 to m-1, 0 among them, name columns; labels of any other kind must
    show as many classes as there are columns.
    """
    listed = _given_names(names)
    named = None if listed is None else _classes_named(found, listed)
    if named is not None:
        return named
    if listed is not None:
        _check_none_named(listed, found.tolist(), name=beside)
    if len(found) == n_columns:
        return found
    shown = first_few([repr(label) for label in found.tolist()])
    whole = found.dtype.kind in "iu" and found[0] >= 0
    # Without 0 they may as well count from 1. A single label, to be evaluated, is taken
    # at its word, unless it is 1.
    doubtful = whole and (found[0] == 1 or (found[0] > 1 and len(found) > 1))
    if whole and not doubtful and found[-1] < n_columns:
        return np.arange(n_columns, dtype=found.dtype)
    if doubtful and found[-1] <= n_columns:
        raise ValueError(
            f"{name} shows {len(found)} of the classes of {n_columns} columns, "
            f"{shown}, which may be those from 0 to "
            f"{n_columns - 1} or from 1 to {n_columns}. {advice}"
        )
    raise ValueError(
        f"{name} must show as many classes as {beside} has columns, or be integers "
        f"from 0 to {n_columns - 1}; "
        f"got {len(found)} classes for {n_columns} columns: {shown}. {advice}"
    )


def check_matrix_labels(
    array: NDArray[Any],
    n_columns: int,
    names: list[Any] | None,
    name: str = "y",
    *,
    beside: str = "scores",
    least: int = 2,
) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """The classes of the columns, and the place of each row's among them.

    Labels are checked. Some classes may be absent; see :func:`classes_of_columns`.
    """
    found = distinct_labels(array, name)
    if len(found) < least:
        raise ValueError(
            f"{name} must have at least two classes; every row is {found.tolist()[0]!r}"
        )
    classes = classes_of_columns(found, names, n_columns, name, beside=beside)
    return classes, np.searchsorted(classes, array)


def are_named_after_classes(names: Sequence[Any] | None, found: NDArray[Any]) -> bool:
    """Whether the columns have names that include all labels ``found``."""
    listed = _given_names(names)
    if listed is None or listed == list(range(len(listed))):
        return False
    return _classes_named(found, listed) is not None


def _given_names(names: Sequence[Any] | None) -> list[Any] | None:
    """Names, unless they are the default names of polars."""
    if names is None or list(names) == [f"column_{j}" for j in range(len(names))]:
        return None
    return list(names)


SEPARATORS = "_-.: "


def _readings(names: list[Any]) -> Iterator[list[Any]]:
    """Parts of names that may be classes: all, or without usual or common prefixes."""
    yield names
    if not all(isinstance(name, str) for name in names):
        return
    yield [
        match[2] if (match := USUAL_PREFIX.fullmatch(name)) else name for name in names
    ]
    first = names[0] if len(names) > 1 else ""
    for end in range(len(first), 0, -1):
        if first[end - 1] in SEPARATORS and all(
            name.startswith(first[:end]) for name in names
        ):
            yield [name[end:] for name in names]


def _classes_named(found: NDArray[Any], names: list[Any]) -> NDArray[Any] | None:
    """Classes given by the names, if all labels are among them."""
    labels = found.tolist()
    for key in (str, by_value):
        seen = {key(label): label for label in labels}
        for tails in _readings(names):
            by_key = {key(tail): tail for tail in tails}
            if (
                len(seen) == len(labels)
                and len(by_key) == len(names)
                and set(seen) <= set(by_key)
            ):
                classes = [
                    seen[one] if one in seen else _alike(tail, labels[0])
                    for one, tail in by_key.items()
                ]
                if None not in classes:
                    return label_array(sorted(classes), found.dtype)
    return None


def _alike(name: Any, label: Any) -> Any:
    """Convert a name to the type of the labels; None if that is impossible."""
    value = by_value(name)
    if isinstance(label, str):
        return name if isinstance(name, str) else str(value)
    if not isinstance(value, int) or (isinstance(label, bool) and value not in (0, 1)):
        return None
    if isinstance(label, (bool, int, float, Decimal)):
        return type(label)(value)
    return None


def _check_none_named(names: list[Any], classes: list[Any], name: str) -> None:
    """Check that either all names are those of classes, or none."""
    keys = {by_value(value) for value in classes}
    for tails in _readings(names):
        hits = [
            column
            for column, tail in zip(names, tails, strict=True)
            if by_value(tail) in keys
        ]
        if not hits:
            continue
        others = [column for column in names if column not in hits]
        if others:
            trouble = f"{others[0]!r} is not"
        else:
            trouble = "some of them after the same one, or not after every one"
        raise ValueError(
            f"the columns of {name} must be named after the classes, or none of them: "
            f"{hits[0]!r} is, {trouble}. "
            f"The columns are {short_list(names)}, and the classes "
            f"{short_list(plain_labels(classes))}. Rename the "
            "columns, or give an array whose columns are in the order of the classes"
        )


def _check_one_name(column: Any, classes: list[Any], name: str) -> None:
    """Check that a single column is not named after the first class."""
    if not isinstance(column, str) or WHOLE.fullmatch(column):
        return  # a number is as a rule a place
    tails = [tails[0] for tails in _readings([column])]
    first, second = map(by_value, classes)
    if first in map(by_value, tails) and second not in map(by_value, tails):
        shown = plain_labels(classes)
        raise ValueError(
            f"{name} in one column must be those of the class {shown[1]!r}; the column "
            f"{column!r} is named after "
            f"{shown[0]!r}. Give the other column, or both"
        )
