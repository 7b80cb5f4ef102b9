"""Columns go with classes by their names: one rule for the command line, frames and arrays."""

import pickle

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from tests.cli.conftest import read, write

import calspline
from calspline._input.hints import ClassOrderWarning

NAMES = ["cat", "dog", "eel"]


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    p = rng.dirichlet([0.5, 0.5, 0.5], 900)
    y = np.array(NAMES)[
        (p.cumsum(axis=1) < rng.random((900, 1))).sum(axis=1).clip(max=2)
    ]
    return p, y


def table(p, y, columns):
    return pa.table(dict(zip(columns, p.T, strict=True)) | {"label": y})


@pytest.mark.parametrize(
    "columns",
    [
        ["prob_eel", "prob_cat", "prob_dog"],
        ["eel", "cat", "dog"],
        ["m.eel", "m.cat", "m.dog"],
    ],
)
def test_frames_and_files_are_matched_by_the_ends_of_names(
    columns, rows, done, tmp_path
):
    p, y = rows
    turned = p[:, [2, 0, 1]]
    wanted = calspline.SplineCalibrator().fit(p, y).predict_proba(p)
    frame = pd.DataFrame(turned, columns=columns).assign(label=y)
    fitted = calspline.fit_frame(frame, score=columns, label="label")
    np.testing.assert_allclose(fitted.predict_proba(p), wanted, atol=1e-9)
    applied = calspline.apply_frame(frame, fitted, score=columns)
    np.testing.assert_allclose(
        applied[[f"calibrated_{name}" for name in NAMES]], wanted, atol=1e-9
    )
    write(table(turned, y, columns), tmp_path / "data.parquet", "parquet")
    done("fit", "data.parquet", "--score", ",".join(columns), "-o", "model.json")
    done(
        "apply",
        "model.json",
        "data.parquet",
        "--score",
        ",".join(columns),
        "-o",
        "out.parquet",
    )
    found = read(tmp_path / "out.parquet", "parquet")
    np.testing.assert_allclose(
        np.column_stack([found[f"calibrated_{name}"] for name in NAMES]),
        wanted,
        atol=1e-9,
    )


@pytest.mark.parametrize("command", ["fit", "evaluate", "apply", "report"])
def test_names_of_some_classes_only_are_refused(command, rows, run, done, tmp_path):
    p, y = rows
    write(table(p, y, [f"p_{name}" for name in NAMES]), tmp_path / "good.csv", "csv")
    done("fit", "good.csv", "-o", "model.json")
    write(
        table(p[:, [2, 0, 1]], y, ["p_eel", "p_cat", "p_dgo"]),
        tmp_path / "data.csv",
        "csv",
    )
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


def test_names_of_no_class_are_taken_in_order_and_that_is_said(
    rows, run, done, tmp_path
):
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


def test_labels_from_one_upwards_with_a_class_absent_are_not_shifted(
    rows, run, done, tmp_path
):
    p, y = rows
    numbers = np.searchsorted(NAMES, y) + 1
    seen = numbers < 3
    write(
        table(p[seen], numbers[seen], ["p_1", "p_2", "p_3"]),
        tmp_path / "named.csv",
        "csv",
    )
    done("fit", "named.csv", "-o", "model.json")
    model = calspline.load(tmp_path / "model.json")
    assert model.classes_.tolist() == [1, 2, 3]
    assert np.mean(model.predict(p[seen]) == numbers[seen]) > 0.5
    write(
        table(p[seen], numbers[seen], ["p_a", "p_b", "p_c"]),
        tmp_path / "other.csv",
        "csv",
    )
    found = run("fit", "other.csv", "-o", "no.json")
    assert (found.code, found.err.count("\n")) == (2, 1)
    assert "--classes" in found.err


@pytest.mark.parametrize(
    "options",
    [[], ["--by", "part"], ["--group", "part"], ["--method", "beta"]],
    ids=" ".join,
)
def test_notes_on_reversed_scores_name_the_labels(options, run, tmp_path):
    rng = np.random.default_rng(0)
    p = rng.random(500)
    y = np.where(rng.random(500) < p, "churned", "kept")
    write(
        pa.table({"score": p, "label": y, "part": np.arange(500) % 3}),
        tmp_path / "data.csv",
        "csv",
    )
    found = run("fit", "data.csv", "--positive", "kept", *options, "-o", "model.json")
    assert found.code == 0
    assert "scores are lower where the class is 'kept'" in found.err
    assert "those of 'churned' (if so, use --positive 'churned')" in found.err


def test_notes_on_shuffled_columns_name_the_labels(rows, run, tmp_path):
    p, y = rows
    write(table(p[:, [1, 2, 0]], y, ["a", "b", "c"]), tmp_path / "data.csv", "csv")
    found = run(
        "fit",
        "data.csv",
        "--score",
        "a,b,c",
        "--classes",
        "cat,dog,eel",
        "-o",
        "model.json",
    )
    assert found.code == 0
    assert "not in the order of the classes ('cat', 'dog', 'eel')" in found.err


def test_a_warning_on_the_order_of_classes_survives_pickling():
    with pytest.warns(
        ClassOrderWarning, match="lower where the class is 'b'"
    ) as caught:
        calspline.SplineCalibrator().fit(
            np.linspace(0.01, 0.99, 99), np.where(np.arange(99) < 60, "b", "a")
        )
    copy = pickle.loads(pickle.dumps(caught[0].message))
    assert str(copy) == str(caught[0].message)
    assert "where the class is 'y'" in copy.named(["x", "y"])


def test_apply_and_export_use_the_columns_of_the_fit(done, tmp_path):
    rng = np.random.default_rng(0)
    risk = rng.uniform(size=400)
    y = (rng.random(400) < risk**2).astype(int)
    data = pa.table({"score": 1 - risk, "risk": risk, "label": y})
    write(data, tmp_path / "data.parquet", "parquet")
    done("fit", "data.parquet", "--score", "risk", "-o", "model.json")
    done("apply", "model.json", "data.parquet", "-o", "out.parquet")
    model = calspline.load(tmp_path / "model.json")
    assert model.model_.fit.columns == ("risk",)
    calibrated = read(tmp_path / "out.parquet", "parquet")["calibrated"]
    np.testing.assert_allclose(calibrated, model.calibrate(risk), atol=1e-12)
    assert '"risk"' in done("export", "model.json", "--to", "sql")


def test_columns_of_classes_are_remembered_in_the_order_of_the_classes(
    rows, done, tmp_path
):
    p, y = rows
    columns = ["eel", "cat", "dog"]
    write(table(p[:, [2, 0, 1]], y, columns), tmp_path / "data.parquet", "parquet")
    done("fit", "data.parquet", "--score", "eel,cat,dog", "-o", "model.json")
    done("apply", "model.json", "data.parquet", "-o", "out.parquet")
    model = calspline.load(tmp_path / "model.json")
    assert model.model_.fit.columns == ("cat", "dog", "eel")
    applied = read(tmp_path / "out.parquet", "parquet")["calibrated_dog"]
    np.testing.assert_allclose(applied, model.predict_proba(p)[:, 1], atol=1e-9)
