"""Bad input where rows come in parts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from tests.golden.bad_input import (
    MANY,
    NEW,
    THREES,
    TWO,
    WEIGHT,
    Book,
    N,
    bad_labels,
    bad_scores,
    bad_segments,
    bad_weights,
    in_one_step,
    pairs,
    put,
)

from calspline import ScoreHistogram, SplineCalibrator

P, Y = TWO
count = ScoreHistogram.from_scores


def partial_fit(scores: Any, y: Any, weight: Any = None, **given: Any) -> Any:
    return SplineCalibrator().partial_fit(scores, y, weight, **given)


def fit_counts(*given: Any, **named: Any) -> Any:
    return SplineCalibrator().fit_histogram(count(*given, **named))


def write(book: Book) -> None:
    write_columns(book, "from_scores", count, fit_counts)
    write_columns(book, "partial_fit", partial_fit, partial_fit)
    texts = THREES.astype(str)

    def add_texts() -> Any:
        return count(P, Y, by=THREES) + count(P, Y, by=texts)

    def refit_with_texts() -> Any:
        return partial_fit(P, Y, by=THREES).partial_fit(P, Y, by=texts)

    what = "parts with segments of another type"
    book.add("54f", f"from_scores: {what}", add_texts)
    book.add("54f", f"partial_fit: {what}", refit_with_texts)
    write_counts(book)
    write_later_parts(book)
    importance = SplineCalibrator(weights="importance")
    book.add("35b", "importance in parts", importance.partial_fit, P, Y, WEIGHT)
    whole = count(P, Y, WEIGHT)
    book.add("35b", "importance in a histogram", importance.fit_histogram, whole)
    stiff = SplineCalibrator(smoothing=1e-6)
    book.add(52, "one step", in_one_step, stiff.fit_histogram, count(P, Y))
    book.add(54, "kind='odds'", count, P, Y, kind="odds")
    book.add(54, "three classes named", count, P, Y, classes=[0, 1, 2])
    book.add(
        54, "a text for a histogram", SplineCalibrator().fit_histogram, "histogram"
    )


def write_columns(book: Book, way: str, take: Any, fit: Any) -> None:
    """Columns that are refused; those that are taken may cause a warning at the fit."""
    for number, what, scores in bad_scores(P):
        if what != "no rows":
            book.add(number, f"{way}: {what}", take, scores, Y)
    for number, what, labels in bad_labels(Y):
        book.add(number, f"{way}: {what}", take, P, labels)
    for number, what, weight in bad_weights():
        book.add(number, f"{way}: {what}", take, P, Y, weight)
    for number, what, by in bad_segments():
        book.add(number, f"{way}: {what}", take, P, Y, by=by)
    book.add("29a", f"{way}: one of two labels", take, [0.2, 0.3], [1, 1])
    frame = pd.DataFrame(pairs(P), columns=["0", "other"])
    book.add("29b", f"{way}: names of one class only", take, frame, Y)
    book.add(13, f"{way}: equal scores", fit, np.full(N, 0.7), Y)
    book.add("3c", f"{way}: reversed scores", fit, 1.0 - MANY[0], MANY[1])


def write_counts(book: Book) -> None:
    """Histograms and counts that nothing can be fitted to."""
    declared = {"kind": "probability"}
    book.add(3, "probabilities, declared", count, put(P, 3, 1.5), Y, **declared)
    book.add(4, "a fit to no rows", fit_counts, [], [], classes=[0, 1])
    book.add(16, "a fit to one row", fit_counts, [0.3], [0])
    book.add(21, "a fit to one class", fit_counts, P, 0 * Y, classes=[0, 1])
    from_counts = ScoreHistogram.from_counts
    book.add(30, "negative counts", from_counts, [0.2, 0.7], [1, -2], [3, 4])
    book.add(32, "counts that are NaN", from_counts, [0.2, 0.7], [1, np.nan], [3, 4])
    book.add(35, "more positives than rows", from_counts, [0.2, 0.7], [1, 5], [3, 4])


def write_later_parts(book: Book) -> None:
    """What a calibrator says after its first part."""

    def later(y: Any, *given: Any) -> Any:
        return SplineCalibrator().partial_fit(P, y).partial_fit(*given)

    book.add(3, "a later part outside [0, 1]", later, Y, put(P, 3, 1.5), Y)
    book.add(43, "parts of other classes", later, Y + 1, [0.2, 0.3], [0, 1])
    book.add(46, "predict before a part", SplineCalibrator().calibrate, [0.5])
    fitted = SplineCalibrator().partial_fit(P, Y, by=THREES)
    book.add("54d", "segments never seen", fitted.calibrate, P, by=NEW)
    book.add("54f", "texts for numbers", fitted.calibrate, P, by=THREES.astype(str))
