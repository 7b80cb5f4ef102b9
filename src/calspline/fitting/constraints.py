"""What a curve may look like: bounds and monotonicity, checked exactly, imposed linearly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calspline.arrays import Array
from calspline.fitting.basis import NaturalSpline
from calspline.fitting.coordinates import Coordinates
from calspline.fitting.newton import Constraints, Loss
from calspline.piecewise import PiecewiseCubic

MIN_SLOPE = 1e-7
"""Slope, per range of x, that a monotone curve keeps, so that rounding cannot turn it."""


@dataclass(frozen=True)
class Shape:
    """What the curve may look like, whatever the data say.

    ``line`` is the intercept and slope of the curve that the weak prior leans to.
    """

    loss: Loss
    ridge: bool
    line: tuple[float, float]
    targets: tuple[float, float]
    monotone: bool
    bounds: tuple[float, float] | None


def shape_constraints(
    basis: NaturalSpline, coordinates: Coordinates, offset: Array, shape: Shape, u: Array
) -> Constraints | None:
    """Constraints on B-spline coefficients that ``u`` needs, or None.

    A spline lies within the range of its B-spline coefficients, and never decreases
    if they never do. These conditions are sufficient, not necessary, so they are
    imposed only where the free curve really breaks the shape. (The end coefficients
    follow from the natural conditions and rise if their neighbours do.) Bounds hold
    where there are data, on [0, 1]; beyond, the curve is clipped.
    """
    curve = PiecewiseCubic(basis.knots, basis.pieces @ (offset + coordinates.T @ u))
    rows, least = [], []
    if shape.monotone and curve.smallest_slope < 0.0:
        gaps = np.diff(basis.greville[1:-1])
        rows.append(np.diff(coordinates.T, axis=0) / gaps[:, None])
        least.append(MIN_SLOPE - np.diff(offset) / gaps)
    if shape.bounds is not None:
        low, high = curve.extremes()
        if low < shape.bounds[0] or high > shape.bounds[1] or rows:
            seen = basis.supported(0.0, 1.0)
            to_bspline = (basis.elimination @ coordinates.T)[seen]
            bspline_offset = (basis.elimination @ offset)[seen]
            rows += [to_bspline, -to_bspline]
            least += [shape.bounds[0] - bspline_offset, bspline_offset - shape.bounds[1]]
    return Constraints(np.vstack(rows), np.concatenate(least)) if rows else None


def risen(basis: NaturalSpline, c: Array) -> Array:
    """Coefficients next to ``c`` that rise strictly, whatever a solver's rounding left."""
    gaps = np.diff(basis.greville[1:-1])
    slopes = np.maximum(np.diff(c) / gaps, MIN_SLOPE)
    return np.concatenate([c[:1], c[0] + np.cumsum(slopes * gaps)])


def feasible_line(basis: NaturalSpline, coordinates: Coordinates, offset: Array, rate: float, shape: Shape) -> Array:
    """Coordinates of an almost constant, rising line at the base rate."""
    if shape.bounds is None:
        level = float(np.log(rate / (1.0 - rate)))
        rise = 100.0 * MIN_SLOPE
    else:
        level = float(np.clip(rate, *shape.bounds))
        rise = min(100.0 * MIN_SLOPE, shape.bounds[1] - level, level - shape.bounds[0])
    target = np.array([level - 0.5 * rise, rise]) @ basis.line - offset
    u = np.zeros(len(coordinates.prior))
    u[:2] = np.linalg.lstsq(coordinates.T[:, :2], target, rcond=None)[0]
    return u
