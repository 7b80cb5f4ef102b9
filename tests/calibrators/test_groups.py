import json

import numpy as np
import pytest
from scipy.special import expit, log_softmax, softmax
from sklearn.base import clone

from calspline import ScoreHistogram, SplineCalibrator, load, save
from calspline.fits.limits import atom_limits

RECIPES = {
    "default": {},
    "brier": {"loss": "brier"},
    "monotone": {"monotone": True},
    "cv": {"smoothing": "cv"},
    "ridge": {"penalty": "ridge", "smoothing": 1.0},
    "paper": {
        "scale": "compact_logit",
        "knots": "sample",
        "penalty": "ridge",
        "smoothing": "cv",
    },
}


def games(seed=0, n_games=60, size=20, noise=0.3):
    """Forecasts of games, each of which has one outcome: calibrated, but for the noise."""
    rng = np.random.default_rng(seed)
    game = np.repeat(np.arange(n_games), size)
    u = rng.normal(size=n_games)
    won = (rng.random(n_games) < expit(u)).astype(int)
    return expit(u[game] + noise * rng.normal(size=len(game))), won[game], game


def three_classes(seed=0, n=150):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, 3))
    y = np.array([rng.choice(3, p=row) for row in softmax(z, axis=1)])
    return softmax(2 * z, axis=1), y


def described(calibrator):
    return json.dumps(calibrator.to_dict(), sort_keys=True)


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=list(RECIPES))
def test_groups_of_one_row_change_nothing_to_the_last_bit(recipe):
    scores, y, _ = games()
    names = np.random.default_rng(0).permutation(len(y)).astype(str)
    calibrator = SplineCalibrator(**recipe)
    without = described(calibrator.fit(scores, y))
    assert described(calibrator.fit(scores, y, groups=names)) == without
    assert (calibrator.design_effect_, calibrator.n_effective_) == (1.0, len(y))


@pytest.mark.parametrize("multiclass", ["structured", "ovr"])
def test_groups_of_one_row_change_nothing_for_three_classes(multiclass):
    scores, y = three_classes()
    calibrator = SplineCalibrator(multiclass=multiclass)
    without = described(calibrator.fit(scores, y))
    assert described(calibrator.fit(scores, y, groups=np.arange(len(y)))) == without


@pytest.mark.parametrize("recipe", ["brier", "ridge"])
def test_copies_of_rows_in_groups_are_fitted_as_one(recipe):
    # These recipes have no targets that count rows.
    rng = np.random.default_rng(0)
    scores = np.round(rng.random(300), 3)
    y = (rng.random(300) < scores**2).astype(int)
    copies = [np.repeat(values, 5) for values in (scores, y, np.arange(300))]
    many = SplineCalibrator(**RECIPES[recipe]).fit(
        copies[0], copies[1], groups=copies[2]
    )
    assert many.n_effective_ == pytest.approx(300)
    one = SplineCalibrator(**RECIPES[recipe]).fit(scores, y)
    np.testing.assert_allclose(many.calibrate(scores), one.calibrate(scores), atol=1e-6)
    if recipe == "ridge":
        np.testing.assert_allclose(
            many.interval(scores), one.interval(scores), atol=1e-6
        )
    else:  # single rows left out by themselves, or in batches of whole groups
        one = SplineCalibrator(**RECIPES[recipe]).fit(scores, y)
        assert np.abs(np.log10(many.smoothing_ / one.smoothing_)) <= 1.0
    np.testing.assert_allclose(many.calibrate(scores), one.calibrate(scores), atol=0.02)
    assert many.edf_ == pytest.approx(one.edf_, rel=0.3)


