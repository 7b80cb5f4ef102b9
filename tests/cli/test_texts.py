"""What text files say: words for missing values, ends of lines, the order of columns, numbers as people write them."""

import json

import numpy as np
import pyarrow as pa
import pytest
from tests.cli.conftest import FORMATS, write

import calspline
from calspline.cli.columns import WORDS

N = 400


@pytest.fixture(scope="module")
def table():
    """Scores, labels and countries, among them some whose names stand for nothing elsewhere."""
    rng = np.random.default_rng(0)
    country = rng.choice([*WORDS, "DE", "FR"], N)
    u = rng.normal(size=N)
    y = rng.random(N) < 1 / (1 + np.exp(-u + 2.0 * (country == "NA")))
    return pa.table(
        {"country": country, "score": 1 / (1 + np.exp(-u)), "label": y.astype(int)}
    )


def lines(table):
    """The rows of a CSV file."""
    columns = [table[name].to_pylist() for name in table.column_names]
    return [
        ",".join(table.column_names),
        *(",".join(map(str, row)) for row in zip(*columns, strict=True)),
    ]


@pytest.mark.parametrize("format", FORMATS)
def test_every_word_is_a_segment_as_any_other(format, table, run, done, tmp_path):
    write(table, tmp_path / f"data.{format}", format)
    found = run("fit", f"data.{format}", "--by", "country", "-o", "model.json")
    assert found.code == 0
    assert found.err == ""
    model = calspline.load(tmp_path / "model.json")
    country, score = table["country"].to_pylist(), table["score"].to_numpy()
    wanted = calspline.SplineCalibrator().fit(
        score, table["label"].to_numpy(), by=country
    )
    assert set(model.segments_["segment"]) == {*WORDS, "DE", "FR"}
    np.testing.assert_allclose(
        model.calibrate(score, by=country),
        wanted.calibrate(score, by=country),
        atol=1e-9,
    )
    applied = run("apply", "model.json", f"data.{format}", "-o", "out.csv")
    assert applied.err == ""
    judged = json.loads(done("evaluate", f"data.{format}", "--by", "country", "--json"))
    assert {one["segment"] for one in judged["segments"]} == {*WORDS, "DE", "FR"}


def test_only_one_country_may_be_namibia(done, tmp_path, table):
    rows = [line for line in lines(table) if line.startswith(("NA,", "country"))]
    (tmp_path / "data.csv").write_text("\n".join(rows))
    done("fit", "data.csv", "--by", "country", "-o", "model.json")
    assert calspline.load(tmp_path / "model.json").segments_["segment"] == ["NA"]


@pytest.mark.slow
@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("column", ["label", "id"])
def test_among_numbers_a_word_is_a_missing_value(word, column, run, tmp_path, table):
    rows = [
        f"{i % 50}{line[line.index(',') :]}" for i, line in enumerate(lines(table)[1:])
    ]
    rows[7] = f"7,0.5,{word}" if column == "label" else f"{word},0.5,1"
    (tmp_path / "data.csv").write_text("\n".join(["id,score,label", *rows]))
    refused = run("fit", "data.csv", "--group", "id", "-o", "model.json")
    assert refused.code == 2
    assert (
        f"column '{column}' of data.csv has missing values: 1 in all, in row 8"
        in refused.err
    )
    found = run(
        "fit", "data.csv", "--group", "id", "--missing", "drop", "-o", "model.json"
    )
    assert found.code == 0
    assert "note: 1 rows with missing values were left out" in found.err
    del rows[7]
    (tmp_path / "data.csv").write_text("\n".join(["id,score,label", *rows]))
    run("fit", "data.csv", "--group", "id", "-o", "clean.json")
    assert (tmp_path / "model.json").read_bytes() == (
        tmp_path / "clean.json"
    ).read_bytes()


