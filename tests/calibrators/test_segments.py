"""Curves of segments, as a user fits and asks for them."""

from __future__ import annotations

import json
import pickle
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from scipy.special import expit, logit, softmax
from sklearn.base import clone
from sklearn.metrics import log_loss
from sklearn.model_selection import cross_val_predict

import calspline
from calspline import ScoreHistogram, SplineCalibrator
from calspline._input.scores import MatrixScores
from calspline._input.segment_labels import Known
from calspline.export import to_sql

NAMES = np.array(["at", "be", "ch", "de", "es", "fr", "gb", "hu", "it", "jp"])
GRID = np.linspace(0.02, 0.98, 25)


def simulated(n=8000, S=10, sd=(0.7, 0.2), *, seed=0, sizes=None):
    """Scores whose log-odds are off by an intercept and a slope that depend on the segment."""
    rng = np.random.default_rng(seed)
    x = rng.normal(0, 1.3, n)
    s = rng.choice(S, n, p=sizes)
    effects = rng.normal(size=(S, 2)) * sd
    eta = x + effects[s, 0] + effects[s, 1] * x / 1.3
    return expit(x), rng.random(n) < expit(eta), s, effects


def quietly(call):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*the probability of a new segment")
        return call()


@pytest.mark.slow
def test_it_beats_one_curve_and_a_curve_each():
    sizes = np.geomspace(1.0, 100.0, 30)
    losses = []
    for seed in range(6):
        p, y, s, _ = simulated(8000, 30, sizes=sizes / sizes.sum(), seed=seed)
        fitted, rest = np.arange(8000) < 3000, np.arange(8000) >= 3000
        ours = SplineCalibrator().fit(p[fitted], y[fitted], by=s[fitted])
        pooled = SplineCalibrator().fit(p[fitted], y[fitted]).calibrate(p[rest])
        each = pooled.copy()
        for k in range(30):
            own = fitted & (s == k)
            if 0 < y[own].sum() < own.sum():
                each[s[rest] == k] = (
                    SplineCalibrator().fit(p[own], y[own]).calibrate(p[rest & (s == k)])
                )
        found = quietly(
            lambda cal=ours, p=p, s=s, rest=rest: cal.calibrate(p[rest], by=s[rest])
        )
        losses.append([log_loss(y[rest], q) for q in (found, pooled, each)])
    ours, pooled, each = np.mean(losses, axis=0)
    assert ours < pooled - 0.03
    assert ours < each - 0.001


@pytest.mark.parametrize("monotone", ["auto", True, False])
def test_where_segments_do_not_differ_all_have_the_pooled_curve(monotone):
    p, y, s, _ = simulated(2000, sd=(0.0, 0.0))
    pooled = SplineCalibrator(monotone=monotone).fit(p, y)
    cal = SplineCalibrator(monotone=monotone).fit(p, y, by=s)
    np.testing.assert_array_equal(
        cal.calibrate(GRID, by=np.full(25, 3)), pooled.calibrate(GRID)
    )
    np.testing.assert_array_equal(
        quietly(lambda: cal.calibrate(GRID)), pooled.calibrate(GRID)
    )
    np.testing.assert_array_equal(
        cal.interval(GRID, by=np.full(25, 3)), pooled.interval(GRID)
    )
    assert not cal.segments_["intercept"].any()


def test_limits_of_segments_hold():
    inside = []
    for seed in range(8):
        p, y, s, effects = simulated(6000, 20, seed=seed)
        cal = SplineCalibrator().fit(p, y, by=s)
        for k in range(20):
            true = expit(logit(GRID) * (1 + effects[k, 1] / 1.3) + effects[k, 0])
            low, high = cal.interval(GRID, by=np.full(25, k)).T
            inside.append((low <= true) & (true <= high))
    assert 0.92 < np.mean(inside) < 0.99


def test_a_new_segment_gets_the_mean_over_what_segments_may_be():
    p, y, s, _ = simulated(40000, 200, sd=(1.2, 0.0))
    cal = SplineCalibrator().fit(p, y, by=s)
    rng = np.random.default_rng(1)
    wanted = expit(logit(GRID) + 1.2 * rng.normal(size=(20000, 1))).mean(axis=0)
    np.testing.assert_allclose(quietly(lambda: cal.calibrate(GRID)), wanted, atol=0.03)
    low, high = quietly(lambda: cal.interval(GRID[12:13]))[0]
    np.testing.assert_allclose(
        [low, high], expit(logit(0.5) + 1.2 * 1.96 * np.array([-1.0, 1.0])), atol=0.05
    )


