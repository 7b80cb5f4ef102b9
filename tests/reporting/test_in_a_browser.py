import json
import re
from itertools import pairwise

import numpy as np
import pytest
from tests.reporting.conftest import two_classes

from calspline import evaluate, reliability, report
from calspline._formatting import format_number, p_value

COSTS = {"false_positive": 1, "false_negative": 5}
WHOLE_CELLS = ("against raw", "Test of calibration")
"""Rows of the table whose cells hold more than a number and its limits."""
VISIBLE_BINS = "#diagram .bin:visible"


def texts(locator):
    return [
        text.replace("\N{NO-BREAK SPACE}", " ").strip()
        for text in locator.all_inner_texts()
    ]


def shares(text):
    """Numbers in per cent."""
    return [float(found) for found in re.findall(r"([\d.]+)%", text)]


def point_at(page, one):
    """Move the mouse to the middle of a bin's point."""
    dot = one.locator(".dot")
    dot.scroll_into_view_if_needed()
    box = dot.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)


def tooltip(page):
    """Label and value of each line of the tooltip, and its first line."""
    tip = page.locator("#tip")
    assert tip.is_visible()
    lines = {
        row.locator("i").inner_text(): row.inner_text().split("\n")[-1]
        for row in tip.locator("span").all()
    }
    return tip.locator("b").inner_text(), lines


def assert_same_bin(lines, bins, i):
    assert int(lines["rows"].replace(",", "")) == bins.count[i]
    assert shares(lines["mean score"]) == pytest.approx(
        [100 * bins.mean_score[i]], abs=0.05
    )
    assert shares(lines["observed frequency"]) == pytest.approx(
        [100 * bins.observed[i]], abs=0.05
    )
    limits = [100 * bins.interval_lower[i], 100 * bins.interval_upper[i]]
    assert shares(lines["interval"]) == pytest.approx(limits, abs=0.05)
    assert shares(lines["scores"]) == pytest.approx(
        [100 * bins.lower[i], 100 * bins.upper[i]], abs=0.05
    )


OVERLAPS = """() => {
  const found = [];
  for (const svg of document.querySelectorAll("svg.scale")) {
    const texts = [...svg.querySelectorAll("text")]
      .map((text) => [text.textContent, text.getBoundingClientRect()])
      .filter(([, box]) => box.width > 0);
    texts.forEach(([first, a], i) => texts.slice(i + 1).forEach(([second, b]) => {
      const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (wide > 0 && high > 0.25 * Math.min(a.height, b.height)) {
        found.push([first, second]);
      }
    }));
  }
  return found;
}"""
"""Pairs of labels in a chart that overlap."""


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scale", ["linear", "logit"])
def test_labels_of_charts_do_not_overlap(tmp_path, open_page, width, scale):
    y, raw, p = two_classes(4000, factor=6.0)
    path = tmp_path / "report.html"
    report(y, {"raw": raw, "truth": p}, path, costs=COSTS)
    page = open_page(path, viewport={"width": width, "height": 900}).page
    page.locator(f'button[data-choose="scale"][value="{scale}"]').first.click()
    assert page.locator("svg.scale:visible text").count() > 10
    assert page.evaluate(OVERLAPS) == []


@pytest.mark.parametrize("which", ["binary", "multiclass"])
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_opens_without_complaint_and_asks_for_nothing(
    request, open_page, which, width, scheme
):
    _, _, found = request.getfixturevalue(which)
    opened = open_page(
        found.path, viewport={"width": width, "height": 800}, color_scheme=scheme
    )
    page = opened.page
    for control in page.locator("button:visible").all():
        control.click()
    for box in page.locator("input:visible").all():
        box.click()
    assert opened.requests == [found.path.as_uri()]
    assert opened.complaints == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_the_headline_is_the_first_thing_said(binary, open_page):
    _, _, found = binary
    page = open_page(found.path).page
    assert page.locator("h1").inner_text().lower() == "churn"
    assert texts(page.locator(".headline")) == [found.headline]


