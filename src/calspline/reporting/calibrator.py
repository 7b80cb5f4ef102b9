"""The calibrator on the page: how it was fitted, and what it makes of scores."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit

from calspline.arrays import Array
from calspline.evaluation.predictions import Predictions

GRID = 101
FAR = 9.2
"""Log-odds of 0.9999: how far a calibrator's curve is drawn."""
TOP_CELLS = 24
MIDDLE = (0.1, 0.9)
MAX_VALUES = 8


def describe_calibrator(calibrator: Any, rows: Predictions) -> dict[str, Any]:
    """Name, summary, parameters, facts and curve of a fitted calibrator; ``rows`` are what it is meant for."""
    name = type(calibrator).__name__
    kind = calibrator.kind_
    return {
        "name": name,
        "summary": getattr(calibrator, "summary", lambda: f"{name} for {len(calibrator.classes_)} classes")(),
        "parameters": {key: repr(value) for key, value in sorted(calibrator.get_params(deep=False).items())},
        "facts": _facts(calibrator),
        "curve": _binary_curve(calibrator, kind) if rows.binary else _top_label_curve(calibrator, kind, rows),
    }


def _facts(calibrator: Any) -> dict[str, str]:
    """What a spline fit chose."""
    names = {
        "transform_": "Transform",
        "smoothing_": "Smoothing (lambda)",
        "edf_": "Effective degrees of freedom",
        "n_iter_": "Newton steps",
        "converged_": "Converged",
        "temperature_": "Temperature",
    }
    found = {label: getattr(calibrator, name) for name, label in names.items() if hasattr(calibrator, name)}
    return {label: _text(value) for label, value in found.items()}


def _text(value: Any) -> str:
    if isinstance(value, (bool, np.bool_)):
        return "yes" if value else "no"
    if isinstance(value, (list, np.ndarray)):
        return ", ".join(_text(one) for one in list(value)[:MAX_VALUES]) + (", …" if len(value) > MAX_VALUES else "")
    return f"{value:.4g}" if isinstance(value, (float, np.floating)) else str(value)


def _binary_curve(calibrator: Any, kind: str) -> dict[str, Any] | None:
    """The calibration curve with its band."""
    if kind == "margin":
        if not calibrator.curves_:
            return None
        curve = calibrator.curves_[0]
        ends = curve.transform.inverse(curve.origin + curve.unit * curve.breaks[[0, -1]])
        score = np.linspace(ends[0], ends[1], 2 * GRID)
    else:
        # Even in probability and in log-odds, so that both ends are smooth.
        score = np.unique(np.concatenate([np.linspace(1e-4, 1.0 - 1e-4, GRID), expit(np.linspace(-FAR, FAR, GRID))]))
    has_band = hasattr(calibrator, "interval") and calibrator.curves_[0].variance is not None
    return {
        "kind": kind,
        "top_label": False,
        "score": score,
        "value": calibrator.calibrate(score),
        "band": calibrator.interval(score).T if has_band else None,
    }


def _top_label_curve(calibrator: Any, kind: str, rows: Predictions) -> dict[str, Any] | None:
    """The calibrated probability of the class that was most probable, by what it was, on the rows given.

    Mean, and from where to where the middle 80% of rows go.
    """
    if kind != "probability":
        return None
    guess = rows.probs.argmax(axis=1)
    each = np.arange(len(guess))
    before, after = rows.probs[each, guess], calibrator.predict_proba(rows.probs)[each, guess]
    order = np.argsort(before, kind="stable")
    weight = np.ones(len(order)) if rows.weight is None else rows.weight[order]
    before, after = before[order], after[order]
    cell = ((np.cumsum(weight) - 0.5 * weight) / weight.sum() * TOP_CELLS).astype(np.intp)
    inside = [cell == k for k in np.unique(cell)]
    return {
        "kind": kind,
        "top_label": True,
        "score": [float(np.average(before[k], weights=weight[k])) for k in inside],
        "value": [float(np.average(after[k], weights=weight[k])) for k in inside],
        "band": [[_quantile(after[k], weight[k], share) for k in inside] for share in MIDDLE],
    }


def _quantile(values: Array, weight: Array, share: float) -> float:
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weight[order]) >= share * weight.sum()
    return float(values[order][np.argmax(reached)])
