import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from calspline import (
    BetaCalibrator,
    IsotonicCalibrator,
    SigmoidCalibrator,
    SplineCalibrator,
    apply_frame,
    fit_frame,
)
from calspline.export import to_sql


@pytest.fixture
def calibrator(data):
    frame = data()
    return SplineCalibrator().fit(frame["p"], frame["outcome"])


def test_every_engine_predicts_what_arrays_do_and_leaves_the_rest_alone(
    engine, data, calibrator
):
    frame = data(3000)
    made = engine.make(frame)
    out = apply_frame(made, calibrator, score="p")
    assert type(out) is type(made)
    result = engine.pandas(out)
    assert list(result.columns) == [*frame.columns, "calibrated"]
    np.testing.assert_allclose(
        result["calibrated"], calibrator.calibrate(frame["p"]), rtol=0, atol=1e-9
    )
    assert result["id"].tolist() == frame["id"].tolist()
    assert result["outcome"].tolist() == frame["outcome"].tolist()
    np.testing.assert_array_equal(result["p"], frame["p"])


def test_null_in_null_out_in_every_engine(engine, data, calibrator):
    frame = data(50)
    frame.loc[[2, 30], "p"] = np.nan
    result = engine.pandas(apply_frame(engine.make(frame), calibrator, score="p"))
    assert result["calibrated"].isna().tolist() == frame["p"].isna().tolist()


def test_a_score_that_is_none_is_an_error_in_every_engine(engine, data, calibrator):
    frame = data(50)
    frame.loc[7, "p"] = 1.5
    with pytest.raises(Exception, match="must"):
        engine.pandas(apply_frame(engine.make(frame), calibrator, score="p"))


def test_three_classes_have_a_column_each_in_every_engine(engine):
    rng = np.random.default_rng(0)
    p = rng.dirichlet([1, 2, 3], 800)
    y = (p.cumsum(axis=1) < rng.random((800, 1))).sum(axis=1)
    calibrator = SplineCalibrator(multiclass="ovr").fit(p, y)
    frame = pd.DataFrame(p, columns=["a", "b", "c"])
    frame.loc[5, "b"] = np.nan
    result = engine.pandas(
        apply_frame(engine.make(frame), calibrator, score=["a", "b", "c"], output="q")
    )
    assert list(result.columns) == ["a", "b", "c", "q_0", "q_1", "q_2"]
    wanted = calibrator.predict_proba(p)
    wanted[5] = np.nan
    np.testing.assert_allclose(
        result[["q_0", "q_1", "q_2"]].to_numpy(), wanted, rtol=0, atol=1e-9
    )


def test_structured_classes_are_applied_in_every_engine(engine):
    rng = np.random.default_rng(1)
    p = rng.dirichlet([1, 1, 2], 600)
    y = np.array(["x", "y", "z"])[(p.cumsum(axis=1) < rng.random((600, 1))).sum(axis=1)]
    calibrator = SplineCalibrator().fit(p, y)
    frame = pd.DataFrame(p, columns=["x", "y", "z"]).assign(id=np.arange(600))[
        ["z", "id", "x", "y"]
    ]
    result = engine.pandas(
        apply_frame(engine.make(frame), calibrator, score=["z", "x", "y"])
    )
    assert result["id"].tolist() == frame["id"].tolist()
    wanted = calibrator.predict_proba(p)
    np.testing.assert_allclose(
        result[[f"calibrated_{c}" for c in "xyz"]], wanted, rtol=0, atol=1e-9
    )


def test_rows_of_probabilities_that_sum_to_something_else_are_an_error_in_every_engine(
    engine,
):
    rng = np.random.default_rng(2)
    p = rng.dirichlet([1, 1, 2], 600)
    calibrator = SplineCalibrator(multiclass="ovr").fit(p, rng.integers(0, 3, 600))
    frame = pd.DataFrame(p, columns=["a", "b", "c"])
    frame.loc[4, "a"] += 0.1
    with pytest.raises(Exception, match="must"):
        engine.pandas(
            apply_frame(engine.make(frame), calibrator, score=["a", "b", "c"])
        )


def test_names_of_stages_may_be_columns_already(data, calibrator):
    import duckdb

    frame = data(50)[["id", "p"]].rename(columns={"id": "stage_0", "p": "my Stage_1"})
    result = apply_frame(
        duckdb.connect().from_df(frame), calibrator, score="my Stage_1"
    ).df()
    assert list(result.columns) == ["stage_0", "my Stage_1", "calibrated"]
    np.testing.assert_allclose(
        result["calibrated"],
        calibrator.calibrate(frame["my Stage_1"]),
        rtol=0,
        atol=1e-9,
    )


@pytest.mark.parametrize(
    "method", [SigmoidCalibrator, BetaCalibrator, IsotonicCalibrator]
)
def test_the_other_calibrators_are_applied_too(data, method):
    import duckdb

    frame = data(2000)
    fitted = method().fit(frame["p"], frame["outcome"])
    wanted = fitted.calibrate(frame["p"])
    np.testing.assert_array_equal(
        apply_frame(frame, fitted, score="p")["calibrated"], wanted
    )
    by_duckdb = apply_frame(duckdb.connect().from_df(frame), fitted, score="p").df()[
        "calibrated"
    ]
    np.testing.assert_allclose(by_duckdb, wanted, rtol=0, atol=1e-9)


