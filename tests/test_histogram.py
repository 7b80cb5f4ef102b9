import json

import numpy as np
import pytest
from scipy.special import expit
from sklearn.metrics import log_loss

from calspline import ScoreHistogram, SplineCalibrator
from calspline._arrays import CHUNK
from calspline.histograms.grid import MAX_POINTS, cells_of, coarser
from calspline.transforms import log_odds


def scores_and_labels(n, seed=0, kind="probability"):
    rng = np.random.default_rng(seed)
    u = rng.normal(-1, 2.5, n)
    y = rng.random(n) < 1 / (1 + np.exp(-0.7 * u))
    return (1 / (1 + np.exp(-u)) if kind == "probability" else u), y


def assert_same(a, b, rtol=1e-12):
    assert a.kind == b.kind
    assert a.level == b.level
    assert a.highest == b.highest
    np.testing.assert_array_equal(a.cells, b.cells)
    for name in ("locations", "positives", "negatives"):
        np.testing.assert_allclose(
            getattr(a, name), getattr(b, name), rtol=rtol, atol=1e-12
        )


def test_few_distinct_scores_are_kept_exactly():
    h = ScoreHistogram.from_scores([0.2, 0.5, 0.2, 0.5, 0.5], [1, 0, 0, 1, 1])
    assert h.exact
    np.testing.assert_allclose(h.scores, [0.2, 0.5])
    assert h.positives.tolist() == [1, 2]
    assert h.negatives.tolist() == [1, 1]
    assert (len(h), h.total, h.base_rate) == (2, 5.0, 0.6)


