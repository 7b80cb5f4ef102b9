"""Columns and classes that a command's options name, or that names in the file tell."""

from __future__ import annotations

import argparse
import fnmatch
import re
from collections.abc import Sequence
from typing import Any

from calspline._formatting import short_list
from calspline._input.class_columns import (
    USUAL_PREFIX,
    classes_of_columns,
    order_columns,
)
from calspline._input.labels import WHOLE, label_array
from calspline.cli.arguments import LABEL_NAMES, SCORE_NAMES
from calspline.cli.output import InputError

Value = bool | int | str

WORDS = ("NA", "N/A", "NaN", "nan", "null", "NULL")
"""What stands for a missing number; among texts they are texts: NA is Namibia."""
YES = {"yes", "y", "true", "t", "positive", "pos", "1"}


def named(columns: Sequence[str], given: str, option: str) -> list[str]:
    """Columns given as a name, a comma-separated list, or a pattern such as ``p_*``."""
    if given in columns:
        return [given]
    found: list[str] = []
    for item in (part.strip() for part in given.split(",")):
        if item in columns:
            matches = [item]
        else:
            matches = [c for c in columns if fnmatch.fnmatchcase(c, item)]
        if not matches:
            raise InputError(
                f"{option}: there is no column {item!r}; "
                f"the columns are {shown(columns)}"
            )
        found += [name for name in _in_order(matches) if name not in found]
    return found


def one_named(columns: Sequence[str], given: str, option: str) -> str:
    """One column."""
    if given not in columns:
        raise InputError(
            f"{option}: there is no column {given!r}; the columns are {shown(columns)}"
        )
    return given


def score_columns(columns: Sequence[str], given: str | None) -> list[str]:
    """The column of scores, or one for each class."""
    if given is not None:
        return named(columns, given, "--score")
    one = [name for name in columns if name.lower() in SCORE_NAMES]
    matches = [match for name in columns if (match := USUAL_PREFIX.fullmatch(name))]
    many = [match[0] for match in matches]
    if len(one) == 1 and not many:
        return one
    if len(many) >= 2 and not one and len({match[1] for match in matches}) == 1:
        return _in_order(many)
    if not one and not many:
        if len(columns) == 1:
            alone = (
                "; if that is more than one column, set the separator with --delimiter"
            )
        else:
            alone = ""
        raise InputError(
            "no column has a default name for scores; choose one with --score: "
            f"{shown(columns)}{alone}"
        )
    raise InputError(
        f"several columns could be the scores ({shown(one + many)}); name those meant "
        "with --score"
    )


def label_column(columns: Sequence[str], given: str | None) -> str:
    """The column with the outcome."""
    if given is not None:
        return one_named(columns, given, "--label")
    found = [name for name in columns if name.lower() in LABEL_NAMES]
    if len(found) == 1:
        return found[0]
    if not found:
        raise InputError(
            "no column has a default name for labels; choose one with --label: "
            f"{shown(columns)}"
        )
    raise InputError(
        f"several columns could be the labels ({shown(found)}); name the one meant "
        "with --label"
    )


def class_named(name: str) -> str:
    """``cat`` of ``prob_cat``; a name without a prefix names a class itself."""
    match = USUAL_PREFIX.fullmatch(name)
    return match[2] if match else name


def in_class_order(
    columns: list[str], classes: Sequence[object], *, known: bool = False
) -> list[str]:
    """Columns in the order of the classes if they are named after them."""
    order = order_columns(columns, classes, "--score", known=known)
    return columns if order is None else [columns[place] for place in order]


def shown(columns: Sequence[str]) -> str:
    """A list of names, not too long for a line."""
    return short_list(columns, 12)


def _in_order(names: list[str]) -> list[str]:
    """Numbered columns by number, others as they come."""
    tails = [class_named(name) for name in names]
    if all(tail.isdigit() for tail in tails):
        return [name for _, name in sorted(zip(map(int, tails), names, strict=True))]
    return names


def is_number_or_boolean(text: str) -> bool:
    """Whether a label is an integer, true or false."""
    return WHOLE.fullmatch(text) is not None or text.lower() in ("true", "false")


def values_of(texts: Sequence[str], column: str) -> list[Value]:
    """Labels as integers or booleans where all of them are, else as text."""
    if all(text.lower() in ("true", "false") for text in texts):
        return [text.lower() == "true" for text in texts]
    if all(WHOLE.fullmatch(text) for text in texts):
        return [int(text.partition(".")[0]) for text in texts]
    for text in texts:
        if re.fullmatch(
            r"[+-]?(\d+\.\d*|\.\d+)(e[+-]?\d+)?", text.lower()
        ) and not WHOLE.fullmatch(text):
            raise InputError(
                f"column {column!r} must hold class labels, not numbers such as "
                f"{text}; see --label"
            )
    return list(texts)


