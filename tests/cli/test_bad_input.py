"""What the command refuses beside the cases of the contract, which are in tests/faults/command_line."""

import json
import os

import pytest
from tests.cli.conftest import write

import calspline

GOOD = "score,label\n0.1,0\n0.6,1\n0.3,0\n0.8,1\n"

THREE = "p_0,p_1,p_2,y\n.1,.2,.7,2\n.2,.2,.6,0\n.5,.1,.4,1\n"

# What is in the file, the options, and what the one line has to say.
FILES = {
    "labels that say nothing": ("score,label\n0.1,good\n0.2,bad\n", [], ["--positive"]),
    "no names": ("0.1,0\n0.9,1\n", [], ["--no-header"]),
    "a name twice": ("score,score,label\n0.1,0.2,0\n", [], ["'score'", "rename"]),
    "two possible scores": (
        "score,prob,label\n.1,.2,1\n",
        [],
        ["'score', 'prob'", "--score"],
    ),
    "no usual name": ("a,label\n.1,1\n", [], ["--score", "'a'"]),
    "two labels for one": (
        GOOD,
        ["--positive", "0,1"],
        ["--positive must be one label", "'0,1'"],
    ),
    "a class named twice": (
        GOOD,
        ["--classes", "0,0"],
        ["--classes must be different labels"],
    ),
    "labels of no class": (
        THREE + ".1,.2,.7,7\n",
        ["--classes", "0,1,2"],
        ["'7'", "--classes"],
    ),
    "too few classes": (THREE, ["--classes", "0,1"], ["--classes must name 3 classes"]),
    "classes that no column names": (
        "p_a,p_b,p_c,y\n.1,.2,.7,x\n.2,.2,.6,z\n",
        [],
        ["got 2 classes for 3 columns"],
    ),
    "one class of three": (
        "p_0,p_1,p_2,y\n.1,.2,.7,2\n",
        [],
        ["two classes or more", "every row is 2"],
    ),
    "the positive of three": (
        THREE,
        ["--positive", "2"],
        ["--positive is for two classes", "--classes"],
    ),
    "too many labels": (
        "score,label\n" + "".join(f"0.5,l{i}\n" for i in range(20_000)),
        [],
        ["too many for labels"],
    ),
    "two possible labels": ("score,label,y\n.1,1,0\n", [], ["'label', 'y'", "--label"]),
    "no usual label": ("score,a\n.1,1\n", [], ["--label", "'a'"]),
    "a label that is the score": (GOOD, ["--label", "score"], ["both score and label"]),
    "no such weight": (GOOD, ["--weight", "w"], ["--weight: there is no column 'w'"]),
    "a long delimiter": (GOOD, ["--delimiter", ";;"], ["one character, or tab"]),
    "an unknown encoding": (GOOD, ["--encoding", "klingon"], ["no encoding 'klingon'"]),
    "a scale of another method": (
        GOOD,
        ["--method", "beta", "--scale", "logit"],
        ["--scale logit"],
    ),
    "an option of another method": (
        GOOD,
        ["--method", "beta", "--monotone"],
        ["--monotone", "spline"],
    ),
}


def refused(found, *words):
    assert found.code == 2
    assert found.out == ""
    assert found.err.count("\n") == 1
    assert "Traceback" not in found.err
    for word in words:
        assert word in found.err


@pytest.mark.parametrize("name", FILES)
def test_one_line_says_what_to_do_and_nothing_is_written(name, run, tmp_path):
    content, options, words = FILES[name]
    (tmp_path / "data.csv").write_text(content)
    refused(run("fit", "data.csv", "-o", "model.json", *options), *words)
    assert [path.name for path in tmp_path.iterdir()] == ["data.csv"]


