"""The splines that may bend the scale.

The curve shared by all classes is ``s(u) = u + B(u) v`` with ``B`` a basis of natural cubic
splines without their affine part, so ``v = 0`` is temperature scaling.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calspline.arrays import Array
from calspline.fitting.basis import NaturalSpline, PiecewiseCubic
from calspline.fitting.fit import apart
from calspline.fitting.smoothing import from_second_derivatives

CELLS = 1 << 13
"""Cells of ``u`` while fitting: a value counts as the middle of its cell inside the basis only."""
N_KNOTS = 16


@dataclass(frozen=True)
class CurveBasis:
    """Natural splines in ``u`` whose squared coordinates sum to the integral of ``g''^2``: the columns of ``T``."""

    spline: NaturalSpline
    T: Array

    @property
    def size(self) -> int:
        """Number of coordinates."""
        return int(self.T.shape[1])

    def at(self, u: Array) -> Array:
        """Basis values, shape (len(u), size)."""
        return self.spline.design(u).in_coordinates(self.T).rows

    def curve(self, v: Array) -> PiecewiseCubic:
        """``s(u) = u + B(u) v``."""
        coefficients = self.spline.pieces @ (self.T @ v)
        coefficients[2] += 1.0
        coefficients[3] += self.spline.anchors
        return PiecewiseCubic(self.spline.knots, coefficients)


def curve_basis(u: Array, mass: Array, n_knots: int = N_KNOTS) -> CurveBasis:
    """The basis for values spread as ``mass`` over sorted places ``u``.

    Half the knots are at quantiles of the values, half at quantiles weighted by ``exp(u)``, where
    the large probabilities are. The affine part taken out is the least-squares line under the
    Fisher weight ``p (1 - p)``; the curve is anchored at ``s(0) = 0``.
    """
    if len(u) < 4:
        return CurveBasis(NaturalSpline(np.array([-1.0, 0.0])), np.zeros((2, 0)))
    knots = np.concatenate([_quantiles(u, mass, n_knots // 2), _quantiles(u, mass * np.exp(u), n_knots // 2 + 2)])
    knots = np.unique(np.concatenate([u[[0, -1]], knots]))
    basis = NaturalSpline(apart(knots, u[-1] - u[0]))
    K = basis.size
    if K < 4:
        return CurveBasis(basis, np.zeros((K, 0)))
    curved = from_second_derivatives(basis)
    ones, line = basis.line
    affine = np.column_stack([ones, line])
    p = np.exp(np.minimum(u, 0.0))
    information = mass * (p * (1.0 - p) + 1e-9)
    rows = basis.design(u).dot(np.column_stack([affine, curved]))
    A = rows[:, :2].T * information
    curved -= affine @ np.linalg.solve(A @ rows[:, :2], A @ rows[:, 2:])
    curved -= np.outer(ones, basis.design(np.zeros(1)).dot(curved)[0])
    return CurveBasis(basis, curved)


def _quantiles(u: Array, mass: Array, count: int) -> Array:
    share = np.cumsum(mass) - 0.5 * mass
    return np.asarray(np.interp(np.linspace(0.0, 1.0, count) * mass.sum(), share, u))


@dataclass(frozen=True)
class CurveCells:
    """All ``u`` in uniform cells: which cell each value is in, class by class, and the basis there."""

    cell: NDArray[np.int16]
    table: Array
    basis: CurveBasis


def curve_cells(u: Array, w: Array, n_knots: int = N_KNOTS) -> CurveCells:
    """Sort the values of ``u``, shape (m, n), into cells and lay out the basis on them."""
    low, high = float(u[:, w > 0.0].min()), float(u[:, w > 0.0].max())
    width = max((high - low) / CELLS, 1e-12)
    cell = np.empty(u.shape, dtype=np.int16)
    count, total = np.zeros(CELLS), np.zeros(CELLS)
    for j in range(len(u)):
        i = np.clip((u[j] - low) / width, 0, CELLS - 1).astype(np.intp)
        cell[j] = i
        count += np.bincount(i, weights=w, minlength=CELLS)
        total += np.bincount(i, weights=w * u[j], minlength=CELLS)
    used = count > 0.0
    middle: Array = low + (np.arange(CELLS, dtype=np.float64) + 0.5) * width
    middle[used] = total[used] / count[used]
    basis = curve_basis(middle[used], count[used], n_knots)
    return CurveCells(cell, basis.at(middle), basis)
