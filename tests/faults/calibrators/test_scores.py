import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

from calspline import ClippingCalibrator, SplineCalibrator
from calspline.scores import check_scores

BAD = (ValueError, TypeError)


def both_refuse(cal, problem, scores, message, *, after=True):
    """Fit and, fitted on good scores, prediction refuse these."""
    with pytest.raises(BAD, match=message):
        cal.fit(scores, problem.y[: np.shape(scores)[0]] if np.ndim(scores) else problem.y)
    if after:
        problem.fit(cal)
        for method in (cal.calibrate, cal.predict_proba, cal.predict):
            with pytest.raises(BAD, match=message):
                method(scores)


@pytest.mark.parametrize("value", [np.nan, None], ids=["nan", "None"])
def test_01_nan_scores(cal, problem, value):
    both_refuse(cal, problem, problem.changed(value), "scores must be finite; row 3 is nan")


@pytest.mark.parametrize(
    "scores",
    [
        pd.array([0.1, pd.NA] * 30, dtype="Float64"),
        pl.Series([0.1, None] * 30),
        np.ma.masked_equal([0.1, 0.2] * 30, 0.2),
    ],
    ids=["pandas", "polars", "masked"],
)
def test_01_missing_scores_of_other_kinds(cal, two, scores):
    both_refuse(cal, two, scores, "scores .*row 1")


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_02_infinite_scores(cal, problem, value):
    both_refuse(cal, problem, problem.changed(value), "scores must be finite; row 3 is -?inf")


def test_03_scores_outside_the_unit_interval_at_fit(cal, problem, takes_margins, check):
    if takes_margins:
        cal.fit(problem.margins, problem.y)
        check(cal.predict_proba(problem.margins), (60, problem.n_classes))
        return
    advice = "Clipping is for probabilities only" if isinstance(cal, ClippingCalibrator) else 'use transform="identity"'
    with pytest.raises(ValueError, match=rf"probabilities in \[0, 1\]; row 0 is .*{advice}"):
        cal.fit(problem.margins, problem.y)


@pytest.mark.parametrize("value", [-0.1, 1.5])
def test_03_scores_outside_the_unit_interval_after_a_fit_on_probabilities(cal, problem, any_score_goes, check, value):
    problem.fit(cal)
    if any_score_goes:
        check(cal.calibrate(problem.changed(value)))
        return
    with pytest.raises(ValueError, match=rf"probabilities in \[0, 1\]; row 3 is {value}\..*margins"):
        cal.calibrate(problem.changed(value))


def test_03_declared_margins_may_lie_in_the_unit_interval(cal, problem, takes_margins, check):
    if not takes_margins:
        advice = "Clipping is for" if isinstance(cal, ClippingCalibrator) else 'use transform="identity"'
        with pytest.raises(ValueError, match=advice):
            cal.fit(check_scores(problem.scores, margins=True), problem.y)
        return
    cal.fit(check_scores(problem.scores, margins=True), problem.y)
    check(cal.predict_proba(5.0 * problem.scores - 2.0))
    if isinstance(cal, SplineCalibrator) and problem.n_classes == 2:
        identity = SplineCalibrator(**(cal.get_params() | {"transform": "identity"})).fit(problem.scores, problem.y)
        np.testing.assert_array_equal(cal.calibrate(problem.grid), identity.calibrate(problem.grid))


def test_03_declared_margins_are_what_margins_outside_are(cal, problem, takes_margins):
    if takes_margins:
        declared = type(cal)(**cal.get_params()).fit(check_scores(problem.margins, margins=True), problem.y)
        cal.fit(problem.margins, problem.y)
        np.testing.assert_array_equal(declared.calibrate(problem.margins), cal.calibrate(problem.margins))


def test_03_margins_too_large_to_square(cal, problem, takes_margins):
    message = r"scores must be at most 1e\+300 in size; row 0" if takes_margins else r"scores must be probabilities"
    with pytest.raises(ValueError, match=message):
        cal.fit(problem.changed(-1e308, row=0), problem.y)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_03_narrow_margins(cal, problem, takes_margins, check, dtype):
    if takes_margins:
        margins = problem.margins.astype(dtype)
        check(cal.fit(margins, problem.y).predict_proba(margins))


def test_04_empty_fit(cal, problem):
    with pytest.raises(ValueError, match="scores must have at least two rows"):
        cal.fit(problem.scores[:0], problem.y[:0])


def test_05_empty_predict(cal, problem):
    problem.fit(cal)
    m = problem.n_classes
    assert cal.predict_proba(problem.scores[:0]).shape == (0, m)
    assert cal.predict(problem.scores[:0]).shape == (0,)
    for shape in [(0,), (0, 1), (0, 2)] if m == 2 else [(0, 3)]:
        assert cal.calibrate(np.empty(shape)).shape == shape


