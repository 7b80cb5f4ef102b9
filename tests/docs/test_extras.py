"""Pages name the extras that their code needs."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [
    DOCS.parent / "README.md",
    DOCS.parent / "AGENTS.md",
    *DOCS.glob("*.md"),
    *(DOCS / "howto").glob("*.md"),
    *(DOCS / "explanation").glob("*.md"),
    *(DOCS / "tutorial").glob("*.md"),
    *(DOCS / "engines").glob("*.md"),
]
NEEDS = {
    "plot": r"ReliabilityDisplay|CalibrationCurveDisplay|matplotlib|\.plot\(",
    "polars": r"import polars",
    "duckdb": r"import duckdb",
    "dask": r"import dask|from dask",
    "spark": r"from pyspark",
    "ibis": r"import ibis",
    "torch": r"import torch",
    "onnx": r"import onnx",
    "cli": r"^\$? ?calspline (fit|apply|evaluate|compare|report|monitor)",
}
"""For each extra, code that needs it."""
CODE = re.compile(
    r"^[`~]{3}(?:python|sh|console)\n(.*?)^[`~]{3}", re.DOTALL | re.MULTILINE
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_names_the_extras_that_its_code_needs(page):
    text = page.read_text(encoding="utf-8")
    code = "\n".join(CODE.findall(text))
    needed = {
        extra
        for extra, pattern in NEEDS.items()
        if re.search(pattern, code, flags=re.MULTILINE)
    }
    named = set()
    for extras in re.findall(r"calspline\[([a-z,]+)\]", text):
        named |= set(extras.split(","))
    assert needed <= named
