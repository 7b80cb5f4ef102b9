"""CalibrationCurve: what a fit leaves behind, and what everything else evaluates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from calspline._arrays import Array, filled
from calspline._codec import check_fields, from_json, to_json
from calspline._domains import Number, Numbers, optional
from calspline._expression import (
    Expression,
    Pieces,
    Program,
    between,
    call,
    name,
    number,
)
from calspline._input.options import check_number
from calspline._input.scores import (
    LARGEST_MARGIN,
    BinaryScores,
    Kind,
    check_binary_scores,
    check_numeric_array,
)
from calspline.fitting.basis import PiecewiseCubic, evaluate_pieces
from calspline.maps.base import CalibrationMap, Segments, Table
from calspline.maps.log_odds import LogOdds, critical_value
from calspline.maps.posterior import CurvePosterior, PosteriorRecord, shifted
from calspline.transforms import (
    SMALLEST_PROBABILITY,
    Source,
    Transform,
    compact_logit_slope,
    log_odds_formula,
)

MAX_BREAKS = 100_000
BISECTIONS = 64
Moved = Callable[
    [Expression, Expression, Callable[[str, Expression], Expression]], Expression
]
"""Other log-odds, given ``x``, log-odds, and what gives a name to a step."""
PER_PIECE = 32
"""Places on each piece at which a fall is looked for."""
NEAR = 1e-90
"""Coordinates closer to zero are treated as zero, since their powers may underflow."""
NARROW, FARTHEST = 1e-8, 1e300
"""Unit below which scores far from those of the fit could overflow, and their limit."""
NO_BAND = 'this curve has no band; splines with loss="log" have one'

Inside = Annotated[float, Number(above=0.0, below=1.0)]


@dataclass(frozen=True, eq=False)
class CalibrationCurve(CalibrationMap[BinaryScores]):
    """A calibration function: score in, probability out. Small, frozen, self-contained.

    A score becomes ``x`` by the transform and ``z = (x - origin) / unit``. In ``z`` the
    curve is piecewise cubic: with ``t = z - anchor`` it is ``((c0 t + c1) t + c2) t +
    c3``, where the anchor is the break at the piece's left end (for the first piece, at
    its right end). Before the first break and after the last it is a line. The result
    is a log-odds or a probability, as ``link`` says, kept within ``clip``.

    Parameters
    ----------
    transform : Transform
    breaks : array of shape (K,)
        Increasing, in ``z``.
    coefficients : array of shape (4, K + 1)
        Highest power first.
    origin, unit : float
    link : {"logit", "identity"}
    clip : (float, float)
        Least and largest probability.
    posterior : Posterior, optional
        What is known about the errors of the curve. That of a fit computes its numbers
        when they are asked for.

    Examples
    --------
    >>> import numpy as np
    >>> from calspline import SplineCalibrator
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(size=2000)
    >>> curve = SplineCalibrator().fit(p, rng.random(2000) < p**2).curves_[0]
    >>> curve([0.2, 0.5, 0.8]).round(2)
    array([0.05, 0.23, 0.64])
    >>> curve.inverse(curve([0.3])).round(6)
    array([0.3])
    """

    transform: Transform
    breaks: Annotated[Array, Numbers("K", least=2, most=MAX_BREAKS, increasing=True)]
    coefficients: Annotated[Array, Numbers(4, "K+1")]
    origin: float = 0.0
    unit: Annotated[float, Number(above=0.0)] = 1.0
    link: Literal["logit", "identity"] = "logit"
    clip: tuple[Inside, Inside] = (1e-15, 1.0 - 1e-15)
    posterior: Annotated[CurvePosterior | None, optional(PosteriorRecord())] = None

    def __post_init__(self) -> None:
        check_fields(self)
        if not self.clip[0] < self.clip[1]:
            raise ValueError(f"clip must be sorted, without repeats; got {self.clip}")
        c = self.coefficients
        if c[0, 0] or c[1, 0] or c[0, -1] or c[1, -1]:
            raise ValueError(
                "coefficients must be those of a line before the first break and after "
                "the last"
            )
        if not self._is_surely_finite() and not self._is_finite():
            raise ValueError("coefficients must give finite numbers between the breaks")

    def _is_surely_finite(self) -> bool:
        """Whether no piece can overflow, by a bound that takes no time."""
        reach = 1.0 + float(self.breaks[-1]) - float(self.breaks[0])
        largest = max(float(self.coefficients.max()), -float(self.coefficients.min()))
        return 4.0 * largest * reach * reach * reach < np.inf

    def _is_finite(self) -> bool:
        with np.errstate(over="ignore"):
            gaps = np.concatenate([[0.0], np.diff(self.breaks), [0.0]])
            largest = np.polyval(np.abs(self.coefficients), gaps)
        return bool(np.isfinite(largest).all())

    def suits(self, kind: Kind, n_classes: int) -> bool:
        """Whether there are two classes, and scores are what the transform takes."""
        takes_kind = kind == "probability" or not self.transform.takes_probabilities
        return n_classes == 2 and takes_kind

    def __call__(self, scores: ArrayLike) -> Array:
        """Calibrated probabilities of scores in one column."""
        checked = check_binary_scores(scores, kind=self._kind)
        return self.probabilities(checked).reshape(
            checked.shape if checked.first is None else -1
        )

    def probabilities(
        self, scores: BinaryScores, segments: Segments | None = None
    ) -> Array:
        """Calibrated probabilities of checked scores, chunk by chunk."""
        return filled(
            np.empty(len(scores)),
            lambda rows: self.respond(self.value(self.place(scores, rows))),
        )

    def band(
        self,
        scores: ArrayLike | BinaryScores,
        level: float = 0.95,
        *,
        simultaneous: bool = False,
    ) -> Array:
        """Lower and upper limit of the curve at each score, shape (n, 2).

        The pointwise band is the Bayesian one, which has close to its nominal coverage
        averaged over the scores. The simultaneous band covers the whole curve between
        the end breaks at once; its critical value solves the tube formula of Sun and
        Loader (1994).
        """
        checked = check_binary_scores(scores, kind=self._kind)
        level = check_number(level, "level", above=0.0, below=1.0)
        log_odds = self.log_odds(checked)
        if log_odds is None:
            raise ValueError(NO_BAND)
        critical = critical_value(level, log_odds.tube if simultaneous else 0.0)
        reach = critical * log_odds.sd
        ends = [log_odds.mean - reach, log_odds.mean + reach]
        return np.column_stack([self.respond(end) for end in ends])

    @property
    def has_band(self) -> bool:
        """Whether the curve has bands: it is one of log-odds, and knows its errors."""
        return self.posterior is not None and self.link == "logit"

    def variance_at(self, scores: ArrayLike) -> Array:
        """Variance of the curve, before the link, at each score in one column."""
        checked = check_binary_scores(scores, kind=self._kind)
        return self.variance(self.place(checked))

    def variance(self, z: Array) -> Array:
        """Variance of the curve, before the link, at ``z``."""
        if self.posterior is None or not self.has_band:
            raise ValueError(NO_BAND)
        pieces = self.posterior.variance
        with np.errstate(over="ignore"):
            return np.maximum(evaluate_pieces(pieces, *self.cubic.locate(z)), 0.0)

    def log_odds(
        self,
        scores: BinaryScores,
        segments: Segments | None = None,
        *,
        at: Array | None = None,
    ) -> LogOdds | None:
        """Log-odds with standard deviations; None without a posterior."""
        if self.posterior is None or not self.has_band:
            return None
        z = self.place(scores)
        mean = np.clip(self.value(z), -FARTHEST, FARTHEST)
        return LogOdds(mean, np.sqrt(self.variance(z)), self.posterior.tube)

    @property
    def common_curve(self) -> CalibrationCurve:
        """The curve itself."""
        return self

    def formula(self, source: Source, kind: Kind) -> Program:
        """The curve in steps that every export can write."""
        return self.program(source)

    def table(self, kind: Kind) -> Table:
        """The numbers of the map, for source code."""
        low, high = self.value_limits
        return {
            "type": "curve",
            **_scale_table(self.transform),
            "origin": self.origin,
            "unit": self.unit,
            "pieces": pieces_table(self.breaks, self.coefficients),
            "link": self.link,
            "low": low,
            "high": high,
        }

    @property
    def shape(self) -> str:
        """Where the curve falls, in words."""
        falls = [f"from {low:.3g} to {high:.3g}" for low, high in self.falls()]
        return f"falls {' and '.join(falls)}" if falls else "increasing"

    def describe(self) -> list[str]:
        """The scale and the shape in words."""
        return [f"{self.transform.name}, {self.shape}"]

    def noise(self, scores: BinaryScores) -> Array:
        """Independent errors of the log-odds, of shape (r, n).

        Each row holds errors of one standard deviation, linear between the breaks and
        constant beyond. There are no rows if the errors are unknown.
        """
        if self.posterior is None:
            return np.empty((0, len(scores)))
        z = self.place(scores)
        modes = self.posterior.modes
        return np.array([np.interp(z, self.breaks, mode) for mode in modes])

    def shifted(self, log_odds: float, variance: float = 0.0) -> CalibrationCurve:
        """The curve with something added to its log-odds, which has a variance."""
        if self.link != "logit":
            raise ValueError(
                "the curve is one of probabilities; only one of log-odds can be shifted"
            )
        moved = self.coefficients.copy()
        moved[-1] += log_odds
        posterior = self.posterior
        if posterior is not None and variance:
            posterior = shifted(posterior, variance)
        return replace(self, coefficients=moved, posterior=posterior)

    def derivative(self, scores: ArrayLike) -> Array:
        """Derivative of the calibrated probability in the score; zero where clipped."""
        checked = check_binary_scores(scores, kind=self._kind)
        z = self.place(checked)
        slope = (
            self.cubic.slope(z) / self.unit * self.transform.derivative(checked.values)
        )
        p = self.respond(self.value(z))
        low, high = self.clip
        return np.where(
            (p > low) & (p < high),
            slope * (p * (1.0 - p) if self.link == "logit" else 1.0),
            0.0,
        )

    @cached_property
    def is_monotone(self) -> bool:
        """Whether the curve never decreases."""
        return self.cubic.smallest_slope >= 0.0

    def falls(self) -> list[tuple[float, float]]:
        """Where the curve decreases: the scores between which it does.

        Examples
        --------
        >>> from calspline import ScoreHistogram, SplineCalibrator
        >>> counts = ScoreHistogram.from_counts(
        ...     [0.2, 0.5, 0.8], positives=[30, 80, 50], totals=[100, 100, 100])
        >>> curve = SplineCalibrator().fit_histogram(counts).curves_[0]
        >>> [(round(low, 2), round(high, 2)) for low, high in curve.falls()]
        [(0.53, 0.8)]
        """
        span = self.breaks[-1] - self.breaks[0]
        # Points in every piece, and one beyond either end, which stands for all that is
        # there.
        inside = (
            self.breaks[:-1, None]
            + np.diff(self.breaks)[:, None] * np.arange(PER_PIECE) / PER_PIECE
        ).ravel()
        z = np.concatenate(
            [[self.breaks[0] - span], inside, [self.breaks[-1], self.breaks[-1] + span]]
        )
        turns = np.diff((np.diff(self.value(z)) < 0.0).astype(int), prepend=0, append=0)
        starts = np.flatnonzero(turns == 1)
        ends = np.flatnonzero(turns == -1)
        scores = self.transform.inverse(self.origin + self.unit * z)
        return [
            (float(scores[i]), float(scores[j]))
            for i, j in zip(starts, ends, strict=True)
        ]

    def inverse(self, probabilities: ArrayLike) -> Array:
        """The scores that the curve maps to these probabilities.

        Needs a curve that never decreases. Probabilities beyond what any score reaches
        give the end of the range of scores; where the curve is flat any score of the
        flat part is right.
        """
        if not self.is_monotone:
            raise ValueError(
                "the curve decreases somewhere, so it has no inverse; fit with "
                "monotone=True"
            )
        p = check_numeric_array(probabilities, "probabilities")
        if p.size and (p.min() < 0.0 or p.max() > 1.0):
            row = int(np.argmax((p < 0.0) | (p > 1.0)))
            raise ValueError(
                f"probabilities must be in [0, 1]; row {row} is {p.flat[row]:g}"
            )
        low, high = self.clip
        p = np.clip(p, low, high)
        target = np.log(p / (1.0 - p)) if self.link == "logit" else p
        left, right = (np.full_like(target, end) for end in self.breaks[[0, -1]])
        for _ in range(BISECTIONS):
            z = 0.5 * (left + right)
            below = self.value(z) < target
            left = np.where(below, z, left)
            right = np.where(below, right, z)
        # Beyond the breaks there are lines; one that is flat gets there at no score.
        slope, value = self.coefficients[2:]
        for end, beyond in ((0, target < value[0]), (-1, target > value[-1])):
            with np.errstate(divide="ignore"):
                z[beyond] = self.breaks[end] + (target[beyond] - value[end]) / np.abs(
                    slope[end]
                )
        return self.transform.inverse(self.origin + self.unit * z)

    @property
    def _kind(self) -> Literal["probability", "margin"]:
        return "probability" if self.transform.takes_probabilities else "margin"

    def place(self, scores: BinaryScores, rows: slice = slice(None)) -> Array:
        """Where checked scores lie: ``z``."""
        if self.transform.takes_probabilities:
            x = self.transform.from_log_odds(scores.locations(rows))
        else:
            x = scores.values[rows].astype(np.float64, copy=False)
        return self._relative(x)

    def locate(self, locations: Array, kind: Kind) -> Array:
        """Where locations of a histogram of this kind of scores lie: ``z``."""
        if kind == "probability":
            x = self.transform.from_log_odds(locations)
        else:
            x = locations
        return self._relative(x)

    def _relative(self, x: Array) -> Array:
        if self.unit > NARROW:
            return (x - self.origin) / self.unit
        with np.errstate(over="ignore"):
            return np.asarray(
                np.clip((x - self.origin) / self.unit, -FARTHEST, FARTHEST)
            )

    @cached_property
    def cubic(self) -> PiecewiseCubic:
        """The curve as a function of ``z``."""
        return PiecewiseCubic(self.breaks, self.coefficients)

    def value(self, z: Array) -> Array:
        """The curve at ``z``, before the link."""
        with np.errstate(over="ignore"):
            return self.cubic(z)

    @cached_property
    def value_limits(self) -> tuple[float, float]:
        """Clip before the link; log-odds are clipped, as 1 - p would be rounded."""
        low, high = self.clip
        if self.link == "logit":
            return (
                float(np.log(low / (1.0 - low))),
                float(np.log(high / (1.0 - high))),
            )
        return self.clip

    def respond(self, value: Array) -> Array:
        """Probabilities of values of the curve."""
        value = np.clip(value, *self.value_limits)
        if self.link == "identity":
            return value
        np.negative(value, out=value)
        np.exp(value, out=value)
        value += 1.0
        return np.asarray(np.divide(1.0, value, out=value))

    def program(
        self, source: Source = "one", moved: Moved | None = None, widest: float = 1.0
    ) -> Program:
        """Formula of the curve for exports.

        They neither overflow nor underflow, however large or small a margin is.
        ``moved`` makes other log-odds of ``x`` and those of the curve, which need be
        ``widest`` times as large to reach its limits.
        """
        steps: list[tuple[str, Expression]] = []

        def let(what: str, value: Expression) -> Expression:
            steps.append((what, value))
            return name(what)

        low, high = self.value_limits
        pieces = Pieces(
            self.breaks.tolist(), self.coefficients.T.tolist(), self.origin, self.unit
        )
        p = name("p")
        if self.transform.takes_probabilities:
            share = p if source == "one" else p / (p + name("rest"))
            x = let(
                "x", self.transform.formula(share, let("u", log_odds_formula(source)))
            )
        else:
            near = max((NEAR if pieces.bent else 0.0) * self.unit, SMALLEST_PROBABILITY)
            ends = [
                self.origin + self.unit * end
                for end in _reach(pieces, widest * low, widest * high)
            ]
            left, right = (
                min(max(end, -LARGEST_MARGIN), LARGEST_MARGIN) for end in ends
            )
            x = let("x", between(p, (-near, near), number(0.0), p).clipped(left, right))
        if pieces.line is None:
            y = let("f", Expression("cubic", (x,), pieces))
        else:
            slope, intercept = pieces.line
            if slope == 0.0 and moved is None:
                return Program(
                    [], response(number(min(max(intercept, low), high)), self.link)
                )
            y = slope * pieces.place(x) if slope else number(intercept)
            y = y + intercept if intercept and slope else y
        if moved is not None:
            y = moved(x, y, let)
        return Program(
            steps, response(let("y", y.clipped(low, high)), self.link)
        ).trimmed()

    def __repr__(self) -> str:
        shape = "increasing" if self.is_monotone else "not monotone"
        ends = self.transform.inverse(self.origin + self.unit * self.breaks[[0, -1]])
        return (
            f"CalibrationCurve({self.transform.name}, {len(self.breaks)} breaks on "
            f"[{ends[0]:.4g}, {ends[1]:.4g}], {shape})"
        )

    def __str__(self) -> str:
        scores = self.transform.inverse(
            self.origin + self.unit * np.linspace(self.breaks[0], self.breaks[-1], 9)
        )
        rows = [
            f"{score:>12.6g}  {p:>10.6f}"
            for score, p in zip(scores, self(scores), strict=True)
        ]
        return "\n".join([repr(self), f"{'score':>12}  {'calibrated':>10}", *rows])

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and lists, for JSON."""
        return to_json(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> CalibrationCurve:
        """The curve that :meth:`to_dict` described; anything else is an error."""
        return from_json(cls, data)


def _scale_table(transform: Transform) -> Table:
    """The numbers of a scale."""
    table: Table = {"scale": transform.name}
    if transform.name in ("identity", "asinh_logit"):
        return table
    if transform.name == "logit":
        reach = transform.log_odds_clip
        return table | {"scale_limits": [-reach, reach]}
    if transform.name != "compact_logit":
        raise TypeError(f"the scale {transform.name!r} has no table for source code")
    assert transform.epsilon is not None
    low = transform.epsilon
    slope = compact_logit_slope(low)
    return table | {"scale_limits": [low, 1.0 - low], "slope": slope}


def pieces_table(breaks: Array, coefficients: Array) -> list[list[float]]:
    """The start of each piece, and its coefficients from there."""
    starts = np.concatenate([breaks[:1], breaks])
    pieces: list[list[float]] = np.column_stack([starts, coefficients.T]).tolist()
    return pieces


def response(y: Expression, link: str) -> Expression:
    """The probability, given what the link makes of it."""
    return 1.0 / (1.0 + call("exp", -y)) if link == "logit" else y


def _reach(pieces: Pieces, low: float, high: float) -> tuple[float, float]:
    """Range beyond which the outer lines are clipped, so that nothing changes."""

    def distance(coefficients: list[float]) -> float:
        c, d = coefficients[2:]
        return min(
            2.0 * (abs(d) + abs(low) + abs(high)) / abs(c) + 1.0 if c else 1.0,
            LARGEST_MARGIN,
        )

    return pieces.breaks[0] - distance(pieces.coefficients[0]), pieces.breaks[
        -1
    ] + distance(pieces.coefficients[-1])


def line(
    transform: Transform, slope: float, intercept: float, *, origin: float = 0.0
) -> CalibrationCurve:
    """``log-odds = intercept + slope * (x - origin)``."""
    coefficients = np.zeros((4, 3))
    coefficients[2] = slope
    coefficients[3] = intercept, intercept, intercept + slope
    return CalibrationCurve(
        transform, np.array([0.0, 1.0]), coefficients, origin=origin
    )


def constant(kind: Kind, rate: float) -> CalibrationCurve:
    """The probability ``rate`` for every score."""
    transform = Transform("logit" if kind == "probability" else "identity")
    return line(transform, 0.0, float(np.log(rate / (1.0 - rate))))
