"""Choice of the smoothing by k-fold cross-validation, as in the paper."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from calspline._arrays import Array
from calspline.fitting.coordinates import Coordinates
from calspline.fitting.fit import SplineTask
from calspline.fitting.groups import Parts
from calspline.fitting.newton import Problem
from calspline.fitting.smoothing import (
    Chosen,
    SmoothingPath,
)


@dataclass(frozen=True)
class HeldOut:
    """The bins of one fold held out: what is fitted without it, and its own sums."""

    problem: Problem
    w: Array
    positives: Array

    def lost(self, eta: Array) -> float:
        """The loss of what was held out."""
        return self.problem.loss(eta, self.w, self.positives).value


def cross_validation(
    problem: Problem, coordinates: Coordinates, grid: Array, folds: list[HeldOut]
) -> Chosen:
    """Smoothing with the least loss on folds held out."""
    path = SmoothingPath(problem, coordinates, grid)
    paths = [SmoothingPath(fold.problem, coordinates, grid) for fold in folds]
    total = float(problem.w.sum())
    criterion = {}
    for i in path.downwards:
        pairs = zip(folds, paths, strict=True)
        lost = sum(fold.lost(each.at(i).eta) for fold, each in pairs)
        criterion[i] = lost / total
    return path.choose(criterion)


def split_folds(w: Array, k: int, rng: np.random.Generator) -> Array:
    """Split weights over ``k`` folds: shape (k, n), summing to ``w``.

    Of ``w_b`` rows with the same score and label every fold gets its even share, and
    the remainder goes to folds drawn at random, dealt out in turn so that the
    folds stay balanced. So the folds depend on the data and the seed, not on the
    order of the rows; a row repeated and a row of weight two are the same.
    """
    even = np.floor(w / k)
    folds = np.repeat(even[None, :], k, axis=0)
    remainder = np.clip(w - k * even, 0.0, k)  # large weights are rounded
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


def task_folds(task: SplineTask, k: int, seed: int) -> list[HeldOut]:
    """The folds of a task's bins: its parts, if it has some, or ``k`` random ones."""
    problem = task.problem
    bins = task.bins
    low, high = task.targets(bins)
    parts = task.parts
    if parts is None:
        rng = np.random.default_rng([seed, 1])
        positives = split_folds(bins.positives, k, rng)
        negatives = split_folds(bins.negatives, k, rng)
        parts = Parts(positives, negatives)
    folds = []
    for w1, w0 in zip(*parts, strict=True):
        left = problem.w - w1 - w0
        left_positive = problem.s - high * w1 - low * w0
        rest = replace(problem, w=left, s=left_positive)
        folds.append(HeldOut(rest, w1 + w0, w1))
    return folds
