import warnings

import numpy as np
import pytest

from calspline import ClippingCalibrator, SplineCalibrator
from calspline._input.scores import check_scores

BAD = (ValueError, TypeError)


def declared_margins(cal, problem, scores):
    """A fit of scores that are declared to be margins."""
    classes = np.arange(problem.n_classes)
    return cal._fit_scores(
        check_scores(scores), problem.y, classes=classes, margins=True
    )


def test_03_declared_margins_may_lie_in_the_unit_interval(
    cal, problem, takes_margins, check
):
    if not takes_margins:
        advice = (
            "Clipping is for"
            if isinstance(cal, ClippingCalibrator)
            else 'use scale="identity"'
        )
        with pytest.raises(ValueError, match=advice):
            declared_margins(cal, problem, problem.scores)
        return
    declared_margins(cal, problem, problem.scores)
    if problem.n_classes > 2:  # rows that sum to one are no logits
        assert cal.model_.kind.name == "probability"
        return
    check(cal.predict_proba(5.0 * problem.scores - 2.0))
    if isinstance(cal, SplineCalibrator) and problem.n_classes == 2:
        identity = SplineCalibrator(**(cal.get_params() | {"scale": "identity"})).fit(
            problem.scores, problem.y
        )
        np.testing.assert_array_equal(
            cal.calibrate(problem.grid), identity.calibrate(problem.grid)
        )


def test_03_declared_margins_are_what_margins_outside_are(cal, problem, takes_margins):
    if takes_margins:
        other = type(cal)(**cal.get_params())
        declared = declared_margins(other, problem, problem.margins)
        cal.fit(problem.margins, problem.y)
        np.testing.assert_array_equal(
            declared.calibrate(problem.margins), cal.calibrate(problem.margins)
        )


def test_03_margins_too_large_to_square(cal, problem, takes_margins):
    message = (
        r"scores must be at most 1e\+300 in size; row 0"
        if takes_margins
        else r"scores must be probabilities"
    )
    with pytest.raises(ValueError, match=message):
        cal.fit(problem.changed(-1e308, row=0), problem.y)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_03_narrow_margins(cal, problem, takes_margins, check, dtype):
    if takes_margins:
        margins = problem.margins.astype(dtype)
        check(cal.fit(margins, problem.y).predict_proba(margins))


def test_05_empty_predict(cal, problem):
    problem.fit(cal)
    m = problem.n_classes
    assert cal.predict_proba(problem.scores[:0]).shape == (0, m)
    assert cal.predict(problem.scores[:0]).shape == (0,)
    for shape in [(0,), (0, 1), (0, 2)] if m == 2 else [(0, 3)]:
        assert cal.calibrate(np.empty(shape)).shape == shape


def test_06_a_number_is_one_score_of_two_classes(cal, problem):
    problem.fit(cal)
    if problem.n_classes == 2:
        assert cal.calibrate(0.5) == cal.calibrate([0.5])[0]
    else:
        with pytest.raises(ValueError, match="scores must have 3 columns"):
            cal.calibrate(0.5)
    for method in (cal.predict_proba, cal.predict):
        with pytest.raises(BAD, match="scores must have one or two dimensions; got"):
            method(0.5)


def test_06_wrong_number_of_columns(cal, problem):
    problem.fit(cal)
    message = (
        "one or two columns"
        if problem.n_classes == 2
        else "3 columns, one for each class"
    )
    with pytest.raises(
        ValueError, match=rf"scores must have {message}.*got shape \(5, 4\)"
    ):
        cal.calibrate(np.full((5, 4), 0.25))


def test_13_the_warning_points_at_the_callers_line(cal, two):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        cal.fit(np.full(60, 0.7), two.y)
    assert [w.filename for w in caught] == (
        [] if isinstance(cal, ClippingCalibrator) else [__file__]
    )


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:sample_weight sums to")
def test_18_many_rows_are_all_seen(cal, problem):
    row = np.random.default_rng(0).integers(0, 60, 100_003)
    cal.fit(problem.scores[row], problem.y[row])
    out = cal.predict_proba(problem.scores[row])
    np.testing.assert_array_equal(
        out[-60:], cal.predict_proba(problem.scores[row[-60:]])
    )
    counted = cal.fit(
        problem.scores, problem.y, np.bincount(row, minlength=60)
    ).predict_proba(problem.scores)
    np.testing.assert_allclose(out, counted[row], atol=1e-9)


def test_18_a_bad_row_far_down_is_named(cal, problem):
    n = 100_003
    scores = np.resize(problem.scores, (n, *problem.scores.shape[1:])).copy()
    scores[(99_990,) + (0,) * (scores.ndim - 1)] = np.nan
    with pytest.raises(ValueError, match="row 99990 is nan"):
        cal.fit(scores, np.resize(problem.y, n))