@pytest.mark.parametrize("scores", [np.full((60, 2, 2), 0.5), 0.5, {"a": 1}], ids=["three", "none", "dict"])
def test_06_dimensions(cal, problem, scores):
    both_refuse(cal, problem, scores, "scores must have one or two dimensions; got")


def test_06_wrong_number_of_columns(cal, problem):
    problem.fit(cal)
    message = "one or two columns" if problem.n_classes == 2 else "3 columns, one for each class"
    with pytest.raises(ValueError, match=rf"scores must have {message}.*got shape \(5, 4\)"):
        cal.calibrate(np.full((5, 4), 0.25))


def test_07_complex_scores(cal, problem):
    both_refuse(cal, problem, problem.scores + 0j, "scores must be real numbers; got dtype complex")
    both_refuse(
        cal, problem, problem.changed(None) + 1j * (np.arange(60) == 0) if 0 else _one_complex(problem), "row 0"
    )


def _one_complex(problem):
    out = problem.scores.astype(object)
    out[(0,) * out.ndim] = 1j
    return out


def test_08_strings(cal, problem):
    both_refuse(cal, problem, problem.scores.astype(str), "scores must be real numbers; got dtype")
    both_refuse(cal, problem, problem.changed("0.5", row=5), "scores must be real numbers; row 5 is '0.5'")


def test_08_dates_objects_and_ragged_rows(cal, two):
    both_refuse(cal, two, np.arange(60).astype("M8[D]"), "scores must be real numbers")
    both_refuse(cal, two, np.array([object()] * 60), "scores must be real numbers; row 0")
    with pytest.raises(ValueError, match="scores must have rows of equal length"):
        cal.fit([[0.1, 0.9], [0.3]], [0, 1])


def test_09_sparse_scores(cal, problem):
    matrix = sparse.csr_array(problem.scores.reshape(60, -1))
    both_refuse(cal, problem, matrix, "scores must be a dense array; got a sparse")


def test_10_exact_zeros_and_ones(cal, problem, check):
    scores = problem.scores.copy()
    scores[:6] = [0, 1, 0, 1, 0, 1] if problem.n_classes == 2 else np.eye(3)[[0, 1, 2, 0, 1, 2]]
    check(cal.fit(scores, problem.y).predict_proba(np.concatenate([scores, problem.grid])))


def test_11_only_zeros_and_ones(cal, problem, check):
    top = np.arange(60) % problem.n_classes
    scores = top if problem.n_classes == 2 else np.eye(3)[top]
    check(cal.fit(scores, problem.y).predict_proba(np.concatenate([scores, problem.grid])))


def test_12_denormals(cal, problem, check):
    tiny = np.array([5e-324, 1e-310, 1e-300, 1e-20])
    scores = problem.scores.copy()
    if problem.n_classes == 2:
        scores[:4] = tiny
    else:
        scores[:4] = np.column_stack([tiny, 1.0 - 2.0 * tiny, tiny])
    cal.fit(scores, problem.y)
    check(cal.predict_proba(scores))
    if problem.n_classes == 2:
        check(cal.predict_proba(np.append(tiny, 1.0 - 1e-16)))


def test_13_constant_scores_give_the_base_rate(cal, problem, check):
    scores = np.full(60, 0.7) if problem.n_classes == 2 else np.tile([0.2, 0.3, 0.5], (60, 1))
    rates = np.bincount(problem.y) / 60
    if isinstance(cal, ClippingCalibrator):
        # It learns nothing but a floor: what is above it stays.
        out = cal.fit(scores, problem.y).predict_proba(scores[:1])
        np.testing.assert_allclose(out, [[0.3, 0.7] if problem.n_classes == 2 else [0.2, 0.3, 0.5]])
        return
    several = isinstance(cal, SplineCalibrator) and problem.n_classes > 2 and cal.multiclass == "structured"
    if several and cal.monotone is True:
        # It promises to keep the ranking of every row.
        (out,) = cal.fit(scores, problem.y).predict_proba(scores[:1])
        np.testing.assert_array_equal(np.argsort(out), [0, 1, 2])
        return
    with pytest.warns(UserWarning, match="all scores are equal: the calibrated probability is the base rate"):
        cal.fit(scores, problem.y)
    (out,) = cal.predict_proba(scores[:1])
    if problem.n_classes > 2 and getattr(cal, "multiclass", "") == "top":
        # Of the most probable class alone: the others share the rest as they did before.
        rates[:2] = (1.0 - rates[2]) * np.array([0.4, 0.6])
    np.testing.assert_allclose(out, rates, atol=1e-9)
    check(cal.predict_proba(problem.grid))


