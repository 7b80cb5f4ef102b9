"""The data that a command's options describe: columns and classes, and rows whose every fault is named by its place.

What the columns hold is found in one pass. If something is wrong with it, another one finds the first row of which
that is true.
"""

from __future__ import annotations

import argparse
import fnmatch
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calspline.arrays import Array
from calspline.cli.console import InputError
from calspline.cli.files import NARROW, Source, identifier, literal
from calspline.engines.checks import MAX_LABELS
from calspline.export.dialects import DIALECTS
from calspline.labels import classes_of_columns, label_array
from calspline.scores import ROW_SUM_TOLERANCE

Value = bool | int | str

SCORES = ("score", "prob", "probability", "proba", "p", "y_score", "y_prob", "y_proba")
LABELS = ("label", "y", "target", "outcome", "y_true")
MANY = re.compile(r"(p|prob|proba|probability)_(.+)", re.IGNORECASE)
NUMBERS = ("DOUBLE", "FLOAT", "BOOLEAN", "VARCHAR", "DECIMAL", "INT")
MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL")
YES = {"yes", "y", "true", "t", "positive", "pos", "1"}
WHOLE = re.compile(r"[+-]?\d+(\.0*)?")
HELPER = "calspline helper "
LABEL, CODE = f"{HELPER}label", f"{HELPER}code"
NOT_NAN = DIALECTS["duckdb"].not_nan
ABSENT = ", ".join(map(literal, MISSING))
NAMED_ROWS = 5


@dataclass(frozen=True)
class Labels:
    """The column, its classes in the order of the scores' columns, and the class of every spelling in the file."""

    column: str
    classes: tuple[Value, ...]
    codes: dict[str, int]


