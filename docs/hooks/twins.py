"""A figure that has a twin for dark pages is shown with it: ``x.svg`` by day, ``x.dark.svg`` by night."""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

FIGURES = Path(__file__).parents[1] / "figures"
IMAGE = re.compile(r'<img (?P<before>[^>]*?)src="(?P<path>[^"]*figures/)(?P<name>[^"/]+)\.svg"(?P<after>[^>]*)>')


def on_page_content(content: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Show both; the style sheet hides one."""

    def both(image: re.Match[str]) -> str:
        if not (FIGURES / f"{image['name']}.dark.svg").exists():
            return image[0]
        return "".join(
            f'<img class="by-{time}" {image["before"]}src="{image["path"]}{image["name"]}{kind}"{image["after"]}>'
            for time, kind in (("day", ".svg"), ("night", ".dark.svg"))
        )

    return IMAGE.sub(both, content)
