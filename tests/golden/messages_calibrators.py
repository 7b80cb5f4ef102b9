"""Bad input to every calibrator, on arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from tests.golden.bad_input import (
    FEATURES,
    MAKE,
    MANY,
    MANY_THREE,
    NEW,
    ONE_AND_TWO,
    PROBLEMS,
    SHUFFLED,
    THREE,
    THREES,
    TWO,
    Book,
    bad_groups,
    bad_labels,
    bad_scores,
    bad_segments,
    bad_weights,
    in_one_step,
    put,
)

from calspline import (
    BetaCalibrator,
    ClippingCalibrator,
    SigmoidCalibrator,
    SplineCalibrator,
)

WRONG_OPTIONS = {
    "scale": "probit",
    "epsilon": 0.5,
    "knots": "uniform",
    "n_knots": 1,
    "penalty": "lasso",
    "smoothing": -1.0,
    "smoothing_grid": [1.0, 0.0],
    "cv": 1,
    "loss": "hinge",
    "monotone": "yes",
    "weights": "counts",
    "multiclass": "ovo",
    "random_state": -1,
}


def write(book: Book) -> None:
    for name, make in MAKE.items():
        for problem, (p, y) in PROBLEMS.items():
            write_columns(book, f"{name}, {problem}", make, p, y)
        write_meaning(book, name, make)
    stray, percentages = put(TWO[0], 4, 1.5), 7.0 * TWO[0]
    book.add(
        3, "logit: outside [0, 1]", fit, SplineCalibrator, stray, TWO[1], scale="logit"
    )
    book.add(3, "clipping: margins", fit, ClippingCalibrator, percentages, TWO[1])
    for option, value in WRONG_OPTIONS.items():
        book.add(
            54, f"{option}={value!r}", fit, SplineCalibrator, *TWO, **{option: value}
        )
    book.add(54, "on='logit'", fit, SigmoidCalibrator, *TWO, on="logit")
    book.add(54, "parameters='bm'", fit, BetaCalibrator, *TWO, parameters="bm")
    book.add(54, "p_min=0.5", fit, ClippingCalibrator, *TWO, p_min=0.5)
    stiff = SplineCalibrator(smoothing=1e-6)
    book.add(52, "spline: one step", in_one_step, stiff.fit, *TWO)
    book.add(52, "beta: one step", in_one_step, BetaCalibrator().fit, *TWO)
    book.add(
        54, "level=95", lambda: SplineCalibrator().fit(*TWO).interval([0.5], level=95)
    )
    write_segments(book, "two classes", *TWO)
    write_segments(book, "structured", *THREE, multiclass="structured")
    write_segments(book, "ovr", *THREE, multiclass="ovr")
    brier = SplineCalibrator(loss="brier")
    book.add(54, "brier with segments", brier.fit, *TWO, by=THREES)


def fit(make: Any, scores: Any, y: Any, weight: Any = None, **options: Any) -> Any:
    return make(**options).fit(scores, y, weight)


def write_columns(book: Book, where: str, make: Any, p: Any, y: Any) -> None:
    """Columns that are refused or warned of, at fit and at predict."""
    for number, what, scores in bad_scores(p):
        labels = y[:0] if what == "no rows" else y
        book.add(number, f"{where}: {what}", fit, make, scores, labels)
    for number, what, labels in bad_labels(y):
        book.add(number, f"{where}: {what}", fit, make, p, labels)
    for number, what, weight in bad_weights():
        book.add(number, f"{where}: {what}", fit, make, p, y, weight)
    book.add(13, f"{where}: equal scores", fit, make, np.full_like(p, p[0]), y)
    book.add(16, f"{where}: one row", fit, make, p[:1], y[:1])
    book.add(46, f"{where}: predict before fit", lambda: make().predict_proba(p))

    def calibrate(scores: Any) -> Any:
        return make().fit(p, y).calibrate(scores)

    for number, what, scores in list(bad_scores(p))[:3]:
        book.add(number, f"{where}: {what} at predict", calibrate, scores)
    book.add(3, f"{where}: margins after probabilities", calibrate, 7.0 * p)


def write_meaning(book: Book, name: str, make: Any) -> None:
    """Scores that are perhaps not what they seem."""
    p, y = TWO
    book.add("3c", f"{name}: reversed scores", fit, make, 1.0 - MANY[0], MANY[1])
    book.add(3, f"{name}: percentages", fit, make, 100.0 * p, y)

    def after_margins() -> Any:
        return make().fit(8.0 * p - 4.0, y).calibrate(p)

    book.add(3, f"{name}: probabilities after margins", after_margins)
    what = f"{name}: labels from 1, a class absent"
    book.add("29a", what, fit, make, THREE[0], ONE_AND_TWO)
    frame = pd.DataFrame(THREE[0], columns=["0", "1", "other"])
    book.add("29b", f"{name}: names of some classes", fit, make, frame, THREE[1])
    book.add("29c", f"{name}: shuffled columns", fit, make, SHUFFLED, MANY_THREE[1])
    book.add("29d", f"{name}: features", fit, make, FEATURES, TWO[1])


def write_segments(book: Book, where: str, p: Any, y: Any, **options: Any) -> None:
    """Groups, and segments at fit and at predict."""

    def fit(**given: Any) -> Any:
        return SplineCalibrator(**options).fit(p, y, **given)

    def calibrate(by: Any, *, fitted: Any = THREES) -> Any:
        return fit(by=fitted).calibrate(p, by=by)

    for number, what, groups in bad_groups():
        book.add(number, f"{where}: {what}", fit, groups=groups)
    for number, what, by in bad_segments():
        book.add(number, f"{where}: {what}", fit, by=by)
    texts = THREES.astype(str)
    book.add("54d", f"{where}: segments never seen", calibrate, NEW)
    book.add("54f", f"{where}: texts for numbers", calibrate, texts)
    book.add("54f", f"{where}: numbers for texts", calibrate, THREES, fitted=texts)
    without = f"{where}: segments for a fit without"
    book.add(54, without, calibrate, THREES, fitted=None)
    both = [THREES, THREES]
    book.add(54, f"{where}: one of two columns", calibrate, THREES, fitted=both)
