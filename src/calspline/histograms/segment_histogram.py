"""Histograms of segments on one grid, which add up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from operator import add
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from calspline._arrays import Array, chunks
from calspline._input.scores import BinaryScores
from calspline._input.segment_labels import (
    By,
    Codes,
    Column,
    check_alike,
    in_order,
    places_by_name,
)
from calspline.histograms.grid import (
    FIRST_CELL,
    LAST_CELL,
    Cells,
    cells_of,
    coarser,
    finest_level,
    levels_to_go,
)
from calspline.histograms.histogram import BinnedScores
from calspline.transforms import highest_location

Names = Sequence[str | None]

DENSE = 4
"""Largest number of counters per row; beyond, rows are sorted instead."""


@dataclass(frozen=True, eq=False)
class SegmentHistograms(Mapping[Any, BinnedScores]):
    """A histogram for each segment, all on one grid, and that of all rows together.

    It is a mapping from labels (of several columns: tuples of them) to histograms.
    Those of parts of the data add up. A row without a label is under ``None``.

    Attributes
    ----------
    pooled : ScoreHistogram
        All rows together.
    labels : list
        The segments, sorted.

    Examples
    --------
    >>> from calspline import ScoreHistogram
    >>> counts = ScoreHistogram.from_scores(
    ...     [0.1, 0.4, 0.4, 0.8], [0, 0, 1, 1], by=["fr", "fr", "de", "de"])
    >>> list(counts)
    ['de', 'fr']
    >>> counts["de"]
    ScoreHistogram(2 exact scores, weight 2, base rate 1)
    """

    pooled: BinnedScores
    labels: list[Any]
    first: Codes = field(repr=False)
    locations: Array = field(repr=False)
    positives: Array = field(repr=False)
    negatives: Array = field(repr=False)
    cells: Cells = field(repr=False)
    level: int | None = None
    names: Names = (None,)
    """Names of the columns; None if unknown."""

    @classmethod
    def collect(
        cls,
        pooled: BinnedScores,
        scores: BinaryScores,
        positive: NDArray[np.bool_],
        weight: Array | None,
        by: By,
    ) -> SegmentHistograms:
        """Count checked scores, of which the histogram of all is given, by segment."""
        column = by.combined
        n = len(scores)
        if not len(pooled):
            none = np.empty(0)
            first = np.zeros(1, dtype=np.intp)
            return cls(pooled, [], first, none, none, none, none.astype(np.int64))
        S = len(column.values) + 1  # the last one is for rows without a label
        code = column.codes
        missing = bool(column.codes.min() < 0)
        if missing:
            code = np.where(code < 0, S - 1, code)
        # Every label has a row, but that may be of weight zero.
        n_used = S if missing else S - 1
        if weight is not None:
            n_used = int(np.count_nonzero(np.bincount(code, weights=weight)))
        level = level_of(pooled, n_used)
        where = _places(pooled, level)
        place_of = _finder(where)
        places = len(where)
        keys = np.empty(n, dtype=np.intp)
        moments = np.empty(n)
        for rows in chunks(n):
            location = scores.locations(rows)
            at: NDArray[Any] = location
            if level is not None:
                at = cells_of(location, scores.kind, level)
            place = place_of(at)
            np.multiply(code[rows], places, out=keys[rows])
            keys[rows] += place
            moments[rows] = location if weight is None else location * weight[rows]
        place = keys
        used = None
        size = S * places
        if size > DENSE * n:
            used, place = np.unique(keys, return_inverse=True)
            size = len(used)
        with_label = place + size * positive
        w = np.bincount(with_label, weights=weight, minlength=2 * size)
        w = w.reshape(2, size)
        moment = np.bincount(place, weights=moments, minlength=size)
        present = np.flatnonzero(w[0] + w[1] > 0.0)
        keys = present if used is None else used[present]
        sums = np.vstack([w, moment])[:, present]
        return cls._of_keys(pooled, column, by.names, level, keys, sums)

    @classmethod
    def from_sums(
        cls,
        pooled: BinnedScores,
        by: By,
        level: int | None,
        at: NDArray[Any],
        sums: Array,
    ) -> Self:
        """Create histograms from sums by segment and cell, or location.

        ``sums`` has a row each for the weights of negatives and positives, and for the
        moments of both together.
        """
        return cls._added_up(pooled, by.combined, by.names, level, at, sums)

    @classmethod
    def of(cls, histograms: Mapping[Any, BinnedScores]) -> SegmentHistograms:
        """Put the histograms of a mapping on a common grid."""
        if isinstance(histograms, SegmentHistograms):
            return histograms
        for label, histogram in histograms.items():
            if not isinstance(histogram, BinnedScores):
                raise TypeError(
                    f"histogram must map labels to ScoreHistogram; {label!r} has "
                    f"{type(histogram).__name__}"
                )
        labels = _sorted(label for label in histograms if len(histograms[label]))
        if not labels:
            raise ValueError("histogram must hold at least one segment with rows")
        parts = [histograms[label] for label in labels]
        column = Column(
            None,
            labels,
            np.repeat(np.arange(len(parts)), [len(part) for part in parts]),
        )
        several = all(isinstance(label, tuple) for label in labels)
        return cls._of_parts(
            reduce(add, parts),
            column,
            [None] * (len(labels[0]) if several else 1),
            parts,
        )

    def __add__(self, other: object) -> SegmentHistograms:
        """The histograms of both data sets together."""
        if not isinstance(other, SegmentHistograms):
            return NotImplemented
        if not len(self) or not len(other):
            return self if len(self) else other
        if (len(self.names) > 1) != (len(other.names) > 1):
            raise ValueError(
                "cannot add histograms of one column of segments to those of several"
            )
        order = places_by_name(self.names, other.names)
        for ours, k in zip(self.columns, order, strict=True):
            check_alike(ours, other.columns[k])
        if len(order) > 1:
            others = [tuple(label[k] for k in order) for label in other.labels]
        else:
            others = other.labels
        labels = _sorted({*self.labels, *others})
        place = {label: code for code, label in enumerate(labels)}
        code = [np.array([place[label] for label in self.labels])[self.segment]]
        code += [np.array([place[label] for label in others])[other.segment]]
        names = other.names if None in self.names else self.names
        column = Column(None, labels, np.concatenate(code))
        return self._of_parts(self.pooled + other.pooled, column, names, [self, other])

    @classmethod
    def _of_parts(
        cls, pooled: BinnedScores, column: Column, names: Names, parts: Sequence[Any]
    ) -> Self:
        """Add up parts of the data, given the segment of each bin of all of them."""
        location, w0, w1 = (
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("locations", "negatives", "positives")
        )
        levels = [level_of(pooled, len(column.values)), *(part.level for part in parts)]
        level = max((each for each in levels if each is not None), default=None)
        at = location if level is None else cells_of(location, pooled.kind, level)
        return cls._added_up(
            pooled, column, names, level, at, np.array([w0, w1, (w1 + w0) * location])
        )

    @classmethod
    def _added_up(
        cls,
        pooled: BinnedScores,
        column: Column,
        names: Names,
        level: int | None,
        at: NDArray[Any],
        sums: Array,
    ) -> Self:
        """Add up what is at the same cell, or location, of the same segment."""
        where = _places(pooled, level)
        place = np.minimum(np.searchsorted(where, at), len(where) - 1)
        code = np.where(column.codes < 0, len(column.values), column.codes)
        keys, own = np.unique(code * len(where) + place, return_inverse=True)
        total = np.array(
            [np.bincount(own, weights=row, minlength=len(keys)) for row in sums]
        )
        return cls._of_keys(pooled, column, names, level, keys, total)

    @classmethod
    def _of_keys(
        cls,
        pooled: BinnedScores,
        column: Column,
        names: Names,
        level: int | None,
        keys: Codes,
        sums: Array,
    ) -> Self:
        """Sums by segment and cell, given sorted ``keys``; the last has no label."""
        where = _places(pooled, level)
        labels = [*column.values, None]
        segment = keys // len(where)
        at = where[keys - segment * len(where)]
        start = np.flatnonzero(np.diff(segment, prepend=-1))
        first = np.append(start, len(segment))
        present = [labels[code] for code in segment[start].tolist()]
        w0, w1, moment = sums
        locations = at
        cells = np.empty(0, dtype=np.int64)
        if level is not None:
            locations = _means(moment, w0 + w1, at, pooled)
            cells = at
        return cls(pooled, present, first, locations, w1, w0, cells, level, names)

    def reweighted(self, positives: Array, negatives: Array) -> SegmentHistograms:
        """The same bins with other weights; a bin, and a segment, of none is gone."""
        present = positives + negatives > 0.0
        w1 = positives[present]
        w0 = negatives[present]
        locations = self.locations[present]
        segment = self.segment[present]
        own = np.unique(segment)
        pooled = self.pooled.from_locations(
            self.pooled.kind, locations, positives=w1, negatives=w0
        )
        return replace(
            self,
            pooled=pooled,
            labels=[self.labels[code] for code in own],
            first=np.append(np.searchsorted(segment, own), len(segment)),
            locations=locations,
            positives=w1,
            negatives=w0,
            cells=self.cells if self.level is None else self.cells[present],
        )

    @property
    def columns(self) -> list[Sequence[Any]]:
        """The label of each histogram in each column of segments."""
        if len(self.names) > 1:
            return list(zip(*self.labels, strict=True))
        return [self.labels]

    @property
    def segment(self) -> Codes:
        """The place in ``labels`` of each bin's segment."""
        return np.repeat(np.arange(len(self.labels)), np.diff(self.first))

    @cached_property
    def _place(self) -> dict[Any, int]:
        return {label: code for code, label in enumerate(self.labels)}

    def __getitem__(self, label: Any) -> BinnedScores:
        code = self._place[label]
        rows = slice(self.first[code], self.first[code + 1])
        location = self.locations[rows]
        return type(self.pooled)(
            self.pooled.kind,
            location,
            self.positives[rows],
            self.negatives[rows],
            self.level,
            self.cells[rows],
            highest_location(location, probabilities=self.pooled.kind == "probability"),
            self.pooled.classes,
            self.pooled.row_weight,
        )

    def __iter__(self) -> Iterator[Any]:
        return iter(self.labels)

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        return f"SegmentHistograms({len(self)} segments, weight {self.pooled.total:g})"


