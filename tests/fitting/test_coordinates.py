import numpy as np
import pytest

from calspline.fitting.basis import NaturalSpline, natural_cubic_basis
from calspline.fitting.smoothing import (
    WEAK_PRIOR,
    curvature_coordinates,
    ridge_coordinates,
)


def data(seed=0, n=300):
    rng = np.random.default_rng(seed)
    x = np.sort(rng.beta(0.5, 1.5, n))
    return x, rng.random(n)


@pytest.mark.parametrize(
    "knots",
    [np.linspace(0, 1, 9), np.array([0, 1e-3, 2e-3, 0.5, 0.998, 1.0])],
    ids=["even", "tight"],
)
def test_the_curvature_penalty_is_the_square_of_the_curved_coordinates(knots):
    x, w = data()
    basis = NaturalSpline(knots)
    coordinates = curvature_coordinates(basis, basis.design(x), x, w)
    u = np.random.default_rng(1).normal(size=basis.size)
    c = coordinates.T @ u
    np.testing.assert_allclose(c @ basis.curvature @ c, u[2:] @ u[2:], rtol=1e-6)
    np.testing.assert_array_equal(coordinates.strength, [0, 0] + [1] * (basis.size - 2))


def test_the_first_two_coordinates_are_the_weighted_regression_line():
    x, w = data()
    basis = NaturalSpline(np.linspace(0, 1, 9))
    coordinates = curvature_coordinates(basis, basis.design(x), x, w)
    u = np.random.default_rng(2).normal(size=9)
    g = basis.design(x).dot(coordinates.T @ u)
    mean = np.average(x, weights=w)
    sd = np.sqrt(np.average((x - mean) ** 2, weights=w))
    slope, intercept = np.polyfit((x - mean) / sd, g, 1, w=np.sqrt(w))
    np.testing.assert_allclose([intercept, slope], u[:2], atol=1e-10)
    np.testing.assert_array_equal(coordinates.prior[:2], WEAK_PRIOR)
    np.testing.assert_array_equal(coordinates.prior[2:], 0.0)


def test_the_prior_weakens_where_the_line_runs_through_many_log_odds():
    x, w = data()
    basis = NaturalSpline(np.linspace(0, 1, 9))
    spread = np.sqrt(np.average((x - np.average(x, weights=w)) ** 2, weights=w))
    usual, steep = (
        curvature_coordinates(basis, basis.design(x), x, w, s / spread).prior[0]
        for s in (1.5, 40.0)
    )
    assert usual == WEAK_PRIOR
    assert steep == pytest.approx(WEAK_PRIOR / 100)


def test_two_knots_leave_only_the_line():
    x, w = data()
    basis = NaturalSpline(np.array([0.0, 1.0]))
    coordinates = curvature_coordinates(basis, basis.design(x), x, w)
    assert coordinates.T.shape == (2, 2)
    assert not coordinates.strength.any()


def test_ridge_coordinates_are_the_papers_columns_up_to_scale():
    x, _ = data()
    origin, unit = -3.0, 8.0
    basis = NaturalSpline(np.linspace(0.1, 0.9, 7))
    coordinates = ridge_coordinates(basis, origin, unit)
    columns = natural_cubic_basis(origin + unit * x, origin + unit * basis.knots)
    rows = basis.design(x).in_coordinates(coordinates.T).rows
    scale = np.sqrt(
        np.divide(
            1.0, coordinates.strength, where=coordinates.strength > 0, out=np.ones(7)
        )
    )
    np.testing.assert_allclose(rows * scale, columns, atol=1e-9 * np.abs(columns).max())
    assert coordinates.strength[0] == 0.0
    np.testing.assert_allclose(
        coordinates.precision(4.0), 4.0 * coordinates.strength, atol=1e-7
    )


def test_products_with_the_design_agree_with_its_rows():
    x, w = data()
    basis = NaturalSpline(np.linspace(0, 1, 6))
    design = basis.design(x).in_coordinates(
        curvature_coordinates(basis, basis.design(x), x, w).T
    )
    u = np.arange(6.0)
    np.testing.assert_allclose(design.dot(u), design.rows @ u)
    np.testing.assert_allclose(design.tdot(w), design.rows.T @ w)
    np.testing.assert_allclose(
        design.gram(w), design.rows.T @ (w[:, None] * design.rows), atol=1e-10
    )
