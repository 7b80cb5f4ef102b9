"""Proper scores, accuracy and AUC, as scikit-learn defines them.

They are computed from the table of distinct probabilities, which is there anyway: to hand the rows to
scikit-learn would sort and check them again for each. Tests hold them to scikit-learn's numbers.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from calspline.arrays import Array
from calspline.evaluation.forecasts import Forecasts

SMALLEST = float(np.finfo(np.float64).eps)
"""The least probability that the log-loss counts, as in scikit-learn. What happened although its probability
was 0 costs 36.04, not infinity, and is reported apart."""


def log_loss(f: Forecasts) -> float:
    """Mean of ``-log`` of the probability given to what happened, which counts as 2.2e-16 at least."""
    p = np.clip(f.p, SMALLEST, 1.0 - SMALLEST)
    return -float(f.positives @ np.log(p) + f.negatives @ np.log1p(-p)) / f.total


def brier(f: Forecasts) -> float:
    """Mean of ``(p - y)^2``."""
    return float(f.positives @ (1.0 - f.p) ** 2 + f.negatives @ f.p**2) / f.total


def accuracy(f: Forecasts) -> float:
    """Share of rows on the right side of 0.5; 0.5 itself says no."""
    return float(np.where(f.p > 0.5, f.positives, f.negatives).sum()) / f.total


def auc(f: Forecasts) -> float:
    """Chance that an event has a higher probability than a non-event, ties counting half; NaN without both."""
    w1, w0 = float(f.positives.sum()), float(f.negatives.sum())
    if w1 == 0.0 or w0 == 0.0:
        return float("nan")
    below = np.cumsum(f.negatives) - 0.5 * f.negatives
    return float(f.positives @ below) / (w1 * w0)


def impossible(f: Forecasts) -> float:
    """Weight of the rows that happened although their probability was exactly 0."""
    return float(f.positives[f.p == 0.0].sum() + f.negatives[f.p == 1.0].sum())


def row_log_losses(p: Array, codes: NDArray[np.intp]) -> Array:
    """``-log`` of the probability given to what happened, by row."""
    return -np.log(np.clip(_given(p, codes), SMALLEST, 1.0 - SMALLEST))


def row_briers(p: Array, codes: NDArray[np.intp]) -> Array:
    """Squared error by row; summed over the classes where there are three or more."""
    if p.ndim == 1:
        return np.asarray((p - codes) ** 2)
    # sum_j (p_j - y_j)^2, without a matrix of outcomes.
    return np.asarray(np.einsum("ij,ij->i", p, p) - 2.0 * _given(p, codes) + 1.0)


def _given(p: Array, codes: NDArray[np.intp]) -> Array:
    """The probability given to what happened."""
    if p.ndim == 1:
        return np.where(codes == 1, p, 1.0 - p)
    return np.asarray(p[np.arange(len(p)), codes])
