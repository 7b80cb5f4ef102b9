import matplotlib.pyplot as plt
import numpy as np
import pytest

from calspline import SigmoidCalibrator, SplineCalibrator
from calspline.display import CalibrationCurveDisplay


def spread(band):
    (path,) = band.get_paths()
    return path.vertices


def test_the_curve_and_its_bands_are_those_of_the_calibrator(raw, part):
    y, p = raw
    cal = SplineCalibrator().fit(p, y)
    display = CalibrationCurveDisplay.from_calibrator(cal, level=0.9)
    x, value = part(display.ax_, "curve").get_data()
    np.testing.assert_allclose(value, cal.calibrate(x))
    inside = (x >= cal.knots_[0]) & (x <= cal.knots_[-1])
    for gid, whole in (("band", False), ("simultaneous-band", True)):
        expected = cal.interval(x[inside], level=0.9, simultaneous=whole)
        drawn = spread(part(display.ax_, gid))
        np.testing.assert_allclose(
            [drawn[:, 1].min(), drawn[:, 1].max()], [expected.min(), expected.max()]
        )
        assert drawn[:, 0].min() >= cal.knots_[0]
        assert drawn[:, 0].max() <= cal.knots_[-1]


def test_the_band_for_the_whole_curve_holds_the_other(raw, part):
    display = CalibrationCurveDisplay.from_calibrator(
        SplineCalibrator().fit(raw[1], raw[0])
    )
    narrow, wide = (
        spread(part(display.ax_, gid)) for gid in ("band", "simultaneous-band")
    )
    assert wide[:, 1].max() >= narrow[:, 1].max()
    assert wide[:, 1].min() <= narrow[:, 1].min()


def test_bands_and_knots_can_be_left_out(raw, part, parts):
    cal = SplineCalibrator().fit(raw[1], raw[0])
    ax = CalibrationCurveDisplay.from_calibrator(
        cal, band=False, simultaneous=False, knots=False
    ).ax_
    assert not any(parts(ax, gid) for gid in ("band", "simultaneous-band", "knots"))
    ax = CalibrationCurveDisplay.from_calibrator(cal).ax_
    np.testing.assert_allclose(
        [line[0][0] for line in part(ax, "knots").get_segments()], cal.knots_
    )


def test_a_method_without_variance_has_a_curve_alone(raw, part, parts):
    ax = CalibrationCurveDisplay.from_calibrator(
        SigmoidCalibrator().fit(raw[1], raw[0])
    ).ax_
    assert len(part(ax, "curve").get_xdata()) > 100
    assert not parts(ax, "band")


def test_on_log_odds_over_confident_scores_have_an_axis_of_their_own(part):
    rng = np.random.default_rng(0)
    u = rng.normal(0, 10, 2000)
    cal = SplineCalibrator().fit(
        1 / (1 + np.exp(-u)), rng.random(2000) < 1 / (1 + np.exp(-u / 10))
    )
    ax = CalibrationCurveDisplay.from_calibrator(cal, scale="logit").ax_
    assert ax.get_xscale() == ax.get_yscale() == "logit"
    np.testing.assert_allclose(
        ax.get_xticks(), [1e-6, 1e-4, 1e-2, 0.5, 1 - 1e-2, 1 - 1e-4, 1 - 1e-6]
    )
    np.testing.assert_allclose(
        ax.get_yticks(), [0.001, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999]
    )
    x, value = part(ax, "curve").get_data()
    np.testing.assert_allclose(value, cal.calibrate(x))


@pytest.mark.parametrize("scale", ["probability", "logit"])
def test_margins_keep_a_plain_axis_of_scores(raw, part, parts, scale):
    y, p = raw
    margins = 30 * p - 15
    cal = SplineCalibrator().fit(margins, y)
    ax = CalibrationCurveDisplay.from_calibrator(cal, scale=scale).ax_
    assert ax.get_xscale() == "linear"
    assert ax.get_xlabel() == "score"
    assert not parts(ax, "diagonal")
    assert part(ax, "curve").get_xdata()[0] < margins.min()


def test_one_against_the_rest_gives_a_diagram_for_each_class(three, part):
    y, p = three
    cal = SplineCalibrator(multiclass="ovr").fit(p, y)
    figure, ax = plt.subplots()
    display = CalibrationCurveDisplay.from_calibrator(cal, ax=ax)
    assert display.figure_ is figure
    for curve, own in zip(cal.curves_, display.axes_, strict=True):
        x, value = part(own, "curve").get_data()
        np.testing.assert_allclose(value, curve(x))
    with pytest.raises(ValueError, match='has them with multiclass="ovr"'):
        CalibrationCurveDisplay.from_calibrator(SplineCalibrator().fit(p, y))
