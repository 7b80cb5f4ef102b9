"""The table of measures, as text."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from calspline.evaluation.compare import Comparison, Difference
from calspline.evaluation.evaluate import Evaluation
from calspline.formatting import number, p_value

UNBROKEN, MINUS = "\N{NO-BREAK SPACE}", "\N{MINUS SIGN}"
SMALL = 0.001

Cell = dict[str, str]
Shown = Callable[[Evaluation], Cell]


def measure_rows(comparison: Comparison) -> list[dict[str, Any]]:
    """Rows of the table: a label, what it is, and a cell for each set of predictions."""
    many = bool(next(iter(comparison.evaluations.values())).per_class)
    top = " of the top label" if many else ""
    out: list[dict[str, Any]] = []

    def add(label: str, hint: str, shown: Shown, *, part: bool = False) -> None:
        cells = [shown(e) for e in comparison.evaluations.values()]
        out.append({"label": label, "hint": hint, "part": part, "cells": cells})

    def of(name: str) -> Shown:
        return lambda e: {"text": number(getattr(e, name))}

    for label, name, hint in (
        ("Log-loss", "log_loss", "mean surprise in nats; lower is better"),
        ("Brier score", "brier", "mean squared error; lower is better"),
    ):
        add(label, hint, of(name))
        add("calibration", "what better calibration would save", of(f"calibration_{name}"), part=True)
        add("refinement", "what would remain", of(f"refinement_{name}"), part=True)
        if len(comparison.evaluations) > 1:
            out.append(_difference_row(comparison, getattr(comparison, name)))
    add("Accuracy", "share of right answers", of("accuracy"))
    add("AUC", "how well the scores rank", of("auc"))
    add(f"ECE{top}", "mean gap between said and happened, 15 bins", of("ece"))
    add(f"Smooth ECE{top}", "the same without bins", of("smooth_ece"))
    add(
        f"Slope{top}",
        "of the log-odds; below 1 the scores are too extreme",
        lambda e: _with_error(e.calibration_slope, e.calibration_slope_se),
    )
    add(
        "Test of calibration",
        "p-value of “the probabilities are right”",
        lambda e: {"text": p_value(e.calibration_p_value).replace(" ", UNBROKEN)},
    )
    return out


def _difference_row(comparison: Comparison, differences: Any) -> dict[str, Any]:
    cells = [_difference_cell(differences.get(name)) for name in comparison.evaluations]
    hint = f"paired, {100.0 * comparison.level:g}% interval"
    return {"label": f"against {comparison.reference}", "hint": hint, "part": True, "cells": cells}


def _difference_cell(d: Difference | None) -> Cell:
    if d is None:
        return {"text": ""}
    # Differences too small for four digits get more, all three alike.
    digits = 4 if max(abs(d.lower), abs(d.upper)) >= SMALL else 6
    value, lower, upper = (f"{x:+.{digits}f}".replace("-", MINUS) for x in (d.value, d.lower, d.upper))
    return {"text": value, "beside": f"{lower} to {upper}", "verdict": d.verdict}


def _with_error(value: float, error: float) -> Cell:
    return {"text": number(value)} if math.isnan(error) else {"text": f"{value:.3f}", "beside": f"± {error:.3f}"}
