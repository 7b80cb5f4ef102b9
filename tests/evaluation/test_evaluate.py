import dataclasses
import json
import math

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

from calspline import compare, evaluate


def same(a, b, rel=1e-9, but=()):
    a, b = a.to_dict(), b.to_dict()
    assert a.keys() == b.keys()
    for name in a.keys() - set(but):
        assert a[name] == pytest.approx(b[name], rel=rel, abs=1e-12, nan_ok=True), name


@pytest.mark.parametrize("kind", ["binary", "multiclass"])
def test_the_order_of_rows_does_not_matter(binary, multiclass, weights, kind):
    p, y = (
        binary(300, ties=True, slope=2.0)
        if kind == "binary"
        else multiclass(300, sharpness=2.0)
    )
    w = weights(300)
    order = np.random.default_rng(0).permutation(300)
    same(
        evaluate(y, p, sample_weight=w),
        evaluate(y[order], p[order], sample_weight=None if w is None else w[order]),
    )


@pytest.mark.parametrize("kind", ["binary", "multiclass"])
def test_a_weight_counts_as_that_many_rows_and_zero_as_none(binary, multiclass, kind):
    p, y = (
        binary(300, slope=2.0) if kind == "binary" else multiclass(300, sharpness=2.0)
    )
    w = np.random.default_rng(0).integers(0, 4, 300)
    weighted, repeated = (
        evaluate(y, p, sample_weight=w),
        evaluate(np.repeat(y, w), np.repeat(p, w, axis=0)),
    )
    same(weighted, repeated, but=["n_rows"])
    assert weighted.n_rows == np.count_nonzero(w)
    same(weighted, evaluate(y[w > 0], p[w > 0], sample_weight=w[w > 0]))


def test_one_column_two_columns_and_a_frame_are_the_same(binary):
    p, y = binary(200)
    both = np.column_stack([1 - p, p])
    one = evaluate(y, p)
    for probs in (
        p[:, None],
        both,
        p.tolist(),
        pd.Series(p, index=range(5, 205)),
        pl.Series(p),
    ):
        same(one, evaluate(y, probs))
    same(one, evaluate(y, pd.DataFrame({"1": p, "0": 1 - p})))


def test_labels_of_any_type_give_the_same(binary):
    p, y = binary(200)
    one = evaluate(y, p)
    for labels in (["no", "yes"], [False, True], [-1.0, 1.0], [1, 2]):
        named = evaluate(np.array(labels)[y], p)
        same(one, named)
        assert named.classes == tuple(labels)
    assert evaluate(pd.Categorical.from_codes(y, ["a", "b"]), p).classes == ("a", "b")


def test_labels_give_the_order_of_the_columns(multiclass):
    p, y = multiclass(200, m=3)
    names = np.array(["low", "mid", "high"])
    one, named = evaluate(y, p), evaluate(names[y], p, labels=names)
    same(one, named)
    assert named.classes == ("low", "mid", "high")
    assert list(named.per_class) == ["low", "mid", "high"]
    same(
        evaluate([1, 0, 1], [0.2, 0.3, 0.4]),
        evaluate(["a", "b", "a"], [0.2, 0.3, 0.4], labels=["b", "a"]),
    )


def test_rows_of_one_class_work_where_the_classes_are_known():
    for e in (
        evaluate([0, 0], [0.1, 0.3]),
        evaluate([False, False], [0.1, 0.3]),
        evaluate(["b", "b"], [0.1, 0.3], labels=["b", "a"]),
        evaluate([-1, -1], [0.1, 0.3], labels=[-1, 1]),
    ):
        assert e.brier == pytest.approx(0.05)
        assert math.isnan(e.auc)
        assert "AUC" in str(e)
    assert evaluate([2, 2], [[0.2, 0.3, 0.5]] * 2).accuracy == 1.0


def test_one_row_is_enough():
    e = evaluate([1], [0.25])
    assert e.brier == 0.5625
    assert e.log_loss == pytest.approx(math.log(4))
    assert e.calibration_p_value > 0.2


def test_it_is_flat_and_plain(binary, multiclass):
    for p, y in (binary(100), multiclass(100)):
        numbers = evaluate(y, p).to_dict()
        assert all(type(value) is float for value in numbers.values())
        json.dumps(numbers)
    assert {
        "class_wise_ece",
        "class_wise_smooth_ece",
        "class_wise_p_value",
        "top_label_p_value",
    } <= numbers.keys()


def test_it_is_frozen(binary):
    p, y = binary(50)
    with pytest.raises(dataclasses.FrozenInstanceError):
        evaluate(y, p).log_loss = 0.0


