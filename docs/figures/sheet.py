"""Sheets to draw on, and figures as small SVG files in the colours of light pages.

``docs/site/figures.py`` makes those of dark pages from them.
"""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

FOLDER = Path(__file__).parent
PATH, DIGITS = re.compile(r' d="[^"]*"'), re.compile(r"(\.\d\d)\d+")
"""A path, and digits in it that nobody can see."""


def sheet(width: float = 7.6, height: float = 4.0) -> Figure:
    """An empty figure; text is of one size in all, as they are shown at one width."""
    return Figure(
        figsize=(width, height),
        layout=ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.08, wspace=0.06),
    )


def save(figure: Figure, name: str) -> None:
    """Write ``name.svg`` beside this file, the same bytes for the same figure."""
    out = io.StringIO()
    options: dict[str, Any] = {"svg.hashsalt": "calspline", "svg.fonttype": "path"}
    with mpl.rc_context(options):
        figure.savefig(
            out,
            format="svg",
            transparent=True,
            metadata={"Date": None, "Creator": None},
        )
    text = PATH.sub(lambda path: DIGITS.sub(r"\1", path[0]), out.getvalue())
    lines = (line.rstrip() for line in text.splitlines())
    (FOLDER / f"{name}.svg").write_text("\n".join(lines) + "\n", encoding="utf-8")
