"""Columns of odd types: what is a label counts by its value in every kind of frame, and what is none is an error."""

import datetime
import decimal

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from tests.faults.frames.conftest import Box

from calspline import SplineCalibrator, apply_frame, fit_frame


@pytest.fixture
def lazy():
    """A lazy frame of polars from a dict of columns."""
    return lambda columns: pl.DataFrame(columns).lazy()


def segments(columns):
    """Codes of two segments that differ, which the events show."""
    other = np.random.default_rng(5).random(len(columns["p"])) < 0.2
    return np.where(other, 1 - columns["y"], columns["y"])


NESTED = {"lists": lambda code: [code], "structs": lambda code: {"a": code}}


@pytest.mark.parametrize("kind", NESTED)
@pytest.mark.parametrize("argument", ["label", "by", "group"])
def test_24_lists_and_structs_are_no_labels(box, fit, columns, kind, argument):
    odd = [NESTED[kind](int(code)) for code in columns["y"]]
    with pytest.raises(
        TypeError, match=rf"{argument} must be .*(of type (List|Struct)|row 0 is)"
    ):
        fit(columns | {"odd": odd}, **{argument: "odd"})


@pytest.mark.filterwarnings(
    "ignore:the columns of scores? are not named after the classes"
)
@pytest.mark.parametrize("multiclass", ["ovr", "structured"])
@pytest.mark.parametrize("largest", [2**53 + 2, 2**63 + 1, 2**64 - 1])
def test_23_large_integers_are_exact(box, fit, columns, three, largest, multiclass):
    """Next to small ones numpy would make floats of them, of which several are equal."""
    labels = np.array([0, largest - 1, largest], dtype=np.uint64)
    for given in (labels[1:], labels[::2]):
        y = given[columns["y"]]
        found = fit(columns | {"y": y})
        assert found.classes_.dtype.kind in "iu"
        assert (
            found.classes_.tolist()
            == SplineCalibrator().fit(columns["p"], y).classes_.tolist()
            == given.tolist()
        )
    y = labels[three["y"]]
    scores = np.column_stack([three[name] for name in "abc"])
    found = fit(three | {"y": y}, score=list("abc"), multiclass=multiclass)
    wanted = SplineCalibrator(multiclass=multiclass).fit(scores, y)
    assert found.classes_.tolist() == wanted.classes_.tolist() == labels.tolist()
    np.testing.assert_allclose(
        found.calibrate(scores), wanted.calibrate(scores), rtol=0, atol=1e-9
    )


LABELS = {
    "bytes": [b"a", b"b"],
    "dates": [datetime.date(2026, 1, 1), datetime.date(2026, 1, 2)],
    "decimals": [decimal.Decimal("1.00"), decimal.Decimal("2.00")],
}


@pytest.mark.parametrize("kind", LABELS)
def test_23_labels_of_rare_types_count_by_value(box, fit, columns, same, kind):
    found = fit(columns | {"y": [LABELS[kind][code] for code in columns["y"]]})
    assert found.classes_.tolist() == LABELS[kind]
    same(found, SplineCalibrator().fit(columns["p"], columns["y"]))


@pytest.mark.parametrize(
    "box", ["pandas", "polars", "pyarrow", "duckdb"], indirect=True
)
@pytest.mark.parametrize("unit", ["datetime64[us]", "timedelta64[us]"])
def test_23_datetimes_are_no_labels_in_frames_as_in_arrays(fit, columns, unit):
    y = (columns["y"] * 86_400_000_000).astype(unit)
    with pytest.raises(TypeError, match="y must be class labels; got dtype"):
        SplineCalibrator().fit(columns["p"], y)
    with pytest.raises(
        TypeError, match=r"label must be class labels; column 'y' is of type D"
    ):
        fit(columns | {"y": y})
    categories = pd.DataFrame(columns | {"y": pd.Categorical(y)})
    with pytest.raises(TypeError, match="label must be class labels; got dtype"):
        fit_frame(categories, score="p", label="y")


