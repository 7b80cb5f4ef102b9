import numpy as np
import pytest
from scipy.special import expit, logit

from calspline import ScoreHistogram, SplineCalibrator, load, save
from calspline.export import to_python
from calspline.fits.limits import atom_limits, margin_limits


def votes(trees, n=400, seed=0):
    rng = np.random.default_rng(seed)
    truth = rng.beta(0.6, 0.8, n)
    return rng.binomial(trees, truth) / trees, rng.random(n) < truth


def test_an_exact_score_counts_a_step_beyond_the_others():
    scores = np.r_[np.zeros(50), np.full(20, 0.1), np.full(20, 0.6), np.ones(2)]
    low, high = atom_limits(
        ScoreHistogram.from_scores(scores, np.arange(len(scores)) % 2)
    )
    assert expit(low) == pytest.approx(0.025)  # a quarter of 0.1: 50 rows allow for it
    assert expit(high) == pytest.approx(
        0.8
    )  # half of what 0.6 leaves, which is more than two rows allow for


def test_without_exact_scores_there_are_no_limits():
    assert atom_limits(ScoreHistogram.from_scores([1e-12, 0.5, 0.9], [0, 1, 1])) == (
        -np.inf,
        np.inf,
    )


def test_hard_labels_are_as_certain_as_their_rows():
    low, high = atom_limits(
        ScoreHistogram.from_scores(np.r_[np.zeros(9), np.ones(3)], [0] * 9 + [1] * 3)
    )
    assert (expit(low), expit(high)) == (pytest.approx(1 / 11), pytest.approx(4 / 5))


@pytest.mark.parametrize("trees", [5, 20, 200])
def test_a_vote_of_all_trees_is_no_certainty(trees):
    for seed in range(5):
        scores, y = votes(trees, seed=seed)
        none, least, most, every = (
            SplineCalibrator()
            .fit(scores, y)
            .calibrate([0.0, 1 / trees, 1 - 1 / trees, 1.0])
        )
        assert logit(least) - 3.0 < logit(none) < logit(least)
        assert logit(most) < logit(every) < logit(most) + 3.0


def test_a_curve_with_atoms_keeps_the_ranking_of_what_was_never_seen():
    scores, y = votes(20)
    assert np.all(
        np.diff(
            SplineCalibrator(monotone=True)
            .fit(scores, y)
            .calibrate([0.0, 1e-8, 1e-6, 1e-3, 0.04])
        )
        > 0
    )


def test_files_and_exports_know_where_the_atoms_are(tmp_path):
    scores, y = votes(20)
    cal = SplineCalibrator().fit(scores, y)
    at = np.array([0.0, 1e-9, 0.05, 0.5, 0.95, 1.0])
    save(cal, tmp_path / "cal.json")
    np.testing.assert_array_equal(
        load(tmp_path / "cal.json").calibrate(at), cal.calibrate(at)
    )
    space = {}
    exec(to_python(cal), space)
    np.testing.assert_allclose(
        [space["calibrate"](float(p)) for p in at], cal.calibrate(at), rtol=1e-12
    )


def test_two_columns_keep_more_of_a_confident_model():
    rng = np.random.default_rng(0)
    u = rng.normal(0.0, 30.0, 4000)
    pairs = np.column_stack([expit(-u), expit(u)])
    y = rng.random(4000) < expit(u / 10.0)
    cal = SplineCalibrator().fit(pairs, y)
    far = np.array([25.0, 45.0, 60.0])
    assert np.all(
        np.diff(cal.calibrate(np.column_stack([expit(-far), expit(far)]))[:, 1]) > 1e-4
    )


