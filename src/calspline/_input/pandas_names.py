"""Unique string names for columns of pandas frames with other names."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from calspline._formatting import short_list
from calspline._input.class_columns import name_as_text


def has_odd_names(frame: Any) -> bool:
    """Whether it is a pandas frame with column names that are not unique strings."""
    pandas = sys.modules.get("pandas")
    if pandas is None or not isinstance(frame, pandas.DataFrame):
        return False
    names = frame.columns
    return not (
        names.is_unique
        and names.nlevels == 1
        and all(isinstance(name, str) for name in names)
    )


def with_text_names(frame: Any, **arguments: Any) -> tuple[Any, dict[str, Any]]:
    """The named columns of a pandas frame under unique strings, and the new arguments.

    A name is compared by value, as pandas does: 1, 1.0 and ``numpy.int64(1)`` are the
    same, 1 and ``"1"`` are not. A tuple is the name of a column with several levels, or
    else several names.
    """
    places: dict[int, str] = {}
    for argument, given in arguments.items():
        for name in [] if given is None else listed(frame, given):
            place = place_of(frame, name, argument)
            if place not in places:
                places[place] = _unused(
                    name_as_text(frame.columns[place]), places.values()
                )
    found = frame.iloc[:, list(places)].set_axis(list(places.values()), axis=1)

    def text(name: Any, argument: str) -> str:
        return places[place_of(frame, name, argument)]

    renamed: dict[str, Any] = {}
    for argument, given in arguments.items():
        if given is None:
            renamed[argument] = None
        elif _is_name(frame, given):
            renamed[argument] = text(given, argument)
        else:
            renamed[argument] = [text(name, argument) for name in given]
    return found, renamed


def with_columns(frame: Any, added: dict[str, Any]) -> Any:
    """Add columns to a pandas frame; with several levels, only the first is named."""
    found = frame.copy(deep=False)
    levels = frame.columns.nlevels
    for name, values in added.items():
        found[name if levels == 1 else (name, *[""] * (levels - 1))] = values
    return found


def names_of(frame: Any) -> list[str]:
    """Names of a pandas frame's columns as strings.

    With several levels, names of the first level are included.
    """
    names = [name_as_text(name) for name in frame.columns]
    if frame.columns.nlevels > 1:
        return [*names, *map(str, frame.columns.get_level_values(0))]
    return names


def _is_name(frame: Any, given: Any) -> bool:
    """Whether it is a single name."""
    if isinstance(given, tuple):
        return given in list(frame.columns)
    return isinstance(given, str) or not isinstance(given, Sequence)


def listed(frame: Any, given: Any) -> list[Any]:
    """Names in an argument that is a name or a list of names."""
    return [given] if _is_name(frame, given) else list(given)


SHOWN = 5


def place_of(frame: Any, name: Any, argument: str, what: str = "frame") -> int:
    """Index of the unique column of a name."""
    places = [place for place, known in enumerate(frame.columns) if _same(known, name)]
    if not places:
        known = short_list(list(frame.columns), SHOWN)
        raise ValueError(
            f"{argument} must be a column of {what}; there is no {name!r}. Its columns "
            f"are {known}."
        )
    if len(places) > 1:
        raise ValueError(
            f"{argument} must be one column of {what}; {len(places)} columns are named "
            f"{name!r}. Rename all but one"
        )
    return places[0]


def _same(known: Any, name: Any) -> bool:
    return isinstance(known, tuple) == isinstance(name, tuple) and bool(known == name)


def _unused(name: str, taken: Any) -> str:
    while name in taken:
        name += "_"
    return name