def test_a_small_segment_is_shrunk_and_a_large_one_is_not():
    p, y, s, effects = simulated(
        9000, 9, sd=(1.0, 0.0), sizes=np.array([8955 / 8] * 8 + [45]) / 9000
    )
    table = SplineCalibrator().fit(p, y, by=s).segments_
    assert table["shrinkage"][8] > 0.07 > table["shrinkage"][:8].max()
    assert table["rows"].sum() == 9000
    np.testing.assert_allclose(
        table["event_rate"], [y[s == k].mean() for k in range(9)]
    )
    np.testing.assert_allclose(
        table["mean_score"], [p[s == k].mean() for k in range(9)], atol=1e-6
    )
    departs = effects[:, 0] - effects[:8, 0].mean()
    assert np.corrcoef(table["intercept"], departs)[0, 1] > 0.98
    assert (table["low"] < table["intercept"]).all()


def test_the_table_goes_into_frames_and_is_readable():
    p, y, s, _ = simulated()
    cal = SplineCalibrator().fit(p, y, by=NAMES[s])
    for frame in (pd.DataFrame(cal.segments_), pl.DataFrame(cal.segments_)):
        assert list(frame["segment"]) == NAMES.tolist()
        assert list(frame.columns)[:5] == [
            "segment",
            "rows",
            "events",
            "mean_score",
            "event_rate",
        ]
    text = str(cal.segments_)
    assert text.splitlines()[0].split()[:3] == ["segment", "rows", "events"]
    assert len(text.splitlines()) == 12
    farthest = NAMES[np.abs(cal.segments_["intercept"]).argmax()]
    assert "10 segments, the farthest from the common curve:" in cal.summary()
    assert f"    {farthest}: " in cal.summary()
    many = SplineCalibrator().fit(p, y, by=np.arange(8000) // 100)
    assert str(many.segments_).endswith("... and 60 more")


def test_row_order_chunks_histograms_and_repetition_do_not_matter():
    p, y, s, _ = simulated(9000)
    p = np.round(p, 3)
    by = NAMES[s]
    wanted = (
        SplineCalibrator()
        .fit(p, y, by=by)
        .calibrate(GRID, by=NAMES[np.arange(25) % 10])
    )

    def same(cal, tolerance=1e-9):
        np.testing.assert_allclose(
            cal.calibrate(GRID, by=NAMES[np.arange(25) % 10]), wanted, atol=tolerance
        )

    order = np.random.default_rng(0).permutation(9000)
    same(SplineCalibrator().fit(p[order], y[order], by=by[order]))
    streamed = SplineCalibrator()
    for i in range(0, 9000, 1000):
        streamed.partial_fit(p[i : i + 1000], y[i : i + 1000], by=by[i : i + 1000])
    same(streamed)
    same(SplineCalibrator().fit_histogram(ScoreHistogram.from_scores(p, y, by=by)))
    parts = [ScoreHistogram.from_scores(p[i::2], y[i::2], by=by[i::2]) for i in (0, 1)]
    same(SplineCalibrator().fit_histogram(parts[0] + parts[1]))
    same(
        SplineCalibrator().fit_histogram(
            {
                name: ScoreHistogram.from_scores(p[by == name], y[by == name])
                for name in NAMES
            }
        )
    )
    w = np.arange(9000) % 3
    weighted = SplineCalibrator().fit(p, y, w, by=by)
    rows = np.repeat(np.arange(9000), w)
    wanted = (
        SplineCalibrator()
        .fit(p[rows], y[rows], by=by[rows])
        .calibrate(GRID, by=NAMES[np.arange(25) % 10])
    )
    same(weighted)


def test_in_cells_streaming_is_the_same_for_all_practical_purposes():
    p, y, s, _ = simulated(20000)
    whole = SplineCalibrator().fit(p, y, by=s).calibrate(GRID, by=np.arange(25) % 10)
    streamed = SplineCalibrator()
    for i in range(0, 20000, 5000):
        streamed.partial_fit(p[i : i + 5000], y[i : i + 5000], by=s[i : i + 5000])
    np.testing.assert_allclose(
        streamed.calibrate(GRID, by=np.arange(25) % 10), whole, atol=1e-4
    )


def test_two_columns_are_added_up():
    rng = np.random.default_rng(0)
    n = 20000
    x, a, b = rng.normal(0, 1.3, n), rng.integers(0, 8, n), rng.integers(0, 5, n)
    first, second = rng.normal(size=8) * 0.8, rng.normal(size=5) * 0.5
    y = rng.random(n) < expit(x + first[a] + second[b])
    frame = pd.DataFrame({"country": NAMES[a], "device": b})
    cal = SplineCalibrator().fit(expit(x), y, by=frame)
    table = cal.segments_
    assert table["column"] == ["country"] * 8 + ["device"] * 5
    assert np.corrcoef(table["intercept"][:8], first)[0, 1] > 0.97
    assert np.corrcoef(table["intercept"][8:], second)[0, 1] > 0.97
    p = cal.calibrate(
        np.full(40, 0.5), by=[np.repeat(NAMES[:8], 5), np.tile(np.arange(5), 8)]
    )
    np.testing.assert_allclose(p, expit(np.add.outer(first, second)).ravel(), atol=0.06)
    assert quietly(
        lambda: cal.calibrate([0.5], by=pd.DataFrame({"c": ["xx"], "d": [2]}))
    ).shape == (1,)
    low, high = cal.interval(np.full(8, 0.5), by=[NAMES[:8], np.zeros(8)]).T
    assert (low < high).all()
    again = SplineCalibrator().fit_histogram(
        ScoreHistogram.from_scores(expit(x), y, by=[NAMES[a], b])
    )
    np.testing.assert_allclose(
        again.calibrate([0.5], by=[["at"], [2]]), cal.calibrate([0.5], by=[["at"], [2]])
    )


@pytest.mark.parametrize("columns", [1, 2])
def test_monotone_curves_stay_so_in_every_segment(columns):
    rng = np.random.default_rng(0)
    p, y, s, _ = simulated(3000, 12, sd=(0.5, 1.5))
    y = np.where(s == 0, rng.random(3000) < 1 - p, y)
    by = [s, s[::-1]][:columns]
    cal = SplineCalibrator(monotone=True).fit(p, y, by=by)
    grid = np.linspace(0.001, 0.999, 500)
    for k in range(12):
        q = cal.calibrate(grid, by=[np.full(500, k)] * columns)
        assert np.diff(q).min() >= 0.0
    if columns == 1:
        free = SplineCalibrator().fit(p, y, by=s).calibrate(grid, by=np.zeros(500))
        assert np.diff(free).min() < -1e-4  # of this segment it is clear


def test_groups_temper_the_segments_too():
    p, y, s, _ = simulated(2000)
    rows = np.repeat(np.arange(2000), 5)
    grouped = SplineCalibrator().fit(p[rows], y[rows], groups=rows, by=s[rows])
    taken = SplineCalibrator().fit(p[rows], y[rows], by=s[rows])
    once = SplineCalibrator().fit(p, y, by=s)
    assert grouped.design_effect_ == pytest.approx(5.0, rel=0.2)
    np.testing.assert_allclose(
        grouped.segments_["shrinkage"], once.segments_["shrinkage"], atol=0.03
    )
    assert (taken.segments_["shrinkage"] < once.segments_["shrinkage"]).all()


def test_margins_have_segments():
    p, y, s, _ = simulated()
    cal = SplineCalibrator().fit(logit(p) * 3.0, y, by=s)
    wanted = SplineCalibrator().fit(p, y, by=s).calibrate(GRID, by=np.arange(25) % 10)
    np.testing.assert_allclose(
        cal.calibrate(logit(GRID) * 3.0, by=np.arange(25) % 10), wanted, atol=0.05
    )


def test_a_fit_without_segments_forgets_them():
    p, y, s, _ = simulated(2000)
    cal = SplineCalibrator().fit(p, y, by=s)
    before = json.dumps(SplineCalibrator().fit(p, y).to_dict())
    assert json.dumps(cal.fit(p, y).to_dict()) == before
    assert not hasattr(cal, "segments_")
    assert not hasattr(cal, "segment_histograms_")


def test_clone_and_pickle():
    p, y, s, _ = simulated(2000)
    cal = SplineCalibrator().fit(p, y, by=s)
    again = pickle.loads(pickle.dumps(cal))
    np.testing.assert_array_equal(
        again.calibrate(GRID, by=np.zeros(25)), cal.calibrate(GRID, by=np.zeros(25))
    )
    assert not hasattr(clone(cal), "segments_")


@pytest.mark.parametrize("multiclass", ["two", "structured", "ovr"])
@pytest.mark.parametrize("differ", [True, False])
def test_saved_and_loaded(tmp_path, multiclass, differ):
    p, y, s, _ = simulated(3000, sd=(0.7, 0.2) if differ else (0.0, 0.0))
    if multiclass != "two":
        rng = np.random.default_rng(0)
        z = rng.normal(size=(3000, 3))
        p = softmax(z, axis=1)
        y = (
            z + (np.eye(3)[s % 3] if differ else 0.0) + rng.gumbel(size=(3000, 3))
        ).argmax(axis=1)
    cal = SplineCalibrator(
        multiclass="ovr" if multiclass == "ovr" else "structured"
    ).fit(p, y, by=NAMES[s])
    calspline.save(cal, tmp_path / "model.json")
    again = calspline.load(tmp_path / "model.json")
    np.testing.assert_array_equal(
        again.predict_proba(p, by=NAMES[s]), cal.predict_proba(p, by=NAMES[s])
    )
    np.testing.assert_array_equal(
        quietly(lambda: again.predict_proba(p)), quietly(lambda: cal.predict_proba(p))
    )
    assert str(again.segments_) == str(cal.segments_)
    assert again.summary() == cal.summary()
    if multiclass == "two":
        np.testing.assert_array_equal(
            again.interval(p, by=NAMES[s]), cal.interval(p, by=NAMES[s])
        )
        with pytest.raises(ValueError, match="loaded from a file"):
            again.partial_fit(p, y, by=NAMES[s])


def test_labels_that_json_does_not_know_cannot_be_saved(tmp_path):
    p, y, s, _ = simulated(2000)
    cal = SplineCalibrator().fit(p, y, by=np.datetime64("2020-01-01") + s)
    with pytest.raises(
        TypeError, match="segments of type date cannot be saved; use texts or numbers"
    ):
        calspline.save(cal, tmp_path / "model.json")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda one: one.update(directions={"shape": [1, 2], "values": [1.0, 1.0]}),
            "map.directions must have a row for each break of the curve",
        ),
        (
            lambda one: one["columns"][0]["known"].update(labels=["a", "a"]),
            r"map.columns\[0\].known.labels must all be different",
        ),
        (
            lambda one: one["columns"][0]["known"].update(labels=["a", "b"]),
            r"map.columns\[0\].theta must have a row for each of the known labels",
        ),
        (
            lambda one: one["columns"][0]["known"].update(labels=[["a"]]),
            "labels must be a list of texts and numbers",
        ),
        (
            lambda one: one["columns"][0].update(
                theta={"shape": [1, 1], "values": [1]}
            ),
            r"map.columns\[0\].theta must have shape \(1, 2\)",
        ),
        (
            lambda one: one["columns"][0].update(sd=[1.0]),
            r"map.columns\[0\].sd must have shape \(10\)",
        ),
        (lambda one: one["columns"][0].update(name=3), "name must be a string"),
        (lambda one: one.update(columns=[]), "map.columns must have at least 1 items"),
        (
            lambda one: one["columns"][0].update(difference=None),
            "map.columns must have a difference",
        ),
    ],
)
def test_files_that_make_no_sense_are_refused(change, message):
    p, y, s, _ = simulated(2000)
    described = json.loads(
        json.dumps(SplineCalibrator().fit(p, y, by=NAMES[s]).to_dict())
    )
    change(described["map"])
    with pytest.raises((ValueError, TypeError), match=message):
        SplineCalibrator.from_dict(described)


