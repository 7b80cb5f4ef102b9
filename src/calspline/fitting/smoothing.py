"""How smooth: the choice by REML, k-fold cross-validation or approximate leave-one-out.

:data:`CRITERIA` has the criteria by name. A new one is one more entry there: ``SplineCalibrator(smoothing=name)``, the
command line and the pictures read it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy

from calspline.arrays import Array
from calspline.fitting.groups import Parts
from calspline.fitting.newton import Newton, Problem, Solution, brier_loss
from calspline.fitting.penalty import Average, Coordinates, average

if TYPE_CHECKING:
    from calspline.fitting.fit import SplineTask

UNDETERMINED = 1e-13
"""Share of the Hessian's diagonal that rounding may add or take away."""
SMOOTHING_LIMITS = 1e-10, 1e15
DEFAULT_GRID = 10.0 ** np.arange(-8.0, 6.25, 0.5)
DECADES = 10.0 ** np.arange(-8.0, 6.5)
"""Smoothings that fits are averaged over."""
SEARCH_TOLERANCE = 1e-2
STRIDES = 4, 2, 1
"""Steps along the grid when it is searched from coarse to fine."""
TIE = 0.01
"""Nats that do not count: among values this close to the best the smoothest is taken."""
HOPELESS = 20.0
"""Nats above the best at which the search for less smoothing gives up."""
NEGLIGIBLE = 12.0
"""The same for an average: the weight of such a fit is 6e-6."""


