"""Links to elsewhere are listed in ``external_links.txt``, not followed: the site is built without network."""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

LINK = re.compile(r'href="(https?://[^"]+)"')
found: dict[str, set[str]] = {}


def on_page_content(content: str, page: Page, config: MkDocsConfig, files: Files) -> None:
    """Note the links of a page."""
    for url in LINK.findall(content):
        found.setdefault(url, set()).add(page.file.src_uri)


def on_post_build(config: MkDocsConfig) -> None:
    """Write the list."""
    lines = [f"{url}  {', '.join(sorted(pages))}\n" for url, pages in sorted(found.items())]
    (Path(config.site_dir) / "external_links.txt").write_text("".join(lines), encoding="utf-8")
