"""Validated input of an evaluation: probabilities, labels, classes and weights.

Every sum that is judged here is one over independent *units*, and its variance is the
sum of the units' squared sums.

* Without weights a unit is a row. Whole weights count rows, so that a weight of 3 is
  three units.
* With other weights, a row is one unit, and its contribution to a sum has the variance
  ``w^2 v``, where ``v`` is the variance of its residual. Only the ratios of such
  weights matter.
* Rows of a group may depend on each other, so the unit is the group. If only the
  variance for independent rows is known, it is multiplied by the *design effect* (Kish,
  *Survey Sampling*, 1965).

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
from scipy.special import expit

from calspline._arrays import Array, Counts, run_starts
from calspline._input.class_columns import check_matrix_labels
from calspline._input.groups import check_groups, several_groups
from calspline._input.hints import (
    NAME_THE_CLASS,
    SWAP_THE_COLUMNS,
    warn_if_columns_shuffled,
    warn_if_decisions,
    warn_if_reversed,
)
from calspline._input.labels import (
    check_binary_labels,
    check_label_array,
    distinct_labels,
    label_array,
)
from calspline._input.scores import (
    check_binary_scores,
    check_scores,
    decide_kind,
    is_outside,
)
from calspline._input.segment_labels import By, check_by
from calspline._input.weights import (
    are_whole,
    check_weights,
    check_weights_as_counts,
    counted_columns,
    row_weight,
)
from calspline.evaluation.coin_flips import Ints
from calspline.evaluation.losses import recalibrated
from calspline.evaluation.overfit import (
    Overfit,
    simulate_overfit,
    simulate_overfit_of_classes,
)
from calspline.evaluation.recalibration import by_log_odds
from calspline.fits.grouped import Dependence, GroupedRows
from calspline.fits.options import Recipe
from calspline.fits.validated import fit_curve
from calspline.fitting.groups import correlation_in_groups
from calspline.histograms.score_histogram import ScoreHistogram
from calspline.maps.fit_info import FittedCurve

CALIBRATE_FIRST = (
    "Margins, such as a decision_function gives, must be calibrated first, by "
    "SplineCalibrator for example."
)
MANY_CLASSES = 20
"""With more classes, simulations of each class against the rest are shortened or
replaced."""
MIN_TOTAL_WEIGHT, MAX_TOTAL_WEIGHT = 1e-9, 1e15
"""Sums of weights within these limits are plausible, and their squares do not
overflow."""


@dataclass(frozen=True, eq=False)
class Predictions:
    """Validated probabilities and outcomes, without rows of weight zero.

    For two classes ``probs`` has the probability of the second one for each row; for
    three or more, a column for each class. ``codes`` holds the positions in ``classes``
    of the labels. ``groups`` numbers, from 0, the groups of rows that depend on each
    other; None: rows do not. ``by`` has the segments that rows are in, if any were
    given.

    The sorted table of counts, the spline and the two-class problems of several classes
    are computed on first access.
    """

    probs: Array
    codes: Ints
    weight: Array | None
    classes: NDArray[Any]
    groups: Ints | None = None
    by: By | None = None
    of_many: bool = False
    """Whether this is one of many classes against the rest, so that simulations are
    shortened."""

    @property
    def binary(self) -> bool:
        """Whether there are two classes."""
        return self.probs.ndim == 1

    @cached_property
    def counts(self) -> Counts:
        """Weights of events and non-events by distinct probability (two classes)."""
        squares = self.squares if self.unequal or self.groups is not None else None
        return Counts.from_rows(self.probs, self.codes == 1, self.weight, squares)

    @cached_property
    def spline(self) -> FittedCurve | None:
        """Calibration curve (two classes); None if only one class occurs."""
        if self._histogram is None:
            return None
        return fit_curve(self._histogram, Recipe(design_effect=self.design_effect))

    @cached_property
    def _histogram(self) -> ScoreHistogram | None:
        """What the spline is fitted to; None if only one class occurs."""
        events = self.codes == 1
        if events.all() or not events.any():
            return None
        weight = self.weight
        if self.unequal or self.groups is not None:
            # As many rows as would be worth as much if rows did not depend on each
            # other.
            share = self.design_effect * self.total / float(self.squares.sum())
            weight = share * self.w
        scores = check_binary_scores(self.probs, kind="probability")
        return ScoreHistogram.collect(scores, events, weight)

    @cached_property
    def condensed(self) -> Predictions:
        """Few rows with weights, for limits, in place of many independent ones.

        The rows of a cell of the spline's histogram have their mean log-odds, events
        and non-events apart.
        """
        if not self.binary or self.unequal or self.groups is not None:
            return self
        histogram = self._histogram
        if histogram is None or histogram.exact:
            return self
        counts = histogram.counts
        weight = np.concatenate([counts.negatives, counts.positives])
        probs = np.tile(expit(counts.x), 2)
        codes = np.repeat(np.arange(2, dtype=np.intp), len(counts))
        used = weight > 0.0
        return Predictions(probs[used], codes[used], weight[used], self.classes)

    @cached_property
    def by_log_odds(self) -> Counts:
        """The counts by log-odds instead of probability (two classes)."""
        return by_log_odds(self.counts)

    @cached_property
    def pools(self) -> Counts:
        """Isotonic regression of the outcomes: counts by recalibrated probability."""
        first = run_starts(self.recalibrated)
        return self.counts.merged(first, self.recalibrated[first])

    @cached_property
    def recalibrated(self) -> Array:
        """Isotonic regression of the outcomes on the probabilities (two classes)."""
        return recalibrated(self.counts)

    @cached_property
    def overfit(self) -> Overfit:
        """Gain of isotonic recalibration by fitting noise, summed over classes."""
        if self.binary:
            return simulate_overfit(self)
        if len(self.classes) <= MANY_CLASSES:
            return simulate_overfit_of_classes(self)
        parts = [problem.overfit for problem in self.against_rest]
        of_events = np.sum([part.log_loss_of_events for part in parts], axis=0)
        brier = np.sum([part.brier for part in parts], axis=0)
        return Overfit(of_events, brier, of_events)

    def where(self, inside: NDArray[np.bool_]) -> Predictions:
        """Select rows; segments are dropped."""
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
        """Weight of each row."""
        return np.ones(len(self.codes)) if self.weight is None else self.weight

    @property
    def total(self) -> float:
        """Sum of the weights."""
        return float(self.w.sum())

    @cached_property
    def unequal(self) -> bool:
        """Whether there are weights that are not counts of rows."""
        return self.weight is not None and bool(
            np.any(self.weight != np.floor(self.weight))
        )

    def powers(self, power: float = 2.0) -> Array:
        """Factor of a row's moment in a sum: ``w^power``, or ``w`` for counts."""
        return self.w**power if self.unequal else self.w

    def squared_sums(self, values: Array) -> Array:
        """Variance of a weighted sum of values with mean zero.

        Squares are summed over units; for values of shape (n, k), the result is a
        matrix.
        """
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
        """Variance (k, k) of summed residuals times features (n, k)."""
        return self.squared_sums((self.codes - p)[:, None] * features)

    @cached_property
    def squares(self) -> Array:
        """Factor of ``p (1 - p)`` in the variance of the weight of events."""
        return self.design_effect * self.powers()

    @cached_property
    def design_effect(self) -> float:
        """How many times too many the rows are, as those of a group are dependent.

        It is estimated as for a fit (:mod:`calspline.fitting.groups`), from residuals
        of a fitted line, so that miscalibration is not mistaken for dependence.
        """
        certain = (self.probs == 0.0) | (self.probs == 1.0)
        if self.groups is None or certain.all():
            return 1.0
        weight = self.weight
        if weight is not None:
            weight = weight / row_weight(weight)
        grouped = GroupedRows(weight, self.groups)
        events = self.codes == 1
        if events.all() or not events.any():
            return Dependence(1.0, None).design_effect(grouped.sizes)
        scores = check_binary_scores(self.probs, kind="probability")
        histogram = ScoreHistogram.collect(scores, events, weight)
        sums = grouped.residuals(histogram, scores, events).sums(self.groups)
        correlation = correlation_in_groups([sums])
        return Dependence(correlation, None).design_effect(grouped.sizes)

    @property
    def event_title(self) -> str:
        """Which of two classes is the event; empty if labels 0 and 1 say it."""
        classes = self.classes.tolist()
        if not self.binary or classes == [0, 1]:
            return ""
        return f"Event: {classes[1]!r}"

    @property
    def n_groups(self) -> int | None:
        """Number of groups; None for independent rows."""
        return None if self.groups is None else int(self.groups.max()) + 1

    @cached_property
    def event(self) -> Predictions:
        """Two-class problem to evaluate: for more classes, the top label."""
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
        """Two-class problem of each class against the rest."""
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
    """Validate probabilities and labels.

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
    n = len(given)
    n_classes = max(given.n_columns, 2)
    found = check_label_array(y, n, beside=name)
    advice = CALIBRATE_FIRST if is_outside(*given.limits) else ""
    decide_kind(given, "probability", advice)
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
    if labels is not None:
        classes, codes = _given_classes(found, labels, n_classes)
    elif n_classes == 2:
        classes, positive = check_binary_labels(found, _known_pair(found, pos_label))
        codes = positive.astype(np.intp)
    else:
        classes, codes = check_matrix_labels(
            found, n_classes, given.names, beside=name, least=1
        )
    # Columns that are named after the classes may come in any order.
    array = given.in_class_order(classes, known=labels is not None).probabilities()
    if pos_label is not None and _position(pos_label, classes) == 0:
        # The first of two columns is its probability; a single column already is.
        classes = classes[::-1]
        codes = 1 - codes
        array = array.reshape(n, -1)[:, 0]
    values = (array.reshape(n, -1)[:, -1] if n_classes == 2 else array).astype(
        np.float64, copy=False
    )
    if weight is not None and are_whole(weight):
        # Others do not count rows, so that there is nothing to check.
        columns = counted_columns(given.values, segments, group)
        check_weights_as_counts(weight, labels=codes, scores=columns, remedy="")
    if weight is not None and weight.min() == 0.0:
        present = weight > 0.0
        values = values[present]
        codes = codes[present]
        weight = weight[present]
        if group is None:
            group = None
        else:
            group = np.unique(group[present], return_inverse=True)[1]
        segments = None if segments is None else segments.of(present)
    rows = Predictions(values, codes, weight, classes, several_groups(group), segments)
    if rows.binary:
        warn_if_decisions(rows.counts, n, name)
        warn_if_reversed(
            rows.counts,
            rows.classes,
            rows.design_effect * row_weight(rows.weight),
            remedy=NAME_THE_CLASS if given.n_columns == 1 else SWAP_THE_COLUMNS,
            name=name,
            taken="evaluated",
        )
    else:
        warn_if_columns_shuffled(
            rows.probs,
            rows.codes,
            rows.weight,
            rows.classes,
            rows.event.design_effect,
            where=f"in {name}, ",
        )
    return rows


def _known_pair(found: NDArray[Any], pos_label: Any) -> NDArray[Any] | None:
    """Both classes if they are known although only one occurs; otherwise None.

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
            f"y shows one class, {only!r}; name both with labels, the class whose "
            "probability probs is last"
        )
    return label_array([only, pos_label])


