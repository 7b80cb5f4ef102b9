"""Hand-made SVG: the reliability diagram and the calibration curve, each on two scales."""

from __future__ import annotations

from typing import Any

import numpy as np

from calspline.arrays import Array
from calspline.reporting.axis import Axis, linear, logit
from calspline.reporting.markup import Markup, join, tag

WIDTH, LEFT, TOP, RIGHT = 600.0, 66.0, 34.0, 16.0
PLOT = WIDTH - LEFT - RIGHT
CURVE_HEIGHT = 340.0
GAP, STRIP, FOOT = 34.0, 76.0, 30.0
CLOSE = 0.5
"""Points of a line nearer than this to the last one are not drawn."""
DEEP = 6
"""A label of this many characters has no room on a phone."""
LARGEST, SMALLEST = 8.5, 3.0


def reliability_svg(view: dict[str, Any], number: int, names: list[str], scale: str) -> Markup:
    """One view on one scale: what was said against what happened, all sets, and the histogram beneath."""
    axis = linear() if scale == "linear" else logit(view["ends"])
    frame = Frame(axis, axis, PLOT)
    said, happened = ("Confidence", "Right") if view["top_label"] else ("Given probability", "Happened")
    sets = [
        tag(
            "g",
            *_curves(one, frame),
            *(_bin(one, number, s, b, frame, names[s]) for b in range(len(one["bins"]))),
            class_=f"set s{s % 7}",
            data_set=s,
        )
        for s, one in enumerate(view["sets"])
    ]
    strips = _histograms([one["histogram"][scale] for one in view["sets"]], frame)
    body = join(frame.grid(), frame.diagonal(), *sets, *strips, frame.titles(said, happened))
    label = f"Reliability diagram of {view['name']}, {scale} scale: {said.lower()} against how often it came true"
    return frame.svg(body, scale, label)


def calibrator_svg(
    curve: dict[str, Any], histogram: dict[str, list[float]] | None, ends: tuple[float, float], scale: str
) -> Markup:
    """What the calibrator makes of a score."""
    y = linear() if scale == "linear" else logit(ends)
    x = y if curve["kind"] == "probability" else Axis(curve["score"][0], curve["score"][-1])
    frame = Frame(x, y, CURVE_HEIGHT)
    band = []
    if curve["band"] is not None:
        band = [tag("path", d=frame.area(curve["score"], *curve["band"]), class_="band")]
    line = tag("path", d=frame.line(curve["score"], curve["value"]), class_="curve")
    body = join(
        frame.grid(),
        frame.diagonal() if curve["kind"] == "probability" else "",
        tag("g", *band, line, class_="set s1"),
        *([] if histogram is None else _histograms([histogram[scale]], frame)),
        frame.titles("Confidence" if curve["top_label"] else "Score", "Calibrated", strip=histogram is not None),
    )
    return frame.svg(body, scale, f"Calibration curve, {scale} scale", strip=histogram is not None)


class Frame:
    """Where things are on a chart: a plot, and beneath it a strip for histograms."""

    def __init__(self, x: Axis, y: Axis, height: float) -> None:
        self.x_axis, self.y_axis, self.height = x, y, height
        self.bottom = TOP + height
        self.floor = self.bottom + GAP + STRIP

    def x(self, values: object) -> Array:
        """Horizontal places."""
        return LEFT + PLOT * self.x_axis(values)

    def y(self, values: object) -> Array:
        """Vertical places."""
        return self.bottom - self.height * self.y_axis(values)

    def line(self, x: list[float], y: list[float]) -> str:
        """A path through the points that the axis holds."""
        inside = self.x_axis.holds(x)
        return _path(self.x(x)[inside], self.y(y)[inside])

    def area(self, x: list[float], lower: list[float], upper: list[float]) -> str:
        """A path around a band, as far as the axis goes."""
        inside = self.x_axis.holds(x)
        along = self.x(x)[inside]
        there, back = _path(along, self.y(upper)[inside]), _path(along[::-1], self.y(lower)[inside][::-1])
        return f"{there}L{back[1:]}Z" if there else ""

    def grid(self) -> Markup:
        """Hairlines and labels at the ticks."""
        parts: list[Markup] = []
        for place, label in self.x_axis.ticks():
            at = LEFT + PLOT * place
            parts.append(_line(at, TOP, at, self.bottom, "hair"))
            parts.append(_text(at, self.bottom + 20, label, "tick middle" + _deep(label)))
        for place, label in self.y_axis.ticks():
            at = self.bottom - self.height * place
            parts.append(_line(LEFT, at, LEFT + PLOT, at, "hair"))
            parts.append(_text(LEFT - 9, at + 4, label, "tick end" + _deep(label)))
        return tag("g", *parts, aria_hidden="true")

    def diagonal(self) -> Markup:
        """Where what was said is what happened."""
        return _line(LEFT, self.bottom, LEFT + PLOT, TOP, "diagonal")

    def titles(self, across: str, up: str, *, strip: bool = True) -> Markup:
        """Names of the axes, level, at the ends of what they name."""
        foot = (self.floor if strip else self.bottom + 18.0) + 22.0
        return tag(
            "g",
            _text(LEFT - 9, 18, f"↑ {up}", "axis"),
            _text(LEFT + PLOT, foot, f"{across} →", "axis end"),
            aria_hidden="true",
        )

    def svg(self, body: Markup, scale: str, label: str, *, strip: bool = True) -> Markup:
        """The chart."""
        height = (self.floor if strip else self.bottom + 18.0) + FOOT
        return tag(
            "svg", body, viewBox=f"0 0 {WIDTH:g} {height:g}", class_=f"scale {scale}", role="group", aria_label=label
        )