def test_effects_in_a_file_are_those_of_its_classes():
    s = np.arange(2000) % 10
    z = np.random.default_rng(0).normal(size=(2000, 3))
    described = SplineCalibrator().fit(softmax(z, axis=1), s % 3, by=s).to_dict()
    effects = described["map"]["effects"]
    effects["common"] = [0.0, 0.0]
    with pytest.raises(
        ValueError, match=r"map.effects.columns\[0\].theta must have 2 columns; got 4"
    ):
        SplineCalibrator.from_dict(described)
    column = effects["columns"][0]
    column["theta"] = {"shape": [10, 2], "values": [0.0] * 20}
    column["spread"] = column["new"] = [0.0, 0.0]
    with pytest.raises(
        ValueError,
        match=r"effects\.common must have an effect for each of 3 classes and one more",
    ):
        SplineCalibrator.from_dict(described)


def test_curves_of_all_classes_in_a_file_have_the_same_segments():
    s = np.arange(600) % 3
    p = softmax(np.random.default_rng(0).normal(size=(600, 3)), axis=1)
    described = SplineCalibrator(multiclass="ovr").fit(p, s, by=s).to_dict()
    described = json.loads(json.dumps(described))
    described["map"]["maps"][1]["columns"][0]["known"]["labels"] = [0, 1, 7]
    with pytest.raises(ValueError, match="maps must all have the same segments"):
        SplineCalibrator.from_dict(described)


