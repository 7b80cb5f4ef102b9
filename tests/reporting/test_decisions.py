"""The section on decisions."""

import re
from html import unescape

import numpy as np
import pytest

from calspline import report

from .conftest import two_classes

COSTS = {"false_positive": 1.0, "false_negative": 4.0}


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    y, raw, p = two_classes(4000)
    sets = {"raw": raw, "<b>truth</b>": p}
    return (
        y,
        sets,
        report(
            y, sets, tmp_path_factory.mktemp("decisions") / "page.html", costs=COSTS
        ),
    )


def lead(found):
    return unescape(re.search(r'<p class="lead">(.*?)</p>', found.html).group(1))


def numbers(text):
    return [
        float(n.replace(",", "").replace("\N{MINUS SIGN}", "-"))
        for n in re.findall("\N{MINUS SIGN}?[\\d,.]*\\d", text)
    ]


def cost(y, acted):
    """Per 1,000 rows."""
    return 1000.0 * np.mean(np.where(acted, 1.0 - y, 4.0 * y))


def test_the_sentence_says_when_to_act_and_what_it_saves(page):
    y, sets, found = page
    raw, p = sets.values()
    when, what, alone = (
        lead(found).split(". ")[0],
        *re.split(r"\. (?=Acting on all|For)", lead(found).split(". ", 1)[1])[:2],
    )
    assert (
        when
        == "If a false alarm costs 1 and a missed event 4, it pays to act from a probability of 20% on"
    )
    told = numbers(what.removeprefix("Acting on <b>truth</b> then costs "))
    assert told[0] == pytest.approx(cost(y, p >= 0.2), abs=0.51)
    assert told[2] < told[0] < told[3]
    saved = cost(y, raw >= 0.2) - cost(y, p >= 0.2)
    assert "less than acting on raw" in what
    assert told[4] == pytest.approx(saved, abs=0.51)
    assert 0.0 < told[5] < told[4] < told[6]
    assert numbers(alone) == pytest.approx([cost(y, y >= 0), cost(y, y < 0)], abs=0.51)


def test_scores_that_are_wrong_are_told_their_own_threshold(page):
    _, _, found = page
    # The truth is 20% where the raw log-odds, 2.2 times those of the truth, say 4.5%.
    best, low, high = (
        float(n)
        for n in re.search(
            r"the best threshold is (.*)% \((.*)% to (.*)%\)\.$", lead(found)
        ).groups()
    )
    assert low <= 100.0 / (1.0 + 4.0**2.2) <= high
    assert low <= best <= high


def test_the_table_and_the_picture_are_those_of_decide(page, open_page):
    y, sets, found = page
    of_raw = found.decision.by_cost["raw"]
    for width in (1280, 390):
        opened = open_page(found.path, viewport={"width": width, "height": 800})
        section = opened.page.locator("#decisions")
        assert opened.complaints == []
        assert opened.page.evaluate(
            "document.documentElement.scrollWidth <= innerWidth"
        )
        first = section.locator(".measures tbody tr").first.locator("td").first
        want = [
            1000.0 * of_raw.cost,
            1000.0 * of_raw.cost_lower,
            1000.0 * of_raw.cost_upper,
        ]
        assert numbers(first.inner_text()) == pytest.approx(want, abs=0.51)
        assert (
            section.locator("svg .curve").count()
            == section.locator("svg .band").count()
            == len(sets)
        )
        box, marked = (
            section.locator("svg").bounding_box(),
            section.locator("svg .mark").bounding_box(),
        )
        # The plot is 518 of 600 wide, and begins at 66.
        assert (marked["x"] - box["x"]) / box["width"] == pytest.approx(
            (66.0 + 0.2 * 518.0) / 600.0, abs=0.01
        )
        section.locator("summary").click()
        cells = section.locator(".bins tbody tr").nth(2).locator("td").all_inner_texts()
        t = 0.01 * round(100.0 * float(cells[0].removesuffix("%")) / 100.0)
        acted = sets["raw"] >= t
        benefit = 1000.0 * np.mean(acted * (y - (1.0 - y) * t / (1.0 - t)))
        assert numbers(cells[1])[0] == pytest.approx(benefit, abs=0.51)


