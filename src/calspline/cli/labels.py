"""Labels in a file: which classes there are, and the class of every row."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calspline.cli.columns import class_named, shown
from calspline.cli.errors import InputError
from calspline.cli.source import Source, identifier, literal

Value = bool | int | str

MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL")
MAX_CLASSES = 1000
YES = {"yes", "y", "true", "t", "positive", "pos", "1"}
WHOLE = re.compile(r"[+-]?\d+(\.0*)?")


@dataclass(frozen=True)
class Labels:
    """The column, its classes in the order of the scores' columns, and how each is spelt in the file."""

    column: str
    classes: tuple[Value, ...]
    spelt: tuple[str, ...]
    code_of_spelling: NDArray[np.int64]

    def codes(self, texts: Any) -> NDArray[np.int64]:
        """Places in ``classes`` of an Arrow array of text; -1 where it is missing."""
        import pyarrow
        import pyarrow.compute

        found = pyarrow.compute.index_in(texts, value_set=pyarrow.array(self.spelt))
        places = found.fill_null(len(self.spelt)).to_numpy(zero_copy_only=False)
        return np.asarray(np.append(self.code_of_spelling, -1)[places])


def label_sql(column: str) -> str:
    """The label as text, NULL where it is missing."""
    text = f"trim(CAST({identifier(column)} AS VARCHAR))"
    return f"CASE WHEN {text} IN ({', '.join(map(literal, MISSING))}) THEN NULL ELSE {text} END"


def spellings(source: Source, column: str) -> list[str]:
    """How the labels that occur are spelt."""
    rows = source.fetch(f"DISTINCT {label_sql(column)}", most=MAX_CLASSES + 2)
    found = sorted(row[0] for row in rows if row[0] is not None)
    if not found:
        raise InputError(
            f"column {column!r} of {source.name} has no labels" if rows else f"{source.name} has no rows of data"
        )
    if len(found) > MAX_CLASSES:
        raise InputError(
            f"column {column!r} of {source.name} has more than {MAX_CLASSES} different values, too many for labels; "
            "name the column of labels with --label"
        )
    return found


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


def two_classes(source: Source, column: str, positive: str | None, given: str | None, score: list[str]) -> Labels:
    """Labels for one column of scores, or two; the second class is what the score is of."""
    texts = spellings(source, column)
    values = values_of(texts, column)
    classes = _given(given, values, column) if given else sorted(set(values), key=_order)
    if len(classes) == 1:
        raise InputError(f"column {column!r} of {source.name} must show two classes; every row is {classes[0]!r}")
    if len(classes) > 2:
        raise InputError(
            f"column {column!r} of {source.name} has {len(classes)} classes ({shown(list(map(str, classes)))}); "
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


def many_classes(source: Source, column: str, given: str | None, score: list[str]) -> Labels:
    """Labels for a column of scores per class, in the order of those columns."""
    texts = spellings(source, column)
    values = values_of(texts, column)
    found = sorted(set(values), key=_order)
    tails = [class_named(name) for name in score]
    if given is not None:
        classes: list[Value] = _given(given, values, column)
        if len(classes) != len(score):
            raise InputError(f"--classes must name {len(score)} classes, one for each column of scores; got {given!r}")
    elif len(set(tails)) == len(score) and set(map(str, found)) <= set(tails):
        classes = sorted((_typed(tail, values) for tail in tails), key=_order)
    elif all(type(value) is int and 0 <= value < len(score) for value in found):
        classes = list(range(len(score)))
    elif len(found) == len(score):
        classes = found
    else:
        raise InputError(
            f"column {column!r} of {source.name} shows {len(found)} classes for {len(score)} columns of scores; "
            "name the classes in the order of the columns with --classes"
        )
    if len(found) == 1:
        raise InputError(f"column {column!r} of {source.name} must show two classes or more; every row is {found[0]!r}")
    return _labels(column, classes, texts, values)


def _labels(column: str, classes: list[Value], texts: list[str], values: list[Value]) -> Labels:
    strange = [text for text, value in zip(texts, values, strict=True) if value not in classes]
    if strange:
        raise InputError(f"column {column!r} has labels that are none of the classes: {shown(strange)}; see --classes")
    codes = np.array([classes.index(value) for value in values], dtype=np.int64)
    return Labels(column, tuple(classes), tuple(texts), codes)


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
