import warnings

import betacal
import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, logit, softmax
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from calspline import BetaCalibrator
from calspline.fitting import newton

GRID = np.linspace(0.001, 0.999, 201)
VARIANTS = ["abm", "am", "ab"]


def beta_by_scipy(p, y, w, parameters):
    """The same likelihood under the same bounds, minimised by L-BFGS-B."""

    def numbers(theta):
        if parameters == "am":
            return theta[0], theta[0], theta[1]
        a, b = theta[:2]
        return a, b, theta[2] if parameters == "abm" else (a - b) * np.log(2)

    def loss(theta):
        a, b, c = numbers(theta)
        eta = a * np.log(p) - b * np.log1p(-p) + c
        return (
            np.sum(w * (y * np.logaddexp(0, -eta) + (1 - y) * np.logaddexp(0, eta)))
            / w.sum()
        )

    slope, free = (0, None), (None, None)
    bounds = {"abm": [slope, slope, free], "am": [slope, free], "ab": [slope, slope]}[
        parameters
    ]
    found = minimize(
        loss,
        [1.0, 1.0, 0.0][: len(bounds)],
        bounds=bounds,
        tol=1e-14,
        options={"maxfun": 10**5},
    )
    return numbers(found.x)


@pytest.mark.parametrize("parameters", VARIANTS)
@pytest.mark.parametrize("weighted", [False, True])
def test_it_maximises_the_likelihood(simulated, parameters, weighted):
    p, y, _ = simulated(600)
    w = np.random.default_rng(0).uniform(0, 3, 600) if weighted else np.ones(600)
    cal = BetaCalibrator(parameters=parameters).fit(p, y, w)
    a, b, c = beta_by_scipy(p, y, w, parameters)
    np.testing.assert_allclose([cal.a_, cal.b_, cal.c_], [a, b, c], atol=2e-4)
    np.testing.assert_allclose(
        cal.calibrate(GRID),
        expit(a * np.log(GRID) - b * np.log1p(-GRID) + c),
        atol=2e-5,
    )


@pytest.mark.parametrize("parameters", VARIANTS)
def test_it_agrees_with_betacal(simulated, parameters):
    p, y, _ = simulated(2000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = betacal.BetaCalibration(parameters).fit(p, y).predict(GRID)
    np.testing.assert_allclose(
        BetaCalibrator(parameters=parameters).fit(p, y).calibrate(GRID),
        theirs,
        atol=5e-4,
    )


def test_with_one_slope_it_is_logistic_regression_on_the_log_odds(simulated):
    p, y, _ = simulated(600)
    theirs = LogisticRegression(C=np.inf, solver="newton-cholesky", tol=1e-12).fit(
        logit(p)[:, None], y
    )
    cal = BetaCalibrator(parameters="am").fit(p, y)
    np.testing.assert_allclose(
        [cal.a_, cal.c_], [theirs.coef_[0, 0], theirs.intercept_[0]], rtol=1e-6
    )


@pytest.mark.filterwarnings("ignore:scores are lower where")
@pytest.mark.parametrize("signs", [(1, -1), (-1, 1), (-1, -1)], ids=str)
def test_slopes_are_never_negative(signs):
    rng = np.random.default_rng(0)
    p = rng.uniform(0.01, 0.99, 3000)
    eta = signs[0] * 0.7 * np.log(p) - signs[1] * 0.7 * np.log1p(-p)
    y = (rng.random(3000) < expit(eta)).astype(int)
    cal = BetaCalibrator().fit(p, y)
    assert min(cal.a_, cal.b_) >= 0
    np.testing.assert_allclose(
        [cal.a_, cal.b_, cal.c_], beta_by_scipy(p, y, np.ones(3000), "abm"), atol=2e-3
    )


def test_ab_maps_a_half_to_itself(simulated):
    p, y, _ = simulated(400)
    np.testing.assert_allclose(
        BetaCalibrator(parameters="ab").fit(p, y).calibrate([0.5]), 0.5
    )


def test_two_columns_are_their_log_odds():
    rng = np.random.default_rng(0)
    u = rng.uniform(-35, 35, 3000)
    y = rng.random(3000) < expit(u / 10)
    cal = BetaCalibrator().fit(np.column_stack([expit(-u), expit(u)]), y)
    np.testing.assert_allclose(
        cal.calibrate(np.column_stack([expit(-u), expit(u)]))[:, 1],
        BetaCalibrator().fit(u, y).calibrate(u),
        atol=1e-6,
    )
    assert (
        np.abs(
            cal.calibrate(np.column_stack([expit(-u), expit(u)]))[:, 1] - expit(u / 10)
        ).mean()
        < 0.03
    )


@pytest.mark.parametrize("parameters", VARIANTS)
def test_separated_classes_are_finite_and_converged(parameters):
    cal = BetaCalibrator(parameters=parameters).fit(
        [0.1, 0.2, 0.3, 0.7, 0.8], [0, 0, 0, 1, 1]
    )
    assert cal.converged_
    assert max(cal.a_, cal.b_, abs(cal.c_)) < 100
    assert (cal.calibrate([0.2, 0.7]) > 0.5).tolist() == [False, True]


def test_logits_of_several_classes_are_their_softmax():
    rng = np.random.default_rng(0)
    z = rng.normal(0, 2, (500, 3))
    y = (z / 2 + rng.gumbel(size=(500, 3))).argmax(axis=1)
    ours = BetaCalibrator().fit(z + 50, y)
    np.testing.assert_allclose(
        ours.predict_proba(z),
        BetaCalibrator().fit(softmax(z, axis=1), y).predict_proba(softmax(z, axis=1)),
        atol=1e-9,
    )
    assert ours.a_.shape == (3,)


def test_a_fit_cut_short_warns(simulated, monkeypatch):
    monkeypatch.setattr(newton, "MAX_ITERATIONS", 1)
    p, y, _ = simulated(300)
    with pytest.warns(ConvergenceWarning):
        cal = BetaCalibrator().fit(p, y)
    assert cal.converged_ is False


def test_an_exact_zero_does_not_move_the_fit():
    rng = np.random.default_rng(0)
    p = np.round(rng.beta(1, 6, 2000), 3)  # like shares of a thousand votes
    y = rng.random(2000) < p
    p[np.flatnonzero(~y)[:40]] = 0.0
    p[np.flatnonzero(y)[0]] = 0.0  # one that happened all the same
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        reference = betacal.BetaCalibration(parameters="abm").fit(p.reshape(-1, 1), y)
    np.testing.assert_allclose(
        BetaCalibrator().fit(p, y).calibrate(GRID), reference.predict(GRID), atol=2e-3
    )