@pytest.mark.parametrize("which", ["binary", "multiclass"])
def test_the_numbers_are_those_of_evaluate(request, open_page, which):
    y, sets, found = request.getfixturevalue(which)
    page = open_page(found.path).page
    expected = {name: evaluate(y, p) for name, p in sets.items()}
    inside = json.loads(page.locator("#numbers").text_content())["evaluations"]
    assert inside == {name: e.to_dict(limits=False) for name, e in expected.items()}
    top = " of the top label" if which == "multiclass" else ""
    table = page.locator(".measures tbody tr")
    rows = [
        [
            row.locator("th").evaluate("th => th.firstChild.data.trim()"),
            *texts(row.locator("td")),
        ]
        for row in table.all()
    ]
    shown = [
        (
            label,
            [
                cell if label in WHOLE_CELLS or not cell else cell.split()[0]
                for cell in cells
            ],
        )
        for label, *cells in rows
    ]

    def of(name):
        values = [format_number(getattr(e, name)) for e in expected.values()]
        return [value.replace("-", "\N{MINUS SIGN}") for value in values]

    parts = [
        (label, of(name))
        for loss, title in (("log_loss", "Log-loss"), ("brier", "Brier score"))
        for label, name in (
            (title, loss),
            ("calibration", f"calibration_{loss}"),
            ("refinement", f"refinement_{loss}"),
        )
    ]
    assert [row for row in shown if not row[0].startswith("against")] == [
        *parts,
        ("Accuracy", of("accuracy")),
        ("AUC", of("auc")),
        (f"ECE{top}, debiased", of("ece_debiased")),
        (f"Smooth ECE{top}", of("smooth_ece")),
        (f"Slope{top}", of("calibration_slope")),
        (
            "Test of calibration",
            [p_value(e.calibration_p_value) for e in expected.values()],
        ),
    ]


def test_differences_have_an_interval_and_a_verdict(binary, open_page):
    _, _, found = binary
    page = open_page(found.path).page
    rows = page.locator(".measures tr", has_text="against raw")
    for row, differences in zip(
        rows.all(), (found.comparison.log_loss, found.comparison.brier), strict=True
    ):
        d = differences["calibrated"]
        text = row.locator("td").last.inner_text().replace("\N{MINUS SIGN}", "-")
        values = [float(value) for value in re.findall(r"[+-][\d.]+", text)]
        assert values == pytest.approx([d.value, d.lower, d.upper], abs=5e-5)
        assert row.locator(".verdict").inner_text() == d.verdict
    assert page.locator(".advice").inner_text() == found.comparison.recommendation


@pytest.mark.parametrize("number_of_set", [0, 1])
def test_hovering_a_bin_shows_its_numbers(binary, open_page, number_of_set):
    y, sets, found = binary
    page = open_page(found.path).page
    name = list(sets)[number_of_set]
    bins = reliability(y, sets[name], n_bins=12).bins
    page.click(f'#diagram button[data-choose="set"][value="{number_of_set}"]')
    assert not page.locator("#tip").is_visible()
    assert page.locator(VISIBLE_BINS).count() == len(bins)
    for i, one in enumerate(page.locator(VISIBLE_BINS).all()):
        point_at(page, one)
        title, lines = tooltip(page)
        assert title == name
        assert_same_bin(lines, bins, i)
        label = one.get_attribute("aria-label")
        assert label.startswith(
            f"{name}: {bins.count[i]:,} rows, mean predicted probability "
        )
    page.mouse.move(0, 0)
    assert not page.locator("#tip").is_visible()


def test_bins_are_reached_and_left_by_keyboard(binary, open_page):
    y, sets, found = binary
    page = open_page(found.path).page
    bins = reliability(y, sets["raw"], n_bins=12).bins
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.classList.contains('bin')"):
            break
    for i in range(3):
        title, lines = tooltip(page)
        assert title == "raw"
        assert_same_bin(lines, bins, i)
        page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowLeft")
    assert_same_bin(tooltip(page)[1], bins, 2)
    page.keyboard.press("Escape")
    assert not page.locator("#tip").is_visible()
    page.keyboard.press("Tab")
    assert tooltip(page)[0] == "calibrated"


def places(page, axis):
    """Where the labels of the ticks of the visible chart are along an axis, by their value."""
    kind = ".middle" if axis == "x" else ".end"
    ticks = page.locator(f"#diagram svg:visible .tick{kind}").all()
    # A label sits four units below the line it names.
    shift = 0.0 if axis == "x" else -4.0
    return {
        float(t.text_content().rstrip("%")) / 100: float(t.get_attribute(axis)) + shift
        for t in ticks
    }


@pytest.mark.parametrize(
    ("scale", "ticks"), [("linear", (0.0, 1.0)), ("logit", (0.1, 0.9))]
)
def test_points_are_drawn_where_the_axes_say(binary, open_page, scale, ticks):
    y, sets, found = binary
    page = open_page(found.path).page
    page.click(f'#diagram button[value="{scale}"]')
    page.click('#diagram button[data-choose="set"][value="0"]')

    def along(value):
        return value if scale == "linear" else np.log(value / (1 - value))

    bins = reliability(y, sets["raw"], n_bins=12).bins
    dots = page.locator(f"{VISIBLE_BINS} .dot").all()
    for axis, values in (("x", bins.mean_score), ("y", bins.observed)):
        at = places(page, axis)
        low, high = (along(tick) for tick in ticks)
        expected = at[ticks[0]] + (along(values) - low) / (high - low) * (
            at[ticks[1]] - at[ticks[0]]
        )
        drawn = [float(dot.get_attribute(f"c{axis}")) for dot in dots]
        inside = (values > 1e-3) & (values < 1 - 1e-3)
        np.testing.assert_allclose(np.array(drawn)[inside], expected[inside], atol=0.11)


