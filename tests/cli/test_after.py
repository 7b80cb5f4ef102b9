import json

import numpy as np
import pyarrow as pa
import pytest
from tests.cli.conftest import write

import calspline


@pytest.fixture
def model(scored, tmp_path, done):
    """A model of two classes, fitted to a file."""
    write(scored, tmp_path / "past.csv", "csv")
    done("fit", "past.csv", "-o", "model.json")
    return calspline.load(tmp_path / "model.json")


def test_shift_writes_the_model_for_another_base_rate(model, scored, tmp_path, done, run):
    score = np.asarray(scored["score"])
    assert "base rate of 1: 0.02" in done("shift", "model.json", "--base-rate", "0.02", "-o", "rare.json")
    moved = calspline.load(tmp_path / "rare.json")
    np.testing.assert_array_equal(moved.calibrate(score), model.shifted(base_rate=0.02).calibrate(score))
    done("shift", "model.json", "--kept", "0=0.1,1=1", "-o", "kept.json")
    kept = model.shifted(kept={0: 0.1, 1: 1.0})
    np.testing.assert_array_equal(calspline.load(tmp_path / "kept.json").calibrate(score), kept.calibrate(score))
    done("shift", "model.json", "--base-rate", "0=0.9,1=0.1", "-o", "both.json")
    assert "95% limits" in done("shift", "model.json", "past.csv", "-o", "new.json")
    found = calspline.load(tmp_path / "new.json").shift_
    assert found.base_rates == pytest.approx(model.shifted(unlabelled=score).shift_.base_rates)
    printed = json.loads(done("shift", "model.json", "--base-rate", "0.02", "-o", "-"))
    assert printed["fitted"]["shift"]["base_rates"][1] == pytest.approx(0.02)


def test_expect_gives_the_numbers_of_the_library(model, scored, done):
    found = json.loads(done("expect", "model.json", "past.csv", "--costs", "1,5", "--json"))
    costs = {"false_positive": 1, "false_negative": 5}
    want = calspline.expected(model, np.asarray(scored["score"]), costs=costs).to_dict()
    assert found == pytest.approx(want)
    assert "log-loss" in done("expect", "model.json", "past.csv")


def test_decide_gives_the_numbers_of_the_library(model, scored, done):
    done("apply", "model.json", "past.csv", "-o", "both.csv")
    arguments = ("decide", "both.csv", "--score", "score,calibrated", "--costs", "1,4", "--thresholds", "0.1,0.2")
    found = json.loads(done(*arguments, "--json"))
    score, y = np.asarray(scored["score"]), np.asarray(scored["label"])
    sets = {"score": score, "calibrated": model.calibrate(score)}
    costs = {"false_positive": 1, "false_negative": 4}
    want = calspline.decide(y, sets, costs=costs, thresholds=[0.1, 0.2]).to_dict()
    assert found.pop("reference") == want.pop("reference")
    assert found == pytest.approx(want)
    assert "best threshold" in done(*arguments)


@pytest.mark.slow
def test_a_report_has_the_section_on_decisions_if_asked(model, scored, tmp_path, done, run):
    done("report", "past.csv", "--model", "model.json", "--costs", "1,4", "--thresholds", "0.1,0.2", "-o", "page.html")
    score, y = np.asarray(scored["score"]), np.asarray(scored["label"])
    sets = {"raw": score, "calibrated": model.calibrate(score)}
    costs = {"false_positive": 1, "false_negative": 4}
    want = calspline.report(None, y, sets, costs=costs, thresholds=[0.1, 0.2])

    def section(page):
        return page.split('<section id="decisions">')[1].split("</section>")[0]

    assert section((tmp_path / "page.html").read_text()) == section(want.html)
    failed = run("report", "past.csv", "--costs", "1,4", "--group", "score", "-o", "other.html")
    assert failed.code == 2
    assert "leave out --group" in failed.err
    assert not (tmp_path / "other.html").exists()


def test_monitor_goes_on_from_its_state_file_by_file_or_by_folder(model, tmp_path, done, run):
    rng = np.random.default_rng(0)
    (tmp_path / "days").mkdir()
    watched = calspline.Monitor(model, alpha=0.1)
    for day in range(6):
        score = rng.uniform(0.01, 0.99, 150)
        y = (rng.random(150) < (0.9 if day > 2 else 0.5)).astype(int)
        write(pa.table({"score": score, "label": y}), tmp_path / "days" / f"day{day}.csv", "csv")
        watched.update(calspline.ScoreHistogram.from_scores(score, y), when=f"day{day}.csv")
    first = done("monitor", "state.json", "days/day0.csv", "--model", "model.json", "--alpha", "0.1")
    assert "day0.csv" in first
    for day in (1, 2):
        done("monitor", "state.json", f"days/day{day}.csv")
    rest = [f"days/day{day}.csv" for day in (3, 4, 5)]
    last = json.loads(done("monitor", "state.json", *rest, "--page", "page.html", "--json"))
    assert last["evidence"] == pytest.approx(watched.evidence)
    assert last["when"] == "day5.csv"
    done("monitor", "folder.json", "days", "--model", "model.json", "--alpha", "0.1")
    for found, want in zip(calspline.load(tmp_path / "folder.json").log, watched.log, strict=True):
        assert found.pop("when") == want.pop("when")
        assert found == pytest.approx(want)
    page = (tmp_path / "page.html").read_text()
    assert "<h1>Alarm</h1>" in page
    assert "day5.csv" in page
    assert "http" not in page


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("shift", "model.json", "-o", "x.json"), "one of --base-rate, --kept and files"),
        (("shift", "model.json", "--base-rate", "much", "-o", "x.json"), "--base-rate must be a number; got 'much'"),
        (("shift", "model.json", "--base-rate", "2", "-o", "x.json"), "base_rate must be"),
        (("shift", "model.json", "--kept", "2=1", "-o", "x.json"), "--kept must name the classes 0, 1, as in 0=0.1"),
        (("expect", "model.json", "past.csv", "--costs", "1"), "--costs must be those of a false positive"),
        (("decide", "past.csv", "--thresholds", "0,1"), "thresholds must be in (0, 1)"),
        (("decide", "past.csv", "--group", "id"), "decide takes rows as independent of each other"),
        (("monitor", "state.json", "past.csv"), "to begin, name the model with --model"),
        (("monitor", "model.json", "past.csv"), "is a model, not the state of a monitor"),
        (("monitor", "state.json", "nothing", "--model", "model.json"), "has no files"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(arguments, message, model, tmp_path, run):
    (tmp_path / "nothing").mkdir()
    found = run(*arguments)
    assert found.code == 2
    assert message in found.err
    assert found.err.count("\n") == 1
    assert not (tmp_path / "x.json").exists()
    assert not (tmp_path / "state.json").exists()


def test_a_state_has_its_model_already(model, run, done):
    done("monitor", "state.json", "past.csv", "--model", "model.json")
    assert "leave out --model" in run("monitor", "state.json", "past.csv", "--model", "model.json").err
