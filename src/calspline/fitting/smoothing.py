"""How smooth: the penalty, and the choice of its strength by marginal likelihood.

A spline ``g = X T u`` is fitted in coordinates ``u`` where the penalty is ``1/2 sum_j
(prior_j + lambda * strength_j) u_j^2``. Solving there, and not for the B-spline
coefficients ``T u``, keeps the Hessian well conditioned for any lambda and any spacing
of the knots. (In B-spline coordinates the curvature penalty has entries of order
``lambda / gap^3``, and a Cholesky factor loses the information on the line once that
exceeds the data's by 1e16.)

Two nearly free parameters of the line cost a good model about ``1/n`` nats each; a
tight prior on them costs a bad model far more. So neither is chosen. With ``sigma`` the
prior's standard deviation of the line's two coordinates and ``lambda`` the smoothing,
fits are averaged with weights in proportion to ``exp(-C(sigma, lambda))``, ``C`` being
the Laplace approximation of the negative log marginal likelihood (Hoeting et al.,
*Bayesian model averaging: a tutorial*, Statistical Science 14, 1999). Values of
``sigma`` halve and values of ``lambda`` go by decades, so that neither has a scale that
is preferred beforehand.

:mod:`~calspline.fitting.averaging` does so from one fit for each smoothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy

from calspline._arrays import Array
from calspline.fitting.averaging import Average, average
from calspline.fitting.basis import NaturalSpline, PiecewiseDesign, natural_cubic_basis
from calspline.fitting.coordinates import Coordinates
from calspline.fitting.newton import Newton, Problem, Solution, brier_loss

RIDGE_PRIOR = 1e-8
"""Precision of the paper's free intercept: none to speak of, but it stays finite."""
USUAL_SPREAD = 4.0
"""Standard deviation of log-odds up to which a model is a usual one."""
WEAK_PRIOR = 0.2
"""Precision of the affine part, ``0.1 (a^2 + b^2)``: it keeps a perfectly separated
fit finite and is worth less than one observation."""
SPREADS = 0.5 ** np.arange(8.0)
"""What the prior's usual standard deviation is multiplied by."""
FIXED_SPREAD = np.ones(1)
UNDETERMINED = 1e-13
"""Share of the Hessian's diagonal that rounding may add or take away."""
SMOOTHING_LIMITS = 1e-10, 1e15
DEFAULT_GRID = 10.0 ** np.arange(-8.0, 6.25, 0.5)
DECADES = 10.0 ** np.arange(-8.0, 6.5)
"""Smoothings that fits are averaged over."""
SEARCH_TOLERANCE = 1e-2
STRIDES = 4, 2, 1
"""Steps along the grid when it is searched from coarse to fine."""
TIE = 0.01
"""Tolerance in nats: of values this close to the best, the smoothest is chosen."""
HOPELESS = 20.0
"""Nats above the best at which the search for less smoothing gives up."""
NEGLIGIBLE = 12.0
"""Nats below the best at which a fit is left out of an average: its weight is 6e-6."""


def curvature_coordinates(
    basis: NaturalSpline,
    design: PiecewiseDesign,
    x: Array,
    w: Array,
    slope: float = 0.0,
) -> Coordinates:
    """Coordinates for the integral of ``g''^2``.

    ``u = (a, b, v)``: ``a + b (x - mean) / sd`` is the affine part of ``g``, its
    weighted least-squares line over the data, with a weak prior; ``v`` holds the
    rest, scaled so that the integral of ``g''^2`` is ``|v|^2``.

    ``slope`` is that of the line ``g`` is a deviation from. Where that line runs
    through many more log-odds than models usually give, it takes a large ``a`` and
    ``b`` to set it right, and the prior weakens accordingly.
    """
    K = basis.size
    total = w.sum()
    mean = w @ x / total
    sd = float(np.sqrt(w @ (x - mean) ** 2 / total)) or 1.0
    ones, identity = basis.line
    affine = np.column_stack([ones, (identity - mean * ones) / sd])
    prior = np.zeros(K)
    spread = abs(slope) * sd
    prior[:2] = WEAK_PRIOR * (USUAL_SPREAD / max(spread, USUAL_SPREAD)) ** 2
    if K == 2:
        return Coordinates(affine, prior, np.zeros(2))

    curved = from_second_derivatives(basis)
    weighted_line = design.tdot(np.vstack([w, w * (x - mean) / sd]))
    curved -= affine @ (weighted_line @ curved / total)
    strength = np.ones(K)
    strength[:2] = 0.0
    return Coordinates(np.column_stack([affine, curved]), prior, strength)


