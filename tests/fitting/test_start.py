"""A fit is never worse on its own rows than what it starts from."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss

from calspline import SplineCalibrator
from calspline.fits import validated


@pytest.fixture
def broken(monkeypatch):
    """A search for the curve that ends at log-odds of 40."""
    fit = validated.fit_default_curve

    def diverged(histogram, recipe):
        fitted = fit(histogram, recipe)
        coefficients = fitted.curve.coefficients.copy()
        coefficients[3] += 40.0
        return replace(fitted, curve=replace(fitted.curve, coefficients=coefficients))

    monkeypatch.setattr(validated, "fit_default_curve", diverged)


def rows(n, slope):
    rng = np.random.default_rng(4)
    u = rng.normal(0.0, 2.0, n)
    return u, rng.random(n) < expit(slope * u)


@pytest.mark.usefixtures("broken")
def test_raw_scores_are_kept_where_they_are_better():
    u, y = rows(300, 1.0)
    with pytest.warns(ConvergenceWarning, match="did not converge"):
        cal = SplineCalibrator().fit(expit(u), y)
    assert not cal.converged_
    np.testing.assert_allclose(cal.calibrate([0.1, 0.5, 0.8]), [0.1, 0.5, 0.8])


@pytest.mark.usefixtures("broken")
@pytest.mark.filterwarnings("ignore::calspline._input.hints.ClassOrderWarning")
@pytest.mark.parametrize("scores", ["margins", "reversed"])
def test_the_base_rate_is_kept_otherwise(scores):
    u, y = rows(300, 1.0)
    given = 50.0 * u if scores == "margins" else expit(-u)
    with pytest.warns(ConvergenceWarning, match="did not converge"):
        cal = SplineCalibrator().fit(given, y)
    np.testing.assert_allclose(cal.calibrate(given[:3]), y.mean())


@pytest.mark.filterwarnings("ignore:.*other class:UserWarning")
@pytest.mark.parametrize("seed", range(60))
def test_no_default_fit_is_worse_than_its_start(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.choice([40, 300, 2000]))
    tails = [
        rng.normal(0.0, 3.0, n),
        2.0 * rng.standard_t(3, n),
        rng.standard_cauchy(n),
    ]
    u = tails[seed % 3]
    p = expit(u)
    if seed % 2:
        p = np.where(rng.random(n) < 0.3, rng.choice([0.0, 1.0, 1e-3, 1e-6]), p)
    slope = rng.choice([0.0, 0.3, 1.0, 3.0])
    y = rng.random(n) < expit(rng.normal() + slope * np.clip(u, -30.0, 30.0))
    if y.all() or not y.any():
        y[0] = not y[0]
    cal = SplineCalibrator().fit(p, y)
    assert cal.converged_
    least = 1.0 / (n + 2.0)
    raw = log_loss(y, np.clip(p, least, 1.0 - least))
    constant = log_loss(y, np.full(n, y.mean()))
    assert n * (log_loss(y, cal.calibrate(p)) - min(raw, constant)) < 5.0 + 0.005 * n
