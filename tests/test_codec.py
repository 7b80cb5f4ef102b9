"""The codec: dataclasses as JSON, and no object with a field outside its domain."""

import json
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from calspline._codec import NOT_STORED, check_fields, from_json, stored_fields, to_json
from calspline._domains import (
    Choice,
    ClassLabels,
    Either,
    Integer,
    Integers,
    Labels,
    MatrixOrDiagonal,
    Number,
    Numbers,
    Seed,
    Symmetric,
    optional,
)


@dataclass(frozen=True, eq=False)
class Line:
    slope: float
    intercept: float = 0.0

    def __post_init__(self):
        check_fields(self)


@dataclass(frozen=True, eq=False)
class Steps:
    edges: Annotated[Any, Numbers("K", least=1, increasing=True)]
    values: Annotated[Any, Numbers("K+1", 2)]
    last: Annotated[Any, Numbers("K+1")] | None = None

    def __post_init__(self):
        check_fields(self)
        if self.values.sum() < 0.0:
            raise ValueError("values must not have a negative sum")


@dataclass(frozen=True, eq=False)
class Family:
    name: str
    kind: Literal["one", "many"]
    parts: tuple[Line | Steps, ...]
    ends: tuple[float, float] = (0.0, 1.0)
    weight: Annotated[float, Number(not_negative=True, infinite=True)] = 1.0
    cached: Any = field(default=None, metadata=NOT_STORED)

    def __post_init__(self):
        check_fields(self)


def through_json(record):
    return from_json(type(record), json.loads(json.dumps(to_json(record))))


finite = st.floats(allow_nan=False, allow_infinity=False)
lines = st.builds(Line, finite, finite)


@st.composite
def steps(draw):
    edges = draw(st.lists(finite, min_size=1, max_size=5, unique=True).map(sorted))
    sizes = st.floats(0.0, 1e9)
    values = draw(arrays.arrays(float, (len(edges) + 1, 2), elements=sizes))
    return Steps(edges, values, draw(st.none() | st.just(values[:, 0].copy())))


families = st.builds(
    Family,
    st.text(),
    st.sampled_from(["one", "many"]),
    st.lists(lines | steps()).map(tuple),
    st.tuples(finite, finite),
    st.floats(0.0, None, allow_nan=False),
    st.just("nothing that is stored"),
)


@given(families)
def test_what_is_written_comes_back(family):
    back = through_json(family)
    assert to_json(back) == to_json(family)
    assert [type(part) for part in back.parts] == [type(part) for part in family.parts]
    assert back.weight == family.weight
    assert back.cached is None


@given(families)
def test_no_field_can_be_left_out_or_added(family):
    data = to_json(family)
    for name in data:
        rest = {key: value for key, value in data.items() if key != name}
        with pytest.raises(ValueError, match=f"missing or unknown: {name}"):
            from_json(Family, rest)
    with pytest.raises(ValueError, match="missing or unknown: more"):
        from_json(Family, data | {"more": 1})


