import numpy as np
import pandas as pd
import polars as pl
import pytest

from calspline.multiclass.one_vs_rest import normalise


def columns(problem):
    return (
        np.column_stack([1 - problem.scores, problem.scores])
        if problem.n_classes == 2
        else problem.scores.copy()
    )


def test_41_negative_entries(cal, problem, any_score_goes, takes_margins, check):
    scores = columns(problem)
    scores[3, :2] = [-0.2, 1.1]
    if getattr(cal, "scale", None) == "identity":
        check(cal.fit(scores, problem.y).predict_proba(scores))
    else:
        with pytest.raises(
            ValueError,
            match=r"scores must be probabilities in \[0, 1\]; row 3 is -0\.2.*1 of 60 rows",
        ):
            cal.fit(scores, problem.y)
    if takes_margins:
        logits = np.log(columns(problem))
        check(cal.fit(logits, problem.y).predict_proba(logits))
    cal.fit(columns(problem), problem.y)
    wrong = (
        "row 3 sums to 0.9"
        if any_score_goes
        else r"scores must be probabilities in \[0, 1\]; row 3 is -0\.2"
    )
    with pytest.raises(ValueError, match=wrong):
        cal.calibrate(scores)


def test_42_a_row_that_normalises_to_nothing_is_uniform():
    p = np.array([[0.0, 0.0, 0.0], [0.2, 0.2, 0.4]])
    normalise(p)
    np.testing.assert_allclose(p, [[1 / 3] * 3, [0.25, 0.25, 0.5]])


def test_43_a_frames_columns_are_matched_to_the_classes(cal, three):
    names = np.array(["ant", "bee", "cat"])
    y = names[three.y]
    expected = cal.fit(three.scores, y).predict_proba(three.scores)
    for box in (pd.DataFrame, pl.DataFrame):
        frame = box(
            {name: three.scores[:, j] for j, name in reversed(list(enumerate(names)))}
        )
        np.testing.assert_array_equal(cal.fit(frame, y).predict_proba(frame), expected)
        np.testing.assert_array_equal(cal.predict_proba(three.scores), expected)


def test_43_a_class_named_by_a_column_alone(cal, three, check):
    frame = pd.DataFrame(three.scores, columns=["ant", "bee", "cat"])
    cal.fit(frame, np.array(["ant", "bee", "bee"])[three.y])
    assert cal.classes_.tolist() == ["ant", "bee", "cat"]
    check(cal.predict_proba(frame), (60, 3))
