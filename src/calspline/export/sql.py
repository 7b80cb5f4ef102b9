"""Calibrators as SQL: an expression over columns, or a query in stages.

An expression has to bind names by functions of lists, which engines evaluate slowly.
Where the query is ours to write, what is used more than once is a column of the query
below: a stage is a projection, and the engine computes each of its columns once for
every row.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple, overload

from calspline._expression import Expression, Formula, Program, name
from calspline._input.options import check_one_of
from calspline._input.segment_labels import places_by_name
from calspline.export.dialects import DIALECTS, Dialect, numeral
from calspline.export.formulas import formula_of
from calspline.export.sql_statement import Statement, with_names

DialectName = Literal["duckdb", "postgres", "spark", "sqlite"]
By = str | Sequence[str] | None


class JoinedSql(NamedTuple):
    """SQL of a calibrator with segments whose effects are in a table.

    ``create`` are the statements that create and fill the table (one table per column
    of segments), ``join`` follows the FROM clause of the query with the scores, and
    ``expression`` (a list for several classes) belongs to its SELECT clause.
    """

    create: list[str]
    join: str
    expression: str | list[str]


@overload
def to_sql(
    calibrator: Any,
    column: str,
    *,
    dialect: DialectName = "duckdb",
    by: By = None,
    table: None = None,
) -> str: ...
@overload
def to_sql(
    calibrator: Any,
    column: Sequence[str],
    *,
    dialect: DialectName = "duckdb",
    by: By = None,
    table: None = None,
) -> list[str]: ...
@overload
def to_sql(
    calibrator: Any,
    column: str | Sequence[str],
    *,
    dialect: DialectName = "duckdb",
    by: By = None,
    table: str,
) -> JoinedSql: ...
def to_sql(
    calibrator: Any,
    column: str | Sequence[str],
    *,
    dialect: DialectName = "duckdb",
    by: By = None,
    table: str | None = None,
) -> str | list[str] | JoinedSql:
    """Export a calibrator to an SQL expression over a column.

    The result is NULL for NULL and for invalid scores: NaN, probabilities outside [0,
    1], or rows of probabilities that do not sum to one. Rounding errors outside [0, 1]
    are clipped, as in ``calibrate``.

    Parameters
    ----------
    calibrator : fitted calibrator
        Calibrator to export.
    column : str, or list of str
        Name of the column with the probability of ``classes_[1]`` or with the margin;
        for three or more classes, a list of names in the order of ``classes_``. Names
        are quoted.
    dialect : {"duckdb", "postgres", "spark", "sqlite"}, default="duckdb"
        SQL dialect. DuckDB must be 1.3 or later. SQLite must be compiled with its math
        functions, which is the default of most builds, and with JSON functions for
        segments. Expressions for PostgreSQL and SQLite contain subqueries, which are
        not allowed in generated columns, indexes and check constraints; use a view or a
        query.
    by : str or list of str, optional
        Columns of segments, for a calibrator that was fitted with ``by``. NULL and
        unseen labels get the probability of a new segment. Labels are compared by
        value: 1, 1.0 and true are the same, 1 and ``'1'`` are not. The query fails if
        the column (in SQLite: a value) has another type than the labels.
    table : str, optional
        Name of a table of effects, which keeps the expression short if there are many
        segments. By default, labels and effects are part of the expression. SQLite
        requires a table for logits of several classes with ``multiclass="ovr"``, whose
        expressions are too deep for its parser.

    Returns
    -------
    sql : str, list of str or JoinedSql
        An expression, or one for each class. For several classes, each expression needs
        all columns and all curves, so their length grows with the square of the number
        of classes. With ``table``, a :class:`~calspline.export.sql.JoinedSql`: the
        statements that create and fill the table, the join, and the expression.

    Examples
    --------
    >>> from calspline import SplineCalibrator
    >>> from calspline.export import to_sql
    >>> cal = SplineCalibrator(n_knots=3)
    >>> cal = cal.fit([0.1, 0.3, 0.4, 0.6, 0.7, 0.9], [0, 0, 1, 0, 1, 1])
    >>> expression = to_sql(cal, "score")
    >>> query = f"SELECT score, {expression} AS calibrated FROM predictions"
    >>> print(to_sql(cal, "Alice's score", dialect="spark").splitlines()[0])
    CASE WHEN double(`Alice's score`) BETWEEN -0.0001e0 AND 1.0001e0 THEN

    With a table of segments:

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> p, country = rng.uniform(size=1000), np.where(np.arange(1000) % 2, "fr", "de")
    >>> paid = rng.random(1000) < np.where(country == "fr", p, p**2)
    >>> cal = SplineCalibrator().fit(p, paid, by=country)
    >>> create, join, expression = to_sql(cal, "score", by="country", table="effects")
    >>> create[0]
    'CREATE TABLE "effects" ("segment" VARCHAR, "new_0" DOUBLE, "effect_0_0" DOUBLE)'
    >>> query = f"SELECT score, {expression} AS calibrated FROM predictions {join}"
    """
    check_one_of(dialect, "dialect", tuple(DIALECTS))
    formula = formula_of(calibrator)
    if table is not None and (by is None or not _is_name(table)):
        raise ValueError(
            "table must be the name of a table, for a calibrator with by; got "
            f"{table!r}"
        )
    if (by is None) != (not formula.lookups):
        named = (
            "named: this calibrator was fitted with segments"
            if by is None
            else "left out: this one was not"
        )
        raise ValueError(f"by, the columns of segments, must be {named}")
    segments = _in_order(
        formula, [] if by is None else [by] if isinstance(by, str) else list(by)
    )
    columns = [column] if isinstance(column, str) else column
    wanted = 1 if len(formula.classes) == 2 else len(formula.classes)
    if (wanted == 1) != isinstance(column, str):
        expected = (
            "the name of a column"
            if wanted == 1
            else f"a list of {wanted} names of columns"
        )
        raise TypeError(f"column must be {expected}; got {column!r}")
    for item in columns:
        if not _is_name(item):
            raise ValueError(f"column must be the name of a column; got {item!r}")
    if len(columns) != wanted:
        raise ValueError(
            f"column must have {wanted} names, one for each class; got {len(columns)}"
        )
    statement = Statement(DIALECTS[dialect], columns, segments, table)
    found = statement.write(formula)
    result = found[0] if wanted == 1 else found
    return result if table is None else JoinedSql(*statement.effects(formula), result)


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and value != "" and "\0" not in value


def _in_order(formula: Formula, by: Sequence[str]) -> list[str]:
    """Columns of segments in the order of the fit."""
    for one in by:
        if not _is_name(one):
            raise ValueError(
                f"by must be the name of a column, or a list of names; got {one!r}"
            )
    order = (
        places_by_name([lookup.column for lookup in formula.lookups], by) if by else []
    )
    return [by[place] for place in order]


class Stages(NamedTuple):
    """Columns to add, stage by stage, by name; then the ``results``, which use them."""

    stages: list[dict[str, str]]
    results: list[str]


def in_stages(
    calibrator: Any,
    columns: Sequence[str],
    dialect: str,
    *,
    taken: Iterable[str],
    otherwise: str = "",
    by: Sequence[str] = (),
) -> Stages:
    """A calibrator as stages over some columns, with those of segments.

    No name of a stage is among ``taken``, nor part of one. Rows that hold no scores get
    NULL, or what further branches of a CASE in ``otherwise`` say.
    """
    prefix = "stage_"
    while any(prefix in column.lower() for column in taken):
        prefix = "_" + prefix
    formula = formula_of(calibrator)
    return _Staged(DIALECTS[dialect], columns, prefix, _in_order(formula, by)).stages(
        formula, otherwise
    )


class _Staged(Statement):
    # Spark compiles no method that is long, so there is one comparison and as many
    # steps as it takes.
    _most_compared = 1

    def __init__(
        self, writer: Dialect, columns: Sequence[str], prefix: str, by: Sequence[str]
    ) -> None:
        super().__init__(writer, columns, by)
        self._prefix = prefix
        self._own = re.compile(rf"\b{prefix}\d+\b")
        self._names: dict[str, str] = {}
        self._stage_of: dict[str, int] = {}
        self._stages: list[dict[str, str]] = []

    def stages(self, formula: Formula, otherwise: str) -> Stages:
        """All stages and results."""
        valid = self._named(self._valid(formula.kind))
        # Scores in place of what is none keep the arithmetic within its bounds.
        safe = numeral(
            0.0 if formula.kind == "margin" else 1.0 / max(len(self._columns), 2)
        )
        scores = self._texts(self._scores(formula.kind))
        self._columns = [
            self._named(f"CASE WHEN {valid} THEN {score} ELSE {safe} END")
            for score in scores
        ]
        p = [name(column) for column in self._columns]
        values = [self._class(formula, p, j) for j in range(len(p))]
        return Stages(
            [
                {column: with_names(text) for column, text in stage.items()}
                for stage in self._stages
            ],
            [
                with_names(f"CASE WHEN {valid} THEN {value} {otherwise} END")
                for value in values
            ],
        )

    def _named(self, value: str) -> str:
        """The column of a value, in the first stage that can have it."""
        if value in self._stage_of:
            return value
        if value not in self._names:
            column = f"{self._prefix}{len(self._names)}"
            used = self._own.findall(value)
            stage = 1 + max((self._stage_of[other] for other in used), default=-1)
            if stage == len(self._stages):
                self._stages.append({})
            self._stages[stage][column] = value
            self._names[value], self._stage_of[column] = column, stage
        return self._names[value]

    def _bound(self, variable: str, values: list[str]) -> list[Expression]:
        return [name(self._named(value)) for value in values]

    def _value(self, program: Program, known: dict[str, Expression]) -> str:
        known = {key: row[0] for key, row in self._effects.items()} | known
        for variable, value in program.steps:
            known = known | {
                variable: name(self._named(self._write(value.given(known))))
            }
        return self._write(program.result.given(known))
