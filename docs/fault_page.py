"""Write docs/faults.md: how bad and odd input is handled, and where that is tested."""

from __future__ import annotations

from tests.faults.contract import (
    CASES,
    ELSEWHERE,
    GROUPS,
    NOT_APPLICABLE,
    ROOT,
    SURFACES,
    found_in,
    where,
)
from tests.faults.table import Case

PAGE = ROOT / "docs" / "faults.md"

INTRODUCTION = """\
# How bad and odd input is handled

A calibrator sits between a model and a decision, so it must never be silently wrong.
This is the contract, and every line of it is tested on every surface that has such an
input. An *error* is a `ValueError` or `TypeError` that names the argument, what was
expected and the first bad row (in frames: the column and a count; on the command line:
one line and exit code 2). Everything else is a finite result in (0, 1) of the right
shape.

This page is written by `make faults` from the table of the tests. How other libraries
fare on the same cases is in [benchmarks/FAULTS.md](../benchmarks/FAULTS.md).
"""


LEGEND = """
Numbers count the inputs and tests of a case. Two calibrators, a spline and a baseline,
meet all of them, the others those where the method matters. + means more tests outside
`tests/faults`; - means that the surface has no such input, for a reason given at the
end."""


def table() -> str:
    """The contract: a row for each case, the number of tests on each surface."""
    found = {surface: found_in(surface) for surface in SURFACES}
    lines = []
    for group, cases in GROUPS.items():
        lines += [
            "",
            f"## {group}",
            "",
            f"| | case | what you get | {' | '.join(map(_named, SURFACES))} |",
        ]
        lines.append(f"|---|---|---|{'---|' * len(SURFACES)}")
        for case, (what, promise) in cases.items():
            cells = [
                _cell(found[surface].get(case, []), surface, case)
                for surface in SURFACES
            ]
            lines.append(f"| {case} | {what} | {promise} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _named(surface: str) -> str:
    return surface.replace("_", " ")


def _cell(tests: list[str], surface: str, case: Case) -> str:
    if case in NOT_APPLICABLE[surface]:
        return "-"
    more = " +" if (surface, case) in ELSEWHERE else ""
    return f"{len(tests) or ''}{more}".strip()


def reasons() -> str:
    """Why a case does not apply to a surface."""
    lines = [
        "",
        "## What does not apply",
        "",
        "| surface | cases | why |",
        "|---|---|---|",
    ]
    for surface, excused in NOT_APPLICABLE.items():
        for reason in dict.fromkeys(excused.values()):
            excused_so = [case for case in CASES if excused.get(case) == reason]
            lines.append(f"| {_named(surface)} | {_ranges(excused_so)} | {reason} |")
    return "\n".join(lines)


def _ranges(cases: list[Case]) -> str:
    """Cases that follow each other in the contract as the first and the last."""
    order = list(CASES)
    parts: list[list[Case]] = []
    for case in cases:
        if parts and order.index(case) == order.index(parts[-1][-1]) + 1:
            parts[-1].append(case)
        else:
            parts.append([case])
    return ", ".join(
        str(part[0]) if len(part) == 1 else f"{part[0]} to {part[-1]}" for part in parts
    )


def summary() -> str:
    """Cases of each surface that apply, with the entries and tests of each."""
    lines = ["| surface | | cases that apply | tests |", "|---|---|---|---|"]
    for surface, words in SURFACES.items():
        apply = len(CASES) - len(NOT_APPLICABLE[surface])
        tests = {test for case in CASES for test in where(surface, case)}
        lines.append(f"| {_named(surface)} | {words} | {apply} | {len(tests)} |")
    return "\n".join(lines)


def page() -> str:
    """The whole page."""
    parts = [
        INTRODUCTION,
        summary(),
        LEGEND,
        table(),
        reasons(),
    ]
    return "\n".join(parts) + "\n"


def main() -> None:
    """Write the page."""
    PAGE.write_text(page())
    print(PAGE)


if __name__ == "__main__":
    main()