def _sorted(labels: Iterable[Any]) -> list[Any]:
    """Labels in order, None last."""
    found = list(labels)
    return in_order([label for label in found if label is not None]) + [None] * (
        None in found
    )


COARSER = 3
"""Levels by which the grid of segments is coarser than that of all rows, since segments
differ in few directions."""
MOST_SUMS, FEWEST_CELLS = 1 << 20, 64
"""Limits on the total number of sums, and the number of cells per segment from which
the grid is not coarsened further."""


def level_of(pooled: BinnedScores, segments: int) -> int | None:
    """Level of the grid for a number of segments; None for exact scores."""
    most = max(MOST_SUMS // max(segments, 1), FEWEST_CELLS)
    if pooled.level is not None:
        level = pooled.level + COARSER
        cells = coarser(pooled.cells, COARSER)
    elif len(pooled) > most:
        level = finest_level(pooled.locations, pooled.kind)
        cells = cells_of(pooled.locations, pooled.kind, level)
    else:
        return None
    return level + levels_to_go(cells, most)


def _places(pooled: BinnedScores, level: int | None) -> NDArray[Any]:
    """Cells of a level that are in use, or the locations themselves."""
    if level is None:
        return pooled.locations
    if pooled.level is None:
        return np.unique(cells_of(pooled.locations, pooled.kind, level))
    return np.unique(coarser(pooled.cells, level - pooled.level))


LONGEST_TABLE = 1 << 16
"""Largest size of the table of cell indices."""


def _finder(where: Any) -> Callable[[Any], Codes]:
    """Indices of cells or locations in the sorted array ``where``."""
    inner = where[(where != FIRST_CELL) & (where != LAST_CELL)]
    if (
        where.dtype.kind == "f"
        or not len(inner)
        or inner[-1] - inner[0] > LONGEST_TABLE
    ):
        # A row of weight zero may lie behind them all.
        return lambda cells: np.minimum(np.searchsorted(where, cells), len(where) - 1)
    # Cells next to each other are looked up in a table, with a place at either end for
    # exact 0 and 1.
    low = int(inner[0]) - 1
    table = np.zeros(int(inner[-1]) - low + 2, dtype=np.intp)
    table[inner - low] = np.searchsorted(where, inner)
    table[-1] = len(where) - 1
    return lambda cells: table.take(cells - low, mode="clip")


def _means(moment: Array, w: Array, cells: Cells, pooled: BinnedScores) -> Array:
    """Mean locations of cells; those of exact 0 and 1 are exact."""
    mean = moment / w
    if pooled.kind == "probability":
        for end, location in (
            (FIRST_CELL, pooled.locations[0]),
            (LAST_CELL, pooled.locations[-1]),
        ):
            mean[cells == end] = location
    return mean
