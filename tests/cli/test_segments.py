"""``--by`` of the commands."""

import json
import tracemalloc

import duckdb
import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import log_loss

from calspline import SplineCalibrator, evaluate, load
from calspline.cli import main


@pytest.fixture
def file(tmp_path):
    rng = np.random.default_rng(0)
    x, country, device = (
        rng.normal(size=1500),
        rng.choice(["at", "de", "fr"], 1500),
        rng.integers(0, 2, 1500),
    )
    y = rng.random(1500) < 1 / (1 + np.exp(-x - (country == "fr")))
    p, q = 1 / (1 + np.exp(-x)), 1 / (1 + np.exp(-x - (country == "fr")))
    lines = [
        f"{p[i]:.17g},{q[i]:.17g},{'' if i < 20 else country[i]},{device[i]},{int(y[i])}"
        for i in range(1500)
    ]
    path = tmp_path / "rows.csv"
    path.write_text("\n".join(["score,better,country,device,label", *lines]))
    country = np.where(np.arange(1500) < 20, None, country.astype(object))
    return str(path), y, p, country, device


def test_evaluate_by_columns_is_that_of_arrays(file, capsys):
    path, y, p, country, device = file
    assert (
        main(["evaluate", path, "--score", "score", "--by", "country,device", "--json"])
        == 0
    )
    found = json.loads(capsys.readouterr().out)
    expected = evaluate(y, p, by=[country, device]).segments
    assert found["segments_p_value"] == pytest.approx(expected.p_value)
    assert [one["segment"] for one in found["segments"]] == [
        "at",
        "de",
        "fr",
        None,
        0,
        1,
    ]
    assert [one["column"] for one in found["segments"]] == ["country"] * 4 + [
        "device"
    ] * 2
    np.testing.assert_allclose(
        [one["ratio"] for one in found["segments"]], expected.table["ratio"]
    )


def test_tables_and_pages_have_a_part_by_segment(file, capsys, tmp_path):
    path = file[0]
    assert main(["evaluate", path, "--score", "score", "--by", "country"]) == 0
    assert "Not every segment is calibrated" in capsys.readouterr().out
    assert main(["compare", path, "--score", "score,better", "--by", "country"]) == 0
    assert "By segment, better against score" in capsys.readouterr().out
    page = tmp_path / "page.html"
    assert (
        main(
            [
                "report",
                path,
                "--score",
                "score,better",
                "--by",
                "country",
                "-o",
                str(page),
            ]
        )
        == 0
    )
    assert "fr: mean score " in page.read_text()


def test_a_column_that_is_not_there_is_named(file, capsys):
    assert main(["evaluate", file[0], "--score", "score", "--by", "region"]) == 2
    assert "--by: there is no column 'region'" in capsys.readouterr().err


def test_a_model_with_segments_is_fitted_and_applied(file, capsys, tmp_path):
    path, y, p, country, device = file
    model, out = tmp_path / "model.json", tmp_path / "out.csv"
    assert (
        main(
            [
                "fit",
                path,
                "--score",
                "score",
                "--by",
                "country,device",
                "-o",
                str(model),
            ]
        )
        == 0
    )
    said = capsys.readouterr().out
    assert "segments, the farthest from the common curve" in said
    assert "country: fr" in said
    cal = SplineCalibrator().fit(
        p, y, by=pd.DataFrame({"country": country, "device": device})
    )
    for chosen in ([], ["--by", "device,country"]):
        assert (
            main(
                [
                    "apply",
                    str(model),
                    path,
                    "--score",
                    "score",
                    "-o",
                    str(out),
                    "--force",
                    *chosen,
                ]
            )
            == 0
        )
        found = np.loadtxt(out, delimiter=",", skiprows=1, usecols=5)
        with pytest.warns(
            UserWarning,
            match="20 of 1500 rows are of segments that the fit has not seen",
        ):
            expected = cal.calibrate(p, by=[country, device])
        np.testing.assert_allclose(found, expected, atol=1e-9)
    assert "20 of 1500 rows" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("weight", [[], ["--weight", "weight"]])
