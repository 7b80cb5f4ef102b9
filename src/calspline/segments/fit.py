"""From histograms of segments to their curves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import expit

from calspline.arrays import Array
from calspline.binary_fit import FittedCurve, Recipe
from calspline.curve import CalibrationCurve
from calspline.fitting import segments as numerics
from calspline.fitting.basis import evaluate
from calspline.fitting.fit import CLEAR_FALL, LEAST_INFORMATION, quantile_knots
from calspline.fitting.rising_segments import held
from calspline.scores import Kind
from calspline.segments.curves import SegmentedCurve, flat_beyond
from calspline.segments.histogram import SegmentHistograms
from calspline.segments.labels import Known, in_order
from calspline.segments.table import SegmentColumn

PLACES = 96
"""Places that the scores of all segments are merged to."""


def fit_segments(
    counts: SegmentHistograms,
    fitted: FittedCurve,
    recipe: Recipe,
) -> tuple[FittedCurve, SegmentedCurve]:
    """Fit how segments depart from the curve of all rows.

    Returns that curve moved by the effect which is common to all, and the curves of the segments.
    """
    curve = fitted.curve
    T = _directions(counts, fitted)
    pieces = flat_beyond(curve.breaks, T)
    labels = _labels(counts, counts.n_columns)
    names = counts.names or [None] * counts.n_columns
    known = [Known(in_order({label for label in each if label is not None})) for each in labels]
    own = [one.places(each) for one, each in zip(known, labels, strict=True)]
    counted = _counted(counts, curve, pieces, own, recipe.design_effect)
    # Where curves may not fall, the slopes of two columns must not add up.
    steady = recipe.monotone is True and len(own) > 1
    effects = numerics.fit_columns(counted, numerics.curve_components(T.shape[1], 1 if steady else 3))
    if all(each.none for each in effects):
        used = np.zeros(T.shape[1], dtype=bool)
    else:
        used = np.any([each.used for each in effects], axis=0)
        curve = _moved(curve, pieces, effects[-1])
    if recipe.monotone is not False:
        forgiven = 0.0 if recipe.monotone is True else CLEAR_FALL
        effects = [
            held(each, counted, k, curve.cubic, pieces, effects[-1].beta, forgiven) for k, each in enumerate(effects)
        ]
    slope_unit = float(pieces[2, 1, 1]) / curve.unit if T.shape[1] > 1 else 0.0
    columns = [
        SegmentColumn.summed(name, one, code, counts, each, used, slope_unit)
        for name, one, code, each in zip(names, known, own, effects, strict=True)
    ]
    P, alone = (np.ascontiguousarray(each[np.ix_(used, used)]) for each in (effects[-1].covariance, effects[-1].alone))
    segmented = SegmentedCurve(curve, np.ascontiguousarray(T[:, used]), P, alone, columns)
    converged = fitted.converged and all(each.converged for each in effects)
    return replace(fitted, curve=curve, converged=converged), segmented


def fit_segments_of_classes(
    counts: Sequence[SegmentHistograms], fits: Sequence[FittedCurve], recipe: Recipe
) -> tuple[list[FittedCurve], list[SegmentedCurve]]:
    """The same for the curve of each class against the rest."""
    found = [fit_segments(each, fitted, recipe) for each, fitted in zip(counts, fits, strict=True)]
    return [fitted for fitted, _ in found], [curves for _, curves in found]


def _z(curve: CalibrationCurve, locations: Array, kind: Kind) -> Array:
    """Where locations of a histogram lie on the curve."""
    x = curve.transform.from_log_odds(locations) if kind == "probability" else locations
    return np.asarray((x - curve.origin) / curve.unit)


def _directions(counts: SegmentHistograms, fitted: FittedCurve) -> Array:
    """The directions in which segments may differ: of equal scores, only up and down."""
    curve, pooled = fitted.curve, counts.pooled
    if np.isinf(fitted.smoothing):
        return np.ones((len(curve.breaks), 1))
    z = np.clip(_z(curve, pooled.locations, pooled.kind), curve.breaks[0], curve.breaks[-1])
    p = expit(curve.value(z))
    w = pooled.positives + pooled.negatives
    return numerics.directions(curve.breaks, z, w * np.maximum(p * (1.0 - p), LEAST_INFORMATION))


def _labels(counts: SegmentHistograms, n: int) -> list[list[Any]]:
    """The label of each histogram in each column."""
    if n == 1:
        return [counts.labels]
    return [[None if label is None else label[k] for label in counts.labels] for k in range(n)]


def _counted(
    counts: SegmentHistograms, curve: CalibrationCurve, pieces: Array, own: list[Any], design_effect: float
) -> numerics.Counted:
    """Counts by segment, at places that all segments share."""
    pooled = counts.pooled
    z, w = _z(curve, pooled.locations, pooled.kind), pooled.positives + pooled.negatives
    edges = quantile_knots(z, w, PLACES + 1)[1:-1] if z[0] < z[-1] else np.empty(0)
    near = np.searchsorted(edges, z, side="right")
    total = np.bincount(near, weights=w, minlength=len(edges) + 1)
    centre = np.bincount(near, weights=w * z, minlength=len(edges) + 1) / np.where(total > 0.0, total, 1.0)

    place = np.searchsorted(edges, _z(curve, counts.location, pooled.kind), side="right")
    segment = counts.segment
    new = np.flatnonzero(np.diff(segment * len(total) + place, prepend=-1))
    w1, w0 = (np.add.reduceat(each, new) / design_effect for each in (counts.positives, counts.negatives))
    place, segment = place[new], segment[new]
    R = evaluate(pieces, *curve.cubic.locate(centre))
    return numerics.Counted(R, place, curve.value(centre)[place], w1 + w0, w1, [code[segment] for code in own])


def _moved(curve: CalibrationCurve, pieces: Array, effects: numerics.Effects) -> CalibrationCurve:
    """The curve with the common effect."""
    return replace(curve, coefficients=curve.coefficients + pieces @ effects.beta)
