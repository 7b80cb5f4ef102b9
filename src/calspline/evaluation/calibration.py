"""Calibration measures: expected calibration error, Cox recalibration and a test.

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

**Cox's recalibration.** With ``x`` the log-odds of the probabilities (clipped at
probabilities of 1e-9), those of the event are modelled as ``a + x``, where ``a`` is the
calibration in the large, positive if events are more frequent than predicted, and as
``c + b x``, where ``b`` is the calibration slope, below 1 if the probabilities are too
extreme. Standard errors are those of maximum likelihood, with the score variance
implied by the weights.

**The test** of calibration against a smooth alternative. Under the hypothesis, the
outcomes are independent coin flips with the given probabilities; the alternative
shifts their log-odds by a natural cubic spline of the log-odds, restricted by the
curvature penalty. The statistic is the score statistic of that model,

    T = sum_k a_k (c_k' X' (y - p))^2,    a_k = 1 / (1 + lambda gamma_k),

where the ``c_k`` diagonalise the penalty with respect to the variance ``V = X' diag(w^2
p (1 - p)) X`` (the Demmler-Reinsch basis), so that each term has mean one, and
``lambda`` gives the spline four degrees of freedom in all. In small samples the null
distribution of ``T`` is simulated: the p-value ``(1 + exceedances) / (1 + draws)`` is
valid for any number of rows and any scores, rare events included. Where the scores are
close to normal (judged by their kurtosis, which is known), ``T`` is a weighted sum of
chi-squares, and the saddlepoint formula gives its tail.

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
reliability diagrams via kernel smoothing*, arXiv 2309.12236, 2023. D. R. Cox, *Two
further applications of a model for binary regression*, Biometrika 45, 1958. Y. Liu and
J. Xie, *Cauchy combination test*, Journal of the American Statistical Association 115,
2020. P. C. Austin and E. W. Steyerberg, *The Integrated Calibration Index (ICI) and
related metrics for quantifying the calibration of logistic regression models*,
Statistics in Medicine 38, 2019. D. Kuonen, *Saddlepoint approximations for
distributions of quadratic forms in normal variables*, Biometrika 86, 1999.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy.linalg import eigh

from calspline._arrays import Array, Counts, chunks
from calspline.evaluation.protocols import EvaluatedRows
from calspline.fitting.basis import NaturalSpline
from calspline.fitting.fit import quantile_knots
from calspline.fitting.newton import (
    LAST_DIGITS,
    DenseDesign,
    Problem,
    log_loss,
    minimize,
)
from calspline.maps.fit_info import FittedCurve
from calspline.transforms import Transform

Ints = NDArray[np.intp]

ECE_BINS = 15
"""Number of bins of the ECE, customary since Guo et al. (2017)."""
GRID_CELLS = 1 << 13
MIN_WIDTH, LONGEST_WAVE = 0.5 / GRID_CELLS, 10.0 / np.pi
MAX_COX_CELLS, LINE_CELLS = 4096, 1024
SLOPE_PRECISION = 1.0
"""Precision of the prior of the recalibration slope, which has mean one."""
LEAST_SPREAD, LINE_TOLERANCE = 1e-6, 1e-6
TEST_CELLS, TEST_KNOTS, TEST_DEGREES, TEST_DRAWS = 256, 8, 4.0, 999
NEARLY_CERTAIN = 1e-9
NORMAL_KURTOSIS = 0.01
"""Sums with a smaller excess kurtosis are treated as normal."""
SIZES_PER_OCTAVE, SIZE_CLASSES = 4, 64
"""Classes of weights in simulations, each a factor of two wide or less; the range is
65,536."""
SEED = 0


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


def by_log_odds(f: Counts) -> Counts:
    """Counts of probabilities as counts of their log-odds."""
    x = Transform("logit")(f.x)
    return Counts(x, f.positives, f.negatives, f.squared)


def spread(f: Counts) -> float:
    """Standard deviation of the values, bounded away from zero."""
    return max(float(np.sqrt(f.w @ (f.x - f.mean) ** 2 / f.total)), LEAST_SPREAD)


def on_a_line(f: Counts, x: Array, precision: list[float]) -> Array:
    """Fit ``x`` plus an intercept, or plus a line, to the outcomes in ``f``.

    The precisions belong to priors with mean zero of the intercept and of the slope, in
    standard deviations of ``f``.
    """
    centre, unit = f.mean, spread(f)

    def design(x: Array) -> Array:
        z = (x - centre) / unit
        return np.column_stack([np.ones_like(z), z][: len(precision)])

    problem = Problem(DenseDesign(design(f.x)), f.x, f.w, f.positives, log_loss)
    found = minimize(
        problem,
        np.array(precision),
        problem.at(np.zeros(len(precision))),
        tolerance=LINE_TOLERANCE,
    )
    return np.asarray(x + design(x) @ found.u)


def recalibrated_log_odds(f: Counts, x: Array) -> Array:
    """Recalibrate log-odds ``x`` by a line, with a prior on its slope.

    ``f`` counts outcomes by log-odds.
    """
    f = f.coarsened(LINE_CELLS)
    # As many rows as would say as much, and half a row of either outcome more, so that
    # neither is impossible.
    share = f.w / f.total
    events = f.effective * (f.positives / f.w) + 0.5 * share
    f = Counts(f.x, events, f.effective + share - events)
    return on_a_line(f, x, [0.0, SLOPE_PRECISION / spread(f) ** 2])


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


class Recalibration(NamedTuple):
    """Estimates with standard errors, which are NaN if the estimate is not finite."""

    in_the_large: float
    in_the_large_se: float
    slope: float
    slope_se: float


def recalibration(f: Counts, rows: EvaluatedRows | None = None) -> Recalibration:
    """Fit both models; for grouped rows, standard errors are cluster-robust.

    If only one class occurs, ``in_the_large`` is infinite. If all events lie above all
    non-events, the slope is infinite. If there is only one probability, the slope is
    NaN.
    """
    f = by_log_odds(f) if rows is None else rows.by_log_odds
    f = f.coarsened(MAX_COX_CELLS)
    x, w1, w0 = f.x, f.positives, f.negatives
    nan = float("nan")
    if not (w1.any() and w0.any()):
        return Recalibration(np.inf if w1.any() else -np.inf, nan, nan, nan)
    large, large_se = _last_coefficient(lambda x: np.ones((len(x), 1)), 1.0, f, rows)
    up, down = x[w1 > 0.0], x[w0 > 0.0]
    if x[0] == x[-1]:
        slope, slope_se = nan, nan
    elif up.min() >= down.max():
        slope, slope_se = np.inf, nan
    elif up.max() <= down.min():
        slope, slope_se = -np.inf, nan
    else:
        slope, slope_se = _last_coefficient(
            lambda x: np.column_stack([np.ones_like(x), x - f.mean]), 0.0, f, rows
        )
    return Recalibration(large, large_se, slope, slope_se)


def _last_coefficient(
    features: Callable[[Array], Array],
    offset: float,
    f: Counts,
    rows: EvaluatedRows | None,
) -> tuple[float, float]:
    """Last coefficient of a logistic regression, and its standard error."""
    X = features(f.x)
    problem = Problem(DenseDesign(X), offset * f.x, f.w, f.positives, log_loss)
    free, start = np.zeros((2, X.shape[1]))
    # From far off, steps would overflow.
    start[0] = scipy.special.logit(f.positives.sum() / f.w.sum()) - offset * f.mean
    fit = minimize(problem, free, problem.at(start), tolerance=LAST_DIGITS)
    root = fit.covariance_root()
    influence = root @ root[-1]
    if rows is not None and rows.n_groups is not None:
        x, n = Transform("logit")(rows.probs), rows.n_groups
        J = rows.score_variance(
            scipy.special.expit(offset * x + features(x) @ fit.u), features(x)
        )
        return float(fit.u[-1]), float(
            np.sqrt(influence @ J @ influence * n / (n - 1.0))
        )
    if f.squared is None:
        return float(fit.u[-1]), float(np.linalg.norm(root[-1]))
    # The score's variance is not the information, but has the squared weights in it.
    v = problem.at(fit.u).local.curvature * np.divide(f.squares, f.w)
    return float(fit.u[-1]), float(np.linalg.norm(np.sqrt(v) * (X @ influence)))


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


def cell_starts(f: Counts, n_cells: int) -> Ints:
    """Start of each cell, for at most the given number of cells."""
    return f.bin_starts(n_cells) if len(f) > n_cells else np.arange(len(f))


def flips_like(
    f: Counts, rows: EvaluatedRows | None, n_cells: int
) -> tuple[Counts, Flips]:
    """Probabilities in at most ``n_cells`` cells, and flips that represent them."""
    first = cell_starts(f, n_cells)
    cells = f.merged(first)
    if rows is None or rows.groups is not None or not rows.unequal:
        return cells, Flips.like(cells)
    seen = (rows.probs >= f.x[0]) & (rows.probs <= f.x[-1])
    cell = np.searchsorted(f.x[first], rows.probs[seen], side="right") - 1
    return cells, Flips.of_rows(cells.x, cell, rows.squares[seen])


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


@dataclass(frozen=True, eq=False)
class Flips:
    """Independent coin flips that represent the rows, by probability.

    ``cell`` has the place of the probability, increasing, and each place occurs.
    """

    p: Array
    cell: Ints
    count: NDArray[np.int64]
    size: Array

    @classmethod
    def like(cls, f: Counts) -> Flips:
        """Flips of equal size at each probability, with the variance of its weight."""
        squares = f.squares
        count = np.maximum(
            np.rint(
                f.w
                * np.divide(f.w, squares, out=np.ones_like(f.w), where=squares > 0.0)
            ),
            1.0,
        )
        return cls(
            f.x, np.arange(len(f)), count.astype(np.int64), np.sqrt(squares / count)
        )

    @classmethod
    def of_rows(cls, p: Array, cell: Ints, squares: Array) -> Flips:
        """A flip for each row, at the probability of its cell.

        Rows of similar size are pooled.
        """
        largest = float(squares.max())
        octave = -0.5 * np.log2(np.maximum(squares / largest, np.finfo(float).tiny))
        kind = cell * SIZE_CLASSES + np.minimum(
            SIZES_PER_OCTAVE * octave, SIZE_CLASSES - 1.0
        ).astype(np.intp)
        count = np.bincount(kind)
        sums = np.bincount(kind, squares)
        used = np.flatnonzero(count)
        return cls(
            p, used // SIZE_CLASSES, count[used], np.sqrt(sums[used] / count[used])
        )

    def cumulants(self) -> tuple[Array, Array]:
        """Variance and fourth cumulant of the sum of the flips at each probability."""
        q = self.p * (1.0 - self.p)
        first = np.searchsorted(self.cell, np.arange(len(self.p)))
        squares, fourths = (
            np.add.reduceat(self.count * self.size**k, first) for k in (2.0, 4.0)
        )
        return squares * q, fourths * q * (1.0 - 6.0 * q)

    def deviations(self, draws: int) -> Array:
        """Simulated sums of ``size * (event - p)`` by probability.

        One row per draw; the draws are always the same.
        """
        rng = np.random.default_rng(SEED)
        p = self.p[self.cell]
        events: Array
        if self.count.max() <= 1:
            events = (rng.random((draws, len(p))) < p).astype(np.float64)
        else:
            # One probability after the other: numpy sets up a binomial distribution
            # once while it stays the same.
            events = rng.binomial(
                self.count[:, None], p[:, None], size=(len(p), draws)
            ).T.astype(np.float64)
        events -= self.count * p
        events *= self.size
        if len(self.cell) == len(self.p):
            return events
        return np.asarray(
            np.add.reduceat(
                events, np.searchsorted(self.cell, np.arange(len(self.p))), axis=1
            )
        )