@pytest.mark.parametrize("multiclass", ["structured", "ovr"])
def test_copies_of_rows_of_three_classes_are_fitted_as_one(multiclass):
    scores, y = three_classes()
    options = {"multiclass": multiclass} | (
        {"loss": "brier"} if multiclass == "ovr" else {}
    )
    one = SplineCalibrator(**options).fit(scores, y)
    groups = np.repeat(np.arange(len(y)), 4)
    many = SplineCalibrator(**options).fit(
        np.repeat(scores, 4, axis=0), np.repeat(y, 4), groups=groups
    )
    assert many.design_effect_ == pytest.approx(4.0)
    np.testing.assert_allclose(
        many.predict_proba(scores), one.predict_proba(scores), atol=1e-4
    )


@pytest.mark.slow
@pytest.mark.parametrize("recipe", RECIPES.values(), ids=list(RECIPES))
def test_rows_that_agree_count_for_little(recipe):
    scores, y, game = games()
    calibrator = SplineCalibrator(**recipe)
    alone = clone(calibrator).fit(scores, y)
    calibrator.fit(scores, y, groups=game)
    assert 55 < calibrator.n_effective_ < 100
    assert calibrator.n_effective_ * calibrator.design_effect_ == pytest.approx(len(y))
    if recipe.get("loss") != "brier":
        before, after = (one.interval([0.3, 0.7]) for one in (alone, calibrator))
        assert np.all(np.diff(after) > 1.3 * np.diff(before))


def test_good_scores_are_left_nearly_alone():
    scores, y, game = games(noise=0.0)
    grid = np.array([0.2, 0.5, 0.8])
    harm = [np.abs(SplineCalibrator().fit(scores, y).calibrate(grid) - grid).max()]
    harm.append(
        np.abs(
            SplineCalibrator().fit(scores, y, groups=game).calibrate(grid) - grid
        ).max()
    )
    assert harm[1] < 0.5 * harm[0]


def test_cross_validation_leaves_out_whole_groups():
    # All rows of a game have its score: rows left out one by one are known from the
    # others.
    scores, y, game = games(2, 40, 30, noise=0.0)
    options = {"smoothing": "cv", "scale": "logit", "monotone": False}
    leaking = SplineCalibrator(**options).fit(scores, y)
    whole = SplineCalibrator(**options).fit(scores, y, groups=game)
    assert whole.smoothing_ > 100 * leaking.smoothing_
    roughest = (
        whole.smoothing_path_["criterion"][0],
        leaking.smoothing_path_["criterion"][0],
    )
    assert roughest[0] > 1.5 * roughest[1]


def test_folds_of_groups_do_not_depend_on_the_order_of_rows():
    scores, y, game = games()
    order = np.random.default_rng(1).permutation(len(y))
    names = np.array([f"game {g}" for g in game])
    one = SplineCalibrator(smoothing="cv").fit(scores, y, groups=names)
    other = SplineCalibrator(smoothing="cv").fit(
        scores[order], y[order], groups=names[order]
    )
    np.testing.assert_allclose(
        other.smoothing_path_["criterion"], one.smoothing_path_["criterion"]
    )
    np.testing.assert_allclose(other.calibrate(scores), one.calibrate(scores))


@pytest.mark.parametrize("rounded", [True, False])
def test_a_histogram_is_divided_as_the_rows_are(rounded):
    rng = np.random.default_rng(0)
    scores = np.round(rng.random(9000), 2) if rounded else rng.random(9000)
    y, part, w = (
        rng.random(9000) < 0.4,
        rng.integers(3, size=9000),
        rng.uniform(0.5, 2.0, 9000),
    )
    histogram = ScoreHistogram.from_scores(scores, y, w)
    assert histogram.exact == rounded
    checked = SplineCalibrator().fit(scores, y).model_.check(scores)
    positives, negatives = histogram.divided(checked, y, w, part)
    np.testing.assert_allclose(positives.sum(axis=0), histogram.positives)
    np.testing.assert_allclose(negatives.sum(axis=0), histogram.negatives)
    for k in range(3):
        own = ScoreHistogram.from_scores(scores[part == k], y[part == k], w[part == k])
        assert positives[k].sum() == pytest.approx(own.positives.sum())
        # Means in cells may differ; the cumulated weights at locations hardly do.
        at = np.searchsorted(histogram.locations, own.locations, side="right") - 1
        np.testing.assert_allclose(
            np.cumsum(positives[k])[at], np.cumsum(own.positives), atol=6.0
        )


