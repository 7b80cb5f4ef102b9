"""The table of the contract for `fit_frame` and `apply_frame`: in memory, and where SQL runs."""

import pytest
from tests.faults.adapters import Frames
from tests.faults.table import cases, check

from calspline import SplineCalibrator

CASES = cases("frames")


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kind", ["pandas", "duckdb"])
def test_every_case(case, kind):
    # Queries of several classes take seconds.
    check(case, "frames", Frames(SplineCalibrator(), kind), two=kind == "duckdb")
