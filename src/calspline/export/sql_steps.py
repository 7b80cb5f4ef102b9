"""The formula of a calibrator as steps of SQL, and the three ways to write steps.

A :class:`StepWriter` turns a formula into columns of numbers, each of which may use the
ones before. What is used once is written where it is used; what is used more often
becomes a column. Operations on rows are written out, class by class. The engine then
computes every column once, wherever the steps are written:

- as common table expressions in a subquery, which is an expression;
- as lambdas over lists of one item, where engines are slow with such subqueries;
- as lateral joins, or one projection over the other (:mod:`calspline.engines`), where
  the query around is ours to write. Nothing else is as fast.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import add

import numpy as np

from calspline._expression import (
    Expression,
    Formula,
    Pieces,
    Program,
    call,
    name,
    number,
)
from calspline._input.scores import ROW_SUM_TOLERANCE, SCORE_LIMITS, Kind
from calspline.export.dialects import WIDTH, Dialect, Lambdas, comparisons, numeral
from calspline.maps.structured import SAFE_EXPONENT

Row = list[Expression]
"""A number for each class."""
LARGEST = float(np.finfo(np.float64).max)
STRENGTH = {"+": 1, "-": 1, "*": 2, "/": 2, "negative": 3}
"""How strongly operators hold their operands together."""
ATOM = 4


@dataclass
class Steps:
    """Columns to compute, stage by stage; those of a stage use columns of earlier ones.

    All of their names begin with ``prefix``.
    """

    prefix: str
    stages: list[dict[str, str]] = field(default_factory=list)
    _names: dict[str, str] = field(default_factory=dict)
    _stage_of: dict[str, int] = field(default_factory=dict)

    def add(self, value: str) -> str:
        """The column of a value, in the first stage that can have it."""
        if value in self._stage_of:
            return value
        if value not in self._names:
            column = f"{self.prefix}{len(self._names)}"
            used = re.findall(rf"\b{self.prefix}\d+\b", value)
            stage = 1 + max((self._stage_of[each] for each in used), default=-1)
            if stage == len(self.stages):
                self.stages.append({})
            self.stages[stage][column] = value
            self._names[value] = column
            self._stage_of[column] = stage
        return self._names[value]

    def as_expressions(
        self, results: list[str], dialect: Dialect, *, is_short: bool
    ) -> list[str]:
        """Expressions that hold all steps; short ones have few, and no segments."""
        lambdas = dialect.lambdas
        if lambdas is None or (lambdas.or_subqueries and not is_short):
            return self._as_subqueries(results, dialect.barrier)
        return self._as_lambdas(results, lambdas)

    def _as_subqueries(self, results: list[str], barrier: str) -> list[str]:
        if not self.stages:
            return results
        tables = []
        source = ""
        for k, stage in enumerate(self.stages):
            selected = f"*,\n{_selected(stage)}" if k else _selected(stage)
            table = f"{self.prefix}of_{k}"
            tables.append(f"{table} AS (\nSELECT {selected}{source}\n{barrier})")
            source = f"\nFROM {table}"
        listed = ",\n".join(tables)
        return [f"(\nWITH {listed}\nSELECT {each}{source}\n)" for each in results]

    def _as_lambdas(self, results: list[str], lambdas: Lambdas) -> list[str]:
        """Expressions that bind a variable for each stage, or for each column.

        Those of several results are one, and engines evaluate equal expressions once.
        """
        groups = self.stages
        if len(self._names) <= lambdas.most:
            # The first stage may have subqueries, which lambdas must not have in them.
            later = [stage.items() for stage in self.stages[1:]]
            groups = [*self.stages[:1], *({c: v} for items in later for c, v in items)]
        variables = {}
        for k, group in enumerate(groups):
            for column in group:
                variable = f"{self.prefix}of_{k}.{column}"
                variables[column] = variable if len(group) > 1 else column

        def with_variables(text: str) -> str:
            found = rf"\b{self.prefix}\d+\b"
            return re.sub(found, lambda match: variables[match.group()], text)

        keys = [f"{self.prefix}result_{j}" for j in range(len(results))]
        text = results[0]
        if len(results) > 1:
            text = lambdas.struct(dict(zip(keys, results, strict=True)))
        text = with_variables(text)
        for k, group in reversed([*enumerate(groups)]):
            values = {column: with_variables(group[column]) for column in group}
            if len(group) > 1:
                variable, value = f"{self.prefix}of_{k}", lambdas.struct(values)
            else:
                [(variable, value)] = values.items()
            text = lambdas.bind(variable, value, text)
        return [f"{text}.{key}" for key in keys] if len(results) > 1 else [text]

    def as_joins(self, barrier: str) -> list[str]:
        """A lateral join for each stage."""
        return [
            f"CROSS JOIN LATERAL (\nSELECT {_selected(stage)}\n{barrier}) "
            f"AS {self.prefix}of_{k}"
            for k, stage in enumerate(self.stages)
        ]


def _selected(stage: dict[str, str]) -> str:
    return ",\n".join(f"{value} AS {column}" for column, value in stage.items())


class StepWriter:
    """Write formulas as steps over columns of scores.

    ``effects`` has the effects of segments by name, a row of them or a single one.
    """

    def __init__(self, dialect: Dialect, steps: Steps, effects: dict[str, Row]) -> None:
        self._dialect = dialect
        self._steps = steps
        self._effects = effects

    def of_score(self, formula: Formula, column: str) -> tuple[str, str]:
        """Whether a quoted column holds a score, and the probability if it does."""
        score = self._dialect.column.format(column)
        given = self._clipped(score, formula.kind)
        [result] = self._row_of_program(formula.program, {"p": [given]})
        return self._valid([score], formula.kind), self._text(result)

    def of_row(
        self, formula: Formula, columns: Sequence[str], otherwise: str = ""
    ) -> list[str]:
        """The probability of each class, or that of the second of two.

        Invalid rows give NULL, or what further branches of a CASE in ``otherwise`` say.
        They are NULL from the first step on, as engines compute steps of all rows.
        """
        scores = [self._dialect.column.format(column) for column in columns]
        valid = self._steps.add(self._valid(scores, formula.kind))
        p = []
        for score in scores:
            text = self._text(self._clipped(score, formula.kind))
            p.append(name(self._steps.add(f"CASE WHEN {valid} THEN {text} END")))
        return [
            f"CASE WHEN {valid} THEN {self._text(value)} {otherwise}".strip() + " END"
            for value in self._row_of_program(formula.program, {"p": p})
        ]

    def _clipped(self, score: str, kind: Kind) -> Expression:
        """A score without what rounding puts outside [0, 1]."""
        return name(score) if kind == "margin" else name(score).clipped(0.0, 1.0)

    def _valid(self, columns: list[str], kind: Kind) -> str:
        """Whether columns hold scores."""
        limits = " AND ".join(map(numeral, SCORE_LIMITS[kind]))
        tests = [self._dialect.within.format(column, limits) for column in columns]
        if len(columns) > 1 and kind == "probability":
            distance = f"abs({' + '.join(columns)} - 1)"
            tests.append(f"{distance} <= {numeral(ROW_SUM_TOLERANCE)}")
        return "\nAND ".join(tests)

    def _row_of_program(
        self, program: Program, rows: dict[str, Row], j: int | None = None
    ) -> Row:
        """What a program makes of rows; that of class ``j`` has one number for each."""
        size = len(rows["p"])
        rows = dict(rows)
        for key, effect in self._effects.items():
            of_class = effect if j is None else effect[j:]
            rows[key] = of_class[:size] if len(effect) > 1 else effect * size
        uses: Counter[str] = Counter()
        for formula in program.formulas:
            # An operation on rows uses every number more than once.
            uses.update(formula.names * (2 if formula.on_rows else 1))
        for variable, value in program.steps:
            row = self._row(value, rows)
            rows[variable] = self._named(row) if uses[variable] > 1 else row
        return self._row(program.result, rows)

    def _named(self, row: Row) -> Row:
        return [
            each
            if each.operation == "number"
            else name(self._steps.add(self._text(each)))
            for each in row
        ]

    def _row(self, value: Expression, rows: dict[str, Row]) -> Row:
        """The row that a formula makes."""
        if value.on_rows:
            given = [rows[argument.value] for argument in value.arguments]
            return self._operation(value, given)
        return [_of_class(value, rows, k) for k in range(len(rows["p"]))]

    def _operation(self, value: Expression, rows: list[Row]) -> Row:
        """The row that an operation on rows makes."""
        y = rows[0]
        operation = value.operation
        if operation == "normalise":
            [total] = self._named([reduce(add, y)])
            return [each / total for each in y]
        if operation == "rest":
            return [name(self._rest(y, k)) for k in range(len(y))]
        if operation == "matrix":
            return [_weighted_sum(weights, y) for weights in value.value.values]
        if operation == "classes":
            result = []
            for j, program in enumerate(value.value):
                known = {"p": [rows[0][j]]}
                if len(rows) > 1:
                    known["rest"] = [rows[1][j]]
                result += self._row_of_program(program, known, j)
            return result
        [top] = self._named([call("max", *y)])
        if operation == "centred":
            return [each - top for each in y]
        # Powers of what is less vanish, which PostgreSQL takes for an error.
        powers = [call("exp", call("max", each - top, -SAFE_EXPONENT)) for each in y]
        if operation == "softmax":
            powers = self._named(powers)
            [total] = self._named([reduce(add, powers)])
            return [power / total for power in powers]
        [total] = self._named([call("log", reduce(add, powers))])
        return [each - top - total for each in y]

    def _rest(self, p: Row, k: int) -> str:
        """The probability of all other classes, by summation for the largest."""
        own = p[k].value
        tests = [
            f"{own} {'>' if i < k else '>='} {other.value}"
            for i, other in enumerate(p)
            if i != k
        ]
        others = " + ".join(other.value for i, other in enumerate(p) if i != k)
        return f"CASE WHEN {' AND '.join(tests)} THEN {others} ELSE 1e0 - {own} END"

    def _text(self, formula: Expression) -> str:
        return self._write(formula)[0]

    def _write(self, formula: Expression) -> tuple[str, int]:
        """Text, and how strongly its parts hold together."""
        operation = formula.operation
        if operation == "number":
            strength = STRENGTH["negative"] if formula.is_negative else ATOM
            return numeral(formula.value), strength
        if operation == "name":
            return formula.value, ATOM
        if operation == "negative":
            return f"-{self._part(formula.arguments[0], ATOM)}", STRENGTH[operation]
        if operation in STRENGTH:
            # Rounding depends on the order, so a + (b + c) keeps its parentheses.
            strength = STRENGTH[operation]
            left = self._part(formula.arguments[0], strength)
            right = self._part(formula.arguments[1], strength + 1)
            return f"{left} {operation} {right}", strength
        if operation == "cubic":
            return self._cubic(formula.arguments[0], formula.value), ATOM
        arguments = [self._text(argument) for argument in formula.arguments]
        if operation == "between":
            value, inside, outside = arguments
            limits = " AND ".join(map(numeral, formula.value))
            test = f"{value} BETWEEN {limits}"
            return f"CASE WHEN {test} THEN {inside} ELSE {outside} END", ATOM
        function = self._dialect.functions.get(operation, operation)
        separator = ", " if sum(map(len, arguments)) < WIDTH // 2 else ",\n"
        return f"{function}({separator.join(arguments)})", ATOM

    def _part(self, formula: Expression, least: int) -> str:
        text, strength = self._write(formula)
        return text if strength >= least else f"({text})"

    def _cubic(self, x: Expression, pieces: Pieces) -> str:
        """A curve: the piece that ``x`` lies in, then its coefficients by index."""
        steps = self._steps
        z = steps.add(self._text(pieces.place(x)))
        piece = self._piece(z, pieces.breaks)
        distance = steps.add(f"{z} - {self._looked_up(pieces.starts, piece)}")
        t = steps.add(self._dialect.distance.format(distance))
        # Of lines there are two coefficients to look up instead of four.
        columns = pieces.columns if pieces.bent else pieces.columns[2:]
        found = [self._looked_up(column, piece) for column in columns]
        return f"({reduce(lambda value, each: f'({value}) * {t} + {each}', found)})"

    def _piece(self, z: str, breaks: list[float]) -> str:
        """The index of the piece that ``z`` lies in.

        Of many breaks some are compared first, and those between them are halved by
        looking one up at a time.
        """
        dialect, steps = self._dialect, self._steps
        if dialect.index is not None:
            return steps.add(dialect.index(z, [*map(numeral, breaks)]))
        if len(breaks) <= dialect.compared:
            return steps.add(comparisons(z, [*map(numeral, breaks)], dialect.first))
        step = 1 << (len(breaks) // (dialect.compared + 1)).bit_length()
        padded = [*breaks, *[LARGEST] * (-(len(breaks) + 1) % step)]
        compared = [*map(numeral, padded[step - 1 :: step])]
        value = comparisons(z, compared, 0)
        while step > 1:
            step //= 2
            block = steps.add(value)
            middle = self._looked_up(padded[step - 1 :: 2 * step], self._at(block))
            value = f"2 * {block} + CASE WHEN {z} < {middle} THEN 0 ELSE 1 END"
        return self._at(steps.add(value))

    def _at(self, place: str) -> str:
        """A place that counts from zero as an index."""
        return f"{place} + {self._dialect.first}" if self._dialect.first else place

    def _looked_up(self, values: Iterable[float], index: str) -> str:
        return self._dialect.array([*map(numeral, values)], index)


def _of_class(value: Expression, rows: dict[str, Row], k: int) -> Expression:
    known = {key: row[k] for key, row in rows.items()}
    return value.given(known, lambda constant: number(constant.values[k]))


def _weighted_sum(weights: Sequence[float], y: Row) -> Expression:
    terms = [w * each for w, each in zip(weights, y, strict=True) if w]
    return reduce(add, terms) if terms else number(0.0)
