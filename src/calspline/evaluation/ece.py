"""Expected calibration error on bins, plain and debiased.

``ECE = sum_b |S_b| / n`` with ``S_b`` the sum of ``y - p`` over the rows of bin ``b``. Chance makes every ``|S_b|``
positive, so the plain ECE of a perfect model is not zero: it grows with the bins and shrinks with the rows.

The debiased estimate is cross-fitted: one half of a bin's rows says in which direction it is off, the other
half by how much. Averaged over all ways to halve the bin, with normal sums, that is in closed form

    |S| (2 Phi(z) - 1) - 2 s phi(z),    s^2 = sum of p (1 - p) over the bin,    z = |S| / s.

Of right probabilities its mean is zero, since direction and size are then independent; as rows grow it tends to
``|S|``, which it never exceeds. (A sum below zero is given as zero.) Kumar et al. (2019) and Roelofs et al. (2022)
treat the same bias by other means. A weight counts as that many rows.

References
----------
M. P. Naeini, G. F. Cooper and M. Hauskrecht, *Obtaining well calibrated probabilities using Bayesian binning*,
AAAI 2015.
A. Kumar, P. Liang and T. Ma, *Verified uncertainty calibration*, NeurIPS 2019.
R. Roelofs et al., *Mitigating bias in calibration error estimation*, AISTATS 2022.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from calspline.evaluation.forecasts import Forecasts

N_BINS = 15
"""Bins of the ECE, as most of the literature since Guo et al. (2017) has them."""


def ece(f: Forecasts, cell: NDArray[np.intp]) -> tuple[float, float]:
    """ECE, plain and debiased, with the bin of each probability given."""
    gap = np.abs(np.bincount(cell, weights=f.positives - f.w * f.p))
    s = np.sqrt(np.bincount(cell, weights=f.w * f.p * (1.0 - f.p)))
    # Beyond 40 the correction is nothing, and its square may be no number.
    z = np.divide(gap, s, out=np.full_like(gap, 40.0), where=gap < 40.0 * s)
    debiased = gap * (2.0 * ndtr(z) - 1.0) - s * np.sqrt(2.0 / np.pi) * np.exp(-0.5 * z * z)
    return float(gap.sum()) / f.total, max(0.0, float(debiased.sum())) / f.total
