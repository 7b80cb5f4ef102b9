import json
import os
import pickle
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from scipy.special import expit
from sklearn.exceptions import NotFittedError

from calspline import SplineCalibrator, load, save
from calspline import _persistence as persistence
from calspline._persistence import _checksum

GRID = np.linspace(0, 1, 2001)


@pytest.fixture
def model(simulated, tmp_path):
    p, y, _ = simulated(800)
    cal = SplineCalibrator().fit(p, y)
    save(cal, tmp_path / "model.json")
    return cal, tmp_path / "model.json"


OPTIONS = [
    {},
    {"monotone": True, "smoothing": "cv", "random_state": 7},
    {"loss": "brier", "smoothing": np.float64(0.5)},
    {
        "scale": "compact_logit",
        "penalty": "ridge",
        "knots": "sample",
        "n_knots": 20,
        "smoothing": "cv",
    },
    {
        "n_knots": 3,
        "smoothing_grid": [0.1, 1.0],
        "random_state": np.random.RandomState(0),
    },
    {"smoothing": np.inf, "scale": "asinh_logit"},
]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: "-".join(o) or "defaults")
def test_predictions_are_bit_equal_after_a_round_trip(simulated, tmp_path, options):
    p, y, _ = simulated(500)
    cal = SplineCalibrator(**options).fit(p, y)
    save(cal, tmp_path / "m.json")
    back = load(tmp_path / "m.json")
    np.testing.assert_array_equal(back.predict_proba(GRID), cal.predict_proba(GRID))
    if options.get("loss") != "brier":  # which has no interval
        np.testing.assert_array_equal(back.interval(GRID), cal.interval(GRID))
    for name in ("smoothing_", "edf_", "scale_", "epsilon_", "converged_", "n_iter_"):
        assert getattr(back, name) == getattr(cal, name)
    np.testing.assert_array_equal(back.knots_, cal.knots_)
    np.testing.assert_array_equal(
        back.smoothing_path_["criterion"], cal.smoothing_path_["criterion"]
    )
    assert back.scale == cal.scale
    assert isinstance(cal.smoothing, str) or back.smoothing == cal.smoothing
    assert back.n_knots == cal.n_knots


@pytest.mark.parametrize(
    "labels", [["no", "yes"], [False, True], [-1, 1], [1.0, 2.0]], ids=str
)
def test_labels_come_back_with_their_type(simulated, tmp_path, labels):
    p, y, _ = simulated(100)
    for dtype in (None, object):
        cal = SplineCalibrator().fit(p, np.array(labels, dtype=dtype)[y])
        save(cal, tmp_path / "m.json")
        back = load(tmp_path / "m.json")
        assert back.classes_.dtype == cal.classes_.dtype
        np.testing.assert_array_equal(back.predict(GRID), cal.predict(GRID))


@pytest.mark.skipif(not hasattr(np.dtypes, "StringDType"), reason="since numpy 2")
def test_labels_of_numpy_strings_come_back(simulated, tmp_path):
    p, y, _ = simulated(100)
    labels = np.array(["no", "yes"], dtype=np.dtypes.StringDType())[y]
    cal = SplineCalibrator().fit(p, labels)
    save(cal, tmp_path / "m.json")
    assert (
        load(tmp_path / "m.json").predict(GRID).tolist() == cal.predict(GRID).tolist()
    )
    assert cal.classes_.tolist() == ["no", "yes"]


def test_labels_that_json_cannot_hold_are_an_error(simulated, tmp_path):
    p, y, _ = simulated(100)
    cal = SplineCalibrator().fit(p, np.array([b"a", b"b"])[y])
    with pytest.raises(TypeError, match="bytes"):
        save(cal, tmp_path / "m.json")
    assert list(tmp_path.iterdir()) == []


