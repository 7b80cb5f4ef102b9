import numpy as np
import pytest
import sklearn
from scipy.optimize import minimize_scalar
from scipy.special import expit, log_softmax, logit, softmax

from calspline import TemperatureCalibrator


def simulate(n, m=4, seed=0):
    """Over-confident logits, twice what they should be, and labels."""
    rng = np.random.default_rng(seed)
    z = rng.normal(0, 1.2, (n, m))
    return 2 * z, (z + rng.gumbel(size=(n, m))).argmax(axis=1)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("probabilities", [False, True])
def test_it_minimises_the_log_loss(weighted, probabilities):
    z, y = simulate(500)
    w = np.random.default_rng(1).uniform(0, 3, 500) if weighted else np.ones(500)

    def loss(T):
        return -np.sum(w * log_softmax(z / T, axis=1)[np.arange(500), y])

    best = minimize_scalar(loss, bounds=(0.1, 10), options={"xatol": 1e-10}).x
    scores = softmax(z, axis=1) if probabilities else z
    cal = TemperatureCalibrator().fit(scores, y, w)
    assert cal.temperature_ == pytest.approx(best, rel=1e-6)
    np.testing.assert_allclose(
        cal.predict_proba(scores), softmax(z / best, axis=1), atol=1e-6
    )


def test_two_classes_are_a_line_through_the_log_odds(simulated):
    p, y, _ = simulated(500)
    pair = np.column_stack([1 - p, p])
    cal = TemperatureCalibrator().fit(p, y)
    assert TemperatureCalibrator().fit(pair, y).temperature_ == pytest.approx(
        cal.temperature_, rel=1e-9
    )
    assert TemperatureCalibrator().fit(logit(p), y).temperature_ == pytest.approx(
        cal.temperature_, rel=1e-9
    )
    np.testing.assert_allclose(
        cal.calibrate(p), expit(logit(p) / cal.temperature_), atol=1e-12
    )
    np.testing.assert_array_equal(cal.curves_[0](p), cal.calibrate(p))


@pytest.mark.skipif(
    tuple(map(int, sklearn.__version__.split(".")[:2])) < (1, 8),
    reason="scikit-learn 1.8 brought temperature scaling",
)
def test_it_is_scikit_learns_temperature(simulated):
    from sklearn.calibration import _TemperatureScaling

    z, y = simulate(800)
    for scores in (z, softmax(z, axis=1)):
        theirs = _TemperatureScaling().fit(scores, y)
        assert TemperatureCalibrator().fit(scores, y).temperature_ == pytest.approx(
            1 / theirs.beta_, rel=1e-5
        )
    p, y, _ = simulated(500)
    # Their logits of a margin x are (-x, x): twice as far apart.
    theirs = _TemperatureScaling().fit(logit(p), y)
    assert TemperatureCalibrator().fit(logit(p), y).temperature_ == pytest.approx(
        0.5 / theirs.beta_, rel=1e-5
    )


@pytest.mark.parametrize("factor", [1e-200, 1e-3, 1e6, 1e200])
def test_the_temperature_scales_with_the_margins(factor):
    z, y = simulate(300)
    one, other = (
        TemperatureCalibrator().fit(z, y),
        TemperatureCalibrator().fit(factor * z, y),
    )
    assert other.temperature_ == pytest.approx(factor * one.temperature_, rel=1e-9)


def test_the_ranking_of_classes_stays():
    z, y = simulate(300)
    p = TemperatureCalibrator().fit(z, y).predict_proba(z)
    np.testing.assert_array_equal(np.argsort(p, axis=1), np.argsort(z, axis=1))


def test_separation_and_its_opposite_stop_at_the_limits():
    z = 3.0 * np.eye(3)[np.arange(30) % 3] - 1.0
    size = np.abs(z - z.mean(axis=1, keepdims=True)).mean()
    assert TemperatureCalibrator().fit(
        z, np.arange(30) % 3
    ).temperature_ == pytest.approx(size / 1000)
    assert TemperatureCalibrator().fit(
        -z, np.arange(30) % 3
    ).temperature_ == pytest.approx(size * 1000)
    assert TemperatureCalibrator().fit(
        [-1.0, 1.0], [0, 1]
    ).temperature_ == pytest.approx(1 / 1000)
    assert TemperatureCalibrator().fit(
        [-1.0, 1.0], [1, 0]
    ).temperature_ == pytest.approx(1000)


def test_exact_zeros_count_as_a_billionth():
    p = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]] * 10)
    y = np.arange(30) % 3
    y[0] = 1
    cal = TemperatureCalibrator().fit(p, y)
    floored = np.maximum(p, 1e-9)
    np.testing.assert_allclose(
        cal.predict_proba(p),
        TemperatureCalibrator().fit(np.log(floored), y).predict_proba(np.log(floored)),
        atol=1e-9,
    )
    np.testing.assert_allclose(cal.predict_proba(p)[1, 1], 29 / 30, atol=1e-6)


def test_equal_rows_have_no_temperature():
    with pytest.warns(UserWarning, match="base rate"):
        cal = TemperatureCalibrator().fit(
            np.tile([0.2, 0.3, 0.5], (10, 1)), [0, 0, 1, 2, 2, 2, 2, 1, 1, 1]
        )
    assert np.isnan(cal.temperature_)
    np.testing.assert_allclose(cal.predict_proba([[0.1, 0.1, 0.8]]), [[0.2, 0.4, 0.4]])
