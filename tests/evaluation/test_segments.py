"""Probabilities judged by segment."""

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from scipy.stats import binom, norm

from calspline import compare, evaluate
from calspline._input.segment_labels import check_by
from calspline.evaluation.predictions import Predictions
from calspline.evaluation.segment_test import SegmentSums, corrected, root
from calspline.evaluation.segments import Coded, multicalibration_error


def rows(seed=0, n=4000, n_segments=20, spread=0.0, mean=-1.0):
    """Probabilities, outcomes and segments whose log-odds are off by a spread."""
    rng = np.random.default_rng(seed)
    segment = rng.integers(0, n_segments, n)
    x = rng.normal(mean, 1.0, n)
    y = rng.random(n) < expit(x + spread * rng.normal(size=n_segments)[segment])
    return y, expit(x), segment


def sums_of(y, p, by, weight=None, groups=None):
    coded = Coded.of(check_by(by, len(p)))
    event = Predictions(
        np.asarray(p), np.asarray(y, dtype=int), weight, np.array([0, 1]), groups
    )
    return SegmentSums(event, coded.code, len(coded.labels))


def test_the_table_has_plain_sums_of_each_segment():
    y, p, segment = rows()
    found = evaluate(y, p, by=segment).segments
    frame = pd.DataFrame(found.table).set_index("segment")
    plain = pd.DataFrame(
        {"y": y, "p": p, "loss": -np.where(y, np.log(p), np.log1p(-p))}
    ).groupby(segment)
    np.testing.assert_allclose(frame["rows"], plain.size())
    np.testing.assert_allclose(frame["events"], plain["y"].sum())
    np.testing.assert_allclose(frame["mean_score"], plain["p"].mean())
    np.testing.assert_allclose(frame["event_rate"], plain["y"].mean())
    np.testing.assert_allclose(frame["log_loss"], plain["loss"].mean())
    np.testing.assert_allclose(frame["ratio"], plain["y"].mean() / plain["p"].mean())
    assert len(found) == 20
    assert found.names == [str(s) for s in range(20)]


def test_the_weighted_mean_of_the_segments_losses_is_the_loss_of_all_rows():
    y, p, segment = rows()
    w = np.random.default_rng(1).uniform(0.2, 3.0, len(p))
    found = evaluate(y, p, by=segment, sample_weight=w)
    t = found.segments.table
    assert t["rows"] @ t["log_loss"] / t["rows"].sum() == pytest.approx(found.log_loss)


@pytest.mark.parametrize("chance", [0.5, 0.1, 0.9])
def test_p_values_of_equal_probabilities_are_the_binomial_mid_p(chance):
    n = 25
    for k in range(n + 1):
        sums = sums_of(np.arange(n) < k, np.full(n, chance), np.zeros(n, dtype=int))
        tails = [binom.cdf(k, n, chance), binom.sf(k - 1, n, chance)]
        mid = min(1.0, 2.0 * (min(tails) - 0.5 * binom.pmf(k, n, chance)))
        assert np.log(sums.p_values[0][0]) == pytest.approx(
            np.log(mid), abs=0.15 - 0.03 * np.log(mid)
        )
        assert sums.p_values[1][0] == 1.0  # equal probabilities have no slope


