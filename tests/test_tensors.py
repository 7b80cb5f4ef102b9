"""Arrays of other libraries in, the same kind, device and type out."""

import array_api_strict as strict
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin

from calspline import (
    BetaCalibrator,
    CalibratedClassifierCV,
    ClippingCalibrator,
    IsotonicCalibrator,
    SigmoidCalibrator,
    SplineCalibrator,
    TemperatureCalibrator,
    compare,
    evaluate,
    report,
)
from calspline._arrays import as_numpy
from calspline.calibrators.array_api import evaluate_array

METHODS = [
    SplineCalibrator(), SplineCalibrator(multiclass="ovr"), SigmoidCalibrator(),
    IsotonicCalibrator(), BetaCalibrator(), TemperatureCalibrator(), ClippingCalibrator(),
]  # fmt: skip
KINDS = {
    "torch": lambda values: torch.as_tensor(values),
    "array-api-strict": lambda values: strict.asarray(values),
    "jax": lambda values: jnp.asarray(values),
}
rng = np.random.default_rng(0)
LOGITS = rng.normal(size=(800, 3))
LABELS = (LOGITS + rng.gumbel(size=LOGITS.shape)).argmax(axis=1)
ROWS = softmax(2.0 * LOGITS, axis=1)
SCORES, HAPPENED = (
    expit(LOGITS[:, 0]),
    (LOGITS[:, 0] + rng.logistic(size=800) > 0).astype(int),
)


@pytest.fixture(params=METHODS, ids=repr)
def method(request):
    return request.param


def data(classes):
    return (SCORES, HAPPENED) if classes == 2 else (ROWS, LABELS)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("classes", [2, 3])
def test_the_kind_and_the_type_come_back(method, classes, dtype, kind):
    scores, y = data(classes)
    scores = scores.astype(
        "float32" if kind == "jax" else dtype
    )  # JAX has float32 alone, unless it is told
    calibrator = method.fit(scores, y)
    given = KINDS[kind](scores)
    for function in (calibrator.calibrate, calibrator.predict_proba):
        got = function(given)
        assert type(got) is type(given)
        assert got.dtype == given.dtype
        assert got.device == given.device
        expected = function(scores)
        assert got.shape == expected.shape
        atol = 1e-9 if scores.dtype == np.float64 else 1e-6
        np.testing.assert_allclose(as_numpy(got), expected, rtol=0.0, atol=atol)
    predicted = calibrator.predict(given)
    assert type(predicted) is type(given)
    assert as_numpy(predicted).tolist() == calibrator.predict(scores).tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_a_fit_takes_any_kind(method, kind):
    for scores, y in (data(2), data(3)):
        scores = scores.astype(np.float32)
        expected = method.fit(scores, y, np.ones(800)).calibrate(scores[:50])
        fitted = method.fit(
            KINDS[kind](scores),
            KINDS[kind](y),
            KINDS[kind](np.ones(800, dtype=np.float32)),
        )
        assert fitted.classes_.tolist() == np.unique(y).tolist()
        np.testing.assert_array_equal(fitted.calibrate(scores[:50]), expected)


