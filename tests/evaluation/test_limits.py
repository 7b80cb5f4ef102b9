"""Limits of measures, and the bias of the calibration component."""

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import expit
from scipy.stats import bootstrap
from sklearn.metrics import roc_auc_score

from calspline import evaluate
from calspline.evaluation.predictions import Predictions

PRINTED = (
    "log_loss", "brier", "accuracy", "auc", "calibration_log_loss", "refinement_log_loss", "calibration_brier",
    "refinement_brier", "ece", "ece_debiased", "smooth_ece", "ici", "e50", "e90", "emax", "mean_probability",
    "base_rate", "calibration_in_the_large", "calibration_slope",
)  # fmt: skip


def test_every_printed_number_has_limits(binary, multiclass):
    for y, p in (binary(500)[::-1], multiclass(500)[::-1]):
        e = evaluate(y, p)
        for name in PRINTED:
            low, high = e.limits[name]
            assert low <= high


@pytest.mark.parametrize(
    "name", ["log_loss", "brier", "accuracy", "auc", "base_rate", "mean_probability"]
)
def test_estimates_lie_within_their_limits(binary, name):
    p, y = binary(300, slope=0.5)
    e = evaluate(y, p)
    low, high = e.limits[name]
    assert low < getattr(e, name) < high


@pytest.mark.thorough
def test_limits_of_the_auc_are_those_of_the_bootstrap(binary):
    p, y = binary(600)
    found = bootstrap(
        (y, p), roc_auc_score, paired=True, vectorized=False, n_resamples=500, rng=0
    ).confidence_interval
    low, high = evaluate(y, p).limits["auc"]
    assert (low, high) == pytest.approx((found.low, found.high), abs=0.006)


def test_limits_of_a_shift_that_does_not_calibrate_are_those_of_the_bootstrap():
    rng = np.random.default_rng(1)
    x = 4.0 * rng.standard_normal(2000)
    y = rng.random(2000) < expit(0.3 * x)

    def shift(x, y):
        return brentq(lambda a: (expit(x + a) - y).mean(), -9.0, 9.0)

    samples = [rng.integers(0, 2000, 2000) for _ in range(300)]
    error = np.std([shift(x[rows], y[rows]) for rows in samples])
    e = evaluate(y, expit(x))
    half = 0.5 * np.ptp(e.limits["calibration_in_the_large"])
    assert half == pytest.approx(1.96 * error, rel=0.12)
    assert half > 1.2 * 1.96 * e.calibration_in_the_large_se


def test_limits_of_the_auc_contain_a_perfect_order():
    y = np.repeat([0, 1], 450)
    low, high = evaluate(y, np.linspace(0.05, 0.95, 900)).limits["auc"]
    assert 0.98 < low < high == 1.0


def test_copies_in_groups_do_not_narrow_limits_but_independent_copies_do(binary):
    p, y = binary(300)
    p4, y4, group = (np.repeat(values, 4) for values in (p, y, np.arange(300)))
    width = [
        np.ptp(e.limits["log_loss"])
        for e in (evaluate(y, p), evaluate(y4, p4, groups=group), evaluate(y4, p4))
    ]
    assert width[1] == pytest.approx(width[0], rel=0.02)
    assert width[2] == pytest.approx(0.5 * width[0], rel=0.05)


def test_the_calibration_component_of_right_probabilities_is_zero_on_average(binary):
    found = [evaluate(*binary(200, seed=seed)[::-1]) for seed in range(60)]
    values = np.array([e.calibration_log_loss for e in found])
    error = values.std() / np.sqrt(len(values))
    assert abs(values.mean()) < max(4.0 * error, 0.004)
    # In-sample isotonic regression would claim about 0.03.
    assert values.mean() < 0.01


def test_limits_of_one_class_are_finite_or_unknown():
    e = evaluate(np.ones(20, dtype=int), np.linspace(0.2, 0.9, 20))
    assert np.isfinite(e.limits["log_loss"]).all()
    assert np.isnan(e.limits["auc"]).all()


def test_limits_of_many_rows_are_those_of_all_of_them(monkeypatch):
    rng = np.random.default_rng(0)
    x = rng.normal(-1.0, 2.0, 20_000)
    y = rng.random(20_000) < expit(0.8 * x)
    fast = evaluate(y, expit(x))
    assert len(fast.rows.condensed.codes) < 10_000
    limits = dict(fast.limits)
    monkeypatch.setattr(Predictions, "condensed", property(lambda rows: rows))
    for name, exact in evaluate(y, expit(x)).limits.items():
        width = exact[1] - exact[0]
        np.testing.assert_allclose(limits[name], exact, rtol=0, atol=0.01 * width)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("n", [60, 500])
@pytest.mark.parametrize("power", [0.5, 1.0])
def test_every_estimate_lies_within_its_limits(n_classes, n, power):
    for seed in range(5):
        rng = np.random.default_rng(seed)
        p = rng.dirichlet(np.full(n_classes, 0.3), n)
        truth = p**power / (p**power).sum(axis=1, keepdims=True)
        y = (truth.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
        result = evaluate(y, p, labels=range(n_classes))
        for name, (low, high) in result.limits.items():
            assert low <= getattr(result, name) <= high, (name, seed)
