"""Data that once broke a fit, made small."""

import numpy as np
import pytest

from calspline import (
    BetaCalibrator,
    CalibrationCurve,
    IsotonicCalibrator,
    SplineCalibrator,
)
from calspline.transforms import Transform


@pytest.mark.filterwarnings("ignore:sample_weight sums to")
@pytest.mark.parametrize("seed", [4, 15, 19])
def test_constraints_may_take_turns_for_long(seed):
    rng = np.random.default_rng(seed)
    x, w, y = (
        np.arange(300) - 150.0,
        10.0 ** rng.uniform(-6, 6, 300),
        np.zeros(300, dtype=int),
    )
    y[rng.integers(300, size=2)] = 1
    cal = SplineCalibrator(monotone=True, smoothing=1e-8).fit(x, y, w)
    assert cal.converged_
    assert np.diff(cal.calibrate(x)).min() >= 0.0


def test_the_brier_loss_takes_scores_that_hardly_differ_from_zero():
    p = (
        SplineCalibrator(loss="brier")
        .fit([1e-200, 2e-200, 3e-200, 1e-190], [0, 0, 1, 1])
        .calibrate([1e-200, 1e-190])
    )
    assert 0.0 < p[0] < 0.5 < p[1] < 1.0


@pytest.mark.parametrize(
    ("seed", "options"), [(17, {}), (97, {}), (38, {"n_knots": 100, "knots": "sample"})]
)
def test_least_squares_that_rounding_leaves_undetermined_converge(seed, options):
    rng = np.random.default_rng([seed, 7])
    n = int(rng.integers(30, 61))
    kind = rng.integers(4, size=n)
    ends, tenths = (
        rng.choice([0.0, 1.0, 0.5, 1e-300, 1e-12, 1 - 1e-16, 0.25], n),
        rng.integers(0, 11, n) / 10,
    )
    scores = np.choose(
        kind, [ends, tenths, rng.random(n), 10.0 ** -rng.uniform(0, 323, n)]
    )
    event = int(rng.integers(n))
    scores[event] = 2e-276
    y = np.arange(n) == event
    if seed % 3 == 2:
        y |= rng.random(n) < 0.1
    cal = SplineCalibrator(
        loss="brier", penalty="ridge", smoothing=0, scale="asinh_logit", **options
    )
    p = cal.fit(scores, y).calibrate(scores)
    assert cal.converged_
    assert np.all((p > 0) & (p < 1))


@pytest.mark.parametrize(
    "cal",
    [SplineCalibrator(), SplineCalibrator(loss="brier"), IsotonicCalibrator()],
    ids=str,
)
def test_scores_may_be_any_distance_from_those_of_the_fit(cal):
    margins = 1e-270 * np.array([-3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 5.0])
    # Fewer than ten negative scores that small would be the rounding of probabilities.
    cal.fit(np.tile(margins, 4), np.tile([0, 0, 1, 0, 1, 0, 1, 1], 4))
    p = cal.calibrate([-1e300, -1.0, 0.0, 1.0, 1e300])
    assert p[0] == p[1] < 0.5 < p[3] == p[4]
    assert np.all((p > 0.0) & (p < 1.0))
    if isinstance(cal, SplineCalibrator):
        assert (
            cal.loss == "brier" or np.isfinite(cal.interval([-1e300, 1.0, 1e300])).all()
        )


def test_breaks_may_be_a_denormal_number_apart():
    coefficients = np.zeros((4, 3))
    coefficients[3] = -1.0, -1.0, 1.0
    curve = CalibrationCurve(
        Transform("identity"), np.array([0.0, 5e-324]), coefficients
    )
    assert curve([-1.0]) < 0.5 < curve([1.0])


def test_a_file_with_enormous_beta_coefficients_is_refused():
    described = BetaCalibrator().fit([0.1, 0.4, 0.6, 0.9], [0, 1, 0, 1]).to_dict()
    described["map"]["a"] = 1e308
    with pytest.raises(ValueError, match=r"map.a must be a number in \[0, 1e\+100\)"):
        BetaCalibrator.from_dict(described)