def test_rows_without_a_segment_are_counted(run, tmp_path, table):
    rows = [
        f"{'NA' if i < 9 else i % 5}{line[line.index(',') :]}"
        for i, line in enumerate(lines(table)[1:])
    ]
    for name, missing in (("words", "NA"), ("empty", "")):
        text = "\n".join(["region,score,label", *rows]).replace("NA,", f"{missing},")
        (tmp_path / f"{name}.csv").write_text(text)
        found = run("fit", f"{name}.csv", "--by", "region", "-o", f"{name}.json")
        assert (
            "note: 9 rows have no region, and count for the common curve only"
            in found.err
        )
    assert (tmp_path / "words.json").read_bytes() == (
        tmp_path / "empty.json"
    ).read_bytes()
    assert calspline.load(tmp_path / "words.json").segments_["segment"] == [
        0,
        1,
        2,
        3,
        4,
    ]


def test_a_word_among_labels_that_are_texts_is_one_of_them(run, done, tmp_path, table):
    text = (
        "\n".join(lines(table))
        .replace(",1\n", ",yes\n")
        .replace(",0\n", ",NA\n")
        .rsplit("\n", 1)[0]
    )
    (tmp_path / "data.csv").write_text(text)
    done("fit", "data.csv", "-o", "model.json")
    assert calspline.load(tmp_path / "model.json").classes_.tolist() == ["NA", "yes"]
    (tmp_path / "data.csv").write_text(text + "\nDE,0.5,no\n")
    found = run("fit", "data.csv", "-o", "other.json")
    assert found.code == 2
    assert "leave the field empty where NA stands for a missing label" in found.err


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=repr)
@pytest.mark.parametrize(
    "arguments", [["--score", "score"], ["--no-header", "--score", "column1"]], ids=len
)
def test_lines_may_end_in_any_way(end, arguments, run, tmp_path, table):
    header = "--no-header" not in arguments
    label = ["--label", "label" if header else "column2"]
    rows = lines(table) if header else lines(table)[1:]
    for name, one in (("odd", end), ("plain", "\n")):
        (tmp_path / f"{name}.csv").write_bytes(one.join([*rows, ""]).encode())
        assert (
            run("fit", f"{name}.csv", *arguments, *label, "-o", f"{name}.json").code
            == 0
        )
        assert (
            run(
                "apply",
                f"{name}.json",
                f"{name}.csv",
                *arguments,
                "-o",
                f"{name}.out.csv",
            ).code
            == 0
        )
    for kind in ("json", "out.csv"):
        assert (tmp_path / f"odd.{kind}").read_bytes() == (
            tmp_path / f"plain.{kind}"
        ).read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("target", ["csv", "parquet"])
def test_files_may_have_their_columns_in_any_order(
    format, target, done, tmp_path, table
):
    half = N // 2
    first, second = table.slice(0, half), table.slice(half)
    write(table, tmp_path / f"all.{format}", format)
    write(first, tmp_path / f"a.{format}", format)
    write(
        second.select(["label", "country", "score"]), tmp_path / f"b.{format}", format
    )
    done("fit", f"all.{format}", "--by", "country", "-o", "all.json")
    done("fit", f"a.{format}", f"b.{format}", "--by", "country", "-o", "parts.json")
    assert (tmp_path / "parts.json").read_bytes() == (
        tmp_path / "all.json"
    ).read_bytes()
    done("apply", "all.json", f"all.{format}", "-o", f"all.out.{target}")
    done("apply", "all.json", f"a.{format}", f"b.{format}", "-o", f"parts.out.{target}")
    read = {"csv": lambda path: path.read_text(), "parquet": pa.parquet.read_table}[
        target
    ]
    assert read(tmp_path / f"parts.out.{target}") == read(
        tmp_path / f"all.out.{target}"
    )


