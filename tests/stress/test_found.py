"""Data that once broke a fit, made small."""

import numpy as np
import pytest

from calspline import SplineCalibrator


@pytest.mark.parametrize("seed", [4, 15, 19])
def test_constraints_may_take_turns_for_long(seed):
    rng = np.random.default_rng(seed)
    x, w, y = np.arange(300) - 150.0, 10.0 ** rng.uniform(-6, 6, 300), np.zeros(300, dtype=int)
    y[rng.integers(300, size=2)] = 1
    cal = SplineCalibrator(monotone=True, smoothing=1e-8).fit(x, y, w)
    assert cal.converged_
    assert np.diff(cal.calibrate(x)).min() >= 0.0


def test_the_brier_loss_takes_scores_that_hardly_differ_from_zero():
    p = SplineCalibrator(loss="brier").fit([1e-200, 2e-200, 3e-200, 1e-190], [0, 0, 1, 1]).calibrate([1e-200, 1e-190])
    assert 0.0 < p[0] < 0.5 < p[1] < 1.0
