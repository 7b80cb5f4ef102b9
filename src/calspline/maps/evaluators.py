"""Evaluate fitted maps in any array library, with gradients where it has them.

:func:`evaluator_of` gathers the numbers of a model in a tree of small records. Their
arrays are NumPy's until :func:`with_arrays` replaces them by those of another library;
``evaluator(xp, scores, codes)`` then computes what ``calibrate`` computes, with the
functions of the array namespace ``xp``. ``to_torch`` wraps this in a module, and
calibrators use it for arrays that are not NumPy's.

Classes are along the last axis. The curves of several classes are stacked, so that all
of them are evaluated at once. A number that is the same for all classes is a float.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calspline._expression import Pieces, rounded
from calspline._input.scores import LARGEST_MARGIN, ROUNDING, ROW_SUM_TOLERANCE, Kind
from calspline.maps.cells import cell_table
from calspline.maps.curve import CalibrationCurve
from calspline.maps.model import Model
from calspline.maps.one_vs_rest import OneVsRest
from calspline.maps.parametric import (
    FARTHEST_LOG_ODDS,
    LARGEST_EXPONENT,
    LEAST_PROBABILITY,
    MAX_LOG_ODDS,
    BetaMap,
    Clipping,
    ConstantRates,
    Temperature,
)
from calspline.maps.segmented import SegmentedCurve, flat_beyond
from calspline.maps.segmented_classes import LEAST as LEAST_BEFORE_SEGMENTS
from calspline.maps.segmented_classes import SegmentedClasses
from calspline.maps.shifted import Shifted
from calspline.maps.structured import StructuredMap
from calspline.multiclass.one_vs_rest import LEAST_LOGIT
from calspline.multiclass.scale import MAX_EXPONENT
from calspline.transforms import (
    ASINH_SCALE,
    SMALLEST_COMPLEMENT,
    SMALLEST_PROBABILITY,
    Transform,
    compact_logit_slope,
)

Tensor = Any
Values = Any
"""A float, or an array with a number for each class."""
Codes = Sequence[Tensor]
"""Places of segments, an integer array for each column of them."""
BinaryEvaluator = Callable[[Any, Tensor, "Tensor | None", Codes], Tensor]
RowEvaluator = Callable[[Any, Tensor, Codes], Tensor]

SMALLEST = {
    64: float(np.finfo(np.float64).smallest_subnormal),
    32: float(np.finfo(np.float32).smallest_subnormal),
}
"""The smallest positive number of a type, by its bits."""


# Operations on rows


def softmax(xp: Any, y: Tensor) -> Tensor:
    """Positive numbers that sum to one, in the proportions of ``exp(y)``."""
    powers = xp.exp(y - xp.max(y, axis=-1, keepdims=True))
    p = powers / xp.sum(powers, axis=-1, keepdims=True)
    return xp.clip(p, min=float(np.finfo(np.float32).tiny))


def log_softmax(xp: Any, y: Tensor) -> Tensor:
    """Logarithms of the softmax."""
    y = y - xp.max(y, axis=-1, keepdims=True)
    return y - xp.log(xp.sum(xp.exp(y), axis=-1, keepdims=True))


def in_unit(xp: Any, logits: Tensor, unit: float, least: float) -> Tensor:
    """Logits times ``unit``, less the largest of each row, none below ``least``."""
    d = logits - xp.max(logits, axis=-1, keepdims=True)
    return unit * xp.clip(d, min=least / unit)


def normalize(xp: Any, q: Tensor) -> Tensor:
    """Divide each row by its sum."""
    return q / xp.sum(q, axis=-1, keepdims=True)


def rest_of(xp: Any, p: Tensor) -> Tensor:
    """The probability of all other classes.

    For the most probable class it is the sum of the others: ``1 - p`` would round
    small probabilities away.
    """
    places = xp.arange(p.shape[-1], device=p.device)
    is_top = places == xp.argmax(p, axis=-1, keepdims=True)
    others = xp.sum(xp.where(is_top, 0.0, p), axis=-1, keepdims=True)
    return xp.where(is_top, others, 1.0 - p)


# Elementwise operations


def clip(xp: Any, x: Tensor, low: Values, high: Values) -> Tensor:
    """Limit ``x``; one limit may be a float and the other an array."""
    if isinstance(low, float) == isinstance(high, float):
        return xp.clip(x, min=low, max=high)
    return xp.clip(xp.clip(x, min=low), max=high)


def log_above(xp: Any, x: Tensor, least: float) -> Tensor:
    """``log(max(x, least))``, where ``least`` may be zero in the type of ``x``."""
    smallest = SMALLEST[xp.finfo(x.dtype).bits]
    if least >= smallest:
        return xp.log(xp.clip(x, min=least))
    log = xp.log(xp.clip(x, min=smallest))
    return xp.where(x >= smallest, log, float(np.log(least)))


def look_up(xp: Any, table: Tensor, places: Tensor) -> Tensor:
    """Elements or rows of a table."""
    found = xp.take(table, xp.reshape(places, (-1,)), axis=0)
    return xp.reshape(found, (*places.shape, *table.shape[1:]))


def log_odds(xp: Any, p: Tensor, rest: Tensor | None) -> Tensor:
    """Log-odds of a probability, given that of everything else if it is known."""
    least = SMALLEST_PROBABILITY
    if rest is None:
        rest = 1.0 - p
        least = SMALLEST_COMPLEMENT
    return log_above(xp, p, SMALLEST_PROBABILITY) - log_above(xp, rest, least)


# Two classes, or several against the rest


@dataclass(frozen=True, eq=False)
class ScaleValues:
    """How scores are placed on the scale of the curves that are ``members``.

    ``inside`` and ``slope`` are those of the compact logit.
    """

    name: str
    members: Values | None
    limits: tuple[Values, Values]
    inside: tuple[Values, Values]
    slope: Values

    def __call__(self, xp: Any, p: Tensor, rest: Tensor | None) -> Tensor:
        """Place scores."""
        if self.name == "identity":
            return p
        u = log_odds(xp, p, rest)
        if self.name == "logit":
            return clip(xp, u, *self.limits)
        if self.name == "asinh_logit":
            return ASINH_SCALE * xp.asinh(u / ASINH_SCALE)
        share = p if rest is None else p / (p + rest)
        low, high = self.inside
        line = clip(xp, self.slope * u + 0.5, *self.limits)
        return xp.where((share >= low) & (share <= high), line, share)


@dataclass(frozen=True, eq=False)
class EffectValues:
    """The effects of one column of segments, by direction.

    The last of the ``effects`` is zero, that of a new segment; ``spread`` is the
    variance that a new segment has instead.
    """

    effects: tuple[Tensor, ...]
    spread: tuple[Values, ...]


def segment_rows(xp: Any, codes: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """Rows of a table with ``n`` rows, of which the last is for new segments."""
    is_new = (codes < 0) | (codes >= n - 1)
    return xp.where(is_new, n - 1, codes), is_new


def horner(xp: Any, columns: tuple[Tensor, ...], place: Tensor, t: Tensor) -> Tensor:
    """Evaluate the polynomials in these places of a table."""
    y = look_up(xp, columns[0], place)
    for column in columns[1:]:
        y = y * t + look_up(xp, column, place)
    return y


@dataclass(frozen=True, eq=False)
class CellValues:
    """Curves on cells of equal width; see :class:`~calspline.maps.cells.CellTable`.

    The cells of several curves are in one list, where those of a class begin at its
    ``first``; ``last`` is the number of its last cell.
    """

    start: Values
    per_unit: Values
    first: Tensor | None
    last: Values
    columns: tuple[Tensor, ...]

    def place(self, xp: Any, x: Tensor) -> tuple[Tensor, Tensor]:
        """The cell in which each value lies, and where it lies there."""
        s = (x - self.start) * self.per_unit
        cell = clip(xp, xp.floor(s), 0.0, self.last)
        t = s - cell
        place = xp.astype(cell, xp.int32)
        return (place if self.first is None else self.first + place), t


@dataclass(frozen=True, eq=False)
class PieceValues:
    """Curves in pieces between breaks.

    The pieces of several curves are in one list, where those of a class begin at its
    ``first``; each is preceded by its break. ``farthest`` limits the distance from a
    break, so that powers of it are finite. See :class:`~calspline._expression.Tables`
    for ``stretch``, ``high`` and ``low``.
    """

    breaks: Tensor
    first: Tensor | None
    stretch: Tensor | None
    high: Tensor
    low: Tensor | None
    unit: Values
    farthest: float
    columns: tuple[Tensor, ...]

    def place(self, xp: Any, x: Tensor) -> tuple[Tensor, Tensor]:
        """The piece in which each value lies, and its distance from the break."""
        piece = self._pieces(xp, x)
        if self.stretch is not None:
            x = x * look_up(xp, self.stretch, piece)
        t = x - look_up(xp, self.high, piece)
        if self.low is not None:
            t = t - look_up(xp, self.low, piece)
        return piece, xp.clip(t / self.unit, min=-self.farthest, max=self.farthest)

    def _pieces(self, xp: Any, x: Tensor) -> Tensor:
        if self.first is None:
            return xp.searchsorted(self.breaks, x, side="right")
        # Bisection: the number of pieces of each class is a power of two.
        piece = self.first + xp.zeros_like(x, dtype=self.first.dtype)
        step = self.breaks.shape[0] // self.first.shape[0] // 2
        while step:
            right = x >= look_up(xp, self.breaks, piece + step)
            piece = xp.where(right, piece + step, piece)
            step //= 2
        return piece


@dataclass(frozen=True, eq=False)
class CurveEvaluator:
    """A curve, or one for each class; those of segments are in pieces.

    ``of_log_odds`` tells which are curves of log-odds.
    """

    scales: tuple[ScaleValues, ...]
    curve: CellValues | PieceValues
    directions: tuple[tuple[Tensor, ...], ...]
    segments: tuple[EffectValues, ...]
    limits: tuple[Values, Values]
    of_log_odds: Values

    def __call__(self, xp: Any, p: Tensor, rest: Tensor | None, codes: Codes) -> Tensor:
        """Calibrated probabilities."""
        x = self.scales[0](xp, p, rest)
        for scale in self.scales[1:]:
            x = xp.where(scale.members, scale(xp, p, rest), x)
        place, t = self.curve.place(xp, x)
        y = horner(xp, self.curve.columns, place, t)
        if self.segments:
            y = self._move(xp, y, place, t, codes)
        y = clip(xp, y, *self.limits)
        if self.of_log_odds is False:
            return y
        p = 1.0 / (1.0 + xp.exp(-y))
        return p if self.of_log_odds is True else xp.where(self.of_log_odds, p, y)

    def _move(
        self, xp: Any, y: Tensor, piece: Tensor, t: Tensor, codes: Codes
    ) -> Tensor:
        """Add the effects of segments; take those of new ones towards zero."""
        directions = [horner(xp, columns, piece, t) for columns in self.directions]
        variance = 1.0
        for column, code in zip(self.segments, codes, strict=True):
            row, is_new = segment_rows(xp, code, column.effects[0].shape[0])
            if self.curve.first is not None:
                is_new = xp.reshape(is_new, (*is_new.shape, 1))
            spread = 0.0
            for k, r in enumerate(directions):
                y = y + look_up(xp, column.effects[k], row) * r
                spread = spread + column.spread[k] * (r * r)
            variance = variance + xp.where(is_new, spread, 0.0)
        return y / xp.sqrt(variance)


@dataclass(frozen=True, eq=False)
class BetaEvaluator:
    """Beta curves, one or one for each class."""

    of_margins: bool
    a: Values
    b: Values
    c: Values

    def __call__(self, xp: Any, p: Tensor, rest: Tensor | None, codes: Codes) -> Tensor:
        """Calibrated probabilities."""
        x = p if self.of_margins else log_odds(xp, p, rest)
        x = xp.clip(x, min=-FARTHEST_LOG_ODDS, max=FARTHEST_LOG_ODDS)
        s = xp.log(1.0 + xp.exp(-xp.abs(x)))
        log_p = xp.clip(x, max=0.0) - s
        minus_log_rest = xp.clip(x, min=0.0) + s
        y = self.a * log_p + self.b * minus_log_rest + self.c
        y = xp.clip(y, min=-MAX_LOG_ODDS, max=MAX_LOG_ODDS)
        return 1.0 / (1.0 + xp.exp(-y))


@dataclass(frozen=True, eq=False)
class ClippingEvaluator:
    """Clipping of the probabilities of two classes."""

    p_min: float

    def __call__(self, xp: Any, p: Tensor, rest: Tensor | None, codes: Codes) -> Tensor:
        """Clipped probabilities."""
        q = xp.clip(p, min=self.p_min)
        r = xp.clip(1.0 - p if rest is None else rest, min=self.p_min)
        return q / (q + r)


@dataclass(frozen=True, eq=False)
class ShiftEvaluator:
    """A shift of the base rates of two classes."""

    base: BinaryEvaluator
    odds: float

    def __call__(self, xp: Any, p: Tensor, rest: Tensor | None, codes: Codes) -> Tensor:
        """Shifted probabilities."""
        q = self.base(xp, p, rest, codes)
        odds = self.odds * q
        return odds / (odds + (1.0 - q))


# Rows of several classes


@dataclass(frozen=True, eq=False)
class OneVsRestEvaluator:
    """A curve for each class, then rows are normalized."""

    logits: str | None
    unit: float
    needs_rest: bool
    classes: BinaryEvaluator

    def __call__(self, xp: Any, p: Tensor, codes: Codes) -> Tensor:
        """Calibrated probabilities."""
        if self.logits == "tempered":
            p = in_unit(xp, p, self.unit, LEAST_LOGIT)
        if self.logits in ("tempered", "softmax"):
            p = softmax(xp, p)
        rest = rest_of(xp, p) if self.needs_rest else None
        return normalize(xp, self.classes(xp, p, rest, codes))


@dataclass(frozen=True, eq=False)
class StructuredEvaluator:
    """``softmax(s(u) + W u + b)`` of tempered scores ``u``; see ``StructuredMap``."""

    of_margins: bool
    floor: float
    unit: float | None
    beta: float
    uniform: float
    curve: CellValues | PieceValues
    b: Tensor
    W: Tensor | None

    def __call__(self, xp: Any, p: Tensor, codes: Codes) -> Tensor:
        """Calibrated probabilities."""
        if not self.of_margins:
            z = log_above(xp, p, float(np.exp(self.floor)))
        elif self.unit is None:
            z = log_softmax(xp, p)
        else:
            z = in_unit(xp, p, self.unit, -MAX_EXPONENT)
        q = softmax(xp, self.beta * xp.clip(z, min=self.floor))
        u = xp.log((1.0 - self.uniform) * q + self.uniform / self.b.shape[0])
        y = horner(xp, self.curve.columns, *self.curve.place(xp, u)) + self.b
        if self.W is not None and self.W.ndim == 2:
            y = y + xp.matmul(u, self.W)
        elif self.W is not None:
            y = y + u * self.W
        return softmax(xp, y)


@dataclass(frozen=True, eq=False)
class TemperatureEvaluator:
    """``softmax(z / temperature)``."""

    of_margins: bool
    temperature: float

    def __call__(self, xp: Any, p: Tensor, codes: Codes) -> Tensor:
        """Calibrated probabilities."""
        z = p if self.of_margins else xp.log(xp.clip(p, min=LEAST_PROBABILITY))
        d = (z - xp.max(z, axis=-1, keepdims=True)) / self.temperature
        return normalize(xp, xp.exp(xp.clip(d, min=-LARGEST_EXPONENT)))


@dataclass(frozen=True, eq=False)
class RatesEvaluator:
    """The same probabilities for every row."""

    rates: Tensor

    def __call__(self, xp: Any, p: Tensor, codes: Codes) -> Tensor:
        """The rates, once for every row."""
        return 0.0 * p + self.rates


@dataclass(frozen=True, eq=False)
class RowClippingEvaluator:
    """Clipping of rows of probabilities."""

    p_min: float

    def __call__(self, xp: Any, p: Tensor, codes: Codes) -> Tensor:
        """Clipped probabilities."""
        return normalize(xp, xp.clip(p, min=self.p_min))


@dataclass(frozen=True, eq=False)
class ClassEffectsEvaluator:
    """A temperature and intercepts for each segment, on top of another evaluator.

    ``tables`` has a row for each segment of a column and, last, one for a new segment:
    intercepts, if there are any, and the temperature. ``common`` is added to them.
    """

    base: RowEvaluator
    common: Tensor
    tables: tuple[Tensor, ...]

    def __call__(self, xp: Any, p: Tensor, codes: Codes) -> Tensor:
        """Calibrated probabilities."""
        logs = xp.log(xp.clip(self.base(xp, p, codes), min=LEAST_BEFORE_SEGMENTS))
        effects = self.common
        for table, code in zip(self.tables, codes, strict=True):
            place, _ = segment_rows(xp, code, table.shape[0])
            effects = effects + look_up(xp, table, place)
        y = effects[..., -1:] * logs
        if self.common.shape[0] > 1:
            y = y + effects[..., :-1]
        return softmax(xp, y)


@dataclass(frozen=True, eq=False)
class RowShiftEvaluator:
    """A shift of the base rates of several classes."""

    base: RowEvaluator
    ratios: Tensor

    def __call__(self, xp: Any, p: Tensor, codes: Codes) -> Tensor:
        """Shifted probabilities."""
        return normalize(xp, self.ratios * self.base(xp, p, codes))


# Checked scores in, probabilities out


@dataclass(frozen=True, eq=False)
class Evaluator:
    """What ``calibrate`` computes; invalid scores give NaN."""

    kind: Kind
    is_difference: bool
    largest_margin: float
    map: Any

    def one(self, xp: Any, p: Tensor, codes: Codes = ()) -> Tensor:
        """The second of two classes, given its score."""
        valid = self._is_valid(xp, p)
        result = self.map(xp, self._clean(xp, p, valid), None, codes)
        return xp.where(valid, result, xp.nan)

    def pair(self, xp: Any, first: Tensor, second: Tensor, codes: Codes = ()) -> Tensor:
        """The second of two classes, given the scores of both."""
        valid = self._is_valid(xp, first) & self._is_valid(xp, second)
        if not self.is_difference:
            # Two margins are refused if the fit was on one, as in NumPy.
            valid = valid & (xp.abs(first + second - 1.0) <= ROW_SUM_TOLERANCE)
        rest = self._clean(xp, first, valid)
        p = self._clean(xp, second, valid)
        if self.is_difference:
            p = p - rest
        return xp.where(valid, self.map(xp, p, rest, codes), xp.nan)

    def rows(self, xp: Any, p: Tensor, codes: Codes = ()) -> Tensor:
        """All classes, given a score for each."""
        low = xp.min(p, axis=-1, keepdims=True)
        high = xp.max(p, axis=-1, keepdims=True)
        valid = self._is_valid(xp, low) & self._is_valid(xp, high)
        if self.kind == "probability":
            total = xp.sum(p, axis=-1, keepdims=True)
            valid = valid & (xp.abs(total - 1.0) <= ROW_SUM_TOLERANCE)
        result = self.map(xp, self._clean(xp, p, valid), codes)
        return xp.where(valid, result, xp.nan)

    def _clean(self, xp: Any, p: Tensor, valid: Tensor) -> Tensor:
        """Clip rounded probabilities; replace invalid scores by some that are valid."""
        p = xp.where(valid, p, 0.5)
        return xp.clip(p, min=0.0, max=1.0) if self.kind == "probability" else p

    def _is_valid(self, xp: Any, p: Tensor) -> Tensor:
        if self.kind == "probability":
            return xp.abs(p - 0.5) <= 0.5 + ROUNDING
        return xp.abs(p) <= self.largest_margin


def with_arrays(node: Any, convert: Callable[[Any], Any], of: type = np.ndarray) -> Any:
    """The same tree of records with its arrays converted."""
    if isinstance(node, of):
        return convert(node)
    if isinstance(node, tuple):
        return tuple(with_arrays(each, convert, of) for each in node)
    if not is_dataclass(node) or isinstance(node, type):
        return node
    values = ((field.name, getattr(node, field.name)) for field in fields(node))
    return type(node)(**{name: with_arrays(each, convert, of) for name, each in values})


# From maps to evaluators

TABLES: dict[Any, tuple[int, float]] = {np.float64: (3, 2e-10), np.float32: (1, 1e-6)}
"""The degree of the polynomials in tables, and their largest error."""


class NoEvaluatorError(TypeError):
    """A kind of map, or a transform, has no evaluator."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what} has no evaluator for tensors (see Builder in "
            "calspline.maps.evaluators)"
        )


