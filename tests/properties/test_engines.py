"""Whatever holds the rows, and whatever evaluates the curve: the same numbers."""

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from calspline import ScoreHistogram, SplineCalibrator, apply_frame, export, fit_frame

pytestmark = pytest.mark.filterwarnings(
    "ignore:all scores are equal",
    "ignore:the fit did not converge",
    "ignore:scores are lower",
    "ignore:the class of the largest",
    "ignore:(sample_)?weight sums to",
)
few = settings(max_examples=max(settings().max_examples // 6, 1))
GRID = np.concatenate(
    [[0.0, 5e-324, 1e-300, 1e-17], np.linspace(0.001, 0.999, 41), [1 - 1e-16, 1.0]]
)

scores = st.one_of(
    st.floats(0, 1),
    st.sampled_from([0.0, 1.0, 0.5, 1e-300, 1 - 1e-16]),
    st.integers(0, 10).map(lambda k: k / 10),
)
options = st.sampled_from(
    [
        {},
        {"monotone": True},
        {"loss": "brier"},
        {"smoothing": 1e-6},
        {"scale": "asinh_logit"},
    ]
)


@st.composite
def data(draw):
    n = draw(st.integers(2, 40))
    x = np.array(draw(st.lists(scores, min_size=n, max_size=n)))
    y = np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    w = np.array(
        draw(st.lists(st.sampled_from([0.5, 1.0, 3.0]), min_size=n, max_size=n))
    )
    assume(0 < y.sum() < n)
    return x, y, w


@few
@given(data(), options)
def test_a_fit_to_a_frame_is_a_fit_to_its_arrays(rows, kwargs):
    x, y, w = rows
    expected = SplineCalibrator(**kwargs).fit(x, y, w).calibrate(GRID)
    columns = {"p": x, "y": y, "w": w}
    with duckdb.connect() as connection:
        table = pa.table(columns)
        connection.register("rows", table)
        for frame in (
            pd.DataFrame(columns),
            pl.DataFrame(columns),
            table,
            connection.table("rows"),
        ):
            cal = fit_frame(frame, score="p", label="y", weight="w", **kwargs)
            np.testing.assert_allclose(cal.calibrate(GRID), expected, atol=1e-9)


@few
@given(data(), options)
def test_a_frame_is_calibrated_as_an_array_is(rows, kwargs):
    cal = SplineCalibrator(**kwargs).fit(*rows)
    expected = cal.calibrate(GRID)
    with duckdb.connect() as connection:
        table = pa.table({"p": GRID})
        connection.register("rows", table)
        for frame in (
            pd.DataFrame({"p": GRID}),
            pl.DataFrame({"p": GRID}),
            table,
            connection.table("rows"),
        ):
            out = apply_frame(frame, cal, score="p")
            column = out.df()["calibrated"] if hasattr(out, "df") else out["calibrated"]
            np.testing.assert_allclose(
                np.asarray(column, dtype=float), expected, atol=1e-9
            )


@few
@given(data(), options)
def test_exported_python_and_sql_say_the_same(rows, kwargs):
    cal = SplineCalibrator(**kwargs).fit(*rows)
    expected = cal.calibrate(GRID)
    room = {}
    exec(export.to_python(cal), room)
    np.testing.assert_allclose(
        [room["calibrate"](float(p)) for p in GRID], expected, atol=1e-9
    )
    with duckdb.connect() as connection:
        connection.register("rows", pa.table({"i": np.arange(len(GRID)), "p": GRID}))
        found = connection.sql(
            f"SELECT {export.to_sql(cal, 'p')} AS q FROM rows ORDER BY i"
        ).fetchall()
    np.testing.assert_allclose(np.ravel(found), expected, atol=1e-9)


@few
@given(data(), options, st.integers(2, 4))
def test_weights_times_a_number_are_rows_so_many_times(rows, kwargs, times):
    x, y, w = rows
    cal = SplineCalibrator(**kwargs)
    expected = cal.fit(
        np.tile(x, times), np.tile(y, times), np.tile(w, times)
    ).calibrate(GRID)
    np.testing.assert_allclose(
        cal.fit(x, y, times * w).calibrate(GRID), expected, atol=1e-9
    )


@few
@given(data(), options, st.integers(1, 39))
def test_a_fit_in_parts_is_a_fit_to_the_whole(rows, kwargs, cut):
    x, y, w = rows
    whole = SplineCalibrator(**kwargs).fit(x, y, w).calibrate(GRID)
    parts = SplineCalibrator(**kwargs).partial_fit(
        x[:cut], y[:cut], w[:cut], classes=[False, True]
    )
    if cut < len(x):
        parts.partial_fit(x[cut:], y[cut:], w[cut:])
    np.testing.assert_allclose(parts.calibrate(GRID), whole, atol=1e-9)
    merged = ScoreHistogram.from_scores(x[:cut], y[:cut], w[:cut], kind="probability")
    if cut < len(x):
        merged += ScoreHistogram.from_scores(
            x[cut:], y[cut:], w[cut:], kind="probability"
        )
    np.testing.assert_allclose(
        SplineCalibrator(**kwargs).fit_histogram(merged).calibrate(GRID),
        whole,
        atol=1e-9,
    )


@few
@given(data(), options)
def test_names_of_the_two_classes_are_irrelevant(rows, kwargs):
    x, y, w = rows
    cal = SplineCalibrator(**kwargs)
    expected = cal.fit(x, y, w).calibrate(GRID)
    for names in ([0, 1], [-1, 1], [1.0, 2.0], ["no", "yes"]):
        np.testing.assert_array_equal(
            cal.fit(x, np.array(names)[y.astype(int)], w).calibrate(GRID), expected
        )