@pytest.mark.parametrize("spread", [1.0, 4.0, 8.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_p_values_of_few_rows_are_near_those_of_all_possible_outcomes(spread, weighted):
    rng = np.random.default_rng(3)
    n = 10
    z = rng.normal(0.0, spread, n)
    p = expit(z)
    w = rng.uniform(0.2, 2.0, n) if weighted else np.ones(n)
    outcomes = np.array(list(itertools.product([False, True], repeat=n)))
    chance = np.where(outcomes, p, 1.0 - p).prod(axis=1)
    v = w**2 * p * (1.0 - p)
    likely = rng.choice(len(outcomes), 40, p=chance / chance.sum())
    tried = np.append(likely, rng.choice(len(outcomes), 20, replace=False))
    for feature, which in ((w, 0), (w * (z - v @ z / v.sum()), 1)):
        U = (outcomes - p) @ feature
        for i in tried:
            by, weight = np.zeros(n, dtype=int), w if weighted else None
            sums = sums_of(outcomes[i], p, by, weight)
            beyond = np.sign(U[i]) * (U - U[i])
            # Rounding to a grid ties sums that are close together; a tie counts half.
            tie = 0.05 * np.abs(feature).max()
            same = chance[np.abs(beyond) <= 1e-9].sum()
            lowest = min(1.0, 2.0 * chance[beyond > tie].sum() + same)
            highest = min(1.0, 2.0 * chance[beyond >= -tie].sum() - same)
            found = sums.p_values[which][0]
            assert 0.75 * lowest - 0.02 <= found <= 1.25 * highest + 0.02


@pytest.mark.thorough
@pytest.mark.parametrize(("n", "n_segments"), [(200, 50), (2000, 50), (2000, 200)])
@pytest.mark.parametrize("weighted", [False, True])
def test_confident_right_probabilities_are_seldom_rejected(n, n_segments, weighted):
    rejected = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        p = expit(rng.normal(0.0, 8.0, n))
        y = rng.random(n) < p
        w = rng.exponential(size=n) + 0.05 if weighted else None
        found = evaluate(y, p, by=rng.integers(0, n_segments, n), sample_weight=w)
        rejected += found.segments.p_value < 0.05
    assert rejected <= 12  # more with a probability of 0.2% at a size of 5%


def test_large_segments_have_the_normal_p_values():
    y, p, segment = rows(n=40_000, n_segments=4)
    U, (level, _) = sums_of(y, p, segment).sums[0], sums_of(y, p, segment).p_values
    z = U / np.sqrt(np.bincount(segment, p * (1.0 - p)))
    np.testing.assert_allclose(level, 2.0 * norm.sf(np.abs(z)), atol=0.01)


@pytest.mark.slow
def test_gathering_rows_in_cells_changes_next_to_nothing(monkeypatch):
    y, p, segment = rows(n=30_000, spread=0.3)
    by = [segment, np.arange(len(p)) % 7]
    w = np.random.default_rng(1).uniform(0.5, 2.0, len(p))
    for weight in (None, w):
        exact = evaluate(y, p, by=by, sample_weight=weight).segments
        monkeypatch.setattr("calspline.evaluation.segment_test.MANY_ROWS", 100)
        near = evaluate(y, p, by=by, sample_weight=weight).segments
        monkeypatch.undo()
        for key in ("ratio", "lower", "upper", "shift"):
            np.testing.assert_allclose(near.table[key], exact.table[key], rtol=2e-3)
        np.testing.assert_allclose(
            np.log(near.table["p_value"]),
            np.log(exact.table["p_value"]),
            rtol=0.02,
            atol=0.03,
        )
        assert near.p_value == pytest.approx(exact.p_value, rel=0.05)


def reject(
    n_segments, each, *, columns=1, repeats=200, mean=-1.0, spread=0.0, groups=None
):
    """How often the test rejects, and the share of false segments among those that are off."""
    rng = np.random.default_rng(n_segments + each)
    n, found, false = n_segments * each, [], []
    for _ in range(repeats):
        by = [rng.integers(0, n_segments, n) for _ in range(columns)]
        x = rng.normal(mean, 1.0, n)
        off = np.where(np.arange(n_segments) < n_segments // 4, spread, 0.0)
        y = rng.random(n) < expit(x + off[by[0]])
        segments = evaluate(y, expit(x), by=by, groups=groups).segments
        found.append(segments.p_value < 0.05)
        right = [i for i in segments.miscalibrated if i >= n_segments // 4]
        false.append(len(right) / max(len(segments.miscalibrated), 1))
    return float(np.mean(found)), float(np.mean(false))


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("n_segments", "each", "columns", "mean"),
    [(10, 30, 1, -1), (10, 5, 3, -3), (200, 6, 1, -2)],
)
def test_the_size_holds_for_few_and_many_segments_and_where_they_overlap(
    n_segments, each, columns, mean
):
    rate, _ = reject(n_segments, each, columns=columns, mean=mean, repeats=100)
    assert rate <= binom.ppf(0.999, 100, 0.05) / 100


@pytest.mark.slow
def test_segments_that_are_off_are_found_and_few_falsely():
    rate, false = reject(40, 100, spread=1.0, repeats=40)
    assert rate > 0.95
    assert false < 0.08


def test_few_rows_in_many_segments_are_found_together_where_none_is_by_itself():
    y, p, segment = rows(1, n=6000, n_segments=600, spread=0.7)
    found = evaluate(y, p, by=segment).segments
    assert found.p_value < 0.001
    assert len(found.miscalibrated) < 20


def test_a_segment_that_is_right_on_average_but_over_confident_is_off():
    rng = np.random.default_rng(0)
    x = rng.normal(0.0, 1.0, 6000)
    segment = np.arange(6000) % 3
    y = rng.random(6000) < expit(x)
    found = evaluate(
        y, expit(np.where(segment == 1, 2.0, 1.0) * x), by=segment
    ).segments
    assert [found.names[i] for i in found.miscalibrated] == ["1"]
    assert found.table["verdict"][1] == "over-confident"
    assert found.table["lower"][1] < 1.0 < found.table["upper"][1]


def test_limits_of_equal_probabilities_are_wilsons():
    n, k, chance = 40, 7, 0.25
    found = evaluate(np.arange(n) < k, np.full(n, chance), by=["a"] * n).segments.table
    z, rate = norm.isf(0.025), k / n
    centre, reach = (
        (rate + z**2 / (2 * n)) / (1 + z**2 / n),
        z * np.sqrt(rate * (1 - rate) / n + z**2 / (4 * n * n)),
    )
    limits = (centre + np.array([-1, 1]) * reach / (1 + z**2 / n)) / chance
    np.testing.assert_allclose(
        [found["lower"][0], found["upper"][0]], limits, rtol=1e-6
    )


@pytest.mark.slow
def test_limits_hold_the_truth():
    held = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        segment = np.arange(3000) % 60
        x, off = rng.normal(-2.0, 1.0, 3000), 0.5 * rng.normal(size=60)
        truth = np.bincount(segment, expit(x + off[segment])) / np.bincount(
            segment, expit(x)
        )
        t = evaluate(
            rng.random(3000) < expit(x + off[segment]), expit(x), by=segment
        ).segments.table
        held.append(np.mean((t["lower"] <= truth) & (truth <= t["upper"])))
    assert 0.94 < np.mean(held) < 0.97


def test_copies_in_groups_are_judged_as_single_rows():
    y, p, segment = rows(n=600, n_segments=3, spread=0.5)
    one = evaluate(y, p, by=segment).segments.table
    many = evaluate(
        *(np.repeat(a, 8) for a in (y, p)),
        by=np.repeat(segment, 8),
        groups=np.repeat(np.arange(600), 8),
    )
    width = one["upper"] - one["lower"]
    np.testing.assert_allclose(
        many.segments.table["upper"] - many.segments.table["lower"], width, rtol=0.1
    )
    np.testing.assert_allclose(many.segments.table["ratio"], one["ratio"])
    plain = evaluate(
        *(np.repeat(a, 8) for a in (y, p)), by=np.repeat(segment, 8)
    ).segments.table
    assert np.all(plain["upper"] - plain["lower"] < 0.5 * width)


@pytest.mark.slow
def test_the_size_holds_where_rows_of_a_group_depend_on_each_other():
    rejected = {True: [], False: []}
    for seed in range(40):
        rng = np.random.default_rng(seed)
        group = np.repeat(np.arange(200), 10)
        x = rng.normal(-1.0, 1.0, 2000)
        e = np.sqrt(0.3) * rng.normal(size=200)[group] + np.sqrt(0.7) * rng.normal(
            size=2000
        )
        y = norm.cdf(e) < expit(x)
        by = group % 10
        for known in (True, False):
            found = evaluate(
                y, expit(x), by=by, groups=group if known else None
            ).segments
            rejected[known].append(found.p_value < 0.05)
    assert np.mean(rejected[True]) < 0.15
    assert np.mean(rejected[False]) > 0.5


def test_a_segment_with_one_group_tells_nothing():
    y, p, _ = rows(n=400)
    by = np.repeat(["a", "b"], 200)
    groups = np.concatenate([np.zeros(200), 1 + np.arange(200)])
    with pytest.warns(UserWarning, match="lower where the class is True"):
        found = evaluate(~y, p, by=by, groups=groups).segments.table
    assert found["p_value"][0] == 1.0
    assert found["p_value"][1] < 1e-6
    assert found["lower"][0] < 1e-6
    assert found["upper"][0] == pytest.approx(200 / p[:200].sum())


def test_whole_weights_are_rows_and_the_scale_of_others_does_not_matter():
    y, p, segment = rows(n=500, n_segments=5, spread=0.5)
    w = np.random.default_rng(0).integers(1, 4, 500)
    counted = evaluate(y, p, by=segment, sample_weight=w).segments
    repeated = evaluate(
        *(np.repeat(a, w) for a in (y, p)), by=np.repeat(segment, w)
    ).segments
    for key in ("rows", "ratio", "lower", "upper", "shift", "p_value"):
        np.testing.assert_allclose(counted.table[key], repeated.table[key], rtol=1e-6)
    assert counted.multicalibration_error == pytest.approx(
        repeated.multicalibration_error
    )
    uneven = w + 0.25
    once, twice = (
        evaluate(y, p, by=segment, sample_weight=k * uneven).segments
        for k in (1.0, 16.5)
    )
    for key in ("ratio", "lower", "upper", "p_value"):
        np.testing.assert_allclose(once.table[key], twice.table[key], rtol=1e-5)
    assert once.p_value == pytest.approx(twice.p_value)


def test_rows_of_weight_zero_are_as_if_absent():
    y, p, segment = rows(n=500, n_segments=5)
    w = (np.arange(500) % 3 > 0).astype(float)
    some, kept = evaluate(y, p, by=segment, sample_weight=w).segments, w > 0
    assert some.p_value == evaluate(y[kept], p[kept], by=segment[kept]).segments.p_value


def test_the_order_of_rows_does_not_matter():
    y, p, segment = rows(n=800, spread=0.5)
    order = np.random.default_rng(0).permutation(800)
    one, other = (
        evaluate(y, p, by=segment).segments,
        evaluate(y[order], p[order], by=segment[order]).segments,
    )
    assert one.p_value == pytest.approx(other.p_value)
    np.testing.assert_allclose(one.table["p_value"], other.table["p_value"], rtol=1e-6)
    assert one.multicalibration_error == pytest.approx(other.multicalibration_error)


def test_several_columns_are_judged_each_and_together():
    y, p, segment = rows(n=1000, n_segments=4)
    frame = pd.DataFrame(
        {"country": segment, "device": np.where(np.arange(1000) % 2, "phone", None)}
    )
    found = evaluate(y, p, by=frame).segments
    assert found.names == [
        "country: 0",
        "country: 1",
        "country: 2",
        "country: 3",
        "device: phone",
        "device: (none)",
    ]
    assert found.table["column"] == ["country"] * 4 + ["device"] * 2
    assert found.table["segment"][-1] is None
    alone = evaluate(y, p, by=segment).segments.table
    np.testing.assert_allclose(found.table["p_value"][:4], alone["p_value"])


def test_one_segment_and_segments_of_one_row_are_finite():
    y, p, _ = rows(n=50)
    for by in (np.zeros(50), np.arange(50)):
        t = evaluate(y, p, by=by).segments
        assert 0.0 <= t.p_value <= 1.0
        for key in ("ratio", "lower", "upper", "shift", "p_value", "adjusted"):
            assert np.isfinite(t.table[key]).all(), key


def test_what_happened_with_probability_zero_is_off():
    p = np.array([0.0, 0.5, 0.5, 0.2, 0.3, 0.4])
    found = evaluate([1, 0, 1, 0, 0, 1], p, by=["a", "a", "a", "b", "b", "b"]).segments
    assert found.p_value == 0.0
    assert found.table["p_value"][0] == 0.0
    assert found.table["p_value"][1] > 0.1


def test_probabilities_of_one_and_zero_that_came_true_say_nothing():
    found = evaluate([1, 0, 1, 0], [1.0, 0.0, 1.0, 0.0], by=[1, 1, 2, 2]).segments
    assert found.p_value > 0.5
    assert found.table["p_value"].min() > 0.5


def test_several_classes_are_judged_by_the_most_probable_one():
    rng = np.random.default_rng(0)
    probs = rng.dirichlet([1.0, 1.0, 1.0], 900)
    y = (rng.random(900)[:, None] > probs.cumsum(axis=1)).sum(axis=1)
    by = np.arange(900) % 3
    found, top = evaluate(y, probs, by=by), probs.max(axis=1)
    right = probs.argmax(axis=1) == y
    np.testing.assert_allclose(found.segments.table["events"], np.bincount(by, right))
    assert found.segments.table["p_value"] == pytest.approx(
        evaluate(right, top, by=by).segments.table["p_value"]
    )
    losses = -np.log(probs[np.arange(900), y])
    np.testing.assert_allclose(
        found.segments.table["log_loss"], np.bincount(by, losses) / 300
    )


# MCGrad 0.1.5 on the rows of the test below, in a frame with texts for segments: m =
# mcgrad.metrics.MulticalibrationError(frame, "y", "p", weight_column=None,
# categorical_segment_columns=["a", "b"],
#     max_depth=1, max_values_per_segment_feature=1000, precision_dtype="float64"); m.mce, m.mce_sigma
# and the same with weight_column="w".
MCGRAD = [
    (0.03880116448027825, 4.790104499347377),
    (0.03360886397124909, 3.938155638853799),
]


@pytest.mark.parametrize("weighted", [False, True])
def test_the_multicalibration_error_is_that_of_mcgrad(weighted):
    rng = np.random.default_rng(5)
    n = 2000
    p, a, b = rng.random(n) ** 2, rng.integers(0, 6, n), rng.integers(0, 150, n)
    y = rng.random(n) < p ** np.where(a == 2, 0.7, 1)
    w = rng.uniform(0.5, 2, n)
    found = evaluate(y, p, by=[a, b], sample_weight=w if weighted else None).segments
    assert (
        found.multicalibration_error,
        found.multicalibration_sigmas,
    ) == pytest.approx(MCGRAD[weighted], rel=1e-9)


def test_the_multicalibration_error_of_equal_probabilities_is_that_of_sums():
    y, by = np.repeat([1, 0], [30, 70]), np.zeros(100, dtype=int)
    error, sigmas = multicalibration_error(sums_of(y, np.full(100, 0.2), by))
    assert error == pytest.approx(0.1)
    assert sigmas == pytest.approx(10 / 4)


def test_an_adjusted_p_value_below_a_share_is_what_benjamini_and_hochberg_reject():
    table = evaluate(*rows(spread=0.3)[:2], by=rows(spread=0.3)[2]).segments.table
    p = np.sort(table["p_value"])
    below = p <= 0.05 * np.arange(1, len(p) + 1) / len(p)
    largest = p[below].max()
    assert 0 < below.sum() < len(p)
    np.testing.assert_array_equal(table["miscalibrated"], table["p_value"] <= largest)
    assert corrected(np.array(0.01), 3) == pytest.approx(1 - 0.99**3)


def test_roots_of_many_functions_at_once():
    target = np.array([0.0, 0.5, 3.0, 1e5, np.inf])
    found = root(lambda x: x**3 - np.minimum(target, 1e30), np.ones(5), 100.0)
    np.testing.assert_allclose(
        found, [0.0, 0.5 ** (1 / 3), 3.0 ** (1 / 3), 1e5 ** (1 / 3), 100.0], atol=1e-9
    )


def test_numbers_and_sentences():
    y, p, segment = rows(n=2000, n_segments=30)
    y = np.where(segment == 3, True, y)
    result = evaluate(y, p, by=segment)
    found, flat = result.segments, result.to_dict()
    assert all(isinstance(value, float) for value in flat.values())
    assert flat["n_segments"] == 30.0
    assert flat["segments_miscalibrated"] == 1.0
    assert flat["segments_p_value"] == found.p_value
    text = str(result)
    assert "By segment" in text
    assert "... and 10 more" in text
    assert found.verdict in text
    assert "1 of 30 are miscalibrated" in found.verdict
    assert "segment" in result._repr_html_()
    assert repr(found).startswith("SegmentEvaluation(30 segments: miscalibrated=1")
    records = found.records()
    assert records[3]["segment"] == 3
    assert records[3]["miscalibrated"] is True
    quiet = evaluate(np.random.default_rng(1).random(2000) < p, p, by=segment).segments
    assert quiet.verdict.startswith(
        "No evidence of miscalibration in any of the 30 segments (p = "
    )
    assert "n_segments" not in evaluate(y, p).to_dict()


def test_the_test_of_all_rows_counts_too():
    y, p, segment = rows(2, n=3000, n_segments=1000)
    sums = sums_of(y, p, segment)
    assert sums.p_value(1e-6) < 1e-5
    assert sums.many_p_value > 0.01


@pytest.mark.parametrize(
    ("by", "error", "message"),
    [
        (["a", "b"], ValueError, "probs and by must have the same length; got 4 and 2"),
        ("country", TypeError, "by must be labels"),
        ([["a"], ["b"], [["c"]], ["d"]], ValueError, "by"),
        ([], ValueError, "by"),
    ],
)
def test_bad_segments_are_named(by, error, message):
    with pytest.raises(error, match=message):
        evaluate([0, 1, 0, 1], [0.1, 0.2, 0.3, 0.4], by=by)


def test_compare_says_who_gains_and_who_loses():
    rng = np.random.default_rng(0)
    segment, x = rng.choice(["at", "de", "fr"], 6000), rng.normal(size=6000)
    y = rng.random(6000) < expit(x + (segment == "fr"))
    moved = expit(x + 0.9 * (segment == "fr") - 0.6 * (segment == "at"))
    found = compare(y, {"raw": expit(x), "moved": moved}, by=segment)
    differences = found.segments["moved"]
    assert differences.table["verdict"] == ["worse", "unclear", "better"]
    losses = [
        found.evaluations[name].segments.table["log_loss"] for name in ("moved", "raw")
    ]
    np.testing.assert_allclose(differences.table["difference"], losses[0] - losses[1])
    assert (
        differences.verdict == "Segments that are better: 1 of 3; worse: 1; unclear: 1."
    )
    assert all(
        text.count("worse") == 2
        for text in (str(differences), differences._repr_html_())
    )
    flat = found.to_dict()
    assert (
        flat["moved.segments_better"],
        flat["moved.segments_worse"],
        flat["raw.n_segments"],
    ) == (1.0, 1.0, 3.0)
    assert "By segment, moved against raw" in str(found)
    assert not compare(y, {"raw": expit(x), "moved": moved}).segments
    assert not compare(y, {"raw": expit(x)}, by=segment).segments


@pytest.mark.slow
def test_limits_of_differences_hold_the_truth():
    held = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        segment, x = np.arange(1500) % 50, rng.normal(-1.5, 1.0, 1500)
        a, b = expit(1.4 * x + 0.5), expit(0.7 * x - 0.6)
        truth = (
            np.bincount(segment, _expected(expit(x), a) - _expected(expit(x), b)) / 30
        )
        y = rng.random(1500) < expit(x)
        t = compare(y, {"b": b, "a": a}, by=segment).segments["a"].table
        held.append(np.mean((t["lower"] <= truth) & (truth <= t["upper"])))
    assert 0.92 < np.mean(held) < 0.99


def _expected(p, q):
    return -p * np.log(q) - (1.0 - p) * np.log1p(-q)


def test_differences_of_copies_in_groups_are_those_of_single_rows():
    y, p, segment = rows(n=900, n_segments=3)
    one = compare(y, {"a": p, "b": p**1.3}, by=segment).segments["b"].table
    many = [np.repeat(a, 6) for a in (y, p, segment)]
    of_groups = (
        compare(
            many[0],
            {"a": many[1], "b": many[1] ** 1.3},
            by=many[2],
            groups=np.repeat(np.arange(900), 6),
        )
        .segments["b"]
        .table
    )
    np.testing.assert_allclose(
        of_groups["upper"] - of_groups["lower"], one["upper"] - one["lower"], rtol=0.05
    )


def test_differences_of_several_classes_and_of_one_group():
    rng = np.random.default_rng(0)
    probs = rng.dirichlet([1.0, 1.0, 1.0], 600)
    y = (rng.random(600)[:, None] > probs.cumsum(axis=1)).sum(axis=1)
    by, groups = (
        np.repeat(["a", "b"], 300),
        np.concatenate([np.zeros(300), 1 + np.arange(300)]),
    )
    t = (
        compare(
            y, {"flat": np.full((600, 3), 1 / 3), "model": probs}, by=by, groups=groups
        )
        .segments["model"]
        .table
    )
    assert t["verdict"] == ["unclear", "better"]
    assert np.isinf(t["lower"][0])
