"""The table of the contract for models that were saved and loaded."""

import pytest
from sklearn.base import clone
from tests.faults.adapters import Files
from tests.faults.conftest import CALIBRATORS
from tests.faults.table import cases, check


@pytest.mark.parametrize("case", cases("files"))
@pytest.mark.parametrize("name", ["spline", "beta"])
def test_every_case(case, name, tmp_path):
    check(case, "files", Files(clone(CALIBRATORS[name]), tmp_path))
