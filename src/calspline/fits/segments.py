"""Fit curves of segments: intercepts, slopes and bends added to a common curve.

A segment's curve does not fall where the common one rises.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import scipy
from numpy.typing import NDArray

from calspline._arrays import MIN_SPAN, Array, blocks
from calspline._input.segment_labels import Known, in_order
from calspline.fits.options import Recipe
from calspline.fitting.basis import NaturalSpline, PiecewiseCubic, evaluate_pieces
from calspline.fitting.fit import CLEAR_FALL, LEAST_INFORMATION, quantile_knots
from calspline.fitting.label_weights import best_log_odds, two_class_weights
from calspline.fitting.newton import log_loss
from calspline.fitting.segment_columns import check_against_pooled, fit_columns
from calspline.fitting.segments import (
    START,
    Codes,
    Components,
    Effects,
    JointLoss,
    Likelihood,
    LocalLoss,
    SegmentRows,
    Summed,
)
from calspline.fitting.smoothing import curvature_coordinates
from calspline.histograms.segment_histogram import SegmentHistograms
from calspline.maps.curve import CalibrationCurve
from calspline.maps.fit_info import FittedCurve
from calspline.maps.segment_columns import SegmentColumn
from calspline.maps.segmented import SegmentedCurve, flat_beyond


def fit_segments(
    counts: SegmentHistograms, fitted: FittedCurve, recipe: Recipe
) -> tuple[FittedCurve, SegmentedCurve]:
    """Fit how segments depart from the curve of all rows.

    Returns that curve moved by the effect which is common to all, and the curves of the
    segments.
    """
    if recipe.loss != "log":
        raise ValueError(f'loss must be "log" for a fit with by; got {recipe.loss!r}')
    curve = fitted.curve
    T = _directions(counts, fitted)
    pieces = flat_beyond(curve.breaks, T)
    known = [
        Known(tuple(in_order({label for label in each if label is not None})))
        for each in counts.columns
    ]
    own = [one.places(each) for one, each in zip(known, counts.columns, strict=True)]
    counted = _count_by_place(
        counts, curve, pieces, own, recipe.design_effect_of_segments
    )
    # Where curves may not fall, the slopes of two columns must not add up.
    steady = recipe.monotone is True and len(own) > 1
    effects = fit_columns(counted, curve_components(T.shape[1], 1 if steady else 3))
    if recipe.monotone is not False:
        forgiven = 0.0 if recipe.monotone is True else CLEAR_FALL
        effects = hold_back(effects, counted, curve, pieces, forgiven)
    effects = check_against_pooled(counted, effects)
    beta = effects[0].beta
    used = np.any([each.used for each in effects], axis=0)
    if not used.any():
        # Limits of new segments still differ, in intercepts and slopes.
        used = np.arange(T.shape[1]) < 2
    if beta.any():
        curve = replace(curve, coefficients=curve.coefficients + pieces @ beta)
    slope_unit = 0.0
    if T.shape[1] > 1:
        slope_unit = float(pieces[2, 1, 1]) / max(curve.unit, MIN_SPAN)
    w = counts.positives + counts.negatives
    if counts.pooled.kind == "probability":
        scores = scipy.special.expit(counts.locations)
    else:
        scores = counts.locations
    columns = []
    for name, one, code, each in zip(counts.names, known, own, effects, strict=True):
        difference = np.ascontiguousarray(each.difference[:, used][:, :, used])
        facts = {
            "name": name,
            "known": one,
            "slope_unit": slope_unit,
            "difference": difference,
        }
        sums = w, counts.positives, w * scores
        columns.append(
            SegmentColumn.fitted(each, used, 0, code[counts.segment], sums, **facts)
        )
    square = np.ix_(used, used)
    segmented = SegmentedCurve(
        curve,
        np.ascontiguousarray(T[:, used]),
        np.ascontiguousarray(effects[0].covariance[square]),
        np.ascontiguousarray(effects[0].alone[square]),
        tuple(columns),
    )
    converged = fitted.converged and all(each.converged for each in effects)
    return replace(fitted, curve=curve, converged=converged), segmented


def _directions(counts: SegmentHistograms, fitted: FittedCurve) -> Array:
    """The directions in which segments may differ; of equal scores, the intercept."""
    curve = fitted.curve
    pooled = counts.pooled
    if np.isinf(fitted.smoothing):
        return np.ones((len(curve.breaks), 1))
    z = curve.locate(pooled.locations, pooled.kind)
    z = np.clip(z, curve.breaks[0], curve.breaks[-1])
    p = scipy.special.expit(curve.value(z))
    w = pooled.positives + pooled.negatives
    information = w * np.maximum(p * (1.0 - p), LEAST_INFORMATION)
    return effect_directions(curve.breaks, z, information)


PLACES = 96
"""Places that the scores of all segments are merged to."""


def _count_by_place(
    counts: SegmentHistograms,
    curve: CalibrationCurve,
    pieces: Array,
    own: list[Codes],
    design_effect: float,
) -> Counted:
    """Counts by segment, at places that all segments share."""
    pooled = counts.pooled
    z = curve.locate(pooled.locations, pooled.kind)
    w = pooled.positives + pooled.negatives
    edges = np.empty(0)
    if z[0] < z[-1]:
        edges = quantile_knots(z, w, PLACES + 1)[1:-1]
    near = np.searchsorted(edges, z, side="right")
    total = np.bincount(near, weights=w, minlength=len(edges) + 1)
    moment = np.bincount(near, weights=w * z, minlength=len(edges) + 1)
    centre = moment / np.where(total > 0.0, total, 1.0)

    own_z = curve.locate(counts.locations, pooled.kind)
    place = np.searchsorted(edges, own_z, side="right")
    segment = counts.segment
    new = np.flatnonzero(np.diff(segment * len(total) + place, prepend=-1))
    w1 = np.add.reduceat(counts.positives, new) / design_effect
    w0 = np.add.reduceat(counts.negatives, new) / design_effect
    place = place[new]
    segment = segment[new]
    R = evaluate_pieces(pieces, *curve.cubic.locate(centre))
    return Counted(
        R,
        place,
        curve.value(centre)[place],
        w1 + w0,
        w1,
        [code[segment] for code in own],
    )


BENDS = 6
"""Directions of least curvature in which the curves of segments may differ."""
FARTHEST_DIRECTION = 1e5
"""A direction that goes further, where its root mean square is one, is rounding."""


def effect_directions(knots: Array, z: Array, information: Array) -> Array:
    """B-spline coefficients of the directions, shape (K, m).

    These are a constant, the line, and up to six directions of least curvature.

    All but the first have mean zero over the places ``z``, weighted by ``information``,
    the line has variance one there, and so has the first of the bends. The bends all
    have the same curvature: where one kind of effect has one variance, segments are
    penalized as the common curve is, by the integral of the squared second derivative.
    Where nearly all rows are in one place, lines and bends are rounding, and left out.
    """
    basis = NaturalSpline(knots)
    design = basis.design(z)
    T = curvature_coordinates(basis, design, z, information).T
    line = T[:, :2]
    curved = T[:, 2:]
    if np.abs(line).max() > FARTHEST_DIRECTION:
        return np.asarray(line[:, :1])
    if not curved.shape[1]:
        return np.asarray(line)
    shares = information / information.sum()
    covariance = design.in_coordinates(curved).gram(shares)
    variances, vectors = np.linalg.eigh(covariance)
    largest = variances[::-1][:BENDS]
    if np.abs(curved).max() > FARTHEST_DIRECTION * np.sqrt(max(largest[0], 0.0)):
        return np.asarray(line)
    bends = curved @ vectors[:, ::-1][:, : len(largest)] / np.sqrt(largest[0])
    return np.column_stack([line, bends])


FULL = 0.6
"""Share of occupied places from which all are computed: long products are faster."""
IN_CACHE = 1 << 13
"""Values of places and segments that are computed at a time."""


@dataclass(frozen=True)
class Counted(SegmentRows):
    """Counts by place and by the segments of one column or several.

    ``directions`` has a row for each place and ``place`` the one of each bin;
    ``offset`` are the log-odds without effects, ``w`` is the weight of a bin and ``s``
    that of its positives.
    """

    directions: Array
    place: Codes
    offset: Array
    w: Array
    s: Array
    codes: list[Codes]

    def balanced(self, m: int) -> Self:
        """The same bins, weighted so that their loss is least without any effects."""
        offset, total, s = self._by_place
        best = best_log_odds(self.directions, offset, total, s)
        of_positives, of_negatives = two_class_weights(offset, best)
        positives = of_positives[self.place] * self.s
        negatives = of_negatives[self.place] * (self.w - self.s)
        w = (positives + negatives) * self._known
        return replace(self, w=w, s=positives * self._known)

    def joint(self) -> JointLoss:
        """The loss as a function of coordinates of bins with the same segments."""
        codes, unit = np.unique(np.array(self.codes), axis=1, return_inverse=True)
        likelihood = replace(self, codes=[unit.astype(np.intp)]).likelihood()
        return JointLoss(list(codes), lambda U: LocalCounts(likelihood(U)))

    def likelihood(self) -> Likelihood:
        """The loss as a function of the effects of segments of the first column."""
        order, first = self.sorted_by(0)
        place = self.place[order]
        offset = self.offset[order]
        w = self.w[order]
        s = self.s[order]
        R = self.directions
        S = len(first) - 1
        n_places, m = R.shape
        upper = np.triu_indices(m)
        position = np.zeros((m, m), dtype=np.intp)
        position[upper] = position.T[upper] = np.arange(len(upper[0]))
        products = R[:, upper[0]] * R[:, upper[1]]
        cell: Any = self.codes[0][order] * n_places + place
        full = len(cell) > FULL * S * n_places and bool((np.diff(cell) > 0).all())
        if full:
            table = np.zeros((3, S * n_places))
            table[:, cell] = offset, w, s
            offset, w, s = table
            first = np.arange(S + 1) * n_places

        def by_segment(
            values: Array, bins: slice, starts: Codes, table: Array
        ) -> Array:
            if full:
                return np.asarray(values.reshape(-1, n_places) @ table)
            shape = len(starts) - 1, n_places
            return np.asarray(
                scipy.sparse.csr_array((values, place[bins], starts), shape=shape)
                @ table
            )

        def at(U: Array) -> Summed:
            value = 0.0
            gradient = np.empty((S, m))
            upper_half = np.empty((S, len(upper[0])))
            for own in blocks(S, len(offset) // S + 1, IN_CACHE):
                bins = slice(first[own.start], first[own.stop])
                effect = (U[own] @ R.T).ravel()
                if not full:
                    effect = effect[cell[bins] - own.start * n_places]
                eta = offset[bins] + effect
                local = log_loss(eta, w[bins], s[bins])
                value += local.value
                starts = first[own.start : own.stop + 1] - first[own.start]
                gradient[own] = by_segment(local.slope, bins, starts, R)
                upper_half[own] = by_segment(local.curvature, bins, starts, products)
            return Summed(value, gradient, upper_half[:, position])

        return at

    def loss(self, beta: Array, thetas: Sequence[Array]) -> float:
        """The loss of bins that have a segment in any column, given all effects."""
        n_places = len(self.directions)
        eta = self.offset + (self.directions @ beta)[self.place]
        for code, theta in zip(self.codes, thetas, strict=True):
            curves = np.zeros((len(theta) + 1, n_places))
            curves[:-1] = theta @ self.directions.T
            eta += curves.ravel()[(code % len(curves)) * n_places + self.place]
        return _loss_value(eta, self.w * self._known, self.s * self._known)

    def pooled_loss(self) -> float:
        """Loss of all rows without effects."""
        return _loss_value(*self._by_place)

    @cached_property
    def _by_place(self) -> tuple[Array, Array, Array]:
        """Log-odds without effects, and weights by location."""
        n_places = len(self.directions)
        w = self.w * self._known
        total = np.bincount(self.place, w, n_places).astype(np.float64)
        s = np.bincount(self.place, self.s * self._known, n_places).astype(np.float64)
        offset = np.bincount(self.place, w * self.offset, n_places)
        return offset / np.where(total > 0.0, total, 1.0), total, s

    @cached_property
    def _known(self) -> NDArray[np.bool_]:
        """Bins that have a segment in any column."""
        known = self.codes[0] >= 0
        for code in self.codes[1:]:
            known = known | (code >= 0)
        return known

    def losses(self, k: int, U: Array) -> Array:
        """The loss of the rows of each segment of column ``k``, given their effects."""
        own = self.codes[k] >= 0
        code = self.codes[k][own]
        eta = self.offset[own] + (U @ self.directions.T)[code, self.place[own]]
        each = (
            self.w[own] * (np.maximum(eta, 0.0) + np.log1p(np.exp(-np.abs(eta))))
            - self.s[own] * eta
        )
        return np.bincount(code, weights=each, minlength=len(U)).astype(np.float64)


def _loss_value(eta: Array, w: Array, s: Array) -> float:
    """The log loss, without its derivatives."""
    return float(w @ (np.maximum(eta, 0.0) + np.log1p(np.exp(-np.abs(eta)))) - s @ eta)


class LocalCounts(LocalLoss):
    """The loss of bins with the same segments in all columns, and its derivatives."""

    def __init__(self, summed: Summed) -> None:
        self.value, self.gradient, self.hessian = summed

    def times(self, V: Array) -> Array:
        """The Hessian of each unit times the same row of ``V``."""
        return np.asarray((self.hessian @ V[:, :, None])[:, :, 0])

    def hessian_sums(self, members: scipy.sparse.csr_array) -> Array:
        """The Hessians summed over the units of each segment."""
        n, m, _ = self.hessian.shape
        return np.asarray((members @ self.hessian.reshape(n, -1)).reshape(-1, m, m))


USUAL_SD = np.array([0.5, 0.2, 0.1, 0.2])
"""Prior means of the standard deviations of intercepts, slopes, bends, common bends.

