"""The page: a plain dict becomes HTML by way of the templates beside this file."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from importlib.resources import files
from typing import Any

from calspline.formatting import number
from calspline.reporting.markup import Markup, data, fill, join, tag
from calspline.reporting.measures import MINUS, UNBROKEN
from calspline.reporting.svg import calibrator_svg, reliability_svg

SCALES = (("linear", "Linear"), ("logit", "Log-odds"))
LAYERS = (
    ("bins", "Bins with intervals", True),
    ("spline", "Spline curve", True),
    ("spline-band", "its band", True),
    ("corp", "Isotonic curve (CORP)", False),
    ("corp-band", "its band if all were right", False),
)


def page(summary: dict[str, Any]) -> Markup:
    """HTML with everything in it: style, script, charts, numbers."""
    script, style = _template("report.js"), _template("report.css")
    return fill(
        _template("report.html"),
        script_hash=b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        style=Markup(style),
        script=Markup(script),
        title=summary["title"],
        headline=join(
            *(
                tag("span", f"{sentence} ".replace(" ± ", f"{UNBROKEN}±{UNBROKEN}"), class_=f"s{s % 7}" if s else None)
                for sentence, s in zip(summary["headline"], summary["headline_sets"], strict=True)
            )
        ),
        facts=join(*(tag("li", fact) for fact in summary["facts"])),
        recommendation=_recommendation(summary),
        table=_table(summary),
        table_title="Before and after" if len(summary["sets"]) > 1 else "In numbers",
        controls=_controls(summary),
        views=join(*(_view(view, number, summary) for number, view in enumerate(summary["views"]))),
        level=summary["level"],
        scale=summary["scale"],
        curve=_curve(summary),
        loss=join(*(_loss(part) for part in summary["loss"])),
        certainty=_certainty(summary),
        fit=_fit(summary["fit"]),
        versions=", ".join(f"{name} {version}" for name, version in summary["versions"].items()),
        fingerprints=join(
            *(join(tag("dt", name), tag("dd", tag("code", value))) for name, value in summary["fingerprints"].items())
        ),
        data=data(
            {
                "evaluations": summary["evaluations"],
                "sets": summary["sets"],
                "views": [[[b["text"] for b in one["bins"]] for one in view["sets"]] for view in summary["views"]],
            }
        ),
    )


def _template(name: str) -> str:
    return (files("calspline.reporting") / "templates" / name).read_text(encoding="utf-8")


def _recommendation(summary: dict[str, Any]) -> Markup:
    if summary["recommendation"] is None:
        return Markup("")
    return tag("p", summary["recommendation"], class_="advice leave" if summary["leave_it"] else "advice")


def _table(summary: dict[str, Any]) -> Markup:
    head = tag(
        "tr",
        tag("th", tag("span", "Measure", class_="away"), scope="col"),
        *(tag("th", _swatch(s), name, scope="col") for s, name in enumerate(summary["sets"])),
    )
    body = [
        tag(
            "tr",
            tag("th", row["label"], " ", tag("small", row["hint"]), scope="row"),
            *(tag("td", *_cell(cell)) for cell in row["cells"]),
            class_="part" if row["part"] else None,
        )
        for row in summary["table"]
    ]
    return tag(
        "table",
        tag("thead", head),
        tag("tbody", *body),
        class_="measures many" if len(summary["sets"]) > 2 else "measures",
    )


def _cell(cell: dict[str, str]) -> list[Markup | str]:
    out: list[Markup | str] = [cell["text"]]
    if "beside" in cell:
        out += [" ", tag("small", cell["beside"])]
    if "verdict" in cell:
        out += [" ", tag("span", cell["verdict"], class_=f"verdict {cell['verdict'].replace(' ', '-')}")]
    return out


def _swatch(s: int) -> Markup:
    return tag("i", class_=f"swatch s{s % 7}", aria_hidden="true")


def _controls(summary: dict[str, Any]) -> Markup:
    groups = []
    if len(summary["views"]) > 1:
        options = [
            tag("option", "Top label: is the answer right?" if view["top_label"] else f"Class {view['name']}", value=v)
            for v, view in enumerate(summary["views"])
        ]
        left_out = Markup("")
        shown, there_are = len(summary["views"]) - 1, len(summary["classes"])
        if shown < there_are:
            left_out = tag("small", f"the {shown} of {there_are} classes whose miscalibration costs most")
        groups.append(tag("label", tag("span", "Question"), tag("select", *options, data_choose="view"), left_out))
    if len(summary["sets"]) > 1:
        everything = "Both" if len(summary["sets"]) == 2 else "All"
        buttons = [_button("set", "all", everything, pressed=True)]
        buttons += [_button("set", s, join(_swatch(s), name), pressed=False) for s, name in enumerate(summary["sets"])]
        groups.append(_group("Predictions", *buttons))
    groups.append(_scale_buttons(summary["scale"]))
    boxes = [
        tag("label", tag("input", type="checkbox", data_show=name, checked=shown), " ", label, class_="box")
        for name, label, shown in LAYERS
    ]
    groups.append(_group("Show", *boxes))
    return tag("div", *groups, class_="controls", hidden=True)


def _scale_buttons(chosen: str) -> Markup:
    return _group("Scale", *(_button("scale", name, label, pressed=name == chosen) for name, label in SCALES))


def _group(label: str, *inside: Markup) -> Markup:
    return tag("div", tag("span", label), tag("div", *inside), role="group", aria_label=label)


def _button(what: str, value: Any, label: Any, *, pressed: bool) -> Markup:
    return tag(
        "button", label, type="button", data_choose=what, value=value, aria_pressed="true" if pressed else "false"
    )


def _view(view: dict[str, Any], number: int, summary: dict[str, Any]) -> Markup:
    charts = [reliability_svg(view, number, summary["sets"], scale) for scale, _ in SCALES]
    tables = [
        _bin_table(one["bins"], name, summary["level"]) for one, name in zip(view["sets"], summary["sets"], strict=True)
    ]
    details = tag("details", tag("summary", "The bins as a table"), *tables)
    return tag("div", *charts, details, class_="view", data_view=number, hidden=number > 0)


def _bin_table(bins: list[dict[str, Any]], name: str, level: str) -> Markup:
    columns = {
        "range": "scores",
        "rows": "rows",
        "given": "mean score",
        "happened": "happened",
        "interval": f"{level} interval",
    }
    head = tag("tr", *(tag("th", label, scope="col") for label in columns.values()))
    body = [tag("tr", *(tag("td", b["text"][key]) for key in columns)) for b in bins]
    table = tag("table", tag("caption", name), tag("thead", head), tag("tbody", *body), class_="bins")
    return tag("div", table, class_="wide", tabindex="0", role="region", aria_label=f"Bins of {name}")


def _curve(summary: dict[str, Any]) -> Markup:
    fit = summary["fit"]
    if fit is None or fit["curve"] is None:
        return Markup("")
    curve, first = fit["curve"], summary["views"][0]
    histogram = first["sets"][0]["histogram"] if curve["kind"] == "probability" else None
    charts = [calibrator_svg(curve, histogram, first["ends"], scale) for scale, _ in SCALES]
    if curve["top_label"]:
        words = (
            f"What becomes of the probability of the answer that {summary['sets'][0]} gives: its mean, and the range "
            "of the middle 80% of these rows."
        )
    elif curve["band"] is None:
        words = "What the calibrator makes of each score."
    else:
        words = f"What the calibrator makes of each score, with the {summary['level']} band of its fit."
    if histogram is not None:
        words += f" Beneath, the scores of {summary['sets'][0]}."
    return tag(
        "section",
        tag("h2", "The calibration curve"),
        tag(
            "figure",
            tag(
                "figcaption",
                tag("p", words),
                tag("div", _scale_buttons(summary["scale"]), class_="controls", hidden=True),
            ),
            tag("div", *charts, class_="chart"),
            data_scale=summary["scale"],
        ),
    )


def _loss(part: dict[str, Any]) -> Markup:
    """Bars of one loss: what remains, what miscalibration adds, and what the scores have won over the base rate."""
    most = max(max(one["loss"], one["uncertainty"]) for one in part["sets"]) or 1.0

    def width(value: float) -> str:
        return f"width:{100.0 * max(value, 0.0) / most:.2f}%"

    rows = []
    for s, one in enumerate(part["sets"]):
        label = (
            f"{one['name']}: {part['label']} {number(one['loss'])} is uncertainty {number(one['uncertainty'])} "
            f"less discrimination {number(one['discrimination'])} plus miscalibration {number(one['calibration'])}"
        )
        bars = tag(
            "div",
            tag("i", class_="remains", style=width(one["refinement"])),
            tag("i", class_="added", style=width(one["calibration"])),
            class_="bar",
        )
        won = tag(
            "div",
            tag("i", style=width(one["refinement"])),
            tag("i", class_="won", style=width(one["discrimination"])),
            class_="bar thin",
        )
        numbers = tag(
            "p",
            tag("b", number(one["loss"])),
            f" = {number(one['uncertainty'])} uncertainty {MINUS} {number(one['discrimination'])} discrimination + ",
            tag("em", f"{number(one['calibration'])} miscalibration"),
        )
        rows.append(
            tag(
                "div",
                tag("h4", _swatch(s), one["name"]),
                tag("div", bars, won, role="img", aria_label=label),
                numbers,
                class_=f"lossrow s{s % 7}",
            )
        )
    return tag("div", tag("h3", part["label"]), *rows, class_="loss")


def _certainty(summary: dict[str, Any]) -> Markup:
    items = [
        join(
            tag("dt", _swatch(s), one["name"]), tag("dd", f"{one['test'][0].upper()}{one['test'][1:]}; {one['band']}.")
        )
        for s, one in enumerate(summary["certainty"])
    ]
    return tag("dl", *items, class_="certainty")


def _fit(fit: dict[str, Any] | None) -> Markup:
    if fit is None:
        return Markup("")
    parameters = [join(tag("dt", name), tag("dd", tag("code", value))) for name, value in fit["parameters"].items()]
    return tag(
        "section",
        tag("h2", "How it was fitted"),
        tag("pre", fit["summary"]),
        _facts(fit["facts"]),
        tag("details", tag("summary", f"Parameters of {fit['name']}"), tag("dl", *parameters, class_="grid"))
        if parameters
        else "",
    )


def _facts(facts: dict[str, str]) -> Markup:
    if not facts:
        return Markup("")
    return tag("dl", *(tag("div", tag("dt", name), tag("dd", value)) for name, value in facts.items()), class_="facts")
