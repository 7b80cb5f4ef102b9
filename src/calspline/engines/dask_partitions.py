"""The rows to fit, in partitions of Dask: each is summed as rows in memory are, and the sums are added up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from operator import add
from typing import Any

import narwhals as nw
from numpy.typing import NDArray

from calspline.engines.in_memory import Held, held
from calspline.engines.lazy import EngineRows
from calspline.histogram import ScoreHistogram
from calspline.scores import Kind

ADDED_AT_ONCE = 8
"""Sums that one task adds up, so that no worker has to hold those of all partitions."""
Sums = dict[int, ScoreHistogram]


@dataclass(frozen=True)
class PartitionRows(EngineRows):
    """Rows in partitions that are pandas frames, each of which is read once for all classes."""

    def histogram(self, names: list[str], kind: Kind, *, difference: bool, positive: Any) -> ScoreHistogram:
        """The histogram of two classes, whose scores are in one column or two."""

        def sums(part: Held) -> Sums:
            return {0: part.histogram(names, kind, difference=difference, positive=positive)}

        return self._added(names, sums)[0]

    def one_vs_rest(
        self, names: list[str], classes: NDArray[Any], seen: Sequence[int], kind: Kind, transform: str
    ) -> Sums:
        """A histogram for each class that is seen, by its number; all from the same pass."""
        return self._added(names, lambda part: part.one_vs_rest(names, classes, seen, kind, transform))

    def _added(self, names: list[str], sums: Callable[[Held], Sums]) -> Sums:
        """Sums of all partitions, added up in a tree."""
        from dask import delayed

        of_partition, total = delayed(partial(_of_partition, names, sums)), delayed(_total)
        parts = [of_partition(part) for part in self.frame.to_native().to_delayed()]
        while len(parts) > 1:
            parts = [total(parts[k : k + ADDED_AT_ONCE]) for k in range(0, len(parts), ADDED_AT_ONCE)]
        found: Sums = parts[0].compute()
        return found


def _of_partition(names: list[str], sums: Callable[[Held], Sums], part: Any) -> Sums:
    own = {name: name for name in [*names, "w"]}
    return sums(held(nw.from_native(part, eager_only=True), own, "y"))


def _total(parts: list[Sums]) -> Sums:
    return {key: reduce(add, [part[key] for part in parts]) for key in parts[0]}
