"""Calibrators by name.

Each calibrator is declared once: its file declares the class, with its options, what it stores and how it is
exported, and a line here gives it a name. The public names of the package, ``CalibratedClassifierCV(method=...)``, the
command line's ``--method``, :func:`~calspline.load` and the JSON schema of saved models all read this list. Classes are
imported when they are asked for, because scikit-learn takes seconds to import on a slow machine: several times as long
as all else that ``calspline apply`` does. The process of a command hands its calibrators to nobody, so they need not be
estimators there, and :func:`do_without_sklearn` says so before the first of them is imported. Everywhere else they are.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from calspline.calibrators.base import BaseCalibrator
    from calspline.options import Domain

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
    return find_class(_HOMES[name].rpartition(".")[2])


def find_class(name: str) -> type[BaseCalibrator]:
    """The class of this name of its own, as a saved model has it."""
    found: type[BaseCalibrator] = getattr(import_module(homes()[name]), name)
    return found


def classes() -> dict[str, type[BaseCalibrator]]:
    """Every class, by its own name, as a saved model names it."""
    return {name: find_class(name) for name in homes()}


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


_without_sklearn = False


def do_without_sklearn() -> None:
    """Have calibrators that are imported from now on be no estimators of scikit-learn."""
    global _without_sklearn
    _without_sklearn = True


def estimator_bases() -> tuple[type[Any], ...]:
    """What a calibrator derives from."""
    if _without_sklearn:
        return (PlainEstimator,)
    from sklearn.base import BaseEstimator, ClassifierMixin

    return ClassifierMixin, BaseEstimator


class PlainEstimator:
    """Options as scikit-learn's estimators have them."""

    _parameter_constraints: ClassVar[dict[str, Domain]] = {}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The options of the constructor."""
        return {name: getattr(self, name) for name in sorted(self._parameter_constraints)}

    def __repr__(self) -> str:
        usual = type(self)().get_params()
        changed = [f"{name}={value!r}" for name, value in self.get_params().items() if value != usual[name]]
        return f"{type(self).__name__}({', '.join(changed)})"
