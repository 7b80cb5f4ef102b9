"""The data that a command's options describe: rows of files, checked.

What the columns hold is found in one pass. If something is wrong with it, another one
finds the first row of which that is true.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import Any, ClassVar, NamedTuple, NoReturn

import numpy as np

from calspline._input.groups import check_groups
from calspline._input.labels import MAX_LABELS
from calspline._input.rows import LabelledRows
from calspline._input.scores import (
    LARGEST_MARGIN,
    ROUNDING,
    ROW_SUM_TOLERANCE,
    Requirement,
    check_scores,
    decide_kind,
    show_outside,
)
from calspline._input.segment_labels import check_by
from calspline.cli.columns import (
    WORDS,
    Value,
    classes_of,
    in_class_order,
    is_number_or_boolean,
    label_column,
    model_columns,
    named,
    one_named,
)
from calspline.cli.files import Source, identifier, literal, open_source
from calspline.cli.output import InputError, note
from calspline.export.dialects import DIALECTS

NUMBERS = ("DOUBLE", "FLOAT", "BOOLEAN", "VARCHAR", "DECIMAL", "INT")
MISSING = ("", *WORDS)
INTEGER = "0|-?[1-9][0-9]*"
HELPER = "calspline helper "
LABEL, GROUP = f'"{HELPER}label"', f'"{HELPER}group"'
NOT_NAN = DIALECTS["duckdb"].not_nan
ABSENT = ", ".join(map(literal, MISSING))
WORD = ", ".join(map(literal, WORDS))
DECIMAL_COMMA = re.compile(r"[+-]?[\d.,]*,\d+(\.\d+)?")
PERCENTAGE = re.compile(r"[+-]?[\d.,]+\s*%")
NAMED_ROWS = 5
MARGIN_ADVICE = (
    "To calibrate margins, such as a decision_function gives, fit with --scale "
    "identity."
)


@dataclass(frozen=True)
class FileScores:
    """What one pass finds in columns of scores, with examples from rows of files.

    It is a :class:`~calspline._input.scores.ScoreSummary`.
    """

    name: ClassVar[str] = "scores"
    n_negative: ClassVar[int] = 0  # only asked where the scores may be margins
    data: Data
    n_rows: int
    n_columns: int
    n_outside: int
    n_off: int
    limits: tuple[float, float]
    sums: tuple[float, float]

    def example_outside(self) -> str:
        """The first score outside [0, 1]."""
        where, column, value = self.data.first_number(_is_outside)
        return f"{where} has {show_outside(value)} in {column!r}"

    def example_large(self) -> str:
        """The first score that is too large."""
        where, column, value = self.data.first_number(_is_large)
        return f"{where} has {value:g} in {column!r}"

    def example_off(self) -> str:
        """The first row that does not sum to one."""
        where, total = self.data.first_sum()
        return f"{where} sums to {total:.6g}"


class Texts(NamedTuple):
    """What one pass tells of a column of groups or segments, which may be text."""

    whole: bool
    """Whether all are integers, but for those missing."""
    n_empty: int
    n_words: int
    """Rows with ``NA`` and the like, which are missing only among integers."""

    @classmethod
    def added(cls, parts: Iterable[Sequence[Any]]) -> Texts:
        """What :meth:`aggregates` over parts of the rows tell of all."""
        fits, integers, empty, words = zip(*parts, strict=True)
        whole = any(integers) and not any(one is False for one in fits)
        n_empty = sum(one or 0 for one in empty)
        n_words = sum(one or 0 for one in words)
        return cls(whole, n_empty, n_words)

    @staticmethod
    def aggregates(column: str) -> list[str]:
        """What is asked of a column in SQL."""
        text = f"CAST({column} AS VARCHAR)"
        digits = f"regexp_full_match({text}, {literal(INTEGER)})"
        integer = f"({digits} AND TRY_CAST({text} AS BIGINT) IS NOT NULL)"
        word = f"{text} IN ({WORD})"
        return [
            f"bool_and({text} IS NULL OR {word} OR {integer})",
            f"bool_or({integer})",
            f"count_if({text} IS NULL)",
            f"count_if({word})",
        ]

    @property
    def n_missing(self) -> int:
        """Rows without a value."""
        return self.n_empty + self.n_words if self.whole else self.n_empty


class Data:
    """Columns of files: scores, labels and weights, and what one pass finds in them.

    :func:`open_labelled` gives it its ``classes``, in the order of the columns of
    scores.
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
        self.source = source
        self.scores = list(scores)
        self.label = label
        self.weight = weight
        self.group = group
        self.by = list(by)
        self._numbers = [*self.scores, *([weight] if weight else [])]
        for name in self._numbers:
            kind = source.types[name]
            if (
                not any(word in kind for word in NUMBERS)
                or kind.endswith("]")
                or "(" in kind.removeprefix("DECIMAL(")
            ):
                raise InputError(
                    f"column {name!r} of {source.name} must hold numbers; it is of "
                    f"type {kind}"
                )
        self.helpers = [f"{HELPER}{i}" for i in range(len(self._numbers))]
        self._quoted = [identifier(helper) for helper in self.helpers]
        numbers = zip(self._numbers, self._quoted, strict=True)
        items = [
            f"{_number(name, source.types[name])} AS {helper}"
            for name, helper in numbers
        ]
        text = "'x'" if label is None else _label(label, source.types[label])
        items.append(f"{text} AS {LABEL}")
        tests = [
            f"{column} IS NOT NULL AND {NOT_NAN.format(column)}"
            for column in self._quoted
        ]
        tests.append(f"{LABEL} IS NOT NULL")
        if group is not None:
            items.append(f"{_label(group, source.types[group])} AS {GROUP}")
            tests.append(f"{GROUP} IS NOT NULL")
        for k, name in enumerate(
            self.by
        ):  # as labels are, or of the types that a model has them in
            value = _label(name, source.types[name])
            items.append(
                f"{f'TRY_CAST({value} AS {types[k]})' if types else value} AS "
                f"{_segment(k)}"
            )
        self.segments = [_segment(k).strip('"') for k in range(len(self.by))]
        self.select = ", ".join(items)
        self.present = " AND ".join(tests)
        self._requirement: Requirement = "margin" if margins else "probability"
        self._n_summed = len(self.scores) if sums else 1
        self._left_out: list[str] = []
        if label is not None:
            source.keep(self.select)
        self._look()

    def _asked(self) -> list[str]:
        """What is asked of numbers in SQL: four counts, two minima and two maxima."""
        k = len(self.scores)
        scores = self._quoted[:k]
        weights = self._quoted[k:]
        several = ", ".join(scores)
        total = " + ".join(scores)
        if self._n_summed == 1:
            total = "1.0"
        tests = [
            " OR ".join(map(_is_infinite, scores)),
            " OR ".join(map(_is_bad_weight, weights)) or "false",
            " OR ".join(map(_is_outside, scores)),
            f"abs({total} - 1) > {ROW_SUM_TOLERANCE}",
        ]
        lowest = [f"min(least({several}))", f"min({total})"]
        highest = [f"max(greatest({several}))", f"max({total})"]
        return [*(f"count_if({test})" for test in tests), *lowest, *highest]

    def _look(self) -> None:
        """One pass: the labels, the rows that count, and what they hold."""
        asked = self._asked()
        some = f"bool_or({self._quoted[-1]} <> 0)" if self.weight else "count(*)"
        columns = []
        if self.label is not None:
            columns += [_segment(k) for k in range(len(self.by))]
        if self.group is not None:
            columns.append(GROUP)
        texts = [item for column in columns for item in Texts.aggregates(column)]
        facts = ["count(*)", *asked, *texts, some]
        items = [f"{fact} FILTER (WHERE {self.present})" for fact in facts]
        with self.source.reading():
            by_label = self.source.query(self.select).aggregate(
                ", ".join([LABEL, "count(*)", *items]), LABEL
            )
            rows = by_label.limit(MAX_LABELS + 1).fetchall()
        if len(rows) > MAX_LABELS:
            raise InputError(
                f"column {self.label!r} of {self.source.name} has more than "
                f"{MAX_LABELS} different values, too many "
                "for labels; name the column of labels with --label"
            )
        self.spellings = sorted(str(row[0]) for row in rows if row[0] is not None)
        if LABEL in self._left_out:
            self.spellings = [text for text in self.spellings if text not in WORDS]
        if self.label is not None and not self.spellings:
            nothing = f"column {self.label!r} of {self.source.name} has no labels"
            raise InputError(
                nothing if rows else f"{self.source.name} has no rows of data"
            )
        self._counting = {str(row[0]) for row in rows if row[-1]}
        n_rows, self.n_rows = (sum(row[i] for row in rows) for i in (1, 2))
        self.n_missing = n_rows - self.n_rows
        self._texts = {}
        first = 3 + len(asked)
        found = [
            [row[i] for row in rows if row[i] is not None] for i in range(3, first)
        ]
        self._n_infinite, self._n_bad_weights, outside, off = map(sum, found[:4])
        low, low_sum = (min(values, default=np.inf) for values in found[4:6])
        high, high_sum = (max(values, default=-np.inf) for values in found[6:])
        self._summary = FileScores(
            self,
            self.n_rows,
            self._n_summed,
            outside,
            off,
            (low, high),
            (low_sum, high_sum),
        )
        for column in columns:
            last = first + len(Texts.aggregates(column))
            self._texts[column] = Texts.added(row[first:last] for row in rows)
            first = last
        if self._leave_out_words():
            self._look()

    def _leave_out_words(self) -> bool:
        """Take ``NA`` and the like as missing among labels or groups that are numbers.

        Returns whether there are any, so that more rows are missing than before.
        """
        columns = []
        others = [text for text in self.spellings if text not in WORDS]
        has_words = self.label is not None and len(others) < len(self.spellings)
        if has_words and all(map(is_number_or_boolean, others)):
            columns.append(LABEL)
        groups = self._texts.get(GROUP)
        if groups is not None and groups.whole and groups.n_words:
            columns.append(GROUP)
        for column in columns:
            self.present += f" AND {column} NOT IN ({WORD})"
        self._left_out += columns
        return bool(columns)

    def note_missing(self, what: str = "values", file: str = "") -> None:
        """Say how many rows were left out, if any were."""
        if self.n_missing:
            note(f"{file}{self.n_missing:,} rows with missing {what} were left out")

    def note_no_segment(self) -> None:
        """Say how many rows have no segment, if any have none."""
        for k, name in enumerate(self.by):
            n_missing = self._texts[_segment(k)].n_missing
            if n_missing == 1:
                note(f"1 row has no {name}, and counts for the common curve only")
            elif n_missing:
                note(
                    f"{n_missing:,} rows have no {name}, and count for the common "
                    "curve only"
                )

    def check(self, missing: str) -> None:
        """Check values, and that there are two classes; errors name the first row."""
        if self.n_missing:
            self._check_words()
        if self._n_infinite:
            where, column, value = self.first_number(_is_infinite)
            raise InputError(f"{where}: {column} is {value}; it must be finite")
        if self.n_rows:
            decide_kind(self._summary, self._requirement, MARGIN_ADVICE)
        if self._n_bad_weights:
            where, column, value = self.first_number(_is_bad_weight)
            raise InputError(
                f"{where}: {column} is {value:g}; a weight must be finite and not "
                "negative"
            )
        if self.n_missing and missing == "error":
            self._refuse_missing()
        if not self.classes:
            return
        name = self.source.name
        if not self._counting and self.weight and self.n_rows:
            raise InputError(
                f"{name}: the weights in column {self.weight!r} are all zero"
            )
        if not self._counting:
            raise InputError(f"{name} has no rows of data")
        if len({self._codes[text] for text in self._counting}) < 2:
            raise InputError(
                f"{name} must show two classes; every row that counts is of one"
            )

    def _check_words(self) -> None:
        """Complain about the first value that is neither a number nor missing."""
        words = []
        for name in self._numbers:
            if self.source.types[name] == "VARCHAR":
                number = _number(name, "VARCHAR")
                wrong = f"{_text(name)} NOT IN ({ABSENT}) AND {number} IS NULL"
                before = literal(f"{name} is '")
                after = literal("'")
                words.append(
                    f"WHEN {wrong} THEN concat({before}, {identifier(name)}, {after})"
                )
        select = f"CASE {' '.join(words)} ELSE '' END AS word"
        for file, row, (said,) in (
            self.source.first_rows(select, "word <> ''") if words else []
        ):
            hint = _number_hint(said.partition("'")[2].removesuffix("'").strip())
            where = f"row {row} of {file}"
            raise InputError(f"{where}: {said}, which is not a number{hint}")

    def first_sum(self) -> tuple[str, float]:
        """Where the first row is that does not sum to one: row and sum."""
        total = " + ".join(self._quoted[: len(self.scores)])
        [(file, row, values)] = self.source.first_rows(
            f"{self.select}, {total} AS total",
            f"abs(total - 1) > {ROW_SUM_TOLERANCE} AND {self.present}",
        )
        return f"row {row} of {file}", values[-1]

    def first_number(self, test: Callable[[str], str]) -> tuple[str, str, float]:
        """Where the first number is of which a test is true: row, column and value."""
        k = len(self.scores)
        places = range(k, len(self._quoted)) if test is _is_bad_weight else range(k)
        cases = " ".join(f"WHEN {test(self._quoted[i])} THEN {i}" for i in places)
        select = f"{self.select}, CASE {cases} END AS i"
        [(file, row, (*values, i))] = self.source.first_rows(
            select, f"i IS NOT NULL AND {self.present}"
        )
        return f"row {row} of {file}", self._numbers[i], values[i]

    def _refuse_missing(self) -> NoReturn:
        found = self.source.first_rows(self.select, f"NOT ({self.present})", NAMED_ROWS)
        file, _, values = found[0]
        places = [*self._quoted, LABEL, GROUP]
        names = [*self._numbers, self.label, self.group]
        column = next(
            name
            for name, place, value in zip(names, places, values, strict=False)
            if value is None
            or value != value  # NaN is not itself
            or (place in self._left_out and value in WORDS)
        )
        listed = ", ".join(str(row) for _, row, _ in found) + (
            " and more" if self.n_missing > len(found) else ""
        )
        raise InputError(
            f"column {column!r} of {file} has missing values: {self.n_missing} in all, "
            f"in row{'s' if len(found) > 1 else ''} {listed} (the first row of data is "
            "1); "
            "leave them out with --missing drop"
        )

    def frame(self) -> tuple[Any, dict[str, Any]]:
        """Complete rows as a relation of DuckDB, and arguments of ``fit_frame``.

        Labels are places among the classes, and names of columns are those of classes.
        """
        helpers = [self._quoted[self._numbers.index(name)] for name in self.scores]
        values = {
            "p" if len(helpers) == 1 else f"p_{j}": helper
            for j, helper in enumerate(helpers)
        }
        names = list(values)
        if self.label is not None:
            cases = " ".join(
                f"WHEN {literal(text)} THEN {code}"
                for text, code in self._codes.items()
            )
            values["label"] = f"CASE {LABEL} {cases} END"
        if self.weight:
            values["weight"] = self._quoted[-1]
        if self.group is not None:
            values["group"] = GROUP
        taken = {name.lower() for name in self.by}
        mark = next(
            "_" * k
            for k in count()
            if not taken & {f"{'_' * k}{name}" for name in values}
        )
        columns: dict[str, Any] = {
            name: f"{mark}{name}" for name in values if name not in names
        }
        items = [
            f"{value} AS {identifier(mark + name)}" for name, value in values.items()
        ]
        for k, name in enumerate(
            self.by
        ):  # a text file does not tell numbers from texts
            texts = self._texts.get(_segment(k))
            whole = texts is not None and texts.whole
            value = f"TRY_CAST({_segment(k)} AS BIGINT)" if whole else _segment(k)
            items.append(f"{value} AS {identifier(name)}")
        rows = self.source.query(self.select, where=self.present)
        columns |= {"score": [mark + name for name in names], "by": self.by or None}
        return rows.project(", ".join(items)), columns

    @cached_property
    def rows(self) -> LabelledRows:
        """All complete rows as arrays; labels are places among the classes."""
        with self.source.reading():
            relation, columns = self.frame()
            found = relation.fetchnumpy()
        scores = np.column_stack([np.asarray(found[name]) for name in columns["score"]])
        n = len(scores)
        by = [found[name].tolist() for name in self.by]
        return LabelledRows(
            check_scores(scores[:, 0] if scores.shape[1] == 1 else scores),
            np.asarray(found[columns["label"]], dtype=np.int64),
            None if self.weight is None else np.asarray(found[columns["weight"]]),
            check_groups(found[columns["group"]].tolist(), n) if self.group else None,
            check_by(by, n, "--by").named(self.by) if by else None,
        )


