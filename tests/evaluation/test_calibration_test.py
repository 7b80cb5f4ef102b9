import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit
from scipy.stats import chi2

from calspline import IsotonicCalibrator, evaluate
from calspline._arrays import Counts, one_blas_thread
from calspline.evaluation.calibration_test import (
    calibration_p_value,
    combined_p_value,
    weighted_chi2_tail,
)


def p_values(binary, n, count, **options):
    pairs = (binary(n, seed, **options) for seed in range(count))
    with one_blas_thread():
        return np.array(
            [calibration_p_value(Counts.from_rows(p, y == 1)) for p, y in pairs]
        )


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["uniform", "rare events", "U-shaped", "ten values"])
@pytest.mark.parametrize("n", [200, 2000])
def test_it_rejects_right_probabilities_about_as_often_as_it_says(binary, n, shape):
    # Two standard errors of 200 replications are 3%; benchmarks/COVERAGE.md has more of
    # them.
    assert 0.02 <= np.mean(p_values(binary, n, 200, shape=shape) <= 0.05) <= 0.08


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["uniform", "U-shaped", "ten values"])
def test_it_finds_a_slope_of_one_and_a_half(binary, shape):
    assert np.mean(p_values(binary, 1000, 100, shape=shape, slope=1.5) <= 0.05) > 0.9


@pytest.mark.slow
def test_it_finds_a_curve_that_no_line_shows(binary):
    rng = np.random.default_rng(0)
    found = []
    for _ in range(30):
        p = rng.random(2000)
        y = rng.random(2000) < p + 0.1 * np.sin(2 * np.pi * p) * np.sin(np.pi * p)
        found.append(evaluate(y, p).calibration_p_value)
    assert np.mean(np.array(found) <= 0.05) > 0.9


def test_simulation_and_formula_agree_where_both_hold(binary, monkeypatch):
    from calspline.evaluation import calibration_test

    p, y = binary(20_000, seed=3)
    f = Counts.from_rows(p, y == 1)
    by_formula = calibration_p_value(f)
    monkeypatch.setattr(calibration_test, "NORMAL_KURTOSIS", 0.0)
    by_simulation = calibration_p_value(f)
    assert by_formula != by_simulation
    assert by_formula == pytest.approx(by_simulation, abs=0.04)


@pytest.mark.parametrize("p", [0.0, 1e-300, 1e-12])
def test_what_could_not_happen_and_did_settles_it(p):
    certain = np.full(100, p)
    assert evaluate([1] + [0] * 99, certain).calibration_p_value <= 100 * p
    assert evaluate([0] + [1] * 99, 1 - certain).calibration_p_value <= 1e-9


def test_what_was_certain_and_came_so_says_nothing(binary):
    assert evaluate([0, 1, 1], [0, 1, 1]).calibration_p_value == 1.0
    p, y = binary(100)
    more = evaluate(np.append(y, [0, 1]), np.append(p, [0.0, 1.0]))
    assert more.calibration_p_value == evaluate(y, p).calibration_p_value


def test_a_constant_probability_is_a_binomial_test():
    for happened in (30, 40, 50, 61):
        y = np.arange(100) < happened
        e = evaluate(y, np.full(100, 0.5))
        exact = 2 * min(chi2.sf((happened - 50) ** 2 / 25, 1), 0.5)
        assert e.calibration_p_value == pytest.approx(
            exact / 2 if exact < 1 else 1.0, abs=0.06
        )


def test_the_same_data_always_give_the_same_p_value_and_touch_no_global_state(binary):
    p, y = binary(300, seed=5)
    np.random.seed(1)  # noqa: NPY002
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    first = evaluate(y, p).calibration_p_value
    assert evaluate(y[::-1], p[::-1]).calibration_p_value == first
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


def imhof(t, a):
    """Imhof's integral for the tail of a weighted sum of chi-squares."""

    def integrand(u):
        theta = 0.5 * np.arctan(a * u).sum() - 0.5 * t * u
        return np.sin(theta) / (u * np.prod((1 + (a * u) ** 2) ** 0.25))

    return 0.5 + quad(integrand, 0, 200, limit=2000)[0] / np.pi


@pytest.mark.parametrize(
    "a", [[1, 1, 0.6, 0.3, 0.1], [1, 1, 0.9, 0.5, 0.3, 0.2, 0.1], [3, 1, 1, 0.5]]
)
def test_the_tail_of_a_weighted_sum_of_chi_squares_is_imhofs(a):
    a = np.array(a, dtype=float)
    for t in a.sum() * np.array([0.2, 0.7, 0.99995, 1.0, 1.00005, 1.5, 3.0]):
        assert weighted_chi2_tail(t, a) == pytest.approx(
            imhof(t, a), rel=0.03, abs=0.015
        )
    assert weighted_chi2_tail(0.0, a) == 1.0


def test_the_tail_of_equal_weights_is_a_chi_square_and_far_tails_stay_positive():
    assert weighted_chi2_tail(7.0, np.array([2.0, 2.0])) == pytest.approx(
        chi2.sf(3.5, 2)
    )
    far = weighted_chi2_tail(200.0, np.array([1.0, 1.0, 0.5]))
    assert 0 < far < 1e-40


@pytest.mark.parametrize("t", [1e-300, 1e-19, 1e-14, 1e-13])
def test_the_tail_beyond_next_to_nothing_is_one(t):
    assert weighted_chi2_tail(t, np.array([1.0, 2.0, 0.5])) == pytest.approx(1.0)


def test_probabilities_that_fit_their_own_rows_exactly_are_evaluated():
    rng = np.random.default_rng(0)
    log_odds = rng.normal(size=2000)
    y = rng.random(2000)[:1000] < expit(log_odds[:1000])
    scores = expit(2 * log_odds[:1000])
    own = IsotonicCalibrator().fit(scores, y).calibrate(scores)
    assert evaluate(y, own).calibration_p_value == pytest.approx(1.0)


@pytest.mark.thorough
def test_with_more_classes_all_are_tested(multiclass):
    right, wrong = ([], [])
    for seed in range(30):
        p, y = multiclass(500, m=3, seed=seed)
        right.append(evaluate(y, p).calibration_p_value)
        p, y = multiclass(500, m=3, seed=seed, sharpness=1.6)
        wrong.append(evaluate(y, p).calibration_p_value)
    assert np.mean(np.array(right) <= 0.05) <= 0.1
    assert np.mean(np.array(wrong) <= 0.05) > 0.9


def test_the_p_value_of_more_classes_combines_the_parts(multiclass):
    p, y = multiclass(400, m=3, sharpness=1.2)
    e = evaluate(y, p)
    p = np.array([one.calibration_p_value for one in e.per_class.values()])
    assert e.class_wise_p_value == combined_p_value(p)
    assert e.top_label_p_value == e.top_label.calibration_p_value
    assert e.calibration_p_value == combined_p_value(
        np.array([e.class_wise_p_value, e.top_label_p_value])
    )


def test_p_values_combine():
    assert combined_p_value(np.array([0.03, 0.03, 0.03])) == pytest.approx(0.03)
    assert combined_p_value(np.array([1e-5, 0.5, 0.5, 0.5])) == pytest.approx(
        4e-5, rel=0.01
    )
    assert combined_p_value(np.array([1e-5, 1.0])) == pytest.approx(2e-5, rel=0.01)
    assert combined_p_value(np.array([0.0, 1.0])) == 0.0
    rng = np.random.default_rng(0)
    independent = [combined_p_value(rng.random(5)) for _ in range(4000)]
    assert np.mean(np.array(independent) <= 0.05) == pytest.approx(0.05, abs=0.012)
