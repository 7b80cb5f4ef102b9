"""Validation of options of functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from calspline._arrays import Array
from calspline._domains import Integer, Number, Numbers, Seed, Text
from calspline._domains import check_one_of as check_one_of


def check_number(
    value: Any, name: str, *, above: float = -np.inf, below: float = np.inf
) -> float:
    """Check that an option is a number strictly between two limits."""
    return Number(above, below).check(value, name)


def check_integer(value: Any, name: str, *, least: int) -> int:
    """Check that an option is an integer of at least ``least``."""
    return Integer(least).check(value, name)


def check_increasing(values: Any, name: str, *, least: int) -> Array:
    """Check that an option is a strictly increasing list of numbers."""
    return Numbers(least=least, increasing=True).check(values, name)


def check_seed(value: Any, name: str) -> int:
    """Check a seed: an integer, a RandomState or None, as in scikit-learn."""
    return Seed().check(value, name)


def check_text(value: Any, name: str) -> str:
    """Check that an option is a string."""
    return Text().check(value, name)


def check_by_name(given: Any, name: str, alone: str | None) -> dict[str, Any]:
    """Validate a mapping by name; a single object is named ``alone``."""
    if not isinstance(given, Mapping):
        given = {"" if alone is None else alone: given}
        name = "name"
    elif alone is not None:
        raise ValueError(
            f"name must be None when {name} is a mapping, which has names of its own; "
            f"got {alone!r}"
        )
    elif not given:
        raise ValueError(f"{name} must hold at least one set")
    else:
        name = f"the names of {name}"
    for key in given:
        if not isinstance(key, str):
            raise TypeError(f"{name} must be a string; got {key!r}")
    return dict(given)
