"""Spline fits to binned data: knots, coefficients and their uncertainty."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.special import expit

from calspline._arrays import Array, Counts, run_starts
from calspline.fitting.averaging import Average
from calspline.fitting.basis import (
    NaturalSpline,
    PiecewiseCubic,
    PiecewiseDesign,
    Places,
)
from calspline.fitting.coordinates import Coordinates
from calspline.fitting.groups import Parts
from calspline.fitting.newton import (
    Constraints,
    DenseDesign,
    Loss,
    Point,
    Problem,
    Solution,
    brier_loss,
    log_loss,
    minimize,
)
from calspline.fitting.smoothing import (
    DECADES,
    RIDGE_PRIOR,
    SEARCH_TOLERANCE,
    Chosen,
    average_fits,
    curvature_coordinates,
    ridge_coordinates,
    search_reml,
    smoothing_grid,
)

FINAL_TOLERANCE = 1e-6
SURPRISE = 1.0 / 16.0
"""Chance below which a label is a surprise to a score..."""
HEDGE = 0.25
"""...and the share of Platt's hedge that is left to labels that are none at all."""
LEAST_INFORMATION = 1e-3
"""Smallest information of a row about the line, as ``p (1 - p)`` of its raw
probability."""
CLEAR_FALL = 5.0
"""Nats that the best increasing curve loses to one that falls where a fall is clear:
"very strong" evidence on the scale of Kass and Raftery (1995)."""
MIN_SLOPE = 1e-7
"""Smallest slope of a monotone curve, per range of x, so that rounding cannot reverse
it."""
MAX_KNOTS = 512
CELLS = 256


@dataclass(frozen=True)
class Line:
    """``level + slope * (x - origin) / unit``, finite for ``x`` of any size."""

    level: float
    slope: float
    origin: float = 0.0
    unit: float = 1.0

    def __call__(self, x: Array) -> Array:
        """Values of the line."""
        return np.asarray(self.level + self.slope * ((x - self.origin) / self.unit))


@dataclass(frozen=True)
class Shape:
    """Constraints and priors of the shape of a curve.

    ``line`` is the intercept and slope of the prior mean, and ``spreads`` are factors
    of its prior standard deviation over which fits are averaged, if there are any. If
    ``monotone`` is "auto", the curve decreases where the evidence is clear. ``ends`` is
    the largest slope of the curve beyond its first and its last knot, and ``flat``
    states whether it is known to be constant there. Unless the curve ``turns`` beyond
    its knots, it is flat where that slope contradicts the direction of the whole curve,
    since a few rows at the end of the range say little about what is far beyond.
    ``targets`` are Platt's, for negatives and positives, and ``trusted`` is the line of
    log-odds towards which :func:`soft_targets` moves them.
    """

    loss: Loss
    ridge: bool
    line: tuple[float, float]
    targets: tuple[float, float]
    trusted: Line
    monotone: bool | Literal["auto"]
    bounds: tuple[float, float] | None
    spreads: Array | None = None
    ends: tuple[float, float] = (np.inf, np.inf)
    flat: tuple[bool, bool] = (False, False)
    turns: bool = True


NEGLIGIBLE = 1e-2
"""Share of the variance that the modes of a fit may leave out."""


TUBE_POINTS = 128


