import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit, logit

from calspline import Monitor, ScoreHistogram, SplineCalibrator, drift, load, save
from calspline.maps.curve import line
from calspline.operations.monitor import SUM_OF_SHARES, Stream, log_ratio, share
from calspline.transforms import Transform

CHANGES = {
    "none": lambda u: u,
    "level": lambda u: u + 0.5,
    "slope": lambda u: 0.5 * (u + 1.0) - 1.0,
    "shape": lambda u: u + 1.2 * np.sin(1.5 * u),
}


@pytest.fixture(scope="module")
def honest():
    """Scores as they are, which is right here: no error of a fit is in the way."""
    rng = np.random.default_rng(0)
    p = rng.random(100)
    calibrator = SplineCalibrator().fit(p, rng.random(100) < p)
    calibrator.model_ = replace(
        calibrator.model_, map=line(Transform("logit"), 1.0, 0.0)
    )
    return calibrator


def day(rng, n=200, change="none"):
    u = rng.normal(-1.0, 1.3, n)
    return ScoreHistogram.from_scores(
        expit(u), rng.random(n) < expit(CHANGES[change](u))
    )


def test_evidence_is_the_likelihood_of_what_happened_under_the_bet_over_that_under_the_odds():
    rows = ScoreHistogram.from_counts([0.2, 0.7], positives=[3, 8], totals=[10, 10])
    q = np.array([0.3, 0.75])
    by_hand = (
        3 * np.log(0.3 / 0.2)
        + 7 * np.log(0.7 / 0.8)
        + 8 * np.log(0.75 / 0.7)
        + 2 * np.log(0.25 / 0.3)
    )
    assert log_ratio(rows, logit(q)) == pytest.approx(by_hand)


def test_the_shares_that_are_put_in_add_up_to_one():
    some = np.array([share(n) for n in range(1, 200_001)])
    # The rest of the sum is about the integral from there, 1 / log n.
    assert some.sum() + 1 / np.log(200_001.5) / SUM_OF_SHARES == pytest.approx(
        1.0, abs=1e-6
    )


def test_in_the_mean_nothing_is_gained_if_the_probabilities_are_right():
    # All outcomes of a small second day, after a first that misleads: their fortunes
    # average to one exactly.
    first = ScoreHistogram.from_counts(
        [0.2, 0.5, 0.8], positives=[30, 40, 50], totals=[60, 60, 60]
    )
    p, total = np.array([0.3, 0.6]), 0.0
    for outcome in np.ndindex(2, 2, 2, 2):
        y = np.array(outcome)
        stream = Stream()
        stream.update(first)
        rows = ScoreHistogram.from_scores(np.repeat(p, 2), y, classes=[0, 1])
        stream.update(rows)
        chance = np.prod(np.where(y == 1, np.repeat(p, 2), 1 - np.repeat(p, 2)))
        total += chance * np.exp(stream.evidence)
    assert total == pytest.approx(1.0, abs=1e-9)


@pytest.mark.thorough
def test_false_alarms_are_rare_over_many_looks(honest):
    alarms = 0
    for seed in range(25):
        rng, monitor = np.random.default_rng(seed), Monitor(honest, alpha=0.2)
        for _ in range(60):
            monitor.update(day(rng, 60))
        alarms += monitor.alarm
    # At most 20% of 25, and three standard errors.
    assert alarms <= 11


@pytest.mark.parametrize("change", ["level", "slope", "shape"])
def test_a_change_is_noticed_soon_and_named(honest, change):
    rng, monitor = np.random.default_rng(1), Monitor(honest)
    for _ in range(40):
        monitor.update(day(rng))
    assert not monitor.alarm
    assert "No alarm" in monitor.verdict
    for _ in range(15):
        monitor.update(day(rng, change=change))
    assert monitor.alarm
    assert monitor.evidence > 20
    assert monitor.what == change
    assert f"Alarm: the {change} has changed" in monitor.verdict
    assert ("calibrator.shifted(" in monitor.verdict) == (change == "level")
    # It stays, whatever comes.
    for _ in range(3):
        monitor.update(day(rng))
    assert monitor.alarm


