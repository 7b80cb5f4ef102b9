import numpy as np
import pytest

from calspline import SplineCalibrator
from calspline.maps.structured import CurveTable


def spread(low, n=20_000):
    x = np.exp(np.random.default_rng(0).uniform(np.log(low), 0.0, n))
    return np.sort(np.concatenate([x, [low, 1.0, 0.5, np.nextafter(0.5, 0.0)]]))


def test_the_bend_is_that_of_the_curve():
    q = spread(1e-7)
    bend, *work = np.empty((3, *q.shape))
    table = CurveTable(lambda u: u + 0.3 * np.sin(u), 1e-7)
    table.bend(q, *work, np.empty(q.shape, dtype=np.int64), bend)
    np.testing.assert_allclose(bend, 0.3 * np.sin(np.log(q)), atol=1e-9)


@pytest.mark.parametrize("order", ["C", "F"])
def test_predictions_do_not_depend_on_memory_layout_or_neighbours(order):
    rng = np.random.default_rng(1)
    p = rng.dirichlet(np.ones(7), 3000)
    cal = SplineCalibrator().fit(p, np.arange(3000) % 7)
    many = rng.dirichlet(np.ones(7), 20_000)
    out = cal.predict_proba(np.asarray(many, order=order))
    np.testing.assert_allclose(
        out[::999],
        np.vstack([cal.predict_proba(row[None]) for row in many[::999]]),
        rtol=1e-12,
    )
