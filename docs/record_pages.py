"""Run the how-to pages, and write what their code prints and draws into them.

``python -m docs.record_pages`` does all pages of docs/howto, ``python -m docs.record_pages forests`` one. A ``text``
block right after a ``python`` block is what that code prints; pictures that the code saves are put beside the page.
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

PAGES = Path(__file__).parent / "howto"
EXAMPLE = re.compile(
    r"^```python\n(?P<code>.*?)^```(?:\n+```text\n(?P<output>.*?)^```)?", flags=re.DOTALL | re.MULTILINE
)


class Example(NamedTuple):
    """Code, at the line where its page has it, and what it prints: a text and its place, if the page says."""

    code: str
    printed: str | None
    place: slice


def examples(page: str) -> Iterator[Example]:
    """The examples in the text of a page."""
    for found in EXAMPLE.finditer(page):
        lines = "\n" * page.count("\n", 0, found.start("code"))
        yield Example(lines + found["code"], found["output"], slice(*found.span("output")))


def printed_by(code: str, page: Path, names: dict[str, Any]) -> str:
    """What the code prints, without spaces at the ends of lines."""
    out = StringIO()
    with redirect_stdout(out):
        exec(compile(code, page, "exec"), names)
    return "".join(f"{line.rstrip()}\n" for line in out.getvalue().rstrip().splitlines())


def record(page: Path) -> None:
    """Run a page from top to bottom, in a folder of its own."""
    text, names = page.read_text(), dict[str, Any]()
    parts, last = [], 0
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for example in examples(text):
            printed = printed_by(example.code, page, names)
            if example.printed is not None:
                parts += [text[last : example.place.start], printed]
                last = example.place.stop
        for picture in Path(folder).glob("*.png"):
            shutil.copy(picture, page.parent)
        os.chdir(page.parent)
    page.write_text("".join([*parts, text[last:]]))


if __name__ == "__main__":
    os.environ["MPLBACKEND"] = "agg"
    for path in [PAGES / f"{name}.md" for name in sys.argv[1:]] or sorted(PAGES.glob("*.md")):
        record(path)
