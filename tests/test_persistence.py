import json
import os
import pickle
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from calspline import SplineCalibrator, load, save
from calspline.persistence import _checksum

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
    {"transform": "compact_logit", "penalty": "ridge", "knots": "sample", "n_knots": 20, "smoothing": "loo"},
    {"knots": np.array([0.1, 0.5, 0.9]), "smoothing_grid": [0.1, 1.0], "random_state": np.random.RandomState(0)},
    {"smoothing": np.inf, "transform": "asinh_logit"},
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
    for name in ("smoothing_", "edf_", "transform_", "epsilon_", "converged_", "n_iter_"):
        assert getattr(back, name) == getattr(cal, name)
    np.testing.assert_array_equal(back.knots_, cal.knots_)
    np.testing.assert_array_equal(back.smoothing_path_["criterion"], cal.smoothing_path_["criterion"])
    assert back.transform == cal.transform
    assert isinstance(cal.smoothing, str) or back.smoothing == cal.smoothing
    assert back.n_knots == cal.n_knots


@pytest.mark.parametrize("labels", [["no", "yes"], [False, True], [-1, 1], [1.0, 2.0]], ids=str)
def test_labels_come_back_with_their_type(simulated, tmp_path, labels):
    p, y, _ = simulated(100)
    for dtype in (None, object):
        cal = SplineCalibrator().fit(p, np.array(labels, dtype=dtype)[y])
        save(cal, tmp_path / "m.json")
        back = load(tmp_path / "m.json")
        assert back.classes_.dtype == cal.classes_.dtype
        np.testing.assert_array_equal(back.predict(GRID), cal.predict(GRID))


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
        np.testing.assert_array_equal(load(tmp_path / "m.json").calibrate(scores), cal.calibrate(scores))
    assert np.isinf(constant.smoothing_)


def test_the_file_says_what_it_is(model):
    body = json.loads(model[1].read_text())
    assert body["format"] == "calspline"
    assert body["version"] == 1
    assert body["class"] == "SplineCalibrator"
    assert {"parameters", "classes", "curves"} <= set(body)
    assert {"breaks", "coefficients"} <= set(body["curves"][0])


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
        (_set("classes", []), "classes"),
        (_set("fitted", "kind", "odds"), "kind"),
        (_set("fitted", "fits", 0, "edf", -1), "edf"),
        (_set("fitted", {}), "kind"),
        (_set("fitted", "fits", 0, "criterion", [1.0]), "same length"),
        (_set("fitted", "fits", 0, {}), "a fit must be a dict"),
        (_set("structure", {}), "structure"),
        (_set("classes", "values", [1, 2, 3]), "one per class"),
        (_set("fitted", "kind", "margin"), "kind"),
        (_set("fitted", "difference", "no"), "difference"),
        (_set("classes", "values", [10**400, 1]), "not a valid"),
        (_set("curves", []), "same length"),
        (_set("curves", 0, "breaks", [3.0, 2.0]), "breaks"),
        (_set("curves", 0, "breaks", [0.0] * 200_000), "at most"),
        (_set("curves", 0, "coefficients", "x"), "coefficients"),
        (_set("curves", 0, "coefficients", 0, 0, 1.0), "a line before the first break"),
        (_set("curves", 0, "coefficients", 3, [1.79e308] * 4), "finite numbers between"),
        (lambda body: body.pop("fitted"), "fitted"),
        (_set("more", 1), "more"),
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
    ids=["empty", "truncated", "list", "null", "not utf-8", "nan", "too large", "deep", "pickle"],
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
    writer = subprocess.Popen([sys.executable, "-c", script, str(model[1])], stdout=subprocess.PIPE)
    assert writer.stdout.readline() == b"ready\n"
    time.sleep(0.3)
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    writer.stdout.close()
    np.testing.assert_array_equal(load(model[1]).calibrate(GRID), model[0].calibrate(GRID))


def test_the_file_has_ordinary_permissions(model):
    umask = os.umask(0)
    os.umask(umask)
    assert model[1].stat().st_mode & 0o777 == 0o666 & ~umask
