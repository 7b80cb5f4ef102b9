"""Public names, signatures and fitted attributes are those of the table in ``public_names.txt``."""

import inspect
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import calspline
import calspline.display
import calspline.export

TABLE = Path(__file__).with_name("public_names.txt").read_text()
CALIBRATORS = [
    "SplineCalibrator",
    "SigmoidCalibrator",
    "IsotonicCalibrator",
    "BetaCalibrator",
    "TemperatureCalibrator",
    "ClippingCalibrator",
]


def signature(function):
    """Names, kinds and defaults of parameters."""
    plain = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for parameter in inspect.signature(function).parameters.values()
        if parameter.name not in ("self", "cls")
    ]
    return str(inspect.Signature(plain))


def own_methods(cls):
    """Public methods that are not scikit-learn's."""
    for name, value in inspect.getmembers(cls, callable):
        if not name.startswith("_") and value.__module__.startswith("calspline"):
            yield name, value


def estimator_lines(name, *fits):
    """A class with its methods, and its attributes after some fits."""
    cls = type(fits[0])
    yield f"{name}{signature(cls)}"
    for method, function in own_methods(cls):
        yield f"    .{method}{signature(function)}"
    names = {each for fitted in fits for each in dir(fitted)}
    attributes = sorted(each for each in names if each.endswith("_"))
    yield f"    {' '.join(each for each in attributes if each[0] != '_')}"


def surface():
    """All of it as text, a line for each name."""
    scores, y = np.linspace(0.1, 0.9, 40), np.arange(40) % 3 > 0
    three = np.column_stack([scores, 0.9 - scores, np.full(40, 0.1)])
    for name in CALIBRATORS:
        cls = getattr(calspline, name)
        fits = [cls().fit(scores, y), cls().fit(three, np.arange(40) % 3)]
        if name == "SplineCalibrator":
            fits.append(cls().fit(scores, y, by=np.arange(40) % 2))
        yield from estimator_lines(name, *fits)
    wrapper = calspline.CalibratedClassifierCV(LogisticRegression(), cv=2)
    wrapper.fit(scores[:, None], y)
    yield from estimator_lines("CalibratedClassifierCV", wrapper)
    done = {*CALIBRATORS, "CalibratedClassifierCV"}
    # Their constructors are internal: they come of a fit, or of a class method.
    results = {"CalibrationCurve", "ScoreHistogram"}
    for name in sorted({*calspline.__all__} - done):
        value = getattr(calspline, name)
        yield name if name in results else f"{name}{signature(value)}"
    for module in (calspline.export, calspline.display):
        for name in sorted(module.__all__):
            value = getattr(module, name)
            yield f"{module.__name__.removeprefix('calspline.')}.{name}{signature(value)}"


@pytest.mark.filterwarnings("ignore")
def test_names_and_signatures_are_those_of_the_table():
    assert "\n".join(surface()) + "\n" == TABLE


def test_completion_offers_public_names_only():
    assert set(dir(calspline)) == {
        "__version__",
        "display",
        "export",
        *calspline.__all__,
    }
    assert dir(calspline.export) == calspline.export.__all__
