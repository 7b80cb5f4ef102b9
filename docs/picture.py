"""Draw the picture of the README: ``make picture`` writes docs/picture.png."""

from __future__ import annotations

from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from calspline import ReliabilityDisplay
from calspline.demo import Story, tell
from calspline.display import style
from calspline.evaluation.reliability import Bins


def head(ax: Axes, name: str, loss: float, colour: str) -> None:
    """The name of a panel, and its log-loss in large type."""
    ax.set_title(name, loc="left", fontsize=13, fontweight="bold", color=style.INK, pad=12)
    ax.set_title(f"log-loss {loss:.2f}", loc="right", fontsize=13, fontweight="bold", color=colour, pad=12)


def point_out(ax: Axes, bins: Bins, colour: str) -> None:
    """Say in words what the surest bin means."""
    said, happened = float(bins.mean_score[-1]), float(bins.observed[-1])
    ax.annotate(
        f"says {said:.0%}, happens {happened:.0%}",
        (said, happened),
        xytext=(0.84, 0.965),
        ha="right",
        va="center",
        color=colour,
        fontsize=11,
        fontweight="bold",
        arrowprops={"arrowstyle": "-", "color": colour, "lw": 0.9, "shrinkA": 2, "shrinkB": 9},
        zorder=7,
    )


def draw(story: Story) -> Figure:
    """Before and after, side by side."""
    figure = Figure(figsize=(10.0, 5.8), layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.1), dpi=150)
    left, right = figure.subplots(1, 2)
    (_, before, after), *_ = story.numbers()
    for ax, probs, colour, name, loss in (
        (left, story.before, style.VERMILION, "Naive Bayes, as it comes", before),
        (right, story.after, style.BLUE, "The same, calibrated", after),
    ):
        display = ReliabilityDisplay.from_predictions(
            story.y, probs, strategy="uniform", ax=ax, spline=True, legend=False, colors=[colour]
        )
        head(ax, name, loss, colour)
        point_out(ax, display.reliability[""].bins, colour)
    return figure


if __name__ == "__main__":
    path = Path(__file__).with_name("picture.png")
    draw(tell()).savefig(path)
    print(f"wrote {path.name}")
