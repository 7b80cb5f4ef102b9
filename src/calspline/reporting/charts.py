"""Charts of the report: positions, paths and labels for the SVG template.

This is the only code that draws SVG; ``.plot()`` methods draw with matplotlib.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calspline._arrays import Array, Counts
from calspline._formatting import percent, precise_percent
from calspline.evaluation.evaluate import Evaluation
from calspline.evaluation.predictions import Predictions
from calspline.evaluation.reliability import (
    HISTOGRAM_CELLS,
    Reliability,
    diagram_predictions,
)
from calspline.transforms import log_odds

MAX_CLASSES, MAX_DIAGRAMS = 12, 24
MIN_BINS, MAX_BINS, ROWS_PER_BIN = 4, 12, 20
BAND_DRAWS = 100
"""Number of simulations for the band of the isotonic curve, which is hidden at
first."""
SCALES = ("linear", "logit")
WIDTH, LEFT, TOP, RIGHT = 600.0, 66.0, 34.0, 16.0
PLOT = WIDTH - LEFT - RIGHT
CHARACTER, CHARACTER_ON_A_PHONE = 7.5, 12.0
"""Width of a character of a label, in units of the chart."""
CURVE_HEIGHT = 340.0
GAP, STRIP, FOOT = 34.0, 76.0, 30.0

CURVE_POINTS, BAND_POINTS = 81, 61
NEAREST, FARTHEST = 0.3, 1e-6
"""The logit axis extends at least from 0.3 to 0.7, and at most from 1e-6 to 1 -
1e-6."""
MIN_PROBABILITY = 1e-15
COARSE_TICKS = (
    1e-6,
    1e-5,
    0.0001,
    0.001,
    0.01,
    0.1,
    0.5,
    0.9,
    0.99,
    0.999,
    0.9999,
    1 - 1e-5,
    1 - 1e-6,
)
FINE_TICKS = (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)
"""Ticks for axes of more than ten units of log-odds, and for shorter ones."""


class Forecast(NamedTuple):
    """Predictions of one set for an event, and their reliability."""

    p: Array
    weight: Array | None
    counts: Counts
    evaluation: Evaluation
    diagram: Reliability


class View(NamedTuple):
    """Predictions of all sets for one event: a class, or a correct top label."""

    name: str
    top_label: bool
    forecasts: dict[str, Forecast]


def views(
    rows: Mapping[str, Predictions], evaluations: Mapping[str, Evaluation]
) -> list[View]:
    """Views of the report: for several classes, the top label and then classes."""
    first = next(iter(rows.values()))
    if first.binary:
        found = {name: _forecast(one, evaluations[name]) for name, one in rows.items()}
        return [View(str(first.classes[1]), False, found)]
    tops = {
        name: evaluation.top_label or evaluation
        for name, evaluation in evaluations.items()
    }
    out = [
        View(
            "top label",
            True,
            {name: _forecast(one.event, tops[name]) for name, one in rows.items()},
        )
    ]
    # All classes or, of many, those whose miscalibration costs most.
    costs = [
        [one.calibration_brier for one in e.per_class.values()]
        for e in evaluations.values()
    ]
    most = max(1, min(MAX_CLASSES, MAX_DIAGRAMS // len(evaluations)))
    for j in sorted(np.argsort(-np.max(costs, axis=0), kind="stable")[:most].tolist()):
        label = first.classes.tolist()[j]
        found = {
            name: _forecast(one.against_rest[j], evaluations[name].per_class[label])
            for name, one in rows.items()
        }
        out.append(View(str(label), False, found))
    return out


def _forecast(rows: Predictions, evaluation: Evaluation) -> Forecast:
    n_bins = int(np.clip(len(rows.probs) // ROWS_PER_BIN, MIN_BINS, MAX_BINS))
    diagram = diagram_predictions(rows, n_bins, band_draws=BAND_DRAWS)
    return Forecast(rows.probs, rows.weight, rows.counts, evaluation, diagram)


def starting_scale(view: View) -> str:
    """Choose the logit scale if half of the rows are too close to 0 or 1."""
    forecast = next(iter(view.forecasts.values()))
    extreme = np.minimum(forecast.p, 1.0 - forecast.p) < 0.02
    return "logit" if np.average(extreme, weights=forecast.weight) > 0.5 else "linear"


def reliability_charts(view: View) -> dict[str, Any]:
    """A view: its diagram on both scales, and the numbers of the bins as text."""
    forecasts = view.forecasts.values()
    bins = [_bin_texts(forecast) for forecast in forecasts]
    charts = []
    across, up = (
        ("Confidence", "Accuracy")
        if view.top_label
        else ("Predicted probability", "Observed frequency")
    )
    for scale in SCALES:
        axis = _probability_axis(view, scale)
        frame = Frame(axis, axis, PLOT)
        sets = [
            {
                "name": name,
                "color": s,
                "paths": _paths(forecast.diagram, frame),
                "bins": _bins(forecast, texts, frame),
            }
            for s, ((name, forecast), texts) in enumerate(
                zip(view.forecasts.items(), bins, strict=True)
            )
        ]
        label = (
            f"Reliability diagram of {view.name}, {scale} scale: "
            f"{across.lower()} against the observed frequency"
        )
        shares = [_shares(forecast, axis) for forecast in forecasts]
        charts.append(
            frame.chart(
                shares,
                scale=scale,
                label=label,
                titles=(across, up),
                sets=sets,
                diagonal=True,
            )
        )
    return {
        "name": view.name,
        "top_label": view.top_label,
        "bins": bins,
        "charts": charts,
    }


def calibrator_charts(fit: dict[str, Any], view: View) -> list[dict[str, Any]]:
    """The calibration curve on both scales, with a histogram of the scores."""
    curve = fit["curve"]
    of_probabilities = fit["kind"] == "probability"
    out = []
    titles = "Confidence" if fit["top_label"] else "Score", "Calibrated"
    for scale in SCALES:
        y = _probability_axis(view, scale)
        frame = Frame(
            y if of_probabilities else Axis(curve["score"][0], curve["score"][-1]),
            y,
            CURVE_HEIGHT,
        )
        paths = [{"class": "curve", "d": frame.line(curve["score"], curve["value"])}]
        if curve["band"] is not None:
            paths.insert(
                0, {"class": "band", "d": frame.area(curve["score"], *curve["band"])}
            )
        if of_probabilities:
            shares = [_shares(next(iter(view.forecasts.values())), y)]
        else:
            shares = []
        sets = [{"color": 1, "paths": paths, "bins": []}]
        labels = {
            "scale": scale,
            "label": f"Calibration curve, {scale} scale",
            "titles": titles,
        }
        out.append(frame.chart(shares, **labels, sets=sets, diagonal=of_probabilities))
    return out


class Axis(NamedTuple):
    """Positions in [0, 1] along an axis; values beyond its ends stay at the ends."""

    low: float
    high: float
    logit: bool = False

    def __call__(self, values: object) -> Array:
        """Positions of values."""
        return np.clip(self._places(values), 0.0, 1.0)

    def contains(self, values: object) -> NDArray[np.bool_]:
        """Whether values lie between the ends."""
        return np.asarray(self._places(values) == self(values))

    def _places(self, values: object) -> Array:
        x = np.atleast_1d(np.asarray(values, dtype=np.float64))
        if self.logit:
            x = log_odds(np.clip(x, MIN_PROBABILITY, 1.0 - MIN_PROBABILITY))
        return np.asarray((x - self.low) / (self.high - self.low))

    def ticks(self) -> list[tuple[float, str]]:
        """Position and label of each tick."""
        if self.logit:
            values = np.array(
                COARSE_TICKS if self.high - self.low > 10.0 else FINE_TICKS
            )
            values = values[
                (self.low <= log_odds(values)) & (log_odds(values) <= self.high)
            ]
        else:
            values = np.linspace(self.low, self.high, 6)
        of_probabilities = self.logit or (self.low == 0.0 and self.high <= 1.0)
        labels = [percent(v) if of_probabilities else f"{v:.3g}" for v in values]
        return list(zip(self(values).tolist(), labels, strict=True))


def _probability_axis(view: View, scale: str) -> Axis:
    """Axis of probabilities or of log-odds, up to the outermost bins of any set."""
    if scale == "linear":
        return Axis(0.0, 1.0)
    bins = [forecast.diagram.bins for forecast in view.forecasts.values()]
    values = np.concatenate(
        [column for b in bins for column in (b.mean_score, b.observed)]
    )
    # A bin without events lies at 0, which is infinitely far.
    if np.any((values > 0.0) & (values < 1.0)):
        values = values[(values > 0.0) & (values < 1.0)]
    else:
        values = values
    low, high = log_odds(
        [
            np.clip(values.min(), FARTHEST, NEAREST),
            np.clip(values.max(), 1.0 - NEAREST, 1.0 - FARTHEST),
        ]
    ).tolist()
    margin = 0.04 * (high - low)
    return Axis(low - margin, high + margin, logit=True)


class Frame(NamedTuple):
    """Layout of a chart: a plot and, below it, a strip for histograms."""

    x_axis: Axis
    y_axis: Axis
    height: float

    @property
    def bottom(self) -> float:
        """Lower end of the plot."""
        return TOP + self.height

    @property
    def floor(self) -> float:
        """Lower end of the strip."""
        return self.bottom + GAP + STRIP

    def x(self, values: object) -> Array:
        """Horizontal positions."""
        return LEFT + PLOT * self.x_axis(values)

    def y(self, values: object) -> Array:
        """Vertical positions."""
        return self.bottom - self.height * self.y_axis(values)

    def line(self, x: object, y: object) -> str:
        """Path through the points within the axis."""
        inside = self.x_axis.contains(x)
        return _path(self.x(x)[inside], self.y(y)[inside])

    def area(self, x: object, lower: object, upper: object) -> str:
        """Path around a band, within the axis."""
        inside = self.x_axis.contains(x)
        along = self.x(x)[inside]
        there = _path(along, self.y(upper)[inside])
        back = _path(along[::-1], self.y(lower)[inside][::-1])
        return f"{there}L{back[1:]}Z" if there else ""

    def _histograms(self, shares: list[Array]) -> list[str]:
        """Paths around the shares of rows along the axis."""
        tallest = max((one.max() for one in shares), default=1.0)
        out = []
        for one in shares:
            x = np.repeat(np.linspace(LEFT, LEFT + PLOT, len(one) + 1), 2)
            tops = self.floor - STRIP * one / tallest
            y = np.concatenate([[self.floor], np.repeat(tops, 2), [self.floor]])
            corner = np.append(True, (np.diff(y) != 0.0) | (np.diff(x) != 0.0))
            corners = zip(x[corner].tolist(), y[corner].tolist(), strict=True)
            out.append(_points(list(corners)) + "Z")
        return out

    def chart(self, shares: list[Array], **contents: Any) -> dict[str, Any]:
        """Data of a chart for the template, with an optional strip of histograms."""
        floor = self.floor if shares else self.bottom + 30.0
        places = {
            "left": LEFT,
            "right": LEFT + PLOT,
            "top": TOP,
            "bottom": self.bottom,
            "floor": floor,
        }
        x_ticks = label_ticks(self.x_axis.ticks())
        y_ticks = [
            (self.bottom - self.height * place, text)
            for place, text in self.y_axis.ticks()
        ]
        size = (WIDTH, floor + FOOT)
        histograms = self._histograms(shares)
        return (
            contents
            | places
            | {
                "size": size,
                "x_ticks": x_ticks,
                "y_ticks": y_ticks,
                "histograms": histograms,
            }
        )


def label_ticks(ticks: list[tuple[float, str]]) -> list[tuple[float, str, bool]]:
    """Positions and labels of the ticks that fit, on a screen and on a phone.

    The middle and the ends come first.
    """
    order = sorted(ticks, key=lambda tick: abs(abs(tick[0] - 0.5) - 0.25), reverse=True)
    wide = _select_ticks(order, CHARACTER)
    narrow = _select_ticks(order, CHARACTER_ON_A_PHONE)
    return [
        (LEFT + PLOT * place, text, (place, text) not in narrow)
        for place, text in ticks
        if (place, text) in wide
    ]


def _select_ticks(
    ticks: list[tuple[float, str]], character: float
) -> list[tuple[float, str]]:
    """Select ticks whose labels do not overlap."""
    chosen: list[tuple[float, str]] = []
    for place, text in ticks:
        if all(
            abs(place - other) * PLOT > character * (0.5 * (len(text) + len(label)) + 1)
            for other, label in chosen
        ):
            chosen.append((place, text))
    return chosen


def _paths(found: Reliability, frame: Frame) -> list[dict[str, Any]]:
    """Paths of the curves of one set, by the layer that shows or hides them."""
    corp = found.corp
    spline = found.spline
    at = _thin_out(len(corp.score), BAND_POINTS)
    expected = frame.area(corp.score[at], corp.band_lower[at], corp.band_upper[at])
    out = [
        {"class": "band expected", "layer": "corp-band", "hidden": True, "d": expected}
    ]
    if spline is not None:
        at = _thin_out(len(spline.score), CURVE_POINTS)
        band = frame.area(spline.score[at], spline.lower[at], spline.upper[at])
        out.append(
            {"class": "band", "layer": "spline-band", "hidden": False, "d": band}
        )
        line = frame.line(spline.score[at], spline.value[at])
        out.append({"class": "curve", "layer": "spline", "hidden": False, "d": line})
    steps = frame.line(
        np.column_stack([corp.lower, corp.upper]).ravel(), np.repeat(corp.value, 2)
    )
    return [*out, {"class": "steps", "layer": "corp", "hidden": True, "d": steps}]


def _thin_out(n: int, most: int) -> NDArray[np.intp]:
    return np.unique(np.linspace(0, n - 1, min(n, most)).round().astype(np.intp))


def _bins(
    forecast: Forecast, texts: list[dict[str, str]], frame: Frame
) -> list[dict[str, Any]]:
    """Positions of the bins, with areas that grow with their weights."""
    b = forecast.diagram.bins
    columns = {
        "x": frame.x(b.mean_score),
        "y": frame.y(b.observed),
        "low": frame.y(b.interval_lower),
        "high": frame.y(b.interval_upper),
        "radius": np.maximum(3.0, 8.5 * np.sqrt(b.weight / b.weight.max())),
    }
    return [
        {name: column[i] for name, column in columns.items()} | {"text": text}
        for i, text in enumerate(texts)
    ]


def _bin_texts(forecast: Forecast) -> list[dict[str, str]]:
    b = forecast.diagram.bins
    weighted = forecast.weight is not None
    return [
        {
            "range": f"{precise_percent(b.lower[i])} to {precise_percent(b.upper[i])}",
            "rows": f"{b.count[i]:,}"
            + (f" (weight {b.weight[i]:,.4g})" if weighted else ""),
            "given": precise_percent(b.mean_score[i]),
            "observed": precise_percent(b.observed[i]),
            "interval": (
                f"{precise_percent(b.interval_lower[i])} to "
                f"{precise_percent(b.interval_upper[i])}"
            ),
        }
        for i in range(len(b))
    ]


def _shares(forecast: Forecast, axis: Axis) -> Array:
    """Share of the rows in each cell of an axis of probabilities."""
    weight: NDArray[Any] = forecast.diagram.histogram_weight
    if axis.logit:
        cell = np.minimum(
            (axis(forecast.p) * HISTOGRAM_CELLS).astype(np.intp), HISTOGRAM_CELLS - 1
        )
        weight = np.bincount(cell, weights=forecast.weight, minlength=HISTOGRAM_CELLS)
    return np.asarray(weight / weight.sum())


def _path(x: Array, y: Array) -> str:
    """Path through points, without those within half a pixel of the previous one."""
    points = list(zip(x.tolist(), y.tolist(), strict=True))
    if not points:
        return ""
    steps = np.maximum(np.abs(np.diff(x)), np.abs(np.diff(y)))
    if np.all(steps > 0.5):
        return _points(points)
    drawn = points[:1]
    for point in points[1:-1]:
        last = drawn[-1]
        if max(abs(point[0] - last[0]), abs(point[1] - last[1])) > 0.5:
            drawn.append(point)
    drawn += points[-1:] if len(points) > 1 else []
    return _points(drawn)


def _points(points: Sequence[tuple[float, float]]) -> str:
    """Path along straight lines, with coordinates as of :func:`pixels`."""
    places = [place for point in points for place in point]
    path = "M" + "%.1f,%.1fL" * len(points) % tuple(places)
    return path.replace(".0,", ",").replace(".0L", "L").removesuffix("L")


def pixels(value: float) -> str:
    """Format a coordinate with one decimal, if necessary."""
    return f"{value:.1f}".removesuffix(".0")
