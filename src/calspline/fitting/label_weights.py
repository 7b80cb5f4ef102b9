"""Weights of labels for which a given curve is the best one of its rows.

The curve of all rows is held back by its prior, so in the directions of effects the
gradient of their loss is not zero there. Effects of segments should not undo that. A
linear term that cancels the gradient would do, but the loss grows only linearly: with
such a term it may be unbounded below. Weights cancel the gradient as well, and what
they weight is still a sum of losses: convex, and bounded below.

Let ``p`` be the probabilities of the given curve, and ``q`` those of the same curve
with the best effect common to all rows. Rows that are calibrated by ``q`` appear to be
calibrated by ``p`` if a row of class ``c`` has the weight ``k p_c / q_c``, because

    sum_c q_c (k p_c / q_c) (e_c - p) = k sum_c p_c (e_c - p) = 0

is the gradient to be expected of a row. An effect of a segment, which multiplies odds,
is the same before and after. The factor ``k`` makes the variance of the gradient that
which the loss takes it to be (of several classes: the sum of its diagonal). Of two
classes, positives have the weight ``(1 - q) / (1 - p)`` and negatives ``q / p``, and
the information of a row is ``q (1 - q)``.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from calspline._arrays import Array
from calspline.fitting.newton import (
    DenseDesign,
    Local,
    Objective,
    Point,
    Problem,
    log_loss,
    minimize,
)

RIDGE = 1e-3
"""Precision of the common effect: far less than one row's, it keeps separable fits
finite."""
FARTHEST = 50.0
"""Largest logarithm of a weight, so that no weight overflows."""
TOLERANCE = 1e-4
"""Tolerance of the common effect in log-odds; the last step leaves about its square."""


def best_log_odds(directions: Array, eta: Array, w: Array, s: Array) -> Array:
    """Log-odds ``eta`` at some locations, with the best common effect added.

    ``directions`` has a row for each place, ``w`` is the weight of its rows and ``s``
    that of the positives.
    """
    problem = Problem(DenseDesign(directions), eta, w, s, log_loss)
    m = directions.shape[1]
    start = problem.at(np.zeros(m))
    return minimize(problem, np.full(m, RIDGE), start, tolerance=TOLERANCE).eta


def two_class_weights(eta: Array, best: Array) -> tuple[Array, Array]:
    """Weights of positives and negatives, given both log-odds."""
    positives = np.logaddexp(0.0, eta) - np.logaddexp(0.0, best)
    negatives = np.logaddexp(0.0, -eta) - np.logaddexp(0.0, -best)
    return np.exp(np.minimum(positives, FARTHEST)), np.exp(
        np.minimum(negatives, FARTHEST)
    )


def class_weights(logs: Array, best: Array, classes: NDArray[np.intp]) -> Array:
    """The weight of each row, given its class and both log-probabilities of classes."""
    p = np.exp(logs)
    ratio = np.exp(np.minimum(logs - best, FARTHEST))
    length = (p * p).sum(axis=1, keepdims=True)
    variance = (p * ratio * (1.0 - 2.0 * p + length)).sum(axis=1)
    certain = ~(variance > 0.0)
    factor = (1.0 - length[:, 0]) / np.where(certain, 1.0, variance)
    factor[certain] = 1.0
    return np.asarray(factor * ratio[np.arange(len(p)), classes])


def best_common_effect(loss: Callable[[Array], Local], m: int) -> Array:
    """The effect in ``m`` directions that is best for all rows, given their loss."""
    objective = _CommonEffect(loss)
    start = objective.at(np.zeros(m))
    return minimize(objective, np.full(m, RIDGE), start, tolerance=TOLERANCE).u


class _CommonEffect(Objective):
    """A loss of coordinates that are their own linear predictor."""

    def __init__(self, loss: Callable[[Array], Local]) -> None:
        self.loss = loss

    def at(self, u: Array) -> Point:
        return Point(u, u, self.loss(u))
