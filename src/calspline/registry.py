"""Calibrators by name.

Each calibrator is declared once: its file declares the class, with its options, what it stores and how it is
exported, and a line here gives it a name. The public names of the package, ``CalibratedClassifierCV(method=...)``, the
command line's ``--method``, :func:`~calspline.load` and the JSON schema of saved models all read this list. Classes are
imported when they are asked for, because scikit-learn takes seconds to import on a slow machine.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from calspline.calibrators.base import BaseCalibrator

_HOMES = {
    "spline": "calspline.calibrators.spline.SplineCalibrator",
    "sigmoid": "calspline.calibrators.sigmoid.SigmoidCalibrator",
    "isotonic": "calspline.calibrators.isotonic.IsotonicCalibrator",
    "beta": "calspline.calibrators.beta.BetaCalibrator",
    "temperature": "calspline.calibrators.temperature.TemperatureCalibrator",
    "clipping": "calspline.calibrators.clipping.ClippingCalibrator",
}


def names() -> tuple[str, ...]:
    """Names of all calibrators, the spline first."""
    return tuple(_HOMES)


def homes() -> dict[str, str]:
    """The module of each calibrator, by the name of its class; nothing is imported."""
    places = (home.rpartition(".") for home in _HOMES.values())
    return {cls: module for module, _, cls in places}


def find(name: str) -> type[BaseCalibrator]:
    """The class of the calibrator of this name."""
    module, _, cls = _HOMES[name].rpartition(".")
    found: type[BaseCalibrator] = getattr(import_module(module), cls)
    return found


def find_class(name: str) -> type[BaseCalibrator]:
    """The class of this name of its own, as a saved model has it."""
    return find(next(key for key, home in _HOMES.items() if home.rpartition(".")[2] == name))


def classes() -> dict[str, type[BaseCalibrator]]:
    """Every class, by its own name, as a saved model names it."""
    found = (find(name) for name in _HOMES)
    return {cls.__name__: cls for cls in found}


def register(name: str, home: str) -> None:
    """Add a calibrator from outside this package.

    Parameters
    ----------
    name : str
        What ``CalibratedClassifierCV(method=name)`` and ``calspline fit --method name`` call it.
    home : str
        Where its class is, as ``"package.module.Class"``; the class derives from
        :class:`~calspline.calibrators.base.BaseCalibrator`, and its own name is not taken yet.
    """
    cls = home.rpartition(".")[2]
    if name in _HOMES and _HOMES[name] != home:
        raise ValueError(f"name must be new; {name!r} is {_HOMES[name]}")
    if name not in _HOMES and cls in homes():
        raise ValueError(f"home must be a class with a new name; there is a {cls} already")
    _HOMES[name] = home