They matter where segments are few: ten of them say little about their spread.
"""


def curve_components(m: int, n_kinds: int = 3) -> Components:
    """Variance components of ``m`` directions of curves.

    They are of the kinds intercepts, slopes and bends, or only the first of these.

    The line of the common curve is free, its bends have a variance of their own.
    """
    kind = np.minimum(np.arange(m), 2)
    start = np.where(np.arange(4) < n_kinds, START, 0.0)
    start[3] = START
    return Components(kind, np.where(kind < 2, -1, 3), start, USUAL_SD)


def hold_back(
    effects: list[Effects],
    counted: Counted,
    curve: CalibrationCurve,
    pieces: Array,
    forgiven: float,
) -> list[Effects]:
    """The effects of all columns, each held back as :func:`held` does."""
    beta = effects[0].beta
    common = PiecewiseCubic(curve.breaks, curve.coefficients + pieces @ beta)
    return [
        hold_back_column(each, counted, k, common, pieces, beta, forgiven)
        for k, each in enumerate(effects)
    ]


MIN_SLOPE = 1e-7
"""What a curve that was held back keeps, so that rounding cannot turn it."""


def hold_back_column(
    effects: Effects,
    counted: Counted,
    k: int,
    curve: PiecewiseCubic,
    pieces: Array,
    beta: Array,
    forgiven: float,
) -> Effects:
    """Effects of column ``k`` with which no curve falls where the common one rises.

    Slopes and bends are held back as far as it takes, unless that costs a segment's
    rows more than the nats that are ``forgiven``: then it is clear that its curve
    falls. ``pieces`` are the local coefficients of the directions.
    """
    bent = effects.theta[:, 1:]
    if not bent.any():
        return effects
    slopes = _least_slopes(curve.breaks, curve.coefficients)
    of_bends = _least_slopes(curve.breaks, pieces[:, :, 1:])
    rising = slopes >= 0.0
    room = np.maximum(slopes[rising] - MIN_SLOPE, 0.0)
    share = np.ones(len(bent))
    for rows in blocks(len(bent), int(rising.sum()) + 1):
        change = bent[rows] @ of_bends[rising].T
        with np.errstate(over="ignore"):
            most = np.divide(
                -room, change, out=np.full_like(change, np.inf), where=change < 0.0
            )
        share[rows] = np.minimum(most.min(axis=1, initial=1.0), 1.0)
    if (share == 1.0).all():
        return effects
    theta = effects.theta.copy()
    theta[:, 1:] *= share[:, None]
    if forgiven:
        lost = counted.losses(k, beta + theta) - counted.losses(k, beta + effects.theta)
        theta = np.where((lost > forgiven)[:, None], effects.theta, theta)
    return replace(effects, theta=theta)


PARTS = 4
"""Number of parts of a piece on each of which the slope is bounded."""


def _least_slopes(breaks: Array, coefficients: Array) -> Array:
    """Bounds of the slopes of a piecewise cubic.

    They are its Bernstein coefficients on parts of its pieces.
    """
    a, b, c = coefficients[:3, 1:-1]
    found = []
    for i in range(PARTS):
        t = np.diff(breaks) * i / PARTS
        step = np.diff(breaks) / PARTS
        t, step = (each.reshape(-1, *(1,) * (a.ndim - 1)) for each in (t, step))
        at = (3.0 * a * t + 2.0 * b) * t + c
        end = (3.0 * a * (t + step) + 2.0 * b) * (t + step) + c
        found += [at, at + (3.0 * a * t + b) * step, end]
    return np.concatenate(found)
