"""Logits have no unit: no factor, no constant of a row and no order may change what is made of them."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_softmax, softmax
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss

from calspline import SplineCalibrator, TemperatureCalibrator
from calspline.export import to_python
from calspline.fits import structured as structured_fit
from calspline.fits.structured import StructuredFit

CALIBRATORS = {
    "structured": SplineCalibrator(scale="identity"),
    "monotone": SplineCalibrator(scale="identity", monotone=True),
    "one-vs-rest": SplineCalibrator(scale="identity", multiclass="ovr"),
    "temperature": TemperatureCalibrator(),
}
few = settings(max_examples=40, deadline=None)


def simulate(n, m, seed, truth="temperature"):
    """Logits, labels and true probabilities."""
    rng = np.random.default_rng([n, m, seed])
    z = rng.normal(0.0, 2.0, (n, m))
    eta = z
    if truth == "intercepts":
        eta = z + rng.normal(0.0, 0.8, m)
    p = softmax(eta, axis=1)
    y = (p.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    return z - z.mean(), np.minimum(y, m - 1), p


@few
@given(
    name=st.sampled_from(list(CALIBRATORS)),
    m=st.sampled_from([3, 4, 10, 40]),
    seed=st.integers(0, 10_000),
    exponent=st.floats(-6.0, 6.0),
    shift=st.floats(0.0, 100.0),
    masked=st.booleans(),
)
def test_factors_and_constants_of_rows_change_nothing(
    name, m, seed, exponent, shift, masked
):
    z, y, _ = simulate(200, m, seed)
    rng = np.random.default_rng(seed)
    if masked:
        out = rng.random(z.shape) < 0.1
        out[np.arange(len(y)), y] = False
        z = np.where(out, -1e5, z)
    expected = CALIBRATORS[name].fit(z, y).predict_proba(z)
    moved = 10.0**exponent * (z + rng.normal(0.0, shift, (len(y), 1)))
    found = CALIBRATORS[name].fit(moved, y).predict_proba(moved)
    np.testing.assert_allclose(found, expected, atol=1e-8)


@few
@given(
    name=st.sampled_from(list(CALIBRATORS)),
    m=st.sampled_from([3, 5, 40]),
    seed=st.integers(0, 10_000),
    exponent=st.floats(-280.0, 298.0),
)
def test_a_factor_of_any_size_changes_nothing(name, m, seed, exponent):
    z, y, _ = simulate(200, m, seed)
    expected = CALIBRATORS[name].fit(z, y).predict_proba(z)
    scaled = 10.0**exponent * z
    found = CALIBRATORS[name].fit(scaled, y).predict_proba(scaled)
    np.testing.assert_allclose(found, expected, atol=1e-9)


@few
@given(
    name=st.sampled_from(list(CALIBRATORS)),
    m=st.sampled_from([3, 5, 40]),
    seed=st.integers(0, 10_000),
    constant=st.booleans(),
)
def test_the_order_of_rows_and_of_classes_changes_nothing(name, m, seed, constant):
    z, y, _ = simulate(200, m, seed)
    y[:m] = np.arange(m)
    if constant:
        z[:, 1] = 0.5
    rng = np.random.default_rng(seed)
    rows, classes = rng.permutation(len(y)), rng.permutation(m)
    expected = CALIBRATORS[name].fit(z, y).predict_proba(z)
    turned = z[rows][:, classes]
    found = (
        CALIBRATORS[name]
        .fit(turned, np.argsort(classes)[y[rows]])
        .predict_proba(turned)
    )
    # Of many classes the matrix is found by L-BFGS, which stops a little sooner or
    # later.
    np.testing.assert_allclose(
        found, expected[rows][:, classes], atol=1e-6 if m < 33 else 1e-4
    )


@pytest.mark.slow
@pytest.mark.parametrize("scale", [1.0, 1e-2, 1e-6])
@pytest.mark.parametrize(
    ("m", "n"), [(5, 800), (10, 300), (10, 2000), (33, 2000), (100, 5000), (1000, 5000)]
)
def test_where_a_temperature_is_the_truth_little_is_lost_against_it(m, n, scale):
    losses = {"structured": [], "one-vs-rest": [], "temperature": []}
    for seed in range(3):
        z, y, p = simulate(n + 1000, m, seed)
        z *= scale
        for name, values in losses.items():
            out = CALIBRATORS[name].fit(z[:n], y[:n]).predict_proba(z[n:])
            values.append(-(p[n:] * np.log(out)).sum(axis=1).mean())
    most = np.mean(losses["temperature"]) + 0.01
    assert np.mean(losses["structured"]) < most
    # With five rows of each class, a curve for each is worse by up to 0.05.
    assert np.mean(losses["one-vs-rest"]) < most + (0.04 if m == 1000 else 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("scale", [1.0, 1e-6])
@pytest.mark.parametrize(("m", "n"), [(5, 800), (10, 2000), (33, 2000), (100, 5000)])
def test_where_a_temperature_is_not_enough_it_is_ahead(m, n, scale):
    z, y, p = simulate(n + 1000, m, 0, "intercepts")
    z *= scale
    losses = {}
    for name in ("structured", "one-vs-rest", "temperature"):
        out = CALIBRATORS[name].fit(z[:n], y[:n]).predict_proba(z[n:])
        losses[name] = -(p[n:] * np.log(out)).sum(axis=1).mean()
    assert losses["structured"] < losses["temperature"] - 0.03
    assert losses["one-vs-rest"] < losses["temperature"] - 0.03


def test_few_rows_of_probabilities_that_need_a_temperature_get_little_else():
    excess = []
    for seed in range(10):
        z, y, p = simulate(2300, 10, seed)
        q = softmax(2.0 * z, axis=1)
        out = SplineCalibrator().fit(q[:300], y[:300]).predict_proba(q[300:])
        excess.append((p[300:] * (np.log(p[300:]) - np.log(out))).sum(axis=1).mean())
    assert np.mean(excess) < 0.009


def test_separable_logits_have_finite_temperatures():
    y = np.arange(60) % 3
    for scale in (1e-6, 1.0, 1e6):
        z = scale * (2.0 * np.eye(3)[y] - 1.0)
        for calibrator in CALIBRATORS.values():
            p = calibrator.fit(z, y).predict_proba(z)
            assert np.all(np.isfinite(p))
            assert p[np.arange(60), y].min() > 0.9


@pytest.mark.parametrize("name", ["structured", "temperature"])
def test_rows_that_differ_by_a_constant_have_the_base_rates(name):
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], [10, 20, 30])
    for row in ([0.0, 0.0, 0.0], [0.0, 1.0, 2.0]):
        with pytest.warns(UserWarning, match="base rate"):
            calibrator = CALIBRATORS[name].fit(
                np.array(row) + rng.normal(0.0, 50.0, (60, 1)), y
            )
        np.testing.assert_allclose(
            calibrator.predict_proba([[-1.0, 5.0, 2.0]]),
            [[1 / 6, 1 / 3, 1 / 2]],
            atol=0.02,
        )


@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e5])
def test_files_and_exported_code_know_the_unit(scale):
    z, y, _ = simulate(500, 4, 0)
    z *= scale
    calibrator = SplineCalibrator(scale="identity").fit(z, y)
    expected = calibrator.predict_proba(z)
    back = SplineCalibrator.from_dict(
        json.loads(json.dumps(calibrator.to_dict(), allow_nan=False))
    )
    np.testing.assert_array_equal(back.predict_proba(z), expected)
    names = {}
    exec(to_python(calibrator), names)
    found = [names["calibrate"](row) for row in z[:50].tolist()]
    np.testing.assert_allclose(found, expected[:50], atol=1e-8)


@pytest.mark.parametrize("m", [4, 40])
@pytest.mark.parametrize("broken", [1e6, np.nan])
def test_a_fit_that_is_worse_than_the_temperature_is_not_used(m, broken, monkeypatch):
    z, y, _ = simulate(400, m, 0)
    p = softmax(1.5 * z, axis=1)
    name = "fit_joint" if m < 33 else "fit_many"
    fit = getattr(structured_fit, name)

    def gone_wrong(data, *args, **kwargs):
        found = fit(data, *args, **kwargs)
        return found._replace(loss=broken)

    monkeypatch.setattr(structured_fit, name, gone_wrong)
    with pytest.warns(ConvergenceWarning):
        calibrator = SplineCalibrator().fit(p, y)
    assert not calibrator.converged_
    out = calibrator.predict_proba(p)
    assert log_loss(y, out, labels=range(m)) <= log_loss(y, p, labels=range(m)) + 1e-3
    np.testing.assert_array_equal(np.argsort(out, axis=1), np.argsort(p, axis=1))
    assert np.all(np.isfinite(calibrator.interval(p)))


def test_a_fit_is_as_good_on_its_own_rows_as_it_says():
    z, y, _ = simulate(600, 5, 0, "intercepts")
    w = np.ones(len(y))
    seen = []

    def look(fitted, line):
        seen.append(fitted)
        return fitted.map

    original, structured_fit.average_map = structured_fit.average_map, look
    try:
        found = structured_fit.fit_structured(z.copy(), y, w, logits=True)
    finally:
        structured_fit.average_map = original
    fitted: StructuredFit = seen[0]
    unit = found.scale.unit
    tempered = -log_softmax(unit * z, axis=1)[np.arange(len(y)), y].sum()
    assert fitted.temperature_loss == pytest.approx(
        tempered, rel=0.01
    )  # but for the grain
    assert fitted.gain > 10.0
    assert not fitted.is_worse
