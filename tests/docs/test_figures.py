"""The figures of the documentation are those that its scripts draw, and every one is used."""

import re
from importlib import import_module

import pytest
from docs.figures.__main__ import NAMES
from docs.figures.sheet import FOLDER

QUICK = ["bending", "first_look", "many_classes", "reading", "results", "transforms"]
"""The others fit for some seconds."""
DOCS = FOLDER.parent


def used():
    pages = "".join(page.read_text(encoding="utf-8") for page in DOCS.rglob("*.md"))
    return set(re.findall(r"figures/(\w+)\.svg", pages))


def test_the_quick_ones_are_scripts():
    assert set(QUICK) < set(NAMES)


@pytest.mark.slow
@pytest.mark.parametrize("module", QUICK)
def test_a_script_draws_figures_that_are_committed(module):
    figures = import_module(f"docs.figures.{module}").draw()
    for name, figure in figures.items():
        assert (FOLDER / f"{name}.svg").exists()
        assert figure.axes


def test_every_figure_is_used():
    assert {path.stem for path in FOLDER.glob("*.svg")} == used()
