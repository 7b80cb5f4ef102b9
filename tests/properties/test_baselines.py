"""What holds for any data and every baseline: hypothesis looks for a counterexample."""

import json

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.special import softmax

from calspline import (
    BetaCalibrator,
    ClippingCalibrator,
    IsotonicCalibrator,
    SigmoidCalibrator,
    TemperatureCalibrator,
)

pytestmark = [
    pytest.mark.filterwarnings(
        "ignore:all scores are equal",
        "ignore:the fit did not converge",
        "ignore:scores are lower",
        "ignore:sample_weight sums to",
    ),
    pytest.mark.parametrize(
        "cal",
        [
            SigmoidCalibrator(),
            SigmoidCalibrator(on="probability"),
            IsotonicCalibrator(),
            BetaCalibrator(),
            BetaCalibrator(parameters="am"),
            BetaCalibrator(parameters="ab"),
            TemperatureCalibrator(),
            ClippingCalibrator(),
        ],
        ids=str,
    ),
]

GRID = np.linspace(0, 1, 101)
few = settings(max_examples=settings().max_examples // 3)  # times eight calibrators

probabilities = st.one_of(
    st.floats(0, 1),
    st.sampled_from([0.0, 1.0, 0.5, 1e-300, 1e-12, 1 - 1e-16, 0.25]),
    st.integers(0, 10).map(lambda k: k / 10),
)


@st.composite
def data(draw, elements=probabilities, m=2):
    """Scores in ``m`` columns (one, for two classes), labels that show two classes or more, small counts."""
    n = draw(st.integers(2, 25))
    x = np.array(
        draw(
            st.lists(
                elements,
                min_size=n * (m if m > 2 else 1),
                max_size=n * (m if m > 2 else 1),
            )
        )
    )
    y = np.array(draw(st.lists(st.integers(0, m - 1), min_size=n, max_size=n)))
    w = np.array(draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)))
    if m > 2:  # labels without 0 might be those from 1 on
        y[0], w[0] = 0, max(w[0], 1)
    assume(len(np.unique(y[w > 0])) > 1)
    return (x if m == 2 else softmax(5 * x.reshape(n, m), axis=1)), y, w


def proper(p):
    assert np.all((p > 0) & (p < 1))
    np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-12)


@few
@given(rows=data())
def test_two_classes(cal, rows):
    x, y, w = rows
    proper(cal.fit(x, y, w).predict_proba(np.concatenate([GRID, x])))
    assert getattr(cal, "converged_", True)
    if not isinstance(cal, SigmoidCalibrator):  # its slope may be negative
        assert np.diff(cal.calibrate(GRID)).min() >= -1e-15


@few
@given(rows=data(m=3))
def test_three_classes(cal, rows):
    x, y, w = rows
    proper(cal.fit(x, y, w).predict_proba(x))


@few
@given(rows=data(elements=st.floats(-1e300, 1e300)))
def test_margins_of_any_size(cal, rows):
    x, y, w = rows
    outside = (np.abs(x - 0.5) > 0.5 + 1e-6) & (w > 0)  # beyond rounding
    assume(x[w > 0].min() < 0 and outside.sum() > max(1, 0.1 * (w > 0).sum()))
    if isinstance(cal, ClippingCalibrator):
        with pytest.raises(ValueError, match="probabilities"):
            cal.fit(x, y, w)
        return
    proper(cal.fit(x, y, w).predict_proba(x))


@few
@given(rows=data(), random=st.randoms(use_true_random=False))
def test_the_order_of_rows_and_repetition_for_weights_are_irrelevant(cal, rows, random):
    x, y, w = rows
    expected = cal.fit(x, y, w).calibrate(GRID)
    repeated = np.repeat(np.arange(len(x)), w)
    random.shuffle(repeated)
    np.testing.assert_allclose(
        cal.fit(x[repeated], y[repeated]).calibrate(GRID), expected, atol=1e-9
    )


@few
@given(rows=data(m=3), random=st.randoms(use_true_random=False))
def test_the_same_for_three_classes(cal, rows, random):
    x, y, w = rows
    expected = cal.fit(x, y, w).calibrate(x)
    repeated = np.repeat(np.arange(len(x)), w)
    random.shuffle(repeated)
    np.testing.assert_allclose(
        cal.fit(x[repeated], y[repeated]).calibrate(x), expected, atol=1e-9
    )


@few
@given(rows=data())
def test_save_and_load_are_exact(cal, rows):
    cal.fit(*rows)
    back = type(cal).from_dict(json.loads(json.dumps(cal.to_dict(), allow_nan=False)))
    np.testing.assert_array_equal(back.calibrate(GRID), cal.calibrate(GRID))
