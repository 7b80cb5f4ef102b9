"""``pos_label``: which class a column of probabilities refers to, and which event is evaluated."""

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest

from calspline import compare, decide, evaluate, reliability, report
from calspline.display import ReliabilityDisplay

mpl.use("Agg")
RNG = np.random.default_rng(0)
P = RNG.uniform(0.05, 0.95, 500)
BAD = RNG.random(500) < P
LABELS = np.where(BAD, "bad", "good")


def test_a_single_column_refers_to_pos_label():
    wanted = evaluate(BAD, P)
    found = evaluate(LABELS, P, pos_label="bad")
    assert found.classes == ("good", "bad")
    assert found.to_dict() == wanted.to_dict()
    # "good" is the second in sorted order.
    with pytest.warns(UserWarning, match="pass pos_label='bad'"):
        other = evaluate(LABELS, P)
    assert other.log_loss > found.log_loss


def test_results_name_the_event_unless_labels_are_zero_and_one():
    named = "event: 'bad'"
    assert named in str(evaluate(LABELS, P, pos_label="bad"))
    assert "event" not in str(evaluate(BAD, P)).lower()
    named = "Event: 'bad'"
    assert named in str(compare(LABELS, {"raw": P}, pos_label="bad"))
    assert named in str(decide(LABELS, P, pos_label="bad"))


def test_columns_in_the_wrong_order_are_warned_of_with_a_remedy():
    two = np.column_stack([1.0 - P, P])  # "good", "bad": not sorted
    with pytest.warns(UserWarning, match=r"pass labels=\['good', 'bad'\]"):
        evaluate(LABELS, two)
    found = evaluate(LABELS, two, labels=["good", "bad"])
    assert found.log_loss == pytest.approx(evaluate(BAD, P).log_loss)


@pytest.mark.parametrize("function", [evaluate, compare, decide])
def test_percentages_are_to_be_divided_by_100(function):
    with pytest.raises(ValueError, match="If they are percentages, divide them by 100"):
        function(BAD, 100.0 * P)


def test_of_two_columns_pos_label_chooses_the_event():
    two = np.column_stack([P, 1.0 - P])  # "bad", "good": sorted
    assert evaluate(LABELS, two, pos_label="bad").mean_probability == pytest.approx(
        P.mean()
    )
    assert evaluate(LABELS, two, pos_label="good").mean_probability == pytest.approx(
        1.0 - P.mean()
    )
    assert evaluate(LABELS, two, pos_label="bad").log_loss == pytest.approx(
        evaluate(BAD, P).log_loss
    )


def test_pos_label_agrees_with_labels_in_any_order():
    wanted = evaluate(BAD, P).log_loss
    for labels in (["bad", "good"], ["good", "bad"]):
        assert evaluate(
            LABELS, P, labels=labels, pos_label="bad"
        ).log_loss == pytest.approx(wanted)


def test_one_class_may_be_absent():
    found = evaluate(["good"] * 4, [0.1, 0.2, 0.1, 0.3], pos_label="bad")
    assert found.base_rate == 0.0
    assert evaluate([0, 0, 1], [0.9, 0.8, 0.2], pos_label=0).base_rate == pytest.approx(
        2 / 3
    )


def test_every_function_takes_pos_label_and_a_single_array():
    assert reliability(LABELS, P, pos_label="bad").name == "bad"
    wanted = decide(BAD, {"probabilities": P}, thresholds=[0.2, 0.5]).to_dict()
    assert decide(LABELS, P, thresholds=[0.2, 0.5], pos_label="bad").to_dict() == wanted
    assert (
        compare(LABELS, P, pos_label="bad").evaluations["probabilities"].log_loss
        == evaluate(BAD, P).log_loss
    )
    page = report(LABELS, P, pos_label="bad")
    assert page.comparison.evaluations["probabilities"].base_rate == pytest.approx(
        BAD.mean()
    )


def test_the_display_takes_pos_label():
    found = ReliabilityDisplay.from_predictions(LABELS, P, pos_label="bad")
    wanted = ReliabilityDisplay.from_predictions(BAD, P)
    for one, other in zip(found.ax_.lines, wanted.ax_.lines, strict=True):
        np.testing.assert_array_equal(one.get_xydata(), other.get_xydata())
    plt.close("all")


@pytest.mark.parametrize(
    ("y", "probs", "pos_label", "message"),
    [
        (
            LABELS,
            P,
            "Bad",
            r"pos_label must be one of the labels \['bad', 'good'\]; got 'Bad'",
        ),
        ([0, 1, 2], np.eye(3), 1, "pos_label is for two classes; probs has 3 columns"),
        (
            ["bad"] * 3,
            [0.1, 0.2, 0.3],
            "bad",
            "y shows one class, 'bad'; name both with labels",
        ),
        (
            [0, 1],
            [0.1, 0.2],
            "1",
            r"pos_label must be one of the labels \[0, 1\]; got '1'",
        ),
    ],
)
def test_a_wrong_pos_label_is_named(y, probs, pos_label, message):
    with pytest.raises(ValueError, match=message):
        evaluate(y, probs, pos_label=pos_label)
