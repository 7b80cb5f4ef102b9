"""Rows in groups: what they count for, and what a line leaves of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from calspline._arrays import Array, Counts
from calspline._input.scores import BinaryScores
from calspline.fits.limits import score_limits
from calspline.fits.options import Recipe
from calspline.fitting.groups import (
    GroupSums,
    Parts,
    PooledLine,
    Residuals,
    correlation_in_groups,
    deal_groups,
    group_effects,
    mean_contrast,
    warn_if_dominated,
)
from calspline.histograms.score_histogram import ScoreHistogram


class Dependence(NamedTuple):
    """How rows of a group depend on each other.

    ``correlation`` is how far they agree, and ``contrast_effect`` the design effect of
    comparisons of segments; None without segments.
    """

    correlation: float
    contrast_effect: float | None

    def design_effect(self, sizes: Array) -> float:
        """By how much rows are too many, given the weight of each group."""
        effects = group_effects(self.correlation, sizes)
        if np.ptp(effects) == 0.0:
            return float(effects[0])
        return float(sizes.sum()) / float((sizes / effects).sum())

    def in_recipe(self, recipe: Recipe, sizes: Array) -> Recipe:
        """Options with the design effects."""
        return replace(
            recipe,
            design_effect=self.design_effect(sizes),
            segment_design_effect=self.contrast_effect,
        )


def estimate_dependence(
    sums: Sequence[GroupSums], contrasts: Sequence[float], sizes: Array
) -> Dependence:
    """The dependence shown by residuals of some classes; warn if a group dominates.

    Without any, groups count as single rows.
    """
    correlation = correlation_in_groups(sums) if sums else 1.0
    warn_if_dominated(correlation, sizes)
    return Dependence(correlation, mean_contrast(sums, contrasts))


@dataclass(frozen=True)
class GroupedRows:
    """Rows in groups: the weight of each row, and the number of its group."""

    weight: Array | None
    group: NDArray[np.intp]

    @cached_property
    def sizes(self) -> Array:
        """The weight of each group."""
        return np.bincount(self.group, weights=self.weight).astype(np.float64)

    def residuals(
        self,
        histogram: ScoreHistogram,
        scores: BinaryScores,
        positive: NDArray[np.bool_],
        segments: Sequence[NDArray[np.intp]] = (),
    ) -> Residuals:
        """What a line leaves of rows, given their histogram and codes of segments."""
        line = pooled_line(histogram)
        return line.residuals(scores.locations(), positive, self.weight, segments)

    def shared(self, dependence: Dependence) -> GroupedRows:
        """The rows with the weights that they count for.

        The sum of the weights stays the same, and so do all weights if groups are
        equal.
        """
        sizes = self.sizes
        effects = group_effects(dependence.correlation, sizes)
        if np.ptp(effects) == 0.0:
            return self
        share = (dependence.design_effect(sizes) / effects)[self.group]
        weight = share if self.weight is None else share * self.weight
        return GroupedRows(weight, self.group)

    def parts(
        self,
        histogram: ScoreHistogram,
        scores: BinaryScores,
        positive: NDArray[np.bool_],
        recipe: Recipe,
    ) -> Parts | None:
        """Folds of whole groups, if cross-validation chooses the smoothing."""
        if recipe.smoothing != "cv":
            return None
        k = min(recipe.cv, len(self.sizes))
        part = deal_groups(self.sizes, k, recipe.seed)[self.group]
        return Parts(*histogram.divided(scores, positive, self.weight, part))


def pooled_line(histogram: ScoreHistogram) -> PooledLine:
    """The line of log-odds that fits all rows of a histogram best."""
    locations = np.clip(histogram.locations, *score_limits("logit", histogram))
    return PooledLine.fitted(
        Counts(locations, histogram.positives, histogram.negatives)
    )
