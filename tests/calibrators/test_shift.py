import json
import warnings

import numpy as np
import pytest
from scipy.special import expit, logit
from sklearn.base import clone

import calspline.export
from calspline import (
    BetaCalibrator,
    ClippingCalibrator,
    IsotonicCalibrator,
    ScoreHistogram,
    SigmoidCalibrator,
    SplineCalibrator,
    TemperatureCalibrator,
    expected,
    load,
    save,
)

CALIBRATORS = [
    SplineCalibrator(),
    SplineCalibrator(loss="brier", multiclass="ovr"),
    SigmoidCalibrator(),
    IsotonicCalibrator(),
    BetaCalibrator(),
    TemperatureCalibrator(),
    ClippingCalibrator(p_min=0.001),
]
GRID = np.linspace(0.02, 0.98, 25)


def noise(calibrator):
    return calibrator.model_.map.noise(calibrator.model_.check(GRID))


def two(n, rate=0.3, seed=0, spread=1.0):
    """Scores that are normal in each class on the scale of log-odds."""
    rng = np.random.default_rng([seed, n])
    y = rng.random(n) < rate
    return expit(rng.normal(2.0 * y - 1.0, spread)), y


def three(n, rates=(0.5, 0.3, 0.2), seed=0):
    rng = np.random.default_rng([seed, n])
    y = rng.choice(3, size=n, p=rates)
    z = rng.normal(2.0 * np.eye(3)[y])
    return np.exp(z) / np.exp(z).sum(axis=1, keepdims=True), y


@pytest.mark.parametrize("calibrator", CALIBRATORS, ids=repr)
def test_odds_are_multiplied_by_the_ratio_of_the_base_rates(calibrator):
    score, y = two(2000)
    fitted = clone(calibrator).fit(score, y)
    before = fitted.calibrate(GRID)
    moved = fitted.shifted(base_rate=0.05)
    delta = logit(0.05) - logit(y.mean())
    np.testing.assert_allclose(
        moved.calibrate(GRID), expit(logit(before) + delta), rtol=1e-9, atol=1e-12
    )
    np.testing.assert_allclose(fitted.calibrate(GRID), before)
    assert moved.shift_.base_rate == pytest.approx(0.05)
    assert type(moved) is type(fitted)
    # There and back again.
    np.testing.assert_allclose(
        moved.shifted(base_rate=y.mean()).calibrate(GRID), before, rtol=1e-9, atol=1e-12
    )


@pytest.mark.parametrize("calibrator", CALIBRATORS, ids=repr)
def test_several_classes_are_weighted_and_normalised(calibrator):
    score, y = three(1500)
    fitted = clone(calibrator).fit(score, y)
    rates = {0: 0.1, 1: 0.1, 2: 0.8}
    p = fitted.calibrate(score[:50]) * np.array([0.1, 0.1, 0.8]) / np.bincount(y) * 1500
    moved = fitted.shifted(base_rate=rates)
    np.testing.assert_allclose(
        moved.calibrate(score[:50]), p / p.sum(axis=1, keepdims=True), rtol=1e-9
    )
    assert moved.shift_.base_rates == pytest.approx([0.1, 0.1, 0.8])


@pytest.mark.parametrize("label", [int, str, bool])
def test_rows_thrown_away_before_the_fit_are_made_up_for(label):
    score, y = two(200_000, rate=0.05)
    keep = y | (np.random.default_rng(1).random(len(y)) < 0.1)
    names = {int: (0, 1), str: ("no", "yes"), bool: (False, True)}[label]
    fitted = SplineCalibrator().fit(score[keep], np.array(names)[y[keep].astype(int)])
    moved = fitted.shifted(kept={names[0]: 0.1, names[1]: 1.0})
    whole = SplineCalibrator().fit(score, y)
    np.testing.assert_allclose(
        logit(moved.calibrate(GRID)), logit(whole.calibrate(GRID)), atol=0.1
    )
    assert moved.shift_.base_rate == pytest.approx(y.mean(), abs=0.002)


def saerens(p, old, w, steps=200_000):
    """The published iteration, to its end."""
    new = np.array(old)
    for _ in range(steps):
        joint = p * new / old
        before, new = (
            new,
            np.average(joint / joint.sum(axis=1, keepdims=True), axis=0, weights=w),
        )
        if np.abs(new - before).max() < 1e-13:
            break
    return new


