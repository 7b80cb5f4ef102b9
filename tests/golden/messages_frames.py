"""Bad input in data frames, in memory and in an engine that runs SQL."""

from __future__ import annotations

from functools import partial
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
from tests.golden.bad_input import (
    FEATURES,
    MANY,
    MANY_THREE,
    ONE_AND_TWO,
    THREE,
    THREES,
    TWO,
    WEIGHT,
    Book,
    N,
    bad_groups,
    bad_labels,
    bad_scores,
    bad_weights,
    in_one_step,
    put,
)

from calspline import SplineCalibrator, apply_frame, fit_frame

P, Y = TWO
COLUMNS = {"p": P, "y": Y, "w": WEIGHT, "g": np.arange(N) // 2}
CLASSES = dict(zip("abc", THREE[0].T, strict=True)) | {"y": THREE[1]}
WRONG_ARGUMENTS: tuple[dict[str, Any], ...] = (
    {"smoothing": -1.0},
    {"missing": "ignore"},
    {"positive": 7},
    {"score": "q"},
    {"score": 3},
    {"score": []},
    {"label": "q"},
    {"label": None},
    {"weight": "q"},
    {"by": "q"},
    {"group": "q"},
)


def in_duckdb(columns: dict[str, Any]) -> Any:
    arrays = {name: pa.array(each, from_pandas=True) for name, each in columns.items()}
    return duckdb.connect().from_arrow(pa.table(arrays))


def fit(box: Any, columns: dict[str, Any], **given: Any) -> Any:
    return fit_frame(box(columns), **({"score": "p", "label": "y"} | given))


def apply(box: Any, scores: Any, calibrator: Any = None, by: Any = None) -> Any:
    """Calibrated rows, fetched: an engine may complain only then."""
    fitted = SplineCalibrator().fit(P, Y) if calibrator is None else calibrator
    columns = {"p": scores} if by is None else {"p": scores, "s": by}
    name = None if by is None else "s"
    found = apply_frame(box(columns), fitted, score="p", by=name)
    return found if isinstance(found, pd.DataFrame) else found.fetchall()


def write(book: Book) -> None:
    for engine, box in (("pandas", pd.DataFrame), ("duckdb", in_duckdb)):
        write_columns(book, engine, partial(fit, box))
        write_classes(book, engine, partial(fit, box, score=["a", "b", "c"]))
        write_applying(book, engine, partial(apply, box))
    in_pandas = partial(fit, pd.DataFrame)
    book.add(7, "pandas: complex", in_pandas, COLUMNS | {"p": P + 0j})
    ordered = pd.CategoricalDtype(["low", "high"], ordered=True)
    labels = pd.Categorical.from_codes(Y, dtype=ordered)
    book.add(23, "pandas: a declared order", in_pandas, COLUMNS | {"y": labels})
    # DuckDB names any of the continuous labels, not always the same.
    continuous = COLUMNS | {"y": np.linspace(0.1, 0.9, N)}
    book.add(24, "pandas: continuous", in_pandas, continuous)


def write_columns(book: Book, engine: str, fit: Any) -> None:
    """Columns of two classes that are refused or warned of."""
    for number, what, scores in bad_scores(P):
        if number in (1, 2, "3b") or what == "texts":
            book.add(number, f"{engine}: {what}", fit, COLUMNS | {"p": scores})
    stray = COLUMNS | {"p": put(P, 3, 1.5)}
    book.add(3, f"{engine}: outside [0, 1], logit", fit, stray, scale="logit")
    reversed_scores = {"p": 1.0 - MANY[0], "y": MANY[1]}
    book.add("3c", f"{engine}: reversed scores", fit, reversed_scores)
    for number, n in ((4, 0), (16, 1)):
        few = {name: column[:n] for name, column in COLUMNS.items()}
        book.add(number, f"{engine}: {n} rows", fit, few)
    lists = {"p": [[0.1, 0.9]] * 4, "y": [0, 1, 0, 1]}
    book.add(6, f"{engine}: a column of lists", fit, lists)
    book.add(13, f"{engine}: equal scores", fit, COLUMNS | {"p": np.full(N, 0.7)})
    null = put(np.array(["a", "b"])[Y], 2, None)
    book.add(20, f"{engine}: a label is null", fit, COLUMNS | {"y": null})
    for number, what, labels in bad_labels(Y):
        if number in (21, 25):
            book.add(number, f"{engine}: {what}", fit, COLUMNS | {"y": labels})
    for number, what, weight in bad_weights():
        if number != 35:
            weighted = COLUMNS | {"w": weight}
            book.add(number, f"{engine}: {what}", fit, weighted, weight="w")
    book.add(52, f"{engine}: one step", in_one_step, fit, COLUMNS, smoothing=1e-6)
    for wrong in WRONG_ARGUMENTS:
        book.add(54, f"{engine}: {wrong}", fit, COLUMNS, **wrong)
    for number, what, groups in bad_groups():
        if len(groups) == N:
            grouped = COLUMNS | {"g": groups}
            book.add(number, f"{engine}: {what}", fit, grouped, group="g")
    gaps = {"p": put(put(P, 3, np.nan), 7, np.nan), "w": put(WEIGHT, 1, np.nan)}
    book.add(59, f"{engine}: missing values", fit, COLUMNS | gaps, weight="w")


def write_classes(book: Book, engine: str, fit: Any) -> None:
    """Columns of three classes."""
    absent = CLASSES | {"y": ONE_AND_TWO}
    book.add("29a", f"{engine}: labels from 1, a class absent", fit, absent)
    names = ["0", "1", "other"]
    some = dict(zip(names, THREE[0].T, strict=True)) | {"y": THREE[1]}
    book.add("29b", f"{engine}: names of some classes", fit, some, score=names)
    shuffled = dict(zip("bca", MANY_THREE[0].T, strict=True)) | {"y": MANY_THREE[1]}
    book.add("29c", f"{engine}: shuffled columns", fit, shuffled)
    names = [f"f{k}" for k in range(len(FEATURES.T))]
    features = dict(zip(names, FEATURES.T, strict=True)) | {"y": Y}
    book.add("29d", f"{engine}: features", fit, features, score=names)
    for number, what, value in (
        (40, "a row sums to too much", 0.4),
        (42, "a row of zeros", 0.0),
    ):
        row = {name: put(CLASSES[name], 3, value) for name in "abc"}
        book.add(number, f"{engine}: {what}", fit, CLASSES | row)
    negative = CLASSES | {"a": put(CLASSES["a"], 3, -0.2)}
    for multiclass in ("structured", "ovr"):
        what = f"{engine}: a negative entry, {multiclass}"
        book.add(41, what, fit, negative, multiclass=multiclass)


def write_applying(book: Book, engine: str, apply: Any) -> None:
    book.add(3, f"{engine}: 1.5 to apply to", apply, put(P, 3, 1.5))
    book.add(2, f"{engine}: inf to apply to", apply, put(P, 3, np.inf))
    book.add(46, f"{engine}: apply before fit", apply, P, SplineCalibrator())
    segmented = SplineCalibrator().fit(P, Y, by=THREES)
    book.add("54d", f"{engine}: no segments to apply to", apply, P, segmented)
    texts = THREES.astype(str)
    what = f"{engine}: texts for numbers"
    book.add("54f", what, apply, P, segmented, by=texts)
    segmented_by_texts = SplineCalibrator().fit(P, Y, by=texts)
    what = f"{engine}: numbers for texts"
    book.add("54f", what, apply, P, segmented_by_texts, by=THREES)
