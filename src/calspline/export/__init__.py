"""Fitted calibrators as code: SQL, ONNX, PyTorch, Python, JavaScript and C.

Each function takes a fitted calibrator and returns what other systems run without this package.
The clip and the epsilon are part of the export, so the numbers are those of ``calibrate``, to 1e-9.
A score that ``calibrate`` would refuse has no probability: SQL gives NULL, ONNX, PyTorch, JavaScript and C
give NaN, and Python raises ValueError.

>>> import numpy as np
>>> import calspline.export
>>> rng = np.random.default_rng(0)
>>> p = rng.uniform(size=2000)
>>> cal = calspline.SplineCalibrator().fit(p, rng.random(2000) < p**2)
>>> code = {}
>>> exec(calspline.export.to_python(cal), code)
>>> round(code["calibrate"](0.5), 12) == cal.calibrate([0.5]).round(12)[0]
np.True_
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from calspline.export.code import to_c, to_javascript, to_python
    from calspline.export.onnx import to_onnx
    from calspline.export.sql import to_sql
    from calspline.export.torch import Calibrated, to_torch
    from calspline.expression import Expression, Formula

_HOMES = {
    "Calibrated": "calspline.export.torch",
    "to_c": "calspline.export.code",
    "to_javascript": "calspline.export.code",
    "to_onnx": "calspline.export.onnx",
    "to_python": "calspline.export.code",
    "to_sql": "calspline.export.sql",
    "to_torch": "calspline.export.torch",
}

PRECEDENCE = {"+": 1, "-": 1, "*": 2, "/": 2, "negative": 3}
ATOM = 4

__all__ = ["Calibrated", "to_c", "to_javascript", "to_onnx", "to_python", "to_sql", "to_torch"]


def formula_of(calibrator: Any, *, segments: bool = False) -> Formula:
    """What a calibrator computes, for a target to write; one that is not fitted, or has no export, is an error.

    So is one that was fitted with segments, if the target knows no ``segments``.
    """
    from calspline.calibrators import homes
    from calspline.calibrators.base import BaseCalibrator

    if not isinstance(calibrator, BaseCalibrator):
        raise TypeError(f"calibrator must be one of {', '.join(homes())}; got {type(calibrator).__name__}")
    formula = calibrator.formula()
    if formula.lookups and not segments:
        raise ValueError(
            "this calibrator was fitted with segments (by=), and an export does not know them; fit it without by "
            "to export one curve for all rows"
        )
    for label in (label for lookup in formula.lookups for label in lookup.labels):
        if not isinstance(label, (int, float, str)):
            raise TypeError(f"segments of type {type(label).__name__} have no export; use texts or numbers")
        if label in (float("inf"), float("-inf")):
            raise ValueError(f"segments must be finite to be exported; got {label}")
    return formula


@dataclass(frozen=True)
class Syntax:
    """How a language writes formulas.

    ``functions`` has its names of functions, where they differ; ``choice`` is its conditional, with the places
    ``{value}``, ``{low}``, ``{high}``, ``{inside}`` and ``{outside}``; ``cubic`` writes a curve, given its place ``z``
    as text, and weights if it is several (see :meth:`Program.blended`). Calls longer than ``width`` have their
    arguments in lines of their own.
    """

    number: Callable[[float], str]
    functions: Mapping[str, str]
    choice: str
    cubic: Callable[..., str]
    width: int | None = None

    def write(self, formula: Expression) -> str:
        """The formula as text."""
        return self._write(formula)[0]

    def _write(self, formula: Expression) -> tuple[str, int]:
        """Text, and how strongly its parts hold together."""
        operation = formula.operation
        if operation == "number":
            return self.number(formula.value), 3 if formula.is_negative else ATOM
        if operation == "name":
            return formula.value, ATOM
        if operation == "between":
            value, inside, outside = (self.write(argument) for argument in formula.arguments)
            low, high = map(self.number, formula.value)
            return self.choice.format(value=value, low=low, high=high, inside=inside, outside=outside), 0
        if operation == "cubic":
            x, *weights = formula.arguments
            return self.cubic(self.write(formula.value.place(x)), formula.value, *map(self.write, weights)), ATOM
        if operation not in PRECEDENCE:
            function, arguments = self.functions.get(operation, operation), [*map(self.write, formula.arguments)]
            text = f"{function}({', '.join(arguments)})"
            if self.width is not None and len(text) > self.width and len(arguments) > 1:
                listed = ",\n".join(arguments).replace("\n", "\n  ")
                text = f"{function}(\n  {listed}\n)"
            return text, ATOM
        strength = PRECEDENCE[operation]
        if operation == "negative":
            return "-" + self._part(formula.arguments[0], ATOM), strength
        left, right = formula.arguments
        # Rounding depends on the order of operations, so a + (b + c) keeps its parentheses.
        return f"{self._part(left, strength)} {operation} {self._part(right, strength + 1)}", strength

    def _part(self, formula: Expression, least: int) -> str:
        text, strength = self._write(formula)
        return text if strength >= least else f"({text})"


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'calspline.export' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
