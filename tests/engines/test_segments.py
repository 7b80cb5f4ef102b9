"""``fit_frame`` and ``apply_frame`` with segments: the same as arrays in every engine, and few sums brought back."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, softmax
from tests.engines.conftest import ENGINES

from calspline import ScoreHistogram, SplineCalibrator, apply_frame, fit_frame
from calspline.engines import aggregate
from calspline.histograms.segment_histogram import (
    FEWEST_CELLS,
    MOST_SUMS,
    SegmentHistograms,
)

AGREE = {"rtol": 0, "atol": 1e-9}


def rows(n=9000, segments=12, seed=0, decimals=None):
    """Scores of segments that differ, some without a segment, and labels, weights and classes."""
    rng = np.random.default_rng(seed)
    number = rng.integers(0, segments, n)
    u = rng.normal(size=n) * 1.5
    happened = rng.random(n) < expit(0.8 * u + rng.normal(size=segments)[number])
    country = np.array([f"c{k}" for k in range(segments)], dtype=object)[number]
    country[::50] = None
    q = softmax(np.column_stack([u, rng.normal(size=n), np.zeros(n)]), axis=1)
    z = np.log(q) + rng.normal(size=(segments, 3))[number]
    kind = (softmax(z, axis=1).cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    p = expit(u) if decimals is None else expit(u).round(decimals)
    return pd.DataFrame(
        {
            "id": np.arange(n),
            "p": p,
            "paid": np.where(happened, "yes", "no"),
            "w": rng.integers(0, 4, n) * 0.5,
            "country": country,
            "device": rng.integers(0, 3, n),
            "a": q[:, 0],
            "b": q[:, 1],
            "c": q[:, 2],
            "kind": kind,
        }
    )


def check_alike(found, wanted, *scores, by):
    assert found.segments_["segment"] == wanted.segments_["segment"]
    for key in (
        "rows",
        "events",
        "mean_score",
        "intercept",
        "slope",
        "shrinkage",
        "low",
        "high",
    ):
        np.testing.assert_allclose(
            found.segments_[key], wanted.segments_[key], err_msg=key, **AGREE
        )
    for each in scores:
        np.testing.assert_allclose(
            found.calibrate(each, by=by), wanted.calibrate(each, by=by), **AGREE
        )


@pytest.mark.filterwarnings("ignore:.*segments that the fit has not seen")
@pytest.mark.parametrize("engine", ENGINES, indirect=True)
@pytest.mark.parametrize("decimals", [None, 3])
def test_two_classes_are_fitted_as_in_arrays(engine, decimals):
    frame = rows(decimals=decimals)
    wanted = SplineCalibrator().fit(
        frame["p"], frame["paid"], frame["w"], by=frame["country"]
    )
    found = fit_frame(
        engine.make(frame), score="p", label="paid", weight="w", by="country"
    )
    assert np.ptp(wanted.segments_["intercept"]) > 0.5
    check_alike(found, wanted, frame["p"], by=frame["country"])
    np.testing.assert_allclose(
        found.interval(frame["p"], by=frame["country"]),
        wanted.interval(frame["p"], by=frame["country"]),
        atol=1e-7,
    )
    assert found.to_dict()["map"]["columns"][0]["name"] == "country"


@pytest.mark.filterwarnings("ignore:.*segments that the fit has not seen")
@pytest.mark.parametrize("engine", ENGINES, indirect=True)
def test_effects_of_several_columns_are_those_of_arrays(engine):
    frame = rows()
    by = frame[["country", "device"]]
    wanted = SplineCalibrator().fit(frame["p"], frame["paid"], by=by)
    found = fit_frame(
        engine.make(frame), score="p", label="paid", by=["country", "device"]
    )
    check_alike(found, wanted, frame["p"], by=by)


@pytest.mark.filterwarnings("ignore:.*segments that the fit has not seen")
@pytest.mark.parametrize("engine", ENGINES, indirect=True)
@pytest.mark.parametrize("multiclass", ["structured", "ovr"])
def test_three_classes_are_fitted_as_in_arrays(engine, multiclass):
    frame = rows(3000)
    scores = frame[["a", "b", "c"]].to_numpy()
    wanted = SplineCalibrator(multiclass=multiclass).fit(
        scores, frame["kind"], by=frame["country"]
    )
    found = fit_frame(
        engine.make(frame),
        score=["a", "b", "c"],
        label="kind",
        by="country",
        multiclass=multiclass,
    )
    check_alike(found, wanted, scores, by=frame["country"])


@pytest.mark.parametrize("engine", ENGINES, indirect=True)
def test_groups_go_with_segments(engine):
    frame = rows(3000).assign(group=np.arange(3000) // 5)
    wanted = SplineCalibrator().fit(
        frame["p"], frame["paid"], groups=frame["group"], by=frame["device"]
    )
    found = fit_frame(
        engine.make(frame), score="p", label="paid", group="group", by="device"
    )
    assert found.n_effective_ == pytest.approx(wanted.n_effective_, rel=1e-7)
    np.testing.assert_allclose(
        found.segments_["intercept"], wanted.segments_["intercept"], atol=1e-7
    )


@pytest.mark.parametrize("engine", ENGINES, indirect=True)
@pytest.mark.parametrize("kind", ["float", "category", "date"])
def test_segments_of_any_type_are_those_of_arrays(engine, kind):
    frame = rows(2000).drop(columns=["country"])
    value = {
        "float": np.where(frame["device"] == 2, np.nan, frame["device"] + 0.5),
        "category": pd.Categorical(frame["device"].map({0: "x", 1: "y"})),
        "date": pd.Timestamp("2026-01-01") + pd.to_timedelta(frame["device"], "D"),
    }[kind]
    frame["where"] = value
    found = fit_frame(engine.make(frame), score="p", label="paid", by="where")
    wanted = SplineCalibrator().fit(
        frame["p"], frame["paid"], by=frame["where"].astype(object)
    )
    assert len(found.segments_["segment"]) == (3 if kind == "date" else 2)
    np.testing.assert_allclose(
        found.segments_["intercept"], wanted.segments_["intercept"], **AGREE
    )


@pytest.mark.parametrize("engine", ENGINES, indirect=True)
def test_bad_segments_are_refused(engine):
    frame = rows(200)
    with pytest.raises(
        ValueError,
        match=r"by must be a column of frame; there is no 'contry'. Did you mean 'country'",
    ):
        fit_frame(engine.make(frame), score="p", label="paid", by="contry")
    with pytest.raises(ValueError, match="by must be different columns"):
        fit_frame(
            engine.make(frame), score="p", label="paid", by=["country", "country"]
        )
    nowhere = frame.assign(device=np.full(200, np.nan))
    for by in ("device", ["country", "device"]):
        with pytest.raises(
            ValueError, match="by must have labels; all of a column are missing"
        ):
            fit_frame(engine.make(nowhere), score="p", label="paid", by=by)
    with pytest.raises(ValueError, match='loss must be "log" for a fit with by'):
        fit_frame(
            engine.make(frame), score="p", label="paid", by="country", loss="brier"
        )
    with pytest.raises(ValueError, match='loss must be "log" for a fit with by'):
        fit_frame(
            engine.make(frame),
            score=["a", "b", "c"],
            label="kind",
            by="country",
            loss="brier",
            multiclass="ovr",
        )


@pytest.fixture
def brought(monkeypatch):
    """How many rows come back from an engine, a number for each query."""
    import narwhals as nw

    counted, collect = [], nw.LazyFrame.collect

    def counting(frame, *arguments, **options):
        found = collect(frame, *arguments, **options)
        counted.append(len(found))
        return found

    monkeypatch.setattr(nw.LazyFrame, "collect", counting)
    return counted


def duckdb_rows(n, segments, decimals=None):
    import duckdb

    score = "1 / (1 + exp(-4 * (random() - 0.5)))"
    if decimals is not None:
        score = f"round({score}, {decimals})"
    connection = duckdb.connect()
    connection.execute("SELECT setseed(0.5)")
    connection.execute(
        f"CREATE TABLE rows AS SELECT p, random() < p AS y, (random() * {segments})::INT AS s "
        f"FROM (SELECT {score} AS p FROM range({n}))"
    )
    return connection.table("rows")


def test_sums_come_back_not_rows(brought):
    frame = duckdb_rows(400_000, 30)
    cal = fit_frame(frame, score="p", label="y", by="s")
    assert len(cal.segments_["segment"]) == 31
    assert brought[-2] == 1  # the number of segments
    # Three levels above the grid of all rows, which has 4,096 cells at most.
    assert 31 * 100 < brought[-1] <= 31 * 4096 / 2**2
    assert sum(brought) < 200_000


@pytest.mark.slow
def test_what_comes_back_is_bounded_however_many_segments_there_are(brought):
    for segments, decimals in ((3000, None), (3000, 4), (60_000, None)):
        frame = duckdb_rows(1_500_000, segments, decimals)
        fit_frame(frame, score="p", label="y", by="s")
        assert segments < brought[-1] <= max(MOST_SUMS, FEWEST_CELLS * (segments + 1))


def test_many_segments_are_counted_on_the_same_grid_in_arrays(monkeypatch):
    """Fewer sums than rows, so that cells are made wider in both."""
    monkeypatch.setattr("calspline.histograms.segment_histogram.MOST_SUMS", 1000)
    for decimals in (None, 3):
        frame = duckdb_rows(50_000, 12, decimals)
        found = fit_frame(frame, score="p", label="y", by="s")
        table = frame.df()
        wanted = SplineCalibrator().fit(table["p"], table["y"], by=table["s"])
        assert wanted.model_.fit.segment_histograms.level is not None
        assert len(wanted.model_.fit.segment_histograms.locations) <= 1000
        check_alike(found, wanted, table["p"], by=table["s"])
        parts = [
            ScoreHistogram.from_scores(
                table["p"][k::3], table["y"][k::3], by=table["s"][k::3]
            )
            for k in range(3)
        ]
        total = parts[0] + parts[1] + parts[2]
        assert total.level == wanted.model_.fit.segment_histograms.level
        np.testing.assert_allclose(
            total.locations, wanted.model_.fit.segment_histograms.locations, **AGREE
        )


def test_too_many_segments_are_refused(monkeypatch):
    monkeypatch.setattr(aggregate, "MAX_SEGMENTS", 100)
    with pytest.raises(
        ValueError,
        match="by must be segments, at most 100 different ones; the frame has 1,0",
    ):
        fit_frame(duckdb_rows(50_000, 1000), score="p", label="y", by="s")


def test_histograms_of_segments_know_their_classes():
    frame = rows(500)
    found = fit_frame(
        frame, score="p", label="paid", by="country"
    ).model_.fit.segment_histograms
    assert isinstance(found, SegmentHistograms)
    assert found["c1"].classes == ("no", "yes")


@pytest.mark.parametrize("engine", ENGINES, indirect=True)
def test_new_segments_are_counted_in_one_warning_and_lazy_frames_are_silent(
    engine, recwarn
):
    frame = rows(2000)
    cal = fit_frame(frame, score="p", label="paid", by="country")
    recwarn.clear()
    new = frame[["id", "p", "country"]].head(400).copy()
    new.loc[:5, "country"] = "nowhere"
    new.loc[[0, 10], "p"] = np.nan
    engine.pandas(apply_frame(engine.make(new), cal, score="p", by="country"))
    found = [
        (str(one.message), one.filename)
        for one in recwarn
        if "not seen" in str(one.message)
    ]
    if engine.name in (
        "pandas",
        "polars",
        "pyarrow",
    ):  # 5 of them nowhere, 7 of them null
        said = "12 of 398 rows are of segments that the fit has not seen: they get the probability of a new segment"
        assert found == [(said, __file__)]
    else:
        assert found == []


@pytest.mark.filterwarnings("ignore:.*segments that the fit has not seen")
@pytest.mark.parametrize("engine", ENGINES, indirect=True)
def test_segments_are_applied_as_to_arrays_and_null_is_a_new_one(engine):
    frame = rows(2000)
    for by in ("country", ["country", "device"]):
        cal = fit_frame(frame, score="p", label="paid", by=by)
        new = frame[["id", "p", "country", "device"]].head(300).copy()
        new.loc[:5, "country"] = "nowhere"
        new.loc[10, "p"] = np.nan
        found = engine.pandas(
            apply_frame(engine.make(new), cal, score="p", by=by)
        ).sort_values("id")
        assert list(found.columns) == ["id", "p", "country", "device", "calibrated"]
        assert found["country"].isna().sum() == 5
        kept = new["p"].notna().to_numpy()
        wanted = cal.calibrate(new["p"][kept], by=new[by][kept])
        np.testing.assert_allclose(
            found["calibrated"].to_numpy(dtype=float)[kept], wanted, **AGREE
        )
        assert np.isnan(found["calibrated"].to_numpy(dtype=float)[~kept]).all()


@pytest.mark.parametrize("engine", ENGINES, indirect=True)
def test_without_segments_all_are_new_with_a_warning(engine):
    frame = rows(1000)
    cal = fit_frame(frame, score="p", label="paid", by="country")
    with pytest.warns(UserWarning, match="these scores come without"):
        applied = engine.pandas(
            apply_frame(engine.make(frame), cal, score="p")
        ).sort_values("id")
    np.testing.assert_allclose(
        applied["calibrated"].to_numpy(), cal.calibrate(frame["p"]), **AGREE
    )
    plain = fit_frame(frame, score="p", label="paid")
    with pytest.raises(
        ValueError,
        match="by must not be given: this calibrator was fitted without segments",
    ):
        apply_frame(engine.make(frame), plain, score="p", by="country")