@pytest.mark.slow
def test_one_segment_that_changes_is_found_among_many(honest):
    rng, monitor = np.random.default_rng(2), Monitor(honest)
    names = ["AT", "BE", "CH", "DE"]
    for d in range(30):
        parts = {
            name: day(rng, 150, "level" if name == "CH" and d >= 15 else "none")
            for name in names
        }
        monitor.update(parts, when=f"day {d}")
    assert monitor.alarm
    assert max(monitor.segments, key=monitor.segments.get) == "CH"
    assert "has changed in CH" in monitor.verdict
    assert monitor.log[-1]["when"] == "day 29"
    assert monitor.log[-1]["rows"] == 600


@pytest.mark.slow
def test_segments_share_one_fortune(honest):
    rng, monitor = np.random.default_rng(2), Monitor(honest)
    for _ in range(5):
        monitor.update({str(j): day(rng, 50) for j in range(30)})
    spare = 0.5 * (1.0 - sum(share(j + 1) for j in range(30)))
    whole = 0.5 * np.exp(monitor._all.evidence)
    assert monitor.evidence == pytest.approx(
        whole + sum(monitor.segments.values()) + spare
    )


def test_the_log_says_what_was_expected_and_what_happened(honest):
    monitor = Monitor(honest).update(
        ScoreHistogram.from_counts([0.2, 0.6], positives=[5, 5], totals=[10, 10])
    )
    (entry,) = monitor.log
    assert entry["when"] == "1"
    assert (entry["rows"], entry["rate"]) == (20, 0.5)
    assert entry["expected_rate"] == pytest.approx(0.4)
    assert entry["evidence"] == pytest.approx(1.0)
    assert monitor.evidence == entry["evidence"]


@pytest.mark.parametrize("segments", [False, True])
def test_it_goes_on_after_saving_and_loading_as_if_nothing_had_been(segments, tmp_path):
    rng = np.random.default_rng(0)
    rows = day(rng, 3000)
    monitor = Monitor(SplineCalibrator().fit_histogram(rows), alpha=0.01)

    def parts():
        return (
            {"a": day(rng), "b": day(rng, change="slope")}
            if segments
            else day(rng, change="slope")
        )

    for _ in range(7):
        monitor.update(parts())
    save(monitor, tmp_path / "monitor.json")
    read = load(tmp_path / "monitor.json")
    assert (read.log, read.alpha, read.evidence) == (
        monitor.log,
        0.01,
        pytest.approx(monitor.evidence),
    )
    for _ in range(4):
        more = parts()
        assert read.update(more).evidence == pytest.approx(
            monitor.update(more).evidence
        )
    assert read.segments == pytest.approx(monitor.segments)
    assert repr(read) == repr(monitor)


def test_files_that_make_no_sense_are_refused(tmp_path):
    rng = np.random.default_rng(0)
    monitor = (
        Monitor(SplineCalibrator().fit_histogram(day(rng)))
        .update(day(rng))
        .update(day(rng))
    )
    plain = json.loads(json.dumps(monitor.to_dict()))
    whole = plain["whole"]
    part = {"segment": "a", "stream": whole}
    batch = {"id": "1", "when": "monday"}
    for change, message in (
        ({"alpha": 2.0}, "alpha must be"),
        ({"log": [{"when": 1}]}, r"log\[0\] must be a dict with the keys when"),
        ({"log": [plain["log"][0] | {"rows": 0.0}]}, r"log\[0\].rows must be a number"),
        ({"segments": [part, part]}, "segments must have different names"),
        ({"batches": [batch, batch]}, "batches must have different ids"),
        (
            {"whole": whole | {"curve": [[0.0, 1.0], [0.0, 1.0, 2.0]]}},
            r"whole.curve must have shape \(2\)",
        ),
        ({"whole": whole | {"days": 10**12}}, "whole.days must be at most 10000000"),
        (
            {"whole": whole | {"stakes": ["infinity"] * 5}},
            "whole.stakes must not be infinity",
        ),
        ({"streams": []}, "missing or unknown: streams"),
    ):
        with pytest.raises(ValueError, match=message):
            Monitor.from_dict(plain | change, monitor.calibrator)


def test_it_prints(honest):
    monitor = Monitor(honest)
    assert str(monitor) == "There are no data yet."
    assert not monitor.alarm
    rng = np.random.default_rng(0)
    for _ in range(3):
        monitor.update(day(rng))
    assert "mean probability" in str(monitor)
    assert repr(monitor).startswith("Monitor(3 updates, evidence ")


