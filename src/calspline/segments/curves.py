"""A curve for each segment: the common one, and how each departs from it."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any

import numpy as np

from calspline.arrays import Array, filled
from calspline.curve import CalibrationCurve
from calspline.expression import Expression, Lookup, Pieces, Program, call, name, number
from calspline.fitting.basis import NaturalSpline, evaluate
from calspline.options import ListOf, Matrix, Record
from calspline.scores import BinaryScores
from calspline.segments.labels import Codes
from calspline.segments.table import SEGMENT_COLUMN, SegmentColumn
from calspline.transforms import Source

EFFECT, NEW = "effect_{}_{}", "new_{}"
"""Names in programs: the effect of a column's segment in a direction, and whether the segment is a new one."""
STRAIGHT = 1e-12
"""Bends this small, in proportion, are rounding."""

SEGMENTED = Record(
    "segmented",
    {
        "directions": Matrix(),
        "covariance": Matrix(),
        "alone": Matrix(),
        "columns": ListOf(SEGMENT_COLUMN, least=1),
    },
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

    def evaluate(self, scores: BinaryScores, codes: Sequence[Codes] | None) -> Array:
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

    def band_of(
        self, scores: BinaryScores, codes: Sequence[Codes] | None, level: float, *, simultaneous: bool
    ) -> Array:
        """Lower and upper limit at checked scores."""
        if not self.directions.shape[1]:
            return self.curve.band_of(scores, level, simultaneous=simultaneous)
        critical = self.curve.critical(level, simultaneous)

        def limits(rows: slice) -> Array:
            eta, R, rest = self._at(scores, rows, codes)
            variance = np.maximum(rest - _quadratic(R, self.alone), 0.0)
            own = _quadratic(R, self.covariance)
            for column, code in self._each(rows, codes):
                own += np.where(code < 0, R**2 @ column.spread, _quadratic(R, column.difference_of(code)))
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
                number(spread * r.real**2) if r.operation == "number" else spread * (r * r)
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
            variance = np.zeros(len(z)) if self.curve.variance is None else evaluate(self.curve.variance, *where)
        eta, R = self.curve.value(z), evaluate(self._pieces, *where)
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
