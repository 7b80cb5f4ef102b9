"""Sampling rows from batches: a bounded sample of all rows, with images as groups."""

import numpy as np
import pytest
import torch

from calspline import SplineCalibrator, sample_batches
from calspline._input.batches import BatchRows, Reservoir


def images(n, m=4, size=8, seed=0):
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(n, m, size, size)) + 0.5 * rng.normal(size=(n, m, 1, 1))
    labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    return 2.0 * logits, labels


def in_batches(logits, labels, size):
    for i in range(0, len(logits), size):
        yield logits[i : i + size], labels[i : i + size]


LOGITS, LABELS = images(40)
ROWS = np.moveaxis(LOGITS, 1, -1).reshape(-1, 4)
Y = LABELS.ravel()
IMAGE = np.repeat(np.arange(40), 64)


@pytest.mark.parametrize("size", [1, 7, 40])
def test_all_rows_are_returned_if_they_are_few(size):
    scores, y, groups = sample_batches(in_batches(LOGITS, LABELS, size))
    np.testing.assert_array_equal(scores, ROWS)
    np.testing.assert_array_equal(y, Y)
    np.testing.assert_array_equal(groups, IMAGE)


def test_tensors_and_other_dimensions_of_the_classes_are_accepted():
    tensors = in_batches(torch.tensor(LOGITS), torch.tensor(LABELS), 8)
    np.testing.assert_array_equal(sample_batches(tensors).scores, ROWS)
    last = in_batches(np.moveaxis(LOGITS, 1, -1), LABELS, 8)
    np.testing.assert_array_equal(sample_batches(last, dim=-1).scores, ROWS)


def test_ignored_labels_are_left_out():
    labels = LABELS.copy()
    labels[:, :4] = 255
    kept = labels.ravel() != 255
    scores, y, groups = sample_batches(in_batches(LOGITS, labels, 9), ignore_index=255)
    np.testing.assert_array_equal(scores, ROWS[kept])
    np.testing.assert_array_equal(y, Y[kept])
    np.testing.assert_array_equal(groups, IMAGE[kept])


def test_the_sample_is_bounded_and_does_not_depend_on_the_batches():
    samples = [
        sample_batches(in_batches(LOGITS, LABELS, size), max_rows=500)
        for size in (3, 40)
    ]
    assert len(samples[0].labels) == 500
    for one, other in zip(*samples, strict=True):
        np.testing.assert_array_equal(one, other)
    other = sample_batches(in_batches(LOGITS, LABELS, 3), max_rows=500, random_state=1)
    assert not np.array_equal(other.groups, samples[0].groups)


def test_dependent_rows_of_an_image_reduce_the_effective_sample_size():
    scores, y, groups = sample_batches(in_batches(LOGITS, LABELS, 8), max_rows=1000)
    assert SplineCalibrator().fit(scores, y, groups=groups).n_effective_ < 1000
    alone = sample_batches(in_batches(ROWS, Y, 100))
    assert (
        SplineCalibrator()
        .fit(alone.scores, alone.labels, groups=alone.groups)
        .design_effect_
        == 1.0
    )


def test_every_row_is_as_likely_to_be_kept():
    counts = np.zeros(100)
    for seed in range(400):
        reservoir = Reservoir(20, seed)
        for i in range(0, 100, 7):
            number = np.arange(i, min(i + 7, 100))
            reservoir.add(BatchRows(number[:, None], number, number))
            assert reservoir.n_held <= 40
        kept = reservoir.sample().labels
        assert len(kept) == 20
        counts[kept] += 1
    # 400 draws with chance 1/5: standard deviation 8
    assert np.abs(counts - 80.0).max() < 4.5 * 8.0
    assert abs(counts[:50].sum() - 4000.0) < 4.0 * np.sqrt(400 * 20 * 0.25 * 80 / 99)


@pytest.mark.parametrize(
    ("batches", "options", "message"),
    [
        ([], {}, "must hold at least one row"),
        ([LOGITS], {}, "pairs of scores and labels; batch 0 is ndarray"),
        (
            [(LOGITS, LABELS[:, 1:])],
            {},
            r"labels of batch 0 must have the shape \(40, 8, 8\)",
        ),
        ([(LOGITS, LABELS + 1)], {}, "from 0 to 3, or ignore_index; got 4"),
        (
            [(LOGITS, LABELS), (LOGITS[:, :3], LABELS)],
            {},
            "scores of batch 1 must have 4 classes",
        ),
        (
            [(LOGITS, LABELS)],
            {"dim": 0},
            "dim must be a dimension of the scores after the first",
        ),
        ([(LOGITS, LABELS)], {"dim": 7}, "dim must be a dimension"),
        ([(LOGITS, LABELS)], {"max_rows": 1}, "max_rows"),
    ],
)
def test_bad_batches_are_named(batches, options, message):
    with pytest.raises(ValueError, match=message):
        sample_batches(batches, **options)