def test_a_fit_by_segment_is_judged_from_its_sums_as_from_rows(
    file, capsys, tmp_path, weight
):
    path, y, p, country, _ = file
    table = (
        pd.read_csv(path, keep_default_na=False)
        .rename(columns={"country": "p"})
        .assign(weight=2)
    )
    table.to_csv(tmp_path / "other.csv", index=False)
    arguments = [
        "--score",
        "score",
        "--by",
        "p",
        *weight,
        "--json",
        "-o",
        str(tmp_path / "model.json"),
    ]
    assert main(["fit", str(tmp_path / "other.csv"), *arguments]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["judged"] == "cross-validated in 5 folds"
    assert found["before"]["log_loss"] == pytest.approx(log_loss(y, p), abs=1e-9)
    fold = np.random.default_rng(1).integers(0, 5, len(y))
    after = np.empty(len(y))
    for k in range(5):
        cal = SplineCalibrator().fit(p[fold != k], y[fold != k], by=country[fold != k])
        with pytest.warns(UserWarning, match="has not seen"):
            after[fold == k] = cal.calibrate(p[fold == k], by=country[fold == k])
    # Other folds: what is gained differs by little.
    assert found["after"]["log_loss"] == pytest.approx(log_loss(y, after), abs=0.005)
    assert found["after"]["log_loss"] < found["before"]["log_loss"] - 0.02
    assert load(tmp_path / "model.json").model_.segment_columns[0].name == "p"


@pytest.mark.slow
def test_a_fit_by_segment_takes_no_more_memory_for_more_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "calspline.cli.fit.MAX_TO_FOLD", 1000
    )  # beyond, rows are not looked at for dependence
    peaks = []
    for n in (100_000, 400_000):
        label = "(i % 1999 + i % 7 * 200 > i % 1500) AS label"
        rows = duckdb.sql(
            f"SELECT i % 1999 / 1999 AS score, {label}, i % 7 AS s FROM range({n}) t(i)"
        )
        rows.write_parquet(str(tmp_path / "rows.parquet"))
        tracemalloc.start()
        arguments = [
            "--score",
            "score",
            "--by",
            "s",
            "--force",
            "-o",
            str(tmp_path / "model.json"),
        ]
        assert main(["fit", str(tmp_path / "rows.parquet"), *arguments]) == 0
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert load(tmp_path / "model.json").segments_["rows"].sum() == n
    assert peaks[1] < peaks[0] + 1e6  # the scores alone take 2.4 million bytes more


@pytest.mark.slow
@pytest.mark.parametrize(
    ("texts", "labels"),
    [
        (["1", "02", "3"], ["02", "1", "3"]),
        (["1", "-2", "30"], [-2, 1, 30]),
        (["1", "2", "9" * 25], ["1", "2", "9" * 25]),
        (["true", "false", "true"], ["false", "true"]),
    ],
)
def test_labels_are_numbers_if_all_of_them_are(file, tmp_path, texts, labels):
    table = pd.read_csv(file[0]).assign(device=np.resize(texts, 1500))
    table.to_csv(tmp_path / "other.csv", index=False)
    for method in ([], ["--group", "group"]):  # by sums, and by rows
        table.assign(group=np.arange(1500) // 3).to_csv(
            tmp_path / "other.csv", index=False
        )
        model = str(tmp_path / "model.json")
        arguments = [
            "--score",
            "score",
            "--by",
            "device",
            *method,
            "--force",
            "-o",
            model,
        ]
        assert main(["fit", str(tmp_path / "other.csv"), *arguments]) == 0
        assert list(load(model).segments_["segment"]) == labels


@pytest.mark.slow
def test_rows_of_new_segments_are_counted_once_for_a_file_of_many_batches(
    file, capsys, tmp_path
):
    model, many = tmp_path / "model.json", tmp_path / "many.csv"
    assert (
        main(["fit", file[0], "--score", "score", "--by", "country", "-o", str(model)])
        == 0
    )
    n = 300_000
    many.write_text(
        "score,country\n"
        + "".join(f"0.3,{'fr' if k % 3 else 'xx'}\n" for k in range(n))
    )
    capsys.readouterr()
    assert main(["apply", str(model), str(many), "-o", str(tmp_path / "out.csv")]) == 0
    said = capsys.readouterr().err
    assert said.count("has not seen") == 1
    assert f"{n // 3} of {n} rows" in said


