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


def test_a_first_batch_without_segments_is_an_error():
    with pytest.raises(ValueError, match="all of a column are missing"):
        SplineCalibrator().partial_fit([0.1, 0.5, 0.9], [0, 1, 1], by=[None] * 3)