@pytest.mark.parametrize("kind", ["probability", "margin"])
def test_many_distinct_scores_are_binned_with_their_means(kind):
    p, y = scores_and_labels(3 * CHUNK, kind=kind)
    h = ScoreHistogram.from_scores(p, y)
    assert not h.exact
    assert h.kind == kind
    location = log_odds(p) if kind == "probability" else p
    cell = cells_of(location, kind, h.level)
    cells, counts = np.unique(h.cells, return_counts=True)
    some = cells[counts == 2][len(cells) // 3]
    for label, weights in ((True, h.positives), (False, h.negatives)):
        inside = (cell == some) & (y == label)
        (i,) = np.flatnonzero((h.cells == some) & (weights > 0))
        assert weights[i] == inside.sum()
        assert h.locations[i] == pytest.approx(location[inside].mean(), rel=1e-12)
    assert h.total == len(p)
    assert np.all(np.diff(h.locations) >= 0)


@pytest.mark.parametrize("kind", ["probability", "margin"])
@pytest.mark.parametrize("n", [200, 20_000])
def test_histograms_of_parts_add_up_to_that_of_the_whole(n, kind):
    p, y = scores_and_labels(n, kind=kind)
    whole = ScoreHistogram.from_scores(p, y, kind=kind)
    for cut in (n // 10, n // 3):
        assert_same(
            ScoreHistogram.from_scores(p[:cut], y[:cut], kind=kind)
            + ScoreHistogram.from_scores(p[cut:], y[cut:], kind=kind),
            whole,
        )


def test_the_order_of_rows_and_the_size_of_chunks_do_not_matter(monkeypatch):
    p, y = scores_and_labels(30_000)
    whole = ScoreHistogram.from_scores(p, y)
    shuffle = np.random.default_rng(1).permutation(30_000)
    assert_same(ScoreHistogram.from_scores(p[shuffle], y[shuffle]), whole)
    monkeypatch.setattr("calspline._arrays.CHUNK", 1000)
    assert_same(ScoreHistogram.from_scores(p, y), whole)


def test_the_grid_is_reached_only_beyond_the_limit_of_distinct_scores():
    p = np.linspace(0.001, 0.999, MAX_POINTS)
    y = np.arange(MAX_POINTS) % 2
    assert ScoreHistogram.from_scores(p, y).exact
    more = ScoreHistogram.from_scores(np.append(p, 0.9995), np.append(y, 1))
    assert not more.exact
    assert_same(
        ScoreHistogram.from_scores(p, y)
        + ScoreHistogram.from_scores([0.9995], [1], classes=[0, 1]),
        more,
    )


@pytest.mark.parametrize(
    "scores",
    [
        lambda rng: rng.uniform(0.01, 0.03, 50_000),
        lambda rng: 0.5 + 1e-9 * rng.random(50_000),
        lambda rng: 1e7 + rng.normal(size=50_000),
        lambda rng: np.append(1000 + rng.normal(size=50_000), [0.0, -1e9]),
        lambda rng: 1e-6 * rng.normal(size=50_000),
        lambda rng: 1e-20 * rng.normal(size=50_000),
        lambda rng: np.append(1e-300 * rng.normal(size=50_000), 0.0),
        lambda rng: 0.5 + 2e-12 * rng.random(50_000),
        lambda rng: -1e6 - 1e-5 * rng.random(50_000),
        lambda rng: rng.standard_cauchy(50_000),
        lambda rng: np.concatenate([np.zeros(9), np.ones(9), rng.random(50_000)]),
    ],
    ids=[
        *(
            "click rates",
            "hair's breadth",
            "offset",
            "offset and outliers",
            "tiny",
            "tinier",
            "next to nothing",
        ),
        *("within rounding", "offset beyond reason", "heavy tails", "exact ends"),
    ],
)
def test_the_grid_resolves_scores_of_any_range_with_bounded_memory(scores):
    x = scores(np.random.default_rng(0))
    h = ScoreHistogram.from_scores(x, np.arange(len(x)) % 2)
    assert not h.exact
    assert MAX_POINTS // 2 <= len(h) <= 2 * MAX_POINTS
    assert len(np.unique(h.cells)) <= MAX_POINTS
    location = log_odds(x) if h.kind == "probability" else x
    # the finest grid that will do: one level down there would be too many cells
    assert len(np.unique(cells_of(location, h.kind, h.level - 1))) > MAX_POINTS
    width = np.subtract(*np.quantile(location, [0.75, 0.25]))
    inside = np.diff(
        np.unique(h.locations[np.abs(h.locations - np.median(location)) < width])
    )
    assert np.median(inside) < 0.005 * width


@pytest.mark.parametrize("unit", [1e-13, 1e-20, 1e-300])
def test_the_unit_of_many_margins_does_not_matter(unit):
    rng = np.random.default_rng(0)
    x = rng.normal(size=20_000)
    y = rng.random(20_000) < expit(2 * x)
    usual, tiny = (SplineCalibrator().fit(scale * x, y) for scale in (1.0, unit))
    np.testing.assert_allclose(tiny.calibrate(unit * x), usual.calibrate(x), atol=1e-4)


def test_histograms_of_tiny_and_of_ordinary_margins_add_up():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=20_000), rng.integers(0, 2, 20_000)
    tiny, usual = (
        ScoreHistogram.from_scores(1e-20 * x, y),
        ScoreHistogram.from_scores(x, y),
    )
    assert tiny.level < 0 < usual.level
    both = ScoreHistogram.from_scores(
        np.concatenate([1e-20 * x, x]), np.concatenate([y, y])
    )
    assert_same(tiny + usual, both)
    assert_same(usual + tiny, both)
    back = ScoreHistogram.from_dict(json.loads(json.dumps(tiny.to_dict())))
    assert_same(back, tiny, rtol=0)


def test_exact_0_and_1_have_cells_of_their_own():
    rng = np.random.default_rng(0)
    p = np.concatenate(
        [rng.random(20_000), np.zeros(7), np.ones(9), [1 - 2**-53, 1e-290]]
    )
    y = np.concatenate([rng.integers(0, 2, 20_000), np.zeros(7), np.ones(9), [1, 0]])
    h = ScoreHistogram.from_scores(p, y)
    assert not h.exact
    assert h.negatives[0] == 7
    assert h.positives[-1] == 9
    assert h.positives[-2] == 1
    assert h.locations[-1] == log_odds(1.0)
    assert h.highest == log_odds(1 - 2**-53)


def test_the_highest_score_below_1_is_known_whatever_chunk_it_is_in():
    p = np.concatenate(
        [
            np.random.default_rng(0).uniform(0, 0.99, CHUNK),
            np.ones(10),
            [0.995],
            np.ones(5),
        ]
    )
    h = ScoreHistogram.from_scores(p, np.arange(len(p)) % 2)
    assert h.highest == log_odds(0.995)
    only_ones = ScoreHistogram.from_scores(
        np.concatenate([p[:CHUNK], np.ones(10)]), np.arange(CHUNK + 10) % 2
    )
    assert only_ones.highest == log_odds(p[:CHUNK].max())


@pytest.mark.parametrize("level", [-8, 0, 20, 36, 43])
def test_grids_are_monotone_and_each_is_made_of_the_one_below(level):
    u = np.concatenate(
        [-np.geomspace(690, 1e-6, 20_001), np.geomspace(1e-6, 690, 20_001)]
    )
    m = np.concatenate(
        [
            -np.geomspace(1e300, 1e-300, 10_001),
            [0.0],
            np.geomspace(1e-300, 1e300, 10_001),
        ]
    )
    for location, kind in ((u, "probability"), (m, "margin")):
        cells = cells_of(location, kind, level)
        assert np.all(np.diff(cells) >= 0)
        np.testing.assert_array_equal(
            coarser(cells, 3), cells_of(location, kind, level + 3)
        )


@pytest.mark.parametrize("n", [500, 20_000])
def test_integer_weights_are_repetitions_and_zero_weights_are_absence(n):
    p, y = scores_and_labels(n)
    w = np.random.default_rng(3).integers(0, 4, n)
    weighted = ScoreHistogram.from_scores(p, y, w)
    repeated = ScoreHistogram.from_scores(np.repeat(p, w), np.repeat(y, w))
    assert_same(weighted, repeated, rtol=1e-10)


def test_weights_reach_the_grid_over_many_chunks():
    p, y = scores_and_labels(2 * CHUNK + 5)
    w = np.full(len(p), 2.0)
    doubled, single = (
        ScoreHistogram.from_scores(p, y, w),
        ScoreHistogram.from_scores(p, y),
    )
    np.testing.assert_allclose(doubled.positives, 2 * single.positives)
    np.testing.assert_allclose(doubled.negatives, 2 * single.negatives)
    np.testing.assert_allclose(doubled.locations, single.locations)


def test_counts_give_the_histogram_of_the_rows_they_count():
    rows = ScoreHistogram.from_scores([0.1, 0.1, 0.1, 0.7, 0.7], [0, 0, 1, 1, 1])
    assert_same(ScoreHistogram.from_counts([0.7, 0.1], [2, 1], [2, 3]), rows)
    twice = ScoreHistogram.from_counts([0.1, 0.7, 0.1], [1, 2, 0], [1, 2, 2])
    assert_same(twice, rows)


def test_counts_without_any_positive_are_a_part_like_any_other():
    h = ScoreHistogram.from_counts(
        [0.1, 0.2], [0, 0], [5, 5]
    ) + ScoreHistogram.from_counts([0.1], [2], [2])
    assert h.positives.tolist() == [2, 0]
    assert (
        ScoreHistogram.from_counts([0.1, 0.2], [0, 1], [5, 5], kind="margin").kind
        == "margin"
    )


def test_an_empty_histogram_adds_to_anything():
    empty = ScoreHistogram.from_scores([], [])
    margins = ScoreHistogram.from_scores([-3.0, 0.2], [0, 1])
    assert empty + margins is margins
    assert margins + empty is margins
    assert np.isnan(empty.base_rate)


def test_a_histogram_of_ones_alone_survives_json():
    h = ScoreHistogram.from_scores([1.0, 1.0], [0, 1])
    assert_same(
        ScoreHistogram.from_dict(json.loads(json.dumps(h.to_dict(), allow_nan=False))),
        h,
    )


def test_empty_counts_drop_out():
    h = ScoreHistogram.from_counts([0.1, 0.5, 0.7], [1, 0, 2], [3, 0, 2])
    np.testing.assert_allclose(h.scores, [0.1, 0.7])


@pytest.mark.parametrize(
    ("positives", "totals", "message"),
    [
        ([2], [1], "positives must not exceed totals; row 0"),
        ([1, 1], [1], "same length"),
        ([-1], [1], "positives must not be negative"),
        ([0.5], [[1], [2]], "same length"),
        (None, [1], "must be given"),
    ],
)
def test_impossible_counts_are_errors(positives, totals, message):
    with pytest.raises((ValueError, TypeError), match=message):
        ScoreHistogram.from_counts([0.5], positives, totals)


def test_a_part_with_one_class_needs_the_classes_unless_they_are_0_and_1():
    assert ScoreHistogram.from_scores([0.1, 0.2], [0, 0]).positives.sum() == 0
    assert ScoreHistogram.from_scores([0.1, 0.2], [True, True]).negatives.sum() == 0
    with pytest.raises(ValueError, match="two classes"):
        ScoreHistogram.from_scores([0.1, 0.2], ["no", "no"])
    h = ScoreHistogram.from_scores([0.1, 0.2], ["no", "no"], classes=["no", "yes"])
    assert h.negatives.sum() == 2


def test_margins_and_probabilities_do_not_add():
    a = ScoreHistogram.from_scores([0.1, 0.2], [0, 1])
    b = ScoreHistogram.from_scores([-3.0, 0.2], [0, 1])
    with pytest.raises(ValueError, match="cannot add"):
        a + b
    with pytest.raises(TypeError):
        a + 1


@pytest.mark.parametrize("n", [0, 50, 20_000])
def test_a_histogram_survives_json(n):
    p, y = scores_and_labels(n)
    h = ScoreHistogram.from_scores(p, y)
    back = ScoreHistogram.from_dict(json.loads(json.dumps(h.to_dict())))
    assert_same(back, h, rtol=0)
    assert repr(back) == repr(h)


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "odds"},
        {"level": -1},
        {"level": 1.5},
        {"cells": [1, 2]},
        {"level": 40, "cells": [10**18, 10**18]},
        {"locations": [0.2, 0.1]},
        {"positives": [1.0]},
        {"positives": [-1.0, 1.0]},
        {"negatives": [float("nan"), 1.0]},
        {"highest": "far"},
        {"extra": 1},
    ],
)
def test_a_dict_that_is_no_histogram_is_an_error(change):
    good = ScoreHistogram.from_scores([0.1, 0.2], [0, 1]).to_dict()
    with pytest.raises((ValueError, TypeError)):
        ScoreHistogram.from_dict(good | change)
    with pytest.raises(ValueError, match="must be a dict"):
        ScoreHistogram.from_dict([])


