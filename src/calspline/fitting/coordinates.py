"""Coordinates in which a penalty is a diagonal.

A spline ``g = X T u`` is fitted in coordinates ``u`` where the penalty is
``1/2 sum_j (prior_j + lambda * strength_j) u_j^2``. Solving there, and not for the
B-spline coefficients ``T u``, keeps the Hessian well conditioned for any lambda and
any spacing of the knots. (In B-spline coordinates the curvature penalty has
entries of order ``lambda / gap^3``, and a Cholesky factor loses the information on
the line once that exceeds the data's by 1e16.)
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import log

import numpy as np

from calspline.arrays import Array
from calspline.fitting.basis import NaturalSpline, PiecewiseDesign, natural_cubic_basis

RIDGE_PRIOR = 1e-8
"""Precision of the paper's free intercept: none to speak of, but it stays finite."""
USUAL_SPREAD = 4.0
"""Standard deviation of log-odds up to which a model is a usual one."""
WEAK_PRIOR = 0.2
"""Precision of the affine part, ``0.1 (a^2 + b^2)``: it keeps a perfectly separated
fit finite and is worth less than one observation."""


@dataclass(frozen=True)
class Coordinates:
    """``c = T u``, and the two parts of the diagonal penalty on ``u``: of each coordinate one is zero."""

    T: Array
    prior: Array
    strength: Array

    def precision(self, smoothing: float) -> Array:
        """Diagonal ``Q`` of the penalty at this smoothing."""
        return self.prior + smoothing * self.strength

    def log_precision(self, smoothing: float) -> float:
        """Log of the product of what is not zero in ``Q``."""
        constant, smoothed = self._log_parts
        return constant + smoothed * log(smoothing)

    @cached_property
    def _log_parts(self) -> tuple[float, int]:
        parts = np.concatenate([self.prior, self.strength])
        return float(np.log(parts[parts > 0.0]).sum()), int(np.count_nonzero(self.strength))


def curvature_coordinates(
    basis: NaturalSpline, design: PiecewiseDesign, x: Array, w: Array, slope: float = 0.0
) -> Coordinates:
    """Coordinates for the integral of ``g''^2``.

    ``u = (a, b, v)``: ``a + b (x - mean) / sd`` is the affine part of ``g``, its
    weighted least-squares line over the data, with a weak prior; ``v`` holds the
    rest, scaled so that the integral of ``g''^2`` is ``|v|^2``.

    ``slope`` is that of the line ``g`` is a deviation from. Where that line runs through
    many more log-odds than models usually give, it takes a large ``a`` and ``b`` to set it
    right, and the prior weakens accordingly.
    """
    K = basis.size
    total = w.sum()
    mean = w @ x / total
    sd = float(np.sqrt(w @ (x - mean) ** 2 / total)) or 1.0
    ones, identity = basis.line
    affine = np.column_stack([ones, (identity - mean * ones) / sd])
    prior = np.zeros(K)
    spread = abs(slope) * sd
    prior[:2] = WEAK_PRIOR * (USUAL_SPREAD / max(spread, USUAL_SPREAD)) ** 2
    if K == 2:
        return Coordinates(affine, prior, np.zeros(2))

    curved = from_second_derivatives(basis)
    weighted_line = np.vstack([design.tdot(w), design.tdot(w * (x - mean) / sd)])
    curved -= affine @ (weighted_line @ curved / total)
    strength = np.ones(K)
    strength[:2] = 0.0
    return Coordinates(np.column_stack([affine, curved]), prior, strength)


def from_second_derivatives(basis: NaturalSpline) -> Array:
    """Coefficients of splines, one a column, whose coordinates ``v`` have ``|v|^2`` as the integral of ``g''^2``.

    With ``gamma = g''`` at the interior knots and ``M`` the mass matrix of hat
    functions, the integral is ``gamma' M gamma = |L' gamma|^2`` for ``M = L L'``.
    So ``v = L' gamma``; integrating ``gamma`` twice gives ``g`` at the knots, and
    interpolation its coefficients. The affine part is left as the integration gives it.
    """
    K = basis.size
    gaps = np.diff(basis.knots)[:, None]
    gamma = np.zeros((K, K - 2))
    gamma[1:-1] = np.linalg.inv(np.linalg.cholesky(basis.mass)).T
    start = np.zeros((1, K - 2))
    slopes = np.vstack([start, np.cumsum(gaps * (gamma[:-1] + gamma[1:]) / 2.0, axis=0)])
    rises = gaps * slopes[:-1] + gaps**2 * (2.0 * gamma[:-1] + gamma[1:]) / 6.0
    return basis.interpolate(np.vstack([start, np.cumsum(rises, axis=0)]))


def ridge_coordinates(basis: NaturalSpline, origin: float, unit: float) -> Coordinates:
    """Coordinates for the paper's L2 penalty on the coefficients of ``N_2 .. N_K``.

    The intercept ``N_1`` is free, as in scikit-learn's ``LogisticRegression``. The
    basis is that of ``origin + unit * x``, so that ``x`` may have been scaled.
    """
    knots = origin + unit * basis.knots
    columns = natural_cubic_basis(knots, knots)
    scale = np.abs(columns).max(axis=0)
    strength = scale**-2.0
    strength[0] = 0.0
    prior = np.zeros(basis.size)
    prior[0] = RIDGE_PRIOR
    return Coordinates(basis.interpolate(columns / scale), prior, strength)
