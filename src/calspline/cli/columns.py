"""Which columns are meant: those that were named, else those whose names are obvious."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Sequence

from calspline.cli.errors import InputError

SCORES = ("score", "prob", "probability", "proba", "p", "y_score", "y_prob", "y_proba")
LABELS = ("label", "y", "target", "outcome", "y_true")
MANY = re.compile(r"(p|prob|proba|probability)_(.+)", re.IGNORECASE)


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
