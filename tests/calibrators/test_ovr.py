import numpy as np
import pandas as pd
import pytest
from scipy.special import softmax
from sklearn.metrics import log_loss

from calspline import SplineCalibrator
from calspline.fits import curve
from calspline.multiclass import one_vs_rest


def simulate(n, m=4, seed=0, sharpness=2.5):
    """Probabilities of an over-confident model over ``m`` classes, and labels."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 1.2, (n, m)) + np.linspace(0.5, -0.5, m)
    truth = softmax(logits, axis=1)
    y = (truth.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    return softmax(sharpness * logits, axis=1), y, truth


def ovr(**options):
    return SplineCalibrator(multiclass="ovr", **options)


@pytest.mark.parametrize(
    "scale", ["auto", "logit", "compact_logit", "asinh_logit", "identity"]
)
def test_each_class_has_its_curve_and_rows_are_normalised(scale):
    p, y, _ = simulate(1200)
    cal = ovr(scale=scale).fit(p, y)
    assert len(cal.curves_) == 4
    out = cal.predict_proba(p)
    # the paper's step 3: f_i(x_i) / sum_j f_j(x_j)
    each = np.column_stack([curve(p[:, j]) for j, curve in enumerate(cal.curves_)])
    np.testing.assert_allclose(out, each / each.sum(axis=1, keepdims=True), atol=1e-9)


def one_by_one(p, y, q, weight=None, **options):
    """The paper's step 3 by hand: each column against the rest, then every row normalised."""
    each = []
    for j in range(p.shape[1]):
        fit_on, told = (np.column_stack([1 - s[:, j], s[:, j]]) for s in (p, q))
        each.append(
            SplineCalibrator(**options)
            .fit(fit_on, y == j, weight)
            .calibrate(told)[:, 1]
        )
    return np.column_stack(each) / np.sum(each, axis=0)[:, None]


