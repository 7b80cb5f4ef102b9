"""``monotone="auto"``: a curve falls only where the data say so."""

import numpy as np
import pytest
from scipy.special import expit

from calspline import SplineCalibrator


def sample(truth, n, seed):
    rng = np.random.default_rng(seed)
    u = rng.normal(0.0, 2.0, n)
    return expit(u), rng.random(n) < expit(truth(u))


def test_a_clear_fall_is_kept_and_said():
    p, y = sample(lambda u: 2.0 - 0.5 * u**2, 3000, 0)
    cal = SplineCalibrator().fit(p, y)
    assert not cal.curves_[0].is_monotone
    np.testing.assert_array_equal(
        cal.calibrate(p), SplineCalibrator(monotone=False).fit(p, y).calibrate(p)
    )
    ((low, high),) = cal.curves_[0].falls()
    assert (low, high) == (pytest.approx(0.5, abs=0.1), pytest.approx(1.0, abs=0.01))
    assert "falls from" in cal.summary()


@pytest.mark.slow
def test_a_fall_by_chance_is_not():
    free, automatic = 0, 0
    for seed in range(30):
        p, y = sample(lambda u: np.where(u < 0, 0.8 * u, 0.0), 300, seed)
        free += not SplineCalibrator(monotone=False).fit(p, y).curves_[0].is_monotone
        cal = SplineCalibrator().fit(p, y)
        automatic += not cal.curves_[0].is_monotone
        if cal.curves_[0].is_monotone:
            increasing = SplineCalibrator(monotone=True).fit(p, y)
            np.testing.assert_allclose(
                cal.calibrate(p), increasing.calibrate(p), rtol=1e-12
            )
    assert free >= 5
    assert automatic == 0


@pytest.mark.slow
def test_the_band_of_a_curve_held_back_has_room_for_the_one_that_falls():
    for seed in range(30):
        p, y = sample(lambda u: np.where(u < 0, 0.8 * u, 0.0), 300, seed)
        low, high = SplineCalibrator().fit(p, y).interval(p).T
        free = SplineCalibrator(monotone=False).fit(p, y).calibrate(p)
        assert np.all((low < free) & (free < high))


def test_a_single_row_makes_no_fall():
    p, y = sample(lambda u: u, 2000, 1)
    p[0], y[0] = 1e-8, True
    assert SplineCalibrator().fit(p, y).curves_[0].is_monotone


@pytest.mark.parametrize(
    "options", [{"loss": "brier"}, {"smoothing": 1e-4}, {"smoothing": "cv"}]
)
def test_auto_holds_for_other_fits_too(options):
    p, y = sample(lambda u: 2.0 - 0.5 * u**2, 3000, 0)
    assert not SplineCalibrator(**options).fit(p, y).curves_[0].is_monotone
    p, y = sample(lambda u: np.where(u < 0, u, 0.02 * u), 300, 3)
    assert SplineCalibrator(**options).fit(p, y).curves_[0].is_monotone


def test_the_papers_recipe_stays_free():
    assert SplineCalibrator.paper().monotone is False


def test_a_curve_without_room_to_bend_writes_nothing(capfd):
    scores, y = np.full((60, 3), 1.0 / 3.0), np.arange(60) % 3
    np.testing.assert_allclose(
        SplineCalibrator(monotone=True).fit(scores, y).predict_proba(scores),
        scores,
        atol=1e-12,
    )
    assert capfd.readouterr() == ("", "")