def test_fields_are_put_into_their_usual_form():
    made = Steps([0, 1], np.ones((3, 2), dtype=np.float32))
    assert made.edges.dtype == made.values.dtype == np.float64
    assert type(Line(np.float64(1.0), 2).slope) is float
    assert type(Line(1.0, 2).intercept) is float


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Line("1"), "slope must be a number"),
        (lambda: Line(np.nan), "slope must be a number"),
        (lambda: Line(np.inf), "slope must be a number"),
        (lambda: Line(True), "slope must be a number"),
        (lambda: Line(None), "slope must be a number"),
        (lambda: Line(10**400), "slope must be a number"),
        (lambda: Steps([1.0, 0.0], np.ones((3, 2))), "edges must be sorted"),
        (lambda: Steps([0.0, np.nan], np.ones((3, 2))), "edges must be finite"),
        (lambda: Steps([], np.ones((1, 2))), "edges must be one list of numbers"),
        (lambda: Steps([[0.0]], np.ones((2, 2))), "edges must be one list"),
        (lambda: Steps([0.0], np.ones((3, 2))), r"values must have shape \(2, 2\)"),
        (lambda: Steps([0.0], np.ones((2, 3))), r"values must have shape \(2, 2\)"),
        (lambda: Steps([0.0], np.ones(2)), "values must be an array of 2 dimensions"),
        (lambda: Steps([0.0], np.ones((2, 2)), [1.0]), r"last must have shape \(2\)"),
        (lambda: Steps([0.0], -np.ones((2, 2))), "values must not have a negative"),
        (lambda: Family(1, "one", ()), "name must be a string"),
        (lambda: Family("", "two", ()), "kind must be one of 'one', 'many'"),
        (lambda: Family("", "one", Line(1.0)), "parts must be a tuple"),
        (lambda: Family("", "one", (1,)), r"parts\[0\] must be one of Line, Steps"),
        (lambda: Family("", "one", (), (1.0,)), "ends must have 2 items"),
        (lambda: Family("", "one", (), weight=-1.0), "weight must be a number of at"),
    ],
)
def test_an_invalid_object_cannot_be_made(make, message):
    with pytest.raises((ValueError, TypeError), match=f"^{message}"):
        make()


FAMILY = to_json(Family("f", "many", (Line(1.0), Steps([0.0], np.ones((2, 2))))))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": None}, "name must be a string"),
        ({"parts": {}}, "parts must be a list"),
        ({"parts": [1]}, r"parts\[0\] must be a dict whose type is one of Line"),
        ({"parts": [{"type": "Family"}]}, r"parts\[0\] must be a dict whose type"),
        ({"parts": [{"type": ["Line"]}]}, r"parts\[0\] must be a dict whose type"),
        ({"parts": [{"type": "Line"}]}, r"parts\[0\] must be a dict with the keys"),
        (
            {"parts": [{"type": "Line", "slope": "x", "intercept": 0}]},
            r"parts\[0\].slope must be a number",
        ),
        (
            {"parts": [FAMILY["parts"][0], FAMILY["parts"][1] | {"edges": [1.0, 0.0]}]},
            r"parts\[1\].edges must be sorted",
        ),
        (
            {"parts": [FAMILY["parts"][1] | {"edges": [0.0, 1.0]}]},
            r"parts\[0\].values must have shape \(3, 2\)",
        ),
        (
            {"parts": [FAMILY["parts"][1] | {"edges": [True]}]},
            r"parts\[0\].edges must be numbers; got bool",
        ),
        (
            {"parts": [FAMILY["parts"][1] | {"edges": [10**400]}]},
            r"parts\[0\].edges must be numbers that a double can hold",
        ),
        (
            {"parts": [FAMILY["parts"][1] | {"edges": ["infinity"]}]},
            r"parts\[0\].edges must be numbers; got str",
        ),
        ({"ends": [0.0]}, "ends must be a list of 2 items"),
        ({"weight": "lots"}, "weight must be a number"),
    ],
)
def test_an_error_in_a_file_names_the_path_of_the_field(change, message):
    with pytest.raises((ValueError, TypeError), match=f"^{message}"):
        from_json(Family, FAMILY | change)


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ([3, 3], "as many values as its shape"),
        ([-1, 4], "a shape of up to three sizes"),
        ([2.0, 2], "a shape of up to three sizes"),
        ("22", "a shape of up to three sizes"),
        ([1, 1, 2, 2], "a shape of up to three sizes"),
        ([10**30, 4], "as many values as its shape|double"),
    ],
)
def test_the_shape_of_an_array_must_be_that_of_its_values(shape, message):
    spoilt = {"type": "Steps", "edges": [0.0], "last": None}
    spoilt["values"] = {"shape": shape, "values": [1.0, 1.0, 1.0, 1.0]}
    with pytest.raises(ValueError, match=rf"^parts\[0\].values must have .*{message}"):
        from_json(Family, FAMILY | {"parts": [spoilt]})


