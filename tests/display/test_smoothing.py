import matplotlib.pyplot as plt
import numpy as np
import pytest

from calspline import SigmoidCalibrator, SplineCalibrator
from calspline.display import SmoothingDisplay


@pytest.mark.parametrize("smoothing", ["reml", "cv", "loo", 0.01])
def test_the_path_is_drawn_on_a_log_axis_and_the_choice_marked(raw, part, words, smoothing):
    cal = SplineCalibrator(smoothing=smoothing).fit(raw[1], raw[0])
    ax = SmoothingDisplay.from_calibrator(cal).ax_
    assert ax.get_xscale() == "log"
    path = cal.smoothing_path_
    drawn = part(ax, "path").get_xydata()
    assert np.all(np.diff(drawn[:, 0]) > 0)
    np.testing.assert_allclose(np.sort(drawn[:, 1]), np.sort(path["criterion"]))
    ((x, criterion),) = part(ax, "chosen").get_xydata()
    assert x == pytest.approx(cal.smoothing_)
    assert criterion <= path["criterion"].min() + 0.5
    assert f"{cal.edf_:.1f} effective parameters" in words(ax)


def test_each_class_has_its_path(three, part):
    cal = SplineCalibrator(multiclass="ovr").fit(three[1], three[0])
    display = SmoothingDisplay.from_calibrator(cal)
    assert len(display.axes_) == 3
    for ax, chosen in zip(display.axes_, cal.smoothing_, strict=True):
        assert part(ax, "chosen").get_xdata()[0] == pytest.approx(chosen)
    assert len({ax.get_xlim() for ax in display.axes_}) == 1


def test_a_fit_without_a_path_is_refused(raw, three):
    with pytest.raises(ValueError, match="must have chosen its smoothing along a path"):
        SmoothingDisplay.from_calibrator(SplineCalibrator().fit(three[1], three[0]))
    with pytest.raises(TypeError, match="must have a smoothing_path_; got SigmoidCalibrator"):
        SmoothingDisplay.from_calibrator(SigmoidCalibrator().fit(raw[1], raw[0]))


def test_a_given_axes_is_used(raw):
    figure, ax = plt.subplots()
    display = SmoothingDisplay.from_calibrator(SplineCalibrator().fit(raw[1], raw[0]), ax=ax)
    assert display.ax_ is ax
    assert display.figure_ is figure
