"""Interfaces between the parts of an evaluation.

Predictions compute their overfit, and evaluations their limits, by functions of modules
below them. These take any object with the attributes declared here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from calspline._arrays import Array, Counts

Ints = NDArray[np.intp]


class EvaluatedRows(Protocol):
    """Predictions of two classes; see :class:`calspline.evaluation.predictions`."""

    @property
    def probs(self) -> Array:
        """Probabilities of the event."""
        ...

    @property
    def codes(self) -> Ints:
        """Class of each row."""
        ...

    @property
    def groups(self) -> Ints | None:
        """Group of each row, if rows depend on each other."""
        ...

    @property
    def counts(self) -> Counts:
        """Distinct probabilities with the weight of either outcome."""
        ...

    @property
    def by_log_odds(self) -> Counts:
        """The same by log-odds."""
        ...

    @property
    def w(self) -> Array:
        """Weight of each row."""
        ...

    @property
    def n_groups(self) -> int | None:
        """Number of groups."""
        ...

    @property
    def unequal(self) -> bool:
        """Whether the weights are not counts of rows."""
        ...

    @property
    def squares(self) -> Array:
        """Squared weights."""
        ...

    @property
    def of_many(self) -> bool:
        """Whether this is one of many classes against the rest."""
        ...

    @property
    def total(self) -> float:
        """Sum of the weights."""
        ...

    @property
    def event(self) -> Any:
        """Two-class problem of the event."""
        ...

    @property
    def against_rest(self) -> Any:
        """Two-class problems of three or more classes."""
        ...

    def score_variance(self, p: Array, features: Array) -> Array:
        """Variance of summed residuals about ``p`` times features."""
        ...


class EvaluatedNumbers(Protocol):
    """Numbers of an evaluation for which limits are computed."""

    @property
    def rows(self) -> Any:
        """The predictions."""
        ...

    @property
    def per_class(self) -> Mapping[Any, Any]:
        """Evaluations of the classes."""
        ...

    @property
    def calibration_in_the_large(self) -> float:
        """Shift of the log-odds to the observed frequency."""
        ...

    @property
    def calibration_slope(self) -> float:
        """Slope of the log-odds."""
        ...

    @property
    def calibration_slope_se(self) -> float:
        """Standard error of the calibration slope."""
        ...

    @property
    def mean_probability(self) -> float:
        """Mean predicted probability."""
        ...

    @property
    def auc(self) -> float:
        """Area under the ROC curve."""
        ...

    @property
    def calibration_p_value(self) -> float:
        """P-value of perfect calibration."""
        ...

    @property
    def class_wise_p_value(self) -> float:
        """Combined p-value of all classes."""
        ...

    @property
    def top_label(self) -> Any:
        """Evaluation of the most probable class."""
        ...


class LossDifference(Protocol):
    """Differences of losses between two sets of predictions, row by row."""

    @property
    def rows(self) -> Any:
        """The predictions of the set."""
        ...

    @property
    def reference(self) -> Any:
        """The predictions of the reference."""
        ...

    @property
    def seen(self) -> Array:
        """The observed difference of each row."""
        ...

    def if_outcome(self, codes: Ints | int) -> Array:
        """Difference of each row if its class were the given one."""
        ...


PairedSets = Mapping[str, LossDifference]
