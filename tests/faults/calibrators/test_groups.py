import numpy as np
import pytest

from calspline import SplineCalibrator

BAD = (ValueError, TypeError)
PAIRS = np.arange(60) // 2


@pytest.fixture(params=["structured", "ovr", "cv"])
def spline(request):
    return (
        SplineCalibrator(smoothing="cv", multiclass="ovr")
        if request.param == "cv"
        else SplineCalibrator()
    )


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


@pytest.mark.filterwarnings("ignore:one group has")
def test_a_number_and_its_text_are_two_groups(two):
    groups = [1, "1"] * 30
    assert SplineCalibrator().fit(
        two.scores, two.y, groups=groups
    ).n_effective_ == pytest.approx(2.0)
