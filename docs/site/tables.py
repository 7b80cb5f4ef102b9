"""Put tables of committed results into pages, so that no number is typed twice.

``<!-- table: benchmarks/arena/RESULTS.md, Binary -->`` is replaced by the first table
below the first heading that begins with these words.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from sphinx.errors import ExtensionError

ROOT = Path(__file__).parents[2]
MARK = re.compile(r"<!-- table: (?P<file>\S+), (?P<heading>.+?) -->")


def setup(app: Any) -> None:
    """Let Sphinx call this for every page it reads."""
    app.connect("source-read", insert_tables)


def insert_tables(app: Any, page: str, source: list[str]) -> None:
    """Put the tables in place of their marks."""
    source[0] = MARK.sub(
        lambda mark: find_table(mark["file"], mark["heading"]), source[0]
    )


def find_table(file: str, heading: str) -> str:
    """The first table below a heading of a file of the repository."""
    text = (ROOT / file).read_text(encoding="utf-8")
    found = re.search(
        rf"^#+ {re.escape(heading)}[^\n]*\n(.*?)((?:^\|[^\n]*\n)+)",
        text,
        flags=re.M | re.S,
    )
    if found is None or re.search(r"^#", found[1], flags=re.M):
        raise ExtensionError(
            f"{file} has no table below a heading that begins with {heading!r}"
        )
    return found[2]
