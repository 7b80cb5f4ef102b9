"""Limits for several classes: against refits of new samples, against other ways to the same numbers, and at limits."""

import numpy as np
import pytest
from scipy.interpolate import CubicSpline
from scipy.special import expit, log_softmax, logit, softmax

from calspline import SplineCalibrator, load, save
from calspline.fits import structured as structured_fit
from calspline.multiclass.spread import Spread, limits


def scores(n, m, seed=0):
    rng = np.random.default_rng(seed)
    return softmax(2.0 * rng.normal(size=(n, m)), axis=1)


def outcomes(p, seed, offsets=0.4):
    """Labels where the true log-odds differ from the scores by an offset for each class."""
    rng = np.random.default_rng(seed)
    m = p.shape[1]
    truth = softmax(0.7 * np.log(p) + offsets * np.linspace(-1.0, 1.0, m), axis=1)
    return (np.log(truth) + rng.gumbel(size=p.shape)).argmax(axis=1), truth


def width(band):
    return np.diff(logit(band), axis=-1)[..., 0]


P = scores(3000, 3)
Y, TRUTH = outcomes(P, 0)
Q = scores(200, 3, seed=1)


@pytest.mark.parametrize("options", [{}, {"multiclass": "ovr"}, {"monotone": True}])
def test_limits_hold_the_probability_between_them(options):
    cal = SplineCalibrator(**options).fit(P, Y)
    band, p = cal.interval(Q), cal.predict_proba(Q)
    assert band.shape == (200, 3, 2)
    assert np.all(
        (band[..., 0] > 0.0)
        & (band[..., 0] < p)
        & (p < band[..., 1])
        & (band[..., 1] < 1.0)
    )
    np.testing.assert_allclose(logit(band).mean(axis=2), logit(p), atol=1e-7)
    narrow = cal.interval(Q, level=0.5)
    assert np.all(width(narrow) < width(band))
    np.testing.assert_allclose(
        width(band) / width(narrow), 1.959964 / 0.674490, rtol=1e-4
    )


@pytest.mark.thorough
@pytest.mark.parametrize(("m", "n"), [(3, 2000), (16, 4000)])
def test_limits_are_as_wide_as_fits_to_new_samples_differ(m, n):
    p, grid = scores(n, m), scores(60, m, seed=1)
    fits, widths = [], []
    for seed in range(24):
        cal = SplineCalibrator().fit(p, outcomes(p, seed)[0])
        fits.append(logit(cal.predict_proba(grid)))
        widths.append(width(cal.interval(grid)) / (2.0 * 1.959964))
    common = grid > 0.02
    ratio = np.std(fits, axis=0)[common] / np.mean(widths, axis=0)[common]
    assert (
        0.6 < np.sqrt(np.mean(ratio**2)) < 1.1
    )  # shrinkage has the rest: its bias is in the limits, too


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"multiclass": "ovr"}])
@pytest.mark.parametrize("m", [3, 10])
def test_limits_cover_what_they_promise(m, options):
    covered = []
    for seed in range(6):
        p = scores(2500, m, seed)
        y, truth = outcomes(p, seed, offsets=0.0 if options else 0.4)
        low, high = np.moveaxis(
            SplineCalibrator(**options).fit(p[:2000], y[:2000]).interval(p[2000:]),
            -1,
            0,
        )
        covered.append(np.mean((low <= truth[2000:]) & (truth[2000:] <= high)))
    assert np.mean(covered) > 0.9


