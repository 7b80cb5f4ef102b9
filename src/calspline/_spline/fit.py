"""From sums per bin to a fitted piecewise cubic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calspline._spline.basis import NaturalSpline
from calspline._spline.coordinates import CoordinateDesign, Coordinates, curvature_coordinates, ridge_coordinates
from calspline._spline.penalized import Constraints, Loss, Problem, brier_loss, minimize
from calspline._spline.smoothing import FINAL_TOLERANCE, Choice

Array = NDArray[np.float64]

TUBE_POINTS = 128
LEAST_SLOPE = 1e-7
"""Slope, per range of x, that a monotone curve keeps, so that rounding cannot turn it."""


@dataclass(frozen=True)
class Bins:
    """The data: sorted places ``x`` with the weight of positives and negatives at each."""

    x: Array
    positives: Array
    negatives: Array

    @property
    def w(self) -> Array:
        """Weight in each bin."""
        return self.positives + self.negatives

    @property
    def base_rate(self) -> float:
        """Share of positives."""
        return float(self.positives.sum() / self.w.sum())


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


@dataclass(frozen=True)
class SplineFit:
    """A fitted curve in local coefficients, with its variance and how it was chosen.

    The curve is a function of ``z = (x - origin) / unit``, as are the breaks.
    ``coefficients`` has shape (4, K+1), highest power first: the line before the first
    break, the pieces between, the line after the last. ``variance`` is laid out the
    same way with powers 6 to 0, and ``tube`` is the length of the curve that the
    normalised basis draws on the sphere (for simultaneous bands).
    """

    origin: float
    unit: float
    breaks: Array
    coefficients: Array
    variance: Array
    tube: float
    edf: float
    choice: Choice
    converged: bool
    n_iter: int


def fit_spline(
    bins: Bins, knots: Array, shape: Shape, choose: Callable[[Problem, Coordinates, Bins], Choice]
) -> SplineFit:
    """Fit a natural cubic spline with these knots to binned data.

    Parameters
    ----------
    bins : Bins
    knots : array of shape (K,)
        In the units of ``bins.x``, strictly increasing.
    shape : Shape
    choose : callable
        Chooses the smoothing: ``choose(problem, coordinates, bins) -> Choice``.
    """
    low, unit = bins.x[0], bins.x[-1] - bins.x[0]
    basis = NaturalSpline((knots - low) / unit)
    z = (bins.x - low) / unit
    banded = basis.design(z)
    if shape.ridge:
        coordinates = ridge_coordinates(basis, low, unit)
    else:
        coordinates = curvature_coordinates(basis, banded, z, bins.w)
    intercept, slope = shape.line
    low_target, high_target = shape.targets
    problem = Problem(
        CoordinateDesign(banded, coordinates.T),
        intercept + slope * bins.x,
        bins.w,
        high_target * bins.positives + low_target * bins.negatives,
        shape.loss,
    )
    choice = choose(problem, coordinates, bins)
    offset = np.array([intercept + slope * low, slope * unit]) @ basis.line
    solution = choice.solution
    constraints = _shape_constraints(basis, coordinates, offset, shape, solution.point.u)
    if constraints is not None:
        start = _feasible_line(basis, coordinates, offset, bins, shape)
        q = coordinates.precision(choice.smoothing)
        solution = minimize(problem, q, problem.at(start), tolerance=FINAL_TOLERANCE, constraints=constraints)

    covariance = solution.covariance()
    scale = 2.0 * solution.objective / problem.w.sum() if shape.loss is brier_loss else 1.0
    root = np.linalg.cholesky(scale * covariance)
    root = coordinates.T @ root
    return SplineFit(
        origin=float(low),
        unit=float(unit),
        breaks=basis.knots,
        coefficients=basis.pieces @ (offset + coordinates.T @ solution.point.u),
        variance=_square((basis.pieces @ root).swapaxes(0, 1)),
        tube=_tube_length(basis, root),
        edf=float(len(knots) - coordinates.precision(choice.smoothing) @ np.diagonal(covariance)),
        choice=choice,
        converged=solution.converged,
        n_iter=solution.n_iter,
    )


def _shape_constraints(
    basis: NaturalSpline, coordinates: Coordinates, offset: Array, shape: Shape, u: Array
) -> Constraints | None:
    """Constraints on B-spline coefficients that ``u`` needs, or None.

    A spline lies within the range of its B-spline coefficients, and never decreases
    if they never do. These conditions are sufficient, not necessary, so they are
    imposed only where the free curve really breaks the shape.
    """
    values = basis.pieces @ (offset + coordinates.T @ u)
    to_bspline = basis.elimination @ coordinates.T
    bspline_offset = basis.elimination @ offset
    rows, least = [], []
    if shape.monotone and smallest_slope(basis.knots, values) < 0.0:
        gaps = np.diff(basis.greville)
        rows.append(np.diff(to_bspline, axis=0) / gaps[:, None])
        least.append(LEAST_SLOPE - np.diff(bspline_offset) / gaps)
    if shape.bounds is not None:
        low, high = extremes(basis.knots, values)
        if low < shape.bounds[0] or high > shape.bounds[1] or rows:
            rows += [to_bspline, -to_bspline]
            least += [shape.bounds[0] - bspline_offset, bspline_offset - shape.bounds[1]]
    return Constraints(np.vstack(rows), np.concatenate(least)) if rows else None


def _feasible_line(basis: NaturalSpline, coordinates: Coordinates, offset: Array, bins: Bins, shape: Shape) -> Array:
    """Coordinates of an almost constant, rising line at the base rate."""
    rate = bins.base_rate
    if shape.bounds is None:
        level = float(np.log(rate / (1.0 - rate)))
        rise = 100.0 * LEAST_SLOPE
    else:
        level = float(np.clip(rate, *shape.bounds))
        rise = min(100.0 * LEAST_SLOPE, shape.bounds[1] - level, level - shape.bounds[0])
    target = np.array([level - 0.5 * rise, rise]) @ basis.line - offset
    u = np.zeros(len(coordinates.prior))
    u[:2] = np.linalg.lstsq(coordinates.T[:, :2], target, rcond=None)[0]
    return u


def smallest_slope(breaks: Array, coefficients: Array) -> float:
    """Least derivative of a piecewise cubic, exactly, over the whole line."""
    a, b, c = coefficients[:3]
    t_end = np.concatenate([[0.0], np.diff(breaks), [0.0]])
    # The derivative 3a t^2 + 2b t + c is least at an end of the piece or at its vertex.
    with np.errstate(divide="ignore", invalid="ignore"):
        vertex = np.where(a != 0.0, -b / (3.0 * a), 0.0)
    vertex = np.clip(vertex, 0.0, t_end)
    slopes = [(3.0 * a * t + 2.0 * b) * t + c for t in (np.zeros_like(t_end), vertex, t_end)]
    return float(np.min(slopes))


def extremes(breaks: Array, coefficients: Array) -> tuple[float, float]:
    """Least and largest value of a piecewise cubic between the end breaks."""
    a, b, c, d = coefficients[:, 1:-1]
    t_end = np.diff(breaks)
    with np.errstate(divide="ignore", invalid="ignore"):
        root = np.sqrt(b * b - 3.0 * a * c)
        stationary = [(-b + root) / (3.0 * a), (-b - root) / (3.0 * a), -c / (2.0 * b)]
    places = [np.zeros_like(t_end), t_end] + [np.clip(np.nan_to_num(t), 0.0, t_end) for t in stationary]
    values = np.array([((a * t + b) * t + c) * t + d for t in places])
    return float(values.min()), float(values.max())


def _square(local: Array) -> Array:
    """Polynomial coefficients of the squared length of ``sum_m local[:, m] t^(3-m)``."""
    covariance = np.einsum("imk,ink->imn", local, local)
    return np.array([sum(covariance[:, m, p - m] for m in range(4) if 0 <= p - m < 4) for p in range(7)])


def _tube_length(basis: NaturalSpline, root: Array) -> float:
    """Length of ``z(x) / |z(x)|`` for ``z = root' basis(x)`` over the range of the knots."""
    x = np.linspace(basis.knots[0], basis.knots[-1], TUBE_POINTS)
    rows = basis.design(x).dot(root)
    rows /= np.sqrt((rows * rows).sum(axis=1, keepdims=True))
    return float(np.sqrt((np.diff(rows, axis=0) ** 2).sum(axis=1)).sum())
