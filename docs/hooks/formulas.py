r"""Formulas become pictures when the site is built: no script, no font and no network are needed to read them.

``$...$`` and ``$$...$$`` reach this hook as ``\(...\)`` and ``\[...\]`` in elements of the class ``arithmatex``.
"""

from __future__ import annotations

import html
import re
from functools import cache
from xml.etree import ElementTree

import ziamath
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

SIZE = 20.0
"""Height of an em, in the units of the picture."""
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', flags=re.S)


def on_page_content(content: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Draw the formulas of a page."""

    def drawn(match: re.Match[str]) -> str:
        tex = html.unescape(match[3]).strip()
        try:
            return _picture(tex, inline=match[2] == "(")
        except Exception as error:
            raise PluginError(f"{page.file.src_uri}: cannot draw the formula {tex}: {error}") from error

    return FORMULA.sub(drawn, content)


@cache
def _picture(tex: str, *, inline: bool) -> str:
    formula = ziamath.Latex(tex, size=SIZE, inline=inline)
    svg = formula.svgxml()
    width, height = (float(svg.attrib[side]) / SIZE for side in ("width", "height"))
    svg.attrib |= {
        "width": f"{width:.3f}em",
        "height": f"{height:.3f}em",
        "style": f"vertical-align:{formula.getyofst() / SIZE:.3f}em",
        "role": "img",
        "aria-label": tex,
    }
    drawing = ElementTree.tostring(svg, encoding="unicode").replace('fill="black"', 'fill="currentColor"')
    if inline:
        return f'<span class="formula">{drawing}</span>'
    return f'<div class="formula">{drawing}</div>'
