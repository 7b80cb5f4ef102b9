"""From sums per bin to a fitted piecewise cubic."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from calspline.arrays import Array
from calspline.counts import Counts
from calspline.fitting.basis import NaturalSpline, PiecewiseDesign
from calspline.fitting.constraints import Shape, feasible_line, risen, shape_constraints
from calspline.fitting.coordinates import Coordinates, curvature_coordinates, ridge_coordinates
from calspline.fitting.newton import Problem, brier_loss, minimize
from calspline.fitting.smoothing import Choice
from calspline.fitting.uncertainty import averaged_root

FINAL_TOLERANCE = 1e-6
CELLS_PER_INTERVAL, OUTER_CELLS = 12, 64
FEWEST_MERGED = 256
TUBE_POINTS = 128
MIN_CUBED, MAX_CUBED = 1e-50, 1e4
"""Range, and size, of scores whose cubes the paper's penalty is taken on. Others are scaled to run from 0 to 1 for it:
their cubes are no numbers, or so large that what multiplies them would go without a penalty."""


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


class SplineTask:
    """A natural cubic spline to be fitted to bins.

    Parameters
    ----------
    bins : Counts
        Sorted places; the same one may come twice.
    knots : array of shape (K,)
        In the units of ``bins.x``, strictly increasing.
    shape : Shape
    """

    def __init__(self, bins: Counts, knots: Array, shape: Shape) -> None:
        self.bins: Counts = bins
        self.shape: Shape = shape
        self.origin = float(bins.x[0])
        self.unit = float(bins.x[-1] - bins.x[0])
        self.basis = NaturalSpline((knots - self.origin) / self.unit)
        self._z = (bins.x - self.origin) / self.unit
        self._design = self.basis.design(self._z)
        self.coordinates: Coordinates
        if shape.ridge and self.unit > MIN_CUBED and max(-self.origin, float(bins.x[-1])) < MAX_CUBED:
            self.coordinates = ridge_coordinates(self.basis, self.origin, self.unit)
        elif shape.ridge:
            self.coordinates = ridge_coordinates(self.basis, 0.0, 1.0)
        else:
            self.coordinates = curvature_coordinates(
                self.basis, self._design, self._z, bins.w, shape.line[1] * self.unit
            )

    @cached_property
    def problem(self) -> Problem:
        """The fit to all bins."""
        return self._problem(self._design, self.bins)

    @cached_property
    def merged(self) -> Problem:
        """The fit to bins merged to twelve cells between knots: all a choice of smoothing needs.

        Within a cell a curve with these knots is a line for all practical purposes.
        """
        if len(self._z) < FEWEST_MERGED:
            return self.problem
        edges = np.concatenate(
            [
                np.linspace(0.0, self.basis.knots[0], OUTER_CELLS, endpoint=False),
                _subdivided(self.basis.knots, CELLS_PER_INTERVAL),
                np.linspace(self.basis.knots[-1], 1.0, OUTER_CELLS),
            ]
        )
        first = np.unique(np.searchsorted(self._z, edges))
        first = first[first < len(self._z)]
        if len(first) > len(self._z) // 2:
            return self.problem
        z = np.add.reduceat(self.bins.w * self._z, first) / np.add.reduceat(self.bins.w, first)
        return self._problem(self.basis.design(z), self.bins.merged(first, self.origin + self.unit * z))

    def _problem(self, design: PiecewiseDesign, bins: Counts) -> Problem:
        intercept, slope = self.shape.line
        low, high = self.shape.targets
        return Problem(
            design.in_coordinates(self.coordinates.T),
            intercept + slope * bins.x,
            bins.w,
            high * bins.positives + low * bins.negatives,
            self.shape.loss,
        )

    def finish(self, choice: Choice, *, learnt: bool = False) -> SplineFit:
        """Fit all bins at the chosen smoothing; the variance knows if that was ``learnt`` from these bins by REML."""
        basis, coordinates, shape, problem = self.basis, self.coordinates, self.shape, self.problem
        q = coordinates.precision(choice.smoothing)
        solution = minimize(problem, q, problem.at(choice.u), tolerance=FINAL_TOLERANCE)
        intercept, slope = shape.line
        offset = np.array([intercept + slope * self.origin, slope * self.unit]) @ basis.line
        constraints = shape_constraints(basis, coordinates, offset, shape, solution.point.u)
        if constraints is not None:
            start = problem.at(feasible_line(basis, coordinates, offset, self.bins.base_rate, shape))
            solution = minimize(problem, q, start, tolerance=FINAL_TOLERANCE, constraints=constraints)
        c = offset + coordinates.T @ solution.point.u
        if constraints is not None and shape.monotone:
            c = risen(basis, c)

        scale = 2.0 * solution.objective / problem.w.sum() if shape.loss is brier_loss else 1.0
        covariance_root = solution.covariance_root()
        root = np.sqrt(scale) * covariance_root
        if learnt and constraints is None and coordinates.strength.any():
            penalty = choice.smoothing * coordinates.strength
            root = averaged_root(covariance_root, solution.point.u, penalty, scale)
        root = coordinates.T @ root
        return SplineFit(
            origin=self.origin,
            unit=self.unit,
            breaks=basis.knots,
            coefficients=basis.pieces @ c,
            variance=_square((basis.pieces @ root).swapaxes(0, 1)),
            tube=_tube_length(basis, root),
            edf=float(basis.size - q @ (covariance_root**2).sum(axis=1)),
            choice=choice,
            converged=solution.converged,
            n_iter=solution.n_iter,
        )


def _subdivided(knots: Array, parts: int) -> Array:
    """Each interval between knots in equal parts: their left ends."""
    return np.asarray(
        (knots[:-1, None] + np.diff(knots)[:, None] * np.linspace(0.0, 1.0, parts, endpoint=False)).ravel()
    )


def _square(local: Array) -> Array:
    """Polynomial coefficients of the squared length of ``sum_m local[:, m] t^(3-m)``."""
    covariance = np.einsum("imk,ink->imn", local, local)
    return np.array([sum(covariance[:, m, p - m] for m in range(4) if 0 <= p - m < 4) for p in range(7)])


def _tube_length(basis: NaturalSpline, root: Array) -> float:
    """Length of ``z(x) / |z(x)|`` for ``z = root' basis(x)`` over the range of the knots."""
    x = np.linspace(basis.knots[0], basis.knots[-1], TUBE_POINTS)
    rows = basis.design(x).dot(root)
    rows /= np.maximum(np.sqrt((rows * rows).sum(axis=1, keepdims=True)), np.finfo(float).tiny)
    return float(np.sqrt((np.diff(rows, axis=0) ** 2).sum(axis=1)).sum())
