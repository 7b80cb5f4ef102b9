import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, logit
from sklearn.calibration import CalibratedClassifierCV, _sigmoid_calibration
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from sklearn.svm import LinearSVC

from calspline import SigmoidCalibrator
from calspline.fitting import newton

GRID = np.linspace(0, 1, 201)


def platt_by_scipy(x, y, w):
    """Platt's objective, minimised by a general optimiser without derivatives' help."""
    n1, n0 = w[y == 1].sum(), w[y == 0].sum()
    t = np.where(y == 1, (n1 + 1) / (n1 + 2), 1 / (n0 + 2))

    def loss(ab):
        eta = ab[0] * x + ab[1]
        return np.sum(w * (t * np.logaddexp(0, -eta) + (1 - t) * np.logaddexp(0, eta)))

    return minimize(
        loss, [0.0, 0.0], method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12}
    ).x


@pytest.mark.parametrize("weighted", [False, True])
def test_it_minimises_platts_loss_on_log_odds(simulated, weighted):
    p, y, _ = simulated(400)
    w = np.random.default_rng(0).uniform(0, 3, 400) if weighted else np.ones(400)
    cal = SigmoidCalibrator().fit(p, y, w)
    np.testing.assert_allclose(
        [cal.a_, cal.b_], platt_by_scipy(logit(p), y, w), atol=1e-6
    )
    np.testing.assert_allclose(
        cal.calibrate(p), expit(cal.a_ * logit(p) + cal.b_), atol=1e-12
    )


@pytest.mark.parametrize("weighted", [False, True])
def test_on_probabilities_and_on_margins_it_is_scikit_learns(simulated, weighted):
    p, y, _ = simulated(1000)
    w = np.random.default_rng(0).uniform(0, 3, 1000) if weighted else None
    for scores, on in (
        (p, "probability"),
        (logit(p), "log_odds"),
        (logit(p), "probability"),
    ):
        cal = SigmoidCalibrator(on=on).fit(scores, y, w)
        a, b = _sigmoid_calibration(scores, y, w)
        np.testing.assert_allclose([cal.a_, cal.b_], [-a, -b], atol=1e-5)


def test_margins_of_several_classes_are_calibrated_as_scikit_learn_does():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 4))
    y = (X[:, :3] + rng.gumbel(size=(600, 3))).argmax(axis=1)
    model = LinearSVC().fit(X[:300], y[:300])
    theirs = CalibratedClassifierCV(FrozenEstimator(model), method="sigmoid").fit(
        X[300:], y[300:]
    )
    ours = SigmoidCalibrator().fit(model.decision_function(X[300:]), y[300:])
    np.testing.assert_allclose(
        ours.predict_proba(model.decision_function(X)),
        theirs.predict_proba(X),
        atol=1e-5,
    )
    assert ours.a_.shape == ours.b_.shape == (3,)


def test_calibrated_log_odds_are_left_alone():
    rng = np.random.default_rng(0)
    p = rng.uniform(0.02, 0.98, 200_000)
    cal = SigmoidCalibrator().fit(p, rng.random(200_000) < p)
    np.testing.assert_allclose(cal.calibrate(GRID[5:-5]), GRID[5:-5], atol=0.01)
    textbook = SigmoidCalibrator(on="probability").fit(p, rng.random(200_000) < p)
    assert np.abs(textbook.calibrate(GRID) - GRID).max() > 0.03


def test_separated_classes_get_platts_targets():
    cal = SigmoidCalibrator().fit([-1.0, -1.0, -1.0, 1.0, 1.0], [0, 0, 0, 1, 1])
    np.testing.assert_allclose(cal.calibrate([-1.0, 1.0]), [1 / 5, 3 / 4])
    assert cal.converged_


def test_the_curve_is_the_calibration(simulated):
    p, y, _ = simulated(300)
    for scores, on in ((p, "log_odds"), (p, "probability"), (logit(p), "log_odds")):
        cal = SigmoidCalibrator(on=on).fit(scores, y)
        assert len(cal.curves_) == 1
        np.testing.assert_array_equal(cal.curves_[0](scores), cal.calibrate(scores))


def test_margins_far_from_zero_lose_no_precision(simulated):
    p, y, _ = simulated(500)
    u = np.round(logit(p) * 2**10) / 2**10
    near = SigmoidCalibrator().fit(u, y).calibrate(u)
    far = SigmoidCalibrator().fit(u + 2.0**30, y).calibrate(u + 2.0**30)
    np.testing.assert_allclose(far, near, atol=1e-9)


def test_a_fit_cut_short_warns(simulated, monkeypatch):
    monkeypatch.setattr(newton, "MAX_ITERATIONS", 1)
    p, y, _ = simulated(300)
    with pytest.warns(ConvergenceWarning):
        cal = SigmoidCalibrator().fit(p, y)
    assert cal.converged_ is False
