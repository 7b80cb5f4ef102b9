"""What is left of a million rows, and what is lost by it."""

from __future__ import annotations

import numpy as np
from benchmarks.binning import no_binning
from docs.figures.bending import simulated
from docs.figures.sheet import sheet
from matplotlib.figure import Figure
from scipy.special import expit

from calspline import ScoreHistogram, SplineCalibrator
from calspline.display import style

ROWS = 1_000_000


def draw() -> dict[str, Figure]:
    """The histogram, and the change of predictions by collecting scores in cells."""
    data = simulated(ROWS, 0)
    cells = ScoreHistogram.from_scores(data.score, data.outcome)
    binned = SplineCalibrator(scale="logit").fit_histogram(cells)
    with no_binning():
        exact = SplineCalibrator(scale="logit").fit(data.score, data.outcome)
    p = expit(np.linspace(-8.0, 8.0, 4001))
    change = binned.calibrate(p) - exact.calibrate(p)

    figure = sheet(7.6, 3.3)
    left, right = figure.subplots(1, 2)
    style.style_axes(left)
    for weight, colour, name, at, side in (
        (cells.negatives, style.VERMILION, "negative", (-2.9, 620), "right"),
        (cells.positives, style.BLUE, "positive", (2.9, 620), "left"),
    ):
        seen = weight > 0
        left.plot(cells.locations[seen], weight[seen], color=colour, lw=0.7)
        style.label(left, name, at, ha=side, color=colour, fontweight="bold")
    left.set(xlabel="log-odds of the score", ylabel="rows in a cell", xlim=(-11, 11))
    left.set_ylim(bottom=0)
    style.title(left, f"{ROWS:,} rows in {len(cells):,} places")
    style.style_axes(right)
    right.plot(p, change * 1e6, color=style.INK, lw=1.4)
    right.set(
        xlabel="score", ylabel="change of the prediction, millionths", xlim=(0, 1)
    )
    style.title(right, "what that changes")
    inside = (p > 0.01) & (p < 0.99)
    width = float(
        np.diff(binned.interval(p[inside])).mean() / np.abs(change[inside]).mean()
    )
    times = f"{float(f'{width:.1g}'):,.0f}"
    words = f"the curve's 95% band is, on average,\n{times} times as wide as this"
    right.set_ylim(top=1.5e6 * np.abs(change).max())
    style.label(right, words, (0.03, 1.44e6 * np.abs(change).max()), va="top")
    return {"cells": figure}