def test_two_columns_of_two_classes_are_read_together(data):
    import duckdb

    u = np.random.default_rng(2).normal(30, 30, 500)
    pair = 1 / (1 + np.exp(np.column_stack([u, -u])))
    fitted = SplineCalibrator().fit(pair, np.random.default_rng(3).random(500) < 0.6)
    frame = pd.DataFrame(pair, columns=["False", "True"])
    result = apply_frame(frame[["True", "False"]], fitted, score=["True", "False"])
    np.testing.assert_array_equal(
        result["calibrated"], fitted.predict_proba(pair)[:, 1]
    )
    with pytest.raises(ValueError, match="score must be one column in"):
        apply_frame(duckdb.connect().from_df(frame), fitted, score=["False", "True"])


def test_names_that_need_quotes_work_in_every_engine(engine, data, calibrator):
    name = 'the "score" of Alice\'s'
    frame = data(50)[["id", "p"]].rename(columns={"p": name})
    result = engine.pandas(
        apply_frame(engine.make(frame), calibrator, score=name, output="after 'it'")
    )
    np.testing.assert_allclose(
        result["after 'it'"], calibrator.calibrate(frame[name]), rtol=0, atol=1e-9
    )


def test_pandas_keeps_its_index(data, calibrator):
    frame = data(20).set_index("id").iloc[::-1]
    assert apply_frame(frame, calibrator, score="p").index.equals(frame.index)


def test_lazy_frames_compute_nothing_until_asked(calibrator):
    import polars as pl

    asked = []

    def seen(column):
        asked.append(len(column))
        return column

    lazy = pl.LazyFrame({"p": [0.1, 0.5]}).with_columns(
        pl.col("p").map_batches(seen, return_dtype=pl.Float64)
    )
    out = apply_frame(lazy, calibrator, score="p")
    assert asked == []
    assert out.collect().shape == (2, 2)


def test_nulls_of_polars_and_arrow_stay_nulls(calibrator):
    import polars as pl

    frame = pl.DataFrame({"p": [0.1, None, 0.9]})
    assert apply_frame(frame, calibrator, score="p")["calibrated"].null_count() == 1
    assert (
        apply_frame(frame.to_arrow(), calibrator, score="p")["calibrated"].null_count
        == 1
    )


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (
            {"score": "q"},
            ValueError,
            "score must be a column of frame; there is no 'q'",
        ),
        ({"score": "outcome"}, TypeError, "score must be a column of numbers"),
        (
            {"output": "w"},
            ValueError,
            "output must be a new column; frame already has 'w'",
        ),
        ({"output": 3}, TypeError, "output must be a string; got int"),
        (
            {"score": ["p", "w", "id"]},
            ValueError,
            "score must be one column or 2 columns, one for each class; got 3",
        ),
    ],
)
def test_errors_name_the_argument(data, calibrator, arguments, error, message):
    with pytest.raises(error, match=message):
        apply_frame(data(20), calibrator, **({"score": "p"} | arguments))


def test_a_calibrator_has_to_be_one_and_fitted(data):
    with pytest.raises(
        TypeError, match="calibrator must be a fitted calibrator of calspline; got str"
    ):
        apply_frame(data(20), "spline", score="p")
    with pytest.raises(
        ValueError, match="calibrator must be fitted; this SplineCalibrator is not"
    ):
        apply_frame(data(20), SplineCalibrator(), score="p")


def test_what_has_no_sql_says_so(data):
    import duckdb

    frame = data(200)
    fitted = LogisticRegression().fit([[0.2], [0.8]], [0, 1])
    with pytest.raises(
        TypeError,
        match="calibrator must be a fitted calibrator of calspline; got LogisticRegression",
    ):
        apply_frame(duckdb.connect().from_df(frame), fitted, score="p")


def test_nan_outside_the_range_that_a_parquet_file_states_is_found(
    data, calibrator, tmp_path
):
    import duckdb
    import pyarrow as pa
    from pyarrow import parquet

    frame = data(500)
    scores = frame["p"].to_numpy().copy()
    scores[7] = np.nan
    path = tmp_path / "scores.parquet"
    parquet.write_table(
        pa.table({"p": pa.array(scores), "outcome": frame["outcome"].to_numpy()}), path
    )
    relation = duckdb.connect().read_parquet(str(path))
    with pytest.raises(ValueError, match="found 1 of 500 in 'p'"):
        fit_frame(relation, score="p", label="outcome")
    fitted = fit_frame(relation, score="p", label="outcome", missing="drop")
    wanted = SplineCalibrator().fit(
        np.delete(scores, 7), frame["outcome"].drop(frame.index[7])
    )
    np.testing.assert_allclose(
        fitted.calibrate([0.2, 0.7]), wanted.calibrate([0.2, 0.7]), rtol=0, atol=1e-9
    )
    applied = (
        apply_frame(relation, calibrator, score="p").project("calibrated").fetchall()
    )
    assert [row for row, (p,) in enumerate(applied) if p is None] == [7]
    query = f"SELECT {to_sql(calibrator, 'p')} AS q FROM relation"
    assert relation.query("relation", query).fetchall() == applied
