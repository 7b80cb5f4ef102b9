"""One adapter per calibrator: how it is made, fitted and asked, with its defaults.

An adapter hands on what it gets: where a library wants a column or two, numbers are put
into that shape and anything else is passed as it came.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Library:
    """A calibrator. ``fit`` and ``say`` take one score a row; ``many`` says whether they take a matrix too.

    ``wrong`` is made with an option that does not exist; ``intercept`` says whether the
    method can move a constant; ``any_number`` whether scores outside [0, 1] are
    documented to be fine.
    """

    name: str
    package: str
    module: str
    make: Callable[[], Any]
    fit: Callable[[Any, Any, Any, Any], Any]
    say: Callable[[Any, Any], Any]
    weights: bool = False
    many: bool = False
    wrong: Callable[[], Any] | None = None
    intercept: bool = True
    any_number: bool = False

    @property
    def version(self) -> str | None:
        """Of what is installed; None where nothing is."""
        try:
            module = importlib.import_module(self.module)
        except ImportError:
            return None
        try:
            return version(self.package)
        except PackageNotFoundError:
            return str(module.__version__)


def fit_plainly(model: Any, scores: Any, y: Any, weight: Any) -> Any:
    """``fit(scores, y)``, with weights where there are some; what it returns is not relied on."""
    if weight is None:
        model.fit(scores, y)
    else:
        model.fit(scores, y, sample_weight=weight)
    return model


def column(scores: Any) -> Any:
    """Scores as a column, in the container that they came in."""
    if hasattr(scores, "to_frame"):
        return scores.to_frame()
    if isinstance(scores, list):
        return [[score] for score in scores]
    if isinstance(scores, np.ndarray) and scores.ndim == 1:
        return scores.reshape(-1, 1)
    return scores


def pair(scores: Any) -> Any:
    """Numbers as probabilities of both classes; anything else twice, so that the library sees it."""
    array = np.asarray(scores)
    if array.ndim != 1:
        return scores
    return (
        np.column_stack([1 - array, array])
        if array.dtype.kind in "fiu"
        else np.column_stack([array, array])
    )


def _calspline(name: str, **options: Any) -> Library:
    def make() -> Any:
        import calspline

        return getattr(calspline, name)(**options)

    def wrong() -> Any:
        model = make()
        names = [option for option in model.get_params() if option != "random_state"]
        return model.set_params(**{names[0]: "magic"}) if names else None

    return Library(
        f"calspline {name.removesuffix('Calibrator').lower()}",
        "calspline",
        "calspline",
        make,
        fit_plainly,
        lambda model, scores: model.calibrate(scores),
        weights=True,
        many=True,
        wrong=None
        if name in ("IsotonicCalibrator", "TemperatureCalibrator")
        else wrong,
        any_number=True,
    )


def _scikit_learn(method: str) -> Library:
    """CalibratedClassifierCV around a model whose scores are what it is given."""

    def make(method: str = method) -> Any:
        from sklearn.base import BaseEstimator, ClassifierMixin
        from sklearn.calibration import CalibratedClassifierCV
        from sklearn.frozen import FrozenEstimator

        class Given(ClassifierMixin, BaseEstimator):
            classes_: Any

            def fit(self, X: Any, y: Any) -> Any:
                return self

            def predict(self, X: Any) -> Any:
                return np.zeros(len(X))

        class Margins(Given):
            def decision_function(self, X: Any) -> Any:
                array = np.asarray(X)
                return array[:, 0] if array.ndim == 2 else array

        class Pairs(Given):
            def predict_proba(self, X: Any) -> Any:
                array = np.asarray(X)
                return pair(array[:, 0]) if array.ndim == 2 else array

        class Rows(Given):
            def predict_proba(self, X: Any) -> Any:
                return X

        models = [Pairs() if method == "temperature" else Margins(), Rows()]
        for model, n_classes in zip(models, (2, 3), strict=True):
            model.classes_ = np.arange(n_classes)
        return [
            CalibratedClassifierCV(FrozenEstimator(model), method=method)
            for model in models
        ]

    def fit(models: Any, scores: Any, y: Any, weight: Any) -> Any:
        several = (
            isinstance(scores, np.ndarray) and scores.ndim == 2 and scores.shape[1] > 2
        )
        model = models[several]
        kinds = np.unique(np.asarray(y, dtype=object).astype(str))
        if len(kinds) == (3 if several else 2):
            model.estimator.estimator.classes_ = np.unique(
                y
            )  # a real model has learnt its labels
        rows = np.arange(len(y))
        model.cv = [(rows, rows)]  # all rows calibrate, whatever their number
        return fit_plainly(model, scores if several else column(scores), y, weight)

    def say(model: Any, scores: Any) -> Any:
        if isinstance(model, list):
            model = model[0]
        several = (
            isinstance(scores, np.ndarray) and scores.ndim == 2 and scores.shape[1] > 2
        )
        p = model.predict_proba(scores if several else column(scores))
        return p if several else p[:, 1]

    return Library(
        f"scikit-learn {method}",
        "scikit-learn",
        "sklearn",
        make,
        fit,
        say,
        weights=True,
        many=True,
        wrong=lambda: make("magic"),
        intercept=method != "temperature",
        any_number=method != "temperature",
    )


def _spline(package: str, module: str) -> Library:
    """splinecalib, and the copy of it in ml-insights; ``fit`` returns nothing."""

    def make(**options: Any) -> Any:
        return importlib.import_module(module).SplineCalib(**options)

    return Library(
        package,
        package,
        module,
        make,
        fit_plainly,
        lambda model, scores: model.calibrate(scores),
        many=True,
        wrong=lambda: make(logodds_eps="magic"),
    )


def _netcal(name: str, module: str, *, intercept: bool = True) -> Library:
    def make() -> Any:
        return getattr(importlib.import_module(module), name)()

    return Library(
        f"netcal {name}",
        "netcal",
        module,
        make,
        fit_plainly,
        lambda model, scores: model.transform(scores),
        intercept=intercept,
    )


def _probcal(name: str, *, intercept: bool = True) -> Library:
    def make() -> Any:
        return getattr(importlib.import_module("probcal"), name)()

    return Library(
        f"probcal {name}",
        "probcal",
        "probcal",
        make,
        fit_plainly,
        lambda model, scores: model.predict_proba(scores),
        intercept=intercept,
    )


def _betacal() -> Library:
    def make(parameters: str = "abm") -> Any:
        return importlib.import_module("betacal").BetaCalibration(parameters=parameters)

    return Library(
        "betacal",
        "betacal",
        "betacal",
        make,
        fit_plainly,
        lambda model, scores: model.predict(scores),
        weights=True,
        wrong=lambda: make("magic"),
    )


def _venn_abers() -> Library:
    def fit(model: Any, scores: Any, y: Any, weight: Any) -> Any:
        model.fit(pair(scores), y)
        return model

    return Library(
        "venn-abers",
        "venn-abers",
        "venn_abers",
        lambda: importlib.import_module("venn_abers").VennAbers(),
        fit,
        lambda model, scores: model.predict_proba(pair(scores))[0][:, 1],
    )


def _splinator() -> Library:
    def make(**options: Any) -> Any:
        return importlib.import_module(
            "splinator.estimators"
        ).LinearSplineLogisticRegression(**options)

    return Library(
        "splinator",
        "splinator",
        "splinator.estimators",
        make,
        lambda model, scores, y, weight: fit_plainly(model, column(scores), y, weight),
        lambda model, scores: model.predict(column(scores)),
        wrong=lambda: make(monotonicity="magic"),
        any_number=True,
    )


LIBRARIES = [
    *map(
        _calspline,
        (
            "SplineCalibrator",
            "SigmoidCalibrator",
            "IsotonicCalibrator",
            "BetaCalibrator",
            "TemperatureCalibrator",
        ),
    ),
    *map(_scikit_learn, ("sigmoid", "isotonic", "temperature")),
    _betacal(),
    _spline("splinecalib", "splinecalib"),
    _spline("ml-insights", "ml_insights"),
    _netcal("LogisticCalibration", "netcal.scaling"),
    _netcal("BetaCalibration", "netcal.scaling"),
    _netcal("TemperatureScaling", "netcal.scaling", intercept=False),
    _netcal("IsotonicRegression", "netcal.binning"),
    _venn_abers(),
    _probcal("SplineCalibrator"),
    _probcal("BetaCalibrator"),
    _probcal("IsotonicCalibrator"),
    _splinator(),
]
