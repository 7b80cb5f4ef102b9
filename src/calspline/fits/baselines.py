"""Baselines: sigmoid, isotonic regression, beta curves, temperature, clipping."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from calspline._arrays import MIN_SPAN, Array, Counts, filled, one_blas_thread
from calspline._input.hints import (
    warn_if_columns_shuffled,
    warn_if_rows_reversed,
    warn_that_scores_are_equal,
)
from calspline._input.scores import BinaryScores, Kind
from calspline._input.weights import row_weight
from calspline.fits.one_vs_rest import fit_classes
from calspline.fits.rows import BinaryRows, MatrixRows
from calspline.fits.summaries import reference_of_classes, reference_of_two
from calspline.fitting.newton import fit_logistic, log_loss
from calspline.maps.base import CalibrationMap
from calspline.maps.curve import CalibrationCurve, constant, line
from calspline.maps.fit_info import FitInfo
from calspline.maps.model import Model
from calspline.maps.one_vs_rest import ClassMap, Logits, OneVsRest
from calspline.maps.parametric import (
    BetaMap,
    Clipping,
    ConstantRates,
    Temperature,
    both_columns,
    centered_logits,
    clip_log_odds,
    log_p,
    minus_log_rest,
)
from calspline.multiclass.scale import (
    REACH,
    Derivatives,
    inverse_temperature,
    mean_size,
    rows_are_alike,
    softmax_loss,
    unmask,
)
from calspline.transforms import Transform

Rows = BinaryRows | MatrixRows
Positive = NDArray[np.bool_]


@dataclass(frozen=True)
class FittedMap:
    """A map of one class against the rest; constant if all scores are equal."""

    map: ClassMap
    is_constant: bool = False
    converged: bool = True


FitMap = Callable[[BinaryScores, Positive, Array | None], FittedMap]
ConstantMap = Callable[[Kind, float], ClassMap]


def fit_each_class(
    rows: Rows, fit: FitMap, constant_map: ConstantMap, logits: Logits = "as_given"
) -> Model:
    """Fit two classes, or each of several against the rest."""
    with one_blas_thread():
        if isinstance(rows, BinaryRows):
            fits = [fit(rows.scores, rows.positive, rows.weight)]
        else:
            fits = _fit_against_rest(rows, fit, constant_map, logits)
    if all(fitted.is_constant for fitted in fits):
        warn_that_scores_are_equal()
    maps = tuple(fitted.map for fitted in fits)
    whole = maps[0] if len(maps) == 1 else OneVsRest(maps, logits)
    return as_model(rows, whole, converged=all(fitted.converged for fitted in fits))


def _fit_against_rest(
    rows: MatrixRows, fit: FitMap, constant_map: ConstantMap, logits: Logits
) -> list[FittedMap]:
    columns = OneVsRest((), logits).columns(unmask(rows.scores, rows.weight))

    def fit_column(column: BinaryScores, positive: Positive) -> FittedMap:
        return fit(column, positive, rows.weight)

    def fit_constant(rate: float, total: float) -> FittedMap:
        return FittedMap(constant_map(columns.kind, rate), is_constant=True)

    return fit_classes(columns, rows.codes, rows.weight, fit_column, fit_constant)


def as_model(
    rows: Rows, fitted_map: CalibrationMap[Any], *, converged: bool = True
) -> Model:
    """A map as a model; warn if the rows are probably not what was meant."""
    if isinstance(rows, BinaryRows):
        warn_if_rows_reversed(
            rows.scores.locations(),
            rows.positive,
            rows.weight,
            rows.classes,
            row_weight(rows.weight),
        )
        reference = reference_of_two(rows, fitted_map)
    else:
        values = rows.scores.values
        warn_if_columns_shuffled(values, rows.codes, rows.weight, rows.classes, 1.0)
        reference = reference_of_classes(rows, fitted_map)
    total = float(len(rows.codes) if rows.weight is None else rows.weight.sum())
    info = FitInfo(total, converged=converged, reference=reference)
    return Model(rows.classes, rows.kind, fitted_map, info)


def fit_sigmoid(rows: Rows, on: str) -> Model:
    """Platt's method: a line of log-odds, fitted to smoothed targets."""

    def fit(
        scores: BinaryScores, positive: Positive, weight: Array | None
    ) -> FittedMap:
        is_logit = scores.kind == "probability" and on == "log_odds"
        transform = Transform("logit" if is_logit else "identity")
        x = scores.values.astype(np.float64, copy=False)
        if is_logit:
            x = transform.from_log_odds(scores.locations())
        counts = Counts.from_rows(x, positive, weight)
        if counts.all_equal:
            flat = constant(scores.kind, counts.base_rate)
            return FittedMap(flat, is_constant=True)
        return _fit_line(counts, transform)

    return fit_each_class(rows, fit, constant)


