"""Commands print what they printed, and end with the same exit codes."""

import pytest
from tests.golden.cases_commands import AREA


@pytest.mark.parametrize("name", AREA.cases)
def test_a_session_is_what_it_was(name):
    AREA.check(name)
