"""The checked input of an evaluation: probabilities, what happened, the classes, and how much evidence rows are.

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

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calspline.arrays import Array, Counts, run_starts
from calspline.evaluation.calibration import Ints, spline_curve
from calspline.labels import (
    check_binary_labels,
    check_groups,
    check_label_array,
    check_matrix_labels,
    distinct_labels,
    several_groups,
)
from calspline.scores import check_scores, check_weights
from calspline.segments.labels import By, check_by
from calspline.transforms import Transform

MIN_TOTAL_WEIGHT, MAX_TOTAL_WEIGHT = 1e-9, 1e15
"""Sums of weights that make sense as numbers of rows, and whose squares do not overflow."""

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


@dataclass(frozen=True)
class Predictions:
    """Checked probabilities and outcomes, without the rows of weight zero.

    For two classes ``probs`` has the probability of the second one for each row; for three or more, a column for each
    class. ``codes`` holds the positions in ``classes`` of what happened. ``groups`` numbers, from 0, the groups of rows
    that depend on each other; None: rows do not. ``by`` has the segments that rows are in, if any were given.
    """

    probs: Array
    codes: Ints
    weight: Array | None
    classes: NDArray[Any]
    groups: Ints | None = None
    by: By | None = None

    @property
    def binary(self) -> bool:
        """Whether there are two classes."""
        return self.probs.ndim == 1

    def counts(self) -> Counts:
        """Two classes: the distinct probabilities, with the weight of events and non-events at each."""
        squares = self.squares if self.unequal or self.groups is not None else None
        return Counts.from_rows(self.probs, self.codes == 1, self.weight, squares)

    @cached_property
    def w(self) -> Array:
        """The weight of each row."""
        return np.ones(len(self.codes)) if self.weight is None else self.weight

    @property
    def total(self) -> float:
        """Sum of the weights."""
        return float(self.w.sum())

    @cached_property
    def unequal(self) -> bool:
        """Whether there are weights that do not just count rows."""
        return self.weight is not None and bool(np.any(self.weight != np.floor(self.weight)))

    def powers(self, power: float = 2.0) -> Array:
        """What a row's moment, its variance for 2, counts in that of a sum: ``w^power``, or ``w`` of ``w`` rows."""
        return self.w**power if self.unequal else self.w

    def squared_sums(self, values: Array) -> Array:
        """The variance of a weighted sum of values with mean zero: squares summed over units; a matrix for (n, k)."""
        if self.groups is None:
            return np.asarray((values.T * self.powers()) @ values)
        sums = np.array([np.bincount(self.groups, column) for column in np.atleast_2d(values.T * self.w)]).T
        return np.asarray((sums.T @ sums).reshape(values.shape[1:] * 2))

    def score_variance(self, p: Array, features: Array) -> Array:
        """Two classes: that of the summed residuals about ``p`` times features (n, k): (k, k)."""
        return self.squared_sums((self.codes - p)[:, None] * features)

    @cached_property
    def squares(self) -> Array:
        """Two classes: what ``p (1 - p)`` of each row is multiplied by in the variance of the weight of events."""
        return self.design_effect * self.powers()

    @cached_property
    def design_effect(self) -> float:
        """Two classes: how many times the variance of independent rows that of the groups is.

        It is the mean over level and slope: with residuals ``r = y - p``, ``D = [1, z]`` of the log-odds standardised
        by ``v = s p (1 - p)``, and ``J`` the squared sums of ``r D`` by group, ``trace(J) / (2 sum(v))``, at least 1.
        """
        if self.groups is None:
            return 1.0
        p, x = self.probs, Transform("logit")(self.probs)
        v = self.powers() * p * (1.0 - p)
        if not v.any():
            return 1.0
        z = x - np.average(x, weights=v)
        spread = np.sqrt(np.average(z**2, weights=v))
        D = np.column_stack([np.ones_like(z), z / spread]) if spread > 0.0 else np.ones((len(z), 1))
        return max(1.0, float(np.trace(self.score_variance(p, D) / v.sum())) / D.shape[1])

    @property
    def n_groups(self) -> int | None:
        """How many groups there are, if rows depend on each other."""
        return None if self.groups is None else int(self.groups.max()) + 1

    @property
    def event(self) -> Predictions:
        """The two-class problem that is judged: of three or more classes, whether the most probable one was right."""
        if self.binary:
            return self
        guess = self.probs.argmax(axis=1)
        confidence = self.probs[np.arange(len(guess)), guess]
        right = (guess == self.codes).astype(np.intp)
        return Predictions(confidence, right, self.weight, np.array(["wrong", "right"]), self.groups, self.by)

    def against_rest(self, j: int) -> Predictions:
        """Three or more classes: one of them against the rest, as a two-class problem."""
        label = self.classes.tolist()[j]
        classes = np.array([f"not {label}", label], dtype=object)
        return Predictions(self.probs[:, j], (self.codes == j).astype(np.intp), self.weight, classes, self.groups)


