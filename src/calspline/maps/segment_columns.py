"""What is known of the segments of one column, and a table of it for people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, repeat
from typing import Annotated, Any

import numpy as np
import scipy

from calspline._arrays import Array
from calspline._codec import Record, TupleOf, check_fields
from calspline._domains import Numbers, Symmetric
from calspline._formatting import Row, format_number, on_one_line, percent
from calspline._input.segment_labels import Codes, Known
from calspline._results import Block, Result, Table
from calspline.fitting.segments import Effects

LEVEL = 0.95


PerSegment = Annotated[Array, Numbers("S", not_negative=True)]


@dataclass(frozen=True, eq=False)
class SegmentColumn:
    """The effects of the segments of one column.

    ``theta`` has a row for each segment, with a column for each direction, and
    ``difference`` what the covariance of a segment's curve has in excess of that of the
    common one. ``spread`` is the variance between segments, ``new`` the same for limits
    of a segment never seen, which allows for how uncertain it is, and ``slope_unit``
    the slope of the second direction. The rest is for the table.

    Of several classes, ``theta`` has their intercepts and, last, an inverse
    temperature; ``difference`` is None. The table then has the largest intercept of a
    segment; where there are none, limits are those of the temperature.
    """

    name: str | None
    known: Known
    spread: Annotated[Array, Numbers("m", not_negative=True)]
    new: Annotated[Array, Numbers("m", not_negative=True)]
    slope_unit: float
    theta: Annotated[Array, Numbers("S", "m")]
    difference: Annotated[Array, Symmetric("S", "m")] | None
    sd: PerSegment
    shrinkage: PerSegment
    rows: PerSegment
    events: PerSegment
    mean_score: Annotated[Array, Numbers("S")]

    def __post_init__(self) -> None:
        check_fields(self)
        if len(self.known.labels) != len(self.theta):
            raise ValueError("theta must have a row for each of the known labels")

    @classmethod
    def fitted(
        cls,
        effects: Effects,
        used: Any,
        shown: Any,
        code: Codes,
        sums: Sequence[Array],
        **facts: Any,
    ) -> SegmentColumn:
        """Effects in the directions ``used``, and statistics of each segment.

        ``sums`` are over weights, events and scores, and ``shown`` is the direction
        that the table is about.
        """
        S = len(effects.theta)
        rows, events, scores = (
            np.bincount(code + 1, weights=each, minlength=S + 1)[1:].astype(np.float64)
            for each in sums
        )
        return cls(
            spread=effects.spread[used],
            new=effects.new[used],
            theta=np.ascontiguousarray(effects.theta[:, used]),
            sd=effects.sd[np.arange(S), shown],
            shrinkage=1.0 - effects.kept[np.arange(S), shown],
            rows=rows,
            events=events,
            mean_score=scores / np.where(rows > 0.0, rows, 1.0),
            **facts,
        )

    @cached_property
    def effects(self) -> Array:
        """The effects of all segments and, last, of one never seen, which has none."""
        return np.vstack([self.theta, np.zeros((1, self.theta.shape[1]))])

    def effect(self, k: int) -> Array:
        """Those in a direction; zeros if it is not used."""
        if k < self.effects.shape[1]:
            return self.effects[:, k]
        return np.zeros(len(self.effects))

    @property
    def of_classes(self) -> bool:
        """Whether effects are on several classes."""
        return self.difference is None

    def facts(self) -> dict[str, Any]:
        """Columns of the table."""
        S, m = self.theta.shape
        intercept = self.effect(0)[:S]
        slope = self.effect(1)[:S]
        if self.of_classes and m:
            slope = self.theta[:, -1]
            intercept = np.zeros(S)
            if m > 1:
                intercept = self.theta[
                    np.arange(S), np.abs(self.theta[:, :-1]).argmax(axis=1)
                ]
        slope = slope * self.slope_unit
        centre, unit = (
            (slope, self.slope_unit) if self.of_classes and m == 1 else (intercept, 1.0)
        )
        reach = float(scipy.special.ndtri(0.5 + 0.5 * LEVEL)) * self.sd * unit
        return {
            "segment": list(self.known.labels),
            "rows": self.rows,
            "events": self.events,
            "mean_score": self.mean_score,
            "event_rate": self.events / self.rows,
            "intercept": intercept,
            "slope": slope,
            "shrinkage": self.shrinkage,
            "low": centre - reach,
            "high": centre + reach,
        }


Columns = Annotated[tuple[SegmentColumn, ...], TupleOf(Record(SegmentColumn), least=1)]


def check_columns(columns: Sequence[SegmentColumn], size: int) -> None:
    """Check the number of directions of the effects of segments."""
    for k, column in enumerate(columns):
        if column.theta.shape[1] != size:
            raise ValueError(
                f"columns[{k}].theta must have {size} columns; "
                f"got {column.theta.shape[1]}"
            )


FARTHEST = 3
"""Segments that a summary names."""
SHOWN = 20
"""Rows of a printed table."""


class SegmentTable(Result, dict[str, Any]):
    """Fitted effects of segments: a dict of columns with one value per segment.

    ``pandas.DataFrame(cal.segments_)`` and ``polars.DataFrame(cal.segments_)`` make a
    frame of it; printed, it is a table that begins with the segments which depart
    farthest.
    """

    @classmethod
    def of(
        cls, columns: Sequence[SegmentColumn], classes: Sequence[Any] = ()
    ) -> SegmentTable:
        """Combine tables of columns, or of ``classes`` with curves of their own."""
        parts = [column.facts() for column in columns]
        table: dict[str, Any] = {}
        each = max(len(columns) // max(len(classes), 1), 1)
        sizes = [len(column.known.labels) for column in columns]
        if len(classes):
            of_column = [classes[k // each] for k in range(len(columns))]
            table["class"] = _repeated(of_column, sizes)
        if each > 1:
            names = [column.name for column in columns]
            places = [str(k % each) for k in range(len(columns))]
            pairs = zip(names, places, strict=True)
            known = [place if name is None else name for name, place in pairs]
            table["column"] = _repeated(known, sizes)
        for key in parts[0]:
            values = [part[key] for part in parts]
            if key == "segment":
                table[key] = list(chain.from_iterable(values))
            else:
                table[key] = np.concatenate(values)
        return cls(table)

    def farthest(self, count: int) -> list[int]:
        """Rows of the segments whose intercept and slope are farthest from zero."""
        far = np.abs(self["intercept"]) + np.abs(self["slope"])
        return np.argsort(-far, kind="stable")[:count].tolist()  # type: ignore[no-any-return]

    def _name(self, i: int) -> str:
        """Name of a row's segment, with column and class if there are several."""
        parts = (self[key][i] for key in ("class", "column", "segment") if key in self)
        return on_one_line(": ".join(map(str, parts)))

    def describe(self) -> list[str]:
        """Lines of a summary: number of segments, and the largest deviations."""
        n = len(self["segment"])
        if np.all(self["shrinkage"] == 1.0):
            return [f"  {n} segments, which all have the common curve"]
        lines = [f"  {n} segments, the farthest from the common curve:"]
        for i in self.farthest(FARTHEST):
            score = format_number(self["mean_score"][i])
            rate = format_number(self["event_rate"][i])
            lines.append(
                f"    {self._name(i)}: {self['rows'][i]:g} rows, mean score {score}, "
                f"event rate {rate}, "
                f"intercept {self['intercept'][i]:+.3f}, slope {self['slope'][i]:+.3f}"
            )
        return lines

    def _blocks(self) -> list[Block]:
        rows: list[Row] = [
            (
                self._name(i),
                f"{self['rows'][i]:g}",
                f"{self['events'][i]:g}",
                format_number(self["mean_score"][i]),
                format_number(self["event_rate"][i]),
                f"{self['intercept'][i]:+.3f}",
                f"{self['low'][i]:+.3f} to {self['high'][i]:+.3f}",
                f"{self['slope'][i]:+.3f}",
                f"{self['shrinkage'][i]:.2f}",
            )
            for i in self.farthest(SHOWN)
        ]
        header = (
            "segment",
            "rows",
            "events",
            "mean score",
            "event rate",
            "intercept",
            f"{percent(LEVEL)} limits",
            "slope",
            "shrinkage",
        )
        return [Table(rows, header, total=len(self["segment"]))]

    def _columns(self) -> dict[str, Any]:
        return self


def _repeated(values: Sequence[Any], times: Sequence[int]) -> list[Any]:
    """Each value as many times as told."""
    pairs = zip(values, times, strict=True)
    return list(chain.from_iterable(repeat(value, n) for value, n in pairs))
