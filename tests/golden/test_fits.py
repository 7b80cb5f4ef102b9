"""Fits of fixed data are what they were.

Numbers may differ by 1e-10, or by what the case declares. Where a change is meant,
``make golden`` writes the files anew, and the commit says why.
"""

import pytest
from tests.golden.cases_fits import AREA


@pytest.mark.parametrize("name", AREA.cases)
def test_a_fit_is_what_it_was(name):
    AREA.check(name)
