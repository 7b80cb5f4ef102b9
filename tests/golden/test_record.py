"""The comparison with golden files finds what differs, and says where."""

import json

import numpy as np
import pytest
from tests.golden.record import Case, explain, plain, to_json

STORED = {"p": [0.1, 0.2], "n_iter": 3, "words": "0.25 of 4 rows", "none": float("nan")}


@pytest.mark.parametrize(
    ("change", "report"),
    [
        ({}, ""),
        ({"p": [0.1, 0.2 + 9e-11]}, ""),
        ({"p": [0.1, 0.2 + 2e-10]}, "p[1]: 0.2000000002, stored 0.2"),
        ({"p": [0.1]}, "p: [0.1], stored [0.1, 0.2]"),
        ({"p": [0.1, float("nan")]}, "p[1]: nan, stored 0.2"),
        ({"n_iter": 4}, ""),
        ({"n_iter": 5}, "n_iter: 5, stored 3"),
        ({"words": "0.25 of 5 rows"}, "words: '0.25 of 5 rows', stored"),
        ({"words": "0.25000000001 of 4 rows"}, ""),
        ({"words": "0.25 in 4 rows"}, "words: '0.25 in 4 rows', stored"),
        ({"none": None}, "none: None, stored nan"),
        ({"more": 1}, "more: is new, 1"),
    ],
    ids=str,
)
def test_a_difference_is_found_where_it_is(change, report):
    found = explain(STORED | change, STORED, 1e-10)
    assert found.startswith(report)
    assert bool(found) == bool(report)


def test_what_is_missing_is_a_difference():
    assert explain({}, {"p": 1.0}, 1e-10) == "p: is missing"


def test_the_largest_difference_comes_first():
    found = explain({"a": 1.0, "b": 1.0}, {"a": 1.1, "b": 1.5}, 1e-10)
    assert [line[0] for line in found.splitlines()] == ["b", "a"]


def test_large_numbers_are_compared_by_their_ratio():
    assert explain([1e6 + 1e-5], [1e6], 1e-10) == ""
    assert explain([1e6 + 1e-3], [1e6], 1e-10).startswith("[0]: 1000000.001")


def test_lines_of_a_text_that_differ_are_shown():
    found = explain("a\nb 1.0\nc", "a\nb 2.0\nc", 1e-10)
    assert "-b 2.0" in found
    assert "+b 1.0" in found
    assert explain("a\nb 1.0", "a\nb 1.00000000000001", 1e-10) == ""


def test_values_come_back_from_a_file():
    value = plain({"p": np.array([[0.1, 1 / 3]]), "n": np.int64(3), "text": "é" * 40})
    assert json.loads(to_json(value)) == value
    assert value["p"] == [[0.1, 0.3333333333333]]
    assert to_json(value).count("\n") > 3


def test_a_looser_tolerance_needs_a_reason():
    with pytest.raises(ValueError, match="a larger tolerance needs a reason"):
        Case(dict, 1e-6)
