"""Cox's recalibration: a shift, or a line, in log-odds.

With ``x`` the log-odds of the probabilities (clipped at probabilities of 1e-9), those
of the event are modelled as ``a + x``, where ``a`` is the calibration in the large,
positive if events are more frequent than predicted, and as ``c + b x``, where ``b`` is
the calibration slope, below 1 if the probabilities are too extreme. Standard errors are
those of maximum likelihood, with the score variance implied by the weights.

References
----------
D. R. Cox, *Two further applications of a model for binary regression*, Biometrika 45,
1958.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy

from calspline._arrays import Array, Counts
from calspline.evaluation.protocols import EvaluatedRows
from calspline.fitting.newton import (
    LAST_DIGITS,
    DenseDesign,
    Problem,
    log_loss,
    minimize,
)
from calspline.transforms import Transform

MAX_COX_CELLS, LINE_CELLS = 4096, 1024
SLOPE_PRECISION = 1.0
"""Precision of the prior of the recalibration slope, which has mean one."""
LEAST_SPREAD, LINE_TOLERANCE = 1e-6, 1e-6


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


def by_log_odds(f: Counts) -> Counts:
    """Counts of probabilities as counts of their log-odds."""
    x = Transform("logit")(f.x)
    return Counts(x, f.positives, f.negatives, f.squared)


def spread(f: Counts) -> float:
    """Standard deviation of the values, bounded away from zero."""
    return max(float(np.sqrt(f.w @ (f.x - f.mean) ** 2 / f.total)), LEAST_SPREAD)
