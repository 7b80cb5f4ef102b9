import numpy as np
import pytest
from scipy.interpolate import CubicSpline

from calspline.fitting import basis as basis_module
from calspline.fitting.basis import NaturalSpline, natural_cubic_basis

KNOTS = [
    np.array([0.0, 1.0]),
    np.array([0.0, 0.3, 1.0]),
    np.array([-1.0, 0.0, 0.5, 4.0]),
    np.array([0.0, 0.01, 0.02, 0.4, 0.41, 0.9, 1.0]),
    np.linspace(0.0, 1.0, 24),
]


def dense(basis, x):
    return basis.design(np.asarray(x, dtype=float)).dot(np.eye(basis.size))


def derivative(f, x, order, h):
    if order == 1:
        return (f(x + h) - f(x - h)) / (2 * h)
    return (f(x + h) - 2 * f(x) + f(x - h)) / h**2


def test_the_papers_basis_is_the_printed_formula():
    phi = np.array([0.1, 0.4, 0.7, 0.9])
    x = np.linspace(-0.2, 1.2, 57)

    def d(k):
        plus = lambda t: np.maximum(t, 0.0) ** 3  # noqa: E731
        return (plus(x - phi[k - 1]) - plus(x - phi[3])) / (phi[3] - phi[k - 1])

    expected = np.column_stack([np.ones_like(x), x, d(1) - d(3), d(2) - d(3)])
    np.testing.assert_allclose(natural_cubic_basis(x, phi), expected, rtol=1e-13)


@pytest.mark.parametrize("knots", KNOTS, ids=len)
def test_both_bases_span_the_same_space(knots):
    x = np.linspace(knots[0] - 1, knots[-1] + 1, 400)
    ours, papers = dense(NaturalSpline(knots), x), natural_cubic_basis(x, knots)
    scale = np.abs(papers).max(axis=0)
    both = np.column_stack([ours, papers / scale])
    assert np.linalg.matrix_rank(ours) == len(knots)
    assert np.linalg.matrix_rank(both, tol=1e-8) == len(knots)


@pytest.mark.parametrize("knots", KNOTS, ids=len)
@pytest.mark.parametrize("which", ["banded", "paper"])
def test_a_natural_spline_is_linear_beyond_the_end_knots(knots, which):
    left, right = (
        knots[0] - np.array([3.0, 2.0, 1.0]),
        knots[-1] + np.array([1.0, 2.0, 3.0]),
    )
    for x in (left, right):
        values = (
            dense(NaturalSpline(knots), x)
            if which == "banded"
            else natural_cubic_basis(x, knots)
        )
        bend = values[0] - 2 * values[1] + values[2]
        np.testing.assert_allclose(bend, 0.0, atol=1e-8 * np.abs(values).max())


@pytest.mark.parametrize("knots", KNOTS[1:], ids=len)
def test_the_second_derivative_vanishes_at_the_end_knots(knots):
    basis = NaturalSpline(knots)
    c = np.random.default_rng(0).normal(size=basis.size)
    curvature = basis.second_derivatives @ c
    assert curvature[0] == 0.0
    assert curvature[-1] == 0.0
    # and it is the second derivative: compare an interior knot with finite differences
    f = lambda x: dense(basis, np.atleast_1d(x)) @ c  # noqa: E731
    h = 1e-5 * np.diff(knots).min()
    near = curvature[1] + np.array([0.0])
    np.testing.assert_allclose(
        derivative(f, knots[1], 2, h),
        near,
        rtol=1e-2,
        atol=1e-2 * np.abs(curvature).max(),
    )


@pytest.mark.parametrize("knots", KNOTS, ids=len)
def test_interpolation_is_scipys_natural_cubic_spline(knots):
    basis = NaturalSpline(knots)
    values = np.random.default_rng(1).normal(size=basis.size)
    c = basis.interpolate(values[:, None])[:, 0]
    x = np.linspace(knots[0], knots[-1], 301)
    reference = CubicSpline(knots, values, bc_type="natural")
    np.testing.assert_allclose(
        dense(basis, x) @ c, reference(x), atol=1e-8 * np.abs(reference(x)).max()
    )


@pytest.mark.parametrize("knots", KNOTS, ids=len)
def test_the_penalty_is_the_integral_of_the_squared_second_derivative(knots):
    basis = NaturalSpline(knots)
    values = np.random.default_rng(2).normal(size=basis.size)
    c = basis.interpolate(values[:, None])[:, 0]
    second = CubicSpline(knots, values, bc_type="natural").derivative(2)
    # f''^2 is quadratic between knots: three-point Gauss quadrature is exact
    nodes, weights = np.polynomial.legendre.leggauss(3)
    half = np.diff(knots) / 2
    middle = (knots[1:] + knots[:-1]) / 2
    integral = sum(
        w * half @ second(middle + half * t) ** 2
        for t, w in zip(nodes, weights, strict=True)
    )
    np.testing.assert_allclose(c @ basis.curvature @ c, integral, rtol=1e-7, atol=1e-9)


def test_the_penalty_is_banded():
    S = NaturalSpline(np.linspace(0, 1, 12)).curvature
    far = np.abs(np.subtract.outer(np.arange(12), np.arange(12))) > 3
    assert np.abs(S[far]).max() < 1e-9 * np.abs(S).max()


@pytest.mark.parametrize("knots", KNOTS, ids=len)
def test_lines_are_reproduced_and_not_penalised(knots):
    basis = NaturalSpline(knots)
    x = np.linspace(knots[0] - 1, knots[-1] + 1, 50)
    ones, identity = basis.line
    np.testing.assert_allclose(dense(basis, x) @ ones, 1.0, atol=1e-10)
    np.testing.assert_allclose(dense(basis, x) @ identity, x, atol=1e-10)
    scale = np.abs(basis.curvature).max() if basis.size > 2 else 1.0
    assert abs(identity @ basis.curvature @ identity) < 1e-10 * scale


@pytest.mark.parametrize("small", [10**9, 0], ids=["dense", "by moments"])
@pytest.mark.parametrize("knots", KNOTS, ids=len)
def test_products_are_those_of_the_dense_design(knots, small, monkeypatch):
    monkeypatch.setattr(basis_module, "SMALL_GRAM", small)
    basis = NaturalSpline(knots)
    rng = np.random.default_rng(3)
    x = rng.uniform(knots[0] - 0.5, knots[-1] + 0.5, 60)
    v = rng.random(60)
    X = dense(basis, x)
    design, size = basis.design(x), np.abs(X).max()
    np.testing.assert_allclose(
        design.gram(v), X.T @ (v[:, None] * X), atol=1e-10 * size**2
    )
    np.testing.assert_allclose(design.tdot(v), X.T @ v, atol=1e-10 * size)
    c = rng.normal(size=basis.size)
    np.testing.assert_allclose(design.dot(c), X @ c, atol=1e-10 * size)
    T = rng.normal(size=(basis.size, 3))
    np.testing.assert_allclose(
        design.in_coordinates(T).tdot(v), T.T @ X.T @ v, atol=1e-9 * size
    )


def test_every_row_has_at_most_four_neighbouring_entries():
    basis = NaturalSpline(np.linspace(0, 1, 10))
    rows = dense(basis, np.linspace(-0.2, 1.2, 200))
    for row in rows:
        used = np.flatnonzero(row)
        assert used[-1] - used[0] < 4
