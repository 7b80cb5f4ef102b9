from dataclasses import replace
from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np
import pytest

from calspline import SplineCalibrator, calibration_learning_curve


@pytest.fixture(scope="module")
def curve(raw):
    y, p = raw
    return calibration_learning_curve(SplineCalibrator(), p, y, n_repeats=2)


def test_losses_are_drawn_with_their_intervals_against_the_sizes(curve, part):
    ax = curve.plot()
    assert ax.get_xscale() == "log"
    np.testing.assert_allclose(
        part(ax, "curve").get_xydata(), np.column_stack([curve.sizes, curve.log_loss])
    )
    bars = np.array(part(ax, "intervals").get_segments())
    np.testing.assert_allclose(bars[:, 0, 0], curve.sizes)
    np.testing.assert_allclose(bars[:, :, 1], curve.interval)


def test_the_fitted_law_passes_through_the_largest_size(curve, part):
    x, value = part(curve.plot(), "law").get_data()
    assert np.interp(1 / curve.sizes[-1], 1 / x[::-1], value[::-1]) == pytest.approx(
        curve.log_loss[-1], abs=1e-6
    )
    np.testing.assert_allclose(np.diff(value) / np.diff(1 / x), curve.rate)


def test_the_size_that_is_enough_is_marked_or_told(curve, part, parts, words):
    inside = replace(curve, enough=300, events=120, rarest="events")
    ax = inside.plot()
    assert part(ax, "enough").get_xdata()[0] == 300
    assert "about 300 rows (120 events) are enough" in words(ax)
    far = replace(inside, enough=10**6, events=700).plot()
    assert not parts(far, "enough")
    assert "about 1,000,000 rows (700 events) →" in words(far)
    assert far.get_xlim()[1] < 10**5
    near = replace(curve, enough=0).plot()
    assert not parts(near, "enough")
    assert f"{curve.sizes[0]} rows are enough" in words(near)


def test_the_uncalibrated_level_is_marked_or_told(curve, part, parts, words):
    level = float(curve.log_loss.max())
    ax = replace(curve, uncalibrated=level).plot()
    assert part(ax, "uncalibrated").get_ydata()[0] == level
    far = replace(curve, uncalibrated=30.0).plot()
    assert not parts(far, "uncalibrated")
    assert "uncalibrated\n30.000 ↑" in words(far)
    assert far.get_ylim()[1] < 5.0
    none = replace(curve, uncalibrated=float("nan")).plot()
    assert "uncalibrated" not in words(none)


def test_small_losses_are_written_with_their_digits(curve, words):
    small = {
        "log_loss": curve.log_loss / 100,
        "interval": curve.interval / 100,
        "uncalibrated": curve.uncalibrated / 100,
    }
    ax = replace(curve, **small).plot()
    assert f"calibrated\n{curve.log_loss[-1] / 100:.5f}" in words(ax)


def test_numbers_of_rows_do_not_overlap(curve):
    sizes = np.geomspace(20, 200_000, len(curve.sizes)).astype(int)
    ax = replace(curve, sizes=sizes).plot()
    ax.figure.canvas.draw()
    low, high = ax.get_xlim()
    ticks = [t for t in ax.xaxis.get_major_ticks() if low <= t.get_loc() <= high]
    boxes = [t.label1.get_window_extent() for t in ticks]
    assert len(boxes) >= 3
    assert all(left.x1 < right.x0 for left, right in pairwise(boxes))


def test_a_given_axes_is_used(curve):
    _, ax = plt.subplots()
    assert curve.plot(ax) is ax