def test_a_constant_model_and_margins_survive(tmp_path):
    with pytest.warns(UserWarning, match="base rate"):
        constant = SplineCalibrator().fit([0.5, 0.5, 0.5], [0, 1, 1])
    margins = SplineCalibrator().fit([-3.0, -1.0, 2.0, 4.0], [0, 1, 0, 1])
    for cal, scores in ((constant, [0.1]), (margins, [-50.0, 0.3])):
        save(cal, tmp_path / "m.json")
        np.testing.assert_array_equal(
            load(tmp_path / "m.json").calibrate(scores), cal.calibrate(scores)
        )
    assert np.isinf(constant.smoothing_)


def test_the_file_says_what_it_is(model):
    body = json.loads(model[1].read_text())
    assert body["format"] == "calspline"
    assert body["version"] == 1
    assert body["class"] == "SplineCalibrator"
    assert {"parameters", "classes", "kind", "map", "fit"} <= set(body)
    assert body["map"]["type"] == "CalibrationCurve"
    assert {"breaks", "coefficients"} <= set(body["map"])


def test_only_fitted_calibrators_are_saved(tmp_path):
    with pytest.raises(NotFittedError):
        save(SplineCalibrator(), tmp_path / "m.json")
    with pytest.raises(TypeError, match="calibrator"):
        save(object(), tmp_path / "m.json")
    with pytest.raises(TypeError, match="calibrator"):
        save(SplineCalibrator, tmp_path / "m.json")
    assert list(tmp_path.iterdir()) == []


def test_a_loaded_model_cannot_go_on_learning(model):
    with pytest.raises(ValueError, match="loaded"):
        load(model[1]).partial_fit([0.5], [1])


def rewrite(path, change):
    body = json.loads(path.read_text())
    body.pop("checksum")
    change(body)
    path.write_text(json.dumps(body | {"checksum": _checksum(body)}))


def _set(*keys_and_value):
    *keys, last, value = keys_and_value

    def change(body):
        for key in keys:
            body = body[key]
        body[last] = value

    return change


def huge_coefficients(body):
    """Make those of an inner piece so large that their sum overflows."""
    _, pieces = body["map"]["coefficients"]["shape"]
    for power in range(4):
        body["map"]["coefficients"]["values"][power * pieces + 3] = 1.79e308


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_set("version", 2), "version 2"),
        (_set("version", None), "version None"),
        (_set("version", True), "version True"),
        (_set("version", 1.0), "version 1.0"),
        (_set("format", "pickle"), "not a calspline model"),
        (_set("class", "os.system"), "class"),
        (_set("parameters", {"n_knots": 3}), "parameters"),
        (_set("parameters", "cv", 1), "cv"),
        (_set("classes", "values", [1]), "two or more different labels"),
        (_set("classes", "values", [[1], [2]]), "strings or numbers"),
        (_set("classes", "dtype", "M8[s]"), "dtype"),
        (_set("classes", "dtype", "<U400000000"), "dtype"),
        (_set("classes", []), "classes must be a dict with dtype and values"),
        (_set("classes", "values", [10**400, 1]), "not a valid"),
        (_set("classes", "values", [1, 2, 3]), "map must be one for 3 classes"),
        (_set("kind", {}), "kind must be a dict with the keys name, share_inside"),
        (_set("kind", "name", "odds"), "kind.name must be one of"),
        (_set("kind", "name", "margin"), "map must be one for 2 classes and margin"),
        (_set("kind", "share_inside", 0.5), "kind.share_inside must be None for"),
        (_set("fit", {}), "fit must be a dict with the keys n_effective"),
        (_set("fit", "n_effective", -5), "fit.n_effective must be a number in"),
        (_set("fit", "design_effect", 0.0), "fit.design_effect must be a number in"),
        (_set("fit", "converged", 1), "fit.converged must be one of True, False"),
        (_set("fit", "curves", []), "fit.curves must have one entry per curve"),
        (_set("fit", "curves", 0, {}), r"fit.curves\[0\] must be a dict with the keys"),
        (_set("fit", "curves", 0, "edf", -1), r"fit.curves\[0\].edf must be a number"),
        (_set("fit", "curves", 0, "criterion", [1.0]), "criterion must have shape"),
        (_set("map", {}), "map must be a dict whose type is one of CalibrationCurve"),
        (_set("map", "type", "Model"), "map must be a dict whose type is one of"),
        (_set("map", "transform", "name", "probit"), "map.transform.*must be one of"),
        (_set("map", "breaks", [3.0, 2.0]), "map.breaks must be sorted"),
        (_set("map", "breaks", [0.0] * 200_000), "map.breaks must have at most"),
        (_set("map", "clip", [0.5, 0.5]), "map.clip must be sorted"),
        (_set("map", "unit", 0), "map.unit must be a number in"),
        (_set("map", "coefficients", "x"), "map.coefficients must be a list"),
        (
            _set("map", "coefficients", "values", 0, 1.0),
            "map.coefficients must be those of a line before the first break",
        ),
        (huge_coefficients, "map.coefficients must give finite numbers between"),
        (
            _set("map", {"type": "Temperature", "temperature": 1.0}),
            "map must be one for 2 classes and probability scores; a Temperature",
        ),
        (
            _set("map", {"type": "Clipping", "p_min": 0.01}),
            "map must be one that a SplineCalibrator fits; a Clipping is not",
        ),
        (lambda body: body.pop("fit"), "missing or unknown fit"),
        (_set("more", 1), "missing or unknown more"),
    ],
)
def test_a_model_that_cannot_be_trusted_is_refused(model, change, message):
    rewrite(model[1], change)
    with pytest.raises(ValueError, match=message):
        load(model[1])


