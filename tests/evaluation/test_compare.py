import json
import pickle
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import norm
from sklearn.metrics import brier_score_loss, log_loss

from calspline import SplineCalibrator, compare, decide, evaluate, expected
from calspline.evaluation.compare import (
    PairedDifference,
    compare_predictions,
    family_critical_value,
)
from calspline.evaluation.losses import row_log_losses
from calspline.evaluation.predictions import Predictions


def sharper(p, by=3.0):
    return p**by / (p**by + (1 - p) ** by)


def test_differences_are_those_of_the_losses(binary, weights):
    p, y = binary(500)
    w = weights(500)
    c = compare(y, {"raw": sharper(p), "calibrated": p}, sample_weight=w)
    difference = log_loss(y, p, sample_weight=w) - log_loss(
        y, sharper(p), sample_weight=w
    )
    assert c.log_loss["calibrated"].value == pytest.approx(difference, rel=1e-9)
    difference = brier_score_loss(y, p, sample_weight=w) - brier_score_loss(
        y, sharper(p), sample_weight=w
    )
    assert c.brier["calibrated"].value == pytest.approx(difference, rel=1e-9)
    assert list(c.log_loss) == list(c.brier) == ["calibrated"]
    assert (
        c.evaluations["raw"].to_dict()
        == evaluate(y, sharper(p), sample_weight=w).to_dict()
    )


def test_better_is_recommended_and_worse_is_left_alone(binary):
    p, y = binary(1000)
    c = compare(y, {"raw": sharper(p), "calibrated": p})
    assert (c.log_loss["calibrated"].verdict, c.brier["calibrated"].verdict) == (
        "better",
        "better",
    )
    assert c.recommended == "calibrated"
    assert c.recommendation.startswith("Use calibrated: its log-loss is lower")
    c = compare(y, {"raw": p, "sharper": sharper(p)})
    assert (c.log_loss["sharper"].verdict, c.brier["sharper"].verdict) == (
        "worse",
        "worse",
    )
    assert c.recommended == "raw"
    assert c.recommendation.startswith("Keep raw: ")
    assert "no evidence of miscalibration" in c.recommendation


def test_the_same_is_no_worse_and_few_rows_are_unclear(binary):
    p, y = binary(1000)
    c = compare(y, {"raw": p, "again": p})
    d = c.log_loss["again"]
    assert (d.value, d.lower, d.upper, d.verdict) == (0.0, 0.0, 0.0, "no worse")
    assert c.recommended == "raw"
    assert (
        compare(y[90:120], {"raw": p[90:120], "other": p[90:120] ** 1.2})
        .log_loss["other"]
        .verdict
        == "unclear"
    )


def test_the_margin_says_what_no_worse_is(binary):
    p, y = binary(2000)
    sets = {"raw": p, "other": sharper(p, 1.03)}
    assert compare(y, sets, margin=0.05).log_loss["other"].verdict == "no worse"
    assert compare(y, sets, margin=1e-6).log_loss["other"].verdict == "unclear"


def test_a_set_that_is_worse_in_one_score_is_not_recommended():
    # A few certain mistakes ruin the log-loss of a set with the better Brier score.
    rng = np.random.default_rng(0)
    p = rng.random(3000)
    y = (rng.random(3000) < p).astype(int)
    bold = p.copy()
    bold[:60] = 1 - y[:60]
    c = compare(y, {"raw": sharper(p), "bold": bold})
    assert (c.log_loss["bold"].verdict, c.brier["bold"].verdict) == ("worse", "better")
    assert c.recommended == "raw"


def test_of_several_better_sets_the_one_with_the_least_log_loss_is_recommended(binary):
    p, y = binary(3000)
    c = compare(y, {"old": sharper(p, 4), "middle": sharper(p, 2), "right": p})
    assert c.recommended == "right"
    c = compare(y, {"middle": sharper(p, 2), "old": sharper(p, 4)}, reference="old")
    assert (c.reference, c.recommended) == ("old", "middle")


