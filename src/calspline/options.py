"""Options: what a constructor or a function may be told."""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calspline.arrays import Array
from calspline.scores import check_numeric_array


def check_one_of(value: Any, name: str, choices: tuple[Any, ...]) -> None:
    """Check that an option is one of a few names."""
    if isinstance(value, np.generic):
        value = value.item()
    if not any(type(value) is type(choice) and value == choice for choice in choices):
        shown = ", ".join(repr(choice) for choice in choices)
        raise ValueError(f"{name} must be one of {shown}; got {value!r}")


def check_number(value: Any, name: str, *, above: float = -np.inf, below: float = np.inf, also: str = "") -> float:
    """Check that an option is a number strictly between two limits."""
    limits = f"a number in ({above:g}, {below:g}){also}"
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real):
        raise _wrong(value, name, limits)
    if not above < float(value) < below:
        raise ValueError(f"{name} must be {limits}; got {value!r}")
    return float(value)


def check_integer(value: Any, name: str, *, least: int, also: str = "") -> int:
    """Check that an option is an integer of at least ``least``."""
    expected = f"an integer of at least {least}{also}"
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Integral):
        raise _wrong(value, name, expected)
    if value < least:
        raise ValueError(f"{name} must be {expected}; got {value!r}")
    return int(value)


def _wrong(value: Any, name: str, expected: str) -> Exception:
    kind = ValueError if isinstance(value, (str, numbers.Real)) else TypeError
    return kind(f"{name} must be {expected}; got {value!r}")


def check_increasing(values: Any, name: str, *, least: int) -> Array:
    """Check that an option is a strictly increasing list of numbers."""
    array = check_numeric_array(values, name)
    if array.ndim != 1 or len(array) < least:
        raise ValueError(f"{name} must be one list of at least {least} numbers; got shape {array.shape}")
    steps = np.diff(array)
    if len(steps) and steps.min() <= 0.0:
        at = int(np.argmax(steps <= 0.0)) + 1
        raise ValueError(f"{name} must be sorted, without repeats; item {at} is {array[at]:g} after {array[at - 1]:g}")
    return array


def check_not_negative(value: Any, name: str, also: str = "") -> float:
    """Check that an option is a number of at least zero; infinity will do."""
    expected = f"a number of at least 0{also}"
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real):
        raise _wrong(value, name, expected)
    if not float(value) >= 0.0:
        raise ValueError(f"{name} must be {expected}; got {value!r}")
    return float(value)


def check_positive_list(values: Any, name: str) -> Array:
    """Check that an option is a list of positive numbers."""
    array = check_numeric_array(values, name)
    if array.ndim != 1 or len(array) == 0 or array.min() <= 0.0:
        raise ValueError(f"{name} must be one list of positive numbers; got {values!r}")
    return array


def check_seed(value: Any, name: str) -> int:
    """A seed from an integer, a RandomState (a new one every time) or None (always 0)."""
    if value is None:
        return 0
    if isinstance(value, np.random.RandomState):
        return int(value.randint(2**31))
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Integral) or not 0 <= int(value) < 2**32:
        raise ValueError(f"{name} must be an integer in [0, 2**32), a RandomState or None; got {value!r}")
    return int(value)


def check_fitted_calibrator(value: Any, n_classes: int) -> None:
    """Check that an option is a fitted calibrator of as many classes."""
    classes = classes_of_calibrator(value)
    if len(classes) != n_classes:
        raise ValueError(f"calibrator must be of the {n_classes} classes of predictions; it has {len(classes)}")


def classes_of_calibrator(value: Any) -> NDArray[Any]:
    """The classes of what has to be a fitted calibrator."""
    methods = ("calibrate", "predict_proba", "get_params", "to_dict")
    if isinstance(value, type) or not all(callable(getattr(value, name, None)) for name in methods):
        shown = value.__name__ if isinstance(value, type) else type(value).__name__
        raise TypeError(f"calibrator must be a fitted calibrator of calspline; got {shown}")
    classes = getattr(value, "classes_", None)
    if classes is None:
        raise ValueError(f"calibrator must be fitted; this {type(value).__name__} is not")
    return np.asarray(classes)


def check_text(value: Any, name: str) -> str:
    """Check that an option is a string."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a string; got {type(value).__name__}")
    return value


def check_by_name(given: Any, name: str, alone: str | None) -> dict[str, Any]:
    """Several things by name as they are; one thing by the name ``alone``."""
    if not isinstance(given, Mapping):
        given, name = {"" if alone is None else alone: given}, "name"
    elif alone is not None:
        raise ValueError(f"name must be None when {name} is a mapping, which has names of its own; got {alone!r}")
    elif not given:
        raise ValueError(f"{name} must hold at least one set")
    else:
        name = f"the names of {name}"
    for key in given:
        if not isinstance(key, str):
            raise TypeError(f"{name} must be a string; got {key!r}")
    return dict(given)
