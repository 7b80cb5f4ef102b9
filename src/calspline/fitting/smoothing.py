"""How smooth: the penalty, and its choice by REML, k-fold cross-validation or approximate leave-one-out.

A spline ``g = X T u`` is fitted in coordinates ``u`` where the penalty is
``1/2 sum_j (prior_j + lambda * strength_j) u_j^2``. Solving there, and not for the
B-spline coefficients ``T u``, keeps the Hessian well conditioned for any lambda and
any spacing of the knots. (In B-spline coordinates the curvature penalty has
entries of order ``lambda / gap^3``, and a Cholesky factor loses the information on
the line once that exceeds the data's by 1e16.)

A search asks for the fits it needs and is sent their solutions: so one search runs
:func:`alone`, and many run side by side, a fit of each at a time
(:func:`~calspline.fitting.batched_newton.together`).

:data:`CRITERIA` has the criteria by name. A new one is one more entry there: ``SplineCalibrator(smoothing=name)``, the
command line and the pictures read it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import cached_property
from math import log
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.linalg.lapack import dpotrf, dtrtri

from calspline.arrays import Array
from calspline.fitting.averaging import Average, average
from calspline.fitting.basis import NaturalSpline, PiecewiseDesign, natural_cubic_basis
from calspline.fitting.folds import Fold, task_folds
from calspline.fitting.newton import Local, Newton, Point, Problem, Solution, brier_loss, minimize

if TYPE_CHECKING:
    from calspline.fitting.fit import SplineTask

RIDGE_PRIOR = 1e-8
UNDETERMINED = 1e-13
"""Share of the Hessian's diagonal that rounding may add or take away."""
"""Precision of the paper's free intercept: none to speak of, but it stays finite."""
USUAL_SPREAD = 4.0
"""Standard deviation of log-odds up to which a model is a usual one."""
WEAK_PRIOR = 0.2
"""Precision of the affine part, ``0.1 (a^2 + b^2)``: it keeps a perfectly separated
fit finite and is worth less than one observation."""
SMOOTHING_LIMITS = 1e-10, 1e15
DEFAULT_GRID = 10.0 ** np.arange(-8.0, 6.25, 0.5)
DECADES = 10.0 ** np.arange(-8.0, 6.5)
"""Smoothings that fits are averaged over."""
SEARCH_TOLERANCE = 1e-2
COARSE_STRIDE = 4
TIE = 0.01
"""Nats that do not count: among values this close to the best the smoothest is taken."""
HOPELESS = 20.0
"""Nats above the best at which the search for less smoothing gives up."""
NEGLIGIBLE = 12.0
"""The same for an average: the weight of such a fit is 6e-6."""


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
    weighted_line = design.tdot(np.vstack([w, w * (x - mean) / sd]))
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
    gamma[1:-1] = dtrtri(dpotrf(basis.mass, lower=1)[0], lower=1)[0].T
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


@dataclass(frozen=True)
class Choice:
    """A smoothing parameter, about where its fit is, what else was looked at, and the average of it all, if wanted."""

    smoothing: float
    u: Array
    grid: Array
    criterion: Array
    average: Average | None = None


class Request(NamedTuple):
    """A fit that a search needs, up to ``SEARCH_TOLERANCE``."""

    problem: Problem
    q: Array
    start: Point


Search = Generator[Request, Solution, Choice]
Step = Generator[Request, Solution, Solution]


class SearchOptions(NamedTuple):
    """What a user may say about a search: values to try (None: as the criterion likes), folds and their seed."""

    grid: Array | None = None
    cv: int = 5
    seed: int = 0

    @property
    def values(self) -> Array:
        """The values to try, within limits."""
        return DEFAULT_GRID if self.grid is None else np.unique(np.clip(self.grid, *SMOOTHING_LIMITS))


@dataclass(frozen=True)
class Criterion:
    """A way to choose the smoothing.

    Parameters
    ----------
    name : str
        As in ``SplineCalibrator(smoothing=name)``.
    label : str
        What a picture writes at its axis; lower is better.
    search : callable
        Makes the search of a :class:`~calspline.fitting.fit.SplineTask`, given :class:`SearchOptions`.
    is_evidence : bool
        Whether it is the negative log marginal likelihood, sought on the merged bins of a task. By that transforms are
        compared, bands know that the smoothing was learnt, and a curve that needs more knots gets them.
    leaves_one_out : bool
        Whether single rows, or single groups of rows, are left out in turn.
    """

    name: str
    label: str
    search: Callable[[SplineTask, SearchOptions], Search]
    is_evidence: bool = False
    leaves_one_out: bool = False


def alone(search: Search) -> Choice:
    """Run one search."""
    try:
        request = next(search)
        while True:
            request = search.send(minimize(*request, tolerance=SEARCH_TOLERANCE))
    except StopIteration as end:
        choice: Choice = end.value
        return choice


