"""Losses as scikit-learn defines them, and where they come from: miscalibration, discrimination, uncertainty.

All are computed from the table of distinct probabilities, which is there anyway:
scikit-learn would sort and check the rows again for each. The tests compare them with
scikit-learn's numbers.

The CORP decomposition (Dimitriadis, Gneiting and Jordan 2021) recalibrates by isotonic
regression, which needs no
bins and no tuning::

    loss        = calibration + refinement
    refinement  = uncertainty - discrimination

``calibration`` (miscalibration) is what the recalibrated probabilities would save,
``refinement`` is the loss they still have, ``uncertainty`` that of the base rate,
``discrimination`` what sorting the rows gains over it. Isotonic regression fits noise
too: even for perfect probabilities it would save something. How much is simulated
(:mod:`calspline.evaluation.limits`), and counts as refinement.

With three or more classes each class is recalibrated against the rest. The Brier score
is the sum over classes, and so are its parts. For the log-loss the recalibrated
probabilities are normalised, ``refinement`` is their log-loss and ``calibration`` the
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

from calspline._arrays import Array, Counts

MIN_PROBABILITY = float(np.finfo(np.float64).eps)
"""The least probability that the log-loss counts, as in scikit-learn. An event that happened although its probability
was 0 costs 36.04, not infinity, and is reported apart."""


class Loss(Protocol):
    """A mean loss, with ``q`` in place of the probabilities if given."""

    def __call__(self, f: Counts, q: Array | None = None) -> float:  # noqa: D102
        ...


def log_loss(f: Counts, q: Array | None = None) -> float:
    """Mean log-loss, of the probabilities ``q`` if given."""
    q = f.x if q is None else q
    # Only what costs something is clipped: right and certain costs nothing.
    up, down = np.maximum(q, MIN_PROBABILITY), np.minimum(q, 1.0 - MIN_PROBABILITY)
    gained = f.positives @ np.log(up) + f.negatives @ np.log1p(-down)
    return max(0.0, -float(gained) / f.total)


def brier(f: Counts, q: Array | None = None) -> float:
    """Mean of ``(p - y)^2``, with ``q`` in place of the probabilities if given."""
    q = f.x if q is None else q
    return float(f.positives @ (1.0 - q) ** 2 + f.negatives @ q**2) / f.total


def accuracy(f: Counts) -> float:
    """Share of rows on the right side of 0.5; 0.5 itself predicts no event."""
    return float(np.where(f.x > 0.5, f.positives, f.negatives).sum()) / f.total


def auc(f: Counts) -> float:
    """Chance that an event has a higher probability than a non-event, ties counting half; NaN without both."""
    w1, w0 = float(f.positives.sum()), float(f.negatives.sum())
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
    """Isotonic regression of the outcomes on the probabilities, one value for each of them."""
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
    """The parts of a multiclass log-loss; ``q`` (n, m) has each class recalibrated, and is overwritten.

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