def test_a_day_of_one_class_and_a_part_without_rows_are_taken(honest):
    rng = np.random.default_rng(0)
    empty = ScoreHistogram.from_counts([], [], [])
    one = ScoreHistogram.from_scores([0.1, 0.2, 0.2], [0, 0, 0])
    monitor = (
        Monitor(honest)
        .update({"a": one, "b": empty})
        .update({"a": one})
        .update({"a": day(rng), "b": day(rng)})
    )
    assert np.isfinite(monitor.evidence)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            [0.1, 0.2],
            "histogram must be a ScoreHistogram, or a mapping of them; got list",
        ),
        (
            {1: ScoreHistogram.from_scores([0.1], [0])},
            "the names of segments must be strings; got 1",
        ),
        (
            ScoreHistogram.from_scores([1.5, -2.0], [0, 1]),
            "histogram must hold probability scores",
        ),
        (
            ScoreHistogram.from_counts([], [], []),
            "histogram must hold rows; it is empty",
        ),
    ],
)
def test_a_wrong_histogram_is_named(honest, given, message):
    with pytest.raises((ValueError, TypeError), match=message):
        Monitor(honest).update(given)


def test_a_wrong_option_is_named(honest):
    with pytest.raises(ValueError, match="alpha must be"):
        Monitor(honest, alpha=1.0)
    with pytest.raises(TypeError, match="calibrator must be a fitted calibrator"):
        Monitor(None)


def test_a_calibrator_with_segments_judges_each_by_its_own_curve():
    rng = np.random.default_rng(0)

    def rows(n):
        x, s = rng.normal(size=n), rng.integers(0, 2, n)
        return expit(x), rng.random(n) < expit(x + 2.0 * s - 1.0), s

    def day(n):
        p, y, s = rows(n)
        return {
            str(k): ScoreHistogram.from_scores(p[s == k], y[s == k]) for k in (0, 1)
        }

    p, y, s = rows(20000)
    cal = SplineCalibrator().fit(p, y, by=s)
    monitor = Monitor(cal)
    for _ in range(10):
        monitor.update(day(500))
    assert not monitor.alarm
    one = day(500)["1"]
    expected = np.average(
        cal.calibrate(one.scores, by=[1] * len(one)),
        weights=one.positives + one.negatives,
    )
    assert Monitor(cal).update({"1": one}).log[-1]["expected_rate"] == pytest.approx(
        expected, rel=1e-9
    )
    with pytest.warns(UserWarning, match="segments that the fit has not seen"):
        monitor.update({"2": one})


def test_histograms_of_other_classes_are_refused(honest):
    labels = np.array([0, 1, 1, 0])
    scores = [0.1, 0.4, 0.8, 0.2]
    turned = ScoreHistogram.from_scores(scores, labels, classes=[1, 0])
    with pytest.raises(
        ValueError, match=r"histogram must be of the classes .*; it is of \[1, 0\]"
    ):
        Monitor(honest).update(turned)
    with pytest.raises(ValueError, match="current must be of the classes"):
        drift(turned, turned, calibrator=honest)
    names = SplineCalibrator().fit(scores, np.array(["no", "yes"])[labels])
    Monitor(names).update(ScoreHistogram.from_scores(scores, labels))
    with pytest.raises(ValueError, match=r"it is of \['a', 'b'\]"):
        Monitor(names).update(
            ScoreHistogram.from_scores(scores, np.array(["a", "b"])[labels])
        )


def test_a_batch_is_taken_in_once(honest, tmp_path):
    rng = np.random.default_rng(0)
    days = [day(rng, change="level") for _ in range(4)]
    once, again = Monitor(honest), Monitor(honest)
    for i, one in enumerate(days):
        once.update(one, batch=f"day {i}")
        again.update(one, when=f"day {i}", batch=f"day {i}")
        with pytest.warns(
            UserWarning,
            match=f"batch 'day {i}' was taken in before, as update 'day {i}'",
        ):
            again.update(one, batch=f"day {i}")
    assert again.evidence == once.evidence
    assert len(again.log) == 4
    cal = SplineCalibrator().fit([0.1, 0.3, 0.6, 0.9], [0, 0, 1, 1])
    save(Monitor(cal).update(days[0], batch="monday"), tmp_path / "m.json")
    back = load(tmp_path / "m.json")
    assert back.batches == {"monday": "1"}
    with pytest.warns(UserWarning, match="monday"):
        assert len(back.update(days[0], batch="monday").log) == 1
    assert len(back.update(days[0]).log) == 2  # without a name, whoever calls it knows
    with pytest.raises(TypeError, match="batch must be a string; got int"):
        back.update(days[0], batch=3)
