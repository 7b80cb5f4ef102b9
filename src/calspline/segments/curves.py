"""A curve for each segment: the common one, how each departs from it, and a table of that for people."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any

import numpy as np
import scipy

from calspline.arrays import Array, filled
from calspline.curve import CalibrationCurve
from calspline.expression import Expression, Lookup, Pieces, Program, call, name, number
from calspline.fitting.basis import NaturalSpline, evaluate_pieces
from calspline.fitting.segments import Effects
from calspline.formatting import format_number, percent, text_table
from calspline.options import LABEL, TEXT, Checked, ListOf, Matrix, Number, Numbers, Record, optional
from calspline.scores import BinaryScores
from calspline.segments.labels import Codes, Known
from calspline.transforms import Source

EFFECT, NEW = "effect_{}_{}", "new_{}"
"""Names in programs: the effect of a column's segment in a direction, and whether the segment is a new one."""
STRAIGHT = 1e-12
"""Bends this small, in proportion, are rounding."""

LEVEL = 0.95
FARTHEST = 3
"""Segments that a summary names."""
SHOWN = 20
"""Rows of a printed table."""
SCALARS = (bool, int, float, str)


def _check_labels(value: Any, name: str) -> list[Any]:
    if not isinstance(value, list) or not all(isinstance(label, SCALARS) for label in value):
        raise ValueError(f"{name} must be a list of texts and numbers")
    if len(set(value)) != len(value):
        raise ValueError(f"{name} must all be different")
    return value


