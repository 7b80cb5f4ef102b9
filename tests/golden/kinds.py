"""A model of every kind that can be saved, and what is kept of it."""

from __future__ import annotations

import numpy as np
from tests.golden.cases import classes, ends, extreme, logits, margins, one_absent, separated, three, wavy

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
        return calibrator.fit(rows.scores, y, rows.weight), np.asarray(rows.grid).tolist()

    return made


def histogram(rows):
    return ScoreHistogram.from_scores(rows.scores, rows.y, rows.weight), []


def clustered():
    """Forty clusters of more scores than are kept apart: a histogram in cells that is a small file."""
    rows = wavy(40)
    scores = (rows.scores[:, None] + 2.0**-53 * np.arange(200)).ravel()
    return ScoreHistogram.from_scores(scores, np.resize([0, 0, 1], len(scores))), []


def diagonal():
    """What is fitted to very many rows of many classes."""
    cal, inputs = fit(SplineCalibrator(), three)()
    described = cal.to_dict()
    described["structure"]["matrix"] = np.diag(described["structure"]["matrix"]).tolist()
    return SplineCalibrator.from_dict(described), inputs


MODELS = {
    "spline": fit(SplineCalibrator(), wavy, ["no", "yes"]),
    "spline-two-columns": fit(SplineCalibrator(), extreme, [False, True]),
    "spline-margins": fit(SplineCalibrator(monotone=True), margins, [-1, 1]),
    "spline-brier": fit(SplineCalibrator(loss="brier", smoothing=np.inf), ends, [1.0, 2.0]),
    "spline-paper": fit(SplineCalibrator.paper(2, n_knots=30), wavy),
    "spline-structured": fit(SplineCalibrator(), three, ["cat", "dog", "eel"]),
    "spline-structured-monotone": fit(SplineCalibrator(monotone=True), three),
    "spline-structured-logits": fit(SplineCalibrator(), logits),
    "spline-structured-diagonal": diagonal,
    "spline-ovr": fit(SplineCalibrator(multiclass="ovr"), one_absent),
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
    answers = {
        "classes": model.classes_.tolist(),
        "probabilities": model.predict_proba(inputs).tolist(),
        "labels": model.predict(inputs).tolist(),
    }
    if hasattr(model, "interval") and len(model.classes_) == 2 and model.loss == "log":
        answers["interval"] = model.interval(inputs).tolist()
    return answers
