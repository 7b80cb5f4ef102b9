"""BetaCalibrator: beta calibration."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from calspline.arrays import Array, Counts, filled
from calspline.calibrators.base import MapFit, OneVsRestCalibrator
from calspline.curve import CalibrationCurve, response
from calspline.expression import Program, call, name, number, one_vs_rest
from calspline.fitting.newton import fit_logistic
from calspline.multiclass.one_vs_rest import AgainstRest
from calspline.options import BOOLEAN, Choice, Domain, Numbers
from calspline.scores import BinaryScores, Kind, MatrixScores
from calspline.transforms import Source, log_odds_formula

RIDGE = 1e-6
"""Strength of the ridge penalty: a millionth of an observation, for scores that separate the classes."""
MIN_SPREAD = 1e-100
"""A feature that varies less has no say."""
MAX_LOG_ODDS = float(np.log((1.0 - 1e-15) / 1e-15))
FARTHEST = float(-np.log(np.finfo(np.float64).eps))
"""Scores beyond these log-odds count as these: one vote of none among a thousand trees must not move the fit."""
LARGEST_COEFFICIENT = 1e100
"""What a file may say: more than any fit gives, and no sum of them overflows."""


class BetaMap(NamedTuple):
    """``log-odds = a ln p - b ln(1 - p) + c``."""

    a: float
    b: float
    c: float

    def evaluate(self, scores: BinaryScores) -> Array:
        """Calibrated probabilities of checked scores, chunk by chunk."""

        def probabilities(rows: slice) -> Array:
            first, second = _logarithms(_near(scores.locations(rows)))
            eta = self.a * first + self.b * second + self.c
            return np.asarray(scipy.special.expit(np.clip(eta, -MAX_LOG_ODDS, MAX_LOG_ODDS)))

        return filled(np.empty(len(scores)), probabilities)

    def program(self, source: Source | None) -> Program:
        """The map in steps that every export can write; without a source, from a margin."""
        if self.a == self.b == 0.0:
            return Program([], response(number(min(max(self.c, -MAX_LOG_ODDS), MAX_LOG_ODDS)), "logit"))
        value = name("p") if source is None else log_odds_formula(source)
        x, s = name("x"), name("s")
        y = self.a * (call("min", x, 0.0) - s) + self.b * (call("max", x, 0.0) + s) + self.c
        steps = [
            ("x", value.clipped(-FARTHEST, FARTHEST)),
            ("s", call("log", 1.0 + call("exp", -call("abs", x)))),
            ("y", y.clipped(-MAX_LOG_ODDS, MAX_LOG_ODDS)),
        ]
        return Program(steps, response(name("y"), "logit"))


class BetaCalibrator(OneVsRestCalibrator):
    r"""Calibrate scores with a beta curve.

    If the scores of either class follow beta distributions, the calibrated probability ``P`` of a score ``p`` is

    .. math:: \ln \frac{P}{1 - P} = a \ln p - b \ln(1 - p) + c , \qquad a, b \ge 0 ,

    and the three numbers are found by maximum likelihood. ``a = b = 1`` and ``c = 0`` change nothing.

    Logarithms are taken of the log-odds ``x``, as ``ln p = -ln(1 + exp(-x))``, none beyond 36, which is that of the
    distance from 1 to the next number. Margins are taken for log-odds. A ridge penalty of
    a millionth of an observation on ``a`` and ``b`` keeps them finite where scores separate the classes.

    Three or more classes: one curve per class against the rest, then rows are normalised; margins are
    taken for a network's logits, whose softmax is ``p``. A class that no row shows gets ``1 / (n + 2)``
    before normalising.

    Parameters
    ----------
    parameters : {"abm", "am", "ab"}, default="abm"
        Which are free: all three; ``a = b`` and ``c``, a sigmoid of the log-odds; or ``a`` and ``b`` with 1/2
        mapped to itself, ``c = (a - b) ln 2``. (``m`` is the score mapped to 1/2.)

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        The labels, sorted: the order of columns.
    a_, b_, c_ : float, or array of shape (n_classes,)
        The numbers in the formula; arrays for three or more classes.
    curves_ : list
        Empty: a beta curve is no :class:`~calspline.CalibrationCurve`.
    converged_ : bool

    See Also
    --------
    SigmoidCalibrator : The case ``a = b``, with Platt's smoothed targets.

    References
    ----------
    M. Kull, T. Silva Filho and P. Flach, *Beta calibration: a well-founded and easily implemented improvement on
    logistic calibration for binary classifiers* (AISTATS 2017).

    Examples
    --------
    >>> import numpy as np
    >>> from calspline import BetaCalibrator
    >>> rng = np.random.default_rng(0)
    >>> y = rng.random(5000) < 0.5
    >>> scores = np.where(y, rng.beta(4, 1, 5000), rng.beta(1, 2, 5000))
    >>> cal = BetaCalibrator().fit(scores, y)
    >>> cal.calibrate([0.2, 0.5, 0.8]).round(2)
    array([0.02, 0.33, 0.85])
    """

    _parameter_constraints: ClassVar[dict[str, Domain]] = {"parameters": Choice("abm", "am", "ab")}
    _stored: ClassVar[dict[str, Domain]] = {"converged": BOOLEAN, "coefficients": Numbers(columns=3)}
    _stores_curves: ClassVar[bool] = False

    a_: Any
    b_: Any
    c_: Any

    def __init__(self, *, parameters: Literal["abm", "am", "ab"] = "abm") -> None:
        self.parameters = parameters

    def _columns(self, scores: MatrixScores) -> AgainstRest:
        if scores.kind == "margin":
            scores = MatrixScores("probability", scipy.special.softmax(scores.values.astype(np.float64), axis=1))
        return AgainstRest(scores, "logit")

    def _fit_map(self, scores: BinaryScores, positive: NDArray[np.bool_], weight: Array | None) -> MapFit:
        counts = Counts.from_rows(_near(scores.locations()), positive, weight)
        if counts.all_equal:
            return MapFit(self._constant_map(scores.kind, counts.base_rate), constant=True)
        (first, second), half = _logarithms(counts.x), np.log(2.0)
        features = {"abm": (first, second), "am": (counts.x,), "ab": (first + half, second - half)}[self.parameters]
        fit = _fit_rising(np.column_stack(features), counts, intercept=self.parameters != "ab")
        c, a, b = (float(fit.theta[k]) for k in (0, 1, -1))
        return MapFit(BetaMap(a, b, float((a - b) * half) if self.parameters == "ab" else c), converged=fit.converged)

    def _two_program(self, source: Source) -> Program:
        beta_map: BetaMap = self._maps[0]
        return beta_map.program(None if self.kind_ == "margin" else source)

    def _many_program(self) -> Program:
        first = "softmax" if self.kind_ == "margin" else ""
        return one_vs_rest([each.program("pair") for each in self._maps], first)

    def _constant_map(self, kind: Kind, rate: float) -> BetaMap:
        return BetaMap(0.0, 0.0, float(np.log(rate / (1.0 - rate))))

    def _set_maps(self, maps: list[BetaMap]) -> None:
        self.a_, self.b_, self.c_ = maps[0] if len(maps) == 1 else np.array(maps).T.copy()
        self._maps, self.curves_ = maps, []

    def _facts(self) -> dict[str, Any]:
        return {"converged": self.converged_, "coefficients": [list(each) for each in self._maps]}

    def _maps_from(self, facts: dict[str, Any], curves: list[CalibrationCurve]) -> list[BetaMap]:
        coefficients = facts["coefficients"]
        if coefficients[:, :2].min(initial=0.0) < 0.0:
            raise ValueError("coefficients must be a, b and c for each curve, with a and b not negative")
        if np.abs(coefficients).max(initial=0.0) > LARGEST_COEFFICIENT:
            raise ValueError(f"coefficients must be at most {LARGEST_COEFFICIENT:g} in size")
        return [BetaMap(*row) for row in coefficients.tolist()]


def _near(x: Array) -> Array:
    return np.clip(x, -FARTHEST, FARTHEST)


def _logarithms(x: Array) -> tuple[Array, Array]:
    """``ln p`` and ``-ln(1 - p)`` of log-odds."""
    return -np.logaddexp(0.0, -x), np.logaddexp(0.0, x)


class _RisingFit(NamedTuple):
    """Intercept and coefficients, the loss they reach per unit of weight, and whether that is the least."""

    theta: Array
    loss: float
    converged: bool


def _fit_rising(features: Array, counts: Counts, *, intercept: bool) -> _RisingFit:
    """Intercept and coefficients that fit best; any that would be negative are zero, whichever makes the loss least."""
    share = counts.w / counts.w.sum()
    size = np.maximum(np.abs(features).max(axis=0), MIN_SPREAD)
    scaled = features / size
    centre = share @ scaled if intercept else np.zeros(features.shape[1])
    spread = np.sqrt(share @ (scaled - centre) ** 2)

    def fit_some(*kept: int) -> _RisingFit:
        """With only some of the coefficients free."""
        free = [j for j in kept if spread[j] * size[j] > MIN_SPREAD]
        X = np.column_stack([np.full(len(share), float(intercept)), (scaled[:, free] - centre[free]) / spread[free]])
        # On a and b, and on them in units of what they act on: either alone can be far too weak.
        ridge = RIDGE * np.append(0.0 if intercept else 1.0, 1.0 + (spread * size)[free] ** -2.0)
        start = np.zeros(1 + len(free))
        start[0] = np.log(counts.base_rate / (1.0 - counts.base_rate)) if intercept else 0.0
        fit = fit_logistic(X, counts.positives, counts.negatives, ridge, start)
        theta, u = np.zeros(1 + features.shape[1]), fit.u
        theta[1:][free] = u[1:] / spread[free] / size[free]
        theta[0] = u[0] - u[1:] @ (centre[free] / spread[free])
        return _RisingFit(theta, fit.objective, fit.converged)

    every = range(features.shape[1])
    found = [fit_some(*every)]
    if found[0].theta[1:].min() < 0.0:
        found = [fit_some(), *(fit_some(j) for j in every if len(every) > 1)]
    return min((fit for fit in found if fit.theta[1:].min() >= 0.0), key=lambda fit: fit.loss)
