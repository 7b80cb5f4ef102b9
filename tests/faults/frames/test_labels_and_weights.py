import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from tests.faults.frames.conftest import changed

from calspline import SplineCalibrator, apply_frame, fit_frame


@pytest.mark.parametrize("value", [None, np.nan], ids=str)
def test_20_missing_labels(fit, columns, value):
    labels = columns | {
        "y": columns["y"].astype(float)
        if value is not None
        else np.array(["a", "b"])[columns["y"]]
    }
    with pytest.raises(ValueError, match=r"found 1 of 200 in 'y'.*missing=\"drop\""):
        fit(changed(labels, "y", 2, value))


@pytest.mark.parametrize(
    "labels",
    [["a", "b"], [False, True], [0.0, 1.0], [-1, 1], [1, 2], ["it's; --", 'q"\\']],
    ids=str,
)
def test_23_labels_of_any_kind_give_the_same_probabilities(fit, columns, same, labels):
    found = fit(columns | {"y": np.array(labels)[columns["y"]]})
    assert found.classes_.tolist() == labels
    same(found, SplineCalibrator().fit(columns["p"], columns["y"]))


def test_23_categories(columns, same):
    frame = pd.DataFrame(
        columns | {"y": pd.Categorical.from_codes(columns["y"], ["a", "b"])}
    )
    for made in (frame, pl.from_pandas(frame)):
        same(
            fit_frame(made, score="p", label="y"),
            SplineCalibrator().fit(columns["p"], columns["y"]),
        )


def test_23_categories_that_are_numbers_count_as_numbers(columns, same):
    frame = pd.DataFrame(
        columns | {"y": pd.Categorical.from_codes(columns["y"], [9, 10])}
    )
    for made in (frame, pa.Table.from_pandas(frame)):
        found = fit_frame(made, score="p", label="y")
        assert found.classes_.tolist() == [9, 10]
        same(found, SplineCalibrator().fit(columns["p"], columns["y"]))


def test_23_a_declared_order_that_is_not_the_sorted_one(columns, same):
    order = pd.CategoricalDtype(["low", "high"], ordered=True)
    frame = pd.DataFrame(
        columns | {"y": pd.Categorical.from_codes(columns["y"], dtype=order)}
    )
    for made in (frame, duckdb.from_df(frame)):
        with pytest.raises(
            ValueError,
            match=r"a declared order .* 'low' < 'high'\. Name the class .* with positive",
        ):
            fit_frame(made, score="p", label="y")
        same(
            fit_frame(made, score="p", label="y", positive="high"),
            SplineCalibrator().fit(columns["p"], columns["y"]),
        )


def test_28_29_the_index_of_pandas_means_nothing_and_is_kept(columns, same):
    order = np.random.default_rng(0).permutation(200) + 70
    frame = pd.DataFrame(columns, index=order)
    found = fit_frame(frame, score="p", label="y", weight="w")
    same(found, SplineCalibrator().fit(columns["p"], columns["y"], columns["w"]))
    out = apply_frame(frame, found, score="p")
    assert out.index.tolist() == order.tolist()
    np.testing.assert_array_equal(out["calibrated"], found.calibrate(columns["p"]))


def test_33_rows_of_weight_zero_are_absent(fit, columns, same):
    there = columns["w"] > 0
    assert not there.all()
    wanted = SplineCalibrator().fit(
        columns["p"][there], columns["y"][there], columns["w"][there]
    )
    same(fit(columns, weight="w"), wanted)
    # What such a row holds does not matter, be it an odd score or a third label.
    odd = {
        "p": np.append(columns["p"], 17.0),
        "y": np.append(columns["y"], 2),
        "w": np.append(columns["w"], 0.0),
    }
    same(fit(odd, weight="w"), wanted)
