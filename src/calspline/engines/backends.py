"""The data frames and databases that the package knows, each as an :class:`Engine`.

To support another one, add a record to ``ENGINES`` here: how its rows are aggregated
(``rows``), and how the calibrated column is added (``assign`` or ``select``). Frames in
memory need ``assign`` only: their columns are arrays, and are fitted as arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import narwhals as nw
import numpy as np

from calspline.engines.calibrate import Calibrate
from calspline.engines.engine import Engine
from calspline.engines.lazy import lazy_rows, partition_rows
from calspline.engines.rows import LazyFrame
from calspline.export.dialects import DIALECTS

Frame = nw.DataFrame[Any] | LazyFrame

IBIS_DIALECTS = {
    "duckdb": "duckdb",
    "postgres": "postgres",
    "sqlite": "sqlite",
    "pyspark": "spark",
}
"""The dialects of ibis's backends."""


def _lazy(native: Any) -> LazyFrame:
    return nw.from_native(native)  # type: ignore[no-any-return]


def open_frame(frame: Any) -> tuple[Frame, Engine]:
    """A data frame of any kind, as narwhals has it, and its engine."""
    known = nw.from_native(frame, pass_through=True)
    if not isinstance(known, (nw.DataFrame, nw.LazyFrame)):
        raise TypeError(
            "frame must be a data frame of pandas, polars, pyarrow, DuckDB, Dask, "
            "PySpark or ibis; "
            f"got {type(frame).__name__}"
        )
    if known.implementation.is_spark_like():
        name = "pyspark"
    else:
        name = known.implementation.value
    if name == "polars" and isinstance(known, nw.LazyFrame):
        name = "polars (lazy)"
    else:
        name = name
    return known, ENGINES.get(name, ENGINES["pandas"])


def _assign_polars(native: Any, calibrate: Calibrate) -> Any:
    import polars as pl

    def calibrated(frame: Any) -> Any:
        found = calibrate(calibrate.scores_in(frame), frame)
        return [
            pl.Series(name, p, nan_to_null=True)
            for name, p in zip(calibrate.outputs, found, strict=True)
        ]

    if isinstance(native, pl.DataFrame):
        return native.with_columns(calibrated(native))

    def of_struct(struct: Any) -> Any:
        return pl.DataFrame(calibrated(struct.struct.unnest())).to_struct(struct.name)

    kind = pl.Struct(dict.fromkeys(calibrate.outputs, pl.Float64))
    # Chosen so that no column of the frame has it.
    name = "calibrated " + max(native.lazy().collect_schema().names(), key=len)
    whole = pl.struct(
        list(dict.fromkeys([*calibrate.columns, *calibrate.by]))
    ).map_batches(of_struct, return_dtype=kind, is_elementwise=True)
    return native.with_columns(whole.alias(name)).unnest(name)


def _assign_pyarrow(native: Any, calibrate: Calibrate) -> Any:
    for name, values in zip(calibrate.outputs, calibrate.arrow(native), strict=True):
        native = native.append_column(name, values)
    return native


def _assign_dask(native: Any, calibrate: Calibrate) -> Any:
    meta = native._meta.assign(**{name: np.empty(0) for name in calibrate.outputs})
    return native.map_partitions(calibrate.pandas, meta=meta)


def _assign_spark(native: Any, calibrate: Calibrate) -> Any:
    from pyspark.sql.types import DoubleType, StructField, StructType

    fields = [
        *native.schema.fields,
        *(StructField(name, DoubleType(), True) for name in calibrate.outputs),
    ]
    return native.mapInArrow(calibrate.arrow_batches, StructType(fields))


def _unpivot_duckdb(rows: LazyFrame, names: list[str]) -> LazyFrame:
    # narwhals unpivots relations of DuckDB's default connection only.
    keys, values = (
        ", ".join(f"{quote}{name}{quote}" for name in names) for quote in "'\""
    )
    return _lazy(
        rows.to_native().project(
            f"w, own, unnest([{keys}]) AS which, unnest([{values}]) AS u"
        )
    )