def test_the_posterior_is_the_inverse_of_the_penalised_hessian_by_the_delta_method():
    cal = SplineCalibrator(smoothing=10.0).fit(P, Y)  # a number: nothing is averaged
    s, q = cal.structure_, Q[:5]
    natural = CubicSpline(s.breaks, np.eye(len(s.breaks)), bc_type="natural")

    def features(p):
        """``d eta_j`` by what moves it: values of the curve at the breaks, intercepts, the rows of the matrix."""
        u = np.log(
            (1 - s.scale.uniform) * softmax(s.scale.beta * np.log(p), axis=1)
            + s.scale.uniform / 3
        )
        n, k = len(u), len(s.breaks)
        D = np.zeros((n, 3, k + 12))
        inside = np.clip(u, s.breaks[0], s.breaks[-1])
        D[:, :, :k] = natural(inside) + natural(inside, 1) * (u - inside)[..., None]
        for j in range(3):
            D[:, j, k + 4 * j] = 1.0
            D[:, j, k + 4 * j + 1 : k + 4 * j + 4] = u
        return D

    k = len(s.breaks)
    D, p = features(P), cal.predict_proba(P)
    mean = np.einsum("nj,njk->nk", p, D)
    H = np.einsum("nj,njk,njl->kl", p, D, D) - mean.T @ mean
    bends = natural(s.breaks, 2)
    gaps = np.diff(s.breaks)
    curvature = sum(
        h
        / 3.0
        * (np.outer(a, a) + np.outer(b, b) + 0.5 * (np.outer(a, b) + np.outer(b, a)))
        for h, a, b in zip(gaps, bends[:-1], bends[1:], strict=True)
    )
    H[:k, :k] += s.strengths[3] * curvature
    diagonal = np.full((3, 4), s.strengths[2])
    diagonal[:, 0] = s.strengths[0]
    diagonal[np.arange(3), np.arange(3) + 1] = s.strengths[1]
    H[k:, k:] += np.diag(diagonal.ravel())
    # Only the curved part of the curve is free.
    free = np.linalg.svd(s.spread.curves.T, full_matrices=False)
    T = free[0][:, free[1] > 1e-5 * free[1][0]]
    assert T.shape[1] == k - 2
    Z = np.zeros((k + 12, T.shape[1] + 12))
    Z[:k, : T.shape[1]], Z[k:, T.shape[1] :] = T, np.eye(12)
    covariance = Z @ np.linalg.inv(Z.T @ H @ Z) @ Z.T
    D, p = features(q), cal.predict_proba(q)
    for j in range(3):
        others = p.copy()
        others[:, j] = 0.0
        others /= others.sum(axis=1, keepdims=True)
        g = D[:, j] - np.einsum("nj,njk->nk", others, D)
        expected = np.sqrt(np.einsum("nk,kl,nl->n", g, covariance, g))
        np.testing.assert_allclose(
            width(cal.interval(q))[:, j] / (2 * 1.959964), expected, rtol=0.02
        )


def test_the_kronecker_form_agrees_with_all_modes(monkeypatch):
    p = scores(4000, 6)
    y, _ = outcomes(p, 3)
    exact = width(SplineCalibrator().fit(p, y).interval(p[:300]))
    monkeypatch.setattr(structured_fit, "DENSE_CLASSES", 2)
    near = SplineCalibrator().fit(p, y)
    assert near.structure_.spread.left is not None
    ratio = width(near.interval(p[:300])) / exact
    assert 0.7 < np.sqrt(np.mean(ratio**2)) < 1.3


def test_variances_of_its_parts_are_those_of_errors_drawn_from_them():
    rng = np.random.default_rng(0)
    m, breaks = 4, np.array([-8.0, -4.0, -2.0, 0.0])
    left, right = (np.linalg.qr(rng.normal(size=(k, k)))[0] for k in (m, m + 1))
    spread = Spread(
        0.05 * rng.normal(size=(3, 4)),
        0.05 * rng.normal(size=(2, m * (m + 1))),
        0.01 * rng.random((m, 2)),
        left,
        right,
        0.01 * rng.random((m, m + 1)),
    )
    u = log_softmax(rng.normal(size=(1, m)), axis=1)
    p = softmax(rng.normal(size=(1, m)), axis=1)
    found = spread.log_odds_variance(breaks, u, p, np.zeros((1, m)))[0]
    draws, x = 40_000, np.concatenate([[1.0], u[0]])
    e = rng.normal(size=(draws, 3))
    eta = np.einsum(
        "dr,rj->dj", e, CubicSpline(breaks, spread.curves.T, bc_type="natural")(u[0]).T
    )
    eta += np.einsum("dq,qjx,x->dj", e[:, :2], spread.linear.reshape(2, m, m + 1), x)
    eta += rng.normal(size=(draws, m)) * np.sqrt(spread.own[:, 0])
    eta += rng.normal(size=(draws, m)) * np.sqrt(spread.own[:, 1]) * u[0]
    B = left @ (rng.normal(size=(draws, m, m + 1)) * np.sqrt(spread.scale)) @ right.T
    eta += B @ x
    for j in range(m):
        others = np.where(np.arange(m) == j, 0.0, p[0])
        assert np.var(eta[:, j] - eta @ others / others.sum()) == pytest.approx(
            found[j], rel=0.05
        )


def test_rows_that_are_nearly_sure_keep_their_limits():
    sure = softmax(
        np.array([[40.0, 0.0, 0.0], [0.0, 800.0, 0.0], [700.0, 0.0, 0.0]]), axis=1
    )
    for options in ({}, {"multiclass": "ovr"}):
        band = SplineCalibrator(**options).fit(P, Y).interval(sure)
        assert np.all(np.isfinite(band) & (band > 0.0) & (band < 1.0))
    p = np.array([[1.0 - 3e-14, 1e-14, 2e-14]])
    np.testing.assert_allclose(
        logit(limits(p, np.zeros((1, 3)))[..., 0]), np.log(p / (1 - p)), rtol=1e-2
    )