@dataclass(frozen=True, eq=False)
class CurveSpread:
    """How sure a fit is, given a ``root`` of the covariance of its coefficients.

    The numbers are computed when they are asked for: most fits are only applied.

    ``share`` is the weight of the rows next to each knot, and ``flat`` has the ends, 0
    or -1, from which the curve goes on without knowing more.
    """

    basis: NaturalSpline
    root: Array
    share: Array
    flat: list[int]

    def __getstate__(self) -> dict[str, Any]:
        """What the numbers are computed from, so that pickles are small."""
        return {
            "basis": NaturalSpline(self.basis.knots),
            "root": self.root,
            "share": self.share,
            "flat": self.flat,
        }

    @cached_property
    def variance(self) -> Array:
        """Variance of the curve as local coefficients, with powers 6 to 0."""
        local = (self.basis.pieces @ self.root).swapaxes(0, 1)
        products = np.einsum("imk,ink->imn", local, local)
        variance = np.array(
            [
                sum(products[:, m, p - m] for m in range(4) if 0 <= p - m < 4)
                for p in range(7)
            ]
        )
        variance[:-1, self.flat] = 0.0
        return variance

    @cached_property
    def tube(self) -> float:
        """Length of the normalized basis on the sphere, for simultaneous bands."""
        x = np.linspace(self.basis.knots[0], self.basis.knots[-1], TUBE_POINTS)
        rows = self.basis.design(x).dot(self.root)
        rows /= np.maximum(
            np.sqrt((rows * rows).sum(axis=1, keepdims=True)), np.finfo(float).tiny
        )
        return float(np.sqrt((np.diff(rows, axis=0) ** 2).sum(axis=1)).sum())

    @cached_property
    def modes(self) -> Array:
        """Directions ``m`` at the breaks with ``sum m m'`` the covariance.

        Directions are left out if they are negligible at the rows.
        """
        at_knots = self.basis.design(self.basis.knots).dot(self.root)
        _, size, rotation = np.linalg.svd(np.sqrt(self.share)[:, None] * at_knots)
        left = 1.0 - np.cumsum(size**2) / float(size @ size)
        modes = (at_knots @ rotation[: 1 + int(np.argmax(left < NEGLIGIBLE))].T).T
        # Signs are as good as any; that of the largest entry is fixed, so that fits
        # repeat.
        largest = modes[np.arange(len(modes)), np.abs(modes).argmax(axis=1)]
        return np.asarray(modes * np.sign(largest)[:, None])


@dataclass(frozen=True)
class SplineFit:
    """A fitted curve in local coefficients, how sure it is and how it was chosen.

    The curve is a function of ``z = (x - origin) / unit``, as are the breaks.
    ``coefficients`` has shape (4, K+1), highest power first: the line before the first
    break, the pieces between, the line after the last. Fits by the Brier loss have no
    ``spread``.
    """

    origin: float
    unit: float
    breaks: Array
    coefficients: Array
    spread: CurveSpread | None
    edf: float
    converged: bool
    n_iter: int


class _BSplineFit(NamedTuple):
    """A fit in B-spline coefficients, with a root of the covariance of coordinates."""

    c: Array
    root: Array
    edf: float
    converged: bool
    n_iter: int


CLEAR_FALL_PER_PARAMETER = 1.25
"""Nats added to ``CLEAR_FALL`` for each effective parameter of an average, since a
flexible curve gains more by chance."""
ROUNDED_OFF = 1e-12
"""Squared error of a row that counts as none."""
WITHIN_INTERVAL = np.linspace(0.0, 1.0, 12, endpoint=False)
"""Where cells between two knots begin."""
OUTER_CELLS = 64
FEWEST_MERGED = 256
MIN_CUBED, MAX_CUBED = 1e-50, 1e4
"""Range and size of scores for which the paper's penalty is used as it is. Others are
scaled to [0, 1], since their cubes would overflow or hardly be penalized."""


