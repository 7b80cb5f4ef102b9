"""Every case has its file, every file its case, and together they are small."""

import pytest
from tests.golden.areas import AREAS

LARGEST = 1_500_000
"""Bytes of all files together."""


@pytest.mark.parametrize("area", AREAS)
def test_every_case_has_a_file_and_every_file_a_case(area):
    stored = {path.name for path in AREAS[area].folder.iterdir()}
    assert stored == {AREAS[area].path(name).name for name in AREAS[area].cases}


def test_all_files_together_are_small():
    assert (
        sum(
            path.stat().st_size
            for area in AREAS.values()
            for path in area.folder.iterdir()
        )
        < LARGEST
    )
