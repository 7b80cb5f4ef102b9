import json

import numpy as np
import pytest
from scipy.special import expit, logit
from scipy.stats import beta

from calspline import SplineCalibrator, decide, evaluate

COSTS = {"false_positive": 1.0, "false_negative": 4.0}


def overdone(p, slope=2.0):
    return expit(slope * logit(p))


def rows(n, seed=0):
    rng = np.random.default_rng([seed, n])
    p = rng.beta(1, 4, n)
    return rng.random(n) < p, p


def test_net_benefit_is_hits_less_false_alarms_at_the_odds_of_the_threshold():
    y, p = rows(500)
    p = np.round(p, 2)  # ties with the thresholds, which are acted on
    t = np.array([0.05, 0.1, 0.35, 0.99])
    found = decide(y, {"model": p}, thresholds=t)
    for i, at in enumerate(t):
        hits, alarms = np.sum(y & (p >= at)), np.sum(~y & (p >= at))
        assert found.net_benefit["model"].value[i] == pytest.approx(
            hits / 500 - alarms / 500 * at / (1 - at), abs=1e-12
        )
        everybody = y.mean() - (1 - y.mean()) * at / (1 - at)
        assert found.net_benefit["act on all"].value[i] == pytest.approx(
            everybody, abs=1e-12
        )


def test_net_benefit_equals_that_of_dcurves():
    i = np.arange(1, 241)
    p = np.round((i * 0.61803398875) % 1.0 * 0.98 + 0.01, 3)
    y = (i * 0.41421356237) % 1.0 < p**1.5
    t = [0.05, 0.1, 0.25, 0.5, 0.75, 0.9]
    # dcurves 1.1.7, with pandas.DataFrame({"y": 1 * y, "model": p, "other":
    # np.round(p**2, 4)}) as data: dca(data=data, outcome="y", modelnames=["model",
    # "other"], thresholds=t)
    theirs = {
        "model": [
            0.36622807017543857,
            0.33888888888888885,
            0.2597222222222222,
            0.15416666666666665,
            0.07499999999999998,
            0.045833333333333316,
        ],
        "other": [
            0.3622807017543859,
            0.34027777777777773,
            0.26805555555555555,
            0.175,
            0.10416666666666666,
            0.0375,
        ],
        "act on all": [
            0.3640350877192982,
            0.32870370370370366,
            0.19444444444444442,
            -0.20833333333333343,
            -1.416666666666667,
            -5.041666666666669,
        ],
    }
    found = decide(
        y, {"model": p, "other": np.round(p**2, 4)}, thresholds=t
    ).net_benefit
    for name, values in theirs.items():
        np.testing.assert_allclose(found[name].value, values, rtol=0.0, atol=1e-12)


def test_the_band_is_as_wide_as_the_mean_of_rows_makes_it():
    y, p = rows(400)
    t, other = np.array([0.2]), overdone(p)
    found = decide(y, {"a": p, "b": other}, thresholds=t)
    gain = [np.where(q >= 0.2, np.where(y, 1.0, -0.25), 0.0) for q in (p, other)]
    spare = (1 + 0.25**2) / 400**2
    for values, band in (
        (gain[0], found.net_benefit["a"]),
        (gain[1] - gain[0], found.differences["b"]),
    ):
        error = np.sqrt(values.var() / 400 + spare)
        # One threshold has nothing to be simultaneous with.
        assert band.upper - band.lower == pytest.approx(2 * 1.96 * error, rel=0.05)
        assert band.value == pytest.approx(values.mean())


@pytest.mark.thorough
def test_bands_hold_the_truth_at_all_thresholds_at_once():
    t = np.arange(1, 100) / 100
    q = beta.ppf((np.arange(50_000) + 0.5) / 50_000, 1, 4)
    odds = t / (1 - t)
    truth = np.array(
        [np.mean((q >= at) * (q - (1 - q) * o)) for at, o in zip(t, odds, strict=True)]
    )
    tame = overdone(q)
    gain = (
        np.array(
            [
                np.mean((tame >= at) * (q - (1 - q) * o))
                for at, o in zip(t, odds, strict=True)
            ]
        )
        - truth
    )
    held, paired, runs = 0, 0, 150
    for seed in range(runs):
        y, p = rows(1000, seed)
        found = decide(y, {"model": p, "overdone": overdone(p)})
        a, b = found.net_benefit["model"], found.differences["overdone"]
        held += np.all((a.lower <= truth) & (truth <= a.upper))
        paired += np.all((b.lower <= gain) & (gain <= b.upper))
    # Three standard errors below 95% of 150.
    assert held >= 134
    assert paired >= 134


def test_a_pointwise_band_would_not_do():
    y, p = rows(1000)
    band = decide(y, {"model": p}).net_benefit["model"]
    alone = decide(y, {"model": p}, thresholds=[0.3]).net_benefit["model"]
    width = band.upper[29] - band.lower[29]
    assert width > 1.3 * (alone.upper[0] - alone.lower[0])


