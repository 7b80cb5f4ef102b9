"""Losses as defined by scikit-learn, and their decomposition.

All are computed from the table of distinct probabilities, whereas scikit-learn would
sort and validate the rows again for each. The tests compare them with scikit-learn.

The CORP decomposition (Dimitriadis, Gneiting and Jordan 2021) recalibrates by isotonic
regression, which needs neither bins nor tuning::

    loss        = calibration + refinement
    refinement  = uncertainty - discrimination

``calibration`` (miscalibration) is the loss that recalibration would avoid,
``refinement`` the remaining loss, ``uncertainty`` the loss of the base rate, and
``discrimination`` the gain of ranking the rows. Isotonic regression also fits noise, so
it reduces the loss even for perfect probabilities. This reduction is simulated
(:mod:`calspline.evaluation.limits`) and counts as refinement.

With three or more classes each class is recalibrated against the rest. The Brier score
is the sum over classes, and so are its parts. For the log-loss the recalibrated
probabilities are normalized, ``refinement`` is their log-loss and ``calibration`` the
rest: the parts add up by definition, and in small samples ``calibration`` may be
slightly negative.

References
----------
T. Dimitriadis, T. Gneiting and A. I. Jordan, *Stable reliability diagrams for
probabilistic classifiers*, PNAS 118(8), 2021. D. B. Stephenson, C. A. S. Coelho and I.
T. Jolliffe, *Two extra components in the Brier score decomposition*, Weather and
Forecasting 23, 2008.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
import scipy
from numpy.typing import NDArray

from calspline._arrays import Array, Counts, chunks

MIN_PROBABILITY = float(np.finfo(np.float64).eps)
"""Probabilities are clipped to this value in the log-loss, as in scikit-learn. An event
with predicted probability 0
contributes 36.04 instead of infinity, and is reported separately."""


class Loss(Protocol):
    """A mean loss, with ``q`` in place of the probabilities if given."""

    def __call__(self, f: Counts, q: Array | None = None) -> float:  # noqa: D102
        ...


def log_loss(f: Counts, q: Array | None = None) -> float:
    """Mean log-loss, of the probabilities ``q`` if given."""
    q = f.x if q is None else q
    # Only what costs something is clipped: right and certain costs nothing.
    gained = 0.0
    for rows in chunks(len(f)):
        up = np.maximum(q[rows], MIN_PROBABILITY)
        down = np.minimum(q[rows], 1.0 - MIN_PROBABILITY)
        gained += float(f.positives[rows] @ np.log(up))
        gained += float(f.negatives[rows] @ np.log1p(-down))
    return max(0.0, -gained / f.total)


def brier(f: Counts, q: Array | None = None) -> float:
    """Mean of ``(p - y)^2``, with ``q`` in place of the probabilities if given."""
    q = f.x if q is None else q
    return float(f.positives @ (1.0 - q) ** 2 + f.negatives @ q**2) / f.total


def accuracy(f: Counts) -> float:
    """Share of rows on the right side of 0.5; 0.5 itself predicts no event."""
    return float(np.where(f.x > 0.5, f.positives, f.negatives).sum()) / f.total


def auc(f: Counts) -> float:
    """Probability that an event is ranked above a non-event, ties counting half.

    NaN without both.
    """
    w1 = float(f.positives.sum())
    w0 = float(f.negatives.sum())
    if w1 == 0.0 or w0 == 0.0:
        return float("nan")
    below = np.cumsum(f.negatives) - 0.5 * f.negatives
    return float(f.positives @ below) / (w1 * w0)


def impossible_weight(f: Counts) -> float:
    """Weight of the rows that happened although their probability was exactly 0."""
    return float(f.positives[f.x == 0.0].sum() + f.negatives[f.x == 1.0].sum())


def row_log_losses(p: Array, codes: NDArray[np.intp]) -> Array:
    """Log-loss of each row."""
    return -np.log(
        np.clip(
            probability_of_outcome(p, codes), MIN_PROBABILITY, 1.0 - MIN_PROBABILITY
        )
    )


def row_briers(p: Array, codes: NDArray[np.intp]) -> Array:
    """Squared error by row; summed over the classes where there are three or more."""
    if p.ndim == 1:
        return np.asarray((p - codes) ** 2)
    # sum_j (p_j - y_j)^2, without a matrix of outcomes.
    return np.asarray(
        np.einsum("ij,ij->i", p, p) - 2.0 * probability_of_outcome(p, codes) + 1.0
    )


def probability_of_outcome(p: Array, codes: NDArray[np.intp]) -> Array:
    """The predicted probability of the class that occurred, by row."""
    if p.ndim == 1:
        return np.where(codes == 1, p, 1.0 - p)
    return np.asarray(p[np.arange(len(p)), codes])


class LossParts(NamedTuple):
    """The parts of a loss."""

    calibration: float
    refinement: float
    discrimination: float
    uncertainty: float


def parts(loss: float, refinement: float, uncertainty: float) -> LossParts:
    """The parts of a loss, given those of recalibrated probabilities and base rates."""
    discrimination = uncertainty - refinement
    return LossParts(loss - refinement, refinement, discrimination, uncertainty)


def recalibrated(f: Counts) -> Array:
    """Isotonic regression of the outcomes, one value per distinct probability."""
    return np.asarray(
        scipy.optimize.isotonic_regression(f.positives / f.w, weights=f.w).x
    )


def multiclass_log_loss_parts(
    loss: float,
    q: Array,
    codes: NDArray[np.intp],
    weight: Array | None,
    overfit: float = 0.0,
) -> LossParts:
    """Components of a multiclass log-loss; overwrites ``q`` (n, m).

    ``overfit`` is what the recalibration gains by fitting noise.
    """
    q /= q.sum(axis=1, keepdims=True)
    given = probability_of_outcome(q, codes)
    refinement = float(
        np.average(-np.log(np.maximum(given, MIN_PROBABILITY)), weights=weight)
    )
    refinement += overfit
    shares = np.bincount(codes, weights=weight, minlength=q.shape[1])
    shares = shares / shares.sum()
    uncertainty = -float(scipy.special.xlogy(shares, shares).sum())
    return parts(loss, refinement, uncertainty)
