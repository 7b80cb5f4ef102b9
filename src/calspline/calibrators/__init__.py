"""Calibrators by name.

A calibrator is registered here only: the public names of the package,
``CalibratedClassifierCV(method=...)``, the option ``--method`` of the command line and
:func:`~calspline.load` read this table. Classes are imported when they are used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from calspline.calibrators.base import BaseCalibrator

_HOMES = {
    "spline": "calspline.calibrators.spline.SplineCalibrator",
    "sigmoid": "calspline.calibrators.baselines.SigmoidCalibrator",
    "isotonic": "calspline.calibrators.baselines.IsotonicCalibrator",
    "beta": "calspline.calibrators.baselines.BetaCalibrator",
    "temperature": "calspline.calibrators.baselines.TemperatureCalibrator",
    "clipping": "calspline.calibrators.baselines.ClippingCalibrator",
}


def names() -> tuple[str, ...]:
    """Names of all calibrators, the spline first."""
    return tuple(_HOMES)


def homes() -> dict[str, str]:
    """The module of each calibrator, by the name of its class."""
    places = (home.rpartition(".") for home in _HOMES.values())
    return {cls: module for module, _, cls in places}


def find(name: str) -> type[BaseCalibrator]:
    """The class of the calibrator of this name."""
    return find_class(_HOMES[name].rpartition(".")[2])


def find_class(name: str) -> type[BaseCalibrator]:
    """The class with this class name, as it is stored in a saved model."""
    cls: type[BaseCalibrator] = getattr(import_module(homes()[name]), name)
    return cls


def classes() -> dict[str, type[BaseCalibrator]]:
    """All classes by their class names, as stored in saved models."""
    return {name: find_class(name) for name in homes()}