class Data:
    """Columns of files: scores, and labels and weights where they are needed."""

    def __init__(self, source: Source, scores: Sequence[str], label: str | None = None, weight: str | None = None):
        self.source, self.scores, self.label, self.weight = source, list(scores), label, weight
        self._numbers = [*self.scores, *([weight] if weight else [])]
        for name in self._numbers:
            check_type(source, name)
        self.helpers = [f"{HELPER}{i}" for i in range(len(self._numbers))]
        self._quoted = [identifier(helper) for helper in self.helpers]
        items = []
        for name, helper in zip(self._numbers, self._quoted, strict=True):
            items.append(f"{_number(name, source.types[name])} AS {helper}")
        if label is not None:
            self._quoted.append(identifier(LABEL))
            items.append(
                f"CASE WHEN {_text(label)} NOT IN ({ABSENT}) THEN {_text(label)} ELSE '' END AS {identifier(LABEL)}"
            )
        self.select = ", ".join(items)
        # A label that is missing is an empty one.
        tests = [f"{column} IS NOT NULL AND {NOT_NAN.format(column)}" for column in self._quoted[: len(self.helpers)]]
        self.present = " AND ".join([*tests, *([f"{identifier(LABEL)} <> ''"] if label else [])])
        self._look()

    def _look(self) -> None:
        """One pass: the labels, how many rows there are, and the ranges of what those hold that lack nothing."""
        k, label = len(self.scores), identifier(LABEL) if self.label else ""
        scores, listed = self._quoted[:k], ", ".join(self._quoted[:k])
        ranges = [f"min(least({listed}))", f"max(greatest({listed}))", f"max(abs({' + '.join(scores)} - 1))"]
        ranges += [f"{end}({weight})" for weight in self._quoted[k : len(self.helpers)] for end in ("min", "max")]
        items = ["count(*)", *(f"{item} FILTER (WHERE {self.present})" for item in ["count(*)", *ranges])]
        try:
            found = self.source.query(self.select).aggregate(", ".join([label or "''", *items]), label)
            rows = found.limit(MAX_LABELS + 1).fetchall()
        except self.source.errors as error:
            raise self.source.failed(error) from error
        if len(rows) > MAX_LABELS:
            raise InputError(
                f"column {self.label!r} of {self.source.name} has more than {MAX_LABELS} different values, too many "
                "for labels; name the column of labels with --label"
            )
        self._spellings = sorted(row[0] for row in rows if row[0])
        self._n_rows = sum(row[1] for row in rows)
        self.n_missing = self._n_rows - sum(row[2] for row in rows)
        self._ranges = np.array([row[3:] for row in rows if row[2]], dtype=np.float64)

    def spellings(self) -> list[str]:
        """How the labels that occur are spelt."""
        if not self._spellings:
            name = self.source.name
            raise InputError(
                f"column {self.label!r} of {name} has no labels" if self._n_rows else f"{name} has no rows of data"
            )
        return self._spellings

    def check(self, missing: str, *, margins: bool, sums: bool = True) -> None:
        """Complain about the first row with a value that cannot be used."""
        if self.n_missing:
            self._check_words()
        if len(self._ranges):
            self._check_ranges(margins=margins, sums=sums)
        if self.n_missing and missing == "error":
            self._refuse_missing()

    def _check_ranges(self, *, margins: bool, sums: bool) -> None:
        k, least, most = len(self.scores), self._ranges.min(axis=0), self._ranges.max(axis=0)
        if not np.isfinite([least[0], most[1]]).all():
            self._refuse("isinf({})", slice(k), "it must be finite")
        if (least[0] < 0.0 or most[1] > 1.0) and not margins:
            self._refuse(
                "{} NOT BETWEEN 0 AND 1", slice(k),
                "it must be a probability in [0, 1]; to calibrate margins, such as a decision_function gives, fit with "
                "--transform identity",
            )  # fmt: skip
        if k > 1 and most[2] > ROW_SUM_TOLERANCE and sums and not margins:
            self._refuse_sum()
        if self.weight and not (least[3] >= 0.0 and np.isfinite(most[4])):
            test = "({0} < 0 OR isinf({0}))"
            self._refuse(test, slice(k, None), "a weight must be finite and not negative")

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

    def _refuse(self, test: str, columns: slice, why: str) -> None:
        """Complain about the first value that fails a test."""
        places = range(len(self._numbers))[columns]
        cases = " ".join(f"WHEN {test.format(self._quoted[i])} THEN {i}" for i in places)
        found = self.source.first_rows(f"{self.select}, CASE {cases} ELSE -1 END AS i", f"i >= 0 AND {self.present}")
        for file, row, (*values, i) in found:
            raise InputError(f"row {row} of {file}: {self._numbers[i]} is {values[i]:g}; {why}")

    def _refuse_sum(self) -> None:
        total = " + ".join(self._quoted[: len(self.scores)])
        where = f"abs({total} - 1) > {ROW_SUM_TOLERANCE} AND {self.present}"
        for file, row, values in self.source.first_rows(self.select, where):
            columns = ", ".join(self.scores[:3]) + (", ..." if len(self.scores) > 3 else "")
            raise InputError(
                f"row {row} of {file}: the scores ({columns}) must sum to one within {ROW_SUM_TOLERANCE:g}, "
                f"and sum to {sum(values[: len(self.scores)]):.6g}"
            )

    def _refuse_missing(self) -> None:
        found = self.source.first_rows(self.select, f"NOT ({self.present})", NAMED_ROWS)
        file, _, values = found[0]
        lacking = [value is None or value != value or value == "" for value in values]  # NaN is not itself
        column = [*self._numbers, self.label][lacking.index(True)]
        listed = ", ".join(str(row) for _, row, _ in found) + (" and more" if self.n_missing > len(found) else "")
        raise InputError(
            f"column {column!r} of {file} has missing values: {self.n_missing} in all, "
            f"in row{'s' if len(found) > 1 else ''} {listed} (the first row of data is 1); "
            "leave them out with --missing drop"
        )

    def batches(self, labels: Labels) -> Iterator[tuple[Array, NDArray[np.int64], Array | None]]:
        """Scores, places of labels among the classes, and weights, of rows that lack none."""
        cases = " ".join(f"WHEN {literal(text)} THEN {code}" for text, code in labels.codes.items())
        select = f"{self.select}, CASE {identifier(LABEL)} {cases} END AS {identifier(CODE)}"
        places = [self._numbers.index(name) for name in self.scores]
        for batch in self.source.batches(select, NARROW, self.present):
            numbers = [batch.column(helper).to_numpy(zero_copy_only=False) for helper in self.helpers]
            scores = np.column_stack([numbers[i] for i in places]) if len(places) > 1 else numbers[0]
            codes = batch.column(CODE).to_numpy(zero_copy_only=False).astype(np.int64)
            yield scores, codes, numbers[-1] if self.weight else None

    def gather(self, labels: Labels) -> tuple[Array, NDArray[np.int64], Array | None]:
        """All rows at once, for what cannot be done in a stream."""
        parts = list(self.batches(labels))
        if not sum(len(codes) for _, codes, _ in parts):
            raise InputError(f"{self.source.name} has no rows of data")
        scores, codes = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
        weight = np.concatenate([part[2] for part in parts]) if self.weight else None
        if weight is not None and not weight.any():
            raise InputError(f"column {self.weight!r} of {self.source.name}: the weights are all zero")
        return scores, codes, weight


def _text(column: str) -> str:
    return f"trim(CAST({identifier(column)} AS VARCHAR))"