def test_sql_wants_the_segments_named():
    p, y, s, _ = simulated(2000)
    with pytest.raises(ValueError, match="by, the columns of segments, must be named"):
        to_sql(SplineCalibrator().fit(p, y, by=s), "p")


def test_partial_fit_wants_segments_always_or_never():
    p, y, s, _ = simulated(2000)
    with pytest.raises(
        ValueError, match="by must be given in every call of partial_fit, or in none"
    ):
        SplineCalibrator().partial_fit(p, y, by=s).partial_fit(p, y)
    with pytest.raises(
        ValueError, match="by must be given in every call of partial_fit, or in none"
    ):
        SplineCalibrator().partial_fit(p, y).partial_fit(p, y, by=s)
    one = (
        SplineCalibrator()
        .partial_fit(p[y], y[y], classes=[False, True], by=s[y])
        .partial_fit(p[~y], y[~y], by=s[~y])
    )
    assert one.segments_["rows"].sum() == 2000


def test_metadata_routing_knows_segments():
    p, y, s, _ = simulated(2000)
    folds = [
        (np.arange(1000), np.arange(1000, 2000)),
        (np.arange(1000, 2000), np.arange(1000)),
    ]
    with sklearn.config_context(enable_metadata_routing=True):
        cal = (
            SplineCalibrator()
            .set_fit_request(by=True)
            .set_predict_proba_request(by=True)
        )
        requests = cal.set_predict_request(by=True).get_metadata_routing()
        for method in ("fit", "predict_proba", "predict"):
            assert requests.consumes(method, {"by"}) == {"by"}
        routed = cross_val_predict(
            cal, p, y, method="predict_proba", cv=folds, params={"by": s}
        )
    by_hand = (
        SplineCalibrator().fit(p[:1000], y[:1000], by=s[:1000]).predict_proba(p[1000:])
    )
    np.testing.assert_array_equal(
        routed[1000:], by_hand
    )  # it passes nothing on to predict_proba


