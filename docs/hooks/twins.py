"""Every figure has a twin for dark pages, in other colours: ``x.svg`` is shown by day, ``x.dark.svg`` by night."""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from calspline.display import style

FIGURES = Path(__file__).parents[1] / "figures"
IMAGE = re.compile(r'<img (?P<before>[^>]*?)src="(?P<place>[^"]*figures/[^"/]+)\.svg"(?P<after>[^>]*)>')
WIDTH = re.compile(r'<svg [^>]*width="([\d.]+)pt"')
WIDE = 480.0
"""Points from which a figure is too wide for a telephone."""
NIGHT = {
    style.INK: "#e3e8ee",
    style.MUTED: "#9aa7b4",
    style.RULE: "#56626e",
    style.GRID: "#2a333d",
    style.BLUE: "#4aa9e3",
    style.VERMILION: "#f2894a",
    style.GREEN: "#35c79a",
    style.PURPLE: "#d99abf",
    "#ffffff": "#12181f",
}
"""What each colour becomes on a dark page, white being the page itself."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Make the twins."""
    for path in sorted(FIGURES.glob("*.svg")):
        text = path.read_text(encoding="utf-8")
        for colour, dark in NIGHT.items():
            text = text.replace(colour, dark)
        files.append(File.generated(config, f"figures/{path.stem}.dark.svg", content=text))
    return files


def on_page_content(content: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Show both; the style sheet hides one."""

    def both(image: re.Match[str]) -> str:
        name = image["place"].rpartition("/")[2]
        width = WIDTH.search((FIGURES / f"{name}.svg").read_text(encoding="utf-8"))
        size = "wide" if width is not None and float(width[1]) > WIDE else "narrow"
        return "".join(
            f'<img class="{time} {size}" {image["before"]}src="{image["place"]}{kind}"{image["after"]}>'
            for time, kind in (("by-day", ".svg"), ("by-night", ".dark.svg"))
        )

    return IMAGE.sub(both, content)
