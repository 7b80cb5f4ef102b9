"""Calibrators as SQL expressions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, overload

import numpy as np

from calspline import _validation
from calspline._validation import ROW_SUM_TOLERANCE
from calspline.export._expression import Expression, Syntax, between, call, name, number, substituted
from calspline.export._plan import Binary, Many, OneVsRest, Pieces, Plan, Program, Structured, Temperature, domain, plan
from calspline.structure import SAFE_EXPONENT
from calspline.transforms import SMALLEST_PROBABILITY

Dialect = Literal["duckdb", "postgres", "spark", "sqlite"]

BLOCK = 32
"""Comparisons in a row, before halving pays."""
WIDTH = 100
LEAST_EXPONENT = -SAFE_EXPONENT
"""Powers of what is less vanish, which PostgreSQL takes for an error."""


@dataclass(frozen=True)
class Writer:
    """How a dialect says what the dialects say differently."""

    quote: str
    column: str
    functions: dict[str, str]
    first: int
    bind: Callable[[str, str, str], str]
    array: Callable[[list[str], str], str]
    index: Callable[[str, list[str]], str] | None = None
    list: str | None = None


def _numeral(value: float) -> str:
    """A number that no dialect takes for a decimal."""
    text = repr(float(value)).removesuffix(".0")
    return text if "e" in text else text + "e0"


def _indented(text: str, by: int = 2) -> str:
    return text.replace("\n", "\n" + " " * by)


def _lines(items: list[str], opening: str, closing: str, separator: str = ", ") -> str:
    """Items between brackets, in lines of bounded width."""
    lines, line = [], " "
    for item in items:
        if line != " " and len(line) + len(item) + 2 > WIDTH:
            lines.append(line)
            line = " "
        line += " " + item + separator.rstrip()
    lines.append(line.removesuffix(separator.rstrip()))
    return "\n".join([opening, *lines, closing])


def _select(variable: str, value: str, body: str, once: str = "") -> str:
    """``body``, ``variable`` being bound to ``value``: a subquery without a table."""
    name = "bound_" + variable.rstrip("0123456789")
    return f"(\n  SELECT {_indented(body)}\n  FROM (SELECT {_indented(value)} AS {variable}{once}) AS {name}\n)"


def _select_once(variable: str, value: str, body: str) -> str:
    # PostgreSQL would write the value out wherever it is used, but for OFFSET.
    return _select(variable, value, body, " OFFSET 0")


def _list_lambda(variable: str, value: str, body: str) -> str:
    return f"list_transform([\n  {_indented(value)}\n], lambda {variable}:\n  {_indented(body)}\n)[1]"


def _array_lambda(variable: str, value: str, body: str) -> str:
    return f"transform(array(\n  {_indented(value)}\n), {variable} ->\n  {_indented(body)}\n)[0]"


def _cases(items: list[str], i: str) -> str:
    """The item at ``i``, counting from zero, in a dialect without arrays."""

    def among(low: int, high: int) -> str:
        if high - low <= BLOCK:
            lines = [f"  WHEN {k} THEN {items[k]}" for k in range(low, high)]
            return "\n".join([f"CASE {i}", *lines, "END"])
        middle = (low + high) // 2
        below, above = _indented(among(low, middle)), _indented(among(middle, high))
        return f"CASE WHEN {i} < {middle} THEN\n  {below}\nELSE\n  {above}\nEND"

    return among(0, len(items))


def _comparisons(z: str, breaks: list[str], first: int) -> str:
    """How many breaks are at or below ``z``, counting from ``first``."""

    def among(low: int, high: int) -> str:
        if high - low <= BLOCK:
            lines = [f"  WHEN {z} < {breaks[k]} THEN {k + first}" for k in range(low, high)]
            return "\n".join(["CASE", *lines, f"  ELSE {high + first}", "END"])
        middle = (low + high) // 2
        below, above = _indented(among(low, middle)), _indented(among(middle, high))
        return f"CASE WHEN {z} < {breaks[middle]} THEN\n  {below}\nELSE\n  {above}\nEND"

    return among(0, len(breaks))


FUNCTIONS = {
    "max": "greatest", "min": "least", "log": "ln", "exp": "exp", "asinh": "asinh", "abs": "abs", "power": "power",
}  # fmt: skip

WRITERS = {
    "duckdb": Writer(
        quote='"',
        column="{}::DOUBLE",
        functions=FUNCTIONS,
        first=1,
        bind=_list_lambda,
        list="[{}]",
        array=lambda items, i: _lines(items, "[", f"][{i}]"),
    ),
    "postgres": Writer(
        quote='"',
        column="{}::float8",
        functions=FUNCTIONS,
        first=1,
        bind=_select_once,
        array=lambda items, i: _lines(items, "('{", f"}}'::float8[])[{i}]"),
        index=lambda z, breaks: _lines(breaks, f"width_bucket({z}, '{{", "}'::float8[]) + 1"),
    ),
    "spark": Writer(
        quote="`",
        column="double({})",
        functions=FUNCTIONS,
        first=0,
        bind=_array_lambda,
        list="array({})",
        array=lambda items, i: _lines(items, "array(", f")[{i}]"),
    ),
    "sqlite": Writer(
        quote="`",  # in double quotes a name that is no column would be taken for a string
        column="{}",  # a cast would make zeros of what is no number
        functions=FUNCTIONS | {"max": "max", "min": "min"},
        first=0,
        bind=_select,
        array=_cases,
    ),
}


@overload
def to_sql(calibrator: Any, column: str, *, dialect: Dialect = "duckdb") -> str: ...
@overload
def to_sql(calibrator: Any, column: Sequence[str], *, dialect: Dialect = "duckdb") -> list[str]: ...
def to_sql(calibrator: Any, column: str | Sequence[str], *, dialect: Dialect = "duckdb") -> str | list[str]:
    """A fitted calibrator as an SQL expression over a column.

    NULL gives NULL, and so does what is no score: NaN, a probability outside [0, 1], or a row of
    probabilities that do not sum to one. The expression finds the piece of the curve first, then its
    coefficients by index, so that the logarithm is taken once.

    Parameters
    ----------
    calibrator : fitted calibrator
    column : str, or list of str
        Name of the column with the probability of ``classes_[1]``, or the margin. For three or more
        classes a list of names, in the order of ``classes_``. Names are quoted, so that any will do.
    dialect : {"duckdb", "postgres", "spark", "sqlite"}, default="duckdb"
        DuckDB from 1.3. SQLite has to be built with its mathematical functions, as it mostly is.

    Returns
    -------
    str, or list of str
        An expression, or one for each class. Each of several needs all columns and all curves, so their
        length grows with the square of the number of classes.

    Examples
    --------
    >>> from calspline import SplineCalibrator
    >>> from calspline.export import to_sql
    >>> cal = SplineCalibrator(n_knots=3).fit([0.1, 0.3, 0.4, 0.6, 0.7, 0.9], [0, 0, 1, 0, 1, 1])
    >>> expression = to_sql(cal, "score")
    >>> query = f"SELECT score, {expression} AS calibrated FROM predictions"
    >>> print(to_sql(cal, "Alice's score", dialect="spark").splitlines()[0])
    CASE WHEN double(`Alice's score`) BETWEEN 0 AND 1 THEN
    """
    _validation.one_of(dialect, "dialect", tuple(WRITERS))
    what = plan(calibrator)
    columns = [column] if isinstance(column, str) else column
    wanted = 1 if isinstance(what, Binary) else len(what.classes)
    if isinstance(what, Binary) != isinstance(column, str):
        expected = "the name of a column" if wanted == 1 else f"a list of {wanted} names of columns"
        raise TypeError(f"column must be {expected}; got {column!r}")
    for item in columns:
        if not isinstance(item, str) or not item or "\0" in item:
            raise ValueError(f"column must be the name of a column; got {item!r}")
    if len(columns) != wanted:
        raise ValueError(f"column must have {wanted} names, one for each class; got {len(columns)}")
    statement = _Statement(WRITERS[dialect], columns)
    if isinstance(what, Binary):
        return statement.binary(what)
    return statement.many(what)


class _Statement:
    """Expressions over some columns in a dialect."""

    def __init__(self, writer: Writer, columns: Sequence[str]) -> None:
        self._writer = writer
        quote = writer.quote
        quoted = [f"{quote}{column.replace(quote, quote * 2)}{quote}" for column in columns]
        self._columns = [writer.column.format(column) for column in quoted]
        self._taken = {column.lower() for column in columns}
        self._syntax = Syntax(
            number=_numeral,
            functions=writer.functions,
            choice="CASE WHEN {value} BETWEEN {low} AND {high} THEN {inside} ELSE {outside} END",
            cubic=self._cubic,
            width=WIDTH,
        )

    def binary(self, what: Binary) -> str:
        """The probability of the second class."""
        return self._where_valid(what, self._value(what.program(guarded=True), name(self._columns[0])))

    def many(self, what: Many) -> list[str]:
        """The probabilities of all classes."""
        return [
            self._where_valid(what, self._bound("p", self._columns, self._share_of(what, j)))
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
        low, high = domain(what.kind)
        limits = "0 AND 1" if what.kind == "probability" else f"{_numeral(low)} AND {_numeral(high)}"
        tests = [f"{column} BETWEEN {limits}" for column in self._columns]
        if len(tests) > 1 and what.kind == "probability":
            tests.append(f"abs({' + '.join(self._columns)} - 1) <= {_numeral(ROW_SUM_TOLERANCE)}")
        valid = "\n  AND ".join(tests)
        return f"CASE WHEN {valid} THEN\n  {_indented(value)}\nEND"

    def _one_vs_rest(self, what: OneVsRest, p: list[Expression], j: int) -> str:
        if what.kind == "margin" and what.logits == "log_softmax":
            return self._log_softmax(p, lambda logs: self._normalised(what, logs, j))
        if what.kind == "margin" and what.logits == "softmax":
            return self._softmax("v", p, lambda e: self._normalised(what, [one / _total(e) for one in e], j))
        return self._normalised(what, p, j)

    def _normalised(self, what: OneVsRest, p: list[Expression], j: int) -> str:
        values = [
            self._value(program, p[k], self._rest(p, k) if program.source == "pair" else None)
            for k, program in enumerate(what.programs(guarded=True))
        ]
        return self._bound("q", values, lambda q: self._share(q, j))

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
            return _numeral(what.rates[j])
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
            powers = [call("exp", call("max", one - top[0], LEAST_EXPONENT)) for one in y]
            total = self._write(call("log", _total(powers)))
            return self._bound("total", [total], lambda log: body([one - top[0] - log[0] for one in y]))

        return self._bound("top", [self._write(call("max", *y))], rest)

    def _softmax(self, variable: str, y: list[Expression], body: Callable[[list[Expression]], str]) -> str:
        """``body`` of numbers in the proportions of ``exp(y)``."""

        def powers(y: list[Expression]) -> str:
            top = call("max", *y)
            values = [self._write(call("exp", call("max", one - top, LEAST_EXPONENT))) for one in y]
            return self._bound("e", values, body)

        return self._bound(variable, [self._write(one) for one in y], powers)

    def _share(self, q: list[Expression], j: int) -> str:
        return self._write(q[j] / _total(q))

    def _rest(self, p: list[Expression], k: int) -> Expression:
        """The probability of all classes but one: their sum for the most probable, which 1 - p would round away."""
        own = self._write(p[k])
        tests = [f"{own} {'>' if i < k else '>='} {self._write(one)}" for i, one in enumerate(p) if i != k]
        others = self._write(_total([one for i, one in enumerate(p) if i != k]))
        return name(f"CASE WHEN {' AND '.join(tests)} THEN {others} ELSE 1e0 - {own} END")

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
            items = "\n  " + _indented(",\n".join(values)) + "\n"
            names = [name(f"{variable}[{k + writer.first}]") for k in range(len(values))]
            return writer.bind(variable, writer.list.format(items), body(names))
        columns = [f"{variable}{k + 1}" for k in range(len(values))]
        listed = ",\n  ".join(f"{_indented(value)} AS {column}" for value, column in zip(values, columns, strict=True))
        return writer.bind(columns[-1], listed.removesuffix(f" AS {columns[-1]}"), body([name(c) for c in columns]))

    def _free(self, variable: str) -> str:
        """A name like this that is none of the columns: a bound name would hide them."""
        while any(column.startswith(variable) for column in self._taken):
            variable += "_"
        return variable

    def _cubic(self, z: str, pieces: Pieces) -> str:
        """The piece that ``z`` lies in, then its start and coefficients by index."""
        writer = self._writer
        breaks = [_numeral(value) for value in pieces.breaks]

        def find(z: list[Expression]) -> str:
            at = str(z[0].value)
            index = writer.index(at, breaks) if writer.index else _comparisons(at, breaks, writer.first)
            return self._bound("i", [index], lambda i: step(at, str(i[0].value)))

        def step(z: str, i: str) -> str:
            distance = f"{z} - {self._looked_up(pieces.starts, i)}"
            return self._bound("t", [distance], lambda t: horner(str(t[0].value), i))

        def horner(t: str, i: str) -> str:
            a, b, c, d = (self._looked_up(column, i) for column in pieces.columns)
            return f"(({a} * {t} + {b}) * {t} + {c}) * {t} + {d}"

        return self._bound("z", [z], find)

    def _looked_up(self, values: list[float], i: str) -> str:
        return self._writer.array([_numeral(value) for value in values], i)


def _total(values: list[Expression]) -> Expression:
    total = values[0]
    for value in values[1:]:
        total = total + value
    return total
