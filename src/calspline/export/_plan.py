"""What an export has to compute, in terms that every target knows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from sklearn.utils.validation import check_is_fitted

from calspline.calibrators.beta import FARTHEST, MAX_LOG_ODDS, BetaCalibrator, BetaMap
from calspline.calibrators.isotonic import IsotonicCalibrator
from calspline.calibrators.sigmoid import SigmoidCalibrator
from calspline.calibrators.spline import SplineCalibrator
from calspline.calibrators.temperature import LARGEST_EXPONENT, MIN_PROBABILITY, TemperatureCalibrator
from calspline.curve import CalibrationCurve
from calspline.expression import Expression, Pieces, between, call, name, number
from calspline.multiclass.structured_map import StructuredMap
from calspline.scores import LARGEST_MARGIN, Kind
from calspline.transforms import SMALLEST_COMPLEMENT, SMALLEST_PROBABILITY

Source = Literal["one", "pair", "value"]

NEAR = 1e-90
"""Powers of what is nearer to zero, in units of the curve, may underflow, and it is as good as zero."""
EXPORTED = SplineCalibrator, SigmoidCalibrator, IsotonicCalibrator, BetaCalibrator, TemperatureCalibrator


@dataclass(frozen=True, eq=False)
class Program:
    """Named steps, each of which may use those before, and the result.

    It starts from ``p``, a probability or a margin, and for the source ``"pair"`` also from ``rest``,
    the probability of everything else.
    """

    steps: list[tuple[str, Expression]]
    result: Expression
    source: Source

    @property
    def arguments(self) -> list[str]:
        """What it starts from: nothing, if the result is always the same."""
        return ["p", "rest"] if self.steps and self.source == "pair" else ["p"] if self.steps else []


@dataclass(frozen=True, eq=False)
class Binary:
    """One score of the second class in, its probability out."""

    classes: list[Any]
    kind: Kind
    difference: bool
    map: CalibrationCurve | BetaMap

    def program(self, source: Source = "one", *, guarded: bool = False) -> Program:
        """The steps from one probability, from both, or from a margin."""
        return program(self.map, source if self.kind == "probability" else "value", guarded=guarded)


@dataclass(frozen=True, eq=False)
class OneVsRest:
    """A map per class against the rest, then rows are made to sum to one.

    Every map is kept above zero, so no sum vanishes. Logits are first turned into what ``logits`` says.
    """

    classes: list[Any]
    kind: Kind
    maps: list[CalibrationCurve] | list[BetaMap]
    logits: Literal["log_softmax", "softmax", "themselves"]

    def programs(self, *, guarded: bool = False) -> list[Program]:
        """The steps of each class."""
        source: Source = "pair" if self.kind == "probability" or self.logits == "softmax" else "value"
        return [program(one, source, guarded=guarded) for one in self.maps]


@dataclass(frozen=True, eq=False)
class Structured:
    """``softmax(s(u) + W u + b)``; see :class:`~calspline.multiclass.structured_map.StructuredMap`."""

    classes: list[Any]
    kind: Kind
    map: StructuredMap

    @property
    def pieces(self) -> Pieces:
        """The shared curve."""
        return Pieces(self.map.breaks.tolist(), self.map.coefficients.T.tolist())


@dataclass(frozen=True, eq=False)
class Temperature:
    """``softmax(z / T)``, ``z`` being the logarithms of probabilities, or logits; or the same ``rates`` for every row.

    No logarithm is below that of ``floor``, and nothing is more than ``reach`` below the largest ``z``.
    """

    classes: list[Any]
    kind: Kind
    temperature: float
    rates: list[float] | None

    floor = MIN_PROBABILITY

    @property
    def reach(self) -> float:
        """The largest difference that counts."""
        return LARGEST_EXPONENT * self.temperature


Plan = Binary | OneVsRest | Structured | Temperature
Many = OneVsRest | Structured | Temperature


def plan(calibrator: Any) -> Plan:
    """What the calibrator computes; one that is not fitted, or has no export, is an error."""
    if not isinstance(calibrator, EXPORTED):
        names = ", ".join(each.__name__ for each in EXPORTED)
        raise TypeError(f"calibrator must be one of {names}; got {type(calibrator).__name__}")
    check_is_fitted(calibrator, "curves_")
    classes, kind = calibrator.classes_.tolist(), calibrator.kind_
    if len(classes) == 2:
        one = calibrator._maps[0] if isinstance(calibrator, BetaCalibrator) else calibrator.curves_[0]
        return Binary(classes, kind, calibrator.difference_, one)
    if isinstance(calibrator, TemperatureCalibrator):
        return Temperature(classes, kind, calibrator.temperature_, calibrator._rates)
    if isinstance(calibrator, BetaCalibrator):
        return OneVsRest(classes, kind, calibrator._maps, "softmax")
    if isinstance(calibrator, SplineCalibrator):
        if calibrator.curves_:
            return OneVsRest(classes, kind, calibrator.curves_, "log_softmax")
        return Structured(classes, kind, calibrator.structure_)
    return OneVsRest(classes, kind, calibrator.curves_, "themselves")


def program(what: CalibrationCurve | BetaMap, source: Source, *, guarded: bool) -> Program:
    """The steps from a score to a calibrated probability.

    A guarded program neither overflows nor underflows, however large or small a margin is.
    """
    return _beta(what, source) if isinstance(what, BetaMap) else _curve(what, source, guarded=guarded)


def _beta(what: BetaMap, source: Source) -> Program:
    """``a ln p - b ln(1 - p) + c``."""
    a, b, c = what.a, what.b, what.c
    if a == b == 0.0:
        return Program([], _response(number(min(max(c, -MAX_LOG_ODDS), MAX_LOG_ODDS)), "logit"), source)
    value = name("p")
    if source != "value":
        logs = _logarithms(source)
        value = logs[0] - logs[1]
    x, s = name("x"), name("s")
    steps: list[tuple[str, Expression]] = [
        ("x", value.clipped(-FARTHEST, FARTHEST)),
        ("s", call("log", 1.0 + call("exp", -call("abs", x)))),
    ]
    y = a * (call("min", x, 0.0) - s) + b * (call("max", x, 0.0) + s)
    steps.append(("y", (y + c).clipped(-MAX_LOG_ODDS, MAX_LOG_ODDS)))
    return Program(steps, _response(name("y"), "logit"), source)


def _curve(curve: CalibrationCurve, source: Source, *, guarded: bool) -> Program:
    steps: list[tuple[str, Expression]] = []

    def let(what: str, value: Expression) -> Expression:
        steps.append((what, value))
        return name(what)

    if curve.transform.takes_probabilities:
        logs = _logarithms(source)
        p = name("p")
        share = p if source == "one" else p / (p + name("rest"))
        x = let("x", curve.transform.formula(share, let("u", logs[0] - logs[1])))
    else:
        source, x = "value", name("p")
    low, high = curve.clip
    if curve.link == "logit":
        low, high = float(np.log(low / (1.0 - low))), float(np.log(high / (1.0 - high)))
    pieces = Pieces(curve.breaks.tolist(), curve.coefficients.T.tolist(), curve.origin, curve.unit)
    if guarded and not curve.transform.takes_probabilities:
        near = max((NEAR if pieces.bent else 0.0) * curve.unit, SMALLEST_PROBABILITY)
        reach = (curve.origin + curve.unit * end for end in _reach(pieces, low, high))
        left, right = (min(max(end, -LARGEST_MARGIN), LARGEST_MARGIN) for end in reach)
        x = let("x", between(x, (-near, near), number(0.0), x).clipped(left, right))
    if pieces.line is None:
        y = let("f", Expression("cubic", (x,), pieces))
    else:
        slope, intercept = pieces.line
        if slope == 0.0:
            return Program([], _response(number(min(max(intercept, low), high)), curve.link), source)
        y = slope * pieces.place(x)
        y = y + intercept if intercept else y
    y = let("y", y.clipped(low, high))
    return Program(steps, _response(y, curve.link), source)


def _reach(pieces: Pieces, low: float, high: float) -> tuple[float, float]:
    """Where the outer lines have long left ``low`` and ``high``: beyond, nothing changes."""
    ends = []
    for sign, start, (_, _, c, d) in (
        (-1.0, pieces.breaks[0], pieces.coefficients[0]),
        (1.0, pieces.breaks[-1], pieces.coefficients[-1]),
    ):
        distance = (abs(d) + abs(low) + abs(high)) / abs(c) if c else 0.0
        ends.append(start + sign * min(2.0 * distance + 1.0, LARGEST_MARGIN))
    return ends[0], ends[1]


def _response(y: Expression, link: str) -> Expression:
    return 1.0 / (1.0 + call("exp", -y)) if link == "logit" else y


def _logarithms(source: Source) -> tuple[Expression, Expression]:
    """Logarithms of the probability of a class and of all others."""
    p = name("p")
    rest, least = (1.0 - p, SMALLEST_COMPLEMENT) if source == "one" else (name("rest"), SMALLEST_PROBABILITY)
    return call("log", call("max", p, SMALLEST_PROBABILITY)), call("log", call("max", rest, least))


def domain(kind: Kind) -> tuple[float, float]:
    """Least and largest score."""
    return (0.0, 1.0) if kind == "probability" else (-LARGEST_MARGIN, LARGEST_MARGIN)
