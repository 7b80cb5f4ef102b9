import json

import numpy as np
import pytest
from scipy.special import expit, softmax
from scipy.stats import rankdata
from sklearn.metrics import log_loss, roc_auc_score

from calspline import (
    ScoreHistogram,
    SigmoidCalibrator,
    SplineCalibrator,
    TemperatureCalibrator,
    evaluate,
    expected,
    load,
    save,
)
from calspline._input.scores import check_binary_scores

COSTS = {"false_positive": 1.0, "false_negative": 5.0}
MEASURES = ("log_loss", "brier", "auc", "accuracy", "rate", "cost")


def rows(n, seed=0, slope=0.7, level=-0.4):
    rng = np.random.default_rng([seed, n])
    u = rng.normal(-1.0, 1.5, n)
    return expit(u), rng.random(n) < expit(slope * u + level)


@pytest.fixture(scope="module")
def calibrator():
    return SplineCalibrator().fit(*rows(3000))


def happened(p, y):
    """The measures once labels are there, from their definitions."""
    own, rank, events = np.where(y, p, 1 - p), rankdata(p), y.sum()
    area = (rank[y].sum() - events * (events + 1) / 2) / (events * (len(y) - events))
    cost = np.where(p >= 1 / 6, ~y * 1.0, y * 5.0)
    values = (
        -np.log(own).mean(),
        ((p - y) ** 2).mean(),
        area,
        (own > 0.5).mean(),
        y.mean(),
        cost.mean(),
    )
    return dict(zip(MEASURES, values, strict=True))


def test_values_are_the_means_over_outcomes_with_these_probabilities(calibrator):
    score, _ = rows(400, seed=1)
    p = calibrator.calibrate(score)
    found = expected(calibrator, score, costs=COSTS)
    rng = np.random.default_rng(0)
    drawn = [happened(p, rng.random(400) < p) for _ in range(1500)]
    for name in MEASURES:
        values = np.array([one[name] for one in drawn])
        assert getattr(found, name) == pytest.approx(
            values.mean(), abs=4 * values.std() / np.sqrt(1500) + 3e-4
        ), name


def test_the_part_of_the_outcomes_in_the_limits_is_their_spread():
    # A sigmoid does not know its own uncertainty, so that there is nothing else.
    calibrator = SigmoidCalibrator().fit(*rows(3000))
    score, _ = rows(500, seed=1)
    p = calibrator.calibrate(score)
    found = expected(calibrator, score, costs=COSTS, level=0.9)
    rng = np.random.default_rng(0)
    drawn = [happened(p, rng.random(500) < p) for _ in range(1000)]
    for name in MEASURES:
        low, high = found.limits[name]
        error = np.std([one[name] for one in drawn])
        assert (high - low) / (2 * 1.6449) == pytest.approx(error, rel=0.08), name


def test_the_errors_of_the_calibrator_are_those_of_its_band(calibrator):
    curve = calibrator.curves_[0]
    score = np.linspace(0.02, 0.9, 40)
    noise = curve.noise(check_binary_scores(score, kind="probability"))
    low, high = np.log(curve.band(score) / (1 - curve.band(score))).T
    np.testing.assert_allclose(
        np.sqrt((noise**2).sum(axis=0)), (high - low) / (2 * 1.959964), rtol=0.08
    )


@pytest.mark.parametrize("n", [200, 1000])
def test_measures_with_a_jump_are_known_no_better_than_from_the_calibration_rows(n):
    # Smooth errors all but cancel at the threshold of the cost; a bend there would not.
    score, y = rows(n, seed=3)
    calibrator = SplineCalibrator().fit(score, y)
    found = expected(calibrator, score, costs=COSTS, n_rows=np.inf)
    p = calibrator.calibrate(score)
    for name, values in (
        ("cost", np.where(p >= 1 / 6, -1.0, 5.0) * (y - p)),
        ("accuracy", np.sign(p - 0.5) * (y - p)),
    ):
        low, high = found.limits[name]
        error = np.sqrt(np.mean(values**2) / n)
        assert 0.95 * error < (high - low) / (2 * 1.959964) < 1.5 * error, name


def four_classes(n, rng):
    z = rng.normal(0.0, 1.2, (n, 4))
    truth = np.exp(0.7 * z + [0.3, 0.0, -0.3, 0.0])
    return softmax(z, axis=1), (
        rng.random(n)[:, None] > (truth / truth.sum(axis=1)[:, None]).cumsum(axis=1)
    ).sum(axis=1)


