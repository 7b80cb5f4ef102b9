"""What the contract asks of the spline alone: its transforms, options that are arrays, intervals."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from calspline import SplineCalibrator
from calspline.arrays import CHUNK


@pytest.mark.parametrize("transform", ["logit", "compact_logit", "asinh_logit"])
@pytest.mark.parametrize("value", [-0.1, 1.00001])
def test_03_scores_outside_the_unit_interval_point_to_identity(two, transform, value):
    cal = SplineCalibrator(transform=transform)
    with pytest.raises(ValueError, match=r'row 4 is .*transform="identity"'):
        cal.fit(two.changed(value, row=4), two.y)
    with pytest.raises(ValueError, match=r'row 0 is .*transform="identity"'):
        cal.fit(np.column_stack([np.full(60, value), two.scores]), two.y)
    assert SplineCalibrator(transform="identity").fit(two.changed(value, row=4), two.y).transform_ == "identity"


def test_05_empty_interval(two):
    assert SplineCalibrator().fit(two.scores, two.y).interval([]).shape == (0, 2)


def test_38_options_passed_in_are_not_changed(two):
    knots, grid = np.array([0.2, 0.5, 0.9]), np.array([1.0, 0.1])
    SplineCalibrator(knots=knots, smoothing_grid=grid).fit(two.scores, two.y).interval(two.scores)
    assert knots.tolist() == [0.2, 0.5, 0.9]
    assert grid.tolist() == [1.0, 0.1]


def test_46_interval_before_fit():
    with pytest.raises(NotFittedError):
        SplineCalibrator().interval([0.5])


def test_53_a_bad_row_in_a_late_chunk_is_named():
    pair = np.full((CHUNK + 100, 2), 0.5)
    pair[CHUNK + 7, 0] = 0.7
    with pytest.raises(ValueError, match=f"row {CHUNK + 7} sums to 1.2"):
        SplineCalibrator().fit(pair, np.arange(len(pair)) % 2)


@pytest.mark.parametrize("options", [{"smoothing": "cv"}, {"smoothing": "loo"}, {"penalty": "ridge"}], ids=str)
def test_clean_input_gives_no_warning(two, options):
    SplineCalibrator(**options).fit(two.scores, two.y).calibrate(two.grid)
