"""Criteria for how smooth: marginal likelihood, k-fold cross-validation and approximate leave-one-out.

:data:`CRITERIA` has them by name. A new one is one more entry there: ``SplineCalibrator(smoothing=name)``, the command
line and the pictures read it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from calspline.arrays import Array
from calspline.fitting.groups import Parts
from calspline.fitting.newton import Newton, Problem
from calspline.fitting.smoothing import Chosen, Coordinates, SearchOptions, SmoothingPath, reml_search

if TYPE_CHECKING:
    from calspline.fitting.fit import SplineTask


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
        Finds the :class:`Chosen` for a :class:`~calspline.fitting.fit.SplineTask`, given :class:`SearchOptions`.
    is_evidence : bool
        Whether it is the negative log marginal likelihood, sought on the merged bins of a task. By that transforms are
        compared, bands know that the smoothing was learnt, and a curve that needs more knots gets them.
    leaves_one_out : bool
        Whether single rows, or single groups of rows, are left out in turn.
    """

    name: str
    label: str
    search: Callable[[SplineTask, SearchOptions], Chosen]
    is_evidence: bool = False
    leaves_one_out: bool = False


def leave_one_out(problem: Problem, coordinates: Coordinates, grid: Array, positives: Array) -> Chosen:
    """Smoothing with the least approximate leave-one-out loss.

    Leaving out one observation with label ``y`` from a bin with predictor ``eta``,
    ``mu`` and ``v`` (first and second derivative of its loss) moves ``eta`` to about
    ``eta + h (mu - y) / (1 - h v)``, ``h`` being the leverage ``z' H^{-1} z`` of its row: one
    Newton step, exact for the Brier loss.
    """
    path = SmoothingPath(problem, coordinates, grid)
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
class HeldOut:
    """The bins of one fold held out: what is fitted without it, and its own sums."""

    problem: Problem
    w: Array
    positives: Array

    def lost(self, eta: Array) -> float:
        """The loss of what was held out."""
        return self.problem.loss(eta, self.w, self.positives).value


def leave_parts_out(problem: Problem, coordinates: Coordinates, grid: Array, parts: list[HeldOut]) -> Chosen:
    """Smoothing with the least approximate loss on parts left out, such as groups: one Newton step from the fit."""
    path = SmoothingPath(problem, coordinates, grid)

    def lost(i: int, part: HeldOut) -> float:
        newton = Newton(part.problem, coordinates.precision(float(grid[i])), part.problem.at(path.at(i).u))
        newton.aim()
        return part.lost(newton.point.eta + part.problem.design.dot(newton.step))

    return path.choose({i: sum(lost(i, part) for part in parts) / float(problem.w.sum()) for i in path.downwards})


def _leave_out_search(task: SplineTask, options: SearchOptions) -> Chosen:
    if task.parts is None:
        return leave_one_out(task.problem, task.coordinates, options.values, task.bins.positives)
    return leave_parts_out(task.problem, task.coordinates, options.values, task_folds(task, options))


def cross_validation(problem: Problem, coordinates: Coordinates, grid: Array, folds: list[HeldOut]) -> Chosen:
    """Smoothing with the least loss on folds held out."""
    path = SmoothingPath(problem, coordinates, grid)
    paths = [SmoothingPath(fold.problem, coordinates, grid) for fold in folds]
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


def task_folds(task: SplineTask, options: SearchOptions) -> list[HeldOut]:
    """The folds of a task's bins: its parts, if it has some."""
    k, rng = options.cv, np.random.default_rng([options.seed, 1])
    problem, bins, (low, high) = task.problem, task.bins, task.shape.targets
    parts = task.parts or Parts(split_folds(bins.positives, k, rng), split_folds(bins.negatives, k, rng))
    return [
        HeldOut(replace(problem, w=problem.w - w1 - w0, s=problem.s - high * w1 - low * w0), w1 + w0, w1)
        for w1, w0 in zip(*parts, strict=True)
    ]


CRITERIA: dict[str, Criterion] = {
    criterion.name: criterion
    for criterion in (
        Criterion("reml", "REML criterion", reml_search, is_evidence=True),
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