def test_costs_are_those_of_the_rows_at_the_threshold_they_give():
    y, p = rows(2000)
    found = decide(y, {"model": p, "overdone": overdone(p)}, costs=COSTS)
    assert found.costs.threshold == 0.2
    by_row = [np.where(q >= 0.2, ~y * 1.0, y * 4.0) for q in (p, overdone(p))]
    for values, name in zip(by_row, ("model", "overdone"), strict=True):
        assert found.by_cost[name].cost == pytest.approx(values.mean())
    one = found.by_cost["overdone"]
    difference = by_row[1] - by_row[0]
    half = 1.959964 * difference.std() / np.sqrt(2000)
    assert (one.difference, one.difference_lower) == pytest.approx(
        (difference.mean(), difference.mean() - half)
    )
    assert found.by_cost["act on all"].cost == pytest.approx(np.mean(~y))


def test_gains_move_the_threshold():
    y, p = rows(300)
    given = COSTS | {"true_positive": -2.0, "true_negative": 0.5}
    found = decide(y, {"model": p}, costs=given)
    assert found.costs.threshold == pytest.approx(0.5 / 6.5)
    cost = np.where(p >= 0.5 / 6.5, np.where(y, -2.0, 1.0), np.where(y, 4.0, 0.5))
    assert found.by_cost["model"].cost == pytest.approx(cost.mean())


@pytest.mark.slow
def test_the_best_threshold_of_wrong_probabilities_is_where_the_truth_crosses():
    right, held = overdone(0.2), 0
    for seed in range(100):
        y, p = rows(1500, seed)
        one = decide(y, {"raw": overdone(p)}, costs=COSTS, thresholds=[0.5]).by_cost[
            "raw"
        ]
        held += one.threshold_lower <= right <= one.threshold_upper
        assert one.threshold_lower <= one.threshold <= one.threshold_upper
    assert held >= 89
    y, p = rows(200_000)
    one = decide(y, {"raw": overdone(p)}, costs=COSTS, thresholds=[0.5]).by_cost["raw"]
    assert one.threshold == pytest.approx(right, abs=0.004)
    assert one.threshold_upper - one.threshold_lower < 0.01
    assert one.best_cost < one.cost


def test_the_best_threshold_may_be_to_act_on_all_or_on_none():
    rng = np.random.default_rng(0)
    p = rng.uniform(0.4, 0.6, 500)
    y = rng.random(500) < p
    cheap = decide(
        y, {"model": p}, costs={"false_positive": 1, "false_negative": 1000}
    ).by_cost["model"]
    dear = decide(
        y, {"model": p}, costs={"false_positive": 1000, "false_negative": 1}
    ).by_cost["model"]
    assert (cheap.threshold, dear.threshold) == (0.0, 1.0)
    alone = decide(np.ones(20), {"model": np.full(20, 0.3)}, costs=COSTS).by_cost[
        "model"
    ]
    assert (alone.threshold, alone.threshold_lower, alone.threshold_upper) == (
        0.0,
        0.0,
        1.0,
    )


def test_a_weight_counts_as_that_many_rows():
    y, p = rows(300)
    w = np.random.default_rng(1).integers(0, 4, 300)
    sets = {"model": p, "overdone": overdone(p)}
    weighted = decide(y, sets, costs=COSTS, sample_weight=w).to_dict()
    repeated = decide(
        np.repeat(y, w), {k: np.repeat(v, w) for k, v in sets.items()}, costs=COSTS
    ).to_dict()
    assert weighted.keys() == repeated.keys()
    assert weighted.pop("reference") == "model"
    for key, value in weighted.items():
        assert repeated[key] == pytest.approx(value, rel=1e-9, abs=1e-12), key


@pytest.mark.slow
def test_other_weights_count_by_their_ratios_only():
    y, p = rows(300)
    w = np.random.default_rng(1).uniform(0.1, 2.0, 300)
    sets = {"model": p, "overdone": overdone(p)}
    one, many = (
        decide(y, sets, costs=COSTS, sample_weight=w * k) for k in (1.0, 1000.0)
    )
    band = decide(y, {"model": p}, thresholds=[0.2], sample_weight=w).net_benefit[
        "model"
    ]
    gain = np.where(p >= 0.2, np.where(y, 1.0, -0.25), 0.0)
    value = np.average(gain, weights=w)
    error = np.sqrt(
        (w**2 @ (gain - value) ** 2 + (1 + 0.25**2) * (w @ w) ** 2 / w.sum() ** 2)
        / w.sum() ** 2
    )
    assert band.upper - band.lower == pytest.approx(2 * 1.96 * error, rel=0.05)
    plain = many.to_dict()
    assert plain.pop("reference") == "model"
    for key, value in plain.items():
        assert one.to_dict()[key] == pytest.approx(value, rel=1e-6, abs=1e-7), key


