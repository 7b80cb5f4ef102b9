"""Maps of a few numbers: beta curves, a temperature, clipping and constant rates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import scipy
from numpy.typing import NDArray

from calspline._arrays import Array, filled
from calspline._codec import check_fields
from calspline._domains import Number, Numbers
from calspline._expression import Constant, Program, between, call, name, number
from calspline._input.scores import BinaryScores, Kind, MatrixScores
from calspline.maps.base import CalibrationMap, Segments, Table
from calspline.maps.curve import response
from calspline.transforms import SMALLEST_PROBABILITY, Source, log_odds_formula

MAX_LOG_ODDS = float(np.log((1.0 - 1e-15) / 1e-15))
FARTHEST_LOG_ODDS = float(-np.log(np.finfo(np.float64).eps))
"""Scores beyond these log-odds count as these: one vote of none among a thousand trees
must not determine a fit."""
LEAST_PROBABILITY = 1e-9
"""Probabilities are clipped to this value before their logarithm is taken."""
LARGEST_EXPONENT = float(-np.log(1e-15))
LARGEST_COEFFICIENT = 1e100
"""More than any fit gives; no sum of coefficients overflows."""
ROUNDING = 1e-9
"""By how much rates may miss a sum of one."""
FLOOR = Number(above=1e-15, below=0.5)
"""What a least probability may be."""


@dataclass(frozen=True)
class BetaMap(CalibrationMap[BinaryScores]):
    """``log-odds = a ln p - b ln(1 - p) + c``."""

    a: Annotated[float, Number(not_negative=True, below=LARGEST_COEFFICIENT)]
    b: Annotated[float, Number(not_negative=True, below=LARGEST_COEFFICIENT)]
    c: Annotated[float, Number(-LARGEST_COEFFICIENT, LARGEST_COEFFICIENT)]

    def __post_init__(self) -> None:
        check_fields(self)

    def suits(self, kind: Kind, n_classes: int) -> bool:
        """Whether there are two classes."""
        return n_classes == 2

    def probabilities(
        self, scores: BinaryScores, segments: Segments | None = None
    ) -> Array:
        """Calibrated probabilities, chunk by chunk."""

        def respond(rows: slice) -> Array:
            x = clip_log_odds(scores.locations(rows))
            eta = self.a * log_p(x) + self.b * minus_log_rest(x) + self.c
            return np.asarray(
                scipy.special.expit(np.clip(eta, -MAX_LOG_ODDS, MAX_LOG_ODDS))
            )

        return filled(np.empty(len(scores)), respond)

    def formula(self, source: Source, kind: Kind) -> Program:
        """The map in steps that every export can write."""
        if self.a == self.b == 0.0:
            constant = min(max(self.c, -MAX_LOG_ODDS), MAX_LOG_ODDS)
            return Program([], response(number(constant), "logit"))
        value = name("p") if kind == "margin" else log_odds_formula(source)
        x = name("x")
        s = name("s")
        y = self.a * (call("min", x, 0.0) - s) + self.b * (call("max", x, 0.0) + s)
        steps = [
            ("x", value.clipped(-FARTHEST_LOG_ODDS, FARTHEST_LOG_ODDS)),
            ("s", call("log", 1.0 + call("exp", -call("abs", x)))),
            ("y", (y + self.c).clipped(-MAX_LOG_ODDS, MAX_LOG_ODDS)),
        ]
        return Program(steps, response(name("y"), "logit"))

    def table(self, kind: Kind) -> Table:
        """The numbers of the map, for source code."""
        return {"type": "beta", "scores": kind, "abc": [self.a, self.b, self.c]}

    def describe(self) -> list[str]:
        """The three numbers."""
        return [f"beta curve, a = {self.a:.4g}, b = {self.b:.4g}, c = {self.c:.4g}"]


def clip_log_odds(x: Array) -> Array:
    """Log-odds, none too far out."""
    return np.clip(x, -FARTHEST_LOG_ODDS, FARTHEST_LOG_ODDS)


def log_p(x: Array) -> Array:
    """``ln p`` of log-odds."""
    return np.asarray(-np.logaddexp(0.0, -x))


def minus_log_rest(x: Array) -> Array:
    """``-ln(1 - p)`` of log-odds."""
    return np.asarray(np.logaddexp(0.0, x))


@dataclass(frozen=True)
class Temperature(CalibrationMap[MatrixScores]):
    """``softmax(z / temperature)`` of log-probabilities or margins."""

    temperature: Annotated[float, Number(above=0.0)]

    def __post_init__(self) -> None:
        check_fields(self)

    def suits(self, kind: Kind, n_classes: int) -> bool:
        """Whether there are several classes."""
        return n_classes > 2

    def probabilities(
        self, scores: MatrixScores, segments: Segments | None = None
    ) -> Array:
        """Calibrated probabilities, chunk by chunk."""

        def respond(rows: slice) -> Array:
            exponents = centered_logits(scores, rows) / self.temperature
            e = np.exp(np.maximum(exponents, -LARGEST_EXPONENT))
            return np.asarray(e / e.sum(axis=1, keepdims=True))

        return filled(np.empty(scores.values.shape), respond)

    def formula(self, source: Source, kind: Kind) -> Program:
        """The map in steps that every export can write."""
        steps = []
        z = name("p")
        if kind == "probability":
            steps.append(("z", call("log", call("max", z, LEAST_PROBABILITY))))
            z = name("z")
        d = call("max", name("d"), -LARGEST_EXPONENT * self.temperature)
        if kind == "margin":
            # The quotient of a tiny difference must not vanish: PostgreSQL raises an
            # error.
            d = between(d, (-SMALLEST_PROBABILITY, 0.0), number(0.0), d)
        steps.append(("d", call("centred", z)))
        steps.append(("e", call("exp", d / self.temperature)))
        return Program(steps, call("normalise", name("e")))

    def table(self, kind: Kind) -> Table:
        """The numbers of the map, for source code."""
        temperature = self.temperature
        return {"type": "temperature", "scores": kind, "temperature": temperature}

    def describe(self) -> list[str]:
        """The temperature."""
        return [f"temperature {self.temperature:.4g}"]


def centered_logits(scores: MatrixScores, rows: slice) -> Array:
    """Log-probabilities, or margins, less the largest of each row."""
    z = scores.values[rows].astype(np.float64, copy=False)
    if scores.kind == "probability":
        z = np.log(np.maximum(z, LEAST_PROBABILITY))
    return np.asarray(z - z.max(axis=1, keepdims=True))


@dataclass(frozen=True, eq=False)
class ConstantRates(CalibrationMap[MatrixScores]):
    """The same probabilities of several classes for every row."""

    rates: Annotated[Array, Numbers("m", least=3, positive=True)]

    def __post_init__(self) -> None:
        check_fields(self)
        if abs(self.rates.sum() - 1.0) > ROUNDING:
            raise ValueError("rates must sum to one")

    def suits(self, kind: Kind, n_classes: int) -> bool:
        """Whether each class has a rate."""
        return n_classes == len(self.rates)

    def probabilities(
        self, scores: MatrixScores, segments: Segments | None = None
    ) -> Array:
        """The rates, once for every row."""
        return np.tile(self.rates, (len(scores.values), 1))

    def formula(self, source: Source, kind: Kind) -> Program:
        """The map in steps that every export can write."""
        rates = Constant("RATES", self.rates.tolist()).expression
        return Program([("q", rates)], call("normalise", name("q")))

    def table(self, kind: Kind) -> Table:
        """The numbers of the map, for source code."""
        return {"type": "rates", "rates": self.rates.tolist()}

    def describe(self) -> list[str]:
        """The rates."""
        return ["base rates"]


@dataclass(frozen=True)
class Clipping(CalibrationMap[BinaryScores | MatrixScores]):
    """``max(p, p_min)``, normalized."""

    p_min: Annotated[float, FLOOR]

    def __post_init__(self) -> None:
        check_fields(self)

    def suits(self, kind: Kind, n_classes: int) -> bool:
        """Whether scores are probabilities."""
        return kind == "probability"

    def probabilities(
        self, scores: BinaryScores | MatrixScores, segments: Segments | None = None
    ) -> Array:
        """Clipped probabilities, chunk by chunk."""
        if isinstance(scores, BinaryScores):
            pairs = scores
            return filled(
                np.empty(len(scores)),
                lambda rows: self.clip(both_columns(pairs, rows))[:, 1],
            )
        values = scores.values
        return filled(np.empty(values.shape), lambda rows: self.clip(values[rows]))

    def clip(self, p: NDArray[np.floating[Any]]) -> Array:
        """Clipped probabilities of all classes."""
        clipped = np.maximum(p, self.p_min, dtype=np.float64)
        clipped /= clipped.sum(axis=1, keepdims=True)
        return np.asarray(clipped)

    def formula(self, source: Source, kind: Kind) -> Program:
        """The map in steps that every export can write."""
        q = call("max", name("p"), self.p_min)
        if source == "row":
            return Program([("q", q)], call("normalise", name("q")))
        rest = 1.0 - name("p") if source == "one" else name("rest")
        steps = [("q", q), ("r", call("max", rest, self.p_min))]
        return Program(steps, name("q") / (name("q") + name("r")))

    def table(self, kind: Kind) -> Table:
        """The numbers of the map, for source code."""
        return {"type": "clipping", "least": self.p_min}

    def describe(self) -> list[str]:
        """The least probability."""
        return [f"clipped at {self.p_min:g}"]


def both_columns(scores: BinaryScores, rows: slice) -> Array:
    """Probabilities of both classes."""
    second = scores.values[rows].astype(np.float64)
    first = 1.0 - second if scores.first is None else scores.first[rows]
    return np.column_stack([first, second])