@dataclass(frozen=True)
class Choice:
    """A smoothing parameter, about where its fit is, what else was looked at, and the average of it all, if wanted."""

    smoothing: float
    u: Array
    grid: Array
    criterion: Array
    average: Average | None = None


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
        Finds the :class:`Choice` for a :class:`~calspline.fitting.fit.SplineTask`, given :class:`SearchOptions`.
    is_evidence : bool
        Whether it is the negative log marginal likelihood, sought on the merged bins of a task. By that transforms are
        compared, bands know that the smoothing was learnt, and a curve that needs more knots gets them.
    leaves_one_out : bool
        Whether single rows, or single groups of rows, are left out in turn.
    """

    name: str
    label: str
    search: Callable[[SplineTask, SearchOptions], Choice]
    is_evidence: bool = False
    leaves_one_out: bool = False


def fixed(problem: Problem, coordinates: Coordinates, smoothing: float) -> Choice:
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
    return path.choose({0: path.evidence(0)})


def _determined(gram: Array, q: Array) -> bool:
    """Whether the minimum of a quadratic is one, and not any of those that rounding takes for it."""
    H = gram + np.diag(q)
    np.einsum("ii->i", H)[:] *= 1.0 - UNDETERMINED
    return int(scipy.linalg.lapack.dpotrf(H, lower=1)[1]) == 0


def reml(problem: Problem, coordinates: Coordinates, grid: Array, *, exhaustive: bool) -> Choice:
    """Smoothing that maximises the Laplace-approximate marginal likelihood.

    Unless ``exhaustive``, every fourth value of the grid is tried first, from smooth to
    rough until it is hopeless, and then those around the best: the criterion is
    smooth on the scale of a decade or two.
    """
    path = _Path(problem, coordinates, grid)
    if exhaustive:
        return path.choose({i: path.evidence(i) for i in path.downwards}, TIE)
    criterion: dict[int, float] = {}
    for i in path.downwards[:: STRIDES[0]]:
        criterion[i] = path.evidence(i)
        if criterion[i] > min(criterion.values()) + HOPELESS:
            break
    for stride in STRIDES[1:]:
        best = _smoothest(criterion, TIE)
        criterion |= {i: path.evidence(i) for i in (best - stride, best + stride) if 0 <= i < len(grid)}
    return _between(path, criterion)


def averaged(problem: Problem, coordinates: Coordinates, grid: Array, spreads: Array, *, exhaustive: bool) -> Choice:
    """The average over smoothings, and over prior spreads of the line, by their marginal likelihood.

    The fits go from smooth to rough, unless ``exhaustive`` only until it is hopeless. The criterion of a smoothing is
    that of all spreads together, and the choice is the best of the fits.
    """
    path = _Path(problem, coordinates, grid)
    scores: dict[int, float] = {}
    for i in path.downwards:
        scores[i] = path.evidence(i)
        if not exhaustive and scores[i] > min(scores.values()) + NEGLIGIBLE:
            break
    seen = sorted(scores)
    fits, tried = [path.fits[i] for i in seen], grid[seen]
    mean = average(fits, np.array([scores[i] for i in seen]), tried, coordinates, spreads)
    best = int(np.argmin(mean.criterion))
    return Choice(float(tried[best]), fits[best].u, tried, mean.criterion, mean)


def _reml_search(task: SplineTask, options: SearchOptions) -> Choice:
    exhaustive = options.grid is not None
    if task.shape.spreads is None:
        return reml(task.merged, task.coordinates, options.values, exhaustive=exhaustive)
    grid = options.values if exhaustive else DECADES
    return averaged(task.merged, task.coordinates, grid, task.shape.spreads, exhaustive=exhaustive)


def _between(path: _Path, criterion: dict[int, float]) -> Choice:
    """The smoothing at the vertex of the parabola through the best value and its neighbours."""
    best = min(sorted(criterion), key=criterion.__getitem__)
    at_the_end = _smoothest(criterion, TIE) == len(path.grid) - 1
    if at_the_end or best - 1 not in criterion or best + 1 not in criterion:
        return path.choose(criterion, TIE)
    before, after = criterion[best - 1], criterion[best + 1]
    step = 0.5 * (before - after) / (before - 2.0 * criterion[best] + after)
    smoothing = float(path.grid[best] * (path.grid[best + 1] / path.grid[best]) ** step)
    solution = path.fit(smoothing)
    score = reml_score(path.problem, path.coordinates, smoothing, solution)
    tried = sorted([(float(path.grid[i]), value) for i, value in criterion.items()] + [(smoothing, score)])
    grid, scores = np.array(tried).T
    return Choice(smoothing, solution.u, grid, scores)


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


def leave_one_out(problem: Problem, coordinates: Coordinates, grid: Array, positives: Array) -> Choice:
    """Smoothing with the least approximate leave-one-out loss.

    Leaving out one observation with label ``y`` from a bin with predictor ``eta``,
    ``mu`` and ``v`` (first and second derivative of its loss) moves ``eta`` to about
    ``eta + h (mu - y) / (1 - h v)``, ``h`` being the leverage ``z' H^{-1} z`` of its row: one
    Newton step, exact for the Brier loss.
    """
    path = _Path(problem, coordinates, grid)
    ones, zeros = np.ones_like(problem.w), np.zeros_like(problem.w)
    negatives = problem.w - positives

    def lost(i: int) -> float:
        solution = path.at(i)
        leverage, eta = solution.leverages(problem.design.rows), solution.eta
        each = problem.loss(eta, ones, zeros)
        gain = leverage / np.maximum(1.0 - leverage * each.curvature, 1e-8)
        if_positive = problem.loss(eta + gain * (each.slope - 1.0), positives, positives).value
        if_negative = problem.loss(eta + gain * each.slope, negatives, zeros).value
        return float((if_positive + if_negative) / problem.w.sum())

    return path.choose({i: lost(i) for i in path.downwards})


@dataclass(frozen=True)
class Fold:
    """The bins of one fold held out: what is fitted without it, and its own sums."""

    problem: Problem
    w: Array
    positives: Array

    def lost(self, eta: Array) -> float:
        """The loss of what was held out."""
        return self.problem.loss(eta, self.w, self.positives).value


def leave_parts_out(problem: Problem, coordinates: Coordinates, grid: Array, parts: list[Fold]) -> Choice:
    """Smoothing with the least approximate loss on parts left out, such as groups: one Newton step from the fit."""
    path = _Path(problem, coordinates, grid)

    def lost(i: int, part: Fold) -> float:
        newton = Newton(part.problem, coordinates.precision(float(grid[i])), part.problem.at(path.at(i).u))
        newton.aim()
        return part.lost(newton.point.eta + part.problem.design.dot(newton.step))

    return path.choose({i: sum(lost(i, part) for part in parts) / float(problem.w.sum()) for i in path.downwards})


def _leave_out_search(task: SplineTask, options: SearchOptions) -> Choice:
    if task.parts is None:
        return leave_one_out(task.problem, task.coordinates, options.values, task.bins.positives)
    return leave_parts_out(task.problem, task.coordinates, options.values, task_folds(task, options))


def cross_validation(problem: Problem, coordinates: Coordinates, grid: Array, folds: list[Fold]) -> Choice:
    """Smoothing with the least loss on folds held out."""
    path = _Path(problem, coordinates, grid)
    paths = [_Path(fold.problem, coordinates, grid) for fold in folds]
    total = float(problem.w.sum())
    return path.choose(
        {
            i: sum(fold.lost(each.at(i).eta) for fold, each in zip(folds, paths, strict=True)) / total
            for i in path.downwards
        }
    )


def split_folds(w: Array, k: int, rng: np.random.Generator) -> Array:
    """Split weights over ``k`` folds: shape (k, n), summing to ``w``.

    Of ``w_b`` rows with the same score and label every fold gets its even share, and
    the remainder goes to folds drawn at random, dealt out in turn so that the
    folds stay balanced. So the folds depend on the data and the seed, not on the
    order of the rows; a row repeated and a row of weight two are the same.
    """
    even = np.floor(w / k)
    folds = np.repeat(even[None, :], k, axis=0)
    remainder = w - k * even
    units = np.ceil(remainder).astype(np.intp)
    bins = np.repeat(np.arange(len(w)), units)
    shuffled_bins = rng.permutation(len(w))
    order = np.argsort(shuffled_bins[bins], kind="stable")
    dealt = np.empty(len(bins), dtype=np.intp)
    dealt[order] = np.arange(len(bins)) % k
    amounts = np.ones(len(bins))
    last = np.cumsum(units)[units > 0] - 1
    amounts[last] = (remainder - (units - 1))[units > 0]
    np.add.at(folds, (dealt, bins), amounts)
    return folds


def task_folds(task: SplineTask, options: SearchOptions) -> list[Fold]:
    """The folds of a task's bins: its parts, if it has some."""
    k, rng = options.cv, np.random.default_rng([options.seed, 1])
    problem, bins, (low, high) = task.problem, task.bins, task.shape.targets
    parts = task.parts or Parts(split_folds(bins.positives, k, rng), split_folds(bins.negatives, k, rng))
    return [
        Fold(replace(problem, w=problem.w - w1 - w0, s=problem.s - high * w1 - low * w0), w1 + w0, w1)
        for w1, w0 in zip(*parts, strict=True)
    ]


