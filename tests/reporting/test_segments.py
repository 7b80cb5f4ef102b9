"""The section by segment."""

import numpy as np
import pytest
from scipy.special import expit

from calspline import report
from calspline._formatting import rounded_percent


def segmented(n_segments=300, n=30_000):
    rng = np.random.default_rng(0)
    names = np.array([f"Country {i:03d}" for i in range(n_segments)], dtype=object)
    names[:2] = "Portugal", "<b>Spain</b>"
    code = rng.choice(n_segments, n, p=rng.dirichlet(np.full(n_segments, 0.7)))
    code[: 2 * n_segments] = np.repeat([0, 1], n_segments)
    effect = 0.5 * rng.normal(size=n_segments)
    effect[0] = 1.5
    x = rng.normal(-1.0, 1.0, n)
    y = rng.random(n) < expit(x + effect[code])
    return y, {"raw": expit(x), "calibrated": expit(x + effect[code])}, names[code]


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    y, sets, by = segmented()
    return report(y, sets, tmp_path_factory.mktemp("segments") / "page.html", by=by), by


def test_the_worst_are_told_in_a_sentence(page):
    found, _ = page
    s = found.comparison.evaluations["raw"].segments
    i = s.names.index("Portugal")
    score, rate = (
        rounded_percent(s.table[key][i]) for key in ("mean_score", "event_rate")
    )
    assert (
        f"Portugal: mean score {score}, event rate {rate}; after calibration no evidence of miscalibration."
        in found.html
    )
    assert s.verdict.replace("<", "&lt;") in found.html


@pytest.mark.slow
def test_names_are_escaped_and_the_page_is_the_same_each_time(page):
    found, by = page
    assert "<b>Spain" not in found.html
    y, sets, _ = segmented()
    assert report(y, sets, by=by).html == found.html
    assert (
        "segment-list"
        not in report(y, sets).html.split("</style>")[1].split("<script")[0]
    )
    assert report(y, sets, by=np.roll(by, 1)).html != found.html


def test_one_set_alone_several_columns_and_classes_are_shown():
    y, sets, by = segmented(5, 2000)
    alone = report(y, {"raw": sets["raw"]}, by=[by, np.arange(2000) % 2])
    assert "before and after" not in alone.html
    assert "0: Portugal: mean score " in alone.html
    rng = np.random.default_rng(0)
    probs = rng.dirichlet([1.0, 1.0, 1.0], 600)
    classes = (rng.random(600)[:, None] > probs.cumsum(axis=1)).sum(axis=1)
    none = np.where(np.arange(600) % 2, None, "a")
    odd = report(
        classes,
        {"raw": probs**3 / (probs**3).sum(axis=1, keepdims=True), "truth": probs},
        by=none,
    )
    assert "Rows without a segment: mean score " in odd.html
    assert "over-confident" in odd.html or "too high" in odd.html


@pytest.mark.parametrize("width", [1280, 390])
def test_segments_can_be_searched_and_sorted_with_the_keyboard(page, open_page, width):
    found, _ = page
    n = len(found.comparison.evaluations["raw"].segments)
    opened = open_page(found.path, viewport={"width": width, "height": 800})
    at = opened.page
    rows = at.locator("#segment-list tbody tr:visible")
    assert rows.count() == 25
    at.locator("#segment-more").focus()
    at.keyboard.press("Enter")
    assert rows.count() == 100
    at.locator("#segment-search").focus()
    at.keyboard.type("portu")
    assert rows.locator("th").all_inner_texts() == ["Portugal"]
    assert at.locator("#segment-count").inner_text() == "1 of 1 segments"
    at.locator("#segment-search").fill("")
    at.locator("[data-sort=rows]").focus()
    at.keyboard.press("Enter")
    shown = [float(row.get_attribute("data-rows")) for row in rows.all()]
    assert shown == sorted(shown, reverse=True)
    at.keyboard.press("Enter")
    assert at.locator("th[aria-sort]").get_attribute("aria-sort") == "ascending"
    at.locator("[data-sort=name]").click()
    assert rows.first.locator("th").inner_text() == "<b>Spain</b>"
    assert at.locator("#segment-count").inner_text() == f"25 of {n} segments"
    assert opened.complaints == []
    assert at.evaluate("document.documentElement.scrollWidth <= innerWidth")
