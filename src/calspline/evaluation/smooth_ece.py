"""Smooth ECE: the calibration error without bins.

The residuals ``y - p`` are smoothed with a Gaussian kernel of width ``s``, reflected at 0 and 1, and
``smECE_s`` is the integral of the absolute value. It falls as ``s`` grows, and the smooth ECE is its fixed point,
``smECE_s = s``, which leaves nothing to choose.

A reflected Gaussian multiplies the ``k``-th cosine coefficient by ``exp(-(pi k s)^2 / 2)``, so on a grid each
``s`` costs one cosine transform.

References
----------
J. Błasiok and P. Nakkiran, *Smooth ECE: principled reliability diagrams via kernel smoothing*, arXiv 2309.12236, 2023.
"""

from __future__ import annotations

import numpy as np
from scipy.fft import dct, idct
from scipy.optimize import brentq

from calspline.evaluation.forecasts import Forecasts

CELLS = 1 << 13
NARROWEST, WIDEST = 0.5 / CELLS, 2.0


def smooth_ece(f: Forecasts) -> float:
    """Smooth ECE with the width that the definition gives."""
    residual = (f.positives - f.w * f.p) / f.total
    # A residual is shared between the middles of two cells.
    place = np.clip(f.p * CELLS - 0.5, 0.0, CELLS - 1.0)
    left = np.minimum(place.astype(np.intp), CELLS - 2)
    share = place - left
    on_grid = np.bincount(left, weights=residual * (1.0 - share), minlength=CELLS)
    on_grid += np.bincount(left + 1, weights=residual * share, minlength=CELLS)
    waves = np.asarray(dct(on_grid))
    frequency = np.pi * np.arange(CELLS)

    def at(width: float) -> float:
        return float(np.abs(idct(waves * np.exp(-0.5 * (frequency * width) ** 2))).sum())

    if at(NARROWEST) <= NARROWEST:
        return at(NARROWEST)
    return float(brentq(lambda width: at(width) - width, NARROWEST, WIDEST, xtol=1e-10))
