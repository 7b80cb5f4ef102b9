"""Sphinx: ``make docs`` builds the site in ``site/``.

The pages are read where they lie in the repository, so that links between docs,
benchmarks and examples are the same on the site and on GitHub.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from docs.site import figures, formulas, reference, tables  # noqa: E402

import calspline  # noqa: E402

project = "calspline"
author = "The calspline developers"
copyright = "The calspline developers"
version = release = calspline.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
]
root_doc = "docs/index"
include_patterns = [
    "docs/**.md",
    "benchmarks/**.md",
    "examples/*.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
]
exclude_patterns = [".*", "build", "dist", "site", "src", "tests"]

myst_enable_extensions = ["attrs_inline", "dollarmath"]
myst_heading_anchors = 4

autodoc_member_order = "bysource"
autodoc_typehints = "none"
napoleon_google_docstring = False
napoleon_use_param = False
napoleon_use_rtype = False
python_use_unqualified_type_names = True
add_module_names = False
toc_object_entries_show_parents = "hide"

html_title = "calspline"
html_theme = "pydata_sphinx_theme"
html_static_path = ["static"]
html_css_files = ["calspline.css"]
html_favicon = "static/favicon.svg"
html_math_renderer = "svg"
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_extra_path = ["../llms.txt", "extra"]
html_sidebars: dict[str, list[str]] = {"docs/index": []}
html_theme_options: dict[str, Any] = {
    "logo": {
        "text": "calspline",
        "image_light": "static/logo.svg",
        "image_dark": "static/logo.svg",
    },
    "github_url": "https://github.com/calspline/calspline",
    "header_links_before_dropdown": 7,
    "navigation_with_keys": False,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
    "secondary_sidebar_items": {"**": ["page-toc"], "docs/index": []},
    "show_toc_level": 2,
    "footer_start": ["copyright"],
    "footer_end": [],
}


def setup(app: Any) -> None:
    """Register what Sphinx does not have."""
    tables.setup(app)
    formulas.setup(app)
    figures.setup(app)
    reference.setup(app)
