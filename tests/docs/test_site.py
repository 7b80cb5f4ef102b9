"""The site builds without a warning, its links lead somewhere, and it needs no network."""

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

pytestmark = pytest.mark.site

ROOT = Path(__file__).parents[2]
LOADS = {
    ("script", "src"),
    ("img", "src"),
    ("iframe", "src"),
    ("source", "src"),
    ("link", "href"),
}
GENERATED = {"_static", "genindex.html", "search.html"}
ELSEWHERE = re.compile(r"(?:@import|url\()\s*[\"']?(?:https?:)?//")
LOADED_RELATIONS = {
    "stylesheet",
    "icon",
    "preload",
    "preconnect",
    "prefetch",
    "manifest",
    "modulepreload",
}


class Page(HTMLParser):
    """What a page links to, what it loads, and the anchors it has."""

    def __init__(self, text):
        super().__init__()
        self.links, self.loads, self.anchors = [], [], set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.anchors |= {given[key] for key in ("id", "name") if given.get(key)}
        for key, value in attributes:
            if (tag, key) in LOADS and (
                tag != "link" or LOADED_RELATIONS & set(given.get("rel", "").split())
            ):
                self.loads.append(value)
            elif key in ("href", "src"):
                self.links.append(value)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--quiet"]
    command += ["-c", "docs", "-d", str(tmp_path_factory.mktemp("doctrees")), "."]
    done = subprocess.run(
        [*command, str(folder)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site):
    found = {
        path: Page(path.read_text(encoding="utf-8"))
        for path in site.rglob("*.html")
        if path.relative_to(site).parts[0] not in GENERATED
    }
    assert len(found) > 30
    return found


def targets(pages):
    for path, page in pages.items():
        for link in [*page.links, *page.loads]:
            parts = urlsplit(link)
            if not parts.scheme and not parts.netloc:
                there = (
                    (path.parent / unquote(parts.path)).resolve()
                    if parts.path
                    else path
                )
                yield path, link, there, unquote(parts.fragment)


def test_every_link_leads_to_a_file_of_the_site(site, pages):
    broken = [
        (path.name, link)
        for path, link, there, _ in targets(pages)
        if not there.is_file()
    ]
    assert not broken
    assert all(
        there.is_relative_to(site.resolve()) for _, _, there, _ in targets(pages)
    )


def test_every_anchor_that_is_linked_to_exists(pages):
    known = {path.resolve(): page.anchors for path, page in pages.items()}
    broken = [
        (path.name, link)
        for path, link, there, fragment in targets(pages)
        if fragment
        and not fragment.startswith("__")
        and fragment not in known.get(there, ())
    ]
    assert not broken


def test_no_page_loads_anything_from_another_host(pages):
    assert not [
        (path.name, load)
        for path, page in pages.items()
        for load in page.loads
        if urlsplit(load).netloc
    ]


def test_no_style_sheet_loads_anything_from_another_host(site):
    sheets = list(site.rglob("*.css"))
    assert sheets
    assert not [
        path.name
        for path in sheets
        if ELSEWHERE.search(path.read_text(encoding="utf-8"))
    ]


def test_every_public_name_has_its_place_in_the_reference(site):
    import calspline
    import calspline.export

    anchors = set().union(
        *(
            Page(path.read_text()).anchors
            for path in (site / "docs" / "reference").glob("*.html")
        )
    )
    names = [f"calspline.{name}" for name in calspline.__all__]
    names += [f"calspline.export.{name}" for name in calspline.export.__all__]
    assert not [name for name in names if name not in anchors]


def test_fitted_attributes_are_in_the_table_of_contents_below_the_methods(site):
    page = (site / "docs/reference/calibrators.html").read_text(encoding="utf-8")
    contents = page.partition('id="pst-page-toc-nav"')[2].partition("</nav>")[0]
    places = [
        contents.index(f'href="#calspline.SplineCalibrator.{name}"')
        for name in ("fit", "calibrate", "interval", "classes_", "edf_", "segments_")
    ]
    assert places == sorted(places)


def test_formulas_are_drawn_and_tables_are_put_in(site):
    text = "".join(path.read_text() for path in site.rglob("*.html"))
    assert "<!-- table:" not in text
    method = (site / "docs/explanation/method.html").read_text()
    assert method.count('class="formula"') > 20
    assert "$" not in re.sub(r"<(pre|code).*?</\1>", "", method, flags=re.DOTALL)


def test_figures_have_twins_for_dark_pages(site):
    page = Page((site / "docs/index.html").read_text())
    dark = [load for load in page.loads if load.endswith(".dark.svg")]
    assert len(dark) > 2
    assert all((site / "docs" / load).is_file() for load in dark)


def test_a_page_opened_from_disk_asks_no_network_and_can_be_searched(site, browser):
    asked = []
    with browser.new_context() as context:
        page = context.new_page()
        page.set_default_timeout(0)
        page.on("request", lambda request: asked.append(request.url))
        page.goto((site / "index.html").as_uri())
        page.wait_for_url("**/docs/index.html")
        page.goto((site / "search.html").as_uri() + "?q=ScoreHistogram")
        page.wait_for_selector("#search-results li")
        found = page.inner_text("#search-results")
    assert "ScoreHistogram" in found
    assert asked
    assert not [url for url in asked if not url.startswith(("file:", "data:"))]