@pytest.mark.parametrize(
    ("content", "options"),
    [
        (b"\xef\xbb\xbf" + GOOD.encode(), []),
        (GOOD.encode("utf-16"), ["--encoding", "utf-16"]),
        (GOOD.replace("\n", "\r\n").encode(), []),
        (GOOD.replace(",", ";").encode(), []),
        (GOOD.replace(",", "~").encode(), ["--delimiter", "~"]),
        (
            GOOD.split("\n", 1)[1].encode(),
            ["--no-header", "--score", "column0", "--label", "column1"],
        ),
    ],
    ids=["byte-order mark", "utf-16", "windows", "semicolons", "tildes", "no header"],
)
def test_odd_but_clear_text_is_read(content, options, done, tmp_path):
    (tmp_path / "data.csv").write_bytes(content)
    done("fit", "data.csv", "-o", "model.json", *options)
    expected = (
        calspline.SplineCalibrator()
        .fit([0.1, 0.6, 0.3, 0.8], [0, 1, 0, 1])
        .calibrate([0.4])
    )
    assert calspline.load(tmp_path / "model.json").calibrate([0.4]) == pytest.approx(
        expected, abs=1e-12
    )


def test_rows_with_missing_values_can_be_dropped(run, tmp_path):
    (tmp_path / "data.csv").write_text(GOOD + ",1\n0.5,NA\n")
    found = run("fit", "data.csv", "-o", "model.json", "--missing", "drop")
    assert found.code == 0
    assert "2 rows" in found.err
    (tmp_path / "good.csv").write_text(GOOD)
    run("fit", "good.csv", "-o", "good.json")
    assert (tmp_path / "model.json").read_bytes() == (
        tmp_path / "good.json"
    ).read_bytes()


def test_apply_refuses_drops_or_keeps_missing_scores(run, done, tmp_path):
    (tmp_path / "good.csv").write_text(GOOD)
    done("fit", "good.csv", "-o", "model.json")
    (tmp_path / "data.csv").write_text(GOOD + ",1\n0.5,0\n")
    refused(
        run("apply", "model.json", "data.csv", "-o", "out.csv"),
        "row 5",
        "--missing drop",
    )
    assert not (tmp_path / "out.csv").exists()
    done("apply", "model.json", "data.csv", "-o", "dropped.csv", "--missing", "drop")
    assert len((tmp_path / "dropped.csv").read_text().splitlines()) == 6
    done("apply", "model.json", "data.csv", "-o", "kept.csv", "--missing", "keep")
    assert (tmp_path / "kept.csv").read_text().splitlines()[5] == ",1,"


def test_rounding_beyond_0_and_1_is_no_bad_row(done, tmp_path):
    (tmp_path / "data.csv").write_text(GOOD + "1.0000000001,1\n-1e-9,0\n")
    (tmp_path / "clipped.csv").write_text(GOOD + "1,1\n0,0\n")
    for name in ("data", "clipped"):
        done("fit", f"{name}.csv", "-o", f"{name}.json")
        done("apply", "data.json", f"{name}.csv", "-o", f"{name}.out.csv")
        done("evaluate", f"{name}.csv")
    data, clipped = (
        calspline.load(tmp_path / f"{name}.json").calibrate([0.4, 1.0])
        for name in ("data", "clipped")
    )
    assert data == pytest.approx(clipped, abs=1e-12)
    data, clipped = (
        (tmp_path / f"{name}.out.csv").read_text().split()[-2:]
        for name in ("data", "clipped")
    )
    assert [row.rsplit(",")[-1] for row in data] == [
        row.rsplit(",")[-1] for row in clipped
    ]


def test_a_bad_row_is_named_with_its_file(run, tmp_path):
    (tmp_path / "a.csv").write_text(GOOD)
    (tmp_path / "b.csv").write_text(GOOD + "2,1\n")
    refused(run("fit", "a.csv", "b.csv", "-o", "model.json"), "row 5 of b.csv", "2")


def test_an_edited_model_is_refused(run, done, tmp_path):
    (tmp_path / "data.csv").write_text(GOOD)
    done("fit", "data.csv", "-o", "model.json")
    body = json.loads((tmp_path / "model.json").read_text())
    body["map"]["breaks"].reverse()
    (tmp_path / "model.json").write_text(json.dumps(body))
    refused(run("apply", "model.json", "data.csv", "-o", "out.csv"), "checksum")


