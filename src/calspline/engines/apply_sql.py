"""Calibrated probabilities by the engine itself: the calibrator as SQL."""

from __future__ import annotations

import re
from typing import Any

import narwhals as nw

from calspline.export._staged import in_stages
from calspline.export.dialects import DIALECTS, Dialect
from calspline.export.sql import to_sql

Frame = nw.DataFrame[Any] | nw.LazyFrame[Any]

BACKENDS = {"duckdb": "duckdb", "postgres": "postgres", "sqlite": "sqlite", "pyspark": "spark"}
"""What ibis calls its backends."""
UNSAFE = re.compile(r"[^\w .-]")


def add_columns(frame: Frame, calibrator: Any, columns: list[str], outputs: list[str]) -> Any:
    """The native frame with calibrated columns."""
    native, engine = frame.to_native(), frame.implementation
    dialect = "duckdb" if engine.is_duckdb() else "spark" if engine.is_spark_like() else _backend(native)
    names = list(frame.collect_schema())
    columns = columns if len(calibrator.classes_) > 2 else columns[-1:]
    projections = _projections(calibrator, columns, outputs, dialect, names)
    if engine.is_duckdb():
        for projection in projections:
            native = native.project(", ".join(projection))
        return native
    if engine.is_spark_like():
        for projection in projections:
            native = native.selectExpr(*projection)
        return native
    query = "calspline_rows"
    for k, projection in enumerate(projections):
        source = query if k == 0 else f"({query}) AS calspline_rows_{k}"
        query = f"SELECT {', '.join(projection)} FROM {source}"
    return _ibis(native, query, outputs)


def _projections(
    calibrator: Any,
    columns: list[str],
    outputs: list[str],
    dialect: Any,
    names: list[str],
) -> list[list[str]]:
    """Lists of what to select, each from the one before."""
    quoted = DIALECTS[dialect].identifier
    refusal = _refusal(calibrator, columns, DIALECTS[dialect])
    if DIALECTS[dialect].staged:
        staged = in_stages(calibrator, columns, dialect, taken=names, otherwise=refusal)
        stages, results = staged.stages, staged.results
    else:
        found = to_sql(calibrator, columns if len(columns) > 1 else columns[0], dialect=dialect)
        found = [found] if isinstance(found, str) else found
        # What to_sql makes null is no score.
        stages, results = [], [f"coalesce({value}, CASE {refusal} END)" for value in found]
    added = [["*", *(f"{value} AS {name}" for name, value in stage.items())] for stage in stages]
    last = [f"{value} AS {quoted(name)}" for value, name in zip(results, outputs, strict=True)]
    return [*added, [*map(quoted, names), *last]]


def _refusal(calibrator: Any, columns: list[str], dialect: Dialect) -> str:
    """A branch of a CASE for rows without a score: an error, unless one is missing."""
    wanted = "probabilities in [0, 1]" if calibrator.kind_ == "probability" else "finite"
    if len(columns) > 1 and calibrator.kind_ == "probability":
        wanted += " that sum to one in each row"
    # A name is a part of a string here, and how a string ends is up to the settings of the engine.
    names = ", ".join(UNSAFE.sub("_", name) for name in columns)
    quoted = [dialect.identifier(column) for column in columns]
    error = dialect.refuse.format(f"score must be {wanted}; column {names} has others", quoted[0])
    present = " AND ".join(f"{column} IS NOT NULL AND {dialect.not_nan.format(column)}" for column in quoted)
    return f"WHEN {present} THEN {error}"


def _ibis(table: Any, query: str, outputs: list[str]) -> Any:
    """The query on a table, whose columns we know: ``Table.sql`` would have the database describe it first."""
    import ibis
    from ibis.expr.operations import SQLStringView

    schema = ibis.schema(dict(table.schema().items()) | dict.fromkeys(outputs, "float64"))
    return SQLStringView(parent=table.alias("calspline_rows").op(), query=query, schema=schema).to_expr()


def _backend(table: Any) -> str:
    name = table.get_backend().name
    if name not in BACKENDS:
        known = ", ".join(BACKENDS)
        raise TypeError(f"frame must be of an ibis backend that calibrators are written for ({known}); got {name}")
    return BACKENDS[name]
