"""Every case is tested on every surface, or it is said why it cannot be; and the page says so."""

import pytest
from docs.fault_page import PAGE, page
from tests.faults.contract import (
    CASES,
    ELSEWHERE,
    HERE,
    NOT_APPLICABLE,
    ROOT,
    SURFACES,
    found_in,
    where,
)
from tests.faults.table import entries


def test_the_cases_are_numbered_from_1_to_63_and_lettered_between():
    assert [case for case in CASES if isinstance(case, int)] == list(range(1, 64))
    assert list(CASES) == sorted(
        CASES, key=lambda case: (int(str(case).rstrip("abcdef")), str(case))
    )
    lettered = "3a 3b 3c 29a 29b 29c 29d 35a 35b 54a 54b 54c 54d 54e 54f"
    assert [case for case in CASES if isinstance(case, str)] == lettered.split()


@pytest.mark.parametrize("surface", SURFACES)
def test_every_case_is_tested_or_excused_and_not_both(surface):
    tested = {case for case in CASES if where(surface, case)}
    assert tested | set(NOT_APPLICABLE[surface]) == set(CASES)
    assert tested & set(NOT_APPLICABLE[surface]) == set()
    assert set(found_in(surface)) <= set(CASES)


@pytest.mark.parametrize("surface", SURFACES)
def test_every_surface_runs_its_entries_of_the_table(surface):
    assert (HERE / surface / "test_table.py").is_file()
    assert entries(surface)
    assert {each.case for each in entries(surface)} <= set(CASES)


def test_no_two_entries_of_a_surface_have_one_name():
    for surface in SURFACES:
        names = [(each.name, each.classes) for each in entries(surface)]
        assert len(set(names)) == len(names)


def test_calibrators_meet_a_dozen_cases_in_their_own_way():
    own = {each.case for each in entries("calibrators") if each.own}
    assert own == {3, 10, 13, 17, 22, 27, 34, 43, 53}
    # With cases 47, 48 and 55, which take more than rows.


def test_tests_that_are_elsewhere_are_there():
    for files in ELSEWHERE.values():
        assert all((ROOT / file).is_file() for file in files)


def test_the_page_is_of_these_tests():
    assert PAGE.read_text() == page()
