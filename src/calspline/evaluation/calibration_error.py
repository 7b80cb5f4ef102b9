"""Expected calibration error: on bins, plain and debiased, and smoothed.

On bins, ``ECE = sum_b |S_b| / n`` with ``S_b`` the sum of ``y - p`` over the rows of bin ``b``. Chance makes every
``|S_b|`` positive, so the plain ECE of a perfect model is not zero: it grows with the bins and shrinks with the rows.

The debiased estimate is cross-fitted: one half of a bin's rows says in which direction it is off, the other
half by how much. Averaged over all ways to halve the bin, with normal sums, that is in closed form

    |S| (2 Phi(z) - 1) - 2 s phi(z),    s^2 = sum of p (1 - p) over the bin,    z = |S| / s.

If the probabilities are right its mean is zero, since direction and size are then independent; as rows grow it tends
to ``|S|``, which it never exceeds. (A sum below zero is given as zero.) Kumar et al. (2019) and Roelofs et al. (2022)
treat the same bias by other means.

The smooth ECE has no bins. The residuals ``y - p`` are smoothed with a Gaussian kernel of width ``s``, reflected at 0
and 1, and ``smECE_s`` is the integral of the absolute value. It falls as ``s`` grows, and the smooth ECE is its fixed
point, ``smECE_s = s``, which leaves nothing to choose. A reflected Gaussian multiplies the ``k``-th cosine coefficient
by ``exp(-(pi k s)^2 / 2)``, so on a grid each ``s`` costs one cosine transform.

A weight counts as that many rows.

References
----------
M. P. Naeini, G. F. Cooper and M. Hauskrecht, *Obtaining well calibrated probabilities using Bayesian binning*,
AAAI 2015.
A. Kumar, P. Liang and T. Ma, *Verified uncertainty calibration*, NeurIPS 2019.
R. Roelofs et al., *Mitigating bias in calibration error estimation*, AISTATS 2022.
J. Błasiok and P. Nakkiran, *Smooth ECE: principled reliability diagrams via kernel smoothing*, arXiv 2309.12236, 2023.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.fft import dct, idct
from scipy.optimize import brentq
from scipy.special import ndtr

from calspline.arrays import Array, Counts

N_BINS = 15
"""Bins of the ECE, as most of the literature since Guo et al. (2017) has them."""
GRID_CELLS = 1 << 13
MIN_WIDTH, MAX_WIDTH = 0.5 / GRID_CELLS, 2.0


def equal_width_bins(p: Array, n_bins: int) -> NDArray[np.intp]:
    """The bin of each probability among bins of equal width; the last bin includes 1."""
    return np.minimum((p * n_bins).astype(np.intp), n_bins - 1)


def ece(f: Counts, bins: NDArray[np.intp]) -> tuple[float, float]:
    """ECE, plain and debiased, with the bin of each probability given."""
    gap = np.abs(np.bincount(bins, weights=f.positives - f.w * f.x))
    s = np.sqrt(np.bincount(bins, weights=f.w * f.x * (1.0 - f.x)))
    # Beyond 40 the correction vanishes, and z squared may overflow.
    z = np.divide(gap, s, out=np.full_like(gap, 40.0), where=gap < 40.0 * s)
    debiased = gap * (2.0 * ndtr(z) - 1.0) - s * np.sqrt(2.0 / np.pi) * np.exp(-0.5 * z * z)
    return float(gap.sum()) / f.total, max(0.0, float(debiased.sum())) / f.total


def smooth_ece(f: Counts) -> float:
    """Smooth ECE, with the kernel width at the fixed point."""
    residual = (f.positives - f.w * f.x) / f.total
    # A residual is shared between the centres of two cells.
    place = np.clip(f.x * GRID_CELLS - 0.5, 0.0, GRID_CELLS - 1.0)
    left = np.minimum(place.astype(np.intp), GRID_CELLS - 2)
    share = place - left
    on_grid = np.bincount(left, weights=residual * (1.0 - share), minlength=GRID_CELLS)
    on_grid += np.bincount(left + 1, weights=residual * share, minlength=GRID_CELLS)
    waves = np.asarray(dct(on_grid))
    frequency = np.pi * np.arange(GRID_CELLS)

    def at(width: float) -> float:
        return float(np.abs(idct(waves * np.exp(-0.5 * (frequency * width) ** 2))).sum())

    if at(MIN_WIDTH) <= MIN_WIDTH:
        return at(MIN_WIDTH)
    return float(brentq(lambda width: at(width) - width, MIN_WIDTH, MAX_WIDTH, xtol=1e-10))
