"""Data frames of any kind: their columns, and what the rows hold."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from calspline.labels import distinct_labels
from calspline.scores import LARGEST_MARGIN

Frame = nw.DataFrame[Any] | nw.LazyFrame[Any]

SHOWN = 5


def check_frame(frame: Any) -> Frame:
    """A data frame of any kind that narwhals knows."""
    try:
        known = nw.from_native(frame)
    except TypeError:
        known = None
    if not isinstance(known, (nw.DataFrame, nw.LazyFrame)):
        raise TypeError(
            "frame must be a data frame of pandas, polars, pyarrow, DuckDB, Dask, PySpark or ibis; "
            f"got {type(frame).__name__}"
        )
    return known


def check_column_list(names: Any, argument: str, schema: nw.Schema) -> list[str]:
    """Columns of numbers: one name, or a list of them."""
    if isinstance(names, str):
        listed = [names]
    elif isinstance(names, Sequence):
        listed = list(names)
    else:
        raise TypeError(f"{argument} must be the name of a column or a list of names; got {type(names).__name__}")
    if not listed:
        raise ValueError(f"{argument} must name at least one column; got an empty list")
    for name in listed:
        check_column(name, argument, schema)
        if not schema[name].is_numeric():
            raise TypeError(f"{argument} must be a column of numbers; {name!r} is of type {schema[name]}")
    if len(set(listed)) < len(listed):
        raise ValueError(f"{argument} must be different columns; got {listed!r}")
    return listed


def check_column(name: Any, argument: str, schema: nw.Schema) -> str:
    """The name of a column that the frame has."""
    if not isinstance(name, str):
        raise TypeError(f"{argument} must be the name of a column; got {type(name).__name__}")
    if name not in schema:
        names = list(schema)
        close = get_close_matches(name, names, n=1)
        hint = f"Did you mean {close[0]!r}?" if close else f"Its columns are {_shown(names)}."
        raise ValueError(f"{argument} must be a column of frame; there is no {name!r}. {hint}")
    return name


def check_new_columns(names: Sequence[str], argument: str, schema: nw.Schema) -> None:
    """Names that the frame does not have yet."""
    # In SQL names differ by more than upper and lower case.
    taken = {name.lower() for name in schema}
    for name in names:
        if name.lower() in taken:
            raise ValueError(f"{argument} must be a new column; frame already has {name!r}")


def names_in_class_order(names: list[str], classes: NDArray[Any]) -> list[str]:
    """Columns in the order of the classes, where they are named after them."""
    wanted = [str(value) for value in classes]
    return wanted if sorted(names) == sorted(wanted) else names


def check_frame_classes(labels: NDArray[Any], column: str, positive: Any) -> NDArray[Any]:
    """The two classes among distinct labels, the positive one last."""
    if labels.dtype.kind == "f" and np.any(labels != np.floor(labels)):
        odd = labels[labels != np.floor(labels)][0]
        raise ValueError(f"label must be classes, not continuous values; column {column!r} has {float(odd)!r}")
    found = distinct_labels(labels, "label")
    if len(found) != 2:
        shown = _shown(found.tolist())
        raise ValueError(f"label must have two classes for one score; column {column!r} has {len(found)}: {shown}")
    if positive is None:
        return found
    if not np.any(found == positive):
        raise ValueError(f"positive must be a label; column {column!r} has {_shown(found.tolist())}, not {positive!r}")
    return found if found[1] == positive else found[::-1].copy()


def check_score_range(low: float, high: float, columns: Sequence[str], *, probability: bool, advice: str) -> None:
    """Check that scores are finite, and probabilities if they have to be."""
    where = _shown(columns)
    for value in (low, high):
        if not np.isfinite(value):
            raise ValueError(f"score must be finite; column {where} has {value}")
        if probability and not 0.0 <= value <= 1.0:
            raise ValueError(f"score must be probabilities in [0, 1]; column {where} has {value:g}. {advice}")
        if abs(value) > LARGEST_MARGIN:
            raise ValueError(f"score must be at most {LARGEST_MARGIN:g} in size; column {where} has {value:g}")


def check_weight_range(low: float, high: float, column: str) -> None:
    """Check that weights are finite, not negative, and not all zero."""
    for value in (low, high):
        if not np.isfinite(value):
            raise ValueError(f"weight must be finite; column {column!r} has {value}")
    if low < 0.0:
        raise ValueError(f"weight must not be negative; column {column!r} has {low:g}")
    if high == 0.0:
        raise ValueError(f"weight must not be all zero; column {column!r} is")


def check_none_missing(counts: dict[str, int], rows: int) -> None:
    """Missing values are an error that counts them."""
    found = [f"{count} of {rows} in {name!r}" for name, count in counts.items() if count]
    if found:
        raise ValueError(
            f"frame must have no nulls or NaN in its columns; found {', '.join(found)}. To leave such rows out, use "
            'missing="drop".'
        )


def _shown(values: Sequence[Any]) -> str:
    more = "" if len(values) <= SHOWN else f" and {len(values) - SHOWN} more"
    return ", ".join(repr(value) for value in values[:SHOWN]) + more
