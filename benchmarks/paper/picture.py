"""The paper's figure of section 4.1: reliability, histogram, and calibration functions over both sets of rows."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from benchmarks.paper.judge import Scores
from calspline import (
    IsotonicCalibrator,
    ReliabilityDisplay,
    SigmoidCalibrator,
    SplineCalibrator,
)
from calspline.display import style

BINS = 20


def draw(scores: Scores) -> Figure:
    """Four panels, named a to d as in the paper."""
    figure = Figure(
        figsize=(11.0, 10.0), layout="constrained", dpi=130, facecolor="white"
    )
    (a, b), (c, d) = figure.subplots(2, 2)
    curves = {
        "SplineCalib, untransformed": SplineCalibrator.paper(1)
        .fit(scores.fit_p, scores.fit_y)
        .calibrate,
        "isotonic regression": IsotonicCalibrator().fit(scores.fit_p, scores.fit_y),
        "Platt, on the probability": SigmoidCalibrator(on="probability").fit(
            scores.fit_p, scores.fit_y
        ),
        "calspline's default": SplineCalibrator().fit(scores.fit_p, scores.fit_y),
    }
    panels: tuple[Any, ...] = (
        (a, scores.fit_y, scores.fit_p, {}, "(a) share of votes, calibration rows"),
        (
            c,
            scores.fit_y,
            scores.fit_p,
            curves,
            "(c) calibration functions over the calibration rows",
        ),
        (
            d,
            scores.test_y,
            scores.test_p,
            curves,
            "(d) calibration functions over the test rows",
        ),
    )
    for ax, y, p, shown, title in panels:
        ReliabilityDisplay.from_predictions(
            y,
            p,
            n_bins=BINS,
            strategy="uniform",
            curves=shown,
            ax=ax,
            histogram=False,
            legend=bool(shown),
        )
        style.title(ax, title)
    style.style_axes(b)
    b.hist(
        scores.fit_p[:, 1],
        bins=2 * BINS,
        range=(0.0, 1.0),
        color=style.BLUE,
        edgecolor="white",
        linewidth=0.5,
    )
    b.set_yscale("log")
    b.set_xlim(0.0, 1.0)
    b.xaxis.set_major_formatter(PercentFormatter(1.0))
    b.set_xlabel(style.PREDICTED)
    b.set_ylabel("rows, on a log scale")
    style.title(b, "(b) how the shares spread")
    return figure
