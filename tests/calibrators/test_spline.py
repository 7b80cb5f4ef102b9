import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
from scipy.interpolate import CubicSpline
from scipy.special import erf, expit, logit
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss, log_loss

from calspline import ScoreHistogram, SplineCalibrator
from calspline.fitting import newton
from calspline.fitting.basis import NaturalSpline, natural_cubic_basis
from calspline.fitting.fit import soft_targets
from calspline.maps.log_odds import critical_value
from calspline.transforms import Transform

GRID = np.linspace(0, 1, 501)


def excess(p_true, p):
    """Expected log-loss beyond that of the truth."""
    return float(
        np.mean(
            p_true * np.log(p_true / p) + (1 - p_true) * np.log((1 - p_true) / (1 - p))
        )
    )


# Accuracy


def test_a_distorted_model_is_set_right(simulated):
    p, y, p_true = simulated(20_000)
    cal = SplineCalibrator().fit(p, y)
    assert excess(p_true, cal.calibrate(p)) < 1e-3
    assert excess(p_true, cal.calibrate(p)) < 0.05 * excess(p_true, p)


def test_a_rough_truth_gets_the_knots_it_needs_and_a_smooth_one_none_more():
    rng = np.random.default_rng(0)
    x = rng.normal(0, 1.5, 100_000)
    p, draws = expit(x), rng.random(100_000)
    steps = expit(np.floor(1.5 * x) / 1.5)
    given = SplineCalibrator(n_knots=38).fit(p, draws < steps)
    rough = SplineCalibrator().fit(p, draws < steps)
    assert excess(steps, rough.calibrate(p)) < 0.75 * excess(steps, given.calibrate(p))
    assert len(rough.knots_) == 128
    assert len(SplineCalibrator().fit(p, draws < expit(0.5 * x)).knots_) == 38


def test_a_rough_truth_over_few_scores_has_a_knot_at_each():
    rng = np.random.default_rng(1)
    chance, scores = rng.random(31), np.arange(31) / 30
    rows = rng.integers(0, 31, 50_000)
    cal = SplineCalibrator().fit(scores[rows], rng.random(50_000) < chance[rows])
    assert len(cal.knots_) == 31
    np.testing.assert_allclose(cal.calibrate(scores), chance, atol=0.05)


def test_a_given_smoothing_is_not_answered_with_more_knots(simulated):
    p, y, _ = simulated(5_000)
    assert len(SplineCalibrator(smoothing=0.0).fit(p, y).knots_) == 24


@pytest.mark.parametrize("n", [100_000, 1_000_000])
def test_the_excess_loss_is_at_most_half_that_of_isotonic_regression(simulated, n):
    p, y, _ = simulated(n)
    q, _, q_true = simulated(50_000, seed=99)
    isotonic = np.clip(
        IsotonicRegression(out_of_bounds="clip").fit(p, y).predict(q), 1e-9, 1 - 1e-9
    )
    assert excess(q_true, SplineCalibrator().fit(p, y).calibrate(q)) <= 0.5 * excess(
        q_true, isotonic
    )


def test_a_calibrated_model_is_left_almost_alone(simulated):
    p, y, _ = simulated(5000, truth=lambda u: u)
    cal = SplineCalibrator().fit(p, y)
    assert np.abs(cal.calibrate(GRID) - GRID).max() < 0.03
    assert cal.edf_ < 3


@pytest.mark.parametrize("smoothing", ["reml", "cv", 0.01])
@pytest.mark.parametrize("penalty", ["curvature", "ridge"])
@pytest.mark.parametrize("loss", ["log", "brier"])
def test_every_combination_of_options_calibrates(simulated, smoothing, penalty, loss):
    p, y, p_true = simulated(2000)
    scale = "identity" if penalty == "ridge" else "auto"
    n_knots = 20 if penalty == "ridge" else None
    cal = SplineCalibrator(
        smoothing=smoothing, penalty=penalty, loss=loss, scale=scale, n_knots=n_knots
    )
    cal.fit(p, y)
    assert cal.converged_
    out = cal.calibrate(p)
    assert 0 < out.min() <= out.max() < 1
    assert np.mean((out - p_true) ** 2) < 0.25 * np.mean((p - p_true) ** 2)


def test_the_brier_loss_follows_a_step():
    rng = np.random.default_rng(0)
    p = rng.random(20_000)
    y = rng.random(20_000) < np.where(p < 0.5, 0.02, 0.98)
    cal = SplineCalibrator(loss="brier").fit(p, y)
    out = cal.calibrate(GRID)
    assert brier_score_loss(y, cal.calibrate(p)) < 0.03
    assert 0 < out.min() <= out.max() < 1


def test_the_brier_curve_stays_inside_without_flattening_the_interior():
    rng = np.random.default_rng(5)
    p = rng.random(3000)
    truth = lambda s: 0.5 - 0.5 * np.cos(np.pi * s)  # touches both ends  # noqa: E731
    y = rng.random(3000) < truth(p)
    curve = SplineCalibrator(loss="brier", smoothing=0.01).fit(p, y).curves_[0]
    low, high = curve.clip
    inside = np.linspace(p.min(), p.max(), 4001)
    z = (inside - curve.origin) / curve.unit
    raw = curve.value(z)
    # The curve itself keeps to the limits: nothing is left for clipping to flatten.
    assert raw.min() >= low - 1e-12
    assert raw.max() <= high + 1e-12
    assert np.mean((curve(inside) == low) | (curve(inside) == high)) < 0.02
    assert np.abs(curve(inside) - truth(inside)).max() < 0.04


