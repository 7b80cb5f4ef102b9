"""Predictions for tensors and for arrays of other libraries."""

from __future__ import annotations

from typing import Any

import numpy as np

from calspline._arrays import is_tensor
from calspline.maps.evaluators import (
    NoEvaluatorError,
    evaluator_of,
    with_arrays,
)
from calspline.maps.model import Model
from calspline.maps.namespaces import namespace_of


def evaluate_array(model: Model, scores: Any, by: Any = None) -> Any:
    """Calibrated probabilities in the shape of the scores.

    They are computed by the library of the array, so gradients flow. None if NumPy is
    needed: scores are invalid, which is an error there, the library has no float64, or
    the map has no evaluator.
    """
    xp = namespace_of(scores)
    columns = scores.shape[1] if scores.ndim == 2 else 1
    is_one_score = model.n_classes == 2 and columns == 1
    is_shape_known = scores.ndim in (1, 2) and (
        is_one_score or (scores.ndim == 2 and columns == model.n_classes)
    )
    if not is_shape_known or not _has_float64(xp, scores):
        return None
    if model.n_classes == columns == 2 and model.kind.name == "margin":
        return None

    def convert(array: Any) -> Any:
        return xp.asarray(array, device=scores.device)

    n = scores.shape[0]
    places = model.check_segments(by, n)
    codes = [np.full(n, -1) for _ in model.segment_columns]
    if places is not None:
        codes = [np.asarray(column) for column in places.codes]
    segments = tuple(map(convert, codes))
    try:
        evaluator = with_arrays(evaluator_of(model), convert)
    except NoEvaluatorError:
        return None
    x = xp.astype(scores, xp.float64)
    if is_one_score:
        p = evaluator.one(xp, xp.reshape(x, (-1,)), segments)
        p = xp.reshape(p, scores.shape)
    elif model.n_classes == 2:
        second = evaluator.pair(xp, x[:, 0], x[:, 1], segments)
        p = xp.stack([1.0 - second, second], axis=1)
    else:
        p = evaluator.rows(xp, x, segments)
    if bool(xp.any(xp.isnan(p))):
        return None
    return xp.astype(p, scores.dtype)


def _has_float64(xp: Any, scores: Any) -> bool:
    """Whether scores are floating-point numbers on a device with float64."""
    if is_tensor(scores):
        return bool(scores.is_floating_point() and scores.device.type != "mps")
    known = xp.__array_namespace_info__().dtypes(device=scores.device)
    return "float64" in known and bool(xp.isdtype(scores.dtype, "real floating"))


def both_columns(model: Model, p: Any) -> Any:
    """Probabilities of all classes."""
    if model.n_classes > 2 or (p.ndim == 2 and p.shape[1] == 2):
        return p
    xp = namespace_of(p)
    p = xp.reshape(p, (-1,))
    return xp.stack([1.0 - p, p], axis=1)
