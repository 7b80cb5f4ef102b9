import json
import subprocess
import sys

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


@pytest.mark.slow
def test_a_report_has_the_section_on_decisions_if_asked(model, scored, tmp_path, done):
    done(
        "report",
        "past.csv",
        "--model",
        "model.json",
        "--costs",
        "1,4",
        "-o",
        "page.html",
    )
    score, y = np.asarray(scored["score"]), np.asarray(scored["label"])
    sets = {"raw": score, "calibrated": model.calibrate(score)}
    costs = {"false_positive": 1, "false_negative": 4}
    want = calspline.report(y, sets, costs=costs)

    def section(page):
        return page.split('<section id="decisions">')[1].split("</section>")[0]

    assert section((tmp_path / "page.html").read_text()) == section(want.html)
    done(
        "report", "past.csv", "--costs", "1,4", "--group", "score", "-o", "groups.html"
    )
    want = calspline.report(y, {"raw": score}, costs=costs, groups=score)
    assert section((tmp_path / "groups.html").read_text()) == section(want.html)


def test_monitor_goes_on_from_its_state_file_by_file_or_by_folder(
    model, tmp_path, done, run
):
    rng = np.random.default_rng(0)
    (tmp_path / "days").mkdir()
    watched = calspline.Monitor(model, alpha=0.1)
    for day in range(6):
        score = rng.uniform(0.01, 0.99, 150)
        y = (rng.random(150) < (0.9 if day > 2 else 0.5)).astype(int)
        write(
            pa.table({"score": score, "label": y}),
            tmp_path / "days" / f"day{day}.csv",
            "csv",
        )
        watched.update(
            calspline.ScoreHistogram.from_scores(score, y), when=f"day{day}.csv"
        )
    first = done(
        "monitor",
        "state.json",
        "days/day0.csv",
        "--model",
        "model.json",
        "--alpha",
        "0.1",
    )
    assert "day0.csv" in first
    for day in (1, 2):
        done("monitor", "state.json", f"days/day{day}.csv")
    rest = [f"days/day{day}.csv" for day in (3, 4, 5)]
    last = json.loads(done("monitor", "state.json", *rest, "--json"))
    assert last["evidence"] == pytest.approx(watched.evidence)
    assert last["when"] == "day5.csv"
    done("monitor", "folder.json", "days", "--model", "model.json", "--alpha", "0.1")
    for found, want in zip(
        calspline.load(tmp_path / "folder.json").log, watched.log, strict=True
    ):
        assert found.pop("when") == want.pop("when")
        assert found == pytest.approx(want)
    assert "Alarm" in done("monitor", "folder.json", "days/day5.csv")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("report", "past.csv", "--costs", "1", "-o", "x.json"),
            "--costs must be those of a false positive",
        ),
        (
            ("report", "past.csv", "--costs", "1,much", "-o", "x.json"),
            "--costs must be a number; got 'much'",
        ),
        (
            ("monitor", "state.json", "past.csv", "--group", "id"),
            "monitor takes rows as independent of each other",
        ),
        (
            ("monitor", "state.json", "past.csv"),
            "to begin, name the model with --model",
        ),
        (
            ("monitor", "model.json", "past.csv"),
            "is a model, not the state of a monitor",
        ),
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
    assert (
        "leave out --model"
        in run("monitor", "state.json", "past.csv", "--model", "model.json").err
    )
    calspline.save(model.shifted(base_rate=0.02), "other.json")
    found = run("monitor", "state.json", "past.csv", "--model", "other.json")
    assert found.code == 2
    assert "state.json watches another model than other.json" in found.err
    found = run("monitor", "state.json", "past.csv", "--alpha", "0.2")
    assert found.code == 2
    assert "state.json has the alpha 0.05 already" in found.err


@pytest.fixture
def days(scored, tmp_path):
    """Files of a hundred rows each."""
    (tmp_path / "days").mkdir()
    (tmp_path / "days" / ".DS_Store").write_bytes(b"\0")
    for day in range(3):
        write(scored.slice(100 * day, 100), tmp_path / "days" / f"day{day}.csv", "csv")
    return tmp_path / "days"


