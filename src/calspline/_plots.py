"""Indirection between results and the displays that draw them.

Evaluations, decisions and monitors do not import :mod:`calspline.display`. Their
``plot`` methods call :func:`draw`, and the package registers the displays on import.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Drawing = Callable[..., Any]
_find_drawing: Callable[[], Drawing] | None = None


def register_drawing(find_drawing: Callable[[], Drawing]) -> None:
    """Register the function that imports and returns the drawing function."""
    global _find_drawing
    _find_drawing = find_drawing


def draw(result: Any, ax: Any = None, **options: Any) -> Any:
    """Plot a result with matplotlib."""
    if _find_drawing is None:
        raise RuntimeError("calspline must be imported before results are drawn")
    drawing = _find_drawing()
    return drawing(result, ax, **options)
