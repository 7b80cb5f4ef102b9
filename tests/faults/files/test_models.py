import json
import pickle
import signal
import subprocess
import sys
import time
from dataclasses import astuple

import numpy as np
import pytest

from calspline import SplineCalibrator, load, save
from calspline._persistence import _checksum


@pytest.fixture
def saved(cal, problem, tmp_path):
    path = tmp_path / "model.json"
    save(problem.fit(cal), path)
    return path


def rewrite(path, change):
    """Change a model and sign it anew, as an attacker could."""
    body = json.loads(path.read_text())
    body.pop("checksum")
    change(body)
    path.write_text(json.dumps(body | {"checksum": _checksum(body)}))


def test_55_a_round_trip_is_bit_equal(each, problem, tmp_path):
    save(problem.fit(each), tmp_path / "model.json")
    back = load(tmp_path / "model.json")
    assert type(back) is type(each)
    assert back.get_params() == each.get_params()
    np.testing.assert_array_equal(
        back.predict_proba(problem.grid), each.predict_proba(problem.grid)
    )
    np.testing.assert_array_equal(
        back.predict(problem.grid), each.predict(problem.grid)
    )
    public = {name for name in vars(each) if name.endswith("_")} - {"histogram_"}
    assert {name for name in vars(back) if name.endswith("_")} == public
    for name in public - {
        "curves_",
        "structure_",
        "smoothing_path_",
        "knots_",
        "smoothing_",
        "epsilon_",
        "reference_",
        "model_",
    }:
        np.testing.assert_array_equal(getattr(back, name), getattr(each, name))
    for one, other in zip(
        astuple(back.model_.reference), astuple(each.model_.reference), strict=True
    ):
        np.testing.assert_array_equal(one, other)


def test_55_margins_and_labels_come_back(cal, problem, takes_margins, tmp_path):
    scores = problem.margins if takes_margins else problem.scores
    cal.fit(scores, np.array(["no", "yes", "maybe"])[problem.y])
    save(cal, tmp_path / "m.json")
    back = load(tmp_path / "m.json")
    np.testing.assert_array_equal(back.predict_proba(scores), cal.predict_proba(scores))
    np.testing.assert_array_equal(back.predict(scores), cal.predict(scores))
    assert back.classes_.dtype == cal.classes_.dtype


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda body: body.update(version=2), "version 2"),
        (lambda body: body.update({"format": "pickle"}), "not a calspline model"),
        (lambda body: body.update({"class": "os.system"}), "class must be one of"),
        (
            lambda body: body.update(parameters={"nonsense": 1}),
            "parameters must be exactly",
        ),
        (lambda body: body.update(fit={}), "fit must be a dict with the keys"),
        (lambda body: body["kind"].update(name="odds"), "kind.name must be one of"),
        (lambda body: body["kind"].update(name=1), "kind.name must be one of"),
        (
            lambda body: body["classes"].update(values=[1]),
            "two or more different labels",
        ),
        (lambda body: body.pop("map"), "missing or unknown map"),
        (lambda body: body.update(map=[body["map"]]), "map must be a dict whose type"),
        (lambda body: body.update(map="x"), "map must be a dict whose type"),
        (lambda body: body["map"].update(more=1), "missing or unknown: more"),
        (lambda body: body.update(more=1), "missing or unknown more"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_55_a_model_that_cannot_be_trusted_is_refused(saved, change, message):
    rewrite(saved, change)
    with pytest.raises(ValueError, match=message):
        load(saved)


def test_55_classes_must_be_as_many_as_the_fit_had(saved):
    rewrite(saved, lambda body: body["classes"].update(values=list(range(7))))
    with pytest.raises(ValueError, match="not a valid calspline model"):
        load(saved)


@pytest.mark.slow
def test_55_numbers_that_make_no_sense_are_refused(cal, saved):
    body = json.loads(saved.read_text())

    def refused(change):
        saved.write_text(json.dumps(body))
        rewrite(saved, change)
        with pytest.raises(ValueError, match="not a valid calspline model"):
            load(saved)

    if "breaks" in body["map"]:
        breaks = body["map"]["breaks"]
        refused(lambda b: b["map"].update(breaks=breaks[::-1]))
        refused(lambda b: b["map"].update(breaks=[0.0] * 200_000))
        refused(lambda b: b["map"].update(coefficients=[["x"]]))
    for record, name in [
        *(("fit", name) for name in body["fit"]),
        *(("map", name) for name in body["map"]),
    ]:
        for value in (-1e300, "x", [[1.0]], {}, "-infinity"):
            if name in ("origin", "c") and value == -1e300:
                continue
            refused(lambda b, r=record, n=name, v=value: b[r].update({n: v}))


def test_55_nan_in_a_file_is_refused(saved):
    text = saved.read_text()
    saved.write_text(text.replace('"design_effect": 1.0', '"design_effect": NaN'))
    with pytest.raises(ValueError, match="NaN is not a number"):
        load(saved)


def test_55_a_truncated_an_edited_and_a_pickled_model(cal, saved):
    whole = saved.read_bytes()
    saved.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match="not valid JSON"):
        load(saved)
    saved.write_bytes(whole.replace(b'"design_effect": 1.0', b'"design_effect": 2.0'))
    with pytest.raises(ValueError, match="checksum"):
        load(saved)
    saved.write_bytes(pickle.dumps(cal))
    with pytest.raises(ValueError, match="not a calspline model"):
        load(saved)