def test_the_brier_fit_is_penalised_least_squares():
    rng = np.random.default_rng(5)
    p = np.sort(rng.uniform(0.05, 0.95, 500))
    y = (rng.random(500) < 0.3 + 0.3 * np.sin(4 * p)).astype(float)
    smoothing = 0.02
    options = {"loss": "brier", "n_knots": 9, "scale": "identity"}
    cal = SplineCalibrator(smoothing=smoothing, **options).fit(p, y)
    # An independent solution: values at the knots, scipy's natural splines, quadrature.
    z, at = ((each - p[0]) / (p[-1] - p[0]) for each in (p, cal.knots_))
    cardinal = CubicSpline(at, np.eye(9), bc_type="natural")
    nodes, weights = np.polynomial.legendre.leggauss(3)
    middle, half = (at[1:] + at[:-1]) / 2, np.diff(at) / 2
    S = np.zeros((9, 9))
    for t, w in zip(nodes, weights, strict=True):
        second = cardinal(middle + half * t, nu=2)
        S += w * second.T @ (half[:, None] * second)
    X = cardinal(z)
    line = np.column_stack([np.ones(500), (z - z.mean()) / z.std()])
    affine = np.linalg.lstsq(line, X, rcond=None)[0]
    hessian = X.T @ X + smoothing * S + 0.2 * affine.T @ affine
    values = np.linalg.solve(hessian, X.T @ (y - p))
    np.testing.assert_allclose(cal.calibrate(p), p + X @ values, atol=1e-8)
    assert cal.edf_ == pytest.approx(
        np.trace(np.linalg.solve(hessian, X.T @ X)), abs=1e-8
    )


# Limits and references


def test_infinite_smoothing_is_platts_logistic_regression_on_the_log_odds(simulated):
    p, y, _ = simulated(4000)
    n1, n0 = y.sum(), (1 - y).sum()
    of_negatives, of_positives = soft_targets(
        (1 / (n0 + 2), (n1 + 1) / (n1 + 2)), logit(p)
    )
    targets = np.where(y == 1, of_positives, of_negatives)
    x = np.concatenate([logit(p), logit(p)])[:, None]
    labels, weights = np.repeat([1, 0], len(p)), np.concatenate([targets, 1 - targets])
    reference = LogisticRegression(C=np.inf, tol=1e-10).fit(
        x, labels, sample_weight=weights
    )
    line = SplineCalibrator(scale="logit", smoothing=np.inf).fit(p, y)
    expected = reference.predict_proba(logit(GRID[1:-1])[:, None])[:, 1]
    np.testing.assert_allclose(
        line.calibrate(GRID[1:-1]), expected, atol=1e-4
    )  # the weak prior
    assert line.edf_ == pytest.approx(2.0, abs=1e-2)


@pytest.mark.parametrize("scale", ["identity", "compact_logit", "logit"])
def test_the_ridge_penalty_is_scikit_learns_on_the_papers_columns(simulated, scale):
    p, y, _ = simulated(800)
    smoothing = 0.05
    cal = SplineCalibrator(
        penalty="ridge", scale=scale, n_knots=8, smoothing=smoothing, epsilon=0.05
    ).fit(p, y)
    place = Transform(scale, cal.epsilon_)
    columns = natural_cubic_basis(place(p), place(cal.knots_))[:, 1:]
    reference = LogisticRegression(
        C=1 / smoothing, solver="newton-cholesky", tol=1e-12, max_iter=1000
    ).fit(columns, y)
    grid = np.linspace(0.01, 0.99, 99)
    expected = reference.predict_proba(
        natural_cubic_basis(place(grid), place(cal.knots_))[:, 1:]
    )[:, 1]
    np.testing.assert_allclose(cal.calibrate(grid), expected, atol=1e-6)


def test_no_smoothing_follows_every_value():
    scores = np.repeat([0.2, 0.4, 0.6, 0.8], 1000)
    shares = [0.3, 0.1, 0.9, 0.5]
    y = np.concatenate([np.arange(1000) < 1000 * share for share in shares])
    cal = SplineCalibrator(smoothing=0).fit(scores, y)
    np.testing.assert_allclose(cal.calibrate([0.2, 0.4, 0.6, 0.8]), shares, atol=2e-3)


def test_two_knots_are_a_line_in_the_log_odds(simulated):
    p, y, _ = simulated(1000)
    cal = SplineCalibrator(n_knots=2, scale="logit").fit(p, y)
    out = logit(cal.calibrate(expit(np.linspace(-8, 8, 5))))
    np.testing.assert_allclose(np.diff(out, 2), 0.0, atol=1e-8)


def test_more_knots_than_the_data_support_are_reduced(simulated):
    p, y, _ = simulated(300)
    assert len(SplineCalibrator(n_knots=5000).fit(p, y).knots_) <= 300
    ties = np.round(p, 1)
    assert len(SplineCalibrator(n_knots=5000).fit(ties, y).knots_) <= 11


def test_an_exact_one_in_two_columns_does_not_make_the_epsilon(simulated):
    """The paper ignores probabilities that are exactly 1."""
    p, y, _ = simulated(300)
    p = np.clip(p, 0.001, 0.995)
    p[:3] = 1.0
    one = SplineCalibrator(scale="compact_logit").fit(p, y)
    two = SplineCalibrator(scale="compact_logit").fit(np.column_stack([1 - p, p]), y)
    assert one.epsilon_ == two.epsilon_ == 1e-4


