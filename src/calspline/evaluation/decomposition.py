"""Where a loss comes from: miscalibration, discrimination, uncertainty.

The CORP decomposition (Dimitriadis, Gneiting and Jordan 2021) recalibrates by isotonic regression, which needs no
bins and no tuning::

    loss        = calibration + refinement
    refinement  = uncertainty - discrimination

``calibration`` (miscalibration) is what the recalibrated probabilities would save, ``refinement`` is the loss they
still have, ``uncertainty`` that of the base rate, ``discrimination`` what sorting the rows gains over it.
None is negative for two classes. Isotonic regression fits noise too: of a perfectly calibrated model,
``calibration`` is small but not zero, and goes to zero as rows grow.

With three or more classes each class is recalibrated against the rest. The Brier score is the sum over classes,
so its parts are. For the log-loss the recalibrated probabilities are normalised, ``refinement`` is
their log-loss and ``calibration`` the rest: the parts add up by definition, and in small samples ``calibration`` may be
slightly negative.

References
----------
T. Dimitriadis, T. Gneiting and A. I. Jordan, *Stable reliability diagrams for probabilistic classifiers*,
PNAS 118(8), 2021.
A. H. Murphy, *A new vector partition of the probability score*, J. Appl. Meteorol. 12, 1973.
D. B. Stephenson, C. A. S. Coelho and I. T. Jolliffe, *Two extra components in the Brier score decomposition*,
Weather and Forecasting 23, 2008.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression
from scipy.special import xlog1py, xlogy

from calspline.arrays import Array
from calspline.evaluation.forecasts import Forecasts
from calspline.evaluation.losses import SMALLEST


@dataclass(frozen=True)
class Parts:
    """A loss and what it is made of."""

    calibration: float
    refinement: float
    discrimination: float
    uncertainty: float


def parts(loss: float, refinement: float, uncertainty: float) -> Parts:
    """The parts of a loss, given those of the recalibrated probabilities and of the base rate."""
    return Parts(loss - refinement, refinement, uncertainty - refinement, uncertainty)


def recalibrated(f: Forecasts) -> Array:
    """Isotonic regression of what happened on the probabilities: one value for each of them."""
    return np.asarray(isotonic_regression(f.positives / f.w, weights=f.w).x)


def log_loss_of(q: Array, f: Forecasts) -> float:
    """Log-loss with ``q`` in place of the probabilities, where ``q`` is 0 or 1 only if that is what happened."""
    # A share next to 0 or 1, of very unequal weights, may round to it.
    up, down = np.maximum(q, SMALLEST), np.minimum(q, 1.0 - SMALLEST)
    return max(0.0, -float(xlogy(f.positives, up).sum() + xlog1py(f.negatives, -down).sum()) / f.total)


def brier_of(q: Array, f: Forecasts) -> float:
    """Brier score with ``q`` in place of the probabilities."""
    return float(f.positives @ (1.0 - q) ** 2 + f.negatives @ q**2) / f.total


def log_loss_parts(f: Forecasts, loss: float, q: Array) -> Parts:
    """CORP decomposition of the log-loss; ``q`` is :func:`recalibrated`."""
    rate = np.full(len(f), f.base_rate)
    return parts(loss, log_loss_of(q, f), log_loss_of(rate, f))


def brier_parts(f: Forecasts, score: float, q: Array) -> Parts:
    """CORP decomposition of the Brier score."""
    return parts(score, brier_of(q, f), f.base_rate * (1.0 - f.base_rate))


def multiclass_log_loss_parts(loss: float, q: Array, codes: NDArray[np.intp], weight: Array | None) -> Parts:
    """Decomposition of a multiclass log-loss; ``q`` (n, m) has each class recalibrated, and is overwritten."""
    q /= q.sum(axis=1, keepdims=True)
    given = q[np.arange(len(q)), codes]
    refinement = float(np.average(-np.log(np.maximum(given, SMALLEST)), weights=weight))
    shares = np.bincount(codes, weights=weight, minlength=q.shape[1])
    shares = shares / shares.sum()
    return parts(loss, refinement, -float(xlogy(shares, shares).sum()))


def summed(several: list[Parts]) -> Parts:
    """Parts of a sum of losses."""
    return Parts(**{f.name: float(sum(getattr(one, f.name) for one in several)) for f in fields(Parts)})


@dataclass(frozen=True)
class Murphy:
    """The classic decomposition on bins, with what happens inside bins so that it adds up.

    ``brier = reliability - resolution + uncertainty + within_bins``. The last term is the variance of the probabilities
    inside bins less twice their covariance with what happened; it is zero if bins hold one probability each.
    """

    reliability: float
    resolution: float
    uncertainty: float
    within_bins: float


def murphy(f: Forecasts, score: float, cell: NDArray[np.intp]) -> Murphy:
    """Murphy's decomposition of a Brier score, with the bin of each probability given."""
    bins = f.gathered(cell)
    rate, base = bins.positives / bins.w, f.base_rate
    reliability = float(bins.w @ (bins.p - rate) ** 2) / f.total
    resolution = float(bins.w @ (rate - base) ** 2) / f.total
    uncertainty = base * (1.0 - base)
    return Murphy(reliability, resolution, uncertainty, score - (reliability - resolution + uncertainty))
