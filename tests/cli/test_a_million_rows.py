"""Every command at a million rows."""

import json

import numpy as np
import pyarrow as pa
import pytest
from tests.cli.conftest import read, write

import calspline

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def rows(simulated):
    """Scores, labels and true probabilities."""
    return simulated(1_000_000)


def write_lines(path, score, y):
    """JSON lines, faster than row by row."""
    lines = (
        f'{{"id": {i}, "score": {s!r}, "label": {label}}}'
        for i, (s, label) in enumerate(zip(score, y, strict=True))
    )
    path.write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize(
    "format",
    [
        "parquet",
        pytest.param("csv", marks=pytest.mark.thorough),
        pytest.param("jsonl", marks=pytest.mark.thorough),
    ],
)
def test_fit_and_apply(format, rows, tmp_path, done):
    score, y, truth = rows
    if format == "jsonl":
        write_lines(tmp_path / "data.jsonl", score.tolist(), y.tolist())
    else:
        table = pa.table({"id": np.arange(len(y)), "score": score, "label": y})
        write(table, tmp_path / f"data.{format}", format)
    done("fit", f"data.{format}", "-o", "model.json")
    done("apply", "model.json", f"data.{format}", "-o", "out.parquet")
    found = read(tmp_path / "out.parquet", "parquet")
    np.testing.assert_array_equal(found["id"], np.arange(len(y)))
    expected = calspline.load(tmp_path / "model.json").calibrate(score)
    np.testing.assert_allclose(found["calibrated"], expected, atol=1e-12)
    assert np.abs(expected - truth).mean() < 0.002


@pytest.mark.thorough
def test_evaluate_compare_and_report(rows, tmp_path, done):
    score, y, truth = rows
    write(
        pa.table({"score": score, "true": truth, "label": y}),
        tmp_path / "data.parquet",
        "parquet",
    )
    found = json.loads(done("evaluate", "data.parquet", "--score", "true", "--json"))
    assert found["log_loss"] == pytest.approx(
        np.mean(-np.log(np.where(y == 1, truth, 1 - truth))), rel=1e-9
    )
    compared = json.loads(
        done("compare", "data.parquet", "--score", "score,true", "--json")
    )
    assert compared["recommended"] == "true"
    done("report", "data.parquet", "--score", "score,true", "-o", "report.html")
    assert (tmp_path / "report.html").stat().st_size < 1_000_000