def test_beyond_the_end_knots_the_curve_is_a_line_in_x():
    rng = np.random.default_rng(0)
    p = rng.uniform(0.3, 0.7, 500)
    cal = SplineCalibrator(scale="logit").fit(p, rng.random(500) < p)
    far = expit(np.array([-9.0, -7.0, -5.0, -3.0]))
    np.testing.assert_allclose(np.diff(logit(cal.calibrate(far)), 2), 0.0, atol=1e-7)


def test_margins_give_the_same_curve_as_their_probabilities_up_to_the_prior(simulated):
    p, y, _ = simulated(5000)
    margin = SplineCalibrator().fit(logit(p), y)
    assert margin.scale_ == "identity"
    by_probability = SplineCalibrator(scale="logit").fit(p, y)
    np.testing.assert_allclose(
        margin.calibrate(logit(p)), by_probability.calibrate(p), atol=2e-3
    )


@pytest.mark.parametrize("scale", [1e-200, 1e-6, 1e6, 1e250])
def test_margins_of_any_size_give_the_same_probabilities(simulated, scale):
    p, y, _ = simulated(600)
    margins = logit(p)
    one, scaled = (
        SplineCalibrator(scale="identity").fit(m, y) for m in (margins, margins * scale)
    )
    np.testing.assert_allclose(
        scaled.calibrate(margins * scale), one.calibrate(margins), atol=1e-8
    )
    assert np.isfinite(scaled.interval(margins * scale)).all()


def test_margins_with_a_large_offset_are_not_lost(simulated):
    p, y, _ = simulated(20_000)
    margins = logit(p)
    plain = SplineCalibrator().fit(margins, y).calibrate(margins)
    shifted = SplineCalibrator().fit(margins + 1e7, y).calibrate(margins + 1e7)
    np.testing.assert_allclose(shifted, plain, atol=1e-3)


# Monotone


@pytest.mark.parametrize("loss", ["log", "brier"])
@pytest.mark.parametrize("seed", range(4))
def test_a_monotone_curve_never_decreases(loss, seed):
    rng = np.random.default_rng(seed)
    p = rng.random(400)
    y = rng.random(400) < 0.5 + 0.4 * np.sin(9 * p)
    free = SplineCalibrator(loss=loss, smoothing=1e-5).fit(p, y)
    held = SplineCalibrator(loss=loss, smoothing=1e-5, monotone=True).fit(p, y)
    assert np.diff(free.calibrate(GRID)).min() < -1e-3
    assert np.diff(held.calibrate(GRID)).min() >= 0.0
    assert held.curves_[0].is_monotone
    assert held.converged_
    # the best increasing curve is close to isotonic regression's loss, from a smooth
    # curve
    isotonic = IsotonicRegression().fit(p, y).predict(p)
    assert brier_score_loss(y, held.calibrate(p)) < brier_score_loss(y, isotonic) + 0.02


@pytest.mark.parametrize("loss", ["log", "brier"])
def test_a_curve_that_is_already_monotone_stays_as_it_is(simulated, loss):
    p, y, _ = simulated(3000, truth=lambda u: 0.5 * u)
    free = SplineCalibrator(loss=loss).fit(p, y)
    assert free.curves_[0].is_monotone
    held = SplineCalibrator(loss=loss, monotone=True).fit(p, y)
    np.testing.assert_array_equal(held.calibrate(GRID), free.calibrate(GRID))


def test_a_monotone_curve_is_still_smooth():
    rng = np.random.default_rng(3)
    p = rng.random(400)
    y = rng.random(400) < 0.5 + 0.4 * np.sin(9 * p)
    curve = (
        SplineCalibrator(monotone=True, smoothing=1e-5, scale="identity")
        .fit(p, y)
        .curves_[0]
    )
    slopes = curve.derivative(np.linspace(0.01, 0.99, 20_001))
    assert np.abs(np.diff(slopes)).max() < 0.05 * slopes.max()


# Invariances


@pytest.mark.parametrize("smoothing", ["reml", "cv"])
def test_the_order_of_rows_changes_nothing(simulated, smoothing):
    p, y, _ = simulated(700)
    order = np.random.default_rng(0).permutation(700)
    a = SplineCalibrator(smoothing=smoothing).fit(p, y)
    b = SplineCalibrator(smoothing=smoothing).fit(p[order], y[order])
    np.testing.assert_allclose(a.calibrate(GRID), b.calibrate(GRID), atol=1e-9)


@pytest.mark.parametrize("smoothing", ["reml", "cv"])
@pytest.mark.parametrize("loss", ["log", "brier"])
def test_integer_weights_are_repetitions_and_zeros_absences(simulated, smoothing, loss):
    p, y, _ = simulated(500)
    w = np.random.default_rng(1).integers(0, 4, 500)
    options = {"smoothing": smoothing, "loss": loss}
    weighted = SplineCalibrator(**options).fit(p, y, sample_weight=w)
    repeated = SplineCalibrator(**options).fit(np.repeat(p, w), np.repeat(y, w))
    np.testing.assert_allclose(
        weighted.calibrate(GRID), repeated.calibrate(GRID), atol=1e-9
    )
    assert weighted.smoothing_ == repeated.smoothing_


