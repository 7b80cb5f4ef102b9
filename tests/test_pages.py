"""The code in README and docs runs, prints what the page says, and what pages link to is there.

Blocks of code stand alone, but for those of a how-to page, which a reader goes through
from top to bottom. (Engines' pages are run by tests/engines.)
"""

import re
from pathlib import Path

import pytest
from docs.record_pages import examples, printed_by

ROOT = Path(__file__).parents[1]
PAGES = [
    ROOT / "AGENTS.md",
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "explanation").glob("*.md")),
]
HOWTO = sorted((ROOT / "docs" / "howto").glob("*.md"))
EXAMPLES = {page: list(examples(page.read_text())) for page in [*PAGES, *HOWTO]}
BLOCKS = [
    pytest.param(page, example, id=f"{page.name}-{i}")
    for page in PAGES
    for i, example in enumerate(EXAMPLES[page])
]


def check(page, example, names):
    printed = printed_by(example.code, page, names)
    if example.printed is not None:
        assert printed.split("\n") == example.printed.split("\n")


@pytest.mark.slow
@pytest.mark.parametrize(("page", "example"), BLOCKS)
def test_the_code_runs_and_prints_what_the_page_says(
    page, example, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    check(page, example, {})


@pytest.mark.slow
@pytest.mark.parametrize("page", HOWTO, ids=lambda page: page.name)
def test_a_how_to_page_runs_from_top_to_bottom(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    names = {}
    for example in EXAMPLES[page]:
        check(page, example, names)
    for picture in tmp_path.glob("*.png"):
        assert f"]({picture.name})" in page.read_text()


def test_there_is_code_in_the_readme_and_results_on_every_how_to_page():
    assert any(example.printed for example in EXAMPLES[ROOT / "README.md"])
    for page in HOWTO:
        assert page.stem == "index" or any(
            example.printed for example in EXAMPLES[page]
        )


def test_what_pages_link_to_is_there():
    notes = sorted((ROOT / "benchmarks").rglob("*.md"))
    for page in [*PAGES, *HOWTO, *notes]:
        for link in re.findall(r"\]\((?!http)([^)]+)\)", page.read_text()):
            target, _, heading = link.partition("#")
            found = page.parent / target if target else page
            assert found.exists(), f"{page.name}: {link}"
            if heading and found.suffix == ".md":
                assert heading in headings(found), f"{page.name}: {link}"


def headings(page):
    """The names by which a page's headings are linked to."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(), flags=re.MULTILINE)
    return {
        re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-")
        for title in titles
    }
