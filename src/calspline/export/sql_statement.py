"""What a calibrator computes as SQL: expressions over some columns in a dialect, and what segments add to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial, reduce
from operator import add
from typing import Any, ClassVar

import numpy as np

from calspline.export import Syntax
from calspline.export.dialects import BLOCK, WIDTH, Dialect, comparisons, indented, numeral
from calspline.expression import LEAST_SHARE, Expression, Formula, Lookup, Pieces, Program, call, name, number
from calspline.multiclass.structured_map import SAFE_EXPONENT
from calspline.scores import ROW_SUM_TOLERANCE, SCORE_LIMITS, Kind
from calspline.segments.curves import NEW

Row = list[Expression]
"""A number for each class."""
LARGEST = float(np.finfo(np.float64).max)
MIN_EXPONENT = -SAFE_EXPONENT
"""Powers of what is less vanish, which PostgreSQL takes for an error."""
BREAK_IN_NAME = "\0"
"""Stands for a line break in a name or a string, which must not be indented: neither may hold it."""
LARGEST_INTEGER = 2**53
"""Integers up to this are exact as doubles."""


class ListedRow(Row):
    """A row whose numbers are the items of a list, which has a name."""

    def __init__(self, list_name: str, length: int, first: int) -> None:
        super().__init__(name(f"{list_name}[{k + first}]") for k in range(length))
        self.list_name = list_name


class Statement:
    """Expressions over some columns in a dialect, with the columns of segments ``by``: without, all rows are new ones.

    The effects of segments are part of the expressions, or in a ``table`` (for each of several columns, one).
    """

    _most_compared: ClassVar[int] = 2 * BLOCK
    """Breaks that are compared one after the other, before looking them up pays."""

    def __init__(
        self, writer: Dialect, columns: Sequence[str], by: Sequence[str] = (), table: str | None = None
    ) -> None:
        self._writer, self._by = writer, by
        self._tables = [f"{table}{k + 1 if len(by) > 1 else ''}" for k in range(len(by))] if table else []
        self._effects: dict[str, Row] = {}
        self._columns = [writer.column.format(self._quoted(column)) for column in columns]
        self._taken = {column.lower() for column in (*columns, *by)}
        self._syntax = Syntax(
            number=numeral,
            functions=writer.functions,
            choice="CASE WHEN {value} BETWEEN {low} AND {high} THEN {inside} ELSE {outside} END",
            cubic=self._cubic,
            width=WIDTH,
        )

    def write(self, formula: Formula) -> list[str]:
        """The probability of the second of two classes, or those of all classes."""
        values, valid = self._values(formula, self._scores(formula.kind)), self._valid(formula.kind)
        return [with_names(f"CASE WHEN {valid} THEN\n  {indented(value)}\nEND") for value in values]

    def _values(self, formula: Formula, p: Row) -> list[str]:
        """The same without a check of the scores."""
        program, m = formula.program, len(formula.classes)
        if m == 2:
            return [self._in_segments(formula, lambda: self._two(program, {"p": p[0]}))]
        texts = self._texts(p)

        def of_class(j: int) -> str:
            return self._bound("p", texts, partial(self._element, program, j))

        return [self._in_segments(formula, partial(of_class, j)) for j in range(m)]

    def _two(self, program: Program, known: dict[str, Expression]) -> str:
        """The value of two classes, where effects are joined in two ways: few rows, if any, are of new segments."""
        new = [key for key in program.names if key.startswith(NEW.format(""))]
        if not self._tables or self._writer.dot is None or not new:
            return self._value(program, known)
        tests = " AND ".join(f"{self._write(self._effects[key][0])} = 0" for key in sorted(new))
        own = self._value(program.given(dict.fromkeys(new, 0.0)).blended(), known)
        return f"CASE WHEN {tests} THEN\n  {indented(own)}\nELSE\n  {indented(self._value(program, known))}\nEND"

    def effects(self, formula: Formula) -> tuple[list[str], str]:
        """What makes and fills the tables of effects, and what joins them."""
        made, joins = [], []
        for lookup, own, table in zip(formula.lookups, self._by, self._tables, strict=True):
            value, labels = self._compared(lookup, own)
            numbers = {column: [*map(numeral, each[1:])] for _, column, each in _listed(lookup)}
            names = [self._writer.identifier(column) for column in (self._free("segment"), *numbers)]
            text, double = self._writer.types
            kinds = [text if isinstance(lookup.labels[0], str) else double, *[double] * len(numbers)]
            declared = ", ".join(f"{column} {kind}" for column, kind in zip(names, kinds, strict=True))
            rows = [f"  ({', '.join(row)})" for row in zip(labels, *numbers.values(), strict=True)]
            quoted = self._quoted(table)
            made += [f"CREATE TABLE {quoted} ({declared})", f"INSERT INTO {quoted} VALUES\n" + ",\n".join(rows)]
            joins.append(f"LEFT JOIN {quoted} ON {quoted}.{names[0]} = {value}")
        return [with_names(text) for text in made], with_names("\n".join(joins))

    def _in_segments(self, formula: Formula, body: Callable[[], str]) -> str:
        """``body``, when it is known what effects the segments of a row have."""
        writer, lookups = self._writer, formula.lookups

        def joined(table: str, column: str, numbers: list[float]) -> Expression:
            return name(f"coalesce({self._quoted(table)}.{writer.identifier(column)}, {numeral(numbers[0])})")

        def at_place(place: Expression, column: str, numbers: list[float]) -> Expression:
            return name(self._looked_up(numbers, place.value))

        def found(places: Row) -> str:
            for lookup, place in zip(lookups, places, strict=True):
                self._know(lookup, partial(at_place, place))
            return body()

        if self._tables or not self._by:
            for k, lookup in enumerate(lookups):
                effect = partial(joined, self._tables[k]) if self._by else lambda column, numbers: number(numbers[0])
                self._know(lookup, effect)
            return body()
        known, places = self._free("known"), []
        for lookup, own in zip(lookups, self._by, strict=True):
            place = f"coalesce({writer.position(*self._compared(lookup, own), known)}, 0)"
            places.append(f"{place} + {writer.first}" if writer.first else place)
        # All at once, as DuckDB takes no subquery below a name that is bound.
        return self._bound("s", places, found)

    def _know(self, lookup: Lookup, effect: Callable[[str, list[float]], Expression]) -> None:
        """Let names of effects stand for something, given their column in a table and their numbers, in each class."""
        rows: dict[str, Row] = {}
        for key, column, numbers in _listed(lookup):
            rows.setdefault(key, []).append(effect(column, numbers))
        self._effects |= {key: row * len(self._columns) if len(row) == 1 else row for key, row in rows.items()}

    def _compared(self, lookup: Lookup, column: str) -> tuple[str, list[str]]:
        """A column of segments as it is compared with labels, and the labels."""
        quoted, labels = self._quoted(column), lookup.labels
        texts = [label for label in labels if isinstance(label, str)]
        if texts:
            if len(texts) < len(labels):
                raise ValueError(f"segments must be all texts or all numbers in SQL; column {column!r} has both")
            if any("\0" in text for text in texts):
                raise ValueError(f"segments must not hold the character 0 in SQL; one of column {column!r} does")
            return quoted, [self._writer.literal(text).replace("\n", BREAK_IN_NAME) for text in texts]
        if any(abs(label) > LARGEST_INTEGER for label in labels):
            raise ValueError(f"segments must be numbers up to 2**53 in SQL; one of column {column!r} is larger")
        if all(isinstance(label, bool) for label in labels):
            return f"CASE WHEN {quoted} THEN 1e0 WHEN NOT {quoted} THEN 0e0 END", [*map(numeral, labels)]
        return self._writer.column.format(quoted), [*map(numeral, labels)]

    def _quoted(self, identifier: str) -> str:
        return self._writer.identifier(identifier).replace("\n", BREAK_IN_NAME)

    def _scores(self, kind: Kind) -> Row:
        """The columns; probabilities without what rounding puts outside [0, 1]."""
        scores = [name(column) for column in self._columns]
        return scores if kind == "margin" else [score.clipped(0.0, 1.0) for score in scores]

    def _valid(self, kind: Kind) -> str:
        """Whether the columns hold scores."""
        limits = " AND ".join(map(numeral, SCORE_LIMITS[kind]))
        tests = [self._writer.within.format(column, limits) for column in self._columns]
        if len(tests) > 1 and kind == "probability":
            tests.append(f"abs({' + '.join(self._columns)} - 1) <= {numeral(ROW_SUM_TOLERANCE)}")
        return "\n  AND ".join(tests)

    def _element(self, program: Program, j: int, p: Row) -> str:
        """Element ``j`` of what a program on rows makes of ``p``."""
        formulas = program.formulas

        def step(k: int, rows: dict[str, Row]) -> str:
            if k == len(program.steps):
                return self._row(program.result, rows, lambda row: self._write(row[j]))
            variable, value = program.steps[k]
            used = sum(_uses(formula, variable) for formula in formulas[k + 1 :])
            shared = used > 1 or value.operation in ("classes", "rest", "top")  # which are texts, not formulas
            given = rows.get(value.arguments[0].value) if value.operation == "cubic" else None
            if isinstance(given, ListedRow) and self._writer.each is not None:  # the same curve of all classes
                return self._listed_row(
                    variable, self._each(given, value), len(given), lambda row: step(k + 1, rows | {variable: row})
                )

            def go_on(row: Row) -> str:
                if not shared:
                    return step(k + 1, rows | {variable: row})
                return self._bound(variable, self._texts(row), lambda row: step(k + 1, rows | {variable: row}))

            return self._row(value, rows, go_on)

        return step(0, {"p": p} | self._effects)

    def _row(self, value: Expression, rows: dict[str, Row], body: Callable[[Row], str]) -> str:
        """``body`` of the row that a step makes."""
        if value.on_rows:
            given = [rows[argument.value] for argument in value.arguments]
            return self._operation(value, given, body)

        def of_class(k: int) -> Expression:
            known = {key: each[k] for key, each in rows.items()}
            return value.given(known, lambda constant: number(constant.values[k]))

        return body([of_class(k) for k in range(len(self._columns))])

    def _operation(self, value: Expression, rows: list[Row], body: Callable[[Row], str]) -> str:
        """The same for an operation on rows."""
        y, operation = rows[0], value.operation
        top = call("max", *y)
        if operation == "centred":
            return body([one - top for one in y])
        if operation == "normalise":
            return body([one / reduce(add, y) for one in y])
        if operation == "softmax":
            powers = [call("exp", call("max", one - top, MIN_EXPONENT)) for one in y]
            return self._bound("e", self._texts(powers), lambda e: body([one / reduce(add, e) for one in e]))
        if operation == "log_softmax":
            return self._bound("top", [self._write(top)], lambda top: self._log_softmax(y, top[0], body))
        if operation == "rest":
            return body([name(self._rest(y, k)) for k in range(len(y))])
        if operation == "matrix":
            weighted = ([w * one for w, one in zip(row, y, strict=True) if w] for row in value.value.values)
            return body([reduce(add, terms or [number(0.0)]) for terms in weighted])
        if operation == "top":
            return self._top(value.value[0], y, body)
        known = [dict(zip(("p", "rest"), each, strict=False)) for each in zip(*rows, strict=True)]
        for k, own in enumerate(known):
            own |= {key: row[k] for key, row in self._effects.items()}
        return body([name(self._value(one, known[k])) for k, one in enumerate(value.value)])

    def _log_softmax(self, y: Row, top: Expression, body: Callable[[Row], str]) -> str:
        powers = [call("exp", call("max", one - top, MIN_EXPONENT)) for one in y]
        total = self._write(call("log", reduce(add, powers)))
        return self._bound("total", [total], lambda total: body([one - top - total[0] for one in y]))

    def _top(self, program: Program, y: Row, body: Callable[[Row], str]) -> str:
        """The largest of a row and its place, the sums of the others, what the program makes of them; then all."""
        shares = [call("max", one, LEAST_SHARE) for one in y]

        def others(row: Row, place: str) -> str:
            terms = (f"CASE WHEN {place} = {j} THEN 0e0 ELSE {self._write(one)} END" for j, one in enumerate(row))
            return " + ".join(terms)

        def found(most: Expression, place: str) -> str:
            sums = [others(y, place), others(shares, place)]
            return self._bound("rest", sums, lambda sums: valued(most, place, sums))

        def valued(most: Expression, place: str, sums: Row) -> str:
            q = self._value(program, {"p": most, "rest": sums[0]})
            return self._bound("q", [q], lambda q: body([shared(j, place, q[0], sums[1]) for j in range(len(y))]))

        def shared(j: int, place: str, q: Expression, total: Expression) -> Expression:
            part = self._write((1.0 - q) * (shares[j] / total))
            return name(f"CASE WHEN {place} = {j} THEN {self._write(q)} ELSE {part} END")

        def placed(most: Expression) -> str:
            tests = " ".join(f"WHEN {self._write(one)} >= {most.value} THEN {j}" for j, one in enumerate(y))
            return self._bound("place", [f"CASE {tests} END"], lambda place: found(most, place[0].value))

        return self._bound("most", [self._write(call("max", *y))], lambda most: placed(most[0]))

    def _rest(self, p: Row, k: int) -> str:
        own = self._write(p[k])
        tests = [f"{own} {'>' if i < k else '>='} {self._write(one)}" for i, one in enumerate(p) if i != k]
        others = self._write(reduce(add, [one for i, one in enumerate(p) if i != k]))
        return f"CASE WHEN {' AND '.join(tests)} THEN {others} ELSE 1e0 - {own} END"

    def _value(self, program: Program, known: dict[str, Expression]) -> str:
        """What a program on numbers makes of what is known: what it uses more than once is bound."""
        known = {key: row[0] for key, row in self._effects.items()} | known

        def step(k: int, known: dict[str, Expression]) -> str:
            if k == len(program.steps):
                return self._write(program.result.given(known))
            # Steps that do not need each other are bound together: SQLite bears few subqueries in each other.
            alone: dict[str, Expression] = {}
            for variable, value in program.steps[k:]:
                if alone.keys() & set(value.names):
                    break
                alone[variable] = value
            k += len(alone)
            uses = [used for formula in program.formulas[k:] for used in formula.names]
            texts = {variable: value.given(known) for variable, value in alone.items()}
            # A curve and what segments add to it have the same pieces: the one that a score lies in is found once.
            cubics = {variable: value for variable, value in texts.items() if value.operation == "cubic"}
            cubics = cubics if len(cubics) > 1 else {}
            shared = [v for v in alone if v in cubics or (uses.count(v) > 1 and self._effects)]
            if not shared:
                return step(k, known | texts)

            def bound(i: str = "", t: str = "") -> str:
                values = [self._horner(texts[v].value, i, t) if v in cubics else self._write(texts[v]) for v in shared]
                return self._bound(
                    shared[0], values, lambda names: step(k, known | texts | dict(zip(shared, names, strict=True)))
                )

            if not cubics:
                return bound()
            first = next(iter(cubics.values()))
            pieces = first.value
            return self._in_piece(self._write(pieces.place(first.arguments[0])), pieces, bound)

        return step(0, known)

    def _write(self, formula: Expression) -> str:
        return self._syntax.write(formula)

    def _texts(self, row: Row) -> list[str]:
        return [self._write(one) for one in row]

    def _bound(self, variable: str, values: list[str], body: Callable[[list[Expression]], str]) -> str:
        """``body`` of names for the values."""
        writer, variable = self._writer, self._free(variable)
        if len(values) == 1:
            return writer.bind(variable, values[0], body([name(variable)]))
        if writer.list is not None:
            items = "\n  " + indented(",\n".join(values)) + "\n"
            return self._listed_row(variable, writer.list.format(items), len(values), body)
        columns = [f"{variable}{k + 1}" for k in range(len(values))]
        listed = ",\n  ".join(f"{indented(value)} AS {column}" for value, column in zip(values, columns, strict=True))
        return writer.bind(columns[-1], listed.removesuffix(f" AS {columns[-1]}"), body([name(c) for c in columns]))

    def _listed_row(self, variable: str, values: str, length: int, body: Callable[[Row], str]) -> str:
        """``body`` of the items of a list of values."""
        variable = self._free(variable)
        return self._writer.bind(variable, values, body(ListedRow(variable, length, self._writer.first)))

    def _each(self, row: ListedRow, curve: Expression) -> str:
        """The list of what a curve makes of each number of a row."""
        x, pieces = self._free("x"), curve.value
        assert self._writer.each is not None
        return self._writer.each(row.list_name, x, self._cubic(self._write(pieces.place(name(x))), pieces))

    def _free(self, variable: str) -> str:
        """A name like this that is none of the columns: a bound name would hide them."""
        while any(column.startswith(variable) for column in self._taken):
            variable += "_"
        return variable

    def _cubic(self, z: str, pieces: Pieces, *weights: str) -> str:
        if not weights:
            return self._in_piece(z, pieces, partial(self._horner, pieces))
        w = self._free("w")
        return self._writer.bind(
            w, self._list(weights), self._in_piece(z, pieces, partial(self._horner, pieces, weights=w))
        )

    def _in_piece(self, z: str, pieces: Pieces, body: Callable[[str, str], str]) -> str:
        """``body`` of the index of the piece that ``z`` lies in, and of the distance from its start."""

        def find(z: str) -> str:
            return self._found(z, pieces.breaks, lambda i: step(z, i))

        def step(z: str, i: str) -> str:
            distance = f"{z} - {self._looked_up(pieces.starts, i)}"
            return self._bound("t", [distance], lambda t: body(i, t[0].value))

        # DuckDB takes twice as long to plan for every name bound within another.
        return find(z) if z.isidentifier() else self._bound("z", [z], lambda z: find(z[0].value))

    def _horner(self, pieces: Pieces, i: str, t: str, weights: str = "") -> str:
        """A cubic of the distance, with coefficients by index; of lines there are two to look up instead of four."""
        found = [self._looked_up(column, i) for column in (pieces.columns if pieces.bent else pieces.columns[2:])]
        if weights:
            found = [str(self._writer.dot).format(weights, each) for each in found]
        return reduce(lambda value, each: f"({value}) * {t} + {each}", found)

    def _found(self, z: str, breaks: list[float], body: Callable[[str], str]) -> str:
        """``body`` of the index of the piece that ``z`` lies in.

        Of many breaks some are compared first, and those between them are halved by looking one up at a time.
        """
        writer = self._writer
        if writer.index or writer.list is None or len(breaks) <= self._most_compared:
            numerals = [numeral(value) for value in breaks]
            index = writer.index(z, numerals) if writer.index else comparisons(z, numerals, writer.first)
            return self._bound("i", [index], lambda i: body(i[0].value))
        between = 1 << (len(breaks) // (self._most_compared + 1)).bit_length()
        padding = -(len(breaks) + 1) % between
        padded = [*breaks, *[LARGEST] * padding]

        def halved(i: str, step: int) -> str:
            at = f"{i} + {writer.first}" if writer.first else i
            if step == 0:
                return body(at)
            middle = self._looked_up(padded[step - 1 :: 2 * step], at)
            value = f"2 * {i} + CASE WHEN {z} < {middle} THEN 0 ELSE 1 END"
            return self._bound(f"i{step}", [value], lambda i: halved(i[0].value, step // 2))

        first = comparisons(z, [numeral(value) for value in padded[between - 1 :: between]], 0)
        return self._bound("i", [first], lambda i: halved(i[0].value, between // 2))

    def _looked_up(self, values: list[Any], i: str) -> str:
        """The number at an index, or the list of numbers."""
        items = [self._list(map(numeral, value)) if isinstance(value, list) else numeral(value) for value in values]
        return self._writer.array(items, i)

    def _list(self, items: Iterable[str]) -> str:
        return str(self._writer.list).format(", ".join(items))


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
