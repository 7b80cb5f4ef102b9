from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pytest

from calspline import SplineCalibrator, calibration_learning_curve
from calspline.display import LearningCurveDisplay


@pytest.fixture(scope="module")
def curve(raw):
    y, p = raw
    return calibration_learning_curve(SplineCalibrator(), p, y, n_repeats=2)


def test_losses_are_drawn_with_their_intervals_against_the_sizes(curve, part):
    ax = LearningCurveDisplay(curve).plot().ax_
    assert ax.get_xscale() == "log"
    np.testing.assert_allclose(part(ax, "curve").get_xydata(), np.column_stack([curve.sizes, curve.log_loss]))
    bars = np.array(part(ax, "intervals").get_segments())
    np.testing.assert_allclose(bars[:, 0, 0], curve.sizes)
    np.testing.assert_allclose(bars[:, :, 1], curve.interval)


def test_the_fitted_law_passes_through_the_largest_size(curve, part):
    x, value = part(LearningCurveDisplay(curve).plot().ax_, "law").get_data()
    assert np.interp(1 / curve.sizes[-1], 1 / x[::-1], value[::-1]) == pytest.approx(curve.log_loss[-1], abs=1e-6)
    np.testing.assert_allclose(np.diff(value) / np.diff(1 / x), curve.rate)


def test_the_size_that_is_enough_is_marked_or_told(curve, part, parts, words):
    inside = replace(curve, enough=300)
    ax = LearningCurveDisplay(inside).plot().ax_
    assert part(ax, "enough").get_xdata()[0] == 300
    assert "about 300 rows are enough" in words(ax)
    far = LearningCurveDisplay(replace(curve, enough=10**6)).plot().ax_
    assert not parts(far, "enough")
    assert "about 1,000,000 rows →" in words(far)
    assert far.get_xlim()[1] < 10**5
    near = LearningCurveDisplay(replace(curve, enough=0)).plot().ax_
    assert not parts(near, "enough")
    assert f"{curve.sizes[0]} rows are enough" in words(near)


def test_the_uncalibrated_level_is_marked_or_told(curve, part, parts, words):
    level = float(curve.log_loss.max())
    ax = LearningCurveDisplay(replace(curve, uncalibrated=level)).plot().ax_
    assert part(ax, "uncalibrated").get_ydata()[0] == level
    far = LearningCurveDisplay(replace(curve, uncalibrated=30.0)).plot().ax_
    assert not parts(far, "uncalibrated")
    assert "uncalibrated\n30.000 ↑" in words(far)
    assert far.get_ylim()[1] < 5.0
    none = LearningCurveDisplay(replace(curve, uncalibrated=float("nan"))).plot().ax_
    assert "uncalibrated" not in words(none)


def test_a_given_axes_is_used(curve):
    figure, ax = plt.subplots()
    display = LearningCurveDisplay(curve).plot(ax)
    assert display.ax_ is ax
    assert display.figure_ is figure
