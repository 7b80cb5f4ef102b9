"""A reliability diagram in characters, for a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calspline.evaluation.reliability import Reliability, reliability

WIDTH, HEIGHT = 31, 11
N_BINS = 10
GAP = "   "
PLAIN = str.maketrans({"●": "o", "│": "|", "·": ".", "┤": "|", "└": "+", "─": "-", "┬": "+"})


def reliability_text(y: Any, predictions: Mapping[str, Any], *, plain: bool = False) -> str:
    """Reliability diagrams side by side: how often it happened, against the probability given.

    A point is a bin of probabilities, with its 95% interval; dots mark the diagonal, where a point of
    right probabilities lies.

    Parameters
    ----------
    y : array-like of shape (n,)
        What happened: labels of two classes.
    predictions : mapping of str to array-like of shape (n,)
        Probabilities by name.
    plain : bool, default=False
        True: ASCII alone.

    Examples
    --------
    >>> from calspline.display.text_diagram import reliability_text
    >>> print(reliability_text([0, 1, 0, 1], {"raw": [0.2, 0.2, 0.8, 0.8]}, plain=True).splitlines()[0].strip())
    raw
    """
    panels = [
        _panel(name, reliability(y, p, n_bins=N_BINS, strategy="uniform"), labelled=i == 0)
        for i, (name, p) in enumerate(predictions.items())
    ]
    lines = [GAP.join(row).rstrip() for row in zip(*panels, strict=True)]
    text = "\n".join(lines)
    return text.translate(PLAIN) if plain else text


def _panel(name: str, diagram: Reliability, *, labelled: bool) -> list[str]:
    """One diagram; only the first has numbers at its left."""
    bins = diagram.bins
    cells = np.full((HEIGHT, WIDTH), " ")
    for column in range(WIDTH):
        cells[_row(column / (WIDTH - 1)), column] = "·"
    columns = np.rint(bins.mean_score * (WIDTH - 1)).astype(int)
    for column, low, high in zip(columns, bins.interval_lower, bins.interval_upper, strict=True):
        cells[_row(high) : _row(low) + 1, column] = "│"
    for column, share in zip(columns, bins.observed, strict=True):
        cells[_row(share), column] = "●"
    return _framed(name, cells, labelled=labelled)


def _row(share: float) -> int:
    return HEIGHT - 1 - round(float(share) * (HEIGHT - 1))


def _framed(name: str, cells: NDArray[np.str_], *, labelled: bool) -> list[str]:
    marks = {0: "100%", (HEIGHT - 1) // 2: "50%", HEIGHT - 1: "0%"} if labelled else {}
    margin = 5 if labelled else 0
    lines = [" " * (margin + 1) + name.center(WIDTH)]
    for i, row in enumerate(cells):
        lines.append(f"{marks.get(i, ''):>{margin}}" + ("┤" if i in marks else "│") + "".join(row))
    axis = ["─"] * WIDTH
    axis[0] = axis[WIDTH // 2] = axis[-1] = "┬"
    lines.append(" " * margin + "└" + "".join(axis))
    below = "0%" + "50%".center(WIDTH - 6) + "100%"
    lines.append(" " * margin + " " + below)
    return lines
