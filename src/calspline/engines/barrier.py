"""Columns that a database computes once for each row, however often a query uses them."""

from __future__ import annotations

from typing import Any

import narwhals as nw

Frame = nw.LazyFrame[Any]

KEEP = {"postgres": "OFFSET 0", "sqlite": "LIMIT -1 OFFSET 0"}
"""What keeps a subquery apart where its columns would else be written out at every use, and uses of uses again."""


def once(frame: Frame) -> Frame:
    """The same rows; in databases that merge subqueries, from one that they leave alone."""
    if not frame.implementation.is_ibis():
        return frame
    table = frame.to_native()
    backend = table.get_backend().name
    if backend not in KEEP:
        return frame
    from ibis.expr.operations import SQLStringView
    from ibis.util import gen_name

    name = gen_name("calspline_rows")
    query = f'SELECT * FROM "{name}" {KEEP[backend]}'
    kept: Frame = nw.from_native(
        SQLStringView(parent=table.alias(name).op(), query=query, schema=table.schema()).to_expr()
    )
    return kept
