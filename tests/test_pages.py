"""The code in README and docs runs, prints what the page says, and what pages link to is there.

A ``text`` block right after a ``python`` block is what that code prints. Blocks stand alone, but for those of a how-to
page, which a reader goes through from top to bottom. (Engines' pages are run by tests/frames.)
"""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HOWTO = sorted((ROOT / "docs" / "howto").glob("*.md"))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
EXAMPLE = re.compile(r"^```python\n(.*?)^```(?:\n+```text\n(.*?)^```)?", flags=re.DOTALL | re.MULTILINE)


def examples(page):
    """Code and, if the page says, what it prints; the code at the line where the page has it."""
    text = page.read_text()
    for found in EXAMPLE.finditer(text):
        code, printed = found.groups()
        yield "\n" * text.count("\n", 0, found.start(1)) + code, printed


BLOCKS = [
    pytest.param(page, *example, id=f"{page.name}-{i}") for page in PAGES for i, example in enumerate(examples(page))
]


def run(page, code, printed, names, capsys):
    capsys.readouterr()
    exec(compile(code, page, "exec"), names)
    if printed is not None:
        assert without_ends(capsys.readouterr().out) == without_ends(printed)


def without_ends(text):
    """Lines without the spaces at their ends, which editors take away."""
    return [line.rstrip() for line in text.rstrip().split("\n")]


@pytest.mark.parametrize(("page", "code", "printed"), BLOCKS)
def test_the_code_runs_and_prints_what_the_page_says(page, code, printed, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run(page, code, printed, {}, capsys)


@pytest.mark.parametrize("page", HOWTO, ids=lambda page: page.name)
def test_a_how_to_page_runs_from_top_to_bottom(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = {}
    for code, printed in examples(page):
        run(page, code, printed, names, capsys)


def test_there_is_code_in_the_readme():
    assert sum(block.id.startswith("README") for block in BLOCKS) >= 4


@pytest.mark.parametrize("page", HOWTO, ids=lambda page: page.name)
def test_how_to_pages_show_what_their_code_prints(page):
    assert any(printed for _, printed in examples(page)) or page.stem == "index"


@pytest.mark.parametrize(
    "page", [*PAGES, *HOWTO, *sorted((ROOT / "benchmarks").rglob("*.md"))], ids=lambda page: page.name
)
def test_what_a_page_links_to_is_there(page):
    for target in re.findall(r"\]\((?!http|#)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), target
