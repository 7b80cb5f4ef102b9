"""A smoothing criterion from outside is one declaration."""

import matplotlib
import numpy as np
import pytest

import calspline
from calspline.display import SmoothingDisplay
from calspline.fitting.criteria import CRITERIA, Criterion
from calspline.fitting.newton import minimize
from calspline.fitting.smoothing import SEARCH_TOLERANCE, Chosen


def aic(task, options):
    """Akaike's criterion: twice the loss, and twice the effective parameters."""
    problem, coordinates, best = task.merged, task.coordinates, None
    scores = []
    start = problem.at(np.zeros(len(coordinates.prior)))
    for smoothing in options.values:
        q = coordinates.precision(smoothing)
        solution = minimize(problem, q, start, tolerance=SEARCH_TOLERANCE)
        edf = len(q) - q @ (solution.covariance_root() ** 2).sum(axis=1)
        scores.append(2.0 * problem.at(solution.u).local.value + 2.0 * edf)
        if scores[-1] == min(scores):
            best = Chosen(float(smoothing), solution.u, options.values, np.empty(0))
    return Chosen(best.smoothing, best.u, options.values, np.array(scores))


@pytest.fixture
def toy(monkeypatch):
    monkeypatch.setitem(CRITERIA, "toy", Criterion("toy", "Akaike's criterion", aic))


def test_a_criterion_is_used_end_to_end(toy, tmp_path):
    matplotlib.use("Agg")
    rng = np.random.default_rng(1)
    scores = rng.uniform(size=2000)
    y = rng.random(2000) < scores**2
    cal = calspline.SplineCalibrator(smoothing="toy").fit(scores, y)
    path = cal.smoothing_path_
    assert cal.smoothing_ == path["smoothing"][np.argmin(path["criterion"])]
    reml = calspline.SplineCalibrator().fit(scores, y)
    np.testing.assert_allclose(cal.calibrate(scores), reml.calibrate(scores), atol=0.05)

    calspline.save(cal, tmp_path / "toy.json")
    again = calspline.load(tmp_path / "toy.json")
    assert again.smoothing == "toy"
    np.testing.assert_array_equal(again.calibrate(scores), cal.calibrate(scores))

    display = SmoothingDisplay.from_calibrator(cal)
    assert display.label == "Akaike's criterion"
    assert "Akaike's criterion" in display.ax_.get_ylabel()


def test_an_error_names_every_criterion(toy):
    with pytest.raises(ValueError, match="smoothing must be one of 'reml', 'cv', 'loo', 'toy'; got 'mine'"):
        calspline.SplineCalibrator(smoothing="mine").fit([0.1, 0.9], [0, 1])


def test_a_criterion_serves_every_class_against_the_rest(toy):
    rng = np.random.default_rng(0)
    z = rng.normal(size=(600, 3))
    y = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
    p = np.exp(2 * z) / np.exp(2 * z).sum(axis=1, keepdims=True)
    cal = calspline.SplineCalibrator(smoothing="toy", multiclass="ovr").fit(p, y)
    assert cal.smoothing_.shape == (3,)