@pytest.mark.parametrize("n", [900, 30_000])
def test_chunks_through_partial_fit_equal_one_fit(simulated, n):
    p, y, _ = simulated(n)
    whole = SplineCalibrator().fit(p, y)
    stream = SplineCalibrator()
    for part in np.array_split(np.arange(n), 7):
        stream.partial_fit(p[part], y[part], classes=[0, 1])
    np.testing.assert_allclose(stream.calibrate(GRID), whole.calibrate(GRID), atol=1e-9)


def test_merged_histograms_fit_like_the_concatenation(simulated):
    p, y, _ = simulated(20_000)
    merged = ScoreHistogram.from_scores(
        p[:5000], y[:5000]
    ) + ScoreHistogram.from_scores(p[5000:], y[5000:])
    a, b = SplineCalibrator().fit(p, y), SplineCalibrator().fit_histogram(merged)
    np.testing.assert_allclose(a.calibrate(GRID), b.calibrate(GRID), atol=1e-9)
    assert b.classes_.tolist() == [0, 1]


def test_one_column_two_columns_and_a_matrix_of_one_agree(simulated):
    p, y, _ = simulated(400)
    flat = SplineCalibrator().fit(p, y)
    column = SplineCalibrator().fit(p[:, None], y)
    pair = SplineCalibrator().fit(np.column_stack([1 - p, p]), y)
    np.testing.assert_array_equal(flat.calibrate(GRID), column.calibrate(GRID))
    np.testing.assert_allclose(
        flat.calibrate(GRID[1:-1]), pair.calibrate(GRID[1:-1]), atol=1e-9
    )
    assert flat.calibrate(GRID[:, None]).shape == (501, 1)
    both = flat.calibrate(np.column_stack([1 - GRID, GRID]))
    assert both.shape == (501, 2)
    np.testing.assert_allclose(both[1:-1, 1], flat.calibrate(GRID)[1:-1], atol=1e-12)
    np.testing.assert_allclose(flat.predict_proba(GRID).sum(axis=1), 1.0, atol=1e-15)


@pytest.mark.parametrize("options", [{}, {"scale": "identity"}])
def test_two_columns_of_logits_are_calibrated_by_their_difference(simulated, options):
    p, y, _ = simulated(400)
    logits = np.column_stack([np.full(400, 5.0), 5.0 + logit(p)])
    pair = SplineCalibrator(**options).fit(logits, y)
    one = SplineCalibrator(**options).fit(logit(p), y)
    np.testing.assert_allclose(
        pair.calibrate(logits)[:, 1], one.calibrate(logit(p)), atol=1e-9
    )


def test_two_columns_of_probabilities_under_identity_are_the_second_column(simulated):
    p, y, _ = simulated(400)
    pair = SplineCalibrator(scale="identity").fit(np.column_stack([1 - p, p]), y)
    one = SplineCalibrator(scale="identity").fit(p, y)
    np.testing.assert_array_equal(pair.calibrate(p), one.calibrate(p))


@pytest.mark.parametrize(
    "labels",
    [["no", "yes"], [False, True], [-1, 1], [1, 2], [0.0, 1.0], [b"a", b"b"], [10, 20]],
    ids=str,
)
def test_labels_of_any_type_give_the_same_probabilities(simulated, labels):
    p, y, _ = simulated(300)
    reference = SplineCalibrator().fit(p, y)
    cal = SplineCalibrator().fit(p, np.array(labels)[y])
    np.testing.assert_array_equal(cal.classes_, labels)
    np.testing.assert_array_equal(
        cal.predict_proba(GRID), reference.predict_proba(GRID)
    )
    assert set(np.unique(cal.predict(GRID))) <= set(np.array(labels))
    assert cal.predict([0.0001, 0.9999]).tolist() == np.array(labels).tolist()


# Over-confident models


def test_auto_takes_the_asinh_scale_for_an_over_confident_model():
    rng = np.random.default_rng(0)
    u = rng.normal(0, 80, 4000)
    y = rng.random(4000) < expit(2.5 * np.arcsinh(u / 10))
    p0, p1 = expit(-u), expit(u)
    pair = np.column_stack([p0, p1])
    auto = SplineCalibrator().fit(pair, y)
    assert auto.scale_ == "asinh_logit"
    clipped = SplineCalibrator(scale="logit").fit(pair, y)
    assert log_loss(y, auto.calibrate(pair)[:, 1]) < log_loss(
        y, clipped.calibrate(pair)[:, 1]
    )


def test_auto_keeps_the_logit_for_ordinary_and_for_plainly_sharp_scores(simulated):
    p, y, _ = simulated(1000)
    assert SplineCalibrator().fit(p, y).scale_ == "logit"
    rng = np.random.default_rng(0)
    u = rng.normal(0, 12, 3000)
    sharp = SplineCalibrator().fit(
        np.column_stack([expit(-u), expit(u)]), rng.random(3000) < expit(0.3 * u)
    )
    assert sharp.scale_ == "logit"


@pytest.mark.parametrize("smoothing", ["cv", 0.001])
def test_auto_chooses_the_scale_by_reml_whatever_chooses_the_smoothing(smoothing):
    rng = np.random.default_rng(0)
    u = rng.normal(0, 80, 2000)
    y = rng.random(2000) < expit(2.5 * np.arcsinh(u / 10))
    pair = np.column_stack([expit(-u), expit(u)])
    cal = SplineCalibrator(smoothing=smoothing).fit(pair, y)
    assert cal.scale_ == "asinh_logit"
    assert smoothing == "cv" or cal.smoothing_ == smoothing


