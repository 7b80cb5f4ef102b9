import numpy as np
import pytest
from scipy.optimize import minimize as scipy_minimize
from scipy.optimize import nnls
from sklearn.isotonic import isotonic_regression
from sklearn.linear_model import LogisticRegression

from calspline.fitting import newton
from calspline.fitting.newton import (
    Constraints,
    Problem,
    brier_loss,
    log_loss,
    minimize,
)


class Dense:
    def __init__(self, rows):
        self.rows = rows

    def dot(self, u):
        return self.rows @ u

    def tdot(self, r):
        return self.rows.T @ r

    def gram(self, v):
        return self.rows.T @ (v[:, None] * self.rows)


def problem(loss, seed=0, n=80, k=4):
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, k))
    w = rng.uniform(0.5, 3.0, n)
    return Problem(Dense(Z), 0.3 * rng.normal(size=n), w, w * rng.random(n), loss)


@pytest.mark.parametrize("loss", [log_loss, brier_loss])
def test_slope_and_curvature_are_the_derivatives_of_the_loss(loss):
    eta = np.linspace(-4, 4, 9)
    w, s = np.full(9, 2.0), np.linspace(0.1, 1.9, 9)
    local = loss(eta, w, s)
    h = 1e-5
    for i in range(9):
        step = np.eye(9)[i] * h
        up, down = loss(eta + step, w, s), loss(eta - step, w, s)
        assert (up.value - down.value) / (2 * h) == pytest.approx(
            local.slope[i], abs=1e-6
        )
        assert (up.slope[i] - down.slope[i]) / (2 * h) == pytest.approx(
            local.curvature[i], abs=1e-6
        )


def test_the_log_loss_is_the_bernoulli_likelihood_and_stays_finite():
    eta = np.array([-800.0, -1.0, 0.0, 2.0, 800.0])
    y = np.array([0.0, 1.0, 1.0, 0.0, 1.0])
    expected = sum(np.logaddexp(0.0, e) - t * e for e, t in zip(eta, y, strict=True))
    local = log_loss(eta, np.ones(5), y)
    assert local.value == pytest.approx(expected)
    assert np.isfinite(local.slope).all()


def test_the_brier_loss_is_half_the_squared_error():
    p, y = np.array([0.2, 0.9]), np.array([0.0, 1.0])
    assert brier_loss(p, np.ones(2), y).value == pytest.approx(
        0.5 * ((p - y) ** 2).sum()
    )


@pytest.mark.parametrize("loss", [log_loss, brier_loss])
def test_the_gradient_vanishes_at_the_solution(loss):
    task, q = problem(loss), np.array([0.0, 0.1, 1.0, 10.0])
    solution = minimize(task, q, task.at(np.zeros(4)), tolerance=1e-8)
    assert solution.converged
    gradient = task.design.tdot(task.at(solution.u).local.slope) + q * solution.u
    np.testing.assert_allclose(gradient, 0.0, atol=1e-10)


def test_the_solution_is_scikit_learns_ridge_logistic_regression():
    rng = np.random.default_rng(1)
    Z, y = rng.normal(size=(200, 3)), rng.integers(0, 2, 200)
    task = Problem(Dense(Z), np.zeros(200), np.ones(200), y.astype(float), log_loss)
    ours = minimize(task, np.full(3, 0.7), task.at(np.zeros(3)), tolerance=1e-8).u
    theirs = LogisticRegression(
        C=1 / 0.7, fit_intercept=False, solver="newton-cholesky", tol=1e-12
    ).fit(Z, y)
    np.testing.assert_allclose(ours, theirs.coef_[0], atol=1e-9)


def test_a_far_away_start_is_damped_and_still_converges():
    task, q = problem(log_loss), np.full(4, 0.01)
    near = minimize(task, q, task.at(np.zeros(4)), tolerance=1e-8)
    far = minimize(
        task, q, task.at(np.array([60.0, -80.0, 40.0, 90.0])), tolerance=1e-8
    )
    assert far.converged
    np.testing.assert_allclose(far.u, near.u, atol=1e-8)


def test_steps_do_not_leap_across_the_minimum_for_ever():
    """One row beside a billion of them: from either side, a Newton step goes far beyond the other."""
    share = 1e-9
    Z = np.column_stack([np.ones(2), (np.array([0.0, 1.0]) - share) / np.sqrt(share)])
    task = Problem(
        Dense(Z), np.full(2, 20.0), np.array([1e9, 1.0]), np.array([0.5, 0.5]), log_loss
    )
    solution = minimize(task, np.full(2, 0.2), task.at(np.zeros(2)), tolerance=1e-6)
    assert solution.converged
    assert solution.n_iter < 20


def test_a_step_damped_to_the_limit_is_taken_as_it_is(monkeypatch):
    monkeypatch.setattr(newton, "MAX_HALVINGS", 1)
    task, q = problem(log_loss), np.full(4, 0.01)
    solution = minimize(
        task, q, task.at(np.array([60.0, -80.0, 40.0, 90.0])), tolerance=1e-8
    )
    assert np.isfinite(solution.objective)


def test_a_singular_hessian_is_lifted():
    Z = np.ones((50, 2))
    task = Problem(Dense(Z), np.zeros(50), np.ones(50), np.full(50, 0.3), log_loss)
    solution = minimize(task, np.zeros(2), task.at(np.zeros(2)), tolerance=1e-8)
    np.testing.assert_allclose(solution.u.sum(), np.log(0.3 / 0.7), atol=1e-6)


