import tracemalloc

import numpy as np
import pytest
from scipy.special import softmax

from calspline import SplineCalibrator
from calspline.fits.structured import Diagonal, Kronecker, Linear
from calspline.multiclass import solver
from calspline.multiclass.scale import Scale
from calspline.multiclass.solver import CurveOnly, FitData, Strengths, first_strengths


def made(kind, m=5, seed=0):
    rng = np.random.default_rng(seed)
    C, G = (A @ A.T for A in (rng.normal(size=(m, m)), rng.normal(size=(m + 1, m + 1))))
    h, alpha = rng.uniform(1.0, 9.0, (m, 2)), np.array([2.0, 3.0, 40.0])
    return (
        (Kronecker(alpha, h, C, G) if kind is Kronecker else Diagonal(alpha, h)),
        C,
        G,
        h,
        alpha,
    )


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
    np.testing.assert_allclose(
        near.forth(t).ravel(), np.linalg.solve(H, g.ravel()), rtol=1e-9
    )


def test_the_inverse_is_right_where_the_hessian_is_diagonal():
    c, g, alpha = np.arange(1.0, 4.0), np.arange(2.0, 6.0), np.array([2.0, 3.0, 40.0])
    near = Kronecker(alpha, np.full((3, 2), 100.0), np.diag(c), np.diag(g))
    q = np.full((3, 4), 7.0)
    expected = np.outer(c, g) / c.sum()
    np.testing.assert_allclose(near.inverse(q), 1.0 / (expected + 7.0))
    near = Kronecker(alpha, np.full((3, 2), 0.1), np.diag(c), np.diag(g))
    expected[:, 0] = expected[np.arange(3), np.arange(3) + 1] = 0.1
    np.testing.assert_allclose(near.inverse(q), 1.0 / (expected + 7.0))


def rows(n, m, seed=0):
    rng = np.random.default_rng(seed)
    logits = 1.5 * rng.normal(size=(n, m))
    y = np.argmax(logits + rng.gumbel(size=(n, m)), axis=1)
    return softmax(1.8 * logits, axis=1), y


@pytest.mark.slow
@pytest.mark.parametrize("m", [50, 500])
def test_a_fit_needs_little_more_memory_than_a_copy_of_the_scores(m):
    p, y = rows(2_000_000 // m, m)
    SplineCalibrator().fit(
        p[:1000], np.arange(1000) % m
    )  # what is made once, and stays
    tracemalloc.start()
    SplineCalibrator().fit(p, y)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (
        most < 2.0 * p.nbytes
    )  # the copy, cells of two bytes each, and blocks to work in


@pytest.mark.parametrize("matrix", [True, False])
def test_single_precision_is_enough_for_gradient_and_preconditioner(
    matrix, monkeypatch
):
    p, y = rows(3000, 40)
    data = FitData.on_scale(
        Scale(-40.0, 0.6, 1e-3),
        np.log(p),
        y,
        np.random.default_rng(1).uniform(0.5, 2.0, len(y)),
    )
    found = []
    for cost in (0.0, np.inf):
        monkeypatch.setattr(solver, "SINGLE_COST", cost)
        linear = Linear(data, data.cells.basis.straight, matrix=matrix)
        strengths = Strengths(first_strengths(40, 3000.0)[:3], linear.group)
        B = 0.01 * np.random.default_rng(2).normal(size=linear.group.shape)
        near, *at_the_same_place = linear.preconditioner(B, strengths)
        found.append([*linear.local(B), near.inverse(strengths.each)])
        np.testing.assert_allclose(at_the_same_place[0], found[-1][0], rtol=1e-12)
        np.testing.assert_allclose(at_the_same_place[1], found[-1][1], atol=1e-12)
    (f, g, inverse), (f64, g64, inverse64) = found
    assert f != f64  # they differ at all
    assert f == pytest.approx(f64, rel=1e-6)
    np.testing.assert_allclose(g, g64, atol=1e-5 * np.abs(g64).max())
    np.testing.assert_allclose(inverse, inverse64, rtol=1e-4)


@pytest.mark.parametrize("columns", [None, 2, 41])
def test_single_precision_is_enough_for_a_curve(columns, monkeypatch):
    p, y = rows(3000, 40)
    data = FitData.on_scale(
        Scale(-40.0, 0.6, 1e-3),
        np.log(p),
        y,
        np.random.default_rng(1).uniform(0.5, 2.0, len(y)),
    )
    monkeypatch.setattr(solver, "SINGLE_COST", 0.0)
    rng = np.random.default_rng(2)
    B = None if columns is None else 0.01 * rng.normal(size=(40, columns))
    v = 0.1 * rng.normal(size=data.cells.basis.size)
    (f, g, H), (f64, g64, H64) = (
        CurveOnly(data, B, exact=exact).at(v).local for exact in (False, True)
    )
    assert f != f64  # they differ at all
    assert f == pytest.approx(f64, rel=1e-6)
    np.testing.assert_allclose(g, g64, atol=1e-5 * np.abs(g64).max())
    np.testing.assert_allclose(H, H64, atol=1e-5 * np.abs(H64).max())
