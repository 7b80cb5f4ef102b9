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
    """Four shapes of the diagram, and the effect of the number of rows."""
    rng = np.random.default_rng(0)
    u = rng.normal(-0.3, 1.6, ROWS)
    outcome = rng.random(ROWS) < expit(u)
    wrong = sheet(7.6, 7.4)
    kinds = {
        "Over-confident": expit(2.2 * u),
        "Under-confident": expit(0.45 * u),
        "Too high throughout": expit(u + 0.9),
        "Calibrated": expit(u),
    }
    for i, (ax, (name, p)) in enumerate(
        zip(wrong.subplots(2, 2).ravel(), kinds.items(), strict=True)
    ):
        _diagram(ax, name, outcome, p)
        ax.set_ylabel("" if i % 2 else style.OBSERVED)
    chance = sheet(7.6, 4.0)
    for i, (ax, n) in enumerate(zip(chance.subplots(1, 2), (150, ROWS), strict=True)):
        _diagram(ax, f"Calibrated, {n:,} rows", outcome[:n], expit(u[:n]), corp=True)
        ax.set_ylabel("" if i else style.OBSERVED)
    return {"four_shapes": wrong, "chance": chance}


def _diagram(ax: Axes, name: str, outcome: Any, p: Any, *, corp: bool = False) -> None:
    ReliabilityDisplay.from_predictions(
        outcome, p, ax=ax, strategy="uniform", corp=corp, legend=False
    )
    style.title(ax, name)