def test_a_hessian_beyond_repair_is_an_error():
    task = problem(log_loss)
    with pytest.raises(np.linalg.LinAlgError, match="no Cholesky factor"):
        minimize(task, np.full(4, -1e6), task.at(np.zeros(4)), tolerance=1e-8)


def test_running_out_of_iterations_is_reported(monkeypatch):
    monkeypatch.setattr(newton, "MAX_ITERATIONS", 1)
    task = problem(log_loss)
    assert not minimize(
        task, np.full(4, 0.01), task.at(np.full(4, 9.0)), tolerance=1e-8
    ).converged


@pytest.mark.parametrize("loss", [log_loss, brier_loss])
@pytest.mark.parametrize("seed", range(5))
def test_constrained_solutions_are_scipys(loss, seed):
    task = problem(loss, seed)
    q = np.full(4, 0.2)
    A = np.random.default_rng(seed + 100).normal(size=(6, 4))
    constraints = Constraints(A, np.full(6, -0.05))
    solution = minimize(
        task, q, task.at(np.zeros(4)), tolerance=1e-8, constraints=constraints
    )

    def objective(u):
        return task.at(u).local.value + 0.5 * q @ (u * u)

    reference = scipy_minimize(
        objective,
        np.zeros(4),
        jac=lambda u: task.design.tdot(task.at(u).local.slope) + q * u,
        method="SLSQP",
        constraints={"type": "ineq", "fun": lambda u: A @ u + 0.05, "jac": lambda u: A},
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert np.all(A @ solution.u >= -0.05 - 1e-9)
    assert solution.objective <= objective(reference.x) + 1e-7
    np.testing.assert_allclose(solution.u, reference.x, atol=1e-4)


def test_constraints_hold_where_the_curvature_differs_by_many_decades():
    """Increasing values, most of which want to fall, with weights over twelve decades and next to no penalty."""
    rng = np.random.default_rng(3)
    w = 10.0 ** rng.uniform(-6, 6, 40)
    y = rng.integers(0, 2, 40).astype(float)
    steps = np.tril(np.ones((40, 40)))
    task = Problem(Dense(steps), np.zeros(40), w, w * (0.98 * y + 0.01), log_loss)
    rising = Constraints(np.eye(40)[1:], np.full(39, 1e-7))
    start = task.at(np.full(40, 1e-5))
    solution = minimize(
        task, np.full(40, 1e-8), start, tolerance=1e-6, constraints=rising
    )
    assert solution.converged
    assert np.diff(solution.eta).min() >= 1e-7 - 1e-9
    # Without the penalty this is isotonic regression.
    means = isotonic_regression(0.98 * y + 0.01, sample_weight=w)
    best = log_loss(np.log(means / (1.0 - means)), w, task.s).value
    assert task.at(solution.u).local.value == pytest.approx(best, abs=1e-2)


def test_constraints_that_contradict_each_other_are_met_halfway():
    task = problem(log_loss, k=1)
    impossible = Constraints(np.array([[1.0], [-1.0]]), np.array([0.3, 0.1]))
    solution = minimize(
        task,
        np.full(1, 0.2),
        task.at(np.zeros(1)),
        tolerance=1e-8,
        constraints=impossible,
    )
    assert -0.1 <= solution.u[0] <= 0.3


def test_constraints_that_do_not_bind_change_nothing():
    task, q = problem(log_loss), np.full(4, 0.2)
    free = minimize(task, q, task.at(np.zeros(4)), tolerance=1e-8)
    loose = Constraints(np.eye(4), np.full(4, -1e3))
    held = minimize(task, q, task.at(np.zeros(4)), tolerance=1e-8, constraints=loose)
    np.testing.assert_allclose(held.u, free.u, atol=1e-10)


def test_covariance_comes_from_the_hessian():
    task, q = problem(log_loss), np.full(4, 0.5)
    solution = minimize(task, q, task.at(np.zeros(4)), tolerance=1e-8)
    hessian = task.design.gram(task.at(solution.u).local.curvature) + np.diag(q)
    inverse = np.linalg.inv(hessian)
    root = solution.covariance_root()
    np.testing.assert_allclose(root @ root.T, inverse, rtol=1e-6, atol=1e-12)
    assert solution.log_det == pytest.approx(np.linalg.slogdet(hessian)[1], abs=1e-6)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("m", [3, 12, 60])
def test_active_constraints_are_those_of_non_negative_least_squares(
    m, seed, monkeypatch
):
    # The steps of a random walk that have to rise, as those of a curve do: neighbours
    # are much alike.
    rng = np.random.default_rng(seed)
    E = np.vstack(
        [
            np.diff(np.eye(m + 1), axis=1) + 0.1 * rng.normal(size=(m + 1, m)),
            rng.normal(size=m),
        ]
    )
    E /= np.sqrt((E * E).sum(axis=0))
    f = np.zeros(len(E))
    f[-1] = 1.0
    wanted = nnls(E, f)[0] > 0.0
    for guess in (E[-1] > 0.0, wanted, rng.random(m) < 0.5, np.zeros(m, dtype=bool)):
        assert np.array_equal(newton._active(E, guess), wanted)
    # By exchanges alone, which is how it is done where they lead there.
    monkeypatch.setattr(newton, "FEW_EXCHANGES", 100 * m)
    assert np.array_equal(newton._active(E, E[-1] > 0.0), wanted)
