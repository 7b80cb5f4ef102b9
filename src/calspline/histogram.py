"""ScoreHistogram: all that a one-dimensional fit needs to know of a data set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from calspline.arrays import CHUNK, Array, Counts, chunks, run_starts
from calspline.grid import COARSEST, FINEST_MARGINS, MAX_POINTS, Cells, Grid, cells_of, finest_level
from calspline.labels import by_value, check_binary_labels, check_label_array, check_two_classes, plain_labels
from calspline.options import (
    LABEL,
    Checked,
    Choice,
    Integer,
    ListOf,
    Number,
    Numbers,
    Record,
    check_integer,
    check_one_of,
    optional,
)
from calspline.scores import (
    BinaryScores,
    Kind,
    check_binary_scores,
    check_scores,
    check_weights,
    check_weights_as_counts,
    row_weight,
)
from calspline.transforms import expit, highest_location

MAX_LOCATIONS = 2 * MAX_POINTS
"""A cell has one location for either class."""


def _check_cells(value: Any, name: str) -> Cells:
    if not isinstance(value, list) or not all(type(one) is int for one in value):
        raise ValueError(f"{name} must be a list of whole numbers")
    return np.array(value, dtype=np.int64)


HISTOGRAM = Record(
    "histogram",
    {
        "kind": Choice("probability", "margin"),
        "level": optional(Integer(FINEST_MARGINS, COARSEST)),
        "locations": Numbers(most=MAX_LOCATIONS, note="Log-odds or margins, never decreasing."),
        "positives": Numbers(most=MAX_LOCATIONS, not_negative=True),
        "negatives": Numbers(most=MAX_LOCATIONS, not_negative=True),
        "cells": Checked(_check_cells, {"type": "array", "items": {"type": "integer"}, "maxItems": MAX_LOCATIONS}),
        "highest": optional(Number()),
        "classes": optional(ListOf(LABEL, least=2, most=2)),
        "row_weight": Number(above=0.0),
    },
    added={"classes": None, "row_weight": 1.0},
)
"""A histogram in a file."""


@dataclass(frozen=True, eq=False)
class ScoreHistogram:
    """Weights of positives and negatives per score: a data set's sufficient statistics.

    Make one with :meth:`from_scores` or :meth:`from_counts`; histograms of parts of the
    data add up to that of the whole. While there are at most 4096 distinct scores
    the histogram is exact. Beyond, scores are collected in the cells of a grid. The
    grids do not depend on the data: there is one for every power of two, each
    cell made of two of the grid below, and a histogram uses the finest on which the
    data occupy at most 4096 cells. So however narrow or wide the scores, the
    resolution fits, and histograms made on different machines add up.

    A cell keeps the mean score of its positives and that of its negatives, as two
    locations: one mean for both would lose how labels go with scores inside the cell.

    Attributes
    ----------
    kind : {"probability", "margin"}
        What the scores are.
    locations : array
        Log-odds of the scores (or the margins themselves), never decreasing.
    positives, negatives : array
        Weight of either class at each location.
    level : int or None
        The level of the grid; None for an exact histogram.
    cells : array
        The cell of each location; empty for an exact histogram.
    highest : float
        Largest location that is not an exact 1.
    classes : tuple of two labels, or None
        What negatives and positives are, where labels were given. Histograms of other classes do not add up.
    row_weight : float
        How much weight is worth a row: the sum of squared weights over that of weights, or 1 where these are whole
        numbers, which count rows. Variances of weighted events are so many times those of counts.

    Examples
    --------
    >>> monday = ScoreHistogram.from_scores([0.1, 0.4, 0.4], [0, 0, 1])
    >>> tuesday = ScoreHistogram.from_scores([0.4, 0.8], [1, 1], classes=[0, 1])
    >>> monday + tuesday
    ScoreHistogram(3 exact scores, weight 5, base rate 0.6)
    """

    kind: Kind
    locations: Array
    positives: Array
    negatives: Array
    level: int | None
    cells: Cells
    highest: float
    classes: tuple[Any, Any] | None = None
    row_weight: float = 1.0

    @classmethod
    def from_scores(
        cls,
        scores: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        kind: Literal["auto", "probability", "margin"] = "auto",
        classes: Any = None,
        by: Any = None,
    ) -> Any:
        """Collect scores and their labels.

        Parameters
        ----------
        scores : array-like of shape (n,), (n, 1) or (n, 2)
        y : array-like of shape (n,)
            Two classes. A part of the data that shows only one of them needs
            ``classes``, unless that is 0, or the labels are booleans.
        sample_weight : array-like of shape (n,), optional
        kind : {"auto", "probability", "margin"}
            ``"auto"`` takes scores for margins if more than a tenth of them lie outside [0, 1].
        classes : array-like of two labels, optional
            The second is the positive class.
        by : array-like of shape (n,), a frame, a 2-d array or a list of columns, optional
            The segment of each row, or several.

        Returns
        -------
        ScoreHistogram
            With ``by``, a mapping from segments to their histograms on one grid
            (:class:`~calspline.segments.histogram.SegmentHistograms`), which adds up likewise.
        """
        check_one_of(kind, "kind", ("auto", "probability", "margin"))
        given = check_scores(scores)
        weight = check_weights(sample_weight, len(given))
        if weight is not None:
            check_weights_as_counts(weight)
        labels = check_label_array(y, len(given))
        known = _zero_and_one(labels) if classes is None else check_two_classes(classes)
        found, positive = check_binary_labels(labels, len(given), known)
        checked = check_binary_scores(given.in_class_order(found), kind=kind)
        histogram = cls.collect(checked, positive, weight)
        histogram = replace(histogram, row_weight=row_weight(weight))
        if classes is not None or len(labels):
            histogram = histogram.of_classes(found)
        if by is None:
            return histogram
        from calspline.segments.histogram import SegmentHistograms
        from calspline.segments.labels import check_by

        return SegmentHistograms.collect(histogram, checked, positive, weight, check_by(by, len(checked)))

    @classmethod
    def from_counts(
        cls,
        scores: Any,
        positives: Any,
        totals: Any,
        *,
        kind: Literal["auto", "probability", "margin"] = "auto",
    ) -> ScoreHistogram:
        """Take data that are already aggregated.

        Parameters
        ----------
        scores : array-like of shape (n,)
            Scores may repeat.
        positives, totals : array-like of shape (n,)
            Weight of the positive rows, and of all rows, with that score.
        kind : {"auto", "probability", "margin"}
            ``"auto"`` takes scores for margins if more than a tenth of them lie outside [0, 1].

        Examples
        --------
        >>> ScoreHistogram.from_counts([0.2, 0.7], positives=[10, 60], totals=[100, 80])
        ScoreHistogram(2 exact scores, weight 180, base rate 0.3889)
        """
        check_one_of(kind, "kind", ("auto", "probability", "margin"))
        checked = check_binary_scores(scores, kind=kind)
        n = len(checked)
        w1 = check_weights(positives, n, "positives", some=False)
        total = check_weights(totals, n, "totals", some=False)
        if w1 is None or total is None:
            raise TypeError("positives and totals must be given")
        if np.any(w1 > total):
            row = int(np.argmax(w1 > total))
            raise ValueError(f"positives must not exceed totals; row {row} has {w1[row]:g} of {total[row]:g}")
        return cls.from_locations(checked.kind, checked.locations(), w1, total - w1)

    @classmethod
    def collect(cls, scores: BinaryScores, positive: NDArray[np.bool_], weight: Array | None) -> ScoreHistogram:
        """Collect checked scores, chunk by chunk: exactly while they are few enough, and then in cells."""

        def taken(rows: slice) -> tuple[Array, NDArray[np.bool_], Array | None]:
            location, label = scores.locations(rows), positive[rows]
            w = None if weight is None else weight[rows]
            if w is not None and w.min() == 0.0:
                location, label, w = location[w > 0.0], label[w > 0.0], w[w > 0.0]
            return location, label, w

        n, parts = len(scores), chunks(len(scores))
        if n > MAX_POINTS and len(run_starts(first := np.sort(taken(slice(0, CHUNK))[0]))) > MAX_POINTS:
            grid = Grid(scores.kind)
            grid.settle(first)
        else:
            histogram = cls.from_locations(scores.kind, *(np.empty(0) for _ in range(3)))
            for rows in parts:
                location, label, w = taken(rows)
                w = np.ones(len(location)) if w is None else w
                histogram += cls.from_locations(scores.kind, location, w * label, w * ~label)
                if not histogram.exact:
                    break
            else:
                return histogram
            grid = _grid(histogram)
        # In one thread: two take longer, as they wait for each other after every step of some microseconds.
        for rows in parts:
            grid.add(*taken(rows))
        return cls._from_grid(grid)

    @classmethod
    def from_locations(cls, kind: Kind, locations: Array, positives: Array, negatives: Array) -> ScoreHistogram:
        """Take weights at locations, which may repeat: exact if it may be, else on the finest grid that will do."""
        counts = Counts.from_sums(locations, positives, negatives)
        if not (counts.w > 0.0).all():
            counts = counts.where(counts.w > 0.0)
        top = highest_location(counts.x, probabilities=kind == "probability")
        histogram = cls(kind, counts.x, counts.positives, counts.negatives, None, np.empty(0, dtype=np.int64), top)
        return histogram if len(histogram) <= MAX_POINTS else cls._from_grid(_grid(histogram))

    @classmethod
    def from_cells(cls, kind: Kind, cells: Cells, sums: Array, level: int, highest: float) -> ScoreHistogram:
        """Take sums that an engine has made over the cells of a level, in their order.

        ``sums`` has a row each for the weights of negatives and positives and for their moments.
        """
        grid = Grid(kind)
        grid.add_sums(cells, sums, level, highest)
        return cls._from_grid(grid)

    @classmethod
    def _from_grid(cls, grid: Grid) -> ScoreHistogram:
        locations, negatives, positives, cells = grid.points()
        return cls(grid.kind, locations, positives, negatives, grid.level, cells, grid.highest)

    def __add__(self, other: object) -> ScoreHistogram:
        """The histogram of both data sets together."""
        if not isinstance(other, ScoreHistogram):
            return NotImplemented
        classes = self._common_classes(other)
        if not len(self) or not len(other):
            only = self if len(self) else other
            return only if only.classes == classes else replace(only, classes=classes)
        if self.kind != other.kind:
            raise ValueError(f"cannot add a histogram of {other.kind} scores to one of {self.kind} scores")
        if self.exact and other.exact:
            total = self.from_locations(
                self.kind,
                np.concatenate([self.locations, other.locations]),
                np.concatenate([self.positives, other.positives]),
                np.concatenate([self.negatives, other.negatives]),
            )
        else:
            total = self._from_grid(_grid(self, other))
        weights = [self.total, other.total]
        return replace(
            total, classes=classes, row_weight=float(np.average([self.row_weight, other.row_weight], weights=weights))
        )

    def _common_classes(self, other: ScoreHistogram) -> tuple[Any, Any] | None:
        """The classes of both; a histogram that does not know its own has those of the other."""
        if self.classes is None or other.classes is None:
            return other.classes if self.classes is None else self.classes
        if [by_value(label) for label in self.classes] != [by_value(label) for label in other.classes]:
            raise ValueError(
                f"cannot add a histogram of the classes {list(other.classes)} to one of {list(self.classes)}: "
                "positives must be the same class in both"
            )
        return self.classes

    def check_classes(self, classes: Sequence[Any] | NDArray[Any], name: str) -> None:
        """Refuse a histogram whose classes are known and are not those of a calibrator, in the same order.

        0 and 1 may stand for any two classes.
        """
        if self.classes is None:
            return
        own, wanted = ([by_value(label) for label in each] for each in (self.classes, list(classes)))
        if own != wanted and (own == wanted[::-1] or [0, 1] not in (own, wanted)):
            raise ValueError(
                f"{name} must be of the classes {list(classes)}, as the calibrator is; it is of {list(self.classes)}"
            )

    def of_classes(self, classes: NDArray[Any] | Sequence[Any]) -> ScoreHistogram:
        """The same, of which negatives and positives have these labels."""
        return replace(self, classes=tuple(plain_labels(classes)))

    def divided(
        self, scores: BinaryScores, positive: NDArray[np.bool_], weight: Array | None, part: NDArray[np.intp]
    ) -> tuple[Array, Array]:
        """Weights of positives and negatives at each location, a row for each part of the rows it was made of."""
        key: NDArray[Any] = self.locations
        place: NDArray[Any] = scores.locations()
        if self.level is not None:
            key, place = self.cells, cells_of(place, self.kind, self.level)
        w, found = np.ones(len(part)) if weight is None else weight, []
        for held, rows in ((self.positives, positive), (self.negatives, ~positive)):
            bins, sums = np.flatnonzero(held > 0.0), np.zeros((int(part.max()) + 1, len(self)))
            np.add.at(sums, (part[rows], bins[np.searchsorted(key[bins], place[rows])]), w[rows])
            found.append(sums)
        return found[0], found[1]

    @property
    def exact(self) -> bool:
        """Whether every distinct score has its own place."""
        return self.level is None

    def __len__(self) -> int:
        """Number of locations."""
        return len(self.locations)

    @property
    def scores(self) -> Array:
        """The locations as scores."""
        return expit(self.locations) if self.kind == "probability" else self.locations

    @property
    def total(self) -> float:
        """Sum of all weights."""
        return float(self.positives.sum() + self.negatives.sum())

    def reweighted(self, positives: Array, negatives: Array) -> ScoreHistogram:
        """The same bins with other weights; a bin of none is gone."""
        return self.from_locations(self.kind, self.locations, positives, negatives)

    def in_rows(self) -> ScoreHistogram:
        """The same with weights that count rows: as many, of equal weight, as would say as much as these."""
        if self.row_weight == 1.0:
            return self
        by = 1.0 / self.row_weight
        return replace(self, positives=by * self.positives, negatives=by * self.negatives, row_weight=1.0)

    @property
    def counts(self) -> Counts:
        """The distinct locations, with the weight of positives and negatives at each."""
        return Counts.from_sums(self.locations, self.positives, self.negatives)

    @property
    def inside(self) -> float | None:
        """Of margins: the share of the weight that lies in [0, 1], a little towards a half; None if all does."""
        within = (self.locations >= 0.0) & (self.locations <= 1.0)
        if within.all():
            return None
        return (float((self.positives + self.negatives)[within].sum()) + 1.0) / (self.total + 2.0)

    @property
    def base_rate(self) -> float:
        """Share of the positives; NaN of an empty histogram."""
        return float(self.positives.sum()) / self.total if len(self) else float("nan")

    def __repr__(self) -> str:
        what = "exact scores" if self.exact else "means in cells"
        rate = f", base rate {self.base_rate:.4g}" if len(self) else ""
        return f"ScoreHistogram({len(self)} {what}, weight {self.total:g}{rate})"

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and lists, for JSON."""
        plain, classes = (bool, int, float, str), None
        if self.classes is not None:
            classes = [label if isinstance(label, plain) else by_value(label) for label in self.classes]
        return HISTOGRAM.described(self, highest=self.highest if np.isfinite(self.highest) else None, classes=classes)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> ScoreHistogram:
        """The histogram that :meth:`to_dict` described; anything else is an error."""
        read = HISTOGRAM.check(data, "a histogram")
        kind, level, locations, cells = read["kind"], read["level"], read["locations"], read["cells"]
        if (np.diff(locations) < 0.0).any():
            raise ValueError("locations must be one list that never decreases")
        for name in ("positives", "negatives"):
            if read[name].shape != locations.shape:
                raise ValueError(f"{name} must have one value per location; got shape {read[name].shape}")
        if level is None:
            if len(locations) > MAX_POINTS:
                raise ValueError(f"locations must be at most {MAX_POINTS}; got {len(locations)}")
            if cells.size:
                raise ValueError("cells must be empty for an exact histogram")
        else:
            check_integer(level, "level", least=finest_level(locations, kind))
            if cells.shape != locations.shape:
                raise ValueError("cells must be one per location")
            # A mean may round into the next cell; further off, the cells are not these scores'.
            if np.abs(cells_of(locations, kind, level) - cells).max(initial=0) > 1:
                raise ValueError("cells must be those of the locations")
        highest = -np.inf if read["highest"] is None else read["highest"]
        classes = None if read["classes"] is None else tuple(read["classes"])
        if classes is not None and classes[0] == classes[1]:
            raise ValueError("classes must be two different labels")
        return cls(**read | {"highest": highest, "classes": classes})


def _grid(*histograms: ScoreHistogram) -> Grid:
    """Histograms of scores of one kind on one grid, the finest that will do."""
    grid = Grid(histograms[0].kind)
    for one in histograms:
        grid.add_points(one.locations, one.negatives, one.positives, one.cells, one.level, one.highest)
    return grid


def _zero_and_one(labels: NDArray[Any]) -> NDArray[Any] | None:
    """The classes 0 and 1, or booleans, of which one may be absent; a lone 1 may as well be the first of 1 and 2."""
    if labels.dtype.kind not in "biuf" or not np.all((labels == 0) | (labels == 1)):
        return None
    if labels.dtype.kind != "b" and labels.size and labels.min() == 1:
        raise ValueError("y shows one class, 1; give both as classes, the second being what scores are of")
    return np.array([0, 1], dtype=labels.dtype)
