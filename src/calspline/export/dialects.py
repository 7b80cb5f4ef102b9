"""What dialects of SQL say differently."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

BLOCK = 32
"""Comparisons in a row, before halving pays."""
WIDTH = 100


@dataclass(frozen=True)
class Dialect:
    """Everything that a dialect of SQL says in its own way.

    Parameters
    ----------
    quote : str
        What names are quoted with; doubled, it is part of a name.
    column : str
        A quoted column as a double, with a place for it.
    functions : dict
        Names of functions, by what :class:`~calspline.expression.Expression` calls them.
    first : int
        What indices count from.
    position : callable
        ``position(value, labels, known)`` is the place of a value among labels, counting from 1; NULL or 0 if it is
        none. Names in it begin with ``known``.
    types : pair of str
        The types of texts and of doubles in a table.
    bind : callable
        ``bind(variable, value, body)`` is ``body`` with the variable bound to the value.
    array : callable
        ``array(items, i)`` is the item at an index.
    index : callable, optional
        ``index(z, breaks)`` finds the piece, where there is a function for it.
    list : str, optional
        A list of values, where there are lists.
    each : callable, optional
        ``each(values, variable, body)`` is a list of ``body`` for each of a list of values, where there are lists.
    dot : str, optional
        The sum of the products of two lists, with places for them.
    not_nan : str
        Whether a quoted column holds a number, with a place for it.
    within : str
        Whether a column lies between limits, which NaN does not, with places for both.
    refuse : str
        An error, with places for its message and for a quoted column.
    staged : bool
        Whether the engine computes a column of a subquery once.
    barrier : str
        What keeps a subquery apart where its columns would else be written out at every use, and uses of uses again.
    escapes : dict
        What stands for characters in a string.
    """

    quote: str
    column: str
    functions: dict[str, str]
    first: int
    position: Callable[[str, list[str], str], str]
    types: tuple[str, str]
    bind: Callable[[str, str, str], str]
    array: Callable[[list[str], str], str]
    index: Callable[[str, list[str]], str] | None = None
    list: str | None = None
    each: Callable[[str, str, str], str] | None = None
    dot: str | None = None
    not_nan: str = "NOT isnan({})"
    within: str = "{} BETWEEN {}"
    refuse: str = "error('{}')"
    staged: bool = False
    barrier: str = ""
    escapes: Mapping[str, str] = field(default_factory=lambda: {"'": "''"})

    def identifier(self, name: str) -> str:
        """A name, quoted."""
        return self.quote + name.replace(self.quote, 2 * self.quote) + self.quote

    def literal(self, text: str) -> str:
        """A string."""
        return "'" + "".join(self.escapes.get(character, character) for character in text) + "'"


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
    return lines_of([f"({label}, {k + 1})" for k, label in enumerate(labels)], "(VALUES", ")")


def _among_values(value: str, labels: list[str], known: str) -> str:
    rows = f"{indented(_rows_of(labels))} AS {known}({known}_segment, {known}_place)"
    return f"(\n  SELECT {known}_place FROM {rows}\n  WHERE {known}_segment = {value}\n)"


def _among_rows(value: str, labels: list[str], known: str) -> str:
    # SQLite names columns of a list of values in a common table expression only.
    rows = f"WITH {known}({known}_segment, {known}_place) AS {indented(_rows_of(labels))}"
    return f"(\n  {rows}\n  SELECT {known}_place FROM {known} WHERE {known}_segment = {value}\n)"


def _select(variable: str, value: str, body: str, once: str = "") -> str:
    """``body``, ``variable`` being bound to ``value``: a subquery without a table."""
    name = "bound_" + variable.rstrip("0123456789")
    return f"(\n  SELECT {indented(body)}\n  FROM (SELECT {indented(value)} AS {variable}{once}) AS {name}\n)"


def _list_lambda(values: str, variable: str, body: str) -> str:
    return f"list_transform({values}, lambda {variable}:\n  {indented(body)}\n)"


def _array_lambda(values: str, variable: str, body: str) -> str:
    return f"transform({values}, {variable} ->\n  {indented(body)}\n)"


def _cases(items: list[str], i: str) -> str:
    """The item at ``i``, counting from zero, in a dialect without arrays."""

    def among(low: int, high: int) -> str:
        if high - low <= BLOCK:
            lines = [f"  WHEN {k} THEN {items[k]}" for k in range(low, high)]
            return "\n".join([f"CASE {i}", *lines, "END"])
        middle = (low + high) // 2
        below, above = indented(among(low, middle)), indented(among(middle, high))
        return f"CASE WHEN {i} < {middle} THEN\n  {below}\nELSE\n  {above}\nEND"

    return among(0, len(items))


def comparisons(z: str, breaks: list[str], first: int) -> str:
    """How many breaks are at or below ``z``, counting from ``first``."""

    def among(low: int, high: int) -> str:
        if high - low <= BLOCK:
            lines = [f"  WHEN {z} < {breaks[k]} THEN {k + first}" for k in range(low, high)]
            return "\n".join(["CASE", *lines, f"  ELSE {high + first}", "END"])
        middle = (low + high) // 2
        below, above = indented(among(low, middle)), indented(among(middle, high))
        return f"CASE WHEN {z} < {breaks[middle]} THEN\n  {below}\nELSE\n  {above}\nEND"

    return among(0, len(breaks))


FUNCTIONS = {
    "max": "greatest", "min": "least", "log": "ln", "exp": "exp", "asinh": "asinh", "abs": "abs", "power": "power",
    "sqrt": "sqrt",
}  # fmt: skip

DIALECTS: dict[str, Dialect] = {
    "duckdb": Dialect(
        quote='"',
        column="{}::DOUBLE",
        functions=FUNCTIONS,
        first=1,
        position=_among_values,
        types=("VARCHAR", "DOUBLE"),
        bind=lambda variable, value, body: _list_lambda(f"[\n  {indented(value)}\n]", variable, body) + "[1]",
        each=_list_lambda,
        list="[{}]",
        dot="list_dot_product({}, {})",
        array=lambda items, i: lines_of(items, "[", f"][{i}]"),
        # DuckDB 2.0 believes the range that a Parquet file states for its numbers of NaN, too; CASE hides it.
        not_nan="NOT isnan(CASE WHEN {0} IS NOT NULL THEN {0} END)",
        within="{0} BETWEEN {1} AND NOT isnan(CASE WHEN {0} IS NOT NULL THEN {0} END)",
        staged=True,
    ),
    "postgres": Dialect(
        quote='"',
        column="{}::float8",
        functions=FUNCTIONS,
        first=1,
        position=_among_values,
        types=("text", "float8"),
        # PostgreSQL would write the value out wherever it is used, but for OFFSET.
        bind=lambda variable, value, body: _select(variable, value, body, " OFFSET 0"),
        array=lambda items, i: lines_of(items, "('{", f"}}'::float8[])[{i}]"),
        index=lambda z, breaks: lines_of(breaks, f"width_bucket({z}, '{{", "}'::float8[]) + 1"),
        not_nan="{}::float8 <> 'NaN'::float8",
        refuse="('{}: ' || {}::text)::float8",  # says what it cannot read; a column keeps it from reading it at once
        barrier="OFFSET 0",
    ),
    "spark": Dialect(
        quote="`",
        column="double({})",
        functions=FUNCTIONS,
        first=0,
        position=lambda value, labels, known: lines_of(labels, "array_position(array(", f"), {value})"),
        types=("string", "double"),
        bind=lambda variable, value, body: _array_lambda(f"array(\n  {indented(value)}\n)", variable, body) + "[0]",
        each=_array_lambda,
        list="array({})",
        array=lambda items, i: lines_of(items, "array(", f")[{i}]"),
        refuse="raise_error('{}')",
        staged=True,
        escapes={"\\": "\\\\", "'": "\\'"},
    ),
    "sqlite": Dialect(
        quote="`",  # in double quotes a name that is no column would be taken for a string
        column="{}",  # a cast would make zeros of what is no number
        functions=FUNCTIONS | {"max": "max", "min": "min"},
        first=0,
        position=_among_rows,
        types=("TEXT", "REAL"),
        bind=_select,
        array=_cases,
        not_nan="TRUE",  # where NaN is null
        refuse="json_extract('{{}}', '{}: ' || {})",  # as in PostgreSQL
        barrier="LIMIT -1 OFFSET 0",
    ),
}
