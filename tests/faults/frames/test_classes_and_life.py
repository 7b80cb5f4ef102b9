from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from calspline import SplineCalibrator, apply_frame, fit_frame
from calspline.fitting import newton

ABC = ["a", "b", "c"]


def test_36_37_38_read_only_and_strided_columns_are_left_as_they_were(columns, same):
    wide = {name: np.repeat(values, 2)[::2] for name, values in columns.items()}
    for values in wide.values():
        values.flags.writeable = False
    frame = pd.DataFrame(wide, copy=False)
    before = frame.copy(deep=True)
    found = fit_frame(frame, score="p", label="y", weight="w")
    out = apply_frame(frame, found, score="p")
    same(found, SplineCalibrator().fit(columns["p"], columns["y"], columns["w"]))
    pd.testing.assert_frame_equal(frame, before)
    assert "calibrated" not in frame
    assert out is not frame


def test_38_what_is_passed_in_is_not_changed(box, columns):
    frame = box(columns)
    before = {name: box.column(frame, name).copy() for name in columns}
    found = fit_frame(frame, score="p", label="y", weight="w")
    apply_frame(frame, found, score="p")
    assert len(frame.columns) == 3
    for name, values in before.items():
        np.testing.assert_array_equal(box.column(frame, name), values)


def test_39_a_list_of_one_column_is_that_column(box, columns, same):
    listed = fit_frame(box(columns), score=["p"], label="y")
    same(listed, fit_frame(box(columns), score="p", label="y"))


@pytest.mark.parametrize("multiclass", ["ovr", "structured"])
def test_40_42_rows_that_do_not_sum_to_one(fit, three, multiclass):
    for row in ([0.4, 0.4, 0.4], [0.0, 0.0, 0.0]):
        bad = {name: np.array(values, dtype=float) for name, values in three.items()}
        for name, value in zip(ABC, row, strict=True):
            bad[name][3] = value
        with pytest.raises(ValueError, match=r"sum to one \(within 0.005\)"):
            fit(bad | {"y": three["y"]}, score=ABC, multiclass=multiclass)


@pytest.mark.parametrize("multiclass", ["ovr", "structured"])
def test_41_negative_entries(fit, three, multiclass):
    bad = three | {"a": three["a"].copy(), "b": three["b"].copy()}
    bad["a"][3] = -0.2
    options = {"score": ABC, "multiclass": multiclass}
    if multiclass == "ovr":
        with pytest.raises(
            ValueError,
            match=r"score must be probabilities in \[0, 1\]; column .* has -0.2",
        ):
            fit(bad, scale="logit", **options)
    with pytest.raises(
        ValueError, match=r"probabilities in \[0, 1\]; .*-0.2.*1 of 200 rows"
    ):
        fit(bad, **options)
    logits = three | {name: np.log(three[name]) for name in ABC}
    p = fit(logits, **options).predict_proba(
        np.column_stack([logits[name] for name in ABC])
    )
    np.testing.assert_allclose(p.sum(axis=1), 1.0)


@pytest.mark.parametrize("multiclass", ["ovr", "structured"])
def test_43_a_class_without_rows(box, fit, three, multiclass):
    y = np.where(three["y"] == 2, 1, three["y"])
    found = fit(three | {"y": y}, score=ABC, multiclass=multiclass)
    assert found.classes_.tolist() == [0, 1, 2]
    out = apply_frame(box(three), found, score=ABC)
    p = np.column_stack([box.column(out, f"calibrated_{k}") for k in range(3)])
    np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-9)
    assert p.min() > 0


def test_46_applying_before_fitting(box, columns):
    with pytest.raises(
        ValueError, match="calibrator must be fitted; this SplineCalibrator is not"
    ):
        apply_frame(box(columns), SplineCalibrator(), score="p")


def test_47_48_a_refit_and_a_clone_are_fresh_fits(fit, columns, same):
    found = fit(columns)
    same(fit(columns), found)
    same(clone(found).fit(columns["p"], columns["y"]), found)


def test_49_the_global_random_state_is_left_alone(fit, three):
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    fit(three, score=ABC)
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


def test_51_sixteen_threads_agree(columns, fitted):
    frame = pd.DataFrame(columns)
    expected = fitted.calibrate(columns["p"])
    with ThreadPoolExecutor(16) as pool:
        for out in pool.map(
            lambda _: apply_frame(frame, fitted, score="p")["calibrated"], range(32)
        ):
            np.testing.assert_array_equal(out, expected)


def test_52_no_convergence(fit, columns, monkeypatch):
    monkeypatch.setattr(newton, "MAX_ITERATIONS", 1)
    with pytest.warns(ConvergenceWarning, match="the fit did not converge"):
        found = fit(columns, smoothing=1e-6)
    assert found.converged_ is False


