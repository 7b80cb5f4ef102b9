"""The contract for scores and labels that come in parts: ScoreHistogram, partial_fit and fit_histogram."""

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from calspline import ScoreHistogram, SplineCalibrator
from calspline.fitting import newton

BAD = (ValueError, TypeError)
OPENINGS = {
    "from_scores": ScoreHistogram.from_scores,
    "partial_fit": lambda scores, y, w=None: SplineCalibrator().partial_fit(
        scores, y, w
    ),
}


@pytest.fixture(params=OPENINGS)
def take(request):
    """Both ways in."""
    return OPENINGS[request.param]


def curve(scores, y, w=None):
    return SplineCalibrator().fit_histogram(ScoreHistogram.from_scores(scores, y, w))


def same(one, other, two):
    np.testing.assert_allclose(
        one.calibrate(two.grid), other.calibrate(two.grid), rtol=0, atol=1e-9
    )


def test_03_scores_outside_the_unit_interval(two, check):
    assert ScoreHistogram.from_scores(two.margins, two.y).kind == "margin"
    assert (
        ScoreHistogram.from_scores(two.changed(1.5), two.y, kind="margin").kind
        == "margin"
    )
    with pytest.raises(ValueError, match=r"probabilities in \[0, 1\]; row 3 is 1.5"):
        ScoreHistogram.from_scores(two.changed(1.5), two.y, kind="probability")
    probabilities = SplineCalibrator().partial_fit(two.scores, two.y)
    with pytest.raises(ValueError, match=r"probabilities in \[0, 1\]; row 3 is 1.5"):
        probabilities.partial_fit(two.changed(1.5), two.y)


def test_04_no_rows_are_an_empty_histogram_that_nothing_can_be_fitted_to(two):
    empty = ScoreHistogram.from_scores([], [], classes=[0, 1])
    assert len(empty) == 0
    assert (empty + ScoreHistogram.from_scores(two.scores, two.y)).total == 60
    with pytest.raises(ValueError, match="histogram must hold both classes"):
        SplineCalibrator().fit_histogram(empty)


def test_05_empty_predict(two):
    assert curve(two.scores, two.y).calibrate([]).shape == (0,)


def test_14_15_few_distinct_values(two, check):
    for k in (2, 5):
        fitted = curve(two.scores[np.arange(60) % k], two.y)
        check(fitted.predict_proba(two.grid))
        assert len(fitted.knots_) <= max(k, 2)


def test_16_one_row_may_be_collected_and_cannot_be_fitted():
    one = ScoreHistogram.from_scores([0.3], [0])
    assert one.total == 1
    with pytest.raises(ValueError, match="histogram must hold both classes"):
        SplineCalibrator().fit_histogram(one)


def test_18_what_is_kept_does_not_grow_with_the_rows(two):
    rng = np.random.default_rng(0)
    sizes = []
    for n in (20_000, 400_000):
        p = rng.random(n)
        sizes.append(len(ScoreHistogram.from_scores(p, rng.random(n) < p)))
    assert max(sizes) <= 2 * 4096


def test_21_one_class_may_be_collected_if_it_is_known_which(two):
    with pytest.raises(
        ValueError, match=r"y must have .*two classes; every row is 'yes'"
    ):
        ScoreHistogram.from_scores(two.scores, ["yes"] * 60)
    only = ScoreHistogram.from_scores(two.scores, ["yes"] * 60, classes=["no", "yes"])
    assert only.base_rate == 1.0
    with pytest.raises(ValueError, match="histogram must hold both classes"):
        SplineCalibrator().fit_histogram(only)


@pytest.mark.parametrize(
    "labels", [["a", "b"], [False, True], [0.0, 1.0], [-1, 1], [1, 2]], ids=str
)
def test_23_labels_of_any_kind(two, labels):
    found = ScoreHistogram.from_scores(two.scores, np.array(labels)[two.y])
    same = ScoreHistogram.from_scores(two.scores, two.y).to_dict()
    assert found.to_dict() == same | {"classes": labels}


def test_23_histograms_of_other_classes_do_not_add_up(two):
    one, other = (
        ScoreHistogram.from_scores(two.scores, two.y + 1, classes=c)
        for c in ([1, 2], [2, 1])
    )
    with pytest.raises(
        ValueError,
        match=r"cannot add a histogram of the classes \[2, 1\] to one of \[1, 2\]",
    ):
        one + other
    with pytest.raises(ValueError, match="y shows one class, 1; give both as classes"):
        ScoreHistogram.from_scores([0.2, 0.3], [1, 1])
    assert SplineCalibrator().fit_histogram(one).classes_.tolist() == [1, 2]
    assert ScoreHistogram.from_dict(one.to_dict()).classes == (1, 2)


def test_29b_partial_fit_and_histograms_heed_names(two):
    swapped = pd.DataFrame({"1": two.scores, "0": 1 - two.scores})
    whole = ScoreHistogram.from_scores(
        np.column_stack([1 - two.scores, two.scores]), two.y
    )
    assert ScoreHistogram.from_scores(swapped, two.y).to_dict() == whole.to_dict()
    assert (
        SplineCalibrator().partial_fit(swapped, two.y).histogram_.to_dict()
        == whole.to_dict()
    )


