"""Segments in SQL: where a row's label is in a list of values, or a table of effects to join."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from calspline.export.dialects import Dialect, numeral
from calspline.expression import Expression, Formula, Lookup, name, number
from calspline.segments.labels import places_by_name

By = str | Sequence[str] | None

BREAK_IN_NAME = "\0"
"""Stands for a line break in a name or a string, which must not be indented: neither may hold it."""
LARGEST_INTEGER = 2**53
"""Integers up to this are exact as doubles."""


class JoinedSql(NamedTuple):
    """A calibrator with segments whose effects are in a table.

    ``create`` are the statements that make the table (for each column of segments, one), ``join`` goes after the FROM
    of the query with the scores, and ``expression`` (of several classes, a list) into its SELECT.
    """

    create: list[str]
    join: str
    expression: str | list[str]


@dataclass(frozen=True)
class Segments:
    """What columns of segments are called, and the table that effects are to be joined from, if any.

    Without columns, all rows are of new segments.
    """

    by: Sequence[str] = ()
    table: str | None = None

    @classmethod
    def of(cls, formula: Formula, by: By, table: str | None) -> Segments:
        """What a user asks for."""
        if table is not None and (by is None or not isinstance(table, str) or not table or "\0" in table):
            raise ValueError(f"table must be the name of a table, for a calibrator with by; got {table!r}")
        if (by is None) != (not formula.lookups):
            wanted = (
                "named: this calibrator was fitted with segments" if formula.lookups else "left out: this one was not"
            )
            raise ValueError(f"by, the columns of segments, must be {wanted}")
        return cls([] if by is None else [by] if isinstance(by, str) else list(by), table).checked(formula)

    def checked(self, formula: Formula) -> Segments:
        """The columns in the order of the fit."""
        if not formula.lookups or not self.by:
            return self
        for one in self.by:
            if not isinstance(one, str) or not one or "\0" in one:
                raise ValueError(f"by must be the name of a column, or a list of names; got {one!r}")
        order = places_by_name([lookup.column for lookup in formula.lookups], self.by)
        return Segments([self.by[place] for place in order], self.table)

    def table_names(self) -> list[str]:
        """A table for each column."""
        return [f"{self.table}{k + 1 if len(self.by) > 1 else ''}" for k in range(len(self.by))]


def compared(lookup: Lookup, column: str, writer: Dialect) -> tuple[str, list[str]]:
    """A column of segments as it is compared with labels, and the labels."""
    quoted = writer.identifier(column).replace("\n", BREAK_IN_NAME)
    labels = lookup.labels
    texts = [label for label in labels if isinstance(label, str)]
    if texts:
        if len(texts) < len(labels):
            raise ValueError(f"segments must be all texts or all numbers in SQL; column {column!r} has both")
        if any("\0" in text for text in texts):
            raise ValueError(f"segments must not hold the character 0 in SQL; one of column {column!r} does")
        return quoted, [writer.literal(text).replace("\n", BREAK_IN_NAME) for text in texts]
    if any(abs(label) > LARGEST_INTEGER for label in labels):
        raise ValueError(f"segments must be numbers up to 2**53 in SQL; one of column {column!r} is larger")
    if all(isinstance(label, bool) for label in labels):
        return f"CASE WHEN {quoted} THEN 1e0 WHEN NOT {quoted} THEN 0e0 END", [numeral(label) for label in labels]
    return writer.column.format(quoted), [numeral(label) for label in labels]


def place_of(lookup: Lookup, column: str, writer: Dialect, known: str) -> str:
    """The index of what a row's segment has in lists that begin with what new segments have.

    No column's name begins with ``known``.
    """
    value, labels = compared(lookup, column, writer)
    found = f"coalesce({writer.position(value, labels, known)}, 0)"
    return f"{found} + {writer.first}" if writer.first else found


def listed(lookup: Lookup) -> dict[str, list[list[float]]]:
    """Numbers by name, a list for each class, or one for all; that of new segments first."""
    found = {}
    for key, numbers in lookup.numbers.items():
        columns = np.roll(numbers, 1, axis=0).reshape(len(numbers), -1).T
        found[key] = columns.tolist()
    return found


def constants(lookup: Lookup, m: int) -> dict[str, list[Expression]]:
    """What new segments have, for each of ``m`` classes."""
    return {key: for_all([number(each[0]) for each in lists], m) for key, lists in listed(lookup).items()}


def joined(lookup: Lookup, table: str, writer: Dialect, m: int) -> dict[str, list[Expression]]:
    """The columns of a table of effects."""
    quoted = writer.identifier(table).replace("\n", BREAK_IN_NAME)
    found = {}
    for own, lists in listed(lookup).items():
        row = []
        for column, each in zip(_columns(own, len(lists)), lists, strict=True):
            row.append(name(f"coalesce({quoted}.{writer.identifier(column)}, {numeral(each[0])})"))
        found[own] = for_all(row, m)
    return found


def statements(lookup: Lookup, column: str, table: str, key: str, writer: Dialect) -> tuple[list[str], str]:
    """What makes and fills a table of effects, and what joins it."""
    value, labels = compared(lookup, column, writer)
    numbers = listed(lookup)
    columns = [each for own, lists in numbers.items() for each in _columns(own, len(lists))]
    texts = bool(lookup.labels) and isinstance(lookup.labels[0], str)
    kinds = [writer.types[0 if texts else 1], *[writer.types[1]] * len(columns)]
    names = [writer.identifier(each) for each in (key, *columns)]
    quoted = writer.identifier(table)
    declared = ", ".join(f"{one} {kind}" for one, kind in zip(names, kinds, strict=True))
    values = [each[1:] for lists in numbers.values() for each in lists]
    rows = [f"({', '.join([label, *map(numeral, row)])})" for label, *row in zip(labels, *values, strict=True)]
    create = f"CREATE TABLE {quoted} ({declared})"
    insert = f"INSERT INTO {quoted} VALUES\n" + ",\n".join(f"  {row}" for row in rows)
    join = f"LEFT JOIN {quoted} ON {quoted}.{names[0]} = {value}"
    return [create, with_names(insert)], with_names(join)


def _columns(own: str, count: int) -> list[str]:
    return [own] if count == 1 else [f"{own}_{j}" for j in range(count)]


def for_all(row: list[Expression], m: int) -> list[Expression]:
    """One for each of ``m`` classes, where one may be that of all."""
    return row if len(row) == m else row * m


def with_names(text: str) -> str:
    """A finished text with the line breaks of names back in it."""
    return text.replace(BREAK_IN_NAME, "\n")
