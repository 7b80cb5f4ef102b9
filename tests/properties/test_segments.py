"""What holds for fits with segments on any data: heavy tails, atoms, segments of one class, confounded columns."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit, softmax
from sklearn.exceptions import ConvergenceWarning

from calspline import SplineCalibrator
from calspline.fits.segments import Counted, curve_components
from calspline.fitting import segment_columns, segments
from calspline.fitting.segment_columns import check_against_pooled, fit_columns

pytestmark = pytest.mark.filterwarnings("ignore:scores are lower")

SHAPES = [
    "t3 margins",
    "Cauchy margins",
    "t3 probabilities",
    "Cauchy probabilities",
    "atom",
]


def drawn(seed, rows=(300, 5000)):
    """A random data set: scores, segments, true probabilities and labels, to fit and to judge."""
    rng = np.random.default_rng(seed)
    shape = SHAPES[seed % len(SHAPES)]
    n = int(np.exp(rng.uniform(*np.log(rows))))
    S = int(rng.choice([2, 3, 5, 10, 30]))
    intercepts = rng.normal(size=S) * rng.choice([0.0, 0.3, 0.8])
    slopes = 1.0 + rng.normal(size=S) * rng.choice([0.0, 0.3])
    one_class = rng.integers(S) if rng.random() < 0.3 else -1
    scale, steepest = rng.choice([0.5, 1.0, 2.0, 5.0]), rng.choice([0.5, 1.0, 3.0])
    atom, rate, share = (
        rng.choice([1e-3, 1e-6, 0.0]),
        rng.choice([0.01, 0.2, 0.5]),
        rng.choice([0.01, 0.05, 0.2]),
    )
    sizes = rng.dirichlet(np.full(S, rng.choice([0.5, 50.0])))

    def draw(n):
        s = rng.choice(S, size=n, p=sizes)
        heavy = {"t": 3, "C": 1}.get(shape[0])
        u = rng.normal(size=n) if heavy is None else rng.standard_t(heavy, n)
        p = expit(1.5 * steepest * np.tanh(u / steepest) * slopes[s] + intercepts[s])
        x = scale * u if "margins" in shape else expit(np.clip(scale * u, -700.0, 36.0))
        if shape == "atom":
            there = rng.random(n) < share
            x, p = np.where(there, atom, x), np.where(there, rate, p)
        p = np.where(s == one_class, 0.001, p)
        return x, s, p, rng.random(n) < p

    return draw(n), draw(10_000)


def excess(p, q):
    """Mean log-loss to be expected, in nats."""
    p = np.asarray(p, dtype=float)
    q = np.clip(q, 1e-15, 1.0 - 1e-15)
    return float(np.mean(-p * np.log(q) - (1.0 - p) * np.log1p(-q)))


def worse_than_pooled(seed):
    """By how many nats a fit with segments is worse than the pooled curve, in the sample and out of it."""
    (x, s, _, y), (new, s_new, p_new, _) = drawn(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        warnings.filterwarnings(
            "ignore", message=".*segments that the fit has not seen"
        )
        pooled, cal = SplineCalibrator().fit(x, y), SplineCalibrator().fit(x, y, by=s)
        known = np.isin(s_new, s)
        new, s_new, p_new = new[known], s_new[known], p_new[known]
        within = excess(y, cal.calibrate(x, by=s)) - excess(y, pooled.calibrate(x))
        beyond = excess(p_new, cal.calibrate(new, by=s_new)) - excess(
            p_new, pooled.calibrate(new)
        )
    return within, beyond


@pytest.mark.parametrize("seed", range(40))
def test_segments_are_no_worse_than_the_pooled_curve(seed):
    within, beyond = worse_than_pooled(seed)
    assert within < 0.002
    assert beyond < 0.02


@pytest.mark.thorough
def test_segments_of_very_many_data_sets_are_no_worse_than_the_pooled_curve():
    worst = np.array([worse_than_pooled(seed) for seed in range(1000, 1500)])
    assert worst[:, 0].max() < 0.002
    assert worst[:, 1].max() < 0.03
    assert worst[:, 1].mean() < 0.0


def in_columns(seed, n=1500, K=8):
    """Rows with three columns of segments, of which the effects of the first two partly cancel out."""
    rng = np.random.default_rng(seed)
    a = rng.integers(K, size=n)
    b = np.where(rng.random(n) < 0.8, a, rng.integers(K, size=n))
    c = a // 3 if seed % 2 else rng.integers(3, size=n)
    effect = rng.normal(0.0, 0.8, K)
    x = rng.standard_t(3, n)
    y = rng.random(n) < expit(
        x + effect[a] - 1.25 * effect[b] + rng.normal(0.0, 0.3, 3)[c]
    )
    return expit(x), y, [a, b, c]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("missing", [False, True])
def test_the_order_of_columns_does_not_matter(seed, missing):
    x, y, columns = in_columns(seed)
    by = [
        np.array([f"{k}{label}" for label in column], dtype=object)
        for k, column in enumerate(columns)
    ]
    if missing:
        by[1][::7] = None
        by[2][::5] = None
    wanted = SplineCalibrator().fit(x, y, by=by)
    for order in ([1, 0, 2], [2, 1, 0], [1, 2, 0]):
        cal = SplineCalibrator().fit(x, y, by=[by[k] for k in order])
        assert cal.converged_
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found, expected = (
                cal.calibrate(x, by=[by[k] for k in order]),
                wanted.calibrate(x, by=by),
            )
            limits = (
                cal.interval(x, by=[by[k] for k in order]),
                wanted.interval(x, by=by),
            )
        np.testing.assert_allclose(found, expected, atol=1e-7)
        np.testing.assert_allclose(*limits, atol=1e-6)


@pytest.mark.parametrize("multiclass", ["structured", "ovr"])
def test_the_order_of_columns_does_not_matter_for_several_classes(multiclass):
    rng = np.random.default_rng(0)
    z, a, b = (
        rng.normal(size=(2000, 3)),
        rng.integers(4, size=2000),
        rng.integers(5, size=2000),
    )
    y = (
        z
        + rng.normal(size=(4, 3))[a]
        + rng.normal(size=(5, 3))[b]
        + rng.gumbel(size=z.shape)
    ).argmax(axis=1)
    p = softmax(z, axis=1)
    first = (
        SplineCalibrator(multiclass=multiclass)
        .fit(p, y, by=[a, b])
        .predict_proba(p, by=[a, b])
    )
    second = (
        SplineCalibrator(multiclass=multiclass)
        .fit(p, y, by=[b, a])
        .predict_proba(p, by=[b, a])
    )
    np.testing.assert_allclose(first, second, atol=1e-7)


def test_effects_that_cancel_out_are_found_in_every_order():
    gains = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        effect = rng.normal(0.0, 0.8, 10)
        a = rng.integers(10, size=13_000)
        b = np.where(rng.random(13_000) < 0.8, a, rng.integers(10, size=13_000))
        z = rng.normal(0.0, 1.5, 13_000)
        p = expit(z + effect[a] - 1.25 * effect[b])
        x, y, fit = expit(z), rng.random(13_000) < p, np.arange(13_000) < 3000
        pooled = SplineCalibrator().fit(x[fit], y[fit]).calibrate(x[~fit])
        one = (
            SplineCalibrator()
            .fit(x[fit], y[fit], by=[a[fit], b[fit]])
            .calibrate(x[~fit], by=[a[~fit], b[~fit]])
        )
        other = (
            SplineCalibrator()
            .fit(x[fit], y[fit], by=[b[fit], a[fit]])
            .calibrate(x[~fit], by=[b[~fit], a[~fit]])
        )
        least = excess(p[~fit], p[~fit])
        gains.append([excess(p[~fit], q) - least for q in (pooled, one, other)])
    pooled, one, other = np.mean(gains, axis=0)
    assert one < 0.3 * pooled
    assert other < 0.3 * pooled


@pytest.mark.parametrize("seed", range(4))
def test_the_order_of_rows_and_the_names_of_segments_do_not_matter(seed):
    (x, s, _, y), _ = drawn(seed)
    rng = np.random.default_rng(seed)
    order, names = rng.permutation(len(x)), rng.permutation(100)
    wanted = SplineCalibrator().fit(x, y, by=s).calibrate(x, by=s)
    found = (
        SplineCalibrator()
        .fit(x[order], y[order], by=names[s[order]])
        .calibrate(x, by=names[s])
    )
    np.testing.assert_allclose(found, wanted, atol=1e-9)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("columns", [1, 2])
def test_segments_that_hold_the_same_rows_have_the_pooled_curve(seed, columns):
    (x, _, _, y), _ = drawn(seed, rows=(200, 600))
    S = 4
    by = [np.repeat(np.arange(S), len(x)), np.tile(np.arange(len(x)) % 2, S)][:columns]
    x, y = np.tile(x, S), np.tile(y, S)
    if columns == 2:
        x, y, by = (
            np.tile(x, 2),
            np.tile(y, 2),
            [np.tile(by[0], 2), np.repeat([0, 1], len(by[0]))],
        )
    pooled, cal = SplineCalibrator().fit(x, y), SplineCalibrator().fit(x, y, by=by)
    np.testing.assert_array_equal(cal.calibrate(x, by=by), pooled.calibrate(x))
    np.testing.assert_allclose(cal.interval(x, by=by), pooled.interval(x), atol=1e-9)


def counted_rows(seed, S=3):
    """Bins whose curve is far off, as in the saturated tail of a pooled curve."""
    rng = np.random.default_rng(seed)
    z = np.linspace(-1.0, 1.0, 20)
    place, code = np.tile(np.arange(20), S), np.repeat(np.arange(S), 20)
    w = rng.integers(0, 6, 20 * S).astype(float)
    s = rng.binomial(w.astype(int), expit(rng.normal(0.0, 3.0, 20 * S))).astype(float)
    directions = np.column_stack([np.ones(20), z, z**2 - 0.3])
    return Counted(
        directions, place, rng.normal(0.0, 6.0) * z[place] ** 3, w, s, [code]
    )


@pytest.mark.parametrize("seed", range(20))
def test_the_loss_is_bounded_below_and_least_without_effects(seed):
    counted = counted_rows(seed)
    balanced = counted.balanced(3)
    assert (balanced.s >= 0.0).all()
    assert (balanced.s <= balanced.w * (1.0 + 1e-12)).all()
    likelihood = balanced.likelihood()
    start = likelihood(np.zeros((3, 3)))
    np.testing.assert_allclose(start.gradient.sum(axis=0), 0.0, atol=0.05)
    rng = np.random.default_rng(seed)
    for size in (1.0, 1e2, 1e4):
        assert likelihood(size * rng.normal(size=(3, 3))).value >= 0.0
        common = likelihood(np.tile(size * rng.normal(size=3), (3, 1))).value
        assert common >= start.value - 0.5


def test_a_search_that_ends_at_the_largest_variance_has_not_converged(monkeypatch):
    (x, s, _, y), _ = drawn(4)
    y = np.where(s == s[0], y, s % 2 == 0)
    assert SplineCalibrator().fit(x, y, by=s).converged_
    monkeypatch.setattr(segments, "LARGEST_VARIANCE", 0.5)
    with pytest.warns(ConvergenceWarning, match="did not converge"):
        cal = SplineCalibrator().fit(x, y, by=s)
    assert not cal.converged_


def test_effects_that_are_worse_than_none_are_not_returned(monkeypatch):
    rng = np.random.default_rng(0)
    s, x = rng.integers(0, 6, 4000), rng.normal(size=4000)
    y = rng.random(4000) < expit(x + rng.normal(size=6)[s])
    monkeypatch.setattr(segment_columns, "TOLERANCE", -1e6)
    pooled = SplineCalibrator().fit(expit(x), y)
    with pytest.warns(ConvergenceWarning, match="did not converge"):
        cal = SplineCalibrator().fit(expit(x), y, by=s)
    assert not cal.converged_
    np.testing.assert_array_equal(
        cal.calibrate(expit(x), by=s), pooled.calibrate(expit(x))
    )
    z = rng.normal(size=(4000, 3))
    y = (z + rng.normal(size=(6, 3))[s] + rng.gumbel(size=z.shape)).argmax(axis=1)
    pooled = SplineCalibrator().fit(softmax(z, axis=1), y)
    with pytest.warns(ConvergenceWarning, match="did not converge"):
        cal = SplineCalibrator().fit(softmax(z, axis=1), y, by=s)
    np.testing.assert_array_equal(
        cal.predict_proba(softmax(z, axis=1), by=s),
        pooled.predict_proba(softmax(z, axis=1)),
    )


def test_effects_are_checked_on_the_labels_as_they_are():
    counted = counted_rows(0)
    effects = fit_columns(counted, curve_components(3))
    assert check_against_pooled(counted, effects) is effects
    (found,) = effects
    far = [replace(found, theta=found.theta + 20.0, spread=np.ones(3))]
    (none,) = check_against_pooled(counted, far)
    assert not none.theta.any()
    assert not none.converged


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n_segments", "slopes"),
    [
        (3, 0.2),
        *(
            pytest.param(*one, marks=pytest.mark.thorough)
            for one in [(2, 0.0), (5, 0.0), (10, 0.2), (30, 0.0)]
        ),
    ],
)
def test_limits_of_a_new_segment_hold_it(n_segments, slopes):
    x = np.linspace(-2.5, 2.5, 11)
    inside = []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        intercept, slope = (
            rng.normal(0.0, 0.6, n_segments + 1),
            1.0 + rng.normal(0.0, slopes, n_segments + 1),
        )
        s = np.arange(200 * n_segments) % n_segments
        z = rng.normal(0.0, 1.3, len(s))
        y = rng.random(len(s)) < expit(intercept[s] + slope[s] * z)
        cal = SplineCalibrator().fit(expit(z), y, by=s)
        low, high = cal.interval(expit(x)).T
        true = expit(intercept[-1] + slope[-1] * x)
        inside.append(np.mean((low <= true) & (true <= high)))
    assert 0.91 < np.mean(inside) < 0.995


def repeated_rows(seed, n=1000, S=20):
    """A few rows, each repeated in segments of its own: segments do not differ."""
    rng = np.random.default_rng(seed)
    per = int(rng.choice([5, 20, 50]))
    group = np.arange(n) // per
    u = rng.normal(0.0, 1.5, n // per)
    y = (rng.random(n // per) < expit(u))[group]
    return expit(u[group]), y, rng.integers(S, size=n), group


def people(seed, n=1000, S=20):
    """Rows of few people, each of whom is in one segment: segments do not differ."""
    rng = np.random.default_rng(seed)
    group = np.arange(n) // int(rng.choice([5, 20, 50]))
    n_groups = group[-1] + 1
    u = rng.normal(0.0, 1.5, n)
    effect = rng.normal(0.0, rng.choice([0.5, 1.5, 3.0]), n_groups)
    y = rng.random(n) < expit(u + effect[group])
    return expit(u), y, rng.integers(S, size=n_groups)[group], group


def lost_by_segments(scores, y, segment, **groups):
    """How much more segments that do not differ lose than the pooled curve."""
    rng = np.random.default_rng(0)
    new, of_new = rng.normal(0.0, 1.5, 10_000), rng.choice(segment, 10_000)
    truth = expit(new)
    by = SplineCalibrator().fit(scores, y, by=segment, **groups)
    pooled = SplineCalibrator().fit(scores, y, **groups)
    losses = []
    for p in (by.calibrate(expit(new), by=of_new), pooled.calibrate(expit(new))):
        losses.append(-np.mean(truth * np.log(p) + (1.0 - truth) * np.log1p(-p)))
    return losses[0] - losses[1]


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_repeated_rows_without_groups_do_not_make_segments_differ():
    for seed in range(10):
        assert lost_by_segments(*repeated_rows(seed)[:3]) < 0.005


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_with_groups_segments_do_not_take_people_for_themselves():
    without, given = [], []
    for seed in range(12):
        scores, y, segment, group = people(seed)
        without.append(lost_by_segments(scores, y, segment))
        given.append(lost_by_segments(scores, y, segment, groups=group))
    assert np.mean(given) < 0.015
    assert np.mean(given) < 0.3 * np.mean(without)