def test_scores_beyond_the_clip_of_the_logit_alone_do_not_stop_auto():
    p = np.array([1e-12, 1e-40] * 50)
    y = np.array([1, 0] * 50)
    y[::7] = 1 - y[::7]
    cal = SplineCalibrator().fit(p, y)
    assert cal.scale_ == "asinh_logit"
    assert cal.calibrate([1e-12])[0] > cal.calibrate([1e-40])[0]


# Uncertainty


@pytest.mark.slow
def test_pointwise_intervals_cover_the_truth_as_often_as_they_say():
    truth = lambda u: 0.5 * u + 0.4 * np.sin(u)  # noqa: E731
    u = np.linspace(-3, 3, 41)
    p_true = expit(truth(u))
    hits = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        v = rng.normal(0, 2, 1500)
        cal = SplineCalibrator(scale="logit").fit(
            expit(v), rng.random(1500) < expit(truth(v))
        )
        limits = cal.interval(expit(u))
        hits.append((limits[:, 0] <= p_true) & (p_true <= limits[:, 1]))
    assert 0.90 < np.mean(hits) < 0.985


@pytest.mark.parametrize("n", [30, 100])
@pytest.mark.parametrize("slope", [1.0, 0.6])
def test_intervals_of_very_confident_scores_hold_the_truth(n, slope):
    missed = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        u, new = rng.normal(0.0, 8.0, n), rng.normal(0.0, 8.0, 1000)
        y, truth = rng.random(n) < expit(slope * u), expit(slope * new)
        low, high = SplineCalibrator().fit(expit(u), y).interval(expit(new)).T
        missed.append(np.mean((truth < low - 0.001) | (truth > high + 0.001)))
    assert np.mean(missed) < 0.04


@pytest.mark.slow
def test_simultaneous_intervals_cover_the_whole_curve():
    u = np.linspace(-3, 3, 61)
    covered = pointwise_covered = 0
    for seed in range(60):
        rng = np.random.default_rng(seed + 1000)
        v = rng.normal(0, 2, 1500)
        cal = SplineCalibrator(scale="logit").fit(
            expit(v), rng.random(1500) < expit(0.6 * v)
        )
        limits, narrow = (
            cal.interval(expit(u), simultaneous=True),
            cal.interval(expit(u)),
        )
        assert np.all(limits[:, 0] < narrow[:, 0])
        covered += np.all(
            (limits[:, 0] <= expit(0.6 * u)) & (expit(0.6 * u) <= limits[:, 1])
        )
        pointwise_covered += np.all(
            (narrow[:, 0] <= expit(0.6 * u)) & (expit(0.6 * u) <= narrow[:, 1])
        )
    assert covered >= 53  # 95% of 60 is 57
    assert covered > pointwise_covered


@pytest.mark.slow
def test_the_simultaneous_critical_value_is_that_of_simulated_curves():
    # A Gaussian curve z -> rows(z) @ normal: how often does it leave the band anywhere?
    basis = NaturalSpline(np.linspace(0, 1, 10))
    rows = basis.design(np.linspace(0, 1, 400)).dot(np.eye(10))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    length = np.linalg.norm(np.diff(rows, axis=0), axis=1).sum()
    draws = np.abs(np.random.default_rng(0).normal(size=(20_000, 10)) @ rows.T).max(
        axis=1
    )
    critical = critical_value(0.95, length)
    assert length / np.pi * np.exp(-(critical**2) / 2) + 1 - erf(
        critical / np.sqrt(2)
    ) == pytest.approx(0.05, abs=1e-9)
    assert np.mean(draws > critical) == pytest.approx(0.05, abs=0.006)


def test_intervals_narrow_with_data_and_widen_with_the_level(simulated):
    small, large = (SplineCalibrator().fit(*simulated(n)[:2]) for n in (200, 20_000))
    width = lambda limits: limits[:, 1] - limits[:, 0]  # noqa: E731
    grid = np.linspace(0.1, 0.9, 9)
    assert np.all(width(large.interval(grid)) < width(small.interval(grid)))
    assert np.all(width(small.interval(grid, level=0.5)) < width(small.interval(grid)))
    inside = small.calibrate(grid)
    limits = small.interval(grid)
    assert np.all((limits[:, 0] < inside) & (inside < limits[:, 1]))


def test_there_is_no_interval_about_a_brier_fit(simulated):
    # It covered the whole curve in 12% to 52% of samples; a sandwich variance in 0% to
    # 100%, by the truth's bends.
    p, y, _ = simulated(300)
    cal = SplineCalibrator(loss="brier").fit(p, y)
    with pytest.raises(ValueError, match='interval requires loss="log"'):
        cal.interval(p)
    assert not cal.curves_[0].has_band
    with pytest.raises(ValueError, match='no band; splines with loss="log"'):
        cal.curves_[0].band(p)


def test_the_interval_of_equal_scores_is_the_binomial_one():
    y = np.repeat([0, 1], [70, 30])
    with pytest.warns(UserWarning, match="base rate"):
        cal = SplineCalibrator().fit(np.full(100, 0.4), y)
    low, high = cal.interval([0.4])[0]
    assert high - low == pytest.approx(2 * 1.96 * np.sqrt(0.3 * 0.7 / 100), rel=0.02)


# The paper


def test_the_papers_recipes_are_as_printed():
    one, two = (
        SplineCalibrator.paper(1),
        SplineCalibrator.paper(algorithm=2, random_state=3),
    )
    expected = {
        "knots": "sample",
        "n_knots": 200,
        "penalty": "ridge",
        "smoothing": "cv",
    }
    assert {name: one.get_params()[name] for name in expected} == expected
    assert (one.scale, two.scale) == ("identity", "compact_logit")
    assert two.random_state == 3
    with pytest.raises(ValueError, match="algorithm"):
        SplineCalibrator.paper(7)


