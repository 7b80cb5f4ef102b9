"""A test of "these probabilities are right" against a smooth curve.

Under the hypothesis the outcomes are independent coin flips with the given probabilities; the alternative moves their
log-odds by a natural cubic spline of the log-odds: an intercept, a slope, and a few bends held back by the
curvature penalty. The statistic is the score statistic of that penalised model,

    T = sum_k a_k (c_k' X' (y - p))^2,    a_k = 1 / (1 + lambda gamma_k),

where the ``c_k`` diagonalise the penalty with respect to the information ``V = X' diag(p (1 - p)) X`` (the
Demmler-Reinsch basis), so that each term has mean one, and ``lambda`` gives the spline four degrees of freedom in all.

The hypothesis says exactly how the outcomes are distributed given the probabilities, so in small samples the null
distribution of ``T`` is simulated: the p-value ``(1 + exceedances) / (1 + draws)`` is valid for any number of
rows and any scores, rare events included. Where the scores are close to normal (judged by their
kurtosis, which is known), ``T`` is a weighted sum of chi-squares, and the saddlepoint formula gives its tail.

A weight counts as that many rows.

References
----------
Y. Liu and J. Xie, *Cauchy combination test*, Journal of the American Statistical Association 115, 2020.
D. Kuonen, *Saddlepoint approximations for distributions of quadratic forms in normal variables*, Biometrika 86, 1999.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh
from scipy.optimize import brentq
from scipy.special import ndtr
from scipy.stats import cauchy, chi2

from calspline.arrays import Array, Counts
from calspline.evaluation.resampling import simulated_events
from calspline.fitting.basis import NaturalSpline
from calspline.fitting.fit import quantile_knots
from calspline.transforms import Transform

CELLS = 256
KNOTS = 8
DEGREES = 4.0
DRAWS = 999
NEARLY_CERTAIN = 1e-9
NORMAL_KURTOSIS = 0.01
"""Scores whose tails are lighter than this count as normal."""


def calibration_p_value(f: Counts) -> float:
    """P-value of the hypothesis that the probabilities are right.

    Rows within 1e-9 of 0 or 1 are judged apart. If one of them turned out the other way, the p-value is the chance of
    that, at most the sum of their distances to 0 or 1: 0 if something happened that had probability 0.
    """
    unlikely = np.minimum(f.x, 1.0 - f.x)
    certain = unlikely < NEARLY_CERTAIN
    if certain.any():
        surprise = np.where(f.x < 0.5, f.positives, f.negatives)[certain]
        if surprise.any():
            return min(1.0, float(f.w[certain] @ unlikely[certain]))
        f = f.where(~certain)
    if not len(f):
        return 1.0
    f = f.coarsened(CELLS)
    A = directions(f)
    statistic = float(((A.T @ (f.positives - f.w * f.x)) ** 2).sum())
    if _nearly_normal(A, f):
        return weighted_chi2_tail(statistic, (A.T**2 * (f.w * f.x * (1.0 - f.x))).sum(axis=1))
    null = (((simulated_events(f, DRAWS) - f.w * f.x) @ A) ** 2).sum(axis=1)
    # Draws that equal what happened must count, whatever their rounding.
    return float(1 + np.count_nonzero(null >= statistic * (1.0 - 1e-9))) / (1 + DRAWS)


def directions(f: Counts) -> Array:
    """Columns ``sqrt(a_k) X c_k``: the statistic is the squared length of their products with ``y - p``."""
    x = Transform("logit")(f.x)
    v = f.w * f.x * (1.0 - f.x)
    if x[0] == x[-1]:
        return np.full((len(x), 1), 1.0 / np.sqrt(v.sum()))
    z = (x - x[0]) / (x[-1] - x[0])
    spline = NaturalSpline(quantile_knots(z, v, KNOTS))
    X = spline.design(z).dot(np.eye(spline.size))
    V = (X.T * v) @ X
    V += 1e-10 * np.trace(V) * np.eye(len(V))
    gamma, C = eigh(spline.curvature, V) if spline.size > 2 else (np.zeros(2), eigh(V)[1] / np.sqrt(eigh(V)[0]))
    gamma = np.maximum(gamma, 0.0)
    gamma[:2] = 0.0
    weight = np.ones_like(gamma)
    if len(gamma) > DEGREES:

        def excess(log_lambda: float) -> float:
            return float((1.0 / (1.0 + np.exp(log_lambda) * gamma)).sum() - DEGREES)

        scale = float(np.log(gamma[-1]))
        weight = 1.0 / (1.0 + np.exp(brentq(excess, -scale - 50.0, -float(np.log(gamma[2])) + 50.0)) * gamma)
    return np.asarray((X @ C) * np.sqrt(weight))


def _nearly_normal(A: Array, f: Counts) -> bool:
    """Whether the scores, sums of many small independent terms, are close to normal."""
    variance = f.w * f.x * (1.0 - f.x)
    # Excess kurtosis of each score times its squared part in the statistic: a score that hardly counts may be odd.
    heavy = np.abs((variance * (1.0 - 6.0 * f.x * (1.0 - f.x))) @ A**4)
    return float(heavy.sum()) < NORMAL_KURTOSIS * float(((variance @ A**2) ** 2).sum())


def combined_p_value(p: Array) -> float:
    """One p-value from several that may depend on each other: the Cauchy combination of Liu and Xie.

    It is close to the smallest times their number if one stands out, and to the p-values themselves if all agree.
    """
    if p.min() == 0.0:
        return 0.0
    # A p-value of 1 would outweigh any other.
    q = np.minimum(p, 0.95)
    return float(np.clip(cauchy.sf(np.mean(cauchy.isf(q))), 0.0, 1.0))


def weighted_chi2_tail(t: float, a: Array) -> float:
    """``P(sum_k a_k Z_k^2 >= t)`` for standard normal ``Z`` and positive ``a``."""
    if t <= 0.0:
        return 1.0
    bound = float(chi2.sf(t / a.max(), len(a)))
    if bound == 0.0 or a.max() - a.min() <= 1e-9 * a.max():
        return bound

    def cumulant(s: float) -> float:
        return -0.5 * float(np.log1p(-2.0 * s * a).sum())

    def slope(s: float) -> float:
        return float((a / (1.0 - 2.0 * s * a)).sum())

    mean = float(a.sum())
    top = 0.5 / float(a.max())
    if abs(t - mean) < 1e-4 * mean:
        # The formula has a removable singularity at the mean; a chord goes over it.
        low, high = (weighted_chi2_tail(mean * (1.0 + step), a) for step in (-2e-4, 2e-4))
        return low + (high - low) * (t - mean * (1.0 - 2e-4)) / (4e-4 * mean)
    low, high = (-0.5 * len(a) / t, 0.0) if t < mean else (0.0, top * (1.0 - 0.25 / (t * top + 1.0)))
    while t > mean and slope(high) < t:
        high = 0.5 * (high + top)
    s = float(brentq(lambda s: slope(s) - t, low, high, xtol=1e-14 * top))
    w = float(np.sign(s) * np.sqrt(2.0 * (s * t - cumulant(s))))
    v = s * float(np.sqrt(2.0 * (a**2 / (1.0 - 2.0 * s * a) ** 2).sum()))
    return float(np.clip(ndtr(-(w + np.log(v / w) / w)), 0.0, 1.0))
