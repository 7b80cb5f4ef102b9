"""Calibrators as SQL expressions over some columns, in a dialect."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np

from calspline.export._plan import Binary, Many, OneVsRest, Plan, Program, Structured, Temperature, domain
from calspline.export.dialects import BLOCK, WIDTH, Dialect, comparisons, indented, numeral
from calspline.expression import Expression, Pieces, Syntax, between, call, name, number, substituted
from calspline.multiclass.structured_map import SAFE_EXPONENT
from calspline.scores import ROW_SUM_TOLERANCE
from calspline.transforms import SMALLEST_PROBABILITY

LARGEST = float(np.finfo(np.float64).max)
MIN_EXPONENT = -SAFE_EXPONENT
"""Powers of what is less vanish, which PostgreSQL takes for an error."""
BREAK_IN_NAME = "\0"
"""Stands for a line break in a name, which must not be indented: no name may hold it."""


class Statement:
    """Expressions over some columns in a dialect."""

    _most_compared: ClassVar[int] = BLOCK
    """Breaks that are compared one after the other, before looking them up pays."""

    def __init__(self, writer: Dialect, columns: Sequence[str]) -> None:
        self._writer = writer
        quoted = [writer.identifier(column).replace("\n", BREAK_IN_NAME) for column in columns]
        self._columns = [writer.column.format(column) for column in quoted]
        self._taken = {column.lower() for column in columns}
        self._syntax = Syntax(
            number=numeral,
            functions=writer.functions,
            choice="CASE WHEN {value} BETWEEN {low} AND {high} THEN {inside} ELSE {outside} END",
            cubic=self._cubic,
            width=WIDTH,
        )

    def binary(self, what: Binary) -> str:
        """The probability of the second class."""
        return with_names(self._where_valid(what, self._value(what.program(guarded=True), name(self._columns[0]))))

    def many(self, what: Many) -> list[str]:
        """The probabilities of all classes."""
        return [
            with_names(self._where_valid(what, self._bound("p", self._columns, self._share_of(what, j))))
            for j in range(len(what.classes))
        ]

    def _share_of(self, what: Many, j: int) -> Callable[[list[Expression]], str]:
        """The probability of one class, given the scores of all."""
        if isinstance(what, OneVsRest):
            return lambda p: self._one_vs_rest(what, p, j)
        if isinstance(what, Structured):
            return lambda p: self._structured(what, p, j)
        return lambda p: self._temperature(what, p, j)

    def _where_valid(self, what: Plan, value: str) -> str:
        """The value, if the columns hold scores."""
        return f"CASE WHEN {self._valid(what)} THEN\n  {indented(value)}\nEND"

    def _valid(self, what: Plan) -> str:
        """Whether the columns hold scores."""
        low, high = domain(what.kind)
        limits = "0 AND 1" if what.kind == "probability" else f"{numeral(low)} AND {numeral(high)}"
        tests = [f"{column} BETWEEN {limits}" for column in self._columns]
        if len(tests) > 1 and what.kind == "probability":
            tests.append(f"abs({' + '.join(self._columns)} - 1) <= {numeral(ROW_SUM_TOLERANCE)}")
        return "\n  AND ".join(tests)

    def _one_vs_rest(self, what: OneVsRest, p: list[Expression], j: int) -> str:
        if what.kind == "margin" and what.logits == "log_softmax":
            return self._log_softmax(p, lambda logs: self._normalised(what, logs, j))
        if what.kind == "margin" and what.logits == "softmax":
            return self._softmax("v", p, lambda e: self._shares(e, lambda shares: self._normalised(what, shares, j)))
        return self._normalised(what, p, j)

    def _normalised(self, what: OneVsRest, p: list[Expression], j: int) -> str:
        programs = what.programs(guarded=True)

        def values(rest: list[Expression]) -> str:
            q = [self._value(one, p[k], rest[k] if rest else None) for k, one in enumerate(programs)]
            return self._bound("q", q, lambda q: self._share(q, j))

        if any("rest" in one.arguments for one in programs):
            return self._bound("rest", [self._rest(p, k) for k in range(len(p))], values)
        return values([])

    def _structured(self, what: Structured, p: list[Expression], j: int) -> str:
        scale, m = what.map.scale, len(p)
        W = np.zeros((m, m)) if what.map.W is None else what.map.W if what.map.W.ndim == 2 else np.diag(what.map.W)

        def tempered(logs: list[Expression]) -> str:
            return self._softmax("v", [scale.beta * log for log in logs], mixed)

        def mixed(v: list[Expression]) -> str:
            shares = [(1.0 - scale.uniform) * (one / _total(v)) + scale.uniform / m for one in v]
            return self._bound("u", [self._write(call("log", share)) for share in shares], curved)

        def curved(u: list[Expression]) -> str:
            values = []
            for k in range(m):
                value = Expression("cubic", (u[k],), what.pieces) + float(what.map.b[k])
                for weight, one in zip(W[k].tolist(), u, strict=True):
                    value = value + weight * one if weight else value
                values.append(value)
            return self._softmax("y", values, lambda y: self._share(y, j))

        if what.kind == "margin":
            return self._log_softmax(p, lambda logs: tempered([call("max", log, scale.floor) for log in logs]))
        return tempered([call("log", call("max", one, float(np.exp(scale.floor)))) for one in p])

    def _temperature(self, what: Temperature, p: list[Expression], j: int) -> str:
        if what.rates is not None:
            return numeral(what.rates[j])
        z = p if what.kind == "margin" else [call("log", call("max", one, what.floor)) for one in p]

        def cooled(z: list[Expression]) -> str:
            top = call("max", *z)
            differences = [call("max", one - top, -what.reach) for one in z]
            if what.kind == "margin":
                # PostgreSQL takes it for an error if the quotient of a tiny difference vanishes.
                differences = [between(one, (-SMALLEST_PROBABILITY, 0.0), number(0.0), one) for one in differences]
            powers = [call("exp", one / what.temperature) for one in differences]
            return self._bound("e", [self._write(power) for power in powers], lambda e: self._share(e, j))

        return self._bound("z", [self._write(one) for one in z], cooled)

    def _log_softmax(self, y: list[Expression], body: Callable[[list[Expression]], str]) -> str:
        """``body`` of logarithms of probabilities in the proportions of ``exp(y)``."""

        def rest(top: list[Expression]) -> str:
            powers = [call("exp", call("max", one - top[0], MIN_EXPONENT)) for one in y]
            total = self._write(call("log", _total(powers)))
            return self._bound("total", [total], lambda log: body([one - top[0] - log[0] for one in y]))

        return self._bound("top", [self._write(call("max", *y))], rest)

    def _softmax(self, variable: str, y: list[Expression], body: Callable[[list[Expression]], str]) -> str:
        """``body`` of numbers in the proportions of ``exp(y)``."""

        def powers(y: list[Expression]) -> str:
            top = call("max", *y)
            values = [self._write(call("exp", call("max", one - top, MIN_EXPONENT))) for one in y]
            return self._bound("e", values, body)

        return self._bound(variable, [self._write(one) for one in y], powers)

    def _share(self, q: list[Expression], j: int) -> str:
        return self._write(q[j] / _total(q))

    def _shares(self, e: list[Expression], body: Callable[[list[Expression]], str]) -> str:
        """``body`` of probabilities in the proportions of ``e``."""
        return self._bound("share", [self._write(one / _total(e)) for one in e], body)

    def _rest(self, p: list[Expression], k: int) -> str:
        """The probability of all classes but one: their sum for the most probable, which 1 - p would round away."""
        own = self._write(p[k])
        tests = [f"{own} {'>' if i < k else '>='} {self._write(one)}" for i, one in enumerate(p) if i != k]
        others = self._write(_total([one for i, one in enumerate(p) if i != k]))
        return f"CASE WHEN {' AND '.join(tests)} THEN {others} ELSE 1e0 - {own} END"

    def _value(self, program: Program, p: Expression, rest: Expression | None = None) -> str:
        known = {"p": p} if rest is None else {"p": p, "rest": rest}
        for variable, value in program.steps:
            known[variable] = substituted(value, known)
        return self._write(substituted(program.result, known))

    def _write(self, formula: Expression) -> str:
        return self._syntax.write(formula)

    def _bound(self, variable: str, values: list[str], body: Callable[[list[Expression]], str]) -> str:
        """``body`` of names for the values."""
        writer, variable = self._writer, self._free(variable)
        if len(values) == 1:
            return writer.bind(variable, values[0], body([name(variable)]))
        if writer.list is not None:
            items = "\n  " + indented(",\n".join(values)) + "\n"
            names = [name(f"{variable}[{k + writer.first}]") for k in range(len(values))]
            return writer.bind(variable, writer.list.format(items), body(names))
        columns = [f"{variable}{k + 1}" for k in range(len(values))]
        listed = ",\n  ".join(f"{indented(value)} AS {column}" for value, column in zip(values, columns, strict=True))
        return writer.bind(columns[-1], listed.removesuffix(f" AS {columns[-1]}"), body([name(c) for c in columns]))

    def _free(self, variable: str) -> str:
        """A name like this that is none of the columns: a bound name would hide them."""
        while any(column.startswith(variable) for column in self._taken):
            variable += "_"
        return variable

    def _cubic(self, z: str, pieces: Pieces) -> str:
        """The piece that ``z`` lies in, then its start and coefficients by index."""

        def find(z: list[Expression]) -> str:
            at = str(z[0].value)
            return self._found(at, pieces.breaks, lambda i: step(at, i))

        def step(z: str, i: str) -> str:
            distance = f"{z} - {self._looked_up(pieces.starts, i)}"
            return self._bound("t", [distance], lambda t: horner(str(t[0].value), i))

        def horner(t: str, i: str) -> str:
            # Of lines there are two coefficients to look up instead of four.
            first, *rest = pieces.columns if pieces.bent else pieces.columns[2:]
            value = self._looked_up(first, i)
            for column in rest:
                value = f"({value}) * {t} + {self._looked_up(column, i)}"
            return value

        return self._bound("z", [z], find)

    def _found(self, z: str, breaks: list[float], body: Callable[[str], str]) -> str:
        """``body`` of the index of the piece that ``z`` lies in.

        Of many breaks some are compared first, and those between them are halved by looking one up at a time.
        """
        writer = self._writer
        if writer.index or writer.list is None or len(breaks) <= self._most_compared:
            numerals = [numeral(value) for value in breaks]
            index = writer.index(z, numerals) if writer.index else comparisons(z, numerals, writer.first)
            return self._bound("i", [index], lambda i: body(str(i[0].value)))
        between = 1 << (len(breaks) // (self._most_compared + 1)).bit_length()
        padding = -(len(breaks) + 1) % between
        padded = [*breaks, *[LARGEST] * padding]

        def halved(i: str, step: int) -> str:
            at = f"{i} + {writer.first}" if writer.first else i
            if step == 0:
                return body(at)
            middle = self._looked_up(padded[step - 1 :: 2 * step], at)
            value = f"2 * {i} + CASE WHEN {z} < {middle} THEN 0 ELSE 1 END"
            return self._bound(f"i{step}", [value], lambda i: halved(str(i[0].value), step // 2))

        first = comparisons(z, [numeral(value) for value in padded[between - 1 :: between]], 0)
        return self._bound("i", [first], lambda i: halved(str(i[0].value), between // 2))

    def _looked_up(self, values: list[float], i: str) -> str:
        return self._writer.array([numeral(value) for value in values], i)


def _total(values: list[Expression]) -> Expression:
    total = values[0]
    for value in values[1:]:
        total = total + value
    return total


def with_names(text: str) -> str:
    """A finished text with the line breaks of names back in it."""
    return text.replace(BREAK_IN_NAME, "\n")
