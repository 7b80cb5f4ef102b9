import numpy as np
import pytest

from calspline import Monitor, ScoreHistogram, SplineCalibrator


@pytest.fixture
def monitor(raw):
    y, p = raw
    calibrator = SplineCalibrator().fit(p, y)
    found = Monitor(calibrator)
    for rows in np.array_split(np.arange(len(y)), 5):
        found.update(ScoreHistogram.from_scores(p[rows], y[rows]))
    return found


def test_evidence_is_drawn_with_its_limit_and_the_rates(monitor, part, parts):
    ax = monitor.plot()
    np.testing.assert_allclose(
        part(ax, "evidence").get_ydata(), [entry["evidence"] for entry in monitor.log]
    )
    assert part(ax, "limit").get_ydata()[0] == 20
    assert not parts(ax, "alarm")
    below = ax.figure.axes[1]
    np.testing.assert_allclose(
        part(below, "rate").get_ydata(), [entry["rate"] for entry in monitor.log]
    )
    np.testing.assert_allclose(
        part(below, "expected").get_ydata(),
        [entry["expected_rate"] for entry in monitor.log],
    )


def test_the_first_alarm_is_marked(monitor, raw, part):
    y, p = raw
    for _ in range(6):
        monitor.update(ScoreHistogram.from_scores(p, 1 - y))
    first = next(i for i, entry in enumerate(monitor.log, start=1) if entry["alarm"])
    assert part(monitor.plot(), "alarm").get_xdata()[0] == first


def test_nothing_to_draw_is_told(monitor):
    with pytest.raises(ValueError, match="monitor must have had an update"):
        Monitor(monitor.calibrator).plot()
