"""What dialects of SQL say differently."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

BLOCK = 32
"""Comparisons in a row, before halving pays."""
WIDTH = 100
UNSAFE = re.compile(r"[^\w .-]")
"""Characters that must not occur in a message, since the end of a string depends on the
engine's settings."""


@dataclass(frozen=True)
class Lambdas:
    """How expressions name values by lambdas over lists of one item."""

    bind: Callable[[str, str, str], str]
    """``bind(variable, value, body)`` binds the variable to the value in ``body``."""
    struct: Callable[[Mapping[str, str]], str]
    """A value with fields."""
    or_subqueries: bool
    """Whether subqueries are better but for short expressions."""
    most: int = 8
    """How many may be in each other, before they bind whole stages."""


@dataclass(frozen=True)
class Dialect:
    """Everything that a dialect of SQL says in its own way."""

    column: str
    """A quoted column as a double, with a place for it."""
    first: int
    """What indices count from."""
    is_number: str
    """Whether a quoted column, or a value in it, is a number or a boolean, so that it
    may equal numeric labels."""
    is_text: str
    """Whether it is a text."""
    position: Callable[[str, list[str], str], str]
    """Position of a value among labels, from 1; NULL or 0 for others. Names in it begin
    with the last argument."""
    types: tuple[str, str]
    """Types of strings and of doubles in a table."""
    array: Callable[[list[str], str], str]
    """``array(items, i)`` is the item at an index."""
    index: Callable[[str, list[str]], str] | None = None
    """``index(z, breaks)`` finds the piece, where there is a function for it."""
    compared: int = 2 * BLOCK
    """Breaks that are compared one after the other, before looking them up pays."""
    lambdas: Lambdas | None = None
    """Lambdas, where they are better than subqueries."""
    lateral: bool = False
    """Whether steps may be lateral joins. DuckDB supports them, but exhausts the memory
    if there are other joins."""
    distance: str = "{}"
    """The distance from a break, safe to take powers of."""
    quote: str = '"'
    """What names are quoted with; doubled, it is part of a name."""
    functions: Mapping[str, str] = field(
        default_factory=lambda: {"max": "greatest", "min": "least", "log": "ln"}
    )
    """Names of functions that differ from
    :class:`~calspline._expression.Expression`."""
    not_nan: str = "NOT isnan({})"
    """Whether a quoted column holds a number."""
    within: str = "{} BETWEEN {}"
    """Whether a column lies between limits, which NaN does not."""
    refuse: str = "error('{}')"
    """An error, with places for its message and for a quoted column."""
    as_number: str = "CAST({} AS DOUBLE)"
    """A quoted column of numbers or booleans as a double; any other type must not fail
    when the query is planned."""
    as_text: str = "CAST({} AS VARCHAR)"
    """A quoted column of texts as a text, likewise."""
    staged: bool = False
    """Whether the engine computes a column of a subquery once."""
    barrier: str = ""
    """Barrier around a subquery whose columns would otherwise be expanded at every
    use."""
    escapes: Mapping[str, str] = field(default_factory=lambda: {"'": "''"})
    """What stands for characters in a string."""

    def identifier(self, name: str) -> str:
        """A name, quoted."""
        return self.quote + name.replace(self.quote, 2 * self.quote) + self.quote

    def error(self, message: str, column: str) -> str:
        """Error whose message contains the name of a column; only letters are kept."""
        return self.refuse.format(
            message.format(UNSAFE.sub("_", column)), self.identifier(column)
        )

    def literal(self, text: str) -> str:
        """A string."""
        return (
            "'"
            + "".join(self.escapes.get(character, character) for character in text)
            + "'"
        )


def numeral(value: float) -> str:
    """A number that no dialect takes for a decimal."""
    text = repr(float(value)).removesuffix(".0")
    return text if "e" in text else text + "e0"


def indented(text: str) -> str:
    """All lines but the first moved to the right."""
    return text.replace("\n", "\n  ")


