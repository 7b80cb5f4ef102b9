import numpy as np
import pytest
from scipy.optimize import minimize, minimize_scalar
from scipy.special import log_softmax, softmax
from sklearn.exceptions import ConvergenceWarning

from calspline import SplineCalibrator
from calspline.fits.structured import (
    Linear,
    fit_increasing,
    fit_joint,
    fit_many,
    fit_structured,
)
from calspline.multiclass import solver
from calspline.multiclass.scale import Scale, fit_temperature, floor_log_softmax
from calspline.multiclass.solver import (
    MIN_STRENGTH,
    CurveAndMatrix,
    CurveOnly,
    FitData,
    Strengths,
    first_strengths,
    matrix_groups,
    solve,
)


def rows(n=300, m=4, seed=0, bend=0.4):
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 1.5, (n, m)) + np.linspace(0.4, -0.4, m)
    truth = softmax(logits, axis=1)
    y = (truth.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    return (
        log_softmax(2.0 * logits + bend * np.sin(2 * logits), axis=1),
        y,
        rng.uniform(0.5, 2.0, n),
    )


def prepared(free_slope=False, **kwargs):
    z, y, w = rows(**kwargs)
    return FitData.on_scale(Scale(-40.0, 0.7, 1e-3), z, y, w, free_slope=free_slope)


def finite_differences(f, theta, h=1e-5):
    return np.array(
        [(f(theta + h * e) - f(theta - h * e)) / (2 * h) for e in np.eye(len(theta))]
    )


@pytest.mark.parametrize("free_slope", [False, True])
@pytest.mark.parametrize("kind", [CurveAndMatrix, CurveOnly])
def test_gradient_and_hessian_agree_with_finite_differences(kind, free_slope):
    problem = kind(prepared(free_slope))
    theta = 0.1 * np.random.default_rng(1).normal(size=len(problem.group))
    _, gradient, hessian = problem.at(theta).local
    np.testing.assert_allclose(
        gradient, finite_differences(lambda t: problem.at(t).local[0], theta), atol=1e-4
    )
    np.testing.assert_allclose(
        hessian, finite_differences(lambda t: problem.at(t).local[1], theta), atol=1e-3
    )


@pytest.mark.parametrize("matrix", [True, False])
def test_the_gradient_for_many_classes_agrees_with_finite_differences(matrix):
    data = prepared()
    linear = Linear(data, 0.1 * np.ones(data.cells.basis.size), matrix=matrix)
    B = 0.1 * np.random.default_rng(2).normal(size=linear.group.shape)
    _, gradient = linear.local(B)
    numerical = finite_differences(
        lambda b: linear.local(b.reshape(B.shape))[0], B.ravel()
    )
    np.testing.assert_allclose(gradient.ravel(), numerical, atol=1e-4)


def test_the_loss_is_the_log_loss_of_the_model():
    data = prepared()
    problem = CurveAndMatrix(data)
    theta = 0.1 * np.random.default_rng(3).normal(size=len(problem.group))
    v, b, W = problem.split(theta)
    u = data.u
    bend = (data.cells.table @ v)[data.cells.cell]
    log_p = log_softmax(u + bend + u @ W.T + b, axis=1)
    expected = -data.w @ log_p[np.arange(len(data.y)), data.y]
    assert problem.at(theta).local[0] == pytest.approx(expected)


def test_with_a_free_slope_the_line_is_a_temperature_with_a_normal_prior_around_one():
    data = prepared(free_slope=True, n=2000, bend=0.0)
    problem = CurveAndMatrix(data)
    strengths = Strengths(
        data.strengths(problem.group).most,
        problem.group,
        dict.fromkeys(range(4), 1e12) | {4: 0.7**2},
    )
    theta, *_ = solve(problem, strengths, problem.start)
    v, _, _ = problem.split(theta)

    def loss(beta):
        log_p = log_softmax(beta / 0.7 * data.u, axis=1)
        return -(data.w @ log_p[np.arange(len(data.y)), data.y]) + 0.5 * (beta - 1) ** 2

    reference = minimize_scalar(loss, bracket=(0.3, 1.0), tol=1e-12).x
    curve = data.cells.basis.curve(v)
    np.testing.assert_allclose(
        curve.slope(np.linspace(-5.0, 0.0, 9)), reference / 0.7, rtol=1e-4
    )
    np.testing.assert_allclose(
        curve(np.linspace(-5.0, 0.0, 9)),
        reference / 0.7 * np.linspace(-5.0, 0.0, 9),
        rtol=1e-4,
    )


def test_the_temperature_is_that_of_an_independent_minimiser():
    z, y, w = rows(bend=0.0)

    def loss(t):
        return (
            -(w @ log_softmax(np.exp(t) * z, axis=1)[np.arange(len(y)), y])
            + 0.5 * t * t
        )

    reference = np.exp(minimize_scalar(loss, bracket=(-1, 0), tol=1e-12).x)
    assert fit_temperature(z, y, w).beta == pytest.approx(reference, rel=1e-6)


def test_infinite_smoothing_and_shrinkage_leave_temperature_scaling():
    z, y, w = rows(n=1000)
    beta = fit_temperature(z, y, w).beta
    data = FitData.on_scale(Scale(-88.0, beta, 1e-12), z.copy(), y, w)
    problem = CurveAndMatrix(data)
    strengths = Strengths(
        first_strengths(4, 1000.0), problem.group, dict.fromkeys(range(4), 1e12)
    )
    theta, *_ = solve(problem, strengths, np.zeros(len(problem.group)))
    np.testing.assert_allclose(theta, 0.0, atol=1e-9)
    np.testing.assert_allclose(np.exp(data.u), softmax(beta * z, axis=1), atol=1e-9)


def test_strengths_are_the_fixed_point_of_mackays_update():
    data = prepared(n=800)
    problem, most = CurveAndMatrix(data), first_strengths(4, float(data.w.sum()))
    strengths = Strengths(most, problem.group)
    theta, *_ = solve(problem, strengths, np.zeros(len(problem.group)))
    np.testing.assert_array_equal(fit_joint(data).map.strengths, strengths.alpha)
    _, _, hessian = problem.at(theta).local
    q = strengths.each
    inverse = np.diagonal(np.linalg.inv(hessian + np.diag(q)))
    gamma = np.bincount(problem.group, weights=1 - q * inverse, minlength=4)
    size = np.bincount(problem.group, weights=theta**2, minlength=4)
    target = np.minimum((gamma + 2) / (size + 2 / most), most)
    np.testing.assert_allclose(np.log(strengths.alpha), np.log(target), atol=0.05)


def test_both_solvers_find_about_the_same():
    z, y, w = rows(n=3000, m=6)
    data = FitData.on_scale(Scale(-40.0, 0.7, 1e-3), z, y, w)
    losses = []
    for fit, *_ in (
        fit_joint(data),
        fit_many(data, matrix=True),
        fit_many(data, matrix=False),
    ):
        W = fit.W if fit.W.ndim == 2 else np.diag(fit.W)
        log_p = log_softmax(fit.curve(data.u) + data.u @ W.T + fit.b, axis=1)
        losses.append(-data.w @ log_p[np.arange(len(data.y)), data.y] / data.w.sum())
    assert losses[1] == pytest.approx(losses[0], abs=0.005)
    assert losses[2] == pytest.approx(losses[0], abs=0.01)


def test_a_held_strength_stays():
    z, y, w = rows()
    fit = fit_structured(z, y, w, curve_strength=123.0)
    assert fit.strengths[3] == 123.0


def test_a_curve_over_fewer_than_four_places_is_a_line():
    z = np.log(np.array([[0.5, 0.25, 0.25], [0.25, 0.5, 0.25]] * 20))
    fit = fit_structured(z, np.arange(40) % 2, np.ones(40))
    np.testing.assert_allclose(fit.coefficients[:2], 0.0)


def votes(seed, n):
    """Shares of ten votes, labels at random and weights over twelve decades."""
    rng = np.random.default_rng(seed)
    p = rng.multinomial(10, rng.dirichlet(np.ones(5)), n) / 10
    return p, rng.integers(0, 5, n), 10.0 ** rng.uniform(-6, 6, n)


@pytest.mark.filterwarnings("ignore:sample_weight sums to")
@pytest.mark.parametrize(("seed", "n"), [(13, 60), (5, 100), (6, 10), (40, 10)])
def test_weights_over_twelve_decades_take_many_steps_and_come_to_an_end(
    seed, n, monkeypatch
):
    p, y, w = votes(seed, n)
    cal = SplineCalibrator().fit(p, y, w)
    assert cal.converged_
    assert cal.structure_.strengths.min() >= MIN_STRENGTH
    expected = cal.predict_proba(p)
    monkeypatch.setattr(solver, "MAX_STEPS", 5000)
    np.testing.assert_array_equal(cal.fit(p, y, w).predict_proba(p), expected)


def test_an_increasing_curve_is_the_best_of_those_that_increase():
    rng = np.random.default_rng(3)
    z = 3.0 * rng.normal(size=(3000, 3))
    u = z - z.max(axis=1, keepdims=True)
    true = softmax(
        u + 4.0 * np.exp(-((u + 4.0) ** 2)), axis=1
    )  # a hump, behind which the free curve falls
    y = (true.cumsum(axis=1) > rng.random((len(z), 1))).argmax(axis=1)
    w, strength = np.ones(len(y)), 0.1
    x, floor = floor_log_softmax(z, w)
    data = FitData.on_scale(Scale(floor, fit_temperature(x, y, w).beta, 1e-3), x, y, w)
    fit = fit_increasing(data, strength).map
    assert fit.converged

    problem, basis = CurveOnly(data), data.cells.basis
    places = np.linspace(*basis.spline.knots[[0, -1]], 400)
    line = basis.curve(np.zeros(basis.size)).slope(places)
    bends = np.column_stack(
        [basis.curve(v).slope(places) - line for v in np.eye(basis.size)]
    )

    def penalised(v):
        value, gradient, _ = problem.at(v).local
        return value + 0.5 * strength * v @ v, gradient + strength * v

    rising = {"type": "ineq", "fun": lambda v: line + bends @ v, "jac": lambda v: bends}
    best = minimize(
        penalised, np.zeros(basis.size), jac=True, method="SLSQP", constraints=[rising]
    )
    assert best.success
    assert fit.slope(places).min() > 0.0
    log_p = log_softmax(fit.curve(data.u) + fit.b, axis=1)
    loss = -log_p[np.arange(len(y)), y].sum()
    # B-spline coefficients that rise are a little more than a curve that does: that
    # costs 2 of 120 nats.
    assert problem.at(best.x).local[0] - 0.1 < loss < problem.at(best.x).local[0] + 5.0


@pytest.mark.filterwarnings("ignore:sample_weight sums to")
@pytest.mark.parametrize("monotone", [False, True])
def test_running_out_of_steps_is_reported(monotone, monkeypatch):
    p, y, w = votes(0, 60)
    monkeypatch.setattr(solver, "MAX_STEPS", 2)
    with pytest.warns(ConvergenceWarning, match="did not converge"):
        cal = SplineCalibrator(monotone=monotone).fit(p, y, w)
    assert not cal.converged_


@pytest.mark.filterwarnings("ignore:sample_weight sums to")
@pytest.mark.parametrize(("seed", "n"), [(6, 10), (42, 10)])
def test_strengths_that_run_off_are_taken_back(seed, n):
    p, y, w = votes(seed, n)
    x, floor = floor_log_softmax(np.log(np.maximum(p, 1e-300)), w)
    data = FitData.on_scale(Scale(floor, fit_temperature(x, y, w).beta, 1e-6), x, y, w)
    problem = CurveAndMatrix(data)
    strengths = Strengths(first_strengths(5, float(w.sum())), problem.group)
    theta, converged, *_ = solve(problem, strengths, np.zeros(len(problem.group)))
    _, g, H = problem.at(theta).local
    q = strengths.each
    slope = g + q * theta
    assert converged
    assert slope @ np.linalg.solve(H + np.diag(q), slope) < 1e-3


def shrunk(h, free, alpha):
    """Strengths at their most, and their group's estimates about ``free``, of which the data say ``h``."""
    strengths = Strengths(np.array([alpha]), np.zeros(len(h), dtype=np.intp))
    strengths.update(h / (h + alpha) * free, 1.0 / (h + alpha))
    return strengths


def test_more_shrinkage_than_the_most_is_asked_for_where_its_marginal_likelihood_is_largest():
    rng = np.random.default_rng(5)
    h, alpha = rng.uniform(20.0, 200.0, 60), 50.0
    free = rng.normal(0.0, np.sqrt(1.0 / h + 1.0 / 600.0))

    def lost(log_a):
        # Normal densities, and the Gamma prior of two pseudo-observations with variance
        # 1 / alpha.
        a = np.exp(log_a)
        variance = 1.0 / h + 1.0 / a
        return 0.5 * (np.log(variance) + free**2 / variance).sum() - log_a + a / alpha

    best = minimize_scalar(
        lost,
        bounds=(np.log(alpha), np.log(1e5)),
        method="bounded",
        options={"xatol": 1e-10},
    )
    strengths = shrunk(h, free, alpha)
    assert strengths.alpha[0] == alpha
    assert strengths.asked(0) == pytest.approx(np.exp(best.x), rel=1e-5)
    assert strengths.asked(0) > 3.0 * alpha


@pytest.mark.parametrize("spread", [1.0, 0.3])
def test_a_group_that_shrinks_too_much_or_just_enough_asks_for_no_more(spread):
    rng = np.random.default_rng(6)
    strengths = shrunk(np.full(40, 100.0), rng.normal(0.0, spread, 40), 50.0)
    assert strengths.asked(0) == pytest.approx(strengths.alpha[0], rel=1e-12)
    before = Strengths(np.array([50.0]), np.zeros(3, dtype=np.intp))
    assert before.asked(0) == 50.0


def test_the_error_of_a_shrunk_estimate_is_that_of_noise_and_of_what_is_shrunk():
    rng = np.random.default_rng(7)
    group = np.array([0] * 20 + [1] * 30)
    design = rng.normal(size=(200, 50))
    hessian = design.T @ design
    strengths = Strengths(np.array([300.0, 40.0]), group)
    H = hessian + np.diag(strengths.each)
    inverse = np.linalg.inv(H)
    strengths.update(0.01 * rng.normal(size=50), np.diag(inverse))
    strengths.alpha = strengths.most.copy()
    asked = np.array([strengths.asked(0), 40.0])
    assert asked[0] > 600.0
    # For theta ~ N(0, 1 / a), the estimate is H^{-1} (hessian theta + noise), and noise
    # has the Hessian's covariance.
    missed = inverse @ hessian - np.eye(50)
    expected = (
        missed @ np.diag(1.0 / asked[group]) @ missed.T + inverse @ hessian @ inverse
    )
    root = strengths.error_root(np.linalg.cholesky(inverse), [0])
    np.testing.assert_allclose(root @ root.T, expected, atol=1e-12)


def test_limits_know_that_a_matrix_was_shrunk_too_little():
    z, y, w = rows(n=3000, m=8, bend=0.0)
    data = FitData.on_scale(Scale(-40.0, 0.5, 1e-3), z, y, w, free_slope=True)
    fit = fit_joint(data).map
    assert fit.strengths[2] == first_strengths(8, w.sum())[2]
    problem = CurveAndMatrix(data)
    k = data.cells.basis.size
    theta = np.concatenate(
        [data.cells.basis.straight, np.column_stack([fit.b, fit.W]).ravel()]
    )
    each = np.append(fit.strengths, data.strengths(problem.group).alpha[4:])[
        problem.group
    ]
    posterior = np.linalg.inv(problem.at(theta).local[2] + np.diag(each))[k:, k:]
    others = matrix_groups(8).ravel() == 2
    variance = (fit.spread.linear**2).sum(axis=0)[others]
    assert np.all(variance < 0.8 * np.diag(posterior)[others])
    assert fit.W[~np.eye(8, dtype=bool)].var() < variance.mean()
