import numpy as np
import pytest

from calspline.fitting.basis import NaturalSpline, PiecewiseCubic
from calspline.fitting.fit import MIN_SLOPE, make_increasing


@pytest.mark.parametrize("cubic", [0.0, 1.5])
def test_extremes_inside_a_piece_are_found(cubic):
    coefficients = np.array([[cubic, cubic], [1.0, 1.0], [-1.0, -1.0], [0.0, 0.0]])
    t = np.linspace(0.0, 1.0, 100_001)
    value = ((cubic * t + 1.0) * t - 1.0) * t
    found = PiecewiseCubic(np.array([0.0]), coefficients).extremes()
    assert found == pytest.approx((value.min(), value.max()), abs=1e-9)


def test_both_extremes_of_a_cubic_inside_a_piece_are_found():
    coefficients = np.repeat([[-2.0], [3.0], [-1.0], [0.5]], 2, axis=1)
    t = np.array([3.0 - np.sqrt(3.0), 3.0 + np.sqrt(3.0)]) / 6.0
    expected = ((-2.0 * t + 3.0) * t - 1.0) * t + 0.5
    assert PiecewiseCubic(np.array([0.0]), coefficients).extremes(
        0.1, 0.9
    ) == pytest.approx(tuple(expected), abs=1e-12)


@pytest.mark.parametrize("cubic", [0.0, 0.5, 1.0, -1.0])
def test_the_smallest_slope_is_that_of_a_fine_grid(cubic):
    """Pieces 0 to 0.7 and 0.7 to 1; the lines outside go on with the slopes at the ends."""
    a, b, c = (
        np.array([cubic, 2.0 * cubic]),
        np.array([-0.6, 0.4]),
        np.array([0.2, 0.1]),
    )
    inner = np.array([a, b, c, np.zeros(2)])
    t = np.linspace(0.0, 1.0, 100_001)
    slopes = [
        3.0 * a[i] * (length * t) ** 2 + 2.0 * b[i] * length * t + c[i]
        for i, length in enumerate((0.7, 0.3))
    ]
    line = np.array([0.0, 0.0, 0.3, 0.0])
    coefficients = np.column_stack([line, inner, line])
    found = PiecewiseCubic(np.array([0.0, 0.7, 1.0]), coefficients).smallest_slope
    assert found == pytest.approx(np.concatenate(slopes).min(), abs=1e-9)


KNOTS = np.array([0.0, 0.1, 0.15, 0.4, 0.8, 1.0])


def test_a_rising_curve_is_left_alone():
    basis = NaturalSpline(KNOTS)
    c = np.cumsum([0.3, 0.01, 2.0, 1e-3, 0.5, 7.0])
    np.testing.assert_allclose(make_increasing(basis, c), c, rtol=1e-14)


def test_a_coefficient_that_falls_is_lifted_to_a_slope_that_rounding_cannot_turn():
    basis = NaturalSpline(KNOTS)
    c = np.array([0.0, 1.0, 0.9999, 1.5, 2.0, 2.5])
    up = make_increasing(basis, c)
    gap = np.diff(basis.greville[1:-1])[1]
    np.testing.assert_allclose(up[:2], c[:2], rtol=1e-14)
    assert up[2] - up[1] == pytest.approx(MIN_SLOPE * gap, rel=1e-3)
    np.testing.assert_allclose(np.diff(up)[2:], np.diff(c)[2:], rtol=1e-12)
    assert np.diff(basis.elimination @ up).min() > 0.0