class SplineTask:
    """A natural cubic spline fit to bins at sorted locations, which may repeat.

    ``knots`` are in the units of ``bins.x``. ``parts`` have to be left out together
    when a smoothing is tried on bins not fitted.
    """

    def __init__(
        self, bins: Counts, knots: Array, shape: Shape, parts: Parts | None = None
    ) -> None:
        self.bins = bins
        self.shape = shape
        self.parts = parts
        self.origin = float(bins.x[0])
        self.unit = float(bins.x[-1] - bins.x[0])
        self.basis = NaturalSpline((knots - self.origin) / self.unit)
        self._z = (bins.x - self.origin) / self.unit
        self._places = self.basis.places(self._z)
        self.coordinates: Coordinates
        if shape.ridge:
            largest = max(-self.origin, float(bins.x[-1]))
            if self.unit > MIN_CUBED and largest < MAX_CUBED:
                scale = (self.origin, self.unit)
            else:
                scale = (0.0, 1.0)
            self.coordinates = ridge_coordinates(self.basis, *scale)
        else:
            self.coordinates = curvature_coordinates(
                self.basis,
                PiecewiseDesign(self.basis.pieces, self._places),
                self._z,
                self._information(),
                shape.line[1] * self.unit,
            )

    def _information(self) -> Array:
        """What each bin says about the line.

        Where the line may hardly move, far-out scores would otherwise hold it fast for
        all others, and they know least about it.
        """
        if self.shape.spreads is None:
            return self.bins.w
        intercept, slope = self.shape.line
        information = log_loss(
            intercept + slope * self.bins.x, self.bins.w, self.bins.positives
        ).curvature
        return np.maximum(information, LEAST_INFORMATION * self.bins.w)

    @cached_property
    def problem(self) -> Problem:
        """The fit to all bins."""
        return self._problem(self._places, self.bins)

    @cached_property
    def merged(self) -> Problem:
        """The same fit to coarser bins, which suffices for choosing the smoothing.

        Within a cell a curve with these knots is a line for all practical purposes.
        """
        if len(self._z) < FEWEST_MERGED:
            return self.problem
        knots = self.basis.knots
        inner = knots[:-1, None] + np.diff(knots)[:, None] * WITHIN_INTERVAL
        edges = [inner.ravel(), knots[-1:]]
        if knots[0] > 0.0 or knots[-1] < 1.0:
            below = np.linspace(0.0, knots[0], OUTER_CELLS, endpoint=False)
            edges = [below, edges[0], np.linspace(knots[-1], 1.0, OUTER_CELLS)]
        first = np.searchsorted(self._z, np.concatenate(edges))
        first = first[run_starts(first)]
        first = first[first < len(self._z)]
        if len(first) > len(self._z) // 2:
            return self.problem
        w = self.bins.w
        z = np.add.reduceat(w * self._z, first) / np.add.reduceat(w, first)
        merged = self.bins.merged(first, self.origin + self.unit * z)
        return self._problem(self.basis.places(z), merged)

    @cached_property
    def _local(self) -> Array:
        """The coordinates as piecewise cubics."""
        return self.basis.pieces @ self.coordinates.T

    def _problem(self, places: Places, bins: Counts) -> Problem:
        intercept, slope = self.shape.line
        low, high = self.targets(bins)
        return Problem(
            PiecewiseDesign(self._local, places),
            intercept + slope * bins.x,
            bins.w,
            high * bins.positives + low * bins.negatives,
            self.shape.loss,
        )

    def targets(self, bins: Counts) -> tuple[Array, Array]:
        """Targets of negatives and of positives in each bin."""
        return soft_targets(self.shape.targets, self.shape.trusted(bins.x))

    def search_evidence(self, grid: Array | None = None) -> Chosen:
        """Choose the smoothing by marginal likelihood.

        If the shape has spreads, fits are averaged instead. A given ``grid`` is
        searched exhaustively.
        """
        is_given = grid is not None
        spreads = self.shape.spreads
        if spreads is None:
            tried = smoothing_grid(grid)
            return search_reml(
                self.merged, self.coordinates, tried, exhaustive=is_given
            )
        tried = smoothing_grid(grid) if is_given else DECADES
        return average_fits(
            self.merged, self.coordinates, tried, spreads, exhaustive=is_given
        )

    def finish(self, choice: Chosen) -> SplineFit:
        """Fit all bins at the chosen smoothing, or average as it says."""
        if choice.average is None:
            fit = self._fit_at(choice.smoothing, choice.u)
        else:
            fit = self._fit_average(choice.average)
        coefficients = self.basis.pieces @ fit.c
        flat = self._limit_ends(coefficients)
        spread = None
        if self.shape.loss is log_loss:
            # Near 0 and 1 probabilities bend as no spline does, and no variance about
            # one says how far off it is.
            root = self.coordinates.T @ fit.root
            spread = CurveSpread(self.basis, root, self._share, flat)
        return SplineFit(
            self.origin,
            self.unit,
            self.basis.knots,
            coefficients,
            spread,
            fit.edf,
            fit.converged,
            fit.n_iter,
        )

    def _fit_at(self, smoothing: float, start: Array) -> _BSplineFit:
        """The fit of all bins at one smoothing."""
        q = self.coordinates.precision(smoothing)
        problem = self.problem
        best = minimize(problem, q, problem.at(start), tolerance=FINAL_TOLERANCE)
        c, held = self._in_shape(q, best.u, self.shape, CLEAR_FALL)
        root = (held or best).covariance_root()
        edf = max(float(self.basis.size - q @ (root**2).sum(axis=1)), 0.0)
        if held is None:
            return _BSplineFit(c, root, edf, best.converged, best.n_iter)
        converged = best.converged and held.converged
        return _BSplineFit(c, root, edf, converged, held.n_iter)

    def _fit_average(self, mean: Average) -> _BSplineFit:
        """The fit of all bins that an average of fits to merged bins stands for."""
        q = self.coordinates.precision(mean.smoothing)
        u = self._on_all_bins(mean.u, q)
        clear = max(CLEAR_FALL, CLEAR_FALL_PER_PARAMETER * mean.edf)
        c, held = self._in_shape(q, u, self.shape, clear)
        if held is None:
            root = _root(mean.covariance)
            return _BSplineFit(c, root, mean.edf, mean.converged, mean.n_iter)
        covariance = mean.covariance
        if self.shape.monotone == "auto":
            # It was only unclear whether the curve falls: the band holds the one that
            # does too.
            covariance = covariance + np.outer(held.u - u, held.u - u)
        converged = mean.converged and held.converged
        return _BSplineFit(c, _root(covariance), mean.edf, converged, held.n_iter)

    def _limit_ends(self, coefficients: Array) -> list[int]:
        """Limit the slopes beyond the knots; return the ends that are known flat."""
        level_ends(coefficients)
        if not self.shape.turns:
            straighten_ends(coefficients)
        flat = []
        ends = zip((0, -1), self.shape.ends, self.shape.flat, strict=True)
        for end, steepest, is_flat in ends:
            most = steepest * self.unit
            least = 0.0 if is_flat else -most
            coefficients[2, end] = min(max(coefficients[2, end], least), most)
            if is_flat:
                flat.append(end)
        return flat

    def _on_all_bins(self, u: Array, q: Array) -> Array:
        """What the average ``u`` of fits to merged bins is on all bins.

        The average is no minimum of the loss, but it is one with a linear term. With
        the same term, all bins have their minimum next to it.
        """
        if self.merged is self.problem:
            return u
        merged = self.merged.at(u)
        tilt = self.merged.design.tdot(merged.local.slope) + q * u
        problem = replace(self.problem, tilt=tilt)
        return minimize(problem, q, problem.at(u), tolerance=SEARCH_TOLERANCE).u

    @property
    def _share(self) -> Array:
        """The weight of the bins that each knot is next to."""
        knots = self.basis.knots
        nearest = np.searchsorted(0.5 * (knots[1:] + knots[:-1]), self._z)
        return np.asarray(
            np.bincount(nearest, weights=self.bins.w, minlength=len(knots)),
            dtype=np.float64,
        )

    @cached_property
    def _offset(self) -> Array:
        """Coefficients of the line that the curve is a deviation from."""
        intercept, slope = self.shape.line
        line = np.array([intercept + slope * self.origin, slope * self.unit])
        return np.asarray(line @ self.basis.line)

    def _in_shape(
        self, q: Array, u: Array, shape: Shape, clear: float
    ) -> tuple[Array, Solution | None]:
        """Coefficients of the best curve of a shape, and its solution.

        There is no solution where ``u``, the best of all, has that shape. A fall that
        gains more than ``clear`` nats is left, if ``monotone`` is "auto".
        """
        basis = self.basis
        coordinates = self.coordinates
        offset = self._offset
        constraints = self._constraints(shape, u)
        if constraints is None:
            return offset + coordinates.T @ u, None
        free = self.problem.at(u)
        tilt = self.problem.design.tdot(free.local.slope) + q * u
        problem = replace(self.problem, tilt=tilt)
        start = problem.at(self._feasible_line())
        held = minimize(
            problem, q, start, tolerance=FINAL_TOLERANCE, constraints=constraints
        )
        if shape.monotone == "auto" and self._lost(problem, q, free, held) > clear:
            return self._in_shape(q, u, replace(shape, monotone=False), clear)
        c = offset + coordinates.T @ held.u
        return make_increasing(basis, c) if shape.monotone else c, held

    def _lost(self, problem: Problem, q: Array, free: Point, held: Solution) -> float:
        """Loss of the ``held`` curve relative to the ``free`` one."""
        best = problem.at(free.u).local.value + 0.5 * float(q @ free.u**2)
        if self.shape.loss is brier_loss:  # with the error variance profiled out
            least = ROUNDED_OFF * self.bins.total
            ratio = max(held.objective, least) / max(best, least)
            return 0.5 * self.bins.total * float(np.log(ratio))
        eta = np.array([held.eta, free.eta])
        positive = np.subtract(*np.logaddexp(0.0, -eta))
        negative = np.subtract(*np.logaddexp(0.0, eta))
        most = max(
            positive[self.bins.positives > 0.0].max(),
            negative[self.bins.negatives > 0.0].max(),
        )
        return float(held.objective - best - most)

    def _constraints(self, shape: Shape, u: Array) -> Constraints | None:
        """Constraints on B-spline coefficients that ``u`` needs, or None.

        A spline lies within the range of its B-spline coefficients, and never decreases
        if they never do. These conditions are sufficient, not necessary, so they are
        imposed only where the free curve really breaks the shape. (The end coefficients
        follow from the natural conditions and rise if their neighbors do.) Bounds hold
        where there are data, on [0, 1]; beyond, the curve is clipped.
        """
        basis = self.basis
        T = self.coordinates.T
        offset = self._offset
        curve = PiecewiseCubic(basis.knots, basis.pieces @ (offset + T @ u))
        rows = []
        least = []
        if shape.monotone and curve.smallest_slope < 0.0:
            gaps = np.diff(basis.greville[1:-1])
            rows.append(np.diff(T, axis=0) / gaps[:, None])
            least.append(MIN_SLOPE - np.diff(offset) / gaps)
        if shape.bounds is not None:
            low, high = curve.extremes()
            if low < shape.bounds[0] or high > shape.bounds[1] or rows:
                to_bspline = basis.elimination[basis.supported(0.0, 1.0)]
                rows += [to_bspline @ T, -to_bspline @ T]
                least += [
                    shape.bounds[0] - to_bspline @ offset,
                    to_bspline @ offset - shape.bounds[1],
                ]
        if not rows:
            return None
        return Constraints(np.vstack(rows), np.concatenate(least))

    def _feasible_line(self) -> Array:
        """Coordinates of an almost constant, rising line at the base rate."""
        rate = self.bins.base_rate
        bounds = self.shape.bounds
        rise = 100.0 * MIN_SLOPE
        if bounds is None:
            level = float(np.log(rate / (1.0 - rate)))
        else:
            level = float(np.clip(rate, *bounds))
            rise = min(rise, bounds[1] - level, level - bounds[0])
        u = np.zeros(self.basis.size)
        target = np.array([level - 0.5 * rise, rise]) @ self.basis.line - self._offset
        u[:2] = np.linalg.lstsq(self.coordinates.T[:, :2], target, rcond=None)[0]
        return u


