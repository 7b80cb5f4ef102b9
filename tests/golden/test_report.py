"""A report says what it said."""

import pytest
from tests.golden.cases_report import AREA


@pytest.mark.parametrize("name", AREA.cases)
def test_a_report_is_what_it_was(name):
    AREA.check(name)
