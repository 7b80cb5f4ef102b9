"""Calibrators as tables: the numbers of a map in dicts, lists, floats and strings.

They are what ``to_python``, ``to_javascript`` and ``to_c`` write; the evaluators of
these languages, in ``evaluators/``, read them. Every map has a ``type`` and the numbers
that this type needs; maps that wrap another map have it as ``base``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from calspline._arrays import Array
from calspline._input.scores import SCORE_LIMITS
from calspline.maps.curve import CalibrationCurve
from calspline.maps.evaluators import class_effects, logit, value_limits
from calspline.maps.model import Model
from calspline.maps.one_vs_rest import OneVsRest
from calspline.maps.parametric import BetaMap, Clipping, ConstantRates, Temperature
from calspline.maps.segmented import SegmentedCurve, flat_beyond
from calspline.maps.segmented_classes import SegmentedClasses
from calspline.maps.shifted import Shifted
from calspline.maps.structured import StructuredMap
from calspline.multiclass.one_vs_rest import LEAST_LOGIT
from calspline.transforms import LOGIT_CLIP, compact_logit_slope

Table = dict[str, Any]


def tables_of(model: Model) -> Table:
    """Tables of a model."""
    low, high = SCORE_LIMITS[model.kind.value_kind]
    return {
        "classes": model.n_classes,
        "scores": model.kind.value_kind,
        "low": low,
        "high": high,
        "map": map_table(model.map, model.kind.value_kind),
    }


def map_table(fitted: Any, scores: str) -> Table:
    """Table of a map."""
    if isinstance(fitted, Shifted):
        return _shift_table(fitted, scores)
    if isinstance(fitted, (CalibrationCurve, SegmentedCurve)):
        return _curve_table(fitted)
    if isinstance(fitted, BetaMap):
        of_margins = {"scores": scores}
        return {"type": "beta", **of_margins, "abc": [fitted.a, fitted.b, fitted.c]}
    if isinstance(fitted, Clipping):
        return {"type": "clipping", "least": fitted.p_min}
    if isinstance(fitted, OneVsRest):
        return _one_vs_rest_table(fitted, scores)
    if isinstance(fitted, StructuredMap):
        return _structured_table(fitted, scores)
    if isinstance(fitted, SegmentedClasses):
        return _class_effects_table(fitted, scores)
    if isinstance(fitted, Temperature):
        divisor = fitted.temperature
        return {"type": "temperature", "scores": scores, "temperature": divisor}
    if isinstance(fitted, ConstantRates):
        return {"type": "rates", "rates": fitted.rates.tolist()}
    raise TypeError(
        f"a {type(fitted).__name__} has no table for source code (see map_table in "
        "calspline.export.tables)"
    )


def _shift_table(fitted: Shifted, scores: str) -> Table:
    if fitted.curve is not None:
        return _curve_table(fitted.curve)
    base = map_table(fitted.base, scores)
    if len(fitted.log_ratios) == 2:
        return {
            "type": "odds",
            "odds": float(np.exp(fitted.log_odds_shift)),
            "base": base,
        }
    ratios = np.exp(fitted.log_ratios).tolist()
    return {"type": "ratios", "ratios": ratios, "base": base}


def _curve_table(fitted: CalibrationCurve | SegmentedCurve) -> Table:
    curve = fitted.curve if isinstance(fitted, SegmentedCurve) else fitted
    transform = curve.transform
    low, high = value_limits(curve)
    table: Table = {"type": "curve", "scale": transform.name}
    epsilon = transform.epsilon
    if transform.name == "logit":
        reach = LOGIT_CLIP if epsilon is None else logit(1.0 - epsilon, epsilon)
        table["scale_limits"] = [-reach, reach]
    elif transform.name == "compact_logit":
        assert epsilon is not None
        table["scale_limits"] = [epsilon, 1.0 - epsilon]
        table["slope"] = compact_logit_slope(epsilon)
    table |= {"origin": curve.origin, "unit": curve.unit}
    table |= {"pieces": pieces_of(curve.breaks, curve.coefficients)}
    table |= {"link": curve.link, "low": low, "high": high}
    if isinstance(fitted, SegmentedCurve) and fitted.has_effects:
        directions = flat_beyond(curve.breaks, fitted.directions)
        table["directions"] = directions.transpose(2, 1, 0).tolist()
        table["segments"] = [
            {
                "effects": column.effects.tolist(),
                "spread": (np.pi / 8.0 * column.spread).tolist(),
            }
            for column in fitted.columns
        ]
    return table


def pieces_of(breaks: Array, coefficients: Array) -> list[list[float]]:
    """Start of each piece, and its coefficients relative to the start."""
    starts = np.concatenate([breaks[:1], breaks])
    pieces: list[list[float]] = np.column_stack([starts, coefficients.T]).tolist()
    return pieces


def _one_vs_rest_table(fitted: OneVsRest, scores: str) -> Table:
    logits = fitted.logits if scores == "margin" else "as_given"
    inner = "probability" if logits == "softmax" else scores
    classes = [map_table(each, inner) for each in fitted.maps]
    table: Table = {"type": "one_vs_rest", "scores": inner, "logits": logits}
    if logits == "log_softmax":
        table["unit"] = fitted.unit
        table["floor"] = LEAST_LOGIT
    return table | {"maps": classes}


def _structured_table(fitted: StructuredMap, scores: str) -> Table:
    scale = fitted.scale
    table: Table = {"type": "structured", "scores": scores}
    table |= {"floor": scale.floor, "beta": scale.beta, "uniform": scale.uniform}
    if scale.unit is not None:
        table["unit"] = scale.unit
    table["pieces"] = pieces_of(fitted.breaks, fitted.coefficients)
    table["intercepts"] = fitted.b.tolist()
    if fitted.W is not None:
        table["matrix" if fitted.W.ndim == 2 else "diagonal"] = fitted.W.tolist()
    return table


def _class_effects_table(fitted: SegmentedClasses, scores: str) -> Table:
    base = map_table(fitted.base, scores)
    if not len(fitted.effects.common):
        return base
    common, tables = class_effects(fitted.effects)
    effects = [table.tolist() for table in tables]
    common_effects = common.tolist()
    return {
        "type": "class_effects",
        "common": common_effects,
        "effects": effects,
        "base": base,
    }
