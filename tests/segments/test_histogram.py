"""Histograms of segments: one grid, and they add up."""

from __future__ import annotations

import numpy as np
import pytest

from calspline import ScoreHistogram
from calspline._input.scores import check_binary_scores
from calspline._input.segment_labels import check_by
from calspline.histograms.segment_histogram import SegmentHistograms

KINDS = ["exact", "cells", "margins", "ends", "wide"]


def rows_of(kind, n=20000, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    if kind == "exact":
        x = np.round(x, 2)
    y = rng.random(n) < 1 / (1 + np.exp(-x))
    scores = x if kind == "margins" else 1 / (1 + np.exp(-x))
    if kind == "ends":
        scores = np.where(np.abs(x) > 2.0, (x > 0.0).astype(float), scores)
    if kind == "wide":
        scores = 1 / (1 + np.exp(-20 * x))
    return scores, y, rng.choice(["a", "b", "c"], n), rng.integers(0, 4, n) / 2


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("weighted", [False, True])
def test_sums_and_means_are_those_of_the_rows(kind, weighted):
    scores, y, by, w = rows_of(kind)
    weight = w if weighted else None
    found = ScoreHistogram.from_scores(scores, y, weight, by=by)
    assert list(found) == ["a", "b", "c"]
    w = w if weighted else np.ones(len(y))
    for label in found:
        one, own = found[label], by == label
        whole = ScoreHistogram.from_scores(
            scores[own], y[own], None if weight is None else weight[own]
        )
        assert one.positives.sum() == pytest.approx(w[own & y].sum())
        assert one.negatives.sum() == pytest.approx(w[own & ~y].sum())
        if kind != "wide":
            assert (one.positives + one.negatives) @ one.locations == pytest.approx(
                (whole.positives + whole.negatives) @ whole.locations, abs=1e-6
            )
        assert (np.diff(one.locations) >= 0.0).all()
        assert one.highest == pytest.approx(whole.highest, abs=0.5)
        ScoreHistogram.from_dict(one.to_dict())


@pytest.mark.parametrize("kind", KINDS)
def test_parts_add_up_to_the_whole(kind):
    scores, y, by, w = rows_of(kind)
    whole = ScoreHistogram.from_scores(scores, y, w, by=by)
    parts = [
        ScoreHistogram.from_scores(scores[i::3], y[i::3], w[i::3], by=by[i::3])
        for i in range(3)
    ]
    total = parts[0] + parts[1] + parts[2]
    assert list(total) == list(whole)
    for label in whole:
        a, b = whole[label], total[label]
        np.testing.assert_allclose(b.positives.sum(), a.positives.sum())
        if whole.level == total.level:
            np.testing.assert_allclose(b.locations, a.locations, atol=1e-9)
            np.testing.assert_allclose(b.positives, a.positives, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_bins_of_no_weight_are_gone(kind):
    scores, y, by, _ = rows_of(kind)
    every = ScoreHistogram.from_scores(scores, y, by=by)
    halves = [
        np.where(every.segment == 1, 0.0, np.floor(w * 0.5))
        for w in (every.positives, every.negatives)
    ]
    found = every.reweighted(*halves)
    assert list(found) == ["a", "c"]
    assert found.pooled.total == pytest.approx(halves[0].sum() + halves[1].sum())
    for k, label in ((0, "a"), (2, "c")):
        own = (every.segment == k) & (halves[0] + halves[1] > 0.0)
        np.testing.assert_array_equal(found[label].locations, every.locations[own])
        np.testing.assert_array_equal(found[label].positives, halves[0][own])
        np.testing.assert_array_equal(found[label].negatives, halves[1][own])


def test_a_plain_mapping_is_put_on_one_grid():
    scores, y, by, _ = rows_of("cells")
    separate = {
        label: ScoreHistogram.from_scores(scores[by == label], y[by == label])
        for label in "cab"
    }
    found = SegmentHistograms.of(
        separate | {"none": ScoreHistogram.from_counts([], [], [])}
    )
    assert list(found) == ["a", "b", "c"]
    assert SegmentHistograms.of(found) is found
    assert found.pooled.total == len(y)
    assert found.level is not None


def test_segments_many_and_small_are_counted_alike():
    scores, y, _, _ = rows_of("cells")
    by = np.arange(len(y)) // 2
    w = np.where(np.arange(len(y)) % 5 == 0, 0.0, 1.0)
    found = ScoreHistogram.from_scores(scores, y, w, by=by)
    assert found.positives.sum() == w[y].sum()
    assert len(found) == len(np.unique(by[w > 0]))
    assert (
        repr(found) == f"SegmentHistograms({len(found)} segments, weight {w.sum():g})"
    )


def test_rows_without_a_label_are_under_none():
    scores, y, by, _ = rows_of("exact", 300)
    named = by.astype(object)
    named[::3] = None
    found = ScoreHistogram.from_scores(scores, y, by=named)
    assert list(found)[-1] is None
    assert found[None].total == 100
    assert list(found + found)[-1] is None
    several = ScoreHistogram.from_scores(scores, y, by=[named, by])
    assert len(several.columns) == 2
    assert (None, "a") in several


def test_nothing_can_be_added_to_something():
    scores, y, by, _ = rows_of("exact", 300)
    found = ScoreHistogram.from_scores(scores, y, by=by)
    rows = check_binary_scores(np.empty(0), kind=None)
    nothing = ScoreHistogram.from_counts([], [], [])
    empty = SegmentHistograms.collect(
        nothing, rows, np.empty(0, dtype=bool), None, check_by([], 0)
    )
    assert found + empty is found
    assert empty + found is found
    with pytest.raises(TypeError):
        found + 1
    with pytest.raises(ValueError, match="one column of segments to those of several"):
        found + ScoreHistogram.from_scores(scores, y, by=[by, by])


def test_histograms_of_segments_know_their_classes():
    found = ScoreHistogram.from_scores(
        [0.1, 0.4, 0.6, 0.8], ["no", "no", "yes", "yes"], by=[1, 2, 1, 2]
    )
    assert found[1].classes == ("no", "yes")
    assert SegmentHistograms.of(dict(found)).pooled.classes == ("no", "yes")


def test_what_is_no_mapping_of_histograms():
    with pytest.raises(
        TypeError, match="histogram must map labels to ScoreHistogram; 'a' has int"
    ):
        SegmentHistograms.of({"a": 1})
    with pytest.raises(ValueError, match="at least one segment with rows"):
        SegmentHistograms.of({})


def test_cells_far_apart_are_found_too():
    scores = np.concatenate(
        [np.linspace(-1e-300, 1e-300, 3000), np.linspace(1e200, 2e200, 3000)]
    )
    y = np.arange(6000) % 2 == 0
    found = ScoreHistogram.from_scores(scores, y, by=np.arange(6000) % 3, kind="margin")
    assert found.positives.sum() == 3000
