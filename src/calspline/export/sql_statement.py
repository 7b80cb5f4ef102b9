"""What a calibrator computes as SQL: expressions over some columns in a dialect, and what segments add to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial, reduce, wraps
from operator import add
from typing import Any, ClassVar

import numpy as np

from calspline._expression import (
    Expression,
    Formula,
    Lookup,
    Pieces,
    Program,
    call,
    name,
    number,
)
from calspline._input.scores import ROW_SUM_TOLERANCE, SCORE_LIMITS, Kind
from calspline.export.dialects import (
    BLOCK,
    WIDTH,
    Dialect,
    comparisons,
    indented,
    numeral,
)
from calspline.export.syntax import Syntax
from calspline.maps.segmented import NEW
from calspline.maps.structured import SAFE_EXPONENT

Row = list[Expression]
"""A number for each class."""
LARGEST = float(np.finfo(np.float64).max)
MIN_EXPONENT = -SAFE_EXPONENT
"""Powers of what is less vanish, which PostgreSQL takes for an error."""
BREAK_IN_NAME = "\0"
"""Stands for a line break in a name or a string, which must not be indented: neither may hold it."""
LARGEST_INTEGER = 2**53
"""Integers below this are exact as doubles, and no other integer is read as one of them."""


def scoped(method: Callable[..., str]) -> Callable[..., str]:
    """A method that makes a text, with all that is bound meanwhile around it."""

    @wraps(method)
    def with_bindings(self: Statement, *arguments: Any) -> str:
        outer, self._bindings = self._bindings, []
        body = method(self, *arguments)
        for variable, value in reversed(self._bindings):
            body = self._writer.bind(variable, value, body)
        self._bindings = outer
        return body

    return with_bindings


class ListedRow(Row):
    """A row whose numbers are the items of a list, which has a name."""

    def __init__(self, list_name: str, length: int, first: int) -> None:
        super().__init__(name(f"{list_name}[{k + first}]") for k in range(length))
        self.list_name = list_name


class Statement:
    """Expressions over some columns in a dialect, with the columns of segments ``by``: without, all rows are new ones.

    The effects of segments are part of the expressions, or in a ``table`` (for each of
    several columns, one).
    """

    _most_compared: ClassVar[int] = 2 * BLOCK
    """Breaks that are compared one after the other, before looking them up pays."""

    def __init__(
        self,
        writer: Dialect,
        columns: Sequence[str],
        by: Sequence[str] = (),
        table: str | None = None,
    ) -> None:
        self._writer, self._by = writer, by
        self._tables = (
            [f"{table}{k + 1 if len(by) > 1 else ''}" for k in range(len(by))]
            if table
            else []
        )
        self._effects: dict[str, Row] = {}
        self._bindings: list[tuple[str, str]] = []
        self._columns = [
            writer.column.format(self._quoted(column)) for column in columns
        ]
        self._taken = {column.lower() for column in (*columns, *by)}
        self._syntax = Syntax(
            number=numeral,
            functions=writer.functions,
            choice=(
                "CASE WHEN {value} BETWEEN {low} AND {high} THEN {inside} "
                "ELSE {outside} END"
            ),
            cubic=self._cubic,
            width=WIDTH,
        )

    def write(self, formula: Formula) -> list[str]:
        """The probability of the second of two classes, or those of all classes."""
        p, valid = self._scores(formula.kind), self._valid(formula.kind)
        values = [self._class(formula, p, j) for j in range(len(p))]
        return [
            with_names(f"CASE WHEN {valid} THEN\n  {indented(value)}\nEND")
            for value in values
        ]

    @scoped
    def _class(self, formula: Formula, p: Row, j: int) -> str:
        """The probability of one of several classes, or that of the second of two, without a check of the scores."""
        self._find_effects(formula)
        if len(p) == 1:
            return self._two(formula.program, {"p": p[0]})
        return self._element(formula.program, j, self._bound("p", self._texts(p)))

    def _two(self, program: Program, known: dict[str, Expression]) -> str:
        """The value of two classes, where effects are joined in two ways: few rows, if any, are of new segments."""
        new = [key for key in program.names if key.startswith(NEW.format(""))]
        if not self._tables or self._writer.dot is None or not new:
            return self._value(program, known)
        tests = " AND ".join(
            f"{self._write(self._effects[key][0])} = 0" for key in sorted(new)
        )
        own = self._value(program.given(dict.fromkeys(new, 0.0)).blended(), known)
        return (
            f"CASE WHEN {tests} THEN\n  {indented(own)}\n"
            f"ELSE\n  {indented(self._value(program, known))}\nEND"
        )

    def effects(self, formula: Formula) -> tuple[list[str], str]:
        """What makes and fills the tables of effects, and what joins them."""
        made, joins = [], []
        for lookup, own, table in zip(
            formula.lookups, self._by, self._tables, strict=True
        ):
            value, labels = self._compared(lookup, own)
            numbers = {
                column: [*map(numeral, each[1:])] for _, column, each in _listed(lookup)
            }
            names = [
                self._writer.identifier(column)
                for column in (self._free("segment"), *numbers)
            ]
            text, double = self._writer.types
            kinds = [
                text if isinstance(lookup.labels[0], str) else double,
                *[double] * len(numbers),
            ]
            declared = ", ".join(
                f"{column} {kind}" for column, kind in zip(names, kinds, strict=True)
            )
            rows = [
                f"  ({', '.join(row)})"
                for row in zip(labels, *numbers.values(), strict=True)
            ]
            quoted = self._quoted(table)
            made += [
                f"CREATE TABLE {quoted} ({declared})",
                f"INSERT INTO {quoted} VALUES\n" + ",\n".join(rows),
            ]
            joins.append(f"LEFT JOIN {quoted} ON {quoted}.{names[0]} = {value}")
        return [with_names(text) for text in made], with_names("\n".join(joins))

    def _find_effects(self, formula: Formula) -> None:
        """Bind what effects the segments of a row have."""
        writer, lookups = self._writer, formula.lookups

        def joined(table: str, column: str, numbers: list[float]) -> Expression:
            return name(
                f"coalesce({self._quoted(table)}.{writer.identifier(column)}, "
                f"{numeral(numbers[0])})"
            )

        def at_place(
            place: Expression, column: str, numbers: list[float]
        ) -> Expression:
            return name(self._looked_up(numbers, place.value))

        if self._tables or not self._by:
            for k, lookup in enumerate(lookups):
                effect = (
                    partial(joined, self._tables[k])
                    if self._by
                    else lambda column, numbers: number(numbers[0])
                )
                self._know(lookup, effect)
            return
        known, places = self._free("known"), []
        for lookup, own in zip(lookups, self._by, strict=True):
            place = (
                f"coalesce({writer.position(*self._compared(lookup, own), known)}, 0)"
            )
            places.append(f"{place} + {writer.first}" if writer.first else place)
        # All at once, as DuckDB takes no subquery below a name that is bound.
        for lookup, found in zip(lookups, self._bound("s", places), strict=True):
            self._know(lookup, partial(at_place, found))

    def _know(
        self, lookup: Lookup, effect: Callable[[str, list[float]], Expression]
    ) -> None:
        """Let names of effects stand for something, given their column in a table and their numbers, in each class."""
        rows: dict[str, Row] = {}
        for key, column, numbers in _listed(lookup):
            rows.setdefault(key, []).append(effect(column, numbers))
        self._effects |= {
            key: row * len(self._columns) if len(row) == 1 else row
            for key, row in rows.items()
        }

    def _compared(self, lookup: Lookup, column: str) -> tuple[str, list[str]]:
        """A column of segments as it is compared with labels, and the labels.

        Labels are compared by value, and no text equals a number. A value that is of
        another type than the labels is an error of the database, as it is in Python.
        """
        writer, labels = self._writer, lookup.labels
        texts = [label for label in labels if isinstance(label, str)]
        if texts:
            if len(texts) < len(labels):
                raise ValueError(
                    "segments must be all texts or all numbers in SQL; column "
                    f"{column!r} has both"
                )
            if any("\0" in text for text in texts):
                raise ValueError(
                    "segments must not hold the character 0 in SQL; one of column "
                    f"{column!r} does"
                )
            fits, value, kind = writer.is_text, writer.as_text, "texts"
            listed = [
                writer.literal(text).replace("\n", BREAK_IN_NAME) for text in texts
            ]
        else:
            if any(abs(label) >= LARGEST_INTEGER for label in labels):
                raise ValueError(
                    "segments must be numbers below 2**53 in SQL; one of column "
                    f"{column!r} is larger"
                )
            fits, value, kind = writer.is_number, writer.as_number, "numbers"
            listed = [*map(numeral, labels)]
        quoted = self._quoted(column)
        error = writer.error(
            f"by must be {kind} as in the fit; column {{}} has others", column
        )
        error = f"CAST({error} AS {writer.types[0 if texts else 1]})".replace(
            "\n", BREAK_IN_NAME
        )
        own, other = f"WHEN {fits.format(quoted)}", f"WHEN {quoted} IS NOT NULL"
        return (
            f"CASE\n  {own}\n  THEN {value.format(quoted)}\n  {other}\n  THEN "
            f"{error}\nEND",
            listed,
        )

    def _quoted(self, identifier: str) -> str:
        return self._writer.identifier(identifier).replace("\n", BREAK_IN_NAME)

    def _scores(self, kind: Kind) -> Row:
        """The columns; probabilities without what rounding puts outside [0, 1]."""
        scores = [name(column) for column in self._columns]
        return (
            scores
            if kind == "margin"
            else [score.clipped(0.0, 1.0) for score in scores]
        )

    def _valid(self, kind: Kind) -> str:
        """Whether the columns hold scores."""
        limits = " AND ".join(map(numeral, SCORE_LIMITS[kind]))
        tests = [self._writer.within.format(column, limits) for column in self._columns]
        if len(tests) > 1 and kind == "probability":
            tests.append(
                f"abs({' + '.join(self._columns)} - 1) <= {numeral(ROW_SUM_TOLERANCE)}"
            )
        return "\n  AND ".join(tests)

    def _element(self, program: Program, j: int, p: Row) -> str:
        """Element ``j`` of what a program on rows makes of ``p``."""
        rows = {"p": p} | self._effects
        for k, (variable, value) in enumerate(program.steps):
            used = sum(
                _uses(formula, variable) for formula in program.formulas[k + 1 :]
            )
            given = (
                rows.get(value.arguments[0].value)
                if value.operation == "cubic"
                else None
            )
            if (
                isinstance(given, ListedRow) and self._writer.each is not None
            ):  # the same curve of all classes
                rows[variable] = self._listed_row(
                    variable, self._each(given, value), len(given)
                )
            elif used > 1 or value.operation in (
                "classes",
                "rest",
            ):  # which are texts, not formulas
                rows[variable] = self._bound(
                    variable, self._texts(self._row(value, rows))
                )
            else:
                rows[variable] = self._row(value, rows)
        return self._write(self._row(program.result, rows)[j])

    def _row(self, value: Expression, rows: dict[str, Row]) -> Row:
        """The row that a step makes."""
        if value.on_rows:
            return self._operation(
                value, [rows[argument.value] for argument in value.arguments]
            )

        def of_class(k: int) -> Expression:
            known = {key: each[k] for key, each in rows.items()}
            return value.given(known, lambda constant: number(constant.values[k]))

        return [of_class(k) for k in range(len(self._columns))]

    def _operation(self, value: Expression, rows: list[Row]) -> Row:
        """The same for an operation on rows."""
        y, operation = rows[0], value.operation
        top = call("max", *y)
        if operation == "centred":
            return [one - top for one in y]
        if operation == "normalise":
            return [one / reduce(add, y) for one in y]
        if operation == "softmax":
            e = self._bound("e", self._texts(_powers(y, top)))
            return [one / reduce(add, e) for one in e]
        if operation == "log_softmax":
            [top] = self._bound("top", [self._write(top)])
            [total] = self._bound(
                "total", [self._write(call("log", reduce(add, _powers(y, top))))]
            )
            return [one - top - total for one in y]
        if operation == "rest":
            return [name(self._rest(y, k)) for k in range(len(y))]
        if operation == "matrix":
            weighted = (
                [w * one for w, one in zip(row, y, strict=True) if w]
                for row in value.value.values
            )
            return [reduce(add, terms or [number(0.0)]) for terms in weighted]
        known = [
            dict(zip(("p", "rest"), each, strict=False))
            for each in zip(*rows, strict=True)
        ]
        for k, own in enumerate(known):
            own |= {key: row[k] for key, row in self._effects.items()}
        return [name(self._value(one, known[k])) for k, one in enumerate(value.value)]

    def _rest(self, p: Row, k: int) -> str:
        own = self._write(p[k])
        tests = [
            f"{own} {'>' if i < k else '>='} {self._write(one)}"
            for i, one in enumerate(p)
            if i != k
        ]
        others = self._write(reduce(add, [one for i, one in enumerate(p) if i != k]))
        return f"CASE WHEN {' AND '.join(tests)} THEN {others} ELSE 1e0 - {own} END"

    @scoped
    def _value(self, program: Program, known: dict[str, Expression]) -> str:
        """What a program on numbers makes of what is known: what it uses more than once is bound."""
        known = {key: row[0] for key, row in self._effects.items()} | known
        k = 0
        while k < len(program.steps):
            # Steps that do not need each other are bound together: SQLite bears few
            # subqueries in each other.
            alone: dict[str, Expression] = {}
            for variable, value in program.steps[k:]:
                if alone.keys() & set(value.names):
                    break
                alone[variable] = value.given(known)
            k += len(alone)
            uses = [used for formula in program.formulas[k:] for used in formula.names]
            # A curve and what segments add to it have the same pieces: the one that a
            # score lies in is found once.
            cubics = [
                variable
                for variable, value in alone.items()
                if value.operation == "cubic"
            ]
            curves = {}
            if len(cubics) > 1:
                first = alone[cubics[0]]
                i, t = self._in_piece(
                    self._write(first.value.place(first.arguments[0])), first.value
                )
                curves = {
                    variable: self._horner(alone[variable].value, i, t)
                    for variable in cubics
                }
            shared = [
                v for v in alone if v in curves or (uses.count(v) > 1 and self._effects)
            ]
            if shared:
                values = [
                    curves[v] if v in curves else self._write(alone[v]) for v in shared
                ]
                alone |= dict(zip(shared, self._bound(shared[0], values), strict=True))
            known |= alone
        return self._write(program.result.given(known))

    def _write(self, formula: Expression) -> str:
        return self._syntax.write(formula)

    def _texts(self, row: Row) -> list[str]:
        return [self._write(one) for one in row]

    def _bound(self, variable: str, values: list[str]) -> Row:
        """Names for the values."""
        if len(values) > 1 and self._writer.list is not None:
            items = "\n  " + indented(",\n".join(values)) + "\n"
            return self._listed_row(
                variable, self._writer.list.format(items), len(values)
            )
        variable = self._free(variable)
        columns = (
            [f"{variable}{k + 1}" for k in range(len(values))]
            if len(values) > 1
            else [variable]
        )
        named = [
            f"{indented(value)} AS {column}"
            for value, column in zip(values[:-1], columns, strict=False)
        ]
        self._bindings.append(
            (
                columns[-1],
                ",\n  ".join([*named, indented(values[-1]) if named else values[-1]]),
            )
        )
        return [name(column) for column in columns]

    def _listed_row(self, variable: str, values: str, length: int) -> Row:
        """The items of a list of values."""
        variable = self._free(variable)
        self._bindings.append((variable, values))
        return ListedRow(variable, length, self._writer.first)

    def _each(self, row: ListedRow, curve: Expression) -> str:
        """The list of what a curve makes of each number of a row."""
        x, pieces = self._free("x"), curve.value
        assert self._writer.each is not None
        return self._writer.each(
            row.list_name, x, self._cubic(self._write(pieces.place(name(x))), pieces)
        )

    def _free(self, variable: str) -> str:
        """A name like this that is none of the columns: a bound name would hide them."""
        while any(column.startswith(variable) for column in self._taken):
            variable += "_"
        return variable

    @scoped
    def _cubic(self, z: str, pieces: Pieces, *weights: str) -> str:
        w = self._bound("w", [self._list(weights)])[0].value if weights else ""
        return self._horner(pieces, *self._in_piece(z, pieces), w)

    def _in_piece(self, z: str, pieces: Pieces) -> tuple[str, str]:
        """The index of the piece that ``z`` lies in, and the distance from its start."""
        if (
            not z.isidentifier()
        ):  # DuckDB takes twice as long to plan for every name bound within another
            z = self._bound("z", [z])[0].value
        i = self._found(z, pieces.breaks)
        return i, self._bound("t", [f"{z} - {self._looked_up(pieces.starts, i)}"])[
            0
        ].value

    def _horner(self, pieces: Pieces, i: str, t: str, weights: str = "") -> str:
        """A cubic of the distance, with coefficients by index; of lines there are two to look up instead of four."""
        found = [
            self._looked_up(column, i)
            for column in (pieces.columns if pieces.bent else pieces.columns[2:])
        ]
        if weights:
            found = [str(self._writer.dot).format(weights, each) for each in found]
        return reduce(lambda value, each: f"({value}) * {t} + {each}", found)

    def _found(self, z: str, breaks: list[float]) -> str:
        """The index of the piece that ``z`` lies in.

        Of many breaks some are compared first, and those between them are halved by
        looking one up at a time.
        """
        writer = self._writer
        if writer.index or writer.list is None or len(breaks) <= self._most_compared:
            numerals = [numeral(value) for value in breaks]
            index = (
                writer.index(z, numerals)
                if writer.index
                else comparisons(z, numerals, writer.first)
            )
            return str(self._bound("i", [index])[0].value)
        step = 1 << (len(breaks) // (self._most_compared + 1)).bit_length()
        padded = [*breaks, *[LARGEST] * (-(len(breaks) + 1) % step)]
        value, suffix = (
            comparisons(z, [numeral(each) for each in padded[step - 1 :: step]], 0),
            "",
        )
        while True:
            i = self._bound(f"i{suffix}", [value])[0].value
            at = f"{i} + {writer.first}" if writer.first else i
            if step == 1:
                return str(at)
            step //= 2
            middle = self._looked_up(padded[step - 1 :: 2 * step], at)
            value, suffix = (
                f"2 * {i} + CASE WHEN {z} < {middle} THEN 0 ELSE 1 END",
                str(step),
            )

    def _looked_up(self, values: list[Any], i: str) -> str:
        """The number at an index, or the list of numbers."""
        items = [
            self._list(map(numeral, value))
            if isinstance(value, list)
            else numeral(value)
            for value in values
        ]
        return self._writer.array(items, i)

    def _list(self, items: Iterable[str]) -> str:
        return str(self._writer.list).format(", ".join(items))


def _powers(y: Row, top: Expression) -> Row:
    return [call("exp", call("max", one - top, MIN_EXPONENT)) for one in y]


def _uses(formula: Expression, variable: str) -> int:
    """How often a formula uses a row; an operation on rows may use it any number of times."""
    return formula.names.count(variable) * (2 if formula.on_rows else 1)


def _listed(lookup: Lookup) -> Iterator[tuple[str, str, list[float]]]:
    """Names of effects with a column's name and the numbers, for each class or for all; those of new segments first."""
    for key, each in lookup.numbers.items():
        lists = np.roll(each, 1, axis=0).reshape(len(each), -1).T.tolist()
        for j, numbers in enumerate(lists):
            yield key, key if len(lists) == 1 else f"{key}_{j}", numbers


def with_names(text: str) -> str:
    """A finished text with the line breaks of names back in it."""
    return text.replace(BREAK_IN_NAME, "\n")
