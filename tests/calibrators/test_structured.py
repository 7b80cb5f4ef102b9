from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.special import log_softmax, softmax
from sklearn.exceptions import NotFittedError
from sklearn.metrics import accuracy_score, log_loss

from calspline import SplineCalibrator, load, save
from calspline._codec import from_json, to_json
from calspline.fits import structured as structured_fit
from calspline.maps.structured import StructuredMap


def simulate(n, m=4, seed=0, sharpness=2.5):
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 1.2, (n, m)) + np.linspace(0.5, -0.5, m)
    truth = softmax(logits, axis=1)
    y = (truth.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    return softmax(sharpness * logits, axis=1), y, truth


P, Y, _ = simulate(1200)
Q, Z, _ = simulate(3000, seed=1)


def test_a_distorted_model_is_set_right():
    cal = SplineCalibrator().fit(P, Y)
    out = cal.predict_proba(Q)
    assert log_loss(Z, out) < log_loss(Z, Q) - 0.2
    assert log_loss(Z, out) < log_loss(
        Z, SplineCalibrator(multiclass="ovr").fit(P, Y).predict_proba(Q)
    )
    assert (
        accuracy_score(Z, cal.predict(Q)) >= accuracy_score(Z, Q.argmax(axis=1)) - 0.01
    )
    np.testing.assert_allclose(out.sum(axis=1), 1.0, atol=1e-12)
    np.testing.assert_array_equal(cal.calibrate(Q), out)


def test_the_probabilities_are_the_formula_of_the_map():
    cal = SplineCalibrator().fit(P, Y)
    s = cal.structure_
    tempered = softmax(s.scale.beta * np.maximum(np.log(Q), s.scale.floor), axis=1)
    u = np.log((1 - s.scale.uniform) * tempered + s.scale.uniform / 4)
    expected = softmax(s.curve(u) + u @ s.W.T + s.b, axis=1)
    np.testing.assert_allclose(cal.predict_proba(Q), expected, atol=1e-9)


@pytest.mark.parametrize("multiclass", ["structured", "ovr"])
def test_the_order_of_rows_and_classes_does_not_matter(multiclass):
    cal = SplineCalibrator(multiclass=multiclass).fit(P, Y)
    order = np.random.default_rng(0).permutation(len(P))
    shuffled = SplineCalibrator(multiclass=multiclass).fit(P[order], Y[order])
    np.testing.assert_allclose(
        shuffled.predict_proba(Q), cal.predict_proba(Q), atol=1e-9
    )
    turn = np.array([2, 0, 3, 1])
    turned = SplineCalibrator(multiclass=multiclass).fit(
        P[:, turn], np.argsort(turn)[Y]
    )
    np.testing.assert_allclose(
        turned.predict_proba(Q[:, turn]), cal.predict_proba(Q)[:, turn], atol=1e-8
    )


@pytest.mark.parametrize("multiclass", ["structured", "ovr"])
def test_integer_weights_are_repetitions(multiclass):
    w = np.random.default_rng(1).integers(0, 3, len(P))
    weighted = SplineCalibrator(multiclass=multiclass).fit(P, Y, w)
    repeated = SplineCalibrator(multiclass=multiclass).fit(
        np.repeat(P, w, axis=0), np.repeat(Y, w)
    )
    np.testing.assert_allclose(
        weighted.predict_proba(Q), repeated.predict_proba(Q), atol=1e-8
    )


@pytest.mark.parametrize("scale", ["auto", "identity"])
def test_logits_are_calibrated_whatever_constant_a_row_carries(scale):
    logits, shift = np.log(P), np.random.default_rng(0).normal(0, 30, (len(P), 1))
    by_logits = SplineCalibrator(scale=scale).fit(logits + shift, Y)
    plain = SplineCalibrator(scale=scale).fit(logits, Y)
    np.testing.assert_allclose(
        by_logits.predict_proba(np.log(Q) + 7.0),
        plain.predict_proba(np.log(Q)),
        atol=1e-7,
    )


@pytest.mark.parametrize("seed", range(3))
def test_monotone_keeps_every_ranking_and_the_accuracy(seed):
    p, y, _ = simulate(400, m=6, seed=seed)
    y[:150] = np.random.default_rng(seed).integers(0, 6, 150)
    p[:5] = 1 / 6
    cal = SplineCalibrator(monotone=True).fit(p, y)
    assert cal.structure_.W is None
    q, z, _ = simulate(2000, m=6, seed=seed + 50)
    out = cal.predict_proba(q)
    order = np.argsort(q, axis=1, kind="stable")
    assert np.diff(np.take_along_axis(out, order, axis=1), axis=1).min() >= 0.0
    assert accuracy_score(z, cal.predict(q)) == accuracy_score(z, q.argmax(axis=1))
    assert log_loss(z, out) < log_loss(z, q)


def test_monotone_bends_a_curve_that_would_turn():
    rng = np.random.default_rng(0)
    p = softmax(rng.normal(0, 3, (1500, 3)), axis=1)
    top = p.max(axis=1)
    wrong = (top > 0.55) & (top < 0.75)  # less right where it is moderately sure
    y = np.where(wrong, p.argmin(axis=1), p.argmax(axis=1))
    free, held = SplineCalibrator().fit(p, y), SplineCalibrator(monotone=True).fit(p, y)
    grid = np.linspace(-6, 0, 2000)
    assert free.structure_.slope(grid).min() < 0
    assert held.structure_.slope(grid).min() > 0


def test_rounding_in_a_monotone_row_is_undone():
    from calspline.maps.structured import _keep_ranking

    scores = np.array([[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]])
    p = np.array([[0.3, 0.3 - 1e-16, 0.4], [0.1, 0.1, 0.8]])
    _keep_ranking(scores, p)
    assert np.all(np.diff(p[0]) >= 0)
    assert p[1].tolist() == [0.1, 0.1, 0.8]


@pytest.mark.slow
@pytest.mark.parametrize("multiclass", ["structured", "ovr"])
def test_fewer_rows_than_ten_per_class_do_not_hurt(multiclass):
    changes = []
    for seed in range(12):
        p, y, _ = simulate(36, m=6, seed=seed, sharpness=1.0)  # already calibrated
        q, z, _ = simulate(2000, m=6, seed=seed + 100, sharpness=1.0)
        out = SplineCalibrator(multiclass=multiclass).fit(p, y).predict_proba(q)
        changes.append(log_loss(z, out) - log_loss(z, q))
    assert np.mean(changes) < (0.06 if multiclass == "structured" else 0.25)


@pytest.mark.parametrize("multiclass", ["structured", "ovr"])
def test_a_class_without_rows_keeps_a_sensible_probability(multiclass):
    y = np.where(Y == 2, 1, Y)
    cal = SplineCalibrator(multiclass=multiclass).fit(P, y)
    assert cal.classes_.tolist() == [0, 1, 2, 3]
    out = cal.predict_proba(Q)
    assert np.all(out > 0)
    assert out[:, 2].mean() < 0.05


def test_a_class_never_predicted_and_exact_zeros_are_finite():
    p = P.copy()
    p[:, 3] = 0.0
    p[:100] = np.eye(4)[p[:100].argmax(axis=1)]
    p /= p.sum(axis=1, keepdims=True)
    out = SplineCalibrator().fit(p, Y).predict_proba(p)
    assert np.isfinite(out).all()
    assert out.min() > 0
    assert out[:, 3].mean() == pytest.approx(np.mean(Y == 3), abs=0.05)


@pytest.mark.parametrize(
    ("joint", "matrix"), [(0, 1e18), (0, 0)], ids=["matrix by L-BFGS", "diagonal only"]
)
def test_the_ways_for_many_classes_calibrate_too(monkeypatch, joint, matrix):
    together = SplineCalibrator().fit(P, Y).predict_proba(Q)
    monkeypatch.setattr(structured_fit, "JOINT_COST", joint)
    monkeypatch.setattr(structured_fit, "MATRIX_COST", matrix)
    cal = SplineCalibrator().fit(P, Y)
    assert cal.structure_.W.ndim == (2 if matrix else 1)
    assert log_loss(Z, cal.predict_proba(Q)) == pytest.approx(
        log_loss(Z, together), abs=0.01
    )
    back = from_json(StructuredMap, to_json(cal.structure_))
    assert repr(back) == repr(cal.structure_)


def test_large_arrays_and_small_ones_agree():
    cal = SplineCalibrator().fit(P, Y)
    many = np.tile(Q, (100, 1))
    assert many.size > 1 << 20
    np.testing.assert_array_equal(cal.predict_proba(many)[:3000], cal.predict_proba(Q))
    narrow = Q.astype(np.float32)
    np.testing.assert_allclose(
        cal.predict_proba(narrow), cal.predict_proba(narrow.astype(float)), atol=1e-12
    )


def test_enormous_exponents_do_not_overflow():
    s = SplineCalibrator().fit(P, Y).structure_
    steep = StructuredMap(
        s.scale, s.breaks, 500 * s.coefficients, s.W, s.b, s.strengths, s.effective
    )
    cal = SplineCalibrator().fit(P, Y)
    cal.model_ = replace(cal.model_, map=steep)
    out = cal.predict_proba(Q)
    assert np.isfinite(out).all()


@pytest.mark.parametrize("multiclass", ["structured", "ovr"])
@pytest.mark.parametrize("monotone", [False, True])
def test_save_and_load_are_exact(tmp_path, multiclass, monotone):
    labels = np.array(["ant", "bee", "cat", "dog"])[Y]
    cal = SplineCalibrator(multiclass=multiclass, monotone=monotone).fit(P, labels)
    save(cal, tmp_path / "m.json")
    back = load(tmp_path / "m.json")
    np.testing.assert_array_equal(back.predict_proba(Q), cal.predict_proba(Q))
    np.testing.assert_array_equal(back.predict(Q), cal.predict(Q))
    assert back.summary() == cal.summary()
    with pytest.raises(ValueError, match="two classes"):
        back.partial_fit(P, labels)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
def test_columns_named_after_the_classes_are_matched(make):
    names = np.array(["ant", "bee", "cat", "dog"])
    straight = SplineCalibrator().fit(P, names[Y])
    turned = make({names[j]: P[:, j] for j in (2, 0, 3, 1)})
    cal = SplineCalibrator().fit(turned, names[Y])
    assert cal.classes_.tolist() == names.tolist()
    np.testing.assert_allclose(
        cal.predict_proba(turned), straight.predict_proba(P), atol=1e-9
    )
    # names tell of a class that no row shows
    some = Y != 2
    absent = SplineCalibrator().fit(
        turned[some] if make is pd.DataFrame else turned.filter(some), names[Y[some]]
    )
    assert absent.classes_.tolist() == names.tolist()


@pytest.mark.parametrize(
    "labels",
    [["a", "b", "c", "d"], [1, 2, 3, 4], [10, 20, 30, 40], [0.0, 1.0, 2.0, 3.0]],
    ids=str,
)
def test_labels_of_any_type(labels):
    cal = SplineCalibrator().fit(P, np.array(labels)[Y])
    np.testing.assert_array_equal(cal.classes_, labels)
    np.testing.assert_allclose(
        cal.predict_proba(Q), SplineCalibrator().fit(P, Y).predict_proba(Q), atol=1e-12
    )
    np.testing.assert_array_equal(
        cal.predict(Q), np.array(labels)[cal.predict_proba(Q).argmax(axis=1)]
    )


def test_a_refit_forgets_the_other_kind():
    cal = SplineCalibrator().fit(P, Y)
    assert "matrix: strength" in cal.summary()
    cal.fit(P[:, 0], Y == 0)
    assert not hasattr(cal, "structure_")
    assert cal.calibrate([0.5]).shape == (1,)
    cal.fit(P, Y)
    assert not hasattr(cal, "histogram_")
    ovr = SplineCalibrator(multiclass="ovr").fit(P, Y)
    assert ovr.summary().count("effective degrees of freedom") == 4
    assert "not used" in SplineCalibrator(monotone=True).fit(P, Y).summary()


def test_a_number_as_smoothing_is_the_strength_of_the_curve():
    stiff, loose = (SplineCalibrator(smoothing=s).fit(P, Y) for s in (1e9, 1e-3))
    grid = np.linspace(-5, 0, 50)
    assert np.abs(np.diff(stiff.structure_.slope(grid))).max() < 1e-4
    assert np.abs(np.diff(loose.structure_.slope(grid))).max() > 1e-2
    assert SplineCalibrator(n_knots=6).fit(P, Y).structure_.breaks.size <= 12


FAULTS = [
    ([*P[:, :2].tolist(), [0.5, 0.5, 0.5]], Y, "equal length"),
    (P * 0.9, Y, r"each row of scores must sum to one \(within 0.005\); row 0"),
    (np.zeros_like(P), Y, "row 0 sums to 0"),
    (np.where(P[3, 2] == P, np.nan, P), Y, "finite; row 3"),
    (P, Y[:5], "same length"),
    (P, np.zeros(len(P), int), "every row is 0"),
    (P, np.where(Y == 0, 1, Y) + 0.5, "continuous"),
    (P, np.array(["a", "b", "c", "c"])[Y], "3 classes for 4 columns"),
]


@pytest.mark.parametrize(("scores", "y", "message"), FAULTS, ids=lambda v: str(v)[:20])
def test_bad_input_is_named(scores, y, message):
    for multiclass in ("structured", "ovr"):
        with pytest.raises((ValueError, TypeError), match=message):
            SplineCalibrator(multiclass=multiclass).fit(scores, y)


def test_a_negative_entry_is_an_error_where_probabilities_are_wanted():
    with pytest.raises(ValueError, match=r"\[0, 1\]; row 0"):
        SplineCalibrator(multiclass="ovr", scale="logit").fit(
            np.where(np.arange(4) == 1, -0.1, P), Y
        )
    cal = SplineCalibrator().fit(P, Y)
    with pytest.raises(ValueError, match=r"\[0, 1\]; row 0"):
        cal.predict_proba(P - 0.5)
    with pytest.raises(ValueError, match="4 columns, one for each class"):
        cal.predict_proba(P[:, :3])
    with pytest.raises(ValueError, match="4 columns, one for each class"):
        cal.interval(P[:, :3])
    with pytest.raises(NotFittedError):
        SplineCalibrator().predict_proba(P)
    assert cal.predict_proba(np.empty((0, 4))).shape == (0, 4)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("scale", "logit"),
        ("penalty", "ridge"),
        ("loss", "brier"),
        ("smoothing", "cv"),
        ("knots", "sample"),
    ],
)
def test_options_a_structured_fit_would_ignore_are_errors(option, value):
    with pytest.raises(ValueError, match=option):
        SplineCalibrator(**{option: value}).fit(P, Y)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scale": {"beta": -1.0}}, "scale.beta must be a number in"),
        ({"scale": {"beta": 1e6}}, "scale.beta must be a number in"),
        ({"scale": {"floor": -1e3}}, "scale.floor must be a number in"),
        ({"scale": {"uniform": 2.0}}, "scale.uniform must be a number in"),
        ({"scale": {"uniform": 5e-324}}, "scale.uniform must be a number in"),
        ({"scale": {"unit": 0.0}}, "scale.unit must be a number in"),
        ({"breaks": [0.0, -1.0]}, "breaks must be sorted"),
        ({"breaks": [-1e300, 0.0]}, "breaks must be at most 10000 in size"),
        ({"coefficients": [1.0]}, "coefficients must be an array of 2 dimensions"),
        ({"b": [1.0, 2.0]}, "b must be one list of at least 3 numbers"),
        ({"b": [1.0, 2.0, 3.0]}, r"b must have shape \(4\)|W must have shape"),
        ({"b": [1e300, 0.0, 0.0, 0.0]}, r"b must be at most 1e\+50 in size"),
        ({"W": {"shape": [1, 1], "values": [1.0]}}, r"W must have shape|b must have"),
        ({"strengths": [1.0]}, r"strengths must have shape \(4\)"),
        ({"effective": ["infinity"] * 4}, "effective must be numbers; got str"),
        ({"more": 1}, "the file must be a dict with the keys scale, .*: more"),
    ],
    ids=str,
)
def test_a_dict_that_is_no_structure_is_an_error(change, message):
    good = to_json(SplineCalibrator().fit(P, Y).structure_)
    from_json(StructuredMap, good)
    if "scale" in change:
        change = {"scale": good["scale"] | change["scale"]}
    with pytest.raises(ValueError, match=f"^({message})"):
        from_json(StructuredMap, good | change)


def test_log_softmax_of_logits_are_logits_and_probabilities_stay_what_they_are():
    cal = SplineCalibrator(scale="identity").fit(log_softmax(np.log(P), axis=1), Y)
    assert cal.model_.kind.value_kind == "margin"
    with_probabilities = SplineCalibrator(scale="identity").fit(P, Y)
    assert with_probabilities.model_.kind.value_kind == "probability"
    np.testing.assert_allclose(
        with_probabilities.predict_proba(Q),
        SplineCalibrator().fit(P, Y).predict_proba(Q),
    )
