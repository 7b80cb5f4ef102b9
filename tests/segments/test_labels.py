"""Labels of segments of any type, by value."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest

from calspline._input.segment_labels import Known, check_by, family, in_order


def column(by, n=4):
    (found,) = check_by(by, n).columns
    return found


@pytest.mark.parametrize(
    "by",
    [
        ["b", "a", "b", "c"],
        ("b", "a", "b", "c"),
        np.array(["b", "a", "b", "c"]),
        np.array(["b", "a", "b", "c"], dtype=object),
        pd.Series(["b", "a", "b", "c"], index=[7, 3, 1, 9]),
        pd.Series(["b", "a", "b", "c"], dtype="category"),
        pl.Series(["b", "a", "b", "c"]),
    ],
)
def test_texts_from_anywhere_are_the_same_labels(by):
    found = column(by)
    assert found.values == ["a", "b", "c"]
    assert found.codes.tolist() == [1, 0, 1, 2]


@pytest.mark.parametrize(
    "by",
    [
        [2, 1, 2, 5],
        [2.0, 1, 2, 5.0],
        np.array([2, 1, 2, 5], dtype=np.uint8),
        np.array([2, 1, 2, 5], dtype=np.int64),
        np.array([2, 1, 2, 5], dtype=np.float32),
        np.array([2, 1, 2.0, 5], dtype=object),
        np.array([2, 1, 2, 5]) * 10**9,
        np.array([2, 1, 2, 5]) - 2**62,
    ],
)
def test_numbers_are_labels_by_value(by):
    found = column(by)
    assert found.codes.tolist() == [1, 0, 1, 2]
    assert found.values == sorted({np.asarray(value).item() for value in by})


def test_one_and_one_point_zero_are_the_same_and_the_text_is_not():
    known = Known(column([1, 2, "1", 3.0]).values)
    assert sorted(map(repr, known.labels)) == ["'1'", "1", "2", "3.0"]
    assert known.codes(column([1.0, True, "1", 3])).tolist() == [
        known.labels.index(1)
    ] * 2 + [
        known.labels.index("1"),
        known.labels.index(3),
    ]


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA, pd.NaT])
def test_a_missing_label_is_none_at_all(missing):
    found = column([1, missing, 2, missing])
    assert found.values == [1, 2]
    assert found.codes.tolist() == [0, -1, 1, -1]


def test_nan_in_an_array_is_no_label():
    assert column(np.array([1.0, np.nan, 2.0, np.nan])).codes.tolist() == [0, -1, 1, -1]


@pytest.mark.parametrize("values", [[3, 4, 5], [0.5, 1.5, 2.5], ["a", "b", "c"]])
def test_what_is_masked_is_no_label(values):
    (column,) = check_by(np.ma.array(values, mask=[False, True, False]), 3).columns
    assert column.values == [values[0], values[2]]
    assert column.codes.tolist() == [0, -1, 1]


def test_dates_are_those_of_python_whatever_library_they_are_of():
    days = np.array(
        ["2020-01-02", "2020-01-01", "2020-01-02", "2020-01-03"], dtype="datetime64[ns]"
    )
    wanted = [datetime.datetime(2020, 1, day) for day in (1, 2, 3)]
    for given in (
        days,
        list(days),
        pd.Series(days),
        list(pd.Series(days)),
        pl.Series(days),
        days.astype("M8[s]"),
    ):
        found = column(given)
        assert found.codes.tolist() == [1, 0, 1, 2]
        assert found.values == wanted
        assert {family(value) for value in found.values} == {"datetime"}
    assert column(days.astype("M8[D]")).values == [each.date() for each in wanted]
    assert family(datetime.date(2020, 1, 1)) == "date"
    assert (
        len(column(days + np.array([0, 0, 1, 0], dtype="m8[ns]")).values) == 4
    )  # Python has no nanoseconds


def test_several_columns_come_as_a_list_a_frame_or_an_array():
    a, b = ["x", "y", "x", "y"], [1, 1, 2, 2]
    for by in (
        [a, b],
        [np.array(a), pd.Series(b)],
        pd.DataFrame({"a": a, "b": b}),
        pl.DataFrame({"a": a, "b": b}),
    ):
        found = check_by(by, 4)
        assert [each.values for each in found.columns] == [["x", "y"], [1, 2]]
        assert found.combined.values == [("x", 1), ("x", 2), ("y", 1), ("y", 2)]
    assert check_by(pd.DataFrame({"a": a, "b": b}), 4).names == ["a", "b"]
    assert check_by([pd.Series(a, name="a"), b], 4).names == ["a", None]
    numbers = check_by(np.array([[1, 5], [2, 5], [1, 6], [2, 6]]), 4)
    assert [each.values for each in numbers.columns] == [[1, 2], [5, 6]]
    with_none = check_by([["x", None, "x", "y"], b], 4).combined
    assert with_none.values == [(None, 1), ("x", 1), ("x", 2), ("y", 2)]


def test_tuples_are_labels_not_columns():
    assert column([("a", 1), ("a", 2), ("a", 1), ("b", 1)]).values == [
        ("a", 1),
        ("a", 2),
        ("b", 1),
    ]


def test_labels_of_some_rows():
    some = (
        check_by(["b", "a", None, "c"], 4)
        .of(np.array([True, False, True, True]))
        .columns[0]
    )
    assert some.values == ["b", "c"]
    assert some.codes.tolist() == [0, -1, 1]


@pytest.mark.parametrize(
    ("by", "error", "message"),
    [
        (
            ["a", "b"],
            ValueError,
            "scores and by must have the same length; got 4 and 2",
        ),
        ("abcd", TypeError, "by must be labels, one for each row; got the text"),
        ([1, 2, {3}, 4], TypeError, "by must be labels; row 2 is"),
        (np.zeros((4, 0)), ValueError, "by must have at least one column"),
        (
            np.zeros((2, 2, 2)),
            ValueError,
            r"by must be a column of labels, or several; got shape \(2, 2, 2\)",
        ),
        ([None] * 4, ValueError, "by must have labels; all of a column are missing"),
    ],
)
def test_what_is_no_segment(by, error, message):
    with pytest.raises(error, match=message):
        check_by(by, 4, some=True)


@pytest.mark.parametrize(
    ("known", "by", "shown"),
    [
        ([1, 2], ["1", "2", "1", "1"], r"\(numbers, such as 1\); row 0 is '1', a text"),
        (["1", "2"], [None, 1, 2, 1], r"\(texts, such as '1'\); row 1 is 1, a number"),
        (
            [1, "a"],
            [(1,), (1,), (2,), (1,)],
            r"numbers or texts, such as 1\); row 0 is \(1,\), a tuple",
        ),
    ],
)
def test_labels_of_a_kind_that_never_matches_are_an_error(known, by, shown):
    with pytest.raises(TypeError, match=shown):
        Known(known).codes(column(by))


def test_labels_that_cannot_be_compared_have_an_order_still():
    assert in_order([2, "b", 1, "a", None]) == [None, 1, 2, "a", "b"]


@pytest.mark.parametrize(
    "series", [lambda values: pd.Series(values, dtype="Int64"), pl.Series]
)
def test_large_numbers_stay_apart_where_one_is_missing(series):
    (column,) = check_by(series([2**53, 2**53 + 1, None, 2**53]), 4).columns
    assert column.values == [2**53, 2**53 + 1]
    assert column.codes.tolist() == [0, 1, -1, 0]


def test_the_largest_numbers():
    (column,) = check_by(np.array([2**64 - 1, 2**64 - 3], dtype=np.uint64), 2).columns
    assert column.values == [2**64 - 3, 2**64 - 1]
    assert column.codes.tolist() == [1, 0]