def test_the_recommendation_names_sets_that_are_about_as_good(binary):
    p, y = binary(1000)
    noise = np.random.default_rng(0).normal(0.0, 0.002, len(p))
    noisy = np.clip(p + noise, 0.001, 0.999)
    sets = {"raw": sharper(p, 9), "sharper": sharper(p), "a": p, "b": noisy}
    c = compare(y, sets)
    other = {"a": "b", "b": "a"}[c.recommended]
    assert c.recommendation.endswith(f"It is not significantly better than {other}.")


def test_one_set_alone_is_kept(binary):
    p, y = binary(100)
    c = compare(y, {"only": p})
    assert c.recommended == "only"
    assert "only" in str(c)


def expected_difference(p, q):
    """Of the log-loss, if ``p`` are right."""
    return p * (np.log(p) - np.log(q)) + (1 - p) * (np.log1p(-p) - np.log1p(-q))


WEIGHTS = {
    "none": lambda rng, n: None,
    "uniform": lambda rng, n: rng.uniform(0.0, 2.0, n),
    "exponential": lambda rng, n: rng.exponential(size=n),
    "log-normal": lambda rng, n: rng.lognormal(size=n),
}


@pytest.mark.thorough
@pytest.mark.parametrize("kind", WEIGHTS)
@pytest.mark.parametrize(
    ("n", "mean"), [(400, 0.0), (600, -5.5)], ids=["common", "rare"]
)
def test_intervals_cover_the_true_difference_whatever_the_weights_and_however_rare_events_are(
    n, mean, kind
):
    # At -5.5 there are four events on average.
    z = np.random.default_rng(1).normal(mean, 1.0, 500_000)
    truth = expected_difference(expit(z), expit(1.4 * z + 0.5)).mean()
    covered = []
    for seed in range(200):
        rng = np.random.default_rng([seed, n])
        z = rng.normal(mean, 1.0, n)
        y = (rng.random(n) < expit(z)).astype(int)
        sets = [
            Predictions(p, y, WEIGHTS[kind](rng, n), np.array([0, 1]))
            for p in (expit(z), expit(1.4 * z + 0.5))
        ]
        low, high = PairedDifference(
            row_log_losses, sets[1], replace(sets[0], weight=sets[1].weight)
        ).interval(1.96)
        covered.append(low <= truth <= high)
    assert 0.905 <= np.mean(covered) <= 0.99


@pytest.mark.parametrize("name", ["a rate", "its complement"])
def test_the_interval_of_a_constant_against_a_constant_is_wilsons(name):
    # The Brier score of q minus that of p is linear in the rate, with no other row to
    # tell them apart.
    y = (np.arange(500) < 2).astype(int)
    p, q = np.full(500, 0.01), np.full(500, 0.03)
    if name == "its complement":
        y, p, q = 1 - y, 1 - p, 1 - q
    d = compare(y, {"p": p, "q": q}).brier["q"]
    event = 1 if name == "a rate" else 0

    def difference(rate):
        share = rate if event else 1 - rate
        return share * ((1 - q[0]) ** 2 - (1 - p[0]) ** 2) + (1 - share) * (
            q[0] ** 2 - p[0] ** 2
        )

    ends = proportion_limits(2, 500)
    # The variance is corrected by that of the rows, which hardly differs.
    assert sorted([d.lower, d.upper]) == pytest.approx(
        sorted(map(difference, ends)), rel=0.03
    )


def proportion_limits(k, n, z=1.959964):
    """Wilson's interval."""
    centre, reach = (
        (k + z * z / 2) / (n + z * z),
        z / (n + z * z) * np.sqrt(k * (n - k) / n + z * z / 4),
    )
    return centre - reach, centre + reach


def test_where_one_outcome_was_seen_nothing_is_recommended():
    p = np.random.default_rng(0).uniform(0.001, 0.02, 500)
    for y, sets in (
        (np.zeros(500, int), {"raw": p, "low": p / 100}),
        (np.ones(500, int), {"raw": 1 - p, "high": 1 - p / 9}),
    ):
        c = compare(y, sets)
        other = list(sets)[1]
        assert (c.log_loss[other].verdict, c.brier[other].verdict, c.recommended) == (
            "unclear",
            "unclear",
            "raw",
        )
        assert "single outcome" in c.recommendation
        assert c.log_loss[other].lower <= c.log_loss[other].value
        assert c.log_loss[other].upper > 0.0