def soft_targets(targets: tuple[float, float], eta: Array) -> tuple[Array, Array]:
    """Targets of negatives and of positives at log-odds ``eta`` that are trusted.

    By Platt's ``targets`` any label may have been the other one, with a chance of ``1 /
    (n + 2)`` for a class of ``n`` rows. That keeps few rows from being certain, but
    pulls scores that are confident, and rightly so, to the middle. So where a label is
    what the score makes nearly certain, the chance is smaller, in proportion to that of
    the other label below ``SURPRISE``, down to the share ``HEDGE``.
    """
    low, high = targets
    chance = expit(eta)
    likely = HEDGE + (1.0 - HEDGE) * np.minimum(chance / SURPRISE, 1.0)
    unlikely = HEDGE + (1.0 - HEDGE) * np.minimum((1.0 - chance) / SURPRISE, 1.0)
    return low * likely, 1.0 - (1.0 - high) * unlikely


def trusted_line(bins: Counts, targets: tuple[float, float]) -> Line:
    """The line of log-odds with Platt's ``targets``.

    It stands for the raw score where scores are margins, whatever their unit.
    """
    low, high = targets
    middle = 0.5 * bins.x[0] + 0.5 * bins.x[-1]
    unit = 0.5 * bins.x[-1] - 0.5 * bins.x[0]
    z = (bins.x - middle) / unit
    design = DenseDesign(np.column_stack([np.ones_like(z), z]))
    s = high * bins.positives + low * bins.negatives
    problem = Problem(design, np.zeros(len(z)), bins.w, s, log_loss)
    rate = bins.base_rate
    start = problem.at(np.array([np.log(rate / (1.0 - rate)), 0.0]))
    q = np.full(2, RIDGE_PRIOR)
    level, slope = minimize(problem, q, start, tolerance=FINAL_TOLERANCE).u
    return Line(float(level), float(slope), origin=float(middle), unit=float(unit))