def test_the_table_shows_the_numbers(binary, multiclass):
    for p, y in (binary(100, slope=2.0), multiclass(100, sharpness=2.0)):
        e = evaluate(y, p)
        first = (e.log_loss, e.calibration_log_loss, e.brier, e.auc)
        for value in first:
            assert f"{value:.4f}" in str(e)
        for value in (*first, e.refinement_brier, e.smooth_ece, e.base_rate):
            assert f"{value:.4f}" in e.details()
        assert str(e).splitlines()[1] == e.verdict
        low, high = e.limits["auc"]
        assert f"{low:.4f} to {high:.4f}" in str(e)
        assert "<td" in e._repr_html_()
        assert f"{e.log_loss:.4f}" in e._repr_html_()
        assert f"log_loss={e.log_loss:.4g}" in repr(e)


def test_two_classes_have_no_top_label_and_class_wise_numbers_are_their_own(binary):
    p, y = binary(100)
    e = evaluate(y, p)
    assert e.top_label is None
    assert not e.per_class
    assert (e.class_wise_ece, e.class_wise_p_value, e.top_label_p_value) == (
        e.ece,
        e.calibration_p_value,
        e.calibration_p_value,
    )


@pytest.mark.filterwarnings("ignore:sample_weight sums to")
def test_nothing_passed_in_is_changed(multiclass):
    p, y = multiclass(100)
    w = np.arange(100.0)
    before = p.copy(), y.copy(), w.copy()
    for array in (p, y, w):
        array.flags.writeable = False
    evaluate(y, p, sample_weight=w)
    for array, copy in zip((p, y, w), before, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_decisions_instead_of_probabilities_give_a_warning(binary):
    p, y = binary(100)
    for weight in (None, np.full(100, 2.0), np.linspace(0.5, 1.5, 100)):
        with pytest.warns(UserWarning, match="only 0 and 1, .* those of predict_proba"):
            evaluate(y, p > 0.5, sample_weight=weight)


def test_columns_in_the_wrong_order_give_a_warning(multiclass):
    p, y = multiclass(600)
    shuffled = np.roll(p, 1, axis=1)
    advice = "right in .*less often than by chance .*not in the order of the classes"
    with pytest.warns(UserWarning, match=f"in probs, .*{advice}"):
        evaluate(y, shuffled)
    sets = {"right": p, "shuffled": shuffled}
    with pytest.warns(UserWarning, match="shuffled") as found:
        compare(y, sets)
    assert len(found) == 1
    groups = np.arange(600) // 300  # two groups are no evidence
    evaluate(y, shuffled, groups=groups)


def test_a_warning_about_a_set_whose_name_has_braces(binary, multiclass):
    p, y = binary(200)
    with pytest.warns(UserWarning, match=r'predictions\["\{a\}"\] are lower'):
        compare(y, {"{a}": 1.0 - p})
    p, y = multiclass(600)
    with pytest.warns(UserWarning, match=r'in predictions\["\{a\}"\], the class'):
        compare(y, {"{a}": np.roll(p, 1, axis=1)})


def test_the_most_probable_class_is_blamed_only_if_its_test_rejects():
    rng = np.random.default_rng(1)
    top = rng.uniform(0.5, 0.9, 3000)
    p = np.column_stack([top, 0.9 * (1.0 - top), 0.1 * (1.0 - top)])
    u = rng.random(3000)
    y = np.where(u < top, 0, np.where(u < top + 0.5 * (1.0 - top), 1, 2))
    found = evaluate(y, p)
    assert found.top_label_p_value > 0.05 > found.calibration_p_value
    start = "The probabilities of some classes are miscalibrated (p "
    assert found.verdict.startswith(start)
    y = np.where(u < top**4, 0, 1)
    found = evaluate(y, p)
    start = "The probabilities of the most probable class are over-confident (p "
    assert found.verdict.startswith(start)


def test_narrow_floats_are_their_values(binary):
    p, y = binary(100)
    narrow = p.astype(np.float32)
    same(evaluate(y, narrow), evaluate(y, narrow.astype(float)), rel=0)


ODD = {
    "denormal": np.full(60, 5e-324),
    "next to zero": np.linspace(0, 1e-300, 60),
    "next to one": 1 - np.linspace(0, 1e-16, 60),
    "only 0 and 1": np.tile([0.0, 1.0], 30),
    "constant": np.full(60, 0.3),
    "all but equal": 0.5 + np.linspace(0, 1e-15, 60),
    "extreme": 1 / (1 + np.exp(-np.linspace(-300, 300, 60))),
}


@pytest.mark.filterwarnings("ignore:sample_weight sums to")
@pytest.mark.filterwarnings("ignore:probs are only 0 and 1")
@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("weight", [None, 1e13, 1e-10, "mixed"])
def test_odd_probabilities_and_weights_have_finite_scores(name, weight):
    rng = np.random.default_rng(0)
    if weight is not None:
        weight = (
            10.0 ** rng.uniform(-200, 13, 60)
            if weight == "mixed"
            else np.full(60, weight)
        )
    e = evaluate(rng.integers(2, size=60), ODD[name], sample_weight=weight)
    may_be_none = {"auc", "calibration_in_the_large", "calibration_slope"}
    may_be_none |= {f"{name}_se" for name in may_be_none}
    numbers = {
        key: value
        for key, value in e.to_dict().items()
        if key not in may_be_none and not key.endswith(("_lower", "_upper"))
    }
    assert np.isfinite(list(numbers.values())).all()
    assert 0 <= e.calibration_p_value <= 1


Y, P = [0, 1, 1, 0], [0.1, 0.6, 0.7, 0.4]
BAD = {
    "NaN": (Y, [0.1, np.nan, 0.7, 0.4], {}, "probs must be finite; row 1 is nan"),
    "outside": (
        Y,
        [0.1, 0.2, 1.5, 0.4],
        {},
        r"probs must be probabilities in \[0, 1\]; row 2 is 1.5",
    ),
    "outside in a matrix": (
        Y,
        [[0.1, 0.9], [-0.1, 1.1], [0.5, 0.5], [1, 0]],
        {},
        "probs must be .* row 1 is -0.1",
    ),
    "sums": (
        Y,
        [[0.1, 0.9], [0.5, 0.2], [0.5, 0.5], [1, 0]],
        {},
        "probs must sum to one .* row 1 sums to 0.7",
    ),
    "empty": ([], [], {}, "probs must have at least one row"),
    "no columns": (Y, np.empty((4, 0)), {}, "one column"),
    "three dimensions": (
        Y,
        np.zeros((4, 1, 1)),
        {},
        "probs must have one or two dimensions",
    ),
    "sparse": (Y, sparse.csr_array(np.eye(4)), {}, "probs must be a dense array"),
    "strings": (Y, ["0.1"] * 4, {}, "probs must be real numbers"),
    "lengths": ([0, 1], P, {}, "probs and y must have the same length; got 4 and 2"),
    "a list of sets": (
        Y,
        [P, P],
        {},
        "probs and y must have the same length; got 2 and 4",
    ),
    "margins": (
        Y,
        [-1.2, 0.3, 2.0, -0.4],
        {},
        "Margins, .* must be calibrated first, by SplineCalibrator for example",
    ),
    "missing label": (
        [0, 1, None, 0],
        P,
        {},
        "y has missing labels; the first is in row 2",
    ),
    "three labels": ([0, 1, 2, 0], P, {}, "y must have two classes"),
    "continuous labels": ([0.1, 0.2, 0.3, 0.4], P, {}, "class labels"),
    "one unknown class": (
        ["a"] * 4,
        P,
        {},
        "y shows one class, 'a'; name both with labels",
    ),
    "label not in labels": (
        ["a", "b", "c", "a"],
        P,
        {"labels": ["a", "b"]},
        "row 2 is .*'c'",
    ),
    "too few labels": (Y, P, {"labels": [0]}, "labels must be 2 different classes"),
    "repeated labels": (Y, P, {"labels": [0, 0]}, "labels must be 2 different classes"),
    "labels no list": (Y, P, {"labels": 3}, "labels must"),
    "classes and columns": (
        ["a", "b", "a", "b"],
        [[0.2, 0.3, 0.5]] * 4,
        {},
        "as many classes as probs has columns",
    ),
    "negative weight": (
        Y,
        P,
        {"sample_weight": [1, 1, -1, 1]},
        "sample_weight must not be negative; row 2",
    ),
    "no weight": (
        Y,
        P,
        {"sample_weight": [0, 0, 0, 0]},
        "sample_weight must not be all zero",
    ),
    "too much weight": (
        Y,
        P,
        {"sample_weight": [1e15] * 4},
        "sample_weight counts rows, .* 1e\\+15; got 4e\\+15",
    ),
    "too little weight": (
        Y,
        P,
        {"sample_weight": [1e-12] * 4},
        "sample_weight counts rows, .* 1e-09",
    ),
    "weight lengths": (
        Y,
        P,
        {"sample_weight": [1]},
        "probs and sample_weight must have the same length; got 4 and 1",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_named(name):
    y, probs, options, message = BAD[name]
    with pytest.raises((ValueError, TypeError), match=message):
        evaluate(y, probs, **options)