def _fit_line(counts: Counts, transform: Transform) -> FittedMap:
    n1 = float(counts.positives.sum())
    n0 = float(counts.negatives.sum())
    positives = counts.positives * (n1 + 1.0) / (n1 + 2.0) + counts.negatives / (
        n0 + 2.0
    )
    negatives = counts.positives / (n1 + 2.0) + counts.negatives * (n0 + 1.0) / (
        n0 + 2.0
    )
    origin, unit = _center_and_spread(counts.x, counts.w)
    X = np.column_stack([np.ones(len(counts.x)), (counts.x - origin) / unit])
    start = np.array([np.log((n1 + 1.0) / (n0 + 1.0)), 0.0])
    fit = fit_logistic(X, positives, negatives, np.zeros(2), start)
    slope = float(fit.u[1]) / unit
    curve = line(transform, slope, float(fit.u[0]), origin=origin)
    return FittedMap(curve, converged=fit.converged)


def _center_and_spread(x: Array, w: Array) -> tuple[float, float]:
    """Weighted mean and standard deviation of numbers of any size."""
    size = float(np.abs(x).max())
    share = w / w.sum()
    scaled = x / size
    mean = float(share @ scaled)
    spread = float(np.sqrt(share @ (scaled - mean) ** 2))
    # Tiny weights must not make it vanish.
    spread = max(spread, 1e-8 * float(np.ptp(scaled)))
    return mean * size, spread * size


MIN_GAP = 1e-250
"""Scores closer than this share of their range are merged: a slope would overflow."""


def fit_isotonic(rows: Rows) -> Model:
    """The best curve that never decreases."""
    return fit_each_class(rows, _fit_isotonic_curve, constant)


def _fit_isotonic_curve(
    scores: BinaryScores, positive: Positive, weight: Array | None
) -> FittedMap:
    x = scores.values.astype(np.float64, copy=False)
    counts = _merge_close(Counts.from_rows(x, positive, weight))
    if counts.all_equal:
        flat = constant(scores.kind, counts.base_rate)
        return FittedMap(flat, is_constant=True)
    rates = counts.positives / counts.w
    f = scipy.optimize.isotonic_regression(rates, weights=counts.w).x
    f = np.clip(f, 0.0, 1.0)
    is_corner = np.ones(len(f), dtype=bool)
    is_corner[1:-1] = (f[1:-1] != f[:-2]) | (f[1:-1] != f[2:])
    x = counts.x[is_corner]
    f = f[is_corner]
    # Linear between the corners, flat beyond them.
    coefficients = np.zeros((4, len(x) + 1))
    coefficients[2, 1:-1] = np.diff(f) / np.diff(x)
    coefficients[3] = np.concatenate([f[:1], f])
    curve = CalibrationCurve(Transform("identity"), x, coefficients, link="identity")
    return FittedMap(curve)


def _merge_close(counts: Counts) -> Counts:
    """Counts with scores merged that are too close for a slope."""
    least = max(MIN_GAP * float(np.ptp(counts.x)), MIN_SPAN)
    gaps = np.append(np.inf, np.diff(counts.x))
    first = np.flatnonzero(gaps > least)
    return counts.merged(first, counts.x[first])


RIDGE = 1e-6
"""Ridge penalty of a millionth of an observation, for scores that separate classes."""
MIN_SPREAD = 1e-100
"""A feature that varies less is left out."""


def fit_beta(rows: Rows, parameters: str) -> Model:
    """Beta calibration, by maximum likelihood."""

    def fit(
        scores: BinaryScores, positive: Positive, weight: Array | None
    ) -> FittedMap:
        x = clip_log_odds(scores.locations())
        counts = Counts.from_rows(x, positive, weight)
        if counts.all_equal:
            flat = _constant_beta(scores.kind, counts.base_rate)
            return FittedMap(flat, is_constant=True)
        return _fit_beta_map(counts, parameters)

    return fit_each_class(rows, fit, _constant_beta, "softmax")


def _constant_beta(kind: Kind, rate: float) -> BetaMap:
    return BetaMap(0.0, 0.0, float(np.log(rate / (1.0 - rate))))


def _fit_beta_map(counts: Counts, parameters: str) -> FittedMap:
    half = np.log(2.0)
    if parameters == "am":
        features = [counts.x]
    elif parameters == "ab":
        features = [log_p(counts.x) + half, minus_log_rest(counts.x) - half]
    else:
        features = [log_p(counts.x), minus_log_rest(counts.x)]
    fit = _fit_increasing(
        np.column_stack(features), counts, intercept=parameters != "ab"
    )
    a = float(fit.theta[1])
    b = float(fit.theta[-1])
    c = float((a - b) * half) if parameters == "ab" else float(fit.theta[0])
    return FittedMap(BetaMap(a, b, c), converged=fit.converged)


@dataclass(frozen=True, eq=False)
class _IncreasingFit:
    """Intercept and coefficients, and the loss per unit of weight."""

    theta: Array
    loss: float
    converged: bool

    @property
    def is_increasing(self) -> bool:
        """Whether no coefficient is negative."""
        return bool(self.theta[1:].min() >= 0.0)


