"""A sample of what ``make thorough`` runs in full."""

import numpy as np
import pytest
from benchmarks.stress.__main__ import data_set
from benchmarks.stress.precise import SMOOTHING, farthest
from benchmarks.stress.shapes import rows_at
from benchmarks.stress.trial import options_at, trial

from calspline import SplineCalibrator

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("part", range(4))
def test_nothing_is_wrong_with_fits_of_nasty_data(part):
    for seed in range(1000 + part, 1100, 4):
        rows = data_set(seed)
        if len(rows.y) <= 3000:
            for options in ({}, options_at(seed, rows)):
                assert trial(rows, options).problems == (), (seed, rows.name, options)


@pytest.mark.filterwarnings("ignore:scores are lower", "ignore:sample_weight sums to")
@pytest.mark.parametrize("seed", [1, 2, 10, 23, 24, 30, 38])
def test_the_fit_is_the_exact_maximum(seed):
    rows = rows_at(seed, 40, many=False)
    cal = SplineCalibrator(smoothing=SMOOTHING, monotone=False).fit(
        rows.scores, rows.y, rows.weight
    )
    assert farthest(cal) < 1e-11


def test_what_is_wrong_is_found():
    rows = rows_at(0, 300, many=False)
    found = trial(rows._replace(weight=np.full(300, -1.0)), {})
    assert "ValueError" in found.problems[0]