def fixed(problem: Problem, coordinates: Coordinates, smoothing: float) -> Search:
    """No choice at all; the criterion is REML's, for the record.

    Least squares without a prior (``penalty="ridge"``) leave a curve undetermined where rounding hides the smoothing,
    so it is raised until it does not.
    """
    smoothing = float(np.clip(smoothing, *SMOOTHING_LIMITS))
    if problem.loss is brier_loss:
        gram = problem.design.gram(problem.w)
        while not _determined(gram, coordinates.precision(smoothing)):
            smoothing *= 10.0
    path = _Path(problem, coordinates, np.array([smoothing]))
    solution = yield from path.at(0)
    return (yield from path.choose({0: reml_score(problem, coordinates, smoothing, solution)}))


def _determined(gram: Array, q: Array) -> bool:
    """Whether the minimum of a quadratic is one, and not any of those that rounding takes for it."""
    H = gram + np.diag(q)
    np.einsum("ii->i", H)[:] *= 1.0 - UNDETERMINED
    return int(dpotrf(H, lower=1)[1]) == 0


def reml(problem: Problem, coordinates: Coordinates, grid: Array, *, exhaustive: bool) -> Search:
    """Smoothing that maximises the Laplace-approximate marginal likelihood.

    Unless ``exhaustive``, every fourth value of the grid is tried first, from smooth to
    rough until it is hopeless, and then those around the best: the criterion is
    smooth on the scale of a decade or two.
    """
    path = _Path(problem, coordinates, grid)
    criterion: dict[int, float] = {}

    def visit(i: int) -> Generator[Request, Solution, None]:
        solution = yield from path.at(i)
        criterion[i] = reml_score(problem, coordinates, float(grid[i]), solution)

    if exhaustive:
        for i in reversed(range(len(grid))):
            yield from visit(i)
        return (yield from path.choose(criterion, TIE))
    for i in range(len(grid) - 1, -1, -COARSE_STRIDE):
        yield from visit(i)
        if criterion[i] > min(criterion.values()) + HOPELESS:
            break
    stride = COARSE_STRIDE
    while stride > 1:
        stride //= 2
        best = _smoothest(criterion, TIE)
        for i in (best - stride, best + stride):
            if 0 <= i < len(grid):
                yield from visit(i)
    return (yield from _between(path, criterion))


def averaged(problem: Problem, coordinates: Coordinates, grid: Array, spreads: Array, *, exhaustive: bool) -> Search:
    """The average over smoothings, and over prior spreads of the line, by their marginal likelihood.

    The fits go from smooth to rough, unless ``exhaustive`` only until it is hopeless. The criterion of a smoothing is
    that of all spreads together, and the choice is the best of the fits.
    """
    path = _Path(problem, coordinates, grid)
    scores: dict[int, float] = {}
    for i in reversed(range(len(grid))):
        solution = yield from path.at(i)
        scores[i] = reml_score(problem, coordinates, float(grid[i]), solution)
        if not exhaustive and scores[i] > min(scores.values()) + NEGLIGIBLE:
            break
    seen = sorted(scores)
    fits, tried = [path.fits[i] for i in seen], grid[seen]
    mean = average(fits, np.array([scores[i] for i in seen]), tried, coordinates, spreads)
    best = int(np.argmin(mean.criterion))
    return Choice(float(tried[best]), fits[best].point.u, tried, mean.criterion, mean)


def _reml_search(task: SplineTask, options: SearchOptions) -> Search:
    exhaustive = options.grid is not None
    if task.shape.spreads is None:
        return reml(task.merged, task.coordinates, options.values, exhaustive=exhaustive)
    grid = options.values if exhaustive else DECADES
    return averaged(task.merged, task.coordinates, grid, task.shape.spreads, exhaustive=exhaustive)


def _between(path: _Path, criterion: dict[int, float]) -> Search:
    """The smoothing at the vertex of the parabola through the best value and its neighbours."""
    best = min(sorted(criterion), key=criterion.__getitem__)
    at_the_end = _smoothest(criterion, TIE) == len(path.grid) - 1
    if at_the_end or best - 1 not in criterion or best + 1 not in criterion:
        return (yield from path.choose(criterion, TIE))
    before, after = criterion[best - 1], criterion[best + 1]
    step = 0.5 * (before - after) / (before - 2.0 * criterion[best] + after)
    smoothing = float(path.grid[best] * (path.grid[best + 1] / path.grid[best]) ** step)
    start = yield from path.at(best)
    solution = yield Request(path.problem, path.coordinates.precision(smoothing), start.point)
    score = reml_score(path.problem, path.coordinates, smoothing, solution)
    tried = sorted([(float(path.grid[i]), value) for i, value in criterion.items()] + [(smoothing, score)])
    grid, scores = np.array(tried).T
    return Choice(smoothing, solution.point.u, grid, scores)


def reml_score(problem: Problem, coordinates: Coordinates, smoothing: float, solution: Solution) -> float:
    """Negative log marginal likelihood, by Laplace, up to a constant.

    ``F(u) + 1/2 log|Z'VZ + Q| - 1/2 log|Q|``, with the pseudo-determinant of ``Q``. For the
    Brier loss the error variance is profiled out: ``n/2 log(2 F / n)`` replaces ``F``.
    """
    fit = solution.objective
    if problem.loss is brier_loss:
        n = float(problem.w.sum())
        fit = 0.5 * n * np.log(max(2.0 * fit / n, np.finfo(float).tiny))
    return float(fit + 0.5 * solution.log_det - 0.5 * coordinates.log_precision(smoothing))