def model_columns(columns: Sequence[str], model: Any, given: str | None) -> list[str]:
    """The columns of scores for a model, in the order of its classes.

    By default they are those of its fit, if the file has them.
    """
    of_fit = model.model_.fit.columns
    if given is None and of_fit and set(of_fit) <= set(columns):
        return list(of_fit)
    columns = score_columns(columns, given)
    m = len(model.classes_)
    if len(columns) not in ((1, 2) if m == 2 else (m,)):
        wanted = "one column of scores, or two" if m == 2 else f"{m} columns of scores"
        raise InputError(
            f"the model has {m} classes and needs {wanted}; got {len(columns)} "
            f"({shown(columns)}); see --score"
        )
    return in_class_order(columns, list(model.classes_))


def segment_columns(
    columns: list[str], model: Any, given: str | None
) -> tuple[list[str], list[str]]:
    """The columns of segments of a model, in its order, and their types."""
    known = model.model_.segment_columns
    if not known:
        if given is not None:
            raise InputError(
                "--by is for a model that was fitted with it; this one has no segments"
            )
        return [], []
    names = [one.name for one in known]
    by = names if set(names) <= set(columns) else []
    if given is not None:
        by = named(columns, given, "--by")
    if by and len(by) != len(known):
        raise InputError(
            f"--by must name {len(known)} columns, as for the fit; got {shown(by)}"
        )
    return (names if set(by) == set(names) else by), [
        _type(one.known.labels) for one in known
    ][: len(by)]


def _type(labels: list[Any]) -> str:
    """The type of DuckDB that labels of a model have."""
    kinds = {bool: "BOOLEAN", int: "BIGINT", float: "DOUBLE"}
    found = {kinds.get(type(label), "VARCHAR") for label in labels}
    if found == {"BIGINT"} and max(labels) >= 2**63:
        return "UBIGINT"
    return found.pop() if len(found) == 1 else "VARCHAR"


def classes_of(
    texts: list[str],
    options: argparse.Namespace,
    score: list[str],
    column: str,
    file: str,
) -> tuple[list[Value], dict[str, int]]:
    """Classes in the order of the columns of scores, and the place of every text.

    A single column of scores belongs to the second class.
    """
    values = values_of(texts, column)
    where = f"column {column!r} of {file}"
    found = sorted(set(values))
    m = max(len(score), 2)
    classes: list[Value] = (
        found if options.classes is None else _given(options.classes, values, column)
    )
    if options.classes is not None and len(classes) != m and m > 2:
        raise InputError(
            f"--classes must name {m} classes, one for each column of scores; got "
            f"{options.classes!r}"
        )
    if options.classes is None and m > 2:
        advice = "Name the classes in the order of the columns with --classes"
        classes = classes_of_columns(
            label_array(found), score, m, where, beside="--score", advice=advice
        ).tolist()
    if len(found if m > 2 else classes) == 1:
        raise InputError(
            f"{where} must show two classes{' or more' if m > 2 else ''}; every row is "
            f"{(found or classes)[0]!r}"
        )
    if len(classes) > m:
        word = next((one for one in classes if one in WORDS), None)
        empty = ""
        if word is not None:
            empty = (
                f", or leave the field empty where {word} stands for a missing label"
            )
        raise InputError(
            f"{where} has {len(classes)} classes ({shown(list(map(str, classes)))}); "
            f"for more than two give a column of scores for each with --score{empty}"
        )
    if options.positive is not None:
        last = _given(options.positive, values, column, "--positive")
        if len(last) != 1:
            raise InputError(f"--positive must be one label; got {options.positive!r}")
        if len(score) == 2 and {class_named(name) for name in score} != set(
            map(str, classes)
        ):
            raise InputError(
                "--positive is for one column of scores; name the labels in the order "
                "of the two columns with --classes"
            )
        classes = [value for value in classes if value != last[0]] + last
    elif (
        options.classes is None
        and len(score) == 1
        and str(classes[1]).lower() not in YES
        and type(classes[1]) is str
    ):
        raise InputError(
            f"the labels are {classes[0]!r} and {classes[1]!r}; name the one to which "
            f"the score refers, for example --positive {classes[1]}"
        )
    strange = [
        text for text, value in zip(texts, values, strict=True) if value not in classes
    ]
    if strange:
        raise InputError(
            f"column {column!r} has labels that are none of the classes: "
            f"{shown(strange)}; see --classes"
        )
    return classes, {
        text: classes.index(value) for text, value in zip(texts, values, strict=True)
    }


def _given(
    text: str, values: list[Value], column: str, option: str = "--classes"
) -> list[Value]:
    classes = [_typed(part.strip(), values) for part in text.split(",")]
    if option == "--positive" and classes[0] not in values:
        known = shown([str(value) for value in sorted(set(values))])
        raise InputError(
            f"--positive must be one of the labels in column {column!r} ({known}); got "
            f"{text!r}"
        )
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
