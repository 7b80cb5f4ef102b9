"""What the site adds to Sphinx: tables, formulas, figures for dark pages, order of members."""

import inspect
import re
from importlib import import_module

import pytest
from docs.site import figures, formulas, tables
from docs.site.figures import FIGURES
from sphinx.errors import ExtensionError

REFERENCE = FIGURES.parent / "reference"
OF_SCIKIT_LEARN = re.compile(r"score|get_params|get_metadata_routing|set_\w+")


def test_a_table_is_found_below_its_heading():
    table = tables.find_table("benchmarks/arena/RESULTS.md", "Multiclass")
    lines = table.splitlines()
    assert all(line.startswith("|") for line in lines)
    assert any("calspline" in line for line in lines)
    assert table != tables.find_table("benchmarks/arena/RESULTS.md", "Binary")


@pytest.mark.parametrize("heading", ["Nothing of the kind", "The arena"])
def test_a_heading_that_is_missing_or_has_no_table_of_its_own_is_an_error(heading):
    with pytest.raises(ExtensionError, match=heading):
        tables.find_table("benchmarks/arena/RESULTS.md", heading)


def test_marks_on_a_page_become_tables():
    source = ["Before\n\n<!-- table: benchmarks/arena/RESULTS.md, Binary -->\n\nAfter"]
    tables.insert_tables(None, "page", source)
    assert re.fullmatch(r"Before\n\n(\|[^\n]*\n)+\n\nAfter", source[0])


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of ziamath
def test_a_formula_is_drawn_in_the_color_of_the_text():
    drawing = formulas.draw(r"\frac{1}{1 + e^{-x}}", inline=False)
    assert drawing.startswith("<svg")
    assert "currentColor" in drawing
    assert "black" not in drawing
    with pytest.raises(ExtensionError, match="frac"):
        formulas.draw(r"\frac{1}{", inline=True)


def test_figures_have_a_twin_and_other_pictures_do_not():
    shown = '<img alt="A" src="../_images/bending.svg" />'
    light, dark = re.findall(r"<img [^>]*>", figures.IMAGE.sub(figures.both, shown))
    assert "only-light" in light
    assert "bending.svg" in light
    assert "only-dark" in dark
    assert "bending.dark.svg" in dark
    other = '<img alt="B" src="../_images/logo.svg" />'
    assert figures.IMAGE.sub(figures.both, other) == other


def documented():
    """Classes of the reference, with the members that their entries name."""
    for page in sorted(REFERENCE.glob("*.md")):
        for entry in page.read_text(encoding="utf-8").split(".. autoclass:: ")[1:]:
            module, _, name = entry.split(maxsplit=1)[0].rpartition(".")
            members = re.findall(r"^   \.\. auto\w+:: (\w+)$", entry, flags=re.M)
            yield pytest.param(getattr(import_module(module), name), members, id=name)


@pytest.mark.parametrize(("cls", "members"), list(documented()))
def test_the_reference_names_public_members_that_exist(cls, members):
    assert len(set(members)) == len(members)
    for name in members:
        assert hasattr(cls, name)
        assert name[0] != "_" or name.startswith("__")


@pytest.mark.parametrize(
    ("cls", "members"), [each for each in documented() if "Calibrator" in each.id]
)
def test_the_reference_of_a_calibrator_has_all_methods_with_the_usual_ones_first(
    cls, members
):
    methods = {
        name
        for name, member in inspect.getmembers(cls, callable)
        if name[0] != "_" and not OF_SCIKIT_LEARN.fullmatch(name)
    }
    assert set(members) == methods - {"from_dict", "to_dict"}
    assert members[:4] == ["fit", "calibrate", "predict_proba", "predict"]
