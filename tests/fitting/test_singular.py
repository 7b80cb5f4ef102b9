"""Matrices that rounding makes singular still have a root and an inverse."""

import numpy as np
import pytest

from calspline.fitting.fit import _root
from calspline.fitting.segments import _inverse


@pytest.mark.parametrize("rank", [1, 2, 4])
def test_a_root_multiplied_with_itself_is_the_covariance(rank):
    A = np.random.default_rng(rank).normal(size=(4, rank))
    covariance = A @ A.T
    covariance[np.diag_indices(4)] -= 1e-15 * (rank < 4)  # not positive definite
    R = _root(covariance)
    np.testing.assert_allclose(R @ R.T, covariance, atol=1e-12)


def test_an_inverse_of_a_singular_matrix_is_finite_and_that_of_others_exact():
    H = np.array([np.diag([2.0, 4.0]), np.diag([1.0, 0.5])])
    np.testing.assert_array_equal(_inverse(H) @ H, np.array([np.eye(2), np.eye(2)]))
    singular = np.array([[[1.0, 1.0], [1.0, 1.0]]])
    inverse = _inverse(singular)
    assert np.isfinite(inverse).all()
    np.testing.assert_allclose(singular @ inverse @ singular, singular, rtol=1e-3)
