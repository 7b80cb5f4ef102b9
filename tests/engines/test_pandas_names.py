"""Frames of pandas whose columns have names that are no texts, or not unique: the same as under plain names."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, softmax
from sklearn.linear_model import LogisticRegression

from calspline import (
    CalibratedClassifierCV,
    SplineCalibrator,
    apply_frame,
    evaluate,
    fit_frame,
)

PLAIN = ["p", "y", "w", "g", "s", "t"]
NAMES = {
    "numbers": [5, 3, 0, 9, 7, 8],
    "numbers of other types": [np.int64(5), 3, 0.0, np.float64(9.0), 7, 8],
    "tuples": [
        ("in", "p"),
        ("in", "y"),
        ("in", "w"),
        ("by", "g"),
        ("by", "s"),
        ("by", "t"),
    ],
    "all sorts": ["p", 1, ("a", "b"), "1", None, 2.5],
}


def rows(n=600):
    rng = np.random.default_rng(0)
    u = rng.normal(0.0, 1.5, n)
    s = rng.integers(0, 3, n)
    return pd.DataFrame(
        {
            "p": expit(u),
            "y": rng.random(n) < expit(u + s - 1.0),
            "w": rng.integers(1, 3, n) * 1.0,
            "g": np.arange(n) // 2,
            "s": s,
            "t": rng.integers(0, 2, n).astype(str),
        },
        index=np.zeros(n, dtype=int),  # which says nothing
    )


def renamed(frame, names):
    found = frame.copy()
    found.columns = (
        pd.MultiIndex.from_tuples(names)
        if all(isinstance(each, tuple) for each in names)
        else names
    )
    return found


def arguments(names):
    p, y, w, g, s, t = names
    return {"score": p, "label": y, "weight": w, "group": g, "by": [s, t]}


@pytest.mark.parametrize("kind", NAMES)
def test_frames_are_fitted_and_calibrated_by_names_of_any_type(kind):
    frame, names = rows(), NAMES[kind]
    wanted = fit_frame(frame, **arguments(PLAIN))
    odd = renamed(frame, names)
    before = odd.copy()
    asked = [int(name) if isinstance(name, np.int64) else name for name in names]
    found = fit_frame(odd, **arguments(asked))
    assert found.segments_["segment"] == wanted.segments_["segment"]
    result = apply_frame(odd, found, score=asked[0], by=asked[4:])
    np.testing.assert_array_equal(
        result.iloc[:, -1],
        apply_frame(frame, wanted, score="p", by=["s", "t"])["calibrated"],
    )
    pd.testing.assert_frame_equal(odd, before)
    pd.testing.assert_frame_equal(result.iloc[:, :-1], before, check_column_type=False)
    assert result.columns[-1] == (
        ("calibrated", "") if kind == "tuples" else "calibrated"
    )
    # Columns may come in another order: they are known by name.
    turned = apply_frame(odd, found, score=asked[0], by=asked[:3:-1])
    np.testing.assert_array_equal(turned.iloc[:, -1], result.iloc[:, -1])


def test_a_name_that_occurs_twice_matters_where_it_is_used():
    frame = rows()
    more = pd.concat([frame, frame[["w", "g"]]], axis=1)
    wanted = fit_frame(frame, score="p", label="y", by="s")
    found = fit_frame(more, score="p", label="y", by="s")
    np.testing.assert_array_equal(
        apply_frame(more, found, score="p", by="s")["calibrated"],
        apply_frame(frame, wanted, score="p", by="s")["calibrated"],
    )
    with pytest.raises(
        ValueError, match="weight must be one column of frame; 2 columns are named 'w'"
    ):
        fit_frame(more, score="p", label="y", weight="w")
    with pytest.raises(
        ValueError, match="score must be one column of frame; 2 columns are named 'w'"
    ):
        apply_frame(more, found, score="w", by="s")
    with pytest.raises(
        ValueError, match="by must have columns of different names; 2 are named 'w'"
    ):
        SplineCalibrator().fit(frame["p"], frame["y"], by=more[["w"]])


def test_names_that_are_none_are_an_error():
    odd = renamed(rows(), NAMES["numbers"])
    with pytest.raises(
        ValueError,
        match=r"score must be a column of frame; there is no '5'\. Its columns are 5, 3, 0",
    ):
        fit_frame(odd, score="5", label=3)
    with pytest.raises(ValueError, match="by must be a column of frame; there is no 4"):
        fit_frame(odd, score=5, label=3, by=4)
    cal = fit_frame(odd, score=5, label=3)
    with pytest.raises(
        ValueError, match="output must be a new column; frame already has '5'"
    ):
        apply_frame(odd, cal, score=5, output="5")
    tuples = renamed(rows(), NAMES["tuples"])
    with pytest.raises(
        ValueError, match="output must be a new column; frame already has 'in'"
    ):
        apply_frame(tuples, cal, score=("in", "p"), output="in")


@pytest.mark.parametrize("names", [[2, 0, 1], [("m", 2), ("m", 0), ("m", 1)]], ids=str)
def test_columns_of_classes_are_told_by_numbers_and_levels(names):
    rng = np.random.default_rng(1)
    z = rng.normal(0.0, 1.5, (600, 3))
    scores, kind = (
        softmax(z, axis=1),
        (z / 2 + rng.gumbel(size=(600, 3))).argmax(axis=1),
    )
    wanted = SplineCalibrator().fit(scores, kind)
    label = ("y", "kind") if isinstance(names[0], tuple) else 7
    frame = renamed(
        pd.DataFrame(np.column_stack([scores[:, [2, 0, 1]], kind])), [*names, label]
    )
    found = fit_frame(frame, score=names, label=label)
    calibrated = apply_frame(frame, found, score=names)
    np.testing.assert_allclose(
        calibrated.iloc[:, -3:], wanted.calibrate(scores), rtol=0, atol=1e-9
    )
    own = SplineCalibrator().fit(frame[names], kind)
    np.testing.assert_allclose(
        own.predict_proba(frame[names]), wanted.calibrate(scores), rtol=0, atol=1e-9
    )
    assert evaluate(kind, frame[names]).log_loss == pytest.approx(
        evaluate(kind, scores).log_loss, abs=1e-12
    )


@pytest.mark.parametrize("kind", ["numbers", "tuples"])
def test_segments_of_arrays_and_of_classifiers_have_names_of_any_type(kind):
    frame, names = rows(), NAMES[kind]
    odd = renamed(frame, names)
    by = odd[names[4:]]
    cal = SplineCalibrator().fit(frame["p"], frame["y"], by=by)
    wanted = SplineCalibrator().fit(frame["p"], frame["y"], by=frame[["s", "t"]])
    expected = wanted.calibrate(frame["p"], by=frame[["s", "t"]])
    np.testing.assert_array_equal(cal.calibrate(frame["p"], by=by), expected)
    np.testing.assert_array_equal(
        cal.calibrate(frame["p"], by=by[by.columns[::-1]]), expected
    )
    assert evaluate(frame["y"], frame["p"], by=by) is not None


def test_a_classifier_reads_segments_from_a_column_that_a_number_names():
    frame = rows().drop(columns="t")
    wanted = CalibratedClassifierCV(LogisticRegression(), by="s", cv=2).fit(
        frame, frame["y"]
    )
    odd = renamed(frame, NAMES["numbers"][:5])
    model = CalibratedClassifierCV(LogisticRegression(), by=7, cv=2).fit(
        odd, frame["y"]
    )
    np.testing.assert_array_equal(model.predict_proba(odd), wanted.predict_proba(frame))
