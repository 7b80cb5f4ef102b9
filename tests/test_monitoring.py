import json
import warnings

import numpy as np
import pytest
from scipy.stats import chi2_contingency

from calspline import (
    ScoreHistogram,
    SigmoidCalibrator,
    SplineCalibrator,
    drift,
    evaluate,
    load,
    save,
)


def histogram(n, seed, power=1.0, spread=1.0, shift=0.0):
    rng = np.random.default_rng(seed)
    p = 1 / (1 + np.exp(-(shift + spread * rng.normal(0, 1.5, n))))
    return ScoreHistogram.from_scores(p, rng.random(n) < p**power)


@pytest.fixture(scope="module")
def reference():
    return histogram(20_000, 0)


@pytest.mark.slow
@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("known", [True, False])
def test_without_drift_the_tests_reject_as_often_as_they_should(exact, known):
    identity = SplineCalibrator(smoothing=1e6).fit_histogram(histogram(200_000, 99))
    n = 1000 if exact else 5000
    found = [
        drift(
            histogram(2 * n, 2 * i + 1),
            histogram(n, 2 * i + 2),
            calibrator=identity if known else None,
        )
        for i in range(80)
    ]
    # 80 draws of a chance of 0.05 exceed 12 once in a thousand times.
    assert sum(d.moved for d in found) <= 12
    assert sum(d.miscalibrated for d in found) <= 12
    if known:
        low, high = np.array([d.difference_interval for d in found]).T
        assert np.mean((low < 0) & (high > 0)) > 0.85


def stable(n, m, seed, slope=0.5):
    """Two samples of one over-confident world, and their scores and outcomes."""
    rng = np.random.default_rng([seed, n, m])
    u = rng.normal(0.0, 1.5, n + m)
    p, y = 1 / (1 + np.exp(-u)), rng.random(n + m) < 1 / (1 + np.exp(-slope * u + 0.5))
    return (
        p[:n],
        y[:n],
        ScoreHistogram.from_scores(p[:n], y[:n]),
        ScoreHistogram.from_scores(p[n:], y[n:]),
    )


@pytest.mark.slow
@pytest.mark.parametrize("make", [SplineCalibrator, SigmoidCalibrator])
@pytest.mark.parametrize(("n", "m"), [(2000, 2000), (1000, 10_000)])
def test_a_calibrator_in_use_is_not_suspected_in_a_stable_world(make, n, m):
    # 21% and 72% of stable worlds raised an alarm when its curve was taken for certain.
    found = []
    for seed in range(60):
        p, y, before, now = stable(n, m, seed)
        found.append(drift(before, now, calibrator=make().fit(p, y)))
    # 60 draws of a chance of 0.05 exceed 9 once in a hundred times.
    assert sum(d.miscalibrated for d in found) <= 9
    low, high = np.array([d.difference_interval for d in found]).T
    assert np.mean((low <= 0) & (high >= 0)) >= 0.85


@pytest.mark.slow
@pytest.mark.parametrize("scale", [1.0, 50.0, 0.02])
def test_unequal_weights_count_for_the_rows_they_are_worth(scale):
    # Taken for counts, weights of this spread moved the scores in 43 of 60 stable
    # worlds.
    found, rng = [], np.random.default_rng(5)
    for seed in range(60):
        p, y, *_ = stable(2000, 0, seed)
        q, z, *_ = stable(2000, 0, 1000 + seed)
        w, v = scale * rng.lognormal(-0.5, 1.0, (2, 2000))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of weights that are no counts
            before, now = (
                ScoreHistogram.from_scores(p, y, w),
                ScoreHistogram.from_scores(q, z, v),
            )
        assert before.row_weight == pytest.approx((w @ w) / w.sum())
        assert (before + now).row_weight == pytest.approx(
            (w @ w + v @ v) / (w.sum() + v.sum())
        )
        found.append(drift(before, now, calibrator=SplineCalibrator().fit(p, y)))
    # 60 draws of a chance of 0.05 exceed 9 once in a hundred times.
    assert sum(d.miscalibrated for d in found) <= 9
    assert sum(d.moved for d in found) <= 9
    low, high = np.array([d.difference_interval for d in found]).T
    assert np.mean((low <= 0) & (high >= 0)) >= 0.85
    assert found[0].current_weight == pytest.approx(scale * 2000, rel=0.3)


