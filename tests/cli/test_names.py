"""Columns go with classes by their names: one rule for the command line, frames and arrays."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from tests.cli.conftest import read, write

import calspline

NAMES = ["cat", "dog", "eel"]


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    p = rng.dirichlet([0.5, 0.5, 0.5], 900)
    y = np.array(NAMES)[(p.cumsum(axis=1) < rng.random((900, 1))).sum(axis=1).clip(max=2)]
    return p, y


def table(p, y, columns):
    return pa.table(dict(zip(columns, p.T, strict=True)) | {"label": y})


@pytest.mark.parametrize(
    "columns", [["prob_eel", "prob_cat", "prob_dog"], ["eel", "cat", "dog"], ["m.eel", "m.cat", "m.dog"]]
)
def test_frames_and_files_are_matched_by_the_ends_of_names(columns, rows, done, tmp_path):
    p, y = rows
    turned = p[:, [2, 0, 1]]
    wanted = calspline.SplineCalibrator().fit(p, y).predict_proba(p)
    frame = pd.DataFrame(turned, columns=columns).assign(label=y)
    fitted = calspline.fit_frame(frame, score=columns, label="label")
    np.testing.assert_allclose(fitted.predict_proba(p), wanted, atol=1e-9)
    applied = calspline.apply_frame(frame, fitted, score=columns)
    np.testing.assert_allclose(applied[[f"calibrated_{name}" for name in NAMES]], wanted, atol=1e-9)
    write(table(turned, y, columns), tmp_path / "data.parquet", "parquet")
    done("fit", "data.parquet", "--score", ",".join(columns), "-o", "model.json")
    done("apply", "model.json", "data.parquet", "--score", ",".join(columns), "-o", "out.parquet")
    found = read(tmp_path / "out.parquet", "parquet")
    np.testing.assert_allclose(np.column_stack([found[f"calibrated_{name}"] for name in NAMES]), wanted, atol=1e-9)


@pytest.mark.parametrize("command", ["fit", "evaluate", "apply", "report"])
def test_names_of_some_classes_only_are_refused(command, rows, run, done, tmp_path):
    p, y = rows
    write(table(p, y, [f"p_{name}" for name in NAMES]), tmp_path / "good.csv", "csv")
    done("fit", "good.csv", "-o", "model.json")
    write(table(p[:, [2, 0, 1]], y, ["p_eel", "p_cat", "p_dgo"]), tmp_path / "data.csv", "csv")
    arguments = {
        "fit": ["data.csv", "-o", "other.json"],
        "evaluate": ["data.csv"],
        "apply": ["model.json", "data.csv", "-o", "out.csv"],
        "report": ["data.csv", "--model", "model.json", "-o", "out.html"],
    }
    found = run(command, *arguments[command])
    assert (found.code, found.err.count("\n")) == (2, 1)
    assert "must be named after the classes, or none of them" in found.err
    assert "'p_dgo'" in found.err


def test_names_of_no_class_are_taken_in_order_and_that_is_said(rows, run, done, tmp_path):
    p, y = rows
    write(table(p, y, [f"p_{name}" for name in NAMES]), tmp_path / "good.csv", "csv")
    write(table(p, y, ["p_0", "p_1", "p_2"]), tmp_path / "data.csv", "csv")
    done("fit", "good.csv", "-o", "model.json")
    found = run("apply", "model.json", "data.csv", "-o", "out.csv")
    assert found.code == 0
    assert "note:" in found.err
    assert "'p_0' is 'cat', 'p_1' is 'dog', 'p_2' is 'eel'" in found.err
    said = run("fit", "data.csv", "--classes", "cat,dog,eel", "-o", "listed.json")
    assert said.code == 0
    assert "not named after" not in said.err


def test_labels_from_one_upwards_with_a_class_absent_are_not_shifted(rows, run, done, tmp_path):
    p, y = rows
    numbers = np.searchsorted(NAMES, y) + 1
    seen = numbers < 3
    write(table(p[seen], numbers[seen], ["p_1", "p_2", "p_3"]), tmp_path / "named.csv", "csv")
    done("fit", "named.csv", "-o", "model.json")
    model = calspline.load(tmp_path / "model.json")
    assert model.classes_.tolist() == [1, 2, 3]
    assert np.mean(model.predict(p[seen]) == numbers[seen]) > 0.5
    write(table(p[seen], numbers[seen], ["p_a", "p_b", "p_c"]), tmp_path / "other.csv", "csv")
    found = run("fit", "other.csv", "-o", "no.json")
    assert (found.code, found.err.count("\n")) == (2, 1)
    assert "--classes" in found.err
