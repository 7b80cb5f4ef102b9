"""One row for each class of a row, inside the query, so that all classes are summed in the same pass.

Engines differ in what they do best: DuckDB unnests lists, ibis crosses the rows with a table of the classes, which
every one of its databases can do, and the others unpivot.
"""

from __future__ import annotations

from typing import Any

import narwhals as nw

Frame = nw.LazyFrame[Any]


def long(frame: Frame, names: list[str]) -> Frame:
    """Columns ``which`` (the name of a column), ``u`` (its value), ``positive`` (1.0 or 0.0) and ``w``.

    Names are numbers; a row is positive for the column whose number is its ``code``.
    """
    if len(names) == 1:
        own = nw.when(nw.col("code") == int(names[0])).then(nw.lit(1.0)).otherwise(nw.lit(0.0))
        return frame.select("w", u=nw.col(names[0]), which=nw.lit(names[0]), positive=own)
    rows = frame.select("w", *names, own=nw.col("code").cast(nw.String))
    if frame.implementation.is_duckdb():
        rows = _unnested(rows, names)
    elif frame.implementation.is_ibis():
        rows = _crossed(rows, names)
    else:
        rows = rows.unpivot(on=names, index=["w", "own"], variable_name="which", value_name="u")
    own = nw.when(nw.col("own") == nw.col("which")).then(nw.lit(1.0)).otherwise(nw.lit(0.0))
    return rows.with_columns(positive=own)


def _unnested(rows: Frame, names: list[str]) -> Frame:
    # narwhals unpivots relations of DuckDB's default connection only.
    keys, values = (", ".join(f"{quote}{name}{quote}" for name in names) for quote in "'\"")
    unnested: Frame = nw.from_native(
        rows.to_native().project(f"w, own, unnest([{keys}]) AS which, unnest([{values}]) AS u")
    )
    return unnested


def _crossed(rows: Frame, names: list[str]) -> Frame:
    import ibis
    import pyarrow as pa

    classes = ibis.memtable(pa.table({"which": names}))
    crossed: Frame = nw.from_native(rows.to_native().cross_join(classes))
    u = nw.col(names[-1])
    for name in names[:-1]:
        u = nw.when(nw.col("which") == name).then(nw.col(name)).otherwise(u)
    return crossed.select("w", "own", "which", u=u)
