"""Thresholds that keep constraints with confidence."""

import numpy as np
import pytest

from calspline import decide
from calspline.evaluation.guarantees import Constraint, guarantee, risk_coverage
from calspline.evaluation.predictions import Predictions, check_predictions


def shares(y, p, t):
    acted = p >= t
    return {
        "precision": y[acted].mean(),
        "recall": acted[y == 1].mean(),
        "alert_rate": acted.mean(),
    }


def test_constraints_that_exclude_each_other_are_told_apart(binary):
    p, y = binary(3000)
    bounds = {"recall": 0.95, "precision": 0.9}
    found = decide(y, p, at_least=bounds).guarantees["probabilities"]
    assert found.threshold is None
    (_, highest), (lowest, _) = found.alone.values()
    assert shares(y, p, highest)["recall"] >= 0.95
    assert shares(y, p, lowest)["precision"] >= 0.9
    assert highest < lowest
    assert f"recall at least 95% from 0.0001234 to {highest:.4g}; " in found.statement


@pytest.mark.parametrize(
    "constraints",
    [
        {"at_least": {"recall": 0.8}},
        {"at_least": {"precision": 0.7}},
        {"at_most": {"alert_rate": 0.3}},
        {"at_least": {"precision": 0.6}, "at_most": {"alert_rate": 0.5}},
    ],
)
def test_a_guaranteed_threshold_keeps_its_constraints_on_the_rows(binary, constraints):
    p, y = binary(3000)
    result = decide(y, p, **constraints)
    t = result.to_dict()["threshold"]
    found = shares(y, p, t)
    for name, bound in constraints.get("at_least", {}).items():
        assert found[name] >= bound
    for name, bound in constraints.get("at_most", {}).items():
        assert found[name] <= bound
    guarantee = result.guarantees["probabilities"]
    assert guarantee.alert_rate == pytest.approx(found["alert_rate"])
    assert guarantee.precision == pytest.approx(found["precision"])
    assert f"acts on {found['alert_rate']:.0%} of them" in guarantee.statement
    for name, one in guarantee.achieved.items():
        assert one.value == pytest.approx(found[name])
        assert one.lower < one.value < one.upper


def test_a_constraint_that_holds_anyway_hardly_moves_the_threshold(binary):
    p, y = binary(3000)
    alone = decide(y, p, at_least={"recall": 0.8})
    both = decide(y, p, at_least={"recall": 0.8, "precision": 0.01})
    # Two constraints share the error probability.
    assert 0.9 * alone.threshold <= both.threshold <= alone.threshold
    assert "fewest rows" in str(both)
    precise = decide(y, p, at_least={"precision": 0.7})
    rare = decide(y, p, at_least={"precision": 0.7}, at_most={"alert_rate": 0.9})
    assert rare.threshold == pytest.approx(precise.threshold, rel=0.1)
    assert "most events" in str(precise)


def test_few_rows_guarantee_nothing_and_say_how_many_would(binary):
    p, y = binary(60)
    result = decide(y, p, at_least={"precision": 0.9})
    assert result.to_dict()["threshold"] is None
    found = result.guarantees["probabilities"]
    assert found.rows_needed > 60
    assert "would be needed" in found.statement


def test_copies_in_groups_are_no_evidence(binary):
    p, y = binary(300)
    p9, y9, group = (np.repeat(values, 9) for values in (p, y, np.arange(300)))
    constraints = {"at_least": {"recall": 0.9}}
    once, copied, naive = (
        decide(a, b, groups=g, **constraints).threshold
        for a, b, g in ((y, p, None), (y9, p9, group), (y9, p9, None))
    )
    assert copied == pytest.approx(once, abs=0.03)
    assert naive > once


def test_each_segment_has_a_threshold_of_its_own(binary):
    p, y = binary(4000)
    country = np.where(np.arange(4000) % 2, "a", "b")
    result = decide(y, p, at_least={"recall": 0.9}, by=country)
    alone = decide(y[1::2], p[1::2], at_least={"recall": 0.9})
    assert result.segments["probabilities"]["a"].threshold == alone.threshold


@pytest.mark.parametrize(
    "bad", [{"at_least": {"luck": 0.5}}, {"at_most": {"recall": 1.5}}]
)
def test_unknown_shares_and_impossible_bounds_are_errors(binary, bad):
    p, y = binary(50)
    with pytest.raises(ValueError, match=r"at_least|at_most"):
        decide(y, p, **bad)


def test_guarantees_are_broken_in_at_most_five_percent_of_samples():
    constraint = (Constraint("recall", 0.9, True),)
    broken = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        p = rng.random(300)
        rows = Predictions(
            p, (rng.random(300) < p).astype(np.intp), None, np.array([0, 1])
        )
        t = guarantee(rows, constraint).threshold
        # The events beyond t are 1 - t^2 of all.
        broken += t is not None and 1.0 - t**2 < 0.9
    assert broken <= 0.05 * 200 + 2.0 * np.sqrt(200 * 0.05 * 0.95)


def test_the_area_under_the_risk_coverage_curve(binary):
    p, y = binary(400)
    curve = risk_coverage(check_predictions(y, p))
    order = np.argsort(-np.maximum(p, 1 - p))
    wrong = ((p > 0.5) != y)[order]
    assert curve.area == pytest.approx(np.mean(np.cumsum(wrong) / np.arange(1, 401)))
    assert curve.risk[-1] == pytest.approx(wrong.mean())


def test_the_plot_of_risk_and_coverage_shows_the_curve_and_its_area(binary):
    p, y = binary(400)
    curve = risk_coverage(check_predictions(y, p))
    ax = curve.plot()
    [line] = ax.get_lines()
    np.testing.assert_array_equal(line.get_xdata()[1:], curve.coverage)
    np.testing.assert_array_equal(line.get_ydata()[1:], curve.risk)
    assert line.get_ydata()[0] == curve.risk[0]
    assert ax.get_title() == f"area {curve.area:.4f}"
    assert ax.get_ylim()[1] > curve.risk.max()
