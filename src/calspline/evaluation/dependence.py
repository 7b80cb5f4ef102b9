"""How much evidence rows are: what is independent of what, and signs that rows belong together.

Every sum that is judged here is one over independent *units*, and its variance is the sum of the units' squared sums.

* Without weights a unit is a row. Whole weights count rows, so that a weight of 3 is three units.
* Other weights say how much a row stands for. It is one unit still, and with a residual of variance ``v`` its part in
  a sum has the variance ``w^2 v``. Only the ratios of such weights matter.
* Rows of a group may depend on each other: the unit is the group, and its squared sum is that of its rows' parts.
  Of the probabilities themselves only the variance of independent rows is known; the *design effect* says how many
  times larger that of the groups is (Kish, *Survey Sampling*, 1965).

**The hint.** Rows that share an outcome stand next to each other in many files (snapshots of a game), or are repeated.
Then rows that have the same score, or neighbours in the file that have nearly the same, turn out alike more often than
their probabilities let expect. With residuals ``r = y - q`` about the spline curve of all rows, the sum of products
``r r'`` over such pairs has mean zero if rows are independent, and variance ``sum q (1 - q) q' (1 - q')``. No number
depends on it: it only makes a sentence.

References
----------
T. Hothorn, F. Bretz and P. Westfall, *Simultaneous inference in general parametric models*, Biometrical Journal 50,
2008.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from calspline.arrays import Array, Counts
from calspline.evaluation.calibration import spline_curve
from calspline.transforms import Transform

if TYPE_CHECKING:
    from calspline.evaluation.predictions import Predictions

Ints = NDArray[np.intp]

HINT = (
    "Rows seem to belong together: equal rows, or neighbours in the file, turned out alike far more often than by "
    "chance. If they share a patient, a game or the like, say so with groups= (--group on the command line); until "
    "then this is too sure of itself."
)
CLOSE = 0.02
"""Ranks of neighbours that have nearly the same score differ by no more than this share of the rows."""
FAR_MORE = 3.0
"""Neighbours are that much more often close than by chance."""
CLEAR = 6.0
"""Standard errors."""
FEWEST_PAIRS = 20
MOST_EQUAL = 50
"""Rows of one score; of more, chance makes many alike."""
FEW_CHANGES = 5
"""A file that is sorted by its labels changes them so often at most."""


def row_powers(weight: Array | None, n: int, power: float = 2.0) -> Array:
    """What each row's moment, its variance for the power 2, is multiplied by in that of a sum.

    It is ``w^power``, or ``w`` for ``w`` rows of their own.
    """
    if weight is None:
        return np.ones(n)
    return weight if bool((weight == np.floor(weight)).all()) else weight**power


def squared_sums(values: Array, weight: Array | None, groups: Ints | None = None) -> Array:
    """The variance of a weighted sum of values with mean zero: squares summed over units; a matrix for (n, k)."""
    if groups is None:
        return np.asarray((values.T * row_powers(weight, len(values))) @ values)
    weighted = values.T if weight is None else values.T * weight
    sums = np.array([np.bincount(groups, column) for column in np.atleast_2d(weighted)]).T
    return np.asarray((sums.T @ sums).reshape(values.shape[1:] * 2))


def cell_sums(values: Array, cell: Ints, n: int) -> Array:
    """Sums over each of ``n`` cells of what rows have; ``cell`` may have several rows, for as many cells of each."""
    sums = np.bincount(cell.ravel(), np.broadcast_to(values, cell.shape).ravel(), minlength=n)
    return sums.astype(np.float64, copy=False)


def group_squares(values: Array, cell: Ints, groups: Ints, n: int) -> tuple[Array, Array]:
    """The variance of the sum of values in each of ``n`` cells, as its groups show it, and how many groups it has."""
    _, first, place = np.unique(cell * (int(groups.max()) + 1) + groups, return_index=True, return_inverse=True)
    of_group = cell.ravel()[first]
    sums = np.bincount(place.ravel(), np.broadcast_to(values, cell.shape).ravel())
    squares = np.bincount(of_group, sums**2, minlength=n)
    count = np.bincount(of_group, minlength=n).astype(np.float64)
    return squares * count / np.maximum(count - 1.0, 1.0), count


def largest_normal(covariance: Array, level: float, draws: int, seed: Any) -> float:
    """The quantile of the largest absolute value of normal variables, in standard errors; those that do not vary aside.

    So far is the farthest of all off with the chance ``1 - level`` (max-T, Hothorn et al. 2008).
    """
    varies = np.diag(covariance) > 0.0
    covariance, error = covariance[np.ix_(varies, varies)], np.sqrt(np.diag(covariance)[varies])
    values, vectors = np.linalg.eigh(covariance / np.outer(error, error))
    root = vectors * np.sqrt(np.maximum(values, 0.0)) @ vectors.T
    normal = np.random.default_rng(seed).standard_normal((draws, len(values))) @ root
    return float(np.quantile(np.abs(normal).max(axis=1, initial=0.0), level))


def design_effect(p: Array, happened: NDArray[np.bool_], weight: Array | None, groups: Ints) -> float:
    """How many times the variance of independent rows that of the groups is, on average over level and slope.

    With residuals ``r = y - p``, ``D = [1, z]`` of the log-odds standardised by ``v = s p (1 - p)``, and ``J`` the
    squared sums of ``r D`` by group, it is ``trace(J) / (2 sum(v))``, and at least 1.
    """
    s = row_powers(weight, len(p))
    x = Transform("logit")(p)
    v = s * p * (1.0 - p)
    if not v.any():
        return 1.0
    z = x - np.average(x, weights=v)
    spread = np.sqrt(np.average(z**2, weights=v))
    D = np.column_stack([np.ones_like(z), z / spread]) if spread > 0.0 else np.ones((len(z), 1))
    J = squared_sums((happened - p)[:, None] * D, weight, groups)
    return max(1.0, float(np.trace(J / v.sum())) / D.shape[1])


def grouping_hint(rows: Predictions) -> str:
    """A sentence if rows seem to belong together, unless their groups are known; else nothing."""
    if rows.groups is not None:
        return ""
    event = rows.event
    return HINT if belong_together(event.probs, event.codes == 1) else ""


def belong_together(p: Array, happened: NDArray[np.bool_]) -> bool:
    """Whether rows in the order of their file seem to depend on each other."""
    if len(p) < FEWEST_PAIRS:
        return False
    f = Counts.from_rows(p, happened)
    fit = spline_curve(f)
    if fit is None:
        return False
    at = np.searchsorted(f.x, p)
    q = fit.curve(f.x)[at]
    r, v = happened - q, q * (1.0 - q)
    return _neighbours(p, happened, r, v) or _repeated(at, r, v)


def _neighbours(p: Array, happened: NDArray[np.bool_], r: Array, v: Array) -> bool:
    """Neighbours with nearly the same score are many, and turn out alike."""
    if np.count_nonzero(happened[1:] != happened[:-1]) <= FEW_CHANGES:
        return False
    _, place, count = np.unique(p, return_inverse=True, return_counts=True)
    rank = (np.cumsum(count) - 0.5 * count)[place] / len(p)  # of equal ones, the mean
    close = np.abs(np.diff(rank)) <= CLOSE
    # By chance, two rows are close as often as all pairs are.
    some = np.random.default_rng(0).permutation(len(p))
    by_chance = float(np.mean(np.abs(np.diff(rank[some])) <= CLOSE))
    if np.mean(close) < min(FAR_MORE * by_chance, 0.5 * (1.0 + by_chance)):
        return False
    return _alike(float((r[1:] * r[:-1])[close].sum()), float((v[1:] * v[:-1])[close].sum()), int(close.sum()))


def _repeated(at: NDArray[np.intp], r: Array, v: Array) -> bool:
    """Rows with exactly the same score turn out alike."""
    count = np.bincount(at)
    few = ((count > 1) & (count <= MOST_EQUAL))[at]
    if not few.any():
        return False
    sums, squares, spread, spreads = (np.bincount(at[few], weights=one[few]) for one in (r, r * r, v, v * v))
    products, variance = 0.5 * float((sums**2 - squares).sum()), 0.5 * float((spread**2 - spreads).sum())
    return _alike(products, variance, int((count[count <= MOST_EQUAL] - 1).clip(min=0).sum()))


def _alike(products: float, variance: float, pairs: int) -> bool:
    return pairs >= FEWEST_PAIRS and variance > 0.0 and products > CLEAR * np.sqrt(variance)
