"""Effects of segments on several classes, against dense references."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.special import log_softmax, softmax

from calspline.fits.class_segments import (
    MOST_INTERCEPTS,
    ClassRows,
    added,
    class_components,
    scaled,
)
from calspline.fitting.label_weights import class_weights, two_class_weights
from calspline.fitting.segment_columns import fit_columns, membership


def rows_of(n=4000, m=3, S=6, *, sd=(0.6, 0.3), columns=1, seed=0):
    rng = np.random.default_rng(seed)
    logs = log_softmax(rng.normal(size=(n, m)), axis=1)
    unit = float(np.sqrt((scaled(logs) ** 2).mean()))
    codes = [rng.integers(0, S, n) for _ in range(columns)]
    truth = [
        np.column_stack([rng.normal(size=(S, m)) * sd[0], rng.normal(size=S) * sd[1]])
        for _ in range(columns)
    ]
    eta = logs + sum(
        added(scaled(logs, unit), t, code) for t, code in zip(truth, codes, strict=True)
    )
    y = (softmax(eta, axis=1).cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    return ClassRows(logs, y, np.ones(n), codes, unit), truth


@pytest.mark.parametrize("intercepts", [True, False])
def test_derivatives_are_those_of_the_loss(intercepts):
    rows, truth = rows_of(300)
    likelihood = rows.likelihood()
    U = truth[0][:, slice(None) if intercepts else slice(-1, None)] + 0.1
    found = likelihood(U)
    flat = approx_fprime(
        U.ravel(), lambda u: likelihood(u.reshape(U.shape)).value, 1e-6
    )
    np.testing.assert_allclose(found.gradient.ravel(), flat, atol=2e-3)
    for s in range(2):
        for j in range(U.shape[1]):
            step = np.zeros_like(U)
            step[s, j] = 1e-5
            slope = (
                likelihood(U + step).gradient[s] - likelihood(U - step).gradient[s]
            ) / 2e-5
            np.testing.assert_allclose(found.hessian[s, j], slope, atol=1e-4)


@pytest.mark.parametrize("intercepts", [True, False])
def test_the_joint_loss_is_that_of_the_segments(intercepts):
    rows, truth = rows_of(300)
    U = truth[0][:, slice(None) if intercepts else slice(-1, None)] + 0.1
    summed, code = rows.likelihood()(U), rows.codes[0]
    local = rows.joint().at(U[code])
    assert local.value == pytest.approx(summed.value)
    gradient = [local.gradient[code == s].sum(axis=0) for s in range(6)]
    np.testing.assert_allclose(gradient, summed.gradient, atol=1e-10)
    sums = local.hessian_sums(membership([code], [6]))
    np.testing.assert_allclose(sums[1:], summed.hessian, atol=1e-10)
    V = np.random.default_rng(0).normal(size=U.shape)
    product = [local.times(V[code])[code == s].sum(axis=0) for s in range(6)]
    np.testing.assert_allclose(
        product, np.einsum("sij,sj->si", summed.hessian, V), atol=1e-10
    )


def test_weights_make_the_map_the_best_one_and_keep_effects_as_they_are():
    rows, _ = rows_of(4000, sd=(0.0, 0.0))
    too_sure = log_softmax(1.4 * rows.logs + np.array([0.3, 0.0, -0.2]), axis=1)
    rows = ClassRows(too_sure, rows.classes, rows.w, rows.codes, rows.unit)
    balanced = rows.balanced(4)
    whole = ClassRows(
        too_sure, rows.classes, balanced.w, [np.zeros(4000, dtype=int)], rows.unit
    )
    assert np.abs(rows.likelihood()(np.zeros((6, 4))).gradient.sum(axis=0)).max() > 50.0
    assert np.abs(whole.likelihood()(np.zeros((1, 4))).gradient).max() < 1.0
    assert 0.5 < balanced.w.mean() < 1.5


def test_two_classes_are_weighted_as_positives_and_negatives_are():
    rng = np.random.default_rng(0)
    eta, best = rng.normal(size=(2, 200)) * 3.0
    y = rng.random(200) < 0.5
    logs, to = (
        log_softmax(np.column_stack([np.zeros(200), each]), axis=1)
        for each in (eta, best)
    )
    positives, negatives = two_class_weights(eta, best)
    np.testing.assert_allclose(
        class_weights(logs, to, y.astype(int)),
        np.where(y, positives, negatives),
        rtol=1e-9,
    )


def test_intercepts_and_temperatures_are_found():
    rows, truth = rows_of(30000, S=30)
    (effects,) = fit_columns(rows, class_components(3))
    assert effects.converged
    ours = effects.theta + effects.beta
    centred = ours[:, :3] - ours[:, :3].mean(axis=1, keepdims=True)
    true = truth[0][:, :3] - truth[0][:, :3].mean(axis=1, keepdims=True)
    assert np.corrcoef(centred.ravel(), true.ravel())[0, 1] > 0.9
    assert np.corrcoef(ours[:, 3], truth[0][:, 3])[0, 1] > 0.9


def test_each_column_has_its_own_effects():
    rows, truth = rows_of(20000, columns=2, sd=(0.0, 0.3))
    for effects, true in zip(
        fit_columns(rows, class_components(3)), truth, strict=True
    ):
        assert np.corrcoef(effects.theta[:, 3], true[:, 3])[0, 1] > 0.9


def test_rows_without_a_segment_are_left_out():
    rows, _ = rows_of(3000)
    code = np.where(np.arange(3000) % 4 == 0, -1, rows.codes[0])
    keep = code >= 0
    a = fit_columns(
        ClassRows(rows.logs, rows.classes, rows.w, [code], rows.unit),
        class_components(3),
    )[0]
    fewer = ClassRows(
        rows.logs[keep], rows.classes[keep], rows.w[keep], [code[keep]], rows.unit
    )
    np.testing.assert_allclose(
        a.theta, fit_columns(fewer, class_components(3))[0].theta, atol=1e-12
    )


def test_very_many_classes_have_a_temperature_only():
    assert len(class_components(MOST_INTERCEPTS).kind) == MOST_INTERCEPTS + 1
    assert len(class_components(MOST_INTERCEPTS + 1).kind) == 1
    rows, truth = rows_of(4000, sd=(0.0, 0.4))
    (effects,) = fit_columns(rows, class_components(3, intercepts=False))
    assert effects.theta.shape == (6, 1)
    assert np.corrcoef(effects.theta[:, 0], truth[0][:, 3])[0, 1] > 0.9