@pytest.mark.parametrize("ending", ["parquet", "jsonl", "arrow"])
def test_a_file_that_is_not_what_its_name_says_is_refused(ending, run, tmp_path):
    (tmp_path / f"data.{ending}").write_text(GOOD)
    refused(run("fit", f"data.{ending}", "-o", "model.json"), f"data.{ending}")


@pytest.mark.parametrize(
    ("name", "content", "word"),
    [
        ("data.csv", b"PAR1 and more", "--format parquet"),
        ("data.csv", b"ARROW1 and more", "--format arrow"),
        ("data.csv", b"score\0label", "not text"),
        ("data.csv.gz", b"\x1f\x8b and no more", "not a whole gzip file"),
        ("data", GOOD.encode(), "--format"),
    ],
)
def test_a_file_in_disguise_is_named(name, content, word, run, tmp_path):
    (tmp_path / name).write_bytes(content)
    refused(run("fit", name, "-o", "model.json"), name, word)


def test_files_of_several_kinds_or_none_are_refused(run, tmp_path):
    (tmp_path / "a.csv").write_text(GOOD)
    (tmp_path / "b.csv").write_text("p,label\n0.1,0\n")
    (tmp_path / "c.jsonl").write_text('{"score": 0.1, "label": 0}\n')
    (tmp_path / "folder").mkdir()
    refused(
        run("fit", "a.csv", "b.csv", "-o", "m.json"),
        "b.csv has other columns than a.csv",
    )
    refused(
        run("fit", "a.csv", "c.jsonl", "-o", "m.json"), "different formats (csv, jsonl)"
    )
    refused(run("fit", "folder", "-o", "m.json"), "folder is a folder")
    refused(run("fit", "x*.csv", "-o", "m.json"), "no file x*.csv")


def test_standard_input_is_read_as_a_file_is(run, done, tmp_path, monkeypatch):
    (tmp_path / "data.csv").write_text(GOOD)
    done("fit", "data.csv", "-o", "model.json")
    from_file = done("apply", "model.json", "data.csv", "-o", "-")
    with (tmp_path / "data.csv").open() as piped:
        monkeypatch.setattr("sys.stdin", piped)
        assert done("apply", "model.json", "-", "-o", "-") == from_file
    ours, theirs = os.openpty()
    with open(theirs) as terminal:
        monkeypatch.setattr("sys.stdin", terminal)
        refused(
            run("apply", "model.json", "-", "-o", "-"), "standard input is a terminal"
        )
    os.close(ours)


def test_a_model_and_data_that_do_not_fit_are_refused(three, run, done, tmp_path):
    write(three, tmp_path / "three.csv", "csv")
    (tmp_path / "two.csv").write_text(GOOD)
    done("fit", "three.csv", "-o", "three.json")
    done("fit", "two.csv", "-o", "two.json")
    refused(run("apply", "two.json", "three.csv", "-o", "out.csv"), "2 classes")
    refused(run("apply", "three.json", "two.csv", "-o", "out.csv"), "3 columns")
    refused(
        run("report", "two.csv", "--model", "three.json", "-o", "out.html"), "3 columns"
    )
    refused(
        run("apply", "two.json", "two.csv", "-o", "out.csv", "--output", "label"),
        "--output",
    )


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ([], "COMMAND"),
        (["frobnicate"], "frobnicate"),
        (["fit", "data.csv"], "-o"),
        (["fit", "nothing.csv", "-o", "m.json"], "nothing.csv"),
        (["fit", ".", "-o", "m.json"], "folder"),
        (["compare", "data.csv"], "--score raw,calibrated"),
        (["apply", "nothing.json", "data.csv", "-o", "out.csv"], "nothing.json"),
        (["apply", "nothing.json", "data.csv", "-o", "out.odd"], "--output-format"),
        (["export", "nothing.json", "--to", "c", "--dialect", "spark"], "--dialect"),
    ],
)
def test_a_bad_command_line_is_one_line(arguments, word, run, tmp_path):
    (tmp_path / "data.csv").write_text(GOOD)
    refused(run(*arguments), word)


def test_debug_shows_the_traceback(run):
    found = run("fit", "nothing.csv", "-o", "m.json", "--debug")
    assert found.code == 2
    assert "Traceback" in found.err
