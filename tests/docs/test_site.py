"""The site builds without a warning, its links lead somewhere, and it needs no network."""

import os
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

pytestmark = pytest.mark.site

ROOT = Path(__file__).parents[2]
LOADS = {("script", "src"), ("img", "src"), ("iframe", "src"), ("source", "src"), ("link", "href")}
LOADED_RELATIONS = {"stylesheet", "icon", "preload", "preconnect", "prefetch", "manifest", "modulepreload"}


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
            if (tag, key) in LOADS and (tag != "link" or LOADED_RELATIONS & set(given.get("rel", "").split())):
                self.loads.append(value)
            elif key in ("href", "src"):
                self.links.append(value)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site):
    found = {path: Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html") if path.name != "404.html"}
    assert len(found) > 30
    return found


def targets(pages):
    for path, page in pages.items():
        for link in [*page.links, *page.loads]:
            parts = urlsplit(link)
            if not parts.scheme and not parts.netloc:
                there = (path.parent / unquote(parts.path)).resolve() if parts.path else path
                yield path, link, there, unquote(parts.fragment)


def test_every_link_leads_to_a_file_of_the_site(site, pages):
    broken = [(path.name, link) for path, link, there, _ in targets(pages) if not there.is_file()]
    assert not broken
    assert all(there.is_relative_to(site.resolve()) for _, _, there, _ in targets(pages))


def test_every_anchor_that_is_linked_to_exists(pages):
    known = {path.resolve(): page.anchors for path, page in pages.items()}
    broken = [
        (path.name, link)
        for path, link, there, fragment in targets(pages)
        if fragment and not fragment.startswith("__") and fragment not in known.get(there, ())
    ]
    assert not broken


def test_no_page_loads_anything_from_another_host(pages):
    assert not [(path.name, load) for path, page in pages.items() for load in page.loads if urlsplit(load).netloc]


def test_no_style_sheet_loads_anything_from_another_host(site):
    sheets = list(site.rglob("*.css"))
    assert sheets
    assert not [path.name for path in sheets if "url(http" in path.read_text() or "@import" in path.read_text()]


def test_every_public_name_has_its_place_in_the_reference(site):
    import calspline
    import calspline.export

    anchors = set().union(*(Page(path.read_text()).anchors for path in (site / "reference").glob("*.html")))
    names = [f"calspline.{name}" for name in calspline.__all__]
    names += [f"calspline.export.{name}" for name in calspline.export.__all__]
    assert not [name for name in names if name not in anchors]


def test_formulas_are_drawn_and_tables_are_put_in(site):
    text = "".join(path.read_text() for path in site.rglob("*.html"))
    assert "arithmatex" not in text
    assert "<!-- table:" not in text
    assert (site / "explanation" / "method.html").read_text().count('class="formula"') > 20


def test_a_page_opened_from_disk_asks_no_network_and_can_be_searched(site, browser):
    asked = []
    with browser.new_context() as context:
        page = context.new_page()
        page.set_default_timeout(0)
        page.on("request", lambda request: asked.append(request.url))
        page.goto((site / "index.html").as_uri())
        page.click(".md-search__input")
        page.keyboard.type("histogram")
        page.wait_for_selector(".md-search-result__item")
        found = page.inner_text(".md-search-result__list")
    assert "ScoreHistogram" in found
    assert asked
    assert not [url for url in asked if not url.startswith(("file:", "data:"))]
