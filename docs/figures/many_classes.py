"""The structured multiclass model: the common curve, and the matrix."""

from __future__ import annotations

import numpy as np
from docs.figures.sheet import sheet
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from sklearn.datasets import load_digits
from sklearn.model_selection import cross_val_predict
from sklearn.naive_bayes import GaussianNB

from calspline import SplineCalibrator
from calspline.display import style


def draw() -> dict[str, Figure]:
    """Naive Bayes on ten digits: over-confident, more so for some digits."""
    X, y = load_digits(return_X_y=True)
    scores = cross_val_predict(GaussianNB(), X, y, cv=5, method="predict_proba")
    structure = SplineCalibrator().fit(scores, y).structure_
    figure = sheet(7.6, 3.7)
    left, right = figure.subplots(1, 2, width_ratios=(1.0, 0.95))
    style.style_axes(left)
    low = float(structure.breaks[0])
    u = np.linspace(low, 0.0, 400)
    left.plot(u, u, color=style.RULE, lw=1.1)
    left.plot(u, structure.curve(u), color=style.BLUE, lw=2.4)
    left.plot(
        structure.breaks,
        np.full(len(structure.breaks), low),
        "|",
        color=style.MUTED,
        ms=7,
    )
    left.set(xlabel="u: tempered log-probability", ylabel="s(u)", xlim=(low, 0.05))
    style.title(left, "one curve for all classes")
    assert structure.W is not None
    reach = float(np.abs(structure.W).max())
    for (i, j), value in np.ndenumerate(structure.W):
        colour = style.BLUE if value > 0.0 else style.VERMILION
        right.add_patch(
            Rectangle(
                (j - 0.47, i - 0.47),
                0.94,
                0.94,
                color=colour,
                alpha=abs(value) / reach,
                lw=0,
            )
        )
        if abs(value) > 0.4 * reach:
            right.text(
                j,
                i,
                f"{value:.2f}",
                ha="center",
                va="center",
                fontsize=7.0,
                color=style.INK,
            )
    right.set(xlim=(-0.6, 9.6), ylim=(9.6, -0.6), aspect="equal")
    right.set(
        xlabel="log-probability of", ylabel="moves", xticks=range(10), yticks=range(10)
    )
    right.tick_params(
        color=style.RULE, labelcolor=style.MUTED, labelsize=style.SMALL, length=0
    )
    for label in (right.xaxis.label, right.yaxis.label):
        label.set_color(style.INK)
    for side in right.spines.values():
        side.set_visible(False)
    style.title(right, "and a matrix W for pairs")
    return {"many_classes": figure}
