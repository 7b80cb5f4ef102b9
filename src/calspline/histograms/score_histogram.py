"""ScoreHistogram: all that a one-dimensional fit needs to know of a data set."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from calspline._input.labels import (
    check_binary_labels,
    check_label_array,
    check_two_classes,
    plain_labels,
)
from calspline._input.options import check_one_of
from calspline._input.scores import check_scores, decide_kind
from calspline._input.segment_labels import check_by
from calspline._input.weights import (
    check_weights,
    check_weights_as_counts,
    counted_columns,
    row_weight,
)
from calspline.histograms.histogram import BinnedScores
from calspline.histograms.segment_histogram import SegmentHistograms


@dataclass(frozen=True, eq=False, repr=False)
class ScoreHistogram(BinnedScores):
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
        What negatives and positives are, where labels were given. Histograms of other
        classes do not add up.
    row_weight : float
        How much weight is worth a row: the sum of squared weights over that of weights,
        or 1 where these are whole numbers, which count rows. Variances of weighted
        events are so many times those of counts.

    Examples
    --------
    >>> monday = ScoreHistogram.from_scores([0.1, 0.4, 0.4], [0, 0, 1])
    >>> tuesday = ScoreHistogram.from_scores([0.4, 0.8], [1, 1], classes=[0, 1])
    >>> monday + tuesday
    ScoreHistogram(3 exact scores, weight 5, base rate 0.6)
    """

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
            ``"auto"`` takes scores for margins if more than a tenth of them lie outside
            [0, 1].
        classes : array-like of two labels, optional
            The second is the positive class.
        by : array-like of shape (n,), a frame, a 2-d array or a list of columns, optional
            The segment of each row, or several.

        Returns
        -------
        ScoreHistogram
            With ``by``, a mapping from segments to their histograms on one grid
            (:class:`~calspline.histograms.segment_histogram.SegmentHistograms`), which adds up
            likewise.
        """
        check_one_of(kind, "kind", ("auto", "probability", "margin"))
        given = check_scores(scores)
        weight = check_weights(sample_weight, len(given))
        labels = check_label_array(y, len(given))
        known = _zero_and_one(labels) if classes is None else check_two_classes(classes)
        found, positive = check_binary_labels(labels, len(given), known)
        ordered = given.in_class_order(found)
        checked = decide_kind(ordered, kind).binary(ordered)
        segments = None
        if by is not None:
            segments = check_by(by, len(checked))
        if weight is not None:
            columns = counted_columns(given.values, segments)
            check_weights_as_counts(weight, labels=positive, scores=columns)
        histogram = cls.collect(checked, positive, weight)
        names = None
        if classes is not None or len(labels):
            names = tuple(plain_labels(found))
        histogram = replace(histogram, row_weight=row_weight(weight), classes=names)
        if segments is None:
            return histogram
        return SegmentHistograms.collect(histogram, checked, positive, weight, segments)


def _zero_and_one(labels: NDArray[Any]) -> NDArray[Any] | None:
    """The classes 0 and 1, or booleans, of which one may be absent; a lone 1 may as well be the first of 1 and 2."""
    if labels.dtype.kind not in "biuf" or not np.all((labels == 0) | (labels == 1)):
        return None
    if labels.dtype.kind != "b" and labels.size and labels.min() == 1:
        raise ValueError(
            "y shows one class, 1; give both as classes, the second being what scores "
            "are of"
        )
    return np.array([0, 1], dtype=labels.dtype)
