"""Fits from batches: the same as from rows, a bounded sample that says its size, and images as groups."""

import numpy as np
import pytest
import torch

from calspline import SplineCalibrator
from calspline.calibrators.incremental import Batch, Reservoir


def images(n, m=4, size=8, seed=0):
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(n, m, size, size)) + 0.5 * rng.normal(size=(n, m, 1, 1))
    labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    return 2.0 * logits, labels


def in_batches(logits, labels, size):
    for i in range(0, len(logits), size):
        yield logits[i : i + size], labels[i : i + size]


LOGITS, LABELS = images(40)
ROWS, Y, IMAGE = np.moveaxis(LOGITS, 1, -1).reshape(-1, 4), LABELS.ravel(), np.repeat(np.arange(40), 64)


@pytest.mark.parametrize("multiclass", ["structured", "ovr"])
@pytest.mark.parametrize("size", [1, 7, 40])
def test_a_fit_of_batches_is_that_of_their_rows_with_images_as_groups(multiclass, size):
    whole = SplineCalibrator(multiclass=multiclass).fit(ROWS, Y, groups=IMAGE)
    parts = SplineCalibrator(multiclass=multiclass).fit_batches(in_batches(LOGITS, LABELS, size))
    np.testing.assert_allclose(parts.predict_proba(ROWS[:100]), whole.predict_proba(ROWS[:100]), atol=1e-9)
    assert parts.design_effect_ == pytest.approx(whole.design_effect_)
    assert (parts.rows_seen_, parts.rows_kept_) == (2560, 2560)


def test_tensors_and_other_dimensions_are_taken_too():
    wanted = SplineCalibrator().fit_batches(in_batches(LOGITS, LABELS, 8)).predict_proba(ROWS[:50])
    tensors = in_batches(torch.tensor(LOGITS), torch.tensor(LABELS), 8)
    np.testing.assert_array_equal(SplineCalibrator().fit_batches(tensors).predict_proba(ROWS[:50]), wanted)
    last = in_batches(np.moveaxis(LOGITS, 1, -1), LABELS, 8)
    np.testing.assert_array_equal(SplineCalibrator().fit_batches(last, dim=-1).predict_proba(ROWS[:50]), wanted)


def test_rows_alone_are_no_groups():
    batches = SplineCalibrator().fit_batches(in_batches(ROWS, Y, 100))
    np.testing.assert_array_equal(
        batches.predict_proba(ROWS[:50]), SplineCalibrator().fit(ROWS, Y).predict_proba(ROWS[:50])
    )
    assert batches.design_effect_ == 1.0


def test_ignored_labels_do_not_count():
    labels = LABELS.copy()
    labels[:, :4] = 255
    kept = labels.ravel() != 255
    cal = SplineCalibrator().fit_batches(in_batches(LOGITS, labels, 9), ignore_index=255)
    wanted = SplineCalibrator().fit(ROWS[kept], Y[kept], groups=IMAGE[kept])
    np.testing.assert_array_equal(cal.predict_proba(ROWS[:50]), wanted.predict_proba(ROWS[:50]))
    assert cal.rows_seen_ == kept.sum()


def test_the_sample_is_bounded_and_does_not_depend_on_the_batches():
    fits = [SplineCalibrator().fit_batches(in_batches(LOGITS, LABELS, size), max_rows=500) for size in (3, 40)]
    assert all((fit.rows_seen_, fit.rows_kept_) == (2560, 500) for fit in fits)
    np.testing.assert_allclose(*(fit.predict_proba(ROWS[:50]) for fit in fits), atol=1e-9)


def test_histograms_of_one_against_the_rest_know_all_rows():
    one = SplineCalibrator(multiclass="ovr").fit_batches(in_batches(LOGITS, LABELS, 8), max_rows=300)
    assert one.rows_kept_ == 300
    assert one.n_effective_ <= 300.0  # as far as the sample knows
    many, few = (
        np.abs(each.predict_proba(ROWS) - SplineCalibrator(multiclass="ovr").fit(ROWS, Y).predict_proba(ROWS)).mean()
        for each in (one, SplineCalibrator(multiclass="ovr").fit(ROWS[::9], Y[::9]))
    )
    assert many < few


def test_every_row_is_as_likely_to_be_kept():
    counts = np.zeros(100)
    for seed in range(400):
        reservoir = Reservoir(20, seed)
        for i in range(0, 100, 7):
            number = np.arange(i, min(i + 7, 100))
            reservoir.add(Batch(number[:, None], number, number))
            assert sum(len(key) for key, _ in reservoir._parts) <= 40
        assert len(reservoir.rows.labels) == 20
        counts[reservoir.rows.labels] += 1
    # 400 draws with chance 1/5: standard deviation 8
    assert np.abs(counts - 80.0).max() < 4.5 * 8.0
    assert abs(counts[:50].sum() - 4000.0) < 4.0 * np.sqrt(400 * 20 * 0.25 * 80 / 99)


@pytest.mark.parametrize(
    ("batches", "options", "message"),
    [
        ([], {}, "must hold rows that count"),
        ([LOGITS], {}, "pairs of scores and labels; batch 0 is ndarray"),
        ([(LOGITS, LABELS[:, 1:])], {}, r"labels of batch 0 must have the shape \(40, 8, 8\)"),
        ([(LOGITS, LABELS + 1)], {}, "from 0 to 3, or ignore_index; one is 4"),
        ([(LOGITS, LABELS), (LOGITS[:, :3], LABELS)], {}, "scores of batch 1 must have 4 classes"),
        ([(LOGITS, LABELS)], {"dim": 0}, "dim must be a dimension of the scores after the first"),
        ([(LOGITS, LABELS)], {"dim": 7}, "dim must be a dimension"),
        ([(LOGITS, LABELS)], {"max_rows": 1}, "max_rows"),
        ([(LOGITS[:1], LABELS[:1])], {}, "all rows are of one"),
    ],
)
def test_bad_batches_are_named(batches, options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        SplineCalibrator().fit_batches(batches, **options)
