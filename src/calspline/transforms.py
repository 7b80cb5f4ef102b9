"""Score transforms: from a score to the location ``x`` where the spline is fitted.

============== ==================================== =================================
name           x                                    for
============== ==================================== =================================
logit          log-odds, clipped at 1e-9            most probabilities
asinh_logit    ``5 asinh(log-odds / 5)``            over-confident models
compact_logit  ``G_epsilon`` of the paper           Algorithm 2 of the paper
identity       the score itself                     margins; Algorithm 1 of the paper
============== ==================================== =================================

Probabilities are represented by log-odds. From one column, these are exact down to ``p
= 1e-300`` but only up to ``1 - p = 1e-16``, where ``p`` rounds to 1; from the two
columns of ``predict_proba``, they are exact at both ends.

Each is declared once, in :data:`TRANSFORMS`; fits, files and exports read it from
there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calspline._arrays import Array
from calspline._expression import Expression, between, call, evaluate, name

Source = Literal["one", "pair", "row"]
"""Whether a probability is given alone or with its complement."""

SMALLEST_PROBABILITY = 1e-300
SMALLEST_COMPLEMENT = 1e-16
ZERO = float(np.log(SMALLEST_PROBABILITY))
ONE = float(np.log(1.0 / SMALLEST_COMPLEMENT))
"""Log-odds of exact 0 and 1 in one column; in two columns, exact 1 is ``-ZERO``."""
LOGIT_EPSILON = 1e-9
"""Probability at which the logit is clipped, unless it has an epsilon of its own."""
ASINH_SCALE = 5.0


def logit_clip(epsilon: float = LOGIT_EPSILON) -> float:
    """Log-odds of ``1 - epsilon``, beyond which a logit is clipped."""
    return float(np.log1p(-epsilon) - np.log(epsilon))


LOGIT_CLIP = logit_clip()


def log_odds(p: ArrayLike) -> Array:
    """Log-odds of probabilities in one column, finite for exact 0 and 1.

    ``log(p / (1 - p))`` with ``p`` kept above 1e-300 and ``1 - p`` above 1e-16.

    Examples
    --------
    >>> log_odds([0.0, 0.5, 1.0]).round(2)
    array([-690.78,    0.  ,   36.84])
    """
    p = np.asarray(p, dtype=np.float64)
    # One array to work in: fresh memory takes its time.
    odds = np.subtract(1.0, p, out=np.empty(p.shape))
    np.maximum(odds, SMALLEST_COMPLEMENT, out=odds)
    np.divide(np.maximum(p, SMALLEST_PROBABILITY), odds, out=odds)
    return np.asarray(np.log(odds, out=odds))


def log_odds_from_pair(p0: ArrayLike, p1: ArrayLike) -> Array:
    """Log-odds ``log p1 - log p0``, without the rounding of ``1 - p0``.

    Examples
    --------
    >>> float(log_odds_from_pair(1e-40, 1.0).round(2))
    92.1
    """
    p0 = np.maximum(np.asarray(p0, dtype=np.float64), SMALLEST_PROBABILITY)
    p1 = np.maximum(np.asarray(p1, dtype=np.float64), SMALLEST_PROBABILITY)
    return np.asarray(np.log(p1) - np.log(p0))


def expit(u: ArrayLike) -> Array:
    """Probabilities of log-odds, without importing ``scipy.special``."""
    with np.errstate(over="ignore"):
        return np.asarray(1.0 / (1.0 + np.exp(-np.asarray(u, dtype=np.float64))))


def exactly_one(location: Array) -> NDArray[np.bool_]:
    """Whether log-odds are those of a probability of exactly 1."""
    return np.asarray((location == ONE) | (location >= -ZERO))


def highest_location(location: Array, *, probabilities: bool) -> float:
    """Largest location; for log-odds, the largest that is not an exact 1."""
    top = float(np.max(location, initial=-np.inf))
    if probabilities and top >= ONE:
        return float(np.max(location, initial=-np.inf, where=~exactly_one(location)))
    return top


def log_odds_formula(source: Source) -> Expression:
    """Log-odds as a formula of ``p`` and, for a pair, of ``rest``."""
    p = name("p")
    if source == "one":
        rest = call("max", 1.0 - p, SMALLEST_COMPLEMENT)
    else:
        rest = call("max", name("rest"), SMALLEST_PROBABILITY)
    return call("log", call("max", p, SMALLEST_PROBABILITY)) - call("log", rest)


def choose_epsilon(p: ArrayLike) -> float:
    """Epsilon of the compact logit by the heuristic of the paper.

    ``epsilon = 10**(r - 1)`` with ``r = floor(log10(min(1 - p_i)))`` over the scores
    that are not exactly 1. As printed, it considers scores near 1 only; small scores
    below epsilon stay on the linear part of the transform. If these are informative,
    pass ``epsilon`` as a number or use ``logit``. If every score is 1, epsilon is 0.1.

    Examples
    --------
    >>> choose_epsilon([0.2, 0.97, 1.0])
    0.001
    """
    return epsilon_from_log_odds(highest_location(log_odds(p), probabilities=True))


def epsilon_from_log_odds(highest: float) -> float:
    """:func:`choose_epsilon`, given the log-odds of the largest score below 1."""
    if not np.isfinite(highest):
        return 0.1
    # The nudge keeps an exact power of ten, which 1 - p has to rounding only, from
    # falling below itself.
    r = int(np.floor(np.log10(float(expit(-highest)) * (1.0 + 1e-12))))
    return float(f"1e{r - 1}")


def compact_logit_slope(epsilon: float) -> float:
    """Slope of ``G_epsilon`` in the log-odds between epsilon and 1 - epsilon."""
    return (1.0 - 2.0 * epsilon) / (2.0 * logit_clip(epsilon))


@dataclass(frozen=True)
class Definition:
    """Definition of a transform.

    Its functions take the epsilon of a transform, whether they use it or not.

    Parameters
    ----------
    name : str
    formula : callable
        ``formula(p, u, epsilon)``, ``x`` as an expression of the score and of its
        log-odds.
    inverse : callable
        ``inverse(x, epsilon)``, the scores.
    slope : callable
        ``slope(p, u, epsilon)``, the derivative of ``x`` in the score.
    unchanged : callable, optional
        ``unchanged(epsilon)``, intercept and slope of the line in ``x`` that has the
        log-odds of the score, or comes close to them. None: the score has none.
    takes_probabilities, takes_epsilon : bool
        A transform that takes an epsilon needs one; another may have one.
    from_log_odds : callable, optional
        ``from_log_odds(u, epsilon)``, what the formula gives of an array of log-odds,
        where numpy has it in a call.
    """

    name: str
    formula: Callable[[Expression, Expression, float], Expression]
    inverse: Callable[[Array, float], Array]
    slope: Callable[[Array, Array, float], Array]
    unchanged: Callable[[float], tuple[float, float]] | None = lambda _: (0.0, 1.0)
    takes_probabilities: bool = True
    takes_epsilon: bool = False
    from_log_odds: Callable[[Array, float], Array] | None = None


def steepness(p: Array) -> Array:
    """Derivative of the log-odds in the probability."""
    p = np.maximum(p, SMALLEST_PROBABILITY)
    return np.asarray(1.0 / (p * np.maximum(1.0 - p, SMALLEST_COMPLEMENT)))


def _logit_formula(p: Expression, u: Expression, epsilon: float) -> Expression:
    clip = logit_clip(epsilon)
    return u.clipped(-clip, clip)


def _logit_slope(p: Array, u: Array, epsilon: float) -> Array:
    return np.where(np.abs(u) < logit_clip(epsilon), steepness(p), 0.0)


def _clipped_log_odds(u: Array, epsilon: float) -> Array:
    clip = logit_clip(epsilon)
    return np.clip(u, -clip, clip)


def _compact_formula(p: Expression, u: Expression, epsilon: float) -> Expression:
    # Where 1 - epsilon rounds to 1, a score of exactly 1 stays on the line.
    middle = (epsilon, min(1.0 - epsilon, float(np.nextafter(1.0, 0.0))))
    line = compact_logit_slope(epsilon) * u + 0.5
    # A tiny epsilon is coarse in floating point next to 1: the limits keep the map
    # monotone.
    return between(p, middle, line.clipped(epsilon, 1.0 - epsilon), p)


def _compact_inverse(x: Array, epsilon: float) -> Array:
    x = np.clip(x, 0.0, 1.0)
    middle = (x >= epsilon) & (x <= 1.0 - epsilon) & (x < 1.0)
    return np.where(middle, expit((x - 0.5) / compact_logit_slope(epsilon)), x)


def _compact_derivative(p: Array, u: Array, epsilon: float) -> Array:
    middle = (p >= epsilon) & (p <= 1.0 - epsilon)
    return np.where(middle, compact_logit_slope(epsilon) * steepness(p), 1.0)


TRANSFORMS = {
    each.name: each
    for each in (
        Definition(
            "logit",
            formula=_logit_formula,
            inverse=lambda x, _: expit(x),
            slope=_logit_slope,
            from_log_odds=_clipped_log_odds,
        ),
        Definition(
            "asinh_logit",
            formula=lambda p, u, _: ASINH_SCALE * call("asinh", u / ASINH_SCALE),
            inverse=lambda x, _: expit(ASINH_SCALE * np.sinh(x / ASINH_SCALE)),
            slope=lambda p, u, _: steepness(p) / np.sqrt(1.0 + (u / ASINH_SCALE) ** 2),
            from_log_odds=lambda u, _: ASINH_SCALE * np.arcsinh(u / ASINH_SCALE),
        ),
        Definition(
            "compact_logit",
            formula=_compact_formula,
            inverse=_compact_inverse,
            slope=_compact_derivative,
            unchanged=lambda epsilon: (
                -0.5 / compact_logit_slope(epsilon),
                1.0 / compact_logit_slope(epsilon),
            ),
            takes_epsilon=True,
        ),
        Definition(
            "identity",
            formula=lambda p, u, _: p,
            inverse=lambda x, _: x,
            slope=lambda p, u, _: np.ones_like(p),
            unchanged=None,
            takes_probabilities=False,
        ),
    )
}
"""All transforms by name."""


@dataclass(frozen=True)
class Transform:
    """A named, increasing map from scores to ``x``, with its inverse.

    Parameters
    ----------
    name : {"logit", "asinh_logit", "compact_logit", "identity"}
    epsilon : float, optional
        Where the compact logit turns linear, in (0, 0.5), which it needs. The
        probability at which the logit is clipped, if not 1e-9.

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
        if self.name not in TRANSFORMS:
            raise ValueError(
                f"transform must be one of {', '.join(TRANSFORMS)}; got {self.name!r}"
            )
        is_needed = self._definition.takes_epsilon or self.epsilon is not None
        if is_needed and not (self.epsilon and 0.0 < self.epsilon < 0.5):
            raise ValueError(
                f"epsilon must be a number in (0, 0.5); got {self.epsilon!r}"
            )

    @property
    def _definition(self) -> Definition:
        return TRANSFORMS[self.name]

    @property
    def _epsilon(self) -> float:
        return LOGIT_EPSILON if self.epsilon is None else self.epsilon

    @property
    def log_odds_clip(self) -> float:
        """Log-odds beyond which the logit is clipped."""
        return logit_clip(self._epsilon)

    @property
    def takes_probabilities(self) -> bool:
        """Whether scores must lie in [0, 1]."""
        return self._definition.takes_probabilities

    @property
    def unchanged(self) -> tuple[float, float] | None:
        """Intercept and slope, in ``x``, of the log-odds of the score, if any."""
        line = self._definition.unchanged
        return None if line is None else line(self._epsilon)

    def slopes_of_log_odds(self, x: Array) -> Array:
        """Derivatives of the log-odds of scores in ``x``; infinite where clipped."""
        scores = self.inverse(x)
        with np.errstate(divide="ignore"):
            return steepness(scores) / self.derivative(scores)

    def formula(self, p: Expression, u: Expression) -> Expression:
        """``x`` as a formula of the score ``p`` and its log-odds ``u``."""
        return self._definition.formula(p, u, self._epsilon)

    @cached_property
    def _formula(self) -> tuple[Expression, list[str]]:
        formula = self.formula(name("p"), name("u"))
        return formula, formula.names

    def __call__(self, scores: ArrayLike) -> Array:
        """Map scores to ``x``."""
        scores = np.asarray(scores, dtype=np.float64)
        formula, used = self._formula
        values = {"p": scores}
        if "u" in used:
            values["u"] = log_odds(scores)
        return evaluate(formula, values)

    def from_log_odds(self, u: Array) -> Array:
        """Map scores given as log-odds to ``x``."""
        if self._definition.from_log_odds is not None:
            return self._definition.from_log_odds(u, self._epsilon)
        formula, used = self._formula
        values = {"u": u}
        if "p" in used:
            values["p"] = expit(u)
        return evaluate(formula, values)

    def inverse(self, x: ArrayLike) -> Array:
        """Map ``x`` back to scores."""
        return np.asarray(
            self._definition.inverse(np.asarray(x, dtype=np.float64), self._epsilon)
        )

    def derivative(self, scores: ArrayLike) -> Array:
        """Derivative of ``x`` in the score; zero where the score is clipped."""
        scores = np.asarray(scores, dtype=np.float64)
        u = log_odds(scores) if self.takes_probabilities else scores
        return np.asarray(self._definition.slope(scores, u, self._epsilon))
