import warnings

import numpy as np
import pandas as pd
import pytest

from calspline import SplineCalibrator

BAD = (ValueError, TypeError)
THREES = np.arange(60) % 3
NEVER_SEEN = "of segments that the fit has not seen"


@pytest.fixture(params=["structured", "ovr"])
def spline(request):
    return SplineCalibrator(multiclass=request.param)


def in_range(p, n, classes):
    assert p.shape == (n, len(classes))
    assert np.isfinite(p).all()
    assert p.min() >= 0.0
    np.testing.assert_allclose(p.sum(axis=1), 1.0)


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA])
def test_54a_none_among_segments_is_a_segment_never_seen(spline, problem, missing):
    by = THREES.astype(object)
    by[::4] = missing
    cal = spline.fit(problem.scores, problem.y, by=by)
    assert cal.segments_["segment"][:3] == [0, 1, 2]
    with pytest.warns(UserWarning, match=f"15 of 60 rows are {NEVER_SEEN}"):
        found = cal.predict_proba(problem.scores, by=by)
    with pytest.warns(UserWarning, match=f"15 of 60 rows are {NEVER_SEEN}"):
        new = cal.predict_proba(problem.scores, by=np.where(pd.isna(by), 99, by))
    np.testing.assert_array_equal(found, new)
    np.testing.assert_array_equal(found[::4], cal.predict_proba(problem.scores)[::4])


def test_54d_a_segment_never_seen_gets_the_common_curve_and_one_warning(
    spline, problem
):
    cal = spline.fit(problem.scores, problem.y, by=THREES)
    by = np.where(np.arange(60) < 7, 99, THREES)
    with pytest.warns(UserWarning, match=f"7 of 60 rows are {NEVER_SEEN}") as caught:
        found = cal.predict_proba(problem.scores, by=by)
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(found[:7], cal.predict_proba(problem.scores)[:7])
        np.testing.assert_array_equal(
            found[7:], cal.predict_proba(problem.scores, by=THREES)[7:]
        )


@pytest.mark.filterwarnings("ignore:all scores are equal")
def test_54e_a_segment_of_equal_scores(spline, problem):
    scores = np.array(problem.scores)
    scores[THREES == 0] = scores[0]
    cal = spline.fit(scores, problem.y, by=THREES)
    in_range(cal.predict_proba(scores, by=THREES), 60, cal.classes_)
    everywhere = np.broadcast_to(scores[0], scores.shape)
    cal = spline.fit(everywhere, problem.y, by=THREES)
    in_range(cal.predict_proba(everywhere, by=THREES), 60, cal.classes_)


@pytest.mark.parametrize(
    "same",
    [
        THREES.astype(float),
        THREES.astype(object),
        THREES.tolist(),
        THREES.astype(np.int8),
    ],
)
def test_54f_integers_and_floats_that_are_equal_are_the_same_segment(
    spline, problem, same
):
    cal = spline.fit(problem.scores, problem.y, by=THREES)
    wanted = cal.predict_proba(problem.scores, by=THREES)
    np.testing.assert_array_equal(cal.predict_proba(problem.scores, by=same), wanted)
    np.testing.assert_allclose(
        spline.fit(problem.scores, problem.y, by=same).predict_proba(
            problem.scores, by=THREES
        ),
        wanted,
    )


def test_54f_a_type_that_never_matches_is_an_error(spline, problem):
    cal = spline.fit(problem.scores, problem.y, by=THREES)
    with pytest.raises(
        TypeError,
        match=r"by must have labels like those of the fit \(numbers, such as 0\); row 0 is '0'",
    ):
        cal.calibrate(problem.scores, by=THREES.astype(str))
    cal = spline.fit(problem.scores, problem.y, by=THREES.astype(str))
    with pytest.raises(TypeError, match=r"\(texts, such as '0'\); row 0 is 0"):
        cal.calibrate(problem.scores, by=THREES)


def test_54f_a_number_and_its_text_are_two_segments(spline, problem):
    by = np.array([1, "1"] * 30, dtype=object)
    cal = spline.fit(problem.scores, problem.y, by=by)
    assert sorted(map(repr, cal.segments_["segment"][:2])) == ["'1'", "1"]


def test_segments_that_were_not_fitted_are_an_error(spline, problem):
    cal = spline.fit(problem.scores, problem.y)
    with pytest.raises(
        ValueError,
        match="by must not be given: this calibrator was fitted without segments",
    ):
        cal.calibrate(problem.scores, by=THREES)
    cal.fit(problem.scores, problem.y, by=[THREES, THREES])
    with pytest.raises(
        ValueError, match="by must have 2 columns, as in the fit; got 1"
    ):
        cal.calibrate(problem.scores, by=THREES)


def test_segments_need_the_log_loss(problem):
    with pytest.raises(ValueError, match='loss must be "log" for a fit with by'):
        SplineCalibrator(loss="brier", multiclass="ovr").fit(
            problem.scores, problem.y, by=THREES
        )
