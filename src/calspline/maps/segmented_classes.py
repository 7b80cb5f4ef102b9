"""SegmentedClasses: a map of several classes, and how each segment departs from it.

With ``l`` the log-probabilities of the common map and ``z`` the same, centred in each
row and scaled, segment ``s`` has

    softmax(l + t_s z + a_s),

an inverse temperature and an intercept for each class of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

import numpy as np
import scipy

from calspline._arrays import Array
from calspline._codec import check_fields
from calspline._domains import Number, Numbers
from calspline._expression import Constant, Lookup, Program, call, name, number
from calspline._input.scores import Kind, MatrixScores
from calspline._input.segment_labels import Codes
from calspline.maps.base import CalibrationMap, Segments, Table
from calspline.maps.segment_columns import Columns, SegmentColumn, check_columns
from calspline.maps.structured import StructuredMap
from calspline.transforms import Source

LEAST = 1e-15
"""Probabilities are clipped to this value before their logarithm is taken."""

TEMPERATURE, INTERCEPT = "temperature_{}", "intercept_{}"
"""Names in programs, by column: changes of the inverse temperature and intercepts."""


@dataclass(frozen=True, eq=False)
class ClassSegments:
    """What segments add to the log-probabilities of a map of several classes.

    ``common`` is added for every segment, ``unit`` what centred log-probabilities are
    divided by. The effects of a segment are an intercept for each class (of more than
    fifty classes: none) and, last, an inverse temperature.
    """

    unit: Annotated[float, Number(above=0.0)]
    common: Annotated[Array, Numbers("d")]
    columns: Columns

    def __post_init__(self) -> None:
        check_fields(self)
        check_columns(self.columns, len(self.common))

    @cached_property
    def new(self) -> list[Array]:
        """Effect of an unseen segment, by column: it shrinks log-odds towards zero.

        The mean over what such segments may be is close to that of log-odds divided by
        ``sqrt(1 + pi/8 var)`` (MacKay 1992), where ``var`` is the variance between
        segments of the log-odds between two classes, at usual scores.
        """
        common = self.common.copy()
        m = max(len(self.common) - 1, 2)
        if not len(common):
            return [common for _ in self.columns]
        common[-1] += self.unit
        spreads = [column.spread for column in self.columns]
        variances = [
            2.0 * spread[:-1].max(initial=0.0) + 2.0 * m / (m - 1) * spread[-1]
            for spread in spreads
        ]
        total = sum(variances)
        shrunk = 1.0 - 1.0 / np.sqrt(1.0 + np.pi / 8.0 * total)
        return [-shrunk * each / (total or 1.0) * common for each in variances]

    def probabilities(self, p: Array, codes: Sequence[Codes] | None = None) -> Array:
        """Probabilities of segments, given those of the map."""
        if not len(self.common):
            return p
        logs = np.log(np.maximum(p, LEAST))
        z = scaled(logs, self.unit)
        everywhere = np.zeros(len(p), dtype=np.intp)
        logs += added(z, self.common[None], everywhere)
        codes = codes or [everywhere - 1] * len(self.columns)
        for column, code, new in zip(self.columns, codes, self.new, strict=True):
            logs += added(z, column.theta, code, new)
        return np.asarray(scipy.special.softmax(logs, axis=1))

    def on_logs(self) -> tuple[Array, list[Array]]:
        """The common effects on log-probabilities, and those of segments by column.

        They are of log-probabilities instead of centered ones in units: what is added
        to a whole row changes nothing. The last row of a table is a new segment's.
        """
        common = self.common
        in_units = np.append(np.ones(len(common) - 1), 1.0 / self.unit)
        total = common * in_units
        total[-1] += 1.0
        tables = [
            np.vstack([column.theta, new]) * in_units
            for column, new in zip(self.columns, self.new, strict=True)
        ]
        return total, tables

    def program(self, before: Program) -> Program:
        """Formula of the map for exports; :attr:`lookups` has the effects of segments.

        What is added to a whole row changes nothing, so that log-probabilities need not
        be centred.
        """
        d = len(self.common)
        if not d:
            return before
        steps = [
            *before.steps,
            ("common", before.result),
            ("l", call("log", call("max", name("common"), LEAST))),
        ]
        factor = number(1.0 + float(self.common[-1]) / self.unit)
        intercepts = Constant("COMMON", self.common[:-1].tolist()).expression
        for c in range(len(self.columns)):
            factor = factor + name(TEMPERATURE.format(c))
            intercepts = intercepts + name(INTERCEPT.format(c))
        scaled = factor * name("l")
        return Program(
            [*steps, ("eta", scaled + intercepts if d > 1 else scaled)],
            call("softmax", name("eta")),
        )

    @property
    def lookups(self) -> list[Lookup]:
        """What names in :meth:`program` stand for in each segment."""
        found = []
        for c, (column, new) in enumerate(zip(self.columns, self.new, strict=True)):
            theta = np.vstack([column.theta, new])
            numbers = {}
            if len(self.common):
                numbers[TEMPERATURE.format(c)] = theta[:, -1] / self.unit
            if len(self.common) > 1:
                numbers[INTERCEPT.format(c)] = theta[:, :-1]
            found.append(Lookup(column.name, list(column.known.labels), numbers))
        return found


def scaled(logs: Array, unit: float = 1.0) -> Array:
    """Log-probabilities, centred in each row, in units."""
    return np.asarray((logs - logs.mean(axis=1, keepdims=True)) / unit)


def added(z: Array, theta: Array, code: Codes, new: Array | float = 0.0) -> Array:
    """Effects on the log-odds of each row: ``t z + a``."""
    own = np.vstack([theta, np.broadcast_to(new, theta.shape[1])])[code]
    return own[:, -1:] * z + (own[:, :-1] if theta.shape[1] > 1 else 0.0)


@dataclass(frozen=True, eq=False)
class SegmentedClasses(CalibrationMap[MatrixScores]):
    """A map of several classes with a temperature and intercepts for each segment."""

    base: StructuredMap
    effects: ClassSegments

    def __post_init__(self) -> None:
        check_fields(self)
        size = len(self.effects.common)
        m = len(self.base.b)
        if size not in (0, 1, m + 1):
            raise ValueError(
                f"effects.common must have an effect for each of {m} classes and one "
                f"more; got {size}"
            )

    def suits(self, kind: Kind, n_classes: int) -> bool:
        """Whether the common map does."""
        return self.base.suits(kind, n_classes)

    def probabilities(
        self, scores: MatrixScores, segments: Segments | None = None
    ) -> Array:
        """Probabilities of all classes; those of a segment never seen are softened."""
        return self.effects.probabilities(self.base.probabilities(scores), segments)

    def log_odds(
        self,
        scores: MatrixScores,
        segments: Segments | None = None,
        *,
        at: Array | None = None,
    ) -> None:
        """Unknown: the errors of the effects are not kept."""
        raise ValueError(
            "interval knows segments (by=) of several classes only with "
            'multiclass="ovr"'
        )

    def sum_variance(self, scores: MatrixScores, weights: Array) -> float:
        """That of the common map."""
        return self.base.sum_variance(scores, weights)

    def formula(self, source: Source, kind: Kind) -> Program:
        """The map in steps that every export can write."""
        return self.effects.program(self.base.formula(source, kind))

    def table(self, kind: Kind) -> Table:
        """The numbers of the map, for source code."""
        base = self.base.table(kind)
        if not len(self.effects.common):
            return base
        common, tables = self.effects.on_logs()
        return {
            "type": "class_effects",
            "common": common.tolist(),
            "effects": [table.tolist() for table in tables],
            "base": base,
        }

    def describe(self) -> list[str]:
        """The common map in words."""
        return self.base.describe()

    @property
    def structure(self) -> StructuredMap:
        """The common map."""
        return self.base

    @property
    def segment_columns(self) -> Sequence[SegmentColumn]:
        """The columns of segments."""
        return self.effects.columns

    @property
    def lookups(self) -> list[Lookup]:
        """What the names of segment effects stand for."""
        return self.effects.lookups
