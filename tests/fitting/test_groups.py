import numpy as np
import pytest
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from calspline.arrays import Counts
from calspline.fitting.basis import NaturalSpline
from calspline.fitting.criteria import HeldOut, leave_parts_out
from calspline.fitting.groups import WEAK_RIDGE, GroupMoments, GroupSizes, PooledLine, deal_groups, design_effect
from calspline.fitting.newton import Problem, brier_loss, minimize
from calspline.fitting.smoothing import curvature_coordinates


def grouped_rows(seed=0, n_groups=40, size=6, sd=1.0):
    """Log-odds, outcomes and groups, with a random effect of each group."""
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(n_groups), size)
    x = rng.normal(size=len(group))
    return x, rng.random(len(group)) < expit(x + sd * rng.normal(size=n_groups)[group]), group


def by_the_formula(x, positive, w, group, line):
    """The estimate, as the sums are written, with a weight for each group."""
    z = (np.clip(x, line.low, line.high) - line.middle) / line.unit
    r = positive - expit(line.intercept + line.slope * z)
    D = np.column_stack([np.ones_like(z), z])
    members = [group == g for g in np.unique(group)]
    U = np.array([(w[m] * r[m]) @ D[m] for m in members])
    V = np.array([(D[m].T * w[m] * r[m] ** 2) @ D[m] for m in members])

    def estimate(c):
        J = (U.T * c) @ U
        return np.trace(np.linalg.inv(np.tensordot(c, V, 1)) @ J) / 2

    return estimate, len(members)


def test_the_moments_give_the_design_effect_and_its_jackknife_error():
    x, positive, group = grouped_rows()
    w = np.random.default_rng(1).uniform(0.5, 2.0, len(x))
    line = PooledLine.fitted(Counts.from_rows(x, positive, w))
    found, error = GroupMoments.of(line.sums(x, positive, w, group)).design_effect()
    estimate, n_groups = by_the_formula(x, positive, w, group, line)
    ones, step = np.ones(n_groups), 1e-6
    assert found == pytest.approx(estimate(ones))
    slopes = [(estimate(ones + step * e) - estimate(ones - step * e)) / (2 * step) for e in np.eye(n_groups)]
    assert error == pytest.approx(np.linalg.norm(slopes), rel=1e-6)


def test_the_pooled_line_is_that_of_a_logistic_regression():
    x, positive, _ = grouped_rows(2)
    line = PooledLine.fitted(Counts.from_rows(x, positive))
    z = (x - line.middle) / line.unit
    assert (z.min(), z.max()) == pytest.approx((-1.0, 1.0))
    reference = LogisticRegression(C=1 / WEAK_RIDGE, fit_intercept=False, tol=1e-10)
    reference.fit(np.column_stack([np.ones_like(z), z]), positive)
    assert (line.intercept, line.slope) == pytest.approx(tuple(reference.coef_[0]), abs=1e-6)


def effect(x, positive, group, w=None):
    line = PooledLine.fitted(Counts.from_rows(x, positive, w))
    return design_effect([GroupMoments.of(line.sums(x, positive, w, group))], GroupSizes.of(group, w))


def test_copies_of_a_row_count_as_one():
    x, positive, _ = grouped_rows()
    assert effect(np.repeat(x, 7), np.repeat(positive, 7), np.repeat(np.arange(len(x)), 7)) == pytest.approx(7.0)


def test_a_weight_of_two_is_a_row_seen_twice():
    x, positive, group = grouped_rows()
    twice = np.random.default_rng(3).random(len(x)) < 0.5
    both = [np.concatenate([values, values[twice]]) for values in (x, positive, group)]
    assert effect(x, positive, group, 1.0 + twice) == pytest.approx(effect(*both))


def test_a_change_of_scale_changes_nothing():
    x, positive, group = grouped_rows()
    assert effect(1e200 * x, positive, group) == pytest.approx(effect(x, positive, group), rel=1e-3)
    assert effect(5.0 - 3.0 * x, positive, group) == pytest.approx(effect(x, positive, group), rel=1e-3)


def test_independent_rows_in_groups_are_nearly_all_counted():
    found = np.array([effect(*grouped_rows(seed, 200, 10, sd=0.0)) for seed in range(40)])
    assert 1.05 < found.mean() < 1.2
    assert found.max() < 1.5


