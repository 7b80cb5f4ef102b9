"""The scales on which splines are fitted."""

from __future__ import annotations

import numpy as np
from docs.figures.sheet import sheet
from matplotlib.figure import Figure
from scipy.special import expit

from calspline.display import style
from calspline.transforms import Transform


def draw() -> dict[str, Figure]:
    """The places x of scores, against their log-odds and against the scores."""
    figure = sheet(7.6, 3.5)
    left, right = figure.subplots(1, 2)
    u = np.linspace(-40.0, 40.0, 801)
    style.style_axes(left)
    ends = []
    for name, colour in (("logit", style.BLUE), ("asinh_logit", style.VERMILION)):
        x = Transform(name).from_log_odds(u)
        left.plot(u, x, color=colour, lw=2.2)
        ends.append((float(x[-1]), name, colour))
    left.set(xlabel="log-odds of the score", ylabel="x", xlim=(-40, 40), ylim=(-24, 24))
    for value, name, colour in ends:
        style.label(
            left,
            name,
            (39, value),
            offset=(0, 5),
            ha="right",
            color=colour,
            fontweight="bold",
        )
    style.style_axes(right)
    p = expit(np.linspace(-9.0, 9.0, 2001))
    for epsilon, colour in ((0.1, style.PURPLE), (0.001, style.GREEN)):
        right.plot(p, Transform("compact_logit", epsilon)(p), color=colour, lw=2.2)
    right.plot([0, 1], [0, 1], color=style.INK, lw=1.1, dashes=(5, 3))
    right.set(xlabel="score", ylabel="x", xlim=(0, 1), ylim=(0, 1), aspect="equal")
    style.label(
        right,
        "compact_logit, ε = 0.1",
        (0.44, 0.30),
        color=style.PURPLE,
        fontweight="bold",
    )
    style.label(right, "ε = 0.001", (0.62, 0.46), color=style.GREEN, fontweight="bold")
    style.label(
        right, "identity", (0.60, 0.66), ha="right", color=style.INK, fontweight="bold"
    )
    return {"transforms": figure}