OPTIONS = [
    {},
    {"monotone": True},
    {"scale": "compact_logit", "smoothing": "cv"},
    {"scale": "compact_logit", "penalty": "ridge", "knots": "sample", "n_knots": 20},
    {"scale": "identity"},
    {"scale": "asinh_logit", "smoothing": 0.01},
    {"smoothing_grid": [1e-3, 0.1, 10.0]},
    {"loss": "brier"},
    {"loss": "brier", "monotone": True},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_it_equals_a_careful_one_vs_rest_use_of_the_binary_calibrator(options):
    p, y, _ = simulate(1500)
    q, z, _ = simulate(3000, seed=1)
    out = ovr(**options).fit(p, y).predict_proba(q)
    np.testing.assert_allclose(out, one_by_one(p, y, q, **options), atol=1e-8)
    assert log_loss(z, out) < log_loss(z, q)


@pytest.mark.slow
@pytest.mark.parametrize(
    "sharpness", [1.2, 8.0], ids=["usual scores", "extreme scores"]
)
@pytest.mark.parametrize("weighted", [False, True])
def test_classes_fitted_together_equal_classes_fitted_one_by_one(
    monkeypatch, sharpness, weighted
):
    monkeypatch.setattr(
        curve, "CLEAR_EVIDENCE", 2.0
    )  # so that some classes take one scale, some the other
    p, y, _ = simulate(1200, m=20, sharpness=sharpness)
    weight = (
        np.random.default_rng(0).integers(0, 4, len(y)).astype(float)
        if weighted
        else None
    )
    q, _, _ = simulate(500, m=20, seed=1, sharpness=sharpness)
    cal = ovr().fit(p, y, weight)
    np.testing.assert_allclose(
        cal.predict_proba(q), one_by_one(p, y, q, weight), atol=1e-8
    )
    if sharpness > 2:
        assert "asinh_logit" in cal.scale_


def test_more_scores_than_a_histogram_keeps_apart_change_nothing():
    p, y, _ = simulate(6000, m=10)
    np.testing.assert_allclose(
        ovr().fit(p, y).predict_proba(p), one_by_one(p, y, p), atol=1e-8
    )


@pytest.mark.slow
def test_which_classes_are_fitted_together_does_not_matter(monkeypatch):
    p, y, _ = simulate(1000, m=20)
    out = ovr().fit(p, y).predict_proba(p)
    order = np.random.default_rng(0).permutation(20)
    shuffled = ovr().fit(p[:, order], np.argsort(order)[y]).predict_proba(p[:, order])
    np.testing.assert_allclose(shuffled, out[:, order], atol=1e-8)
    monkeypatch.setattr(one_vs_rest, "CLASSES_AT_ONCE", 3)
    np.testing.assert_allclose(ovr().fit(p, y).predict_proba(p), out, atol=1e-8)


@pytest.mark.slow
def test_absent_classes_among_many_stay_where_they_are():
    p, y, _ = simulate(1500, m=40)
    y[np.isin(y, [0, 17, 39])] = 5
    out = ovr().fit(pd.DataFrame(p, columns=np.arange(40)), y).predict_proba(p)
    seen = ~np.isin(np.arange(40), [0, 17, 39])
    rates = np.bincount(y, minlength=40) / len(y)
    np.testing.assert_allclose(out[:, seen].mean(axis=0), rates[seen], atol=0.01)
    assert np.all(out > 0)
    assert np.all(out[:, ~seen].mean(axis=0) < 2 / len(y))


def test_the_papers_algorithm_3():
    cal = SplineCalibrator.paper(algorithm=3, n_knots=40)
    assert (cal.multiclass, cal.scale, cal.penalty) == ("ovr", "compact_logit", "ridge")
    p, y, truth = simulate(1500)
    cal.fit(p, y)
    assert np.abs(cal.predict_proba(p) - truth).mean() < 0.5 * np.abs(p - truth).mean()
    assert len(cal.epsilon_) == 4


def test_logits_under_identity_ignore_a_constant_added_to_a_row():
    p, y, _ = simulate(800)
    logits = np.log(p)
    shift = np.random.default_rng(0).normal(0, 9, (800, 1))
    for scale in ("identity", "auto"):
        cal = ovr(scale=scale).fit(logits, y)
        moved = ovr(scale=scale).fit(logits + shift, y)
        np.testing.assert_allclose(
            moved.predict_proba(logits), cal.predict_proba(logits + shift), atol=1e-8
        )


def test_a_class_without_rows_keeps_a_small_probability():
    p, y, _ = simulate(500)
    y[y == 2] = 1
    cal = ovr().fit(p, y)
    assert cal.classes_.tolist() == [0, 1, 2, 3]
    out = cal.predict_proba(p)
    np.testing.assert_allclose(out.sum(axis=1), 1.0)
    assert np.all((out[:, 2] > 0) & (out[:, 2] < 0.02))


def test_a_class_never_predicted_and_exact_zeros_are_finite():
    p, y, _ = simulate(500)
    p[:, 3] = 0.0
    p[np.arange(100), p[:100].argmax(axis=1)] += 1e3
    p /= p.sum(axis=1, keepdims=True)
    out = ovr().fit(p, y).predict_proba(p)
    assert np.isfinite(out).all()
    np.testing.assert_allclose(out.sum(axis=1), 1.0)
    np.testing.assert_allclose(out[:, 3].mean(), np.mean(y == 3), atol=0.03)


def test_the_rest_of_an_almost_certain_class_is_not_rounded_away():
    rng = np.random.default_rng(0)
    u = rng.uniform(0, 200, 1500)  # log-odds of the first class against the others
    rest = 1 / (1 + np.exp(u))
    p = np.column_stack([1 - rest, rest / 2, rest / 2])
    y = np.where(
        rng.random(1500) < 1 / (1 + np.exp(-u / 40)), 0, rng.integers(1, 3, 1500)
    )
    out = ovr(scale="asinh_logit").fit(p, y).predict_proba(p)
    sure, unsure = out[u > 150, 0].mean(), out[(u > 40) & (u < 60), 0].mean()
    assert sure > unsure + 0.1


def test_many_classes_are_no_trouble():
    p, y, _ = simulate(3000, m=60)
    cal = ovr().fit(p, y)
    assert len(cal.curves_) == 60
    assert cal.converged_
    assert log_loss(y, cal.predict_proba(p), labels=np.arange(60)) < log_loss(
        y, p, labels=np.arange(60)
    )


def test_rows_whose_sum_vanishes_become_uniform():
    p = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    one_vs_rest.normalise(p)
    np.testing.assert_allclose(p, [[1 / 3] * 3, [1, 0, 0]])