def leave_one_out(problem: Problem, coordinates: Coordinates, grid: Array, positives: Array) -> Search:
    """Smoothing with the least approximate leave-one-out loss.

    Leaving out one observation with label ``y`` from a bin with predictor ``eta``,
    ``mu`` and ``v`` (first and second derivative of its loss) moves ``eta`` to about
    ``eta + h (mu - y) / (1 - h v)``, ``h`` being the leverage ``z' H^{-1} z`` of its row: one
    Newton step, exact for the Brier loss.
    """
    path = _Path(problem, coordinates, grid)
    rows = problem.design.rows
    ones, zeros = np.ones_like(problem.w), np.zeros_like(problem.w)
    negatives = problem.w - positives
    criterion = {}
    for i in reversed(range(len(grid))):
        solution = yield from path.at(i)
        leverage = solution.leverages(rows)
        each: Local = problem.loss(solution.point.eta, ones, zeros)
        gain = leverage / np.maximum(1.0 - leverage * each.curvature, 1e-8)
        if_positive = problem.loss(solution.point.eta + gain * (each.slope - 1.0), positives, positives).value
        if_negative = problem.loss(solution.point.eta + gain * each.slope, negatives, zeros).value
        criterion[i] = float((if_positive + if_negative) / problem.w.sum())
    return (yield from path.choose(criterion))


def leave_parts_out(problem: Problem, coordinates: Coordinates, grid: Array, parts: list[Fold]) -> Search:
    """Smoothing with the least approximate loss on parts left out, such as groups: one Newton step from the fit."""
    path = _Path(problem, coordinates, grid)
    criterion = {}
    for i in reversed(range(len(grid))):
        solution = yield from path.at(i)
        criterion[i] = 0.0
        for part in parts:
            newton = Newton(part.problem, coordinates.precision(float(grid[i])), part.problem.at(solution.point.u))
            newton.aim()
            eta = newton.point.eta + part.problem.design.dot(newton.step)
            criterion[i] += float(problem.loss(eta, part.w, part.positives).value / problem.w.sum())
    return (yield from path.choose(criterion))


def _leave_out_search(task: SplineTask, options: SearchOptions) -> Search:
    if task.parts is None:
        return leave_one_out(task.problem, task.coordinates, options.values, task.bins.positives)
    return leave_parts_out(task.problem, task.coordinates, options.values, task_folds(task, options.cv, options.seed))


def cross_validation(problem: Problem, coordinates: Coordinates, grid: Array, folds: list[Fold]) -> Search:
    """Smoothing with the least loss on folds held out."""
    paths = [_Path(fold.problem, coordinates, grid) for fold in folds]
    criterion = dict.fromkeys(reversed(range(len(grid))), 0.0)
    for i in criterion:
        for fold, path in zip(folds, paths, strict=True):
            solution = yield from path.at(i)
            lost = fold.problem.loss(solution.point.eta, fold.w, fold.positives).value
            criterion[i] += float(lost / problem.w.sum())
    return (yield from _Path(problem, coordinates, grid).choose(criterion))


def _smoothest(criterion: dict[int, float], tie: float) -> int:
    """The last place whose criterion is within ``tie`` of the least."""
    limit = min(criterion.values()) + tie
    return max(i for i, value in criterion.items() if value <= limit)


class _Path:
    """Fits along a grid of smoothing values, each started from its nearest neighbour."""

    def __init__(self, problem: Problem, coordinates: Coordinates, grid: Array) -> None:
        self.problem = problem
        self.coordinates = coordinates
        self.grid = grid
        self.fits: dict[int, Solution] = {}

    def at(self, i: int) -> Step:
        if i not in self.fits:
            if self.fits:
                start = self.fits[min(self.fits, key=lambda j: abs(j - i))].point
            else:
                start = self.problem.at(np.zeros(len(self.coordinates.prior)))
            self.fits[i] = yield Request(self.problem, self.coordinates.precision(self.grid[i]), start)
        return self.fits[i]

    def choose(self, criterion: dict[int, float], tie: float = 0.0) -> Search:
        best = _smoothest(criterion, tie)
        solution = yield from self.at(best)
        seen = sorted(criterion)
        return Choice(float(self.grid[best]), solution.point.u, self.grid[seen], np.array([criterion[i] for i in seen]))


CRITERIA: dict[str, Criterion] = {
    criterion.name: criterion
    for criterion in (
        Criterion(
            "reml",
            "REML criterion",
            _reml_search,
            is_evidence=True,
        ),
        Criterion(
            "cv",
            "cross-validated log-loss",
            lambda task, options: cross_validation(
                task.problem, task.coordinates, options.values, task_folds(task, options.cv, options.seed)
            ),
        ),
        Criterion(
            "loo",
            "leave-one-out log-loss",
            _leave_out_search,
            leaves_one_out=True,
        ),
    )
}
"""Every criterion by its name."""
EVIDENCE = CRITERIA["reml"]