SEGMENT_COLUMN = Record(
    "segment_column",
    {
        "name": optional(TEXT),
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

    Of several classes, ``theta`` has their intercepts and, last, an inverse temperature; ``difference`` is empty.
    The table then has the largest intercept of a segment; where there are none, limits are those of the temperature.
    """

    name: str | None
    known: Known
    spread: Array
    slope_unit: float
    theta: Array
    difference: Array
    sd: Array
    kept: Array
    rows: Array
    events: Array
    said: Array

    @classmethod
    def fitted(
        cls, effects: Effects, used: Any, shown: Any, code: Codes, sums: Sequence[Array], **facts: Any
    ) -> SegmentColumn:
        """Effects in the directions ``used``, and sums over the rows of each segment; ``code`` is a row's.

        ``sums`` are over weights, events and scores, and ``shown`` is the direction that the table is about.
        """
        S = len(effects.theta)
        rows, events, scores = (
            np.bincount(code + 1, weights=each, minlength=S + 1)[1:].astype(np.float64) for each in sums
        )
        return cls(
            spread=effects.spread[used],
            theta=np.ascontiguousarray(effects.theta[:, used]),
            sd=effects.sd[np.arange(S), shown],
            kept=effects.kept[np.arange(S), shown],
            rows=rows,
            events=events,
            said=scores / np.where(rows > 0.0, rows, 1.0),
            **facts,
        )

    @cached_property
    def effects(self) -> Array:
        """The effects of all segments and, last, of one never seen, which has none."""
        return np.vstack([self.theta, np.zeros((1, self.theta.shape[1]))])

    def effect(self, k: int) -> Array:
        """Those in a direction; zeros if it is not used."""
        return self.effects[:, k] if k < self.effects.shape[1] else np.zeros(len(self.effects))

    @property
    def of_classes(self) -> bool:
        """Whether effects are on several classes."""
        return self.difference.ndim == 1

    def facts(self) -> dict[str, Any]:
        """Columns of the table."""
        S, m = self.theta.shape
        intercept, slope = self.effect(0)[:S], self.effect(1)[:S]
        if self.of_classes and m:
            slope, intercept = self.theta[:, -1], np.zeros(S)
            if m > 1:
                intercept = self.theta[np.arange(S), np.abs(self.theta[:, :-1]).argmax(axis=1)]
        slope = slope * self.slope_unit
        centre, unit = (slope, self.slope_unit) if self.of_classes and m == 1 else (intercept, 1.0)
        reach = float(scipy.special.ndtri(0.5 + 0.5 * LEVEL)) * self.sd * unit
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
        difference = self.difference if self.of_classes else self.difference[:, lower[0], lower[1]]
        return SEGMENT_COLUMN.described(self, labels=list(self.known.labels), difference=difference.tolist())

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
        if not of_classes:
            difference = np.zeros((S, m, m))
            difference[:, lower[0], lower[1]] = difference[:, lower[1], lower[0]] = read["difference"]
            read["difference"] = difference
        return cls(known=known, **read)


SEGMENTED = Record(
    "segmented",
    {"directions": Matrix(), "covariance": Matrix(), "alone": Matrix(), "columns": ListOf(SEGMENT_COLUMN, least=1)},
)
"""How segments depart from a common curve, in a file."""


@dataclass(frozen=True, eq=False)
class SegmentedCurve:
    """A common curve, that of a segment without effects, and what segments add to it.

    ``directions``, of shape (K, m), has coefficients of the functions that segments differ by, constant beyond the
    breaks; m is 0 where none does. ``covariance`` is that of the common curve in these directions, ``alone`` what it
    would be if no segment differed. The effects of several ``columns`` are added up.
    """

    curve: CalibrationCurve
    directions: Array
    covariance: Array
    alone: Array
    columns: list[SegmentColumn]

    def evaluate(self, scores: BinaryScores, codes: Sequence[Codes] | None = None) -> Array:
        """Calibrated probabilities of checked scores.

        ``codes`` has the place of each row's segment in each column, -1 for one never seen; None is that for all rows.
        The probability of a segment never seen is the mean over what such segments may be, for a normal spread of
        log-odds close to ``eta / sqrt(1 + pi/8 var)`` (MacKay 1992).
        """
        if not self.directions.shape[1]:
            return self.curve.evaluate(scores)

        def probabilities(rows: slice) -> Array:
            eta, R, _ = self._at(scores, rows, codes)
            spread = np.zeros(len(eta))
            for column, code in self._each(rows, codes):
                spread += np.where(code < 0, R**2 @ column.spread, 0.0)
            return self.curve.respond(eta / np.sqrt(1.0 + np.pi / 8.0 * spread))

        return filled(np.empty(len(scores)), probabilities)

    def band(
        self, scores: BinaryScores, level: float, *, simultaneous: bool = False, codes: Sequence[Codes] | None = None
    ) -> Array:
        """Lower and upper limit at checked scores."""
        if not self.directions.shape[1]:
            return self.curve.band(scores, level, simultaneous=simultaneous)
        critical = self.curve.critical(level, simultaneous)

        def limits(rows: slice) -> Array:
            eta, R, rest = self._at(scores, rows, codes)
            variance = np.maximum(rest - _quadratic(R, self.alone), 0.0)
            own = _quadratic(R, self.covariance)
            for column, code in self._each(rows, codes):
                own += np.where(code < 0, R**2 @ column.spread, _quadratic(R, column.difference[code]))
            reach = critical * np.sqrt(variance + np.maximum(own, 0.0))
            return np.column_stack([self.curve.respond(eta - reach), self.curve.respond(eta + reach)])

        return filled(np.empty((len(scores), 2)), limits)

    def program(self, source: Source = "one") -> Program:
        """The curves in steps that every export can write; :func:`lookups` has what a row's segment adds."""
        if not self.directions.shape[1]:
            return self.curve.program(source)
        ends = np.abs(self._pieces[3][[0, -1]])
        added = sum(float((ends @ np.abs(column.theta).T).max(initial=0.0)) for column in self.columns)
        spread = sum(float((ends**2 @ column.spread).max()) for column in self.columns)
        return self.curve.program(source, self._moved, np.sqrt(1.0 + np.pi / 8.0 * spread) + added)

    def _moved(self, x: Expression, y: Expression, let: Callable[[str, Expression], Expression]) -> Expression:
        """Log-odds with the effects of segments, those of new ones softened as :meth:`evaluate` does."""
        directions = [self._direction(k, x) for k in range(self.directions.shape[1])]
        R = [each if each.operation == "number" else let(f"r{k}", each) for k, each in enumerate(directions)]
        variances = []
        for c, column in enumerate(self.columns):
            for k in np.flatnonzero(column.theta.any(axis=0)):
                effect = name(EFFECT.format(c, k))
                y = y + (effect if R[k].value == 1.0 else effect * R[k])
            terms = [
                number(spread * r.value**2) if r.operation == "number" else spread * (r * r)
                for spread, r in zip((np.pi / 8.0 * column.spread).tolist(), R, strict=True)
                if spread
            ]
            if terms:
                variances.append(name(NEW.format(c)) * let(f"v{c}", reduce(operator.add, terms)))
        return y / let("s", call("sqrt", 1.0 + reduce(operator.add, variances))) if variances else y

    def _direction(self, k: int, x: Expression) -> Expression:
        """What is a constant, or a line between the ends, is written as such."""
        curve, pieces = self.curve, self._pieces[:, :, k]
        gaps = np.concatenate([[0.0], np.diff(curve.breaks), [0.0]])
        size = np.abs(pieces * gaps ** np.array([[3], [2], [1], [0]])).max(axis=1)
        whole = Pieces(curve.breaks.tolist(), pieces.T.tolist(), curve.origin, curve.unit)
        if max(size[:2]) > STRAIGHT * size[3]:
            return Expression("cubic", (x,), whole)
        if size[2] <= STRAIGHT * size[3]:
            return number(round(float(pieces[3, 0]), 12))
        slope = float(pieces[2, 1])
        low, high = (curve.origin + curve.unit * curve.breaks[[0, -1]]).tolist()
        return slope * whole.place(x.clipped(low, high)) + float(pieces[3, 0] - slope * curve.breaks[0])

    def _each(self, rows: slice, codes: Sequence[Codes] | None) -> list[tuple[SegmentColumn, Any]]:
        n = rows.stop - rows.start
        return [(column, np.full(n, -1) if codes is None else codes[k][rows]) for k, column in enumerate(self.columns)]

    def _at(self, scores: BinaryScores, rows: slice, codes: Sequence[Codes] | None) -> tuple[Array, Array, Array]:
        """Log-odds, directions, and the variance of the curve of all rows, at some scores."""
        z = self.curve.place(scores, rows)
        with np.errstate(over="ignore"):
            where = self.curve.cubic.locate(z)
            variance = np.zeros(len(z)) if self.curve.variance is None else evaluate_pieces(self.curve.variance, *where)
        eta, R = self.curve.value(z), evaluate_pieces(self._pieces, *where)
        for column, code in self._each(rows, codes):
            eta = eta + np.einsum("ij,ij->i", R, column.effects[code])
        return eta, R, variance

    @cached_property
    def _pieces(self) -> Array:
        return flat_beyond(self.curve.breaks, self.directions)

    def to_dict(self) -> dict[str, Any]:
        """How segments depart from the curve, as JSON values; the curve itself is stored with the others."""
        return SEGMENTED.described(self)

    @classmethod
    def restored(cls, curve: CalibrationCurve, read: dict[str, Any]) -> SegmentedCurve:
        """What :meth:`to_dict` described, checked as ``SEGMENTED``."""
        K = len(curve.breaks)
        T = read["directions"].reshape(K, -1) if not read["directions"].size else read["directions"]
        m = T.shape[-1]
        if T.shape != (K, m):
            raise ValueError(f"directions must have {K} rows; got shape {T.shape}")
        P, alone = (read[key].reshape(m, m) for key in ("covariance", "alone"))
        return cls(curve, T, P, alone, [SegmentColumn.restored(each, m) for each in read["columns"]])


def lookups(curves: Sequence[SegmentedCurve]) -> list[Lookup]:
    """What the names in the program of a curve, or in those of several classes, stand for in each segment."""
    found = []
    for c, column in enumerate(curves[0].columns):
        S = len(column.known.labels)
        numbers = {NEW.format(c): np.append(np.zeros(S), 1.0)}
        for k in range(max(curve.directions.shape[1] for curve in curves)):
            each = [curve.columns[c].effect(k) for curve in curves]
            numbers[EFFECT.format(c, k)] = each[0] if len(each) == 1 else np.column_stack(each)
        found.append(Lookup(column.name, column.known.labels, numbers))
    return found


def flat_beyond(breaks: Array, directions: Array) -> Array:
    """Local coefficients of functions given by those of B-splines; constant beyond the breaks."""
    pieces = NaturalSpline(breaks).pieces @ directions
    pieces[2, [0, -1]] = 0.0
    return np.asarray(pieces)


def _quadratic(R: Array, M: Array) -> Array:
    """``r' M r`` of each row, for one matrix or one a row."""
    return np.asarray(np.einsum("ij,ijk,ik->i", R, M, R) if M.ndim == 3 else np.einsum("ij,jk,ik->i", R, M, R))


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
            said, happened = format_number(self["said"][i]), format_number(self["happened"][i])
            lines.append(
                f"    {self._name(i)}: {self['rows'][i]:g} rows, said {said}, happened {happened}, "
                f"intercept {self['intercept'][i]:+.3f}, slope {self['slope'][i]:+.3f}"
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
                format_number(self["said"][i]),
                format_number(self["happened"][i]),
                f"{self['intercept'][i]:+.3f}",
                f"{self['low'][i]:+.3f} to {self['high'][i]:+.3f}",
                f"{self['slope'][i]:+.3f}",
                f"{self['kept'][i]:.0%}",
            ]
            for i in self.farthest(SHOWN)
        ]
        return text_table(rows, header, len(self["segment"]))
