"""Results of judging, watching and deciding are what they were."""

import pytest
from tests.golden.cases_evaluation import AREA


@pytest.mark.parametrize("name", AREA.cases)
def test_a_result_is_what_it_was(name):
    AREA.check(name)
