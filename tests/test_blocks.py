"""Blocks of rows: they hold every row once, and what is made of them is the whole."""

import numpy as np
import pytest

from calspline import ScoreHistogram
from calspline._arrays import CHUNK, Workspace, added_up, blocks, filled

ROWS = 6 * CHUNK + 17


def test_blocks_hold_every_row_once():
    rows = list(blocks(ROWS, 2))
    assert rows[0].start == 0
    assert rows[-1].stop == ROWS
    assert [one.start for one in rows[1:]] == [one.stop for one in rows[:-1]]
    assert len(rows) == 7


def test_an_array_is_filled_whole():
    values = np.random.default_rng(0).random(ROWS)
    out = filled(np.full(ROWS, np.nan), lambda rows: 2.0 * values[rows])
    np.testing.assert_array_equal(out, 2.0 * values)


def test_sums_over_blocks_are_sums_over_rows():
    values = np.random.default_rng(0).integers(0, 9, (ROWS, 2)).astype(float)
    total, squares = added_up(
        lambda rows: [values[rows].sum(axis=0), (values[rows] ** 2).sum(axis=0)],
        blocks(*values.shape),
    )
    np.testing.assert_array_equal(total, values.sum(axis=0))
    np.testing.assert_array_equal(squares, (values**2).sum(axis=0))


def test_a_block_of_a_wide_matrix_has_few_rows():
    widest = max(rows.stop - rows.start for rows in blocks(10_000, 1000))
    sizes = []

    def note(rows):
        sizes.append(rows.stop - rows.start)
        return 0.0

    filled(np.empty(10_000), note, columns=1000)
    assert max(sizes) == widest == 65


def test_arrays_to_work_in_have_the_rows_of_a_block_and_are_used_again():
    parts = list(blocks(100, 1000))
    workspace = Workspace(parts, 1000, np.float64, np.int32)
    first, whole = workspace.views(parts[0])
    last, _ = workspace.views(parts[-1])
    assert first.shape == (65, 1000)
    assert last.shape == (35, 1000)
    assert whole.dtype == np.int32
    assert np.shares_memory(first, last)
    assert not np.shares_memory(first, whole)


def test_a_bad_row_is_named_wherever_it_is():
    rng = np.random.default_rng(0)
    p = rng.random(ROWS)
    y = (rng.random(ROWS) < p).astype(int)
    y[ROWS - 3] = 2
    with pytest.raises(ValueError, match=f"row {ROWS - 3} is"):
        ScoreHistogram.from_scores(p, y, classes=[0, 1])
    p[ROWS - 5] = np.nan
    with pytest.raises(ValueError, match=f"row {ROWS - 5} is nan"):
        ScoreHistogram.from_scores(p, y % 2)


def test_scores_that_are_few_at_first_and_too_many_later_are_those_of_one_grid():
    rng = np.random.default_rng(3)
    scores = np.concatenate([np.full(2 * CHUNK, 0.25), rng.random(2 * CHUNK)])
    y = rng.random(len(scores)) < scores
    straight = ScoreHistogram.from_scores(scores, y)
    turned = ScoreHistogram.from_scores(scores[::-1], y[::-1])
    np.testing.assert_allclose(straight.locations, turned.locations, atol=1e-9)
    np.testing.assert_array_equal(straight.positives, turned.positives)
