import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, logit

from calspline import SplineCalibrator
from calspline.export import to_python
from calspline.transforms import Transform


def under_confident(seed=0, n=2000, slope=3.0):
    """Scores between 0.2 and 0.8 whose true log-odds are a multiple of theirs."""
    rng = np.random.default_rng(seed)
    u = rng.uniform(-1.4, 1.4, n)
    return expit(u), rng.random(n) < expit(slope * u)


def slopes(cal, u):
    """Slopes of the calibrated log-odds between log-odds ``u`` of scores."""
    return np.diff(logit(cal.calibrate(expit(u)))) / np.diff(u)


@pytest.mark.parametrize("scale", ["auto", "logit", "asinh_logit", "compact_logit"])
def test_beyond_all_scores_the_log_odds_are_no_steeper_than_theirs(scale):
    p, y = under_confident()
    cal = SplineCalibrator(scale=scale).fit(p, y)
    above = np.linspace(logit(p.max()), 8.0, 50)
    below = np.linspace(logit(p.min()), -8.0, 50)
    assert slopes(cal, np.linspace(-1.2, 1.2, 9)).mean() > 2.0
    assert slopes(cal, above).max() <= 1.0 + 1e-6
    assert slopes(cal, below).max() <= 1.0 + 1e-6


@pytest.mark.filterwarnings("ignore::calspline._input.hints.ClassOrderWarning")
def test_nor_are_they_if_they_fall():
    p, y = under_confident(slope=-3.0)
    cal = SplineCalibrator(monotone=False).fit(p, y)
    above = np.linspace(logit(p.max()), 8.0, 50)
    below = np.linspace(logit(p.min()), -8.0, 50)
    assert slopes(cal, np.linspace(-1.2, 1.2, 9)).mean() < -2.0
    assert slopes(cal, above).min() >= -1.0 - 1e-6
    assert slopes(cal, below).min() >= -1.0 - 1e-6


@pytest.mark.parametrize("margins", [False, True])
def test_beyond_all_scores_no_curve_goes_against_its_own_direction(margins):
    # The most certain scores are wrong: the curve rises, and falls at its end.
    rng = np.random.default_rng(0)
    u = rng.uniform(-3.0, 4.0, 5000)
    y = rng.random(5000) < expit(np.where(u < 3.0, u, 3.0 - 4.0 * (u - 3.0)))
    scores = 2.0 * u if margins else expit(u)
    far = 2.0 * np.array([4.0, 5.0, 8.0]) if margins else expit([4.0, 5.0, 8.0])
    cal = SplineCalibrator().fit(scores, y)
    at_end = float(cal.calibrate([scores.max()])[0])
    assert at_end < cal.calibrate([6.0 if margins else expit(3.0)])[0] - 0.2
    np.testing.assert_allclose(cal.calibrate(far), at_end, atol=0.02)


def test_a_slope_below_one_goes_on_as_it_is():
    p, y = under_confident(slope=0.5)
    cal = SplineCalibrator().fit(p, y)
    end = logit(p.max())
    inside = slopes(cal, np.array([end - 1e-3, end]))
    np.testing.assert_allclose(slopes(cal, np.array([end, 8.0])), inside, rtol=1e-3)
    assert 0.0 < inside[0] < 1.0


def test_margins_have_no_unit_to_compare_a_slope_with():
    p, y = under_confident()
    cal = SplineCalibrator().fit(3.0 * logit(p) - 5.0, y)
    assert cal.scale_ == "identity"
    far = 3.0 * np.array([1.5, 2.0]) - 5.0
    assert np.diff(logit(cal.calibrate(far)))[0] > 1.0


def test_exports_extrapolate_alike():
    cal = SplineCalibrator().fit(*under_confident())
    space = {}
    exec(to_python(cal), space)
    at = expit(np.linspace(-9.0, 9.0, 41))
    exported = [space["calibrate"](float(p)) for p in at]
    np.testing.assert_allclose(exported, cal.calibrate(at), rtol=1e-12)


@pytest.mark.filterwarnings("ignore::calspline._input.hints.ClassOrderWarning")
@given(
    st.integers(0, 10_000),
    st.integers(10, 300),
    st.floats(-2.0, 4.0),
    st.sampled_from(["logit", "asinh_logit"]),
)
def test_no_data_make_them_steeper(seed, n, slope, scale):
    rng = np.random.default_rng(seed)
    u = rng.normal(rng.normal(0.0, 3.0), rng.uniform(0.1, 3.0), n)
    y = rng.random(n) < expit(slope * u)
    y[:2] = False, True
    cal = SplineCalibrator(scale=scale).fit(expit(u), y)
    above = u.max() + np.linspace(0.0, 5.0, 11)
    below = u.min() - np.linspace(0.0, 5.0, 11)
    far = np.abs(np.r_[slopes(cal, above), slopes(cal, below)])
    assert far.max() <= 1.0 + 1e-3


@pytest.mark.parametrize(
    "transform", [Transform("asinh_logit"), Transform("compact_logit", 0.01)]
)
@pytest.mark.parametrize("p", [0.002, 0.3, 0.98, 0.9999])
def test_the_slope_of_the_log_odds_in_x_is_that_of_differences(transform, p):
    x = transform([p])
    h = 1e-7 * (1.0 - p)
    near = np.array([p - h, p + h])
    wanted = np.diff(logit(near)) / np.diff(transform(near))
    assert transform.slopes_of_log_odds(x) == pytest.approx(wanted, rel=1e-4)


def test_where_the_logit_is_clipped_any_slope_is_allowed():
    slopes = Transform("logit").slopes_of_log_odds(np.array([0.0, 30.0]))
    assert slopes.tolist() == [1.0, np.inf]