def test_without_the_column_all_rows_are_of_a_new_segment(file, capsys, tmp_path):
    model, other = tmp_path / "model.json", tmp_path / "other.csv"
    assert (
        main(["fit", file[0], "--score", "score", "--by", "country", "-o", str(model)])
        == 0
    )
    other.write_text("score,land\n0.2,fr\n0.7,at\n")
    assert main(["apply", str(model), str(other), "-o", str(tmp_path / "new.csv")]) == 0
    assert "fitted with segments" in capsys.readouterr().err
    assert (
        main(
            [
                "apply",
                str(model),
                str(other),
                "--by",
                "land",
                "-o",
                str(tmp_path / "known.csv"),
            ]
        )
        == 0
    )
    assert capsys.readouterr().err == ""
    new, known = (
        np.loadtxt(tmp_path / f"{n}.csv", delimiter=",", skiprows=1, usecols=2)
        for n in ("new", "known")
    )
    np.testing.assert_allclose(
        known, load(model).calibrate([0.2, 0.7], by=["fr", "at"]), atol=1e-9
    )
    assert np.abs(new - known).min() > 0.01


def test_numbers_in_a_text_file_are_those_of_any_other(file, tmp_path):
    model = tmp_path / "model.json"
    assert (
        main(["fit", file[0], "--score", "score", "--by", "device", "-o", str(model)])
        == 0
    )
    assert list(load(model).segments_["segment"]) == [0, 1]


def test_the_exported_sql_names_the_columns(file, capsys, tmp_path):
    model = tmp_path / "model.json"
    assert (
        main(["fit", file[0], "--score", "score", "--by", "country", "-o", str(model)])
        == 0
    )
    capsys.readouterr()
    assert main(["export", str(model), "--to", "sql"]) == 0
    expression = capsys.readouterr().out
    rows = "(VALUES (0.2::DOUBLE, 'fr'), (0.7, NULL)) AS t(score, country)"
    found = [
        row[0] for row in duckdb.sql(f"SELECT {expression} FROM {rows}").fetchall()
    ]
    with pytest.warns(UserWarning, match="1 of 2 rows"):
        expected = load(model).calibrate([0.2, 0.7], by=["fr", None])
    np.testing.assert_allclose(found, expected, atol=1e-9)
    assert main(["export", str(model), "--to", "sql", "--by", "land"]) == 0
    assert '"land"' in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["fit", "--method", "isotonic", "--by", "country"],
            "--by is for --method spline",
        ),
        (["fit", "--by", "region"], "--by: there is no column 'region'"),
    ],
)
def test_what_fit_cannot_do_by_segment_is_told(
    file, capsys, tmp_path, arguments, message
):
    command, *more = arguments
    assert (
        main(
            [
                command,
                file[0],
                "--score",
                "score",
                "-o",
                str(tmp_path / "model.json"),
                *more,
            ]
        )
        == 2
    )
    assert message in capsys.readouterr().err


def test_what_apply_cannot_do_by_segment_is_told(file, capsys, tmp_path):
    plain, two = str(tmp_path / "plain.json"), str(tmp_path / "two.json")
    assert main(["fit", file[0], "--score", "score", "-o", plain]) == 0
    assert (
        main(["fit", file[0], "--score", "score", "--by", "country,device", "-o", two])
        == 0
    )
    for model, message in (
        (plain, "this one has no segments"),
        (two, "--by must name 2 columns"),
    ):
        arguments = [
            model,
            file[0],
            "--score",
            "score",
            "--by",
            "country",
            "-o",
            str(tmp_path / "o.csv"),
        ]
        assert main(["apply", *arguments]) == 2
        assert message in capsys.readouterr().err
    assert main(["export", two, "--to", "c", "--by", "country"]) == 2
    assert "--by is for --to sql" in capsys.readouterr().err


@pytest.mark.slow
def test_a_report_on_a_model_with_segments_uses_them(file, tmp_path):
    model, page = str(tmp_path / "model.json"), tmp_path / "page.html"
    assert (
        main(["fit", file[0], "--score", "score", "--by", "country", "-o", model]) == 0
    )
    assert (
        main(
            [
                "report",
                file[0],
                "--score",
                "score",
                "--by",
                "country",
                "--model",
                model,
                "-o",
                str(page),
            ]
        )
        == 0
    )
    assert "after calibration no evidence of miscalibration" in page.read_text()
