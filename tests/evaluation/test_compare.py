import json

import numpy as np
import pytest
from sklearn.metrics import brier_score_loss, log_loss

from calspline import compare, evaluate
from calspline.evaluation.compare import BOOTSTRAP_CELLS, bootstrap_means
from calspline.evaluation.losses import row_log_losses


def sharper(p, by=3.0):
    return p**by / (p**by + (1 - p) ** by)


def test_differences_are_those_of_the_losses(binary, weights):
    p, y = binary(500)
    w = weights(500)
    c = compare(y, {"raw": sharper(p), "calibrated": p}, sample_weight=w)
    difference = log_loss(y, p, sample_weight=w) - log_loss(y, sharper(p), sample_weight=w)
    assert c.log_loss["calibrated"].value == pytest.approx(difference, rel=1e-9)
    difference = brier_score_loss(y, p, sample_weight=w) - brier_score_loss(y, sharper(p), sample_weight=w)
    assert c.brier["calibrated"].value == pytest.approx(difference, rel=1e-9)
    assert list(c.log_loss) == list(c.brier) == ["calibrated"]
    assert c.evaluations["raw"].to_dict() == evaluate(y, sharper(p), sample_weight=w).to_dict()


def test_better_is_recommended_and_worse_is_left_alone(binary):
    p, y = binary(1000)
    c = compare(y, {"raw": sharper(p), "calibrated": p})
    assert (c.log_loss["calibrated"].verdict, c.brier["calibrated"].verdict) == ("better", "better")
    assert c.recommended == "calibrated"
    assert c.recommendation.startswith("Use calibrated: its log-loss is lower")
    c = compare(y, {"raw": p, "sharper": sharper(p)})
    assert (c.log_loss["sharper"].verdict, c.brier["sharper"].verdict) == ("worse", "worse")
    assert c.recommended == "raw"
    assert c.recommendation.startswith("Leave it alone: keep raw")
    assert "nothing speaks against its calibration" in c.recommendation


def test_the_same_is_no_worse_and_few_rows_are_unclear(binary):
    p, y = binary(1000)
    c = compare(y, {"raw": p, "again": p})
    d = c.log_loss["again"]
    assert (d.value, d.lower, d.upper, d.verdict) == (0.0, 0.0, 0.0, "no worse")
    assert c.recommended == "raw"
    assert compare(y[:30], {"raw": p[:30], "other": p[:30] ** 1.2}).log_loss["other"].verdict == "unclear"


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


def test_one_set_alone_is_kept(binary):
    p, y = binary(100)
    c = compare(y, {"only": p})
    assert c.recommended == "only"
    assert "only" in str(c)


def test_intervals_cover_the_true_difference(binary):
    truth = np.mean([v for p, _ in (binary(2000, seed=s) for s in range(20)) for v in expected_difference(p)])
    covered = []
    for seed in range(200):
        p, y = binary(400, seed)
        d = row_log_losses(sharper(p, 1.5), y) - row_log_losses(p, y)
        low, high = np.quantile(bootstrap_means(d, None, 400, seed), [0.025, 0.975])
        covered.append(low <= truth <= high)
    assert 0.9 <= np.mean(covered) <= 0.99


def expected_difference(p):
    q = sharper(p, 1.5)
    return p * (np.log(p) - np.log(q)) + (1 - p) * (np.log1p(-p) - np.log1p(-q))


@pytest.mark.parametrize("n", [50, 800, 20_000])
def test_the_bootstrap_has_the_spread_of_the_mean(n):
    values = np.random.default_rng(n).normal(size=n) ** 3
    replicates = bootstrap_means(values, None, 4000, 0)
    assert (n > BOOTSTRAP_CELLS) == (n == 20_000)
    assert replicates.std() == pytest.approx(values.std() / np.sqrt(n), rel=0.06)
    assert replicates.mean() == pytest.approx(values.mean(), abs=5 * values.std() / np.sqrt(4000 * n))


@pytest.mark.parametrize("n", [100, 3000])
def test_weights_are_repetitions_for_the_bootstrap_and_order_is_nothing(n):
    rng = np.random.default_rng(0)
    values, w = rng.normal(size=n), rng.integers(1, 4, n)
    one = bootstrap_means(values, w.astype(float), 200, 7)
    np.testing.assert_allclose(one, bootstrap_means(np.repeat(values, w)[::-1], None, 200, 7), rtol=1e-9, atol=1e-12)


def test_a_bootstrap_draw_without_rows_counts_as_the_mean():
    assert set(bootstrap_means(np.array([2.0]), None, 50, 0)) == {2.0}


def test_the_draws_follow_the_random_state(binary):
    p, y = binary(200)
    sets = {"raw": p, "other": p**1.1}

    def interval(**options):
        d = compare(y, sets, **options).log_loss["other"]
        return d.lower, d.upper

    assert interval() == interval() == interval(random_state=0) != interval(random_state=1)
    narrow, wide = interval(level=0.5), interval(level=0.99)
    assert wide[0] < narrow[0] < narrow[1] < wide[1]


def test_more_classes_are_compared_too(multiclass):
    p, y = multiclass(800, m=4)
    sharp, _ = multiclass(800, m=4, sharpness=2.5)
    c = compare(y, {"raw": sharp, "calibrated": p})
    assert c.recommended == "calibrated"
    assert c.brier["calibrated"].value == pytest.approx(evaluate(y, p).brier - evaluate(y, sharp).brier, rel=1e-9)


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


Y, P = [0, 1, 1, 0], [0.1, 0.6, 0.7, 0.4]
BAD = {
    "no mapping": ([P], {}, "predictions must be a mapping"),
    "empty": ({}, {}, "predictions must hold at least one set"),
    "name": ({1: P}, {}, "names of predictions must be strings; got 1"),
    "reference": ({"a": P}, {"reference": "b"}, "reference must be one of 'a'; got 'b'"),
    "values": ({"a": P, "b": [0.1, 0.2, 3, 0.4]}, {}, r'predictions\["b"\] must be probabilities .* row 2 is 3'),
    "lengths": ({"a": P[:3]}, {}, r'predictions\["a"\] and y must have the same length'),
    "classes": ({"a": P, "b": [[0.2, 0.3, 0.5]] * 4}, {}, "same classes; a has 2 and b has 3"),
    "level": ({"a": P}, {"level": 1.0}, "level"),
    "margin": ({"a": P}, {"margin": -0.1}, "margin"),
    "draws": ({"a": P}, {"n_bootstrap": 0}, "n_bootstrap"),
    "seed": ({"a": P}, {"random_state": "x"}, "random_state"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_named(name):
    sets, options, message = BAD[name]
    with pytest.raises((ValueError, TypeError), match=message):
        compare(Y, sets, **options)
