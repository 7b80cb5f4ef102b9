"""Predictions for rows in segments, each of which may have a curve of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from calspline.arrays import Array
from calspline.calibrators.base import BaseCalibrator, as_matrix, in_shape
from calspline.expression import Formula
from calspline.labels import warn_user
from calspline.scores import Kind, check_scores
from calspline.segments.classes import ClassSegments
from calspline.segments.curves import SegmentedCurve
from calspline.segments.histogram import SegmentHistograms
from calspline.segments.labels import Codes, check_by
from calspline.segments.table import SegmentColumn, SegmentTable
from calspline.tensors import keeps_kind


class SegmentedCalibrator(BaseCalibrator):
    """A calibrator whose methods take ``by``, the segments that it was fitted with."""

    _segmented: Sequence[SegmentedCurve] = ()
    _class_segments: ClassSegments | None = None
    segments_: SegmentTable
    segment_histograms_: SegmentHistograms

    @keeps_kind
    def predict_proba(self, scores: Any, *, by: Any = None) -> Array:
        """Calibrated probabilities of all classes.

        Parameters
        ----------
        scores : array-like of shape (n,), (n, 1) or (n, n_classes)
        by : array-like of shape (n,), a frame, a 2-d array or a list of columns, optional
            The segment of each row, as in :meth:`fit`. A segment never seen, and None, gets the probability that holds
            for a new segment: that of the common curve, the spread between segments taken into account. A warning says
            how many rows that were. Without ``by`` all rows are of new segments, with a warning, too.

        Returns
        -------
        array of shape (n, n_classes)
            Columns in the order of ``classes_``. Scores in a tensor of PyTorch, or in an array that follows the array
            API, give one of the same kind, on the same device and in the same floating type.
        """
        return as_matrix(self._probability_by(scores, by)[0])

    @keeps_kind
    def calibrate(self, scores: Any, *, by: Any = None) -> Array:
        """Calibrated probabilities in the shape that came in.

        One column in gives the probability of ``classes_[1]``; more give all classes. ``by`` is as for
        :meth:`predict_proba`.
        """
        return in_shape(*self._probability_by(scores, by))

    @keeps_kind
    def predict(self, scores: Any, *, by: Any = None) -> NDArray[Any]:
        """The most probable class of each row; ``by`` is as for :meth:`predict_proba`."""
        return self._most_probable(self._probability_by(scores, by)[0])

    def interval(self, scores: Any, level: float = 0.95, *, simultaneous: bool = False, by: Any = None) -> Array:
        """Limits for the true calibrated probability at each score.

        Parameters
        ----------
        scores : array-like of shape (n,), (n, 1) or (n, 2)
        level : float in (0, 1), default=0.95
        simultaneous : bool, default=False
            True: limits that hold for all scores in the fitted range at once.
        by : array-like of shape (n,), a frame, a 2-d array or a list of columns, optional
            The segment of each row. For a segment never seen the limits are as wide as such segments differ.

        Returns
        -------
        array of shape (n, 2)
            Lower and upper limit.

        Notes
        -----
        There is none for ``loss="brier"``: a spline of the probability itself misses how it bends near 0 and 1, by more
        than a variance about the fit says.
        """
        check_is_fitted(self, "curves_")
        if len(self.classes_) > 2:
            raise ValueError("interval is for two classes; this calibrator was fitted to more")
        if self.curves_[0].link != "logit":
            raise ValueError(
                'interval needs loss="log"; bands about a fit by loss="brier" would not hold what they say'
            )
        checked = self._check_scores(scores)
        codes = self._codes(by, len(checked))
        if not self._segmented:
            return self.curves_[0].band_of(checked, level, simultaneous=simultaneous)
        band = self._segmented[0].band_of(checked, codes, level, simultaneous=simultaneous)
        return band if self.shift_ is None else self.shift_.apply_band(band, level)

    def formula(self) -> Formula:
        """What it computes, in terms that the exports write."""
        check_is_fitted(self, "curves_")
        if self._segment_columns:
            raise ValueError(
                "this calibrator was fitted with segments (by=), and an export does not know them; fit it without by "
                "to export one curve for all rows"
            )
        return super().formula()

    def _set_segments(self, segmented: Sequence[SegmentedCurve], of_classes: ClassSegments | None = None) -> None:
        """Take curves with segments, or what segments add to a map of several classes; both of an earlier fit go."""
        self._segmented, self._class_segments = segmented, of_classes
        for name in ("segments_", "segment_histograms_"):
            self.__dict__.pop(name, None)

    def _describe_segments(self) -> None:
        """Make the table, now that the classes are known."""
        if len(self._segmented) > 1:
            columns = [column for curves in self._segmented for column in curves.columns]
            self.segments_ = SegmentTable.of(columns, self.classes_.tolist())
        elif self._segment_columns:
            self.segments_ = SegmentTable.of(self._segment_columns)

    @property
    def _segment_columns(self) -> list[SegmentColumn]:
        """The columns of segments that the fit knew, if any."""
        if self._class_segments is not None:
            return self._class_segments.columns
        return self._segmented[0].columns if self._segmented else []

    def _remember(self, classes: NDArray[Any], kind: Kind, **facts: Any) -> None:
        super()._remember(classes, kind, **facts)
        self._describe_segments()

    def _probability_by(self, scores: Any, by: Any) -> tuple[Array, tuple[int, ...]]:
        check_is_fitted(self, "curves_")
        given = scores if by is None else check_scores(scores)
        return self._probability(given, **({} if by is None else {"codes": self._codes(by, len(given))}))

    def warn_without_segments(self) -> None:
        """Warn where scores of a calibrator with segments come without them, and nobody asked for that."""
        if self._segment_columns:
            warn_user(
                "this calibrator was fitted with segments (by=), and these scores come without: all of them get the "
                "probability of a new segment"
            )

    def _codes(self, by: Any, n: int) -> list[Codes] | None:
        """The place of each row's segment among those of the fit, in each column; one never seen is -1."""
        if by is None:
            return None
        known = self._segment_columns
        if not known:
            raise ValueError("by must not be given: this calibrator was fitted without segments")
        columns = check_by(by, n).like([one.name for one in known]).columns
        codes = [one.known.codes(column) for one, column in zip(known, columns, strict=True)]
        unseen = int(np.any([code < 0 for code in codes], axis=0).sum())
        if unseen:
            warn_user(
                f"{unseen} of {n} rows are of segments that the fit has not seen: they get the probability of a new "
                "segment"
            )
        return codes
