"""Every engine gives the stored fits."""

import pytest
from tests.engines.conftest import engine  # noqa: F401
from tests.golden.cases_frames import AREA, FITS


@pytest.mark.parametrize("name", AREA.cases)
def test_a_fit_from_a_frame_is_what_it_was(engine, name):  # noqa: F811
    found = FITS[name].result(engine.make, engine.pandas)
    report = AREA.cases[name].explain(found, AREA.read(name))
    assert not report, (
        f"frames/{name} in {engine.name} differs from what is stored\n{report}"
    )
