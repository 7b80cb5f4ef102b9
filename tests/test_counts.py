import numpy as np
import pytest

from calspline._arrays import Counts, run_starts


def test_rows_with_the_same_value_are_merged_and_values_sorted():
    counts = Counts.from_rows(
        np.array([0.5, 0.1, 0.5, 0.5]),
        np.array([True, False, False, True]),
        np.array([1.0, 2.0, 3.0, 4.0]),
    )
    np.testing.assert_array_equal(counts.x, [0.1, 0.5])
    np.testing.assert_array_equal(counts.positives, [0.0, 5.0])
    np.testing.assert_array_equal(counts.negatives, [2.0, 3.0])
    assert len(counts) == 2
    assert counts.total == 10.0
    assert counts.base_rate == 0.5
    assert not counts.all_equal


def test_a_row_of_weight_two_is_a_row_seen_twice():
    x, positive = np.array([0.3, 0.2, 0.3]), np.array([True, True, False])
    once = Counts.from_rows(x, positive, np.array([2.0, 1.0, 1.0]))
    twice = Counts.from_rows(np.append(x, 0.3), np.append(positive, True))
    np.testing.assert_array_equal(once.positives, twice.positives)
    np.testing.assert_array_equal(once.negatives, twice.negatives)


def test_merged_neighbours_stand_at_their_mean_and_never_beyond_them():
    counts = Counts(
        np.array([0.1, 0.2, 0.7]), np.array([1.0, 0.0, 2.0]), np.array([0.0, 3.0, 0.0])
    )
    merged = counts.merged(np.array([0, 2]))
    np.testing.assert_allclose(merged.x, [0.175, 0.7])
    np.testing.assert_array_equal(merged.w, [4.0, 2.0])
    np.testing.assert_array_equal(
        counts.merged(np.array([0, 2]), np.array([0.0, 1.0])).x, [0.0, 1.0]
    )
    third = Counts(np.full(3, 0.1), np.ones(3), np.zeros(3))
    assert third.merged(np.array([0])).x[0] == 0.1


def test_no_rows_are_no_counts():
    assert len(Counts.from_rows(np.empty(0), np.empty(0, dtype=bool))) == 0
    assert len(run_starts(np.empty(0))) == 0


@pytest.mark.parametrize(
    ("decimals", "first"), [(2, (0.0, -0.0, 1.0, 1e-310)), (17, (0.0, 1.0, 1e-310))]
)
def test_rows_of_weight_one_are_counted_like_rows_with_weights(decimals, first):
    """Whether scores repeat or not."""
    rng = np.random.default_rng(0)
    x = np.round(rng.random(500), decimals)
    x[: len(first)] = first
    positive = rng.random(500) < x
    fast = Counts.from_rows(x, positive)
    slow = Counts.from_rows(x, positive, np.ones(500))
    for name in ("x", "positives", "negatives"):
        np.testing.assert_array_equal(getattr(fast, name), getattr(slow, name))


def test_bins_begin_where_the_number_of_the_bin_changes():
    rng = np.random.default_rng(0)
    w = rng.pareto(0.5, 200)
    f = Counts(np.arange(200.0), w, np.zeros(200))
    for n_bins in (1, 7, 64, 1000):
        bins = f.equal_weight_bins(n_bins)
        np.testing.assert_array_equal(f.bin_starts(n_bins), run_starts(bins))
