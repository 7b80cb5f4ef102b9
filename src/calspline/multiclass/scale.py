"""Scale of structured maps: the temperature of scores, and splines on it.

Probabilities are taken as they are: a temperature of one leaves them unchanged, and is
what a fit shrinks to. Logits have no unit of their own, so they are first multiplied by
``unit``, the inverse temperature that fits them best. All that follows is relative to
it, and does not depend on the unit that logits came in.

A row of log-scores ``z`` becomes ``u_j = log((1 - e) softmax_j(beta z) + e / m)``:
temperature scaling, then a grain of the uniform distribution. The curve shared by all
classes is ``s(u) = u + B(u) v`` with ``B`` a basis of natural cubic splines without
their affine part, so ``v = 0`` is temperature scaling. Where the temperature may still
change it is ``s(u) = u / beta + B(u) v`` with ``u`` itself the last column of ``B``, so
``v = 0`` leaves the scores as they are, but for the grain.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import exp, log
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calspline._arrays import MIN_SPAN, Array, Workspace, added_up, blocks
from calspline._codec import check_fields
from calspline._domains import Number
from calspline._input.scores import MatrixScores
from calspline.fitting.basis import NaturalSpline, PiecewiseCubic, anchors
from calspline.fitting.fit import drop_close_knots
from calspline.fitting.smoothing import from_second_derivatives

MIN_LOG_PROBABILITY = -87.5
"""``log(1e-38)``."""
MAX_EXPONENT = 690.0
"""With ``beta log m`` beyond, ``exp(beta z)`` could vanish in a whole row."""
TEMPERATURE_PRIOR = 1.0
"""Precision of the normal prior on ``log beta``: that of one observation."""
N_KNOTS = 16
STEPS = 2
"""In how many an octave is divided to find the gap between logits and masks."""
REACH = float(np.log(1000.0))
"""The inverse temperature times the mean size of logits is within ``exp(-REACH)`` and
``exp(REACH)``."""
SMALLEST_STEP, LARGEST_STEP = STEPS * -1075, STEPS * 1025


def unmask(scores: MatrixScores, weight: Array | None) -> MatrixScores:
    """Move masked classes, at -1e9 or the like, close to the others.

    Probabilities, and logits without masks, stay as they are.
    """
    reach = mask_distance(scores, weight)
    if np.isinf(reach):
        return scores
    z = scores.values.astype(np.float64)
    return MatrixScores(
        "margin", np.maximum(z, z.max(axis=1, keepdims=True) - reach, out=z)
    )


def mask_distance(scores: MatrixScores, weight: Array | None) -> float:
    """Distance below the largest logit of a row that counts as masked.

    A logit's distance from the largest of its row counts up to the first half of an
    octave that no distance falls in, going up from where the second largest are.
    Octaves are counted from the median of those.
    """
    if scores.kind == "probability":
        return np.inf
    if weight is None:
        counted = np.ones(len(scores.values), dtype=bool)
    else:
        counted = weight > 0.0
    parts = list(blocks(*scores.values.shape))

    def distances(rows: slice) -> Array:
        z = scores.values[rows][counted[rows]].astype(np.float64)
        return np.asarray(z.max(axis=1, keepdims=True) - z)

    seconds = np.concatenate(
        [np.partition(distances(rows), 1, axis=1)[:, 1] for rows in parts]
    )
    seconds = seconds[seconds > 0.0]
    if not seconds.size:
        return np.inf
    middle = float(np.median(seconds))
    taken = np.zeros(LARGEST_STEP - SMALLEST_STEP, dtype=bool)
    for rows in parts:
        distance = distances(rows)
        taken[_step(distance[distance > 0.0] / middle) - SMALLEST_STEP] = True
    start = -SMALLEST_STEP
    last = int(np.flatnonzero(taken)[-1])
    free = np.flatnonzero(~taken[start:last])
    if not free.size:
        return np.inf
    octaves = (start + int(free[0]) + 1 + SMALLEST_STEP) / STEPS
    return float(middle * 2.0**octaves)


def _step(x: Array) -> NDArray[np.intp]:
    """The half octave of positive numbers."""
    return np.asarray(np.floor(STEPS * np.log2(x)), dtype=np.intp)


def rows_are_alike(scores: MatrixScores) -> bool:
    """Whether all rows are equal; for logits, up to a constant per row."""
    values = scores.values
    if scores.kind == "probability":
        return not np.ptp(values, axis=0).any()
    first = values[0] - values[0].max()
    for rows in blocks(*values.shape):
        z = values[rows].astype(np.float64, copy=False)
        rounding = 4.0 * np.finfo(values.dtype).eps * np.abs(z).max(initial=0.0)
        difference = np.abs(z - z.max(axis=1, keepdims=True) - first).max(initial=0.0)
        if difference > max(rounding, MIN_SPAN):
            return False
    return True


def log_scores(
    z: NDArray[np.floating[Any]],
    floor: float,
    unit: float | None = None,
    out: Array | None = None,
) -> Array:
    """Log-softmax of every row, at least ``floor``; into ``out`` if it is given.

    With a ``unit``, it is the logits times ``unit`` instead, less the largest of each
    row: they differ from log-softmax by a constant.
    """
    x: Array = np.subtract(z, z.max(axis=1, keepdims=True), out=out, dtype=np.float64)
    if unit is None:
        x -= np.log(np.exp(x).sum(axis=1, keepdims=True))
    else:
        with np.errstate(over="ignore"):
            x *= unit
    np.maximum(x, floor, out=x)
    return x


def floored_logits(z: Array, unit: float, w: Array) -> tuple[Array, float]:
    """Logits times ``unit``, in place of ``z``, and their lower limit.

    The floor is the log of half the least ratio to a row's largest probability, among
    rows that count.
    """
    least = 0.0
    for rows in blocks(*z.shape):
        x = z[rows]
        x *= unit
        least = min(least, float(x.min(axis=1)[w[rows] > 0.0].min(initial=0.0)))
    floor = max(least - float(np.log(2.0)), MIN_LOG_PROBABILITY)
    return np.maximum(z, floor, out=z), floor


def floor_log_softmax(z: Array, w: Array) -> tuple[Array, float]:
    """Log-softmax of every row, in place of ``z``, and the floor under it.

    The floor is the log of half the least positive probability among rows that count,
    at least 1e-38.
    """
    parts = list(blocks(*z.shape))
    workspace = Workspace(parts, z.shape[1], np.float64)

    def part(rows: slice) -> float:
        x = z[rows]
        x -= x.max(axis=1, keepdims=True)
        (e,) = workspace.views(rows)
        x -= np.log(np.exp(x, out=e).sum(axis=1, keepdims=True))
        least = x.min(axis=1)
        if np.isinf(least).any():
            least = x.min(axis=1, initial=0.0, where=np.isfinite(x))
        return float(least[w[rows] > 0.0].min(initial=0.0))

    floor = max(min(map(part, parts)) - float(np.log(2.0)), MIN_LOG_PROBABILITY)
    return np.maximum(z, floor, out=z), floor


Derivatives = tuple[float, float, float]
"""Loss as a function of the inverse temperature: value and two derivatives."""


def softmax_loss(
    z: Callable[[slice], Array], y: NDArray[np.intp], w: Array, n_classes: int
) -> Callable[[float], Derivatives]:
    """``-sum w log softmax_y(beta z)`` as a function of ``beta``.

    With ``E`` and ``V`` the mean and variance of ``z`` under ``softmax(beta z)``, its
    derivatives are ``sum w (E - z_y)`` and ``sum w V``.
    """
    parts = list(blocks(len(y), n_classes))
    workspace = Workspace(parts, n_classes, np.float64)
    ones = np.ones(n_classes)

    def at(beta: float) -> Derivatives:
        def part(rows: slice) -> Derivatives:
            zb = z(rows)
            wb = w[rows]
            zy = zb[np.arange(len(zb)), y[rows]]
            (e,) = workspace.views(rows)
            np.exp(np.multiply(zb, beta, out=e), out=e)
            total = e @ ones  # a quick sum
            e *= zb
            mean = e @ ones / total
            square = np.einsum("ij,ij->i", e, zb) / total
            loss = np.log(total) - beta * zy
            return (
                float(wb @ loss),
                float(wb @ (mean - zy)),
                float(wb @ (square - mean**2)),
            )

        f, g, h = (sum(values) for values in zip(*map(part, parts), strict=True))
        return f, g, h

    return at


class TemperatureFit(NamedTuple):
    """Inverse temperature, and second derivative of the loss in ``log beta``."""

    beta: float
    information: float


MAX_STEPS = 1000
"""Largest number of Newton steps. About ten suffice; nearly separable classes need
more."""


def inverse_temperature(
    loss: Callable[[float], Derivatives],
    low: float,
    high: float,
    *,
    prior: float = 0.0,
    tolerance: float = 1e-8,
    start: float = 1.0,
) -> TemperatureFit:
    """Minimizer ``beta`` of ``loss(beta) + prior t^2 / 2``, with ``t = log beta``.

    Newton's method in ``t``, on a loss that is convex in ``beta``. The gradient is
    ``beta loss' + prior t`` and the curvature, without the term that may be negative,
    ``beta^2 loss'' + prior``. It stops at a step below ``tolerance``, whose square is
    what is left. It begins at ``start``. Without a prior the minimum may lie at
    infinity, where nothing is left of the derivatives, so the upper limit is tried
    first.
    """

    def local(t: float) -> Derivatives:
        beta = exp(t)
        f, g, h = loss(beta)
        return f + 0.5 * prior * t * t, beta * g + prior * t, beta * beta * h + prior

    if prior == 0.0:
        _, slope, curvature = local(high)
        if slope <= 0.0:
            return TemperatureFit(exp(high), curvature)
    t = log(start)
    f, g, h = local(t)
    for _ in range(MAX_STEPS):
        step = min(max(-g / (h + abs(g)), -1.5), 1.5)
        step = min(max(t + step, low), high) - t
        if abs(step) < tolerance:
            break
        trial = local(t + step)
        while trial[0] > f + 1e-10 * abs(f) and abs(step) > 1e-9:
            step /= 2.0
            trial = local(t + step)
        t = t + step
        f, g, h = trial
    else:
        step = 0.0
    return TemperatureFit(exp(t + step), h - prior)


def mean_size(z: Callable[[slice], Array], w: Array, n_classes: int) -> float:
    """Weighted mean absolute deviation of logits from the mean of their row."""
    total = 0.0
    for rows in blocks(len(w), n_classes):
        logits = z(rows)
        deviation = np.abs(logits - logits.mean(axis=1, keepdims=True)).mean(axis=1)
        total += float(w[rows] @ deviation)
    return total / float(w.sum())


def fit_logit_unit(z: Array, y: NDArray[np.intp], w: Array) -> TemperatureFit:
    """Best inverse temperature of logits; it is equivariant to their scale."""
    size = mean_size(z.__getitem__, w, z.shape[1])
    if size <= MIN_SPAN:
        return TemperatureFit(1.0, 0.0)
    loss = softmax_loss(lambda rows: z[rows] / size, y, w, z.shape[1])
    found = sized_logit_unit(loss)
    return found._replace(beta=found.beta / size)


def sized_logit_unit(loss: Callable[[float], Derivatives]) -> TemperatureFit:
    """The inverse temperature that fits logits best whose mean size is one.

    Its logarithm has the same prior as the temperature of probabilities. One
    observation's worth moves no fit, but keeps separable classes apart by a finite
    amount.
    """
    return inverse_temperature(
        loss, -REACH, REACH, prior=TEMPERATURE_PRIOR, tolerance=1e-4
    )


def unit_of_logits(
    scores: MatrixScores, y: NDArray[np.intp], weight: Array | None
) -> float:
    """The inverse temperature of logits that fits them best; 1 for probabilities."""
    if scores.kind == "probability":
        return 1.0
    z = unmask(scores, weight).values.astype(np.float64)
    z -= z.max(axis=1, keepdims=True)
    w = np.ones(len(z)) if weight is None else weight
    return fit_logit_unit(z, y, w).beta


MAX_LOG_BETA = float(np.log(100.0))


def fit_temperature(
    z: Array,
    y: NDArray[np.intp],
    w: Array,
    prior: float = TEMPERATURE_PRIOR,
    start: float = 1.0,
) -> TemperatureFit:
    """Temperature of log-probabilities; log(1 / T) has a prior with mean zero."""
    most = min(MAX_LOG_BETA, float(np.log(MAX_EXPONENT / np.log(z.shape[1]))))
    loss = softmax_loss(z.__getitem__, y, w, z.shape[1])
    return inverse_temperature(
        loss, -most, most, prior=prior, tolerance=1e-4, start=start
    )


MAX_BETA = 200.0
"""More than any fit gives: the table of powers grows with it."""
MIN_UNIFORM = 1e-300
"""Less, shared out to the classes, would be no number with all its digits."""


@dataclass(frozen=True)
class Scale:
    """``z -> u``: floor, inverse temperature, uniform share, and unit of logits."""

    floor: Annotated[float, Number(above=MIN_LOG_PROBABILITY - 1.0, below=0.0)]
    beta: Annotated[float, Number(above=0.0, below=MAX_BETA)]
    uniform: Annotated[float, Number(above=MIN_UNIFORM, below=1.0)]
    unit: Annotated[float, Number(above=0.0)] | None = None

    def __post_init__(self) -> None:
        check_fields(self)

    def tempered(self, x: Array) -> Array:
        """``u = log((1 - e) softmax(beta x) + e / m)`` in place, given the floor."""

        def part(rows: slice) -> None:
            u = x[rows]
            u *= self.beta
            np.exp(u, out=u)
            u *= (1.0 - self.uniform) / u.sum(axis=1, keepdims=True)
            u += self.uniform / u.shape[1]
            np.log(u, out=u)

        for rows in blocks(*x.shape):
            part(rows)
        return x


@dataclass(frozen=True)
class CurveBasis:
    """Natural splines in ``u`` with orthonormal curvature: the columns of ``T``.

    ``slope`` is that of the curve where all coordinates are zero; unless None, a last
    coordinate is added to it.
    """

    spline: NaturalSpline
    T: Array
    slope: float | None = None

    @property
    def size(self) -> int:
        """Number of coordinates."""
        return int(self.T.shape[1]) + (self.slope is not None)

    @property
    def first_slope(self) -> float:
        """The curve's slope where all coordinates are zero."""
        return 1.0 if self.slope is None else self.slope

    @property
    def straight(self) -> Array:
        """The coordinates of ``s(u) = u``."""
        v = np.zeros(self.size)
        if self.slope is not None:
            v[-1] = 1.0 - self.slope
        return v

    def at(self, u: Array) -> Array:
        """Basis values, shape (len(u), size)."""
        rows = self.spline.design(u).in_coordinates(self.T).rows
        return rows if self.slope is None else np.column_stack([rows, u])

    def curve(self, v: Array) -> PiecewiseCubic:
        """``s(u)``."""
        coefficients = self.spline.pieces @ (self.T @ v[: self.T.shape[1]])
        slope = self.first_slope + (0.0 if self.slope is None else float(v[-1]))
        coefficients[2] += slope
        coefficients[3] += slope * anchors(self.spline.knots)
        return PiecewiseCubic(self.spline.knots, coefficients)