def lines_of(items: list[str], opening: str, closing: str) -> str:
    """Items between brackets, in lines of bounded width."""
    lines, line = [], " "
    for item in items:
        if line != " " and len(line) + len(item) + 2 > WIDTH:
            lines.append(line)
            line = " "
        line += f" {item},"
    lines.append(line.removesuffix(","))
    return "\n".join([opening, *lines, closing])


def _rows_of(labels: list[str]) -> str:
    rows = [f"({label}, {k + 1})" for k, label in enumerate(labels)]
    return lines_of(rows, "(VALUES", ")")


def _among_values(value: str, labels: list[str], known: str) -> str:
    rows = f"{_rows_of(labels)} AS {known}({known}_segment, {known}_place)"
    return f"(\nSELECT {known}_place FROM {rows}\nWHERE {known}_segment = {value})"


def _among_rows(value: str, labels: list[str], known: str) -> str:
    # SQLite names columns of a list of values in a common table expression only.
    rows = f"WITH {known}({known}_segment, {known}_place) AS {_rows_of(labels)}"
    found = f"SELECT {known}_place FROM {known} WHERE {known}_segment = {value}"
    return f"(\n{rows}\n{found})"


def _list_lambda(variable: str, value: str, body: str) -> str:
    return f"list_transform([\n{value}\n], lambda {variable}:\n{body}\n)[1]"


def _array_lambda(variable: str, value: str, body: str) -> str:
    return f"transform(array(\n{value}\n), {variable} ->\n{body}\n)[0]"


def _list_struct(values: Mapping[str, str]) -> str:
    fields = [f"'{key}': {value}" for key, value in values.items()]
    return "{\n" + ",\n".join(fields) + "\n}"


def _named_struct(values: Mapping[str, str]) -> str:
    fields = [f"'{key}', {value}" for key, value in values.items()]
    return "named_struct(\n" + ",\n".join(fields) + "\n)"


def _halved(
    low: int, high: int, block: Callable[[int, int], str], below: Callable[[int], str]
) -> str:
    """Binary search for an integer from ``low`` to ``high`` with the test ``below``."""
    if high - low <= BLOCK:
        return block(low, high)
    middle = (low + high) // 2
    first, second = (
        indented(_halved(*ends, block, below))
        for ends in ((low, middle), (middle, high))
    )
    return f"CASE WHEN {below(middle)} THEN\n  {first}\nELSE\n  {second}\nEND"


def _cases(items: list[str], i: str) -> str:
    """The item at ``i``, counting from zero, in a dialect without arrays."""

    def block(low: int, high: int) -> str:
        return "\n".join(
            [
                f"CASE {i}",
                *[f"  WHEN {k} THEN {items[k]}" for k in range(low, high)],
                "END",
            ]
        )

    return _halved(0, len(items), block, lambda middle: f"{i} < {middle}")


def comparisons(z: str, breaks: list[str], first: int) -> str:
    """How many breaks are at or below ``z``, counting from ``first``."""

    def block(low: int, high: int) -> str:
        lines = [f"  WHEN {z} < {breaks[k]} THEN {k + first}" for k in range(low, high)]
        return "\n".join(["CASE", *lines, f"  ELSE {high + first}", "END"])

    return _halved(0, len(breaks), block, lambda middle: f"{z} < {breaks[middle]}")


def _names(types: str) -> str:
    return ", ".join(f"'{name.strip()}'" for name in types.split(","))


_DUCKDB_NUMBERS = _names(
    "TINYINT, SMALLINT, INTEGER, BIGINT, HUGEINT, UTINYINT, USMALLINT, UINTEGER, "
    "UBIGINT, UHUGEINT, FLOAT, DOUBLE, "
    "BOOLEAN"
)
_POSTGRES_NUMBERS = _names("int2, int4, int8, float4, float8, numeric, bool")
_POSTGRES_OTHERS = _names(
    "date, time, timetz, timestamp, timestamptz, interval, bytea, json, jsonb"
)
_SPARK_NUMBERS = _names("tinyint, smallint, int, bigint, float, double, boolean")


