"""Calibrators as SQL: an expression over columns, or steps in a query.

What a newcomer needs to know: a map describes itself as a formula, which is named steps
of arithmetic and of operations on rows (``model.formula()``). ``sql_steps.py`` writes
it as columns, each of which uses earlier ones, and puts these columns into a subquery,
into lambdas or into lateral joins; there is no other path, whatever the map. An
operation of formulas is a branch of ``StepWriter``. What a dialect says in its own way
is a record in ``dialects.py``. Effects of segments are names in a formula:
``sql_segments.py`` says what they stand for, and nothing else knows of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, overload

from calspline._expression import Formula
from calspline._input.options import check_one_of
from calspline._input.segment_labels import places_by_name
from calspline.export.dialects import DIALECTS, Dialect
from calspline.export.formulas import formula_of
from calspline.export.sql_segments import (
    Effects,
    effects_in_arrays,
    effects_in_tables,
    effects_of_new,
    make_tables,
)
from calspline.export.sql_steps import Steps, StepWriter

DialectName = Literal["duckdb", "postgres", "spark", "sqlite"]
By = str | Sequence[str] | None
MOST_LAMBDAS = 8
"""Stages of an expression as lambdas: planning one more takes DuckDB twice as long."""


class JoinedSql(NamedTuple):
    """SQL of a calibrator with joins: tables of effects of segments, and steps.

    ``create`` are the statements that create and fill the tables (one table per column
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
        segments. Expressions for PostgreSQL and SQLite, and for several classes or
        segments in DuckDB, contain subqueries, which are not allowed in generated
        columns, indexes and check constraints; use a view or a query.
    by : str or list of str, optional
        Columns of segments, for a calibrator that was fitted with ``by``. NULL and
        unseen labels get the probability of a new segment. Labels are compared by
        value: 1, 1.0 and true are the same, 1 and ``'1'`` are not. The query fails if
        the column (in SQLite: a value) has another type than the labels.
    table : str, optional
        Name of a table of effects, which keeps the expression short if there are many
        segments. By default, labels and effects are part of the expression. Several
        classes may have a ``table`` without segments, too: in Spark and PostgreSQL, the
        steps of the computation are then lateral joins, which are computed once for all
        classes. In Spark, they are some hundred times as fast as expressions.

    Returns
    -------
    sql : str, list of str or JoinedSql
        An expression, or one for each class. For several classes, each expression
        contains all steps of the computation. With ``table``, a
        :class:`~calspline.export.sql.JoinedSql`: the statements that create and fill
        tables of effects (none without segments), the joins, and the expression. Names
        of joined steps begin with ``calibration_``.

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
    by = [by] if isinstance(by, str) else by
    _check_by(formula, by)
    columns = _check_columns(formula, column)
    n_classes = len(formula.classes)
    if table is not None and (not _is_name(table) or (by is None and n_classes == 2)):
        raise ValueError(
            "table must be the name of a table, for a calibrator with by or of several "
            f"classes; got {table!r}"
        )
    by = _in_order(formula, by or ())
    own = _Export(DIALECTS[dialect], formula, columns, by)
    if table is not None:
        return own.joined(table)
    found = own.expressions()
    return found[0] if n_classes == 2 else found


def _check_by(formula: Formula, by: Sequence[str] | None) -> None:
    if by is None and formula.lookups:
        raise ValueError(
            "by, the columns of segments, must be named: this calibrator was fitted "
            "with segments"
        )
    if by is not None and not formula.lookups:
        raise ValueError(
            "by must be left out: this calibrator was fitted without segments"
        )
    for name in by or ():
        if not _is_name(name):
            raise ValueError(
                f"by must be the name of a column, or a list of names; got {name!r}"
            )


def _check_columns(formula: Formula, column: Any) -> Sequence[str]:
    """The columns of scores."""
    n_columns = 1 if len(formula.classes) == 2 else len(formula.classes)
    if isinstance(column, str) != (n_columns == 1):
        expected = f"a list of {n_columns} names of columns"
        if n_columns == 1:
            expected = "the name of a column"
        raise TypeError(f"column must be {expected}; got {column!r}")
    columns: Sequence[str] = [column] if isinstance(column, str) else column
    for name in columns:
        if not _is_name(name):
            raise ValueError(f"column must be the name of a column; got {name!r}")
    if len(columns) != n_columns:
        raise ValueError(
            f"column must have {n_columns} names, one for each class; got "
            f"{len(columns)}"
        )
    return columns


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and value != "" and "\0" not in value


def _in_order(formula: Formula, by: Sequence[str]) -> list[str]:
    """Columns of segments in the order of the fit."""
    if not by:
        return []
    order = places_by_name([lookup.column for lookup in formula.lookups], by)
    return [by[place] for place in order]


@dataclass(frozen=True)
class _Export:
    """A formula over columns of scores and columns of segments, in a dialect."""

    dialect: Dialect
    formula: Formula
    columns: Sequence[str]
    by: Sequence[str]

    def expressions(self) -> list[str]:
        """An expression for each class, or that of the second of two."""
        steps = self._steps("step_")
        return self._written(steps, self._effects(steps))

    def joined(self, table: str) -> JoinedSql:
        """Tables of effects, and steps as joins where they pay."""
        dialect, lookups = self.dialect, self.formula.lookups
        tables = [table]
        if len(self.by) != 1:
            tables = [f"{table}{k + 1}" for k in range(len(self.by))]
        segment = _free("segment", [*self.columns, *self.by])
        made, joins = make_tables(dialect, lookups, self.by, tables, segment)
        effects = effects_in_tables(dialect, lookups, tables)
        steps = self._steps("calibration_", table)
        if len(self.columns) == 1:
            [result] = self._written(steps, effects)
            return JoinedSql(made, "\n".join(joins), result)
        if not dialect.lateral:
            return JoinedSql(made, "\n".join(joins), self._written(steps, effects))
        results = self._writer(steps, effects).of_row(self.formula, self._quoted)
        joins += steps.as_joins(dialect.barrier)
        return JoinedSql(made, "\n".join(joins), results)

    def stages(self, taken: Iterable[str], otherwise: str) -> Stages:
        """Columns that projections add."""
        steps = self._steps("stage_", *taken, otherwise)
        writer = self._writer(steps, self._effects(steps))
        results = writer.of_row(self.formula, self._quoted, otherwise)
        return Stages(steps.stages, results)

    def _steps(self, prefix: str, *taken: str) -> Steps:
        labels = [
            str(label) for lookup in self.formula.lookups for label in lookup.labels
        ]
        return Steps(_free(prefix, [*self.columns, *self.by, *taken, *labels]))

    def _writer(self, steps: Steps, effects: Effects) -> StepWriter:
        return StepWriter(self.dialect, steps, effects)

    @property
    def _quoted(self) -> list[str]:
        return [*map(self.dialect.identifier, self.columns)]

    def _written(self, steps: Steps, effects: Effects) -> list[str]:
        """Expressions that hold all steps."""
        writer = self._writer(steps, effects)
        if len(self.columns) > 1:
            results = writer.of_row(self.formula, self._quoted)
            return steps.as_expressions(results, self.dialect, is_short=False)
        # A score that is invalid needs no steps.
        valid, value = writer.of_score(self.formula, self._quoted[0])
        is_short = not self.formula.lookups and len(steps.stages) <= MOST_LAMBDAS
        [text] = steps.as_expressions([value], self.dialect, is_short=is_short)
        return [f"CASE WHEN {valid} THEN\n{text}\nEND"]

    def _effects(self, steps: Steps) -> Effects:
        """Effects in arrays; without columns of segments those of new ones."""
        lookups = self.formula.lookups
        if not self.by:
            return effects_of_new(lookups)
        return effects_in_arrays(self.dialect, lookups, self.by, steps)


def _free(prefix: str, taken: Iterable[str]) -> str:
    """A beginning of names that is in no other name."""
    texts = "\n".join(taken).lower()
    while prefix in texts:
        prefix = "_" + prefix
    return prefix


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
    formula = formula_of(calibrator)
    own = _Export(DIALECTS[dialect], formula, columns, _in_order(formula, by))
    return own.stages(taken, otherwise)
