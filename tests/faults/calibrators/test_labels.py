import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

BAD = (ValueError, TypeError)


def put(y, row, value):
    out = y.astype(object)
    out[row] = value
    return out


@pytest.mark.parametrize(
    "spoil",
    [
        lambda y: np.where(np.arange(60) == 2, np.nan, y),
        lambda y: put(y, 2, None),
        lambda y: put(y, 2, np.nan),
        lambda y: pd.array(put(y, 2, pd.NA), dtype="Int64"),
        lambda y: pl.Series([None if i == 2 else int(v) for i, v in enumerate(y)]),
    ],
    ids=["nan", "None", "object nan", "pandas", "polars"],
)
def test_20_missing_labels(cal, problem, spoil):
    with pytest.raises(ValueError, match=r"y has missing.* row 2"):
        cal.fit(problem.scores, spoil(problem.y))


def test_21_one_class(cal, problem):
    for label in (1, "yes"):
        with pytest.raises(ValueError, match=f"y must have .*two classes; every row is {label!r}"):
            cal.fit(problem.scores, [label] * 60)


def test_22_one_positive(cal, problem, check):
    y = np.zeros(60, dtype=int)
    y[17] = 1
    cal.fit(problem.scores, y)
    assert len(cal.classes_) == problem.n_classes
    check(cal.predict_proba(problem.grid))


KINDS = {
    "float": lambda y: y.astype(float),
    "str": lambda y: np.array(["a", "b", "c"])[y],
    "str objects": lambda y: np.array(["a", "b", "c"])[y].astype(object),
    "from minus one": lambda y: np.array([-1, 1, 3])[y],
    "from one": lambda y: y + 1,
    "pandas categorical": lambda y: pd.Categorical(np.array(["a", "b", "c"])[y]),
    "pandas strings": lambda y: pd.Series(np.array(["a", "b", "c"])[y], dtype="string"),
    "polars categorical": lambda y: pl.Series(np.array(["a", "b", "c"])[y]).cast(pl.Categorical),
    "arrow": pa.array,
    "column": lambda y: y[:, None],
    "list": lambda y: y.tolist(),
    "object": lambda y: y.astype(object),
}


@pytest.mark.slow
@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
def test_23_labels_of_any_kind_give_the_same_probabilities(cal, problem, make):
    expected = problem.fit(cal).predict_proba(problem.grid)
    labels = make(problem.y)
    np.testing.assert_array_equal(cal.fit(problem.scores, labels).predict_proba(problem.grid), expected)
    assert set(cal.predict(problem.grid).tolist()) <= set(np.ravel(np.asarray(labels)).tolist())


def test_23_booleans(cal, two):
    expected = two.fit(cal).predict_proba(two.grid)
    np.testing.assert_array_equal(cal.fit(two.scores, two.y == 1).predict_proba(two.grid), expected)
    assert cal.predict(two.grid).dtype == bool


def test_24_continuous_labels(cal, problem):
    with pytest.raises(ValueError, match=r"y must be class labels, not continuous values; row 0 is 0\.1"):
        cal.fit(problem.scores, np.linspace(0.1, 0.9, 60))


def test_25_more_classes_than_columns(cal, problem):
    if problem.n_classes == 2:
        with pytest.raises(ValueError, match="y must have two classes for one column of scores; got 3: 0, 1, 2"):
            cal.fit(problem.scores, np.arange(60) % 3)
    else:
        with pytest.raises(ValueError, match=r"y must show as many classes as scores.*got 4 classes for 3"):
            cal.fit(problem.scores, np.arange(60) % 4)


def test_25_fewer_classes_than_columns_must_be_told_apart(cal, three):
    with pytest.raises(ValueError, match="or be integers from 0 to 2; got 2 classes for 3 columns"):
        cal.fit(three.scores, np.where(three.y > 0, "yes", "no"))


def test_25_two_labels_with_three_columns_name_columns(cal, three):
    assert cal.fit(three.scores, three.y % 2).classes_.tolist() == [0, 1, 2]


def test_26_length_mismatch(cal, problem):
    with pytest.raises(ValueError, match="scores and y must have the same length; got 60 and 55"):
        cal.fit(problem.scores, problem.y[:55])


def test_27_perfect_separation(cal, problem, check):
    n = problem.n_classes
    y = np.arange(60) % n
    scores = np.where(y, 0.8, 0.2) + np.linspace(-0.1, 0.1, 60) if n == 2 else 0.1 + 0.7 * np.eye(3)[y]
    cal.fit(scores, y)
    assert getattr(cal, "converged_", True)
    check(cal.predict_proba(np.concatenate([scores, problem.grid])))
    np.testing.assert_array_equal(cal.predict(scores), y)


def test_28_a_shuffled_index_means_nothing(cal, problem):
    order = np.random.default_rng(0).permutation(60)
    box = pd.Series if problem.n_classes == 2 else pd.DataFrame
    y, w = pd.Series(problem.y, index=order[::-1]), pd.Series(np.ones(60), index=order)
    out = cal.fit(box(problem.scores, index=order), y, w).calibrate(problem.grid)
    np.testing.assert_array_equal(out, cal.fit(problem.scores, problem.y, np.ones(60)).calibrate(problem.grid))


def test_29_an_index_without_zero(cal, problem):
    box = pd.Series if problem.n_classes == 2 else pd.DataFrame
    index = np.arange(60) + 70
    out = cal.fit(box(problem.scores, index=index), pd.Series(problem.y, index=index)).calibrate(problem.grid)
    np.testing.assert_array_equal(out, problem.fit(cal).calibrate(problem.grid))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda y: np.column_stack([y, y]), "y must have one dimension"),
        (lambda y: None, "y must have one dimension; got NoneType"),
        (lambda y: [[0], [1, 2]] * 30, "y must have one label a row"),
        (lambda y: np.array(["a", 1] * 30, dtype=object), "y must be labels of one type; row 0 is 'a' and row 1 is 1"),
        (lambda y: y.astype("M8[D]"), "y must be class labels"),
        (lambda y: sparse.csr_array(y[:, None]), "y must be dense"),
    ],
    ids=["two dimensions", "None", "ragged", "mixed", "dates", "sparse"],
)
def test_other_bad_labels(cal, problem, spoil, message):
    with pytest.raises(BAD, match=message):
        cal.fit(problem.scores, spoil(problem.y))
