"""The effects of segments in SQL: in arrays of the expression, or in joined tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from calspline._expression import Expression, Lookup, name, number
from calspline.export.dialects import Dialect, numeral
from calspline.export.sql_steps import Steps

Effects = dict[str, list[Expression]]
"""A row for each effect, or one number that all classes share."""
LARGEST_INTEGER = 2**53
"""Integers below this are exact as doubles, and no other integer is read as one."""


def effects_of_new(lookups: Sequence[Lookup]) -> Effects:
    """The effects of segments that the fit has not seen."""
    effects: Effects = {}
    for lookup in lookups:
        for key, _, numbers in _listed(lookup):
            effects.setdefault(key, []).append(number(numbers[0]))
    return effects


def effects_in_arrays(
    dialect: Dialect, lookups: Sequence[Lookup], by: Sequence[str], steps: Steps
) -> Effects:
    """Effects in arrays, at the place of each row's segment; that of new ones is first.

    Labels are compared with a column of their own: comparing them with an expression
    takes DuckDB three times as long.
    """
    effects: Effects = {}
    for lookup, column in zip(lookups, by, strict=True):
        value, labels = _compared(dialect, lookup, column)
        known = f"{steps.prefix}known"
        place = f"coalesce({dialect.position(steps.add(value), labels, known)}, 0)"
        if dialect.first:
            place = f"{place} + {dialect.first}"
        index = steps.add(place)
        for key, _, numbers in _listed(lookup):
            found = dialect.array([*map(numeral, numbers)], index)
            effects.setdefault(key, []).append(name(found))
    return effects


def effects_in_tables(
    dialect: Dialect, lookups: Sequence[Lookup], tables: Sequence[str]
) -> Effects:
    """Effects in the tables that :func:`make_tables` makes."""
    effects: Effects = {}
    for lookup, table in zip(lookups, tables, strict=True):
        for key, column, numbers in _listed(lookup):
            place = f"{dialect.identifier(table)}.{dialect.identifier(column)}"
            found = f"coalesce({place}, {numeral(numbers[0])})"
            effects.setdefault(key, []).append(name(found))
    return effects


def make_tables(
    dialect: Dialect,
    lookups: Sequence[Lookup],
    by: Sequence[str],
    tables: Sequence[str],
    segment: str,
) -> tuple[list[str], list[str]]:
    """Statements that make and fill tables of effects, and joins with them.

    Labels are in the column ``segment``.
    """
    made, joins = [], []
    text, double = dialect.types
    for lookup, column, table in zip(lookups, by, tables, strict=True):
        value, labels = _compared(dialect, lookup, column)
        kinds = {segment: text if isinstance(lookup.labels[0], str) else double}
        listed = [labels]
        for _, effect, numbers in _listed(lookup):
            kinds[effect] = double
            listed.append([*map(numeral, numbers[1:])])
        declared = [f"{dialect.identifier(key)} {kind}" for key, kind in kinds.items()]
        rows = [f"  ({', '.join(row)})" for row in zip(*listed, strict=True)]
        quoted = dialect.identifier(table)
        made.append(f"CREATE TABLE {quoted} ({', '.join(declared)})")
        made.append(f"INSERT INTO {quoted} VALUES\n" + ",\n".join(rows))
        own = f"{quoted}.{dialect.identifier(segment)}"
        joins.append(f"LEFT JOIN {quoted} ON {own} = {value}")
    return made, joins


def _listed(lookup: Lookup) -> Iterator[tuple[str, str, list[float]]]:
    """Names of effects, of their columns, and numbers; those of new segments first."""
    for key, each in lookup.numbers.items():
        lists = np.roll(each, 1, axis=0).reshape(len(each), -1).T.tolist()
        for j, numbers in enumerate(lists):
            yield key, key if len(lists) == 1 else f"{key}_{j}", numbers


def _compared(dialect: Dialect, lookup: Lookup, column: str) -> tuple[str, list[str]]:
    """A column of segments as it is compared with labels, and the labels.

    Labels are compared by value, and no text equals a number. A value that is of
    another type than the labels is an error of the database, as it is in Python.
    """
    labels = lookup.labels
    has_texts = isinstance(labels[0], str)
    if any(isinstance(label, str) != has_texts for label in labels):
        raise ValueError(
            "segments must be all texts or all numbers in SQL; column "
            f"{column!r} has both"
        )
    if has_texts and any("\0" in label for label in labels):
        raise ValueError(
            "segments must not hold the character 0 in SQL; one of column "
            f"{column!r} does"
        )
    if not has_texts and any(abs(label) >= LARGEST_INTEGER for label in labels):
        raise ValueError(
            "segments must be numbers below 2**53 in SQL; one of column "
            f"{column!r} is larger"
        )
    if has_texts:
        is_same, value, kind = dialect.is_text, dialect.as_text, dialect.types[0]
        listed = [*map(dialect.literal, labels)]
    else:
        is_same, value, kind = dialect.is_number, dialect.as_number, dialect.types[1]
        listed = [*map(numeral, labels)]
    of_fit = "texts" if has_texts else "numbers"
    message = f"by must be {of_fit} as in the fit; column {{}} has others"
    quoted = dialect.identifier(column)
    return (
        f"CASE\n  WHEN {is_same.format(quoted)}\n  THEN {value.format(quoted)}\n"
        f"  WHEN {quoted} IS NOT NULL\n"
        f"  THEN CAST({dialect.error(message, column)} AS {kind})\nEND",
        listed,
    )