def check_predictions(
    y: Any,
    probs: Any,
    sample_weight: Any = None,
    labels: Any = None,
    name: str = "probs",
    *,
    groups: Any = None,
    by: Any = None,
) -> Predictions:
    """Check probabilities and what happened.

    Without ``labels``, the classes are what the rows show, in sorted order; labels 0 and 1, booleans and, for
    three or more columns, integers from 0 to m-1 need not all occur. Predictions that are checked already stay so.
    """
    if isinstance(probs, Predictions):
        return probs
    given = check_scores(probs, name)
    if given.values.size == 0:
        raise ValueError(f"{name} must have at least one row and one column; got shape {given.values.shape}")
    given.taken_as("probability", name, "")
    n, n_classes = len(given), max(given.n_columns, 2)
    weight = check_weights(sample_weight, n, beside=name)
    if weight is not None and not MIN_TOTAL_WEIGHT <= float(weight.sum()) <= MAX_TOTAL_WEIGHT:
        raise ValueError(
            f"sample_weight counts rows, so its sum must be between {MIN_TOTAL_WEIGHT:g} and {MAX_TOTAL_WEIGHT:g}; "
            f"got {weight.sum():g}"
        )
    group = check_groups(groups, n, beside=name)
    segments = None if by is None else check_by(by, n, beside=name)
    found = check_label_array(y, n, beside=name)
    if labels is not None:
        classes, codes = _given_classes(found, labels, n_classes)
    elif n_classes == 2:
        classes, positive = check_binary_labels(found, n, _zero_and_one(found))
        codes = positive.astype(np.intp)
    else:
        classes, codes = check_matrix_labels(found, n, n_classes, given.names, beside=name, least=1)
    # Columns that are named after the classes may come in any order.
    array = given.in_class_order(classes, name, known=labels is not None).probabilities()
    values = (array.reshape(n, -1)[:, -1] if n_classes == 2 else array).astype(np.float64, copy=False)
    if weight is not None and weight.min() == 0.0:
        present = weight > 0.0
        values, codes, weight = values[present], codes[present], weight[present]
        group = None if group is None else np.unique(group[present], return_inverse=True)[1]
        segments = None if segments is None else segments.of(present)
    return Predictions(values, codes, weight, classes, several_groups(group), segments)


def _zero_and_one(found: NDArray[Any]) -> NDArray[Any] | None:
    """The classes 0 and 1, which need not both occur, if the labels are such."""
    if found.dtype.kind not in "biuf" or not np.all((found == 0) | (found == 1)):
        values = distinct_labels(found, "y")
        if len(values) == 1:
            raise ValueError(
                f"y shows one class, {values.tolist()[0]!r}; give both as labels, the second being what probs is of"
            )
        return None
    return np.array([0, 1], dtype=found.dtype)


def _given_classes(found: NDArray[Any], labels: Any, count: int) -> tuple[NDArray[Any], Ints]:
    """The classes as given, in any order, and the place among them of what was found."""
    classes = check_label_array(labels, len(labels) if hasattr(labels, "__len__") else 0, "labels", beside="labels")
    values = classes.tolist()
    if len(values) != count or len(set(values)) != count:
        raise ValueError(f"labels must be {count} different classes, one a column of probs; got {labels!r}")
    codes = np.full(len(found), -1, dtype=np.intp)
    for j, value in enumerate(values):
        codes[np.asarray(found == value)] = j
    if codes.min() < 0:
        row = int(np.argmax(codes < 0))
        raise ValueError(f"y must be one of the labels {values!r}; row {row} is {found[row]!r}")
    return classes, codes


