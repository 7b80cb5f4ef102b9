"""Cox's recalibration: calibration in the large, and the calibration slope.

With ``x`` the log-odds of the probabilities (clipped at probabilities of 1e-9), those of the event are modelled as

* ``a + x``: ``a`` is the calibration in the large, 0 if the mean is right, positive if events are more
  frequent than predicted;
* ``c + b x``: ``b`` is the calibration slope, 1 if right, below 1 if the probabilities are too extreme.

Standard errors are those of maximum likelihood; a weight counts as that many rows.

References
----------
D. R. Cox, *Two further applications of a model for binary regression*, Biometrika 45, 1958.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from calspline.arrays import Array, Counts
from calspline.fitting.newton import LAST_DIGITS, DenseDesign, Problem, log_loss, minimize
from calspline.transforms import Transform

MAX_CELLS = 4096


class Recalibration(NamedTuple):
    """Estimates with standard errors. An estimate that is not finite has the error NaN."""

    in_the_large: float
    in_the_large_se: float
    slope: float
    slope_se: float


def recalibration(f: Counts) -> Recalibration:
    """Fit both models.

    If only one class occurs, ``in_the_large`` is infinite. If all events lie above all non-events, the slope is
    infinite. If there is only one probability, the slope is NaN.
    """
    f = Counts(Transform("logit")(f.x), f.positives, f.negatives).coarsened(MAX_CELLS)
    x, w1, w0 = f.x, f.positives, f.negatives
    nan = float("nan")
    if not (w1.any() and w0.any()):
        return Recalibration(np.inf if w1.any() else -np.inf, nan, nan, nan)
    large, large_se = _fit(np.ones((len(x), 1)), x, w1, f.w)
    up, down = x[w1 > 0.0], x[w0 > 0.0]
    if x[0] == x[-1]:
        slope, slope_se = nan, nan
    elif up.min() >= down.max():
        slope, slope_se = np.inf, nan
    elif up.max() <= down.min():
        slope, slope_se = -np.inf, nan
    else:
        centred = x - f.mean
        slope, slope_se = _fit(np.column_stack([np.ones_like(x), centred]), np.zeros_like(x), w1, f.w)
    return Recalibration(large, large_se, slope, slope_se)


def _fit(X: Array, offset: Array, w1: Array, w: Array) -> tuple[float, float]:
    """Last coefficient of a logistic regression, and its standard error."""
    problem = Problem(DenseDesign(X), offset, w, w1, log_loss)
    free = np.zeros(X.shape[1])
    fit = minimize(problem, free, problem.at(free), tolerance=LAST_DIGITS)
    return float(fit.point.u[-1]), float(np.linalg.norm(fit.covariance_root()[-1]))
