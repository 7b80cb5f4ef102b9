from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit, logit

from calspline import ScoreHistogram, SplineCalibrator
from calspline.fits import curve
from calspline.fits.limits import EVERYWHERE, score_limits
from calspline.fits.options import Recipe
from calspline.fits.paper import paper_task
from calspline.fitting import smoothing as smooth
from calspline.fitting.averaging import average
from calspline.fitting.basis import PiecewiseCubic
from calspline.fitting.fit import SplineTask
from calspline.fitting.newton import minimize
from calspline.fitting.smoothing import FIXED_SPREAD, SPREADS
from calspline.transforms import Transform


def over_confident(n=400, seed=0, slope=0.6):
    rng = np.random.default_rng(seed)
    u = rng.normal(-0.3, 2.0, n)
    return expit(u), rng.random(n) < expit(slope * u + 0.3 * np.sin(u))


def task_of(p, y):
    histogram = ScoreHistogram.from_scores(p, y)
    recipe = Recipe()
    limits = score_limits("logit", histogram)
    placed = curve.place_scores(Transform("logit"), histogram, limits, 1.0)
    return curve.default_task(placed, histogram, recipe)


def every_fit(task, grid, spreads):
    """All fits one by one, to the last digit: coordinates and criteria, by smoothing and spread."""
    problem, coordinates = task.merged, task.coordinates
    fits = np.zeros((len(grid), len(spreads), len(coordinates.prior)))
    criteria = np.zeros(fits.shape[:2])
    for i, smoothing in enumerate(grid):
        for j, spread in enumerate(spreads):
            q = coordinates.prior / spread**2 + smoothing * coordinates.strength
            fit = minimize(problem, q, problem.at(np.zeros(len(q))), tolerance=1e-9)
            fits[i, j] = fit.u
            criteria[i, j] = fit.objective + 0.5 * fit.log_det - 0.5 * np.log(q).sum()
    return fits, criteria


@pytest.mark.parametrize("n", [300, 3000])
def test_it_is_close_to_the_average_of_all_fits_one_by_one(n):
    task = task_of(*over_confident(n))
    grid = smooth.DECADES[4:]
    fits, C = every_fit(task, grid, SPREADS)
    W = np.exp(C.min() - C)
    expected = np.tensordot(W / W.sum(), fits, axes=2)
    choice = smooth.average_fits(
        task.merged, task.coordinates, grid, SPREADS, exhaustive=True
    )
    eta, wanted = (task.merged.at(u).eta for u in (choice.average.u, expected))
    np.testing.assert_allclose(expit(eta), expit(wanted), atol=0.01)
    np.testing.assert_allclose(
        choice.criterion, C.min() - np.log(W.mean(axis=1)), atol=1.0
    )


def test_on_a_quadratic_loss_it_is_exact():
    """With the brier loss the quadratic about a fit is the loss itself."""
    histogram = ScoreHistogram.from_scores(*over_confident(200))
    placed = curve.place_scores(Transform("identity"), histogram, EVERYWHERE, 1.0)
    task = paper_task(placed, histogram, Recipe(loss="brier"))
    grid = np.array([1e-4, 1e-2, 1.0])
    fits, C = every_fit(task, grid, SPREADS)
    solutions, scores = [], []
    for smoothing in grid:
        q = task.coordinates.precision(smoothing)
        fit = minimize(task.merged, q, task.merged.at(np.zeros(len(q))), tolerance=1e-9)
        solutions.append(fit)
        scores.append(fit.objective + 0.5 * fit.log_det - 0.5 * np.log(q).sum())
    found = average(task.merged, task.coordinates, grid, SPREADS, solutions, scores)
    W = np.exp(C.min() - C)
    np.testing.assert_allclose(
        found.criterion, C.min() - np.log(W.mean(axis=1)), rtol=1e-9
    )
    np.testing.assert_allclose(
        found.u, np.tensordot(W / W.sum(), fits, axes=2), atol=1e-9
    )


def test_one_smoothing_and_one_spread_are_the_plain_fit():
    task = task_of(*over_confident())
    grid = np.array([0.01])
    choice = smooth.average_fits(
        task.problem, task.coordinates, grid, FIXED_SPREAD, exhaustive=True
    )
    q = task.coordinates.precision(0.01)
    plain = minimize(task.problem, q, task.problem.at(np.zeros(len(q))), tolerance=1e-9)
    root = plain.covariance_root()
    np.testing.assert_allclose(choice.average.u, plain.u, atol=1e-4)
    np.testing.assert_allclose(
        choice.average.covariance, root @ root.T, rtol=1e-3, atol=1e-8
    )
    assert choice.average.smoothing == pytest.approx(0.01)
    assert choice.average.edf == pytest.approx(
        len(q) - q @ (root**2).sum(axis=1), rel=1e-3
    )
    assert choice.criterion[0] == pytest.approx(
        smooth.reml_score(task.problem, task.coordinates, 0.01, plain), abs=1e-4
    )


