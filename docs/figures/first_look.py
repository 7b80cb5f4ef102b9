"""Reliability before and after calibration, as two figures for the home page."""

from __future__ import annotations

from docs.figures.sheet import sheet
from docs.picture import head
from matplotlib.figure import Figure

from calspline import ReliabilityDisplay
from calspline.demo import Demonstration, demonstrate
from calspline.display import style


def draw() -> dict[str, Figure]:
    """Naive Bayes on built-in data, raw and calibrated."""
    story = demonstrate()
    (_, before, after), *_ = story.numbers()
    return {
        "before": _panel(story, "before", style.VERMILION, "Naive Bayes", before),
        "after": _panel(story, "after", style.BLUE, "Calibrated", after),
    }


def _panel(
    story: Demonstration, which: str, colour: str, name: str, loss: float
) -> Figure:
    figure = sheet(5.0, 5.6)
    display = ReliabilityDisplay.from_predictions(
        story.y,
        getattr(story, which),
        strategy="uniform",
        ax=figure.subplots(),
        spline=True,
        legend=False,
        colors=[colour],
    )
    head(display.ax_, name, loss, display.reliability[""].bins, colour)
    return figure
