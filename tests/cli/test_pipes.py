import json
import sys
from contextlib import ExitStack

import numpy as np
import pyarrow as pa
import pytest
from tests.cli.conftest import write

import calspline


@pytest.fixture
def standard_input(monkeypatch):
    """Let standard input be a file."""
    with ExitStack() as files:
        yield lambda path: monkeypatch.setattr(
            sys, "stdin", files.enter_context(path.open())
        )


@pytest.fixture(params=["csv", "parquet", "jsonl"])
def piped(request, scored, tmp_path, standard_input):
    """Put a table on standard input; the options that say its format."""

    def put(table=scored):
        standard_input(write(table, tmp_path / f"piped.{request.param}", request.param))
        return [] if request.param == "csv" else ["--format", request.param]

    return put


def test_evaluate_reads_a_pipe(piped, scored, done):
    found = json.loads(done("evaluate", "-", *piped(), "--json"))
    expected = calspline.evaluate(
        np.asarray(scored["label"]), np.asarray(scored["score"])
    ).log_loss
    assert found["log_loss"] == pytest.approx(expected, rel=1e-12)


def test_compare_reads_a_pipe(piped, scored, done):
    half = pa.array(0.5 * np.asarray(scored["score"]) + 0.25)
    options = piped(scored.append_column("half", half))
    assert "recommended" in json.loads(
        done("compare", "-", *options, "--score", "score,half", "--json")
    )


@pytest.mark.slow
def test_report_and_export_go_into_a_pipe(piped, done):
    done("fit", "-", *piped(), "-o", "model.json")
    page = done("report", "-", *piped(), "--model", "model.json", "-o", "-")
    assert page.startswith("<!doctype html>")
    assert page.rstrip().endswith("</html>")
    assert done("export", "model.json", "--to", "sql").startswith("CASE")


def test_a_pipe_of_nothing_is_refused(run, tmp_path, standard_input):
    (tmp_path / "nothing").write_bytes(b"")
    standard_input(tmp_path / "nothing")
    found = run("fit", "-", "-o", "model.json")
    assert found.code == 2
    assert "standard input" in found.err
    assert not (tmp_path / "model.json").exists()


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ([0.1, None, 0.7], ["row 2", "--missing drop"]),
        ([0.1, float("nan"), 0.7], ["row 2", "--missing drop"]),
        ([0.1, float("inf"), 0.7], ["row 2", "finite"]),
        ([0.1, 1.5, 0.7], ["row 2", "1.5", "--scale identity"]),
        ([[0.1], [0.2], [0.7]], ["must hold numbers"]),
    ],
    ids=["null", "NaN", "infinite", "above one", "lists"],
)
@pytest.mark.parametrize("command", ["fit", "evaluate"])
def test_bad_scores_in_parquet_are_named(command, column, words, run, tmp_path):
    write(
        pa.table({"score": column, "label": [0, 1, 1]}),
        tmp_path / "data.parquet",
        "parquet",
    )
    found = run(
        command, "data.parquet", *(["-o", "model.json"] if command == "fit" else [])
    )
    assert found.code == 2
    for word in words:
        assert word in found.err
    assert not (tmp_path / "model.json").exists()


@pytest.mark.parametrize("kind", [pa.float32(), pa.decimal128(6, 4), pa.string()])
def test_scores_of_any_type_of_number_give_one_fit(kind, done, tmp_path):
    score = [0.125, 0.25, 0.5, 0.75, 0.875, 0.375]
    table = pa.table({"score": pa.array(score), "label": [0, 0, 1, 1, 1, 0]})
    cast = (
        pa.array([str(s) for s in score])
        if pa.types.is_string(kind)
        else pa.array(score).cast(kind)
    )
    write(table.set_column(0, "score", cast), tmp_path / "data.parquet", "parquet")
    done("fit", "data.parquet", "-o", "model.json")
    expected = (
        calspline.SplineCalibrator().fit(score, [0, 0, 1, 1, 1, 0]).calibrate([0.4])
    )
    assert calspline.load(tmp_path / "model.json").calibrate([0.4]) == pytest.approx(
        expected, abs=1e-12
    )
