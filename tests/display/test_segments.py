import numpy as np

from calspline import evaluate


def test_ratios_are_drawn_with_their_intervals_sorted_and_the_worst_first_kept(part):
    rng = np.random.default_rng(0)
    p = rng.uniform(size=8000)
    by = np.array([f"${i}" for i in range(40)])[rng.integers(0, 40, 8000)]
    y = rng.random(8000) < p ** np.where(by == "$3", 0.5, 1.0)
    found = evaluate(y, p, by=by).segments
    ax = found.plot()
    worst = sorted(found.order[:30], key=lambda i: found.table["ratio"][i])
    assert found.order[0] in worst
    np.testing.assert_allclose(
        part(ax, "ratio").get_offsets()[:, 0], found.table["ratio"][worst]
    )
    ends = np.array([path[:, 0] for path in part(ax, "interval").get_segments()])
    np.testing.assert_allclose(ends[:, 0], found.table["lower"][worst])
    np.testing.assert_allclose(ends[:, 1], found.table["upper"][worst])
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert names == [found.names[i].replace("$", r"\$") for i in worst]


def test_a_segment_without_events_is_drawn(part):
    found = evaluate(
        [0, 0, 0, 1, 1, 0], [0.3, 0.4, 0.3, 0.6, 0.7, 0.4], by=[1, 1, 1, 2, 2, 2]
    ).segments
    low, high = found.plot().get_xlim()
    assert 0.0 < low < 1.0 < high
