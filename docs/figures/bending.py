"""How smoothing shapes a curve, and how certain it is."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from docs.figures.sheet import sheet
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.special import expit

from calspline import SplineCalibrator, reliability
from calspline._formatting import scientific
from calspline.display import CalibrationCurveDisplay, style

Array = NDArray[np.float64]


class Simulated(NamedTuple):
    """Scores of a model with a curved miscalibration, and outcomes."""

    log_odds: Array
    outcome: NDArray[np.bool_]

    @property
    def score(self) -> Array:
        """As probabilities."""
        return np.asarray(expit(self.log_odds))


def truth(u: Array) -> Array:
    """The log-odds of what happens, where the model's are ``u``."""
    return 0.5 * u + 0.5 * np.sin(u)


def simulated(n: int, seed: int) -> Simulated:
    """So many rows."""
    rng = np.random.default_rng(seed)
    u = rng.normal(0.0, 2.2, n)
    return Simulated(u, rng.random(n) < expit(truth(u)))


def draw() -> dict[str, Figure]:
    """Three amounts of smoothing; the curve that REML chooses, with its bands."""
    data = simulated(3000, 1)
    figure = sheet(7.6, 3.1)
    u = np.linspace(-6.0, 6.0, 401)
    chosen = SplineCalibrator(scale="logit").fit(data.score, data.outcome)
    fits = (
        (
            "too little: λ = 10⁻⁷",
            SplineCalibrator(scale="logit", smoothing=1e-7),
            style.VERMILION,
        ),
        (f"by REML: λ = {scientific(float(chosen.smoothing_))}", chosen, style.BLUE),
        (
            "too much: λ = 10⁶",
            SplineCalibrator(scale="logit", smoothing=1e6),
            style.VERMILION,
        ),
    )
    axes = figure.subplots(1, 3, sharex=True, sharey=True)
    for ax, (name, calibrator, colour) in zip(axes, fits, strict=True):
        calibrator.fit(data.score, data.outcome)
        _points(ax, data)
        ax.plot(u, truth(u), color=style.INK, lw=1.2, dashes=(5, 3), zorder=3)
        p = calibrator.calibrate(expit(u))
        ax.plot(u, np.log(p / (1.0 - p)), color=colour, lw=2.4, zorder=4)
        style.title(ax, name)
        style.label(
            ax,
            f"{float(calibrator.edf_):.1f} effective degrees of freedom",
            (-5.6, 3.6),
            color=style.MUTED,
        )
        ax.set(xlim=(-6, 6), ylim=(-4.4, 4.4), xlabel="log-odds of the score")
    axes[0].set_ylabel("calibrated log-odds")

    bands = sheet(5.2, 4.6)
    display = CalibrationCurveDisplay.from_calibrator(chosen, ax=bands.subplots())
    p = expit(u)
    display.ax_.plot(
        p, expit(truth(u)), color=style.INK, lw=1.2, dashes=(5, 3), zorder=3
    )
    return {"bending": figure, "bands": bands}


def _points(ax: Axes, data: Simulated) -> None:
    """Observed log-odds in bins."""
    style.style_axes(ax)
    bins = reliability(data.outcome, data.score, n_bins=25).bins
    rate = np.clip(bins.observed, 0.5 / bins.weight, 1.0 - 0.5 / bins.weight)
    at = np.log(bins.mean_score / (1.0 - bins.mean_score))
    ax.scatter(at, np.log(rate / (1.0 - rate)), s=16, color=style.RULE, zorder=2)