def test_switching_the_scale_shows_another_chart(binary, open_page):
    page = open_page(binary[2].path).page
    assert page.locator("#diagram svg.linear").is_visible()
    assert not page.locator("#diagram svg.logit").is_visible()
    before = page.locator("#diagram").screenshot()
    page.click('#diagram button[value="logit"]')
    assert page.locator("#diagram svg.logit").is_visible()
    assert not page.locator("#diagram svg.linear").is_visible()
    assert page.locator("#diagram").screenshot() != before
    assert (
        page.locator('#diagram button[value="logit"]').get_attribute("aria-pressed")
        == "true"
    )
    assert (
        page.locator('#diagram button[value="linear"]').get_attribute("aria-pressed")
        == "false"
    )
    # The other figure has a scale of its own.
    assert page.locator("figure:not(#diagram) svg.linear").is_visible()


def test_switching_the_model_hides_the_others(binary, open_page):
    page = open_page(binary[2].path).page
    both = page.locator(VISIBLE_BINS).count()
    drawn = {}
    for value in ("0", "1"):
        page.click(f'#diagram button[data-choose="set"][value="{value}"]')
        drawn[value] = page.locator(VISIBLE_BINS).count()
        shown = {
            one.get_attribute("data-set")
            for one in page.locator("#diagram [data-set]:visible").all()
        }
        assert shown == {value}
    assert drawn["0"] + drawn["1"] == both


@pytest.mark.parametrize(
    "layer", ["bins", "spline", "spline-band", "corp", "corp-band"]
)
def test_each_layer_comes_and_goes_for_each_model(binary, open_page, layer):
    page = open_page(binary[2].path).page
    box = page.locator(f'[data-show="{layer}"]')
    drawn = page.locator(f'#diagram svg.linear [data-layer="{layer}"]:visible')
    box.check()
    assert drawn.count() >= 2
    box.uncheck()
    assert drawn.count() == 0


def test_many_classes_are_chosen_from_a_list(multiclass, open_page):
    y, sets, found = multiclass
    page = open_page(found.path).page
    page.click('#diagram button[data-choose="set"][value="0"]')
    guess = sets["raw"].argmax(axis=1)
    questions = [
        (guess == y, sets["raw"].max(axis=1)),
        *((y == j, sets["raw"][:, j]) for j in range(3)),
    ]
    for view, (happened, p) in enumerate(questions):
        page.select_option("#diagram select", str(view))
        bins = reliability(happened, p, n_bins=12).bins
        assert page.locator(VISIBLE_BINS).count() == len(bins)
        point_at(page, page.locator(VISIBLE_BINS).nth(2))
        assert_same_bin(tooltip(page)[1], bins, 2)


def test_the_bins_are_there_as_a_table_too(binary, open_page):
    y, sets, found = binary
    page = open_page(found.path).page
    page.click(".view summary")
    bins = reliability(y, sets["raw"], n_bins=12).bins
    rows = page.locator(".bins").first.locator("tbody tr")
    assert rows.count() == len(bins)
    assert [texts(row.locator("td"))[1] for row in rows.all()] == [
        f"{count:,}" for count in bins.count
    ]


def test_the_loss_bars_are_as_long_as_the_losses(binary, open_page):
    y, sets, found = binary
    page = open_page(found.path).page
    for measure, block in zip(
        ("log_loss", "brier"), page.locator(".loss").all(), strict=True
    ):
        for p, row in zip(sets.values(), block.locator(".lossrow").all(), strict=True):
            e = evaluate(y, p)
            remains, added, won = (
                row.locator(f".{kind}").bounding_box()
                for kind in ("remains", "added", "won")
            )
            per_unit = remains["width"] / getattr(e, f"refinement_{measure}")
            assert added["width"] / per_unit == pytest.approx(
                getattr(e, f"calibration_{measure}"), rel=0.05
            )
            assert won["width"] / per_unit == pytest.approx(
                getattr(e, f"discrimination_{measure}"), rel=0.05
            )
            assert added["x"] == pytest.approx(remains["x"] + remains["width"], abs=0.5)


