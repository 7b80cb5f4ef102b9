"""Warnings that refer to the user's line of code."""

import sys
import warnings


def warn_user(message: str | Warning, category: type[Warning] = UserWarning) -> None:
    """Issue a warning for the line that called into this package."""
    level = 1
    frame = sys._getframe()
    while frame is not None and _is_ours(frame.f_globals.get("__name__", "")):
        level += 1
        frame = frame.f_back  # type: ignore[assignment]
    warnings.warn(message, category, stacklevel=level)


def _is_ours(module: str) -> bool:
    return module.startswith("calspline.")
