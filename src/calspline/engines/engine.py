"""What a data frame or database declares once, as an :class:`Engine`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from calspline.engines.rows import Columns, ColumnStats, LazyFrame
from calspline.export.dialects import DIALECTS

Select = Callable[[Any, list[list[str]], Sequence[str]], Any]


def _unpivot(rows: LazyFrame, names: list[str]) -> LazyFrame:
    """Columns ``w``, ``own``, ``which`` (a name of a column) and ``u`` (its value)."""
    return rows.unpivot(
        on=names, index=["w", "own"], variable_name="which", value_name="u"
    )


@dataclass(frozen=True)
class Engine:
    """A kind of data frame or database.

    Its calibrated columns come from SQL, if it has ``select``, or else from numpy by
    ``assign``; several columns of scores prefer ``assign`` where there are both.
    """

    name: str
    """What narwhals calls it."""
    rows: Callable[[Engine, Any, Columns], tuple[Any, ColumnStats]] | None = None
    """``rows(engine, frame, columns)`` gives the rows that count and what their columns
    hold. Frames in memory have none: their columns are arrays."""
    assign: Callable[[Any, Any], Any] | None = None
    """``assign(native, calibrate)`` adds the columns that ``calibrate`` computes."""
    select: Select | None = None
    """``select(native, projections, outputs)`` selects lists of expressions in turn."""
    dialect: Callable[[Any], str] | None = None
    """``dialect(native)`` names the dialect, one of ``calspline.export.dialects``."""
    unpivot: Callable[[LazyFrame, list[str]], LazyFrame] = _unpivot
    """One row for each class of a row, so that all classes are summed in one pass."""
    barrier: Callable[[LazyFrame], LazyFrame] = lambda frame: frame
    """The same rows, from a subquery that the database computes once for each row.
    By default the engine does so anyway."""
    typed: bool = True
    """Whether the type of a column is that of its values, missing ones aside."""
    reference: Callable[[str], str] = str
    """The name of a column in expressions, if it is not the name itself."""

    def has_nan(self, native: Any) -> bool:
        """Whether its numbers can be NaN, which is then tested for."""
        return self.dialect is None or DIALECTS[self.dialect(native)].not_nan != "TRUE"