def _smoothest(criterion: dict[int, float], tie: float) -> int:
    """The last place whose criterion is within ``tie`` of the least."""
    limit = min(criterion.values()) + tie
    return max(i for i, value in criterion.items() if value <= limit)


class _Path:
    """Fits along a grid of smoothing values.

    The loss is looked at as rarely as will do. About the last place where it was, a quadratic stands for it, for all
    smoothings whose fits are within ``SEARCH_TOLERANCE`` in every ``eta``; a fit farther off is the next such place.
    """

    def __init__(self, problem: Problem, coordinates: Coordinates, grid: Array) -> None:
        self.problem = problem
        self.coordinates = coordinates
        self.grid = grid
        self.fits: dict[int, Solution] = {}
        self._newton = Newton(problem, coordinates.prior, problem.at(np.zeros(len(coordinates.prior))))

    @property
    def downwards(self) -> range:
        """The places of the grid, from smooth to rough."""
        return range(len(self.grid) - 1, -1, -1)

    def at(self, i: int) -> Solution:
        if i not in self.fits:
            self.fits[i] = self.fit(float(self.grid[i]))
        return self.fits[i]

    def fit(self, smoothing: float) -> Solution:
        self._newton.q = self.coordinates.precision(smoothing)
        return self._newton.minimum(SEARCH_TOLERANCE)

    def evidence(self, i: int) -> float:
        return reml_score(self.problem, self.coordinates, float(self.grid[i]), self.at(i))

    def choose(self, criterion: dict[int, float], tie: float = 0.0) -> Choice:
        best = _smoothest(criterion, tie)
        u, seen = self.at(best).u, sorted(criterion)
        return Choice(float(self.grid[best]), u, self.grid[seen], np.array([criterion[i] for i in seen]))


CRITERIA: dict[str, Criterion] = {
    criterion.name: criterion
    for criterion in (
        Criterion("reml", "REML criterion", _reml_search, is_evidence=True),
        Criterion(
            "cv",
            "cross-validated log-loss",
            lambda task, options: cross_validation(
                task.problem, task.coordinates, options.values, task_folds(task, options)
            ),
        ),
        Criterion("loo", "leave-one-out log-loss", _leave_out_search, leaves_one_out=True),
    )
}
"""Every criterion by its name."""
EVIDENCE = CRITERIA["reml"]
