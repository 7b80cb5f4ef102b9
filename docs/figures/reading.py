"""Reliability diagrams to practise on."""

from __future__ import annotations

from typing import Any

import numpy as np
from docs.figures.sheet import sheet
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.special import expit

from calspline import ReliabilityDisplay
from calspline.display import style

ROWS = 4000


def draw() -> dict[str, Figure]:
    """Four ways to be wrong, and right probabilities with few rows and with many."""
    rng = np.random.default_rng(0)
    u = rng.normal(-0.3, 1.6, ROWS)
    happened = rng.random(ROWS) < expit(u)
    wrong = sheet(7.6, 7.4)
    kinds = {
        "Too sure": expit(2.2 * u),
        "Not sure enough": expit(0.45 * u),
        "Too high throughout": expit(u + 0.9),
        "Right": expit(u),
    }
    for i, (ax, (name, p)) in enumerate(zip(wrong.subplots(2, 2).ravel(), kinds.items(), strict=True)):
        _diagram(ax, name, happened, p)
        ax.set_ylabel("" if i % 2 else style.OBSERVED)
    chance = sheet(7.6, 4.0)
    for i, (ax, n) in enumerate(zip(chance.subplots(1, 2), (150, ROWS), strict=True)):
        _diagram(ax, f"Right, {n:,} rows", happened[:n], expit(u[:n]), corp=True)
        ax.set_ylabel("" if i else style.OBSERVED)
    return {"four_shapes": wrong, "chance": chance}


def _diagram(ax: Axes, name: str, happened: Any, p: Any, *, corp: bool = False) -> None:
    ReliabilityDisplay.from_predictions(happened, p, ax=ax, strategy="uniform", corp=corp, legend=False)
    style.title(ax, name)
