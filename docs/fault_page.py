"""Write docs/faults.md: how bad and odd input is handled, where that is tested, and how many of the tests pass.

``python -m docs.fault_page`` runs the tests of the contract, some minutes, and writes the page.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path

from tests.faults.contract import CASES, ELSEWHERE, GROUPS, NOT_APPLICABLE, ROOT, SURFACES, Case, found_in, where

PAGE = ROOT / "docs" / "faults.md"

INTRODUCTION = """\
# How bad and odd input is handled

A calibrator sits between a model and a decision, so it must never be silently wrong. This is the contract, and every
line of it is tested on every surface that has such an input. An *error* is a `ValueError` or `TypeError` that names the
argument, what was expected and the first bad row (in frames: the column and a count; on the command line: one
line and exit code 2). Everything else is a finite result in (0, 1) of the right shape.

This page is written by `make faults`, which runs the tests. How other libraries fare on the same
cases is in [benchmarks/FAULTS.md](../benchmarks/FAULTS.md).
"""


def table() -> str:
    """The contract: a row for each case, the number of test functions on each surface."""
    found = {surface: found_in(surface) for surface in SURFACES}
    lines = []
    for group, cases in GROUPS.items():
        lines += ["", f"## {group}", "", f"| | case | what you get | {' | '.join(map(_named, SURFACES))} |"]
        lines.append(f"|---|---|---|{'---|' * len(SURFACES)}")
        for case, (what, promise) in cases.items():
            cells = [_cell(found[surface].get(case, []), surface, case) for surface in SURFACES]
            lines.append(f"| {case} | {what} | {promise} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _named(surface: str) -> str:
    return surface.replace("_", " ")


def _cell(tests: list[str], surface: str, case: Case) -> str:
    if case in NOT_APPLICABLE[surface]:
        return "-"
    more = " +" if (surface, case) in ELSEWHERE else ""
    return f"{len(tests) or ''}{more}".strip()


def cells_in(text: str) -> list[str]:
    """The rows of the contract in a page."""
    return re.findall(r"^\| \d+[a-z]? \|.*$", text, flags=re.MULTILINE)


def reasons() -> str:
    """Why a case does not apply to a surface."""
    lines = ["", "## What does not apply", "", "| surface | cases | why |", "|---|---|---|"]
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
    return ", ".join(str(part[0]) if len(part) == 1 else f"{part[0]} to {part[-1]}" for part in parts)


def outcomes() -> dict[str, Counter[str]]:
    """How the tests went, by surface: passed and all."""
    counts = {surface: Counter[str]() for surface in SURFACES}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "outcomes.xml"
        folders = [f"tests/faults/{surface}" for surface in SURFACES]
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={path}", *folders]
        subprocess.run(command, cwd=ROOT, check=False)
        for test in ElementTree.parse(path).iter("testcase"):
            count = counts[test.attrib["classname"].split(".")[2]]
            count["all"] += 1
            count["passed"] += all(test.find(trouble) is None for trouble in ("failure", "error", "skipped"))
    return counts


def summary(counts: dict[str, Counter[str]]) -> str:
    """Cases and tests of each surface."""
    lines = ["| surface | | cases that apply | cases tested | tests passed | of |", "|---|---|---|---|---|---|"]
    total: Counter[str] = Counter()
    for surface, words in SURFACES.items():
        here = counts[surface] + Counter(
            apply=len(CASES) - len(NOT_APPLICABLE[surface]), tested=sum(bool(where(surface, case)) for case in CASES)
        )
        total += here
        lines.append(f"| {_named(surface)} | {words} | {_figures(here)} |")
    return "\n".join([*lines, f"| all | | {_figures(total)} |"])


def _figures(counts: Counter[str]) -> str:
    return " | ".join(f"{counts[name]:,}" for name in ("apply", "tested", "passed", "all"))


def main() -> None:
    """Run the tests and write the page."""
    parts = [
        INTRODUCTION,
        summary(outcomes()),
        "\nNumbers below count test functions, each run for many calibrators, methods or engines; + means more tests "
        "outside `tests/faults`; - means that the surface has no such input, for a reason given at the end.",
        table(),
        reasons(),
    ]
    PAGE.write_text("\n".join(parts) + "\n")
    print(PAGE)


if __name__ == "__main__":
    main()