def from_second_derivatives(basis: NaturalSpline) -> Array:
    """Splines whose coordinates ``v`` have ``|v|^2`` as the integral of ``g''^2``.

    With ``gamma = g''`` at the interior knots and ``M`` the mass matrix of hat
    functions, the integral is ``gamma' M gamma = |L' gamma|^2`` for ``M = L L'``.
    So ``v = L' gamma``; integrating ``gamma`` twice gives ``g`` at the knots, and
    interpolation its coefficients. The affine part is left as the integration gives it.
    """
    K = basis.size
    gaps = np.diff(basis.knots)[:, None]
    gamma = np.zeros((K, K - 2))
    gamma[1:-1] = scipy.linalg.lapack.dtrtri(
        scipy.linalg.lapack.dpotrf(basis.mass, lower=1)[0], lower=1
    )[0].T
    start = np.zeros((1, K - 2))
    slopes = np.vstack(
        [start, np.cumsum(gaps * (gamma[:-1] + gamma[1:]) / 2.0, axis=0)]
    )
    rises = gaps * slopes[:-1] + gaps**2 * (2.0 * gamma[:-1] + gamma[1:]) / 6.0
    return basis.interpolate(np.vstack([start, np.cumsum(rises, axis=0)]))


def ridge_coordinates(basis: NaturalSpline, origin: float, unit: float) -> Coordinates:
    """Coordinates for the paper's L2 penalty on the coefficients of ``N_2 .. N_K``.

    The intercept ``N_1`` is free, as in scikit-learn's ``LogisticRegression``. The
    basis is that of ``origin + unit * x``, so that ``x`` may have been scaled.
    """
    knots = origin + unit * basis.knots
    columns = natural_cubic_basis(knots, knots)
    scale = np.abs(columns).max(axis=0)
    strength = scale**-2.0
    strength[0] = 0.0
    prior = np.zeros(basis.size)
    prior[0] = RIDGE_PRIOR
    return Coordinates(basis.interpolate(columns / scale), prior, strength)


@dataclass(frozen=True)
class Chosen:
    """Chosen smoothing, the values tried, and the average if wanted."""

    smoothing: float
    u: Array
    grid: Array
    criterion: Array
    average: Average | None = None

    @property
    def evidence(self) -> float:
        """Log marginal likelihood of the best smoothing, if that is the criterion."""
        return -float(self.criterion.min())


def smoothing_grid(given: Array | None) -> Array:
    """The values to try: those that are given, within limits, or a default."""
    if given is None:
        return DEFAULT_GRID
    return np.unique(np.clip(given, *SMOOTHING_LIMITS))


def fit_fixed(problem: Problem, coordinates: Coordinates, smoothing: float) -> Chosen:
    """No choice at all; the criterion is REML's, for the record.

    Least squares without a prior (``penalty="ridge"``) leave a curve undetermined where
    rounding hides the smoothing, so it is raised until it does not.
    """
    smoothing = float(np.clip(smoothing, *SMOOTHING_LIMITS))
    if problem.loss is brier_loss:
        gram = problem.design.gram(problem.w)
        while not _determined(gram, coordinates.precision(smoothing)):
            smoothing *= 10.0
    path = SmoothingPath(problem, coordinates, np.array([smoothing]))
    return path.choose({0: path.evidence(0)})


def _determined(gram: Array, q: Array) -> bool:
    """Whether the minimum of a quadratic is genuine, and not due to rounding."""
    H = gram + np.diag(q)
    np.einsum("ii->i", H)[:] *= 1.0 - UNDETERMINED
    return int(scipy.linalg.lapack.dpotrf(H, lower=1)[1]) == 0


def search_reml(
    problem: Problem, coordinates: Coordinates, grid: Array, *, exhaustive: bool
) -> Chosen:
    """Smoothing that maximises the Laplace-approximate marginal likelihood.

    Unless ``exhaustive``, every fourth value of the grid is tried first, from smooth to
    rough until it is hopeless, and then those around the best: the criterion is
    smooth on the scale of a decade or two.
    """
    path = SmoothingPath(problem, coordinates, grid)
    if exhaustive:
        return path.choose({i: path.evidence(i) for i in path.downwards}, TIE)
    criterion: dict[int, float] = {}
    for i in path.downwards[:: STRIDES[0]]:
        criterion[i] = path.evidence(i)
        if criterion[i] > min(criterion.values()) + HOPELESS:
            break
    for stride in STRIDES[1:]:
        best = _smoothest(criterion, TIE)
        criterion |= {
            i: path.evidence(i)
            for i in (best - stride, best + stride)
            if 0 <= i < len(grid)
        }
    return _between(path, criterion)