def test_a_weight_of_two_is_a_row_seen_twice():
    scores, y, game = games()
    w = 1.0 + (np.arange(len(y)) % 3 == 0)
    weighted = SplineCalibrator().fit(scores, y, w, groups=game)
    twice = np.repeat(np.arange(len(y)), w.astype(int))
    repeated = SplineCalibrator().fit(scores[twice], y[twice], groups=game[twice])
    assert weighted.n_effective_ == pytest.approx(repeated.n_effective_)
    np.testing.assert_allclose(
        weighted.calibrate(scores), repeated.calibrate(scores), atol=1e-8
    )


def test_rows_of_weight_zero_are_no_group():
    scores, y, game = games()
    w = (game != 5).astype(float)
    with_none = SplineCalibrator().fit(scores, y, w, groups=game)
    without = SplineCalibrator().fit(
        scores[game != 5], y[game != 5], groups=game[game != 5]
    )
    assert described(with_none) == described(without)


def test_a_histogram_takes_the_number_of_effective_rows():
    scores, y, game = games()
    fitted = SplineCalibrator().fit(scores, y, groups=game)
    histogram = ScoreHistogram.from_scores(scores, y)
    told = SplineCalibrator().fit_histogram(histogram, n_effective=fitted.n_effective_)
    np.testing.assert_allclose(told.interval(scores), fitted.interval(scores))
    assert (told.n_effective_, told.design_effect_) == pytest.approx(
        (fitted.n_effective_, fitted.design_effect_)
    )
    for wrong, message in (
        (0, "n_effective must be"),
        (1e6, "at most the weight of the rows, 1200"),
    ):
        with pytest.raises(ValueError, match=message):
            SplineCalibrator().fit_histogram(histogram, n_effective=wrong)


@pytest.mark.parametrize("multiclass", [None, "structured", "ovr"])
def test_what_groups_did_is_saved(tmp_path, multiclass):
    if multiclass is None:
        scores, y, groups = games()
        calibrator = SplineCalibrator().fit(scores, y, groups=groups)
    else:
        scores, y = three_classes()
        calibrator = SplineCalibrator(multiclass=multiclass).fit(
            scores, y, groups=np.arange(len(y)) // 3
        )
    save(calibrator, tmp_path / "model.json")
    again = load(tmp_path / "model.json")
    assert (again.n_effective_, again.design_effect_) == (
        calibrator.n_effective_,
        calibrator.design_effect_,
    )
    np.testing.assert_array_equal(
        again.predict_proba(scores), calibrator.predict_proba(scores)
    )


def test_logits_of_three_classes_take_groups():
    scores, y = three_classes(1, 400)
    groups = np.arange(400) // 10
    calibrator = SplineCalibrator().fit(scores, y, groups=groups)
    margins = SplineCalibrator().fit(
        10.0 + log_softmax(np.log(scores), axis=1), y, groups=groups
    )
    assert margins.n_effective_ == pytest.approx(calibrator.n_effective_, rel=0.05)
    assert 1.0 <= calibrator.design_effect_ < 2.0