@pytest.mark.parametrize("level", [-980, -100, 63, 5000, 10**30])
@pytest.mark.parametrize("kind", ["probability", "margin"])
def test_a_level_that_no_grid_has_is_an_error(kind, level):
    good = ScoreHistogram.from_scores(*scores_and_labels(20_000, kind=kind)).to_dict()
    with pytest.raises(ValueError, match="level"):
        ScoreHistogram.from_dict(good | {"level": level})


def test_binning_hardly_changes_the_fit(monkeypatch):
    p, y = scores_and_labels(60_000)
    binned = SplineCalibrator().fit(p, y)
    assert not binned.histogram_.exact
    monkeypatch.setattr("calspline.histograms.histogram.MAX_POINTS", 10**9)
    exact = SplineCalibrator().fit(p, y)
    assert exact.histogram_.exact
    grid = np.quantile(p, np.linspace(0, 1, 2001))
    assert np.abs(binned.calibrate(grid) - exact.calibrate(grid)).max() < 1e-4
    losses = [log_loss(y, cal.calibrate(p)) for cal in (binned, exact)]
    assert abs(losses[0] - losses[1]) < 1e-6


def test_a_chunk_of_weight_zero_is_absent():
    p, y = scores_and_labels(3 * CHUNK)
    w = np.ones(3 * CHUNK)
    w[2 * CHUNK :] = 0.0
    assert_same(
        ScoreHistogram.from_scores(p, y, w),
        ScoreHistogram.from_scores(p[: 2 * CHUNK], y[: 2 * CHUNK]),
    )


def test_equal_classes_of_a_file_are_refused():
    data = ScoreHistogram.from_scores([0.2, 0.8], ["no", "yes"]).to_dict()
    data["classes"] = ["no", "no"]
    with pytest.raises(ValueError, match="classes must all be different"):
        ScoreHistogram.from_dict(data)


def test_in_rows_weights_are_as_many_rows_as_say_as_much():
    weight = np.array([0.5, 2.5, 1.5, 0.5])
    histogram = ScoreHistogram.from_scores([0.1, 0.2, 0.3, 0.4], [0, 1, 1, 0], weight)
    effective = weight.sum() ** 2 / (weight**2).sum()  # Kish
    rows = histogram.in_rows()
    np.testing.assert_allclose(rows.total, effective)
    np.testing.assert_allclose(
        rows.positives / rows.total, histogram.positives / histogram.total
    )
    assert rows.in_rows() is rows
