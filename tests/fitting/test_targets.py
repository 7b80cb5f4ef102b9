import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, logit

from calspline import SplineCalibrator
from calspline._arrays import Counts
from calspline.fitting.fit import HEDGE, soft_targets, trusted_line

PLATT = (1.0 / 12.0, 4.0 / 5.0)


def test_labels_that_are_no_matter_of_course_have_platts_targets():
    low, high = soft_targets(PLATT, logit(np.array([0.1, 0.5, 0.9])))
    np.testing.assert_allclose(low, PLATT[0])
    np.testing.assert_allclose(high, PLATT[1])


def test_surprises_have_platts_targets_too():
    low, high = soft_targets(PLATT, np.array([30.0, -30.0]))
    assert low[0] == pytest.approx(PLATT[0])
    assert high[1] == pytest.approx(PLATT[1])


def test_labels_that_are_certain_keep_a_share_of_the_hedge():
    low, high = soft_targets(PLATT, np.array([-40.0, 40.0]))
    assert low[0] == pytest.approx(HEDGE * PLATT[0])
    assert 1.0 - high[1] == pytest.approx(HEDGE * (1.0 - PLATT[1]))


@given(st.lists(st.floats(-50.0, 50.0), min_size=2, max_size=9))
def test_the_higher_the_score_the_higher_the_targets(eta):
    low, high = soft_targets(PLATT, np.sort(np.array(eta)))
    assert (np.diff(low) >= 0.0).all()
    assert (np.diff(high) >= 0.0).all()
    assert (low > 0.0).all()
    assert (high < 1.0).all()


def test_without_a_hedge_labels_are_as_they_are():
    low, high = soft_targets((0.0, 1.0), np.array([-3.0, 0.0, 9.0]))
    assert (low == 0.0).all()
    assert (high == 1.0).all()


@pytest.mark.parametrize("scale", [1e-310, 1e-6, 1e6, 1e300])
def test_the_line_of_margins_does_not_depend_on_their_unit(scale):
    rng = np.random.default_rng(0)
    x = np.sort(rng.normal(size=200))
    positives = (rng.random(200) < expit(2.0 * x)).astype(float)
    line = trusted_line(Counts(x, positives, 1.0 - positives), PLATT)
    moved = scale * x + 3.0 * scale
    line_of_moved = trusted_line(Counts(moved, positives, 1.0 - positives), PLATT)
    np.testing.assert_allclose(line_of_moved(moved), line(x), atol=1e-6)


def rare_and_easy(n, seed):
    """Log-odds of a model that is right about them, and nearly always certain."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) < max(n // 60, 3)
    u = rng.normal(np.where(y, 8.0, -16.0), 4.0)
    return expit(u), y


@pytest.mark.parametrize("n", [300, 1000])
def test_confident_scores_that_are_right_stay_confident(n):
    ratios = []
    for seed in range(6):
        p, y = rare_and_easy(n, seed)
        cal = SplineCalibrator().fit(p, y)
        at = np.array([-12.0, -6.0])
        ratios.append(np.diff(logit(cal.calibrate(expit(at))))[0] / 6.0)
    assert np.median(ratios) > 0.75
