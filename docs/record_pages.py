"""Run the code of pages, and write what it prints and draws into them.

``python -m docs.record_pages`` runs AGENTS.md, README.md, the pages in docs and those
in docs/howto; with the names of pages it runs these. A ``text`` block right after a
``python`` block is the output of that code; pictures that the code saves are put beside
the page. Code blocks of a how-to page run in one namespace, those of other pages on
their own.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

DOCS = Path(__file__).parent
HOWTO = DOCS / "howto"
EXAMPLE = re.compile(
    r"^```python\n(?P<code>.*?)^```(?:\n+```text\n(?P<output>.*?)^```)?",
    flags=re.DOTALL | re.MULTILINE,
)


class Example(NamedTuple):
    """Code, at the line where its page has it, and its output, if the page shows it."""

    code: str
    printed: str | None
    place: slice


def examples(page: str) -> Iterator[Example]:
    """The examples in the text of a page."""
    for found in EXAMPLE.finditer(page):
        lines = "\n" * page.count("\n", 0, found.start("code"))
        yield Example(
            lines + found["code"], found["output"], slice(*found.span("output"))
        )


def printed_by(code: str, page: Path, names: dict[str, Any]) -> str:
    """What the code prints, without spaces at the ends of lines."""
    out = StringIO()
    with redirect_stdout(out):
        exec(compile(code, page, "exec"), names)
    return "".join(
        f"{line.rstrip()}\n" for line in out.getvalue().rstrip().splitlines()
    )


def record(page: Path) -> None:
    """Run a page from top to bottom, in a temporary folder."""
    text = page.read_text()
    parts: list[str] = []
    last = 0
    names: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for example in examples(text):
            if page.parent != HOWTO:
                names = {}
            printed = printed_by(example.code, page, names)
            if example.printed is not None:
                parts += [text[last : example.place.start], printed]
                last = example.place.stop
        if page.parent == HOWTO:
            for picture in Path(folder).glob("*.png"):
                shutil.copy(picture, page.parent)
        os.chdir(page.parent)
    page.write_text("".join([*parts, text[last:]]))


def pages() -> list[Path]:
    """All pages with code that runs."""
    return [
        DOCS.parent / "AGENTS.md",
        DOCS.parent / "README.md",
        *sorted(DOCS.glob("*.md")),
        *sorted((DOCS / "explanation").glob("*.md")),
        *sorted(HOWTO.glob("*.md")),
    ]


if __name__ == "__main__":
    os.environ["MPLBACKEND"] = "agg"
    for path in [Path(name).resolve() for name in sys.argv[1:]] or pages():
        record(path)