def _number(column: str, kind: str) -> str:
    # DuckDB 2.0 has its reader of CSV convert a column of which only a cast is used, and then fails where it cannot.
    value = f"trim({identifier(column)})" if kind == "VARCHAR" else identifier(column)
    return f"TRY_CAST({value} AS DOUBLE)"


def check_type(source: Source, name: str) -> None:
    """Complain about a column that cannot hold numbers, such as dates and lists."""
    kind = source.types[name]
    if not any(word in kind for word in NUMBERS) or kind.endswith("]") or "(" in kind.removeprefix("DECIMAL("):
        raise InputError(f"column {name!r} of {source.name} must hold numbers; it is of type {kind}")


def open_labelled(
    source: Source,
    scores: list[str],
    options: argparse.Namespace,
    *,
    every: list[str] | None = None,
    margins: bool = False,
) -> tuple[Data, Labels]:
    """Scores with their labels and weights, checked; ``every`` is all columns if there are several sets of scores."""
    label = label_column(source.columns, options.label)
    weight = None if options.weight is None else one_named(source.columns, options.weight, "--weight")
    if label in scores:
        raise InputError(f"column {label!r} cannot be both score and label; name them with --score and --label")
    if len(scores) > 2 and options.positive is not None:
        raise InputError("--positive is for two classes; for more, name them in order with --classes")
    data = Data(source, every or scores, label, weight)
    if len(scores) <= 2:
        labels = two_classes(data, options.positive, options.classes, scores)
    else:
        labels = many_classes(data, options.classes, scores)
    data.check(options.missing, margins=margins, sums=every is None)
    if every is None:
        data.scores = in_class_order(scores, labels.classes)
    return data, labels


def named(columns: Sequence[str], given: str, option: str) -> list[str]:
    """Columns given as a name, a comma-separated list, or a pattern such as ``p_*``."""
    if given in columns:
        return [given]
    found: list[str] = []
    for item in (part.strip() for part in given.split(",")):
        matches = [item] if item in columns else [c for c in columns if fnmatch.fnmatchcase(c, item)]
        if not matches:
            raise InputError(f"{option}: there is no column {item!r}; there are {shown(columns)}")
        found += [name for name in _in_order(matches) if name not in found]
    return found


def one_named(columns: Sequence[str], given: str, option: str) -> str:
    """One column."""
    if given not in columns:
        raise InputError(f"{option}: there is no column {given!r}; there are {shown(columns)}")
    return given


def score_columns(columns: Sequence[str], given: str | None) -> list[str]:
    """The column of scores, or one for each class."""
    if given is not None:
        return named(columns, given, "--score")
    one = [name for name in columns if name.lower() in SCORES]
    many = [name for name in columns if MANY.fullmatch(name)]
    if len(one) == 1 and not many:
        return one
    if len(many) >= 2 and not one and len({prefix_of(name) for name in many}) == 1:
        return _in_order(many)
    if not one and not many:
        alone = "; if that is more than one, say what is between them with --delimiter" if len(columns) == 1 else ""
        raise InputError(f"no column has the usual name of a score; name it with --score: {shown(columns)}{alone}")
    raise InputError(f"several columns could be the scores ({shown(one + many)}); name those meant with --score")


def label_column(columns: Sequence[str], given: str | None) -> str:
    """The column that says what happened."""
    if given is not None:
        return one_named(columns, given, "--label")
    found = [name for name in columns if name.lower() in LABELS]
    if len(found) == 1:
        return found[0]
    if not found:
        raise InputError(f"no column has the usual name of a label; name it with --label: {shown(columns)}")
    raise InputError(f"several columns could be the labels ({shown(found)}); name the one meant with --label")


def prefix_of(name: str) -> str:
    """``prob`` of ``prob_cat``."""
    return name.rpartition("_")[0] if (match := MANY.fullmatch(name)) is None else match[1]


def class_named(name: str) -> str:
    """``cat`` of ``prob_cat``; a name without a prefix names a class itself."""
    match = MANY.fullmatch(name)
    return match[2] if match else name


def in_class_order(columns: list[str], classes: Sequence[object]) -> list[str]:
    """Columns in the order of the classes where their names tell it, else as they are."""
    by_class = {class_named(name): name for name in columns}
    wanted = [str(value) for value in classes]
    if len(by_class) == len(columns) and set(by_class) == set(wanted):
        return [by_class[value] for value in wanted]
    return columns


def shown(columns: Sequence[str]) -> str:
    """A list of names, not too long for a line."""
    some = ", ".join(repr(name) for name in columns[:12])
    return some if len(columns) <= 12 else f"{some} and {len(columns) - 12} more"


