"""Log-odds with their standard deviations: what a map knows about its own errors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy

from calspline._arrays import Array

LEAST_PROBABILITY = 1e-15
MOST_STANDARD_DEVIATIONS = 40.0
"""Upper end of the search for the critical value of a simultaneous band."""


@dataclass(frozen=True, eq=False)
class LogOdds:
    """Log-odds and their standard deviations.

    Both have shape (n,) for the second of two classes, or (n, m) for each of several.
    ``tube`` is the length of the normalized basis on the sphere, for simultaneous
    bands.
    """

    mean: Array
    sd: Array
    tube: float = 0.0

    def limits(self, level: float, *, simultaneous: bool = False) -> Array:
        """Lower and upper limits of the probabilities, along a new last axis."""
        reach = critical_value(level, self.tube if simultaneous else 0.0) * self.sd
        ends = np.stack([self.mean - reach, self.mean + reach], axis=-1)
        p = scipy.special.expit(ends)
        return np.asarray(np.clip(p, LEAST_PROBABILITY, 1.0 - LEAST_PROBABILITY))


def critical_value(level: float, tube: float = 0.0) -> float:
    """How many standard deviations a band reaches.

    A positive ``tube`` makes the band simultaneous, by the tube formula of Sun and
    Loader (1994).
    """
    pointwise = float(scipy.special.ndtri(0.5 + 0.5 * level))
    if tube <= 0.0:
        return pointwise

    def excess(c: float) -> float:
        outside = tube / np.pi * np.exp(-0.5 * c * c) + 2.0 * scipy.special.ndtr(-c)
        return float(outside - (1.0 - level))

    if excess(pointwise) <= 0.0:  # a tube that is nothing but rounding
        return pointwise
    return float(
        scipy.optimize.brentq(excess, pointwise, pointwise + MOST_STANDARD_DEVIATIONS)
    )


def log_odds_of_rows(p: Array) -> Array:
    """Log-odds of every class, given rows of probabilities that sum to one.

    Where a class has almost all of the probability, ``1 - p`` has no digits left; the
    sum of the others has them all.
    """
    log_odds = scipy.special.logit(np.minimum(p, 0.5))
    row, column = np.nonzero(p > 0.5)
    others = p[row]
    others[np.arange(len(row)), column] = 0.0
    log_odds[row, column] = np.log(p[row, column]) - np.log(others.sum(axis=1))
    return np.asarray(log_odds)