@pytest.mark.parametrize("algorithm", [1, 2])
def test_the_papers_algorithms_calibrate(simulated, algorithm):
    p, y, p_true = simulated(3000)
    cal = SplineCalibrator.paper(algorithm, n_knots=50).fit(p, y)
    assert excess(p_true, cal.calibrate(p)) < 0.25 * excess(p_true, p)
    assert np.isin(np.round(cal.knots_, 12), np.round(p, 12)).all()
    assert (cal.epsilon_ is None) == (algorithm == 1)


def test_epsilon_auto_is_the_printed_heuristic(simulated):
    p, y, _ = simulated(500)
    cal = SplineCalibrator(scale="compact_logit").fit(p, y)
    r = np.floor(np.log10((1 - p).min()))
    assert cal.epsilon_ == pytest.approx(10 ** (r - 1))


# Small and odd data


def test_perfect_separation_is_finite_and_converges():
    p = np.linspace(0.01, 0.99, 200)
    cal = SplineCalibrator().fit(p, p > 0.5)
    out = cal.calibrate(GRID)
    assert cal.converged_
    assert 0 < out.min() < 0.02
    assert 0.98 < out.max() < 1


def test_exact_zeros_and_ones_among_the_scores_are_finite(simulated):
    p, y, _ = simulated(500)
    p[:50], p[50:90] = 0.0, 1.0
    cal = SplineCalibrator().fit(p, y)
    out = cal.calibrate([0.0, 1.0])
    assert np.all((out > 0) & (out < 1))


def test_scores_that_are_only_0_and_1_give_the_two_shares():
    scores = np.repeat([0.0, 1.0], [400, 600])
    y = np.concatenate([np.arange(400) < 40, np.arange(600) < 450])
    np.testing.assert_allclose(
        SplineCalibrator().fit(scores, y).calibrate([0.0, 1.0]), [0.1, 0.75], atol=0.005
    )


def test_two_distinct_scores_give_the_two_shares():
    scores = np.repeat([0.3, 0.6], [400, 600])
    y = np.concatenate([np.arange(400) < 40, np.arange(600) < 450])
    np.testing.assert_allclose(
        SplineCalibrator().fit(scores, y).calibrate([0.3, 0.6]), [0.1, 0.75], atol=0.005
    )


def test_thirty_rows_are_enough_for_something_sensible(simulated):
    harm = []
    for seed in range(30):
        p, y, p_true = simulated(30, seed=seed)
        if 0 < y.sum() < 30:
            cal = SplineCalibrator().fit(p, y)
            assert cal.converged_
            harm.append(excess(p_true, cal.calibrate(p)))
    assert np.mean(harm) < 0.12


def test_three_rows_are_shrunk_towards_the_scores():
    out = SplineCalibrator().fit([0.2, 0.6, 0.7], [0, 1, 1]).calibrate([0.2, 0.6, 0.7])
    assert np.all((out > 0.02) & (out < 0.98))


def test_one_positive_is_finite():
    p = np.linspace(0.01, 0.9, 300)
    y = np.zeros(300, int)
    y[250] = 1
    cal = SplineCalibrator().fit(p, y)
    assert cal.converged_
    assert 0.001 < cal.calibrate(p).mean() < 0.02
    assert np.all((cal.calibrate(GRID) > 0) & (cal.calibrate(GRID) < 1))


def test_equal_scores_give_the_base_rate_and_a_warning():
    with pytest.warns(UserWarning, match="base rate"):
        cal = SplineCalibrator().fit(np.full(10, 0.7), [1, 0] * 5)
    np.testing.assert_allclose(cal.calibrate([0.1, 0.7, 1.0]), 0.5)
    assert np.isinf(cal.smoothing_)


def test_a_fit_that_does_not_converge_warns(simulated, monkeypatch):
    monkeypatch.setattr(newton, "MAX_ITERATIONS", 1)
    p, y, _ = simulated(300)
    with pytest.warns(ConvergenceWarning):
        cal = SplineCalibrator(smoothing=1e-6).fit(p, y)
    assert cal.converged_ is False


# As an estimator


def test_partial_fit_waits_for_both_classes():
    cal = SplineCalibrator().partial_fit([0.1, 0.2], ["n", "n"], classes=["n", "y"])
    with pytest.raises(NotFittedError):
        cal.calibrate([0.5])
    cal.partial_fit([0.8, 0.3, 0.9], ["y", "n", "y"])
    assert cal.classes_.tolist() == ["n", "y"]
    assert 0 < cal.calibrate([0.5])[0] < 1


def test_partial_fit_goes_on_from_a_fit(simulated):
    p, y, _ = simulated(600)
    a = SplineCalibrator().fit(p[:300], y[:300]).partial_fit(p[300:], y[300:])
    np.testing.assert_allclose(
        a.calibrate(GRID), SplineCalibrator().fit(p, y).calibrate(GRID), atol=1e-9
    )


def test_partial_fit_holds_on_to_the_kind_and_the_classes():
    cal = SplineCalibrator().fit([0.1, 0.4, 0.8, 0.9], [0, 0, 1, 1])
    with pytest.raises(ValueError, match="identity"):
        cal.partial_fit([2.0], [1])
    with pytest.raises(ValueError, match="one of the classes"):
        cal.partial_fit([0.5], [7])
    with pytest.raises(ValueError, match="classes must be two"):
        SplineCalibrator().partial_fit([0.5], [1], classes=[1, 1])