def test_limits_of_several_classes_know_what_few_rows_leave_open():
    held, of_outcomes = [], []
    for seed in range(15):
        rng = np.random.default_rng(seed)
        calibrator = SplineCalibrator().fit(*four_classes(300, rng))
        score, y = four_classes(4000, rng)
        p = calibrator.calibrate(score)
        loss = -np.log(p[np.arange(4000), y])
        found = expected(calibrator, score)
        low, high = found.limits["log_loss"]
        held.append(low <= loss.mean() <= high)
        of_outcomes.append(
            abs(loss.mean() - found.log_loss) <= 1.96 * loss.std() / np.sqrt(4000)
        )
    assert np.mean(held) >= np.mean(of_outcomes) + 0.3, (
        np.mean(held),
        np.mean(of_outcomes),
    )


@pytest.mark.parametrize("n_classes", [3, 14])
def test_errors_of_a_sum_of_classes_are_those_of_a_row_and_class_if_that_is_the_sum(
    n_classes,
):
    rng = np.random.default_rng(0)
    z = rng.normal(0.0, 1.5, (1500, n_classes))
    labels = (rng.random(1500)[:, None] > softmax(0.6 * z, axis=1).cumsum(axis=1)).sum(
        axis=1
    )
    calibrator = SplineCalibrator().fit(softmax(z, axis=1), labels)
    spread, breaks = calibrator.structure_.spread, calibrator.structure_.breaks
    u = np.log(softmax(0.8 * z[:5], axis=1))
    p = softmax(u, axis=1)
    want = spread.log_odds_variance(breaks, u, p, np.zeros_like(p))
    for i, j in ((0, 0), (2, 1), (4, 2)):
        # The log-odds of class j of row i move by the sum of these times the errors of
        # eta.
        weights = np.zeros_like(p)
        weights[i] = -p[i]
        weights[i, j] += 1.0
        weights /= 1.0 - p[i, j]
        assert spread.sum_variance(breaks, u, weights) == pytest.approx(
            want[i, j], rel=1e-6
        )


def test_of_ever_more_rows_only_the_calibrator_is_uncertain(calibrator):
    score, _ = rows(400, seed=1)
    one, more, all_ = (
        expected(calibrator, score, n_rows=n) for n in (None, 40_000, np.inf)
    )
    for name in MEASURES[:-1]:
        assert getattr(one, name) == getattr(all_, name)
        widths = [
            high - low
            for low, high in (each.limits[name] for each in (all_, more, one))
        ]
        assert 0 < widths[0] < widths[1] < widths[2], name
    # Refits vary as the limits say.
    rates = [
        SplineCalibrator().fit(*rows(3000, seed=s)).calibrate(score).mean()
        for s in range(60)
    ]
    low, high = all_.limits["rate"]
    assert (high - low) / (2 * 1.959964) == pytest.approx(np.std(rates), rel=0.35)


@pytest.mark.slow
@pytest.mark.parametrize("n", [200, 2000])
def test_the_measures_that_then_happen_are_within_the_limits(n):
    held, runs = dict.fromkeys(MEASURES, 0), 100
    for seed in range(runs):
        calibrator = SplineCalibrator().fit(*rows(n, seed=seed, slope=0.9, level=-0.2))
        score, y = rows(1500, seed=seed + runs, slope=0.9, level=-0.2)
        found, then = (
            expected(calibrator, score, costs=COSTS),
            happened(calibrator.calibrate(score), y),
        )
        for name, (low, high) in found.limits.items():
            held[name] += low <= then[name] <= high
    # 95%, less three standard errors and a little for the bias of shrinking.
    assert min(held.values()) >= 86, held


def test_the_rate_is_within_its_limits_where_scores_have_heavy_tails():
    # The curve leans to scores that look nearly right, whose rate is off.
    def heavy(rng, n):
        u = np.clip(rng.standard_cauchy(n), -30.0, 30.0)
        return expit(u), rng.random(n) < expit(0.7 * u - 0.2)

    runs, held = 40, 0
    for seed in range(runs):
        rng = np.random.default_rng([seed, 300])
        calibrator = SplineCalibrator().fit(*heavy(rng, 300))
        score, y = heavy(rng, 2000)
        low, high = expected(calibrator, score).limits["rate"]
        held += low <= y.mean() <= high
    assert held >= 0.85 * runs, held


