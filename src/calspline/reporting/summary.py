"""All that a page says, as one plain dict: numbers, strings, lists."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from calspline.evaluation.compare import Comparison
from calspline.evaluation.evaluate import Evaluation
from calspline.evaluation.predictions import Predictions
from calspline.formatting import p_value
from calspline.reporting.diagrams import diagram, fine, scale_to_start_with
from calspline.reporting.fitted import fitted
from calspline.reporting.headline import ALPHA, headline
from calspline.reporting.measures import measure_rows
from calspline.reporting.provenance import fingerprints, versions
from calspline.reporting.views import View, views


def summarise(
    rows: Mapping[str, Predictions], comparison: Comparison, calibrator: Any = None, title: str | None = None
) -> dict[str, Any]:
    """The page as data; :func:`calspline.reporting.page.page` makes it HTML."""
    first = next(iter(rows.values()))
    shown = views(rows, comparison.evaluations)
    sentences = headline(shown[0], comparison)
    classes = [str(label) for label in first.classes.tolist()]
    return {
        "title": "Calibration report" if title is None else title,
        "headline": [sentence for _, sentence in sentences],
        "headline_sets": [list(rows).index(name) for name, _ in sentences],
        "recommendation": comparison.recommendation if len(rows) > 1 else None,
        "leave_it": comparison.recommended == comparison.reference,
        "facts": _facts(comparison, classes),
        "sets": list(rows),
        "level": f"{100.0 * comparison.level:g}%",
        "classes": classes,
        "table": measure_rows(comparison),
        "scale": scale_to_start_with(shown[0]),
        "views": [diagram(view) for view in shown],
        "loss": [
            _parts(comparison, name, label) for name, label in (("log_loss", "Log-loss"), ("brier", "Brier score"))
        ],
        "certainty": _certainty(shown[0], comparison),
        "fit": None if calibrator is None else fitted(calibrator, first),
        "versions": versions(),
        "fingerprints": fingerprints(rows),
        "evaluations": {name: _finite(e.to_dict()) for name, e in comparison.evaluations.items()},
    }


def _facts(comparison: Comparison, classes: list[str]) -> list[str]:
    e = next(iter(comparison.evaluations.values()))
    out = [f"{e.n_rows:,} rows"]
    if not math.isclose(e.total_weight, e.n_rows):
        out.append(f"total weight {e.total_weight:,.6g}")
    out.append(f"{len(classes)} classes" if len(classes) > 2 else f"event: {classes[1]} ({fine(e.base_rate)} of rows)")
    return [
        *out,
        "1 set of predictions"
        if len(comparison.evaluations) == 1
        else f"{len(comparison.evaluations)} sets of predictions",
    ]


def _parts(comparison: Comparison, name: str, label: str) -> dict[str, Any]:
    parts = ("calibration", "refinement", "discrimination", "uncertainty")
    return {
        "label": label,
        "sets": [
            {"name": set_name, "loss": getattr(e, name)} | {part: getattr(e, f"{part}_{name}") for part in parts}
            for set_name, e in comparison.evaluations.items()
        ],
    }


def _certainty(view: View, comparison: Comparison) -> list[dict[str, str]]:
    """For each set: the test, and how wide the band of its curve is."""
    out = []
    for name, forecast in view.forecasts.items():
        e, spline = comparison.evaluations[name], forecast.diagram.spline
        band = "with one outcome only there is no curve"
        if spline is not None:
            lower, upper = spline.curve.band(forecast.p, comparison.level).T
            width = 50.0 * float(np.average(upper - lower, weights=forecast.weight))
            band = f"the curve is known to ± {width:.{1 if width >= 0.1 else 2}f} points on average"
        out.append({"name": name, "test": _test(e), "band": band})
    return out


def _test(e: Evaluation) -> str:
    p = e.calibration_p_value
    shown = f"p {p_value(p)}" if p < 0.001 else f"p = {p_value(p)}"
    verdict = "the probabilities are not right" if p < ALPHA else "nothing speaks against the probabilities"
    if e.impossible_weight:
        rows = "row" if e.impossible_weight == 1.0 else "rows"
        return f"{verdict} ({shown}; {e.impossible_weight:g} {rows} happened with probability 0)"
    return f"{verdict} ({shown})"


def _finite(values: dict[str, float]) -> dict[str, float | None]:
    return {name: value if math.isfinite(value) else None for name, value in values.items()}
