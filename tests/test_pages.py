"""The code in README and docs runs, and what they link to is there. (Engines' pages are run by tests/frames.)"""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCKS = [
    pytest.param(code, id=f"{page.name}-{i}")
    for page in PAGES
    for i, code in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL))
]


@pytest.mark.parametrize("code", BLOCKS)
def test_the_code_runs(code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "page", "exec"), {})


def test_there_is_code_in_the_readme():
    assert sum(block.id.startswith("README") for block in BLOCKS) >= 4


@pytest.mark.parametrize("page", [*PAGES, *sorted((ROOT / "benchmarks").rglob("*.md"))], ids=lambda page: page.name)
def test_what_a_page_links_to_is_there(page):
    for target in re.findall(r"\]\((?!http|#)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), target
