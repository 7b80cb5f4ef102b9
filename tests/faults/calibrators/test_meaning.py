"""What scores, columns and weights mean is never changed in silence: cases 3a, 3b, 3c, 29a to 29d, 35a and 35b."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from tests.faults.conftest import _problem

from calspline import ClippingCalibrator, SplineCalibrator


@pytest.mark.parametrize("value", [-1e-300, -1e-7, -9e-5, 1 + 1e-12, 1.00001])
def test_03a_a_score_is_clipped_whatever_the_batch(cal, two, value):
    # Before, a score of -1e-7 was an error alone and clipped beside one of 0.5.
    if two.fit(cal).model_.kind.value_kind == "margin":
        return
    [wanted] = cal.calibrate([np.clip(value, 0.0, 1.0)])
    for batch in ([value], [value, 0.5], [value, value], [value, 1e-9]):
        assert cal.calibrate(batch)[0] == wanted


def test_03a_messages_show_the_digits_that_matter(cal, two):
    if two.fit(cal).model_.kind.value_kind == "margin":
        return
    with pytest.raises(ValueError, match=r"row 1 is 1\.0002\. "):
        cal.calibrate([0.5, 1.0002])


def test_03_margins_close_to_zero_are_not_rounded_probabilities(
    cal, problem, takes_margins
):
    if takes_margins:
        margins = problem.margins - problem.margins.mean()
        for scale in (1e-3, 1e-4, 3e-5, 1e-6):
            assert (
                clone(cal).fit(scale * margins, problem.y).model_.kind.value_kind
                == "margin"
            )


def test_03_percentages_are_pointed_out(two, three):
    with pytest.warns(UserWarning, match="divide them by 100"):
        SplineCalibrator().fit(100 * two.scores, two.y)
    with pytest.raises(ValueError, match="not percentages; divide them by 100"):
        SplineCalibrator().fit(100 * three.scores, three.y)


def test_03_none_is_no_score(cal, two):
    with pytest.raises(TypeError, match="scores must be given; got None"):
        cal.fit(None, two.y)


def test_03c_the_warning_names_a_remedy_that_works(cal):
    many = _problem(2, 600)
    names = np.where(many.y == 1, "bad", "good")
    remedy = r"those of 'bad' \(if so, fit with y == 'bad'\)"
    with pytest.warns(UserWarning, match=remedy):
        cal.fit(many.scores, names)
    # Warnings are errors in the tests: following the advice gives none.
    cal.fit(many.scores, names == "bad")
    low, high = cal.calibrate(np.quantile(many.scores, [0.1, 0.9]))
    assert low < high


def test_03_probabilities_for_a_calibrator_of_margins(cal, two, takes_margins):
    if takes_margins:
        cal.fit(two.margins, two.y)
        with pytest.warns(UserWarning, match="all scores lie in .* fitted on margins"):
            cal.calibrate(two.scores)


def test_29a_labels_from_1_with_a_class_absent_do_not_shift_columns(cal, three):
    y = np.where(three.y == 2, 1, three.y) + 1
    with pytest.raises(
        ValueError, match=r"from 0 to 2 or from 1 to 3\. .*columns=labels"
    ):
        clone(cal).fit(three.scores, y)
    named = pd.DataFrame(three.scores, columns=["1", "2", "3"])[["3", "1", "2"]]
    assert cal.fit(named, y).classes_.tolist() == [1, 2, 3]
    plain = clone(cal).fit(three.scores, np.where(three.y == 2, 1, three.y))
    np.testing.assert_array_equal(
        cal.calibrate(three.scores), plain.calibrate(three.scores)
    )


def test_29d_probabilities_of_classes_that_hardly_occur_are_scores(cal, check):
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(8), 100)
    check(cal.fit(p, np.arange(100) % 3).predict_proba(p))


@pytest.mark.parametrize("multiclass", ["structured", "ovr"])
def test_35b_of_importance_only_ratios_count(problem, multiclass):
    w = np.random.default_rng(0).uniform(0.5, 1.5, 60)
    fits = [
        SplineCalibrator(weights="importance", multiclass=multiclass).fit(
            problem.scores, problem.y, factor * w
        )
        for factor in (1.0, 1e-9, 1e9)
    ]
    for cal in fits:
        assert cal.n_effective_ == pytest.approx(w.sum() ** 2 / (w @ w))
        np.testing.assert_allclose(
            cal.calibrate(problem.grid), fits[0].calibrate(problem.grid), atol=1e-9
        )


def test_03c_29c_35a_ordinary_scores_warn_of_nothing(cal, problem):
    problem.fit(cal)
    if not isinstance(cal, ClippingCalibrator):
        cal.fit(problem.scores, problem.y, np.full(60, 0.5)).calibrate(problem.grid)
