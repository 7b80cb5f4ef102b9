"""Effects of segments, against dense references and in simulation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from calspline.fits.segments import (
    FULL,
    Counted,
    curve_components,
    effect_directions,
    hold_back_column,
)
from calspline.fitting import segments
from calspline.fitting.basis import NaturalSpline, PiecewiseCubic
from calspline.fitting.segment_columns import fit_columns
from calspline.fitting.segments import Components

KNOTS = np.linspace(0.0, 1.0, 9)


def simulated(S, n, sd, *, seed=0, columns=1, n_places=40):
    """Rows of S segments in each of some columns, whose log-odds differ by intercept and slope."""
    rng = np.random.default_rng(seed)
    z = (np.arange(n_places) + 0.5) / n_places
    codes = [rng.integers(0, S, n) for _ in range(columns)]
    place = rng.integers(0, n_places, n)
    R = (
        NaturalSpline(KNOTS)
        .design(z)
        .dot(effect_directions(KNOTS, z, np.ones(n_places)))
    )
    truth = [rng.normal(size=(S, 2)) * sd for _ in range(columns)]
    offset = 3.0 * (z - 0.5)
    eta = offset[place] + sum(
        (R[place, :2] * t[c]).sum(axis=1) for t, c in zip(truth, codes, strict=True)
    )
    s = (rng.random(n) < expit(eta)).astype(float)
    order = np.argsort(codes[0], kind="stable")
    offset = (
        LogisticRegression(C=np.inf)
        .fit(z[place, None], s)
        .decision_function(z[:, None])
    )
    counted = Counted(
        R,
        place[order],
        offset[place][order],
        np.ones(n),
        s[order],
        [c[order] for c in codes],
    )
    return counted, truth


def weighted_labels(counted):
    """Weights and positives for which the curve of all rows is the best: those of rows that are calibrated by the
    curve with the best common effect, as they appear to the curve without."""
    R = counted.directions[counted.place]
    best = minimize(
        lambda v: (
            np.logaddexp(0.0, counted.offset + R @ v).sum()
            - counted.s @ (counted.offset + R @ v)
        ),
        np.zeros(R.shape[1]),
        jac=lambda v: R.T @ (expit(counted.offset + R @ v) - counted.s),
        method="BFGS",
        options={"gtol": 1e-7},
    ).x
    p, q = expit(counted.offset), expit(counted.offset + R @ best)
    s = counted.s * (1.0 - q) / (1.0 - p)
    return s + (1.0 - counted.s) * q / p, s


def dense(counted, effects, components):
    """Gradient and Hessian in all coordinates (beta, theta of each column), by plain matrices."""
    R = counted.directions[counted.place]
    m = R.shape[1]
    blocks = [R]
    penalty = [np.where(components.common < 0, 0.2, 0.0)]
    shared = np.zeros(m)
    for code, each in zip(counted.codes, effects, strict=True):
        S = len(each.theta)
        indicator = (code[:, None] == np.arange(S)).astype(float)
        blocks.append((indicator[:, :, None] * R[:, None, :]).reshape(len(R), -1))
        tau = each.variances[components.kind]
        penalty.append(
            np.tile(np.where(tau > 0.0, 1.0 / np.where(tau > 0.0, tau, 1.0), 1e9), S)
        )
        shared = np.where(
            components.common < 0,
            0.2,
            1.0 / np.maximum(each.variances[components.common], 1e-9),
        )
    penalty[0] = shared
    Z, q = np.hstack(blocks), np.concatenate(penalty)
    w, s = weighted_labels(counted)

    def gradient(u):
        return Z.T @ (w * expit(counted.offset + Z @ u) - s) + q * u

    def hessian(u):
        p = expit(counted.offset + Z @ u)
        return (Z.T * (w * p * (1.0 - p))) @ Z + np.diag(q)

    return gradient, hessian, Z.shape[1]


@pytest.mark.parametrize("columns", [1, 2])
def test_the_mode_is_that_of_a_dense_optimiser(columns):
    counted, _ = simulated(6, 3000, (0.6, 0.3), columns=columns)
    components = curve_components(counted.directions.shape[1])
    effects = fit_columns(counted, components)
    gradient, hessian, size = dense(counted, effects, components)
    found = np.zeros(size)
    for _ in range(30):
        found -= np.linalg.solve(hessian(found), gradient(found))
    ours = np.concatenate([effects[-1].beta, *(each.theta.ravel() for each in effects)])
    assert all(each.converged for each in effects)
    R = counted.directions
    m = R.shape[1]
    np.testing.assert_allclose(R @ ours[:m], R @ found[:m], atol=2e-4)
    np.testing.assert_allclose(
        ours[m:].reshape(-1, m) @ R.T, found[m:].reshape(-1, m) @ R.T, atol=2e-4
    )


def test_covariances_are_blocks_of_the_dense_inverse():
    counted, _ = simulated(5, 4000, (0.6, 0.3), seed=3)
    components = curve_components(counted.directions.shape[1])
    (effects,) = fit_columns(counted, components)
    _, hessian, _ = dense(counted, [effects], components)
    m, S = len(effects.beta), len(effects.theta)
    H = hessian(np.concatenate([effects.beta, effects.theta.ravel()]))
    C = np.linalg.inv(H)
    np.testing.assert_allclose(effects.covariance, C[:m, :m], atol=1e-6)
    for s in range(S):
        own = slice(m + s * m, m + (s + 1) * m)
        both = C[:m, :m] + C[own, own] + C[:m, own] + C[own, :m]
        np.testing.assert_allclose(
            effects.covariance + effects.difference[s], both, atol=1e-6
        )
        given = np.diag(np.linalg.inv(H[own, own]))
        np.testing.assert_allclose(effects.sd[s] ** 2, given, atol=1e-6)
        tau = effects.variances[components.kind]
        np.testing.assert_allclose(
            effects.kept[s],
            np.where(tau > 0.0, 1.0 - given / np.maximum(tau, 1e-9), 0.0),
            atol=1e-4,
        )


def test_few_rounds_find_variances_far_from_the_start():
    counted, truth = simulated(200, 100_000, (1.5, 0.4), seed=5)
    (effects,) = fit_columns(counted, curve_components(counted.directions.shape[1]))
    assert effects.converged
    assert effects.n_iter <= 10
    np.testing.assert_allclose(
        np.sqrt(effects.variances[:2]), truth[0].std(axis=0), rtol=0.1
    )


@pytest.mark.slow
def test_variances_are_a_fixed_point_of_mackay():
    counted, _ = simulated(40, 20000, (0.5, 0.3))
    components = curve_components(counted.directions.shape[1])._replace(
        usual=np.full(4, np.inf)
    )
    (effects,) = fit_columns(counted, components)
    assert effects.variances[:2].all()
    _, hessian, _ = dense(counted, [effects], components)
    V = np.diag(
        np.linalg.inv(hessian(np.concatenate([effects.beta, effects.theta.ravel()])))
    )[8:].reshape(40, 8)
    for j in (0, 1):
        tau = effects.variances[j]
        free = (1.0 - V[:, j] / tau).sum()
        assert tau == pytest.approx((effects.theta[:, j] ** 2).sum() / free, rel=2e-3)


def test_variances_are_found():
    counted, truth = simulated(300, 60000, (0.7, 0.3))
    (effects,) = fit_columns(counted, curve_components(counted.directions.shape[1]))
    np.testing.assert_allclose(
        np.sqrt(effects.variances[:2]), truth[0].std(axis=0), rtol=0.12
    )
    R = counted.directions
    offset = np.empty(len(R))
    offset[counted.place] = counted.offset
    ours = offset + (effects.beta + effects.theta) @ R.T
    true = 3.0 * ((np.arange(40) + 0.5) / 40 - 0.5) + truth[0] @ R[:, :2].T
    sd = np.sqrt(
        np.einsum("ij,sjk,ik->si", R, effects.difference + effects.covariance, R)
    )
    assert 0.93 < (np.abs(ours - true) < 1.96 * sd).mean() < 0.98


def test_a_table_of_all_places_gives_the_same_sums():
    rows, _ = simulated(30, 9000, [0.5, 0.3])
    cell, own = np.unique(rows.codes[0] * 40 + rows.place, return_inverse=True)
    w, s = np.bincount(own), np.bincount(own, weights=rows.s)
    offset = np.bincount(own, weights=rows.offset) / w
    counted = Counted(
        rows.directions, cell % 40, offset, w.astype(float), s, [cell // 40]
    )
    assert len(cell) > FULL * 30 * 40
    U = np.random.default_rng(0).normal(size=(30, rows.directions.shape[1]))
    for found, wanted in zip(
        counted.likelihood()(U), rows.likelihood()(U), strict=True
    ):
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-10)


def test_each_of_two_columns_has_its_own_variance():
    counted, truth = simulated(60, 40000, (0.5, 0.0), columns=2)
    first, second = fit_columns(counted, curve_components(counted.directions.shape[1]))
    for effects, true in zip((first, second), truth, strict=True):
        assert np.corrcoef(effects.theta[:, 0], true[:, 0])[0, 1] > 0.95
        assert np.sqrt(effects.variances[0]) == pytest.approx(
            true[:, 0].std(), rel=0.15
        )


def test_where_nothing_differs_nothing_is_added():
    counted, _ = simulated(30, 3000, (0.0, 0.0), seed=1)
    (effects,) = fit_columns(counted, curve_components(counted.directions.shape[1]))
    assert not effects.spread.any()
    assert not effects.theta.any()
    assert not effects.beta.any()


def test_effects_do_not_depend_on_the_numbers_of_segments():
    counted, _ = simulated(12, 6000, (0.5, 0.2))
    components = curve_components(counted.directions.shape[1])
    turned = 11 - counted.codes[0]
    other = Counted(
        counted.directions,
        counted.place,
        counted.offset,
        counted.w,
        counted.s,
        [turned],
    )
    a, b = fit_columns(counted, components)[0], fit_columns(other, components)[0]
    np.testing.assert_allclose(a.theta, b.theta[::-1], atol=1e-9)


def test_rows_without_a_segment_are_left_out():
    counted, _ = simulated(12, 6000, (0.5, 0.2))
    components = curve_components(counted.directions.shape[1])
    missing = np.arange(6000) % 5 == 0
    code = np.where(missing, -1, counted.codes[0])
    keep = ~missing
    fewer = Counted(
        counted.directions,
        counted.place[keep],
        counted.offset[keep],
        counted.w[keep],
        counted.s[keep],
        [code[keep]],
    )
    a = fit_columns(
        Counted(
            counted.directions,
            counted.place,
            counted.offset,
            counted.w,
            counted.s,
            [code],
        ),
        components,
    )[0]
    np.testing.assert_allclose(
        a.theta, fit_columns(fewer, components)[0].theta, atol=1e-12
    )


def test_only_the_kinds_that_are_asked_for_have_effects():
    counted, _ = simulated(12, 6000, (0.5, 0.5))
    (effects,) = fit_columns(counted, curve_components(counted.directions.shape[1], 1))
    assert effects.theta[:, 0].any()
    assert not effects.theta[:, 1:].any()


def test_one_direction_is_enough():
    counted, _ = simulated(12, 6000, (0.5, 0.0))
    flat = Counted(
        np.ones((len(counted.directions), 1)),
        counted.place,
        counted.offset,
        counted.w,
        counted.s,
        counted.codes,
    )
    (effects,) = fit_columns(flat, curve_components(1))
    assert effects.theta.shape == (12, 1)
    assert effects.variances[0] > 0.0


def test_a_search_that_is_cut_short_says_so(monkeypatch):
    monkeypatch.setattr(segments, "MAX_ROUNDS", 2)
    counted, _ = simulated(12, 6000, (0.5, 0.2))
    assert not fit_columns(counted, curve_components(counted.directions.shape[1]))[
        0
    ].converged


def test_a_step_too_long_is_halved():
    def steep(U):  # log cosh, on which Newton's full step overshoots
        value = np.logaddexp(U, -U).sum()
        return segments.Summed(
            float(value), np.tanh(U), (1.0 - np.tanh(U) ** 2)[:, :, None]
        )

    def state(beta, theta):
        return segments._State(beta, theta, steep(beta + theta))

    now = state(np.zeros(1), np.full((1, 1), 3.0))
    only = np.zeros(1, dtype=np.intp)
    arrow = segments.Arrowhead(
        now.summed.hessian,
        np.full(1, 25.0),
        Components(only, only, np.ones(1), np.ones(1)),
    )
    to_beta, to_theta, promised = arrow.step(now)
    assert arrow.objective(state(to_beta, now.theta + to_theta)) > arrow.objective(now)
    found, also_promised = segments._descend(now, arrow, state)
    assert arrow.objective(found) < arrow.objective(now)
    assert also_promised == promised
    worse = now._replace(summed=now.summed._replace(value=np.inf))
    assert segments._descend(now, arrow, lambda beta, theta: worse)[0] is now


def test_directions_are_one_a_line_and_bends_of_the_same_curvature():
    rng = np.random.default_rng(0)
    z, w = np.sort(rng.random(500)), rng.random(500)
    T = effect_directions(KNOTS, z, w)
    assert T.shape == (9, 8)
    rows = NaturalSpline(KNOTS).design(z).dot(T)
    np.testing.assert_allclose(rows[:, 0], 1.0)
    np.testing.assert_allclose(w @ rows[:, 1:], 0.0, atol=1e-9)
    gram = (rows.T * w) @ rows / w.sum()
    np.testing.assert_allclose(gram - np.diag(np.diag(gram)), 0.0, atol=1e-9)
    np.testing.assert_allclose(np.diag(gram)[:3], 1.0)
    assert (np.diff(np.diag(gram)[2:]) < 0.0).all()
    curvature = np.einsum("ij,ik,kj->j", T, NaturalSpline(KNOTS).curvature, T)
    np.testing.assert_allclose(curvature[:2], 0.0, atol=1e-9)
    np.testing.assert_allclose(curvature[2:], curvature[2])


def test_with_two_knots_there_is_only_the_line():
    assert effect_directions(
        np.array([0.0, 1.0]), np.linspace(0.0, 1.0, 20), np.ones(20)
    ).shape == (2, 2)


def curves_of(effects, pieces, curve):
    """Curves of all segments on a fine grid."""
    z = np.linspace(0.0, 1.0, 4001)
    piece, t = curve.locate(z)
    R = sum(pieces[k][piece] * t[:, None] ** (3 - k) for k in range(4))
    return curve(z) + effects.theta @ R.T


@pytest.mark.parametrize("forgiven", [0.0, 5.0])
def test_a_segment_falls_only_where_that_is_clear(forgiven):
    rng = np.random.default_rng(1)
    counted, _ = simulated(20, 4000, (0.3, 0.0))
    falling = counted.codes[0] == 0
    s = np.where(
        falling,
        (rng.random(4000) < expit(-3.0 * counted.offset)).astype(float),
        counted.s,
    )
    counted = Counted(
        counted.directions, counted.place, counted.offset, counted.w, s, counted.codes
    )
    components = Components(*curve_components(8))
    (effects,) = fit_columns(counted, components)
    basis = NaturalSpline(KNOTS)
    pieces = basis.pieces @ effect_directions(
        KNOTS, (np.arange(40) + 0.5) / 40, np.ones(40)
    )
    coefficients = basis.pieces @ (3.0 * (basis.line[1] - 0.5))
    curve = PiecewiseCubic(KNOTS, coefficients)
    kept = hold_back_column(effects, counted, 0, curve, pieces, np.zeros(8), forgiven)
    falls = np.diff(curves_of(kept, pieces, curve), axis=1).min(axis=1) < 0.0
    assert np.diff(curves_of(effects, pieces, curve), axis=1).min() < 0.0
    assert falls.tolist() == [forgiven > 0.0] + [False] * 19
    np.testing.assert_array_equal(kept.theta[:, 0], effects.theta[:, 0])


def test_effects_without_slopes_need_no_holding_back():
    counted, _ = simulated(12, 6000, (0.5, 0.0))
    (effects,) = fit_columns(counted, curve_components(8, 1))
    curve = PiecewiseCubic(KNOTS, np.zeros((4, 10)))
    assert (
        hold_back_column(
            effects, counted, 0, curve, np.zeros((4, 10, 8)), np.zeros(8), 0.0
        )
        is effects
    )
