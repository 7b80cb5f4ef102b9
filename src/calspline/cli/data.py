"""The data that a command's options describe: columns and classes, and rows whose every fault is named by its place.

What the columns hold is found in one pass. If something is wrong with it, another one finds the first row of which
that is true.
"""

from __future__ import annotations

import argparse
import fnmatch
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from calspline.arrays import Array
from calspline.cli.console import InputError, note
from calspline.cli.files import Source, identifier, literal
from calspline.export.dialects import DIALECTS
from calspline.labels import MAX_LABELS, USUAL_PREFIX, WHOLE, classes_of_columns, label_array, order_columns
from calspline.scores import ROUNDING, ROW_SUM_TOLERANCE
from calspline.segments.labels import By, check_by

Value = bool | int | str

SCORES = ("score", "prob", "probability", "proba", "p", "y_score", "y_prob", "y_proba")
LABELS = ("label", "y", "target", "outcome", "y_true")
NUMBERS = ("DOUBLE", "FLOAT", "BOOLEAN", "VARCHAR", "DECIMAL", "INT")
MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL")
YES = {"yes", "y", "true", "t", "positive", "pos", "1"}
HELPER = "calspline helper "
LABEL, GROUP = f'"{HELPER}label"', f'"{HELPER}group"'
NOT_NAN = DIALECTS["duckdb"].not_nan
ABSENT = ", ".join(map(literal, MISSING))
NAMED_ROWS = 5
NO_PROBABILITY = (
    "it must be a probability in [0, 1], and {} are outside; to calibrate margins, such as a decision_function gives, "
    "fit with --transform identity"
)


@dataclass(frozen=True)
class Labels:
    """The column, its classes in the order of the scores' columns, and the class of every spelling in the file."""

    column: str
    classes: tuple[Value, ...]
    codes: dict[str, int]


@dataclass(frozen=True)
class Rule:
    """What is wrong with a row: tests in SQL, by the number of the column that they are of, and what to say."""

    tests: dict[int, str]
    why: str


class Data:
    """Columns of files: scores, and labels and weights where they are needed, with what one pass tells of them."""

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
            check_type(source, name)
        self.helpers = [f"{HELPER}{i}" for i in range(len(self._numbers))]
        self._quoted = [identifier(helper) for helper in self.helpers]
        items = []
        for name, helper in zip(self._numbers, self._quoted, strict=True):
            items.append(f"{_number(name, source.types[name])} AS {helper}")
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
        items = [f"{item} FILTER (WHERE {self.present})" for item in ["count(*)", *broken, some]]
        with self.source.reading():
            found = self.source.query(self.select).aggregate(", ".join([LABEL, "count(*)", *items]), LABEL)
            rows = found.limit(MAX_LABELS + 1).fetchall()
        if len(rows) > MAX_LABELS:
            raise InputError(
                f"column {self.label!r} of {self.source.name} has more than {MAX_LABELS} different values, too many "
                "for labels; name the column of labels with --label"
            )
        self._spellings = sorted(str(row[0]) for row in rows if row[0] is not None)
        self._counting = {str(row[0]) for row in rows if row[-1]}
        self._n_rows, self.n_used = (sum(row[i] for row in rows) for i in (1, 2))
        self.n_missing = self._n_rows - self.n_used
        self._broken = [sum(row[3 + i] or 0 for row in rows) for i in range(len(self._rules))]

    def spellings(self) -> list[str]:
        """How the labels that occur are spelt."""
        if not self._spellings:
            name = self.source.name
            raise InputError(
                f"column {self.label!r} of {name} has no labels" if self._n_rows else f"{name} has no rows of data"
            )
        return self._spellings

    def check(self, missing: str, labels: Labels | None = None) -> None:
        """Complain about the first row with a value that cannot be used, and about rows that show one class only."""
        if self.n_missing:
            self._check_words()
        for rule, broken in zip(self._rules, self._broken, strict=True):
            if broken:
                self._refuse(rule, f"{broken} of {self.n_used} rows")
        if self.n_missing and missing == "error":
            self._refuse_missing()
        if labels is None:
            return
        name = self.source.name
        if not self._counting and self.weight and self.n_used:
            raise InputError(f"{name}: the weights in column {self.weight!r} are all zero")
        if not self._counting:
            raise InputError(f"{name} has no rows of data")
        if len({labels.codes[text] for text in self._counting}) < 2:
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

    def frame(self, labels: Labels) -> tuple[Any, dict[str, Any]]:
        """Rows that lack nothing as a relation of DuckDB, and its columns as :func:`~calspline.fit_frame` wants them.

        Labels are places among the classes, and names of columns are those of classes.
        """
        cases = " ".join(f"WHEN {literal(text)} THEN {code}" for text, code in labels.codes.items())
        names = ["p"] if len(self.scores) == 1 else [f"p_{j}" for j in range(len(self.scores))]
        helpers = [self._quoted[self._numbers.index(name)] for name in self.scores]
        items = [f"{helper} AS {name}" for name, helper in zip(names, helpers, strict=True)]
        items += [f"{self._quoted[-1]} AS weight"] if self.weight else []
        rows = self.source.query(self.select, where=self.present)
        columns = {"score": names, "label": "label", "weight": "weight" if self.weight else None}
        if self.group is not None:
            items.append(f'{GROUP} AS "group"')
            columns["group"] = "group"
        items += [_segment(k) for k in range(len(self.by))]
        return rows.project(", ".join([*items, f"CASE {LABEL} {cases} END AS label"])), columns

    def gather(self, labels: Labels) -> tuple[Array, NDArray[np.int64], Array | None, NDArray[Any] | None, By | None]:
        """All rows at once: scores, places of labels among the classes, weights, groups, and segments."""
        with self.source.reading():
            relation, columns = self.frame(labels)
            found = relation.fetchnumpy()
        groups = None if self.group is None else label_array(found["group"].tolist())
        scores = np.column_stack([np.asarray(found[name]) for name in columns["score"]])
        return (
            scores[:, 0] if scores.shape[1] == 1 else scores,
            np.asarray(found["label"], dtype=np.int64),
            None if self.weight is None else np.asarray(found["weight"]),
            groups,
            self._segments([_as_numbers(found[name].tolist()) for name in self.segments], len(found["label"])),
        )

    def _segments(self, labels: list[list[Any]], n: int) -> By | None:
        if not labels:
            return None
        return check_by(labels, n, "--by").named(self.by)


