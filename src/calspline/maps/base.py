"""The base class of fitted maps.

A map is immutable. It turns checked scores into probabilities, and it does not depend
on how it was fitted. Segments and base-rate shifts are maps that wrap other maps.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from calspline._arrays import Array
from calspline._expression import Lookup, Program
from calspline._input.scores import BinaryScores, Kind, MatrixScores
from calspline.maps.log_odds import LogOdds
from calspline.transforms import Source

if TYPE_CHECKING:
    from calspline.maps.segment_columns import SegmentColumn

Codes = NDArray[np.intp]
Segments = Sequence[Codes]
"""The place of each row's segment, by column of segments; -1 if it was never seen."""
Table = dict[str, Any]
"""Numbers, texts, lists and other tables, by name."""
Scores = TypeVar("Scores", bound=BinaryScores | MatrixScores, contravariant=True)


class CalibrationMap(ABC, Generic[Scores]):
    """Checked scores in, probabilities out.

    Results have shape (n,) for the second of two classes, or (n, m) for several. What
    is not abstract is right for a map that knows nothing of its errors and of segments.
    """

    @abstractmethod
    def suits(self, kind: Kind, n_classes: int) -> bool:
        """Whether the map is for this kind of scores and number of classes."""

    @abstractmethod
    def probabilities(self, scores: Scores, segments: Segments | None = None) -> Array:
        """Calibrated probabilities."""

    @abstractmethod
    def formula(self, source: Source, kind: Kind) -> Program:
        """The map in steps that every export can write.

        The score is ``name("p")``. Of two classes, ``source`` is "one" where it is all
        there is, or "pair" where ``name("rest")`` is the score of the first class. For
        "row", ``name("p")`` has a column for each class. ``kind`` says whether scores
        are probabilities or margins.
        """

    @abstractmethod
    def describe(self) -> list[str]:
        """The map in words, for a summary."""

    def table(self, kind: Kind) -> Table:
        """The numbers of the map, for source code, with its ``type``.

        The evaluators in ``export/evaluators/`` know what to do with each type.
        """
        raise TypeError(f"a {type(self).__name__} has no table for source code")

    def log_odds(
        self,
        scores: Scores,
        segments: Segments | None = None,
        *,
        at: Array | None = None,
    ) -> LogOdds | None:
        """Log-odds and their standard deviations; None if the errors are unknown.

        ``at`` has the probabilities of several classes, if they are not the map's own.
        """
        return None

    def noise(self, scores: Scores) -> Array:
        """Independent errors of the log-odds of two classes, shape (r, n).

        Each is one standard deviation; there are none (r = 0) if they are unknown.
        """
        return np.empty((0, len(scores.values)))

    def sum_variance(self, scores: Scores, weights: Array) -> float:
        """Variance of a weighted sum of log-probabilities, 0 if it is unknown.

        The sum is over rows and several classes, before rows are normalized.
        """
        return 0.0

    @property
    def parts(self) -> Sequence[CalibrationMap[Any]]:
        """The map of each class against the rest, or the map itself."""
        return (self,)

    @property
    def common_curve(self) -> Any:
        """Its CalibrationCurve, regardless of segments; None if there is none."""
        return None

    @property
    def structure(self) -> Any:
        """A StructuredMap, that of no segment in particular; None if there is none."""
        return None

    @property
    def segment_columns(self) -> Sequence[SegmentColumn]:
        """The columns of segments that the map distinguishes."""
        return ()

    @property
    def lookups(self) -> list[Lookup]:
        """What the names of segment effects in :meth:`formula` stand for."""
        return []
