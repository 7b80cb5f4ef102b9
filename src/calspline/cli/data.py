"""The data that a command's options describe: rows of files, whose every fault is named by its place.

What the columns hold is found in one pass. If something is wrong with it, another one finds the first row of which
that is true.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import cached_property
from itertools import count
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from calspline.arrays import Array
from calspline.cli.columns import Value, classes_of, in_class_order, label_column, model_columns, named, one_named
from calspline.cli.files import Source, identifier, literal, open_source
from calspline.cli.output import InputError, note
from calspline.export.dialects import DIALECTS
from calspline.labels import MAX_LABELS, label_array
from calspline.scores import ROUNDING, ROW_SUM_TOLERANCE
from calspline.segments.labels import By, check_by

NUMBERS = ("DOUBLE", "FLOAT", "BOOLEAN", "VARCHAR", "DECIMAL", "INT")
MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL")
INTEGER = "0|-?[1-9][0-9]*"
HELPER = "calspline helper "
LABEL, GROUP = f'"{HELPER}label"', f'"{HELPER}group"'
NOT_NAN = DIALECTS["duckdb"].not_nan
ABSENT = ", ".join(map(literal, MISSING))
NAMED_ROWS = 5
NO_PROBABILITY = (
    "it must be a probability in [0, 1], and {} are outside; to calibrate margins, such as a decision_function gives, "
    "fit with --transform identity"
)


class Rule(NamedTuple):
    """What is wrong with a row: tests in SQL, by the number of the column that they are of, and what to say."""

    tests: dict[int, str]
    why: str


class Data:
    """Columns of files: scores, and labels and weights where they are needed, with what one pass tells of them.

    :func:`open_labelled` gives it its ``classes``, in the order of the columns of scores.
    """

    classes: Sequence[Value] = ()
    _codes: dict[str, int]
    """The place among the classes of every text that is a label."""

    def __init__(
        self,
        source: Source,
        scores: Sequence[str],
        label: str | None = None,
        weight: str | None = None,
        group: str | None = None,
        *,
        by: Sequence[str] = (),
        types: Sequence[str] = (),
        margins: bool = False,
        sums: bool = True,
    ):
        self.source, self.scores, self.label, self.weight, self.group = source, list(scores), label, weight, group
        self.by = list(by)
        self._numbers = [*self.scores, *([weight] if weight else [])]
        for name in self._numbers:
            kind = source.types[name]
            if not any(word in kind for word in NUMBERS) or kind.endswith("]") or "(" in kind.removeprefix("DECIMAL("):
                raise InputError(f"column {name!r} of {source.name} must hold numbers; it is of type {kind}")
        self.helpers = [f"{HELPER}{i}" for i in range(len(self._numbers))]
        self._quoted = [identifier(helper) for helper in self.helpers]
        numbers = zip(self._numbers, self._quoted, strict=True)
        items = [f"{_number(name, source.types[name])} AS {helper}" for name, helper in numbers]
        text = "'x'" if label is None else _label(label, source.types[label])
        items.append(f"{text} AS {LABEL}")
        tests = [f"{column} IS NOT NULL AND {NOT_NAN.format(column)}" for column in self._quoted]
        tests.append(f"{LABEL} IS NOT NULL")
        if group is not None:
            items.append(f"{_label(group, source.types[group])} AS {GROUP}")
            tests.append(f"{GROUP} IS NOT NULL")
        for k, name in enumerate(self.by):  # as labels are, or of the types that a model has them in
            value = _label(name, source.types[name])
            items.append(f"{f'TRY_CAST({value} AS {types[k]})' if types else value} AS {_segment(k)}")
        self.segments = [_segment(k).strip('"') for k in range(len(self.by))]
        self.select, self.present = ", ".join(items), " AND ".join(tests)
        self._rules = self._rules_for(margins=margins, sums=sums)
        if label is not None:
            source.keep(self.select)
        self._look()

    def _rules_for(self, *, margins: bool, sums: bool) -> list[Rule]:
        """What every row that lacks nothing has to keep to."""
        k = len(self.scores)
        scores, weights = self._quoted[:k], self._quoted[k:]
        rules = [Rule({i: f"isinf({score})" for i, score in enumerate(scores)}, "it must be finite")]
        if not margins:
            outside = {i: f"{score} NOT BETWEEN {-ROUNDING} AND {1.0 + ROUNDING}" for i, score in enumerate(scores)}
            rules.append(Rule(outside, NO_PROBABILITY))
        if k > 1 and sums and not margins:
            rules.append(Rule({-1: f"abs({' + '.join(scores)} - 1) > {ROW_SUM_TOLERANCE}"}, ""))
        wrong = {k + i: f"({weight} < 0 OR isinf({weight}))" for i, weight in enumerate(weights)}
        return [*rules, Rule(wrong, "a weight must be finite and not negative")] if weights else rules

    def _look(self) -> None:
        """One pass: the labels, how many rows there are, which of them count, and which rules they break."""
        broken = [f"count_if({' OR '.join(rule.tests.values())})" for rule in self._rules]
        some = f"bool_or({self._quoted[-1]} <> 0)" if self.weight else "count(*)"
        texts = [f"CAST({_segment(k)} AS VARCHAR)" for k in range(len(self.by))]
        whole = [f"bool_and({_whole(text)})" for text in texts if self.label is not None]
        items = [f"{item} FILTER (WHERE {self.present})" for item in ["count(*)", *broken, *whole, some]]
        with self.source.reading():
            found = self.source.query(self.select).aggregate(", ".join([LABEL, "count(*)", *items]), LABEL)
            rows = found.limit(MAX_LABELS + 1).fetchall()
        if len(rows) > MAX_LABELS:
            raise InputError(
                f"column {self.label!r} of {self.source.name} has more than {MAX_LABELS} different values, too many "
                "for labels; name the column of labels with --label"
            )
        self.spellings = sorted(str(row[0]) for row in rows if row[0] is not None)
        if self.label is not None and not self.spellings:
            nothing = f"column {self.label!r} of {self.source.name} has no labels"
            raise InputError(nothing if rows else f"{self.source.name} has no rows of data")
        self._counting = {str(row[0]) for row in rows if row[-1]}
        n_rows, self.n_used = (sum(row[i] for row in rows) for i in (1, 2))
        self.n_missing = n_rows - self.n_used
        self._broken = [sum(row[3 + i] or 0 for row in rows) for i in range(len(self._rules))]
        first = 3 + len(self._rules)
        self._whole = [all(row[first + k] is not False for row in rows) for k in range(len(whole))]

    def note_missing(self, what: str = "values", file: str = "") -> None:
        """Say how many rows were left out, if any were."""
        if self.n_missing:
            note(f"{file}{self.n_missing:,} rows with missing {what} were left out")

    def check(self, missing: str) -> None:
        """Complain about the first row with a value that cannot be used, and about rows that show one class only."""
        if self.n_missing:
            self._check_words()
        for rule, broken in zip(self._rules, self._broken, strict=True):
            if broken:
                self._refuse(rule, f"{broken} of {self.n_used} rows")
        if self.n_missing and missing == "error":
            self._refuse_missing()
        if not self.classes:
            return
        name = self.source.name
        if not self._counting and self.weight and self.n_used:
            raise InputError(f"{name}: the weights in column {self.weight!r} are all zero")
        if not self._counting:
            raise InputError(f"{name} has no rows of data")
        if len({self._codes[text] for text in self._counting}) < 2:
            raise InputError(f"{name} must show two classes; every row that counts is of one")

    def _check_words(self) -> None:
        """Complain about the first value that is neither a number nor missing."""
        words = []
        for name in self._numbers:
            if self.source.types[name] == "VARCHAR":
                wrong = f"{_text(name)} NOT IN ({ABSENT}) AND {_number(name, 'VARCHAR')} IS NULL"
                before, after = literal(f"{name} is '"), literal("'")
                words.append(f"WHEN {wrong} THEN concat({before}, {identifier(name)}, {after})")
        select = f"CASE {' '.join(words)} ELSE '' END AS word"
        for file, row, (said,) in self.source.first_rows(select, "word <> ''") if words else []:
            raise InputError(f"row {row} of {file}: {said}, which is not a number")

    def _refuse(self, rule: Rule, many: str) -> NoReturn:
        """Complain about the first row that breaks a rule, as so ``many`` do."""
        cases = " ".join(f"WHEN {test} THEN {i}" for i, test in rule.tests.items())
        select = f"{self.select}, CASE {cases} END AS i"
        [(file, row, (*values, i))] = self.source.first_rows(select, f"i IS NOT NULL AND {self.present}")
        if i >= 0:
            raise InputError(f"row {row} of {file}: {self._numbers[i]} is {values[i]:g}; {rule.why.format(many)}")
        columns = ", ".join(self.scores[:3]) + (", ..." if len(self.scores) > 3 else "")
        raise InputError(
            f"row {row} of {file}: the scores ({columns}) must sum to one within {ROW_SUM_TOLERANCE:g}, "
            f"and sum to {sum(values[: len(self.scores)]):.6g}"
        )

    def _refuse_missing(self) -> NoReturn:
        found = self.source.first_rows(self.select, f"NOT ({self.present})", NAMED_ROWS)
        file, _, values = found[0]
        lacking = [value is None or value != value for value in values]  # NaN is not itself
        column = [*self._numbers, self.label, self.group][lacking.index(True)]
        listed = ", ".join(str(row) for _, row, _ in found) + (" and more" if self.n_missing > len(found) else "")
        raise InputError(
            f"column {column!r} of {file} has missing values: {self.n_missing} in all, "
            f"in row{'s' if len(found) > 1 else ''} {listed} (the first row of data is 1); "
            "leave them out with --missing drop"
        )

    def frame(self) -> tuple[Any, dict[str, Any]]:
        """Rows that lack nothing as a relation of DuckDB, and its columns as :func:`~calspline.fit_frame` wants them.

        Labels are places among the classes, and names of columns are those of classes.
        """
        helpers = [self._quoted[self._numbers.index(name)] for name in self.scores]
        values = {"p" if len(helpers) == 1 else f"p_{j}": helper for j, helper in enumerate(helpers)}
        names = list(values)
        if self.label is not None:
            cases = " ".join(f"WHEN {literal(text)} THEN {code}" for text, code in self._codes.items())
            values["label"] = f"CASE {LABEL} {cases} END"
        if self.weight:
            values["weight"] = self._quoted[-1]
        if self.group is not None:
            values["group"] = GROUP
        taken = {name.lower() for name in self.by}
        mark = next("_" * k for k in count() if not taken & {f"{'_' * k}{name}" for name in values})
        columns: dict[str, Any] = {name: f"{mark}{name}" for name in values if name not in names}
        items = [f"{value} AS {identifier(mark + name)}" for name, value in values.items()]
        for k, name in enumerate(self.by):  # a text file does not tell numbers from texts
            value = f"CAST({_segment(k)} AS BIGINT)" if self._whole[k] else _segment(k)
            items.append(f"{value} AS {identifier(name)}")
        rows = self.source.query(self.select, where=self.present)
        columns |= {"score": [mark + name for name in names], "by": self.by or None}
        return rows.project(", ".join(items)), columns

    @cached_property
    def gathered(self) -> tuple[Array, NDArray[np.int64], Array | None, NDArray[Any] | None, By | None]:
        """All rows at once: scores, places of labels among the classes (if any), weights, groups, and segments."""
        with self.source.reading():
            relation, columns = self.frame()
            found = relation.fetchnumpy()
        scores = np.column_stack([np.asarray(found[name]) for name in columns["score"]])
        by = [found[name].tolist() for name in self.by]
        return (
            scores[:, 0] if scores.shape[1] == 1 else scores,
            np.asarray([] if self.label is None else found[columns["label"]], dtype=np.int64),
            None if self.weight is None else np.asarray(found[columns["weight"]]),
            None if self.group is None else label_array(found[columns["group"]].tolist()),
            check_by(by, len(scores), "--by").named(self.by) if by else None,
        )


def note_groups(rows: Any) -> None:
    """Say so if rows, which are checked predictions, seem to belong together."""
    from calspline.evaluation.predictions import grouping_hint

    if hint := grouping_hint(rows):
        note(hint)


def _whole(text: str) -> str:
    """Whether a text is an integer, or missing."""
    fits = f"TRY_CAST({text} AS BIGINT) IS NOT NULL"
    return f"{text} IS NULL OR (regexp_full_match({text}, {literal(INTEGER)}) AND {fits})"


def _segment(k: int) -> str:
    return f'"{HELPER}by_{k}"'


def _text(column: str) -> str:
    return f"trim(CAST({identifier(column)} AS VARCHAR))"


def _label(column: str, kind: str) -> str:
    """Text, or what is quicker and says the same; NULL if it is missing."""
    if kind == "BOOLEAN" or kind.endswith(("INT", "INTEGER")):
        return identifier(column)
    return f"CASE WHEN {_text(column)} NOT IN ({ABSENT}) THEN {_text(column)} END"


def _number(column: str, kind: str) -> str:
    # DuckDB 2.0 has its reader of CSV convert a column of which only a cast is used, and then fails where it cannot.
    value = f"trim({identifier(column)})" if kind == "VARCHAR" else identifier(column)
    return f"TRY_CAST({value} AS DOUBLE)"


def open_for_model(options: argparse.Namespace, model: Any) -> Data:
    """Scores for a model, with their labels, which are by default its classes."""
    source = open_source(options)
    if options.positive is None and options.classes is None:
        options.classes = ",".join(map(str, model.classes_))
    columns = model_columns(source.columns, model, last(options))
    return open_labelled(source, columns, options, margins=model.kind_ == "margin")


def open_labelled(
    source: Source,
    scores: list[str],
    options: argparse.Namespace,
    *,
    every: list[str] | None = None,
    margins: bool = False,
) -> Data:
    """Scores with their labels and weights, checked; ``every`` is all columns if there are several sets of scores."""
    label = label_column(source.columns, options.label)
    weight = None if options.weight is None else one_named(source.columns, options.weight, "--weight")
    if label in scores:
        raise InputError(f"column {label!r} cannot be both score and label; name them with --score and --label")
    if len(scores) > 2 and options.positive is not None:
        raise InputError("--positive is for two classes; for more, name them in order with --classes")
    group = None if options.group is None else one_named(source.columns, options.group, "--group")
    by = [] if getattr(options, "by", None) is None else named(source.columns, options.by, "--by")
    data = Data(source, every or scores, label, weight, group, by=by, margins=margins, sums=every is None)
    data.classes, data._codes = classes_of(data.spellings, options, scores, label, source.name)
    data.check(options.missing)
    if every is None:
        data.scores = in_class_order(scores, data.classes, known=options.classes is not None)
    return data


def last(options: argparse.Namespace) -> str | None:
    """What was said last with ``--score``."""
    return options.score[-1] if options.score else None
