import numpy as np
import pytest
from tests.faults.command_line.conftest import GOOD, table

import calspline

BOTH = ("0.1,0", "0.9,1")


def test_01_59_missing_scores_are_named_by_row(refuses):
    refuses("score,label\n0.1,0\n,1\nNaN,1\n0.5,0\n", "'score'", "rows 2, 3", "--missing drop")


def test_02_infinite_scores(refuses):
    for value in ("inf", "-inf", "Infinity", "1e999"):
        refuses(table("0.1,0", f"{value},1"), "row 2", "finite")


def test_03_scores_outside_the_unit_interval(refuses, fits):
    refuses(table("0.1,0", "1.5,1"), "row 2", "1.5", "--transform identity")
    refuses(table("-0.1,0", "0.5,1"), "row 1", "-0.1", "--transform identity")
    assert fits(table("-0.1,0", "1.5,1"), "--transform", "identity").transform_ == "identity"


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


def test_10_11_12_14_exact_zeros_and_ones_and_denormals(fits, agrees):
    agrees(fits(table("0,0", "1,1", "0,1", "1,1")), [0, 1, 0, 1], [0, 1, 1, 1])
    scores = [5e-324, 1e-310, 1e-20, 0.5]
    agrees(fits(table(*(f"{p!r},{i % 2}" for i, p in enumerate(scores)))), scores)


def test_13_constant_scores(run, tmp_path):
    (tmp_path / "data.csv").write_text(table("0.7,0", "0.7,1", "0.7,1"))
    found = run("fit", "data.csv", "-o", "model.json")
    assert found.code == 0
    assert "base rate" in found.err
    assert calspline.load(tmp_path / "model.json").calibrate([0.7])[0] == pytest.approx(2 / 3, abs=1e-9)


def test_15_fewer_distinct_values_than_knots(fits):
    model = fits(table(*(f"0.{1 + i % 5},{i % 2}" for i in range(50))))
    assert len(model.knots_) <= 5


def test_16_one_row(refuses):
    refuses(table("0.1,0"), "two classes", "every row is 0")


def test_17_three_rows(fits):
    out = fits(table("0.2,0", "0.4,0", "0.9,1")).calibrate([0.2, 0.4, 0.9])
    assert np.all((out > 0) & (out < 0.99))


def test_19_numbers_written_in_any_way_are_the_same(fits, agrees):
    agrees(fits(table("1e-1,0", "+0.6,1", "0.30,0", " 0.8 ,1")))
    agrees(fits('score,label\n"0.1","0"\n"0.6","1"\n"0.3","0"\n"0.8","1"\n'))


def test_20_missing_labels(refuses):
    refuses(table("0.1,0", "0.2,", "0.5,1"), "'label'", "row 2", "--missing drop")


def test_21_one_class(refuses):
    refuses(table("0.1,1", "0.2,1"), "two classes", "every row is 1")


def test_22_one_positive(fits):
    out = fits(table(*(f"{0.1 + 0.02 * i},{int(i == 17)}" for i in range(40)))).calibrate(np.linspace(0, 1, 11))
    assert np.all((out > 0) & (out < 1))


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
    rows = [f"{p},{words[y]}" for p, y in zip((0.1, 0.6, 0.3, 0.8), (0, 1, 0, 1), strict=True)]
    model = fits(table(*rows), *options)
    assert model.classes_.tolist() == classes
    agrees(model)


def test_24_continuous_labels(refuses):
    refuses(table("0.1,0.2", "0.2,0.7"), "class labels", "--label")


def test_25_three_classes_with_one_column_of_scores(refuses):
    refuses(table("0.1,1", "0.2,2", "0.3,3"), "3 classes", "--score")


def test_26_fields_left_over_or_missing(refuses):
    refuses(table("0.1,0", "0.9,1,3"), "line 3", "3 fields", "--delimiter")
    refuses(table("0.1,0", "0.9", "0.3,1"), "data.csv")


def test_27_perfect_separation(fits):
    model = fits(table(*(f"{p},{int(p > 0.5)}" for p in np.linspace(0.05, 0.95, 30))))
    assert model.converged_
    out = model.calibrate(np.linspace(0, 1, 11))
    assert np.all((out > 0) & (out < 1))


NAMES = "score,label,w"
W = ["--weight", "w"]


def test_30_negative_weights(refuses):
    refuses(table("0.1,0,1", "0.2,1,-2", names=NAMES), "row 2", "-2", options=W)


def test_31_weights_that_are_all_zero(refuses):
    refuses(table("0.1,0,0", "0.2,1,0", names=NAMES), "'w'", "all zero", options=W)


def test_34_a_bad_score_is_refused_in_a_row_of_weight_zero_too(refuses):
    refuses(table("0.1,0,1", "1.5,1,0", "0.2,1,1", names=NAMES), "row 2", "score is 1.5", options=W)


def test_32_missing_and_infinite_weights(refuses):
    refuses(table("0.1,0,1", "0.2,1,nan", names=NAMES), "'w'", "row 2", options=W)
    refuses(table("0.1,0,1", "0.2,1,inf", names=NAMES), "row 2", options=W)


def test_33_34_weights_are_repetitions_and_zero_is_absent(fits, agrees):
    rows = ("0.1,0,2", "0.6,1,1", "0.3,0,1", "0.8,1,3", "0.9,0,0")
    agrees(fits(table(*rows, names=NAMES), *W), (0.1, 0.1, 0.6, 0.3, 0.8, 0.8, 0.8), (0, 0, 1, 0, 1, 1, 1))


def test_35_a_weight_that_is_not_there(refuses):
    refuses(GOOD, "'w'", options=W)
