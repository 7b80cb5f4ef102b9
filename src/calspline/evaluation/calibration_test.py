"""Test of calibration against a smooth alternative.

Under the hypothesis, the outcomes are independent coin flips with the given
probabilities (:mod:`calspline.evaluation.coin_flips`); the alternative shifts their
log-odds by a natural cubic spline of the log-odds, restricted by the curvature penalty.
The statistic is the score statistic of that model,

    T = sum_k a_k (c_k' X' (y - p))^2,    a_k = 1 / (1 + lambda gamma_k),

where the ``c_k`` diagonalise the penalty with respect to the variance ``V = X' diag(w^2
p (1 - p)) X`` (the Demmler-Reinsch basis), so that each term has mean one, and
``lambda`` gives the spline four degrees of freedom in all. In small samples the null
distribution of ``T`` is simulated: the p-value ``(1 + exceedances) / (1 + draws)`` is
valid for any number of rows and any scores, rare events included. Where the scores are
close to normal (judged by their kurtosis, which is known), ``T`` is a weighted sum of
chi-squares, and the saddlepoint formula gives its tail.

See :mod:`calspline.evaluation.predictions` for what weights do to variances.

References
----------
Y. Liu and J. Xie, *Cauchy combination test*, Journal of the American Statistical
Association 115, 2020. D. Kuonen, *Saddlepoint approximations for distributions of
quadratic forms in normal variables*, Biometrika 86, 1999.
"""

from __future__ import annotations

import numpy as np
import scipy
from scipy.linalg import eigh

from calspline._arrays import Array, Counts
from calspline.evaluation.coin_flips import cell_starts, flips_like
from calspline.evaluation.protocols import EvaluatedRows
from calspline.fitting.basis import NaturalSpline
from calspline.fitting.fit import quantile_knots
from calspline.transforms import Transform

TEST_CELLS, TEST_KNOTS, TEST_DEGREES, TEST_DRAWS = 256, 8, 4.0, 999
NEARLY_CERTAIN = 1e-9
NORMAL_KURTOSIS = 0.01
"""Sums with a smaller excess kurtosis are treated as normal."""


def calibration_p_value(
    f: Counts, rows: EvaluatedRows | None = None, *, simulate: bool = True
) -> float:
    """P-value of the hypothesis that the probabilities are calibrated.

    Without ``simulate``, if there are too few rows for a normal approximation, the
    statistic is approximated by a gamma distribution with its mean and variance.

    Where ``rows`` at the same probability count differently, so do the coin flips like
    them. Where they depend on each other, the variance of the scores is that of their
    groups.

    Rows within 1e-9 of 0 or 1 are treated separately. If one of them has the other
    outcome, the p-value is the probability of that, at most the sum of their distances
    from 0 or 1; it is 0 if an outcome occurred that had probability 0.
    """
    unlikely = np.minimum(f.x, 1.0 - f.x)
    certain = unlikely < NEARLY_CERTAIN
    if certain.any():
        surprise = np.where(f.x < 0.5, f.positives, f.negatives)[certain]
        if surprise.any():
            return min(1.0, float(f.effective[certain] @ unlikely[certain]))
        f = f.where(~certain)
    if not len(f):
        return 1.0
    cells, flips = flips_like(f, rows, TEST_CELLS)
    A = directions(cells)
    statistic = float(((A.T @ (cells.positives - cells.w * cells.x)) ** 2).sum())
    if rows is not None and rows.groups is not None:
        p = rows.probs
        seen = (p >= f.x[0]) & (p <= f.x[-1])
        cell = np.searchsorted(f.x[cell_starts(f, TEST_CELLS)], p, side="right") - 1
        spread = np.linalg.eigvalsh(rows.score_variance(p, A[cell] * seen[:, None]))
        return (
            weighted_chi2_tail(statistic, spread[spread > 1e-9 * spread[-1]])
            if spread[-1] > 0.0
            else 1.0
        )
    variance, fourth = flips.cumulants()
    # Excess kurtosis of each score times its squared part in the statistic: a score
    # that hardly counts may be odd.
    heavy = float(np.abs(fourth @ A**4).sum())
    parts = variance @ A**2
    if heavy < NORMAL_KURTOSIS * float((parts**2).sum()):
        return weighted_chi2_tail(statistic, parts)
    if not simulate:
        covariance = (A.T * variance) @ A
        wide = 2.0 * float((covariance**2).sum())
        wide += float(fourth @ (A**2).sum(axis=1) ** 2)
        return gamma_tail(statistic, float(parts.sum()), wide)
    null = ((flips.deviations(TEST_DRAWS) @ A) ** 2).sum(axis=1)
    # Draws that equal the outcomes must count, whatever their rounding.
    return float(1 + np.count_nonzero(null >= statistic * (1.0 - 1e-9))) / (
        1 + TEST_DRAWS
    )


