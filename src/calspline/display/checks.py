"""What displays are given: names, functions to lay over a diagram, limits, series."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from calspline.arrays import Array
from calspline.options import check_increasing
from calspline.scores import check_numeric_array


def check_by_name(given: Any, name: str, alone: str | None) -> dict[str, Any]:
    """Several things by name as they are; one thing by the name ``alone``."""
    if not isinstance(given, Mapping):
        return {"" if alone is None else check_string(alone, "name"): given}
    if alone is not None:
        raise ValueError(f"name must be None when {name} is a mapping, which has names of its own; got {alone!r}")
    if not given:
        raise ValueError(f"{name} must hold at least one set")
    return {check_string(key, f"the names of {name}"): value for key, value in given.items()}


def check_string(value: Any, name: str) -> str:
    """Check that a name is a string."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a string; got {value!r}")
    return value


def classes_of(estimators: Mapping[str, Any]) -> Any:
    """The classes that classifiers have in common, in order; None if the first does not tell."""
    first, *others = estimators
    classes = getattr(estimators[first], "classes_", None)
    for name in others:
        other = getattr(estimators[name], "classes_", None)
        if not np.array_equal(np.asarray(classes), np.asarray(other)):
            raise ValueError(
                f"estimators must have the same classes_; {first!r} has {classes} and {name!r} has {other}"
            )
    return classes


def check_score_functions(curves: Any) -> dict[str, Callable[[Array], Any]]:
    """Functions of the score by name: callables, or calibrators of two classes fitted on probabilities."""
    if curves is None:
        return {}
    if not isinstance(curves, Mapping):
        raise TypeError(f'curves must be a mapping such as {{"spline": calibrator}}; got {type(curves).__name__}')
    return {check_string(name, "the names of curves"): _function(name, curve) for name, curve in curves.items()}


def _function(name: str, curve: Any) -> Callable[[Array], Any]:
    calibrate = getattr(curve, "calibrate", None)
    if calibrate is None:
        if not callable(curve):
            raise TypeError(f"curves[{name!r}] must be a fitted calibrator or a callable; got {type(curve).__name__}")
        return curve  # type: ignore[no-any-return]
    if len(getattr(curve, "classes_", (0, 1))) > 2:
        raise ValueError(f"curves[{name!r}] must be of two classes; it was fitted to {len(curve.classes_)}")
    if getattr(curve, "kind_", "probability") != "probability" and getattr(curve, "difference_", True):
        raise ValueError(f"curves[{name!r}] must be fitted on probabilities; it was fitted on margins")
    return calibrate  # type: ignore[no-any-return]


def function_values(values: Any, name: str, count: int) -> Array:
    """Check what a function of the score gave: as many finite numbers."""
    if np.shape(values) != (count,):
        raise ValueError(
            f"curves[{name!r}] must give one number for each of {count} scores; got shape {np.shape(values)}"
        )
    return check_numeric_array(values, f"what curves[{name!r}] gives")


def check_limits(limits: Any, *, least: float, largest: float, open_: bool) -> tuple[float, float]:
    """Check the limits of an axis of probabilities; ``open_`` excludes the ends."""
    array = check_increasing(limits, "limits", least=2)
    low, high = float(array[0]), float(array[-1])
    outside = low <= least or high >= largest if open_ else low < least or high > largest
    if len(array) != 2 or outside:
        where = f"({least:g}, {largest:g})" if open_ else f"[{least:g}, {largest:g}]"
        raise ValueError(f"limits must be two numbers in {where}; got {array.tolist()}")
    return low, high


def check_series(given: Any, name: str, count: int | None = None) -> dict[str, Array]:
    """Check named series of finite numbers, all of one length."""
    if not isinstance(given, Mapping) or not given:
        raise TypeError(f'{name} must be a mapping such as {{"before": values}}; got {given!r}')
    out = {}
    for key, values in given.items():
        out[check_string(key, f"the names of {name}")] = array = check_numeric_array(values, f"{name}[{key!r}]")
        count = len(array) if count is None and array.ndim == 1 else count
        if array.ndim != 1 or len(array) != count or count == 0:
            raise ValueError(f"{name}[{key!r}] must be one number for each of {count} epochs; got shape {array.shape}")
    return out