def test_an_edited_file_is_refused(model):
    text = model[1].read_text()
    model[1].write_text(text.replace('"edf": ', '"edf": 1'))
    with pytest.raises(ValueError, match="checksum"):
        load(model[1])


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe\x00",
        b'{"format": NaN}',
        b'{"format": 1e999}',
        b"[" * 100_000,
        pickle.dumps({"a": 1}),
    ],
    ids=[
        "empty",
        "truncated",
        "list",
        "null",
        "not utf-8",
        "nan",
        "too large",
        "deep",
        "pickle",
    ],
)
def test_what_is_not_json_or_not_ours_is_a_clear_error(tmp_path, content):
    path = tmp_path / "m.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="not a calspline model"):
        load(path)


def test_a_truncated_model_is_a_clear_error(model):
    model[1].write_bytes(model[1].read_bytes()[:-200])
    with pytest.raises(ValueError, match="not valid JSON"):
        load(model[1])


def test_a_huge_file_is_refused_unread(tmp_path):
    path = tmp_path / "m.json"
    with path.open("wb") as file:
        file.truncate(1 << 30)
    with pytest.raises(ValueError, match="larger than"):
        load(path)


def test_a_place_that_does_not_exist_is_an_error(model, tmp_path):
    with pytest.raises(OSError, match="No such file"):
        save(model[0], tmp_path / "nowhere" / "m.json")
    with pytest.raises(OSError, match="No such file"):
        load(tmp_path / "nothing.json")


def test_a_disk_that_fills_up_leaves_the_old_file_and_no_other(model, disk_for):
    before = model[1].read_bytes()
    with disk_for(1000), pytest.raises(OSError, match="File too large"):
        save(model[0], model[1])
    assert model[1].read_bytes() == before
    assert [path.name for path in model[1].parent.iterdir()] == ["model.json"]


@pytest.mark.process
def test_a_writer_killed_at_any_moment_leaves_a_whole_file(model):
    script = (
        "import sys, calspline\n"
        "cal = calspline.load(sys.argv[1])\n"
        "print('ready', flush=True)\n"
        "while True: calspline.save(cal, sys.argv[1])\n"
    )
    writer = subprocess.Popen(
        [sys.executable, "-c", script, str(model[1])], stdout=subprocess.PIPE
    )
    assert writer.stdout.readline() == b"ready\n"
    time.sleep(0.3)
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    writer.stdout.close()
    np.testing.assert_array_equal(
        load(model[1]).calibrate(GRID), model[0].calibrate(GRID)
    )


def test_the_file_has_ordinary_permissions(model):
    umask = os.umask(0)
    os.umask(umask)
    assert model[1].stat().st_mode & 0o777 == 0o666 & ~umask