def test_a_row_is_found_in_the_file_whose_columns_are_in_another_order(run, tmp_path):
    (tmp_path / "a.csv").write_text("score,label\n0.1,0\n0.9,1\n")
    (tmp_path / "b.csv").write_text("label,score\n0,0.2\n1,7.5\n")
    found = run("fit", "a.csv", "b.csv", "-o", "model.json")
    assert "row 2 of b.csv has 7.5" in found.err


@pytest.mark.parametrize(
    ("content", "hint"),
    [
        (
            'score,label\n"1,234.5",1\n0.1,0\n',
            "which is not a number; write numbers with a decimal point",
        ),
        ("score,label\n93,1\n12,0\n", "If they are percentages, divide them by 100"),
        (
            "score,label\n0.93\n0.12\n",
            "line 2 has 1 fields where 2 are expected; correct the line, or",
        ),
        (
            'score,label\n"0.93,1\n0.12,0\n',
            "a quote in line 2 is opened and not closed",
        ),
        ("\nscore,label\n0.93,1\n0.12,0\n", "the first line of data.csv is empty"),
        (
            "score;label\n0,93;1\n0,12;0\n",
            "'0,93', which is not a number; write numbers with a decimal point",
        ),
        (
            "score;label\n,5;1\n0,12;0\n",
            "',5', which is not a number; write numbers with a decimal point",
        ),
        (
            'score,label\n"0,93",1\n"0,12",0\n',
            "'0,93', which is not a number; write numbers with a decimal point",
        ),
        (
            "score,label\n12%,1\n3%,0\n",
            "'12%', which is not a number; write percentages as shares: 12% is 0.12",
        ),
        (
            "score;label\n12,5 %;1\n3 %;0\n",
            "'12,5 %', which is not a number; write percentages as shares",
        ),
        ("score,label\n0,93,1\n0,12,0\n", "a decimal comma separates fields, too"),
        ("score,label\nhigh,1\n0.2,0\n", "'high', which is not a number\n"),
    ],
)
def test_numbers_as_people_write_them_get_a_hint(content, hint, run, tmp_path):
    (tmp_path / "data.csv").write_text(content)
    for command in (["fit", "data.csv", "-o", "model.json"], ["evaluate", "data.csv"]):
        found = run(*command)
        assert found.code == 2
        assert hint in found.err
    assert not (tmp_path / "model.json").exists()


def test_a_file_is_named_once(run, done, tmp_path):
    (tmp_path / "a.csv").write_text("score,label\n0.1,0\n0.9,1\n")
    (tmp_path / "b.csv").write_text("score,label\n0.1,0\n0.9,1\n")
    (tmp_path / "link.csv").symlink_to("a.csv")
    done("fit", "a.csv", "b.csv", "-o", "model.json")
    for twice in (["a.csv", "./a.csv"], ["?.csv", "b.csv"], ["*.csv"]):
        found = run("fit", *twice, "-o", "other.json")
        assert found.code == 2
        assert "is named twice; name every file once" in found.err


@pytest.mark.parametrize("format", FORMATS)
def test_files_of_other_columns_are_refused(format, run, tmp_path):
    write(
        pa.table({"score": [0.1, 0.9], "label": [0, 1]}),
        tmp_path / f"a.{format}",
        format,
    )
    write(
        pa.table({"s": [0.1, 0.9], "label": [0, 1]}), tmp_path / f"b.{format}", format
    )
    found = run("fit", f"a.{format}", f"b.{format}", "-o", "model.json")
    assert found.code == 2
    wanted = (
        "has missing values"
        if format == "jsonl"
        else f"b.{format} has other columns than a.{format}"
    )
    assert wanted in found.err


def test_segments_may_be_large_unsigned_integers(run, tmp_path, table):
    large = pa.array(np.arange(N, dtype=np.uint64) % 3 + np.uint64(2**63))
    write(table.set_column(0, "country", large), tmp_path / "data.parquet", "parquet")
    assert run("fit", "data.parquet", "--by", "country", "-o", "model.json").code == 0
    assert run("apply", "model.json", "data.parquet", "-o", "out.csv").err == ""