def make_increasing(basis: NaturalSpline, c: Array) -> Array:
    """Strictly increasing coefficients close to ``c``, despite rounding."""
    gaps = np.diff(basis.greville[1:-1])
    slopes = np.maximum(np.diff(c) / gaps, MIN_SLOPE)
    return np.concatenate([c[:1], c[0] + np.cumsum(slopes * gaps)])


ROUNDED_SLOPE = 1e-12
"""Slope beyond the knots, as a share of the largest at a knot, that counts as none."""


def level_ends(coefficients: Array) -> None:
    """Set slopes beyond the knots to zero where they are rounding.

    A score may be any distance from the knots, so the sign of such a slope would decide
    what becomes of it.
    """
    slope = coefficients[2]
    least = ROUNDED_SLOPE * float(np.abs(slope).max())
    for end in (0, -1):
        if abs(slope[end]) <= least:
            slope[end] = 0.0


def straighten_ends(coefficients: Array) -> None:
    """Set slopes beyond the knots to zero where the whole curve goes the other way."""
    first, last = coefficients[3, [0, -1]]
    slope = coefficients[2]
    for end in (0, -1):
        if slope[end] * (last - first) < 0.0:
            slope[end] = 0.0


def default_count(total_weight: float) -> int:
    """Knots for this many rows: 24 up to 10,000, then slowly more, 64 at most.

    The penalty decides how much the curve bends; knots only have to leave it room.
    """
    return int(np.clip(round(24.0 * (max(total_weight, 1.0) / 1e4) ** 0.2), 24, 64))