class Builder:
    """Build evaluators whose numbers are of one type."""

    def __init__(self, kind: Kind, dtype: Any, cells: bool) -> None:
        self.kind: Kind = kind
        self.dtype = dtype
        self.cells = cells
        self.largest = float(np.finfo(dtype).max)

    def array(self, values: ArrayLike, *, finite: bool = True) -> NDArray[Any]:
        """Numbers in the type of the evaluator."""
        with np.errstate(over="ignore"):
            array = np.asarray(values, dtype=self.dtype)
        if finite and np.isinf(array).any():
            raise ValueError(
                "dtype must be torch.float64 for this calibrator: its scores are "
                "beyond float32"
            )
        return array

    def values(self, values: Sequence[Any]) -> Any:
        """A number if it is the same for all classes, else an array."""
        if all(value == values[0] for value in values):
            return values[0]
        if isinstance(values[0], (bool, np.bool_)):
            return np.array(values)
        return self.array(np.clip(values, -self.largest, self.largest))

    def binary(self, fitted: Any) -> BinaryEvaluator:
        """The evaluator of a map of two classes."""
        if isinstance(fitted, Shifted):
            if fitted.curve is not None:
                return self.curves([fitted.curve])
            odds = float(np.exp(fitted.log_odds_shift))
            return ShiftEvaluator(self.binary(fitted.base), odds)
        if isinstance(fitted, Clipping):
            return ClippingEvaluator(fitted.p_min)
        if isinstance(fitted, BetaMap):
            return self.betas([fitted])
        if isinstance(fitted, (CalibrationCurve, SegmentedCurve)):
            return self.curves([fitted])
        raise NoEvaluatorError(f"a {type(fitted).__name__}")

    def rows(self, fitted: Any) -> RowEvaluator:
        """The evaluator of a map of several classes."""
        if isinstance(fitted, Shifted):
            ratios = self.array(np.exp(fitted.log_ratios))
            return RowShiftEvaluator(self.rows(fitted.base), ratios)
        if isinstance(fitted, SegmentedClasses):
            return self._class_effects(fitted)
        if isinstance(fitted, OneVsRest):
            return self._one_vs_rest(fitted)
        if isinstance(fitted, StructuredMap):
            return self._structured(fitted)
        if isinstance(fitted, Temperature):
            return TemperatureEvaluator(self.kind == "margin", fitted.temperature)
        if isinstance(fitted, Clipping):
            return RowClippingEvaluator(fitted.p_min)
        if isinstance(fitted, ConstantRates):
            return RatesEvaluator(self.array(fitted.rates / fitted.rates.sum()))
        raise NoEvaluatorError(f"a {type(fitted).__name__}")

    def betas(self, maps: Sequence[BetaMap]) -> BetaEvaluator:
        """Beta curves, one or one for each class."""
        a, b, c = (
            self.values([getattr(each, name) for each in maps]) for name in "abc"
        )
        return BetaEvaluator(self.kind == "margin", a, b, c)

    def curves(
        self, maps: Sequence[CalibrationCurve | SegmentedCurve]
    ) -> CurveEvaluator:
        """Curves, one or one for each class."""
        segmented = [
            each
            for each in maps
            if isinstance(each, SegmentedCurve) and each.has_effects
        ]
        curves = [
            each.curve if isinstance(each, SegmentedCurve) else each for each in maps
        ]
        pieces = [
            Pieces(c.breaks.tolist(), c.coefficients.T.tolist(), c.origin, c.unit)
            for c in curves
        ]
        links = [curve.link == "logit" for curve in curves]
        low, high = zip(*(curve.value_limits for curve in curves), strict=True)
        # The effects of segments are evaluated in pieces.
        curve = self._pieces(pieces) if segmented else self._table(pieces)
        return CurveEvaluator(
            self._scales(curves),
            curve,
            self._directions(maps, len(curve.columns[0])) if segmented else (),
            self._segments(maps) if segmented else (),
            (self.values(low), self.values(high)),
            self.values(links),
        )

    def _table(self, pieces: Sequence[Pieces]) -> CellValues | PieceValues:
        """Cells if wanted, and if all curves are smooth enough, else pieces."""
        if not self.cells:
            return self._pieces(pieces)
        degree, error = TABLES[self.dtype]
        rounding = float(np.finfo(self.dtype).eps)
        tables = []
        for each in pieces:
            table = cell_table(each, degree, error, rounding)
            if table is None:
                return self._pieces(pieces)
            tables.append(table)
        sizes = [table.coefficients.shape[1] for table in tables]
        columns = np.concatenate([table.coefficients for table in tables], axis=1)
        first = np.cumsum([0, *sizes[:-1]]).astype(np.int32)
        start = self.array([table.start for table in tables])
        per_unit = self.array([1.0 / table.width for table in tables])
        return CellValues(
            self.values(start.tolist()),
            self.values(per_unit.tolist()),
            first if len(tables) > 1 else None,
            self.values([size - 1.0 for size in sizes]),
            tuple(map(self.array, columns)),
        )

    def _pieces(self, pieces: Sequence[Pieces]) -> PieceValues:
        tables = [each.tables(self.dtype) for each in pieces]
        several = len(tables) > 1
        size = max(len(table.high) for table in tables)
        if several:
            size = 1 << int(np.ceil(np.log2(size)))

        def joined(rows: list[Any], fill: float) -> NDArray[Any]:
            padded = np.full((len(rows), size), fill)
            for k, row in enumerate(rows):
                padded[k, : len(row)] = row
            return self.array(padded.ravel(), finite=np.isfinite(fill))

        breaks = tables[0].breaks
        if several:
            nothing = np.array([-np.inf])
            rows = [np.concatenate([nothing, table.breaks]) for table in tables]
            breaks = joined(rows, np.inf)
        low = joined([table.low for table in tables], 0.0)
        stretch = None
        if any(table.stretch is not None for table in tables):
            ones = np.ones(size)
            rows = [ones if t.stretch is None else t.stretch for t in tables]
            stretch = joined(rows, 1.0)
        return PieceValues(
            self.array(breaks, finite=not several),
            size * np.arange(len(tables), dtype=np.int32) if several else None,
            stretch,
            joined([table.high for table in tables], 0.0),
            low if low.any() else None,
            self.values([each.unit for each in pieces]),
            min(self.largest, LARGEST_MARGIN),
            tuple(
                joined([table.columns[power] for table in tables], 0.0)
                for power in range(4)
            ),
        )

    def _scales(self, curves: Sequence[CalibrationCurve]) -> tuple[ScaleValues, ...]:
        """The scales that curves have, each with its members."""
        names = sorted({curve.transform.name for curve in curves})
        scales = []
        for name in names:
            members = [curve.transform.name == name for curve in curves]
            which = None if len(names) == 1 else np.array(members)
            of_name = [c.transform for c in curves if c.transform.name == name]
            # The numbers of classes that are no members are not used.
            epsilons = [
                curve.transform.epsilon if is_member else of_name[0].epsilon
                for curve, is_member in zip(curves, members, strict=True)
            ]
            scales.append(self._scale(name, which, epsilons))
        return tuple(scales)

    def _scale(
        self, name: str, members: Any, epsilons: Sequence[float | None]
    ) -> ScaleValues:
        """A scale, given the epsilon of each curve."""
        nothing = (0.0, 0.0)
        if name == "logit":
            reach = [Transform(name, e).log_odds_clip for e in epsilons]
            limits = (self.values([-each for each in reach]), self.values(reach))
            return ScaleValues(name, members, limits, nothing, 0.0)
        if name in ("identity", "asinh_logit"):
            return ScaleValues(name, members, nothing, nothing, 0.0)
        if name != "compact_logit":
            raise NoEvaluatorError(f"the scale {name!r}")
        low = np.array(epsilons, dtype=np.float64)
        high = 1.0 - low
        # A score of exactly 1 is outside, even if 1 - epsilon is rounded to 1.
        last = rounded(np.minimum(high, np.nextafter(1.0, 0.0)), self.dtype, up=False)
        first = rounded(low, self.dtype, up=True)
        return ScaleValues(
            name,
            members,
            (self.values(low.tolist()), self.values(high.tolist())),
            (self.values(first.tolist()), self.values(last.tolist())),
            self.values([compact_logit_slope(each) for each in low.tolist()]),
        )

    def _directions(
        self, maps: Sequence[Any], n_columns: int
    ) -> tuple[tuple[Any, ...], ...]:
        """The functions that segments differ by, in the pieces of the curves."""
        size = n_columns // len(maps)
        n_directions = max(each.directions.shape[1] for each in maps)
        columns = np.zeros((n_directions, 4, len(maps), size))
        for j, each in enumerate(maps):
            pieces = flat_beyond(each.curve.breaks, each.directions)
            n_pieces, n_own = pieces.shape[1:]
            columns[:n_own, :, j, :n_pieces] = pieces.transpose(2, 0, 1)
        flat = columns.reshape(n_directions, 4, -1)
        return tuple(tuple(map(self.array, powers)) for powers in flat)

    def _segments(self, maps: Sequence[Any]) -> tuple[EffectValues, ...]:
        """The effects of segments, by column."""
        n_directions = max(each.directions.shape[1] for each in maps)
        segments = []
        for c in range(len(maps[0].columns)):
            columns = [each.columns[c] for each in maps]
            effects = []
            spread = []
            for k in range(n_directions):
                table = np.column_stack([column.effect(k) for column in columns])
                effects.append(self.array(table if len(maps) > 1 else table[:, 0]))
                variances = [
                    float(column.spread[k]) if k < len(column.spread) else 0.0
                    for column in columns
                ]
                spread.append(self.values([np.pi / 8.0 * v for v in variances]))
            segments.append(EffectValues(tuple(effects), tuple(spread)))
        return tuple(segments)

    def _one_vs_rest(self, fitted: OneVsRest) -> OneVsRestEvaluator:
        logits: str | None = None
        of_columns = self
        if self.kind == "margin":
            logits = fitted.logits
            if logits != "as_given":
                of_columns = Builder("probability", self.dtype, self.cells)
        maps: Any = fitted.maps
        classes: Any = None
        if isinstance(maps[0], BetaMap):
            classes = of_columns.betas(maps)
            needs_rest = of_columns.kind == "probability"
        elif maps[0].common_curve is None:
            raise NoEvaluatorError(f"a {type(maps[0]).__name__}")
        else:
            classes = of_columns.curves(maps)
            needs_rest = any(scale.name != "identity" for scale in classes.scales)
        return OneVsRestEvaluator(logits, fitted.unit, needs_rest, classes)

    def _structured(self, fitted: StructuredMap) -> StructuredEvaluator:
        scale = fitted.scale
        pieces = Pieces(fitted.breaks.tolist(), fitted.coefficients.T.tolist())
        W = None if fitted.W is None else self.array(fitted.W.T)
        return StructuredEvaluator(
            self.kind == "margin",
            scale.floor,
            scale.unit,
            scale.beta,
            scale.uniform,
            self._table([pieces]),
            self.array(fitted.b),
            W,
        )

    def _class_effects(self, fitted: SegmentedClasses) -> RowEvaluator:
        base = self.rows(fitted.base)
        effects = fitted.effects
        if not len(effects.common):
            return base
        total, tables = effects.on_logs()
        arrays = tuple(map(self.array, tables))
        return ClassEffectsEvaluator(base, self.array(total), arrays)


def evaluator_of(
    model: Model, dtype: Any = np.float64, *, cells: bool = False
) -> Evaluator:
    """The evaluator of a model, with arrays of NumPy.

    With ``cells``, smooth curves become tables of cells of equal width. They are up to
    five times as fast, but take some milliseconds to build.
    """
    builder = Builder(model.kind.value_kind, dtype, cells)
    build = builder.binary if model.n_classes == 2 else builder.rows
    return Evaluator(
        builder.kind,
        model.kind.is_difference,
        min(LARGEST_MARGIN, builder.largest),
        build(model.map),
    )
