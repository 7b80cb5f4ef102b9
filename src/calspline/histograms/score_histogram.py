"""ScoreHistogram: the sufficient statistics of a fit to one column of scores."""

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
    """Histogram of scores by label: the sufficient statistics of a calibration fit.

    Use :meth:`from_scores` or :meth:`from_counts` to create a histogram. Histograms of
    parts of the data can be added. With up to 4096 distinct scores, a histogram is
    exact. Otherwise, scores are collected in the cells of a grid. There is one grid for
    each power of two, independent of the data, and a histogram uses the finest one on
    which the data occupy at most 4096 cells. Histograms from different machines can
    therefore be added, whatever the range of the scores.

    Each cell stores the mean scores of its positives and of its negatives as two
    locations, since a common mean would lose the association of labels and scores
    within the cell.

    Attributes
    ----------
    kind : {"probability", "margin"}
        Kind of the scores.
    locations : array
        Log-odds of the scores (or the margins), in nondecreasing order.
    positives, negatives : array
        Weight of either class at each location.
    level : int or None
        Level of the grid; None for an exact histogram.
    cells : array
        Cell of each location; empty for an exact histogram.
    highest : float
        Largest location that is not an exact 1.
    classes : tuple of two labels, or None
        Labels of negatives and positives, if known. Only histograms of the same classes
        can be added.
    row_weight : float
        Total weight divided by the effective sample size: the sum of squared weights
        over the sum of weights, or 1 for whole numbers, which count rows.

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
        """Create a histogram from scores and labels.

        Parameters
        ----------
        scores : array-like of shape (n,), (n, 1) or (n, 2)
            Probabilities or margins, as for a calibrator.
        y : array-like of shape (n,)
            Labels of two classes. If only one occurs, ``classes`` is required, unless
            the labels are booleans or 0.
        sample_weight : array-like of shape (n,), optional
            Sample weights.
        kind : {"auto", "probability", "margin"}, default="auto"
            Kind of the scores. For ``"auto"``, scores are margins if more than a tenth
            of them lie outside [0, 1].
        classes : array-like of two labels, optional
            Class labels; the second is the positive class.
        by : array-like of shape (n,) or (n, n_columns), optional
            Segment of each row.

        Returns
        -------
        histogram : ScoreHistogram or SegmentHistograms
            With ``by``, a mapping from segments to their histograms on a common grid
            (:class:`~calspline.histograms.segment_histogram.SegmentHistograms`).
        """
        check_one_of(kind, "kind", ("auto", "probability", "margin"))
        given = check_scores(scores)
        weight = check_weights(sample_weight, len(given))
        labels = check_label_array(y, len(given))
        known = _zero_and_one(labels) if classes is None else check_two_classes(classes)
        found, positive = check_binary_labels(labels, known)
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
    """The classes 0 and 1, or booleans, if a single label implies them."""
    if labels.dtype.kind not in "biuf" or not np.all((labels == 0) | (labels == 1)):
        return None
    if labels.dtype.kind != "b" and labels.size and labels.min() == 1:
        raise ValueError(
            "y shows one class, 1; give both as classes, the second being what scores "
            "are of"
        )
    return np.array([0, 1], dtype=labels.dtype)
