import json
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
from tests.faults.command_line.conftest import GOOD, table

import calspline

THREE = "p_0,p_1,p_2,y"
RIGHT = (".1,.2,.7,2", ".5,.1,.4,1", ".6,.3,.1,0", ".2,.5,.3,1")


def test_38_the_input_is_not_changed(fits, done, tmp_path):
    fits(GOOD)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    done("apply", "model.json", "data.csv", "-o", "out.csv")
    assert {path: path.read_bytes() for path in before} == before


def test_45_a_model_and_data_of_other_columns(fits, run, tmp_path):
    fits(table(*RIGHT, names=THREE))
    (tmp_path / "two.csv").write_text(GOOD)
    found = run("apply", "model.json", "two.csv", "-o", "out.csv")
    assert (found.code, found.err.count("\n")) == (2, 1)
    assert "3 columns" in found.err


def test_46_a_model_that_is_not_there(run, tmp_path):
    (tmp_path / "data.csv").write_text(GOOD)
    found = run("apply", "nothing.json", "data.csv", "-o", "out.csv")
    assert (found.code, found.err.count("\n")) == (2, 1)
    assert "nothing.json" in found.err


def test_47_a_fit_again_is_the_same_file(fits, tmp_path):
    fits(GOOD)
    before = (tmp_path / "model.json").read_bytes()
    fits(GOOD)
    assert (tmp_path / "model.json").read_bytes() == before


def test_53_row_order_and_files_are_irrelevant(fits, done, agrees, tmp_path):
    agrees(fits(table("0.8,1", "0.3,0", "0.6,1", "0.1,0")))
    (tmp_path / "a.csv").write_text(table("0.1,0", "0.6,1"))
    (tmp_path / "b.csv").write_text(table("0.3,0", "0.8,1"))
    done("fit", "a.csv", "b.csv", "-o", "both.json")
    agrees(calspline.load(tmp_path / "both.json"))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--smoothing", "-1"], ["smoothing", "-1"]),
        (["--smoothing", "much"], ["--smoothing", "'much'"]),
        (["--smoothing", "nan"], ["smoothing"]),
        (["--scale", "probit"], ["--scale", "probit"]),
        (["--method", "magic"], ["--method", "magic"]),
        (["--missing", "ignore"], ["--missing", "ignore"]),
        (["--multiclass", "ovo"], ["--multiclass", "ovo"]),
        (["--positive", "7"], ["--positive", "'7'"]),
        (["--score", "nope"], ["'nope'", "'score'"]),
        (["--label", "nope"], ["'nope'", "'label'"]),
        (["--format", "xls"], ["--format", "xls"]),
        (["--encoding", "klingon"], ["--encoding", "klingon"]),
        (["--delimiter", ""], ["--delimiter"]),
        (["--nonsense"], ["--nonsense"]),
    ],
    ids=str,
)
def test_54_a_wrong_option_is_named(refuses, options, words):
    refuses(GOOD, *words, options=options)


BAD_MODELS = {
    "a table": b"score,label\n",
    "a pickle": pickle.dumps({"a": 1}),
    "another version": b'{"format": "calspline", "version": 99}',
    "half a file": b'{"format": "calspl',
    "NaN": b"[NaN]",
    "deep": b"[" * 100_000,
    "escape codes": b'{"format": "\\u001b[31mred"}',
    "nothing": b"",
}


@pytest.mark.parametrize("content", BAD_MODELS.values(), ids=BAD_MODELS)
def test_55_a_file_that_is_no_model(run, tmp_path, content):
    (tmp_path / "data.csv").write_text(GOOD)
    (tmp_path / "model.json").write_bytes(content)
    for arguments in (
        ["apply", "model.json", "data.csv", "-o", "out.csv"],
        ["export", "model.json", "--to", "sql"],
    ):
        found = run(*arguments)
        assert (found.code, found.out, found.err.count("\n")) == (2, "", 1)
        assert "model.json" in found.err
        assert found.err[:-1].isprintable()
    assert not (tmp_path / "out.csv").exists()


def test_56_loading_executes_nothing(run, tmp_path):
    class Trap:
        def __reduce__(self):
            return (open, (str(tmp_path / "sprung"), "w"))

    (tmp_path / "data.csv").write_text(GOOD)
    (tmp_path / "model.json").write_bytes(pickle.dumps(Trap()))
    assert run("apply", "model.json", "data.csv", "-o", "out.csv").code == 2
    assert not (tmp_path / "sprung").exists()


