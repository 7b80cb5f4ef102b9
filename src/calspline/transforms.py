"""Score transforms: from a score to the place ``x`` where the spline is fitted.

============== =========================================== ==================================
name           x                                           for
============== =========================================== ==================================
logit          log-odds, clipped at probabilities 1e-9     most probabilities
asinh_logit    ``5 asinh(log-odds / 5)``                   over-confident models
compact_logit  the paper's ``G_epsilon``                   Algorithm 2 of the paper
identity       the score itself                            margins; Algorithm 1 of the paper
============== =========================================== ==================================

Probabilities travel as log-odds. From one column these are known down to
``p = 1e-300`` but only up to ``1 - p = 1e-16``, where ``p`` rounds to 1; from the
two columns of a ``predict_proba`` they are known equally well at both ends.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from calspline.arrays import Array

SMALLEST_PROBABILITY = 1e-300
SMALLEST_COMPLEMENT = 1e-16
LOGIT_CLIP = float(np.log((1.0 - 1e-9) / 1e-9))
ASINH_SCALE = 5.0

NAMES = ("logit", "asinh_logit", "compact_logit", "identity")


def log_odds(p: ArrayLike) -> Array:
    """Log-odds of probabilities in one column, finite for exact 0 and 1.

    ``log(p / (1 - p))`` with ``p`` kept above 1e-300 and ``1 - p`` above 1e-16.

    Examples
    --------
    >>> log_odds([0.0, 0.5, 1.0]).round(2)
    array([-690.78,    0.  ,   36.84])
    """
    p = np.asarray(p, dtype=np.float64)
    return np.asarray(np.log(np.maximum(p, SMALLEST_PROBABILITY) / np.maximum(1.0 - p, SMALLEST_COMPLEMENT)))


def log_odds_from_pair(p0: ArrayLike, p1: ArrayLike) -> Array:
    """Log-odds ``log p1 - log p0``, which keeps what ``1 - p0`` rounds away.

    Examples
    --------
    >>> float(log_odds_from_pair(1e-40, 1.0).round(2))
    92.1
    """
    p0 = np.maximum(np.asarray(p0, dtype=np.float64), SMALLEST_PROBABILITY)
    p1 = np.maximum(np.asarray(p1, dtype=np.float64), SMALLEST_PROBABILITY)
    return np.asarray(np.log(p1) - np.log(p0))


def choose_epsilon(p: ArrayLike) -> float:
    """The paper's heuristic for the epsilon of the compact logit.

    ``epsilon = 10**(r - 1)`` with ``r = floor(log10(min(1 - p_i)))`` over the scores
    that are not exactly 1. As printed, it looks at scores near 1 only: scores
    near 0 have no say, and those below epsilon stay on the linear part of the
    transform. Where the signal is in small scores, give ``epsilon`` as a number
    or use ``logit``. If every score is 1 the answer is 0.1.

    Examples
    --------
    >>> choose_epsilon([0.2, 0.97, 1.0])
    0.001
    """
    p = np.asarray(p, dtype=np.float64)
    complements = (1.0 - p)[p < 1.0]
    return _epsilon_of(float(complements.min()) if complements.size else 1.0)


def _epsilon_of(smallest_complement: float) -> float:
    r = int(np.floor(np.log10(smallest_complement)))
    return float(f"1e{r - 1}")


def epsilon_from_log_odds(highest: float) -> float:
    """:func:`choose_epsilon`, given the log-odds of the largest score below 1."""
    # expit(-u) and 1 - p agree to rounding; the relative nudge keeps an exact
    # power of ten from falling below itself.
    return _epsilon_of(float(expit(-highest)) * (1.0 + 1e-12)) if np.isfinite(highest) else 0.1


def compact_logit_slope(epsilon: float) -> float:
    """Slope of ``G_epsilon`` in the log-odds between epsilon and 1 - epsilon."""
    return float((1.0 - 2.0 * epsilon) / (2.0 * (np.log1p(-epsilon) - np.log(epsilon))))


@dataclass(frozen=True)
class Transform:
    """A named, increasing map from scores to ``x``, with its inverse.

    Parameters
    ----------
    name : {"logit", "asinh_logit", "compact_logit", "identity"}
    epsilon : float, optional
        Where the compact logit turns linear, in (0, 0.5). Needed by it alone.

    Examples
    --------
    >>> t = Transform("compact_logit", epsilon=0.1)
    >>> t([0.0, 0.1, 0.5, 0.7, 0.9, 1.0]).round(4)
    array([0.    , 0.1   , 0.5   , 0.6542, 0.9   , 1.    ])
    >>> t.inverse(t([0.7])).round(12)
    array([0.7])
    """

    name: str
    epsilon: float | None = None

    def __post_init__(self) -> None:
        if self.name not in NAMES:
            raise ValueError(f"transform must be one of {', '.join(NAMES)}; got {self.name!r}")
        if self.name == "compact_logit" and not (self.epsilon is not None and 0.0 < self.epsilon < 0.5):
            raise ValueError(f"epsilon must be a number in (0, 0.5); got {self.epsilon!r}")

    @property
    def takes_probabilities(self) -> bool:
        """Whether scores have to lie in [0, 1]."""
        return self.name != "identity"

    @property
    def _epsilon(self) -> float:
        assert self.epsilon is not None
        return self.epsilon

    def __call__(self, scores: ArrayLike) -> Array:
        """Map scores to ``x``."""
        scores = np.asarray(scores, dtype=np.float64)
        if self.name == "identity":
            return scores
        if self.name == "compact_logit":
            return self._compact(scores, log_odds(scores))
        return self.from_log_odds(log_odds(scores))

    def from_log_odds(self, u: Array) -> Array:
        """Map scores given as log-odds to ``x``."""
        if self.name == "logit":
            return np.asarray(np.clip(u, -LOGIT_CLIP, LOGIT_CLIP))
        if self.name == "asinh_logit":
            return np.asarray(ASINH_SCALE * np.arcsinh(u / ASINH_SCALE))
        p = np.asarray(expit(u))
        return self._compact(p, u) if self.name == "compact_logit" else p

    def _compact(self, p: Array, u: Array) -> Array:
        epsilon = self._epsilon
        middle = (p >= epsilon) & (p <= 1.0 - epsilon) & (p < 1.0)
        # A tiny epsilon is coarse in floating point next to 1: the limits keep the map monotone.
        between = np.clip(compact_logit_slope(epsilon) * u + 0.5, epsilon, 1.0 - epsilon)
        return np.where(middle, between, p)

    def inverse(self, x: ArrayLike) -> Array:
        """Map ``x`` back to scores."""
        x = np.asarray(x, dtype=np.float64)
        if self.name == "logit":
            return np.asarray(expit(x))
        if self.name == "asinh_logit":
            return np.asarray(expit(ASINH_SCALE * np.sinh(x / ASINH_SCALE)))
        if self.name == "compact_logit":
            x = np.asarray(np.clip(x, 0.0, 1.0))
            middle = (x >= self._epsilon) & (x <= 1.0 - self._epsilon) & (x < 1.0)
            return np.where(middle, expit((x - 0.5) / compact_logit_slope(self._epsilon)), x)
        return x

    def derivative(self, scores: ArrayLike) -> Array:
        """Derivative of ``x`` in the score; zero where the score is clipped."""
        scores = np.asarray(scores, dtype=np.float64)
        if self.name == "identity":
            return np.ones_like(scores)
        p = np.maximum(scores, SMALLEST_PROBABILITY)
        steepness = 1.0 / (p * np.maximum(1.0 - p, SMALLEST_COMPLEMENT))
        if self.name == "compact_logit":
            middle = (scores >= self._epsilon) & (scores <= 1.0 - self._epsilon)
            return np.where(middle, compact_logit_slope(self._epsilon) * steepness, 1.0)
        u = log_odds(scores)
        if self.name == "logit":
            return np.where(np.abs(u) < LOGIT_CLIP, steepness, 0.0)
        return np.asarray(steepness / np.sqrt(1.0 + (u / ASINH_SCALE) ** 2))