OF_FIT = {
    "integers": [0, 1],
    "floats": [0.0, 1.0],
    "booleans": [False, True],
    "decimals": [decimal.Decimal("0.00"), decimal.Decimal("1.00")],
    "texts": ["0", "1"],
    "dates": [datetime.date(2026, 1, 1), datetime.date(2026, 1, 2)],
    "datetimes": [datetime.datetime(2026, 1, 1), datetime.datetime(2026, 1, 2)],
}
FAMILY = {"texts": "text", "dates": "date", "datetimes": "datetime"}


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow", "duckdb", "lazy"])
@pytest.mark.parametrize("fitted_on", ["integers", "booleans", "texts", "datetimes"])
def test_54f_segments_are_matched_by_value_and_a_type_that_never_matches_is_an_error(
    columns, lazy, kind, fitted_on
):
    code = segments(columns)
    cal = SplineCalibrator().fit(
        columns["p"], columns["y"], by=[OF_FIT[fitted_on][each] for each in code]
    )
    wanted = cal.calibrate(columns["p"], by=[OF_FIT[fitted_on][each] for each in code])
    assert (
        np.ptp(
            wanted
            - cal.calibrate(
                columns["p"], by=[OF_FIT[fitted_on][1 - each] for each in code]
            )
        )
        > 0.0
    )
    for other, labels in OF_FIT.items():
        made = {"p": columns["p"], "s": [labels[each] for each in code]}
        frame = lazy(made) if kind == "lazy" else Box(kind)(made)
        if FAMILY.get(other, "number") != FAMILY.get(fitted_on, "number"):
            with pytest.raises(
                TypeError, match="by must have labels like those of the fit"
            ):
                apply_frame(frame, cal, score="p", by="s")
        elif fitted_on == "datetimes" and kind == "duckdb":
            with pytest.raises(
                TypeError,
                match="segments of type datetime have no export; use texts or numbers",
            ):
                apply_frame(frame, cal, score="p", by="s")
        else:
            found = apply_frame(frame, cal, score="p", by="s")
            found = found.collect() if kind == "lazy" else found
            got = Box("polars" if kind == "lazy" else kind).column(found, "calibrated")
            np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-9)


@pytest.mark.parametrize("kind", OF_FIT)
def test_54f_a_frame_of_any_kind_has_the_same_segments(box, fit, columns, kind):
    labels = [OF_FIT[kind][code] for code in segments(columns)]
    found = fit(columns | {"s": labels}, by="s")
    assert found.segments_["segment"] == OF_FIT[kind]
    plain = {decimal.Decimal: int}.get(type(labels[0]), type(labels[0]))
    assert {type(label) for label in found.segments_["segment"]} == {plain}


def test_54f_categories_of_arrow_are_their_values(columns):
    codes = segments(columns)
    for values, wanted in (
        (codes + 5, [5, 6]),
        (np.array(["x", "y"])[codes], ["x", "y"]),
    ):
        table = pa.table(columns | {"s": pa.array(values).dictionary_encode()})
        assert (
            fit_frame(table, score="p", label="y", by="s").segments_["segment"]
            == wanted
        )


@pytest.mark.filterwarnings(
    "ignore:the columns of scores? are not named after the classes"
)
@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
@pytest.mark.parametrize("several", [False, True])
def test_03_errors_name_the_row_of_the_frame_where_others_are_missing(
    columns, three, kind, several
):
    if several:
        scores = np.column_stack([three[name] for name in "abc"])
        cal, names = SplineCalibrator().fit(scores, three["y"]), list("abc")
        made = {name: three[name][:8].copy() for name in names}
        made["b"][[0, 2, 5]] = np.nan
        made["a"][6], made["b"][6], made["c"][6] = 0.5, 0.5, 0.5
        said = "row 6 sums to 1.5"
    else:
        cal, names = SplineCalibrator().fit(columns["p"], columns["y"]), "p"
        made = {"p": columns["p"][:8].copy()}
        made["p"][[0, 2, 5]] = np.nan
        made["p"][6] = 7.0
        said = "row 6 is 7"
    with pytest.raises(ValueError, match=said):
        apply_frame(Box(kind)(made), cal, score=names)


def test_03_what_is_computed_in_parts_says_so(columns, lazy):
    cal = SplineCalibrator().fit(columns["p"], columns["y"])
    made = apply_frame(lazy({"p": [0.1, None, 7.0]}), cal, score="p")
    with pytest.raises(
        Exception,
        match=r"is 7.*rows are counted from the beginning of a part of the frame",
    ):
        made.collect()


def test_54f_null_columns_are_new_segments_whatever_their_type(columns):
    cal = SplineCalibrator().fit(
        columns["p"], columns["y"], by=np.array(["x", "y"])[segments(columns)]
    )
    missing = pd.DataFrame({"p": columns["p"], "s": np.full(len(columns["p"]), np.nan)})
    with pytest.warns(
        UserWarning, match="200 of 200 rows are of segments that the fit has not seen"
    ):
        found = apply_frame(missing, cal, score="p", by="s")
    relation = duckdb.connect().sql("SELECT 0.4 AS p, NULL AS s")
    with pytest.warns(UserWarning, match="not seen"):
        wanted = cal.calibrate(columns["p"], by=[None] * 200)
    np.testing.assert_allclose(found["calibrated"], wanted, rtol=0, atol=1e-9)
    assert (
        apply_frame(
            relation.select("p, CAST(s AS VARCHAR) AS s"), cal, score="p", by="s"
        ).fetchall()[0][2]
        > 0
    )