def test_whole_weights_count_rows_and_a_saved_histogram_keeps_what_others_are_worth(
    tmp_path,
):
    p, y, *_ = stable(500, 0, 0)
    counts = np.arange(500) % 3
    assert ScoreHistogram.from_scores(p, y, counts).row_weight == 1.0
    weighted = ScoreHistogram.from_scores(p, y, counts + 0.5)
    save(weighted, tmp_path / "day.json")
    assert load(tmp_path / "day.json").row_weight == weighted.row_weight > 1.0


def test_a_calibrator_of_many_rows_is_judged_more_strictly_than_one_of_few():
    p, y, before, now = stable(40_000, 4000, 0)
    few, many = SplineCalibrator().fit(p[:1000], y[:1000]), SplineCalibrator().fit(p, y)
    widths = [
        np.ptp(drift(before, now, calibrator=cal).slope_interval) for cal in (few, many)
    ]
    # As 1 + 4 is to 1 + 0.1.
    assert widths[0] / widths[1] == pytest.approx(np.sqrt(5.0 / 1.1), rel=0.25)


def test_moved_scores_are_seen_and_their_calibrator_is_still_right(reference):
    seen = drift(reference, histogram(20_000, 5, shift=1.0))
    assert seen.moved
    assert seen.psi > 0.25
    assert seen.distance > 0.15
    assert not seen.miscalibrated
    assert "The scores have moved (much: PSI" in seen.verdict
    assert "shows no evidence of miscalibration" in seen.verdict


def test_another_outcome_for_the_same_scores_is_seen(reference):
    seen = drift(reference, histogram(20_000, 5, power=1.5))
    assert not seen.moved
    assert seen.miscalibrated
    assert seen.difference_interval[1] < 0
    assert seen.in_the_large_interval[1] < 0
    assert "its probabilities are too high" in seen.verdict


def test_too_extreme_probabilities_are_named(reference):
    rng = np.random.default_rng(3)
    u = rng.normal(0, 1.5, 20_000)
    y = rng.random(20_000) < 1 / (1 + np.exp(-0.7 * u))
    seen = drift(reference, ScoreHistogram.from_scores(1 / (1 + np.exp(-u)), y))
    assert seen.slope_interval[0] < 0.7 < seen.slope_interval[1]
    assert "its probabilities are over-confident" in seen.verdict


@pytest.mark.filterwarnings("ignore:scores are lower where")
def test_the_index_and_the_test_are_the_textbook_ones():
    a = ScoreHistogram.from_counts(
        [0.1, 0.3, 0.5, 0.7], positives=[50] * 4, totals=[100, 200, 300, 400]
    )
    b = ScoreHistogram.from_counts(
        [0.1, 0.3, 0.5, 0.7], positives=[50] * 4, totals=[150, 150, 400, 300]
    )
    seen = drift(a, b)
    shares = np.array([[100, 200, 300, 400], [150, 150, 400, 300]]) / 1000
    assert seen.psi == pytest.approx(
        np.sum((shares[1] - shares[0]) * np.log(shares[1] / shares[0])), rel=0.02
    )
    assert seen.score_p_value == pytest.approx(chi2_contingency(1000 * shares).pvalue)
    assert seen.distance == pytest.approx(0.1)


def test_the_calibrator_is_judged_as_rows_are():
    rng = np.random.default_rng(8)
    p = rng.uniform(size=3000)
    y = rng.random(3000) < p**1.2
    cal = SigmoidCalibrator().fit(p[:1000], y[:1000])
    by_rows = evaluate(y, cal.calibrate(p))
    # As sure as one that was fitted to a billion rows.
    reference = ScoreHistogram.from_counts(
        [0.2, 0.8], positives=[2e8, 3e8], totals=[5e8, 5e8]
    )
    seen = drift(reference, ScoreHistogram.from_scores(p, y), calibrator=cal)
    assert seen.expected_rate == pytest.approx(by_rows.mean_probability, abs=1e-9)
    assert seen.calibration_p_value == pytest.approx(
        by_rows.calibration_p_value, abs=0.01
    )
    assert seen.slope == pytest.approx(by_rows.calibration_slope, rel=1e-5)
    assert seen.in_the_large == pytest.approx(
        by_rows.calibration_in_the_large, abs=1e-6
    )