def _dialect_ibis(native: Any) -> str:
    name = native.get_backend().name
    if name not in IBIS_DIALECTS:
        known = ", ".join(IBIS_DIALECTS)
        raise TypeError(
            "frame must be of an ibis backend that calibrators are written for "
            f"({known}); got {name}"
        )
    return IBIS_DIALECTS[name]


def _reference_duckdb(column: str) -> str:
    """The column's name, in quotes for DuckDB 1: a prefix with a dot is a table."""
    import duckdb

    if duckdb.__version__.startswith("1."):
        return DIALECTS["duckdb"].identifier(column)
    return column


def _select_ibis(
    native: Any, projections: list[list[str]], outputs: Sequence[str]
) -> Any:
    query = "calspline_rows"
    for k, projection in enumerate(projections):
        source = query if k == 0 else f"({query}) AS calspline_rows_{k}"
        query = f"SELECT {', '.join(projection)} FROM {source}"
    return _query_ibis(native, "calspline_rows", query, outputs)


def _query_ibis(table: Any, name: str, query: str, outputs: Sequence[str] = ()) -> Any:
    """A query on a table with known columns, which ``Table.sql`` would look up."""
    import ibis
    from ibis.expr.operations import SQLStringView

    schema = ibis.schema(
        dict(table.schema().items()) | dict.fromkeys(outputs, "float64")
    )
    return SQLStringView(
        parent=table.alias(name).op(), query=query, schema=schema
    ).to_expr()


def _unpivot_ibis(rows: LazyFrame, names: list[str]) -> LazyFrame:
    """The rows crossed with a table of the classes, which every database can do."""
    import ibis
    import pyarrow as pa

    crossed = _lazy(
        rows.to_native().cross_join(ibis.memtable(pa.table({"which": names})))
    )
    u = nw.col(names[-1])
    for name in names[:-1]:
        u = nw.when(nw.col("which") == name).then(nw.col(name)).otherwise(u)
    return crossed.select("w", "own", "which", u=u)


def _barrier_ibis(frame: LazyFrame) -> LazyFrame:
    table = frame.to_native()
    dialect = DIALECTS.get(IBIS_DIALECTS.get(table.get_backend().name, ""))
    if dialect is None or not dialect.barrier:
        return frame
    from ibis.util import gen_name

    name = gen_name("calspline_rows")
    query = f"SELECT * FROM {dialect.identifier(name)} {dialect.barrier}"
    return _lazy(_query_ibis(table, name, query))


ENGINES = {
    engine.name: engine
    for engine in (
        Engine(
            "pandas",
            assign=lambda native, calibrate: calibrate.pandas(native),
        ),
        Engine("polars", assign=_assign_polars),
        Engine("polars (lazy)", lazy_rows, assign=_assign_polars),
        Engine("pyarrow", assign=_assign_pyarrow),
        Engine("dask", partition_rows, assign=_assign_dask, typed=False),
        Engine(
            "duckdb",
            lazy_rows,
            select=lambda native, projections, _: reduce(
                lambda rows, each: rows.project(", ".join(each)), projections, native
            ),
            dialect=lambda native: "duckdb",
            unpivot=_unpivot_duckdb,
            reference=_reference_duckdb,
        ),
        Engine(
            "pyspark",
            lazy_rows,
            assign=_assign_spark,
            select=lambda native, projections, _: reduce(
                lambda rows, each: rows.selectExpr(*each), projections, native
            ),
            dialect=lambda native: "spark",
            reference=DIALECTS["spark"].identifier,  # a dot would be taken for a field
        ),
        Engine(
            "ibis",
            lazy_rows,
            select=_select_ibis,
            dialect=_dialect_ibis,
            unpivot=_unpivot_ibis,
            barrier=_barrier_ibis,
        ),
    )
}
"""Engines by name."""
