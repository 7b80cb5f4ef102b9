import pytest
from tests.faults.command_line.conftest import GOOD, table

BOTH = ("0.1,0", "0.9,1")


def test_01_59_missing_scores_are_named_by_row(refuses):
    refuses(
        "score,label\n0.1,0\n,1\nNaN,1\n0.5,0\n",
        "'score'",
        "rows 2, 3",
        "--missing drop",
    )


def test_03_scores_outside_the_unit_interval(refuses, fits):
    refuses(table("0.1,0", "1.5,1"), "row 2", "1.5", "--scale identity")
    refuses(table("-0.1,0", "0.5,1"), "row 1", "-0.1", "--scale identity")
    assert fits(table("-0.1,0", "1.5,1"), "--scale", "identity").scale_ == "identity"


def test_03_scores_outside_the_unit_interval_to_apply(fits, run, tmp_path):
    fits(GOOD)
    (tmp_path / "more.csv").write_text(table("0.2,0", "1.5,0"))
    found = run("apply", "model.json", "more.csv", "-o", "out.csv")
    assert (found.code, found.err.count("\n")) == (2, 1)
    assert "row 2" in found.err
    assert not (tmp_path / "out.csv").exists()


def test_04_no_rows(refuses):
    refuses("score,label\n", "no rows")
    refuses("", "empty")


def test_05_no_rows_to_apply(fits, done, tmp_path):
    fits(GOOD)
    (tmp_path / "none.csv").write_text("score,label\n")
    done("apply", "model.json", "none.csv", "-o", "out.csv")
    assert (tmp_path / "out.csv").read_text().strip() == "score,label,calibrated"


def test_07_complex_numbers(refuses):
    refuses(table("0.1,0", "0.5+2j,1"), "row 2", "'0.5+2j'", "not a number")


def test_08_words_for_scores(refuses):
    refuses(table("0.1,0", "abc,1"), "row 2", "'abc'", "not a number")


def test_19_numbers_written_in_any_way_are_the_same(fits, agrees):
    agrees(fits(table("1e-1,0", "+0.6,1", "0.30,0", " 0.8 ,1")))
    agrees(fits('score,label\n"0.1","0"\n"0.6","1"\n"0.3","0"\n"0.8","1"\n'))


@pytest.mark.parametrize(
    ("words", "options", "classes"),
    [
        (["no", "yes"], [], ["no", "yes"]),
        (["false", "true"], [], [False, True]),
        (["-1", "1"], [], [-1, 1]),
        (["1", "2"], [], [1, 2]),
        (["0.0", "1.0"], [], [0, 1]),
        (["good", "bad"], ["--positive", "bad"], ["good", "bad"]),
    ],
    ids=str,
)
def test_23_labels_of_any_kind(fits, agrees, words, options, classes):
    rows = [
        f"{p},{words[y]}"
        for p, y in zip((0.1, 0.6, 0.3, 0.8), (0, 1, 0, 1), strict=True)
    ]
    model = fits(table(*rows), *options)
    assert model.classes_.tolist() == classes
    agrees(model)


def test_26_fields_left_over_or_missing(refuses):
    refuses(table("0.1,0", "0.9,1,3"), "line 3", "3 fields", "--delimiter")
    refuses(table("0.1,0", "0.9", "0.3,1"), "data.csv")


NAMES = "score,label,w"
W = ["--weight", "w"]


def test_34_a_bad_score_is_refused_in_a_row_of_weight_zero_too(refuses):
    refuses(
        table("0.1,0,1", "1.5,1,0", "0.2,1,1", names=NAMES),
        "row 2 of data.csv has 1.5",
        options=W,
    )


def test_32_missing_and_infinite_weights(refuses):
    refuses(table("0.1,0,1", "0.2,1,nan", names=NAMES), "'w'", "row 2", options=W)
    refuses(table("0.1,0,1", "0.2,1,inf", names=NAMES), "row 2", options=W)


def test_33_34_weights_are_repetitions_and_zero_is_absent(fits, agrees):
    rows = ("0.1,0,2", "0.6,1,1", "0.3,0,1", "0.8,1,3", "0.9,0,0")
    agrees(
        fits(table(*rows, names=NAMES), *W),
        (0.1, 0.1, 0.6, 0.3, 0.8, 0.8, 0.8),
        (0, 0, 1, 0, 1, 1, 1),
    )


def test_35_a_weight_that_is_not_there(refuses):
    refuses(GOOD, "'w'", options=W)
