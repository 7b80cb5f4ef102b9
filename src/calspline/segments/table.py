"""What was learnt of each segment: its effects, and a table of them for people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy

from calspline.arrays import Array
from calspline.formatting import number, percent, text_table
from calspline.options import LABEL, TEXT, Checked, Matrix, Number, Numbers, Record, optional
from calspline.segments.labels import Codes, Known

LEVEL = 0.95
FARTHEST = 3
"""Segments that a summary names."""
SHOWN = 20
"""Rows of a printed table."""
SCALARS = (bool, int, float, str)


def _check_name(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a text or None; got {value!r}")
    return value


def _check_labels(value: Any, name: str) -> list[Any]:
    if not isinstance(value, list) or not all(isinstance(label, SCALARS) for label in value):
        raise ValueError(f"{name} must be a list of texts and numbers")
    if len(set(value)) != len(value):
        raise ValueError(f"{name} must all be different")
    return value


SEGMENT_COLUMN = Record(
    "segment_column",
    {
        "name": optional(Checked(_check_name, TEXT)),
        "labels": Checked(_check_labels, {"type": "array", "uniqueItems": True, "items": LABEL.written}),
        "spread": Numbers(not_negative=True),
        "slope_unit": Number(),
        "theta": Matrix(),
        "difference": Matrix(),
        "sd": Numbers(not_negative=True, note="Of the intercepts."),
        "kept": Numbers(not_negative=True, note="Share of its own intercept that each segment keeps."),
        "rows": Numbers(not_negative=True),
        "events": Numbers(not_negative=True),
        "said": Numbers(note="Mean score of each segment."),
    },
)
"""The effects of one column of segments in a file; of each symmetric matrix ``difference`` the lower triangle."""


@dataclass(frozen=True, eq=False)
class SegmentColumn:
    """The effects of the segments of one column.

    ``theta`` has a row for each segment, with a column for each direction, and ``difference`` what the covariance of a
    segment's curve has in excess of that of the common one. ``spread`` is the variance between segments, ``slope_unit``
    the slope of the second direction. The rest is for the table.

    Of several classes, ``theta`` has their intercepts and, last, an inverse temperature; there is no ``difference``.
    The table then has the largest intercept of a segment; where there are none, limits are those of the temperature.
    """

    name: str | None
    known: Known
    spread: Array
    slope_unit: float
    theta: Array
    difference: Array | None
    sd: Array
    kept: Array
    rows: Array
    events: Array
    said: Array

    @classmethod
    def summed(
        cls, code: Codes, w: Array, events: Array, said: Array, *, known: Known, **effects: Any
    ) -> SegmentColumn:
        """Effects, and the sums of weights, events and scores over the rows of each segment; ``code`` is a row's."""
        own = code >= 0
        if not own.all():
            code = code[own]
            w, events, said = (each[own] for each in (w, events, said))
        rows, happened, scores = (
            np.bincount(code, weights=each, minlength=len(known.labels)).astype(np.float64)
            for each in (w, events, said)
        )
        said = scores / np.where(rows > 0.0, rows, 1.0)
        return cls(known=known, rows=rows, events=happened, said=said, **effects)

    @cached_property
    def effects(self) -> Array:
        """The effects of all segments and, last, of one never seen, which has none."""
        return np.vstack([self.theta, np.zeros((1, self.theta.shape[1]))])

    def effect(self, k: int) -> Array:
        """Those in a direction; zeros if it is not used."""
        return self.effects[:, k] if k < self.effects.shape[1] else np.zeros(len(self.effects))

    def difference_of(self, codes: Codes) -> Array:
        """The covariance of each row's segment in excess of the common one; any for -1."""
        assert self.difference is not None
        return np.asarray(self.difference[codes])

    def facts(self) -> dict[str, Any]:
        """Columns of the table."""
        theta, S = self.theta, len(self.rows)
        intercept, slope = np.zeros((2, S))
        reach = float(scipy.special.ndtri(0.5 + 0.5 * LEVEL)) * self.sd
        if self.difference is not None:
            if theta.shape[1]:
                intercept = theta[:, 0]
            if theta.shape[1] > 1:
                slope = theta[:, 1] * self.slope_unit
            centre = intercept
        else:
            if theta.shape[1] > 1:
                intercept = theta[np.arange(S), np.abs(theta[:, :-1]).argmax(axis=1)]
            if theta.shape[1]:
                slope = theta[:, -1] * self.slope_unit
            centre, reach = (slope, reach * self.slope_unit) if theta.shape[1] == 1 else (intercept, reach)
        return {
            "segment": list(self.known.labels),
            "rows": self.rows,
            "events": self.events,
            "said": self.said,
            "happened": self.events / self.rows,
            "intercept": intercept,
            "slope": slope,
            "kept": self.kept,
            "low": centre - reach,
            "high": centre + reach,
        }

    def to_dict(self) -> dict[str, Any]:
        """The effects as JSON values."""
        odd = [label for label in self.known.labels if not isinstance(label, SCALARS)]
        if odd:
            raise TypeError(f"segments of type {type(odd[0]).__name__} cannot be saved; use texts or numbers")
        lower = np.tril_indices(self.theta.shape[1])
        keys = ("spread", "theta", "sd", "kept", "rows", "events", "said")
        return {key: getattr(self, key).tolist() for key in keys} | {
            "name": self.name,
            "labels": list(self.known.labels),
            "slope_unit": self.slope_unit,
            "difference": [] if self.difference is None else self.difference[:, lower[0], lower[1]].tolist(),
        }

    @classmethod
    def restored(cls, read: dict[str, Any], m: int) -> SegmentColumn:
        """What :meth:`to_dict` described, checked as ``SEGMENT_COLUMN``, with ``m`` directions."""
        known = Known(read.pop("labels"))
        S = len(known.labels)
        lower = np.tril_indices(m)
        of_classes = m > 0 and not read["difference"].size
        for key, shape in (
            ("theta", (S, m)),
            ("difference", (0,) if of_classes else (S, len(lower[0]))),
            ("spread", (m,)),
            *((key, (S,)) for key in ("sd", "kept", "rows", "events", "said")),
        ):
            if read[key].shape != shape and (read[key].size or np.prod(shape)):
                raise ValueError(f"{key} must have shape {shape}; got {read[key].shape}")
            read[key] = read[key].reshape(shape)
        if of_classes:
            return cls(**read | {"known": known, "difference": None})
        difference = np.zeros((S, m, m))
        difference[:, lower[0], lower[1]] = difference[:, lower[1], lower[0]] = read["difference"]
        return cls(**read | {"known": known, "difference": difference})


