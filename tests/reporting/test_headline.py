import numpy as np
import pytest
from scipy.special import expit

from calspline import report
from calspline._formatting import rounded_percent

N = 4000
rng = np.random.default_rng(1)
U = rng.normal(0.0, 1.6, N)
Y = rng.random(N) < expit(U)


def headline(*sets, y=Y, names=("raw", "calibrated")):
    return report(y, dict(zip(names, sets, strict=False))).headline


@pytest.mark.parametrize(
    ("scores", "words"),
    [
        (expit(2.0 * U), "Raw scores are over-confident: where "),
        (expit(0.5 * U), "Raw scores are under-confident: where "),
        (expit(U + 1.0), "Raw scores are too high: where "),
        (expit(U - 1.0), "Raw scores are too low: where "),
        pytest.param(
            expit(-U),
            "Raw scores are reversed: where ",
            marks=pytest.mark.filterwarnings("ignore:predictions"),
        ),
        (expit(U), "Raw scores are well calibrated: "),
    ],
    ids=["over", "under", "high", "low", "reversed", "right"],
)
def test_the_headline_says_in_what_way_scores_are_wrong(scores, words):
    assert headline(scores).startswith(words)


@pytest.mark.filterwarnings("ignore:sample_weight sums to")
def test_a_curve_that_is_known_exactly_is_spoken_of():
    words = report(Y[:60], expit(2.0 * U[:60]), sample_weight=np.full(60, 1e12))
    assert words.headline.startswith("The probabilities are over-confident: where ")


def test_a_single_array_is_spoken_of_in_the_plural():
    words = report(Y, expit(U + 1.0)).headline
    assert words.startswith("The probabilities are too high: where ")
    few = report(Y[:20], expit(U[:20])).headline
    assert "calibration of the probabilities: " in few


def test_the_numbers_of_the_headline_are_close_to_the_truth():
    said, happened = (
        float(part.split("%")[0]) / 100
        for part in headline(expit(2.0 * U))
        .split("where ")[1]
        .split("the observed frequency is ")
    )
    assert happened == pytest.approx(expit(0.5 * np.log(said / (1 - said))), abs=0.04)


@pytest.mark.parametrize("slope", [0.7, 1.3, 2.0, 3.0])
@pytest.mark.parametrize("shift", [-2.0, -1.0, 1.0, 2.0])
def test_the_example_of_the_headline_agrees_with_its_words(slope, shift):
    """Scores that are too low for most rows may be too high where they are high."""
    words = headline(expit(slope * U + shift))
    said, happened = (
        float(part.split("%")[0])
        for part in words.split("where ")[1].split("the observed frequency is ")
    )
    if "too low" in words:
        assert said < happened
    elif "too high" in words:
        assert said > happened
    else:
        confident = words.startswith("Raw scores are over-confident: ")
        assert confident == (slope > 1.0)
        assert (abs(said - 50.0) > abs(happened - 50.0)) == confident


def test_after_calibration_a_level_means_itself_more_or_less():
    words = headline(expit(2.0 * U), expit(U)).split(". ")[1]
    assert words.startswith("After calibration ")
    level, meaning = words.removeprefix("After calibration ").split("% means ")
    value, reach = meaning.rstrip(".").replace("%", "").split(" ± ")
    assert abs(float(value) - float(level)) < 1.5 * float(reach)


def test_scores_that_are_right_are_left_alone():
    found = report(Y, {"raw": expit(U), "overdone": expit(2.5 * U)})
    assert found.headline.startswith("Raw scores are already well calibrated: ")
    assert "With overdone, " in found.headline
    assert found.headline.endswith("worse than before.")
    assert "Keep raw: " in found.html


def test_what_is_better_but_still_wrong_is_said_so():
    assert headline(expit(4.0 * U), expit(2.0 * U)).endswith(
        "better, but still miscalibrated."
    )


def test_few_rows_are_said_to_be_too_few():
    words = headline(expit(U[:30]), expit(U[:30]), y=Y[:30])
    assert words.startswith(
        "30 rows are too few to assess the calibration of raw scores: "
    )
    assert " may mean anything from " in words


