"""Segments of several classes: a temperature and intercepts for each, behind the map that is common to all.

With ``l`` the log-probabilities of the common map and ``z`` the same, centred in each row and scaled, segment ``s`` has

    softmax(l + t_s z + a_s),

an inverse temperature and an intercept for each class of its own. They are found and shrunk as those of curves are:
see :mod:`calspline.fitting.segments`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy

from calspline.arrays import Array
from calspline.binary_fit import Recipe
from calspline.expression import Constant, Lookup, Program, call, name, number
from calspline.fitting.segments import START, Components, Effects, Likelihood, SegmentRows, Summed, fit_columns
from calspline.options import ListOf, Number, Numbers, Record
from calspline.scores import MatrixScores
from calspline.segments.curves import SEGMENT_COLUMN, SegmentColumn
from calspline.segments.labels import By, Codes, Known

LEAST = 1e-15
"""Of a probability whose logarithm is taken."""
TEMPERATURE, INTERCEPT = "temperature_{}", "intercept_{}"
"""Names in programs, by column: what is added to the inverse temperature, and the intercepts of the classes."""
SMALLEST = 0.01
"""Inverse temperature that is left where rows have to keep their ranking."""
MOST_INTERCEPTS = 50
"""Classes up to which segments have intercepts; beyond, only a temperature."""
USUAL_SD = np.array([0.5, 0.2])
"""Means of exponential priors on the standard deviations of intercepts and of temperatures."""

CLASS_SEGMENTS = Record(
    "class_segments", {"unit": Number(above=0.0), "common": Numbers(), "columns": ListOf(SEGMENT_COLUMN, least=1)}
)
"""How segments depart from a map of several classes, in a file."""


@dataclass(frozen=True, eq=False)
class ClassSegments:
    """What segments add to the log-probabilities of a map of several classes.

    ``common`` is added for every segment, ``unit`` what centred log-probabilities are divided by. The effects of a
    segment are an intercept for each class (of more than fifty classes: none) and, last, an inverse temperature.
    """

    unit: float
    common: Array
    columns: list[SegmentColumn]

    @cached_property
    def new(self) -> list[Array]:
        """What a segment never seen adds, by column: it takes log-odds towards zero as far as segments differ.

        The mean over what such segments may be is close to that of log-odds divided by ``sqrt(1 + pi/8 var)`` (MacKay
        1992), where ``var`` is the variance between segments of the log-odds between two classes, at usual scores.
        """
        common, m = self.common.copy(), max(len(self.common) - 1, 2)
        if not len(common):
            return [common for _ in self.columns]
        common[-1] += self.unit
        spreads = [column.spread for column in self.columns]
        variances = [2.0 * spread[:-1].max(initial=0.0) + 2.0 * m / (m - 1) * spread[-1] for spread in spreads]
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

    def program(self, before: Program) -> Program:
        """The steps of the map, and those of segments; :attr:`lookups` has what the names stand for.

        What is added to a whole row changes nothing, so that log-probabilities need not be centred.
        """
        d = len(self.common)
        if not d:
            return before
        steps = [*before.steps, ("common", before.result), ("l", call("log", call("max", name("common"), LEAST)))]
        factor = number(1.0 + float(self.common[-1]) / self.unit)
        intercepts = Constant("COMMON", self.common[:-1].tolist()).expression
        for c in range(len(self.columns)):
            factor, intercepts = factor + name(TEMPERATURE.format(c)), intercepts + name(INTERCEPT.format(c))
        scaled = factor * name("l")
        return Program([*steps, ("eta", scaled + intercepts if d > 1 else scaled)], call("softmax", name("eta")))

    @property
    def lookups(self) -> list[Lookup]:
        """What names in :meth:`program` stand for in each segment."""
        found = []
        for c, (column, new) in enumerate(zip(self.columns, self.new, strict=True)):
            theta, numbers = np.vstack([column.theta, new]), {}
            if len(self.common):
                numbers[TEMPERATURE.format(c)] = theta[:, -1] / self.unit
            if len(self.common) > 1:
                numbers[INTERCEPT.format(c)] = theta[:, :-1]
            found.append(Lookup(column.name, column.known.labels, numbers))
        return found

    def to_dict(self) -> dict[str, Any]:
        """The effects as JSON values."""
        return CLASS_SEGMENTS.described(self)

    @classmethod
    def restored(cls, read: dict[str, Any], n_classes: int) -> ClassSegments:
        """What :meth:`to_dict` described, checked as ``CLASS_SEGMENTS``."""
        d = len(read["common"])
        if d not in (0, 1, n_classes + 1):
            raise ValueError(f"common must have an effect for each of {n_classes} classes and one more; got {d}")
        columns = [SegmentColumn.restored(column, d) for column in read["columns"]]
        return cls(read["unit"], read["common"], columns)


def fit_class_segments(
    scores: MatrixScores, p: Array, classes: Codes, weight: Array | None, by: By, recipe: Recipe
) -> ClassSegments:
    """Fit how segments depart from calibrated probabilities ``p`` of several classes.

    The table has the mean of the highest probability of the scores, and how often that is right. Where rows have to
    keep their ranking, segments have a temperature only.
    """
    raw = scores.values if scores.kind == "probability" else scipy.special.softmax(scores.values, axis=1)
    logs = np.log(np.maximum(p, LEAST))
    unit = float(np.sqrt((scaled(logs) ** 2).mean())) or 1.0
    w = np.ones(len(p)) if weight is None else weight
    codes = [column.codes for column in by.columns]
    components = class_components(p.shape[1], intercepts=recipe.monotone is not True)
    effects = fit_columns(ClassRows(logs, classes, w / recipe.design_effect, codes, unit), components)
    if recipe.monotone is True:
        effects = [_upright(each, effects[-1].beta, unit / len(effects)) for each in effects]
    none = not any(each.spread.any() for each in effects)
    d = 0 if none else len(effects[-1].beta)
    right, top = raw.argmax(axis=1) == classes, raw.max(axis=1)
    columns = []
    for column, each in zip(by.columns, effects, strict=True):
        largest = np.abs(each.theta[:, : max(len(each.spread) - 1, 1)]).argmax(axis=1)  # intercept, if there are any
        facts = {"name": column.name, "known": Known(list(column.values)), "slope_unit": 1.0 / unit}
        sums = w, w * right, w * top
        columns.append(
            SegmentColumn.fitted(each, slice(d), largest, column.codes, sums, difference=np.empty(0), **facts)
        )
    return ClassSegments(unit, effects[-1].beta[:d], columns)


def _upright(effects: Effects, beta: Array, most: float) -> Effects:
    """Effects on the temperature that never turn the ranking of classes, also if those of all columns add up."""
    least = -(1.0 - SMALLEST) * most - min(float(beta[-1]), 0.0)
    theta = effects.theta.copy()
    theta[:, -1] = np.maximum(theta[:, -1], least)
    return replace(effects, theta=theta)


def scaled(logs: Array, unit: float = 1.0) -> Array:
    """Log-probabilities, centred in each row, in units."""
    return np.asarray((logs - logs.mean(axis=1, keepdims=True)) / unit)


def class_components(m: int, *, intercepts: bool = True) -> Components:
    """A variance for the intercepts of all classes, if any, and one for temperatures; the common part is free."""
    n_intercepts = m if intercepts and m <= MOST_INTERCEPTS else 0
    kind = np.append(np.zeros(n_intercepts, dtype=np.intp), 1)
    return Components(kind, np.full(len(kind), -1), np.full(2, START), USUAL_SD)


@dataclass(frozen=True)
class ClassRows(SegmentRows):
    """Rows with the log-probabilities of the common map, their class and weight, and their segments in each column."""

    logs: Array
    classes: Codes
    w: Array
    codes: list[Codes]
    unit: float

    @cached_property
    def _z(self) -> Array:
        return scaled(self.logs, self.unit)

    def likelihood(self, k: int, thetas: Sequence[Array] = ()) -> Likelihood:
        """The loss as a function of the coordinates of column ``k``, given the effects of the others, if any."""
        order, first = self.sorted_by(k)
        S, segment = len(first) - 1, self.codes[k][order]
        z, w, y, offset = self._z[order], self.w[order], self.classes[order], self.logs[order]
        for j, theta in enumerate(thetas):
            if j != k:
                offset = offset + added(z, theta, self.codes[j][order])
        rows = np.arange(len(y))

        def at(U: Array) -> Summed:
            logs = scipy.special.log_softmax(offset + added(z, U, segment), axis=1)
            p = np.exp(logs)
            slope = w[:, None] * p
            slope[rows, y] -= w
            wp, mean = w[:, None] * p, (p * z).sum(axis=1)
            d = U.shape[1]
            gradient, H = np.empty((S, d)), np.empty((S, d, d))
            gradient[:, -1] = np.add.reduceat((slope * z).sum(axis=1), first[:-1])
            H[:, -1, -1] = np.add.reduceat(w * ((p * z * z).sum(axis=1) - mean**2), first[:-1])
            if d > 1:
                gradient[:, :-1] = np.add.reduceat(slope, first[:-1], axis=0)
                H[:, -1, :-1] = H[:, :-1, -1] = np.add.reduceat(wp * (z - mean[:, None]), first[:-1], axis=0)
                diagonal = np.add.reduceat(wp, first[:-1], axis=0)
                for s in range(S):
                    part = slice(first[s], first[s + 1])
                    H[s, :-1, :-1] = np.diag(diagonal[s]) - wp[part].T @ p[part]
            return Summed(-float(w @ logs[rows, y]), gradient, H)

        return at


def added(z: Array, theta: Array, code: Codes, new: Array | float = 0.0) -> Array:
    """What segments add to the log-odds of each row: ``t z + a``; -1 is a segment with the effects ``new``."""
    own = np.vstack([theta, np.broadcast_to(new, theta.shape[1])])[code]
    return own[:, -1:] * z + (own[:, :-1] if theta.shape[1] > 1 else 0.0)