class SegmentTable(dict[str, Any]):
    """What was learnt of each segment: a dict of columns, one value each for every segment.

    ``pandas.DataFrame(cal.segments_)`` and ``polars.DataFrame(cal.segments_)`` make a frame of it; printed, it is a
    table that begins with the segments which depart farthest.
    """

    @classmethod
    def of(cls, columns: Sequence[SegmentColumn], classes: Sequence[Any] = ()) -> SegmentTable:
        """The table of columns of segments one after the other; of ``classes`` with own curves, class by class."""
        parts = [column.facts() for column in columns]
        table: dict[str, Any] = {}
        each = max(len(columns) // max(len(classes), 1), 1)
        if len(classes):
            table["class"] = [classes[k // each] for k, column in enumerate(columns) for _ in column.known.labels]
        if each > 1:
            table["column"] = [
                str(k % each) if column.name is None else column.name
                for k, column in enumerate(columns)
                for _ in column.known.labels
            ]
        for key in parts[0]:
            values = [part[key] for part in parts]
            table[key] = [one for each in values for one in each] if key == "segment" else np.concatenate(values)
        return cls(table)

    def farthest(self, count: int) -> list[int]:
        """Rows of the segments whose intercept and slope are farthest from zero."""
        far = np.abs(self["intercept"]) + np.abs(self["slope"])
        return np.argsort(-far, kind="stable")[:count].tolist()  # type: ignore[no-any-return]

    def _name(self, i: int) -> str:
        """What the segment of a row is called, with its column and class if there are several."""
        return ": ".join(str(self[key][i]) for key in ("class", "column", "segment") if key in self)

    def describe(self) -> list[str]:
        """Lines of a summary: how many segments there are, and those that depart farthest."""
        lines = [f"  {len(self['segment'])} segments, the farthest from the common curve:"]
        for i in self.farthest(FARTHEST):
            lines.append(
                f"    {self._name(i)}: {self['rows'][i]:g} rows, said {number(self['said'][i])}, happened "
                f"{number(self['happened'][i])}, intercept {self['intercept'][i]:+.3f}, slope {self['slope'][i]:+.3f}"
            )
        return lines

    def __str__(self) -> str:
        limits = f"{percent(LEVEL)} limits"
        header = ["segment", "rows", "events", "said", "happened", "intercept", limits, "slope", "kept"]
        rows = [
            [
                self._name(i),
                f"{self['rows'][i]:g}",
                f"{self['events'][i]:g}",
                number(self["said"][i]),
                number(self["happened"][i]),
                f"{self['intercept'][i]:+.3f}",
                f"{self['low'][i]:+.3f} to {self['high'][i]:+.3f}",
                f"{self['slope'][i]:+.3f}",
                f"{self['kept'][i]:.0%}",
            ]
            for i in self.farthest(SHOWN)
        ]
        more = len(self["segment"]) - SHOWN
        return text_table(rows, header) + (f"\n... and {more} more" if more > 0 else "")
