"""What goes wrong, said in one line."""

from __future__ import annotations

import re

HINTS = {
    "not utf-8": "the file is not UTF-8; say what it is, for example --encoding latin-1 or --encoding utf-16",
    "Invalid unicode": "the file is not UTF-8; say what it is, for example --encoding latin-1 or --encoding utf-16",
}


class InputError(Exception):
    """Something that the user can put right; the message says what and how."""


class MissingExtraError(InputError):
    """A package that only some commands need is not installed."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"this command needs {package}: pip install 'calspline[{extra}]'")


def one_line(text: str) -> str:
    """A message without line breaks or runs of blanks."""
    return " ".join(text.split())


def reading_failed(name: str, error: Exception) -> InputError:
    """What DuckDB or Arrow said about a file, without the query and the settings it adds."""
    text = str(error)
    for sign, hint in HINTS.items():
        if sign in text:
            return InputError(f"cannot read {name}: {hint}")
    line = re.search(r"CSV Error on Line: (\d+)", text)
    columns = re.search(r"Expected Number of Columns: (\d+) Found: (\d+)", text)
    if line and columns:
        return InputError(
            f"cannot read {name}: line {line[1]} has {columns[2]} fields where {columns[1]} are expected; "
            "put the line right, or say what separates fields with --delimiter"
        )
    if "parsing dialect" in text:
        return InputError(
            f"cannot read {name}: its lines do not all have the same number of fields; put them right, "
            "or say what separates fields with --delimiter"
        )
    said = re.sub(r"^[\w ]+ Error: ", "", text).split("\n\n")[0].split("\nLINE ")[0]
    return InputError(one_line(f"cannot read {name}: {said}"))


def writing_failed(name: str, error: Exception) -> InputError:
    """What went wrong with an output, which is not there."""
    reason = getattr(error, "strerror", None) or re.sub(r"^[\w ]+ Error: ", "", str(error)).split("\n")[0]
    return InputError(one_line(f"cannot write {name}: {reason}; nothing was written"))
