"""Which column belongs to which class: one rule, by name and by value before places."""

import decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from calspline._input.class_columns import (
    classes_of_columns,
    column_names,
    order_columns,
)
from calspline._input.labels import by_value

D = decimal.Decimal


@pytest.mark.parametrize(
    "value",
    [
        1,
        1.0,
        "1",
        "1.0",
        " 1 ",
        True,
        "True",
        "true",
        np.int8(1),
        np.float32(1),
        D("1"),
    ],
)
def test_one_is_one_however_it_is_written(value):
    assert by_value(value) == 1


@pytest.mark.parametrize(
    ("value", "said"),
    [("dog", "dog"), (1.5, "1.5"), (None, "None"), (float("inf"), "inf")],
)
def test_what_is_no_whole_number_is_its_text(value, said):
    assert by_value(value) == said


@pytest.mark.parametrize(
    ("names", "classes", "order"),
    [
        (["dog", "cat"], ["cat", "dog"], [1, 0]),
        ([1, 0], [0, 1], [1, 0]),
        (["1.0", "0.0"], [0, 1], [1, 0]),
        (["1", "0"], [False, True], [1, 0]),
        ([True, False], [0, 1], [1, 0]),
        (["true", "false"], np.array([False, True]), [1, 0]),
        ([2.0, 1.0, 3.0], np.array([1, 2, 3]), [1, 0, 2]),
        ([3, 1, 2], ["1", "2", "3"], [1, 2, 0]),
        (["prob_dog", "prob_cat"], ["cat", "dog"], [1, 0]),
        (["calibrated_dog", "calibrated_cat"], ["cat", "dog"], [1, 0]),
        (["a.b.2", "a.b.10", "a.b.1"], [1, 2, 10], [2, 0, 1]),
        (["p_big_dog", "p_big_cat"], ["big_cat", "big_dog"], [1, 0]),
        (["p_dog", "p_big_dog"], ["big_dog", "dog"], [1, 0]),
        (["cat", "prob_dog"], ["dog", "cat"], [1, 0]),
        (
            ["1.0", "1"],
            ["1", "1.0"],
            [1, 0],
        ),  # the same by value, but not as they are written
        (["p_1", "p_10", "p_2"], [1, 2, 10], [0, 2, 1]),
    ],
)
def test_names_are_compared_by_value_and_by_their_endings(names, classes, order):
    assert order_columns(names, classes) == order


@pytest.mark.parametrize(
    ("names", "classes"),
    [
        (["cat", "dog", "other"], ["cat", "dog", "fish"]),
        (["prob_cat", "prob_dog", "score_fish"], ["cat", "dog", "fish"]),
        (["p_0", "p_1", "p_2"], [1, 2, 3]),
        (["p_1", "p_2", "p_3"], [0, 1, 2]),
        (["1", "1.0", "2"], [1, 2, 3]),
        (["cat", "cat", "dog"], ["cat", "dog", "fish"]),
        (["1", "1.0"], [1, 2]),
    ],
)
def test_names_of_some_classes_are_an_error(names, classes):
    with pytest.raises(
        ValueError,
        match="the columns of scores must be named after the classes, or none of them",
    ):
        order_columns(names, classes)


def test_names_of_no_class_say_how_they_are_taken():
    with pytest.warns(UserWarning, match="'p_0' is 'a', 'p_1' is 'b', 'p_2' is 'c'$"):
        assert order_columns(["p_0", "p_1", "p_2"], ["a", "b", "c"]) is None
    with pytest.warns(UserWarning, match=r"'x5' is 'f', \.\.\.$"):
        order_columns([f"x{i}" for i in range(12)], list("abcdefghijkl"))


@pytest.mark.parametrize("names", [None, ["no", "yes"], ["column_0", "column_1"]])
def test_places_that_are_classes_need_no_words(names):
    assert order_columns(names, [0, 1]) is None


