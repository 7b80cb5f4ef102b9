import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from calspline import ScoreHistogram, SplineCalibrator, load, save
from calspline._persistence import _checksum


@pytest.fixture
def loaded(cal, problem, tmp_path):
    save(problem.fit(cal), tmp_path / "m.json")
    return load(tmp_path / "m.json")


def test_46_what_is_not_fitted_is_not_saved(cal, tmp_path):
    with pytest.raises(NotFittedError, match=type(cal).__name__):
        save(cal, tmp_path / "m.json")
    assert list(tmp_path.iterdir()) == []


def test_48_a_loaded_model_can_be_cloned_and_saved_again(
    cal, problem, loaded, tmp_path
):
    assert loaded.get_params() == cal.get_params()
    fresh = clone(loaded).fit(problem.scores, problem.y)
    np.testing.assert_array_equal(
        fresh.predict_proba(problem.grid), cal.predict_proba(problem.grid)
    )
    save(loaded, tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "m.json").read_bytes()


@pytest.mark.slow
def test_51_sixteen_threads_agree(problem, loaded, tmp_path):
    expected = loaded.predict_proba(problem.grid)
    with ThreadPoolExecutor(16) as pool:
        for out in pool.map(
            lambda _: load(tmp_path / "m.json").predict_proba(problem.grid), range(32)
        ):
            np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize(
    ("option", "value"),
    [("cv", 1), ("smoothing", -1.0), ("scale", "probit"), ("knots", [2])],
)
def test_54_a_wrong_option_in_a_file_is_named(two, tmp_path, option, value):
    save(SplineCalibrator().fit(two.scores, two.y), tmp_path / "m.json")
    body = json.loads((tmp_path / "m.json").read_text())
    body.pop("checksum")
    body["parameters"][option] = value
    (tmp_path / "m.json").write_text(json.dumps(body | {"checksum": _checksum(body)}))
    with pytest.raises(
        ValueError, match=f"m.json is not a valid calspline model: {option} must be"
    ):
        load(tmp_path / "m.json")


@pytest.fixture(params=["exact", "grid", "margins", "empty"])
def histogram(request, two):
    if request.param == "grid":
        p = np.random.default_rng(0).random(6000)
        return ScoreHistogram.from_scores(p, p > 0.5)
    if request.param == "empty":
        return ScoreHistogram.from_scores([], [], classes=[0, 1])
    return ScoreHistogram.from_scores(
        two.margins if request.param == "margins" else two.scores, two.y
    )


def test_55_a_histogram_comes_back_bit_for_bit(histogram, tmp_path):
    save(histogram, tmp_path / "h.json")
    assert load(tmp_path / "h.json").to_dict() == histogram.to_dict()


def test_55_a_damaged_histogram_is_refused(histogram, tmp_path):
    path = tmp_path / "h.json"
    save(histogram, path)
    whole = path.read_text()
    path.write_text(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match="not valid JSON"):
        load(path)
    path.write_text(
        whole.replace('"kind": "', '"kind":  "', 1).replace('"level"', '"levels"')
    )
    with pytest.raises(ValueError, match="checksum"):
        load(path)


def test_58_a_full_disk_leaves_the_old_histogram_and_no_other(
    histogram, tmp_path, disk_for
):
    path = tmp_path / "h.json"
    save(histogram, path)
    before = path.read_bytes()
    with disk_for(100), pytest.raises(OSError, match="File too large"):
        save(histogram, path)
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["h.json"]
