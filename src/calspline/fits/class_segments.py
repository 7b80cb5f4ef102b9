"""Fit segments of several classes: a temperature and intercepts for each.

They are found and shrunk as those of curves are: see :mod:`calspline.fitting.segments`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
import scipy

from calspline._arrays import Array
from calspline._input.scores import MatrixScores
from calspline._input.segment_labels import By, Codes, Known
from calspline.fits.options import Recipe
from calspline.fitting.label_weights import RIDGE, best_common_effect, class_weights
from calspline.fitting.newton import Local
from calspline.fitting.segment_columns import check_against_pooled, fit_columns
from calspline.fitting.segments import (
    START,
    Components,
    Effects,
    JointLoss,
    Likelihood,
    LocalLoss,
    SegmentRows,
    Summed,
)
from calspline.maps.segment_columns import SegmentColumn
from calspline.maps.segmented_classes import LEAST, ClassSegments, added, scaled


def fit_class_segments(
    scores: MatrixScores,
    p: Array,
    classes: Codes,
    weight: Array | None,
    by: By,
    recipe: Recipe,
) -> tuple[ClassSegments, bool]:
    """Fit effects of segments on calibrated probabilities ``p`` of several classes.

    Also returns whether the fit converged.

    The table has the mean of the highest probability of the scores, and how often that
    is right. Where rows have to keep their ranking, segments have a temperature only.
    """
    if scores.kind == "probability":
        raw = scores.values
    else:
        raw = scipy.special.softmax(scores.values, axis=1)
    logs = np.log(np.maximum(p, LEAST))
    unit = float(np.sqrt((scaled(logs) ** 2).mean())) or 1.0
    w = np.ones(len(p)) if weight is None else weight
    codes = [column.codes for column in by.columns]
    components = class_components(p.shape[1], intercepts=recipe.monotone is not True)
    counted = w / recipe.design_effect_of_segments
    rows = ClassRows(logs, classes, counted, codes, unit)
    effects = fit_columns(rows, components)
    if recipe.monotone is True:
        effects = [
            _upright(each, effects[0].beta, unit / len(effects)) for each in effects
        ]
    effects = check_against_pooled(rows, effects)
    converged = all(each.converged for each in effects)
    none = not any(each.spread.any() for each in effects)
    d = 0 if none else len(effects[0].beta)
    right = raw.argmax(axis=1) == classes
    top = raw.max(axis=1)
    columns = []
    for column, each in zip(by.columns, effects, strict=True):
        n_intercepts = max(len(each.spread) - 1, 1)  # or the temperature, if none
        largest = np.abs(each.theta[:, :n_intercepts]).argmax(axis=1)
        facts = {
            "name": column.name,
            "known": Known(tuple(column.values)),
            "slope_unit": 1.0 / unit,
        }
        sums = w, w * right, w * top
        columns.append(
            SegmentColumn.fitted(
                each,
                slice(d),
                largest,
                column.codes,
                sums,
                difference=None,
                **facts,
            )
        )
    return ClassSegments(unit, effects[0].beta[:d], tuple(columns)), converged


SMALLEST = 0.01
"""Inverse temperature that is left where rows have to keep their ranking."""


def _upright(effects: Effects, beta: Array, most: float) -> Effects:
    """Effects on the temperature that keep the ranking of classes, also added up."""
    least = -(1.0 - SMALLEST) * most - min(float(beta[-1]), 0.0)
    theta = effects.theta.copy()
    theta[:, -1] = np.maximum(theta[:, -1], least)
    return replace(effects, theta=theta)


MOST_INTERCEPTS = 50
"""Classes up to which segments have intercepts; beyond, only a temperature."""
USUAL_SD = np.array([0.5, 0.2])
"""Prior means of the standard deviations of intercepts and of temperatures."""


def class_components(m: int, *, intercepts: bool = True) -> Components:
    """A variance for intercepts, if any, and one for temperatures.

    The common part is free.
    """
    n_intercepts = m if intercepts and m <= MOST_INTERCEPTS else 0
    kind = np.append(np.zeros(n_intercepts, dtype=np.intp), 1)
    return Components(kind, np.full(len(kind), -1), np.full(2, START), USUAL_SD)


BALANCED, MOST_CORRECTIONS = 1e-4, 10
"""Nats that a common effect may promise after weighting, and most corrections."""


@dataclass(frozen=True)
class ClassRows(SegmentRows):
    """Rows with log-probabilities of the common map, class, weight and segments."""

    logs: Array
    classes: Codes
    w: Array
    codes: list[Codes]
    unit: float

    @cached_property
    def z(self) -> Array:
        """Log-probabilities, centred in each row, in units."""
        return scaled(self.logs, self.unit)

    def balanced(self, m: int) -> Self:
        """Reweight rows so that no effect in ``m`` directions lowers the loss."""
        known = np.max(self.codes, axis=0) >= 0
        everywhere = np.zeros(len(self.w), dtype=np.intp)
        whole = replace(self, codes=[np.where(known, 0, -1)])
        plain = whole.likelihood()

        def loss(u: Array) -> Local:
            summed = plain(u[None])
            return Local(summed.value, summed.gradient[0], summed.hessian[0])

        def weighted(effect: Array) -> Array:
            best = scipy.special.log_softmax(
                self.logs + added(self.z, effect[None], everywhere), axis=1
            )
            return np.asarray(
                self.w * known * class_weights(self.logs, best, self.classes)
            )

        # Of two classes this effect is the one. Of more, the gradient vanishes with it
        # but for noise.
        effect = best_common_effect(loss, m)
        w = weighted(effect)
        left = np.inf
        for _ in range(MOST_CORRECTIONS):
            _, gradient, hessian = replace(whole, w=w).likelihood()(np.zeros((1, m)))
            step = np.linalg.solve(hessian[0] + RIDGE * np.eye(m), gradient[0])
            before = left
            left = float(gradient[0] @ step)
            if not BALANCED < left < before:
                break
            effect = effect - step
            w = weighted(effect)
        return replace(self, w=w)

    def joint(self) -> JointLoss:
        """The loss as a function of the coordinates of rows."""
        return JointLoss(self.codes, lambda U: LocalRows(self, U))

    def loss(self, beta: Array, thetas: Sequence[Array]) -> float:
        """The loss of rows that have a segment in any column, given all effects."""
        everywhere = np.zeros(len(self.w), dtype=np.intp)
        logs = self.logs + added(self.z, beta[None], everywhere)
        for code, theta in zip(self.codes, thetas, strict=True):
            logs += added(self.z, theta, code)
        return self._loss_value(scipy.special.log_softmax(logs, axis=1))

    def pooled_loss(self) -> float:
        """Loss of all rows without effects."""
        return self._loss_value(self.logs)

    def _loss_value(self, logs: Array) -> float:
        known = np.max(self.codes, axis=0) >= 0
        return -float((self.w * known) @ logs[np.arange(len(logs)), self.classes])

    def likelihood(self) -> Likelihood:
        """The loss as a function of the effects of segments of the first column."""
        order, first = self.sorted_by(0)
        S = len(first) - 1
        segment = self.codes[0][order]
        z = self.z[order]
        w = self.w[order]
        y = self.classes[order]
        offset = self.logs[order]
        rows = np.arange(len(y))

        def at(U: Array) -> Summed:
            logs = scipy.special.log_softmax(offset + added(z, U, segment), axis=1)
            p = np.exp(logs)
            slope = w[:, None] * p
            slope[rows, y] -= w
            wp = w[:, None] * p
            mean = (p * z).sum(axis=1)
            d = U.shape[1]
            gradient = np.empty((S, d))
            H = np.empty((S, d, d))
            gradient[:, -1] = np.add.reduceat((slope * z).sum(axis=1), first[:-1])
            H[:, -1, -1] = np.add.reduceat(
                w * ((p * z * z).sum(axis=1) - mean**2), first[:-1]
            )
            if d > 1:
                gradient[:, :-1] = np.add.reduceat(slope, first[:-1], axis=0)
                H[:, -1, :-1] = H[:, :-1, -1] = np.add.reduceat(
                    wp * (z - mean[:, None]), first[:-1], axis=0
                )
                diagonal = np.add.reduceat(wp, first[:-1], axis=0)
                for s in range(S):
                    part = slice(first[s], first[s + 1])
                    H[s, :-1, :-1] = np.diag(diagonal[s]) - wp[part].T @ p[part]
            return Summed(-float(w @ logs[rows, y]), gradient, H)

        return at


class LocalRows(LocalLoss):
    """The loss of all rows, and its derivatives in the coordinates of each row."""

    def __init__(self, rows: ClassRows, U: Array) -> None:
        self.z = rows.z
        self.w = rows.w
        self.m = U.shape[1]
        everyone = np.arange(len(U))
        logs = scipy.special.log_softmax(rows.logs + added(self.z, U, everyone), axis=1)
        self.p = np.exp(logs)
        self.value = -float(self.w @ logs[everyone, rows.classes])
        slope = self.w[:, None] * self.p
        slope[everyone, rows.classes] -= self.w
        self.gradient = self._in_coordinates(slope)

    def _in_coordinates(self, slope: Array) -> Array:
        """Derivatives in the intercepts, if there are any, and in the temperature."""
        temperature = (slope * self.z).sum(axis=1, keepdims=True)
        return np.hstack([slope, temperature]) if self.m > 1 else temperature

    def times(self, V: Array) -> Array:
        """The Hessian of each row times the same row of ``V``."""
        along = added(self.z, V, np.arange(len(V)))
        mean = (self.p * along).sum(axis=1, keepdims=True)
        return self._in_coordinates(self.w[:, None] * self.p * (along - mean))

    def hessian_sums(self, members: scipy.sparse.csr_array) -> Array:
        """The Hessians summed over the rows of each segment."""
        first = members.indptr
        sums = np.zeros((members.shape[0], self.m, self.m))
        for s in range(len(sums)):
            own = members.indices[first[s] : first[s + 1]]
            sums[s] = _hessian(self.p[own], self.z[own], self.w[own], self.m)
        return sums


def _hessian(p: Array, z: Array, w: Array, m: int) -> Array:
    """The Hessian of some rows together."""
    mean = (p * z).sum(axis=1, keepdims=True)
    weighted = w[:, None] * p
    H = np.empty((m, m))
    H[-1, -1] = (weighted * (z - mean) ** 2).sum()
    if m > 1:
        H[-1, :-1] = H[:-1, -1] = (weighted * (z - mean)).sum(axis=0)
        H[:-1, :-1] = np.diag(weighted.sum(axis=0)) - weighted.T @ p
    return H