def many_segments(n_segments):
    """A calibrator whose segments differ in level, slope and shape."""
    rng = np.random.default_rng(0)
    by = rng.permutation(np.arange(4 * n_segments) % n_segments)
    u = 1.5 * rng.normal(size=len(by))
    level, slope, bend = rng.normal(size=(3, n_segments)) * [[1.0], [0.4], [0.4]]
    y = rng.random(len(by)) < expit(
        level[by] + (0.8 + slope[by]) * u + bend[by] * np.sin(2 * u)
    )
    names = np.array([f"customer {k:06}" for k in range(n_segments)])
    return SplineCalibrator().fit(expit(u), y, by=names[by]), names


@pytest.mark.slow
def test_a_file_grows_with_the_number_of_segments_and_can_be_loaded(tmp_path):
    sizes = []
    for n_segments in (12_500, 50_000):
        cal, names = many_segments(n_segments)
        save(cal, tmp_path / "m.json")
        sizes.append((tmp_path / "m.json").stat().st_size / n_segments)
        back = load(tmp_path / "m.json")
        scores, by = np.resize(GRID, n_segments), names
        np.testing.assert_array_equal(
            back.calibrate(scores, by=by), cal.calibrate(scores, by=by)
        )
        np.testing.assert_array_equal(
            back.interval(scores, by=by), cal.interval(scores, by=by)
        )
    columns = cal.model_.segment_columns
    numbers = columns[0].theta.shape[1] * (columns[0].theta.shape[1] + 3) / 2 + 5
    assert max(sizes) < 22 * numbers + 40
    assert (
        sizes[1] < 1.5 * sizes[0]
    )  # 4 if it grew with the square; effects of zero are short


class Large:
    """Files around the limits, which are lowered: those of gigabytes would be slow."""

    def __init__(self, monkeypatch, path):
        self.path = path
        for name, value in {
            "LARGEST_FILE": 4000,
            "LARGEST_MODEL": 40_000,
            "MOST_VALUES": 2000,
        }.items():
            monkeypatch.setattr(persistence, name, value)
        monkeypatch.setattr(persistence, "MOST_BRACKETS", 300)

    def agree(self, cal):
        """Whether save and load both take a calibrator, or both refuse it."""
        self.path.unlink(missing_ok=True)
        try:
            save(cal, self.path)
        except ValueError:
            return False
        load(self.path)
        return True


def test_what_is_saved_can_be_loaded_whatever_its_size(monkeypatch, tmp_path):
    cals = [many_segments(n)[0] for n in (3, 10, 30, 100, 300, 1000)]
    large = Large(monkeypatch, tmp_path / "m.json")
    taken = [large.agree(cal) for cal in cals]
    assert taken == sorted(taken, reverse=True)
    assert taken[0]
    assert not taken[-1]
    with pytest.raises(
        ValueError,
        match="SplineCalibrator is too large to be saved, because load would refuse it: it",
    ):
        save(cals[-1], large.path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"0" * 50_000, "larger than"),
        (b'{"format": "calspline", "a": "' + b"x" * 50_000 + b'"}', "larger than"),
        (
            b'{"format": "calspline", "a": [' + b"1," * 5000 + b"1]}",
            "more than 2,000 values",
        ),
        (
            b'{"format": "calspline", "a": ' + b"[" * 5000 + b"]" * 5000 + b"}",
            "more than 300 lists and objects",
        ),
        (b'{"a": [' + b"1," * 5000 + b'1], "format": "calspline"}', "larger than"),
    ],
    ids=["zeros", "long", "values", "lists", "another beginning"],
)
def test_absurd_sizes_are_refused_before_they_are_parsed(
    monkeypatch, tmp_path, content, message
):
    Large(monkeypatch, tmp_path)
    path = tmp_path / "m.json"
    path.write_bytes(content)
    with pytest.raises(
        ValueError, match=f"m.json is not a calspline model: it (is|has) {message}"
    ):
        load(path)
