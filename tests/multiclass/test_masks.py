import numpy as np
import polars as pl
import pytest
from scipy.special import softmax

from calspline import (
    BetaCalibrator,
    IsotonicCalibrator,
    SigmoidCalibrator,
    SplineCalibrator,
    TemperatureCalibrator,
    fit_frame,
)
from calspline._input.scores import MatrixScores
from calspline.export import to_python
from calspline.multiclass.scale import unmask

CALIBRATORS = {
    "temperature": TemperatureCalibrator(),
    "structured": SplineCalibrator(),
    "structured, monotone": SplineCalibrator(monotone=True),
    "ovr": SplineCalibrator(multiclass="ovr"),
    "sigmoid": SigmoidCalibrator(),
    "isotonic": IsotonicCalibrator(),
    "beta": BetaCalibrator(),
}
MASKS = [-100.0, -65504.0, -1e9, float(np.finfo(np.float32).min)]


def masked(n, mask, share=0.3, seed=0, wrong=0):
    """Logits of five classes, some of them masked, and labels; so many labels are of a masked class."""
    rng = np.random.default_rng(seed)
    z = rng.normal(0, 2, (n, 5)) + np.linspace(0.5, -0.5, 5)
    out = rng.random(z.shape) < share
    out[np.arange(n), z.argmax(axis=1)] = False
    p = softmax(np.where(out, -np.inf, z), axis=1)
    y = (p.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    rows = np.flatnonzero(out.any(axis=1))[:wrong]
    y[rows] = out[rows].argmax(axis=1)
    return np.where(out, mask, 1.6 * z), y


@pytest.mark.parametrize("wrong", [0, 3])
@pytest.mark.parametrize("share", [0.02, 0.3])
@pytest.mark.parametrize("name", CALIBRATORS)
def test_a_mask_of_any_size_is_one_of_fifty(name, share, wrong):
    calibrator = CALIBRATORS[name]
    (z, y), (q, _) = (
        masked(800, -50.0, share, wrong=wrong),
        masked(300, -50.0, share, seed=1),
    )
    expected = calibrator.fit(z, y).predict_proba(q)
    for mask in MASKS:
        far = masked(300, mask, share, seed=1)[0]
        np.testing.assert_allclose(
            calibrator.fit(z, y).predict_proba(far), expected, atol=1e-7
        )  # when it predicts
        found = calibrator.fit(
            masked(800, mask, share, wrong=wrong)[0], y
        ).predict_proba(far)  # and when it is fitted
        np.testing.assert_allclose(found, expected, atol=1e-7)


def test_a_masked_class_is_all_but_impossible_and_the_temperature_is_that_of_the_others():
    z, y = masked(4000, -1e9)
    for name, calibrator in CALIBRATORS.items():
        out = calibrator.fit(z, y).predict_proba(z)
        assert out[z == -1e9].mean() < 1e-3, name
    assert TemperatureCalibrator().fit(z, y).temperature_ == pytest.approx(1.6, rel=0.1)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_logits_without_masks_stay_as_they_are_whatever_their_scale(scale):
    z = scale * np.random.default_rng(0).normal(0, 3, (500, 4))
    scores = MatrixScores("margin", z)
    assert unmask(scores, None) is scores


def test_what_there_is_to_do_without():
    ties = MatrixScores("margin", np.ones((5, 3)))
    assert unmask(ties, None) is ties
    probabilities = MatrixScores("probability", np.full((5, 4), 0.25))
    assert unmask(probabilities, None) is probabilities


def test_rows_without_weight_tell_nothing_of_masks():
    z = np.random.default_rng(0).normal(0, 3, (500, 4))
    w = np.ones(500)
    z[:10, 2], w[:10] = -1e9, 0.0
    scores = MatrixScores("margin", z)
    assert unmask(scores, w) is scores
    assert unmask(scores, None).values.min() > -100.0


def test_other_logits_of_a_row_with_a_mask_stay_as_they_are():
    z, _ = masked(500, -1e9)
    found = unmask(MatrixScores("margin", z.astype(np.float32)), None).values
    kept = z > -1e9
    np.testing.assert_array_equal(found[kept], z.astype(np.float32)[kept])
    assert np.all(found[~kept] > -60.0)
    assert found[~kept].max() < found[kept].min()


@pytest.mark.parametrize("lazy", [False, True])
def test_one_against_the_rest_of_a_frame_is_that_of_arrays(lazy):
    z, y = masked(600, -1e9)
    frame = pl.DataFrame({f"z{j}": z[:, j] for j in range(5)} | {"y": y})
    names = [f"z{j}" for j in range(5)]
    found = fit_frame(
        frame.lazy() if lazy else frame, score=names, label="y", multiclass="ovr"
    )
    expected = SplineCalibrator(multiclass="ovr").fit(z, y)
    np.testing.assert_allclose(
        found.predict_proba(z), expected.predict_proba(z), atol=1e-6
    )


@pytest.mark.parametrize("name", CALIBRATORS)
def test_exported_code_knows_masks(name):
    z, y = masked(400, -1e9)
    calibrator = CALIBRATORS[name].fit(z, y)
    names = {}
    exec(to_python(calibrator), names)
    found = [names["calibrate"](row) for row in z[:50].tolist()]
    np.testing.assert_allclose(found, calibrator.predict_proba(z[:50]), atol=1e-8)
