"""Patterns in the navigation stand for the pages that match and are not named elsewhere.

They come in the order of their names, but an index first. A page that matches two patterns is shown by the first.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Put pages in the place of patterns."""
    nav: Any = config.nav
    named = set(_paths(nav))
    pages = sorted(file.src_uri for file in files.documentation_pages() if file.src_uri not in named)
    config.nav = _expanded(nav, pages)
    return files


def _paths(nav: Any) -> Iterator[str]:
    """Everything named in the navigation."""
    if isinstance(nav, str):
        yield nav
    for part in nav.values() if isinstance(nav, dict) else nav if isinstance(nav, list) else ():
        yield from _paths(part)


def _expanded(items: list[Any], pages: list[str]) -> list[Any]:
    out: list[Any] = []
    for item in items:
        if isinstance(item, str):
            out += _matching(item, pages)
        else:
            ((title, value),) = item.items()
            if isinstance(value, list):
                value = _expanded(value, pages)
            elif "*" in value:
                value = _matching(value, pages)
            out += [{title: value}] if value else []
    return out


def _matching(item: str, pages: list[str]) -> list[str]:
    """The pages that match, which are taken out of those left over."""
    if "*" not in item:
        return [item]
    found = [page for page in pages if page.count("/") == item.count("/") and PurePosixPath(page).match(item)]
    pages[:] = [page for page in pages if page not in found]
    return sorted(found, key=lambda page: (PurePosixPath(page).stem != "index", page))