@pytest.mark.parametrize(("n_groups", "size"), [(20, 50), (200, 10)])
def test_the_limit_is_mostly_above_the_true_design_effect(n_groups, size):
    # The variance of the score over simulated data sets, against that of independent rows.
    scores, information, found = [], np.zeros((2, 2)), []
    for seed in range(200):
        x, positive, group = grouped_rows(seed, n_groups, size)
        p = expit(0.86 * x)  # about what is left of the log-odds without the effects
        D = np.column_stack([np.ones_like(x), x])
        scores.append(D.T @ (positive - p))
        information += (D.T * p * (1 - p)) @ D / 200
        if seed < 60:
            found.append(effect(x, positive, group))
    true = np.trace(np.linalg.solve(information, np.cov(np.array(scores).T))) / 2
    assert np.mean(np.array(found) >= 0.9 * true) > 0.9
    assert np.median(found) < 2.0 * true


def test_few_groups_err_on_the_side_of_fewer_rows():
    x, positive, group = grouped_rows(0, 6, 100, sd=0.0)
    few = np.mean([effect(*grouped_rows(seed, 6, 100, sd=0.0)) for seed in range(20)])
    assert few > 1.5
    assert effect(x, positive, group % 2) == pytest.approx(300.0)  # of two groups, nothing can be learnt


def test_rows_without_residuals_and_equal_scores_have_a_design_effect():
    none = GroupMoments(np.zeros(6), np.zeros((6, 6)))
    assert design_effect([none], GroupSizes(10, 50, 5.0)) == 5.0
    assert design_effect([none], GroupSizes(10, 50, 0.5)) == 1.0
    assert design_effect([none], GroupSizes(10, 10, 5.0)) == 1.0
    _, positive, group = grouped_rows()
    found = effect(np.zeros(len(group)), positive, group)
    r = positive - positive.mean()
    known = (np.bincount(group, weights=r) ** 2).sum() / (r @ r)
    assert known < found < 3 * known


def test_classes_count_in_proportion_to_their_residuals():
    x, positive, group = grouped_rows()
    line = PooledLine.fitted(Counts.from_rows(x, positive))
    one = GroupMoments.of(line.sums(x, positive, None, group))
    sizes = GroupSizes.of(group, None)
    alone_ = design_effect([one], sizes)
    assert design_effect([one, one], sizes) == pytest.approx(alone_)
    rare = GroupMoments(1e-9 * one.first * np.array([9, 9, 9, 1, 1, 1]), 1e-18 * one.second)
    assert design_effect([one, rare], sizes) == pytest.approx(alone_, rel=1e-6)


def test_groups_are_dealt_out_whole_and_evenly():
    weights = np.array([100.0, 1, 1, 90, 1, 1, 80, 1, 1, 70])
    part = deal_groups(weights, 2, 0)
    assert np.bincount(part).tolist() == [5, 5]
    assert np.bincount(part, weights=weights) == pytest.approx([183, 163])
    assert not np.array_equal(part, deal_groups(weights, 2, 5))
    np.testing.assert_array_equal(part, deal_groups(weights, 2, 0))


def test_leaving_parts_out_is_exact_for_the_brier_loss():
    rng = np.random.default_rng(0)
    x, w = np.sort(rng.random(60)), np.ones(60)
    y = (rng.random(60) < x).astype(float)
    basis = NaturalSpline(np.linspace(0.0, 1.0, 8))
    design = basis.design(x)
    coordinates = curvature_coordinates(basis, design, x, w)
    problem = Problem(design.in_coordinates(coordinates.T), np.zeros(60), w, y, brier_loss)
    grid = 10.0 ** np.arange(-4.0, 2.0)
    parts, part = [], rng.integers(4, size=60)
    for k in range(4):
        own = (part == k).astype(float)
        rest = Problem(problem.design, problem.offset, w - own, y - own * y, brier_loss)
        parts.append(HeldOut(rest, own, own * y))
    choice = leave_parts_out(problem, coordinates, grid, parts)
    for smoothing, criterion in zip(choice.grid, choice.criterion, strict=True):
        lost = 0.0
        for fold in parts:
            q = coordinates.precision(smoothing)
            eta = minimize(fold.problem, q, fold.problem.at(np.zeros(len(q))), tolerance=1e-9).eta
            lost += 0.5 * float(fold.w @ (eta - y) ** 2) / 60
        assert criterion == pytest.approx(lost)
