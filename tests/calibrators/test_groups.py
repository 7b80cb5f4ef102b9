import json

import numpy as np
import pytest
from scipy.special import expit, log_softmax, softmax
from sklearn.base import clone

from calspline import ScoreHistogram, SplineCalibrator, load, save
from calspline.binary_fit import atom_limits

RECIPES = {
    "default": {},
    "brier": {"loss": "brier"},
    "monotone": {"monotone": True},
    "cv": {"smoothing": "cv"},
    "loo": {"smoothing": "loo"},
    "loo brier": {"smoothing": "loo", "loss": "brier"},
    "ridge": {"penalty": "ridge", "smoothing": 1.0},
    "paper": {"transform": "compact_logit", "knots": "sample", "penalty": "ridge", "smoothing": "cv"},
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


@pytest.mark.parametrize("recipe", ["brier", "ridge", "loo brier"])
def test_copies_of_rows_in_groups_are_fitted_as_one(recipe):
    # These recipes have no targets that count rows.
    rng = np.random.default_rng(0)
    scores = np.round(rng.random(300), 3)
    y = (rng.random(300) < scores**2).astype(int)
    one = SplineCalibrator(**RECIPES[recipe]).fit(scores, y, groups=np.arange(300) // 2)
    copies = [np.repeat(values, 5) for values in (scores, y, np.arange(300))]
    many = SplineCalibrator(**RECIPES[recipe]).fit(copies[0], copies[1], groups=copies[2])
    assert many.n_effective_ == pytest.approx(300)
    if recipe != "loo brier":
        one = SplineCalibrator(**RECIPES[recipe]).fit(scores, y)
        np.testing.assert_allclose(many.calibrate(scores), one.calibrate(scores), atol=1e-6)
        if recipe == "ridge":
            np.testing.assert_allclose(many.interval(scores), one.interval(scores), atol=1e-6)
    else:  # single rows left out by themselves, or in batches of whole groups
        one = SplineCalibrator(**RECIPES[recipe]).fit(scores, y)
        assert np.abs(np.log10(many.smoothing_ / one.smoothing_)) <= 1.0
    np.testing.assert_allclose(many.calibrate(scores), one.calibrate(scores), atol=0.02)
    assert many.edf_ == pytest.approx(one.edf_, rel=0.3)


@pytest.mark.parametrize("multiclass", ["structured", "ovr"])
def test_copies_of_rows_of_three_classes_are_fitted_as_one(multiclass):
    scores, y = three_classes()
    options = {"multiclass": multiclass} | ({"loss": "brier"} if multiclass == "ovr" else {})
    one = SplineCalibrator(**options).fit(scores, y)
    groups = np.repeat(np.arange(len(y)), 4)
    many = SplineCalibrator(**options).fit(np.repeat(scores, 4, axis=0), np.repeat(y, 4), groups=groups)
    assert many.design_effect_ == pytest.approx(4.0)
    np.testing.assert_allclose(many.predict_proba(scores), one.predict_proba(scores), atol=1e-4)


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
    harm.append(np.abs(SplineCalibrator().fit(scores, y, groups=game).calibrate(grid) - grid).max())
    assert harm[1] < 0.5 * harm[0]


@pytest.mark.parametrize("smoothing", ["cv", "loo"])
def test_whole_groups_are_left_out(smoothing):
    # All rows of a game have its score: rows left out one by one are known from the others.
    scores, y, game = games(2, 40, 30, noise=0.0)
    options = {"smoothing": smoothing, "transform": "logit", "monotone": False}
    leaking = SplineCalibrator(**options).fit(scores, y)
    whole = SplineCalibrator(**options).fit(scores, y, groups=game)
    assert whole.smoothing_ > 100 * leaking.smoothing_
    roughest = whole.smoothing_path_["criterion"][0], leaking.smoothing_path_["criterion"][0]
    assert roughest[0] > 1.5 * roughest[1]


def test_folds_of_groups_do_not_depend_on_the_order_of_rows():
    scores, y, game = games()
    order = np.random.default_rng(1).permutation(len(y))
    names = np.array([f"game {g}" for g in game])
    one = SplineCalibrator(smoothing="cv").fit(scores, y, groups=names)
    other = SplineCalibrator(smoothing="cv").fit(scores[order], y[order], groups=names[order])
    np.testing.assert_allclose(other.smoothing_path_["criterion"], one.smoothing_path_["criterion"])
    np.testing.assert_allclose(other.calibrate(scores), one.calibrate(scores))


@pytest.mark.parametrize("rounded", [True, False])
def test_a_histogram_is_divided_as_the_rows_are(rounded):
    rng = np.random.default_rng(0)
    scores = np.round(rng.random(9000), 2) if rounded else rng.random(9000)
    y, part, w = rng.random(9000) < 0.4, rng.integers(3, size=9000), rng.uniform(0.5, 2.0, 9000)
    histogram = ScoreHistogram.from_scores(scores, y, w)
    assert histogram.exact == rounded
    checked = SplineCalibrator().fit(scores, y)._check_scores(scores)
    positives, negatives = histogram.divided(checked, y, w, part)
    np.testing.assert_allclose(positives.sum(axis=0), histogram.positives)
    np.testing.assert_allclose(negatives.sum(axis=0), histogram.negatives)
    for k in range(3):
        own = ScoreHistogram.from_scores(scores[part == k], y[part == k], w[part == k])
        assert positives[k].sum() == pytest.approx(own.positives.sum())
        # Means in cells may differ; the cumulated weights at locations hardly do.
        at = np.searchsorted(histogram.locations, own.locations, side="right") - 1
        np.testing.assert_allclose(np.cumsum(positives[k])[at], np.cumsum(own.positives), atol=6.0)


def test_a_weight_of_two_is_a_row_seen_twice():
    scores, y, game = games()
    w = 1.0 + (np.arange(len(y)) % 3 == 0)
    weighted = SplineCalibrator().fit(scores, y, w, groups=game)
    twice = np.repeat(np.arange(len(y)), w.astype(int))
    repeated = SplineCalibrator().fit(scores[twice], y[twice], groups=game[twice])
    assert weighted.n_effective_ == pytest.approx(repeated.n_effective_)
    np.testing.assert_allclose(weighted.calibrate(scores), repeated.calibrate(scores), atol=1e-8)


def test_rows_of_weight_zero_are_no_group():
    scores, y, game = games()
    w = (game != 5).astype(float)
    with_none = SplineCalibrator().fit(scores, y, w, groups=game)
    without = SplineCalibrator().fit(scores[game != 5], y[game != 5], groups=game[game != 5])
    assert described(with_none) == described(without)


def test_a_histogram_and_a_stream_take_the_number_of_effective_rows():
    scores, y, game = games()
    fitted = SplineCalibrator().fit(scores, y, groups=game)
    histogram = ScoreHistogram.from_scores(scores, y)
    told = SplineCalibrator().fit_histogram(histogram, n_effective=fitted.n_effective_)
    np.testing.assert_allclose(told.interval(scores), fitted.interval(scores))
    assert (told.n_effective_, told.design_effect_) == pytest.approx((fitted.n_effective_, fitted.design_effect_))
    stream, half = SplineCalibrator(), len(y) // 2
    stream.partial_fit(scores[:half], y[:half], classes=[0, 1], n_effective=0.25 * fitted.n_effective_)
    stream.partial_fit(scores[half:], y[half:], n_effective=0.75 * fitted.n_effective_)
    np.testing.assert_allclose(stream.interval(scores), fitted.interval(scores))
    stream.partial_fit(scores[:100], y[:100])
    assert stream.n_effective_ == pytest.approx(fitted.n_effective_ + 100)
    for wrong, message in ((0, "n_effective must be"), (1e6, "at most the weight of the rows, 1200")):
        with pytest.raises(ValueError, match=message):
            SplineCalibrator().fit_histogram(histogram, n_effective=wrong)


@pytest.mark.parametrize("multiclass", [None, "structured", "ovr"])
def test_what_groups_did_is_saved(tmp_path, multiclass):
    if multiclass is None:
        scores, y, groups = games()
        calibrator = SplineCalibrator().fit(scores, y, groups=groups)
    else:
        scores, y = three_classes()
        calibrator = SplineCalibrator(multiclass=multiclass).fit(scores, y, groups=np.arange(len(y)) // 3)
    save(calibrator, tmp_path / "model.json")
    again = load(tmp_path / "model.json")
    assert (again.n_effective_, again.design_effect_) == (calibrator.n_effective_, calibrator.design_effect_)
    np.testing.assert_array_equal(again.predict_proba(scores), calibrator.predict_proba(scores))


def test_logits_of_three_classes_take_groups():
    scores, y = three_classes(1, 400)
    groups = np.arange(400) // 10
    calibrator = SplineCalibrator().fit(scores, y, groups=groups)
    margins = SplineCalibrator().fit(10.0 + log_softmax(np.log(scores), axis=1), y, groups=groups)
    assert margins.n_effective_ == pytest.approx(calibrator.n_effective_, rel=0.05)
    assert 1.0 <= calibrator.design_effect_ < 2.0


def test_exact_scores_that_never_failed_stay_certain_where_rows_count_little():
    held = ScoreHistogram.from_counts([0.0, 0.1, 0.9, 1.0], positives=[0, 10, 90, 800], totals=[800, 100, 100, 800])
    far = np.log(1 / 0.025 - 1)  # a quarter of what is left of 0.9
    assert atom_limits(held) == pytest.approx((-far, far))
    further = np.log(4 / 0.025 - 1)
    assert atom_limits(held, 4.0) == pytest.approx((-further, further))
    assert atom_limits(held, 1e6) == pytest.approx((-np.log(801), np.log(801)))
    failed = ScoreHistogram.from_counts([0.1, 0.9, 1.0], positives=[10, 90, 780], totals=[100, 100, 800])
    assert atom_limits(failed, 1e6) == atom_limits(failed) == (-np.inf, pytest.approx(far))
