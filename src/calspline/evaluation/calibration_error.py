"""Calibration errors: distances between probabilities and observed frequencies.

**Expected calibration error.** On bins, ``ECE = sum_b |S_b| / n`` with ``S_b`` the sum
of ``y - p`` over the rows of bin ``b``. Chance makes every ``|S_b|`` positive, so the
plain ECE of a perfect model grows with the bins and shrinks with the rows. The debiased
estimate is cross-fitted: one half of a bin's rows determines the direction of the
deviation, the other half its size. Averaged over all ways to halve the bin, with normal
sums, this has the closed form

    |S| (2 Phi(z) - 1) - 2 s phi(z),    z = |S| / s,

with ``s^2`` the sum of ``w^2 p (1 - p)`` over the bin. For calibrated probabilities its
mean is zero, since direction and size are then independent; with more rows it tends to
``|S|``, which it never exceeds. Kumar et al. (2019) and Roelofs et al. (2022) treat the
same bias by other means.

The smooth ECE has no bins. The residuals ``y - p`` are smoothed with a Gaussian kernel
of width ``s``, reflected at 0 and 1, and ``smECE_s`` is the integral of the absolute
value. It falls as ``s`` grows, and the smooth ECE is its fixed point, ``smECE_s = s``.
A reflected Gaussian multiplies the ``k``-th cosine coefficient by ``exp(-(pi k s)^2 /
2)``, so on a grid each ``s`` costs one cosine transform.

**Distances from the curve.** A spline is fitted to the rows, as
:class:`~calspline.SplineCalibrator` does by default. ``|p - curve(p)|`` has the mean
ICI (integrated calibration index), the median E50, the 90th percentile E90 and the
maximum Emax (Austin and Steyerberg 2019, with this curve in place of loess).

See :mod:`calspline.evaluation.predictions` for what weights do to variances.

References
----------
M. P. Naeini, G. F. Cooper and M. Hauskrecht, *Obtaining well calibrated probabilities
using Bayesian binning*, AAAI 2015. A. Kumar, P. Liang and T. Ma, *Verified uncertainty
calibration*, NeurIPS 2019. R. Roelofs et al., *Mitigating bias in calibration error
estimation*, AISTATS 2022. J. Błasiok and P. Nakkiran, *Smooth ECE: principled
reliability diagrams via kernel smoothing*, arXiv 2309.12236, 2023. P. C. Austin and
E. W. Steyerberg, *The Integrated Calibration Index (ICI) and related metrics for
quantifying the calibration of logistic regression models*, Statistics in Medicine 38,
2019.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from calspline._arrays import Array, Counts, chunks
from calspline.maps.fit_info import FittedCurve

Ints = NDArray[np.intp]

ECE_BINS = 15
"""Number of bins of the ECE, customary since Guo et al. (2017)."""
GRID_CELLS = 1 << 13
MIN_WIDTH, LONGEST_WAVE = 0.5 / GRID_CELLS, 10.0 / np.pi


def equal_width_bins(p: Array, n_bins: int) -> Ints:
    """Index of the bin of each probability; the last bin includes 1."""
    return np.minimum((p * n_bins).astype(np.intp), n_bins - 1)


def ece(f: Counts, bins: Ints) -> tuple[float, float]:
    """ECE, plain and debiased, for given bins."""
    sums, variances = np.zeros((2, int(bins.max()) + 1))
    for rows in chunks(len(f)):
        part, size = f.where(rows), len(sums)
        sums += np.bincount(bins[rows], part.positives - part.w * part.x, size)
        v = part.x * (1.0 - part.x)
        variances += np.bincount(bins[rows], part.squares * v, size)
    gap, s = np.abs(sums), np.sqrt(variances)
    # Beyond 40 the correction vanishes, and z squared may overflow.
    z = np.divide(gap, s, out=np.full_like(gap, 40.0), where=gap < 40.0 * s)
    debiased = gap * (2.0 * scipy.special.ndtr(z) - 1.0) - s * np.sqrt(
        2.0 / np.pi
    ) * np.exp(-0.5 * z * z)
    return float(gap.sum()) / f.total, max(0.0, float(debiased.sum())) / f.total


def _residuals_on_grid(f: Counts) -> Array:
    """Mean residuals by cell; each is shared between the centres of two cells."""
    on_grid = np.zeros(GRID_CELLS)
    for rows in chunks(len(f)):
        part = f.where(rows)
        residual = (part.positives - part.w * part.x) / f.total
        place = np.clip(part.x * GRID_CELLS - 0.5, 0.0, GRID_CELLS - 1.0)
        left = np.minimum(place.astype(np.intp), GRID_CELLS - 2)
        share = place - left
        on_grid += np.bincount(left, residual * (1.0 - share), GRID_CELLS)
        on_grid += np.bincount(left + 1, residual * share, GRID_CELLS)
    return on_grid


def smooth_ece(f: Counts) -> float:
    """Smooth ECE, with the bandwidth at the fixed point."""
    waves = np.asarray(scipy.fft.dct(_residuals_on_grid(f)))
    frequency = np.pi * np.arange(GRID_CELLS)

    def at(width: float) -> float:
        # Beyond ten widths a wave is damped to nothing.
        n = min(int(LONGEST_WAVE / width) + 1, GRID_CELLS)
        damped = waves[:n] * np.exp(-0.5 * (frequency[:n] * width) ** 2)
        return float(np.abs(scipy.fft.idct(damped, n=GRID_CELLS)).sum())

    # The integral falls as the kernel widens: the fixed point is at most that of the
    # narrowest kernel, and at least the integral there.
    widest = at(MIN_WIDTH)
    if widest <= MIN_WIDTH:
        return widest
    return float(
        scipy.optimize.brentq(
            lambda width: at(width) - width,
            max(at(widest), MIN_WIDTH) * (1.0 - 1e-9),
            widest,
            xtol=1e-10,
        )
    )


def curve_distances(f: Counts, fit: FittedCurve | None) -> dict[str, Any]:
    """Mean, median, 90th percentile and maximum of ``|p - curve(p)|``.

    NaN if only one class occurs.
    """
    if fit is None:
        return dict.fromkeys(("ici", "e50", "e90", "emax"), float("nan"))
    distance = np.abs(f.x - fit.curve(f.x))
    e50, e90 = _quantiles(distance, f.w)
    return {
        "ici": float(f.w @ distance) / f.total,
        "e50": e50,
        "e90": e90,
        "emax": float(distance.max()),
    }


def _quantiles(values: Array, w: Array) -> tuple[float, float]:
    """Median and 90th percentile of weighted values."""
    if w.min() == w.max():
        reached = np.arange(1, len(w) + 1) / len(w)
        places = np.searchsorted(reached, [0.5, 0.9])
        median, high = np.partition(values, places)[places].tolist()
        return median, high
    order = np.argsort(values)
    reached = np.cumsum(w[order]) / w.sum()
    median, high = values[order[np.searchsorted(reached, [0.5, 0.9])]].tolist()
    return median, high
