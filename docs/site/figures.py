"""Give every figure in ``docs/figures`` a twin for dark pages, with other colors.

The theme shows images of the class ``only-light`` or ``only-dark``, and hides the
others.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from calspline.display import style

FIGURES = Path(__file__).parents[1] / "figures"
IMAGE = re.compile(
    r'<img (?P<before>[^>]*?)src="(?P<place>[^"]*_images/(?P<name>[^"/]+))\.svg"'
    r"(?P<after>[^>]*)>"
)
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
"""What each color becomes on a dark page, white being the page itself."""


def setup(app: Any) -> None:
    """Change pages when they are written, and write the twins at the end."""
    app.connect("html-page-context", show_both)
    app.connect("build-finished", write_twins)


def show_both(
    app: Any, page: str, template: str, context: dict[str, Any], tree: Any
) -> None:
    """Put the twin beside each figure of a page."""
    if "body" in context:
        context["body"] = IMAGE.sub(both, context["body"])


def both(image: re.Match[str]) -> str:
    """The elements of a figure and its twin."""
    path = FIGURES / f"{image['name']}.svg"
    if not path.exists():
        return image[0]
    width = WIDTH.search(path.read_text(encoding="utf-8"))
    size = "wide" if width is not None and float(width[1]) > WIDE else "narrow"
    elements = []
    for theme, suffix in (("only-light", ".svg"), ("only-dark", ".dark.svg")):
        source = f'src="{image["place"]}{suffix}"'
        elements.append(
            f'<img class="{theme} {size}" {image["before"]}{source}{image["after"]}>'
        )
    return "".join(elements)


def write_twins(app: Any, error: Exception | None) -> None:
    """Write the twin of every figure that is on the site."""
    for path in sorted((Path(app.outdir) / "_images").glob("*.svg")):
        if (FIGURES / path.name).exists():
            text = path.read_text(encoding="utf-8")
            for color, dark in NIGHT.items():
                text = text.replace(color, dark)
            path.with_suffix(".dark.svg").write_text(text, encoding="utf-8")
