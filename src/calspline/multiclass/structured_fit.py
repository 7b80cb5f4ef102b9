"""Fit one shared curve, a matrix and intercepts to rows of log-scores."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from calspline.arrays import Array
from calspline.binary_fit import Recipe
from calspline.fitting.smoothing import SMOOTHING_LIMITS
from calspline.multiclass.curve_basis import N_KNOTS
from calspline.multiclass.many_classes import fit_many
from calspline.multiclass.solver import SCARCE, CurveOnly, Data, Strengths, first_strengths, fit_joint, solve
from calspline.multiclass.structured_map import StructuredMap
from calspline.multiclass.temperature import Scale, fit_temperature, floored
from calspline.scores import MatrixScores

JOINT_CLASSES = 32
JOINT_COST = 4e9
"""Curve and matrix are fitted jointly up to so many classes and multiplications per Hessian, ``n (m^2 / 2)^2``."""
MATRIX_COST = 5e8
"""Most multiplications per gradient, ``n m^2``, for which more than the diagonal of ``W`` is fitted."""
MIN_SLOPE = 1e-3
STRONGEST = 60.0
"""How far, in logarithms, the strength of the curve may rise to make it increase."""


def fit_structure(scores: MatrixScores, codes: NDArray[np.intp], weight: Array | None, recipe: Recipe) -> StructuredMap:
    """Fit one shared curve, a matrix and intercepts."""
    _check(recipe)
    values = scores.values.astype(np.float64, copy=False)
    if scores.kind == "probability":
        with np.errstate(divide="ignore"):
            values = np.log(values)
    w = np.ones(len(values)) if weight is None else weight
    strength = None if isinstance(recipe.smoothing, str) else float(np.clip(recipe.smoothing, *SMOOTHING_LIMITS))
    return fit_structured(
        values,
        codes,
        w,
        monotone=recipe.monotone,
        curve_strength=strength,
        n_knots=N_KNOTS if recipe.n_knots is None else recipe.n_knots,
    )


def _check(recipe: Recipe) -> None:
    """Options that a structured fit could only ignore are errors."""
    for name, value, allowed in (
        ("transform", recipe.transform, ("auto", "identity")),
        ("penalty", recipe.penalty, ("curvature",)),
        ("loss", recipe.loss, ("log",)),
    ):
        if value not in allowed:
            shown = " or ".join(repr(choice) for choice in allowed)
            raise ValueError(
                f'{name} must be {shown} with multiclass="structured"; got {value!r}. Use multiclass="ovr".'
            )
    if isinstance(recipe.smoothing, str) and recipe.smoothing != "reml":
        raise ValueError(f'smoothing must be "reml" or a number with multiclass="structured"; got {recipe.smoothing!r}')
    if not isinstance(recipe.knots, str) or recipe.knots != "quantile":
        raise ValueError('knots must be "quantile" with multiclass="structured"')


def fit_structured(
    z: Array,
    y: NDArray[np.intp],
    w: Array,
    *,
    monotone: bool = False,
    curve_strength: float | None = None,
    n_knots: int = N_KNOTS,
) -> StructuredMap:
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
    data = Data.on_scale(scale, x, y, w, n_knots)
    del x
    if monotone:
        return _increasing(data, curve_strength)
    if m <= JOINT_CLASSES and n * (m * m / 2.0) ** 2 <= JOINT_COST:
        return fit_joint(data, curve_strength)
    return fit_many(data, matrix=n * m * m <= MATRIX_COST, curve_strength=curve_strength)


def _increasing(data: Data, curve_strength: float | None) -> StructuredMap:
    """The curve alone, with the least smoothing beyond the wanted one that makes it increase."""
    m, basis, curve = len(data.u), data.cells.basis, CurveOnly(data)
    strengths = Strengths(first_strengths(m, float(data.w.sum()))[3:], curve.group, {0: curve_strength})
    v, converged = solve(curve, strengths, np.zeros(len(curve.group)))
    if basis.curve(v).smallest_slope <= MIN_SLOPE:
        low = float(np.log(strengths.alpha[0]))
        high = low + STRONGEST
        for _ in range(16):
            middle = 0.5 * (low + high)
            strengths.alpha = np.exp([middle])
            trial, _ = solve(curve, strengths, v, learn=False)
            if basis.curve(trial).smallest_slope > MIN_SLOPE:
                high = middle
            else:
                low = middle
        strengths.alpha = np.exp([high])
        v, converged = solve(curve, strengths, np.zeros_like(v), learn=False)
    alpha, effective = np.full(4, np.inf), np.zeros(4)
    alpha[3], effective[3] = strengths.alpha[0], strengths.effective[0]
    return data.fitted(v, None, np.zeros(m), alpha, effective, converged)