@pytest.mark.process
def test_58_a_full_disk_leaves_the_old_file_and_no_other(fits, tmp_path):
    fits(GOOD)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    # One block, of 512 or 1,024 bytes. A shell sets the limit: of a fork of this process
    # JAX warns, once another test has used it.
    small = ["sh", "-c", 'ulimit -f 1 && exec "$@"', "sh"]
    fit = [sys.executable, "-m", "calspline", "fit", tmp_path / "data.csv"]
    found = subprocess.run(
        [*small, *fit, "-o", tmp_path / "model.json", "--force"],
        capture_output=True,
        check=False,
        # Else the bytecode of what is imported would end there, for all that follow.
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert found.returncode == 2
    assert found.stderr.count(b"\n") == 1
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_58_a_place_that_cannot_be_written(fits, run):
    fits(GOOD)
    for place in ("nowhere/out.csv", "data.csv/out.csv", "."):
        found = run(
            "apply", "model.json", "data.csv", "-o", place, "--output-format", "csv"
        )
        assert (found.code, found.err.count("\n")) == (2, 1)


def test_59_rows_with_missing_values_can_be_dropped(fits, agrees):
    agrees(fits(GOOD + ",1\n0.5,NA\n", "--missing", "drop"))


def test_60_a_byte_order_mark(fits, agrees):
    agrees(fits(b"\xef\xbb\xbf" + GOOD.encode()))
    agrees(fits(GOOD.encode("utf-16"), "--encoding", "utf-16"))


def test_60_a_wrong_delimiter(refuses, fits, agrees):
    refuses("score label\n0.1 0\n0.9 1\n", "--delimiter")
    agrees(fits(GOOD.replace(",", ";")))
    agrees(fits(GOOD.replace(",", "~"), "--delimiter", "~"))


def test_60_a_wrong_encoding(refuses):
    refuses(
        "score,label\n0.1,né\n0.9,ok\n".encode("latin-1"), "UTF-8", "--encoding latin-1"
    )
    refuses(
        "score,label\n0.1,0\n0.9,1\n".encode("utf-16"), "UTF-16", "--encoding utf-16"
    )
    refuses(b"PAR1" + bytes(100), "--format parquet")
    refuses(b"\x00\x01\x02" * 50, "not text", "--format")


HOSTILE = "a\"b'; DROP TABLE x; --<script>alert(1)</script>"


@pytest.fixture
def hostile(tmp_path):
    rows = "".join(f"{0.1 + 0.008 * i},{i % 2}\n" for i in range(100))
    (tmp_path / "data.csv").write_text(
        '"' + HOSTILE.replace('"', '""') + '",label\n' + rows
    )


def test_61_html_in_a_name_or_title_is_escaped(hostile, done, tmp_path):
    done(
        "report",
        "data.csv",
        "--score",
        HOSTILE,
        "-o",
        "r.html",
        "--title",
        "<script>alert(2)</script>",
    )
    assert "<script>alert" not in (tmp_path / "r.html").read_text()


def test_62_names_are_quoted(hostile, done, tmp_path):
    done("fit", "data.csv", "-o", "model.json", "--score", HOSTILE)
    done(
        "apply",
        "model.json",
        "data.csv",
        "-o",
        "out.csv",
        "--score",
        HOSTILE,
        "--output",
        'it\'s "new"',
    )
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 101
    sql = done("export", "model.json", "--to", "sql", "--score", HOSTILE)
    assert '"' + HOSTILE.replace('"', '""') + '"' in sql


def test_62_names_of_files_are_only_names(fits, done, run, tmp_path):
    name = "a'); DROP TABLE x; --.csv"
    fits(GOOD, name=name)
    done("apply", "model.json", name, "-o", "b'); --.csv")
    assert len((tmp_path / "b'); --.csv").read_text().splitlines()) == 5


def test_61_escape_codes_of_a_terminal_are_not_passed_on(refuses, run, tmp_path):
    red = "\x1b[31mred\x1b[0m\x07"
    refuses(f"score,label\n0.1,0\n{red},1\n", "row 2")
    refuses(f"{red},label\n0.1,0\n0.2,1\n", "--score")
    refuses(f"score,label\n0.1,{red}\n0.2,b\n0.3,c\n", "3 classes")
    refuses(f"score,label\n0.1,{red}\n0.2,{red}\n", "two classes")
    found = run("fit", f"no{red}.csv", "-o", "m.json")
    assert found.code == 2
    assert found.err[:-1].isprintable()
    (tmp_path / "data.csv").write_text(f"{red},{red}2\n0.1,0\n0.6,1\n0.3,0\n0.8,1\n")
    here = ["data.csv", "--score", red, "--label", f"{red}2"]
    for arguments in (
        ["fit", *here, "-o", f"m{red}.json"],
        ["evaluate", *here],
        [
            "apply",
            f"m{red}.json",
            "data.csv",
            "--score",
            red,
            "-o",
            "out.csv",
            "--output",
            f"{red}3",
        ],
    ):
        found = run(*arguments)
        assert found.code == 0, found.err
        assert "red" in found.out
        assert all(line.isprintable() for line in (found.out + found.err).splitlines())


def test_63_the_exports_agree_with_python(fits, done, tmp_path):
    import duckdb

    model = fits(GOOD)
    scores = np.linspace(0, 1, 101)
    sql = done("export", "model.json", "--to", "sql", "--score", "p")
    relation = duckdb.connect().sql("SELECT unnest(range(101)) / 100 AS p")
    found = relation.project(sql.removesuffix("\n")).fetchnumpy()["calibrated"]
    np.testing.assert_allclose(found, model.calibrate(scores), rtol=0, atol=1e-9)
    code = {}
    exec(done("export", "model.json", "--to", "python"), code)
    np.testing.assert_allclose(
        [code["calibrate"](p) for p in scores],
        model.calibrate(scores),
        rtol=0,
        atol=1e-9,
    )


@pytest.mark.process
def test_51_commands_side_by_side_agree(fits, tmp_path):
    fits(GOOD)
    environment = dict(os.environ)
    work = [
        subprocess.Popen(
            [
                sys.executable,
                "-m",
                "calspline",
                "apply",
                "model.json",
                "data.csv",
                "-o",
                f"{i}.csv",
            ],
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.DEVNULL,
        )
        for i in range(2)
    ]
    assert [process.wait() for process in work] == [0, 0]
    assert (tmp_path / "0.csv").read_bytes() == (tmp_path / "1.csv").read_bytes()


def test_48_a_model_by_the_command_is_one_by_the_library(fits, tmp_path):
    model = fits(GOOD)
    calspline.save(model, tmp_path / "again.json")
    assert json.loads((tmp_path / "again.json").read_text()) == json.loads(
        (tmp_path / "model.json").read_text()
    )