def test_histograms_on_different_grids_are_compared_in_the_same_cells(reference):
    rows = np.random.default_rng(0).uniform(size=50_000)
    coarse = ScoreHistogram.from_scores(rows, rows > 0.5)
    fine = ScoreHistogram.from_scores(rows[:4000], rows[:4000] > 0.5)
    assert fine.exact
    assert not coarse.exact
    assert drift(coarse, coarse).psi == pytest.approx(0.0, abs=1e-12)
    assert drift(fine, coarse).psi < 0.01


def test_margins_are_compared_too():
    rng = np.random.default_rng(4)
    margin = rng.normal(0, 2, (2, 3000))
    a, b = (
        ScoreHistogram.from_scores(m, rng.random(3000) < 1 / (1 + np.exp(-m)))
        for m in margin
    )
    assert not drift(a, b).moved


def test_margins_far_beyond_those_of_the_fit_are_compared():
    rng = np.random.default_rng(0)
    margins = rng.normal(scale=3.0, size=500)
    y = rng.random(500) < 1 / (1 + np.exp(-margins))
    reference = ScoreHistogram.from_scores(margins, y)
    far = ScoreHistogram.from_scores(np.r_[-1e300, 1e300, margins], np.r_[0, 1, y])
    calibrator = SplineCalibrator().fit(margins, y)
    seen = drift(reference, far, calibrator=calibrator)
    assert not seen.miscalibrated
    assert seen.in_the_large == pytest.approx(0.0, abs=0.3)


def test_a_reference_of_one_outcome_needs_a_calibrator(reference):
    p = np.linspace(0.1, 0.9, 50)
    one = ScoreHistogram.from_scores(p, np.ones(50, int), classes=[0, 1])
    with pytest.raises(ValueError, match="reference must hold both classes"):
        drift(one, reference)
    assert drift(one, reference, calibrator=SplineCalibrator().fit(p, p > 0.4))


def test_days_of_one_outcome_have_no_slope(reference):
    seen = drift(reference, ScoreHistogram.from_scores([0.1, 0.2, 0.3], [0, 0, 0]))
    assert seen.in_the_large == -np.inf
    assert np.isnan(seen.slope)
    assert 0 <= seen.calibration_p_value <= 1
    assert "-inf" in str(seen)


def test_the_table_and_the_dict_have_everything(reference):
    seen = drift(reference, histogram(1000, 5), level=0.9)
    shown = str(seen)
    assert "90% interval" in shown
    assert shown.endswith(seen.verdict)
    plain = seen.to_dict()
    assert plain["psi"] == seen.psi
    assert plain["verdict"] == seen.verdict
    assert json.loads(json.dumps(plain))["level"] == 0.9


def test_histograms_saved_per_day_add_up_to_the_whole(tmp_path):
    rng = np.random.default_rng(1)
    p = rng.uniform(size=(3, 4000))
    y = rng.random((3, 4000)) < p
    for day in range(3):
        save(ScoreHistogram.from_scores(p[day], y[day]), tmp_path / f"{day}.json")
    days = [load(tmp_path / f"{day}.json") for day in range(3)]
    merged, whole = (
        days[0] + days[1] + days[2],
        ScoreHistogram.from_scores(p.ravel(), y.ravel()),
    )
    assert merged.cells.tolist() == whole.cells.tolist()
    np.testing.assert_allclose(merged.positives, whole.positives, rtol=1e-12)
    np.testing.assert_allclose(
        merged.locations, whole.locations, rtol=1e-12, atol=1e-14
    )


