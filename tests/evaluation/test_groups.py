"""Rows that depend on each other, judged by their groups."""

import json

import numpy as np
import pytest
from scipy.special import expit, logit
from scipy.stats import norm

from calspline import ReliabilityDisplay, compare, evaluate, reliability, report
from calspline.evaluation.predictions import check_predictions


def clustered(seed=0, n_groups=200, size=10, correlation=0.3, offset=0.0):
    """Right probabilities, and outcomes that depend on each other within groups (a Gaussian copula)."""
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(n_groups), size)
    p = expit(1.2 * rng.normal(size=len(group)))
    shared, own = rng.normal(size=n_groups)[group], rng.normal(size=len(group))
    e = np.sqrt(correlation) * shared + np.sqrt(1.0 - correlation) * own
    return p, (norm.cdf(e) < expit(logit(p) - offset)).astype(int), group


def copies(seed=0, n=300, times=8):
    rng = np.random.default_rng(seed)
    p = rng.random(n)
    y = (rng.random(n) < p).astype(int)
    return p, y, *(np.repeat(values, times) for values in (p, y, np.arange(n)))


def test_copies_of_rows_are_judged_as_single_rows():
    p, y, p8, y8, group = copies()
    one, many = evaluate(y, p), evaluate(y8, p8, groups=group)
    correction = np.sqrt(300 / 299)
    assert many.calibration_slope_se == pytest.approx(
        correction * one.calibration_slope_se, rel=0.1
    )
    assert many.calibration_in_the_large_se == pytest.approx(
        correction * one.calibration_in_the_large_se, rel=0.1
    )
    assert many.calibration_p_value == pytest.approx(one.calibration_p_value, abs=0.1)
    assert many.n_effective == pytest.approx(300, rel=0.15)
    assert evaluate(y8, p8).calibration_slope_se < 0.5 * one.calibration_slope_se
    for name in ("log_loss", "brier", "auc", "ece"):
        assert getattr(many, name) == pytest.approx(getattr(one, name))
    assert many.calibration_log_loss == pytest.approx(
        one.calibration_log_loss, abs=0.005
    )
    for name in ("log_loss", "brier", "auc"):
        assert many.limits[name] == pytest.approx(one.limits[name], rel=0.02)


def test_exact_intervals_of_copies_are_those_of_single_rows():
    p, y, p8, y8, group = copies()
    one, many = reliability(y, p), reliability(y8, p8, groups=group)
    width = [
        b.interval_upper - b.interval_lower
        for b in (one.bins, many.bins, reliability(y8, p8).bins)
    ]
    np.testing.assert_allclose(width[1], width[0], rtol=0.15)
    assert np.all(width[2] < 0.5 * width[0])
    bands = [r.spline.upper - r.spline.lower for r in (one, many)]
    np.testing.assert_allclose(bands[1].mean(), bands[0].mean(), rtol=0.3)
    corp = [r.corp.band_upper - r.corp.band_lower for r in (one, many)]
    np.testing.assert_allclose(corp[1].mean(), corp[0].mean(), rtol=0.15)


def test_differences_of_copies_are_those_of_single_rows():
    p, y, p8, y8, group = copies()
    q, q8 = p**1.3, p8**1.3
    one = compare(y, {"a": p, "b": q}).log_loss["b"]
    many = compare(y8, {"a": p8, "b": q8}, groups=group).log_loss["b"]
    assert (many.lower, many.upper) == pytest.approx((one.lower, one.upper), rel=0.1)


@pytest.mark.thorough
def test_the_calibration_test_keeps_its_level_with_groups_only():
    drawn = [clustered(seed) for seed in range(300)]
    found = np.mean(
        [evaluate(y, p, groups=g).calibration_p_value < 0.05 for p, y, g in drawn]
    )
    assert 0.02 <= found <= 0.08
    without = np.mean(
        [evaluate(y, p).calibration_p_value < 0.05 for p, y, _ in drawn[:100]]
    )
    assert without > 0.1


