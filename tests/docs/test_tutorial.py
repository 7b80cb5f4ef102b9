"""What the tutorial shows is what its code prints; the code of the explanation runs."""

import re

import numpy as np
import pytest
from docs.record_tutorial import FIGURE, PAGE, run

INDEX = PAGE.parents[1] / "explanation" / "index.md"
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")


@pytest.fixture(scope="module")
def ran():
    pytest.importorskip("matplotlib")
    return list(run(PAGE.read_text(encoding="utf-8")))


def test_the_code_prints_what_the_page_shows(ran):
    for block, output, _ in ran:
        shown = block["output"] or ""
        assert words(output) == words(shown)
        numbers = [
            np.array([float(number) for number in NUMBER.findall(text)])
            for text in (output, shown)
        ]
        np.testing.assert_allclose(*numbers, rtol=0.02, atol=0.002)


def words(text):
    return NUMBER.sub("#", text).split()


def test_every_figure_of_the_page_is_drawn_by_the_code_before_it(ran):
    page = PAGE.read_text(encoding="utf-8")
    drawing = [block for block, _, figure in ran if figure is not None]
    shown = [FIGURE.search(page, block.end())[1] for block in drawing]
    assert shown == FIGURE.findall(page)


@pytest.mark.parametrize(
    "page",
    sorted(set((PAGE.parents[1] / "explanation").glob("*.md")) - {INDEX}),
    ids=lambda page: page.stem,
)
def test_the_code_of_the_explanation_runs(page):
    assert list(run(page.read_text(encoding="utf-8")))
