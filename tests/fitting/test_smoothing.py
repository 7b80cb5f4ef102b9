from dataclasses import replace

import numpy as np
import pytest

from calspline.fitting import smoothing as smooth
from calspline.fitting.basis import NaturalSpline
from calspline.fitting.cross_validation import HeldOut, cross_validation, split_folds
from calspline.fitting.newton import Problem, brier_loss, log_loss, minimize
from calspline.fitting.smoothing import curvature_coordinates

GRID = 10.0 ** np.arange(-6.0, 4.0)


def setting(loss=log_loss, n=60, seed=0, knots=8):
    rng = np.random.default_rng(seed)
    x = np.sort(rng.random(n))
    p = 0.15 + 0.7 * np.sin(np.pi * x) ** 2
    positives = (rng.random(n) < p).astype(float)
    basis = NaturalSpline(np.linspace(0, 1, knots))
    design = basis.design(x)
    coordinates = curvature_coordinates(basis, design, x, np.ones(n))
    return Problem(
        design.in_coordinates(coordinates.T), np.zeros(n), np.ones(n), positives, loss
    ), coordinates


def fit(problem, coordinates, smoothing):
    start = problem.at(np.zeros(len(coordinates.prior)))
    return minimize(problem, coordinates.precision(smoothing), start, tolerance=1e-9)


def test_the_reml_score_is_laplaces_approximation():
    problem, coordinates = setting()
    solution = fit(problem, coordinates, 0.01)
    q = coordinates.precision(0.01)
    Z, eta = problem.design.rows, solution.eta
    p = 1 / (1 + np.exp(-eta))
    likelihood = (problem.s * np.log(p) + (1 - problem.s) * np.log(1 - p)).sum()
    hessian = Z.T @ ((p * (1 - p))[:, None] * Z) + np.diag(q)
    u = solution.u
    expected = (
        -likelihood
        + 0.5 * q @ u**2
        + 0.5 * np.linalg.slogdet(hessian)[1]
        - 0.5 * np.log(q).sum()
    )
    assert smooth.reml_score(problem, coordinates, 0.01, solution) == pytest.approx(
        expected, abs=1e-6
    )


def test_the_reml_score_of_the_brier_loss_is_the_gaussian_marginal_likelihood():
    problem, coordinates = setting(brier_loss)
    y, Z, n = problem.s, problem.design.rows, len(problem.s)

    def scores(smoothing):
        q = coordinates.precision(smoothing)
        shape = np.eye(n) + Z @ np.diag(1 / q) @ Z.T
        variance = y @ np.linalg.solve(shape, y) / n
        reference = 0.5 * (n * np.log(variance) + np.linalg.slogdet(shape)[1])
        return smooth.reml_score(
            problem, coordinates, smoothing, fit(problem, coordinates, smoothing)
        ), reference

    ours, reference = np.array([scores(s) for s in GRID]).T
    np.testing.assert_allclose(ours - ours[0], reference - reference[0], atol=1e-6)


def test_reml_without_the_whole_grid_finds_what_the_whole_grid_finds():
    for seed in range(10):
        problem, coordinates = setting(seed=seed, n=200)
        quick = smooth.search_reml(
            problem, coordinates, smooth.DEFAULT_GRID, exhaustive=False
        )
        whole = smooth.search_reml(
            problem, coordinates, smooth.DEFAULT_GRID, exhaustive=True
        )
        assert len(whole.grid) == len(smooth.DEFAULT_GRID)
        assert len(quick.grid) < len(whole.grid)
        assert quick.criterion.min() <= whole.criterion.min() + 2 * smooth.TIE


def test_of_equally_good_values_the_smoothest_is_taken():
    n = 200
    problem, coordinates = setting(n=n)
    flat = replace(problem, s=np.full(n, 0.3))
    assert (
        smooth.search_reml(flat, coordinates, GRID, exhaustive=True).smoothing
        == GRID[-1]
    )


def test_the_search_gives_up_on_hopelessly_rough_curves():
    problem, coordinates = setting(n=400, knots=24)
    flat = replace(problem, s=np.full(400, 0.3))
    choice = smooth.search_reml(
        flat, coordinates, smooth.DEFAULT_GRID, exhaustive=False
    )
    assert choice.grid[0] > smooth.DEFAULT_GRID[0]


def test_cross_validation_is_the_loss_on_folds_left_out():
    problem, coordinates = setting(n=90)
    rng = np.random.default_rng(5)
    member = rng.integers(0, 3, 90)
    folds = []
    for k in range(3):
        out = (member == k).astype(float)
        kept = replace(problem, w=1.0 - out, s=problem.s * (1.0 - out))
        folds.append(HeldOut(kept, out, out * problem.s))
    choice = cross_validation(problem, coordinates, GRID, folds)
    expected = []
    for smoothing in GRID:
        total = 0.0
        for k in range(3):
            keep = member != k
            part = Problem(
                _Rows(problem.design.rows[keep]),
                np.zeros(keep.sum()),
                np.ones(keep.sum()),
                problem.s[keep],
                log_loss,
            )
            eta = problem.design.rows[~keep] @ fit(part, coordinates, smoothing).u
            p = 1 / (1 + np.exp(-eta))
            total -= np.log(np.where(problem.s[~keep] == 1, p, 1 - p)).sum()
        expected.append(total / 90)
    np.testing.assert_allclose(choice.criterion, expected, atol=1e-4)
    assert choice.smoothing == GRID[np.argmin(expected)]
    np.testing.assert_allclose(
        choice.u, fit(problem, coordinates, choice.smoothing).u, atol=1e-2
    )


class _Rows:
    def __init__(self, rows):
        self.rows = rows

    def dot(self, u):
        return self.rows @ u

    def tdot(self, r):
        return self.rows.T @ r

    def gram(self, v):
        return self.rows.T @ (v[:, None] * self.rows)


def test_a_fixed_smoothing_is_the_only_one_tried():
    problem, coordinates = setting()
    choice = smooth.fit_fixed(problem, coordinates, 0.5)
    assert choice.smoothing == 0.5
    assert choice.grid.tolist() == [0.5]


@pytest.mark.parametrize("k", [2, 5])
def test_folds_share_out_every_weight_evenly(k):
    w = np.array([0.0, 1.0, 1.0, 2.0, 7.0, 0.25, 10.5, 1.0, 3.0])
    folds = split_folds(w, k, np.random.default_rng(0))
    assert folds.shape == (k, len(w))
    assert folds.min() >= 0.0
    np.testing.assert_allclose(folds.sum(axis=0), w)
    assert np.all(folds.max(axis=0) - folds.min(axis=0) <= 1.0)
    spread = folds.sum(axis=1)
    assert spread.max() - spread.min() <= 2.0


def test_single_rows_go_whole_to_one_fold_and_folds_are_balanced():
    folds = split_folds(np.ones(103), 5, np.random.default_rng(1))
    assert set(np.unique(folds)) == {0.0, 1.0}
    assert sorted(folds.sum(axis=1)) == [20, 20, 21, 21, 21]
