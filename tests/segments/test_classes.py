"""Effects of segments on several classes, against dense references."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.special import log_softmax, softmax

from calspline.fitting.segments import fit_columns
from calspline.segments.classes import MOST_INTERCEPTS, ClassRows, added, class_components, scaled


def rows_of(n=4000, m=3, S=6, *, sd=(0.6, 0.3), columns=1, seed=0):
    rng = np.random.default_rng(seed)
    logs = log_softmax(rng.normal(size=(n, m)), axis=1)
    unit = float(np.sqrt((scaled(logs) ** 2).mean()))
    codes = [rng.integers(0, S, n) for _ in range(columns)]
    truth = [np.column_stack([rng.normal(size=(S, m)) * sd[0], rng.normal(size=S) * sd[1]]) for _ in range(columns)]
    eta = logs + sum(added(scaled(logs, unit), t, code) for t, code in zip(truth, codes, strict=True))
    y = (softmax(eta, axis=1).cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    return ClassRows(logs, y, np.ones(n), codes, unit), truth


@pytest.mark.parametrize("columns", [1, 2])
def test_derivatives_are_those_of_the_loss(columns):
    rows, truth = rows_of(300, columns=columns)
    likelihood = rows.likelihood(0, [t / 2 for t in truth])
    U = truth[0] + 0.1
    found = likelihood(U)
    flat = approx_fprime(U.ravel(), lambda u: likelihood(u.reshape(U.shape)).value, 1e-6)
    np.testing.assert_allclose(found.gradient.ravel(), flat, atol=2e-3)
    for s in range(2):
        for j in range(U.shape[1]):
            step = np.zeros_like(U)
            step[s, j] = 1e-5
            slope = (likelihood(U + step).gradient[s] - likelihood(U - step).gradient[s]) / 2e-5
            np.testing.assert_allclose(found.hessian[s, j], slope, atol=1e-4)


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
    for effects, true in zip(fit_columns(rows, class_components(3)), truth, strict=True):
        assert np.corrcoef(effects.theta[:, 3], true[:, 3])[0, 1] > 0.9


def test_rows_without_a_segment_are_left_out():
    rows, _ = rows_of(3000)
    code = np.where(np.arange(3000) % 4 == 0, -1, rows.codes[0])
    keep = code >= 0
    a = fit_columns(ClassRows(rows.logs, rows.classes, rows.w, [code], rows.unit), class_components(3))[0]
    fewer = ClassRows(rows.logs[keep], rows.classes[keep], rows.w[keep], [code[keep]], rows.unit)
    np.testing.assert_allclose(a.theta, fit_columns(fewer, class_components(3))[0].theta, atol=1e-12)


def test_very_many_classes_have_a_temperature_only():
    assert len(class_components(MOST_INTERCEPTS).kind) == MOST_INTERCEPTS + 1
    assert len(class_components(MOST_INTERCEPTS + 1).kind) == 1
    rows, truth = rows_of(4000, sd=(0.0, 0.4))
    (effects,) = fit_columns(rows, class_components(3, intercepts=False))
    assert effects.theta.shape == (6, 1)
    assert np.corrcoef(effects.theta[:, 0], truth[0][:, 3])[0, 1] > 0.9
