import numpy as np
import pytest

from calspline._spline.shape import extremes


@pytest.mark.parametrize("cubic", [0.0, 1.5])
def test_extremes_inside_a_piece_are_found(cubic):
    coefficients = np.array([[cubic, cubic], [1.0, 1.0], [-1.0, -1.0], [0.0, 0.0]])
    t = np.linspace(0.0, 1.0, 100_001)
    value = ((cubic * t + 1.0) * t - 1.0) * t
    found = extremes(np.array([0.0]), coefficients)
    assert found == pytest.approx((value.min(), value.max()), abs=1e-9)