def test_thresholds_alone_say_where_one_is_better(open_page, tmp_path):
    y, raw, p = two_classes(4000)
    found = report(
        y,
        {"raw": raw, "truth": p},
        tmp_path / "page.html",
        thresholds=np.arange(1, 31) / 100.0,
    )
    (low, high), *_ = found.decision.better("truth")
    assert (
        f"Acting on truth is significantly better than acting on raw at thresholds of {low:.0%} to {high:.0%}"
        in lead(found)
    )
    section = open_page(found.path).page.locator("#decisions")
    assert section.locator(".measures").count() == 0
    assert section.locator("svg .tick.middle").last.text_content() == "30%"
    same = report(y, {"raw": p, "again": p}, thresholds=[0.1, 0.2])
    assert (
        lead(same)
        == "Acting on again is at no threshold significantly better or worse than acting on raw."
    )


def test_one_set_is_compared_with_acting_on_all_rows():
    y, _, p = two_classes(4000)
    found = report(y, {"model": p}, thresholds=[0.5])
    assert (
        lead(found)
        == "Acting on model is significantly better than acting on all rows alike at thresholds of 50%."
    )
    section = found.html.split('id="decisions"')[1].split("</section>")[0]
    assert "<svg" not in section
    assert "<details open>" in section
    price = lead(report(y, {"model": p}, costs=COSTS | {"true_positive": -2.0}))
    assert price.startswith(
        "If a false alarm costs 1, a missed event 4 and an event found \N{MINUS SIGN}2, it pays"
    )
    assert " than acting on" not in price


def test_a_difference_that_is_not_sure_is_told_as_such():
    y, raw, p = two_classes(400)
    near = np.clip(p + 0.01, 0.0, 1.0)
    assert re.search(
        r", between [\d.]+ less and [\d.]+ more than acting on truth\.",
        lead(report(y, {"truth": p, "near": near}, costs=COSTS)),
    )
    assert re.search(
        r"\), \d+ more than acting on truth \(\d+ to \d+\)\.",
        lead(report(y, {"truth": p, "raw": raw**4}, costs=COSTS)),
    )


@pytest.mark.parametrize("happened", [0, 1])
def test_one_outcome_only_makes_a_page(happened):
    p = np.linspace(0.1, 0.9, 50)
    found = report(np.full(50, happened), {"model": p}, costs=COSTS)
    assert "nan" not in found.html.split('id="decisions"')[1].split("</section>")[0]


def test_without_costs_and_thresholds_there_is_no_section(page):
    y, sets, found = page
    without = report(y, sets)
    assert without.decision is None
    assert 'id="decisions"' not in without.html
    assert found.html.count('id="decisions"') == 1
    assert "<b>truth" not in found.html


def test_several_classes_have_no_decisions(tmp_path):
    path = tmp_path / "page.html"
    probs = np.full((6, 3), 1 / 3)
    with pytest.raises(ValueError, match="predictions must be of two classes"):
        report([0, 1, 2, 0, 1, 2], {"raw": probs}, path, costs=COSTS)


def test_costs_of_rows_in_groups_have_wider_intervals(tmp_path):
    rng = np.random.default_rng(0)
    p = np.repeat(rng.uniform(size=200), 5)
    y = np.repeat(rng.random(200) < p[::5], 5)
    group = np.arange(1000) // 5
    alone, together = (
        report(y, p, costs=COSTS, groups=groups).decision.by_cost["probabilities"]
        for groups in (None, group)
    )
    width = alone.cost_upper - alone.cost_lower
    assert together.cost_upper - together.cost_lower > 1.5 * width