def _position(pos_label: Any, classes: NDArray[Any]) -> int:
    """Position of ``pos_label`` among the two classes."""
    values: list[Any] = classes.tolist()
    if pos_label not in values:
        raise ValueError(
            f"pos_label must be one of the labels {values!r}; got {pos_label!r}"
        )
    return values.index(pos_label)


def _given_classes(
    found: NDArray[Any], labels: Any, count: int
) -> tuple[NDArray[Any], Ints]:
    """Classes in the given order, and the positions of the classes found."""
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
    """Validate several sets of predictions of the same rows, by name.

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
    """Sums of row values over ``n`` cells; ``cell`` may have several rows."""
    sums = np.bincount(
        cell.ravel(), np.broadcast_to(values, cell.shape).ravel(), minlength=n
    )
    return sums.astype(np.float64, copy=False)


def group_squares(
    values: Array, cell: Ints, groups: Ints, n: int
) -> tuple[Array, Array]:
    """Variance of the sum of values in each cell between groups, and their number."""
    _, first, place = np.unique(
        cell * (int(groups.max()) + 1) + groups, return_index=True, return_inverse=True
    )
    of_group = cell.ravel()[first]
    sums = np.bincount(place.ravel(), np.broadcast_to(values, cell.shape).ravel())
    squares = np.bincount(of_group, sums**2, minlength=n)
    count = np.bincount(of_group, minlength=n).astype(np.float64)
    return squares * count / np.maximum(count - 1.0, 1.0), count


def largest_normal(covariance: Array, level: float, draws: int, seed: Any) -> float:
    """Critical value of the largest of correlated normal variables, in standard errors.

    The largest deviation exceeds it with probability ``1 - level`` (max-T, Hothorn et
    al. 2008). Variables with variance zero are ignored.
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
