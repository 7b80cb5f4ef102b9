"""Calibrators as SQL: an expression over columns, or a query in stages.

An expression has to bind names by functions of lists, which engines evaluate slowly. Where the query is ours to
write, what is used more than once is a column of the query below: a stage is a projection, and the engine computes
each of its columns once for every row.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, overload

from calspline.export.dialects import DIALECTS, Dialect, numeral
from calspline.export.plan import formula_of
from calspline.export.statement import Statement, with_names
from calspline.expression import Expression, Formula, Program, name, substituted
from calspline.options import check_one_of

DialectName = Literal["duckdb", "postgres", "spark", "sqlite"]


@overload
def to_sql(calibrator: Any, column: str, *, dialect: DialectName = "duckdb") -> str: ...
@overload
def to_sql(calibrator: Any, column: Sequence[str], *, dialect: DialectName = "duckdb") -> list[str]: ...
def to_sql(calibrator: Any, column: str | Sequence[str], *, dialect: DialectName = "duckdb") -> str | list[str]:
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
    check_one_of(dialect, "dialect", tuple(DIALECTS))
    formula = formula_of(calibrator)
    columns = [column] if isinstance(column, str) else column
    wanted = 1 if len(formula.classes) == 2 else len(formula.classes)
    if (wanted == 1) != isinstance(column, str):
        expected = "the name of a column" if wanted == 1 else f"a list of {wanted} names of columns"
        raise TypeError(f"column must be {expected}; got {column!r}")
    for item in columns:
        if not isinstance(item, str) or not item or "\0" in item:
            raise ValueError(f"column must be the name of a column; got {item!r}")
    if len(columns) != wanted:
        raise ValueError(f"column must have {wanted} names, one for each class; got {len(columns)}")
    found = Statement(DIALECTS[dialect], columns).write(formula)
    return found[0] if wanted == 1 else found


@dataclass(frozen=True)
class Stages:
    """Columns to add, stage by stage, by name; then the ``results``, which use them."""

    stages: list[dict[str, str]]
    results: list[str]


def in_stages(
    calibrator: Any, columns: Sequence[str], dialect: str, *, taken: Iterable[str], otherwise: str = ""
) -> Stages:
    """A calibrator as stages over some columns.

    No name of a stage is among ``taken``, nor part of one. Rows that hold no scores get NULL, or
    what further branches of a CASE in ``otherwise`` say.
    """
    prefix = "stage_"
    while any(prefix in column.lower() for column in taken):
        prefix = "_" + prefix
    return _Staged(DIALECTS[dialect], columns, prefix).stages(formula_of(calibrator), otherwise)


class _Staged(Statement):
    # Spark compiles no method that is long, so there is one comparison and as many steps as it takes.
    _most_compared = 1

    def __init__(self, writer: Dialect, columns: Sequence[str], prefix: str) -> None:
        super().__init__(writer, columns)
        self._prefix = prefix
        self._own = re.compile(rf"\b{prefix}\d+\b")
        self._names: dict[str, str] = {}
        self._stage_of: dict[str, int] = {}
        self._stages: list[dict[str, str]] = []

    def stages(self, formula: Formula, otherwise: str) -> Stages:
        """All stages and results."""
        valid = self._named(self._valid(formula.kind))
        # Scores in place of what is none keep the arithmetic within its bounds.
        safe = numeral(0.0 if formula.kind == "margin" else 1.0 / max(len(self._columns), 2))
        self._columns = [self._named(f"CASE WHEN {valid} THEN {column} ELSE {safe} END") for column in self._columns]
        p, m = [name(column) for column in self._columns], len(formula.classes)
        if m == 2:
            values = [self._value(formula.program, {"p": p[0]})]
        else:
            values = [self._element(formula.program, j, p) for j in range(m)]
        return Stages(
            [{column: with_names(text) for column, text in stage.items()} for stage in self._stages],
            [with_names(f"CASE WHEN {valid} THEN {value} {otherwise} END") for value in values],
        )

    def _named(self, value: str) -> str:
        """The column of a value, in the first stage that can have it."""
        if value not in self._names:
            column = f"{self._prefix}{len(self._names)}"
            used = self._own.findall(value)
            stage = 1 + max((self._stage_of[other] for other in used), default=-1)
            if stage == len(self._stages):
                self._stages.append({})
            self._stages[stage][column] = value
            self._names[value], self._stage_of[column] = column, stage
        return self._names[value]

    def _bound(self, variable: str, values: list[str], body: Callable[[list[Expression]], str]) -> str:
        return body([name(self._named(value)) for value in values])

    def _value(self, program: Program, known: dict[str, Expression]) -> str:
        for variable, value in program.steps:
            known = known | {variable: name(self._named(self._write(substituted(value, known))))}
        return self._write(substituted(program.result, known))
