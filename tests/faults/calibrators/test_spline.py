"""What the contract asks of the spline alone: its transforms, options that are arrays, intervals."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from calspline import SplineCalibrator
from calspline._arrays import CHUNK


@pytest.mark.parametrize("scale", ["logit", "compact_logit", "asinh_logit"])
@pytest.mark.parametrize("value", [-0.1, 1.0002])
def test_03_scores_outside_the_unit_interval_point_to_identity(two, scale, value):
    cal = SplineCalibrator(scale=scale)
    with pytest.raises(ValueError, match=r'row 4 is .*scale="identity"'):
        cal.fit(two.changed(value, row=4), two.y)
    with pytest.raises(ValueError, match=r'row 0 (is|sums to) .*scale="identity"'):
        cal.fit(np.column_stack([np.full(60, value), two.scores]), two.y)
    assert (
        SplineCalibrator(scale="identity").fit(two.changed(value, row=4), two.y).scale_
        == "identity"
    )


def test_05_empty_interval(two):
    assert SplineCalibrator().fit(two.scores, two.y).interval([]).shape == (0, 2)


def test_38_options_passed_in_are_not_changed(two):
    grid = np.array([1.0, 0.1])
    cal = SplineCalibrator(smoothing_grid=grid).fit(two.scores, two.y)
    cal.interval(two.scores)
    assert grid.tolist() == [1.0, 0.1]


def test_46_interval_before_fit():
    with pytest.raises(NotFittedError):
        SplineCalibrator().interval([0.5])


def test_53_a_bad_row_in_a_late_chunk_is_named():
    pair = np.full((CHUNK + 100, 2), 0.5)
    pair[CHUNK + 7, 0] = 0.7
    with pytest.raises(ValueError, match=f"row {CHUNK + 7} sums to 1.2"):
        SplineCalibrator().fit(pair, np.arange(len(pair)) % 2)


@pytest.mark.parametrize(
    "options", [{"smoothing": "cv"}, {"penalty": "ridge"}], ids=str
)
def test_clean_input_gives_no_warning(two, options):
    SplineCalibrator(**options).fit(two.scores, two.y).calibrate(two.grid)