def test_histograms_must_be_histograms_of_both_classes_and_the_right_kind():
    with pytest.raises(TypeError, match="ScoreHistogram"):
        SplineCalibrator().fit_histogram([1, 2])
    with pytest.raises(ValueError, match="both classes"):
        SplineCalibrator().fit_histogram(ScoreHistogram.from_scores([0.1, 0.2], [0, 0]))
    margins = ScoreHistogram.from_scores([-2.0, 0.5, 2.0], [0, 1, 1])
    with pytest.raises(ValueError, match="identity"):
        SplineCalibrator(scale="logit").fit_histogram(margins)
    assert SplineCalibrator().fit_histogram(margins).scale_ == "identity"


def test_a_refit_equals_a_fresh_fit(simulated):
    p, y, _ = simulated(300)
    q, z, _ = simulated(500, seed=5)
    again = SplineCalibrator().fit(p, y).fit(q, z)
    np.testing.assert_array_equal(
        again.calibrate(GRID), SplineCalibrator().fit(q, z).calibrate(GRID)
    )


def test_clone_parameters_and_pickle_round_trip(simulated):
    p, y, _ = simulated(300)
    cal = SplineCalibrator(n_knots=9, monotone=True).set_params(smoothing="cv")
    copy = clone(cal)
    assert copy.get_params() == cal.get_params()
    fitted = pickle.loads(pickle.dumps(copy.fit(p, y)))
    np.testing.assert_array_equal(fitted.calibrate(GRID), copy.calibrate(GRID))
    assert "n_knots=9" in repr(cal)
    assert "SplineCalibrator" in cal._repr_html_()
    assert 0.5 < fitted.score(p, y) <= 1


def test_the_global_random_state_is_left_alone_and_seeds_decide(simulated):
    p, y, _ = simulated(400)
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    paper = SplineCalibrator.paper(1, n_knots=10)
    a, b = paper.fit(p, y).calibrate(GRID), clone(paper).fit(p, y).calibrate(GRID)
    np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002
    other = clone(paper).set_params(random_state=1).fit(p, y)
    assert not np.array_equal(other.knots_, paper.knots_)
    state = np.random.RandomState(0)
    moving = SplineCalibrator.paper(1, n_knots=10, random_state=state)
    assert not np.array_equal(
        moving.fit(p, y).knots_,
        clone(moving).set_params(random_state=state).fit(p, y).knots_,
    )


def test_sixteen_threads_agree(simulated):
    p, y, _ = simulated(1000)
    cal = SplineCalibrator().fit(p, y)
    expected = cal.calibrate(p)
    with ThreadPoolExecutor(16) as pool:
        for out in pool.map(lambda _: cal.calibrate(p), range(32)):
            np.testing.assert_array_equal(out, expected)


def test_the_path_holds_what_was_tried(simulated):
    p, y, _ = simulated(500)
    cal = SplineCalibrator(smoothing_grid=[1.0, 1e-3, 1e3]).fit(p, y)
    path = cal.smoothing_path_
    assert path["smoothing"].tolist() == [1e-3, 1.0, 1e3]
    assert 1e-3 <= cal.smoothing_ <= 1e3
    assert len(path["criterion"]) == 3
    assert 2 <= cal.edf_ <= 24


# Hard cases


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:sample_weight sums to")
@pytest.mark.parametrize("weight", [1.0, 1e4, 1e6, "twelve decades"])
@pytest.mark.parametrize("loss", ["log", "brier"])
def test_monotone_means_monotone_whatever_the_weights(weight, loss):
    for seed in range(6):
        rng = np.random.default_rng(seed)
        u = rng.normal(0, 2, 300)
        y = rng.random(300) < 0.5 + 0.4 * np.sin(3 * u)
        w = (
            10.0 ** rng.uniform(-6, 6, 300)
            if isinstance(weight, str)
            else np.full(300, weight)
        )
        cal = SplineCalibrator(monotone=True, loss=loss).fit(expit(u), y, w)
        assert cal.converged_
        assert cal.curves_[0].is_monotone
        assert np.diff(cal.calibrate(np.linspace(0, 1, 20_001))).min() >= -1e-15


def test_scores_in_a_narrow_range_are_binned_and_right():
    rng = np.random.default_rng(0)
    p = rng.uniform(0.01, 0.03, 300_000)
    y = rng.random(300_000) < 0.5 * p
    cal = SplineCalibrator().fit(p, y)
    assert not cal.histogram_.exact
    np.testing.assert_allclose(
        cal.calibrate([0.012, 0.02, 0.028]), [0.006, 0.01, 0.014], rtol=0.06
    )


def test_an_outlier_among_offset_margins_does_no_harm():
    rng = np.random.default_rng(0)
    x = rng.normal(size=200_000)
    margins, y = 1000 + x, rng.random(200_000) < expit(2 * x)
    margins[0], y[0] = 0.0, False
    np.testing.assert_allclose(
        SplineCalibrator().fit(margins, y).calibrate([999, 1000, 1001]),
        expit([-2.0, 0.0, 2.0]),
        atol=0.02,
    )