def curve_basis(u: Array, mass: Array, n_knots: int, slope: float | None) -> CurveBasis:
    """Basis for values with weights ``mass`` at sorted locations ``u``.

    Half the knots are at quantiles of the values, half at quantiles weighted by
    ``exp(u)``, where the large probabilities are. The affine part taken out is the
    least-squares line under the Fisher weight ``p (1 - p)``; the curve is anchored at
    ``s(0) = 0``.
    """
    if len(u) < 4:
        return CurveBasis(NaturalSpline(np.array([-1.0, 0.0])), np.zeros((2, 0)), slope)
    knots = [
        u[[0, -1]],
        _quantiles(u, mass, n_knots // 2),
        _quantiles(u, mass * np.exp(u), n_knots // 2 + 2),
    ]
    basis = NaturalSpline(
        drop_close_knots(np.unique(np.concatenate(knots)), u[-1] - u[0])
    )
    if basis.size < 4:
        return CurveBasis(basis, np.zeros((basis.size, 0)), slope)
    curved = from_second_derivatives(basis)
    ones, line = basis.line
    affine = np.column_stack([ones, line])
    p = np.exp(np.minimum(u, 0.0))
    information = mass * (p * (1.0 - p) + 1e-9)
    rows = basis.design(u).dot(np.column_stack([affine, curved]))
    A = rows[:, :2].T * information
    curved -= affine @ np.linalg.solve(A @ rows[:, :2], A @ rows[:, 2:])
    curved -= np.outer(ones, basis.design(np.zeros(1)).dot(curved)[0])
    return CurveBasis(basis, curved, slope)


def _quantiles(u: Array, mass: Array, count: int) -> Array:
    share = np.cumsum(mass) - 0.5 * mass
    return np.asarray(np.interp(np.linspace(0.0, 1.0, count) * mass.sum(), share, u))


class CurveCells(NamedTuple):
    """All ``u`` in uniform cells: which cell each value is in, and the basis there."""

    cell: NDArray[np.int16]
    table: Array
    basis: CurveBasis


CELLS = 1 << 13
"""Number of cells of ``u`` during the fit; inside the basis, values are moved to cell
centers."""


def curve_cells(u: Array, w: Array, n_knots: int, slope: float | None) -> CurveCells:
    """Sort the values of ``u`` into cells and lay out the basis on them."""
    parts = list(blocks(*u.shape))
    low = min(u[rows].min(axis=1)[w[rows] > 0.0].min(initial=np.inf) for rows in parts)
    high = max(
        u[rows].max(axis=1)[w[rows] > 0.0].max(initial=-np.inf) for rows in parts
    )
    width = max(float(high - low) / CELLS, 1e-12)
    cell = np.empty(u.shape, dtype=np.int16)
    workspace = Workspace(parts, u.shape[1], np.float64, np.intp)

    def part(rows: slice) -> list[Array]:
        t, i = workspace.views(rows)
        np.subtract(u[rows], low, out=t)
        t /= width
        np.copyto(i, np.clip(t, 0, CELLS - 1, out=t), casting="unsafe")
        cell[rows] = i
        t[:] = w[rows, None]
        count = np.bincount(i.ravel(), weights=t.ravel(), minlength=CELLS)
        t *= u[rows]
        total = np.bincount(i.ravel(), weights=t.ravel(), minlength=CELLS)
        return [
            count.astype(np.float64, copy=False),
            total.astype(np.float64, copy=False),
        ]

    count, total = added_up(part, parts)
    used = count > 0.0
    middle: Array = low + (np.arange(CELLS, dtype=np.float64) + 0.5) * width
    middle[used] = total[used] / count[used]
    basis = curve_basis(middle[used], count[used], n_knots, slope)
    return CurveCells(cell, basis.at(middle), basis)
