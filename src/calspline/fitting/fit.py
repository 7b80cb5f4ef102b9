"""From sums per bin to a fitted piecewise cubic: where its knots are, its shape, and how sure it is."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from calspline.arrays import Array, Counts
from calspline.fitting.basis import NaturalSpline, PiecewiseCubic, PiecewiseDesign
from calspline.fitting.newton import Constraints, Loss, Problem, brier_loss, minimize
from calspline.fitting.smoothing import Choice, Coordinates, curvature_coordinates, ridge_coordinates

FINAL_TOLERANCE = 1e-6
CELLS_PER_INTERVAL, OUTER_CELLS = 12, 64
FEWEST_MERGED = 256
TUBE_POINTS = 128
MIN_CUBED, MAX_CUBED = 1e-50, 1e4
"""Range, and size, of scores whose cubes the paper's penalty is taken on. Others are scaled to run from 0 to 1 for it:
their cubes are no numbers, or so large that what multiplies them would go without a penalty."""
MIN_SLOPE = 1e-7
"""Slope, per range of x, that a monotone curve keeps, so that rounding cannot turn it."""
LOG_RATIOS = np.arange(-25.0, 25.1, 0.25)
MIN_BEND, MAX_BEND = 0.02, 0.8
"""Smoothings count whose curvature has at least so many effective parameters, and at most this share of all: beyond,
they are all alike."""
MAX_KNOTS = 512
CELLS = 256
CLOSEST = 1e-3
"""Least distance of two chosen knots, as a share of the range."""


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


def averaged_root(root: Array, u: Array, penalty: Array, scale: float) -> Array:
    """``R`` with ``R R'`` the covariance about the fit, averaged over smoothings.

    At a fixed smoothing the coefficients have the posterior covariance ``(H + Q)^{-1}``, with ``H`` the data's
    information. Taking the chosen smoothing for certain makes bands too narrow where a bend was taken for chance. So
    the covariance is averaged over smoothings, each with the weight that the marginal likelihood gives it (Kass and
    Steffey, *Approximate Bayesian inference in conditionally independent hierarchical models*, JASA 84, 1989).

    With ``R R' = (H + Q)^{-1}``, and ``R' (lambda S) R`` diagonalised to shares ``s`` in [0, 1], a smoothing ``r``
    times the chosen one has, to second order about the fit ``a``,

        precision  d = 1 - s + r s,    fit  a / d,
        criterion  1/2 sum(log d - a^2 / d) - rank/2 log r,

    so that all smoothings cost one small eigenvalue problem.

    Parameters
    ----------
    root : array of shape (K, K)
        ``R R' = (H + Q)^{-1}`` at the chosen smoothing.
    u : array of shape (K,)
        The fit there.
    penalty : array of shape (K,)
        The part of the diagonal ``Q`` that the smoothing multiplies.
    scale : float
        Of the loss: the log-likelihood is the loss over it.
    """
    rank = int(np.count_nonzero(penalty))
    shares, vectors = np.linalg.eigh(root.T @ (penalty[:, None] * root))
    s = np.clip(shares, 0.0, 1.0)
    basis = root @ vectors
    a = vectors.T @ np.linalg.solve(root, u)
    d = 1.0 - s + np.exp(LOG_RATIOS)[:, None] * s
    bend = ((1.0 - s) / d).sum(axis=1) - (len(s) - rank)
    usable = (bend >= MIN_BEND) & (bend <= MAX_BEND * rank) | (LOG_RATIOS == 0.0)
    d = d[usable]
    criterion = 0.5 * (np.log(d) - a**2 / (scale * d)).sum(axis=1) - 0.5 * rank * LOG_RATIOS[usable]
    weight = np.exp(criterion.min() - criterion)
    weight /= weight.sum()
    moved = a / d - a
    spread = np.diag(scale * (weight @ (1.0 / d))) + (moved.T * weight) @ moved
    return np.asarray(basis @ np.linalg.cholesky(spread))


def default_count(total_weight: float) -> int:
    """Knots for this many rows: 24 up to 10,000, then slowly more, 64 at most.

    The penalty decides how much the curve bends; knots only have to leave it room.
    """
    return int(np.clip(round(24.0 * (max(total_weight, 1.0) / 1e4) ** 0.2), 24, 64))


def quantile_knots(x: Array, w: Array, count: int) -> Array:
    """Knots at quantiles of the square root of the density of sorted ``x``, ends included.

    The square root moves knots from crowded places to sparse ones, where scores
    are extreme and the curve still has to be right. The density is that of
    256 equal cells, so knots hardly depend on how ``x`` was binned. With no more
    values than knots, the values are the knots.
    """
    values = x[np.diff(x, prepend=-np.inf) > 0.0]
    count = min(count, MAX_KNOTS)
    if len(values) <= count:
        return apart(values, values[-1] - values[0])
    low, high = values[0], values[-1]
    edges = np.linspace(low, high, CELLS + 1)
    cell = np.minimum((x - low) / (high - low) * CELLS, CELLS - 1.0).astype(np.intp)
    mass = np.sqrt(np.bincount(cell, weights=w, minlength=CELLS))
    share = np.concatenate([[0.0], np.cumsum(mass)])
    knots = np.interp(np.linspace(0.0, share[-1], count), share, edges)
    knots[0], knots[-1] = low, high
    return apart(knots, high - low)


def sampled_knots(x: Array, count: int, rng: np.random.Generator) -> Array:
    """The paper's step 1: a random sample of the distinct values."""
    values = np.unique(x)
    count = min(count, MAX_KNOTS)
    if len(values) > count:
        chosen = apart(np.sort(rng.choice(values, size=count, replace=False)), values[-1] - values[0])
        return chosen if len(chosen) > 1 else values[[0, -1]]
    return apart(values, values[-1] - values[0])


def apart(knots: Array, span: float) -> Array:
    """Drop knots that crowd their neighbours, on data of this span; the last one stays."""
    least = CLOSEST * span
    kept = [knots[-1]]
    for knot in knots[-2::-1]:
        if kept[-1] - knot >= least:
            kept.append(knot)
    # The first stays too, at the cost of the one that crowds it.
    if len(kept) > 1 and kept[-1] != knots[0]:
        kept[-1] = knots[0]
    return np.array(kept[::-1])