def test_arrays_without_rows_keep_their_shape():
    domain = Numbers("r", "K")
    for shape in ((0, 5), (5, 0), (0, 0)):
        assert domain.from_json(domain.to_json(np.empty(shape)), "a").shape == shape


@given(st.integers(0, 4), st.integers(0, 4), st.randoms())
def test_a_symmetric_matrix_is_stored_as_a_triangle(rows, size, random):
    half = np.array([random.random() for _ in range(rows * size * size)])
    half = half.reshape(rows, size, size)
    matrices = half + half.transpose(0, 2, 1)
    domain = Symmetric("S", "m")
    data = domain.to_json(matrices)
    assert len(data["values"]) == rows * size * (size + 1) // 2
    np.testing.assert_array_equal(domain.from_json(data, "a"), matrices)


@pytest.mark.parametrize("value", [np.eye(3), np.ones(3)])
def test_a_matrix_may_be_its_diagonal(value):
    domain = MatrixOrDiagonal("m", largest=10.0)
    domain.check_sizes(domain.check(value, "W"), "W", {"m": 3})
    np.testing.assert_array_equal(domain.from_json(domain.to_json(value), "W"), value)
    with pytest.raises(ValueError, match="W must have shape"):
        domain.check_sizes(value, "W", {"m": 4})
    with pytest.raises(ValueError, match="W must be at most 10 in size"):
        domain.check(100.0 * value, "W")


@given(st.lists(st.floats(allow_nan=False), max_size=5))
def test_infinite_numbers_are_written_as_words(values):
    domain = Numbers(infinite=True)
    text = json.dumps(domain.to_json(np.array(values)), allow_nan=False)
    np.testing.assert_array_equal(domain.from_json(json.loads(text), "a"), values)


PARAMETERS = [
    (Choice("auto", "sample"), "auto"),
    (Either(Choice("auto"), Number(above=0.0)), 0.25),
    (Either(Choice("auto"), Number(above=0.0)), "auto"),
    (Number(not_negative=True, infinite=True), np.inf),
    (Integer(2), 5),
    (optional(Integer(2)), None),
    (optional(Numbers(positive=True)), [0.5, 1.0]),
    (Seed(), 7),
    (Seed(), None),
    (Labels("segments"), ("a", 1, 2.5, False)),
]


@pytest.mark.parametrize(("domain", "value"), PARAMETERS, ids=range(len(PARAMETERS)))
def test_the_value_of_an_option_comes_back(domain, value):
    text = json.dumps(domain.to_json(value), allow_nan=False)
    back = domain.from_json(json.loads(text), "option")
    np.testing.assert_array_equal(np.asarray(back, object), np.asarray(value, object))


def test_integers_are_no_numbers_with_a_fraction():
    domain = Integers()
    values = np.array([1, -(2**60)])
    assert domain.from_json(domain.to_json(values), "cells").tolist() == values.tolist()
    for odd in ([1.0], [True], ["1"], [2**70], 1, None):
        with pytest.raises(ValueError, match=r"^cells must be a list of whole numbers"):
            domain.from_json(odd, "cells")


@pytest.mark.parametrize(
    "labels",
    [["no", "yes"], [0, 1], [False, True], [1.5, 2.0], np.array(["a", 1], object)],
    ids=str,
)
def test_class_labels_keep_their_dtype(labels):
    domain = ClassLabels()
    checked = domain.check(labels, "classes")
    back = domain.from_json(json.loads(json.dumps(domain.to_json(checked))), "classes")
    assert back.dtype == checked.dtype
    assert back.tolist() == checked.tolist()


@pytest.mark.parametrize("labels", [["a"], ["a", "a"], [[0, 1]], 3, []])
def test_class_labels_are_two_or_more_different_ones(labels):
    with pytest.raises(ValueError, match=r"^classes must be two or more different"):
        ClassLabels().check(labels, "classes")


def test_a_field_without_a_domain_is_an_error_of_the_programmer():
    @dataclass
    class Odd:
        things: list

    with pytest.raises(TypeError, match="needs a domain"):
        stored_fields(Odd)