def _in_order(names: list[str]) -> list[str]:
    """Numbered columns by number, others as they come."""
    tails = [class_named(name) for name in names]
    if all(tail.isdigit() for tail in tails):
        return [name for _, name in sorted(zip(map(int, tails), names, strict=True))]
    return names


def values_of(texts: Sequence[str], column: str) -> list[Value]:
    """Labels as integers or booleans where all of them are, else as text."""
    if all(text.lower() in ("true", "false") for text in texts):
        return [text.lower() == "true" for text in texts]
    if all(WHOLE.fullmatch(text) for text in texts):
        return [int(text.partition(".")[0]) for text in texts]
    for text in texts:
        if re.fullmatch(r"[+-]?(\d+\.\d*|\.\d+)(e[+-]?\d+)?", text.lower()) and not WHOLE.fullmatch(text):
            raise InputError(f"column {column!r} must hold class labels, not numbers such as {text}; see --label")
    return list(texts)


def two_classes(data: Data, positive: str | None, given: str | None, score: list[str]) -> Labels:
    """Labels for one column of scores, or two; the second class is what the score is of."""
    column, texts = str(data.label), data.spellings()
    values = values_of(texts, column)
    classes = _given(given, values, column) if given else sorted(set(values), key=_order)
    if len(classes) == 1:
        raise InputError(f"column {column!r} of {data.source.name} must show two classes; every row is {classes[0]!r}")
    if len(classes) > 2:
        raise InputError(
            f"column {column!r} of {data.source.name} has {len(classes)} classes ({shown(list(map(str, classes)))}); "
            "for more than two give a column of scores for each with --score"
        )
    if positive is not None:
        last = _given(positive, values, column, "--positive")
        if len(last) != 1:
            raise InputError(f"--positive must be one label; got {positive!r}")
        if len(score) == 2 and {class_named(name) for name in score} != set(map(str, classes)):
            raise InputError(
                "--positive is for one column of scores; name the labels in the order of the two columns with --classes"
            )
        classes = [value for value in classes if value != last[0]] + last
    elif given is None and len(score) == 1 and isinstance(classes[1], str) and classes[1].lower() not in YES:
        raise InputError(
            f"the labels are {classes[0]!r} and {classes[1]!r}; say which one the score is the probability of, "
            f"for example --positive {classes[1]}"
        )
    return _labels(column, classes, texts, values)


def many_classes(data: Data, given: str | None, score: list[str]) -> Labels:
    """Labels for a column of scores per class, in the order of those columns."""
    column, texts = str(data.label), data.spellings()
    values = values_of(texts, column)
    found = sorted(set(values), key=_order)
    if given is not None:
        classes: list[Value] = _given(given, values, column)
        if len(classes) != len(score):
            raise InputError(f"--classes must name {len(score)} classes, one for each column of scores; got {given!r}")
    else:
        advice = "Name the classes in the order of the columns with --classes"
        named = label_array(found)
        where = f"column {column!r} of {data.source.name}"
        classes = classes_of_columns(named, score, len(score), where, beside="--score", advice=advice).tolist()
    if len(found) == 1:
        raise InputError(
            f"column {column!r} of {data.source.name} must show two classes or more; every row is {found[0]!r}"
        )
    return _labels(column, classes, texts, values)


def _labels(column: str, classes: list[Value], texts: list[str], values: list[Value]) -> Labels:
    strange = [text for text, value in zip(texts, values, strict=True) if value not in classes]
    if strange:
        raise InputError(f"column {column!r} has labels that are none of the classes: {shown(strange)}; see --classes")
    codes = {text: classes.index(value) for text, value in zip(texts, values, strict=True)}
    return Labels(column, tuple(classes), codes)


def _given(text: str, values: list[Value], column: str, option: str = "--classes") -> list[Value]:
    classes = [_typed(part.strip(), values) for part in text.split(",")]
    if option == "--positive" and classes[0] not in values:
        known = shown([str(value) for value in sorted(set(values), key=_order)])
        raise InputError(f"--positive must be one of the labels in column {column!r} ({known}); got {text!r}")
    if len(set(classes)) != len(classes):
        raise InputError(f"{option} must be different labels; got {text!r}")
    return classes


def _typed(text: str, values: list[Value]) -> Value:
    """A label from the command line, of the type of those in the file."""
    kind = type(values[0])
    if kind is bool and text.lower() in ("true", "false", "1", "0"):
        return text.lower() in ("true", "1")
    if kind is int and WHOLE.fullmatch(text):
        return int(text.partition(".")[0])
    return text


def _order(value: Value) -> tuple[str, Any]:
    return type(value).__name__, value
