import numpy as np
import pytest

from calspline import SplineCalibrator
from calspline.multiclass.structured_map import CurveTable, PowerTable


def spread(low, n=20_000):
    x = np.exp(np.random.default_rng(0).uniform(np.log(low), 0.0, n))
    return np.sort(np.concatenate([x, [low, 1.0, 0.5, np.nextafter(0.5, 0.0)]]))


def raised(x, beta, low):
    out, t, cell = x.copy(), np.empty_like(x), np.empty(x.shape, dtype=np.int64)
    PowerTable(beta, low).raise_(out, t, cell)
    return out


@pytest.mark.parametrize("beta", [0.02, 0.5, 1.0, 2.7, 9.0])
def test_powers_are_those_of_numpy_and_increase(beta):
    x = spread(1e-11)
    out = raised(x, beta, 1e-11)
    np.testing.assert_allclose(out, x**beta, rtol=1e-12)
    assert np.all(np.diff(out)[np.diff(x) / x[1:] > 1e-13 / beta] > 0.0)


def test_powers_hold_at_the_ends_of_what_can_be_fitted():
    x = spread(1e-38)
    np.testing.assert_allclose(raised(x, 0.01, 1e-38), x**0.01, rtol=1e-12)
    steep = spread(1e-3)
    np.testing.assert_allclose(raised(steep, 100.0, 1e-3), steep**100.0, rtol=1e-7)


def test_logarithm_and_bend_are_those_of_the_curve():
    q = spread(1e-7)
    u, bend = q.copy(), np.empty_like(q)
    table = CurveTable(lambda u: u + 0.3 * np.sin(u), 1e-7)
    table.bend(u, np.empty_like(q), np.empty_like(q), np.empty(q.shape, dtype=np.int64), bend)
    np.testing.assert_allclose(u, np.log(q), atol=1e-14)
    np.testing.assert_allclose(bend, 0.3 * np.sin(np.log(q)), atol=1e-9)


@pytest.mark.parametrize("order", ["C", "F"])
def test_predictions_do_not_depend_on_memory_layout_or_neighbours(order):
    rng = np.random.default_rng(1)
    p = rng.dirichlet(np.ones(7), 3000)
    cal = SplineCalibrator().fit(p, np.arange(3000) % 7)
    many = rng.dirichlet(np.ones(7), 20_000)
    out = cal.predict_proba(np.asarray(many, order=order))
    np.testing.assert_allclose(out[::999], np.vstack([cal.predict_proba(row[None]) for row in many[::999]]), rtol=1e-12)