HOSTILE = [
    "</script><script>document.title='caught'</script>",
    "<img src=x onerror=\"document.title='caught'\">",
    "\"'><svg onload=\"document.title='caught'\">",
    "<!-- ${title} $title &amp;",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_names_are_shown_and_nothing_runs(tmp_path, open_page, text):
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), 300)
    y = np.array([text, "b" + text, "c"])[rng.integers(0, 3, 300)]
    labels = [text, "b" + text, "c"]
    found = report(
        y,
        {text: p, "other": p[:, ::-1]},
        tmp_path / "page.html",
        title=text,
        labels=labels,
    )
    opened = open_page(found.path, viewport={"width": 390, "height": 800})
    page = opened.page
    assert page.title() == text
    assert page.locator("h1").text_content() == text
    assert text in page.locator(".measures thead").inner_text()
    assert f"Class b{text}" in page.locator("select").text_content()
    point_at(page, page.locator(VISIBLE_BINS).first)
    assert tooltip(page)[0] == text
    assert page.locator("img").count() == 0
    assert page.locator("script").count() == 2
    assert opened.complaints == []
    assert opened.requests == [found.path.as_uri()]
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_even_a_script_that_slipped_in_would_not_run(binary, open_page, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(
        binary[2].html.replace(
            "</main>", "<script>document.title='caught'</script></main>"
        ),
        "utf-8",
    )
    opened = open_page(path)
    assert opened.page.title() == "Churn"
    assert "Content Security Policy" in opened.complaints[0]


def test_dark_and_light_differ_and_are_legible(binary, open_page):
    found = {}
    for scheme in ("light", "dark"):
        page = open_page(binary[2].path, color_scheme=scheme).page
        style = page.evaluate(
            "(s => [s.backgroundColor, s.color])(getComputedStyle(document.body))"
        )
        found[scheme] = [
            np.array(re.findall(r"\d+", colour)[:3], float) / 255 for colour in style
        ]

    def luminance(colour):
        linear = np.where(
            colour <= 0.04045, colour / 12.92, ((colour + 0.055) / 1.055) ** 2.4
        )
        return float(linear @ [0.2126, 0.7152, 0.0722])

    for paper, ink in found.values():
        light, dark = sorted([luminance(paper), luminance(ink)], reverse=True)
        assert (light + 0.05) / (dark + 0.05) > 7.0
    assert luminance(found["light"][0]) > 0.8
    assert luminance(found["dark"][0]) < 0.05


def test_without_a_script_the_first_view_is_there_and_the_controls_are_not(
    binary, open_page
):
    page = open_page(binary[2].path, java_script_enabled=False).page
    assert page.locator("#diagram svg.linear").is_visible()
    assert page.locator("#diagram svg.linear .dot").count() > 10
    assert page.locator(".controls").first.is_hidden()
    assert page.locator(".headline").is_visible()


def test_printed_it_is_light_and_has_no_controls(binary, open_page):
    page = open_page(binary[2].path, color_scheme="dark").page
    page.emulate_media(media="print")
    assert (
        page.evaluate("getComputedStyle(document.body).backgroundColor")
        == "rgb(255, 255, 255)"
    )
    assert page.locator(".controls").first.is_hidden()
    assert page.locator("#diagram svg.linear").is_visible()


def test_every_control_and_chart_has_a_name(multiclass, open_page):
    page = open_page(multiclass[2].path).page
    nameless = page.evaluate("""
        Array.from(document.querySelectorAll("button, input, select, svg, .bin, [role=region], [role=group], iframe"))
            .filter(e => !e.getAttribute("aria-label") && !(e.closest("label") || e).textContent.trim())
            .length
    """)
    assert nameless == 0
    assert page.locator("html").get_attribute("lang") == "en"
    levels = [
        int(h[1])
        for h in page.evaluate(
            "Array.from(document.querySelectorAll('h1,h2,h3,h4'), h => h.tagName)"
        )
    ]
    assert levels[0] == 1
    assert all(b - a <= 1 for a, b in pairwise(levels))


def test_a_notebook_shows_it_inline(binary, open_page, tmp_path):
    path = tmp_path / "notebook.html"
    path.write_text(
        f"<!doctype html><meta charset=utf-8><body>{binary[2]._repr_html_()}</body>",
        "utf-8",
    )
    opened = open_page(path)
    frame = opened.page.frame_locator("iframe")
    assert texts(frame.locator(".headline")) == [binary[2].headline]
    point_at(opened.page, frame.locator(VISIBLE_BINS).first)
    assert "mean score" in frame.locator("#tip").inner_text()
    assert [
        url for url in opened.requests if not url.startswith(("file:", "about:"))
    ] == []
    assert opened.complaints == []
