import numpy as np
import pytest
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression

from calspline import evaluate
from calspline._arrays import Counts
from calspline.evaluation.recalibration import recalibration
from calspline.transforms import Transform


def test_the_slope_is_that_of_logistic_regression(binary, weights):
    p, y = binary(800, slope=1.6)
    w = weights(800)
    model = LogisticRegression(C=np.inf, tol=1e-10).fit(
        logit(p)[:, None], y, sample_weight=w
    )
    assert evaluate(y, p, sample_weight=w).calibration_slope == pytest.approx(
        model.coef_[0, 0], rel=1e-5
    )


def test_the_shift_makes_the_mean_right(binary, weights):
    p, y = binary(800, slope=1.6)
    w = weights(800)
    e = evaluate(y, p**2, sample_weight=w)
    shifted = expit(logit(p**2) + e.calibration_in_the_large)
    assert np.average(shifted, weights=w) == pytest.approx(e.base_rate, abs=1e-9)
    assert e.calibration_in_the_large > 0.5


def test_standard_errors_are_the_spread_of_the_estimates(binary):
    found = [
        recalibration(Counts.from_rows(p, y == 1))
        for p, y in (binary(500, seed) for seed in range(200))
    ]
    for name in ("slope", "in_the_large"):
        spread = np.std([getattr(e, name) for e in found])
        claimed = np.mean([getattr(e, f"{name}_se") for e in found])
        assert spread == pytest.approx(claimed, rel=0.2)


def test_binning_of_many_rows_changes_next_to_nothing(binary):
    p, y = binary(20_000, slope=1.6)
    model = LogisticRegression(C=np.inf, tol=1e-10).fit(logit(p)[:, None], y)
    assert evaluate(y, p).calibration_slope == pytest.approx(
        model.coef_[0, 0], abs=1e-4
    )


@pytest.mark.parametrize(
    ("y", "p", "large", "slope"),
    [
        ([0, 0, 0], [0.2, 0.4, 0.6], -np.inf, np.nan),
        ([1, 1, 1], [0.2, 0.4, 0.6], np.inf, np.nan),
        ([0, 0, 1], [0.2, 0.4, 0.6], None, np.inf),
        ([1, 1, 0], [0.2, 0.4, 0.6], None, -np.inf),
        ([1, 0, 0, 1], [0.5, 0.5, 0.5, 0.5], 0.0, np.nan),
    ],
)
def test_where_there_is_no_finite_estimate_it_says_so(y, p, large, slope):
    e = evaluate(y, p)
    if large is not None:
        assert e.calibration_in_the_large == pytest.approx(large, abs=1e-9)
    assert e.calibration_slope == pytest.approx(slope, nan_ok=True)
    assert np.isnan(e.calibration_slope_se)


def test_exact_0_and_1_are_finite_places():
    e = evaluate([0, 1, 0, 1, 0, 1], [0.0, 1.0, 1.0, 0.0, 0.5, 0.5])
    assert np.isfinite(
        [e.calibration_slope, e.calibration_slope_se, e.calibration_in_the_large]
    ).all()


def test_events_of_probability_zero_move_the_level_and_overflow_nothing():
    found = evaluate([0, 1, 1], [0.0, 0.0, 0.0], sample_weight=[1.0, 7.0, 100.0])
    lowest = Transform("logit")(np.zeros(1))[0]
    assert found.calibration_in_the_large == pytest.approx(np.log(107.0) - lowest)