@pytest.mark.slow
def test_among_ten_equal_sets_the_first_is_rarely_left():
    left = looked_better = 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        z = rng.normal(size=300)
        y = rng.random(300) < expit(z)
        c = compare(
            y, {str(k): expit(z + rng.normal(0.0, 0.5, 300)) for k in range(11)}
        )
        left += c.recommended != "0"
        better = any(
            "better" in (c.log_loss[k].verdict, c.brier[k].verdict) for k in c.log_loss
        )
        looked_better += better
        if better and c.recommended == "0":
            assert "due to chance" in c.recommendation or "worse" in str(c)
    assert left <= 3
    assert looked_better > left


def test_a_set_that_is_far_better_is_recommended_among_many_too():
    rng = np.random.default_rng(0)
    z = rng.normal(0.0, 2.0, 2000)
    y = rng.random(2000) < expit(z)
    sets = {str(k): expit(z + rng.normal(0.0, 1.0, 2000)) for k in range(10)} | {
        "right": expit(z)
    }
    assert compare(y, sets).recommended == "right"


def test_whole_weights_are_repetitions_and_the_scale_of_others_is_nothing(binary):
    p, y = binary(300)
    rng = np.random.default_rng(0)
    w = rng.integers(1, 4, 300)

    def limits(y, p, w=None):
        d = compare(y, {"raw": p, "other": sharper(p, 1.2)}, sample_weight=w).log_loss[
            "other"
        ]
        return d.value, d.lower, d.upper

    assert limits(y, p, w) == pytest.approx(
        limits(np.repeat(y, w)[::-1], np.repeat(p, w)[::-1]), rel=1e-6
    )
    assert limits(y, p, np.full(300, 0.5)) == pytest.approx(limits(y, p), rel=1e-6)
    assert limits(y, p, w / 3.1) == pytest.approx(limits(y, p, w / 2.7), rel=1e-6)


def test_groups_of_rows_widen_the_interval_as_repetitions_do(binary):
    p, y = binary(200)
    once = Predictions(p, y, None, np.array([0, 1]))
    thrice = Predictions(
        np.repeat(p, 3),
        np.repeat(y, 3),
        None,
        np.array([0, 1]),
        groups=np.repeat(np.arange(200), 3),
    )
    found = [
        compare_predictions(
            {"raw": one, "other": replace(one, probs=sharper(one.probs, 1.5))}
        ).log_loss["other"]
        for one in (once, thrice, replace(thrice, groups=None))
    ]
    widths = [d.upper - d.lower for d in found]
    assert widths[1] == pytest.approx(widths[0], rel=0.2)
    assert widths[2] < 0.7 * widths[0]


def test_intervals_of_few_events_lead_over_to_those_of_many(binary, monkeypatch):
    p, y = binary(3000)
    one = Predictions(p, y, None, np.array([0, 1]))
    pair = PairedDifference(row_log_losses, replace(one, probs=sharper(p, 1.1)), one)
    few = pair.interval(1.96)
    monkeypatch.setattr("calspline.evaluation.compare.MANY_EVENTS", 0.0)
    assert pair.interval(1.96) == pytest.approx(few, abs=0.05 * (few[1] - few[0]))


def test_wider_levels_have_wider_intervals_and_draws_matter_to_many_sets_only(binary):
    p, y = binary(200)

    def interval(**options):
        d = compare(y, {"raw": p, "other": p**1.1}, **options).log_loss["other"]
        return d.lower, d.upper

    assert interval() == interval(random_state=1)
    narrow, wide = interval(level=0.5), interval(level=0.99)
    assert wide[0] < narrow[0] < narrow[1] < wide[1]


