"""Signs that rows belong together although nobody said so. No number depends on them: they only make a sentence.

Rows that share an outcome stand next to each other in many files (snapshots of a game), or are repeated. Then rows that
have the same score, or neighbours in the file that have nearly the same, turn out alike more often than their
probabilities let expect. With residuals ``r = y - q`` about the spline curve of all rows, the sum of products
``r r'`` over such pairs has mean zero if rows are independent, and variance ``sum q (1 - q) q' (1 - q')``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from calspline.arrays import Array, Counts
from calspline.evaluation.calibration import spline_curve
from calspline.evaluation.predictions import Predictions

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


def grouping_hint(rows: Predictions) -> str:
    """A sentence if rows seem to belong together, unless their groups are known; else nothing."""
    if rows.groups is not None:
        return ""
    two = rows if rows.binary else rows.top_label()
    return HINT if belong_together(two.probs, two.codes == 1) else ""


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
