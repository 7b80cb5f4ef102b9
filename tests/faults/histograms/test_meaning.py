"""What scores, labels, weights and segments mean, where rows come in parts."""

import numpy as np
import pytest

from calspline import ScoreHistogram, SplineCalibrator

OPENINGS = {
    "from_scores": ScoreHistogram.from_scores,
    "partial_fit": lambda scores, y, w=None, **more: (
        SplineCalibrator().partial_fit(scores, y, w, **more).histogram_
    ),
}
THREES = np.arange(60) % 3
WEIGHT = np.random.default_rng(0).uniform(0.5, 1.5, 60)


@pytest.fixture(params=OPENINGS)
def take(request):
    """The histogram of some rows, by both ways in."""
    return OPENINGS[request.param]


def test_03b_a_few_rows_outside_are_an_error_with_their_number(take, two):
    scores = two.changed(1.5)
    scores[7] = -0.2
    with pytest.raises(
        ValueError,
        match=r'row 3 is 1\.5\..*scale="identity"\. 2 of 60 rows are outside',
    ):
        take(scores, two.y)
    with pytest.raises(
        ValueError, match=r"row 11 is 1\.5\..* 1 of 12 rows are outside"
    ):
        ScoreHistogram.from_counts(
            [*np.linspace(0.1, 0.9, 11), 1.5], np.ones(12), np.full(12, 2)
        )


def test_29a_a_part_that_shows_1_of_1_and_2_does_not_say_which_class_that_is(take):
    with pytest.raises(
        ValueError,
        match=r"y (shows one class, 1; give both as classes|must have two classes)",
    ):
        take([0.2, 0.3], [1, 1])
    assert take([0.2, 0.3], [1, 1], classes=[1, 2]).base_rate == 0.0
    later = SplineCalibrator().partial_fit([0.2, 0.8], [1, 2])
    assert later.partial_fit([0.2, 0.3], [1, 1]).histogram_.base_rate == 0.25
    with pytest.raises(ValueError, match="y must be one of the classes"):
        later.partial_fit([0.2, 0.3], [0, 1])


def test_35b_a_histogram_of_importance_needs_to_be_told_what_it_is_worth(two):
    cal = SplineCalibrator(weights="importance")
    with pytest.raises(ValueError, match='weights must be "frequency" for partial_fit'):
        cal.partial_fit(two.scores, two.y, WEIGHT)
    # Before, sums of weights were taken for numbers of rows: 0.99999 where 0.5 was
    # right, with weights of 1e6.
    histogram = ScoreHistogram.from_scores(two.scores, two.y, WEIGHT)
    with pytest.raises(
        ValueError, match='n_effective must be given with weights="importance"'
    ):
        cal.fit_histogram(histogram)
    assert cal.fit_histogram(histogram, n_effective=50).n_effective_ == pytest.approx(
        50
    )


def fitted(scores, y, by):
    """Both ways from segments to a calibrator, which agree."""
    one = SplineCalibrator().partial_fit(scores, y, by=by)
    other = SplineCalibrator().fit_histogram(
        ScoreHistogram.from_scores(scores, y, by=by)
    )
    seen = np.array([label for label in by if label is not None])[:1].repeat(
        len(scores)
    )
    np.testing.assert_allclose(
        one.calibrate(scores, by=seen),
        other.calibrate(scores, by=seen),
        rtol=0,
        atol=1e-9,
    )
    return one


@pytest.mark.parametrize("strange", [99, None])
def test_54a_54d_none_and_a_segment_never_seen_get_the_common_curve_with_a_warning(
    two, strange
):
    by = THREES.astype(object)
    by[::4] = None
    cal = fitted(two.scores, two.y, by)
    assert cal.segments_["segment"][:3] == [0, 1, 2]
    rows = THREES.astype(object)
    rows[:7] = strange
    with pytest.warns(
        UserWarning, match="7 of 60 rows are of segments that the fit has not seen"
    ) as caught:
        found = cal.calibrate(two.scores, by=rows)
    assert len(caught) == 1
    np.testing.assert_array_equal(found[:7], cal.calibrate(two.scores[:7]))


def test_54e_small_and_odd_segments_are_shrunk(two, check):
    equal = np.where(THREES == 0, 0.5, two.scores)
    for scores, by in (
        (two.scores, np.arange(60)),
        (two.scores, two.y),
        (equal, THREES),
    ):
        check(fitted(scores, two.y, by).predict_proba(scores, by=by))


def test_54f_parts_whose_segments_are_of_another_type(take, two):
    parts = [
        ScoreHistogram.from_scores(two.scores, two.y, by=by)
        for by in (THREES, THREES.astype(float))
    ]
    assert len(parts[0] + parts[1]) == 3
    # Before, the segment '1' stood beside the segment 1.
    message = r"by must have labels like those of earlier rows \(numbers, such as 0\); got '0', a text"
    with pytest.raises(TypeError, match=message):
        parts[0] + ScoreHistogram.from_scores(two.scores, two.y, by=THREES.astype(str))
    cal = SplineCalibrator().partial_fit(two.scores, two.y, by=THREES)
    with pytest.raises(TypeError, match=message):
        cal.partial_fit(two.scores, two.y, by=THREES.astype(str))
    assert (
        cal.partial_fit(two.scores, two.y, by=THREES.astype(float)).histogram_.total
        == 120
    )
    with pytest.raises(TypeError, match="by must have labels like those of the fit"):
        cal.calibrate(two.scores, by=THREES.astype(str))
    pairs = [
        ScoreHistogram.from_scores(two.scores, two.y, by=[THREES, by])
        for by in (THREES, [str(s) for s in THREES])
    ]
    with pytest.raises(TypeError, match=message):
        pairs[0] + pairs[1]
