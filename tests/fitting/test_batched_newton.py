from dataclasses import replace

import numpy as np
import pytest

from calspline.fitting import batched_newton, newton
from calspline.fitting import smoothing as smooth
from calspline.fitting.basis import NaturalSpline
from calspline.fitting.newton import Problem, brier_loss, log_loss, minimize
from calspline.fitting.smoothing import SEARCH_TOLERANCE, Request, curvature_coordinates


def setting(seed, n=None, knots=None, loss=log_loss):
    """A problem of its own size, and its coordinates."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(40, 400)) if n is None else n
    x = np.sort(rng.random(n))
    w = rng.uniform(0.5, 3.0, n)
    p = 0.1 + 0.8 * np.sin((1 + seed % 3) * np.pi * x) ** 2
    basis = NaturalSpline(np.linspace(0, 1, int(rng.integers(5, 20)) if knots is None else knots))
    design = basis.design(x)
    coordinates = curvature_coordinates(basis, design, x, w)
    offset = (1 + seed) * (x - 0.5)
    return Problem(design.in_coordinates(coordinates.T), offset, w, w * (rng.random(n) < p), loss), coordinates


def reml(problem, coordinates):
    return smooth.reml(problem, coordinates, smooth.DEFAULT_GRID, exhaustive=False)


def check(settings):
    problems = [problem for problem, _ in settings]
    side_by_side = batched_newton.together([reml(*each) for each in settings], problems)
    for each, choice in zip(settings, side_by_side, strict=True):
        by_itself = smooth.alone(reml(*each))
        assert choice.smoothing == pytest.approx(by_itself.smoothing, rel=1e-8)
        np.testing.assert_allclose(choice.grid, by_itself.grid, rtol=1e-8)
        np.testing.assert_allclose(choice.criterion, by_itself.criterion, rtol=1e-10)
        np.testing.assert_allclose(choice.u, by_itself.u, atol=1e-8)


@pytest.mark.parametrize("loss", [log_loss, brier_loss])
def test_searches_side_by_side_find_what_each_finds_alone(loss):
    check([setting(seed, loss=loss) for seed in range(20)])


def test_a_large_problem_among_small_ones_is_searched_alone():
    settings = [setting(seed) for seed in range(10)] + [setting(99, n=6000, knots=24)]
    assert batched_newton._multiplications(settings[-1][0]) > batched_newton.LARGEST_STACKED
    check(settings)


def test_fits_far_from_their_start_are_damped_each_by_its_own_measure():
    tasks = [setting(seed) for seed in range(10)]
    rng = np.random.default_rng(0)
    requests = []
    for i, (problem, coordinates) in enumerate(tasks):
        start = problem.at(rng.normal(0, 200 if i % 2 else 0.1, len(coordinates.prior)))
        requests.append(Request(problem, coordinates.precision(1e-4), start))
    for slot, solution in run(tasks, requests).items():
        expected = minimize(*requests[slot], tolerance=SEARCH_TOLERANCE)
        assert (solution.converged, solution.n_iter) == (True, expected.n_iter)
        np.testing.assert_allclose(solution.point.u, expected.point.u, atol=1e-7)
        np.testing.assert_allclose(solution.point.eta, expected.point.eta, atol=1e-7)
        np.testing.assert_allclose(solution.factor, np.tril(expected.factor), rtol=1e-6, atol=1e-6)


def run(tasks, requests):
    """The solution of one fit of each problem."""
    stack = batched_newton.Stack([problem for problem, _ in tasks], requests)
    found = {}
    while len(stack):
        for slot, solution in stack.step():
            found[slot] = solution
            stack.leave(slot)
    return found


def test_one_singular_hessian_does_not_spoil_the_others():
    tasks = [setting(seed) for seed in range(8)]
    requests = [Request(p, c.precision(1.0), p.at(np.zeros(len(c.prior)))) for p, c in tasks]
    problem, coordinates = setting(8)
    K = len(coordinates.prior)
    singular = replace(problem, design=problem.design.in_coordinates(np.ones((K, K))))
    request = Request(singular, np.zeros(K), singular.at(np.zeros(K)))
    alone = run(tasks, requests)
    beside = run([*tasks, (singular, coordinates)], [*requests, request])
    for slot, solution in alone.items():
        np.testing.assert_allclose(beside[slot].point.u, solution.point.u, atol=1e-8)
    expected = minimize(*request, tolerance=SEARCH_TOLERANCE)
    np.testing.assert_allclose(beside[8].point.eta, expected.point.eta, atol=1e-6)


def test_running_out_of_iterations_is_reported(monkeypatch):
    monkeypatch.setattr(newton, "MAX_ITERATIONS", 1)
    tasks = [setting(seed) for seed in range(8)]
    requests = [Request(p, c.precision(1e-6), p.at(np.full(len(c.prior), 9.0))) for p, c in tasks]
    assert not any(solution.converged for solution in run(tasks, requests).values())


def test_a_fit_that_may_not_be_damped_takes_the_step_it_has(monkeypatch):
    monkeypatch.setattr(newton, "MAX_HALVINGS", 1)
    tasks = [setting(seed) for seed in range(8)]
    requests = [Request(p, c.precision(1e-4), p.at(np.full(len(c.prior), 200.0))) for p, c in tasks]
    before = [request.start.local.value for request in requests]
    stack = batched_newton.Stack([problem for problem, _ in tasks], requests)
    list(stack.step())
    # Newton's full step from so far off overshoots: without halving the loss rises somewhere.
    assert (stack.newton.point.local.value > before).any()
