"""Losses as scikit-learn defines them, and where they come from: miscalibration, discrimination, uncertainty.

All are computed from the table of distinct probabilities, which is there anyway: scikit-learn would sort and check the
rows again for each. The tests compare them with scikit-learn's numbers.

The CORP decomposition (Dimitriadis, Gneiting and Jordan 2021) recalibrates by isotonic regression, which needs no
bins and no tuning::

    loss        = calibration + refinement
    refinement  = uncertainty - discrimination

``calibration`` (miscalibration) is what the recalibrated probabilities would save, ``refinement`` is the loss they
still have, ``uncertainty`` that of the base rate, ``discrimination`` what sorting the rows gains over it.
None is negative for two classes. Isotonic regression fits noise too: for a perfectly calibrated model,
``calibration`` is small but not zero, and goes to zero as rows grow.

With three or more classes each class is recalibrated against the rest. The Brier score is the sum over classes, and so
are its parts. For the log-loss the recalibrated probabilities are normalised, ``refinement`` is their log-loss and
``calibration`` the rest: the parts add up by definition, and in small samples ``calibration`` may be slightly negative.

References
----------
T. Dimitriadis, T. Gneiting and A. I. Jordan, *Stable reliability diagrams for probabilistic classifiers*,
PNAS 118(8), 2021.
A. H. Murphy, *A new vector partition of the probability score*, J. Appl. Meteorol. 12, 1973.
D. B. Stephenson, C. A. S. Coelho and I. T. Jolliffe, *Two extra components in the Brier score decomposition*,
Weather and Forecasting 23, 2008.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from calspline.arrays import Array, Counts, run_starts

MIN_PROBABILITY = float(np.finfo(np.float64).eps)
"""The least probability that the log-loss counts, as in scikit-learn. An event that happened although its probability
was 0 costs 36.04, not infinity, and is reported apart."""


def log_loss(f: Counts, q: Array | None = None) -> float:
    """Mean of ``-log`` of the probability given to what happened, with ``q`` in place of the probabilities if given."""
    q = f.x if q is None else q
    # Only what costs something is clipped: right and certain costs nothing.
    up, down = np.maximum(q, MIN_PROBABILITY), np.minimum(q, 1.0 - MIN_PROBABILITY)
    gained = scipy.special.xlogy(f.positives, up).sum() + scipy.special.xlog1py(f.negatives, -down).sum()
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
    """``-log`` of the probability given to what happened, by row."""
    return -np.log(np.clip(probability_of_outcome(p, codes), MIN_PROBABILITY, 1.0 - MIN_PROBABILITY))


def row_briers(p: Array, codes: NDArray[np.intp]) -> Array:
    """Squared error by row; summed over the classes where there are three or more."""
    if p.ndim == 1:
        return np.asarray((p - codes) ** 2)
    # sum_j (p_j - y_j)^2, without a matrix of outcomes.
    return np.asarray(np.einsum("ij,ij->i", p, p) - 2.0 * probability_of_outcome(p, codes) + 1.0)


def probability_of_outcome(p: Array, codes: NDArray[np.intp]) -> Array:
    """The probability given to what happened, by row."""
    if p.ndim == 1:
        return np.where(codes == 1, p, 1.0 - p)
    return np.asarray(p[np.arange(len(p)), codes])


def parts(name: str, loss: float, refinement: float, uncertainty: float) -> dict[str, Any]:
    """The parts of a loss by name, given the losses of the recalibrated probabilities and of the base rate."""
    return {
        f"calibration_{name}": loss - refinement,
        f"refinement_{name}": refinement,
        f"discrimination_{name}": uncertainty - refinement,
        f"uncertainty_{name}": uncertainty,
    }


def recalibrated(f: Counts) -> Array:
    """Isotonic regression of what happened on the probabilities: a value for each of them."""
    return np.asarray(scipy.optimize.isotonic_regression(f.positives / f.w, weights=f.w).x)


def multiclass_log_loss_parts(loss: float, q: Array, codes: NDArray[np.intp], weight: Array | None) -> dict[str, Any]:
    """The parts of a multiclass log-loss; ``q`` (n, m) has each class recalibrated, and is overwritten."""
    q /= q.sum(axis=1, keepdims=True)
    given = probability_of_outcome(q, codes)
    refinement = float(np.average(-np.log(np.maximum(given, MIN_PROBABILITY)), weights=weight))
    shares = np.bincount(codes, weights=weight, minlength=q.shape[1])
    shares = shares / shares.sum()
    return parts("log_loss", loss, refinement, -float(scipy.special.xlogy(shares, shares).sum()))


def murphy(f: Counts, score: float, bins: NDArray[np.intp]) -> dict[str, Any]:
    """Murphy's classic decomposition of a Brier score, with the bin of each probability given.

    ``brier = reliability - resolution + uncertainty + within_bins``. The last term makes it add up: it is the variance
    of the probabilities inside bins less twice their covariance with what happened, zero if bins hold one probability
    each.
    """
    binned = f.merged(run_starts(bins))
    rate, base = binned.positives / binned.w, f.base_rate
    reliability = float(binned.w @ (binned.x - rate) ** 2) / f.total
    resolution = float(binned.w @ (rate - base) ** 2) / f.total
    uncertainty = base * (1.0 - base)
    return {
        "murphy_reliability": reliability,
        "murphy_resolution": resolution,
        "murphy_uncertainty": uncertainty,
        "murphy_within_bins": score - (reliability - resolution + uncertainty),
    }
