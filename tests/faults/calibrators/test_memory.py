import numpy as np
import pytest


@pytest.mark.filterwarnings("ignore:sample_weight sums to")
def test_38_nothing_passed_in_is_changed(cal, problem):
    scores, y, w = problem.scores.copy(), problem.y.copy(), np.arange(60.0)
    cal.fit(scores, y, w)
    for method in (cal.calibrate, cal.predict_proba, cal.predict):
        method(scores)
    np.testing.assert_array_equal(scores, problem.scores)
    np.testing.assert_array_equal(y, problem.y)
    np.testing.assert_array_equal(w, np.arange(60.0))


def test_38_margins_passed_in_are_not_changed(cal, problem, takes_margins):
    margins = problem.margins.copy()
    if takes_margins:
        cal.fit(margins, problem.y).predict_proba(margins)
    else:
        with pytest.raises(ValueError, match="probabilities"):
            cal.fit(margins, problem.y)
    np.testing.assert_array_equal(margins, problem.margins)


def test_38_what_comes_out_is_the_callers(cal, problem):
    problem.fit(cal)
    out = cal.calibrate(problem.grid)
    expected = out.copy()
    out[:] = 0.5
    np.testing.assert_array_equal(cal.calibrate(problem.grid), expected)


def test_39_a_fit_on_one_margin_refuses_two(cal, two, takes_margins):
    """A model's ``[-d, d]`` is no difference of margins; taken for one, it counted twice."""
    if not takes_margins:
        return
    margins = np.log(two.scores / (1 - two.scores))
    cal.fit(margins, two.y)
    with pytest.raises(
        ValueError, match="scores must be one column of margins, as in the fit; got two"
    ):
        cal.calibrate(np.column_stack([-margins, margins]))
    both = cal.fit(np.column_stack([-margins, margins]), two.y).calibrate(
        np.column_stack([-margins, margins])
    )
    np.testing.assert_allclose(both[:, 1], cal.calibrate(2 * margins), atol=1e-12)


def test_39_two_columns_are_one_but_for_rounding(cal, two):
    pair = np.column_stack([1 - two.scores, two.scores])
    out = cal.fit(pair, two.y).calibrate(pair)
    np.testing.assert_array_equal(out, cal.predict_proba(pair))
    np.testing.assert_allclose(out[:, 1], two.fit(cal).calibrate(two.scores), atol=1e-6)
