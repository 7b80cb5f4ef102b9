from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest
from tests.faults.frames.conftest import changed

from calspline import SplineCalibrator, apply_frame, fit_frame


def test_01_nan_scores_are_an_error_at_fit_and_stay_missing_after(
    box, fit, apply, columns, fitted
):
    with pytest.raises(ValueError, match=r"found 1 of 200 in 'p'.*missing=\"drop\""):
        fit(changed(columns, "p", 3, np.nan))
    out = apply(fitted, changed(columns, "p", 3, np.nan)["p"])
    assert np.flatnonzero(np.isnan(out)).tolist() == [3]


def test_02_infinite_scores(fit, apply, columns, fitted):
    for value in (np.inf, -np.inf):
        with pytest.raises(
            ValueError, match=r"score must be finite; column 'p' has -?inf"
        ):
            fit(changed(columns, "p", 3, value))
        with pytest.raises(
            Exception, match=r"score(s)? must be (finite|probabilities)"
        ):
            apply(fitted, changed(columns, "p", 3, value)["p"])


def test_03_scores_outside_the_unit_interval(fit, apply, columns, fitted, same):
    bad = changed(columns, "p", 3, 1.5)
    with pytest.raises(
        ValueError,
        match=r'probabilities in \[0, 1\]; column \'p\' has 1.5.*scale="identity"',
    ):
        fit(bad, scale="logit")
    margins = fit(bad, scale="identity")
    same(margins, SplineCalibrator(scale="identity").fit(bad["p"], bad["y"]), bad["p"])
    with pytest.raises(Exception, match=r"scores? must be probabilities in \[0, 1\]"):
        apply(fitted, bad["p"])


def test_05_an_empty_frame_comes_back_empty_with_the_new_column(box, fitted):
    out = apply_frame(box({"p": np.empty(0)}), fitted, score="p")
    assert list(out.columns if box.kind != "pyarrow" else out.column_names) == [
        "p",
        "calibrated",
    ]
    assert box.column(out, "calibrated").shape == (0,)


def test_06_columns_of_lists(columns):
    frame = pl.DataFrame({"p": [[0.1, 0.9]] * 4, "y": [0, 1, 0, 1]})
    for made in (frame, frame.to_arrow()):
        with pytest.raises(
            TypeError, match="score must be a column of numbers; 'p' is of type List"
        ):
            fit_frame(made, score="p", label="y")


def test_07_complex_scores(columns, fitted):
    frame = pd.DataFrame(columns | {"p": columns["p"] + 0j})
    message = "score 'p' must be real numbers; got dtype complex128"
    with pytest.raises(TypeError, match=message):
        fit_frame(frame, score="p", label="y")
    with pytest.raises(TypeError, match=message):
        apply_frame(frame, fitted, score="p")


def test_08_strings(box, fit, columns, fitted):
    bad = columns | {"p": columns["p"].astype(str)}
    with pytest.raises(
        TypeError, match="score must be a column of numbers; 'p' is of type String"
    ):
        fit(bad)
    with pytest.raises(
        TypeError, match="score must be a column of numbers; 'p' is of type String"
    ):
        apply_frame(box(bad), fitted, score="p")


def test_18_beyond_the_exact_histogram_nothing_grows_with_the_rows(fit, same):
    rng = np.random.default_rng(0)
    p = rng.random(30_000)
    y = (rng.random(30_000) < p).astype(int)
    found = fit({"p": p, "y": y})
    assert len(found.histogram_) <= 2 * 4096
    same(found, SplineCalibrator().fit(p, y))


@pytest.mark.parametrize(
    "box", ["pandas", "polars", "pyarrow", "duckdb"], indirect=True
)
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int64, np.uint8, bool])
def test_19_columns_of_any_number_are_the_values_that_they_hold(
    box, fit, apply, columns, same, dtype
):
    p = (
        np.round(columns["p"]).astype(dtype)
        if dtype in (np.int64, np.uint8, bool)
        else columns["p"].astype(dtype)
    )
    if box.kind == "duckdb" and dtype is np.float16:
        return  # it has no such type
    if box.kind == "duckdb" and dtype is bool:
        with pytest.raises(
            TypeError, match="score must be a column of numbers; 'p' is of type Boolean"
        ):
            fit(columns | {"p": p})
        return
    found = fit(columns | {"p": p})
    same(found, SplineCalibrator().fit(p.astype(float), columns["y"]))
    np.testing.assert_allclose(
        apply(found, p), found.calibrate(p.astype(float)), atol=1e-9
    )


OBJECTS = {
    "floats": float,
    "decimals": lambda value: Decimal(repr(float(value))),
    "numbers of several types": lambda value: (
        Fraction(float(value)) if value < 0.5 else np.float64(value)
    ),
}


@pytest.mark.parametrize("kind", OBJECTS)
@pytest.mark.parametrize("frame_of", ["pandas", "polars"])
def test_19_objects_are_the_numbers_that_they_are_in_arrays(
    columns, fitted, same, frame_of, kind
):
    held = {
        name: np.array([OBJECTS[kind](value) for value in columns[name]], dtype=object)
        for name in ("p", "w")
    }

    def frame(objects):
        if frame_of == "pandas":
            return pd.DataFrame(objects | {"y": columns["y"]})
        series = [
            pl.Series(name, values.tolist(), dtype=pl.Object)
            for name, values in objects.items()
        ]
        return pl.DataFrame([*series, pl.Series("y", columns["y"])])

    found = fit_frame(frame(held), score="p", label="y", weight="w")
    same(found, SplineCalibrator().fit(columns["p"], columns["y"], columns["w"]))
    p = apply_frame(frame(held), fitted, score="p")["calibrated"].to_numpy()
    np.testing.assert_allclose(p, fitted.calibrate(columns["p"]), rtol=0, atol=1e-12)
    held["p"][[3, 5, 7]] = [None, np.nan, pd.NA]
    with pytest.raises(ValueError, match=r"found 3 of 200 in 'p'.*missing=\"drop\""):
        fit_frame(frame(held), score="p", label="y")
    rest = np.delete(np.arange(200), [3, 5, 7])
    same(
        fit_frame(frame(held), score="p", label="y", missing="drop"),
        SplineCalibrator().fit(columns["p"][rest], columns["y"][rest]),
    )
    p = apply_frame(frame(held), fitted, score="p")["calibrated"].to_numpy()
    assert np.flatnonzero(np.isnan(p)).tolist() == [3, 5, 7]
    for wrong in ("0.25", 1j, [0.25], np.array([0.25])):
        held["p"][3] = wrong
        for call in (
            lambda: fit_frame(frame(held), score="p", label="y"),
            lambda: apply_frame(frame(held), fitted, score="p"),
            lambda: fitted.calibrate(held["p"]),
        ):
            with pytest.raises(TypeError, match="must be real numbers; row 3 is"):
                call()
