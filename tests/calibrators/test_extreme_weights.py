"""Fits of few rows with extreme scores or weights: no error, and finite results."""

import numpy as np
import pytest

from calspline import SplineCalibrator

SCORES = np.random.default_rng(0).random(40)
LABELS = np.arange(40) % 2
IGNORED = (
    "ignore:sample_weight sums to",
    "ignore:the fit did not converge",
    "ignore:scores are lower",
)


@pytest.mark.filterwarnings(*IGNORED)
def test_segments_of_scores_next_to_zero_have_finite_effects():
    scores = [2.497e-275, 2.4396e-266, 7.304e-07]
    by = ["0", "0", "1"]
    cal = SplineCalibrator().fit(scores, [0, 1, 0], [2.0, 4.0, 2.0], by=by)
    assert np.isfinite(cal.calibrate(scores, by=by)).all()


@pytest.mark.filterwarnings(*IGNORED)
def test_brier_fits_of_huge_weights_stay_inside_the_unit_interval():
    cal = SplineCalibrator(loss="brier", smoothing="cv")
    p = cal.fit(SCORES, LABELS, np.full(40, 1e16)).calibrate(SCORES)
    assert p.min() > 0.0
    assert p.max() < 1.0


@pytest.mark.filterwarnings(*IGNORED)
def test_folds_of_huge_weights_are_dealt_without_a_negative_remainder():
    weights = np.random.default_rng(1).random(40) * 1e17
    cal = SplineCalibrator(loss="brier", smoothing="cv").fit(SCORES, LABELS, weights)
    assert np.isfinite(cal.calibrate(SCORES)).all()


@pytest.mark.filterwarnings(*IGNORED)
def test_a_band_of_nearly_equal_scores_is_the_pointwise_one():
    scores = 0.5 + np.arange(5) * 1e-15
    cal = SplineCalibrator(scale="identity", penalty="ridge", monotone=False)
    cal.fit(scores, [0, 1, 0, 1, 1])
    np.testing.assert_allclose(
        cal.interval([0.5], simultaneous=True), cal.interval([0.5])
    )


@pytest.mark.parametrize("size", [5e-324, 1e19, 1e100, 1e300])
@pytest.mark.parametrize("given", ["by", "groups", None])
def test_weights_that_sum_to_no_number_of_rows_are_an_error(size, given):
    segments = {} if given is None else {given: LABELS}
    with pytest.raises(ValueError, match="must sum to 1e-300 to 1e"):
        SplineCalibrator().fit(SCORES, LABELS, np.full(40, size), **segments)


@pytest.mark.filterwarnings(*IGNORED)
@pytest.mark.parametrize("size", [1e-170, 1e-300])
@pytest.mark.parametrize("given", ["by", "groups", None])
def test_weights_of_next_to_nothing_leave_the_scores_as_they_are(size, given):
    segments = {} if given is None else {given: LABELS}
    cal = SplineCalibrator().fit(SCORES, LABELS, np.full(40, size), **segments)
    by = {"by": LABELS} if given == "by" else {}
    p = cal.calibrate(SCORES, **by)
    np.testing.assert_allclose(p, SCORES, atol=0.05)


@pytest.mark.parametrize("unit", [1e-305, 1e-310])
def test_segments_of_tiny_margins_are_those_of_larger_ones(unit):
    margins = np.random.default_rng(2).normal(size=200)
    y = margins + np.random.default_rng(3).logistic(size=200) > 0.0
    by = np.arange(200) % 4
    small, large = (
        SplineCalibrator().fit(x, y, by=by).calibrate(x, by=by)
        for x in (unit * margins, margins)
    )
    np.testing.assert_allclose(small, large, atol=1e-3)


@pytest.mark.parametrize("multiclass", ["structured", "ovr"])
def test_logits_too_close_for_any_slope_are_equal_and_say_so(multiclass):
    logits = 1e-300 * np.random.default_rng(4).normal(size=(60, 3))
    with pytest.warns(UserWarning, match="all scores are equal"):
        cal = SplineCalibrator(multiclass=multiclass).fit(logits, np.arange(60) % 3)
    np.testing.assert_allclose(cal.calibrate(logits), 1 / 3, atol=0.01)


def test_a_first_batch_without_segments_is_an_error():
    with pytest.raises(ValueError, match="all of a column are missing"):
        SplineCalibrator().partial_fit([0.1, 0.5, 0.9], [0, 1, 1], by=[None] * 3)


@pytest.mark.filterwarnings(*IGNORED)
@pytest.mark.parametrize("reach", [1e9, 1e15, 1e100])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n", [6, 12, 40, 200])
def test_segments_of_margins_and_weights_of_any_size_are_finite(n, weighted, reach):
    for seed in range(3):
        rng = np.random.default_rng([seed, n])
        margins = rng.normal(size=n) * np.where(rng.random(n) < 0.3, reach, 1.0)
        margins[: n // 3] = margins[0]
        margins[-1] = 2.0 * reach
        y = rng.random(n) < 0.5
        y[:2] = False, True
        by = rng.integers(min(n // 2, 4), size=n)
        weight = 10.0 ** rng.uniform(-3, 13, n) if weighted else None
        cal = SplineCalibrator(scale="identity").fit(margins, y, weight, by=by)
        assert np.isfinite(cal.calibrate(margins, by=by)).all()
        assert np.isfinite(cal.interval(margins, by=by)).all()


@pytest.mark.filterwarnings(*IGNORED, "ignore:all scores are equal")
@pytest.mark.parametrize("n", [2, 5])
def test_one_row_may_outweigh_all_others_by_any_factor(n):
    y = np.arange(n) < n - 1
    weight = np.where(y, 1e11, 1e-11)
    cal = SplineCalibrator().fit(np.linspace(0.499999, 0.5, n), y, weight)
    assert np.isfinite(cal.calibrate([0.3, 0.5, 0.9])).all()
    assert SplineCalibrator().fit(np.full(n, 0.5), y, weight).calibrate(0.5) > 0.999
