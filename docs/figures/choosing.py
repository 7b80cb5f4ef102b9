"""REML against cross-validation: one data set, and many."""

from __future__ import annotations

from typing import Literal

import numpy as np
from docs.figures.bending import simulated, truth
from docs.figures.sheet import sheet
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.special import expit

from calspline import SplineCalibrator
from calspline.display import style

Array = NDArray[np.float64]
Method = Literal["reml", "cv"]
METHODS: dict[Method, tuple[str, str]] = {
    "reml": ("REML", style.BLUE),
    "cv": ("5-fold CV", style.VERMILION),
}
ROWS = 500
SAMPLES = 100


def draw() -> dict[str, Figure]:
    """The criteria on one sample, and what many samples make of them."""
    return {"criteria": _criteria(), "spread": _spread()}


def _criteria() -> Figure:
    data = simulated(ROWS, 4)
    figure = sheet(7.6, 3.4)
    methods: tuple[Method, Method] = ("reml", "cv")
    for ax, method in zip(figure.subplots(1, 2), methods, strict=True):
        calibrator = SplineCalibrator(scale="logit", smoothing=method, random_state=0)
        calibrator.fit(data.score, data.outcome)
        _draw_path(ax, calibrator)
        ax.set_ylabel("criterion" if method == "reml" else "log-loss held out")
        style.title(ax, METHODS[method][0])
    return figure


def _draw_path(ax: Axes, calibrator: SplineCalibrator) -> None:
    """The criterion against lambda, with the chosen value."""
    style.style_axes(ax)
    path = calibrator.smoothing_path_
    order = np.argsort(path["smoothing"])
    smoothing = path["smoothing"][order]
    criterion = path["criterion"][order]
    ax.set_xscale("log")
    ax.plot(smoothing, criterion, color=style.BLUE, lw=1.8, marker="o", ms=4)
    chosen = calibrator.smoothing_
    height = np.interp(np.log(chosen), np.log(smoothing), criterion)
    ax.axvline(chosen, color=style.VERMILION, lw=1.0, ls=(0, (4, 3)))
    ax.plot(chosen, height, marker="D", ms=9, color=style.VERMILION, mec="white", ls="")
    words = f"{calibrator.edf_:.1f} effective degrees of freedom"
    style.label(ax, words, (0.97, 0.97), xycoords="axes fraction", ha="right", va="top")
    ax.set_xlabel("smoothing λ")


def _spread() -> Figure:
    """How far choices scatter over samples of one truth, and what that costs."""
    found = {
        method: np.array([_outcome(method, seed) for seed in range(SAMPLES)])
        for method in METHODS
    }
    figure = sheet(7.6, 3.3)
    left, right = figure.subplots(1, 2)
    rng = np.random.default_rng(0)
    for ax, column, name in (
        (left, 0, "effective degrees of freedom"),
        (right, 1, "log-loss above the truth's, nats"),
    ):
        style.style_axes(ax)
        for row, (method, (_, colour)) in enumerate(METHODS.items()):
            values = found[method][:, column]
            ax.scatter(
                values,
                -row + rng.uniform(-0.24, 0.24, SAMPLES),
                s=13,
                color=colour,
                alpha=0.45,
                lw=0,
            )
            mean = values.mean()
            ax.plot([mean, mean], [-row - 0.36, -row + 0.36], color=colour, lw=2.4)
        ax.set_yticks(
            -np.arange(len(METHODS)),
            [label for label, _ in METHODS.values()],
            color=style.INK,
        )
        ax.grid(visible=False, axis="y")
        ax.set(ylim=(-len(METHODS) + 0.5, 0.5), xlabel=name)
        ax.set_xlim(left=0.0)
    right.set_yticklabels([])
    return figure


def _outcome(method: Method, seed: int) -> tuple[float, float]:
    """Effective parameters of a fit, and its expected excess log-loss."""
    data = simulated(ROWS, seed)
    calibrator = SplineCalibrator(scale="logit", smoothing=method, random_state=0).fit(
        data.score, data.outcome
    )
    u = np.random.default_rng(1).normal(0.0, 2.2, 20_000)
    p, q = expit(truth(u)), calibrator.calibrate(expit(u))
    excess = p * np.log(p / q) + (1.0 - p) * np.log((1.0 - p) / (1.0 - q))
    return float(calibrator.edf_), float(excess.mean())
