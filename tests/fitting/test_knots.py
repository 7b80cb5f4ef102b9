import numpy as np
import pytest

from calspline.fitting.fit import (
    CLOSEST,
    MAX_KNOTS,
    default_count,
    quantile_knots,
    sampled_knots,
)


def test_the_default_number_of_knots_grows_slowly():
    assert default_count(10) == default_count(10_000) == 24
    assert default_count(1_000_000) == 60
    assert default_count(1e12) == 64


def test_quantile_knots_include_the_ends_and_follow_the_root_of_the_density():
    x = np.sort(np.random.default_rng(0).beta(2, 8, 5000))
    knots = quantile_knots(x, np.ones(5000), 20)
    assert len(knots) == 20
    assert (knots[0], knots[-1]) == (x[0], x[-1])
    dense_half = np.median(x)
    assert 6 <= (knots < dense_half).sum() < 10  # fewer than half, but not few


def test_quantile_knots_hardly_depend_on_binning():
    rng = np.random.default_rng(1)
    x = np.sort(rng.normal(size=50_000))
    cells = np.round(x * 128)
    centres, place = np.unique(cells, return_inverse=True)
    w = np.bincount(place).astype(float)
    means = np.bincount(place, weights=x) / w
    means[0], means[-1] = x[0], x[-1]
    exact, binned = quantile_knots(x, np.ones_like(x), 24), quantile_knots(means, w, 24)
    np.testing.assert_allclose(binned, exact, atol=0.02)
    assert len(centres) < 2000


def test_with_few_values_the_values_are_the_knots():
    values = np.array([0.1, 0.4, 0.9])
    assert (
        quantile_knots(np.repeat(values, 5), np.ones(15), 24).tolist()
        == values.tolist()
    )


def test_crowded_knots_are_thinned_but_the_ends_stay():
    values = np.array([0.0, 1e-6, 2e-6, 0.5, 1.0 - 1e-7, 1.0])
    knots = quantile_knots(values, np.ones(6), 24)
    assert knots.tolist() == [0.0, 0.5, 1.0]
    assert np.diff(knots).min() >= CLOSEST


def test_sampled_knots_are_distinct_values_of_the_data():
    x = np.random.default_rng(2).random(1000)
    knots = sampled_knots(x, 50, np.random.default_rng(0))
    assert np.isin(knots, x).all()
    assert 40 <= len(knots) <= 50
    assert np.all(np.diff(knots) > 0)
    assert len(sampled_knots(x[:10], 50, np.random.default_rng(0))) == 10


@pytest.mark.parametrize("asked", [2, 5000])
def test_no_more_knots_than_asked_for_or_useful(asked):
    x = np.linspace(0, 1, 3000)
    assert len(quantile_knots(x, np.ones(3000), asked)) == min(asked, MAX_KNOTS)


def test_a_sample_from_one_crowded_place_falls_back_to_the_ends():
    x = np.concatenate([np.linspace(0.0, 1e-9, 500), [1.0]])
    assert sampled_knots(x, 2, np.random.default_rng(0)).tolist() == [0.0, 1.0]
