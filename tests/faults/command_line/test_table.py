"""The table of the contract for the `calspline` command."""

import pytest
from tests.faults.adapters import CommandLine
from tests.faults.table import cases, check

from calspline import SplineCalibrator


@pytest.mark.parametrize("case", cases("command_line"))
def test_every_case(case, run, tmp_path):
    check(case, "command_line", CommandLine(SplineCalibrator(), run, tmp_path))
