"""What scores, columns, weights and groups mean in frames is never changed in silence."""

import numpy as np
import pytest
from tests.faults.frames.conftest import changed, ternary

from calspline import SplineCalibrator, apply_frame

ABC = ["a", "b", "c"]
BOTH = pytest.mark.parametrize("multiclass", ["structured", "ovr"])


def test_03a_rounding_is_clipped(box, fit, apply, columns, fitted, same):
    exact = changed(changed(columns, "p", 0, 0.0), "p", 1, 1.0)
    rounded = changed(changed(columns, "p", 0, -9e-5), "p", 1, 1 + 1e-12)
    found = fit(rounded)
    assert found.model_.kind.value_kind == "probability"
    same(found, fit(exact))
    np.testing.assert_array_equal(
        apply(fitted, rounded["p"]), apply(fitted, exact["p"])
    )


@BOTH
def test_29a_labels_from_1_with_a_class_absent_do_not_shift_columns(
    fit, three, multiclass
):
    y = np.where(three["y"] == 2, 1, three["y"])
    with pytest.raises(
        ValueError,
        match=r"label shows 2 of the classes of 3 columns.*from 0 to 2 or from 1 to 3",
    ):
        fit(three | {"y": y + 1}, score=ABC, multiclass=multiclass)
    named = {"3": three["c"], "1": three["a"], "2": three["b"], "y": y + 1}
    found = fit(named, score=["3", "1", "2"], multiclass=multiclass)
    assert found.classes_.tolist() == [1, 2, 3]
    p = np.column_stack([three[name] for name in ABC])
    plain = SplineCalibrator(multiclass=multiclass).fit(p, y)
    np.testing.assert_allclose(
        found.predict_proba(p), plain.predict_proba(p), rtol=0, atol=1e-9
    )


@pytest.mark.parametrize(
    "labels", [[0, 1], [0.0, 1.0], [False, True], ["0", "1"]], ids=str
)
@pytest.mark.parametrize(
    "names", [["0", "1"], ["p_0.0", "p_1.0"], ["x.false", "x.true"]], ids=str
)
def test_29b_columns_are_named_by_value(box, fit, columns, same, labels, names):
    if isinstance(labels[0], str) and "false" in names[0]:
        return  # the text "1" is no boolean
    frame = {
        names[1]: columns["p"],
        names[0]: 1 - columns["p"],
        "y": np.array(labels)[columns["y"]],
    }
    found = fit(frame, score=names[::-1])
    same(found, SplineCalibrator().fit(columns["p"], columns["y"]))
    if box.kind != "duckdb":  # which takes one column for two classes
        out = apply_frame(box(frame), found, score=names[::-1])
        np.testing.assert_allclose(
            box.column(out, "calibrated"),
            found.calibrate(columns["p"]),
            rtol=0,
            atol=1e-9,
        )


def test_29b_names_of_some_classes_only(fit, three):
    with pytest.raises(
        ValueError, match="must be named after the classes, or none of them"
    ):
        fit(
            {"0": three["a"], "1": three["b"], "other": three["c"], "y": three["y"]},
            score=["0", "1", "other"],
        )


@pytest.mark.parametrize(
    ("multiclass", "said"),
    [
        ("structured", "right in .*less often than by chance"),
        ("ovr", "scores are lower where the class is|right in .*less often"),
    ],
)
def test_29c_shuffled_columns_get_a_warning(fit, multiclass, said):
    with pytest.warns(UserWarning, match=said):
        fit(ternary(600), score=["b", "c", "a"], multiclass=multiclass)


@pytest.mark.parametrize("multiclass", ["structured", "ovr"])
def test_29d_a_matrix_of_features_is_refused(fit, multiclass):
    X = np.random.default_rng(0).normal(size=(200, 6))
    columns = {f"f{j}": X[:, j] for j in range(6)} | {"y": (X[:, 0] > 0.0).astype(int)}
    message = "score must be one column .* got 6 columns .* label shows 2 classes.*CalibratedClassifierCV"
    with pytest.raises(ValueError, match=message):
        fit(columns, score=[f"f{j}" for j in range(6)], multiclass=multiclass)


WEIGHT = np.random.default_rng(0).uniform(0.5, 1.5, 200)


def test_35b_of_importance_only_ratios_count(fit, columns, same):
    wanted = SplineCalibrator(weights="importance").fit(
        columns["p"], columns["y"], WEIGHT
    )
    for scale in (1.0, 1e-9, 1e9):
        found = fit(columns | {"w": scale * WEIGHT}, weight="w", weights="importance")
        same(found, wanted)
        assert found.n_effective_ == pytest.approx(
            WEIGHT.sum() ** 2 / (WEIGHT @ WEIGHT)
        )


PAIRS = np.arange(200) // 2


@pytest.mark.parametrize("value", [None, np.nan], ids=str)
def test_54a_missing_groups(fit, columns, value):
    names = np.array([f"patient {k}" for k in PAIRS]) if value is None else PAIRS
    with pytest.raises(ValueError, match=r"found 1 of 200 in 'g'.*missing=\"drop\""):
        fit(changed(columns | {"g": names}, "g", 7, value), group="g")


def test_54d_a_model_with_segments_says_that_a_frame_has_none(apply, columns):
    cal = SplineCalibrator().fit(columns["p"], columns["y"], by=PAIRS % 3)
    with pytest.warns(
        UserWarning,
        match="fitted with segments .*all of them get the probability of a new segment",
    ):
        found = apply(cal, columns["p"])
    np.testing.assert_allclose(found, cal.calibrate(columns["p"]), rtol=0, atol=1e-12)
