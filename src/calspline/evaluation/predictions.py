"""The checked input of an evaluation: probabilities, labels, classes and weights.

Every sum that is judged here is one over independent *units*, and its variance is the
sum of the units' squared sums.

* Without weights a unit is a row. Whole weights count rows, so that a weight of 3 is
  three units.
* Other weights say how much a row stands for. It is one unit still, and with a residual
  of variance ``v`` its part in a sum has the variance ``w^2 v``. Only the ratios of
  such weights matter.
* Rows of a group may depend on each other: the unit is the group, and its squared sum
  is that of its rows' parts. Of the probabilities themselves only the variance of
  independent rows is known; the *design effect* says how many times larger that of the
  groups is (Kish, *Survey Sampling*, 1965).

References
----------
T. Hothorn, F. Bretz and P. Westfall, *Simultaneous inference in general parametric
models*, Biometrical Journal 50, 2008.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calspline._arrays import Array, Counts
from calspline._input.class_columns import check_matrix_labels
from calspline._input.groups import check_groups, several_groups
from calspline._input.labels import (
    check_binary_labels,
    check_label_array,
    distinct_labels,
    label_array,
)
from calspline._input.scores import check_scores, decide_kind
from calspline._input.segment_labels import By, check_by
from calspline._input.weights import (
    are_whole,
    check_weights,
    check_weights_as_counts,
    counted_columns,
)
from calspline.evaluation.calibration import Ints, spline_curve
from calspline.evaluation.losses import recalibrated
from calspline.evaluation.overfit import (
    Overfit,
    simulate_overfit,
    simulate_overfit_of_classes,
)
from calspline.maps.fit_info import FittedCurve
from calspline.transforms import Transform

MANY_CLASSES = 20
"""With more classes, simulations of each against the rest are replaced or shortened."""
MIN_TOTAL_WEIGHT, MAX_TOTAL_WEIGHT = 1e-9, 1e15
"""Sums of weights that make sense as numbers of rows, and whose squares do not overflow."""


@dataclass(frozen=True, eq=False)
class Predictions:
    """Checked probabilities and outcomes, without the rows of weight zero.

    For two classes ``probs`` has the probability of the second one for each row; for
    three or more, a column for each class. ``codes`` holds the positions in ``classes``
    of the labels. ``groups`` numbers, from 0, the groups of rows that depend on each
    other; None: rows do not. ``by`` has the segments that rows are in, if any were
    given.

    What is expensive is computed once, when it is first asked for: the sorted table of
    counts, the spline, and the two-class problems of several classes.
    """

    probs: Array
    codes: Ints
    weight: Array | None
    classes: NDArray[Any]
    groups: Ints | None = None
    by: By | None = None
    of_many: bool = False
    """Whether this is a class against the rest of many, so that less is simulated."""

    @property
    def binary(self) -> bool:
        """Whether there are two classes."""
        return self.probs.ndim == 1

    @cached_property
    def counts(self) -> Counts:
        """Two classes: the distinct probabilities, with the weight of events and non-events at each."""
        squares = self.squares if self.unequal or self.groups is not None else None
        return Counts.from_rows(self.probs, self.codes == 1, self.weight, squares)

    @cached_property
    def spline(self) -> FittedCurve | None:
        """Two classes: the calibration curve; None if only one class occurs."""
        return spline_curve(self.counts, self.design_effect)

    @cached_property
    def recalibrated(self) -> Array:
        """Two classes: isotonic regression of the outcomes on the probabilities."""
        return recalibrated(self.counts)

    @cached_property
    def overfit(self) -> Overfit:
        """What isotonic recalibration gains by fitting noise; summed over several classes."""
        if self.binary:
            return simulate_overfit(self)
        if len(self.classes) <= MANY_CLASSES:
            return simulate_overfit_of_classes(self)
        parts = [problem.overfit for problem in self.against_rest]
        of_events = np.sum([part.log_loss_of_events for part in parts], axis=0)
        brier = np.sum([part.brier for part in parts], axis=0)
        return Overfit(of_events, brier, of_events)

    def where(self, inside: NDArray[np.bool_]) -> Predictions:
        """Some of the rows, without their segments."""
        weight = None if self.weight is None else self.weight[inside]
        groups = None
        if self.groups is not None:
            groups = several_groups(
                np.unique(self.groups[inside], return_inverse=True)[1]
            )
        return Predictions(
            self.probs[inside], self.codes[inside], weight, self.classes, groups
        )

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
        return self.weight is not None and bool(
            np.any(self.weight != np.floor(self.weight))
        )

    def powers(self, power: float = 2.0) -> Array:
        """What a row's moment, its variance for 2, counts in that of a sum: ``w^power``, or ``w`` of ``w`` rows."""
        return self.w**power if self.unequal else self.w

    def squared_sums(self, values: Array) -> Array:
        """The variance of a weighted sum of values with mean zero: squares summed over units; a matrix for (n, k)."""
        if self.groups is None:
            return np.asarray((values.T * self.powers()) @ values)
        sums = np.array(
            [
                np.bincount(self.groups, column)
                for column in np.atleast_2d(values.T * self.w)
            ]
        ).T
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

        It is the mean over level and slope: with residuals ``r = y - p``, ``D = [1,
        z]`` of the log-odds standardised by ``v = s p (1 - p)``, and ``J`` the squared
        sums of ``r D`` by group, ``trace(J) / (2 sum(v))``, at least 1.
        """
        if self.groups is None:
            return 1.0
        p, x = self.probs, Transform("logit")(self.probs)
        v = self.powers() * p * (1.0 - p)
        if not v.any():
            return 1.0
        z = x - np.average(x, weights=v)
        spread = np.sqrt(np.average(z**2, weights=v))
        D = (
            np.column_stack([np.ones_like(z), z / spread])
            if spread > 0.0
            else np.ones((len(z), 1))
        )
        return max(
            1.0, float(np.trace(self.score_variance(p, D) / v.sum())) / D.shape[1]
        )

    @property
    def n_groups(self) -> int | None:
        """How many groups there are, if rows depend on each other."""
        return None if self.groups is None else int(self.groups.max()) + 1

    @cached_property
    def event(self) -> Predictions:
        """The two-class problem that is judged: of three or more classes, whether the most probable one was right."""
        if self.binary:
            return self
        guess = self.probs.argmax(axis=1)
        confidence = self.probs[np.arange(len(guess)), guess]
        right = (guess == self.codes).astype(np.intp)
        return Predictions(
            confidence,
            right,
            self.weight,
            np.array(["wrong", "right"]),
            self.groups,
        )

    @cached_property
    def against_rest(self) -> tuple[Predictions, ...]:
        """Three or more classes: each of them against the rest, as two-class problems."""
        problems = []
        for j, label in enumerate(self.classes.tolist()):
            classes = np.array([f"not {label}", label], dtype=object)
            codes = (self.codes == j).astype(np.intp)
            problems.append(
                Predictions(
                    self.probs[:, j],
                    codes,
                    self.weight,
                    classes,
                    self.groups,
                    of_many=len(self.classes) > MANY_CLASSES,
                )
            )
        return tuple(problems)


def check_predictions(
    y: Any,
    probs: Any,
    sample_weight: Any = None,
    labels: Any = None,
    name: str = "probs",
    *,
    pos_label: Any = None,
    groups: Any = None,
    by: Any = None,
) -> Predictions:
    """Check probabilities and labels.

    Without ``labels``, the classes are what the rows show, in sorted order; labels 0
    and 1, booleans and, for three or more columns, integers from 0 to m-1 need not all
    occur. ``pos_label`` is the class that one column of probabilities refers to.
    """
    given = check_scores(probs, name)
    if given.values.size == 0:
        raise ValueError(
            f"{name} must have at least one row and one column; got shape "
            f"{given.values.shape}"
        )
    decide_kind(given, "probability", "")
    n, n_classes = len(given), max(given.n_columns, 2)
    if pos_label is not None and n_classes > 2:
        raise ValueError(
            f"pos_label is for two classes; {name} has {n_classes} columns"
        )
    weight = check_weights(sample_weight, n, beside=name)
    if (
        weight is not None
        and not MIN_TOTAL_WEIGHT <= float(weight.sum()) <= MAX_TOTAL_WEIGHT
    ):
        raise ValueError(
            "sample_weight counts rows, so its sum must be between "
            f"{MIN_TOTAL_WEIGHT:g} and {MAX_TOTAL_WEIGHT:g}; "
            f"got {weight.sum():g}"
        )
    group = check_groups(groups, n, beside=name)
    segments = by
    if by is not None and not isinstance(by, By):  # the command line has checked it
        segments = check_by(by, n, beside=name)
    found = check_label_array(y, n, beside=name)
    if labels is not None:
        classes, codes = _given_classes(found, labels, n_classes)
    elif n_classes == 2:
        classes, positive = check_binary_labels(found, n, _known_pair(found, pos_label))
        codes = positive.astype(np.intp)
    else:
        classes, codes = check_matrix_labels(
            found, n, n_classes, given.names, beside=name, least=1
        )
    # Columns that are named after the classes may come in any order.
    array = given.in_class_order(classes, known=labels is not None).probabilities()
    if pos_label is not None and _position(pos_label, classes) == 0:
        # The first of two columns is its probability; a single column already is.
        classes, codes = classes[::-1], 1 - codes
        array = array.reshape(n, -1)[:, 0]
    values = (array.reshape(n, -1)[:, -1] if n_classes == 2 else array).astype(
        np.float64, copy=False
    )
    if weight is not None and are_whole(weight):
        # Others are taken for what they are worth.
        columns = counted_columns(given.values, segments, group)
        check_weights_as_counts(weight, labels=codes, scores=columns, remedy="")
    if weight is not None and weight.min() == 0.0:
        present = weight > 0.0
        values, codes, weight = values[present], codes[present], weight[present]
        group = (
            None if group is None else np.unique(group[present], return_inverse=True)[1]
        )
        segments = None if segments is None else segments.of(present)
    return Predictions(values, codes, weight, classes, several_groups(group), segments)


def _known_pair(found: NDArray[Any], pos_label: Any) -> NDArray[Any] | None:
    """Both classes, if they are known although one of them may not occur; else None.

    Labels 0 and 1 are a pair, and so are the only label that occurs and another
    ``pos_label``.
    """
    if found.dtype.kind in "biuf" and np.all((found == 0) | (found == 1)):
        return np.array([0, 1], dtype=found.dtype)
    values = distinct_labels(found, "y")
    if len(values) > 1:
        return None
    only = values.tolist()[0]
    if pos_label is None or pos_label == only:
        raise ValueError(
            f"y shows one class, {only!r}; give both as labels, the second being what "
            "probs is of"
        )
    return label_array([only, pos_label])


def _position(pos_label: Any, classes: NDArray[Any]) -> int:
    """The position of ``pos_label`` among the two classes."""
    values: list[Any] = classes.tolist()
    if pos_label not in values:
        raise ValueError(
            f"pos_label must be one of the labels {values!r}; got {pos_label!r}"
        )
    return values.index(pos_label)


def _given_classes(
    found: NDArray[Any], labels: Any, count: int
) -> tuple[NDArray[Any], Ints]:
    """The classes as given, in any order, and the place among them of what was found."""
    classes = check_label_array(
        labels,
        len(labels) if hasattr(labels, "__len__") else 0,
        "labels",
        beside="labels",
    )
    values = classes.tolist()
    if len(values) != count or len(set(values)) != count:
        raise ValueError(
            f"labels must be {count} different classes, one a column of probs; got "
            f"{labels!r}"
        )
    codes = np.full(len(found), -1, dtype=np.intp)
    for j, value in enumerate(values):
        codes[np.asarray(found == value)] = j
    if codes.min() < 0:
        row = int(np.argmax(codes < 0))
        raise ValueError(
            f"y must be one of the labels {values!r}; row {row} is {found[row]!r}"
        )
    return classes, codes


def check_prediction_sets(
    y: Any,
    sets: Any,
    sample_weight: Any = None,
    labels: Any = None,
    groups: Any = None,
    by: Any = None,
    *,
    pos_label: Any = None,
) -> dict[str, Predictions]:
    """Check several sets of predictions by name: each of them, and that all are of the same classes.

    A single array is one set, named "probabilities".
    """
    if not isinstance(sets, Mapping):
        rows = check_predictions(
            y,
            sets,
            sample_weight,
            labels,
            "predictions",
            pos_label=pos_label,
            groups=groups,
            by=by,
        )
        return {"probabilities": rows}
    if not sets:
        raise ValueError("predictions must hold at least one set")
    for name in sets:
        if not isinstance(name, str):
            raise TypeError(f"the names of predictions must be strings; got {name!r}")
    checked = {}
    for name, probs in sets.items():
        what = f'predictions["{name}"]'
        checked[name] = check_predictions(
            y,
            probs,
            sample_weight,
            labels,
            what,
            pos_label=pos_label,
            groups=groups,
            by=by,
        )
    first, n_classes = next((name, len(rows.classes)) for name, rows in checked.items())
    for name, rows in checked.items():
        if len(rows.classes) != n_classes:
            raise ValueError(
                f"predictions must all be of the same classes; {first} has {n_classes} "
                f"and {name} has "
                f"{len(rows.classes)}"
            )
    return checked


def cell_sums(values: NDArray[Any], cell: Ints, n: int) -> Array:
    """Sums over each of ``n`` cells of what rows have; ``cell`` may have several rows, for as many cells of each."""
    sums = np.bincount(
        cell.ravel(), np.broadcast_to(values, cell.shape).ravel(), minlength=n
    )
    return sums.astype(np.float64, copy=False)


def group_squares(
    values: Array, cell: Ints, groups: Ints, n: int
) -> tuple[Array, Array]:
    """The variance of the sum of values in each of ``n`` cells, as its groups show it, and how many groups it has."""
    _, first, place = np.unique(
        cell * (int(groups.max()) + 1) + groups, return_index=True, return_inverse=True
    )
    of_group = cell.ravel()[first]
    sums = np.bincount(place.ravel(), np.broadcast_to(values, cell.shape).ravel())
    squares = np.bincount(of_group, sums**2, minlength=n)
    count = np.bincount(of_group, minlength=n).astype(np.float64)
    return squares * count / np.maximum(count - 1.0, 1.0), count


def largest_normal(covariance: Array, level: float, draws: int, seed: Any) -> float:
    """The quantile of the largest absolute value of normal variables, in standard errors; those that do not vary aside.

    So far is the farthest of all off with the chance ``1 - level`` (max-T, Hothorn et
    al. 2008).
    """
    varies = np.diag(covariance) > 0.0
    covariance, error = (
        covariance[np.ix_(varies, varies)],
        np.sqrt(np.diag(covariance)[varies]),
    )
    values, vectors = np.linalg.eigh(covariance / np.outer(error, error))
    root = vectors * np.sqrt(np.maximum(values, 0.0)) @ vectors.T
    normal = np.random.default_rng(seed).standard_normal((draws, len(values))) @ root
    return float(np.quantile(np.abs(normal).max(axis=1, initial=0.0), level))
