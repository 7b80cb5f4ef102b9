import numpy as np
import pandas as pd
import polars as pl
import pytest

from calspline import ClippingCalibrator, TemperatureCalibrator
from calspline.multiclass.one_vs_rest import normalise


def columns(problem):
    return np.column_stack([1 - problem.scores, problem.scores]) if problem.n_classes == 2 else problem.scores.copy()


def test_40_rows_that_do_not_sum_to_one(cal, problem, check):
    scores = columns(problem)
    scores[3] = 0.4
    if getattr(cal, "transform", None) == "identity":
        # They may as well be margins, and are taken for that.
        check(cal.fit(scores, problem.y).predict_proba(scores))
        return
    message = rf"each row of scores must sum to one \(within 0\.005\); row 3 sums to {0.4 * problem.n_classes:g}"
    with pytest.raises(ValueError, match=message):
        cal.fit(scores, problem.y)
    cal.fit(columns(problem), problem.y)
    with pytest.raises(ValueError, match=message):
        cal.calibrate(scores)


def test_40_rows_that_almost_sum_to_one(cal, problem, check):
    scores = np.round(columns(problem), 4)
    assert np.abs(scores.sum(axis=1) - 1).max() > 0 or problem.n_classes == 2
    check(cal.fit(scores, problem.y).predict_proba(scores))


def test_41_negative_entries(cal, problem, any_score_goes, takes_margins, check):
    scores = columns(problem)
    scores[3, :2] = [-0.2, 1.1]
    if getattr(cal, "transform", None) == "identity":
        check(cal.fit(scores, problem.y).predict_proba(scores))
    else:
        with pytest.raises(ValueError, match=r"scores must be probabilities in \[0, 1\]; row 3 is -0\.2.*1 of 60 rows"):
            cal.fit(scores, problem.y)
    if takes_margins:
        logits = np.log(columns(problem))
        check(cal.fit(logits, problem.y).predict_proba(logits))
    cal.fit(columns(problem), problem.y)
    wrong = "row 3 sums to 0.9" if any_score_goes else r"scores must be probabilities in \[0, 1\]; row 3 is -0\.2"
    with pytest.raises(ValueError, match=wrong):
        cal.calibrate(scores)


def test_42_a_row_of_zeros(cal, problem, check):
    scores = columns(problem)
    scores[5] = 0.0
    if getattr(cal, "transform", None) == "identity":
        check(cal.fit(scores, problem.y).predict_proba(scores))
        return
    with pytest.raises(ValueError, match="row 5 sums to 0"):
        cal.fit(scores, problem.y)


def test_42_a_row_that_normalises_to_nothing_is_uniform():
    p = np.array([[0.0, 0.0, 0.0], [0.2, 0.2, 0.4]])
    normalise(p)
    np.testing.assert_allclose(p, [[1 / 3] * 3, [0.25, 0.25, 0.5]])


def test_43_a_class_without_rows(cal, three, check):
    y = np.where(three.y == 2, 1, three.y)
    cal.fit(three.scores, y)
    assert cal.classes_.tolist() == [0, 1, 2]
    out = cal.predict_proba(three.scores)
    check(out, (60, 3))
    if isinstance(cal, (TemperatureCalibrator, ClippingCalibrator)) or getattr(cal, "monotone", False):
        return  # every row keeps its ranking: the class has what its scores give it
    assert out[:, 2].mean() < 0.5 * three.scores[:, 2].mean()


def test_43_a_frames_columns_are_matched_to_the_classes(cal, three):
    names = np.array(["ant", "bee", "cat"])
    y = names[three.y]
    expected = cal.fit(three.scores, y).predict_proba(three.scores)
    for box in (pd.DataFrame, pl.DataFrame):
        frame = box({name: three.scores[:, j] for j, name in reversed(list(enumerate(names)))})
        np.testing.assert_array_equal(cal.fit(frame, y).predict_proba(frame), expected)
        np.testing.assert_array_equal(cal.predict_proba(three.scores), expected)


def test_43_a_class_named_by_a_column_alone(cal, three, check):
    frame = pd.DataFrame(three.scores, columns=["ant", "bee", "cat"])
    cal.fit(frame, np.array(["ant", "bee", "bee"])[three.y])
    assert cal.classes_.tolist() == ["ant", "bee", "cat"]
    check(cal.predict_proba(frame), (60, 3))