def test_the_estimate_from_scores_alone_is_that_of_the_published_iteration():
    fitted = SplineCalibrator().fit(*two(3000))
    counts = ScoreHistogram.from_counts(
        [0.1, 0.3, 0.6, 0.9], positives=[0, 0, 0, 0], totals=[500, 220, 90, 40]
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = fitted.shifted(unlabelled=counts).shift_
    p = fitted.predict_proba(counts.scores)
    want = saerens(
        p, fitted.model_.reference.base_rates, counts.positives + counts.negatives
    )
    assert found.base_rates == pytest.approx(want, abs=1e-9)
    score, y = three(1000)
    several = SplineCalibrator().fit(score, y)
    new, _ = three(800, rates=(0.2, 0.2, 0.6), seed=1)
    want = saerens(several.predict_proba(new), np.bincount(y) / 1000, np.ones(800))
    assert several.shifted(unlabelled=new).shift_.base_rates == pytest.approx(
        want, abs=1e-6
    )


@pytest.mark.slow
@pytest.mark.parametrize("rate", [0.02, 0.2, 0.6])
def test_limits_of_the_base_rate_hold_it(rate):
    held, rejected, runs = 0, 0, 60
    for seed in range(runs):
        fitted = SplineCalibrator().fit(*two(1500, seed=seed))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = fitted.shifted(unlabelled=two(5000, rate, seed=seed)[0]).shift_
        low, high = found.limits()[1]
        held += low <= rate <= high
        rejected += found.p_value < 0.05
        assert low <= found.base_rate <= high
    # 95%, less three standard errors; and 5% plus as much.
    assert held >= 51
    assert rejected <= 9


def test_uncertainty_of_the_estimate_ends_up_in_the_intervals():
    fitted = SplineCalibrator().fit(*two(20_000))
    new, _ = two(200, rate=0.1, seed=1)
    estimated = fitted.shifted(unlabelled=new)
    given = fitted.shifted(base_rate=estimated.shift_.base_rate)
    np.testing.assert_allclose(estimated.calibrate(GRID), given.calibrate(GRID))
    wide, narrow = (
        np.diff(logit(one.interval(GRID)), axis=1)[:, 0] for one in (estimated, given)
    )
    rate, error = estimated.shift_.base_rate, estimated.shift_.errors[1]
    added = (2 * 1.959964 * error / (rate * (1 - rate))) ** 2
    np.testing.assert_allclose(
        wide**2 - narrow**2, np.full(25, np.mean(wide**2 - narrow**2)), rtol=1e-6
    )
    assert np.mean(wide**2 - narrow**2) == pytest.approx(
        added, rel=0.4
    )  # to first order
    low, high = (expected(one, new).limits["rate"] for one in (given, estimated))
    assert high[1] - high[0] > low[1] - low[0]


@pytest.mark.parametrize("by", [None, np.arange(3000) % 3], ids=["alone", "segments"])
def test_another_base_rate_replaces_an_earlier_one_and_its_uncertainty(by):
    score, y = two(3000)
    fitted = SplineCalibrator().fit(score, y, by=by)
    new, _ = two(200, rate=0.1, seed=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of scores without segments
        earlier = fitted.shifted(unlabelled=new[::2])
        again, once = earlier.shifted(unlabelled=new), fitted.shifted(unlabelled=new)
        given, wanted = earlier.shifted(base_rate=0.2), fitted.shifted(base_rate=0.2)
        for found, direct in ((again, once), (given, wanted)):
            np.testing.assert_allclose(
                found.interval(GRID), direct.interval(GRID), rtol=1e-9
            )
            np.testing.assert_allclose(
                noise(found), noise(direct), rtol=1e-9, atol=1e-12
            )
        np.testing.assert_allclose(again.shift_.errors, once.shift_.errors, rtol=1e-9)
        assert again.shift_.p_value == pytest.approx(once.shift_.p_value, rel=1e-9)
        # Rows that were thrown away say nothing of what the base rate is: its
        # uncertainty stays.
        kept = earlier.shifted(kept={False: 0.5, True: 0.5})
        np.testing.assert_allclose(
            kept.interval(GRID), earlier.interval(GRID), rtol=1e-9
        )


def test_segments_are_shifted_with_their_intervals():
    score, y = two(3000)
    by = np.arange(3000) % 3
    fitted = SplineCalibrator().fit(score, y, by=by)
    with pytest.warns(UserWarning, match="these scores come without"):
        moved = fitted.shifted(unlabelled=score[:300])
    delta = logit(moved.shift_.base_rate) - logit(y.mean())
    where = by[:25]
    want = expit(logit(fitted.calibrate(GRID, by=where)) + delta)
    np.testing.assert_allclose(moved.calibrate(GRID, by=where), want, rtol=1e-9)
    low, high = logit(moved.interval(GRID, by=where) / 1.0).T
    before = np.diff(logit(fitted.interval(GRID, by=where)), axis=1)[:, 0]
    assert (high - low > before).all()
    assert ((low < logit(want)) & (logit(want) < high)).all()


def test_scores_that_another_base_rate_does_not_explain_are_told():
    fitted = SplineCalibrator().fit(*two(3000))
    odd, _ = two(3000, rate=0.1, seed=1, spread=1.4)
    with pytest.warns(
        UserWarning, match="another base rate does not explain the scores in unlabelled"
    ):
        assert fitted.shifted(unlabelled=odd).shift_.p_value < 1e-6
    score, y = three(3000)
    several = SplineCalibrator().fit(score, y)
    sharp = score**2 / (score**2).sum(axis=1, keepdims=True)
    with pytest.warns(UserWarning, match="another base rate does not explain"):
        several.shifted(unlabelled=sharp)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        several.shifted(unlabelled=three(3000, rates=(0.2, 0.2, 0.6), seed=1)[0])


@pytest.mark.parametrize("calibrator", CALIBRATORS, ids=repr)
@pytest.mark.parametrize("classes", [2, 3])
def test_it_saves_and_loads(calibrator, classes, tmp_path):
    score, y = two(500) if classes == 2 else three(500)
    fitted = clone(calibrator).fit(score, y)
    moved = fitted.shifted(unlabelled=score[:200])
    save(moved, tmp_path / "model.json")
    read = load(tmp_path / "model.json")
    np.testing.assert_array_equal(read.predict_proba(score), moved.predict_proba(score))
    assert read.to_dict() == moved.to_dict()
    labels = y.dtype.type
    again = {labels(0): 0.2, labels(1): 0.5} | ({2: 0.3} if classes == 3 else {})
    np.testing.assert_allclose(
        read.shifted(kept=again).predict_proba(score),
        moved.shifted(kept=again).predict_proba(score),
    )


@pytest.mark.parametrize("calibrator", CALIBRATORS, ids=repr)
def test_exports_have_the_shift_in_them(calibrator):
    import duckdb
    import onnxruntime

    score, y = two(600)
    many, labels = three(600)
    for moved, x in (
        (clone(calibrator).fit(score, y).shifted(base_rate=0.04), GRID),
        (
            clone(calibrator)
            .fit(many, labels)
            .shifted(base_rate={0: 0.1, 1: 0.1, 2: 0.8}),
            many[:20],
        ),
    ):
        want = moved.calibrate(x)
        code = {}
        exec(calspline.export.to_python(moved), code)
        np.testing.assert_allclose(
            [code["calibrate"](one.tolist()) for one in x], want, atol=1e-12
        )
        session = onnxruntime.InferenceSession(
            calspline.export.to_onnx(moved).SerializeToString()
        )
        given = x if x.ndim == 2 else np.column_stack([1 - x, x])
        (found,) = session.run(None, {session.get_inputs()[0].name: given})
        np.testing.assert_allclose(found, moved.predict_proba(given), atol=1e-9)
        columns = ["a"] if x.ndim == 1 else ["a", "b", "c"]
        sql = calspline.export.to_sql(moved, columns[0] if x.ndim == 1 else columns)
        values = ", ".join(
            str(tuple(np.atleast_1d(one).tolist())).replace(",)", ")") for one in x
        )
        query = ", ".join([sql] if isinstance(sql, str) else sql)
        rows = duckdb.sql(
            f"select {query} from (values {values}) t({', '.join(columns)})"
        ).fetchall()
        np.testing.assert_allclose(np.squeeze(rows), want, atol=1e-9)


def test_a_shifted_calibrator_is_not_updated_but_fitted_anew():
    score, y = two(300)
    moved = SplineCalibrator().fit(score, y).shifted(base_rate=0.5)
    with pytest.raises(ValueError, match="this calibrator was shifted"):
        moved.partial_fit(score, y)
    moved.fit(score, y)
    assert moved.shift_ is None
    streamed = (
        SplineCalibrator()
        .partial_fit(score[:150], y[:150])
        .partial_fit(score[150:], y[150:])
    )
    np.testing.assert_allclose(
        streamed.shifted(base_rate=0.5).calibrate(GRID),
        moved.shifted(base_rate=0.5).calibrate(GRID),
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "one of base_rate, kept and unlabelled"),
        (
            {"base_rate": 0.1, "kept": {0: 1, 1: 1}},
            "one of base_rate, kept and unlabelled",
        ),
        ({"base_rate": 1.0}, "base_rate must be"),
        (
            {"base_rate": {False: 0.5, True: 0.6}},
            "base_rate must be shares that sum to 1; they sum to 1.1",
        ),
        (
            {"base_rate": {"a": 0.5, "b": 0.5}},
            r"base_rate must have a number for each of the classes \[False, True\]",
        ),
        ({"kept": 0.1}, "kept must be a mapping"),
        ({"kept": {False: 0.0, True: 1.0}}, r"kept\[False\] must be"),
        ({"unlabelled": []}, "unlabelled must hold rows; it is empty"),
        ({"unlabelled": [0.5, np.nan]}, "row 1"),
    ],
)
def test_a_wrong_argument_is_named(given, message):
    fitted = SplineCalibrator().fit(*two(200))
    with pytest.raises((ValueError, TypeError), match=message):
        fitted.shifted(**given)


