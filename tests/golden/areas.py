"""The areas that golden files cover."""

from __future__ import annotations

from tests.golden import (
    cases_commands,
    cases_evaluation,
    cases_exports,
    cases_fits,
    cases_frames,
    cases_messages,
    cases_report,
)

MODULES = (
    cases_fits,
    cases_frames,
    cases_evaluation,
    cases_exports,
    cases_report,
    cases_commands,
    cases_messages,
)
AREAS = {module.AREA.name: module.AREA for module in MODULES}
