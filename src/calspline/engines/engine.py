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


@dataclass(frozen=True)
class Locations:
    """How the scores in columns ``names``, one for each class or that of the second of two, give locations.

    Two classes have one location, that of class 1; with ``difference``, two margins count by theirs. Of more classes
    each has its own, against the rest.
    """

    names: list[str]
    kind: Kind
    transform: str = "auto"
    difference: bool = False

    @property
    def two(self) -> bool:
        """Whether there are two classes."""
        return len(self.names) <= 2

    @property
    def column_kind(self) -> Kind:
        """What the scores of a class are."""
        return "margin" if self.transform == "identity" else self.kind


class Rows(Protocol):
    """The rows to fit, wherever they are: columns ``s0``, ``s1`` ... (scores), ``y`` and ``w``."""

    def clipped(self, stats: ColumnStats) -> Rows:
        """The same with probabilities within [0, 1], from which they differ by rounding at most."""

    def weighted(self, factor: float) -> Rows:
        """The same with all weights multiplied."""

    def histograms(self, where: Locations, classes: NDArray[Any], seen: Sequence[int]) -> dict[int, Found]:
        """A histogram for each class in ``seen``, by its number: by segment, if there are segments."""

    def moments(
        self, where: Locations, classes: NDArray[Any], lines: dict[int, PooledLine]
    ) -> tuple[list[GroupMoments], GroupSizes]:
        """What groups say about the scores of the classes of ``lines``, and how large they are."""

    def sample(self, names: list[str], share: float) -> Sample:
        """A share of the rows, which are the same ones in every engine."""


def unpivot(rows: LazyFrame, names: list[str]) -> LazyFrame:
    """Columns ``w`` and ``own`` as they are, ``which`` (the name of a column) and ``u`` (its value)."""
    return rows.unpivot(on=names, index=["w", "own"], variable_name="which", value_name="u")


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
        often they are used. Without it, the engine does that of its own accord.
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
    barrier: Callable[[LazyFrame], LazyFrame] = lambda frame: frame
    reference: Callable[[str], str] = str

    def has_nan(self, native: Any) -> bool:
        """Whether its numbers can be NaN, which is then tested for."""
        from calspline.export.dialects import DIALECTS

        return self.dialect is None or DIALECTS[self.dialect(native)].not_nan != "TRUE"