def test_the_largest_of_many_equal_differences_is_that_of_normal_variables():
    rng = np.random.default_rng(0)
    p = expit(rng.normal(size=4000))
    one = Predictions(p, (rng.random(4000) < p).astype(int), None, np.array([0, 1]))
    others = [
        replace(one, probs=expit(np.log(p / (1 - p)) + rng.normal(0, 0.1, 4000)))
        for _ in range(8)
    ]
    pairs = [PairedDifference(row_log_losses, other, one) for other in others]
    # Eight independent ones: the 0.95 quantile of the largest is the 0.95 ** (1 / 8)
    # quantile of each, on both sides.
    expected = norm.ppf(0.5 + 0.5 * 0.95 ** (1 / 8))
    assert family_critical_value(pairs, 0.95, 0) == pytest.approx(expected, abs=0.12)
    assert (
        family_critical_value([PairedDifference(row_log_losses, one, one)], 0.95, 0)
        == 0.0
    )


@pytest.mark.filterwarnings("ignore:predictions")
def test_sets_that_are_certain_and_wrong_are_compared_without_overflow():
    y = np.arange(60) % 2
    d = compare(y, {"wrong": 1.0 - y, "less": 0.1 + 0.8 * (1.0 - y)}).log_loss["less"]
    assert d.verdict == "better"
    assert d.lower <= d.value <= d.upper < 0.0


def test_more_classes_are_compared_too(multiclass):
    p, y = multiclass(800, m=4)
    sharp, _ = multiclass(800, m=4, sharpness=2.5)
    c = compare(y, {"raw": sharp, "calibrated": p})
    assert c.recommended == "calibrated"
    assert c.brier["calibrated"].value == pytest.approx(
        evaluate(y, p).brier - evaluate(y, sharp).brier, rel=1e-9
    )


def test_it_prints_and_flattens(binary):
    p, y = binary(300)
    c = compare(y, {"<b>raw</b>": sharper(p), "calibrated": p})
    flat = c.to_dict()
    json.dumps(flat)
    assert flat["calibrated.log_loss_difference"] == c.log_loss["calibrated"].value
    assert flat["calibrated.brier_verdict"] == "better"
    assert (flat["reference"], flat["recommended"]) == ("<b>raw</b>", "calibrated")
    assert "better" in str(c)
    assert c.recommendation in str(c)
    assert "<b>" not in c._repr_html_()
    assert "&lt;b&gt;raw" in c._repr_html_()
    assert "calibrated" in repr(c)


def test_results_can_be_pickled(binary, multiclass):
    p, y = binary(300)
    costs = {"false_positive": 1, "false_negative": 5}
    calibrator = SplineCalibrator().fit(p, y)
    found = [
        compare(y, {"raw": sharper(p), "calibrated": p}, by=y),
        evaluate(*multiclass(200, m=3)[::-1]),
        decide(y, {"raw": p}, costs=costs),
        expected(calibrator, p, costs=costs),
    ]
    for one in found:
        assert str(pickle.loads(pickle.dumps(one))) == str(one)


Y, P = [0, 1, 1, 0], [0.1, 0.6, 0.7, 0.4]
BAD = {
    "empty": ({}, {}, "predictions must hold at least one set"),
    "name": ({1: P}, {}, "names of predictions must be strings; got 1"),
    "reference": (
        {"a": P},
        {"reference": "b"},
        "reference must be one of 'a'; got 'b'",
    ),
    "values": (
        {"a": P, "b": [0.1, 0.2, 3, 0.4]},
        {},
        r'predictions\["b"\] must be probabilities .* row 2 is 3',
    ),
    "lengths": (
        {"a": P[:3]},
        {},
        r'predictions\["a"\] and y must have the same length',
    ),
    "classes": (
        {"a": P, "b": [[0.2, 0.3, 0.5]] * 4},
        {},
        "same classes; a has 2 and b has 3",
    ),
    "level": ({"a": P}, {"level": 1.0}, "level"),
    "margin": ({"a": P}, {"margin": -0.1}, "margin"),
    "seed": ({"a": P}, {"random_state": "x"}, "random_state"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_named(name):
    sets, options, message = BAD[name]
    with pytest.raises((ValueError, TypeError), match=message):
        compare(Y, sets, **options)


@pytest.mark.parametrize("function", [compare, decide])
def test_labels_and_predictions_in_the_wrong_order_are_named(function):
    with pytest.raises(TypeError, match="predictions are passed after the labels"):
        function({"a": P}, Y)
