"""What Python, JavaScript and C have in common when written."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterable
from typing import Any

from calspline import __version__
from calspline.export._plan import Program
from calspline.expression import Pieces, Syntax

WIDTH = 100
UNSAFE = re.compile(r"[^\w .,+'\"\\-]", re.ASCII)


class Tables:
    """The tables of a source, named as its cubics are written."""

    def __init__(self, *, several: bool) -> None:
        self.named: dict[str, Pieces] = {}
        self._several = several

    def name(self, pieces: Pieces) -> str:
        """A name for one more table."""
        name = f"PIECES_{len(self.named)}" if self._several else "PIECES"
        self.named[name] = pieces
        return name

    def write(self, template: str, brackets: str) -> list[str]:
        """Each table in a template with places for its ``{name}`` and its ``{rows}``."""
        return [
            template.format(name=name, rows="\n".join(self._rows(pieces, brackets)))
            for name, pieces in self.named.items()
        ]

    def _rows(self, pieces: Pieces, brackets: str) -> list[str]:
        rows = zip(pieces.starts, pieces.coefficients, strict=True)
        return [f"    {brackets[0]}{', '.join(map(repr, [start, *cubic]))}{brackets[1]}," for start, cubic in rows]


def statements(program: Program, syntax: Syntax, assignment: str, result: str) -> str:
    """A program as indented lines: an assignment for each step, and the result."""
    lines = [assignment.format(name=name, value=syntax.write(value)) for name, value in program.steps]
    return "\n".join("    " + line for line in [*lines, result.format(syntax.write(program.result))])


def bracketed(values: Iterable[float], brackets: str, indent: str = "") -> str:
    """Numbers in brackets: in one line, or in as many of bounded width as they need."""
    items = [repr(value) for value in values]
    whole = f"{brackets[0]}{', '.join(items)}{brackets[1]}"
    if len(indent) + len(whole) <= WIDTH:
        return whole
    inner = indent + "    "
    lines = textwrap.wrap(", ".join(items) + ",", WIDTH, initial_indent=inner, subsequent_indent=inner)
    return "\n".join([brackets[0], *lines, indent + brackets[1]])


def matrix(rows: Iterable[Iterable[float]], brackets: str) -> str:
    """A matrix, a row in a line or more."""
    lines = [f"    {bracketed(row, brackets, '    ')}," for row in rows]
    return "\n".join([brackets[0], *lines, brackets[1]])


def title(classes: list[Any]) -> str:
    """One line of ASCII that says what comes out."""
    labels = [
        _escape_control(json.dumps(label if isinstance(label, (str, int, float)) else str(label))) for label in classes
    ]
    what = f"Probability of class {labels[1]}" if len(labels) == 2 else f"Probabilities of classes {', '.join(labels)}"
    return f"{what}, calibrated. Written by calspline {__version__}."


def _escape_control(label: str) -> str:
    """A label in JSON that ends no comment and no ``<script>``, and that Python does not take for ``coding: ...``."""
    return UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", label)


def joined(blocks: Iterable[str], gap: str = "\n\n") -> str:
    """Blocks of a source, with empty lines between those there are."""
    return gap.join(block for block in blocks if block) + "\n"