def test_three_classes_need_a_share_each_and_an_array():
    fitted = SplineCalibrator().fit(*three(200))
    with pytest.raises(
        TypeError, match="base_rate must be a mapping of label to share for 3 classes"
    ):
        fitted.shifted(base_rate=0.1)
    with pytest.raises(ValueError, match="unlabelled must be an array of scores"):
        fitted.shifted(unlabelled=ScoreHistogram.from_scores(*two(50)))


def test_scores_that_say_nothing_leave_the_base_rate_open():
    with pytest.warns(UserWarning, match="all scores are equal"):
        fitted = SplineCalibrator().fit(np.full(100, 0.5), np.arange(100) % 4 == 0)
    found = fitted.shifted(unlabelled=np.full(50, 0.5)).shift_
    low, high = found.limits()[1]
    assert (low, high) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("where", "what", "message"),
    [
        (
            ("fit", "reference"),
            {"edges": [0.5], "counts": {"shape": [1, 2], "values": [1.0, 2.0]}},
            r"fit.reference.counts must have shape \(2, any\)",
        ),
        (
            ("fit", "reference"),
            {"edges": [], "counts": {"shape": [1, 3], "values": [1.0, 2.0, 3.0]}},
            "fit.reference.counts must have a column for each class",
        ),
        (
            ("fit", "reference"),
            {"edges": [], "counts": {"shape": [1, 2], "values": [0.0, 0.0]}},
            "fit.reference.counts must not all be zero",
        ),
        (("map",), {"log_ratios": [0.0] * 3}, r"map.base_rates must have shape \(3\)"),
        (
            ("map",),
            {"log_ratios": [0.0] * 3, "base_rates": None},
            "map must be one for 2 classes and probability scores; a Shifted",
        ),
    ],
)
def test_files_that_make_no_sense_are_refused(where, what, message):
    fitted = SplineCalibrator().fit(*two(200)).shifted(base_rate=0.1)
    data = json.loads(json.dumps(fitted.to_dict()))
    record = data
    for key in where:
        record = record[key]
    record |= what
    with pytest.raises(ValueError, match=message):
        SplineCalibrator.from_dict(data)


def test_rows_in_groups_count_for_what_they_are_worth():
    # Every row ten times, in a group of its own, is as good as that row once.
    rng = np.random.default_rng(3)
    y = rng.random(2000) < 0.3
    p = expit(rng.normal(size=2000) + np.where(y, 1.0, -1.0))
    row = np.repeat(np.arange(300), 10)
    once = SplineCalibrator().fit(p[:300], y[:300]).shifted(unlabelled=p[300:]).shift_
    often = (
        SplineCalibrator()
        .fit(p[row], y[row], groups=row)
        .shifted(unlabelled=p[300:])
        .shift_
    )
    np.testing.assert_allclose(often.base_rate, once.base_rate, rtol=0.02)
    np.testing.assert_allclose(often.errors, once.errors, rtol=0.05)
    np.testing.assert_allclose(often.p_value, once.p_value, atol=0.05)
