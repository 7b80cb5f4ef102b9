"""One small adapter per calibrator, ours and the peers', each with its defaults.

An adapter takes calibration probabilities of all classes, labels and test
probabilities, and returns the calibrated ones. Imports stay inside, so that a package
that is not installed is missed only by its own adapters.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

import numpy as np

from benchmarks.arena.experiments import Array, Kind, Labels

Adapter = Callable[[Array, Labels, Array], Any]
BOTH: tuple[Kind, ...] = ("binary", "multiclass")


class Rival(NamedTuple):
    """A calibrator: its name, where it comes from, what it takes and how it is called."""

    name: str
    package: str
    module: str
    kinds: tuple[Kind, ...]
    calibrate: Adapter


def ours(name: str, options: dict[str, Any], p: Array, y: Labels, test: Array) -> Any:
    """A calibrator of calspline."""
    import calspline

    model = getattr(calspline, name)(**options)
    if p.shape[1] == 2:
        p, test = p[:, 1], test[:, 1]
    return model.fit(p, y).predict_proba(test)


def scikit_learn(method: str, p: Array, y: Labels, test: Array) -> Any:
    """CalibratedClassifierCV of scikit-learn, around a model that hands its input on."""
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.frozen import FrozenEstimator
    from sklearn.model_selection import KFold

    class Given(ClassifierMixin, BaseEstimator):
        def __init__(self, n_classes: int = 2) -> None:
            self.n_classes = n_classes
            self.classes_ = np.arange(n_classes)

        def fit(self, X: Array, y: Labels) -> Given:
            return self

        def predict_proba(self, X: Array) -> Array:
            return X

        def predict(self, X: Array) -> Labels:
            return np.asarray(np.argmax(X, axis=1))

    # A frozen model is refitted on no fold; plain folds spare classes with fewer rows
    # than folds.
    model = CalibratedClassifierCV(
        FrozenEstimator(Given(p.shape[1])), method=method, ensemble=False, cv=KFold(2)
    )
    return model.fit(p, y).predict_proba(test)


def betacal(p: Array, y: Labels, test: Array) -> Any:
    """Beta calibration with three parameters."""
    from betacal import BetaCalibration

    return BetaCalibration(parameters="abm").fit(p[:, 1], y).predict(test[:, 1])


def venn_abers(p: Array, y: Labels, test: Array) -> Any:
    """Inductive Venn-Abers, its two probabilities merged as the package does."""
    from venn_abers import VennAbersCalibrator

    return VennAbersCalibrator().predict_proba(p_cal=p, y_cal=y, p_test=test)


def probmetrics(
    method: str, options: dict[str, Any], p: Array, y: Labels, test: Array
) -> Any:
    """A method of probmetrics by its own name."""
    from probmetrics.calibrators import get_calibrator

    return get_calibrator(method, **options).fit(p, y).predict_proba(test)


def splinecalib(p: Array, y: Labels, test: Array) -> Any:
    """Package of the paper's author; its ``fit`` returns nothing."""
    from splinecalib import SplineCalib

    if p.shape[1] == 2:
        p, test = p[:, 1], test[:, 1]
    model = SplineCalib()
    model.fit(p, y)
    return model.calibrate(test)


def splinator(p: Array, y: Labels, test: Array) -> Any:
    """Piecewise linear logistic regression, which wants a column."""
    from splinator.estimators import LinearSplineLogisticRegression

    return LinearSplineLogisticRegression().fit(p[:, 1:], y).predict(test[:, 1:])


def probcal(name: str, p: Array, y: Labels, test: Array) -> Any:
    """A calibrator of probcal."""
    import probcal

    return getattr(probcal, name)().fit(p[:, 1], y).predict_proba(test[:, 1])


def _ours(
    name: str, calibrator: str, kinds: tuple[Kind, ...] = BOTH, **options: Any
) -> Rival:
    return Rival(
        name, "calspline", "calspline", kinds, partial(ours, calibrator, options)
    )


def _scikit_learn(method: str) -> Rival:
    return Rival(
        f"scikit-learn {method}",
        "scikit-learn",
        "sklearn",
        BOTH,
        partial(scikit_learn, method),
    )


def _probmetrics(
    name: str, method: str, kinds: tuple[Kind, ...], **options: Any
) -> Rival:
    call = partial(probmetrics, method, options)
    return Rival(
        f"probmetrics {name}", "probmetrics", "probmetrics.calibrators", kinds, call
    )


def _probcal(name: str, calibrator: str) -> Rival:
    return Rival(
        f"probcal {name}",
        "probcal",
        "probcal",
        ("binary",),
        partial(probcal, calibrator),
    )


RIVALS: list[Rival] = [
    _ours("calspline", "SplineCalibrator"),
    _ours("calspline monotone", "SplineCalibrator", monotone=True),
    _ours("calspline ovr", "SplineCalibrator", ("multiclass",), multiclass="ovr"),
    _ours("calspline sigmoid", "SigmoidCalibrator"),
    _ours("calspline isotonic", "IsotonicCalibrator"),
    _ours("calspline beta", "BetaCalibrator"),
    _ours("calspline temperature", "TemperatureCalibrator"),
    _ours("calspline clipping", "ClippingCalibrator"),
    _scikit_learn("sigmoid"),
    _scikit_learn("isotonic"),
    _scikit_learn("temperature"),
    Rival("betacal", "betacal", "betacal", ("binary",), betacal),
    Rival("venn-abers", "venn-abers", "venn_abers", ("binary",), venn_abers),
    _probmetrics("temperature", "temp-scaling", BOTH),
    _probmetrics("quadratic", "quadratic-scaling", ("binary",)),
    _probmetrics("SVS", "svs", ("multiclass",), svs_print_init_info=False),
    _probmetrics("SMS", "sms", ("multiclass",), sms_print_init_info=False),
    Rival("splinecalib", "splinecalib", "splinecalib", BOTH, splinecalib),
    Rival("splinator", "splinator", "splinator.estimators", ("binary",), splinator),
    _probcal("spline", "SplineCalibrator"),
    _probcal("centred isotonic", "CenteredIsotonicCalibrator"),
]


class Present(NamedTuple):
    """The calibrators that can run, the versions of their packages, and why others cannot."""

    rivals: list[Rival]
    versions: dict[str, str]
    missing: dict[str, str]


def installed(rivals: Iterable[Rival] = RIVALS) -> Present:
    """Which calibrators can be imported."""
    here, versions, missing = [], {}, {}
    for rival in rivals:
        if rival.package not in versions and rival.package not in missing:
            try:
                module = importlib.import_module(rival.module)
            except ImportError as error:
                missing[rival.package] = str(error)
            else:
                versions[rival.package] = _version(rival.package, module)
        if rival.package in versions:
            here.append(rival)
    return Present(here, versions, missing)


def _version(package: str, module: Any) -> str:
    """The version installed; that which a checkout says of itself comes first."""
    try:
        return str(getattr(module, "__version__", None) or version(package)).partition(
            "+"
        )[0]
    except PackageNotFoundError:
        return "of unknown version"
