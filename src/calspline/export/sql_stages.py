"""Calibrators as SQL: a query in stages.

An expression has to bind names by functions of lists, which engines evaluate slowly. Where the query is ours to
write, what is used more than once is a column of the query below: a stage is a projection, and the engine computes
each of its columns once for every row.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from calspline.export import formula_of
from calspline.export.dialects import DIALECTS, Dialect, numeral
from calspline.export.sql import Statement
from calspline.export.sql_segments import Segments, with_names
from calspline.expression import Expression, Formula, Program, name, substituted


@dataclass(frozen=True)
class Stages:
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

    No name of a stage is among ``taken``, nor part of one. Rows that hold no scores get NULL, or
    what further branches of a CASE in ``otherwise`` say.
    """
    prefix = "stage_"
    while any(prefix in column.lower() for column in taken):
        prefix = "_" + prefix
    formula = formula_of(calibrator, segments=True)
    segments = Segments(by).checked(formula)
    return _Staged(DIALECTS[dialect], columns, prefix, segments).stages(formula, otherwise)


class _Staged(Statement):
    # Spark compiles no method that is long, so there is one comparison and as many steps as it takes.
    _most_compared = 1

    def __init__(self, writer: Dialect, columns: Sequence[str], prefix: str, segments: Segments) -> None:
        super().__init__(writer, columns, segments)
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
        scores = self._texts(self._scores(formula.kind))
        self._columns = [self._named(f"CASE WHEN {valid} THEN {score} ELSE {safe} END") for score in scores]
        values = self._values(formula, [name(column) for column in self._columns])
        return Stages(
            [{column: with_names(text) for column, text in stage.items()} for stage in self._stages],
            [with_names(f"CASE WHEN {valid} THEN {value} {otherwise} END") for value in values],
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

    def _bound(self, variable: str, values: list[str], body: Callable[[list[Expression]], str]) -> str:
        return body([name(self._named(value)) for value in values])

    def _value(self, program: Program, known: dict[str, Expression]) -> str:
        known = {key: row[0] for key, row in self._effects.items()} | known
        for variable, value in program.steps:
            known = known | {variable: name(self._named(self._write(substituted(value, known))))}
        return self._write(substituted(program.result, known))
