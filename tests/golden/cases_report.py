"""Reports: the words on the page, the numbers it carries, and points of its charts."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

import numpy as np
from tests.golden import data
from tests.golden.cases_evaluation import COSTS, calibrated, given, thinned
from tests.golden.cases_fits import by_country, of, quiet
from tests.golden.data import Rows
from tests.golden.record import Area, Case

from calspline import SplineCalibrator, report

POINT = re.compile(r"-?\d+(?:\.\d+)?")
BREAKS = {
    "p",
    "li",
    "tr",
    "h1",
    "h2",
    "h3",
    "h4",
    "dt",
    "div",
    "option",
    "summary",
    "text",
    "caption",
    "section",
    "pre",
}
"""Elements that begin a line."""
HASH = re.compile(r"\b[0-9a-f]{64}\b")
PIXELS = 0.01
"""Of about 500: coordinates are rounded to a tenth of a pixel."""


class Page(HTMLParser):
    """Lines of text on a page, numbers in its JSON, and paths of its charts."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.lines = [""]
        self.numbers: Any = None
        self.paths: list[list[Any]] = []
        self._inside = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        if tag in BREAKS:
            self.lines.append("")
        if tag == "script" and attributes.get("type") == "application/json":
            self._inside = "numbers"
        elif tag in ("script", "style", "title"):
            self._inside = "code"
        elif tag == "path":
            points = [float(each) for each in POINT.findall(attributes["d"] or "")]
            self.paths.append([attributes["class"], len(points), *thinned(points, 8)])

    def handle_endtag(self, tag: str) -> None:
        if tag in ("script", "style", "title"):
            self._inside = ""

    def handle_data(self, text: str) -> None:
        if self._inside == "numbers":
            self.numbers = json.loads(text)
        elif not self._inside:
            self.lines[-1] += " " + text

    @property
    def text(self) -> list[str]:
        """Lines that hold something, without versions of packages and hashes."""
        found = [" ".join(line.split()) for line in self.lines]
        found = [
            line
            for line in found
            if line and "The same input gives the same page" not in line
        ]
        return [HASH.sub("<hash>", line) for line in found]


def reported(
    rows: Callable[[], Rows], *, one: bool = False, **options: Any
) -> Callable[[], Any]:
    def result() -> Any:
        found = rows()
        half = np.arange(len(found)) % 2 == 0
        sets = {"raw": found.scores} | (
            {} if one else {"calibrated": calibrated(found)}
        )
        with quiet():
            calibrator = SplineCalibrator().fit(found.scores[half], found.y[half])
        result = report(
            found.y,
            sets,
            calibrator=calibrator,
            title="Is it <b>?",
            **given(found),
            **options,
        )
        page = Page(result.html)
        numbers = thinned(page.numbers, 8)
        return {
            "headline": result.headline,
            "text": page.text,
            "numbers": numbers,
            "paths": page.paths,
        }

    return result


MAKE = {
    "two-sets": reported(data.wavy),
    "one-set": reported(data.wavy, one=True),
    "costs": reported(data.wavy, costs=COSTS),
    "weights": reported(of(data.wavy, data.weighted)),
    "groups": reported(of(data.wavy, data.grouped)),
    "segments": reported(of(lambda: data.wavy(2000), by_country)),
    "three-classes": reported(data.three),
    "rare": reported(data.rare),
}

ROUNDED = "coordinates of charts are rounded to a tenth of a pixel"
AREA = Area(
    "report",
    {
        name: Case(make, looser={"paths": PIXELS}, reason=ROUNDED)
        for name, make in MAKE.items()
    },
)
