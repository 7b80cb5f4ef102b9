import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from threadpoolctl import threadpool_limits

from calspline import (
    BetaCalibrator,
    ClippingCalibrator,
    SigmoidCalibrator,
    SplineCalibrator,
)
from calspline.fitting import newton


@pytest.mark.parametrize("method", ["calibrate", "predict_proba", "predict", "to_dict"])
def test_46_prediction_before_fit(cal, method):
    with pytest.raises(NotFittedError, match=type(cal).__name__):
        getattr(cal, method)(*([[0.5]] if method != "to_dict" else []))


def test_47_a_refit_is_a_fresh_fit(each, two, three):
    fresh = clone(each).fit(two.scores, two.y)
    again = each.fit(three.scores, three.y).fit(two.scores, two.y)
    np.testing.assert_array_equal(again.calibrate(two.grid), fresh.calibrate(two.grid))
    assert set(vars(again)) == set(vars(fresh))
    fresh = clone(each).fit(three.scores, three.y)
    again = each.fit(three.scores, three.y)
    np.testing.assert_array_equal(
        again.calibrate(three.grid), fresh.calibrate(three.grid)
    )
    assert set(vars(again)) == set(vars(fresh))


def test_48_clone_and_parameters(each, problem):
    expected = each.fit(problem.scores, problem.y).calibrate(problem.grid)
    copy = clone(each)
    assert not hasattr(copy, "classes_")
    assert repr(copy) == repr(type(each)(**each.get_params()))
    np.testing.assert_array_equal(
        copy.fit(problem.scores, problem.y).calibrate(problem.grid), expected
    )
    assert copy.set_params(**each.get_params()) is copy


def test_48_pickle(each, problem):
    expected = each.fit(problem.scores, problem.y).predict_proba(problem.grid)
    np.testing.assert_array_equal(
        pickle.loads(pickle.dumps(each)).predict_proba(problem.grid), expected
    )


def test_48_html(cal, problem):
    assert type(cal).__name__ in cal._repr_html_()
    assert type(cal).__name__ in cal.fit(problem.scores, problem.y)._repr_html_()


def test_49_the_global_random_state_is_left_alone(cal, problem):
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    cal.fit(problem.scores, problem.y).calibrate(problem.grid)
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


@pytest.mark.slow
def test_50_the_number_of_threads_does_not_matter(cal, problem):
    row = np.random.default_rng(0).integers(0, 60, 50_000)
    expected = cal.fit(problem.scores[row], problem.y[row]).predict_proba(
        problem.scores[row]
    )
    with threadpool_limits(1):
        out = (
            clone(cal)
            .fit(problem.scores[row], problem.y[row])
            .predict_proba(problem.scores[row])
        )
    np.testing.assert_allclose(out, expected, atol=1e-9)


def test_51_sixteen_threads_agree(cal, problem):
    expected = cal.fit(problem.scores, problem.y).predict_proba(problem.grid)
    with ThreadPoolExecutor(16) as pool:
        for out in pool.map(lambda _: cal.predict_proba(problem.grid), range(32)):
            np.testing.assert_array_equal(out, expected)


def test_52_no_convergence(each, two, monkeypatch):
    monkeypatch.setattr(newton, "MAX_ITERATIONS", 1)
    if isinstance(each, SplineCalibrator):
        each.set_params(smoothing=1e-6)
    exact = getattr(each, "loss", "log") == "brier"  # a quadratic takes one step
    if isinstance(each, (SplineCalibrator, SigmoidCalibrator, BetaCalibrator)) and (
        not exact
    ):
        with pytest.warns(ConvergenceWarning, match="the fit did not converge"):
            each.fit(two.scores, two.y)
        assert each.converged_ is False
    else:  # exact, in closed form, or by bisection
        assert getattr(each.fit(two.scores, two.y), "converged_", True)


def test_53_chunks_are_irrelevant(cal, problem):
    cal.fit(problem.scores, problem.y)
    rows = np.resize(problem.grid, (70_000, *problem.grid.shape[1:]))
    whole = cal.predict_proba(rows)
    parts = [cal.predict_proba(rows[i : i + 9_999]) for i in range(0, 70_000, 9_999)]
    np.testing.assert_array_equal(np.concatenate(parts), whole)