def test_few_rows_can_tell_what_is_wrong_but_not_what_is_right():
    words = headline(expit(6.0 * U[:40]), expit(U[:40]), y=Y[:40])
    assert words.startswith("Raw scores are over-confident: ")
    assert (
        "After calibration there is no evidence of miscalibration, but with 40 rows, "
        in words
    )


@pytest.mark.parametrize(
    ("y", "words"),
    [(0, "None of the 40 rows are events"), (1, "All of the 40 rows are events")],
)
def test_with_one_outcome_there_is_no_more_to_say(y, words):
    found = headline(np.full(40, 0.25), y=np.full(40, y))
    assert found.startswith(words)
    assert "raw scores expected 10" in found


def test_a_tiny_error_in_a_large_sample_is_slight():
    u = np.tile(U, 100)
    y = np.random.default_rng(2).random(len(u)) < expit(1.04 * u)
    assert headline(expit(u), y=y).startswith(
        "Raw scores are slightly under-confident: "
    )


def test_three_classes_are_spoken_of_by_their_top_label():
    z = np.random.default_rng(3).normal(size=(N, 3))
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    y = (np.random.default_rng(4).random(N)[:, None] > p.cumsum(axis=1)).sum(axis=1)
    sharp = p**3 / (p**3).sum(axis=1, keepdims=True)
    words = headline(sharp, p, y=y, names=("naive Bayes", "tempered"))
    assert words.startswith("Naive Bayes is over-confident: where ")
    assert "the accuracy is" in words
    assert " With tempered, " in words


def test_rare_events_are_spoken_of_at_levels_that_occur():
    y = np.random.default_rng(5).random(N) < expit(U - 4.0)
    words = headline(expit(U - 5.0), y=y)
    assert words.startswith("Raw scores are too low: where ")
    assert float(words.split("where ")[1].split("%")[0]) / 100 <= expit(U - 5.0).max()


def rare(n, shift=0.0, slope=1.0, seed=6):
    """Scores and outcomes of events that happen in 0.15% of rows."""
    rng = np.random.default_rng(seed)
    u = rng.normal(-7.0, 1.0, n)
    return expit(slope * u + shift), rng.random(n) < expit(u)


def test_rare_events_given_ten_times_too_often_are_not_slightly_off():
    p, y = rare(40_000, shift=2.3)
    words = headline(p, y=y)
    assert words.startswith("Raw scores are too high: where ")
    said, happened = (
        float(part.split("%")[0])
        for part in words.split("where ")[1].split("the observed frequency is ")
    )
    # Eight times as often by the odds, and two digits show it.
    assert 4 < said / happened < 25


def test_rare_events_that_hardly_say_anything_are_not_called_well_calibrated():
    p, y = rare(1500, seed=6)
    words = headline(p, y=y)
    assert words.startswith(
        "1,500 rows are too few to assess the calibration of raw scores: "
    )
    assert "0%" not in words.replace("10%", "").replace("20%", "").split()


def test_rare_events_that_are_right_are_shown_with_two_digits():
    p, y = rare(200_000)
    words = headline(p, y=y)
    assert words.startswith("Raw scores are well calibrated: ")
    level, meaning = (
        words.removeprefix("Raw scores are well calibrated: ")
        .rstrip(".")
        .split("% means ")
    )
    value, reach = meaning.replace("%", "").split(" ± ")
    assert float(reach) > 0.0
    assert abs(float(value) - float(level)) < 1.5 * float(reach)


@pytest.mark.parametrize(
    ("share", "shown"),
    [
        (0.0164, "1.6%"),
        (0.00071, "0.071%"),
        (0.0000012, "0.00012%"),
        (0.0, "0%"),
        (0.9, "90%"),
        (0.736, "74%"),
        (0.99, "99%"),
        (0.994, "99.4%"),
        (0.999, "99.9%"),
        (0.9997, "99.97%"),
        (1.0, "100%"),
    ],
)
def test_shares_are_shown_as_people_say_them(share, shown):
    assert rounded_percent(share) == shown
