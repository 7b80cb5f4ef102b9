"""Histograms of scores: additive weights of positives and negatives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from calspline._arrays import (
    CHUNK,
    Array,
    Counts,
    chunks,
    run_starts,
    share_of_positives,
)
from calspline._codec import check_fields, from_json, to_json
from calspline._domains import Integer, Integers, Labels, Number, Numbers
from calspline._input.labels import (
    by_value,
    plain_labels,
)
from calspline._input.options import check_integer, check_one_of
from calspline._input.scores import (
    BinaryScores,
    Kind,
    check_binary_scores,
)
from calspline._input.weights import (
    check_weights,
)
from calspline.histograms.grid import (
    COARSEST,
    FINEST_MARGINS,
    MAX_POINTS,
    Cells,
    Grid,
    cells_of,
    finest_level,
)
from calspline.transforms import expit, highest_location


class _Rows(NamedTuple):
    """Validated rows of a histogram."""

    scores: BinaryScores
    positive: NDArray[np.bool_]
    weight: Array | None

    def grid_of_many_values(self) -> Grid | None:
        """A grid, if the first rows already have more values than are kept exactly."""
        if len(self.scores) <= MAX_POINTS:
            return None
        location, _, _ = self.take(slice(0, CHUNK))
        values = np.sort(location)
        if len(run_starts(values)) <= MAX_POINTS:
            return None
        grid = Grid(self.scores.kind)
        grid.settle(values)
        return grid

    def take(self, part: slice) -> tuple[Array, NDArray[np.bool_], Array | None]:
        """Locations, labels and weights of some rows, without those of no weight."""
        location = self.scores.locations(part)
        label = self.positive[part]
        if self.weight is None:
            return location, label, None
        w = self.weight[part]
        if w.min() == 0.0:
            counts = w > 0.0
            return location[counts], label[counts], w[counts]
        return location, label, w


@dataclass(frozen=True, eq=False)
class BinnedScores:
    """Statistics of a :class:`~calspline.ScoreHistogram`, from validated scores."""

    kind: Kind
    locations: Annotated[Array, Numbers("n")]
    positives: Annotated[Array, Numbers("n", not_negative=True)]
    negatives: Annotated[Array, Numbers("n", not_negative=True)]
    level: Annotated[int, Integer(FINEST_MARGINS, COARSEST)] | None
    cells: Annotated[Cells, Integers()]
    highest: Annotated[float, Number(infinite=True)]
    classes: Annotated[tuple[Any, Any], Labels("classes", 2, 2)] | None = None
    row_weight: Annotated[float, Number(above=0.0)] = 1.0

    def __post_init__(self) -> None:
        check_fields(self)
        if (self.locations[1:] < self.locations[:-1]).any():
            raise ValueError("locations must be one list that never decreases")
        # A cell has a location for either class.
        most = MAX_POINTS if self.level is None else 2 * MAX_POINTS
        if len(self.locations) > most:
            raise ValueError(
                f"locations must be at most {most}; got {len(self.locations)}"
            )
        if self.level is not None:
            self._check_cells(self.level)
        elif self.cells.size:
            raise ValueError("cells must be empty for an exact histogram")

    def _check_cells(self, level: int) -> None:
        least = finest_level(self.locations, self.kind)
        check_integer(level, "level", least=least)
        if self.cells.shape != self.locations.shape:
            raise ValueError("cells must be one per location")
        # The mean of a cell may round into the next one.
        distance = np.abs(cells_of(self.locations, self.kind, level) - self.cells)
        if distance.max(initial=0) > 1:
            raise ValueError("cells must be those of the locations")

    @classmethod
    def from_counts(
        cls,
        scores: Any,
        positives: Any,
        totals: Any,
        *,
        kind: Literal["auto", "probability", "margin"] = "auto",
    ) -> Self:
        """Create a histogram from aggregated data.

        Parameters
        ----------
        scores : array-like of shape (n,)
            Scores, which may repeat.
        positives, totals : array-like of shape (n,)
            Weight of the positive rows, and of all rows, with each score.
        kind : {"auto", "probability", "margin"}, default="auto"
            Kind of the scores. For ``"auto"``, scores are margins if more than a tenth
            of them lie outside [0, 1].

        Returns
        -------
        histogram : ScoreHistogram
            Histogram without class labels.

        Examples
        --------
        >>> from calspline import ScoreHistogram
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
            raise ValueError(
                f"positives must not exceed totals; row {row} has {w1[row]:g} of "
                f"{total[row]:g}"
            )
        return cls.from_locations(checked.kind, checked.locations(), w1, total - w1)

    @classmethod
    def collect(
        cls, scores: BinaryScores, positive: NDArray[np.bool_], weight: Array | None
    ) -> Self:
        """Collect validated scores in chunks: exactly at first, then in cells."""
        rows = _Rows(scores, positive, weight)
        parts = list(chunks(len(scores)))
        grid = rows.grid_of_many_values()
        if grid is None:
            histogram, parts = cls._collect_exactly(rows, parts)
            if histogram.exact:
                return histogram
            grid = _grid(histogram)
        # In one thread: two take longer, as they wait for each other after every step
        # of some microseconds.
        for part in parts:
            grid.add(*rows.take(part))
        return cls._from_grid(grid)

    @classmethod
    def _collect_exactly(
        cls, rows: _Rows, parts: list[slice]
    ) -> tuple[Self, list[slice]]:
        """Collect rows until there are too many values; return what parts are left."""
        none = np.empty(0)
        kind = rows.scores.kind
        histogram = cls.from_locations(kind, none, none, none)
        done = 0
        for part in parts:
            location, label, w = rows.take(part)
            if w is None:
                w = np.ones(len(location))
            new = cls.from_locations(kind, location, w * label, w * ~label)
            histogram = histogram + new
            done += 1
            if not histogram.exact:
                break
        return histogram, parts[done:]

    @classmethod
    def from_locations(
        cls, kind: Kind, locations: Array, positives: Array, negatives: Array
    ) -> Self:
        """Create a histogram from weights at locations, which may repeat."""
        counts = Counts.from_sums(locations, positives, negatives)
        if not (counts.w > 0.0).all():
            counts = counts.where(counts.w > 0.0)
        top = highest_location(counts.x, probabilities=kind == "probability")
        cells = np.empty(0, dtype=np.int64)
        if len(counts.x) > MAX_POINTS:
            grid = Grid(kind)
            grid.add_points(
                counts.x, counts.negatives, counts.positives, cells, None, top
            )
            return cls._from_grid(grid)
        return cls(kind, counts.x, counts.positives, counts.negatives, None, cells, top)

    @classmethod
    def from_cells(
        cls, kind: Kind, cells: Cells, sums: Array, level: int, highest: float
    ) -> Self:
        """Create a histogram from sums over sorted cells of a level.

        ``sums`` has a row each for the weights of negatives and positives and for their
        moments.
        """
        grid = Grid(kind)
        grid.add_sums(cells, sums, level, highest)
        return cls._from_grid(grid)

    @classmethod
    def _from_grid(cls, grid: Grid) -> Self:
        locations, negatives, positives, cells = grid.points()
        return cls(
            grid.kind, locations, positives, negatives, grid.level, cells, grid.highest
        )

    def __add__(self, other: object) -> Self:
        """Add the histograms of two data sets."""
        if not isinstance(other, type(self)):
            return NotImplemented
        classes = self._common_classes(other)
        if not len(self) or not len(other):
            only = self if len(self) else other
            return only if only.classes == classes else replace(only, classes=classes)
        if self.kind != other.kind:
            raise ValueError(
                f"cannot add a histogram of {other.kind} scores to one of {self.kind} "
                "scores"
            )
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
            total,
            classes=classes,
            row_weight=float(
                np.average([self.row_weight, other.row_weight], weights=weights)
            ),
        )

    def _common_classes(self, other: BinnedScores) -> tuple[Any, Any] | None:
        """Common classes of two histograms, one of which may be unknown."""
        if self.classes is None or other.classes is None:
            return other.classes if self.classes is None else self.classes
        if [by_value(label) for label in self.classes] != [
            by_value(label) for label in other.classes
        ]:
            raise ValueError(
                f"cannot add a histogram of the classes {list(other.classes)} to one "
                f"of {list(self.classes)}: "
                "positives must be the same class in both"
            )
        return self.classes

    def check_classes(self, classes: Sequence[Any] | NDArray[Any], name: str) -> None:
        """Check that the classes, if known, are those of a calibrator.

        0 and 1 may stand for any two classes.
        """
        if self.classes is None:
            return
        own, wanted = (
            [by_value(label) for label in each]
            for each in (self.classes, list(classes))
        )
        if own != wanted and (own == wanted[::-1] or [0, 1] not in (own, wanted)):
            raise ValueError(
                f"{name} must be of the classes {list(classes)}, as the calibrator is; "
                f"it is of {list(self.classes)}"
            )

    def of_classes(self, classes: NDArray[Any] | Sequence[Any]) -> Self:
        """The same, of which negatives and positives have these labels."""
        return replace(self, classes=tuple(plain_labels(classes)))

    def divided(
        self,
        scores: BinaryScores,
        positive: NDArray[np.bool_],
        weight: Array | None,
        part: NDArray[np.intp],
    ) -> tuple[Array, Array]:
        """Weights of positives and negatives at each location, by part of the rows."""
        key: NDArray[Any] = self.locations
        place: NDArray[Any] = scores.locations()
        if self.level is not None:
            key = self.cells
            place = cells_of(place, self.kind, self.level)
        w = np.ones(len(part)) if weight is None else weight
        n_parts = int(part.max()) + 1

        def by_part(held: Array, rows: NDArray[np.bool_]) -> Array:
            bins = np.flatnonzero(held > 0.0)
            at = bins[np.searchsorted(key[bins], place[rows])]
            sums = np.zeros((n_parts, len(self)))
            np.add.at(sums, (part[rows], at), w[rows])
            return sums

        return by_part(self.positives, positive), by_part(self.negatives, ~positive)

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

    def reweighted(self, positives: Array, negatives: Array) -> Self:
        """Replace the weights; locations without weight are dropped."""
        return self.from_locations(self.kind, self.locations, positives, negatives)

    def in_rows(self) -> Self:
        """Scale the weights so that they sum to the effective sample size."""
        if self.row_weight == 1.0:
            return self
        by = 1.0 / self.row_weight
        return replace(
            self,
            positives=by * self.positives,
            negatives=by * self.negatives,
            row_weight=1.0,
        )

    @property
    def counts(self) -> Counts:
        """Distinct locations with the weight of positives and negatives."""
        counts = Counts(self.locations, self.positives, self.negatives)
        first = run_starts(counts.x)
        if len(first) < len(counts):
            return counts.merged(first, counts.x[first])
        return counts

    @property
    def inside(self) -> float | None:
        """Share of margins in [0, 1], shrunk slightly towards 1/2; None if all are."""
        within = (self.locations >= 0.0) & (self.locations <= 1.0)
        if within.all():
            return None
        return (float((self.positives + self.negatives)[within].sum()) + 1.0) / (
            self.total + 2.0
        )

    @property
    def base_rate(self) -> float:
        """Share of the positives; NaN of an empty histogram."""
        if not len(self):
            return float("nan")
        return share_of_positives(self.positives, self.negatives)

    def __repr__(self) -> str:
        what = "exact scores" if self.exact else "means in cells"
        rate = f", base rate {self.base_rate:.4g}" if len(self) else ""
        return f"ScoreHistogram({len(self)} {what}, weight {self.total:g}{rate})"

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and lists, for JSON."""
        return to_json(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """The histogram that :meth:`to_dict` described; anything else is an error."""
        return from_json(cls, data)


def _grid(*histograms: BinnedScores) -> Grid:
    """Histograms of scores of one kind on one grid, the finest that will do."""
    grid = Grid(histograms[0].kind)
    for one in histograms:
        grid.add_points(
            one.locations,
            one.negatives,
            one.positives,
            one.cells,
            one.level,
            one.highest,
        )
    return grid
