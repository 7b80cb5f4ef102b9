import numpy as np
import pytest
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from calspline._arrays import Counts
from calspline.fitting.groups import (
    WEAK_RIDGE,
    Direction,
    PooledLine,
    _root,
    correlation_in_groups,
    deal_groups,
    group_effects,
)


def grouped_rows(seed=0, n_groups=40, size=6, sd=1.0):
    """Log-odds, outcomes and groups, with a random effect of each group."""
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(n_groups), size)
    x = rng.normal(size=len(group))
    return (
        x,
        rng.random(len(group)) < expit(x + sd * rng.normal(size=n_groups)[group]),
        group,
    )


def test_the_pooled_line_is_that_of_a_logistic_regression():
    x, positive, _ = grouped_rows(2)
    line = PooledLine.fitted(Counts.from_rows(x, positive))
    t = (x - 0.5 * (x.min() + x.max())) / (0.5 * np.ptp(x))
    reference = LogisticRegression(C=1 / WEAK_RIDGE, fit_intercept=False, tol=1e-10)
    reference.fit(np.column_stack([np.ones_like(t), t]), positive)
    eta = reference.coef_[0] @ np.array([np.ones_like(t), t])
    v, z = expit(eta) * expit(-eta), line.standardised(x)
    np.testing.assert_allclose(line.intercept + line.slope * z, eta, atol=1e-6)
    assert np.average(z, weights=v) == pytest.approx(0.0, abs=1e-6)
    assert np.average(z**2, weights=v) == pytest.approx(1.0, abs=1e-6)


def group_sums(x, positive, group, w=None, columns=()):
    line = PooledLine.fitted(Counts.from_rows(x, positive, w))
    return line.residuals(x, positive, w, columns).sums(group)


def effect(x, positive, group, w=None, columns=()):
    """The design effect, of all rows together."""
    sums = group_sums(x, positive, group, w, columns)
    effects = group_effects(correlation_in_groups([sums]), sums.weight)
    return sums.weight.sum() / (sums.weight / effects).sum()


def test_the_estimate_solves_its_equation():
    # Normal sums of known variance: the root is that of the equation written out, and
    # is right on average.
    rng = np.random.default_rng(0)
    V, found = rng.uniform(2.0, 60.0, 400), []
    C = np.sqrt(5.0 * V * V + V)
    x = rng.normal(size=400) * np.sqrt(V)
    for _ in range(40):
        U = rng.normal(size=400) * np.sqrt(V + 0.1 * (C**2 - V)) + 2.0 * V - x
        direction = Direction(U, V, x, C, np.zeros(400), squared=float(V.sum()))
        rho = _root(lambda r, d=direction: _excess(d, r))
        e2, expected, q = direction.standardised(rho, 1.0)
        X = np.column_stack([V, x])
        S = V + rho * (C**2 - V)
        b = np.linalg.solve(X.T / S @ X, X.T / S @ U)
        np.testing.assert_allclose(e2, (U - X @ b) ** 2 / S, atol=1e-9)
        assert q @ e2 == pytest.approx(q @ expected, rel=1e-6)
        assert expected.sum() == pytest.approx(398.0)
        assert direction.correlation() > rho
        found.append(rho)
    assert np.mean(found) == pytest.approx(0.1, rel=0.03)


def _excess(direction, rho):
    e2, expected, q = direction.standardised(rho, 1.0)
    return q @ e2 - q @ expected


def test_copies_of_a_row_count_as_one():
    x, positive, _ = grouped_rows()
    assert effect(
        np.repeat(x, 7), np.repeat(positive, 7), np.repeat(np.arange(len(x)), 7)
    ) == pytest.approx(7.0)


def test_a_weight_of_two_is_a_row_seen_twice():
    x, positive, group = grouped_rows()
    twice = np.random.default_rng(3).random(len(x)) < 0.5
    both = [np.concatenate([values, values[twice]]) for values in (x, positive, group)]
    assert effect(x, positive, group, 1.0 + twice) == pytest.approx(effect(*both))


def test_a_change_of_scale_changes_nothing():
    x, positive, group = grouped_rows()
    assert effect(1e200 * x, positive, group) == pytest.approx(
        effect(x, positive, group), rel=1e-3
    )
    assert effect(5.0 - 3.0 * x, positive, group) == pytest.approx(
        effect(x, positive, group), rel=1e-3
    )


