"""A calibrator with segments, out of a file."""

import numpy as np
import pytest

from calspline import SplineCalibrator, load, save
from calspline.export import to_sql

THREES = np.arange(60) % 3


@pytest.fixture(params=["structured", "ovr"])
def fitted(request, problem):
    return SplineCalibrator(multiclass=request.param).fit(
        problem.scores, problem.y, by=THREES
    )


@pytest.fixture
def loaded(fitted, tmp_path):
    save(fitted, tmp_path / "model.json")
    return load(tmp_path / "model.json")


def test_54d_a_segment_never_seen_gets_the_common_curve_and_one_warning(
    fitted, loaded, problem
):
    by = np.where(np.arange(60) < 7, 99, THREES)
    found = []
    for cal in (fitted, loaded):
        with pytest.warns(
            UserWarning, match="7 of 60 rows are of segments that the fit has not seen"
        ) as caught:
            found.append(cal.predict_proba(problem.scores, by=by))
        assert len(caught) == 1
    np.testing.assert_allclose(found[1], found[0], rtol=0, atol=1e-12)
    np.testing.assert_array_equal(
        found[1][:7], loaded.predict_proba(problem.scores)[:7]
    )


def test_54d_sql_without_segments_is_refused(loaded, problem):
    columns = "p" if problem.n_classes == 2 else ["a", "b", "c"]
    with pytest.raises(ValueError, match="by, the columns of segments, must be named"):
        to_sql(loaded, columns)


def test_54f_segments_of_another_type(fitted, loaded, problem):
    wanted = fitted.predict_proba(problem.scores, by=THREES)
    for same in (THREES, THREES.astype(float), THREES.tolist()):
        np.testing.assert_allclose(
            loaded.predict_proba(problem.scores, by=same), wanted, rtol=0, atol=1e-12
        )
    with pytest.raises(
        TypeError,
        match=r"by must have labels like those of the fit \(numbers, such as 0\); row 0 is",
    ):
        loaded.calibrate(problem.scores, by=THREES.astype(str))
