"""Folds of bins: which rows are left out together when a smoothing is tried on rows that were not fitted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calspline.arrays import Array
from calspline.fitting.newton import Problem

if TYPE_CHECKING:
    from calspline.fitting.fit import SplineTask

MOST_LEFT_OUT = 200
"""Of more groups, several are left out together."""


class Parts(NamedTuple):
    """Weights of positives and negatives at each bin, a row for each part of the data."""

    positives: Array
    negatives: Array


@dataclass(frozen=True)
class Fold:
    """The bins of one fold held out: what is fitted without it, and its own sums."""

    problem: Problem
    w: Array
    positives: Array


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


def deal_groups(weights: Array, k: int, seed: int) -> NDArray[np.intp]:
    """The part of each group, when whole groups are dealt out to ``k`` parts: heavy ones first."""
    shuffled = np.random.default_rng([seed, 1]).permutation(len(weights))
    order = shuffled[np.argsort(-weights[shuffled], kind="stable")]
    part = np.empty(len(weights), dtype=np.intp)
    part[order] = np.arange(len(weights)) % k
    return part


def task_folds(task: SplineTask, k: int, seed: int) -> list[Fold]:
    """The folds of a task's bins: its parts, if it has some."""
    rng = np.random.default_rng([seed, 1])
    problem, bins, (low, high) = task.problem, task.bins, task.shape.targets
    parts = task.parts or Parts(split_folds(bins.positives, k, rng), split_folds(bins.negatives, k, rng))
    return [
        Fold(replace(problem, w=problem.w - w1 - w0, s=problem.s - high * w1 - low * w0), w1 + w0, w1)
        for w1, w0 in zip(*parts, strict=True)
    ]
