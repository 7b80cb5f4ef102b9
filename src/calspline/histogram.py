"""ScoreHistogram: all that a one-dimensional fit needs to know of a data set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from calspline import _validation
from calspline._validation import BinaryScores, Kind
from calspline.transforms import SMALLEST_COMPLEMENT, SMALLEST_PROBABILITY

Array = NDArray[np.float64]
Cells = NDArray[np.intp]

MOST_EXACT = 4096
"""Distinct values up to which a histogram keeps them all."""
FEWEST_CELLS = 256
"""Cells the data have to span for the grid to be used at all."""

CORE = 16.0
PER_LOG_ODDS = 128
PER_DOUBLING = 256
ZERO = float(np.log(SMALLEST_PROBABILITY))
ONE = float(np.log(1.0 / SMALLEST_COMPLEMENT))
CORE_CELLS = int(CORE) * PER_LOG_ODDS
TAIL_CELLS = int(np.floor(np.log2(-ZERO / CORE) * PER_DOUBLING)) + 1
MARGIN_CELLS = 512
MARGIN_RESOLUTION = 1024.0


def probability_cells(u: Array) -> Cells:
    """Grid cell of log-odds: 128 to a unit up to 16, then 256 to a doubling.

    Exact 0 and exact 1 (``u`` as clipped by :func:`~calspline.transforms.log_odds`) have
    the outermost cells to themselves.
    """
    cells: Cells = np.floor(np.clip(u, -CORE, CORE) * PER_LOG_ODDS).astype(np.intp)
    far = np.flatnonzero(np.abs(u) >= CORE)
    if far.size:
        v = u[far]
        beyond = np.floor(np.log2(np.abs(v) / CORE) * PER_DOUBLING).astype(np.intp)
        tail = np.where(v > 0.0, CORE_CELLS + beyond, -CORE_CELLS - 1 - beyond)
        outermost = CORE_CELLS + TAIL_CELLS
        tail[v <= ZERO] = -outermost - 1
        tail[(v >= -ZERO) | (v == ONE)] = outermost
        cells[far] = tail
    return cells


def margin_cells(m: Array) -> Cells:
    """Grid cell of a margin, uniform in ``asinh(1024 m)``: fine at zero, relative far out."""
    return np.asarray(np.floor(np.arcsinh(m * MARGIN_RESOLUTION) * MARGIN_CELLS), dtype=np.intp)


@dataclass(frozen=True, eq=False)
class ScoreHistogram:
    """Weights of positives and negatives per score: a data set's sufficient statistics.

    Make one with :meth:`from_scores` or :meth:`from_counts`; histograms of parts of the
    data add up to that of the whole. While there are at most 4096 distinct scores
    the histogram is exact. Beyond, scores are collected in the cells of a fixed grid
    that does not depend on the data. A cell keeps the mean score of its positives and
    that of its negatives, as two locations: one mean for both would lose how labels
    go with scores inside the cell. (A data set that spans less than 256 cells stays
    exact: the grid would be too coarse for it.)

    Attributes
    ----------
    kind : {"probability", "margin"}
        What the scores are.
    locations : array
        Log-odds of the scores (or the margins themselves), never decreasing.
    positives, negatives : array
        Weight of either class at each location.
    exact : bool
        Whether every distinct score has its own place.

    Examples
    --------
    >>> monday = ScoreHistogram.from_scores([0.1, 0.4, 0.4], [0, 0, 1])
    >>> tuesday = ScoreHistogram.from_scores([0.4, 0.8], [1, 1])
    >>> monday + tuesday
    ScoreHistogram(3 exact scores, weight 5, base rate 0.6)
    """

    kind: Kind
    locations: Array
    positives: Array
    negatives: Array
    exact: bool
    cells: Cells
    highest: float
    """Largest location that is not an exact 1."""

    @classmethod
    def from_scores(
        cls,
        scores: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        kind: Literal["auto", "probability", "margin"] = "auto",
        classes: Any = None,
    ) -> ScoreHistogram:
        """Collect scores and their labels.

        Parameters
        ----------
        scores : array-like of shape (n,), (n, 1) or (n, 2)
        y : array-like of shape (n,)
            Two classes. A part of the data that shows only one of them needs
            ``classes``, unless the labels are 0 and 1 or booleans.
        sample_weight : array-like of shape (n,), optional
        kind : {"auto", "probability", "margin"}
            ``"auto"`` takes scores outside [0, 1] for margins.
        classes : array-like of two labels, optional
            The second is the positive class.
        """
        _validation.one_of(kind, "kind", ("auto", "probability", "margin"))
        checked = _validation.binary_scores(scores, kind=None if kind == "auto" else kind)
        if classes is None:
            labels = _validation.label_array(y, len(checked))
            if labels.dtype.kind in "biuf" and np.all((labels == 0) | (labels == 1)):
                classes = np.array([0, 1], dtype=labels.dtype)
        else:
            classes = np.asarray(classes)
        _, positive = _validation.binary_labels(y, len(checked), classes)
        return cls.collect(checked, positive, _validation.weight_array(sample_weight, len(checked)))

    @classmethod
    def from_counts(cls, scores: Any, positives: Any, totals: Any) -> ScoreHistogram:
        """Take data that are already aggregated.

        Parameters
        ----------
        scores : array-like of shape (n,)
            Scores may repeat.
        positives, totals : array-like of shape (n,)
            Weight of the positive rows, and of all rows, with that score.

        Examples
        --------
        >>> ScoreHistogram.from_counts([0.2, 0.7], positives=[10, 60], totals=[100, 80])
        ScoreHistogram(2 exact scores, weight 180, base rate 0.3889)
        """
        checked = _validation.binary_scores(scores, kind=None)
        n = len(checked)
        w1 = _validation.weight_array(positives, n, "positives")
        total = _validation.weight_array(totals, n, "totals")
        if w1 is None or total is None:
            raise TypeError("positives and totals must be given")
        if np.any(w1 > total):
            row = int(np.argmax(w1 > total))
            raise ValueError(f"positives must not exceed totals; row {row} has {w1[row]:g} of {total[row]:g}")
        return cls._settle(checked.kind, checked.locations(), w1, total - w1)

    @classmethod
    def collect(cls, scores: BinaryScores, positive: NDArray[np.bool_], weight: Array | None) -> ScoreHistogram:
        """Collect checked scores, chunk by chunk."""
        if weight is not None and weight.size and weight.min() == 0.0:
            scores, positive, weight = scores.take(weight > 0.0), positive[weight > 0.0], weight[weight > 0.0]
        exact: ScoreHistogram | None = cls._settle(scores.kind, *_empty(3))
        grid = _Grid(scores.kind)
        for rows in _validation.chunks(len(scores)):
            location = scores.locations(rows)
            w = None if weight is None else weight[rows]
            if exact is not None:
                exact += cls._settle(scores.kind, location, *_by_label(positive[rows], w))
                if not exact.exact:
                    grid.add_histogram(exact)
                    exact = None
            else:
                grid.add(location, positive[rows], w)
        return exact if exact is not None else grid.histogram()

    @classmethod
    def _settle(cls, kind: Kind, location: Array, positives: Array, negatives: Array) -> ScoreHistogram:
        """Exact if it may be, else binned."""
        values, place = np.unique(location, return_inverse=True)
        w1, w0 = (
            np.bincount(place, weights=w, minlength=len(values)).astype(np.float64) for w in (positives, negatives)
        )
        keep = (w1 + w0) > 0.0
        if not keep.all():
            values, w1, w0 = values[keep], w1[keep], w0[keep]
        below_one = values[values != ONE] if kind == "probability" else values
        highest = float(below_one[-1]) if below_one.size else -np.inf
        cells = probability_cells(values) if kind == "probability" else margin_cells(values)
        histogram = cls(kind, values, w1, w0, True, cells, highest)
        if len(values) <= MOST_EXACT or cells[-1] - cells[0] < FEWEST_CELLS:
            return histogram
        grid = _Grid(kind)
        grid.add_histogram(histogram)
        return grid.histogram()

    def __add__(self, other: object) -> ScoreHistogram:
        """The histogram of both data sets together."""
        if not isinstance(other, ScoreHistogram):
            return NotImplemented
        if self.kind != other.kind:
            raise ValueError(f"cannot add a histogram of {other.kind} scores to one of {self.kind} scores")
        if self.exact and other.exact:
            return self._settle(
                self.kind,
                np.concatenate([self.locations, other.locations]),
                np.concatenate([self.positives, other.positives]),
                np.concatenate([self.negatives, other.negatives]),
            )
        grid = _Grid(self.kind)
        grid.add_histogram(self)
        grid.add_histogram(other)
        return grid.histogram()

    def __len__(self) -> int:
        """Number of locations."""
        return len(self.locations)

    @property
    def scores(self) -> Array:
        """The locations as scores."""
        return np.asarray(expit(self.locations)) if self.kind == "probability" else self.locations

    @property
    def total(self) -> float:
        """Sum of all weights."""
        return float(self.positives.sum() + self.negatives.sum())

    @property
    def base_rate(self) -> float:
        """Share of the positives."""
        return float(self.positives.sum()) / self.total

    def __repr__(self) -> str:
        what = "exact scores" if self.exact else "means in cells"
        rate = f", base rate {self.base_rate:.4g}" if len(self) else ""
        return f"ScoreHistogram({len(self)} {what}, weight {self.total:g}{rate})"

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and lists, for JSON."""
        return {
            "kind": self.kind,
            "exact": self.exact,
            "locations": self.locations.tolist(),
            "positives": self.positives.tolist(),
            "negatives": self.negatives.tolist(),
            "cells": self.cells.tolist(),
            "highest": self.highest if len(self) else None,
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> ScoreHistogram:
        """The histogram that :meth:`to_dict` described; anything else is an error."""
        fields = {"kind", "exact", "locations", "positives", "negatives", "cells", "highest"}
        if not isinstance(data, dict) or set(data) != fields:
            raise ValueError(f"a histogram must be a dict with the keys {', '.join(sorted(fields))}")
        _validation.one_of(data["kind"], "kind", ("probability", "margin"))
        _validation.one_of(data["exact"], "exact", (True, False))
        arrays = {name: _validation.numeric_array(data[name], name) for name in ("positives", "negatives", "cells")}
        locations = _validation.numeric_array(data["locations"], "locations")
        if locations.ndim != 1 or (np.diff(locations) < 0.0).any():
            raise ValueError("locations must be one list that never decreases")
        highest = -np.inf if data["highest"] is None else _validation.number(data["highest"], "highest")
        for name, array in arrays.items():
            if array.shape != locations.shape:
                raise ValueError(f"{name} must have one value per location; got shape {array.shape}")
        if locations.size and min(arrays["positives"].min(), arrays["negatives"].min()) < 0.0:
            raise ValueError("positives and negatives must not be negative")
        cells = arrays["cells"].astype(np.intp)
        return cls(data["kind"], locations, arrays["positives"], arrays["negatives"], data["exact"], cells, highest)


def _empty(count: int) -> list[Array]:
    return [np.empty(0) for _ in range(count)]


def _by_label(positive: NDArray[np.bool_], w: Array | None) -> tuple[Array, Array]:
    one = positive.astype(np.float64)
    zero = 1.0 - one
    return (one, zero) if w is None else (one * w, zero * w)


class _Grid:
    """Running sums over the cells of the fixed grid, for negatives and positives apart."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.first = 0
        self.weights = np.zeros((0, 2))
        self.moments = np.zeros((0, 2))
        self.highest = -np.inf

    def _place(self, cells: Cells) -> Cells:
        """Indices of ``cells`` into the sums, which are widened to hold them."""
        low, high, width = int(cells.min()), int(cells.max()) + 1, len(self.weights)
        if width == 0:
            self.first = low
        before, after = max(self.first - low, 0), max(high - self.first - width, 0)
        if before or after:
            self.weights, self.moments = (
                np.pad(sums, ((before, after), (0, 0))) for sums in (self.weights, self.moments)
            )
            self.first -= before
        return cells - self.first

    def add(self, location: Array, positive: NDArray[np.bool_], w: Array | None) -> None:
        cells = probability_cells(location) if self.kind == "probability" else margin_cells(location)
        place = self._place(cells) * 2 + positive
        size = self.weights.size
        self.weights += np.bincount(place, weights=w, minlength=size).reshape(-1, 2)
        moment = location if w is None else w * location
        self.moments += np.bincount(place, weights=moment, minlength=size).reshape(-1, 2)
        top = float(location.max())
        if top == ONE and self.kind == "probability":
            top = float(np.max(location, initial=-np.inf, where=location != ONE))
        self.highest = max(self.highest, top)

    def add_histogram(self, other: ScoreHistogram) -> None:
        if len(other):
            place = self._place(other.cells)
            for label, w in enumerate((other.negatives, other.positives)):
                self.weights[:, label] += np.bincount(place, weights=w, minlength=len(self.weights))
                self.moments[:, label] += np.bincount(place, weights=w * other.locations, minlength=len(self.weights))
            self.highest = max(self.highest, other.highest)

    def histogram(self) -> ScoreHistogram:
        cell, label = np.nonzero(self.weights)
        w = self.weights[cell, label]
        location = self.moments[cell, label] / w
        order = np.lexsort((location, cell))
        # A mean may round over the edge of its cell; locations still never decrease.
        location = np.maximum.accumulate(location[order])
        cell, label, w = cell[order], label[order], w[order]
        return ScoreHistogram(
            self.kind,
            location,
            np.where(label == 1, w, 0.0),
            np.where(label == 0, w, 0.0),
            False,
            cell + self.first,
            self.highest,
        )
