import json

import numpy as np
import pytest

from calspline import SplineCalibrator

BAD = (ValueError, TypeError)
PAIRS = np.arange(60) // 2


def with_value(value, row=7):
    out = PAIRS.astype(object)
    out[row] = value
    return out


@pytest.fixture(params=["structured", "ovr", "cv"])
def spline(request):
    return SplineCalibrator(smoothing="cv", multiclass="ovr") if request.param == "cv" else SplineCalibrator()


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        pytest.param(PAIRS[:50], "scores and groups must have the same length; got 60 and 50", id="wrong length"),
        pytest.param(with_value(None), "groups has missing labels; the first is in row 7", id="None"),
        pytest.param(with_value(np.nan), "groups has missing labels; the first is in row 7", id="NaN among objects"),
        pytest.param(with_value(np.nan).astype(float), "groups has missing.*the first is in row 7", id="NaN"),
        pytest.param(with_value("NaT").astype("datetime64[D]"), "groups has missing.*row 7", id="no date"),
        pytest.param(np.ones((60, 2)), "groups must have one dimension", id="two dimensions"),
        pytest.param([[1]] * 59 + [[1, 2]], "groups must be one hashable value", id="ragged"),
        pytest.param(with_value({1}), "groups must be one hashable value a row", id="a list"),
    ],
)
def test_54a_bad_groups(spline, problem, groups, message):
    with pytest.raises(BAD, match=message):
        spline.fit(problem.scores, problem.y, groups=groups)


def test_54b_one_group(spline, problem):
    with pytest.raises(ValueError, match="groups must have at least two groups that count; all rows are of one"):
        spline.fit(problem.scores, problem.y, groups=np.zeros(60))
    with pytest.raises(ValueError, match="at least two groups that count"):
        spline.fit(problem.scores, problem.y, PAIRS < 20, groups=PAIRS >= 20)


def test_54c_groups_of_one_row_are_as_without(spline, problem):
    without = json.dumps(spline.fit(problem.scores, problem.y).to_dict())
    assert json.dumps(spline.fit(problem.scores, problem.y, groups=np.arange(60)).to_dict()) == without


@pytest.mark.parametrize(
    "named",
    [
        [f"patient {g:02d}" for g in PAIRS],
        PAIRS.astype(float),
        PAIRS[:, None],
        np.datetime64("2020-01-01") + PAIRS,
        [g if g % 2 else f"{g:02d}" for g in PAIRS],
        [(g, "x") for g in PAIRS],
    ],
    ids=["strings", "floats", "a column", "dates", "mixed", "tuples"],
)
def test_groups_of_any_type_are_the_same(spline, problem, named):
    wanted = spline.fit(problem.scores, problem.y, groups=PAIRS)
    n_effective, wanted = wanted.n_effective_, wanted.calibrate(problem.grid)
    if isinstance(named, list) and isinstance(named[0], tuple):
        tuples = np.empty(60, dtype=object)
        tuples[:] = named
        named = tuples
    found = spline.fit(problem.scores, problem.y, groups=named)
    assert found.n_effective_ == pytest.approx(n_effective)
    if spline.smoothing != "cv":  # the folds depend on the order of the groups
        np.testing.assert_allclose(found.calibrate(problem.grid), wanted)


def test_a_number_and_its_text_are_two_groups(two):
    groups = [1, "1"] * 30
    assert SplineCalibrator().fit(two.scores, two.y, groups=groups).n_effective_ == pytest.approx(2.0)
