"""Diagrams as plain numbers: bins, curves with bands, and histograms of a view."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from calspline.evaluation.reliability import CorpCurve, Reliability, SplineBand
from calspline.reporting.axis import logit
from calspline.reporting.views import Forecast, View
from calspline.transforms import log_odds

CELLS = 50
CURVE_POINTS, BAND_POINTS = 81, 61
NEAREST, FARTHEST = 0.3, 1e-4
"""The logit axis goes at least from 0.3 to 0.7, and at most from 0.0001 to 0.9999."""
MARGIN = 0.04
AT_THE_ENDS = 0.02


def diagram(view: View) -> dict[str, Any]:
    """What is drawn of a view."""
    ends = logit_ends(view)
    return {
        "name": view.name,
        "top_label": view.top_label,
        "ends": list(ends),
        "sets": [_one(forecast, ends) for forecast in view.forecasts.values()],
    }


def scale_to_start_with(view: View) -> str:
    """The logit scale if half of the rows lie so close to 0 or 1 that a linear one shows nothing of them."""
    forecast = next(iter(view.forecasts.values()))
    close = np.minimum(forecast.p, 1.0 - forecast.p) < AT_THE_ENDS
    return "logit" if np.average(close, weights=forecast.weight) > 0.5 else "linear"


def logit_ends(view: View) -> tuple[float, float]:
    """Where the logit axis begins and ends: with the outermost bins of any set."""
    found = [forecast.diagram.bins for forecast in view.forecasts.values()]
    values = np.concatenate([column for b in found for column in (b.mean_score, b.observed)])
    low, high = log_odds(
        [np.clip(values.min(), FARTHEST, NEAREST), np.clip(values.max(), 1.0 - NEAREST, 1.0 - FARTHEST)]
    ).tolist()
    margin = MARGIN * (high - low)
    return low - margin, high + margin


def _one(forecast: Forecast, ends: tuple[float, float]) -> dict[str, Any]:
    found = forecast.diagram
    return {
        "bins": _bins(found, forecast.weight is not None),
        "spline": None if found.spline is None else _spline(found.spline),
        "corp": _steps(found.corp),
        "corp_band": _consistency(found.corp),
        "histogram": {
            "linear": _shares(found.histogram_weight),
            "logit": _logit_histogram(forecast, ends),
        },
    }


def _bins(found: Reliability, weighted: bool) -> list[dict[str, Any]]:
    b = found.bins
    return [
        {
            "given": float(b.mean_score[i]),
            "happened": float(b.observed[i]),
            "lower": float(b.interval_lower[i]),
            "upper": float(b.interval_upper[i]),
            "size": float(b.weight[i] / b.weight.max()),
            "text": {
                "range": f"{fine(b.lower[i])} to {fine(b.upper[i])}",
                "rows": f"{b.count[i]:,}" + (f" (weight {b.weight[i]:,.4g})" if weighted else ""),
                "given": fine(b.mean_score[i]),
                "happened": fine(b.observed[i]),
                "interval": f"{fine(b.interval_lower[i])} to {fine(b.interval_upper[i])}",
            },
        }
        for i in range(len(b))
    ]


def fine(x: float) -> str:
    """A share in per cent: one decimal, more where it is close to 0 or 1 but not there."""
    least = min(x, 1.0 - x)
    if 0.0 < least < 0.000005:
        return "< 0.001%" if x < 0.5 else "> 99.999%"
    digits = 1 if least >= 0.0005 or least <= 0.0 else 2 if least >= 0.00005 else 3
    return f"{100.0 * x:.{digits}f}%"


def _spline(found: SplineBand) -> dict[str, list[float]]:
    at = _thinned(len(found.score), CURVE_POINTS)
    columns = {"score": found.score, "value": found.value, "lower": found.lower, "upper": found.upper}
    return {name: values[at].tolist() for name, values in columns.items()}


def _steps(corp: CorpCurve) -> dict[str, list[float]]:
    """Both ends of every step of the isotonic curve."""
    return {
        "score": np.column_stack([corp.lower, corp.upper]).ravel().tolist(),
        "value": np.repeat(corp.value, 2).tolist(),
    }


def _consistency(corp: CorpCurve) -> dict[str, list[float]]:
    at = _thinned(len(corp.score), BAND_POINTS)
    columns = {"score": corp.score, "lower": corp.band_lower, "upper": corp.band_upper}
    return {name: values[at].tolist() for name, values in columns.items()}


def _thinned(n: int, most: int) -> NDArray[np.intp]:
    return np.unique(np.linspace(0, n - 1, min(n, most)).round().astype(np.intp))


def _logit_histogram(forecast: Forecast, ends: tuple[float, float]) -> list[float]:
    place = logit(ends)(forecast.p)
    cell = np.minimum((place * CELLS).astype(np.intp), CELLS - 1)
    return _shares(np.bincount(cell, weights=forecast.weight, minlength=CELLS))


def _shares(weight: NDArray[Any]) -> list[float]:
    return [float(share) for share in weight / weight.sum()]