def test_a_job_that_is_repeated_counts_no_row_twice(model, days, tmp_path, run, done):
    begin = (
        "monitor",
        "state.json",
        "days/day0.csv",
        "--model",
        "model.json",
        "--alpha",
        "0.1",
    )
    done(*begin)
    once = (tmp_path / "state.json").read_bytes()
    again = run(*begin)
    assert again.code == 0
    assert (
        "note: days/day0.csv was counted before; it is not counted again" in again.err
    )
    assert (tmp_path / "state.json").read_bytes() == once
    (tmp_path / "copy.csv").write_bytes((days / "day0.csv").read_bytes())
    found = run("monitor", "state.json", "copy.csv", "--json")
    assert (
        "copy.csv has the same content as day0.csv, which was counted before"
        in found.err
    )
    assert json.loads(found.out)["updates"] == 0
    assert (tmp_path / "state.json").read_bytes() == once


def test_the_same_rows_in_another_order_count_once(
    model, days, scored, tmp_path, run, done
):
    done("monitor", "state.json", "days/day0.csv", "--model", "model.json")
    once = (tmp_path / "state.json").read_bytes()
    day = scored.slice(0, 100)
    columns = day.select(day.column_names[::-1])
    rows = day.take(np.random.default_rng(0).permutation(100))
    for name, table in (("columns", columns), ("rows", rows)):
        write(table, tmp_path / f"{name}.csv", "csv")
        found = run("monitor", "state.json", f"{name}.csv", "--json")
        assert f"{name}.csv has the same content as day0.csv" in found.err
        assert json.loads(found.out)["updates"] == 0
        assert (tmp_path / "state.json").read_bytes() == once


@pytest.mark.parametrize("format", ["csv", "jsonl", "parquet", "arrow"])
def test_files_that_differ_in_a_field_or_a_row_both_count(
    model, scored, tmp_path, done, format
):
    """Also if only a column differs that is not read."""
    day = scored.slice(0, 100).append_column("note", [["a", "b"] * 50])
    column = len(day.column_names) - 1
    other = day.set_column(column, "note", [["b", "a"] * 50])
    missing = day.set_column(column, "note", [[None, "b"] * 50])
    doubled = pa.concat_tables([day, day])
    renamed = day.rename_columns([*day.column_names[:-1], "remark"])
    tables = [day, other, missing, doubled, renamed]
    for k, table in enumerate(tables):
        write(table, tmp_path / f"day{k}.{format}", format)
        found = done(
            "monitor",
            "state.json",
            f"day{k}.{format}",
            "--json",
            "--model",
            "model.json",
        )
        assert json.loads(found)["updates"] == 1


def test_what_is_new_counts_also_beside_what_is_not(model, days, tmp_path, run, done):
    done("monitor", "folder.json", "days", "--model", "model.json")
    done("monitor", "state.json", "days/day0.csv", "--model", "model.json")
    assert json.loads(done("monitor", "state.json", "days", "--json"))["updates"] == 2
    assert (
        json.loads(done("monitor", "state.json", "days/day*.csv", "days", "--json"))[
            "updates"
        ]
        == 0
    )
    assert (tmp_path / "state.json").read_bytes() == (
        tmp_path / "folder.json"
    ).read_bytes()
    (tmp_path / "today.csv").write_bytes(
        (days / "day0.csv").read_bytes() + b'"x",0.25,1\n'
    )
    assert (
        json.loads(done("monitor", "state.json", "today.csv", "--json"))["updates"] == 1
    )


@pytest.mark.process
def test_jobs_that_overlap_lose_no_update(model, days, tmp_path, done):
    done("monitor", "state.json", "days/day0.csv", "--model", "model.json")
    code = [sys.executable, "-m", "calspline", "monitor", "state.json"]
    jobs = [
        subprocess.Popen(
            [*code, f"days/day{day}.csv"], cwd=tmp_path, stdout=subprocess.DEVNULL
        )
        for day in (1, 2)
    ]
    assert [job.wait() for job in jobs] == [0, 0]
    found = sorted(
        entry["when"] for entry in calspline.load(tmp_path / "state.json").log
    )
    assert found == ["day0.csv", "day1.csv", "day2.csv"]


def test_the_state_of_a_monitor_stays_private_and_where_a_link_says(
    model, days, tmp_path, done
):
    (tmp_path / "real").mkdir()
    (tmp_path / "state.json").symlink_to("real/state.json")
    done("monitor", "state.json", "days/day0.csv", "--model", "model.json")
    (tmp_path / "real" / "state.json").chmod(0o600)
    done("monitor", "state.json", "days/day1.csv")
    assert (tmp_path / "state.json").is_symlink()
    assert (tmp_path / "real" / "state.json").stat().st_mode & 0o777 == 0o600
    assert len(calspline.load(tmp_path / "real" / "state.json").log) == 2