def test_31_weights_that_are_all_zero(two):
    with pytest.raises(ValueError, match="sample_weight must not be all zero"):
        ScoreHistogram.from_scores(two.scores, two.y, np.zeros(60))
    # A part of a stream may weigh nothing.
    cal = (
        SplineCalibrator()
        .partial_fit(two.scores, two.y)
        .partial_fit(two.grid, two.grid > 0.5, 0.0 * two.grid)
    )
    same(cal, curve(two.scores, two.y), two)


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        (([1, -2], [3, 4]), "positives must not be negative; row 1 is -2"),
        (([1, np.nan], [3, 4]), "positives must be finite; row 1 is nan"),
        (([1, 5], [3, 4]), "positives must not exceed totals; row 1 has 5 of 4"),
        (([1], [3, 4]), "scores and positives must have the same length; got 2 and 1"),
    ],
)
def test_30_32_35_bad_counts(counts, message):
    with pytest.raises(ValueError, match=message):
        ScoreHistogram.from_counts([0.2, 0.7], *counts)


def test_33_rows_of_weight_zero_are_absent(two):
    w = np.arange(60) % 3 > 0
    found = ScoreHistogram.from_scores(two.scores, two.y, w)
    assert (
        found.to_dict() == ScoreHistogram.from_scores(two.scores[w], two.y[w]).to_dict()
    )


def test_36_37_38_read_only_and_strided_input_is_left_as_it_was(two):
    arrays = [np.repeat(a, 2)[::2] for a in (two.scores, two.y, np.ones(60))]
    copies = [a.copy() for a in arrays]
    for array in arrays:
        array.flags.writeable = False
    assert (
        ScoreHistogram.from_scores(*arrays).to_dict()
        == ScoreHistogram.from_scores(*copies).to_dict()
    )
    for array, copy in zip(arrays, copies, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_40_41_42_pairs_that_are_no_probabilities(take, two):
    for row, message in (
        ([0.4, 0.4], "row 3 sums to 0.8"),
        ([0.0, 0.0], "row 3 sums to 0"),
    ):
        pair = np.column_stack([1 - two.scores, two.scores])
        pair[3] = row
        with pytest.raises(ValueError, match=message):
            take(pair, two.y)
    pair[3] = [-0.2, 1.2]
    with pytest.raises(
        ValueError, match=r"scores must be probabilities in \[0, 1\]; row 3 is -0.2"
    ):
        ScoreHistogram.from_scores(pair, two.y, kind="probability")


def test_43_a_class_missing_from_a_part(two):
    whole = SplineCalibrator().partial_fit(two.scores, two.y)
    parts = SplineCalibrator()
    for label in (0, 1):
        parts.partial_fit(
            two.scores[two.y == label], two.y[two.y == label], classes=[0, 1]
        )
    same(parts, whole, two)


def test_46_prediction_before_fit():
    with pytest.raises(NotFittedError):
        SplineCalibrator().calibrate([0.5])


def test_47_fit_starts_anew_after_partial_fit(two):
    again = (
        SplineCalibrator()
        .partial_fit(two.grid, np.arange(len(two.grid)) % 2)
        .fit(two.scores, two.y)
    )
    same(again, SplineCalibrator().fit(two.scores, two.y), two)


def test_48_pickle_and_clone(two):
    histogram = ScoreHistogram.from_scores(two.scores, two.y)
    assert pickle.loads(pickle.dumps(histogram)).to_dict() == histogram.to_dict()
    fitted = SplineCalibrator().partial_fit(two.scores, two.y)
    same(pickle.loads(pickle.dumps(fitted)).partial_fit(two.grid, two.grid > 0.3), clone(fitted).fit(
        np.append(two.scores, two.grid), np.append(two.y, two.grid > 0.3)), two)  # fmt: skip


def test_49_the_global_random_state_is_left_alone(two):
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    curve(two.scores, two.y)
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


def test_51_sixteen_threads_agree(two):
    wanted = curve(two.scores, two.y).calibrate(two.grid)
    with ThreadPoolExecutor(16) as pool:
        for out in pool.map(
            lambda _: curve(two.scores, two.y).calibrate(two.grid), range(32)
        ):
            np.testing.assert_array_equal(out, wanted)


def test_52_no_convergence(two, monkeypatch):
    monkeypatch.setattr(newton, "MAX_ITERATIONS", 1)
    cal = SplineCalibrator(smoothing=1e-6)
    with pytest.warns(ConvergenceWarning, match="the fit did not converge"):
        cal.partial_fit(two.scores, two.y).calibrate([0.5])
    assert cal.converged_ is False


def test_53_order_and_parts_are_irrelevant():
    rng = np.random.default_rng(0)
    p = rng.random(20_000)
    y = rng.random(20_000) < p
    whole = ScoreHistogram.from_scores(p, y)
    order = rng.permutation(20_000)
    parts = [
        ScoreHistogram.from_scores(p[rows], y[rows])
        for rows in np.array_split(order, 7)
    ]
    total = sum(parts[1:], parts[0])
    assert total.cells.tolist() == whole.cells.tolist()
    fits = [
        SplineCalibrator().fit_histogram(each).calibrate(p[:500])
        for each in (whole, total)
    ]
    np.testing.assert_allclose(fits[1], fits[0], rtol=0, atol=1e-9)


def test_54_wrong_options(two):
    with pytest.raises(
        ValueError,
        match="kind must be one of 'auto', 'probability', 'margin'; got 'odds'",
    ):
        ScoreHistogram.from_scores(two.scores, two.y, kind="odds")
    with pytest.raises(BAD, match="classes"):
        ScoreHistogram.from_scores(two.scores, two.y, classes=[0, 1, 2])
    with pytest.raises(TypeError, match="histogram"):
        SplineCalibrator().fit_histogram("histogram")
    with pytest.raises(ValueError, match="smoothing must be"):
        SplineCalibrator(smoothing=-1.0).fit_histogram(
            ScoreHistogram.from_scores(two.scores, two.y)
        )
