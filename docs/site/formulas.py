"""Draw formulas as SVG when the site is built, so that pages need no script or font."""

from __future__ import annotations

from functools import cache
from typing import Any
from xml.etree import ElementTree

from docutils import nodes
from sphinx.errors import ExtensionError

SIZE = 20.0
"""Height of an em, in the units of the picture."""


def setup(app: Any) -> None:
    """Register the renderer."""
    app.add_html_math_renderer(
        "svg",
        inline_renderers=(visit_inline, None),
        block_renderers=(visit_block, None),
    )


def visit_inline(translator: Any, node: nodes.math) -> None:
    """Draw a formula within a line."""
    drawing = draw(node.astext(), inline=True)
    translator.body.append(f'<span class="formula">{drawing}</span>')
    raise nodes.SkipNode


def visit_block(translator: Any, node: nodes.math_block) -> None:
    """Draw a formula of its own."""
    drawing = draw(node.astext(), inline=False)
    translator.body.append(f'<div class="formula">{drawing}</div>')
    raise nodes.SkipNode


@cache
def draw(tex: str, *, inline: bool) -> str:
    """The SVG of a formula, in the color of the text."""
    import ziamath

    tex = tex.strip()
    try:
        formula = ziamath.Latex(tex, size=SIZE, inline=inline)
    except Exception as error:
        raise ExtensionError(f"cannot draw the formula {tex}: {error}") from error
    svg = formula.svgxml()
    width, height = (float(svg.attrib[side]) / SIZE for side in ("width", "height"))
    svg.attrib |= {
        "width": f"{width:.3f}em",
        "height": f"{height:.3f}em",
        "style": f"vertical-align:{formula.getyofst() / SIZE:.3f}em",
        "role": "img",
        "aria-label": tex,
    }
    text = ElementTree.tostring(svg, encoding="unicode")
    return text.replace('fill="black"', 'fill="currentColor"')