WRONG = [
    (SplineCalibrator, "scale", "probit", "one of 'auto', 'logit'"),
    (SplineCalibrator, "scale", None, "one of 'auto', 'logit'"),
    (SplineCalibrator, "epsilon", 0.5, r"\(0, 0.5\)"),
    (SplineCalibrator, "epsilon", 0, r"\(0, 0.5\)"),
    (SplineCalibrator, "epsilon", "small", r"\(0, 0.5\)"),
    (SplineCalibrator, "knots", "uniform", "'quantile', 'sample'"),
    (SplineCalibrator, "knots", [0.2, 0.5], "'quantile', 'sample'"),
    (SplineCalibrator, "n_knots", 1, "at least 2"),
    (SplineCalibrator, "n_knots", 2.5, "at least 2"),
    (SplineCalibrator, "n_knots", True, "at least 2"),
    (SplineCalibrator, "penalty", "lasso", "'curvature', 'ridge'"),
    (SplineCalibrator, "smoothing", -1.0, "at least 0"),
    (SplineCalibrator, "smoothing", np.nan, "at least 0"),
    (SplineCalibrator, "smoothing", "gcv", "'reml', 'cv'"),
    (SplineCalibrator, "smoothing", [1.0], "at least 0"),
    (SplineCalibrator, "smoothing_grid", [], "positive numbers"),
    (SplineCalibrator, "smoothing_grid", [1.0, 0.0], "positive numbers"),
    (SplineCalibrator, "smoothing_grid", [np.nan], "smoothing_grid must be finite"),
    (SplineCalibrator, "cv", 1, "at least 2"),
    (SplineCalibrator, "cv", "five", "at least 2"),
    (SplineCalibrator, "loss", "hinge", "'log', 'brier'"),
    (SplineCalibrator, "monotone", "yes", "True, False"),
    (SplineCalibrator, "monotone", 1, "True, False"),
    (SplineCalibrator, "weights", "counts", "'frequency', 'importance'"),
    (SplineCalibrator, "multiclass", "ovo", "'structured', 'ovr'"),
    (SplineCalibrator, "random_state", -1, "random_state"),
    (SplineCalibrator, "random_state", "seed", "random_state"),
    (SigmoidCalibrator, "on", "logit", "one of 'log_odds', 'probability'"),
    (SigmoidCalibrator, "on", None, "one of 'log_odds', 'probability'"),
    (BetaCalibrator, "parameters", "bm", "one of 'abm', 'am', 'ab'"),
    (BetaCalibrator, "parameters", 3, "one of 'abm', 'am', 'ab'"),
    (ClippingCalibrator, "p_min", 0, r'a number in \(1e-15, 0.5\) or "best"'),
    (ClippingCalibrator, "p_min", 0.5, r'a number in \(1e-15, 0.5\) or "best"'),
    (ClippingCalibrator, "p_min", np.nan, r'a number in \(1e-15, 0.5\) or "best"'),
    (ClippingCalibrator, "p_min", "worst", r'a number in \(1e-15, 0.5\) or "best"'),
    (ClippingCalibrator, "p_min", None, r'a number in \(1e-15, 0.5\) or "best"'),
    (ClippingCalibrator, "p_min", True, r'a number in \(1e-15, 0.5\) or "best"'),
]


@pytest.mark.parametrize(
    ("cls", "option", "value", "domain"),
    WRONG,
    ids=lambda v: getattr(v, "__name__", str(v)),
)
def test_54_a_wrong_option_is_an_error_at_fit_that_names_it(
    two, cls, option, value, domain
):
    with pytest.raises((ValueError, TypeError), match=domain) as caught:
        cls(**{option: value}).fit(two.scores, two.y)
    assert option in str(caught.value)


@pytest.mark.parametrize("level", [0, 1, -0.5, 95, "high", np.nan])
def test_54_a_wrong_level_is_an_error(two, level):
    with pytest.raises((ValueError, TypeError), match="level"):
        SplineCalibrator().fit(two.scores, two.y).interval([0.5], level=level)


def test_54_every_option_has_a_wrong_value_here():
    for cls in (
        SplineCalibrator,
        SigmoidCalibrator,
        BetaCalibrator,
        ClippingCalibrator,
    ):
        assert {option for owner, option, *_ in WRONG if owner is cls} == set(
            cls().get_params()
        )


def test_61_html_in_an_option_is_escaped(two):
    for cls, option in (
        (SplineCalibrator, "scale"),
        (SigmoidCalibrator, "on"),
        (BetaCalibrator, "parameters"),
    ):
        assert (
            "<script>alert(1)"
            not in cls(**{option: "<script>alert(1)</script>"})._repr_html_()
        )
