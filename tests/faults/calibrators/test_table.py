"""Two calibrators meet all cases of the table, the others those that each meets in its own way."""

import pytest
from sklearn.base import clone
from tests.faults.adapters import Arrays
from tests.faults.conftest import CALIBRATORS, OTHERS
from tests.faults.table import cases, check, entries

CASES = cases("calibrators")
FOR_SPLINES = {"54a", "54b", "54c", "54e"}
OWN = [each for each in entries("calibrators") if each.own]


@pytest.mark.parametrize("case", CASES)
def test_the_spline(case):
    check(case, "calibrators", Arrays(clone(CALIBRATORS["spline"])))


@pytest.mark.parametrize("case", [case for case in CASES if case not in FOR_SPLINES])
def test_a_baseline(case):
    check(case, "calibrators", Arrays(clone(CALIBRATORS["beta"])))


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("each", OWN, ids=lambda each: each.name)
def test_where_the_method_matters(name, each):
    each.check(Arrays(clone(CALIBRATORS[name])))