EDGES = np.arange(CELLS + 1) / CELLS


def quantile_knots(x: Array, w: Array, count: int) -> Array:
    """Knots at quantiles of the square root of the density of ``x``, ends included.

    The square root moves knots from crowded places to sparse ones, where scores
    are extreme and the curve still has to be right. The density is that of
    256 equal cells, so knots hardly depend on how ``x`` was binned. With no more
    values than knots, the values are the knots.
    """
    values = x[run_starts(x)]
    count = min(count, MAX_KNOTS)
    if len(values) <= count:
        return drop_close_knots(values, values[-1] - values[0])
    low = values[0]
    high = values[-1]
    place = (x - low) / (high - low) * CELLS
    cell = np.minimum(place, CELLS - 1.0).astype(np.intp)
    share = np.zeros(CELLS + 1)
    np.sqrt(np.bincount(cell, weights=w, minlength=CELLS)).cumsum(out=share[1:])
    wanted = np.arange(count) / (count - 1) * share[-1]
    knots = low + np.interp(wanted, share, EDGES) * (high - low)
    knots[0] = low
    knots[-1] = high
    return drop_close_knots(knots, high - low)


def sampled_knots(x: Array, count: int, rng: np.random.Generator) -> Array:
    """The paper's step 1: a random sample of the distinct values."""
    values = np.unique(x)
    count = min(count, MAX_KNOTS)
    if len(values) > count:
        chosen = drop_close_knots(
            np.sort(rng.choice(values, size=count, replace=False)),
            values[-1] - values[0],
        )
        return chosen if len(chosen) > 1 else values[[0, -1]]
    return drop_close_knots(values, values[-1] - values[0])


CLOSEST = 1e-3
"""Least distance of two chosen knots, as a share of the range."""


def drop_close_knots(knots: Array, span: float) -> Array:
    """Drop knots too close to their neighbors; the last knot is kept."""
    least = CLOSEST * span
    places = knots.tolist()
    kept = places[-1:]
    for knot in places[-2::-1]:
        if kept[-1] - knot >= least:
            kept.append(knot)
    # The first stays too, at the cost of the one that crowds it.
    if len(kept) > 1:
        kept[-1] = places[0]
    return np.array(kept[::-1])


def _root(covariance: Array) -> Array:
    """A matrix ``R`` with ``R R'`` the covariance, or nearly so if it is singular."""
    try:
        return np.asarray(np.linalg.cholesky(covariance), dtype=np.float64)
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(covariance)
        return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)), dtype=np.float64)