def test_a_clear_error_is_found_in_groups_too():
    p, y, group = clustered(offset=1.0)
    assert evaluate(y, p, groups=group).calibration_p_value < 1e-6


def test_groups_of_one_row_change_nothing():
    p, y, _ = clustered()
    alone = np.random.default_rng(0).permutation(len(y))
    assert evaluate(y, p, groups=alone).to_dict() == evaluate(y, p).to_dict()
    assert str(compare(y, {"a": p, "b": p**2}, groups=alone)) == str(
        compare(y, {"a": p, "b": p**2})
    )
    assert str(reliability(y, p, groups=alone)) == str(reliability(y, p))


def test_it_is_said_how_many_groups_there_are_and_what_that_means():
    p, y, group = clustered()
    found = evaluate(y, p, groups=group)
    assert str(found).startswith("2,000 rows in 200 groups, 2 classes\n")
    said = f"The effective sample size of 2,000 rows in 200 groups is about {float(f'{found.n_effective:.2g}'):,.0f}."
    assert str(found).endswith(said)
    assert str(compare(y, {"a": p}, groups=group)).endswith(said)
    assert str(reliability(y, p, groups=group)).endswith(said)
    assert "2,000 rows in 200 groups" in str(reliability(y, p, groups=group))
    assert said in found._repr_html_()
    page = report(y, {"raw": p}, groups=group).html
    assert "2,000 rows in 200 groups" in page
    assert said in page
    numbers = found.to_dict()
    assert (numbers["n_groups"], numbers["design_effect"]) == (
        200.0,
        found.design_effect,
    )
    assert json.dumps(reliability(y, p, groups=group).to_dict())
    independent = evaluate(*clustered(correlation=0.0)[1::-1], groups=group)
    assert "Rows within a group are nearly independent" in str(independent)


def test_groups_count_for_three_classes():
    rng = np.random.default_rng(0)
    p = rng.dirichlet([1, 1, 1], 100)
    y = np.array([rng.choice(3, p=row) for row in p])
    many, y6, group = (
        np.repeat(p, 6, axis=0),
        np.repeat(y, 6),
        np.repeat(np.arange(100), 6),
    )
    found = evaluate(y6, many, groups=group)
    assert found.n_groups == 100
    assert found.n_effective == pytest.approx(100, rel=0.3)
    assert found.calibration_p_value > evaluate(y6, many).calibration_p_value
    assert compare(
        y6,
        {"a": many, "b": many**2 / (many**2).sum(axis=1, keepdims=True)},
        groups=group,
    ).grouping


def test_a_diagram_takes_groups():
    p, y, group = clustered()
    display = ReliabilityDisplay.from_predictions(y, p, groups=group)
    drawn = (
        next(iter(display.reliability_.values()))
        if hasattr(display, "reliability_")
        else None
    )
    wider = (
        reliability(y, p, groups=group).spline.upper.mean()
        - reliability(y, p).spline.upper.mean()
    )
    assert wider > 0.0
    assert drawn is None or drawn.n_groups == 200


def test_rows_of_weight_zero_leave_their_groups():
    p, y, group = clustered()
    w = (group < 150).astype(float)
    rows = check_predictions(y, p, w, groups=group)
    assert rows.n_groups == 150
    assert evaluate(y, p, sample_weight=w, groups=group).n_groups == 150


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (np.zeros(2000), "at least two groups"),
        (np.arange(5), "probs and groups must have the same length; got 2000 and 5"),
        ([None] + [1] * 1999, "groups has missing labels; the first is in row 0"),
    ],
)
def test_bad_groups_are_refused(groups, message):
    p, y, _ = clustered()
    with pytest.raises(ValueError, match=message):
        evaluate(y, p, groups=groups)
    with pytest.raises(
        ValueError, match=message.replace("probs", r'predictions\["a"\]')
    ):
        compare(y, {"a": p}, groups=groups)