def test_56_loading_executes_nothing(saved, tmp_path):
    class Trap:
        def __reduce__(self):
            return (open, (str(tmp_path / "sprung"), "w"))

    saved.write_bytes(pickle.dumps(Trap()))
    with pytest.raises(ValueError, match="not a calspline model"):
        load(saved)
    assert not (tmp_path / "sprung").exists()


@pytest.mark.process
def test_57_a_writer_killed_at_any_moment_leaves_whole_files(
    calibrators, two, three, tmp_path
):
    expected = {}
    for problem in (two, three):
        for name, cal in calibrators.items():
            path = tmp_path / f"{name}-{problem.n_classes}.json"
            save(problem.fit(cal), path)
            expected[path] = problem.grid, load(path).predict_proba(problem.grid)
    script = (
        "import sys, calspline\n"
        "models = [(calspline.load(path), path) for path in sys.argv[1:]]\n"
        "print('ready', flush=True)\n"
        "while True: [calspline.save(*model) for model in models]\n"
    )
    writer = subprocess.Popen(
        [sys.executable, "-c", script, *map(str, expected)], stdout=subprocess.PIPE
    )
    assert writer.stdout.readline() == b"ready\n"
    time.sleep(0.5)
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    writer.stdout.close()
    for path, (grid, p) in expected.items():
        np.testing.assert_array_equal(load(path).predict_proba(grid), p)


def test_58_a_full_disk_leaves_the_old_file_and_no_other(cal, saved, disk_for):
    before = saved.read_bytes()
    with disk_for(100), pytest.raises(OSError, match="File too large"):
        save(cal, saved)
    assert saved.read_bytes() == before
    assert [path.name for path in saved.parent.iterdir()] == ["model.json"]


def test_58_a_place_that_cannot_be_written(saved):
    with pytest.raises(OSError, match="Not a directory"):
        save(load(saved), saved / "model.json")


def test_labels_that_json_cannot_hold_are_an_error(cal, two, tmp_path):
    cal.fit(two.scores, np.array([b"a", b"b"])[two.y])
    with pytest.raises(TypeError, match="bytes"):
        save(cal, tmp_path / "m.json")
    assert list(tmp_path.iterdir()) == []


def test_a_structured_model_holds_no_curves(three, tmp_path):
    save(SplineCalibrator().fit(three.scores, three.y), tmp_path / "m.json")
    body = json.loads((tmp_path / "m.json").read_text())
    assert body["map"]["type"] == "StructuredMap"
    assert body["fit"]["curves"] == []
