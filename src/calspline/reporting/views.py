"""Views: the yes-or-no questions that a page shows diagrams of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from calspline.arrays import Array
from calspline.evaluation.evaluate import Evaluation
from calspline.evaluation.predictions import Predictions
from calspline.evaluation.reliability import Reliability, reliability_rows

MAX_CLASSES, MAX_DIAGRAMS = 12, 24
MIN_BINS, MAX_BINS, ROWS_PER_BIN = 4, 12, 20


@dataclass(frozen=True, eq=False)
class Forecast:
    """What one set of predictions says on a question, and how reliable it is."""

    p: Array
    weight: Array | None
    evaluation: Evaluation
    diagram: Reliability


@dataclass(frozen=True, eq=False)
class View:
    """A question: did the event happen; was the answer right; was it this class.

    Attributes
    ----------
    name : str
        The label that the probabilities are of; "top label" for the most probable one.
    top_label : bool
    forecasts : dict of str to Forecast
        What each set of predictions says.
    """

    name: str
    top_label: bool
    forecasts: dict[str, Forecast]


def views(rows: Mapping[str, Predictions], evaluations: Mapping[str, Evaluation]) -> list[View]:
    """Two classes: one view. More: that of the top label, then those of the classes that are shown."""
    first = next(iter(rows.values()))
    if first.binary:
        found = {name: _forecast(one, evaluations[name]) for name, one in rows.items()}
        return [View(str(first.classes[1]), False, found)]
    tops = {name: evaluation.top_label or evaluation for name, evaluation in evaluations.items()}
    out = [View("top label", True, {name: _forecast(one.top_label(), tops[name]) for name, one in rows.items()})]
    for j in _shown_classes(evaluations):
        label = first.classes.tolist()[j]
        found = {name: _forecast(one.against_rest(j), evaluations[name].per_class[label]) for name, one in rows.items()}
        out.append(View(str(label), False, found))
    return out


def _shown_classes(evaluations: Mapping[str, Evaluation]) -> list[int]:
    """Indices of the classes to show: all, or of many those whose miscalibration costs most, in their order."""
    worst = np.max([[one.calibration_brier for one in e.per_class.values()] for e in evaluations.values()], axis=0)
    most = max(1, min(MAX_CLASSES, MAX_DIAGRAMS // len(evaluations)))
    return sorted(np.argsort(-worst, kind="stable")[:most].tolist())


def _forecast(rows: Predictions, evaluation: Evaluation) -> Forecast:
    n_bins = int(np.clip(len(rows.probs) // ROWS_PER_BIN, MIN_BINS, MAX_BINS))
    return Forecast(rows.probs, rows.weight, evaluation, reliability_rows(rows, n_bins=n_bins))
