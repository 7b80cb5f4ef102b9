"""The average over smoothings and over prior spreads of the line.

One fit for each smoothing is enough where the loss is close to a quadratic. Let
``P = L L'`` be the Hessian at the fit ``u`` whose line has prior precision ``tau``, and
``G = V diag(g) V'`` the line's 2 x 2 block of the inverse of ``P``. For precision
``tau + d``, with ``J`` the first two columns of the inverse times ``V``,
``a = V' u_line`` and ``f = d / (1 + d g)``,

    fit         u - J (f a)
    covariance  P^{-1} - J diag(f) J'
    criterion   C + 1/2 sum(f a^2 + log(1 + d g)) - log((tau + d) / tau).

Where all rows of a tail are of one class, the loss is not close to a quadratic: it is
flat about the fit and steep further off, and what the quadratic takes for a good fit
may be certain of the wrong class. So where fits move far, their criterion is that of
the loss itself, and where a quadratic is far off in a fit that matters, there is
another fit for it, about which the quadratic goes on.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

import numpy as np
import scipy
from numpy.typing import NDArray

from calspline._arrays import Array
from calspline.fitting.basis import PiecewiseDesign
from calspline.fitting.coordinates import Coordinates
from calspline.fitting.newton import Problem, Solution, minimize

Places = NDArray[np.intp]

MIN_BEND, MAX_BEND = 0.3, 0.8
"""For the bands smoothings count whose curves bend with at least so many effective
parameters, and at most this share of all that there are."""
SUSPECT = 3.0
"""Bound on the error of a quadratic, in nats, from which it is compared with the loss.
The bound is for the worst case: below this, errors of more than 1.5 were not seen."""
WRONG = 1.0
"""Nats that a quadratic may be wrong by where it matters..."""
MATTERS = 5.0
"""...that is, up to so many nats above the best fit: a weight of 0.7%."""
FORGOTTEN = 7.0
"""Nats above the best fit from which a fit that may be far off is left out."""
NEARBY, FARTHEST = 1e-2, 100.0
"""Moves of log-odds that count as no smaller, and as no larger."""
REFIT_TOLERANCE = 1e-2


class Anchor(NamedTuple):
    """A fit about which a quadratic gives those at other spreads of the line.

    ``place`` is that of its smoothing in the grid, and ``spread`` is its own. It stands
    for the spreads from place ``first`` up to, but without, ``end``. ``score`` is its
    criterion.
    """

    place: int
    spread: float
    first: int
    end: int
    solution: Solution
    score: float


@dataclass(frozen=True)
class Average:
    """Mean and covariance of an average of fits, and its effective parameters.

    ``smoothing`` is that of a fit which bends with as many degrees of freedom.
    ``criterion`` has, for each smoothing that was tried, the negative log marginal
    likelihood over all spreads of the line. ``n_iter`` is the largest number of
    iterations of a fit.
    """

    u: Array
    covariance: Array
    edf: float
    smoothing: float
    criterion: Array
    converged: bool
    n_iter: int


def average(
    problem: Problem,
    coordinates: Coordinates,
    grid: Array,
    spreads: Array,
    solutions: Sequence[Solution],
    scores: Sequence[float],
) -> Average:
    """Average over the smoothings of ``grid`` and over ``spreads`` of the line.

    ``solutions`` are at the usual spread, 1, and ``scores`` are their criteria.
    """
    anchors = [
        Anchor(place, 1.0, 0, len(spreads), solution, score)
        for place, (solution, score) in enumerate(zip(solutions, scores, strict=True))
    ]
    extended = Extended(problem, coordinates, grid, spreads, anchors)
    while (wrong := extended.correct()).any():
        anchors = extended.refitted(wrong)
        extended = Extended(problem, coordinates, grid, spreads, anchors)
    return extended.mean()


class Extended:
    """The fits at all smoothings and spreads that quadratics about anchors give.

    Arrays have a row for each anchor and a column for each spread. The criterion is
    infinite where an anchor does not stand for a spread.
    """

    def __init__(
        self,
        problem: Problem,
        coordinates: Coordinates,
        grid: Array,
        spreads: Array,
        anchors: list[Anchor],
    ) -> None:
        self.problem = problem
        self.coordinates = coordinates
        self.grid = grid
        self.spreads = spreads
        self.anchors = anchors
        self.tau = float(coordinates.prior[0])
        first = np.array([anchor.first for anchor in anchors])
        end = np.array([anchor.end for anchor in anchors])
        score = np.array([anchor.score for anchor in anchors])
        u = np.array([anchor.solution.u for anchor in anchors])
        own = np.array([[anchor.spread] for anchor in anchors])
        self.inverse = _inverses([anchor.solution.factor for anchor in anchors])
        g, V = np.linalg.eigh(self.inverse[:, :2, :2])
        self.g = g[:, None]
        a = np.einsum("jml,jm->jl", V, u[:, :2])[:, None]
        d = self.tau * (spreads**-2.0 - own**-2.0)[:, :, None]
        self.J = self.inverse[:, :, :2] @ V
        self.f = d / (1.0 + d * self.g)
        self.moves = -self.f * a
        self.fits = u[:, None] + self.moves @ self.J.swapaxes(1, 2)
        self.lost = -0.5 * (self.moves * a).sum(axis=2)
        self.criterion = score[:, None] + self.lost
        self.criterion += 0.5 * np.log1p(d * self.g).sum(axis=2)
        self.criterion += 2.0 * np.log(spreads / own)
        place = np.arange(len(spreads))
        stands = (place >= first[:, None]) & (place < end[:, None])
        self.criterion[~stands] = np.inf

    def correct(self) -> NDArray[np.bool_]:
        """Take the criterion from the loss itself where a quadratic may be wrong.

        Returns which fits that matter it is wrong about. Where it may be wrong about a
        fit of next to no weight, the fit is left out.
        """
        above = self.criterion - self.criterion.min()
        far = (self._largest_error() > SUSPECT) & np.isfinite(above)
        wrong = np.zeros(far.shape, dtype=np.bool_)
        if not far.any():
            return wrong
        self.criterion[far & (above > FORGOTTEN)] = np.inf
        rows, columns = np.nonzero(far & (above <= FORGOTTEN))
        if not len(rows):
            return wrong
        fits = self.fits[rows, columns]
        precision = self._precisions(rows, columns)
        promised = np.array([self.anchors[row].solution.objective for row in rows])
        promised += self.lost[rows, columns]
        penalty = 0.5 * (precision * fits**2).sum(axis=1)
        excess = self.problem.values(fits) + penalty - promised
        self.criterion[rows, columns] += excess
        wrong[rows, columns] = (excess > WRONG) & (above[rows, columns] < MATTERS)
        return wrong

    def _largest_error(self) -> Array:
        """Nats that the quadratics are wrong by at most.

        The third derivative of the log loss is at most the second. So if no log-odds
        move by more than ``r``, and the quadratic rises by ``m``, it is wrong by at
        most ``2 m (exp(r) - 1 - r - r^2 / 2) / r^2``. What moves is looked at in the
        knots.
        """
        design = cast("PiecewiseDesign", self.problem.design)
        at_knots = design.local[3] @ self.J
        r = np.abs(at_knots @ self.moves.swapaxes(1, 2)).max(axis=1)
        r = np.clip(r, NEARBY, FARTHEST)
        rise = 0.5 * (self.g * self.moves**2).sum(axis=2)
        return np.asarray(2.0 * rise * (np.expm1(r) - r - 0.5 * r * r) / (r * r))

    def _precisions(self, rows: Places, columns: Places) -> Array:
        """Diagonals of the penalties of some fits."""
        place = np.array([self.anchors[row].place for row in rows])
        precision = self.grid[place][:, None] * self.coordinates.strength
        prior = self.coordinates.prior / self.spreads[columns][:, None] ** 2
        return np.asarray(precision + prior)

    def refitted(self, wrong: NDArray[np.bool_]) -> list[Anchor]:
        """All anchors, and one more for each fit that a quadratic is wrong about."""
        anchors = []
        for row, anchor in enumerate(self.anchors):
            columns = np.flatnonzero(wrong[row])
            ends = [*columns.tolist(), anchor.end]
            anchors.append(anchor._replace(end=ends[0]))
            solution = anchor.solution
            for column, end in itertools.pairwise(ends):
                q = self._precisions(np.array([row]), np.array([column]))[0]
                start = self.problem.at(solution.u)
                solution = minimize(self.problem, q, start, tolerance=REFIT_TOLERANCE)
                volume = solution.log_det - float(np.log(q[q > 0.0]).sum())
                score = solution.objective + 0.5 * volume
                spread = float(self.spreads[column])
                new = Anchor(anchor.place, spread, column, end, solution, score)
                anchors.append(new)
        return anchors

    def mean(self) -> Average:
        """The average of all fits by their criterion."""
        strength = self.coordinates.strength
        f = self.f
        J = self.J
        place = np.array([anchor.place for anchor in self.anchors])
        smoothing = self.grid[place]
        C = np.full((len(self.grid), len(self.spreads)), np.inf)
        np.minimum.at(C, place, self.criterion)
        least = C.min(axis=1)
        criterion = least - np.log(np.exp(least[:, None] - C).mean(axis=1))
        W = np.exp(C.min() - self.criterion)
        W /= W.sum()
        K = self.fits.shape[2]
        rank = K - 2
        mean = W.ravel() @ self.fits.reshape(-1, K)

        diagonal = np.einsum("jkk->jk", self.inverse)
        bend = rank - smoothing * (diagonal @ strength)
        # The effective parameters are what the shares of the prior in the precision
        # leave of all.
        own = diagonal[:, None, :2] - f @ (J[:, :2] ** 2).swapaxes(1, 2)
        line = (self.tau / self.spreads**2)[:, None] * own
        curved = (diagonal @ strength)[:, None] - f @ (J**2).swapaxes(1, 2) @ strength
        used = line.sum(axis=2) + smoothing[:, None] * curved
        edf = max(K - float((W * used).sum()), 0.0)  # rounding may go below

        of_smoothing = np.bincount(place, weights=W.sum(axis=1))
        usable = (bend >= MIN_BEND) & (bend <= MAX_BEND * rank)
        usable |= (of_smoothing == of_smoothing.max())[place]
        B = _band_weights(W, usable, self.spreads)
        moved = (self.fits - mean).reshape(-1, K)
        within = B.sum(axis=1) @ self.inverse.reshape(len(B), -1)
        columns = J.swapaxes(0, 1).reshape(K, -1)
        narrower = columns * np.einsum("js,jsm->jm", B, f).ravel() @ columns.T
        covariance = within.reshape(K, K) + (moved.T * B.ravel()) @ moved - narrower
        widest = np.array([anchor.spread == 1.0 for anchor in self.anchors])
        used_bend = float(W.sum(axis=1) @ bend)
        equivalent = _equivalent(used_bend, bend[widest], self.grid)
        solutions = [anchor.solution for anchor in self.anchors]
        converged = all(solution.converged for solution in solutions)
        n_iter = max(solution.n_iter for solution in solutions)
        return Average(mean, covariance, edf, equivalent, criterion, converged, n_iter)


def _band_weights(W: Array, usable: NDArray[np.bool_], spreads: Array) -> Array:
    """Weights of the fits in the covariance.

    A mean does well to lean to what changes least, a band has to allow for the rest. So
    lines and nearly straight curves, of which any number could be added to the grid,
    have no say unless they are the most likely (``usable``), spreads are weighed evenly
    themselves, not their logarithms, and evidence counts half: it takes the prior for
    true, of which it is sure that curves are as wiggly everywhere as on average.
    """
    B = np.sqrt(W) * spreads * usable[:, None]
    return np.asarray(B / B.sum())


def _inverses(factors: Sequence[Array]) -> Array:
    """The inverses of matrices with these lower Cholesky factors."""
    # There are zeros above the diagonal, as in the factors.
    lower = np.array(
        [scipy.linalg.lapack.dpotri(factor, lower=1)[0] for factor in factors]
    )
    both = lower + lower.swapaxes(1, 2)
    np.einsum("jkk->jk", both)[:] *= 0.5
    return np.asarray(both)


def _equivalent(used: float, bend: Array, grid: Array) -> float:
    """Smoothing within the sorted ``grid`` with given effective parameters."""
    falling = np.maximum.accumulate(bend[::-1])
    return float(np.exp(np.interp(used, falling, np.log(grid[::-1]))))
