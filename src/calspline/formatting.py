"""Tables of numbers, as text and as HTML."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

Row = Sequence[str]


def number(value: float) -> str:
    """Four digits after the point, more where it is small."""
    if not math.isfinite(value):
        return "-" if math.isnan(value) else str(value)
    if value == 0.0 or abs(value) >= 0.001:
        return f"{value:.4f}"
    return f"{value:.2g}"


def p_value(p: float) -> str:
    """A p-value as one prints it."""
    if math.isnan(p):
        return "-"
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def text_table(rows: Sequence[Row], header: Row | None = None) -> str:
    """Columns aligned, the first to the left and the others to the right."""
    lines = list(rows) if header is None else [header, *rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    shown = [
        "  ".join(
            cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    ]
    if header is not None:
        shown.insert(1, "-" * len(shown[0]))
    return "\n".join(line.rstrip() for line in shown)


def html_table(rows: Sequence[Row], header: Row | None = None, caption: str = "") -> str:
    """The same as HTML, with everything escaped."""

    def line(cells: Row, tag: str) -> str:
        first, *others = cells
        right = ' style="text-align:right"'
        inner = [f'<th scope="{"col" if tag == "th" else "row"}" style="text-align:left">{escape(first)}</th>']
        inner += [f"<{tag}{right}>{escape(cell)}</{tag}>" for cell in others]
        return f"<tr>{''.join(inner)}</tr>"

    head = "" if header is None else f"<thead>{line(header, 'th')}</thead>"
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    return f"<table>{title}{head}<tbody>{''.join(line(row, 'td') for row in rows)}</tbody></table>"