def test_what_two_columns_of_margins_mean_is_settled_by_the_fit():
    rng = np.random.default_rng(0)
    u = rng.normal(-1, 2, 500)
    cal = SplineCalibrator().fit(np.column_stack([-u, u]), rng.random(500) < expit(u))
    alone = cal.calibrate([[0.2, 0.8]])[0]
    np.testing.assert_array_equal(cal.calibrate([[0.2, 0.8], [-3.0, 3.0]])[0], alone)


def test_classes_cannot_change_between_parts():
    cal = SplineCalibrator().partial_fit([0.1, 0.9], [0, 1], classes=[0, 1])
    for classes in ([1, 0], ["a", "b"]):
        with pytest.raises(ValueError, match=r"classes must stay \[0, 1\]"):
            cal.partial_fit([0.1, 0.9], [0, 1], classes=classes)


def test_a_part_without_rows_or_weight_changes_nothing(simulated):
    p, y, _ = simulated(200)
    cal = SplineCalibrator().fit(p, y)
    before = cal.calibrate(GRID)
    np.testing.assert_array_equal(cal.partial_fit([], []).calibrate(GRID), before)
    np.testing.assert_array_equal(
        cal.partial_fit([0.5], [1], [0.0]).calibrate(GRID), before
    )


@pytest.mark.parametrize("algorithm", [1, 2])
def test_the_papers_algorithms_survive_two_rows(algorithm):
    out = SplineCalibrator.paper(algorithm).fit([0.2, 0.8], [0, 1]).calibrate(GRID)
    assert np.all((out > 0) & (out < 1))


def test_ridge_without_smoothing_is_finite(simulated):
    p, y, _ = simulated(1000)
    cal = SplineCalibrator(
        penalty="ridge", smoothing=0, knots="sample", n_knots=200, scale="logit"
    ).fit(p, y)
    assert np.isfinite(cal.interval(GRID)).all()


@pytest.mark.parametrize("seed", [1, 7, 8])
def test_ridge_converges_on_margins_with_heavy_tails(seed):
    rng = np.random.default_rng(seed)
    margins = rng.standard_cauchy(300) ** 3
    assert (
        SplineCalibrator(penalty="ridge", smoothing=1.0)
        .fit(margins, rng.random(300) < 0.5)
        .converged_
    )


@pytest.mark.filterwarnings("ignore:sample_weight sums to")
@pytest.mark.parametrize("seed", [13, 14])
def test_a_monotone_fit_to_waves_and_weights_over_twelve_decades_beats_the_base_rate(
    seed,
):
    rng = np.random.default_rng(seed)
    margins = rng.normal(0, 1e121, 50)
    y = np.sin(margins / 5e120) > 0
    w = 10.0 ** rng.uniform(-6, 6, 50)
    p = (
        SplineCalibrator(monotone=True, smoothing=1e-8)
        .fit(margins, y, w)
        .calibrate(margins)
    )
    rate = np.full(50, np.average(y, weights=w))
    assert log_loss(y, p, sample_weight=w) < log_loss(y, rate, sample_weight=w)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:sample_weight sums to")
@pytest.mark.parametrize("factor", [1e-12, 1e17])
def test_weights_of_any_size_converge(simulated, factor):
    p, y, _ = simulated(500)
    assert SplineCalibrator().fit(p, y, np.full(500, factor)).converged_


def test_options_may_come_as_numpy_values(simulated):
    p, y, _ = simulated(200)
    cal = SplineCalibrator(
        monotone=np.True_, smoothing=np.str_("reml"), n_knots=np.int64(9)
    ).fit(p, y)
    assert cal.converged_


def test_columns_named_after_the_classes_are_matched(simulated):
    p, y, _ = simulated(300)
    labels = np.where(y, "yes", "no")
    straight = pd.DataFrame({"no": 1 - p, "yes": p})
    turned = straight[["yes", "no"]]
    a, b = (
        SplineCalibrator().fit(straight, labels),
        SplineCalibrator().fit(turned, labels),
    )
    np.testing.assert_array_equal(a.predict_proba(straight), b.predict_proba(turned))
    np.testing.assert_array_equal(a.predict_proba(turned), a.predict_proba(straight))


def test_a_single_score_gives_a_number():
    rng = np.random.default_rng(0)
    p = rng.uniform(size=300)
    y = rng.random(300) < p
    cal = SplineCalibrator().fit(p, y)
    wanted = float(cal.calibrate([0.3])[0])
    for score in (0.3, np.float64(0.3), np.array(0.3)):
        assert type(cal.calibrate(score)) is float
        assert cal.calibrate(score) == wanted
    assert cal.calibrate(1) == float(cal.calibrate([1.0])[0])
    segment = rng.integers(3, size=300)
    device = rng.integers(2, size=300)
    by_one = SplineCalibrator().fit(p, y, by=segment)
    assert by_one.calibrate(0.3, by=2) == float(by_one.calibrate([0.3], by=[2])[0])
    by_two = SplineCalibrator().fit(p, y, by=[segment, device])
    assert by_two.calibrate(0.3, by=(2, 1)) == float(
        by_two.calibrate([0.3], by=[[2], [1]])[0]
    )
    with pytest.raises(ValueError, match="scores"):
        cal.calibrate(1.5)


def test_completion_shows_what_users_need(simulated):
    cal = SplineCalibrator().fit(*simulated(200)[:2])
    names = {name for name in dir(cal) if not name.startswith("_")}
    assert {"calibrate", "interval", "get_params", "curves_", "edf_"} <= names
    assert not {name for name in names if name.endswith("_request")}
    assert "segments_" not in names  # a fit without by