@pytest.mark.parametrize("multiclass", ["ovr", "structured"])
def test_53_row_order_is_irrelevant(fit, columns, three, same, multiclass):
    order = np.random.default_rng(0).permutation(200)
    same(
        fit({name: values[order] for name, values in columns.items()}, weight="w"),
        fit(columns, weight="w"),
    )
    p = np.column_stack([three[name] for name in ABC])
    options = {"score": ABC, "multiclass": multiclass}
    shuffled = fit(
        {name: values[order] for name, values in three.items()}, **options
    ).predict_proba(p)
    np.testing.assert_allclose(
        shuffled, fit(three, **options).predict_proba(p), rtol=0, atol=1e-9
    )


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"smoothing": -1.0}, ValueError, "smoothing must be"),
        ({"n_knots": 1}, ValueError, "n_knots must be"),
        (
            {"missing": "ignore"},
            ValueError,
            "missing must be one of 'error', 'drop'; got 'ignore'",
        ),
        (
            {"positive": 7},
            ValueError,
            "positive must be a label; column 'y' has 0, 1, not 7",
        ),
        (
            {"score": "q"},
            ValueError,
            "score must be a column of frame; there is no 'q'",
        ),
        ({"score": 3}, TypeError, "score must be the name of a column"),
        ({"score": []}, ValueError, "score must name at least one column"),
        (
            {"label": "q"},
            ValueError,
            "label must be a column of frame; there is no 'q'",
        ),
        (
            {"label": None},
            TypeError,
            "label must be the name of a column; got NoneType",
        ),
        (
            {"weight": "q"},
            ValueError,
            "weight must be a column of frame; there is no 'q'",
        ),
    ],
    ids=lambda v: str(v) if isinstance(v, dict) else "",
)
def test_54_a_wrong_option_is_an_error_that_names_it(
    fit, columns, options, error, message
):
    with pytest.raises(error, match=message):
        fit(columns, **options)


def test_59_missing_values_are_counted_and_dropped_on_request(fit, columns, same):
    bad = {name: values.astype(float) for name, values in columns.items()}
    bad["p"][[3, 7]], bad["w"][1] = np.nan, np.nan
    with pytest.raises(ValueError, match="found 2 of 200 in 'p', 1 of 200 in 'w'"):
        fit(bad, weight="w")
    whole = np.setdiff1d(np.arange(200), [1, 3, 7])
    wanted = SplineCalibrator().fit(*(columns[name][whole] for name in ("p", "y", "w")))
    same(fit(bad | {"y": columns["y"]}, weight="w", missing="drop"), wanted)


@pytest.mark.parametrize(
    "name",
    [
        'a"b',
        "it's",
        "x; DROP TABLE t; --",
        "a\\",
        "/* */",
        "new\nline",
        "`tick`",
        "ü ☃",
    ],
)
def test_62_names_are_quoted(box, columns, name):
    made = {name: columns["p"], f"{name}2": columns["y"], "p": columns["w"]}
    found = fit_frame(box(made), score=name, label=f"{name}2")
    out = apply_frame(box(made), found, score=name, output=f"{name}3")
    np.testing.assert_allclose(
        box.column(out, f"{name}3"), found.calibrate(columns["p"]), rtol=0, atol=1e-9
    )


def test_62_class_labels_are_only_names(box, three):
    names = np.array(["a' OR 1=1; --", 'b"); DROP TABLE t; --', "c\\"])
    made = {name: three[column] for name, column in zip(names, ABC, strict=True)} | {
        "y": names[three["y"]]
    }
    found = fit_frame(box(made), score=list(names), label="y", multiclass="ovr")
    out = apply_frame(box(made), found, score=list(names))
    p = np.column_stack([box.column(out, f"calibrated_{name}") for name in names])
    np.testing.assert_allclose(
        p,
        found.predict_proba(np.column_stack([three[k] for k in ABC])),
        rtol=0,
        atol=1e-9,
    )


@pytest.mark.parametrize(
    "box", ["pandas", "polars", "pyarrow", "duckdb"], indirect=True
)
def test_63_every_engine_agrees_with_arrays(fit, apply, columns, same):
    found = fit(columns, weight="w")
    same(found, SplineCalibrator().fit(columns["p"], columns["y"], columns["w"]))
    grid = np.concatenate([[0.0, 1.0, 5e-324], np.linspace(0, 1, 101)])
    np.testing.assert_allclose(
        apply(found, grid), found.calibrate(grid), rtol=0, atol=1e-9
    )
