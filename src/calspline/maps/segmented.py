"""SegmentedCurve: a common curve, and what each segment adds to it."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Annotated, Any

import numpy as np

from calspline._arrays import Array, filled
from calspline._codec import check_fields
from calspline._domains import Numbers
from calspline._expression import (
    Expression,
    Lookup,
    Pieces,
    Program,
    call,
    name,
    number,
)
from calspline._input.scores import BinaryScores, Kind
from calspline._input.segment_labels import Codes
from calspline.fitting.basis import NaturalSpline, evaluate_pieces
from calspline.maps.base import CalibrationMap, Segments, Table
from calspline.maps.curve import CalibrationCurve
from calspline.maps.log_odds import LogOdds
from calspline.maps.segment_columns import Columns, SegmentColumn, check_columns
from calspline.transforms import Source

EFFECT, NEW = "effect_{}_{}", "new_{}"
"""Names in programs: effects by column and direction, and whether a segment is new."""

STRAIGHT = 1e-12
"""Bends this small, in proportion, are rounding."""


@dataclass(frozen=True, eq=False)
class SegmentedCurve(CalibrationMap[BinaryScores]):
    """A common curve, that of a segment without effects, and what segments add to it.

    ``directions``, of shape (K, m), has coefficients of the functions that segments
    differ by, constant beyond the breaks. ``covariance`` is that of the common curve in
    these directions, ``alone`` what it would be if no segment differed. The effects of
    several ``columns`` are added up.
    """

    curve: CalibrationCurve
    directions: Annotated[Array, Numbers("K", "m")]
    covariance: Annotated[Array, Numbers("m", "m")]
    alone: Annotated[Array, Numbers("m", "m")]
    columns: Columns

    def __post_init__(self) -> None:
        check_fields(self)
        if len(self.directions) != len(self.curve.breaks):
            raise ValueError("directions must have a row for each break of the curve")
        check_columns(self.columns, self.directions.shape[1])
        if any(column.difference is None for column in self.columns):
            raise ValueError("columns must have a difference")

    def suits(self, kind: Kind, n_classes: int) -> bool:
        """Whether the common curve does."""
        return self.curve.suits(kind, n_classes)

    @property
    def has_effects(self) -> bool:
        """Whether any segment departs from the common curve."""
        return any(column.spread.any() for column in self.columns)

    def probabilities(
        self, scores: BinaryScores, segments: Segments | None = None
    ) -> Array:
        """Calibrated probabilities of checked scores.

        ``segments`` has the place of each row's segment in each column, -1 for one
        never seen; None is that for all. The probability of a segment never seen is the
        mean over what such segments may be, for a normal spread of log-odds close to
        ``eta / sqrt(1 + pi/8 var)`` (MacKay 1992).
        """
        if not self.has_effects:
            return self.curve.probabilities(scores)

        def respond(rows: slice) -> Array:
            eta, R = self._at(self.curve.place(scores, rows), rows, segments)
            spread = np.zeros(len(eta))
            for column, code in self._each(rows, segments):
                spread += np.where(code < 0, R**2 @ column.spread, 0.0)
            return self.curve.respond(eta / np.sqrt(1.0 + np.pi / 8.0 * spread))

        return filled(np.empty(len(scores)), respond)

    def log_odds(
        self,
        scores: BinaryScores,
        segments: Segments | None = None,
        *,
        at: Array | None = None,
    ) -> LogOdds | None:
        """Log-odds and standard deviations, also for new segments."""
        common = self.curve.log_odds(scores)
        if common is None or not self.directions.shape[1]:
            return common
        rows = slice(0, len(scores))
        z = self.curve.place(scores)
        eta, R = self._at(z, rows, segments)
        pooled = self.curve.variance(z)
        rest = np.maximum(pooled - _quadratic(R, self.alone), 0.0)
        own = _quadratic(R, self.covariance)
        for column, code in self._each(rows, segments):
            assert column.difference is not None
            excess = _quadratic(R, column.difference[code])
            own += np.where(code < 0, R**2 @ column.new, excess)
        return LogOdds(eta, np.sqrt(rest + np.maximum(own, 0.0)), common.tube)

    def noise(self, scores: BinaryScores) -> Array:
        """Independent errors of the common curve."""
        return self.curve.noise(scores)

    @property
    def common_curve(self) -> CalibrationCurve:
        """The common curve."""
        return self.curve

    def formula(self, source: Source, kind: Kind) -> Program:
        """The curves in steps that every export can write."""
        return self.program(source)

    def table(self, kind: Kind) -> Table:
        """The numbers of the map, for source code."""
        table = self.curve.table(kind)
        if not self.has_effects:
            return table
        directions = self._pieces.transpose(2, 1, 0).tolist()
        segments = [
            {
                "effects": column.effects.tolist(),
                "spread": (np.pi / 8.0 * column.spread).tolist(),
            }
            for column in self.columns
        ]
        return table | {"directions": directions, "segments": segments}

    def describe(self) -> list[str]:
        """The common curve in words."""
        return self.curve.describe()

    @property
    def segment_columns(self) -> Sequence[SegmentColumn]:
        """The columns of segments."""
        return self.columns

    @property
    def lookups(self) -> list[Lookup]:
        """What the names of segment effects stand for."""
        return lookups([self])

    def program(self, source: Source = "one") -> Program:
        """Formula of the curves for exports; :func:`lookups` has the effects."""
        if not self.has_effects:
            return self.curve.program(source)
        ends = np.abs(self._pieces[3][[0, -1]])
        added = sum(
            float((ends @ np.abs(column.theta).T).max(initial=0.0))
            for column in self.columns
        )
        spread = sum(float((ends**2 @ column.spread).max()) for column in self.columns)
        return self.curve.program(
            source, self._moved, np.sqrt(1.0 + np.pi / 8.0 * spread) + added
        )

    def _moved(
        self, x: Expression, y: Expression, let: Callable[[str, Expression], Expression]
    ) -> Expression:
        """Formula of log-odds with effects of segments."""
        directions = [self._direction(k, x) for k in range(self.directions.shape[1])]
        R = []
        for k, direction in enumerate(directions):
            is_number = direction.operation == "number"
            R.append(direction if is_number else let(f"r{k}", direction))
        variances = []
        for c, column in enumerate(self.columns):
            for k in np.flatnonzero(column.theta.any(axis=0)).tolist():
                effect = name(EFFECT.format(c, k))
                y = y + (effect if R[k].value == 1.0 else effect * R[k])
            spreads = (np.pi / 8.0 * column.spread).tolist()
            pairs = zip(spreads, R, strict=True)
            terms = [_scaled_square(spread, r) for spread, r in pairs if spread]
            if terms:
                variance = let(f"v{c}", reduce(operator.add, terms))
                variances.append(name(NEW.format(c)) * variance)
        if not variances:
            return y
        return y / let("s", call("sqrt", 1.0 + reduce(operator.add, variances)))

    def _direction(self, k: int, x: Expression) -> Expression:
        """What is a constant, or a line between the ends, is written as such."""
        curve = self.curve
        pieces = self._pieces[:, :, k]
        gaps = np.concatenate([[0.0], np.diff(curve.breaks), [0.0]])
        size = np.abs(pieces * gaps ** np.array([[3], [2], [1], [0]])).max(axis=1)
        whole = Pieces(
            curve.breaks.tolist(), pieces.T.tolist(), curve.origin, curve.unit
        )
        if max(size[:2]) > STRAIGHT * size[3]:
            return Expression("cubic", (x,), whole)
        if size[2] <= STRAIGHT * size[3]:
            return number(round(float(pieces[3, 0]), 12))
        slope = float(pieces[2, 1])
        low, high = (curve.origin + curve.unit * curve.breaks[[0, -1]]).tolist()
        intercept = float(pieces[3, 0] - slope * curve.breaks[0])
        return slope * whole.place(x.clipped(low, high)) + intercept

    def _each(
        self, rows: slice, codes: Sequence[Codes] | None
    ) -> list[tuple[SegmentColumn, Any]]:
        n = rows.stop - rows.start
        return [
            (column, np.full(n, -1) if codes is None else codes[k][rows])
            for k, column in enumerate(self.columns)
        ]

    def _at(
        self, z: Array, rows: slice, codes: Sequence[Codes] | None
    ) -> tuple[Array, Array]:
        """Log-odds and directions of rows that lie at ``z``."""
        with np.errstate(over="ignore"):
            where = self.curve.cubic.locate(z)
        eta = self.curve.value(z)
        R = evaluate_pieces(self._pieces, *where)
        for column, code in self._each(rows, codes):
            eta = eta + np.einsum("ij,ij->i", R, column.effects[code])
        return eta, R

    @cached_property
    def _pieces(self) -> Array:
        return flat_beyond(self.curve.breaks, self.directions)


def lookups(curves: Sequence[SegmentedCurve]) -> list[Lookup]:
    """Values of the names in programs of one curve or several, by segment."""
    found = []
    for c, column in enumerate(curves[0].columns if curves else ()):
        S = len(column.known.labels)
        numbers = {NEW.format(c): np.append(np.zeros(S), 1.0)}
        for k in range(max(curve.directions.shape[1] for curve in curves)):
            each = [curve.columns[c].effect(k) for curve in curves]
            numbers[EFFECT.format(c, k)] = (
                each[0] if len(each) == 1 else np.column_stack(each)
            )
        found.append(Lookup(column.name, list(column.known.labels), numbers))
    return found


def flat_beyond(breaks: Array, directions: Array) -> Array:
    """Local coefficients of B-splines, constant beyond the breaks."""
    pieces = NaturalSpline(breaks).pieces @ directions
    pieces[2, [0, -1]] = 0.0
    return np.asarray(pieces)


def _quadratic(R: Array, M: Array) -> Array:
    """``r' M r`` of each row, for one matrix or one a row."""
    indices = "ij,ijk,ik->i" if M.ndim == 3 else "ij,jk,ik->i"
    return np.asarray(np.einsum(indices, R, M, R))


def _scaled_square(scale: float, r: Expression) -> Expression:
    """``scale r^2``, which is a number if ``r`` is one."""
    if r.operation == "number":
        return number(scale * r.value**2)
    return scale * (r * r)
