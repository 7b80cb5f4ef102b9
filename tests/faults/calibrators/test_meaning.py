"""What scores, columns and weights mean is never changed in silence: cases 3a, 3b, 3c, 29a to 29c, 35a and 35b."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from tests.faults.conftest import _problem

from calspline import ClippingCalibrator, SplineCalibrator


@pytest.mark.parametrize("value", [1 + 1e-12, 1 + 5e-7])
def test_03a_rounding_is_clipped(cal, two, value):
    # Before, one score of 1 + 1e-12 made margins of all.
    scores = np.append(two.scores, [1.0, 0.0])
    y = np.append(two.y, [1, 0])
    exact = clone(cal).fit(scores, y)
    rounded = scores.copy()
    rounded[-2:] = value, 1 - value
    cal.fit(rounded, y)
    assert cal.kind_ == exact.kind_
    np.testing.assert_allclose(cal.calibrate(two.grid), exact.calibrate(two.grid), atol=1e-5)


@pytest.mark.parametrize("count", [1, 3])
def test_03b_a_few_rows_outside_are_an_error_with_their_number(cal, problem, count):
    if getattr(cal, "transform", None) == "identity":
        return
    bad = problem.scores.copy()
    bad[(slice(5, 5 + count), *(0,) * (bad.ndim - 1))] = 1.2
    with pytest.raises(ValueError, match=rf"row 5 is 1\.2\..* {count} of 60 rows are outside\."):
        cal.fit(bad, problem.y)


def test_03_percentages_are_pointed_out(two, three):
    with pytest.warns(UserWarning, match="divide them by 100"):
        SplineCalibrator().fit(100 * two.scores, two.y)
    with pytest.raises(ValueError, match="not percentages; divide them by 100"):
        SplineCalibrator().fit(100 * three.scores, three.y)


def test_03_none_is_no_score(cal, two):
    with pytest.raises(TypeError, match="scores must be given; got None"):
        cal.fit(None, two.y)


def test_03c_reversed_scores_are_fitted_with_a_warning(cal):
    many = _problem(2, 600)
    with pytest.warns(UserWarning, match="scores are lower where the class is 1 .*perhaps they are those of 0"):
        cal.fit(1 - many.scores, many.y)
    assert np.isfinite(cal.calibrate(many.grid)).all()


def test_03_probabilities_for_a_calibrator_of_margins(cal, two, takes_margins):
    if takes_margins:
        cal.fit(two.margins, two.y)
        with pytest.warns(UserWarning, match="all lie in .* fitted on margins"):
            cal.calibrate(two.scores)


def test_29a_labels_from_1_with_a_class_absent_do_not_shift_columns(cal, three):
    y = np.where(three.y == 2, 1, three.y) + 1
    with pytest.raises(ValueError, match=r"from 0 to 2 or from 1 to 3\. .*columns=labels"):
        clone(cal).fit(three.scores, y)
    named = pd.DataFrame(three.scores, columns=["1", "2", "3"])[["3", "1", "2"]]
    assert cal.fit(named, y).classes_.tolist() == [1, 2, 3]
    plain = clone(cal).fit(three.scores, np.where(three.y == 2, 1, three.y))
    np.testing.assert_array_equal(cal.calibrate(three.scores), plain.calibrate(three.scores))


@pytest.mark.parametrize("names", [[0, 1], [0.0, 1.0], [False, True], ["0", "1"], ["p_0.0", "p_1.0"]], ids=str)
def test_29b_columns_are_named_by_value(cal, two, names):
    straight = np.column_stack([1 - two.scores, two.scores])
    swapped = pd.DataFrame(straight[:, ::-1], columns=names[::-1])
    expected = clone(cal).fit(straight, two.y).calibrate(straight)
    np.testing.assert_array_equal(cal.fit(swapped, two.y).calibrate(swapped), expected)


def test_29c_shuffled_columns_get_a_warning(cal):
    many = _problem(3, 600)
    with pytest.warns(UserWarning, match="less often than by chance .*perhaps the columns are in another order"):
        cal.fit(many.scores[:, [1, 2, 0]], many.y)


@pytest.mark.parametrize("total", [1.0, 1e6 * np.pi])
def test_35a_weights_that_make_no_sense_as_counts_get_a_warning(cal, problem, total):
    w = np.random.default_rng(0).uniform(0.5, 1.5, 60)
    clone(cal).fit(problem.scores, problem.y, w)
    with pytest.warns(UserWarning, match='sample_weight sums to .* for 60 rows.*weights="importance"'):
        cal.fit(problem.scores, problem.y, w * total / w.sum())


@pytest.mark.parametrize("multiclass", ["structured", "ovr"])
def test_35b_of_importance_only_ratios_count(problem, multiclass):
    w = np.random.default_rng(0).uniform(0.5, 1.5, 60)
    fits = [
        SplineCalibrator(weights="importance", multiclass=multiclass).fit(problem.scores, problem.y, factor * w)
        for factor in (1.0, 1e-9, 1e9)
    ]
    for cal in fits:
        assert cal.n_effective_ == pytest.approx(w.sum() ** 2 / (w @ w))
        np.testing.assert_allclose(cal.calibrate(problem.grid), fits[0].calibrate(problem.grid), atol=1e-9)


def test_03c_29c_35a_ordinary_scores_warn_of_nothing(cal, problem):
    problem.fit(cal)
    if not isinstance(cal, ClippingCalibrator):
        cal.fit(problem.scores, problem.y, np.full(60, 0.5)).calibrate(problem.grid)
