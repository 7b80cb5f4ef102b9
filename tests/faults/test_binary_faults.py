"""The contract for bad and odd input: the numbers are those of the cases in the contract."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError

from calspline import SplineCalibrator
from calspline._validation.scores import CHUNK

P = np.array([0.1, 0.2, 0.35, 0.4, 0.6, 0.7, 0.8, 0.95])
Y = np.array([0, 0, 1, 0, 1, 0, 1, 1])
GRID = np.linspace(0, 1, 101)


def fit(scores=P, y=Y, sample_weight=None, **options):
    return SplineCalibrator(**options).fit(scores, y, sample_weight)


def changed(array, row, value):
    out = np.array(array, dtype=object if value is None or isinstance(value, str) else float)
    out[row] = value
    return out


BAD_SCORES = {
    "1 NaN": (changed(P, 3, np.nan), "scores must be finite; row 3 is nan"),
    "1 None": (changed(P, 3, None), "scores must be finite; row 3 is nan"),
    "1 pandas NA": (pd.array([0.1, pd.NA] * 4, dtype="Float64"), "scores .* row 1"),
    "1 polars null": (pl.Series([0.1, 0.2, 0.3, None] * 2), "scores must be finite; row 3"),
    "1 masked": (np.ma.masked_equal(P, 0.4), "missing.* row 3"),
    "2 infinite": (changed(P, 2, np.inf), "scores must be finite; row 2 is inf"),
    "4 empty": (np.empty(0), "at least two rows"),
    "6 three dimensions": (P.reshape(2, 2, 2), "one or two dimensions"),
    "6 a dict": ({"a": 1}, "one or two dimensions; got dict"),
    "6 no dimension": (0.5, "one or two dimensions"),
    "7 complex": (P + 0j, "real numbers; got dtype complex"),
    "7 complex object": (np.array([1j, *P[1:]], dtype=object), "real numbers; row 0"),
    "8 strings": (P.astype(str), "real numbers; got dtype"),
    "8 strings as objects": (changed(P, 5, "0.5"), "real numbers; row 5 is '0.5'"),
    "8 dates": (np.arange(8).astype("M8[D]"), "real numbers"),
    "8 ragged": ([[0.1, 0.2], [0.3]], "scores must have rows of equal length"),
    "8 an object": (np.array([object(), *P[1:]], dtype=object), "real numbers; row 0"),
    "9 sparse": (sparse.csr_array(P[:, None]), "dense"),
    "16 one row": (P[:1], "at least two rows, of different classes; got 1"),
    "25 columns beyond the classes": (np.full((8, 3), 0.2), "sum to one"),
    "40 rows that do not sum to one": (np.column_stack([P, P]), r"sum to one \(within 0.001\); row 0"),
}


@pytest.mark.parametrize("name", BAD_SCORES)
def test_bad_scores_are_named(name):
    scores, message = BAD_SCORES[name]
    y = Y[: len(scores)] if isinstance(scores, np.ndarray) else Y
    with pytest.raises((ValueError, TypeError), match=message):
        fit(scores, y)


@pytest.mark.parametrize("transform", ["logit", "compact_logit", "asinh_logit"])
@pytest.mark.parametrize("value", [-0.1, 1.0000001])
def test_3_scores_outside_the_unit_interval_point_to_identity(transform, value):
    with pytest.raises(ValueError, match=r'row 4 is .*transform="identity"'):
        fit(changed(P, 4, value), transform=transform)
    assert fit(changed(P, 4, value)).transform_ == "identity"
    with pytest.raises(ValueError, match=r'row 0 is .*transform="identity"'):
        fit(np.column_stack([[value] * 8, P]), transform=transform)


def test_3_after_a_fit_on_probabilities_scores_outside_are_an_error():
    for options in ({}, {"loss": "brier"}):
        with pytest.raises(ValueError, match=r"\[0, 1\]; row 1 is 1.5"):
            fit(**options).calibrate([0.5, 1.5])


def test_41_negative_entries_of_two_columns_are_an_error_after_a_fit_on_probabilities():
    with pytest.raises(ValueError, match=r"row 1 is -0\.2"):
        fit().calibrate([[0.5, 0.5], [-0.2, 0.9]])


def test_25_two_labels_with_three_columns_of_scores_name_columns():
    assert fit(np.full((8, 3), 1 / 3)).classes_.tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="one or two columns"):
        fit().calibrate(np.full((8, 3), 1 / 3))


def test_5_nothing_in_nothing_out():
    cal = fit()
    assert cal.calibrate([]).shape == (0,)
    assert cal.calibrate(np.empty((0, 1))).shape == (0, 1)
    assert cal.calibrate(np.empty((0, 2))).shape == (0, 2)
    assert cal.predict_proba([]).shape == (0, 2)
    assert cal.predict([]).shape == (0,)
    assert cal.interval([]).shape == (0, 2)


def test_10_11_12_extremes_are_finite():
    for scores in ([0, 1, 0, 1, 0, 1, 0, 1], [5e-324, 1e-310, 0.5, 0.4, 0.9, 1 - 1e-16, 1.0, 0.0]):
        out = fit(scores).calibrate([0.0, 5e-324, 1e-300, 0.5, 1.0])
        assert np.all((out > 0) & (out < 1))


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_19_narrow_floats_give_the_numbers_of_their_values(dtype):
    narrow = P.astype(dtype)
    np.testing.assert_array_equal(
        fit(narrow).calibrate(narrow), fit(narrow.astype(float)).calibrate(narrow.astype(float))
    )


@pytest.mark.parametrize(
    "make",
    [
        list,
        tuple,
        pd.Series,
        pl.Series,
        pa.array,
        lambda p: pa.chunked_array([p[:3], p[3:]]),
        lambda p: pd.Series(p, dtype="Float64"),
        lambda p: p.astype(object),
        lambda p: pd.DataFrame({"score": p}),
        lambda p: pl.DataFrame({"score": p}),
        lambda p: np.asfortranarray(np.column_stack([p, p]))[:, 0],
    ],
    ids=[
        "list",
        "tuple",
        "pandas",
        "polars",
        "arrow",
        "chunked",
        "nullable",
        "object",
        "frame",
        "polars frame",
        "fortran",
    ],
)
def test_19_every_container_gives_the_same_numbers(make):
    np.testing.assert_array_equal(np.ravel(fit(make(P)).calibrate(make(GRID))), fit().calibrate(GRID))


@pytest.mark.parametrize(
    "make",
    [
        lambda a: pd.DataFrame(a, columns=["no", "yes"]),
        lambda a: pl.DataFrame(a, schema=["no", "yes"]),
        lambda a: a.tolist(),
    ],
    ids=["pandas", "polars", "lists"],
)
def test_19_two_columns_of_any_container(make):
    pair = np.column_stack([1 - P, P])
    np.testing.assert_array_equal(fit(make(pair)).calibrate(make(pair)), fit(pair).calibrate(pair))


def test_19_integers_are_numbers():
    np.testing.assert_array_equal(fit([0, 1] * 4).calibrate([0, 1]), fit([0.0, 1.0] * 4).calibrate([0.0, 1.0]))


BAD_LABELS = {
    "20 NaN": (changed(Y, 2, np.nan), "missing.* row 2"),
    "20 None": (changed(Y, 6, None), "missing.* row 6"),
    "20 pandas NA": (pd.array([0, 1, pd.NA, 1] * 2, dtype="Int64"), "missing.* row 2"),
    "21 one class": (np.ones(8, int), r"every row is .*1"),
    "21 one class of strings": (["yes"] * 8, "every row is 'yes'"),
    "24 continuous": (P, "continuous values; row 0 is"),
    "25 three classes": ([0, 1, 2, 0, 1, 2, 0, 1], "two classes for one column.*3: 0, 1, 2"),
    "26 length": (Y[:5], "same length; got 8 and 5"),
    "two dimensions": (np.column_stack([Y, Y]), "one dimension"),
    "none at all": (None, "one dimension; got NoneType"),
    "ragged": ([[0], [1, 2]] * 4, "one label a row"),
    "mixed types": (np.array(["a", 1] * 4, dtype=object), "one type; row 0 is 'a' and row 1 is 1"),
    "dates": (Y.astype("M8[D]"), "class labels"),
    "sparse": (sparse.csr_array(Y[:, None]), "dense"),
}


@pytest.mark.parametrize("name", BAD_LABELS)
def test_bad_labels_are_named(name):
    y, message = BAD_LABELS[name]
    with pytest.raises((ValueError, TypeError), match=message):
        fit(P, y)


@pytest.mark.parametrize(
    "y",
    [
        Y.astype(float),
        Y.astype(bool),
        np.where(Y, "yes", "no"),
        2 * Y - 1,
        Y + 1,
        pd.Categorical(np.where(Y, "b", "a")),
        pd.Series(np.where(Y, "b", "a"), dtype="string"),
        pl.Series(np.where(Y, "b", "a")).cast(pl.Categorical),
        pl.Series(Y == 1),
        pa.array(Y),
        Y[:, None],
        Y.tolist(),
        Y.astype(object),
    ],
    ids=lambda y: f"{type(y).__module__}.{type(y).__name__}-{getattr(y, 'dtype', '')}",
)
def test_23_labels_of_any_kind_give_the_same_probabilities(y):
    np.testing.assert_array_equal(fit(P, y).predict_proba(GRID), fit().predict_proba(GRID))


def test_28_29_a_pandas_index_means_nothing():
    order = np.random.default_rng(0).permutation(8)
    scores, y = pd.Series(P, index=order + 5), pd.Series(Y, index=order[::-1] + 70)
    np.testing.assert_array_equal(fit(scores, y).calibrate(GRID), fit().calibrate(GRID))


BAD_WEIGHTS = {
    "30 negative": (changed(np.ones(8), 4, -1.0), "sample_weight must not be negative; row 4"),
    "31 all zero": (np.zeros(8), "sample_weight must not be all zero"),
    "32 NaN": (changed(np.ones(8), 1, np.nan), "sample_weight must be finite; row 1"),
    "35 length": (np.ones(3), "same length; got 8 and 3"),
    "strings": (["1"] * 8, "sample_weight must be real numbers"),
    "two dimensions": (np.ones((8, 2)), "one dimension"),
    "33 zeros that leave one class": (Y, "every row is .*1"),
    "too large": (np.full(8, 1e308), "finite sum"),
    "33 zeros that leave one row": (np.eye(8)[0], "two rows"),
}


@pytest.mark.parametrize("name", BAD_WEIGHTS)
def test_bad_weights_are_named(name):
    weight, message = BAD_WEIGHTS[name]
    with pytest.raises((ValueError, TypeError), match=message):
        fit(sample_weight=weight)


def test_33_34_weights_are_repetitions():
    w = np.array([1, 0, 2, 3, 1, 2, 1, 4])
    np.testing.assert_allclose(
        fit(sample_weight=w).calibrate(GRID), fit(np.repeat(P, w), np.repeat(Y, w)).calibrate(GRID), atol=1e-12
    )
    column = fit(sample_weight=w[:, None])
    np.testing.assert_array_equal(column.calibrate(GRID), fit(sample_weight=w).calibrate(GRID))


def test_33_a_third_class_of_weight_zero_is_absent():
    y = np.append(Y, 2)
    cal = fit(np.append(P, 0.5), y, np.append(np.ones(8), 0.0))
    assert cal.classes_.tolist() == [0, 1]


def test_36_37_read_only_and_strided_arrays_work():
    both = np.column_stack([P, P])
    both.flags.writeable = False
    np.testing.assert_array_equal(fit(both[:, 1]).calibrate(GRID[::-1])[::-1], fit().calibrate(GRID))
    cal = fit(P[::-1], Y[::-1])
    np.testing.assert_allclose(cal.calibrate(GRID), fit().calibrate(GRID), atol=1e-12)


def test_38_nothing_passed_in_is_changed():
    scores, y, w = P.copy(), Y.copy(), np.arange(8.0)
    knots, grid = np.array([0.2, 0.5, 0.9]), np.array([1.0, 0.1])
    cal = fit(scores, y, w, knots=knots, smoothing_grid=grid)
    cal.calibrate(scores), cal.interval(scores), cal.predict(scores)
    np.testing.assert_array_equal(scores, P)
    np.testing.assert_array_equal(y, Y)
    np.testing.assert_array_equal(w, np.arange(8.0))
    assert knots.tolist() == [0.2, 0.5, 0.9]
    assert grid.tolist() == [1.0, 0.1]


def test_18_53_rows_beyond_one_chunk_are_all_seen():
    n = 2 * CHUNK + 17
    p = np.random.default_rng(0).random(n)
    y = (np.arange(n) >= n - 1000).astype(int)
    cal = fit(p, y)
    assert cal.histogram_.total == n
    assert cal.calibrate(p).mean() == pytest.approx(y.mean(), rel=1e-3)
    rows = cal.calibrate(np.concatenate([p, [np.float64(0.25)]]))
    assert rows[-1] == cal.calibrate([0.25])[0]


def test_a_bad_row_in_a_late_chunk_is_named():
    n = CHUNK + 100
    pair = np.column_stack([np.full(n, 0.5), np.full(n, 0.5)])
    pair[CHUNK + 7, 0] = 0.7
    with pytest.raises(ValueError, match=f"row {CHUNK + 7} sums to 1.2"):
        fit(pair, np.arange(n) % 2)


def test_margins_too_large_to_square_are_an_error():
    with pytest.raises(ValueError, match="at most 1e\\+300 in size; row 0"):
        fit(changed(P, 0, -1e308))


@pytest.mark.parametrize("method", ["calibrate", "predict_proba", "predict", "interval"])
def test_46_prediction_before_fit(method):
    with pytest.raises(NotFittedError):
        getattr(SplineCalibrator(), method)([0.5])


BAD_OPTIONS = [
    ("transform", "probit", "one of 'auto', 'logit'"),
    ("transform", None, "one of 'auto', 'logit'"),
    ("epsilon", 0.5, r"\(0, 0.5\)"),
    ("epsilon", 0, r"\(0, 0.5\)"),
    ("epsilon", "small", r"\(0, 0.5\)"),
    ("knots", "uniform", "'quantile', 'sample'"),
    ("knots", [0.5], "at least 2"),
    ("knots", [0.5, 0.2], "sorted, without repeats; item 1"),
    ("knots", [0.5, 0.5], "sorted, without repeats; item 1"),
    ("knots", [0.5, np.nan], "knots must be finite"),
    ("knots", [0.5, 1.5], r"knots must be probabilities in \[0, 1\]; row 1"),
    ("knots", [1e-12, 1e-11, 0.5], "further apart"),
    ("n_knots", 1, "at least 2"),
    ("n_knots", 2.5, "at least 2"),
    ("n_knots", True, "at least 2"),
    ("penalty", "lasso", "'curvature', 'ridge'"),
    ("smoothing", -1.0, "at least 0"),
    ("smoothing", np.nan, "at least 0"),
    ("smoothing", "gcv", "'reml', 'cv', 'loo'"),
    ("smoothing", [1.0], "at least 0"),
    ("smoothing_grid", [], "positive numbers"),
    ("smoothing_grid", [1.0, 0.0], "positive numbers"),
    ("smoothing_grid", [np.nan], "smoothing_grid must be finite"),
    ("cv", 1, "at least 2"),
    ("cv", "five", "at least 2"),
    ("loss", "hinge", "'log', 'brier'"),
    ("monotone", "yes", "True, False"),
    ("monotone", 1, "True, False"),
    ("multiclass", "ovo", "'structured', 'ovr'"),
    ("random_state", -1, "random_state"),
    ("random_state", "seed", "random_state"),
]


@pytest.mark.parametrize(("option", "value", "domain"), BAD_OPTIONS, ids=lambda v: str(v))
def test_54_a_wrong_option_is_an_error_at_fit_that_names_it(option, value, domain):
    with pytest.raises((ValueError, TypeError), match=domain) as caught:
        SplineCalibrator(**{option: value}).fit(P, Y)
    assert option in str(caught.value)


@pytest.mark.parametrize("level", [0, 1, -0.5, 95, "high", np.nan])
def test_54_a_wrong_level_is_an_error(level):
    with pytest.raises((ValueError, TypeError), match="level"):
        fit().interval([0.5], level=level)


def test_clean_input_gives_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for options in ({}, {"monotone": True}, {"loss": "brier"}, {"smoothing": "cv"}, {"penalty": "ridge"}):
            fit(**options).calibrate(GRID)