def test_independent_rows_in_groups_are_nearly_all_counted():
    found = np.array(
        [effect(*grouped_rows(seed, 200, 10, sd=0.0)) for seed in range(40)]
    )
    assert 1.05 < found.mean() < 1.2
    assert found.max() < 1.5


@pytest.mark.parametrize(("n_groups", "size"), [(20, 50), (200, 10)])
def test_the_limit_is_mostly_above_the_true_design_effect(n_groups, size):
    # The variance of the score over simulated data sets, against that of independent
    # rows.
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
    assert np.mean(np.array(found) >= 0.9 * true) > 0.7
    assert np.median(found) < 1.7 * true


def test_few_groups_err_on_the_side_of_fewer_rows():
    x, positive, group = grouped_rows(0, 6, 100, sd=0.0)
    few = np.mean([effect(*grouped_rows(seed, 6, 100, sd=0.0)) for seed in range(20)])
    assert few > 1.3
    assert effect(x, positive, group % 2) == pytest.approx(
        300.0
    )  # of two groups, nothing can be learnt


def test_rows_without_residuals_and_equal_scores_have_a_design_effect():
    x, positive, group = grouped_rows()
    sums = group_sums(x, positive, group)
    none = sums._replace(
        **{name: 0.0 * getattr(sums, name) for name in ("u", "uz", "rr", "rrzz")}
    )
    assert correlation_in_groups([none]) == 1.0
    assert correlation_in_groups([none._replace(rows=np.ones(len(none.rows)))]) == 0.0
    found = effect(np.zeros(len(group)), positive, group)
    r = positive - positive.mean()
    known = (np.bincount(group, weights=r) ** 2).sum() / (r @ r)
    assert known < found < 2 * known


def test_classes_count_in_proportion_to_their_residuals():
    x, positive, group = grouped_rows()
    one = group_sums(x, positive, group)
    alone = correlation_in_groups([one])
    assert correlation_in_groups([one, one]) == pytest.approx(alone)
    other = group_sums(*grouped_rows(5, sd=3.0))
    rare = other._replace(rr=1e-9 * other.rr)
    assert correlation_in_groups([one, other]) > 1.1 * alone
    assert correlation_in_groups([one, rare]) == pytest.approx(alone, rel=1e-6)


def dominated(seed, share=0.9, n_groups=20, size=50, sd=0.7):
    """One group has a share of all rows."""
    rng = np.random.default_rng(seed)
    sizes = np.full(n_groups, size)
    sizes[0] = share / (1.0 - share) * size * (n_groups - 1)
    group = np.repeat(np.arange(n_groups), sizes)
    x = rng.normal(0.0, 1.2, len(group))
    return (
        x,
        rng.random(len(group)) < expit(x + sd * rng.normal(size=n_groups)[group]),
        group,
    )


@pytest.mark.parametrize("share", [0.5, 0.9])
def test_a_large_group_does_not_hide_how_far_groups_differ(share):
    found, known = [], []
    for seed in range(30):
        found.append(correlation_in_groups([group_sums(*dominated(seed, share))]))
        x, positive, group = dominated(seed, share)
        small = group > 0
        known.append(
            correlation_in_groups(
                [group_sums(x[small], positive[small], group[small] - 1)]
            )
        )
    assert np.median(found) == pytest.approx(np.median(known), rel=0.15)


def test_rows_of_a_large_group_count_for_less():
    sizes = np.array([1.0, 10.0, 1000.0])
    np.testing.assert_allclose(
        sizes / group_effects(0.1, sizes), [1.0, 10 / 1.9, 1000 / 100.9]
    )
    assert (group_effects(0.0, sizes) == 1.0).all()
    np.testing.assert_allclose(group_effects(1.0, sizes), sizes)
    assert (group_effects(0.5, np.array([0.1, 0.9])) == 1.0).all()


def test_the_order_of_rows_and_the_names_of_groups_do_not_matter():
    x, positive, group = dominated(0)
    rng = np.random.default_rng(1)
    order, names = rng.permutation(len(x)), rng.permutation(20)
    segment = np.arange(len(x)) % 3
    one = effect(x, positive, group, columns=[segment])
    other = effect(
        x[order], positive[order], names[group][order], columns=[2 - segment[order]]
    )
    assert other == pytest.approx(one, rel=1e-9)
    assert contrast(x, positive, group, segment) == pytest.approx(
        contrast(x[order], positive[order], names[group][order], 2 - segment[order]),
        rel=1e-9,
    )


