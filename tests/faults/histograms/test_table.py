"""The table of the contract for rows that come in parts: both ways in."""

import pytest
from tests.faults.adapters import FromScores, PartialFit
from tests.faults.table import cases, check

from calspline import SplineCalibrator

CASES = cases("histograms")
MAY_BE_EMPTY = {4, 16, 31}
"""A part of a stream may have no row, or one, or weigh nothing."""


@pytest.mark.parametrize("case", CASES)
def test_a_histogram(case):
    check(case, "histograms", FromScores(SplineCalibrator()), two=True)


@pytest.mark.parametrize("case", [case for case in CASES if case not in MAY_BE_EMPTY])
def test_a_part(case):
    check(case, "histograms", PartialFit(SplineCalibrator()), two=True)
