"""Fitting a calibrator to a data frame of any kind."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from calspline.arrays import one_blas_thread
from calspline.binary_fit import Recipe, matrix_kind, recipe_kind
from calspline.calibrators.spline import SplineCalibrator
from calspline.engines.aggregate import sample_share
from calspline.engines.backends import open_frame
from calspline.engines.checks import (
    Columns,
    ColumnStats,
    check_column,
    check_column_list,
    check_frame_classes,
    check_score_range,
)
from calspline.engines.engine import Rows
from calspline.multiclass.one_vs_rest import fit_histograms
from calspline.options import check_one_of
from calspline.scores import MARGIN_ADVICE, ROW_SUM_TOLERANCE, Kind, check_matrix_labels


def fit_frame(
    frame: Any,
    *,
    score: str | list[str],
    label: str,
    weight: str | None = None,
    positive: Any = None,
    missing: Literal["error", "drop"] = "error",
    **spline_params: Any,
) -> SplineCalibrator:
    """Fit a :class:`~calspline.SplineCalibrator` to columns of a data frame of any kind.

    Two classes: the engine that holds the rows sums them in cells of the score, and only these sums, some thousand
    rows, are brought here. It takes two passes over the rows, one for what the columns hold and one
    for the sums, and more only if the scores crowd in a narrow range or are few. The columns of a frame in memory
    are summed as arrays. The fit is that of ``SplineCalibrator.fit`` on the same rows.

    Parameters
    ----------
    frame : data frame
        Of pandas, polars (eager or lazy), pyarrow, DuckDB (a relation), Dask, PySpark or ibis.
    score : str or list of str
        The column with the score of the second class. A list of two has the probabilities of both classes; a list
        of more, one for each class, in the order of the sorted labels, or named after them.
    label : str
        The column with what happened: labels of any type.
    weight : str, optional
        A column of weights. A weight of 2 is a row seen twice; of 0, a row not seen.
    positive : label, optional
        The class whose probability the score is. None: the last of the two in sorted order.
    missing : {"error", "drop"}, default="error"
        What to do about nulls and NaN in these columns. ``"error"`` counts them in its message; ``"drop"``
        leaves such rows out.
    **spline_params
        Options of :class:`~calspline.SplineCalibrator`. With three or more columns, ``multiclass="ovr"``
        is fitted to all rows, by one histogram for each class, all made in the same pass.
        ``multiclass="structured"``, the
        default, needs rows: it is fitted to all if there are at most 200,000, else to a sample of about that
        many. The sample is chosen by the digits of the scores, so that the same rows give the same
        sample in any order and engine, and rows of equal scores go together.

    Returns
    -------
    SplineCalibrator

    See Also
    --------
    apply_frame : The calibrated probabilities as a column.

    Examples
    --------
    >>> import pandas as pd
    >>> from calspline import fit_frame
    >>> loans = pd.DataFrame({"p": [0.1, 0.3, 0.4, 0.6, 0.8, 0.9], "paid": ["no", "no", "yes", "no", "yes", "yes"]})
    >>> calibrator = fit_frame(loans, score="p", label="paid")
    >>> calibrator.classes_.tolist()
    ['no', 'yes']
    >>> fit_frame(loans, score="p", label="payed")
    Traceback (most recent call last):
    ValueError: label must be a column of frame; there is no 'payed'. Did you mean 'paid'?
    """
    calibrator = SplineCalibrator(**spline_params)
    recipe = calibrator.recipe()
    check_one_of(missing, "missing", ("error", "drop"))
    known, engine = open_frame(frame)
    schema = known.collect_schema()
    columns = check_column_list(score, "score", schema)
    check_column(label, "label", schema)
    if weight is not None:
        check_column_list(check_column(weight, "weight", schema), "weight", schema)
    if len(columns) > 2 and positive is not None:
        raise ValueError(f"positive is for two classes; score has {len(columns)} columns")
    taken = Columns(columns, label, weight)
    rows, stats = engine.rows(engine, known, taken)
    stats.check(taken, drop=missing == "drop")
    if len(columns) <= 2:
        return _fit_two(calibrator, rows, stats, taken, recipe, positive)
    return _fit_many(calibrator, rows, stats, taken, recipe)


def _fit_two(
    calibrator: SplineCalibrator, rows: Rows, stats: ColumnStats, columns: Columns, recipe: Recipe, positive: Any
) -> SplineCalibrator:
    classes = check_frame_classes(stats.labels, str(columns.label), positive)
    kind = recipe_kind(recipe.transform) or ("margin" if stats.outside else "probability")
    probability = kind == "probability"
    check_score_range(stats.low, stats.high, columns.score, probability=probability, advice=MARGIN_ADVICE)
    if probability:
        stats.check_sums()
    difference = not probability and (stats.outside or stats.worst_sum > ROW_SUM_TOLERANCE)
    names = columns.in_class_order(classes)
    histogram = rows.histogram(names, kind, difference=difference, positive=classes[1])
    calibrator.fit_histogram(histogram)
    calibrator.classes_, calibrator.kind_, calibrator.difference_ = classes, kind, difference
    return calibrator


def _fit_many(
    calibrator: SplineCalibrator, rows: Rows, stats: ColumnStats, columns: Columns, recipe: Recipe
) -> SplineCalibrator:
    m = len(columns.score)
    labels = stats.labels
    classes, _ = check_matrix_labels(labels, len(labels), m, columns.score, "label", beside="score")
    names = columns.in_class_order(classes)
    if calibrator.multiclass == "structured":
        scores, sampled, weights = rows.sample(names, sample_share(stats.count))
        # Numbers name columns, so that the sample may miss a class.
        calibrator.fit(scores, np.searchsorted(classes, sampled.astype(classes.dtype)), weights)
        calibrator.classes_ = classes
        return calibrator
    wanted = matrix_kind(recipe.transform)
    margin = wanted != "probability" and stats.outside
    margin = margin or (wanted == "either" and stats.worst_sum > ROW_SUM_TOLERANCE)
    kind: Kind = "margin" if margin else "probability"
    check_score_range(stats.low, stats.high, columns.score, probability=not margin, advice=MARGIN_ADVICE)
    if not margin:
        stats.check_sums()
    seen = [j for j in range(m) if np.any(labels == classes[j])]
    found = rows.one_vs_rest(names, classes, seen, kind, recipe.transform)
    column_kind: Kind = "margin" if recipe.transform == "identity" else kind
    with one_blas_thread():
        calibrator.set_fits(fit_histograms([found.get(j) for j in range(m)], column_kind, recipe))
    calibrator.classes_, calibrator.kind_, calibrator.difference_ = classes, kind, False
    return calibrator
