import matplotlib.pyplot as plt
import numpy as np
import pytest
from benchmarks.paper.epochs import EpochsDisplay
from sklearn.metrics import accuracy_score, log_loss


def test_every_series_is_drawn_and_its_best_epoch_marked(part, words):
    losses = {"before": [0.6, 0.4, 0.7], "after": [0.5, 0.4, 0.3]}
    display = EpochsDisplay(losses, epochs=[10, 20, 40]).plot()
    for i, (values, best) in enumerate(
        zip(losses.values(), [(20, 0.4), (40, 0.3)], strict=True)
    ):
        np.testing.assert_allclose(
            part(display.ax_, f"line-{i}").get_xydata(),
            np.column_stack([[10, 20, 40], values]),
        )
        np.testing.assert_allclose(part(display.ax_, f"best-{i}").get_xydata(), [best])
    assert "before" in words(display.ax_)
    assert display.accuracy_ax_ is None
    assert display.ax_.get_xlabel() == "epoch"


def test_accuracy_has_a_strip_below_whose_best_is_the_highest(part):
    display = EpochsDisplay({"a": [0.6, 0.4]}, accuracy={"a": [0.8, 0.7]}).plot()
    np.testing.assert_allclose(
        part(display.accuracy_ax_, "best-0").get_xydata(), [[1, 0.8]]
    )
    assert display.accuracy_ax_.get_xlim() == display.ax_.get_xlim()
    assert display.accuracy_ax_.get_xlabel() == "epoch"
    colours = [
        part(ax, "line-0").get_color() for ax in (display.ax_, display.accuracy_ax_)
    ]
    assert colours[0] == colours[1]


def test_predictions_are_scored_as_scikit_learn_does(three):
    y, p = three
    epochs = [p, p**2 / (p**2).sum(axis=1, keepdims=True)]
    w = np.random.default_rng(0).uniform(size=len(y))
    display = EpochsDisplay.from_predictions(y, {"a": epochs}, sample_weight=w)
    expected = [log_loss(y, one, sample_weight=w) for one in epochs]
    np.testing.assert_allclose(display.log_loss["a"], expected)
    np.testing.assert_allclose(
        display.accuracy["a"],
        [accuracy_score(y, p.argmax(axis=1), sample_weight=w)] * 2,
    )


def test_two_classes_are_scored_too(raw):
    y, p = raw
    display = EpochsDisplay.from_predictions(y, {"a": [p, p**2]}, accuracy=False)
    np.testing.assert_allclose(
        display.log_loss["a"], [log_loss(y, p), log_loss(y, p**2)]
    )
    assert display.accuracy is None


def test_names_at_the_line_ends_keep_apart_and_are_shown_letter_by_letter():
    names = ["$a_1$", "_b", "c"]
    figure, ax = plt.subplots()
    display = EpochsDisplay({name: [1.0, 0.5] for name in names}).plot(ax)
    assert display.ax_ is ax
    assert display.figure_ is figure
    ends = {text.get_text(): text for text in ax.texts}
    assert set(names) <= set(ends)
    assert not any(ends[name].get_parse_math() for name in names)
    heights = np.sort([ends[name].xy[1] for name in names])
    assert np.diff(heights).min() > 0.05


def test_series_of_other_lengths_are_refused():
    with pytest.raises(
        ValueError,
        match=r"log_loss\['b'\] must be one number for each of 2 epochs; got shape \(1,\)",
    ):
        EpochsDisplay({"a": [1.0, 2.0], "b": [1.0]})
    with pytest.raises(
        ValueError, match=r"accuracy\['a'\] must be one number for each of 2 epochs"
    ):
        EpochsDisplay({"a": [1.0, 2.0]}, accuracy={"a": [1.0]})
    with pytest.raises(
        ValueError, match=r"log_loss\['a'\] must be one number for each of 3 epochs"
    ):
        EpochsDisplay({"a": [1.0, 2.0]}, epochs=[1, 2, 3])
    with pytest.raises(TypeError, match="log_loss must be a mapping"):
        EpochsDisplay([1.0, 2.0])
    with pytest.raises(ValueError, match="epochs must be sorted"):
        EpochsDisplay({"a": [1.0, 2.0]}, epochs=[2, 1])