def check_prediction_sets(
    y: Any, sets: Any, sample_weight: Any = None, labels: Any = None, groups: Any = None, by: Any = None
) -> dict[str, Predictions]:
    """Check several sets of predictions by name: each of them, and that all are of the same classes."""
    if not isinstance(sets, Mapping):
        raise TypeError(f'predictions must be a mapping such as {{"raw": probs, ...}}; got {type(sets).__name__}')
    if not sets:
        raise ValueError("predictions must hold at least one set")
    for name in sets:
        if not isinstance(name, str):
            raise TypeError(f"the names of predictions must be strings; got {name!r}")
    checked = {
        name: check_predictions(y, probs, sample_weight, labels, f'predictions["{name}"]', groups=groups, by=by)
        for name, probs in sets.items()
    }
    first, n_classes = next((name, len(rows.classes)) for name, rows in checked.items())
    for name, rows in checked.items():
        if len(rows.classes) != n_classes:
            raise ValueError(
                f"predictions must all be of the same classes; {first} has {n_classes} and {name} has "
                f"{len(rows.classes)}"
            )
    return checked


def cell_sums(values: NDArray[Any], cell: Ints, n: int) -> Array:
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


def grouping_hint(rows: Predictions) -> str:
    """A sentence if rows seem to belong together, unless their groups are known; else nothing."""
    if rows.groups is not None:
        return ""
    event = rows.event
    return HINT if belong_together(event.probs, event.codes == 1) else ""


def belong_together(p: Array, happened: NDArray[np.bool_]) -> bool:
    """Whether rows in the order of their file seem to depend on each other."""
    order = np.argsort(p)
    first = run_starts(p[order])
    count = np.diff(first, append=len(p))
    at = np.empty(len(p), dtype=np.intp)
    at[order] = np.repeat(np.arange(len(first)), count)
    some = (count > 1) & (count <= MOST_EQUAL)
    few = some[at]
    close = _close_neighbours(at, count, happened)
    if not few.any() and not close.any():  # as a rule; then nothing need be fitted
        return False
    f = Counts.from_rows(p, happened)
    fit = spline_curve(f)
    if fit is None:
        return False
    q = fit.curve(f.x)[at]
    r, v = happened - q, q * (1.0 - q)
    products, variances = r[1:] * r[:-1], v[1:] * v[:-1]
    sums, squares, spread, spreads = (np.bincount(at[few], one[few]) for one in (r, r * r, v, v * v))
    return _alike(products[close].sum(), variances[close].sum(), close.sum()) or _alike(
        0.5 * (sums**2 - squares).sum(), 0.5 * (spread**2 - spreads).sum(), (count[some] - 1).sum()
    )


def _close_neighbours(at: Ints, count: Ints, happened: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which neighbours, of scores with these places and counts, have nearly the same; none unless there are many."""
    none = np.zeros(len(at) - 1, dtype=bool)
    if np.count_nonzero(happened[1:] != happened[:-1]) <= FEW_CHANGES:
        return none
    rank = ((np.cumsum(count) - 0.5 * count) / len(at))[at]  # of equal ones, the mean
    close = np.abs(np.diff(rank)) <= CLOSE
    # By chance, two rows are close as often as all pairs are.
    some = np.random.default_rng(0).permutation(len(at))
    by_chance = float(np.mean(np.abs(np.diff(rank[some])) <= CLOSE))
    return none if np.mean(close) < min(FAR_MORE * by_chance, 0.5 * (1.0 + by_chance)) else close


def _alike(products: float, variance: float, pairs: int) -> bool:
    return bool(pairs >= FEWEST_PAIRS and variance > 0.0 and products > CLEAR * np.sqrt(variance))
