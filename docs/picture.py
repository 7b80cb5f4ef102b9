"""Draw the picture of the README: ``make picture`` writes docs/picture.png."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.stats import beta

from calspline.demo import Story, tell

INK, GREY, RED, BLUE = "#1b2733", "#8a97a5", "#d1495b", "#00798c"
BINS = np.linspace(0.0, 1.0, 11)


def panel(top: Axes, bottom: Axes, y: NDArray[np.int_], p: NDArray[np.float64], colour: str, title: str) -> None:
    """A reliability diagram with exact binomial intervals, and the scores' histogram below it."""
    place = np.clip(np.digitize(p, BINS) - 1, 0, 9)
    counts = np.bincount(place, minlength=10)
    used = np.flatnonzero(counts)
    said = np.array([p[place == k].mean() for k in used])
    hits = np.array([y[place == k].sum() for k in used])
    n = counts[used]
    share = hits / n
    low = np.where(hits > 0, beta.ppf(0.025, hits, n - hits + 1), 0.0)
    high = np.where(hits < n, beta.ppf(0.975, hits + 1, n - hits), 1.0)
    top.plot([0, 1], [0, 1], color=GREY, lw=1, dashes=(4, 3), zorder=1)
    top.vlines(said, low, high, color=colour, lw=1.6, alpha=0.45, zorder=2)
    top.scatter(said, share, s=22 + 330 * n / n.sum(), color=colour, edgecolor="white", linewidth=0.8, zorder=3)
    top.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), xticks=[], yticks=[0, 0.5, 1])
    top.set_title(title, loc="left", fontsize=11.5, color=INK, fontweight="bold")
    bottom.hist(p, bins=BINS.tolist(), color=colour, alpha=0.75, rwidth=0.9)
    bottom.set(xlim=(-0.03, 1.03), yticks=[], xticks=[0, 0.5, 1], xlabel="what the model says")


def draw(story: Story) -> Figure:
    """Before and after, side by side."""
    plt.rcParams.update({"font.family": "DejaVu Sans", "font.size": 10, "axes.edgecolor": GREY, "text.color": INK})
    plt.rcParams.update({"axes.labelcolor": INK, "xtick.color": INK, "ytick.color": INK, "axes.linewidth": 0.8})
    figure = Figure(figsize=(8.8, 5.0), layout="constrained", dpi=150)
    axes = figure.subplots(2, 2, height_ratios=[5, 1], sharex="col")
    (_, before, after), *_ = story.numbers()
    panel(axes[0, 0], axes[1, 0], story.y, story.before, RED, f"Naive Bayes, log-loss {before:.2f}")
    panel(axes[0, 1], axes[1, 1], story.y, story.after, BLUE, f"Calibrated, log-loss {after:.2f}")
    axes[0, 0].set_ylabel("what happened")
    for ax in axes.flat:
        ax.spines[["top", "right"]].set_visible(False)
    return figure


if __name__ == "__main__":
    path = Path(__file__).with_name("picture.png")
    draw(tell()).savefig(path)
    print(f"wrote {path.name}")