def test_13_the_warning_points_at_the_callers_line(cal, two):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        cal.fit(np.full(60, 0.7), two.y)
    assert [w.filename for w in caught] == ([] if isinstance(cal, ClippingCalibrator) else [__file__])


def test_14_two_distinct_values(cal, problem, check):
    scores = problem.scores[np.arange(60) % 2]
    check(cal.fit(scores, problem.y).predict_proba(np.concatenate([scores, problem.grid])))


def test_15_fewer_distinct_values_than_knots(cal, problem, check):
    scores = problem.scores[np.arange(60) % 5]
    cal.fit(scores, problem.y)
    check(cal.predict_proba(scores))
    if isinstance(cal, SplineCalibrator) and problem.n_classes == 2:
        assert len(cal.knots_) <= 5


def test_16_one_row(cal, problem):
    with pytest.raises(ValueError, match="scores must have at least two rows, of different classes; got 1"):
        cal.fit(problem.scores[:1], problem.y[:1])


def test_17_three_rows(cal, problem, check):
    scores = [0.2, 0.4, 0.9] if problem.n_classes == 2 else [[0.8, 0.1, 0.1], [0.2, 0.6, 0.2], [0.1, 0.1, 0.8]]
    cal.fit(scores, [0, 0, 1] if problem.n_classes == 2 else [0, 1, 2])
    out = cal.predict_proba(scores)
    check(out)
    if type(cal).__name__ == "SigmoidCalibrator" or (isinstance(cal, SplineCalibrator) and cal.penalty == "curvature"):
        assert out.max() < 0.99, "shrunk: three rows are no proof"


@pytest.mark.slow
def test_18_many_rows_are_all_seen(cal, problem):
    row = np.random.default_rng(0).integers(0, 60, 100_003)
    cal.fit(problem.scores[row], problem.y[row])
    out = cal.predict_proba(problem.scores[row])
    np.testing.assert_array_equal(out[-60:], cal.predict_proba(problem.scores[row[-60:]]))
    counted = cal.fit(problem.scores, problem.y, np.bincount(row, minlength=60)).predict_proba(problem.scores)
    np.testing.assert_allclose(out, counted[row], atol=1e-9)


def test_18_a_bad_row_far_down_is_named(cal, problem):
    n = 100_003
    scores = np.resize(problem.scores, (n, *problem.scores.shape[1:])).copy()
    scores[(99_990,) + (0,) * (scores.ndim - 1)] = np.nan
    with pytest.raises(ValueError, match="row 99990 is nan"):
        cal.fit(scores, np.resize(problem.y, n))


CONTAINERS = {
    "list": lambda s: s.tolist(),
    "object": lambda s: s.astype(object),
    "fortran": np.asfortranarray,
    "pandas": lambda s: pd.Series(s) if s.ndim == 1 else pd.DataFrame(s),
    "nullable": lambda s: pd.Series(s, dtype="Float64") if s.ndim == 1 else pd.DataFrame(s, dtype="Float64"),
    "polars": lambda s: pl.Series(s) if s.ndim == 1 else pl.DataFrame(s),
    "arrow": lambda s: pa.array(s) if s.ndim == 1 else pa.table({f"c{j}": s[:, j] for j in range(s.shape[1])}),
}


@pytest.mark.slow
@pytest.mark.parametrize("make", CONTAINERS.values(), ids=CONTAINERS)
def test_19_every_container_gives_the_same_numbers(cal, problem, make):
    expected = problem.fit(cal).calibrate(problem.grid)
    out = cal.fit(make(problem.scores), problem.y).calibrate(make(problem.grid))
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_19_narrow_floats_give_the_numbers_of_their_values(cal, problem, dtype):
    narrow, wide = problem.scores.astype(dtype), problem.scores.astype(dtype).astype(float)
    out = cal.fit(narrow, problem.y).calibrate(narrow)
    np.testing.assert_allclose(out, cal.fit(wide, problem.y).calibrate(wide), rtol=1e-12)


def test_19_integers_are_numbers(cal, problem):
    top = np.arange(60) % problem.n_classes
    scores = top if problem.n_classes == 2 else np.eye(3, dtype=int)[top]
    out = cal.fit(scores, problem.y).calibrate(scores)
    np.testing.assert_array_equal(out, cal.fit(scores.astype(float), problem.y).calibrate(scores.astype(float)))


def test_clean_input_gives_no_warning(cal, problem):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        problem.fit(cal).calibrate(problem.grid)