def directions(f: Counts) -> Array:
    """Columns ``sqrt(a_k) X c_k``: the statistic is ``|directions' (y - p)|^2``."""
    x = Transform("logit")(f.x)
    v = f.squares * f.x * (1.0 - f.x)
    if x[0] == x[-1]:
        return np.full((len(x), 1), 1.0 / np.sqrt(v.sum()))
    z = (x - x[0]) / (x[-1] - x[0])
    spline = NaturalSpline(quantile_knots(z, v, TEST_KNOTS))
    X = spline.design(z).dot(np.eye(spline.size))
    V = (X.T * v) @ X
    V += 1e-10 * np.trace(V) * np.eye(len(V))
    gamma, C = (
        eigh(spline.curvature, V)
        if spline.size > 2
        else (np.zeros(2), eigh(V)[1] / np.sqrt(eigh(V)[0]))
    )
    gamma = np.maximum(gamma, 0.0)
    gamma[:2] = 0.0
    weight = np.ones_like(gamma)
    if len(gamma) > TEST_DEGREES:

        def excess(log_lambda: float) -> float:
            return float(
                (1.0 / (1.0 + np.exp(log_lambda) * gamma)).sum() - TEST_DEGREES
            )

        scale = float(np.log(gamma[-1]))
        at = scipy.optimize.brentq(
            excess, -scale - 50.0, -float(np.log(gamma[2])) + 50.0
        )
        weight = 1.0 / (1.0 + np.exp(at) * gamma)
    return np.asarray((X @ C) * np.sqrt(weight))


def combined_p_value(p: Array) -> float:
    """Combine p-values that may be dependent by the Cauchy combination of Liu and Xie.

    It is close to the smallest times their number if one stands out, and to the
    p-values themselves if all agree.
    """
    if p.min() == 0.0:
        return 0.0
    # A p-value of 1 would outweigh any other.
    q = np.minimum(p, 0.95)
    mean = float(np.mean(1.0 / np.tan(np.pi * q)))
    return float(np.clip(np.arctan2(1.0, mean) / np.pi, 0.0, 1.0))


def gamma_tail(x: float, mean: float, variance: float) -> float:
    """Tail probability of a gamma distribution."""
    shape = mean**2 / variance
    return float(scipy.special.gammaincc(shape, x * mean / variance))


def weighted_chi2_tail(t: float, a: Array) -> float:
    """``P(sum_k a_k Z_k^2 >= t)`` for standard normal ``Z`` and positive ``a``."""
    if t <= 1e-20 * a.sum():
        return 1.0
    bound = float(scipy.special.chdtrc(len(a), t / a.max()))
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
        low, high = (
            weighted_chi2_tail(mean * (1.0 + step), a) for step in (-2e-4, 2e-4)
        )
        return low + (high - low) * (t - mean * (1.0 - 2e-4)) / (4e-4 * mean)
    low, high = (
        (-0.5 * len(a) / t, 0.0)
        if t < mean
        else (0.0, top * (1.0 - 0.25 / (t * top + 1.0)))
    )
    while t > mean and slope(high) < t:
        high = 0.5 * (high + top)
    while t < mean and slope(low) >= t:  # by rounding, if t is tiny
        low *= 2.0
    s = float(
        scipy.optimize.brentq(lambda s: slope(s) - t, low, high, xtol=1e-14 * top)
    )
    w = float(np.sign(s) * np.sqrt(2.0 * (s * t - cumulant(s))))
    v = s * float(np.sqrt(2.0 * (a**2 / (1.0 - 2.0 * s * a) ** 2).sum()))
    return float(np.clip(scipy.special.ndtr(-(w + np.log(v / w) / w)), 0.0, 1.0))
