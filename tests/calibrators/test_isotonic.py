import numpy as np
import pytest
from scipy.special import logit
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris
from sklearn.frozen import FrozenEstimator
from sklearn.isotonic import IsotonicRegression
from sklearn.naive_bayes import GaussianNB

from calspline import IsotonicCalibrator


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("scale", ["probability", "margin", "ties"])
def test_it_is_scikit_learns_isotonic_regression(simulated, weighted, scale):
    p, y, _ = simulated(800)
    x = {"probability": p, "margin": logit(p), "ties": np.round(p, 1)}[scale]
    w = np.random.default_rng(0).uniform(0, 3, 800) if weighted else None
    theirs = IsotonicRegression(out_of_bounds="clip", y_min=1e-15, y_max=1 - 1e-15).fit(
        x, y, w
    )
    grid = np.linspace(x.min(), x.max(), 1001)
    ours = IsotonicCalibrator().fit(x, y, w)
    np.testing.assert_allclose(ours.calibrate(grid), theirs.predict(grid), atol=1e-12)


def test_several_classes_are_scikit_learns_one_vs_rest():
    X, y = load_iris(return_X_y=True)
    model = GaussianNB().fit(X[::2, :1], y[::2])
    theirs = CalibratedClassifierCV(FrozenEstimator(model), method="isotonic").fit(
        X[1::2, :1], y[1::2]
    )
    ours = IsotonicCalibrator().fit(model.predict_proba(X[1::2, :1]), y[1::2])
    np.testing.assert_allclose(
        ours.predict_proba(model.predict_proba(X[:, :1])),
        theirs.predict_proba(X[:, :1]),
        atol=1e-9,
    )


def test_only_the_order_of_scores_counts(simulated):
    p, y, _ = simulated(500)
    tiny = p * 1e-200  # far below where scikit-learn would take scores for equal
    np.testing.assert_allclose(
        IsotonicCalibrator().fit(tiny, y).calibrate(tiny),
        IsotonicCalibrator().fit(p, y).calibrate(p),
        atol=1e-12,
    )


def test_the_curve_is_piecewise_linear_and_never_decreases(simulated):
    p, y, _ = simulated(500)
    (curve,) = IsotonicCalibrator().fit(p, y).curves_
    assert curve.transform.name == curve.link == "identity"
    assert not curve.coefficients[:2].any()
    assert curve.is_monotone
    np.testing.assert_array_equal(curve(p), IsotonicCalibrator().fit(p, y).calibrate(p))


def test_a_row_that_sums_to_nothing_becomes_uniform():
    p = np.array([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8], [0.4, 0.3, 0.3]])
    cal = IsotonicCalibrator().fit(np.tile(p[:3], (5, 1)), [0, 1, 2] * 5)
    # Every class is at its lowest score, where none of its rows are.
    np.testing.assert_allclose(cal.predict_proba([[1 / 3, 1 / 3, 1 / 3]]), 1 / 3)
    low = IsotonicCalibrator().fit(
        [[9.0, -1, -1], [-1, 9, -1], [-1, -1, 9]] * 5, [0, 1, 2] * 5
    )
    np.testing.assert_allclose(low.predict_proba([[-5.0, -5.0, -5.0]]), 1 / 3)
