"""Calibrated probabilities by the engine itself: the calibrator as an SQL expression."""

from __future__ import annotations

import re
from typing import Any

import narwhals as nw

from calspline.export.sql import to_sql

Frame = nw.DataFrame[Any] | nw.LazyFrame[Any]

DIALECTS = {"duckdb": "duckdb", "postgres": "postgres", "sqlite": "sqlite", "pyspark": "spark"}
"""What ibis calls its backends."""
UNSAFE = re.compile(r"[^\w .-]")
REFUSE = {"duckdb": "error('{}')", "spark": "raise_error('{}')"}


def add_columns(frame: Frame, calibrator: Any, columns: list[str], outputs: list[str]) -> Any:
    """The native frame with calibrated columns."""
    native, engine = frame.to_native(), frame.implementation
    dialect = "duckdb" if engine.is_duckdb() else "spark" if engine.is_spark_like() else _backend(native)
    quote = "`" if dialect == "spark" else '"'

    def quoted(name: str) -> str:
        return quote + name.replace(quote, quote * 2) + quote

    expressions = _expressions(calibrator, columns, dialect, quoted)
    new = [f"{expression} AS {quoted(name)}" for expression, name in zip(expressions, outputs, strict=True)]
    if engine.is_duckdb():
        return native.project(", ".join(["*", *new]))
    if engine.is_spark_like():
        return native.selectExpr("*", *new)
    return _ibis(native, f"SELECT *, {', '.join(new)} FROM calspline_rows", outputs)


def _expressions(calibrator: Any, columns: list[str], dialect: Any, quoted: Any) -> list[str]:
    """One expression for each new column: null where a score is missing, an error where it is no score."""
    if len(calibrator.classes_) > 2:
        found = to_sql(calibrator, columns, dialect=dialect)
    else:
        found = [to_sql(calibrator, columns[-1], dialect=dialect)]
    if dialect not in REFUSE:
        return found
    wanted = "probabilities in [0, 1]" if calibrator._kind == "probability" else "finite"
    if len(columns) > 1 and calibrator._kind == "probability":
        wanted += " that sum to one in each row"
    # A name is a part of a string here, and how a string ends is up to the settings of the engine.
    names = ", ".join(UNSAFE.sub("_", name) for name in columns)
    refuse = REFUSE[dialect].format(f"score must be {wanted}; column {names} has others")
    # What to_sql makes null is no score; of these only missing ones may pass.
    present = " AND ".join(f"{quoted(name)} IS NOT NULL AND NOT isnan({quoted(name)})" for name in columns)
    return [f"coalesce({one}, CASE WHEN {present} THEN {refuse} END)" for one in found]


def _ibis(table: Any, query: str, outputs: list[str]) -> Any:
    """The query on a table, whose columns we know: ``Table.sql`` would have the database describe it first."""
    import ibis
    from ibis.expr.operations import SQLStringView

    schema = ibis.schema(dict(table.schema().items()) | dict.fromkeys(outputs, "float64"))
    return SQLStringView(parent=table.alias("calspline_rows").op(), query=query, schema=schema).to_expr()


def _backend(table: Any) -> str:
    name = table.get_backend().name
    if name not in DIALECTS:
        known = ", ".join(DIALECTS)
        raise TypeError(f"frame must be of an ibis backend that calibrators are written for ({known}); got {name}")
    return DIALECTS[name]
