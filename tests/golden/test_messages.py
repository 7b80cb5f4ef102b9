"""Errors and warnings of the contract say what they said, and none is left out."""

import pytest
from tests.faults.contract import CASES, LOADED, NOT_APPLICABLE, SURFACES
from tests.golden.cases_messages import AREA, heading

WRAPPER_ONLY = {43}
"""A class without rows is fitted in silence where there are no folds."""


@pytest.mark.parametrize("surface", SURFACES)
def test_messages_are_what_they_were(surface):
    AREA.check(surface)


@pytest.mark.parametrize("surface", SURFACES)
def test_every_error_and_warning_of_the_contract_is_there(surface):
    speaking = {
        case
        for case, (_, _, what) in CASES.items()
        if "error" in what or "warning" in what.lower()
    }
    if surface == "files":
        speaking -= LOADED  # what the fit says, it says before it is saved
    text = AREA.read(surface).splitlines()
    absent = {
        case
        for case in speaking - set(NOT_APPLICABLE[surface])
        if heading(case) not in text
    }
    assert absent <= WRAPPER_ONLY