def test_limits_reach_further_to_where_confident_scores_may_be_wrong():
    rng = np.random.default_rng(1)
    u = 1.5 * rng.standard_t(3, size=(2, 400))
    y = rng.random(400) < expit(2.0 * np.tanh(0.5 * u[0]))
    calibrator = SplineCalibrator().fit(expit(u[0]), y)
    found = expected(calibrator, expit(u[1]), n_rows=np.inf)
    low, high = found.limits["log_loss"]
    assert high - found.log_loss > 1.05 * (found.log_loss - low)


def test_another_relation_of_scores_and_events_is_not_seen(calibrator):
    score, y = rows(5000, seed=3, slope=0.7, level=0.4)
    found = expected(calibrator, score)
    assert evaluate(y, calibrator.calibrate(score)).base_rate > found.limits["rate"][1]


def test_a_histogram_says_the_same_as_its_scores_whatever_its_labels(
    calibrator, tmp_path
):
    score, y = rows(600, seed=1)
    by_row = expected(calibrator, score, costs=COSTS).to_dict()
    for labels in (y, np.zeros(600)):
        by_bin = expected(
            calibrator, ScoreHistogram.from_scores(score, labels), costs=COSTS
        ).to_dict()
        assert by_bin == pytest.approx(by_row)
    save(calibrator, tmp_path / "model.json")
    assert expected(
        load(tmp_path / "model.json"), score, costs=COSTS
    ).to_dict() == pytest.approx(by_row)


@pytest.mark.slow
def test_two_and_several_classes_agree_where_they_must():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(2000, 3))
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    y = (p.cumsum(axis=1) < rng.random((2000, 1))).sum(axis=1)
    # A temperature does not know its own uncertainty, so that limits are those of the
    # outcomes.
    calibrator = TemperatureCalibrator().fit(p, y)
    q = calibrator.calibrate(p)
    found = expected(calibrator, p)
    drawn = []
    for _ in range(300):
        y = (q.cumsum(axis=1) < rng.random((2000, 1))).sum(axis=1)
        brier = np.mean(np.sum((np.eye(3)[y] - q) ** 2, axis=1))
        drawn.append(
            [
                log_loss(y, q),
                brier,
                roc_auc_score(y, q, multi_class="ovr"),
                np.mean(q.argmax(axis=1) == y),
            ]
        )
    assert drawn[-1] == pytest.approx(
        [getattr(evaluate(y, q), name) for name in MEASURES[:4]]
    )
    drawn = np.array(drawn)
    for j, name in enumerate(MEASURES[:4]):
        assert getattr(found, name) == pytest.approx(
            drawn[:, j].mean(), abs=4 * drawn[:, j].std() / np.sqrt(300) + 1e-4
        )
        low, high = found.limits[name]
        assert (high - low) / (2 * 1.959964) == pytest.approx(
            drawn[:, j].std(), rel=0.2
        ), name
    assert list(found.rates) == [0, 1, 2]
    assert list(found.rates.values()) == pytest.approx(q.mean(axis=0))


def test_it_prints_and_is_plain(calibrator):
    found = expected(calibrator, rows(100)[0], costs=COSTS)
    plain = json.loads(json.dumps(found.to_dict()))
    assert plain["log_loss_lower"] == found.limits["log_loss"][0]
    assert "cost per row" in str(found)
    assert "log-loss" in found._repr_html_()
    assert repr(found).startswith("Expected(100 rows: log_loss=")


def test_a_wrong_argument_is_named(calibrator):
    score, y = rows(50)
    with pytest.raises(TypeError, match="calibrator must be a fitted calibrator"):
        expected("model", score)
    with pytest.raises(ValueError, match="scores must hold rows; it is empty"):
        expected(calibrator, [])
    with pytest.raises(
        ValueError,
        match="scores must hold probability scores, as the calibrator takes; it has margin",
    ):
        expected(calibrator, ScoreHistogram.from_scores(score, y, kind="margin"))
    with pytest.raises(ValueError, match="n_rows must be"):
        expected(calibrator, score, n_rows=0)
    three = SplineCalibrator().fit(
        np.random.default_rng(0).dirichlet([2, 2, 2], 30), np.arange(30) % 3
    )
    with pytest.raises(ValueError, match="costs are for two classes"):
        expected(three, np.full((2, 3), 1 / 3), costs=COSTS)
    with pytest.raises(ValueError, match="scores must be an array of scores"):
        expected(three, ScoreHistogram.from_scores(score, y))
