"""Fit one shared curve, a matrix and intercepts to rows of log-scores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calspline.arrays import Array
from calspline.fitting.constraints import smallest_slope
from calspline.multiclass.curve_basis import N_KNOTS, CurveBasis, places
from calspline.multiclass.many_classes import fit_many
from calspline.multiclass.solver import (
    SCARCE,
    CurveOnly,
    Data,
    Estimate,
    Strengths,
    first_strengths,
    fit_joint,
    solve,
)
from calspline.multiclass.temperature import Scale, fit_temperature, floored

JOINT_CLASSES = 32
JOINT_COST = 4e9
"""Curve and matrix are fitted jointly up to so many classes and multiplications per Hessian, ``n (m^2 / 2)^2``."""
MATRIX_COST = 5e8
"""Most multiplications per gradient, ``n m^2``, for which more than the diagonal of ``W`` is fitted."""
MIN_SLOPE = 1e-3
STRONGEST = 60.0
"""How far, in logarithms, the strength of the curve may rise to make it increase."""


@dataclass(frozen=True)
class StructuredFit:
    """``p = softmax(s(u) + W u + b)``.

    ``breaks`` and ``coefficients`` (4, len(breaks) + 1) are the curve ``s`` in ``u``, highest power first, in
    local coordinates from the break to the left. ``W`` is a matrix, its diagonal, or None. ``strengths``
    and ``effective`` are the ridge strengths and effective parameters of intercepts, diagonal, rest of the
    matrix and curve.
    """

    scale: Scale
    breaks: Array
    coefficients: Array
    W: Array | None
    b: Array
    strengths: Array
    effective: Array
    converged: bool = True


def fit_structured(
    z: Array,
    y: NDArray[np.intp],
    w: Array,
    *,
    monotone: bool = False,
    curve_strength: float | None = None,
    n_knots: int = N_KNOTS,
) -> StructuredFit:
    """Fit to log-scores.

    Parameters
    ----------
    z : array of shape (n, m)
        Logarithms of probabilities (``-inf`` is allowed), or logits.
    y : array of shape (n,)
        Classes, from 0 to m-1.
    w : array of shape (n,)
        Weights.
    monotone : bool
        No matrix and an increasing curve: every row keeps its ranking.
    curve_strength : float, optional
        Half of it times the integral of ``s''^2`` is the curve's penalty. None learns it.
    n_knots : int
        About how many knots the curve has.
    """
    n, m = z.shape
    x, floor = floored(z, w)
    scale = Scale(floor, fit_temperature(x, y, w), 1.0 / (float(w.sum()) + SCARCE * m + 1.0))
    u = scale.by_class(x)
    del x
    data = Data(u, y, w, places(u, w, n_knots))
    basis = data.places.basis
    if monotone:
        return _assembled(scale, basis, _increasing(data, curve_strength), None)
    if m <= JOINT_CLASSES and n * (m * m / 2.0) ** 2 <= JOINT_COST:
        estimate = fit_joint(data, curve_strength)
        return _assembled(scale, basis, estimate, estimate.W)
    matrix = n * m * m <= MATRIX_COST
    estimate = fit_many(data, matrix=matrix, curve_strength=curve_strength)
    return _assembled(scale, basis, estimate, estimate.W if matrix else estimate.W.diagonal().copy())


def _assembled(scale: Scale, basis: CurveBasis, estimate: Estimate, W: Array | None) -> StructuredFit:
    return StructuredFit(
        scale,
        basis.knots,
        _curve(basis, estimate.v),
        W,
        estimate.b,
        estimate.alpha,
        estimate.effective,
        estimate.converged,
    )


def _curve(basis: CurveBasis, v: Array) -> Array:
    """Local coefficients of ``u + B(u) v``."""
    coefficients = basis.pieces @ v
    coefficients[2] += 1.0
    coefficients[3] += basis.anchors
    return np.asarray(coefficients)


def _increasing(data: Data, curve_strength: float | None) -> Estimate:
    """The curve alone, with the least smoothing beyond the wanted one that makes it increase."""
    m = len(data.u)
    curve = CurveOnly(data)
    strengths = Strengths(first_strengths(m, float(data.w.sum()))[3:], curve.group, {0: curve_strength})
    v, converged = solve(curve, strengths, np.zeros(len(curve.group)))
    if not _increases(data.places.basis, v):
        low = float(np.log(strengths.alpha[0]))
        high = low + STRONGEST
        for _ in range(16):
            middle = 0.5 * (low + high)
            strengths.alpha = np.exp([middle])
            trial, _ = solve(curve, strengths, v, learn=False)
            if _increases(data.places.basis, trial):
                high = middle
            else:
                low = middle
        strengths.alpha = np.exp([high])
        v, converged = solve(curve, strengths, np.zeros_like(v), learn=False)
    alpha, effective = np.full(4, np.inf), np.zeros(4)
    alpha[3], effective[3] = strengths.alpha[0], strengths.effective[0]
    return Estimate(v, np.zeros((m, m)), np.zeros(m), alpha, effective, converged)


def _increases(basis: CurveBasis, v: Array) -> bool:
    return smallest_slope(basis.knots, _curve(basis, v)) > MIN_SLOPE
