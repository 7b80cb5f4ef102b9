"""Pages that live outside ``docs/`` join the site, and links to and from them are followed there.

Pages link to each other as the files lie in the repository, so that they work where the repository is read;
here each link becomes the one between the places on the site.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from urllib.parse import urlsplit

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
FOLDERS = {"benchmarks": (".md", ".png"), "examples": (".md", ".png", ".svg", ".py")}
"""Folders that are on the site under their own name, and which of their files."""
PAGES = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "benchmarks/README.md": "benchmarks/commands.md",
    "examples/README.md": "examples/gallery.md",
}
"""Pages that have another name on the site."""
LINK = re.compile(r"(\]\()([^)\s]+)(\))")


@event_priority(50)  # the navigation has to find them
def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages and pictures from outside."""
    for source in _outside():
        uri = to_site(source)
        if uri is not None and uri != "index.md":
            files.append(File.generated(config, uri, abs_src_path=str(ROOT / source)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links between files of the repository into links between pages."""
    here = page.file.src_uri

    def follow(match: re.Match[str]) -> str:
        return match[1] + _followed(match[2], here) + match[3]

    return LINK.sub(follow, markdown)


def to_site(source: str) -> str | None:
    """Where a file of the repository is on the site; None if it is not."""
    if source in PAGES:
        return PAGES[source]
    folder, _, rest = source.partition("/")
    if folder == "docs":
        return rest
    return source if source.endswith(FOLDERS.get(folder, ())) else None


def to_repository(uri: str) -> str:
    """Which file of the repository a page of the site is made from."""
    own = {page: source for source, page in PAGES.items() if page != "index.md"}
    if uri in own:
        return own[uri]
    return uri if uri.partition("/")[0] in FOLDERS and "/" in uri else f"docs/{uri}"


def _outside() -> list[str]:
    inside = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*")) if path.is_file()]
    at_root = [source for source in PAGES if "/" not in source]
    return [*at_root, *(path.relative_to(ROOT).as_posix() for path in inside)]


def _followed(link: str, here: str) -> str:
    parts = urlsplit(link)
    if parts.scheme or not parts.path:
        return link
    target = posixpath.normpath(posixpath.join(posixpath.dirname(to_repository(here)), parts.path))
    if not (ROOT / target).exists():
        return link  # MkDocs says what is wrong with it
    uri = to_site(target)
    if uri is None or (ROOT / target).is_dir():
        raise PluginError(f"{to_repository(here)} links to {target}, which is not on the site")
    fragment = f"#{parts.fragment}" if parts.fragment else ""
    return posixpath.relpath(uri, posixpath.dirname(here) or ".") + fragment
