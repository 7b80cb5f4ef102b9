import gzip
import json

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.ipc
import pytest
from tests.cli.conftest import FORMATS, command, read, write

import calspline


def columns(table, *names):
    return [np.asarray(table[name]) for name in names]


@pytest.fixture(params=FORMATS)
def format(request):
    return request.param


def test_fit_and_apply_give_the_numbers_of_the_library_in_every_format(
    format, scored, tmp_path, done
):
    write(scored, tmp_path / f"data.{format}", format)
    done("fit", f"data.{format}", "-o", "model.json")
    done("apply", "model.json", f"data.{format}", "-o", f"out.{format}")
    found = read(tmp_path / f"out.{format}", format)
    score, y = columns(scored, "score", "label")
    expected = calspline.SplineCalibrator().fit(score, y).calibrate(score)
    assert found.column_names == ["id", "score", "label", "calibrated"]
    np.testing.assert_allclose(found["calibrated"], expected, atol=1e-9)
    np.testing.assert_allclose(found["score"], score, rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("target", FORMATS)
def test_apply_writes_any_format_from_any(format, target, scored, tmp_path, done):
    write(scored, tmp_path / f"data.{format}", format)
    done("fit", f"data.{format}", "-o", "model.json")
    done(
        "apply", "model.json", f"data.{format}", "-o", f"out.{target}", "--output", "p2"
    )
    found = read(tmp_path / f"out.{target}", target)
    np.testing.assert_allclose(found["score"], scored["score"], rtol=1e-12)
    assert found.column_names[-1] == "p2"
    assert pa.types.is_floating(found["score"].type)


def test_text_that_is_passed_on_stays_as_it_was(tmp_path, done):
    rows = [
        "007,0.10,0,1e3",
        '"a, b",0.250,1,',
        "x,0.9,1,2024-01-02",
        "y,0.40,0,01/02/03",
    ]
    (tmp_path / "data.csv").write_text("\n".join(["id,score,label,when", *rows]) + "\n")
    done("fit", "data.csv", "-o", "model.json")
    done("apply", "model.json", "data.csv", "-o", "out.csv")
    lines = (tmp_path / "out.csv").read_text().splitlines()[1:]
    assert [line.rpartition(",")[0] for line in lines] == rows


def test_evaluate_gives_the_numbers_of_the_library(format, scored, tmp_path, done):
    write(scored, tmp_path / f"data.{format}", format)
    found = json.loads(done("evaluate", f"data.{format}", "--json"))
    score, y = columns(scored, "score", "label")
    expected = calspline.evaluate(y, score).to_dict()
    assert found == pytest.approx(expected, rel=1e-9, nan_ok=True)
    assert f"{expected['log_loss']:.4f}" in done("evaluate", f"data.{format}")


@pytest.mark.slow
def test_compare_and_report_read_every_format(format, scored, tmp_path, done):
    score, y = columns(scored, "score", "label")
    both = scored.append_column("half", pa.array(0.5 * score + 0.25))
    write(both, tmp_path / f"data.{format}", format)
    found = json.loads(
        done("compare", f"data.{format}", "--score", "score,half", "--json")
    )
    expected = calspline.compare(
        y, {"score": score, "half": 0.5 * score + 0.25}
    ).to_dict()
    assert found["half.log_loss_difference"] == pytest.approx(
        expected["half.log_loss_difference"], rel=1e-9
    )
    assert found["recommended"] == expected["recommended"]
    done("report", f"data.{format}", "--score", "score,half", "-o", "report.html")
    page = (tmp_path / "report.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "half" in page


@pytest.mark.process
@pytest.mark.parametrize(
    "format",
    [
        "csv",
        "parquet",
        *(
            pytest.param(one, marks=pytest.mark.thorough)
            for one in ("tsv", "jsonl", "arrow")
        ),
    ],
)
def test_pipes_carry_every_format(format, scored, tmp_path, done):
    data = write(scored, tmp_path / f"data.{format}", format).read_bytes()
    said = [] if format == "csv" else ["--format", format]
    fitted = command("fit", "-", *said, "-o", "-", input=data)
    assert fitted.returncode == 0, fitted.stderr
    (tmp_path / "model.json").write_bytes(fitted.stdout)
    applied = command(
        "apply", tmp_path / "model.json", "-", *said, "-o", "-", input=data
    )
    assert applied.returncode == 0, applied.stderr
    (tmp_path / f"out.{format}").write_bytes(applied.stdout)
    found = read(tmp_path / f"out.{format}", format)
    expected = calspline.load(tmp_path / "model.json").calibrate(
        np.asarray(scored["score"])
    )
    np.testing.assert_allclose(found["calibrated"], expected, atol=1e-12)
    assert b"\x1b" not in fitted.stderr + applied.stderr


def test_files_of_a_pattern_are_one_table_in_their_order(scored, tmp_path, done):
    for i in range(3):
        write(scored.slice(500 * i, 500), tmp_path / f"part{i}.csv", "csv")
    done("fit", "part*.csv", "-o", "model.json")
    done(
        "apply",
        "model.json",
        "part0.csv",
        "part1.csv",
        "part2.csv",
        "-o",
        "out.parquet",
    )
    found = read(tmp_path / "out.parquet", "parquet")
    np.testing.assert_allclose(found["score"], scored["score"], rtol=1e-12)


def test_packed_text_is_read_and_written(scored, tmp_path, done):
    plain = write(scored, tmp_path / "data.csv", "csv")
    (tmp_path / "packed.csv.gz").write_bytes(gzip.compress(plain.read_bytes()))
    done("fit", "packed.csv.gz", "-o", "model.json")
    done("apply", "model.json", "packed.csv.gz", "-o", "out.csv.gz")
    done("apply", "model.json", "data.csv", "-o", "out.csv")
    assert (
        gzip.decompress((tmp_path / "out.csv.gz").read_bytes())
        == (tmp_path / "out.csv").read_bytes()
    )


def test_the_numbers_after_a_fit_are_honest(simulated, tmp_path, done):
    score, y, _ = simulated(400)
    write(pa.table({"score": score, "label": y}), tmp_path / "data.csv", "csv")
    found = json.loads(
        done("fit", "data.csv", "-o", "model.json", "--smoothing", "0", "--json")
    )
    seen = calspline.evaluate(
        y, calspline.load(tmp_path / "model.json").calibrate(score)
    ).log_loss
    assert found["before"]["log_loss"] == pytest.approx(
        calspline.evaluate(y, score).log_loss, rel=1e-9
    )
    assert found["after"]["log_loss"] > seen + 0.01


def test_an_arrow_stream_is_read_too(scored, tmp_path, done):
    with pyarrow.ipc.new_stream(tmp_path / "data.arrows", scored.schema) as stream:
        stream.write_table(scored)
    done("fit", "data.arrows", "-o", "model.json")
    assert "1,500 rows" in done("apply", "model.json", "data.arrows", "-o", "out.arrow")


def test_classes_go_with_their_columns_whatever_the_order(three, tmp_path, done):
    write(three, tmp_path / "data.csv", "csv")
    done("fit", "data.csv", "-o", "model.json")
    done("apply", "model.json", "data.csv", "-o", "out.parquet")
    found = read(tmp_path / "out.parquet", "parquet")
    names = ["cat", "dog", "eel"]
    scores = np.column_stack(columns(three, *(f"prob_{name}" for name in names)))
    expected = (
        calspline.SplineCalibrator()
        .fit(scores, np.asarray(three["label"]))
        .calibrate(scores)
    )
    for j, name in enumerate(names):
        np.testing.assert_allclose(
            found[f"calibrated_{name}"], expected[:, j], atol=1e-9
        )
    assert calspline.load(tmp_path / "model.json").classes_.tolist() == names


@pytest.mark.parametrize("method", ["sigmoid", "isotonic", "beta", "temperature"])
def test_every_method_fits(method, scored, tmp_path, done):
    write(scored, tmp_path / "data.csv", "csv")
    found = json.loads(
        done("fit", "data.csv", "-o", "model.json", "--method", method, "--json")
    )
    assert found["after"]["brier"] < found["before"]["brier"]
    assert found["judged"] == "cross-validated in 5 folds"
    assert method in type(calspline.load(tmp_path / "model.json")).__name__.lower()


def test_options_of_the_spline_reach_it(scored, tmp_path, done):
    write(scored, tmp_path / "data.csv", "csv")
    done(
        "fit",
        "data.csv",
        "-o",
        "m.json",
        "--smoothing",
        "0.5",
        "--scale",
        "asinh_logit",
        "--monotone",
    )
    found = calspline.load(tmp_path / "m.json")
    assert (found.smoothing, found.scale, found.monotone) == (0.5, "asinh_logit", True)


def test_margins_are_calibrated_when_said_to_be(scored, tmp_path, done):
    score, y = columns(scored, "score", "label")
    margin = np.log(score / (1 - score))
    write(pa.table({"score": margin, "label": y}), tmp_path / "data.parquet", "parquet")
    done("fit", "data.parquet", "-o", "model.json", "--scale", "identity")
    done("apply", "model.json", "data.parquet", "-o", "out.parquet")
    expected = (
        calspline.SplineCalibrator(scale="identity").fit(margin, y).calibrate(margin)
    )
    np.testing.assert_allclose(
        read(tmp_path / "out.parquet", "parquet")["calibrated"], expected, atol=1e-9
    )


def test_weights_count_as_repeated_rows(scored, tmp_path, done):
    weight = np.arange(1500) % 3
    write(scored.append_column("w", pa.array(weight)), tmp_path / "data.csv", "csv")
    write(
        scored.take(np.repeat(np.arange(1500), weight)), tmp_path / "again.csv", "csv"
    )
    done("fit", "data.csv", "-o", "a.json", "--weight", "w")
    done("fit", "again.csv", "-o", "b.json")
    a, b = (
        calspline.load(tmp_path / name).calibrate([0.1, 0.5, 0.9])
        for name in ("a.json", "b.json")
    )
    np.testing.assert_allclose(a, b, atol=1e-9)


def test_positive_says_what_the_score_is_of(scored, tmp_path, done):
    words = np.where(np.asarray(scored["label"]) == 1, "bad", "good")
    write(scored.set_column(2, "label", pa.array(words)), tmp_path / "data.csv", "csv")
    done("fit", "data.csv", "-o", "model.json", "--positive", "bad")
    model = calspline.load(tmp_path / "model.json")
    assert model.classes_.tolist() == ["good", "bad"]
    expected = (
        calspline.SplineCalibrator()
        .fit(*columns(scored, "score", "label"))
        .calibrate([0.2, 0.8])
    )
    np.testing.assert_allclose(model.calibrate([0.2, 0.8]), expected, atol=1e-9)


def test_two_columns_go_with_their_labels(scored, tmp_path, done, run):
    score, y = columns(scored, "score", "label")
    words = np.where(y == 1, "bad", "good")
    table = pa.table(
        {
            "prob_good": 1 - score,
            "prob_bad": score,
            "a": 1 - score,
            "b": score,
            "label": words,
        }
    )
    write(table, tmp_path / "data.csv", "csv")
    done(
        "fit", "data.csv", "--score", "prob_*", "--positive", "bad", "-o", "named.json"
    )
    done(
        "fit",
        "data.csv",
        "--score",
        "a,b",
        "--classes",
        "good,bad",
        "-o",
        "listed.json",
    )
    assert (
        "--classes"
        in run(
            "fit", "data.csv", "--score", "a,b", "--positive", "bad", "-o", "no.json"
        ).err
    )
    expected = (
        calspline.SplineCalibrator()
        .fit(np.column_stack([1 - score, score]), y)
        .calibrate([0.2, 0.8])
    )
    for name in ("named.json", "listed.json"):
        np.testing.assert_allclose(
            calspline.load(tmp_path / name).calibrate([0.2, 0.8]), expected, atol=1e-9
        )


def test_a_report_takes_the_classes_of_its_model(scored, tmp_path, done):
    words = np.where(np.asarray(scored["label"]) == 1, "bad", "good")
    write(scored.set_column(2, "label", pa.array(words)), tmp_path / "data.csv", "csv")
    done("fit", "data.csv", "-o", "model.json", "--positive", "bad")
    said = done("report", "data.csv", "--model", "model.json", "-o", "report.html")
    assert said.startswith("Raw scores are over-confident")


def test_export_writes_every_target(scored, tmp_path, done):
    import duckdb
    import onnxruntime

    write(scored, tmp_path / "data.parquet", "parquet")
    done("fit", "data.parquet", "-o", "model.json")
    expected = calspline.load(tmp_path / "model.json").calibrate(
        np.asarray(scored["score"])
    )
    sql = done("export", "model.json", "--to", "sql")
    found = duckdb.sql(f"SELECT {sql} FROM '{tmp_path}/data.parquet'").fetchnumpy()[
        "calibrated"
    ]
    np.testing.assert_allclose(found, expected, atol=1e-9)
    code = {}
    exec(done("export", "model.json", "--to", "python"), code)
    assert code["calibrate"](scored["score"][0].as_py()) == pytest.approx(
        expected[0], abs=1e-9
    )
    done("export", "model.json", "--to", "onnx", "-o", "model.onnx")
    assert onnxruntime.InferenceSession(tmp_path / "model.onnx").get_inputs()
    assert "function calibrate" in done("export", "model.json", "--to", "javascript")
    assert "double calibrate(double" in done("export", "model.json", "--to", "c")


def test_compare_and_report_refuse_what_they_cannot_compare(
    scored, three, run, tmp_path
):
    write(scored, tmp_path / "two.csv", "csv")
    write(three, tmp_path / "three.csv", "csv")
    for arguments, word in {
        ("compare", "two.csv"): "two or more sets",
        (
            "compare",
            "two.csv",
            "--score",
            "score,id",
            "--reference",
            "x",
        ): "--reference must be one of",
        (
            "compare",
            "three.csv",
            "--score",
            "a=prob_*",
            "--score",
            "prob_cat",
        ): "as many columns; a has 3",
        (
            "compare",
            "three.csv",
            "--score",
            "a=prob_*",
            "--score",
            " a = prob_*",
        ): "--score has two sets named 'a'",
    }.items():
        found = run(*arguments)
        assert (found.code, found.err.count("\n")) == (2, 1)
        assert word in found.err


def test_export_refuses_what_only_sql_has_and_columns_that_are_too_few(
    three, done, run, tmp_path
):
    write(three, tmp_path / "three.csv", "csv")
    done("fit", "three.csv", "-o", "model.json")
    assert (
        "--dialect is for --to sql"
        in run("export", "model.json", "--to", "c", "--dialect", "spark").err
    )
    assert (
        "--output is for --to sql"
        in run("export", "model.json", "--to", "c", "--output", "x").err
    )
    assert (
        "must name 3 columns"
        in run("export", "model.json", "--to", "sql", "--score", "a,b").err
    )
    said = done(
        "export", "model.json", "--to", "sql", "--score", "a,b,c", "--output", "p"
    )
    assert [f'AS "p_{name}"' in said for name in ("cat", "dog", "eel")] == [True] * 3


def test_compare_says_which_is_better_and_a_report_goes_to_standard_output(
    scored, done, tmp_path
):
    squared = pa.compute.power(scored["score"], 2)
    write(scored.append_column("squared", squared), tmp_path / "data.csv", "csv")
    said = done("compare", "data.csv", "--score", "score,squared")
    sets = {"score": scored["score"].to_numpy(), "squared": squared.to_numpy()}
    assert said.rstrip() == str(calspline.compare(scored["label"].to_numpy(), sets))
    assert done("report", "data.csv", "--score", "score,squared", "-o", "-").startswith(
        "<!doctype html>"
    )


def test_a_report_with_a_model_of_margins_is_on_the_calibrated_alone(
    scored, run, done, tmp_path
):
    margins = pa.compute.multiply(pa.compute.subtract(scored["score"], 0.5), 8.0)
    write(
        pa.table({"score": margins, "label": scored["label"]}),
        tmp_path / "data.csv",
        "csv",
    )
    done("fit", "data.csv", "--scale", "identity", "-o", "model.json")
    found = run("report", "data.csv", "--model", "model.json", "-o", "report.html")
    assert found.code == 0
    assert "the scores are margins" in found.err
    found = run(
        "report",
        "data.csv",
        "--model",
        "model.json",
        "--classes",
        "1,0",
        "-o",
        "other.html",
    )
    assert (found.code, found.err.count("\n")) == (2, 1)
    assert "the model's classes are 0, 1" in found.err


def test_rows_without_scores_are_left_out_or_kept_in_arrow_files_too(
    done, run, tmp_path
):
    (tmp_path / "train.csv").write_text("score,label\n0.1,0\n0.6,1\n0.3,0\n0.8,1\n")
    (tmp_path / "gaps.csv").write_text("score\n0.1\n\n0.3\nNA\n")
    (tmp_path / "bad.csv").write_text("score\n0.1\n7\n")
    done("fit", "train.csv", "-o", "model.json")
    done("apply", "model.json", "gaps.csv", "-o", "kept.arrow", "--missing", "keep")
    found = run(
        "apply", "model.json", "gaps.csv", "-o", "left.arrow", "--missing", "drop"
    )
    assert found.code == 0
    assert "rows with missing scores were left out" in found.err
    kept, left = (
        read(tmp_path / "kept.arrow", "arrow"),
        read(tmp_path / "left.arrow", "arrow"),
    )
    assert kept["calibrated"].drop_null() == left["calibrated"]
    assert kept["calibrated"].null_count > 0
    found = run("apply", "model.json", "bad.csv", "-o", "bad.arrow")
    assert (found.code, found.err.count("\n")) == (2, 1)
    assert not (tmp_path / "bad.arrow").exists()


def test_text_that_is_too_large_to_keep_is_read_again(
    scored, tmp_path, done, monkeypatch
):
    write(scored, tmp_path / "data.csv", "csv")
    done("fit", "data.csv", "-o", "kept.json")
    monkeypatch.setattr("calspline.cli.files.MAX_KEPT", 0)
    done("fit", "data.csv", "-o", "again.json")
    assert (tmp_path / "again.json").read_bytes() == (
        tmp_path / "kept.json"
    ).read_bytes()


def test_folds_are_those_of_rows_dealt_at_random(scored, tmp_path, done):
    """The loss that is told is that of folds of rows, but for their chance."""
    write(scored, tmp_path / "data.parquet", "parquet")
    found = json.loads(done("fit", "data.parquet", "-o", "model.json", "--json"))
    score, y = columns(scored, "score", "label")
    losses = []
    for seed in range(10):
        fold, p = np.random.default_rng(seed).integers(0, 5, len(y)), np.empty(len(y))
        for k in range(5):
            p[fold == k] = (
                calspline.SplineCalibrator()
                .fit(score[fold != k], y[fold != k])
                .calibrate(score[fold == k])
            )
        losses.append(np.mean(-np.log(np.where(y == 1, p, 1 - p))))
    assert abs(found["after"]["log_loss"] - np.mean(losses)) < 5 * np.std(losses) + 1e-4


@pytest.mark.parametrize(
    "arguments",
    [
        ("fit", "rows.csv", "-o", "rows.csv"),
        ("report", "rows.csv", "-o", "./rows.csv"),
        ("report", "rows.csv", "--model", "model.json", "-o", "model.json"),
        ("apply", "model.json", "rows.csv", "-o", "link.json"),
        ("export", "model.json", "--to", "c", "-o", "model.json"),
    ],
)
def test_no_output_replaces_the_data_or_the_model_that_it_comes_from(
    scored, run, done, tmp_path, arguments
):
    write(scored, tmp_path / "rows.csv", "csv")
    done("fit", "rows.csv", "-o", "model.json")
    (tmp_path / "link.json").symlink_to("model.json")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    found = run(*arguments, "--force")
    assert (found.code, found.err.count("\n")) == (2, 1)
    assert "is read by this command" in found.err
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_apply_may_add_a_column_to_its_own_data(scored, done, tmp_path):
    write(scored, tmp_path / "rows.csv", "csv")
    done("fit", "rows.csv", "-o", "model.json")
    done("apply", "model.json", "rows.csv", "-o", "rows.csv", "--force")
    lines = (tmp_path / "rows.csv").read_text().splitlines()
    assert lines[0].endswith(",calibrated")
    assert len(lines) == len(scored) + 1