def _curves(one: dict[str, Any], frame: Frame) -> list[Markup]:
    spline, corp, expected = one["spline"], one["corp"], one["corp_band"]
    out = [
        tag(
            "path",
            d=frame.area(expected["score"], expected["lower"], expected["upper"]),
            class_="band expected",
            data_layer="corp-band",
            hidden=True,
        )
    ]
    if spline is not None:
        out += [
            tag(
                "path",
                d=frame.area(spline["score"], spline["lower"], spline["upper"]),
                class_="band",
                data_layer="spline-band",
            ),
            tag("path", d=frame.line(spline["score"], spline["value"]), class_="curve", data_layer="spline"),
        ]
    steps = tag("path", d=frame.line(corp["score"], corp["value"]), class_="steps", data_layer="corp", hidden=True)
    return [*out, steps]


def _bin(one: dict[str, Any], view: int, s: int, b: int, frame: Frame, name: str) -> Markup:
    found = one["bins"][b]
    x, y = float(frame.x(found["given"])[0]), float(frame.y(found["happened"])[0])
    low, high = frame.y([found["lower"], found["upper"]])
    text = found["text"]
    return tag(
        "g",
        _line(x, float(low), x, float(high), "interval"),
        tag("circle", cx=_n(x), cy=_n(y), r=_n(max(SMALLEST, LARGEST * found["size"] ** 0.5)), class_="dot"),
        class_="bin",
        data_layer="bins",
        data_view=view,
        data_bin=b,
        tabindex=0 if b == 0 else -1,
        role="img",
        aria_label=f"{name}: {text['rows']} rows given {text['given']} on average, happened {text['happened']}, "
        f"interval {text['interval']}",
    )


def _histograms(shares: list[list[float]], frame: Frame) -> list[Markup]:
    """Shares of rows along the axis: the first set as an outline, others filled."""
    tallest = max(max(one) for one in shares)
    base = _line(LEFT, frame.floor, LEFT + PLOT, frame.floor, "base")
    out = [base]
    for s, one in enumerate(shares):
        edges = np.linspace(LEFT, LEFT + PLOT, len(one) + 1)
        tops = frame.floor - STRIP * np.array(one) / tallest
        x = np.repeat(edges, 2)
        y = np.concatenate([[frame.floor], np.repeat(tops, 2), [frame.floor]])
        corner = np.append(True, (np.diff(y) != 0.0) | (np.diff(x) != 0.0))
        d = "M" + "L".join(f"{_n(a)},{_n(b)}" for a, b in zip(x[corner], y[corner], strict=True)) + "Z"
        out.append(tag("path", d=d, class_=f"histogram set s{s % 7}", data_set=s, aria_hidden="true"))
    return out


def _path(x: Array, y: Array) -> str:
    if not len(x):
        return ""
    points = [(float(x[0]), float(y[0]))]
    last = len(x) - 1
    for i in range(1, len(x)):
        if i == last or abs(x[i] - points[-1][0]) > CLOSE or abs(y[i] - points[-1][1]) > CLOSE:
            points.append((float(x[i]), float(y[i])))
    return "M" + "L".join(f"{_n(a)},{_n(b)}" for a, b in points)


def _line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Markup:
    return tag("line", x1=_n(x1), y1=_n(y1), x2=_n(x2), y2=_n(y2), class_=class_)


def _text(x: float, y: float, text: str, class_: str) -> Markup:
    return tag("text", text, x=_n(x), y=_n(y), class_=class_)


def _deep(label: str) -> str:
    return " deep" if len(label) >= DEEP else ""


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