def test_names_that_nobody_gave_are_none():
    matrix = np.eye(3)
    assert column_names(matrix, 2) is None
    assert column_names(pd.DataFrame(matrix), 2) is None
    assert column_names(pd.DataFrame(matrix, columns=[0, 1, 2]), 2) == [0, 1, 2]
    assert column_names(pd.DataFrame(matrix, columns=["a", "a", "b"]), 2) == [
        "a",
        "a",
        "b",
    ]
    assert order_columns(column_names(pl.DataFrame(matrix), 2), ["a", "b", "c"]) is None
    assert column_names(pa.table({"a": [1.0], "b": [2.0]}), 2) == ["a", "b"]
    assert order_columns(["a", "b", "c"], [0, 1]) is None


def test_an_order_that_a_user_gave_needs_no_words():
    assert order_columns(["x", "y"], ["b", "a"], known=True) is None


def test_one_column_must_not_be_named_after_the_first_of_two_classes():
    for name in ("no", "p_no"):
        with pytest.raises(
            ValueError,
            match=f"those of the class 'yes'; the column '{name}' is named after 'no'",
        ):
            order_columns([name], ["no", "yes"])
    for name in ("yes", "p_yes", "score", 0, "0", "raw_0"):
        assert order_columns([name], ["no", "yes"]) is None
        assert order_columns([name], [0, 1]) is None
    with pytest.raises(
        ValueError, match="those of the class 1; the column 'p_0' is named after 0"
    ):
        order_columns(["p_0"], [0, 1])


@pytest.mark.parametrize(
    ("labels", "names", "classes"),
    [
        (
            [1, 2],
            ["1", "2", "3"],
            [1, 2, 3],
        ),  # once 0, 1, 2: every column was shifted by one
        ([1, 2], [3, 1, 2], [1, 2, 3]),
        ([1.0, 2.0], ["3", "1", "2"], [1.0, 2.0, 3.0]),
        (["b", "a"], ["p_c", "p_b", "p_a"], ["a", "b", "c"]),
        (["1", "2"], [3, 2, 1], ["1", "2", "3"]),
        ([1, 2], None, None),
        ([1, 3], None, None),
        ([2, 3], ["x", "y", "z", "t"], None),
        ([1], None, None),
        ([0, 2], None, [0, 1, 2]),
        ([0, 2], ["x", "y", "z"], [0, 1, 2]),
        ([1, 2, 3], None, [1, 2, 3]),
        (["a", "b", "d"], ["a", "b", "c"], None),
        ([1, 2], ["1", "2", "other"], None),
        ([False, True], ["0", "1", "2"], None),
        ([4, 5], None, None),
    ],
)
def test_classes_of_columns(labels, names, classes):
    found, m = np.unique(labels), 3 if names is None else len(names)
    if classes is None:
        with pytest.raises(
            ValueError,
            match=r"may be those from 0 to|as many classes as|or none of them",
        ):
            classes_of_columns(found, names, m)
    else:
        result = classes_of_columns(found, names, m)
        assert result.tolist() == classes
        assert result.dtype.kind == found.dtype.kind


def test_what_may_count_from_0_or_from_1_asks_for_names_or_labels():
    with pytest.raises(
        ValueError,
        match=r"shows 2 of .* 1, 2, which may be .* 0 to 2 or from 1 to 3\. .*labels=",
    ):
        classes_of_columns(np.array([1, 2]), None, 3)


def test_objects_stay_objects():
    found = np.array(["a", "b"], dtype=object)
    assert classes_of_columns(found, ["c", "a", "b"], 3).dtype == object
    mixed = np.array([D(1), D(2)], dtype=object)
    assert classes_of_columns(mixed, ["3", "1", "2"], 3).tolist() == [D(1), D(2), D(3)]


def test_a_frame_made_of_a_mapping_from_whole_numbers_has_names():
    p = np.array([0.2, 0.7, 0.9])
    assert column_names(pd.DataFrame({1: p, 0: 1 - p}), 2) == [
        1,
        0,
    ]  # whose index is a RangeIndex from pandas 3 on
    assert column_names(pd.DataFrame({1: p, 2: p, 3: p}), 2) == [1, 2, 3]
    assert column_names(pd.DataFrame(np.column_stack([p, p])), 2) is None
