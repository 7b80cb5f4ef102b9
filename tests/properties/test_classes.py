"""What holds for any data of three classes or more, and for any labels."""

import json

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.special import softmax

from calspline import SplineCalibrator

pytestmark = pytest.mark.filterwarnings(
    "ignore:all scores are equal",
    "ignore:the fit did not converge",
    "ignore:scores are lower",
    "ignore:the class of the largest",
    "ignore:(sample_)?weight sums to",
)
few = settings(max_examples=max(settings().max_examples // 3, 1))

options = st.sampled_from(
    [
        {},
        {"monotone": True},
        {"smoothing": 1e-3},
        {"multiclass": "ovr"},
        {"multiclass": "ovr", "loss": "brier"},
    ]
)


@st.composite
def data(draw):
    """Rows of probabilities, some of them a one and zeros; labels that show two classes or more; small counts."""
    n, m = draw(st.integers(2, 20)), draw(st.integers(3, 5))
    x = np.array(
        draw(st.lists(st.floats(-1, 1), min_size=n * m, max_size=n * m))
    ).reshape(n, m)
    p = softmax(draw(st.sampled_from([0.0, 1.0, 5.0, 200.0])) * x, axis=1)
    certain = draw(st.integers(0, n))
    p[:certain] = np.eye(m)[p[:certain].argmax(axis=1)]
    y = np.array(draw(st.lists(st.integers(0, m - 1), min_size=n, max_size=n)))
    w = np.array(draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)))
    y[0], w[0] = 0, max(w[0], 1)  # labels without 0 might be those from 1 on
    assume(len(np.unique(y[w > 0])) > 1)
    return p, y, w


@few
@given(data(), options)
def test_probabilities_are_inside_the_unit_interval_and_sum_to_one(rows, kwargs):
    cal = SplineCalibrator(**kwargs).fit(*rows)
    out = cal.predict_proba(rows[0])
    assert np.all((out > 0) & (out < 1))
    np.testing.assert_allclose(out.sum(axis=1), 1.0, atol=1e-12)
    assert cal.converged_


@few
@given(data())
def test_a_monotone_fit_keeps_every_ranking(rows):
    p, y, w = rows
    out = SplineCalibrator(monotone=True).fit(p, y, w).predict_proba(p)
    ranked = np.take_along_axis(out, np.argsort(p, axis=1, kind="stable"), axis=1)
    assert np.diff(ranked, axis=1).min() >= -1e-15


@few
@given(data(), options, st.randoms(use_true_random=False))
def test_the_order_of_rows_and_repetition_for_weights_are_irrelevant(
    rows, kwargs, random
):
    p, y, w = rows
    cal = SplineCalibrator(**kwargs)
    expected = cal.fit(p, y, w).predict_proba(p)
    repeated = np.repeat(np.arange(len(p)), w)
    random.shuffle(repeated)
    np.testing.assert_allclose(
        cal.fit(p[repeated], y[repeated]).predict_proba(p), expected, atol=1e-9
    )


@few
@given(data(), options, st.randoms(use_true_random=False))
def test_the_order_of_classes_is_irrelevant(rows, kwargs, random):
    p, y, w = rows
    order = list(range(p.shape[1]))
    random.shuffle(order)
    assume(order[0] in y[w > 0])  # labels without 0 might be those from 1 on
    place = np.argsort(order)
    cal = SplineCalibrator(**kwargs)
    expected = cal.fit(p, y, w).predict_proba(p)[:, order]
    np.testing.assert_allclose(
        cal.fit(p[:, order], place[y], w).predict_proba(p[:, order]),
        expected,
        atol=1e-6,
    )


@few
@given(data(), options)
def test_names_of_classes_are_irrelevant(rows, kwargs):
    p, y, w = rows
    m = p.shape[1]
    assume(len(np.unique(y[w > 0])) == m)
    cal = SplineCalibrator(**kwargs)
    expected = cal.fit(p, y, w).predict_proba(p)
    for names in (
        np.array([f"class {j}" for j in range(m)]),
        10.0 * np.arange(m) - 7.0,
    ):
        np.testing.assert_array_equal(
            cal.fit(p, names[y], w).predict_proba(p), expected
        )
        np.testing.assert_array_equal(cal.classes_, names)


@few
@given(data(), options)
def test_save_and_load_are_exact(rows, kwargs):
    cal = SplineCalibrator(**kwargs).fit(*rows)
    back = SplineCalibrator.from_dict(
        json.loads(json.dumps(cal.to_dict(), allow_nan=False))
    )
    np.testing.assert_array_equal(
        back.predict_proba(rows[0]), cal.predict_proba(rows[0])
    )


@few
@given(data(), options)
def test_nothing_is_mutated_and_a_refit_is_a_fresh_fit(rows, kwargs):
    before = [part.copy() for part in rows]
    cal = SplineCalibrator(**kwargs).fit(*rows)
    first = cal.predict_proba(rows[0])
    np.testing.assert_array_equal(cal.fit(*rows).predict_proba(rows[0]), first)
    for part, copy in zip(rows, before, strict=True):
        np.testing.assert_array_equal(part, copy)


@st.composite
def logits(draw):
    """Logits of order one, labels that follow them, and segments."""
    n, m = draw(st.integers(30, 200)), draw(st.integers(3, 5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    z = draw(st.sampled_from([0.5, 2.0, 8.0])) * rng.normal(size=(n, m))
    p = softmax(draw(st.sampled_from([0.3, 1.0, 2.0])) * z, axis=1)
    y = (p.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    y[:m] = np.arange(m)
    return z, y, rng.integers(3, size=n)


@few
@given(
    logits(),
    st.sampled_from(["structured", "ovr"]),
    st.sampled_from([1e-6, 1e-3, 0.1, 30.0, 1e6]),
    st.booleans(),
    st.booleans(),
)
def test_the_unit_of_logits_and_a_constant_per_row_do_not_matter(
    rows, multiclass, unit, segmented, moved
):
    z, y, segment = rows
    by = {"by": segment} if segmented else {}
    fitted = SplineCalibrator(multiclass=multiclass).fit(z, y, **by)
    other = unit * z
    if moved:
        other = other + unit * np.random.default_rng(0).normal(size=(len(z), 1))
    refitted = SplineCalibrator(multiclass=multiclass).fit(other, y, **by)
    expected = fitted.predict_proba(z, **by)
    found = refitted.predict_proba(other, **by)
    np.testing.assert_allclose(found, expected, atol=1e-6)