DIALECTS: dict[str, Dialect] = {
    "duckdb": Dialect(
        column="{}::DOUBLE",
        first=1,
        is_number=(
            f"typeof({{0}}) IN ({_DUCKDB_NUMBERS}) OR typeof({{0}}) LIKE 'DECIMAL%'"
        ),
        is_text="typeof({0}) IN ('VARCHAR', 'JSON') OR typeof({0}) LIKE 'ENUM%'",
        as_number="TRY_CAST({} AS DOUBLE)",
        position=_among_values,
        types=("VARCHAR", "DOUBLE"),
        lambdas=Lambdas(_list_lambda, _list_struct, or_subqueries=True),
        # A text that is cast to a list takes less time to plan, and to look up a number
        # in, than a list of literals.
        array=lambda items, i: lines_of(items, "('[", f"]'::DOUBLE[])[{i}]"),
        # DuckDB 2.0 believes the range that a Parquet file states for its numbers of
        # NaN, too; CASE hides it.
        not_nan="NOT isnan(CASE WHEN {0} IS NOT NULL THEN {0} END)",
        within="{0} BETWEEN {1} AND NOT isnan(CASE WHEN {0} IS NOT NULL THEN {0} END)",
        staged=True,
    ),
    "postgres": Dialect(
        column="{}::float8",
        first=1,
        is_number=f"pg_typeof({{}}) IN ({_POSTGRES_NUMBERS})",
        # Any enumeration is text, too.
        is_text=f"pg_typeof({{}}) NOT IN ({_POSTGRES_NUMBERS}, {_POSTGRES_OTHERS})",
        # Of any type there is a text; a cast to a number is an error before a row is
        # read where there is none.
        as_number=(
            "CASE {0}::text WHEN 'true' THEN 1e0 WHEN 'false' THEN 0e0 "
            "ELSE {0}::text::float8 END"
        ),
        as_text="{}::text",
        position=_among_values,
        types=("text", "float8"),
        # Powers of a tiny distance underflow, which is an error.
        distance="CASE WHEN abs({0}) < 1e-90 THEN 0e0 ELSE {0} END",
        array=lambda items, i: lines_of(items, "('{", f"}}'::float8[])[{i}]"),
        index=lambda z, breaks: lines_of(
            breaks, f"width_bucket({z}, '{{", "}'::float8[]) + 1"
        ),
        not_nan="{}::float8 <> 'NaN'::float8",
        # The error quotes what cannot be read. It contains a column, so that it is not
        # evaluated before a row needs it.
        refuse="('{}: ' || {}::text)::float8",
        barrier="OFFSET 0",
        lateral=True,
    ),
    "spark": Dialect(
        quote="`",
        column="double({})",
        first=0,
        is_number=(
            f"typeof({{0}}) IN ({_SPARK_NUMBERS}) OR typeof({{0}}) LIKE 'decimal%'"
        ),
        is_text="typeof({}) LIKE 'string%'",
        as_text="CAST({} AS STRING)",
        position=lambda value, labels, known: lines_of(
            labels, "array_position(array(", f"), {value})"
        ),
        types=("string", "double"),
        lateral=True,
        lambdas=Lambdas(_array_lambda, _named_struct, or_subqueries=False),
        array=lambda items, i: lines_of(items, "array(", f")[{i}]"),
        refuse="raise_error('{}')",
        staged=True,
        escapes={"\\": "\\\\", "'": "\\'"},
    ),
    "sqlite": Dialect(
        # In double quotes, a name that is not a column would be read as a string.
        quote="`",
        column="{}",  # a cast would make zeros of what is no number
        functions={"log": "ln"},
        first=0,
        is_number="typeof({}) IN ('integer', 'real')",  # where true is 1
        is_text="typeof({}) = 'text'",
        as_number="{}",
        as_text="{}",
        position=_among_rows,
        types=("TEXT", "REAL"),
        compared=sys.maxsize,
        array=_cases,
        not_nan="TRUE",  # where NaN is null
        refuse="json_extract('{{}}', '{}: ' || {})",  # as in PostgreSQL
        barrier="LIMIT -1 OFFSET 0",
    ),
}
