"""Markdown tables that also read well in a terminal."""

from __future__ import annotations

from collections.abc import Sequence


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table with aligned columns."""
    lines = [header, *rows]
    widths = [max(3, *(len(line[i]) for line in lines)) for i in range(len(header))]
    text = [
        "| "
        + " | ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True))
        + " |"
        for line in lines
    ]
    return "\n".join(
        [text[0], "|" + "|".join("-" * (w + 2) for w in widths) + "|", *text[1:]]
    )
