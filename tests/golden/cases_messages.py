"""Errors and warnings of the contract for bad and odd input, as text.

There is a file for each surface. Every case of ``tests/faults/contract.py`` that ends
in an error or a warning is in it, most of them with two calibrators or two ways in.
"""

from __future__ import annotations

import re
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.faults.contract import CASES, SURFACES
from tests.faults.table import Case as Number
from tests.golden import (
    messages_calibrators,
    messages_command_line,
    messages_files,
    messages_frames,
    messages_histograms,
    messages_wrapper,
)
from tests.golden.bad_input import Book
from tests.golden.cases_commands import inside, normalised
from tests.golden.record import Area, Case

WRITERS: dict[str, Callable[[Book], None]] = {
    "calibrators": messages_calibrators.write,
    "wrapper": messages_wrapper.write,
    "histograms": messages_histograms.write,
    "frames": messages_frames.write,
    "files": messages_files.write,
    "command_line": messages_command_line.write,
}
WORDS_OF_PYTHON = re.compile(
    r"\((Expecting|Unterminated|maximum recursion|'utf-8' codec)[^\n]*\)$",
    flags=re.MULTILINE,
)
"""What its JSON reader says, which depends on its version."""
CHOICES = re.compile(r"\(choose from [^)]*\)")
"""Quoted in some versions of Python."""


def messages_of(call: Callable[[], Any], folder: Path) -> list[str]:
    """Warnings and the error of a call."""
    error = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            call()
        except messages_command_line.RefusalError as refusal:
            error = [str(refusal)]
        except Exception as problem:
            error = [described(problem)]
    said = [f"{each.category.__name__}: {each.message}" for each in caught]
    text = normalised("\n".join(said + error), folder)
    text = WORDS_OF_PYTHON.sub("(...)", text)
    text = CHOICES.sub(lambda found: found[0].replace("'", ""), text)
    return text.splitlines() or ["nothing is said"]


def described(problem: Exception) -> str:
    """Type and message of an error; of one that scikit-learn raised, the type only."""
    last = problem.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    module = "" if last is None else last.tb_frame.f_globals.get("__name__", "")
    kind = type(problem).__name__
    if module.split(".")[0] == "sklearn":
        return f"{kind} of scikit-learn"
    return f"{kind}: {problem}"


def heading(number: Number) -> str:
    return f"## {number} {CASES[number][1]}"


def messages(surface: str) -> Callable[[], str]:
    """All messages of a surface, in the order of the contract."""

    def result() -> str:
        book = Book()
        found: dict[Number, list[str]] = {number: [] for number in CASES}
        with tempfile.TemporaryDirectory() as name, inside(Path(name)):
            WRITERS[surface](book)
            for number, what, call in book.entries:
                said = messages_of(call, Path(name))
                found[number] += [what, *(f"    {line}" for line in said)]
        parts = [f"# {surface}: {SURFACES[surface]}", ""]
        for number, lines in found.items():
            if lines:
                parts += [heading(number), *lines, ""]
        return "\n".join(parts)

    return result


CASES_BY_SURFACE = {surface: Case(messages(surface)) for surface in SURFACES}
AREA = Area("messages", CASES_BY_SURFACE, suffix=".txt")