def test_rows_in_groups_have_wider_limits():
    groups = np.repeat(np.arange(600), 5)
    p, y = np.repeat(P[:600], 5, axis=0), np.repeat(Y[:600], 5)
    alone = SplineCalibrator().fit(p, y)
    for options in ({}, {"multiclass": "ovr"}):
        grouped = SplineCalibrator(**options).fit(p, y, groups=groups)
        once = SplineCalibrator(**options).fit(P[:600], Y[:600])
        assert np.all(
            width(grouped.interval(Q)).mean(axis=0)
            > 1.4 * width(alone.interval(Q)).mean(axis=0)
        )
        np.testing.assert_allclose(
            width(grouped.interval(Q)), width(once.interval(Q)), rtol=0.35
        )


@pytest.mark.parametrize("m", [3, 14, 40])
@pytest.mark.parametrize("multiclass", ["structured", "ovr"])
def test_a_file_keeps_the_limits_to_the_last_bit(m, multiclass, tmp_path):
    p = scores(900, m)
    cal = SplineCalibrator(multiclass=multiclass).fit(p, outcomes(p, 1)[0])
    save(cal, tmp_path / "model.json")
    again = load(tmp_path / "model.json")
    np.testing.assert_array_equal(again.interval(p[:50]), cal.interval(p[:50]))
    save(again, tmp_path / "again.json")
    assert (tmp_path / "again.json").read_text() == (
        tmp_path / "model.json"
    ).read_text()


@pytest.mark.parametrize(
    ("part", "value", "message"),
    [
        ("curves", np.ones((99, 1)), "map.spread.curves must have"),
        ("linear", np.ones((1, 5)), "map.spread.linear must have 12 columns"),
        ("own", [[-1.0, 0.0]] * 3, "map.spread.own must not be negative"),
        ("own", [[1e80, 0.0]] * 3, "map.spread.own must be at most 1e\\+50"),
        ("own", np.ones((4, 2)), "map.spread.own must have 3 rows"),
        ("left", np.eye(3), "all be given, or none"),
    ],
)
def test_a_damaged_posterior_is_refused(part, value, message):
    described = SplineCalibrator().fit(P, Y).to_dict()
    array = np.asarray(value)
    stored = {"shape": list(array.shape), "values": array.ravel().tolist()}
    described["map"]["spread"][part] = stored
    with pytest.raises(ValueError, match=message):
        SplineCalibrator.from_dict(described)


def test_limits_of_a_curve_for_each_class_are_those_of_its_own_curve():
    cal = SplineCalibrator(multiclass="ovr").fit(P, Y)
    for j in range(3):
        own = np.diff(logit(cal.curves_[j].band(Q[:, j])))[:, 0]
        np.testing.assert_allclose(width(cal.interval(Q))[:, j], own, rtol=1e-6)


def test_limits_know_segments_where_each_class_has_a_curve():
    by = np.where(np.arange(len(P)) % 3 == 0, "a", "b")
    y = np.where((by == "a") & (np.arange(len(P)) % 2 == 0), 0, Y)
    cal = SplineCalibrator(multiclass="ovr").fit(P, y, by=by)
    band, p = (
        cal.interval(Q, by=np.full(200, "a")),
        cal.predict_proba(Q, by=np.full(200, "a")),
    )
    assert np.all((band[..., 0] < p) & (p < band[..., 1]))
    structured = SplineCalibrator().fit(P, y, by=by)
    with pytest.raises(ValueError, match='only with multiclass="ovr"'):
        structured.interval(Q, by=np.full(200, "a"))


def test_limits_move_with_the_base_rates_and_widen_if_they_are_estimated():
    cal = SplineCalibrator().fit(P, Y)
    rates = cal.model_.reference.base_rates
    moved = cal.shifted(base_rate=dict(enumerate(rates[[1, 2, 0]])))
    band, p = moved.interval(Q), moved.predict_proba(Q)
    np.testing.assert_allclose(expit(logit(band).mean(axis=2)), p, atol=1e-6)
    np.testing.assert_allclose(
        cal.shifted(base_rate=dict(enumerate(rates))).interval(Q),
        cal.interval(Q),
        rtol=1e-9,
    )
    estimated = cal.shifted(unlabelled=Q)
    assert np.all(width(estimated.interval(Q)) > 1.05 * width(cal.interval(Q)).min())
    assert width(estimated.interval(Q)).mean() > 1.2 * width(cal.interval(Q)).mean()


def test_what_cannot_be_had_is_an_error():
    cal = SplineCalibrator().fit(P, Y)
    with pytest.raises(ValueError, match="simultaneous must be False"):
        cal.interval(Q, simultaneous=True)
    with pytest.raises(ValueError, match="level"):
        cal.interval(Q, level=1.0)
    with pytest.raises(ValueError, match='loss="log"'):
        SplineCalibrator(multiclass="ovr", loss="brier").fit(P, Y).interval(Q)
    assert cal.interval(np.empty((0, 3))).shape == (0, 3, 2)