def test_integers_and_other_devices():
    calibrator = SplineCalibrator(scale="identity").fit(LOGITS[:, 0], HAPPENED)
    margins = np.arange(-2, 3)
    expected = calibrator.calibrate(margins)
    got = calibrator.calibrate(torch.as_tensor(margins))
    assert got.dtype == torch.float32
    np.testing.assert_allclose(got.numpy(), expected, atol=1e-6)
    device = strict.Device("device1")
    given = strict.asarray(margins, device=device)
    got = calibrator.calibrate(given)
    assert got.device == device
    assert got.dtype == strict.float64
    np.testing.assert_array_equal(as_numpy(got), expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_comes_back(dtype):
    calibrator = SplineCalibrator().fit(
        torch.as_tensor(LOGITS).to(dtype), torch.as_tensor(LABELS)
    )
    scores = torch.as_tensor(LOGITS).to(dtype)
    got = calibrator.calibrate(scores)
    assert got.dtype == dtype
    expected = calibrator.calibrate(scores.double().numpy())
    np.testing.assert_allclose(got.double().numpy(), expected, rtol=0.0, atol=0.01)


def test_gradients_flow_through_a_prediction():
    calibrator = SplineCalibrator().fit(LOGITS, LABELS)
    x = torch.tensor(LOGITS[:5], requires_grad=True)
    calibrator.calibrate(x)[:, 0].sum().backward()
    h = 1e-5
    for j in range(3):
        step = h * np.eye(3)[j]
        slope = (
            calibrator.calibrate(LOGITS[:5] + step)
            - calibrator.calibrate(LOGITS[:5] - step)
        )[:, 0] / (2 * h)
        np.testing.assert_allclose(x.grad[:, j].numpy(), slope, atol=1e-6)
    p = (
        SplineCalibrator()
        .fit(SCORES, HAPPENED)
        .predict_proba(torch.tensor([0.2, 0.7], requires_grad=True))
    )
    assert p.requires_grad


def test_a_tensor_does_not_pass_through_numpy(monkeypatch):
    calibrator = SplineCalibrator().fit(LOGITS, LABELS)

    def refuse(self, *args, **kwargs):
        raise AssertionError("it became an array of numpy")

    monkeypatch.setattr(torch.Tensor, "numpy", refuse)
    monkeypatch.setattr(torch.Tensor, "__array__", refuse)
    assert calibrator.calibrate(torch.as_tensor(LOGITS)).shape == LOGITS.shape


def test_a_refit_is_what_tensors_see():
    calibrator = SplineCalibrator().fit(LOGITS, LABELS)
    given = torch.as_tensor(LOGITS)
    before = calibrator.calibrate(given)
    calibrator.fit(3.0 * LOGITS, LABELS)
    np.testing.assert_allclose(
        calibrator.calibrate(given).numpy(),
        calibrator.calibrate(LOGITS),
        rtol=0.0,
        atol=1e-9,
    )
    assert not torch.allclose(before, calibrator.calibrate(given))


def test_segments_are_known_to_tensors_too():
    segment = np.arange(800) % 2
    calibrator = SplineCalibrator().fit(SCORES, HAPPENED, by=segment)
    got = calibrator.calibrate(torch.as_tensor(SCORES), by=segment)
    np.testing.assert_allclose(
        got.numpy(), calibrator.calibrate(SCORES, by=segment), rtol=0.0, atol=1e-9
    )
    got = calibrator.calibrate(torch.as_tensor(SCORES))
    np.testing.assert_allclose(
        got.numpy(), calibrator.calibrate(SCORES), rtol=0.0, atol=1e-9
    )


def test_labels_that_no_tensor_holds_stay_an_array():
    calibrator = SplineCalibrator().fit(ROWS, np.array(["a", "b", "c"])[LABELS])
    assert (
        calibrator.predict(torch.as_tensor(ROWS)).tolist()
        == calibrator.predict(ROWS).tolist()
    )


@pytest.mark.parametrize(
    "wrong",
    [
        [[0.5, 0.2, 0.2]],
        [[0.5, np.nan, 0.5]],
        [[0.5, 0.5]],
        [0.5],
        [[[0.5]]],
        [[1.5, -0.5, 0.0]],
    ],
    ids=str,
)
def test_wrong_scores_get_the_same_message(wrong):
    calibrator = SplineCalibrator().fit(ROWS, LABELS)
    with pytest.raises(ValueError) as expected:  # noqa: PT011
        calibrator.calibrate(np.array(wrong))
    for kind in KINDS.values():
        with pytest.raises(ValueError) as got:  # noqa: PT011
            calibrator.calibrate(kind(np.array(wrong)))
        given = (
            str(got.value)
            .replace("Tensor", "ndarray")
            .replace("ArrayImpl", "ndarray")
            .replace("Array", "ndarray")
        )
        assert given == str(expected.value)


@pytest.mark.parametrize("kind", KINDS)
def test_judging_takes_any_kind(kind, tmp_path):
    rows = ROWS.astype(np.float32)
    given, y = KINDS[kind](rows), KINDS[kind](LABELS)
    assert evaluate(y, given).to_dict() == evaluate(LABELS, rows).to_dict()
    calibrated = KINDS[kind](
        SplineCalibrator().fit(rows, LABELS).calibrate(rows).astype(np.float32)
    )
    found = compare(y, {"raw": given, "calibrated": calibrated})
    assert found.evaluations["raw"].log_loss == evaluate(LABELS, rows).log_loss
    report(y, {"raw": given}, tmp_path / "report.html")
    assert (tmp_path / "report.html").stat().st_size > 10_000


class Network(ClassifierMixin, BaseEstimator):
    """A model whose probabilities are tensors with gradients."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        return torch.softmax(torch.tensor(X, requires_grad=True), dim=1)


def test_a_model_may_answer_with_tensors():
    class InNumpy(Network):
        def predict_proba(self, X):
            return super().predict_proba(X).detach().numpy()

    got, expected = (
        CalibratedClassifierCV(model, cv=2).fit(LOGITS, LABELS)
        for model in (Network(), InNumpy())
    )
    np.testing.assert_array_equal(
        got.predict_proba(LOGITS), expected.predict_proba(LOGITS)
    )


@pytest.mark.parametrize("kind", ["torch", "array-api-strict"])
@pytest.mark.parametrize("classes", [2, 3])
def test_a_library_computes_probabilities_itself(method, classes, kind):
    scores, y = data(classes)
    calibrator = method.fit(scores, y)
    got = evaluate_array(calibrator.model_, KINDS[kind](scores))
    assert type(got) is type(KINDS[kind](scores))
    expected = calibrator.calibrate(scores)
    np.testing.assert_allclose(as_numpy(got), expected, rtol=0.0, atol=1e-9)


@pytest.mark.parametrize("kind", ["torch", "array-api-strict"])
@pytest.mark.parametrize("multiclass", ["structured", "ovr"])
@pytest.mark.parametrize("classes", [2, 3])
def test_a_library_computes_the_effects_of_segments_itself(multiclass, classes, kind):
    scores, y = data(classes)
    segment = np.arange(800) % 4
    calibrator = SplineCalibrator(multiclass=multiclass).fit(
        scores, (y + (segment == 3)) % classes, by=segment
    )
    segment[::7] = 9
    message = "segments that the fit has not seen"
    with pytest.warns(UserWarning, match=message):
        got = evaluate_array(calibrator.model_, KINDS[kind](scores), segment)
    with pytest.warns(UserWarning, match=message):
        expected = calibrator.calibrate(scores, by=segment)
    np.testing.assert_allclose(as_numpy(got), expected, rtol=0.0, atol=1e-9)


@pytest.mark.parametrize("kind", ["torch", "array-api-strict"])
def test_shifted_base_rates_are_known_to_other_libraries(kind):
    for classes, share in ((2, 0.2), (3, {0: 0.2, 1: 0.5, 2: 0.3})):
        scores, y = data(classes)
        shifted = IsotonicCalibrator().fit(scores, y).shifted(base_rate=share)
        got = evaluate_array(shifted.model_, KINDS[kind](scores))
        expected = shifted.calibrate(scores)
        np.testing.assert_allclose(as_numpy(got), expected, rtol=0.0, atol=1e-9)