def contrast(x, positive, group, *columns):
    line = PooledLine.fitted(Counts.from_rows(x, positive))
    return line.residuals(x, positive, None, columns).contrast_effect(group)


def in_segments(seed, n_segments, per, size, of_segment, of_group):
    """Groups within segments, with effects of both."""
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(n_segments * per), size)
    segment = group // per
    x = rng.normal(0.0, 1.3, len(group))
    eta = (
        x
        + of_segment * rng.normal(size=n_segments)[segment]
        + of_group * rng.normal(size=n_segments * per)[group]
    )
    return x, rng.random(len(x)) < expit(eta), group, segment


@pytest.mark.parametrize(("per", "size"), [(1, 150), (2, 75), (5, 30), (50, 3)])
def test_what_segments_explain_is_no_dependence(per, size):
    contrasts, whole = [], []
    for seed in range(20):
        x, positive, group, segment = in_segments(seed, 20, per, size, 1.5, 0.0)
        contrasts.append(contrast(x, positive, group, segment))
        whole.append(effect(x, positive, group, columns=[segment]))
    assert np.mean(contrasts) < 1.15
    assert np.median(whole) < 1.6
    if per == 1:
        assert max(contrasts) == pytest.approx(1.0, abs=0.01)


def test_dependence_within_segments_counts_where_they_are_compared():
    # The variance of a segment's score about its own level, against that of independent
    # rows.
    found = [contrast(*in_segments(seed, 20, 10, 15, 0.8, 0.8)) for seed in range(20)]
    x = np.random.default_rng(0).normal(0.0, 1.3, 100_000)
    e = 0.8 * np.random.default_rng(1).normal(size=(200, 1))
    p = expit(x[:2000] + e)
    mean = p.mean(axis=0)
    known = (
        1.0 + 14.0 * ((p - mean).mean(axis=1) ** 2).mean() / (mean * (1 - mean)).mean()
    )
    assert np.mean(found) == pytest.approx(known, rel=0.15)


def test_what_all_segments_of_a_group_have_in_common_is_no_difference_between_them():
    # Questions that everybody answers: each row of a group is of another person.
    found, whole = [], []
    for seed in range(10):
        x, positive, group, _ = in_segments(seed, 60, 1, 40, 0.0, 1.5)
        for n_segments in (4, 40):
            found.append(contrast(x, positive, group, np.arange(len(x)) % n_segments))
        whole.append(effect(x, positive, group))
    assert np.mean(found) < 1.15
    assert np.mean(whole) > 4.0


def test_rows_that_are_groups_of_their_own_have_a_contrast_of_one():
    x, positive, _, segment = in_segments(0, 20, 10, 15, 0.8, 0.0)
    assert contrast(x, positive, np.arange(len(x)), segment) == 1.0
    none = np.where(segment < 3, -1, segment)
    copies = [np.repeat(values, 6) for values in (x, positive, np.arange(len(x)), none)]
    assert contrast(*copies) == pytest.approx(6.0, rel=0.02)


def test_one_segment_of_all_rows_changes_nothing():
    # Its level is that of the line, and must not be taken off twice.
    x, positive, group = grouped_rows(3, n_groups=60)
    group = np.where(np.arange(len(x)) % 2 == 0, 0, group)
    one = np.zeros(len(x), dtype=np.intp)
    found = effect(x, positive, group, columns=[one])
    assert found == pytest.approx(effect(x, positive, group), rel=1e-3)


def test_segments_of_one_label_say_nothing_about_dependence():
    # Their levels stay finite, so that all rows of a segment are off in one direction.
    rng = np.random.default_rng(0)
    x = rng.normal(size=700)
    positive = rng.random(700) < 0.5
    group = np.where(rng.random(700) < 0.9, 0, np.arange(700))
    assert contrast(x, positive, group, positive.astype(np.intp)) == 1.0


def test_groups_are_dealt_out_whole_and_evenly():
    weights = np.array([100.0, 1, 1, 90, 1, 1, 80, 1, 1, 70])
    part = deal_groups(weights, 2, 0)
    assert np.bincount(part).tolist() == [5, 5]
    assert np.bincount(part, weights=weights) == pytest.approx([183, 163])
    assert not np.array_equal(part, deal_groups(weights, 2, 5))
    np.testing.assert_array_equal(part, deal_groups(weights, 2, 0))
