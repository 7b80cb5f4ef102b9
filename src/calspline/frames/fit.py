"""Fitting a calibrator to a data frame of any kind."""

from __future__ import annotations

from functools import reduce
from operator import add
from typing import Any, Literal

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from calspline import _validation
from calspline._recipe import Recipe, checked_recipe, matrix_kind, recipe_kind
from calspline._threads import one_blas_thread
from calspline._validation import MARGIN_ADVICE, ROW_SUM_TOLERANCE, Kind
from calspline.calibrators._ovr import fit_histograms
from calspline.calibrators.spline import SplineCalibrator
from calspline.frames import expressions
from calspline.frames.cells import histograms
from calspline.frames.rows import Rows, rows_of
from calspline.frames.sample import sample

Frame = nw.DataFrame[Any] | nw.LazyFrame[Any]


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
    for the sums, and more only if the scores crowd in a narrow range. The fit is that of
    ``SplineCalibrator.fit`` on the same rows.

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
        is fitted to all rows, by one histogram for each class, made in one pass (in DuckDB and Dask, one
        for each class). ``multiclass="structured"``, the
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
    recipe = checked_recipe(calibrator.get_params(deep=False))
    _validation.one_of(missing, "missing", ("error", "drop"))
    known = _validation.any_frame(frame)
    schema = known.collect_schema()
    columns = _validation.column_list(score, "score", schema)
    _validation.known_column(label, "label", schema)
    if weight is not None:
        _validation.column_list(_validation.known_column(weight, "weight", schema), "weight", schema)
    if len(columns) > 2 and positive is not None:
        raise ValueError(f"positive is for two classes; score has {len(columns)} columns")
    rows = rows_of(_lazy_if_better(known), columns, label, weight, drop=missing == "drop")
    if len(columns) <= 2:
        return _fit_two(calibrator, rows, recipe, positive)
    return _fit_many(calibrator, rows, recipe)


def _fit_two(calibrator: SplineCalibrator, rows: Rows, recipe: Recipe, positive: Any) -> SplineCalibrator:
    classes = _validation.frame_classes(rows.labels, rows.label, positive)
    kind = recipe_kind(recipe.transform) or ("margin" if rows.outside else "probability")
    _validation.score_range(rows.low, rows.high, rows.score, probability=kind == "probability", advice=MARGIN_ADVICE)
    names = [nw.col(name) for name in rows.names]
    if len(names) == 2:
        ordered = _validation.names_in_class_order(rows.score, classes)
        names = [names[rows.score.index(name)] for name in ordered]
    difference = kind == "margin" and rows.outside
    if len(names) == 1:
        location = names[0] if kind == "margin" else expressions.log_odds(names[0])
    elif kind == "probability":
        _check_sums(rows)
        location = expressions.log_odds_from_pair(names[0], names[1])
    else:
        difference = difference or _worst_sum(rows) > ROW_SUM_TOLERANCE
        location = names[1] - names[0] if difference else names[1]
    code = nw.when(_equals(classes[1])).then(nw.lit(1)).otherwise(nw.lit(0))
    (histogram,) = histograms(rows.frame.select("w", u0=location, code=code), ["u0"], kind)
    calibrator.fit_histogram(histogram)
    calibrator._remember(classes, kind, difference=difference)
    return calibrator


def _fit_many(calibrator: SplineCalibrator, rows: Rows, recipe: Recipe) -> SplineCalibrator:
    m = len(rows.score)
    classes, _ = _validation.matrix_labels(rows.labels, len(rows.labels), m, rows.score, "label", beside="score")
    ordered = _validation.names_in_class_order(rows.score, classes)
    names = [rows.names[rows.score.index(name)] for name in ordered]
    if calibrator.multiclass == "structured":
        scores, labels, weights = sample(rows, names)
        # Numbers name columns, so that the sample may miss a class.
        calibrator.fit(scores, np.searchsorted(classes, labels.astype(classes.dtype)), weights)
        calibrator.classes_ = classes
        return calibrator
    wanted = matrix_kind(recipe.transform)
    margin = wanted != "probability" and rows.outside
    margin = margin or (wanted == "either" and _worst_sum(rows) > ROW_SUM_TOLERANCE)
    kind: Kind = "margin" if margin else "probability"
    _validation.score_range(rows.low, rows.high, rows.score, probability=not margin, advice=MARGIN_ADVICE)
    if not margin:
        _check_sums(rows)
    keys = [str(j) for j in range(m)]
    seen = [key for key in keys if np.any(rows.labels == classes[int(key)])]
    located = expressions.one_vs_rest(rows.frame, names, kind, recipe.transform)
    taken = located.select("w", *keys, code=_code(classes))
    column_kind: Kind = "margin" if recipe.transform == "identity" else kind
    found = dict(zip(seen, histograms(taken, seen, column_kind), strict=True))
    with one_blas_thread():
        calibrator._set_fits(fit_histograms([found.get(key) for key in keys], column_kind, recipe))
    calibrator._remember(classes, kind, difference=False)
    return calibrator


def _lazy_if_better(frame: Frame) -> Frame:
    """Polars works best on lazy frames; others in memory are worked on slice by slice."""
    return frame.lazy() if frame.implementation.is_polars() else frame


def _equals(label: Any) -> nw.Expr:
    value: object = label.item() if isinstance(label, np.generic) else label
    return nw.col("y") == value


def _code(classes: NDArray[Any]) -> nw.Expr:
    """The number of a row's class."""
    if classes.dtype.kind in "iu":
        return nw.col("y").cast(nw.Int64)
    code = nw.lit(0)
    for j, label in enumerate(classes.tolist()):
        code = nw.when(_equals(label)).then(nw.lit(j)).otherwise(code)
    return code


def _check_sums(rows: Rows) -> None:
    worst = _worst_sum(rows)
    if worst > ROW_SUM_TOLERANCE:
        raise ValueError(
            f"score must be columns whose rows sum to one (within {ROW_SUM_TOLERANCE:g}); one is off by {worst:.6g}"
        )


def _worst_sum(rows: Rows) -> float:
    """How far from one the scores of a row sum, at most."""
    off = (reduce(add, [nw.col(name) for name in rows.names]) - 1.0).abs()
    return float(rows.frame.lazy().select(off=off).select(nw.col("off").max()).collect()["off"].to_list()[0])