def test_exact_scores_that_never_failed_stay_certain_where_rows_count_less():
    held = ScoreHistogram.from_counts(
        [0.0, 0.1, 0.9, 1.0], positives=[0, 10, 90, 800], totals=[800, 100, 100, 800]
    )
    near = np.log(1 / 0.05 - 1)  # half of what is left of 0.9
    far = np.log(1 / 0.025 - 1)  # a quarter
    assert atom_limits(held) == pytest.approx((-far, far))
    further = np.log(4 / 0.025 - 1)
    assert atom_limits(held, 4.0) == pytest.approx((-further, further))
    # Eight effective rows, and none.
    assert atom_limits(held, 100.0) == pytest.approx((-near, near))
    assert atom_limits(held, 1e6) == pytest.approx((-near, near))
    failed = ScoreHistogram.from_counts(
        [0.1, 0.9, 1.0], positives=[10, 90, 780], totals=[100, 100, 800]
    )
    assert atom_limits(failed) == (-np.inf, pytest.approx(far))
    assert atom_limits(failed, 4.0) == (-np.inf, pytest.approx(far))


def dominated(seed, share=0.9, n_groups=20, size=50, sd=0.7):
    """Scores that are right on average over groups, one of which has a share of all rows."""
    rng = np.random.default_rng(seed)
    sizes = np.full(n_groups, size)
    sizes[0] = share / (1.0 - share) * size * (n_groups - 1)
    group = np.repeat(np.arange(n_groups), sizes)
    z = rng.normal(0.0, 1.2, len(group))
    y = rng.random(len(group)) < expit(z + sd * rng.normal(size=n_groups)[group])
    return expit(z), y, group


@pytest.mark.filterwarnings("ignore:one group has")
@pytest.mark.parametrize("stretched", [1.0, 2.0], ids=["right", "over-confident"])
@pytest.mark.parametrize("share", [0.5, 0.9])
def test_a_group_that_has_most_rows_does_not_have_the_curve_to_itself(share, stretched):
    u = np.linspace(-2.5, 2.5, 21)
    true = expit(u[:, None] + 0.7 * np.random.default_rng(0).normal(size=4000)).mean(
        axis=1
    )

    def excess(p):
        return np.mean(
            true * np.log(true / p) + (1 - true) * np.log((1 - true) / (1 - p))
        )

    covered, losses = [], []
    for seed in range(25):
        p, y, group = dominated(seed, share)
        scores, at = (
            expit(stretched * np.log(each / (1 - each))) for each in (p, expit(u))
        )
        calibrator = SplineCalibrator().fit(scores, y, groups=group)
        low, high = calibrator.interval(at).T
        covered.append(np.mean((low <= true) & (true <= high)))
        unknown = SplineCalibrator().fit(scores, y)
        losses.append((excess(calibrator.calibrate(at)), excess(unknown.calibrate(at))))
    with_groups, without = np.mean(losses, axis=0)
    assert np.mean(covered) > 0.92
    assert with_groups < 0.35 * without


def test_one_group_with_most_rows_brings_a_warning():
    scores, y, group = dominated(0, 0.9)
    with pytest.warns(
        UserWarning, match="one group has 8550 of 9500 rows, which count as only"
    ):
        SplineCalibrator().fit(scores, y, groups=group)
    p, codes = three_classes(n=300)
    with pytest.warns(UserWarning, match="one group has 200 of 300 rows"):
        SplineCalibrator().fit(p, codes, groups=np.arange(300) // 200)


@pytest.mark.filterwarnings("ignore:one group has")
def test_a_histogram_holds_the_rows_as_they_are():
    scores, y, group = dominated(0)
    calibrator = SplineCalibrator().fit(scores, y, groups=group)
    known = SplineCalibrator().fit(scores, y).histogram_
    np.testing.assert_array_equal(calibrator.histogram_.positives, known.positives)
    assert calibrator.n_effective_ * calibrator.design_effect_ == pytest.approx(len(y))


@pytest.mark.filterwarnings("ignore:one group has")
@pytest.mark.parametrize("smoothing", ["reml", "cv"])
def test_the_order_of_rows_and_the_names_of_groups_do_not_matter(smoothing):
    scores, y, group = dominated(1, n_groups=8)
    rng = np.random.default_rng(0)
    order, names = rng.permutation(len(y)), np.sort(rng.permutation(100)[:8])
    one = SplineCalibrator(smoothing=smoothing).fit(scores, y, groups=group)
    other = SplineCalibrator(smoothing=smoothing).fit(
        scores[order], y[order], groups=names[group][order]
    )
    assert other.design_effect_ == pytest.approx(one.design_effect_, rel=1e-9)
    np.testing.assert_allclose(
        other.calibrate(scores), one.calibrate(scores), atol=1e-7
    )


def in_segments(seed, n_segments, per, size, of_group=0.0, n_classes=2):
    """Groups within segments that differ by 0.8 in their log-odds."""
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(n_segments * per), size)
    segment = group // per
    z = rng.normal(0.0, 1.3, (len(group), n_classes))
    shift = 0.8 * rng.normal(size=(n_segments, n_classes))[segment]
    shift = shift + of_group * rng.normal(size=(n_segments * per, n_classes))[group]
    if n_classes == 2:
        true = expit(z[:, 0] + shift[:, 0])
        return expit(z[:, 0]), true, rng.random(len(group)) < true, group, segment
    true = softmax(z + shift, axis=1)
    y = (true.cumsum(axis=1) < rng.random((len(group), 1))).sum(axis=1)
    return softmax(z, axis=1), true, y, group, segment


