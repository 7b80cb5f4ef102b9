import numpy as np

from calspline import evaluate
from calspline.display import SegmentDisplay


def test_ratios_are_drawn_with_their_intervals_sorted_and_the_worst_first_kept(part, parts):
    rng = np.random.default_rng(0)
    p = rng.uniform(size=8000)
    by = np.array([f"${i}" for i in range(40)])[rng.integers(0, 40, 8000)]
    y = rng.random(8000) < p ** np.where(by == "$3", 0.5, 1.0)
    found = evaluate(y, p, by=by).segments
    display = found.plot()
    assert isinstance(display, SegmentDisplay)
    ratio = found.table["ratio"][display.places_]
    assert len(display.places_) == 30
    assert found.order[0] in display.places_
    assert np.all(np.diff(ratio) >= 0.0)
    np.testing.assert_allclose(part(display.ax_, "ratio-0").get_offsets()[:, 0], ratio)
    ends = np.array([path[:, 0] for path in part(display.ax_, "interval-0").get_segments()])
    np.testing.assert_allclose(ends[:, 0], found.table["lower"][display.places_])
    np.testing.assert_allclose(ends[:, 1], found.table["upper"][display.places_])
    display.figure_.canvas.draw()
    assert display.ax_.get_legend() is None
    both = SegmentDisplay({"raw": found, "calibrated": evaluate(y, p**0.98, by=by).segments}).plot()
    assert [text.get_text() for text in both.ax_.get_legend().get_texts()] == ["raw", "calibrated"]


def test_a_segment_without_events_is_drawn(part):
    found = evaluate([0, 0, 0, 1, 1, 0], [0.3, 0.4, 0.3, 0.6, 0.7, 0.4], by=[1, 1, 1, 2, 2, 2]).segments
    low, high = found.plot().ax_.get_xlim()
    assert 0.0 < low < 1.0 < high
