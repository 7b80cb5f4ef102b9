import numpy as np
import pytest

from calspline.multiclass.structured_fit import Diagonal, Kronecker


def made(kind, m=5, seed=0):
    rng = np.random.default_rng(seed)
    C, G = (A @ A.T for A in (rng.normal(size=(m, m)), rng.normal(size=(m + 1, m + 1))))
    h, alpha = rng.uniform(1.0, 9.0, (m, 2)), np.array([2.0, 3.0, 40.0])
    return (Kronecker(h, C, G, alpha) if kind is Kronecker else Diagonal(h, alpha)), C, G, h, alpha


@pytest.mark.parametrize("kind", [Diagonal, Kronecker])
def test_back_is_the_adjoint_of_forth(kind):
    near, *_ = made(kind)
    rng = np.random.default_rng(1)
    t = rng.normal(size=near.size)
    g = rng.normal(size=near.forth(t).shape)
    assert near.back(g) @ t == pytest.approx((g * near.forth(t)).sum())


def test_without_the_second_share_the_product_inverts_the_kronecker_hessian():
    near, C, G, _, alpha = made(Kronecker)
    g = np.random.default_rng(2).normal(size=(5, 6))
    t = near.back(g)
    t[g.size :] = 0.0
    H = np.kron(C, G) / np.trace(C) + alpha[2] * np.eye(g.size)
    np.testing.assert_allclose(near.forth(t).ravel(), np.linalg.solve(H, g.ravel()), rtol=1e-9)


def test_the_inverse_is_right_where_the_hessian_is_diagonal():
    c, g, alpha = np.arange(1.0, 4.0), np.arange(2.0, 6.0), np.array([2.0, 3.0, 40.0])
    near = Kronecker(np.ones((3, 2)), np.diag(c), np.diag(g), alpha)
    q = np.full((3, 4), 7.0)
    np.testing.assert_allclose(near.inverse(q), 1.0 / (np.outer(c, g) / c.sum() + 7.0))