def _is_infinite(number: str) -> str:
    return f"isinf({number})"


def _is_outside(score: str) -> str:
    return f"{score} NOT BETWEEN {-ROUNDING} AND {1.0 + ROUNDING}"


def _is_large(score: str) -> str:
    return f"abs({score}) > {LARGEST_MARGIN}"


def _is_bad_weight(weight: str) -> str:
    return f"({weight} < 0 OR isinf({weight}))"


def _number_hint(text: str) -> str:
    """What to do about a text that a reader would take for a number."""
    if PERCENTAGE.fullmatch(text):
        return "; write percentages as shares: 12% is 0.12"
    if DECIMAL_COMMA.fullmatch(text):
        return "; write numbers with a decimal point and no other mark: 0,93 is 0.93"
    return ""


def _segment(k: int) -> str:
    return f'"{HELPER}by_{k}"'


def _text(column: str) -> str:
    return f"trim(CAST({identifier(column)} AS VARCHAR))"


def _label(column: str, kind: str) -> str:
    """Text, or what is quicker and says the same; NULL if it is missing.

    Of texts, only empty ones are.
    """
    if kind == "BOOLEAN" or kind.endswith(("INT", "INTEGER")):
        return identifier(column)
    absent = "''" if kind == "VARCHAR" or kind.startswith("ENUM") else ABSENT
    return f"CASE WHEN {_text(column)} NOT IN ({absent}) THEN {_text(column)} END"