def average_fits(
    problem: Problem,
    coordinates: Coordinates,
    grid: Array,
    spreads: Array,
    *,
    exhaustive: bool,
) -> Chosen:
    """Average over smoothings and prior spreads of the line, by marginal likelihood.

    The fits go from smooth to rough, unless ``exhaustive`` only until it is hopeless.
    Each begins at the last one, and many are so close that they need no new Hessian:
    one batch from a common start takes three times as many, and longer. The criterion
    of a smoothing is that of all spreads together, and the choice is the best of the
    fits.
    """
    origin = problem.at(np.zeros(len(coordinates.prior)))
    newton = Newton(problem, coordinates.prior, origin)
    fits: list[Solution] = []
    criteria: list[float] = []
    for smoothing in reversed(grid.tolist()):
        newton.q = coordinates.precision(smoothing)
        newton.aim()
        fit = newton.minimum(SEARCH_TOLERANCE)
        fits.insert(0, fit)
        criteria.insert(0, reml_score(problem, coordinates, smoothing, fit))
        if not exhaustive and criteria[0] > min(criteria) + NEGLIGIBLE:
            break
    tried = grid[len(grid) - len(fits) :]
    mean = average(problem, coordinates, tried, spreads, fits, criteria)
    best = int(np.argmin(mean.criterion))
    return Chosen(float(tried[best]), fits[best].u, tried, mean.criterion, mean)


def _between(path: SmoothingPath, criterion: dict[int, float]) -> Chosen:
    """Smoothing at the vertex of the parabola through the best values."""
    best = min(sorted(criterion), key=criterion.__getitem__)
    at_the_end = _smoothest(criterion, TIE) == len(path.grid) - 1
    if at_the_end or best - 1 not in criterion or best + 1 not in criterion:
        return path.choose(criterion, TIE)
    before = criterion[best - 1]
    after = criterion[best + 1]
    step = 0.5 * (before - after) / (before - 2.0 * criterion[best] + after)
    smoothing = float(path.grid[best] * (path.grid[best + 1] / path.grid[best]) ** step)
    solution = path.fit(smoothing)
    score = reml_score(path.problem, path.coordinates, smoothing, solution)
    tried = sorted(
        [(float(path.grid[i]), value) for i, value in criterion.items()]
        + [(smoothing, score)]
    )
    grid, scores = np.array(tried).T
    return Chosen(smoothing, solution.u, grid, scores)


def reml_score(
    problem: Problem, coordinates: Coordinates, smoothing: float, solution: Solution
) -> float:
    """Negative log marginal likelihood, by Laplace, up to a constant.

    ``F(u) + 1/2 log|Z'VZ + Q| - 1/2 log|Q|``, with the pseudo-determinant of ``Q``. For
    the Brier loss the error variance is profiled out: ``n/2 log(2 F / n)`` replaces
    ``F``.
    """
    fit = solution.objective
    if problem.loss is brier_loss:
        n = float(problem.w.sum())
        fit = 0.5 * n * np.log(max(2.0 * fit / n, np.finfo(float).tiny))
    return float(
        fit + 0.5 * solution.log_det - 0.5 * coordinates.log_precision(smoothing)
    )


def _smoothest(criterion: dict[int, float], tie: float) -> int:
    """The last place whose criterion is within ``tie`` of the least."""
    limit = min(criterion.values()) + tie
    return max(i for i, value in criterion.items() if value <= limit)


class SmoothingPath:
    """Fits along a grid of smoothing values.

    The loss is looked at as rarely as will do. About the last place where it was, a
    quadratic stands for it, for all smoothings whose fits are within
    ``SEARCH_TOLERANCE`` in every ``eta``; a fit farther off is the next such place.
    """

    def __init__(self, problem: Problem, coordinates: Coordinates, grid: Array) -> None:
        self.problem = problem
        self.coordinates = coordinates
        self.grid = grid
        self.fits: dict[int, Solution] = {}
        self._newton = Newton(
            problem, coordinates.prior, problem.at(np.zeros(len(coordinates.prior)))
        )

    @property
    def downwards(self) -> range:
        """The places of the grid, from smooth to rough."""
        return range(len(self.grid) - 1, -1, -1)

    def at(self, i: int) -> Solution:
        """The fit at a place of the grid."""
        if i not in self.fits:
            self.fits[i] = self.fit(float(self.grid[i]))
        return self.fits[i]

    def fit(self, smoothing: float) -> Solution:
        """The fit at a smoothing, started from the last one."""
        self._newton.q = self.coordinates.precision(smoothing)
        self._newton.aim()
        return self._newton.minimum(SEARCH_TOLERANCE)

    def evidence(self, i: int) -> float:
        """Negative log marginal likelihood at a place of the grid."""
        return reml_score(
            self.problem, self.coordinates, float(self.grid[i]), self.at(i)
        )

    def choose(self, criterion: dict[int, float], tie: float = 0.0) -> Chosen:
        """Best of the values tried; of those within ``tie`` of it, the smoothest."""
        best = _smoothest(criterion, tie)
        u = self.at(best).u
        seen = sorted(criterion)
        return Chosen(
            float(self.grid[best]),
            u,
            self.grid[seen],
            np.array([criterion[i] for i in seen]),
        )