def cross_entropy(true, p):
    if true.ndim == 1:
        true, p = (np.column_stack([1 - each, each]) for each in (true, p))
    return -np.mean((true * np.log(p)).sum(axis=1))


@pytest.mark.parametrize("per", [1, 5])
@pytest.mark.parametrize(
    ("n_classes", "multiclass"), [(2, "structured"), (3, "structured"), (3, "ovr")]
)
def test_groups_that_segments_explain_leave_segments_as_they_are(
    per, n_classes, multiclass
):
    scores, true, y, group, segment = in_segments(
        0, 20, per, 150 // per, n_classes=n_classes
    )
    calibrator = SplineCalibrator(multiclass=multiclass)
    losses = []
    for options in (
        {"by": segment},
        {"by": segment, "groups": group},
        {"groups": group},
    ):
        by = {"by": segment} if "by" in options else {}
        p = calibrator.fit(scores, y, **options).predict_proba(scores, **by)
        losses.append(cross_entropy(true, p if n_classes > 2 else p[:, 1]))
    by_alone, both, groups_alone = losses
    assert both - by_alone < 0.1 * (groups_alone - by_alone)


def test_dependent_rows_in_segments_that_do_not_differ_are_shrunk():
    losses = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        group = np.repeat(np.arange(60), 20)
        segment = group // 3
        z = rng.normal(size=len(group))
        y = rng.random(len(group)) < expit(z + 1.5 * rng.normal(size=60)[group])
        true = expit(z[:, None] + 1.5 * rng.normal(size=300)).mean(axis=1)
        fits = [
            SplineCalibrator().fit(expit(z), y, by=segment, groups=g)
            for g in (None, group)
        ]
        losses.append(
            [cross_entropy(true, fit.calibrate(expit(z), by=segment)) for fit in fits]
        )
    without, with_groups = np.mean(losses, axis=0) - cross_entropy(true, true)
    assert with_groups < 0.5 * without


def test_questions_that_everybody_answers_tell_people_apart():
    excess = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        question, person = np.divmod(np.arange(4000), 40)
        z = rng.normal(size=4000)
        eta = (
            z + 1.2 * rng.normal(size=100)[question] + 0.8 * rng.normal(size=40)[person]
        )
        y = rng.random(4000) < expit(eta)
        fits = [
            SplineCalibrator().fit(expit(z), y, by=person, groups=g)
            for g in (None, question)
        ]
        levels = [fit.calibrate(np.full(40, 0.5), by=np.arange(40)) for fit in fits]
        excess.append([np.ptp(np.log(p / (1 - p))) for p in levels])
    alone, both = np.mean(excess, axis=0)
    assert both == pytest.approx(alone, rel=0.15)
