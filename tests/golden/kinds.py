"""A model of every kind that can be saved, and what is kept of it."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
from tests.golden.data import (
    absent,
    classes,
    ends,
    extreme,
    logits,
    margins,
    pair,
    separated,
    three,
    wavy,
)

from calspline import (
    BetaCalibrator,
    ClippingCalibrator,
    IsotonicCalibrator,
    ScoreHistogram,
    SigmoidCalibrator,
    SplineCalibrator,
    TemperatureCalibrator,
)


def fit(calibrator, make_rows, labels=None):
    """A fitted calibrator, and scores to calibrate."""

    def made():
        rows = make_rows()
        y = rows.y if labels is None else np.array(labels)[rows.y]
        return calibrator.fit(rows.scores, y, rows.weight), np.asarray(
            rows.probes
        ).tolist()

    return made


def histogram(rows):
    return ScoreHistogram.from_scores(rows.scores, rows.y, rows.weight), []


def clustered():
    """Forty clusters of more scores than are kept apart: cells in a small file."""
    rows = wavy(40)
    scores = (rows.scores[:, None] + 2.0**-53 * np.arange(200)).ravel()
    return ScoreHistogram.from_scores(scores, np.resize([0, 0, 1], len(scores))), []


def diagonal():
    """What is fitted to very many rows of many classes."""
    cal, inputs = fit(SplineCalibrator(), three)()
    fitted = cal.model_.map
    diagonal = replace(fitted, W=fitted.W.diagonal().copy())
    cal.model_ = replace(cal.model_, map=diagonal)
    return cal, inputs


def segmented(calibrator, make_rows, *columns):
    """A fit with segments, and rows to calibrate: of each segment, and of a new one."""

    def made():
        rows = make_rows()
        i = np.arange(len(rows.y))
        by = [
            [names[j] for j in (i // (k + 1) % len(names)).tolist()]
            for k, names in enumerate(columns)
        ]
        # Every second row of the first segment is moved to the last class.
        y = np.where((i % (2 * len(columns[0])) == 0), rows.y.max(), rows.y)
        grid = np.asarray(rows.probes)
        asked = [
            np.resize(
                np.array(
                    [*names, "none" if isinstance(names[0], str) else -1], dtype=object
                ),
                len(grid),
            ).tolist()
            for names in columns
        ]
        return calibrator.fit(rows.scores, y, rows.weight, by=by), {
            "scores": grid.tolist(),
            "by": asked,
        }

    return made


MODELS = {
    "spline": fit(SplineCalibrator(), wavy, ["no", "yes"]),
    "spline-two-columns": fit(
        SplineCalibrator(), lambda: pair(extreme()), [False, True]
    ),
    "spline-margins": fit(SplineCalibrator(monotone=True), margins, [-1, 1]),
    "spline-brier": fit(
        SplineCalibrator(loss="brier", smoothing=np.inf), ends, [1.0, 2.0]
    ),
    "spline-paper": fit(SplineCalibrator.paper(2, n_knots=30), wavy),
    "spline-structured": fit(SplineCalibrator(), three, ["cat", "dog", "eel"]),
    "spline-structured-monotone": fit(SplineCalibrator(monotone=True), three),
    "spline-structured-logits": fit(SplineCalibrator(), lambda: logits(4, 600)),
    "spline-structured-diagonal": diagonal,
    "spline-segments": segmented(SplineCalibrator(), wavy, ["fr", "de", "it"]),
    "spline-segments-of-two-columns": segmented(
        SplineCalibrator(monotone=True), wavy, ["fr", "de", "it"], [1, 2.5]
    ),
    "spline-structured-segments": segmented(
        SplineCalibrator(), three, ["fr", "de", "it"]
    ),
    "spline-ovr-segments": segmented(
        SplineCalibrator(multiclass="ovr"), three, ["fr", "de", "it"]
    ),
    "spline-ovr": fit(SplineCalibrator(multiclass="ovr"), absent),
    "sigmoid": fit(SigmoidCalibrator(), wavy),
    "sigmoid-three-classes": fit(SigmoidCalibrator(on="probability"), three),
    "isotonic": fit(IsotonicCalibrator(), separated),
    "isotonic-three-classes": fit(IsotonicCalibrator(), lambda: classes(3, 120)),
    "beta": fit(BetaCalibrator(parameters="ab"), wavy),
    "temperature": fit(TemperatureCalibrator(), margins),
    "temperature-three-classes": fit(TemperatureCalibrator(), three),
    "clipping": fit(ClippingCalibrator(), ends),
    "clipping-three-classes": fit(ClippingCalibrator(), three),
    "histogram": lambda: histogram(ends()),
    "histogram-in-cells": clustered,
}


def describe(model, inputs):
    """What a model answers, in plain values."""
    if isinstance(model, ScoreHistogram):
        return {
            "kind": model.kind,
            "exact": model.exact,
            "locations": len(model),
            "total": model.total,
            "base_rate": model.base_rate,
        }
    given = {}
    if isinstance(inputs, dict):
        inputs, given = inputs["scores"], {"by": inputs["by"]}
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", message=".*segments that the fit has not seen"
        )
        answers = {
            "classes": model.classes_.tolist(),
            "probabilities": model.predict_proba(inputs, **given).tolist(),
            "labels": model.predict(inputs, **given).tolist(),
        }
        if (
            hasattr(model, "interval")
            and len(model.classes_) == 2
            and model.loss == "log"
        ):
            answers["interval"] = model.interval(inputs, **given).tolist()
    if given:
        answers["segments"] = {
            key: np.asarray(value).tolist() for key, value in model.segments_.items()
        }
    return answers
