"""Common parts of results: text, HTML, dict and data frame.

A result describes itself once, as a list of blocks, which are tables and sentences, and
as columns of numbers. The base class makes the rest of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from calspline._formatting import Row, html_table, text_table

if TYPE_CHECKING:
    import pandas


class Table(NamedTuple):
    """A table for printing."""

    rows: Sequence[Row]
    header: Row | None = None
    title: str = ""
    total: int = 0
    """Total number of rows, if ``rows`` holds only the first."""

    def text(self) -> str:
        """Format the table with aligned columns, below its title."""
        table = text_table(self.rows, self.header, self.total)
        return f"{self.title}\n{table}" if self.title else table

    def html(self) -> str:
        """Format the table in HTML."""
        return html_table(self.rows, self.header, caption=self.title)


Block = Table | str


class Result(ABC):
    """Base class of results that print tables and sentences."""

    @abstractmethod
    def _blocks(self) -> Sequence[Block]:
        """Tables and sentences, in printing order."""

    @abstractmethod
    def _columns(self) -> Mapping[str, Any]:
        """Columns of numbers by name, all of equal length."""

    def __str__(self) -> str:
        return text_of_blocks(self._blocks())

    def _repr_html_(self) -> str:
        return html_of_blocks(self._blocks())

    def to_dict(self) -> dict[str, Any]:
        """Return the columns of :meth:`to_frame` as lists."""
        return {
            name: np.asarray(values, dtype=object).tolist()
            for name, values in self._columns().items()
        }

    def to_frame(self) -> pandas.DataFrame:
        """Return the numbers as a pandas data frame, with all digits."""
        try:
            import pandas
        except ImportError:
            raise ImportError("to_frame needs pandas: pip install pandas") from None
        return pandas.DataFrame(dict(self._columns()))


def text_of_blocks(blocks: Sequence[Block]) -> str:
    """Format blocks as text; tables with a title are preceded by an empty line."""
    parts: list[str] = []
    for block in blocks:
        if not block:
            continue
        if isinstance(block, str):
            parts.append(block)
        else:
            gap = "\n" if block.title and parts else ""
            parts.append(gap + block.text())
    return "\n".join(parts)


def html_of_blocks(blocks: Sequence[Block]) -> str:
    """Format blocks as HTML."""
    return "".join(
        f"<p>{escape(block)}</p>" if isinstance(block, str) else block.html()
        for block in blocks
        if block
    )