@pytest.mark.parametrize("multiclass", ["structured", "ovr"])
@pytest.mark.parametrize("kind", ["probabilities", "logits"])
def test_several_classes_have_segments(multiclass, kind):
    rng = np.random.default_rng(0)
    n, S = 8000, 8
    z, s = rng.normal(size=(n, 4)) * 1.5, rng.integers(0, S, n)
    shift, heat = rng.normal(size=(S, 4)) * 0.8, np.exp(rng.normal(size=S) * 0.3)
    true = softmax(z * heat[s, None] + shift[s], axis=1)
    y = (true.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    scores = softmax(z, axis=1) if kind == "probabilities" else 2.0 * z
    train = np.arange(n) < 5000
    cal = SplineCalibrator(multiclass=multiclass).fit(
        scores[train], y[train], by=s[train]
    )
    pooled = SplineCalibrator(multiclass=multiclass).fit(scores[train], y[train])
    loss, one = (
        log_loss(y[~train], q)
        for q in (
            cal.predict_proba(scores[~train], by=s[~train]),
            pooled.predict_proba(scores[~train]),
        )
    )
    assert loss < one - 0.1
    assert loss < log_loss(y[~train], true[~train]) + 0.03
    assert len(cal.segments_["segment"]) == (S if multiclass == "structured" else 4 * S)
    assert "segments, the farthest from the common curve" in cal.summary()
    np.testing.assert_array_equal(
        cal.predict(scores[~train], by=s[~train]),
        cal.predict_proba(scores[~train], by=s[~train]).argmax(axis=1),
    )


def test_where_classes_do_not_differ_all_segments_have_the_pooled_map():
    rng = np.random.default_rng(2)
    z = rng.normal(size=(1500, 3))
    y = (z + rng.gumbel(size=(1500, 3))).argmax(axis=1)
    p, s = softmax(z, axis=1), rng.integers(0, 10, 1500)
    cal, pooled = SplineCalibrator().fit(p, y, by=s), SplineCalibrator().fit(p, y)
    np.testing.assert_array_equal(cal.predict_proba(p, by=s), pooled.predict_proba(p))


def test_a_ranking_that_has_to_stay_stays_in_every_segment():
    rng = np.random.default_rng(0)
    n = 4000
    z, s = rng.normal(size=(n, 3)), rng.integers(0, 6, n)
    turned = np.where(s == 0, -1.0, 1.0)[:, None]
    y = (turned * z + np.eye(3)[s % 3] + rng.gumbel(size=(n, 3))).argmax(axis=1)
    p = softmax(z, axis=1)
    cal = SplineCalibrator(monotone=True).fit(p, y, by=s)
    np.testing.assert_array_equal(
        cal.predict_proba(p, by=s).argsort(axis=1), p.argsort(axis=1)
    )
    assert cal.segments_["slope"].any()
    assert (cal.segments_["low"] <= cal.segments_["slope"]).all()


def in_two_columns(n=4000):
    rng = np.random.default_rng(5)
    x, frame = (
        rng.normal(size=n),
        pd.DataFrame({"a": rng.integers(0, 3, n), "b": rng.integers(0, 3, n)}),
    )
    return (
        expit(x),
        rng.random(n) < expit(x + (frame["a"] - 1) - 0.8 * (frame["b"] - 1)),
        frame,
    )


@pytest.mark.parametrize(
    "turned", [lambda frame: frame[["b", "a"]], lambda frame: [frame["b"], frame["a"]]]
)
def test_columns_of_segments_are_found_by_name(turned, tmp_path):
    p, y, frame = in_two_columns()
    cal = SplineCalibrator().fit(p, y, by=frame)
    wanted = cal.calibrate(p, by=frame)
    calspline.save(cal, tmp_path / "model.json")
    for one in (cal, calspline.load(tmp_path / "model.json")):
        np.testing.assert_array_equal(one.calibrate(p, by=turned(frame)), wanted)
        np.testing.assert_array_equal(one.calibrate(p, by=frame.to_numpy()), wanted)
        np.testing.assert_array_equal(
            one.calibrate(p, by=frame.set_axis(["c", "d"], axis=1)), wanted
        )
        np.testing.assert_array_equal(
            one.interval(p, by=turned(frame)), cal.interval(p, by=frame)
        )
        with pytest.raises(
            ValueError,
            match=r"must have the columns \['a', 'b'\], as in the fit; got \['a', 'c'\]",
        ):
            one.calibrate(p, by=frame.rename(columns={"b": "c"}))
    parts = SplineCalibrator().partial_fit(p[:2000], y[:2000], by=frame[:2000])
    parts.partial_fit(p[2000:], y[2000:], by=turned(frame[2000:]))
    np.testing.assert_allclose(parts.calibrate(p, by=turned(frame)), wanted, rtol=1e-9)
    first, second = (
        ScoreHistogram.from_scores(p[rows], y[rows], by=order(frame[rows]))
        for rows, order in (
            (slice(2000), turned),
            (slice(2000, None), lambda frame: frame),
        )
    )
    summed = SplineCalibrator().fit_histogram(first + second)
    np.testing.assert_allclose(
        summed.calibrate(p, by=frame), wanted, rtol=1e-5
    )  # the columns in another order


def test_columns_with_numbers_for_names(tmp_path):
    p, y, frame = in_two_columns()
    frame = frame.set_axis([0, 1], axis=1)
    cal = SplineCalibrator().fit(p, y, by=frame)
    calspline.save(cal, tmp_path / "model.json")
    found = calspline.load(tmp_path / "model.json").calibrate(p, by=frame[[1, 0]])
    np.testing.assert_array_equal(found, cal.calibrate(p, by=frame))


@pytest.mark.parametrize(
    "use",
    [
        lambda cal, p, y: calspline.expected(cal, p),
        lambda cal, p, y: cal.shifted(unlabelled=p),
        lambda cal, p, y: calspline.drift(
            *[ScoreHistogram.from_scores(p, y)] * 2, calibrator=cal
        ),
        lambda cal, p, y: calspline.Monitor(cal).update(
            ScoreHistogram.from_scores(p, y)
        ),
        lambda cal, p, y: calspline.apply_frame(pd.DataFrame({"p": p}), cal, score="p"),
    ],
)
def test_scores_without_their_segments_are_not_silent(use):
    p, y, s, _ = simulated(2000)
    cal = SplineCalibrator().fit(p, y, by=s)
    with pytest.warns(
        UserWarning,
        match=r"fitted with segments \(by=\), and these scores come without",
    ):
        use(cal, p, y)


@pytest.mark.parametrize(
    ("n_segments", "n"), [(2, 60), (6, 600), (2, 6000), (40, 6000)]
)
def test_segments_that_each_show_one_class_converge(n_segments, n):
    rng = np.random.default_rng(0)
    s = rng.integers(0, n_segments, n)
    cal = SplineCalibrator().fit(rng.uniform(0.05, 0.95, n), s % 2, by=s)
    assert cal.converged_
    p = cal.calibrate([0.5, 0.5], by=[0, 1])
    assert p[0] < 0.05
    assert p[1] > 0.9


def test_a_new_segment_of_several_classes_is_softened_as_far_as_segments_differ():
    """It is close to the mean over drawn segments, and predicts segments held out better than the common map does."""
    rng = np.random.default_rng(0)
    S, n, m = 80, 12_000, 3
    s, z = rng.integers(0, S, n), rng.normal(0.0, 2.0, (n, m))
    eta = (
        z * (1.0 + rng.normal(0.0, 0.3, S)[s])[:, None]
        + rng.normal(0.0, 1.5, (S, m))[s]
    )
    y, scores = (eta + rng.gumbel(size=eta.shape)).argmax(axis=1), softmax(z, axis=1)
    cal = SplineCalibrator().fit(scores[s < 40], y[s < 40], by=s[s < 40])
    new, labels = scores[s >= 40], y[s >= 40]
    effects = cal.model_.base.effects
    drawn = np.zeros_like(new)
    before = cal.structure_.probabilities(MatrixScores("probability", new))
    learnt = effects.columns[0]

    def in_one_segment(theta):
        facts = ("sd", "shrinkage", "rows", "events", "mean_score")
        first = {name: getattr(learnt, name)[:1] for name in facts}
        column = replace(learnt, known=Known((0,)), theta=theta[None], **first)
        segments = [np.zeros(len(new), dtype=int)]
        return replace(effects, columns=(column,)).probabilities(before, segments)

    for theta in rng.normal(size=(200, m + 1)) * np.sqrt(learnt.spread):
        drawn += in_one_segment(theta) / 200
    found, common = cal.predict_proba(new), in_one_segment(np.zeros(m + 1))
    assert np.abs(found - drawn).mean() < 0.5 * np.abs(common - drawn).mean()
    rows = np.arange(len(labels))
    assert (
        np.log(found[rows, labels]).mean() > np.log(common[rows, labels]).mean() + 0.02
    )


def test_classes_that_segments_do_not_differ_in_are_as_the_map_has_them():
    rng = np.random.default_rng(0)
    z = rng.normal(0.0, 2.0, (3000, 3))
    y = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
    cal = SplineCalibrator().fit(softmax(z, axis=1), y, by=np.arange(3000) % 5)
    plain = SplineCalibrator().fit(softmax(z, axis=1), y)
    np.testing.assert_allclose(
        cal.predict_proba(softmax(z, axis=1)),
        plain.predict_proba(softmax(z, axis=1)),
        atol=0.01,
    )


def test_the_summary_says_if_segments_do_not_differ():
    p, y, s, _ = simulated(300, 3, sd=(0.0, 0.0), seed=1)
    cal = SplineCalibrator().fit(p, y, by=s)
    assert np.all(cal.segments_["shrinkage"] == 1.0)
    assert "3 segments, which all have the common curve" in cal.summary()


def test_names_of_segments_stay_on_one_line_and_do_not_color_the_terminal():
    p, y, s, _ = simulated(4000, 2, sd=(2.0, 0.2))
    names = np.array(["two\nlines", "\x1b[31mred"])[s]
    cal = SplineCalibrator().fit(p, y, by=names)
    evaluation = calspline.evaluate(y, p, by=names)
    for shown in (cal.summary(), str(cal.segments_), str(evaluation.segments)):
        assert "\x1b" not in shown
        assert "two\\nlines" in shown
        assert "\\x1b[31mred" in shown