def note_groups(y: NDArray[Any], probs: Array, **more: Any) -> None:
    """Say so if rows seem to belong together."""
    from calspline.evaluation.dependence import grouping_hint
    from calspline.evaluation.predictions import check_predictions

    hint = grouping_hint(check_predictions(y, probs, **more))
    if hint:
        note(hint)


def _as_numbers(labels: list[Any]) -> list[Any]:
    """Labels as integers if all texts are such: a text file does not tell."""
    texts = {label for label in labels if label is not None}
    if not texts or not all(isinstance(text, str) and text.lstrip("-").isdecimal() for text in texts):
        return labels
    if any(str(int(text)) != text for text in texts):
        return labels
    return [None if label is None else int(label) for label in labels]


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
    group = None if options.group is None else one_named(source.columns, options.group, "--group")
    by = [] if getattr(options, "by", None) is None else named(source.columns, options.by, "--by")
    data = Data(source, every or scores, label, weight, group, by=by, margins=margins, sums=every is None)
    labels = classes_of(data, options, scores)
    data.check(options.missing, labels)
    if every is None:
        data.scores = in_class_order(scores, labels.classes, known=options.classes is not None)
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
    many = [name for name in columns if USUAL_PREFIX.fullmatch(name)]
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
    return name.rpartition("_")[0] if (match := USUAL_PREFIX.fullmatch(name)) is None else match[1]


def class_named(name: str) -> str:
    """``cat`` of ``prob_cat``; a name without a prefix names a class itself."""
    match = USUAL_PREFIX.fullmatch(name)
    return match[2] if match else name


def in_class_order(columns: list[str], classes: Sequence[object], *, known: bool = False) -> list[str]:
    """Columns in the order of the classes where their names tell it, else as they are, which is noted."""
    order = order_columns(columns, classes, "--score", known=known)
    return columns if order is None else [columns[place] for place in order]


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


def classes_of(data: Data, options: argparse.Namespace, score: list[str]) -> Labels:
    """Labels in the order of the columns of scores; of one column, the second is what the score is of."""
    column, texts = str(data.label), data.spellings()
    values, where = values_of(texts, column), f"column {column!r} of {data.source.name}"
    found, m = sorted(set(values), key=_order), max(len(score), 2)
    classes: list[Value] = found if options.classes is None else _given(options.classes, values, column)
    if options.classes is not None and len(classes) != m and m > 2:
        raise InputError(f"--classes must name {m} classes, one for each column of scores; got {options.classes!r}")
    if options.classes is None and m > 2:
        advice = "Name the classes in the order of the columns with --classes"
        classes = classes_of_columns(label_array(found), score, m, where, beside="--score", advice=advice).tolist()
    if len(found if m > 2 else classes) == 1:
        raise InputError(
            f"{where} must show two classes{' or more' if m > 2 else ''}; every row is {(found or classes)[0]!r}"
        )
    if len(classes) > m:
        raise InputError(
            f"{where} has {len(classes)} classes ({shown(list(map(str, classes)))}); "
            "for more than two give a column of scores for each with --score"
        )
    if options.positive is not None:
        last = _given(options.positive, values, column, "--positive")
        if len(last) != 1:
            raise InputError(f"--positive must be one label; got {options.positive!r}")
        if len(score) == 2 and {class_named(name) for name in score} != set(map(str, classes)):
            raise InputError(
                "--positive is for one column of scores; name the labels in the order of the two columns with --classes"
            )
        classes = [value for value in classes if value != last[0]] + last
    elif options.classes is None and len(score) == 1 and str(classes[1]).lower() not in YES and type(classes[1]) is str:
        raise InputError(
            f"the labels are {classes[0]!r} and {classes[1]!r}; say which one the score is the probability of, "
            f"for example --positive {classes[1]}"
        )
    strange = [text for text, value in zip(texts, values, strict=True) if value not in classes]
    if strange:
        raise InputError(f"column {column!r} has labels that are none of the classes: {shown(strange)}; see --classes")
    return Labels(column, tuple(classes), {t: classes.index(value) for t, value in zip(texts, values, strict=True)})


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
