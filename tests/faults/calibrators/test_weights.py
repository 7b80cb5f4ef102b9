import numpy as np
import pytest

BAD = (ValueError, TypeError)


def put(row, value):
    out = np.ones(60)
    out[row] = value
    return out


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        pytest.param(put(4, -1.0), "sample_weight must not be negative; row 4 is -1", id="30 negative"),
        pytest.param(np.zeros(60), "sample_weight must not be all zero", id="31 all zero"),
        pytest.param(put(1, np.nan), "sample_weight must be finite; row 1 is nan", id="32 NaN"),
        pytest.param(put(1, np.inf), "sample_weight must be finite; row 1 is inf", id="32 infinite"),
        pytest.param(
            np.ones(3), "scores and sample_weight must have the same length; got 60 and 3", id="35 wrong length"
        ),
        pytest.param(np.eye(60)[0], "scores must have at least two rows.*got 1", id="33 zeros that leave one row"),
        pytest.param(["1"] * 60, "sample_weight must be real numbers", id="strings"),
        pytest.param(np.ones((60, 2)), "sample_weight must have one dimension", id="two dimensions"),
        pytest.param(np.full(60, 1e308), "sample_weight must have a finite sum", id="too large"),
    ],
)
def test_30_31_32_33_35_bad_weights(cal, problem, weight, message):
    with pytest.raises(BAD, match=message):
        cal.fit(problem.scores, problem.y, weight)


def test_33_zeros_that_leave_one_class(cal, problem):
    with pytest.raises(ValueError, match="every row is 1"):
        cal.fit(problem.scores, problem.y, problem.y == 1)


def test_33_rows_of_weight_zero_are_absent(cal, problem):
    w = np.arange(60) % 3 > 0
    out = cal.fit(problem.scores, problem.y, w).calibrate(problem.grid)
    np.testing.assert_allclose(out, cal.fit(problem.scores[w], problem.y[w]).calibrate(problem.grid), atol=1e-9)


def test_33_an_odd_row_of_weight_zero_is_absent(cal, two):
    cal.fit(np.append(two.scores, 17.0), np.append(two.y, 2), np.append(np.ones(60), 0.0))
    assert cal.classes_.tolist() == [0, 1]
    np.testing.assert_allclose(cal.calibrate(two.scores), two.fit(cal).calibrate(two.scores), atol=1e-9)


def test_34_integer_weights_are_repetitions(cal, problem):
    w = np.random.default_rng(0).integers(0, 4, 60)
    out = cal.fit(problem.scores, problem.y, w).calibrate(problem.grid)
    repeated = cal.fit(np.repeat(problem.scores, w, axis=0), np.repeat(problem.y, w)).calibrate(problem.grid)
    np.testing.assert_allclose(out, repeated, atol=1e-9)
    np.testing.assert_array_equal(cal.fit(problem.scores, problem.y, w[:, None]).calibrate(problem.grid), out)


@pytest.mark.parametrize("factor", [1e-9, 1e-3, 1e3])
def test_weights_of_any_size_give_proper_probabilities(cal, problem, check, factor):
    w = factor * np.random.default_rng(0).uniform(0.5, 2.0, 60)
    with pytest.warns(UserWarning, match='sample_weight sums to .* for 60 rows.*weights="importance"'):
        cal.fit(problem.scores, problem.y, w)
    check(cal.predict_proba(problem.grid))
