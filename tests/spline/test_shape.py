import numpy as np
import pytest

from calspline._spline.basis import NaturalSpline
from calspline._spline.shape import LEAST_SLOPE, extremes, risen


@pytest.mark.parametrize("cubic", [0.0, 1.5])
def test_extremes_inside_a_piece_are_found(cubic):
    coefficients = np.array([[cubic, cubic], [1.0, 1.0], [-1.0, -1.0], [0.0, 0.0]])
    t = np.linspace(0.0, 1.0, 100_001)
    value = ((cubic * t + 1.0) * t - 1.0) * t
    found = extremes(np.array([0.0]), coefficients)
    assert found == pytest.approx((value.min(), value.max()), abs=1e-9)


KNOTS = np.array([0.0, 0.1, 0.15, 0.4, 0.8, 1.0])


def test_a_rising_curve_is_left_alone():
    basis = NaturalSpline(KNOTS)
    c = np.cumsum([0.3, 0.01, 2.0, 1e-3, 0.5, 7.0])
    np.testing.assert_allclose(risen(basis, c), c, rtol=1e-14)


def test_a_coefficient_that_falls_is_lifted_to_a_slope_that_rounding_cannot_turn():
    basis = NaturalSpline(KNOTS)
    c = np.array([0.0, 1.0, 0.9999, 1.5, 2.0, 2.5])
    up = risen(basis, c)
    gap = np.diff(basis.greville[1:-1])[1]
    np.testing.assert_allclose(up[:2], c[:2], rtol=1e-14)
    assert up[2] - up[1] == pytest.approx(LEAST_SLOPE * gap, rel=1e-3)
    np.testing.assert_allclose(np.diff(up)[2:], np.diff(c)[2:], rtol=1e-12)
    assert np.diff(basis.elimination @ up).min() > 0.0