def test_words_say_where_a_set_is_better():
    y, p = rows(4000)
    found = decide(y, {"raw": overdone(p), "calibrated": p}, costs=COSTS)
    sure = np.zeros(99, dtype=bool)
    for low, high in found.better("calibrated"):
        sure |= (found.thresholds >= low) & (found.thresholds <= high)
    np.testing.assert_array_equal(sure, found.differences["calibrated"].lower > 0)
    low, high = found.better("calibrated")[0]
    assert (
        f"calibrated: significantly better than raw at thresholds {low:g} to {high:g}"
        in str(found)
    )
    assert not found.worse("calibrated")
    same = decide(y, {"a": p, "b": p})
    assert "b: no significant difference from a." in same.verdicts
    assert "best threshold" in found._repr_html_()
    assert repr(found) == "Decision(raw, calibrated; 99 thresholds)"


def test_the_numbers_are_flat_and_plain():
    y, p = rows(200)
    found = decide(y, {"model": p}, costs=COSTS, thresholds=[0.05, 0.5])
    plain = json.loads(json.dumps(found.to_dict()))
    assert plain["model.net_benefit_0.05"] == found.net_benefit["model"].value[0]
    assert (
        plain["act on all.difference_0.5_lower"]
        == found.differences["act on all"].lower[1]
    )
    assert plain["costs.threshold"] == 0.2
    assert all(isinstance(value, (float, str)) for value in plain.values())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"costs": (1, 5)}, "costs must be a mapping"),
        (
            {"costs": {"false_positive": 1}},
            "costs must say what a false_negative costs",
        ),
        (
            {"costs": COSTS | {"fp": 1}},
            "keys of costs must be among false_positive, .* got 'fp'",
        ),
        (
            {"costs": {"false_positive": 0, "false_negative": 1}},
            "costs must be higher for a false_positive",
        ),
        (
            {"costs": {"false_positive": "1", "false_negative": 1}},
            r'costs\["false_positive"\] must be',
        ),
        ({"thresholds": [0.0, 0.5]}, r"thresholds must be in \(0, 1\); got 0"),
        ({"thresholds": [0.5, 1.0]}, r"thresholds must be in \(0, 1\); got 1"),
        ({"thresholds": [0.5, 0.5]}, "thresholds must be sorted"),
        ({"level": 1.0}, "level must be"),
    ],
)
def test_a_wrong_argument_is_named(change, message):
    y, p = rows(50)
    with pytest.raises((ValueError, TypeError), match=message):
        decide(y, {"model": p}, **change)


def test_two_classes_and_names_of_ones_own_are_asked_for():
    with pytest.raises(
        ValueError, match="two classes; of more, take one against the rest"
    ):
        decide([0, 1, 2], {"model": np.eye(3)})
    with pytest.raises(ValueError, match="must not be 'act on all'"):
        decide([0, 1], {"act on all": [0.2, 0.8]})


def test_distances_from_the_spline_curve_are_those_of_its_calibrator(weights):
    y, p = rows(600)
    p, w = overdone(p), weights(600)
    found = evaluate(y, p, sample_weight=w)
    distance = np.abs(SplineCalibrator().fit(p, y, w).calibrate(p) - p)
    spread = np.repeat(distance, 1 if w is None else w.astype(int))
    quantiles = np.quantile(spread, [0.5, 0.9], method="inverted_cdf")
    want = spread.mean(), *quantiles, spread.max()
    assert (found.ici, found.e50, found.e90, found.emax) == pytest.approx(
        want, rel=1e-6
    )


def test_distances_of_a_known_curve():
    rng = np.random.default_rng(0)
    p = rng.random(300_000)
    found = evaluate(rng.random(300_000) < p**2, p)
    # |p - p^2| of uniform p: mean 1/6, exceeds 3/16 on the middle half, 0.2475 on the
    # middle tenth, at most 1/4.
    assert (found.ici, found.e50, found.e90, found.emax) == pytest.approx(
        (1 / 6, 3 / 16, 0.2475, 0.25), abs=0.005
    )


def test_distances_of_one_class_are_unknown_and_of_many_those_of_the_first_choice(
    multiclass,
):
    assert np.isnan(evaluate([1, 1], [0.4, 0.6]).ici)
    p, y = multiclass(400)
    found = evaluate(y, p)
    assert (found.ici, found.emax) == (found.top_label.ici, found.top_label.emax)


def test_no_variance_is_negative_where_sets_decide_alike():
    """Net benefits that differ nowhere have variance zero, up to rounding."""
    rng = np.random.default_rng(3)
    p = rng.random(300)
    y, group = rng.random(300) < p, rng.integers(0, 150, 300)
    sets = {"raw": p, "clipped": np.clip(p, 0.1, 0.9)}
    difference = decide(y, sets, groups=group).differences["clipped"]
    assert not np.isnan([difference.lower, difference.upper]).any()
