"""Draw the picture of the README: ``make picture`` writes docs/picture.png."""

from __future__ import annotations

from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from calspline import ReliabilityDisplay
from calspline.demo import Demonstration, demonstrate
from calspline.display import style
from calspline.evaluation.reliability import Bins


def head(ax: Axes, name: str, loss: float, bins: Bins, colour: str) -> None:
    """Write the name of a panel, its log-loss and its highest bin above it."""
    ax.set_title(
        name, loc="left", fontsize=13.5, fontweight="bold", color=style.INK, pad=27
    )
    ax.set_title(
        f"log-loss {loss:.2f}",
        loc="right",
        fontsize=13.5,
        fontweight="bold",
        color=colour,
        pad=27,
    )
    predicted, observed = bins.mean_score[-1], bins.observed[-1]
    words = f"Highest bin: predicted {predicted:.0%}, observed {observed:.0%}."
    style.label(
        ax, words, (0.0, 1.0), offset=(0, 10), xycoords="axes fraction", fontsize=11
    )


def draw(story: Demonstration) -> Figure:
    """Before and after, side by side."""
    figure = Figure(
        figsize=(10.0, 5.8),
        layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.1),
        dpi=150,
    )
    left, right = figure.subplots(1, 2)
    (_, before, after), *_ = story.numbers()
    for ax, probs, colour, name, loss in (
        (left, story.before, style.VERMILION, "Naive Bayes", before),
        (right, story.after, style.BLUE, "Calibrated", after),
    ):
        display = ReliabilityDisplay.from_predictions(
            story.y,
            probs,
            strategy="uniform",
            ax=ax,
            spline=True,
            legend=False,
            colors=[colour],
        )
        head(ax, name, loss, display.reliability[""].bins, colour)
    return figure


if __name__ == "__main__":
    path = Path(__file__).with_name("picture.png")
    draw(demonstrate()).savefig(path)
    print(f"wrote {path.name}")