def test_scores_beyond_the_clip_of_the_logit_keep_their_ranking():
    rng = np.random.default_rng(1)
    u = np.sort(rng.normal(-8.0, 12.0, 600))
    p = np.unique(expit(u[u < 20.0]))
    y = rng.random(len(p)) < expit(0.05 * logit(p))
    cal = SplineCalibrator(scale="logit", monotone=True).fit(p, y)
    assert (p < 1e-9).sum() > 50
    assert len(np.unique(cal.calibrate(p))) == len(p)
    assert cal.epsilon_ is None


def test_one_far_margin_leaves_the_curve_to_the_others():
    rng = np.random.default_rng(0)
    x = rng.normal(size=5000)
    y = rng.random(5000) < expit(2 * x)
    there = np.array([-2.0, 0.0, 2.0])
    plain = SplineCalibrator(scale="identity").fit(x, y).calibrate(there)
    for far in (1e6, -65504.0, -1e9, 1e300):
        x[0] = far
        for label in (False, True):
            y[0] = label
            cal = SplineCalibrator(scale="identity").fit(x, y)
            np.testing.assert_allclose(cal.calibrate(there), plain, atol=0.02)
            assert cal.converged_


def test_margins_without_a_far_one_have_limits_beyond_all_of_them():
    x = np.random.default_rng(0).logistic(size=3000)
    low, high = margin_limits(
        ScoreHistogram.from_scores(x, np.arange(3000) % 2, kind="margin")
    )
    assert low < x.min()
    assert high > x.max()


def test_where_nearly_all_margins_are_equal_the_others_say_how_far_is_far():
    x = np.r_[np.zeros(5000), np.arange(1.0, 31.0), 1e9]
    low, high = margin_limits(
        ScoreHistogram.from_scores(x, np.arange(len(x)) % 2, kind="margin")
    )
    assert high < 1e3
    assert low < 0.0


def stated(slope, seed, n=600, digits=2):
    """Rounded forecasts without exact zeros and ones, in groups of six that agree."""
    rng = np.random.default_rng(seed)
    z = rng.normal(0.0, 1.5, n)
    group = np.arange(n) // 6
    y = rng.random(n) < expit(slope * z + rng.normal(size=n // 6)[group])
    return np.clip(np.round(expit(z), digits), 0.02, 0.98), y, group


@pytest.mark.parametrize("slope", [0.6, 1.0, 2.5])
def test_a_rounded_zero_that_was_never_seen_is_no_certainty(slope):
    for seed in range(3):
        scores, y, group = stated(slope, seed)
        for groups in (None, group):
            cal = SplineCalibrator().fit(scores, y, groups=groups)
            zero, one, least, most = logit(cal.calibrate([0.0, 1.0, 0.02, 0.98]))
            assert least - np.log(16.0) < zero < least
            assert most < one < most + np.log(16.0)


def test_three_of_three_are_no_certainty_in_groups():
    for seed in range(3):
        scores, y, group = stated(1.0, seed)
        scores[:3], y[:3] = 1.0, True
        cal = SplineCalibrator().fit(scores, y, groups=group)
        assert cal.calibrate([1.0])[0] < 0.998


def test_the_evidence_of_an_atom_is_counted_in_effective_rows():
    # Copies of rows are no more evidence than the rows.
    scores, y, _ = stated(1.0, 0)
    scores[:40], y[:40] = 0.0, False
    counts = ScoreHistogram.from_scores(scores, y)
    copies = ScoreHistogram.from_scores(np.repeat(scores, 50), np.repeat(y, 50))
    assert atom_limits(copies, 50.0)[0] >= atom_limits(counts)[0]


def test_a_few_rows_do_not_hold_an_atom_far_out():
    # One in a thousand of the other scores is a hundred times closer to 0 than the
    # rest, and worth less than a row.
    scores = np.r_[np.zeros(100), 1e-6, np.linspace(0.02, 0.9, 1000)]
    counts = ScoreHistogram.from_scores(scores, np.arange(len(scores)) % 2)
    assert expit(atom_limits(counts)[0]) < 1e-6
    assert expit(atom_limits(counts, 50.0)[0]) > 0.004
