"""Tables of committed results appear on pages without being typed again.

``<!-- table: benchmarks/arena/RESULTS.md, Binary -->`` is replaced by the first table below the first heading that
begins with these words.
"""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
MARK = re.compile(r"<!-- table: (?P<file>\S+), (?P<heading>.+?) -->")


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Put the tables in place of their marks."""
    return MARK.sub(lambda mark: find_table(mark["file"], mark["heading"]), markdown)


def find_table(file: str, heading: str) -> str:
    """The first table below a heading of a file of the repository."""
    text = (ROOT / file).read_text(encoding="utf-8")
    found = re.search(rf"^#+ {re.escape(heading)}[^\n]*\n(.*?)((?:^\|[^\n]*\n)+)", text, flags=re.M | re.S)
    if found is None or re.search(r"^#", found[1], flags=re.M):
        raise PluginError(f"{file} has no table below a heading that begins with {heading!r}")
    return found[2]
