"""What the site's hooks promise."""

import griffe
import pytest
from docs.hooks import mounts, navigation, roles, tables
from mkdocs.exceptions import PluginError


def test_a_table_is_found_below_its_heading():
    table = tables.find_table("benchmarks/arena/RESULTS.md", "Multiclass")
    lines = table.splitlines()
    assert all(line.startswith("|") for line in lines)
    assert any("calspline" in line for line in lines)
    assert table != tables.find_table("benchmarks/arena/RESULTS.md", "Binary")


@pytest.mark.parametrize("heading", ["Nothing of the kind", "The arena"])
def test_a_heading_that_is_missing_or_has_no_table_of_its_own_is_an_error(heading):
    with pytest.raises(PluginError, match=heading):
        tables.find_table("benchmarks/arena/RESULTS.md", heading)


@pytest.mark.parametrize(
    ("link", "page", "followed"),
    [
        ("../benchmarks/arena/RESULTS.md", "paper.md", "benchmarks/arena/RESULTS.md"),
        ("../docs/paper.md#ties", "benchmarks/commands.md", "../paper.md#ties"),
        ("../../benchmarks/README.md", "explanation/method.md", "../benchmarks/commands.md"),
        ("../../README.md#how-it-works", "howto/networks.md", "../index.md#how-it-works"),
        ("https://arxiv.org/abs/1809.07751", "index.md", "https://arxiv.org/abs/1809.07751"),
        ("#ties", "paper.md", "#ties"),
    ],
)
def test_links_between_files_of_the_repository_become_links_between_pages(link, page, followed):
    assert mounts._followed(link, page) == followed


def test_a_link_to_a_file_that_is_not_on_the_site_is_an_error():
    with pytest.raises(PluginError, match="pyproject"):
        mounts._followed("../pyproject.toml", "paper.md")


def test_patterns_take_pages_that_are_not_named_with_the_index_first():
    pages = ["a/first.md", "a/index.md", "a/second.md", "b.md"]
    nav = navigation._expanded([{"A": "a/*.md"}, {"Nothing": ["c/*.md"]}, "*.md", "z.md"], pages)
    assert nav == [{"A": ["a/index.md", "a/first.md", "a/second.md"]}, "b.md", "z.md"]


def test_roles_become_links_and_see_also_a_list():
    text = "See :class:`~calspline.SplineCalibrator`.\n\nSee Also\n--------\nfit : Learn.\n\n.. math:: x^2"
    out = roles.rewritten(text, griffe.Module("calspline"))
    assert 'identifier="calspline.SplineCalibrator" optional><code>SplineCalibrator</code>' in out
    assert '- <autoref identifier="fit" optional><code>fit</code></autoref>: Learn.' in out
    assert "$$\nx^2\n$$" in out
