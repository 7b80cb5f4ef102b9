"""The table of the contract for `CalibratedClassifierCV`, of a spline and of a baseline."""

import pytest
from sklearn.base import clone
from tests.faults.adapters import Wrapper
from tests.faults.conftest import CALIBRATORS
from tests.faults.table import cases, check

CASES = cases("wrapper")
FOR_SPLINES = {"54a", "54b", "54c"}


@pytest.mark.parametrize("case", CASES)
def test_the_spline(case):
    check(case, "wrapper", Wrapper(clone(CALIBRATORS["spline"])))


@pytest.mark.parametrize("case", [case for case in CASES if case not in FOR_SPLINES])
def test_a_baseline(case):
    check(case, "wrapper", Wrapper(clone(CALIBRATORS["beta"])))
