from itertools import pairwise

import numpy as np
import pytest
from scipy.interpolate import PPoly

from calspline._arrays import Counts
from calspline.fitting import smoothing as smooth
from calspline.fitting.basis import NaturalSpline, PiecewiseCubic
from calspline.fitting.fit import CurveSpread, Line, Shape, SplineTask
from calspline.fitting.newton import log_loss

FREE = Shape(
    log_loss,
    ridge=False,
    line=(0.0, 1.0),
    targets=(0.0, 1.0),
    trusted=Line(0.0, 1.0),
    monotone=False,
    bounds=None,
)


def bins(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    x = np.sort(rng.normal(0, 2, n))
    y = (rng.random(n) < 1 / (1 + np.exp(-0.5 * x - 0.5 * np.sin(x)))).astype(float)
    return Counts(x, y, 1 - y)


def task(n=3000, knots=20):
    data = bins(n)
    return SplineTask(data, np.linspace(data.x[0], data.x[-1], knots), FREE)


def test_merged_bins_hold_the_same_weights_and_positives():
    whole = task()
    merged = whole.merged
    assert len(merged.w) < 300
    assert merged.w.sum() == whole.bins.w.sum()
    assert merged.s.sum() == pytest.approx(whole.bins.positives.sum())
    assert merged.w @ merged.offset == pytest.approx(whole.bins.w @ whole.bins.x)


def test_merged_bins_choose_the_same_smoothing():
    whole = task()
    by_merged = smooth.search_reml(
        whole.merged, whole.coordinates, smooth.DEFAULT_GRID, exhaustive=False
    )
    by_all = smooth.search_reml(
        whole.problem, whole.coordinates, smooth.DEFAULT_GRID, exhaustive=False
    )
    assert by_merged.smoothing == pytest.approx(by_all.smoothing, rel=0.05)


def test_few_bins_are_not_merged():
    small = task(n=100)
    assert small.merged is small.problem


def test_the_fit_is_the_one_of_all_bins_wherever_the_search_ended():
    whole = task()
    choice = smooth.fit_fixed(whole.problem, whole.coordinates, 0.01)
    near = whole.finish(choice)
    far = whole.finish(smooth.Chosen(0.01, np.zeros(20), choice.grid, choice.criterion))
    np.testing.assert_allclose(near.coefficients, far.coefficients, atol=1e-8)


def test_the_variance_is_that_of_the_fitted_values():
    whole = task(n=400)
    choice = smooth.fit_fixed(whole.problem, whole.coordinates, 0.01)
    fit = whole.finish(choice)
    Z = whole.problem.design.rows
    eta = whole.problem.at(choice.u).eta
    p = 1 / (1 + np.exp(-eta))
    hessian = Z.T @ ((p * (1 - p))[:, None] * Z) + np.diag(
        whole.coordinates.precision(0.01)
    )
    expected = np.einsum("ij,jk,ik->i", Z, np.linalg.inv(hessian), Z)
    z = (whole.bins.x - fit.origin) / fit.unit
    piece = np.searchsorted(fit.breaks, z, side="right")
    t = z - np.append(fit.breaks[:1], fit.breaks)[piece]
    ours = sum(fit.spread.variance[m, piece] * t ** (6 - m) for m in range(7))
    np.testing.assert_allclose(ours, expected, rtol=1e-3)


@pytest.mark.parametrize("seed", range(6))
def test_extremes_and_slopes_are_those_of_a_dense_evaluation(seed):
    rng = np.random.default_rng(seed)
    breaks = np.cumsum(rng.uniform(0.1, 1.0, 5))
    inner = rng.normal(size=(4, 4))
    lines = np.array([[0.0, 0.0], [0.0, 0.0], [3.0, 3.0], [0.0, 0.0]])
    if seed == 0:
        inner[0] = 0.0  # quadratics
    coefficients = np.column_stack([lines[:, 0], inner, lines[:, 1]])
    curve = PPoly(inner, breaks)
    x = np.concatenate(
        [np.linspace(a, np.nextafter(b, a), 4000) for a, b in pairwise(breaks)]
    )
    low, high = PiecewiseCubic(breaks, coefficients).extremes(breaks[0], breaks[-1])
    assert low == pytest.approx(curve(x).min(), abs=1e-5)
    assert high == pytest.approx(curve(x).max(), abs=1e-5)
    assert PiecewiseCubic(breaks, coefficients).smallest_slope == pytest.approx(
        min(3.0, curve(x, nu=1).min()), abs=1e-3
    )


def test_the_tube_of_a_line_is_the_angle_that_it_turns_through():
    """``(1, 3 x)`` for x from 0 to 1, made into unit vectors: an arc of arctan 3."""
    basis = NaturalSpline(np.array([0.0, 0.1, 0.3, 0.6, 0.65, 1.0]))
    root = basis.line.T * np.array([1.0, 3.0])
    assert CurveSpread(basis, root, np.ones(6), []).tube == pytest.approx(
        np.arctan(3.0), rel=1e-4
    )