def test_a_line_that_may_not_move_and_may_not_bend_leaves_the_scores_as_they_are(
    monkeypatch,
):
    monkeypatch.setattr(curve, "SPREADS", np.array([1e-6]))
    p, y = over_confident()
    cal = SplineCalibrator(smoothing_grid=[1e12]).fit(p, y)
    np.testing.assert_allclose(cal.calibrate(p), p, atol=1e-6)
    assert cal.edf_ == pytest.approx(0.0, abs=1e-5)


def test_good_scores_are_left_nearly_alone_and_bad_ones_are_not():
    rng = np.random.default_rng(3)
    p = expit(rng.normal(0.0, 1.5, 300))
    draws = rng.random(300)
    kept = SplineCalibrator().fit(p, draws < p).calibrate(p)
    moved = SplineCalibrator().fit(p, draws < expit(0.3 * logit(p) - 1.0)).calibrate(p)
    assert np.abs(kept - p).mean() < 0.03
    assert np.abs(moved - expit(0.3 * logit(p) - 1.0)).mean() < 0.07


def test_the_order_of_rows_is_of_no_account_and_a_weight_is_a_row_repeated():
    p, y = over_confident(500)
    times = np.random.default_rng(1).integers(1, 4, 500)
    cal = SplineCalibrator().fit(np.repeat(p, times), np.repeat(y, times))
    order = np.random.default_rng(2).permutation(500)
    weighted = SplineCalibrator().fit(p[order], y[order], sample_weight=times[order])
    np.testing.assert_allclose(weighted.calibrate(p), cal.calibrate(p), atol=1e-10)
    np.testing.assert_allclose(weighted.interval(p), cal.interval(p), atol=1e-10)


def test_merged_bins_average_as_all_bins_do():
    task = task_of(*over_confident(5000))
    assert len(task.merged.w) < 0.5 * len(task.problem.w)
    grids = {"grid": smooth.DECADES, "spreads": SPREADS, "exhaustive": False}
    fit = task.finish(smooth.average_fits(task.merged, task.coordinates, **grids))
    eta = PiecewiseCubic(fit.breaks, fit.coefficients)(
        (task.bins.x - fit.origin) / fit.unit
    )
    wanted = smooth.average_fits(task.problem, task.coordinates, **grids).average.u
    np.testing.assert_allclose(eta, task.problem.at(wanted).eta, atol=1e-2)


def test_the_average_of_smooth_and_rough_is_as_smooth_as_a_smoothing_between():
    p, y = over_confident(2000)
    cal = SplineCalibrator().fit(p, y)
    fixed = SplineCalibrator(smoothing=cal.smoothing_).fit(p, y)
    assert smooth.DECADES[0] < cal.smoothing_ < smooth.DECADES[-1]
    assert abs(cal.edf_ - fixed.edf_) < 1.0


def test_margins_have_no_scores_to_be_left_as_they_are():
    rng = np.random.default_rng(0)
    x = rng.normal(size=60) * 3.0 + 1.0
    cal = SplineCalibrator().fit(x, rng.random(60) < expit(2 * x))
    assert cal.edf_ > 1.2


def empty_tail(seed, n):
    """Rows without a single event over twenty units of log-odds, and their labels as they are."""
    rng = np.random.default_rng(seed)
    without = -rng.exponential(8.0, n) - rng.uniform(-2.0, 2.0)
    u = np.maximum(np.r_[without, rng.normal(-0.5, 1.5, n // 12)], -30.0)
    task = task_of(expit(u), np.arange(len(u)) >= n)
    knots = task.origin + task.unit * task.basis.knots
    return SplineTask(task.bins, knots, replace(task.shape, targets=(0.0, 1.0)))


@pytest.mark.parametrize(("seed", "n"), [(6, 3000), (7, 8000), (19, 8000), (11, 30000)])
def test_where_nothing_happens_the_average_is_not_certain_of_an_event(seed, n):
    task = empty_tail(seed, n)
    bins = task.bins
    choice = task.search_evidence()
    fit = task.finish(choice)
    eta = PiecewiseCubic(fit.breaks, fit.coefficients)((bins.x - fit.origin) / fit.unit)
    assert bins.x[bins.positives > 0.0].min() > -8.0
    assert expit(eta[bins.x < -12.0]).max() < 1e-3

    def loss(eta):
        return float(bins.w @ np.logaddexp(0.0, eta) - bins.positives @ eta)

    # Of which most are lost where the curve may not fall.
    assert loss(eta) < loss(task.problem.at(choice.u).eta) + 20.0


def test_in_an_empty_tail_it_is_close_to_the_average_of_all_fits_one_by_one():
    task = empty_tail(6, 3000)
    grid = smooth.DECADES[:8]
    fits, C = every_fit(task, grid, SPREADS)
    W = np.exp(C.min() - C)
    choice = smooth.average_fits(
        task.merged, task.coordinates, grid, SPREADS, exhaustive=True
    )
    expected = np.tensordot(W / W.sum(), fits, axes=2)
    eta, wanted = (task.merged.at(u).eta for u in (choice.average.u, expected))
    np.testing.assert_allclose(expit(eta), expit(wanted), atol=0.01)