def _number(column: str, kind: str) -> str:
    # DuckDB 2.0 has its reader of CSV convert a column of which only a cast is used,
    # and then fails where it cannot.
    value = f"trim({identifier(column)})" if kind == "VARCHAR" else identifier(column)
    return f"TRY_CAST({value} AS DOUBLE)"


def open_for_model(options: argparse.Namespace, model: Any) -> Data:
    """Scores for a model, with their labels, which are by default its classes."""
    source = open_source(options)
    if options.positive is None and options.classes is None:
        options.classes = ",".join(map(str, model.classes_))
    columns = model_columns(source.columns, model, last(options))
    return open_labelled(
        source, columns, options, margins=model.model_.kind.value_kind == "margin"
    )


def open_labelled(
    source: Source,
    scores: list[str],
    options: argparse.Namespace,
    *,
    every: list[str] | None = None,
    margins: bool = False,
) -> Data:
    """Scores with their labels and weights, checked.

    ``every`` has all columns if there are several sets of scores.
    """
    label = label_column(source.columns, options.label)
    if options.weight is None:
        weight = None
    else:
        weight = one_named(source.columns, options.weight, "--weight")
    if label in scores:
        raise InputError(
            f"column {label!r} cannot be both score and label; name them with --score "
            "and --label"
        )
    if len(scores) > 2 and options.positive is not None:
        raise InputError(
            "--positive is for two classes; for more, name them in order with --classes"
        )
    if options.group is None:
        group = None
    else:
        group = one_named(source.columns, options.group, "--group")
    if getattr(options, "by", None) is None:
        by = []
    else:
        by = named(source.columns, options.by, "--by")
    data = Data(
        source,
        every or scores,
        label,
        weight,
        group,
        by=by,
        margins=margins,
        sums=every is None,
    )
    data.classes, data._codes = classes_of(
        data.spellings, options, scores, label, source.name
    )
    data.check(options.missing)
    if every is None:
        data.scores = in_class_order(
            scores, data.classes, known=options.classes is not None
        )
    return data


def last(options: argparse.Namespace) -> str | None:
    """The last column given with ``--score``."""
    return options.score[-1] if options.score else None