def _fit_increasing(
    features: Array, counts: Counts, *, intercept: bool
) -> _IncreasingFit:
    """The best intercept and coefficients of which none is negative.

    Coefficients that would be are zero, whichever makes the loss least.
    """
    n_features = features.shape[1]
    share = counts.w / counts.w.sum()
    size = np.maximum(np.abs(features).max(axis=0), MIN_SPREAD)
    scaled = features / size
    center = share @ scaled if intercept else np.zeros(n_features)
    spread = np.sqrt(share @ (scaled - center) ** 2)

    def fit_some(*kept: int) -> _IncreasingFit:
        """Fit with only some of the coefficients free."""
        free = [j for j in kept if spread[j] * size[j] > MIN_SPREAD]
        ones = np.full(len(share), float(intercept))
        columns = (scaled[:, free] - center[free]) / spread[free]
        X = np.column_stack([ones, columns])
        # On a and b, and on them in units of what they act on: either alone can be far
        # too weak.
        penalties = 1.0 + (spread * size)[free] ** -2.0
        ridge = RIDGE * np.append(0.0 if intercept else 1.0, penalties)
        start = np.zeros(1 + len(free))
        if intercept:
            start[0] = np.log(counts.base_rate / (1.0 - counts.base_rate))
        fit = fit_logistic(X, counts.positives, counts.negatives, ridge, start)
        theta = np.zeros(1 + n_features)
        theta[1:][free] = fit.u[1:] / spread[free] / size[free]
        theta[0] = fit.u[0] - fit.u[1:] @ (center[free] / spread[free])
        return _IncreasingFit(theta, fit.objective, fit.converged)

    best = fit_some(*range(n_features))
    if best.is_increasing:
        return best
    rivals = [fit_some()]
    if n_features > 1:
        rivals += [fit_some(j) for j in range(n_features)]
    increasing = [fit for fit in rivals if fit.is_increasing]
    return min(increasing, key=lambda fit: fit.loss)


def fit_temperature(rows: Rows) -> Model:
    """One temperature for all classes, with the least log-loss."""
    if isinstance(rows, BinaryRows):
        return _fit_binary_temperature(rows)
    scores = unmask(rows.scores, rows.weight)
    n, m = scores.values.shape
    w = np.full(n, 1.0 / n) if rows.weight is None else rows.weight / rows.total
    spans = np.ptp(scores.values, axis=0)
    if rows_are_alike(scores) or np.all(spans <= MIN_SPAN):
        warn_that_scores_are_equal()
        least = 1.0 / (rows.total + 2.0)
        rates = np.maximum(np.bincount(rows.codes, w, m), least)
        return as_model(rows, ConstantRates(rates / rates.sum()))
    size = mean_size(lambda some: centered_logits(scores, some), w, m)
    loss = softmax_loss(
        lambda some: centered_logits(scores, some) / size, rows.codes, w, m
    )
    beta = inverse_temperature(loss, -REACH, REACH).beta
    return as_model(rows, Temperature(size / beta))


def _fit_binary_temperature(rows: BinaryRows) -> Model:
    """A line through the origin of the log-odds."""
    is_logit = rows.scores.kind == "probability"
    transform = Transform("logit" if is_logit else "identity")
    x = rows.scores.locations()
    if is_logit:
        x = transform.from_log_odds(x)
    counts = Counts.from_rows(x, rows.positive, rows.weight)
    if counts.all_equal:
        warn_that_scores_are_equal()
        return as_model(rows, constant(rows.scores.kind, counts.base_rate))
    w = counts.w / counts.total
    positives = counts.positives / counts.total
    size = float(w @ np.abs(counts.x))
    x = counts.x / size

    def loss(beta: float) -> Derivatives:
        local = log_loss(beta * x, w, positives)
        slope = float(local.slope @ x)
        return float(local.value), slope, float(local.curvature @ (x * x))

    beta = inverse_temperature(loss, -REACH, REACH).beta / size
    return as_model(rows, line(transform, beta, 0.0))


PAPERS_FLOORS = (0.00001, 0.0001, 0.001, 0.01)


def fit_clipping(rows: Rows, p_min: float | str) -> Model:
    """A least probability; ``"best"`` is the paper's with the least log-loss."""
    if not isinstance(p_min, str):
        return as_model(rows, Clipping(p_min))
    p: Any = rows.scores.values
    if isinstance(rows, BinaryRows):
        p = both_columns(rows.scores, slice(None))
    losses = np.array(
        [_clipping_loss(rows, p, Clipping(floor)) for floor in PAPERS_FLOORS]
    )
    # A tie must not be decided by rounding, and so by the order of rows.
    is_least = losses <= losses.min() * (1.0 + 1e-12)
    return as_model(rows, Clipping(PAPERS_FLOORS[int(np.argmax(is_least))]))


def _clipping_loss(rows: Rows, p: Array, clipping: Clipping) -> float:
    codes = rows.codes

    def own(some: slice) -> Array:
        clipped = clipping.clip(p[some])
        return np.asarray(clipped[np.arange(len(clipped)), codes[some]])

    likelihood = filled(np.empty(len(p)), own, p.shape[1])
    return float(-np.average(np.log(likelihood), weights=rows.weight))