def test_a_saved_histogram_that_was_edited_is_refused(tmp_path, reference):
    path = tmp_path / "day.json"
    save(reference, path)
    body = json.loads(path.read_text())
    assert body["class"] == "ScoreHistogram"
    path.write_text(json.dumps(body | {"histogram": body["histogram"] | {"level": 3}}))
    with pytest.raises(ValueError, match="checksum does not match"):
        load(path)
    path.write_text(json.dumps(body | {"curves": []}))
    with pytest.raises(ValueError, match="missing or unknown curves"):
        load(path)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (
            {"reference": [0.1]},
            TypeError,
            "reference must be a ScoreHistogram; got list",
        ),
        (
            {"current": None},
            TypeError,
            "current must be a ScoreHistogram; got NoneType",
        ),
        (
            {"current": ScoreHistogram.from_scores([-3.0, 2.0], [0, 1])},
            ValueError,
            "of one kind; got probability and",
        ),
        ({"level": 1.0}, ValueError, "level must be a number in"),
        ({"calibrator": "spline"}, TypeError, "calibrator must be a fitted calibrator"),
        ({"calibrator": SplineCalibrator()}, ValueError, "calibrator must be fitted"),
    ],
)
def test_errors_name_the_argument(reference, change, error, message):
    arguments = {"reference": reference, "current": reference} | change
    with pytest.raises(error, match=message):
        drift(arguments.pop("reference"), arguments.pop("current"), **arguments)


def by_segment(n, seed, segments, changed=(), power=1.6):
    rng = np.random.default_rng(seed)
    segment = rng.integers(0, segments, n)
    p = 1 / (1 + np.exp(-rng.normal(0, 1.5, n)))
    happened = rng.random(n) < np.where(np.isin(segment, changed), p**power, p)
    return ScoreHistogram.from_scores(p, happened, by=segment)


@pytest.mark.parametrize("given", [True, False])
def test_segments_that_changed_are_found_and_others_are_left_alone(given):
    before = by_segment(30_000, 0, 15)
    calibrator = SplineCalibrator().fit_histogram(before) if given else None
    seen = drift(
        before, by_segment(30_000, 1, 15, changed=(4, 11)), calibrator=calibrator
    )
    assert seen.miscalibrated == [4, 11]
    assert seen.moved == []
    assert len(seen) == 15
    assert seen[4].level == pytest.approx(1 - 0.05 / 15)
    assert "miscalibrated for 2" in seen.verdict
    assert str(seen).splitlines()[2].split()[0] in {"4", "11"}


@pytest.mark.thorough
def test_a_stable_world_of_segments_alarms_as_seldom_as_it_says():
    alarms = 0
    for seed in range(30):
        seen = drift(by_segment(6000, seed, 12), by_segment(6000, 100 + seed, 12))
        alarms += bool(seen.miscalibrated) + bool(seen.moved)
    assert alarms <= 8  # of 60 at 5%: more have a chance below 1%


def test_a_segment_is_compared_as_its_histograms_are():
    before, now = by_segment(4000, 0, 3), by_segment(4000, 1, 3)
    calibrator = SplineCalibrator().fit_histogram(before.pooled)
    together = drift(before, now, calibrator=calibrator)
    for segment in range(3):
        alone = drift(
            before[segment],
            now[segment],
            calibrator=calibrator,
            level=together[segment].level,
        )
        assert together[segment] == alone


def test_new_and_gone_segments_and_those_without_a_name_are_told():
    rng = np.random.default_rng(0)
    p, y = rng.random(900), rng.random(900) < 0.5
    before = ScoreHistogram.from_scores(p, y, by=[("a", 1), ("b", 2), (None, 1)] * 300)
    now = ScoreHistogram.from_scores(p, y, by=[("a", 1), ("c", 2), (None, 1)] * 300)
    seen = drift(before, now)
    assert (list(seen), seen.new, seen.gone) == (
        [("a", 1), (None, 1)],
        [("c", 2)],
        [("b", 2)],
    )
    assert "1 are new, 1 are gone" in seen.verdict
    assert set(seen.to_dict()) == {"segments", "new", "gone", "level", "verdict"}
    assert seen.to_dict()["segments"]["a", 1]["psi"] == 0.0
    many = dict.fromkeys(range(30), before["a", 1])
    assert "... and 10 more" in str(
        drift(many, many, calibrator=SplineCalibrator().fit(p, y))
    )


def test_errors_of_mappings_name_the_argument(reference):
    with pytest.raises(ValueError, match="must have a segment in common"):
        drift({"a": reference}, {"b": reference})
    with pytest.raises(TypeError, match="current must be a ScoreHistogram; got int"):
        drift({"a": reference}, {"a": 1})
    with pytest.raises(TypeError, match="current must be a ScoreHistogram; got dict"):
        drift(reference, {"a": reference})
    with pytest.raises(ValueError, match="calibrator must be fitted"):
        drift({"a": reference}, {"a": reference}, calibrator=SplineCalibrator())
