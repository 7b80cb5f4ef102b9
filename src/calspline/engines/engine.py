"""What a data frame or database declares once, so that calibrators can be fitted and applied where its rows are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import narwhals as nw
from numpy.typing import NDArray

from calspline.arrays import Array
from calspline.engines.checks import Columns, ColumnStats
from calspline.fitting.groups import GroupMoments, GroupSizes, PooledLine
from calspline.histogram import ScoreHistogram
from calspline.scores import Kind
from calspline.segments.histogram import SegmentHistograms
from calspline.segments.labels import By

Frame = nw.DataFrame[Any] | nw.LazyFrame[Any]
LazyFrame = nw.LazyFrame[Any]
Found = ScoreHistogram | SegmentHistograms


class Sample(NamedTuple):
    """Rows as arrays."""

    scores: Array
    labels: NDArray[Any]
    weight: Array
    groups: NDArray[Any] | None
    by: By | None


class Rows(Protocol):
    """The rows to fit, wherever they are: columns ``s0``, ``s1`` ... (scores), ``y`` and ``w``.

    Histograms of rows with segments are :class:`~calspline.segments.histogram.SegmentHistograms`.
    """

    def clipped(self, stats: ColumnStats) -> Rows:
        """The same with probabilities within [0, 1], from which they differ by rounding at most."""

    def weighted(self, factor: float) -> Rows:
        """The same with all weights multiplied."""

    def histogram(self, names: list[str], kind: Kind, *, difference: bool, positive: Any) -> Found:
        """The histogram of two classes, whose scores are in one column or two."""

    def one_vs_rest(
        self, names: list[str], classes: NDArray[Any], seen: Sequence[int], kind: Kind, transform: str
    ) -> dict[int, Found]:
        """A histogram for each class that is seen, by its number."""

    def sample(self, names: list[str], share: float) -> Sample:
        """A share of the rows, which are the same ones in every engine."""

    def group_moments(
        self, names: list[str], kind: Kind, line: PooledLine, *, difference: bool, positive: Any
    ) -> tuple[GroupMoments, GroupSizes]:
        """What groups say about the scores of two classes, and how large they are."""

    def one_vs_rest_moments(
        self, names: list[str], classes: NDArray[Any], lines: dict[int, PooledLine], kind: Kind, transform: str
    ) -> tuple[list[GroupMoments], GroupSizes]:
        """The same for some classes against the rest, by their numbers."""


def unpivot(rows: LazyFrame, names: list[str]) -> LazyFrame:
    """Columns ``w`` and ``own`` as they are, ``which`` (the name of a column) and ``u`` (its value)."""
    return rows.unpivot(on=names, index=["w", "own"], variable_name="which", value_name="u")


def no_barrier(frame: LazyFrame) -> LazyFrame:
    """The frame itself: its engine computes a column of a subquery once."""
    return frame


@dataclass(frozen=True)
class Engine:
    """A kind of data frame or database.

    Its calibrated columns come from SQL, if it has ``select``, or else from numpy by ``assign``; several columns of
    scores prefer ``assign`` where there are both.

    Parameters
    ----------
    name : str
        What narwhals calls it, or any other name if it has ``open``.
    rows : callable
        ``rows(engine, frame, columns)`` gives the :class:`Rows` that count and what their columns hold.
    assign : callable, optional
        ``assign(native, calibrate)`` gives the native frame with the columns that a
        :class:`~calspline.engines.calibrate.Calibrate` computes.
    select : callable, optional
        ``select(native, projections, outputs)`` selects lists of SQL expressions, each from the one before.
    dialect : callable, optional
        ``dialect(native)`` names the dialect of SQL, one of :data:`calspline.export.dialects.DIALECTS`.
    open : callable, optional
        ``open(native)`` gives a frame of narwhals, or None if it is another engine's. Without it, narwhals knows.
    unpivot : callable
        One row for each class of a row, inside the query, so that all classes are summed in the same pass.
    barrier : callable
        The same rows, from a subquery that the database leaves alone: it computes columns once for each row, however
        often they are used.
    reference : callable
        The name of a column as expressions refer to it, where that is not the name itself.
    """

    name: str
    rows: Callable[[Engine, Any, Columns], tuple[Rows, ColumnStats]]
    assign: Callable[[Any, Any], Any] | None = None
    select: Callable[[Any, list[list[str]], Sequence[str]], Any] | None = None
    dialect: Callable[[Any], str] | None = None
    open: Callable[[Any], Frame | None] | None = None
    unpivot: Callable[[LazyFrame, list[str]], LazyFrame] = unpivot
    barrier: Callable[[LazyFrame], LazyFrame] = no_barrier
    reference: Callable[[str], str] = str

    def has_nan(self, native: Any) -> bool:
        """Whether its numbers can be NaN, which is then tested for."""
        from calspline.export.dialects import DIALECTS

        return self.dialect is None or DIALECTS[self.dialect(native)].not_nan != "TRUE"
