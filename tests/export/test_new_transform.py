"""A transform from outside this package is one object: everything else reads it."""

import numpy as np
import pytest

import calspline
from calspline import SplineCalibrator
from calspline.export import to_c, to_javascript, to_onnx, to_python, to_sql
from calspline.expression import call
from calspline.transforms import TRANSFORMS, Definition, Transform, steepness

BENT = Definition(
    "bent",
    formula=lambda p, u, epsilon: u / (1.0 + call("abs", u) / 1000.0),
    inverse=lambda x, epsilon: TRANSFORMS["logit"].inverse(x / (1.0 - np.abs(x) / 1000.0), epsilon),
    slope=lambda p, u, epsilon: steepness(p) / (1.0 + np.abs(u) / 1000.0) ** 2,
)


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setitem(TRANSFORMS, "bent", BENT)


@pytest.fixture
def calibrator():
    rng = np.random.default_rng(0)
    p = rng.uniform(size=3000)
    return SplineCalibrator(transform="bent").fit(p, rng.random(3000) < p**2)


SCORES = np.concatenate([[0.0, 1e-300, 1e-20, 1.0 - 1e-12, 1.0], np.linspace(0.01, 0.99, 50)])


def test_it_fits_and_calibrates_and_has_intervals(calibrator):
    assert calibrator.transform_ == "bent"
    np.testing.assert_allclose(calibrator.calibrate([0.3, 0.8]), [0.09, 0.64], atol=0.03)
    low, high = calibrator.interval([0.5])[0]
    assert low < calibrator.calibrate([0.5])[0] < high


def test_its_slope_and_inverse_are_those_of_the_formula():
    p, h = np.array([0.02, 0.3, 0.9]), 1e-7
    bent = Transform("bent")
    np.testing.assert_allclose(bent.inverse(bent(p)), p)
    np.testing.assert_allclose(bent.derivative(p), (bent(p + h) - bent(p - h)) / (2 * h), rtol=1e-5)


def test_it_is_saved_and_loaded(calibrator, tmp_path):
    calspline.save(calibrator, tmp_path / "model.json")
    loaded = calspline.load(tmp_path / "model.json")
    np.testing.assert_array_equal(loaded.calibrate(SCORES), calibrator.calibrate(SCORES))


def test_it_is_exported_to_sql(calibrator, duckdb, sqlite):
    for database in (duckdb, sqlite):
        expression = to_sql(calibrator, "score", dialect=database.dialect)
        got = database.run([expression], ["score"], SCORES.reshape(-1, 1).tolist())[:, 0]
        np.testing.assert_allclose(got, calibrator.calibrate(SCORES), rtol=0.0, atol=1e-9)


def test_it_is_exported_as_code(calibrator, python, node, gcc, tmp_path):
    calibrate = python(to_python(calibrator))
    for got in (
        [calibrate(score) for score in SCORES.tolist()],
        node(to_javascript(calibrator), SCORES.tolist()),
        gcc(to_c(calibrator), SCORES, tmp_path),
    ):
        np.testing.assert_allclose(got, calibrator.calibrate(SCORES), rtol=0.0, atol=1e-9)


def test_it_is_exported_to_onnx(calibrator):
    runtime = pytest.importorskip("onnxruntime")
    model = to_onnx(calibrator).SerializeToString()
    session = runtime.InferenceSession(model, providers=["CPUExecutionProvider"])
    pairs = np.column_stack([1.0 - SCORES, SCORES])
    np.testing.assert_allclose(
        session.run(None, {"scores": pairs})[0], calibrator.predict_proba(pairs), rtol=0.0, atol=1e-9
    )


def test_a_name_that_nobody_registered_is_still_an_error():
    with pytest.raises(ValueError, match="transform must be one of logit, asinh_logit, compact_logit, identity, bent"):
        Transform("bentt")
