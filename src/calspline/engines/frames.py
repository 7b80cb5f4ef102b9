"""Calibrators fitted to data frames of any kind, and applied to them."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Literal

import narwhals as nw
import numpy as np

from calspline.arrays import one_blas_thread
from calspline.binary_fit import matrix_kind, pooled_line, recipe_kind
from calspline.calibrators.spline import SplineCalibrator
from calspline.engines import aggregate
from calspline.engines.backends import Rows, open_frame
from calspline.engines.calibrate import Calibrate
from calspline.engines.rows import Columns, ColumnStats, Found, Locations, check_column, check_column_list
from calspline.export.dialects import DIALECTS, Dialect
from calspline.export.sql import in_stages, to_sql
from calspline.fitting.groups import GroupMoments, GroupSizes, design_effect
from calspline.histogram import ScoreHistogram
from calspline.labels import order_columns, warn_if_reversed
from calspline.multiclass.one_vs_rest import MOST_CLASSES, fit_histograms
from calspline.options import check_one_of, check_text, classes_of_calibrator
from calspline.scores import Kind, check_scores
from calspline.segments.histogram import SegmentHistograms

UNSAFE = re.compile(r"[^\w .-]")


def fit_frame(
    frame: Any,
    *,
    score: str | list[str],
    label: str,
    weight: str | None = None,
    positive: Any = None,
    group: str | None = None,
    by: str | list[str] | None = None,
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
        The column with what happened: labels of any type. Categories count by their own values, numbers as numbers.
    weight : str, optional
        A column of weights. A weight of 2 is a row seen twice; of 0, a row not seen.
    positive : label, optional
        The class whose probability the score is. None: the last of the two in sorted order, unless the labels are
        categories with a declared order that is another one, which is an error.
    group : str, optional
        A column of groups: rows with the same value belong together and may depend on each other, so that they count
        for less; see :meth:`SplineCalibrator.fit <calspline.SplineCalibrator.fit>`. The engine sums residuals by group,
        in one more pass; with ``smoothing="cv"`` and ``"loo"``, which would leave out whole groups, fit arrays.
    by : str or list of str, optional
        A column of segments that differ, such as countries, or several whose effects are added up; see
        :meth:`SplineCalibrator.fit <calspline.SplineCalibrator.fit>`. A null is no segment. In one more pass (of
        ``multiclass="ovr"``: one for each class) the engine sums the rows by segment and cell. What it brings back is
        bounded, whatever the rows: cells are so wide that all segments together have at most 1,048,576 sums or, if that
        is more, 64 for each segment. Segments of several columns are combinations that occur. More than 262,144 are
        refused, unless the frame is in memory or of Dask, which counts partitions as arrays.
    missing : {"error", "drop"}, default="error"
        What to do about nulls and NaN in these columns. ``"error"`` counts them in its message; ``"drop"``
        leaves such rows out.
    **spline_params
        Options of :class:`~calspline.SplineCalibrator`. With three or more columns, ``multiclass="ovr"``
        is fitted to all rows, by one histogram for each class, all made in the same pass.
        ``multiclass="structured"``, the default, and ``"top"`` need rows: they are fitted to all if there are at most
        200,000, else to a sample of about that many. The sample is chosen by the digits of the scores, so that the same
        rows give the same sample in any order and engine. Coarse scores, which many rows have in common, are grouped
        and fitted by their counts.

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
    criterion = calibrator.recipe().criterion
    check_one_of(missing, "missing", ("error", "drop"))
    known, engine = open_frame(frame)
    schema = known.collect_schema()
    columns = check_column_list(score, "score", schema)
    check_column(label, "label", schema)
    if weight is not None:
        check_column_list(check_column(weight, "weight", schema), "weight", schema)
    if len(columns) > 2 and positive is not None:
        raise ValueError(f"positive is for two classes; score has {len(columns)} columns")
    if group is not None:
        check_column(group, "group", schema)
        if criterion is not None and not criterion.is_evidence:
            raise ValueError(
                f'smoothing must be "reml" or a number with group; got {calibrator.smoothing!r}. To leave out whole '
                "groups, fit arrays: SplineCalibrator.fit(scores, y, groups=...)."
            )
    segments = [] if by is None else check_column_list(by, "by", schema, numbers=False)
    taken = Columns(columns, label, weight, group, segments)
    rows, stats = engine.rows(engine, known, taken)
    stats.check(taken, drop=missing == "drop")
    if weight is not None and calibrator.weights == "importance":
        rows = rows.weighted(stats.importance())
    else:
        stats.check_weight_scale()
    classes = taken.classes(known, stats.labels, positive)
    (_fit_two if len(columns) <= 2 else _fit_many)(calibrator, rows, stats, taken, classes)
    return calibrator


def _fit_two(calibrator: SplineCalibrator, rows: Rows, stats: ColumnStats, columns: Columns, classes: Any) -> None:
    kind = recipe_kind(calibrator.transform) or stats.kind(columns.score)
    rows = _checked(rows, stats, columns, kind)
    difference = len(columns.score) == 2 and kind == "margin" and stats.columns_are_margins
    where = Locations(columns.in_class_order(classes), kind, difference=difference)
    [found] = rows.histograms(where, classes, [1]).values()
    histogram = _pooled(found).of_classes(classes)
    worth = histogram.total
    if columns.group is not None:
        worth /= _design_effect(*rows.moments(where, classes, {1: pooled_line(histogram)}), columns)
    counts = replace(found, pooled=histogram) if isinstance(found, SegmentHistograms) else histogram
    calibrator.fit_histogram(counts, n_effective=worth)
    calibrator.classes_, calibrator.kind_, calibrator.difference_ = classes, kind, difference


def _fit_many(calibrator: SplineCalibrator, rows: Rows, stats: ColumnStats, columns: Columns, classes: Any) -> None:
    m, recipe, names = len(columns.score), calibrator.recipe(), columns.in_class_order(classes)
    if calibrator.multiclass != "ovr":
        sample = rows.sample(names, min(1.0, aggregate.MAX_SAMPLE / stats.count))
        # The sample may miss a class.
        named = check_scores(sample.scores, "score", names=range(m))
        codes = np.searchsorted(classes, sample.labels.astype(classes.dtype))
        calibrator.fit(named, codes, sample.weight, groups=sample.groups, by=sample.by)
        calibrator.classes_ = classes
        return
    wanted = matrix_kind(recipe.transform)
    if wanted == "either":
        kind: Kind = "margin" if stats.columns_are_margins else "probability"
    else:
        kind = stats.kind(columns.score) if wanted == "auto" else "probability"
    rows = _checked(rows, stats, columns, kind)
    where = Locations(names, kind, recipe.transform)
    seen = [j for j in range(m) if np.any(stats.labels == classes[j])]
    divided = rows.histograms(where, classes, range(m) if columns.by else seen)
    found = {j: _pooled(divided[j]) for j in seen}
    if columns.group is not None:
        frequent = sorted(seen, key=lambda j: -float(found[j].positives.sum()))[:MOST_CLASSES]
        lines = {j: pooled_line(found[j]) for j in frequent}
        recipe = replace(recipe, design_effect=_design_effect(*rows.moments(where, classes, lines), columns))
    with one_blas_thread():
        fits = fit_histograms([found.get(j) for j in range(m)], where.column_kind, recipe)
        counts = [each for each in divided.values() if isinstance(each, SegmentHistograms)]
        calibrator.set_curves(fits, recipe, found[seen[0]].total, counts)
    for j in seen:
        label = classes.tolist()[j]
        warn_if_reversed(found[j].counts, np.array([f"not {label}", label], dtype=object))
    calibrator.classes_, calibrator.kind_, calibrator.difference_ = classes, kind, False


def _checked(rows: Rows, stats: ColumnStats, columns: Columns, kind: Kind) -> Rows:
    """The rows, whose scores are what they have to be."""
    stats.check_range(columns.score, probability=kind == "probability")
    if kind == "margin":
        return rows
    stats.check_sums()
    return rows.clipped() if stats.low < 0.0 or stats.high > 1.0 else rows


def _pooled(found: Found) -> ScoreHistogram:
    """The histogram of all rows, of which some have labels of segments, if there are any."""
    if isinstance(found, ScoreHistogram):
        return found
    if any(all(label is None for label in labels) for labels in found.columns):
        raise ValueError("by must have labels; all of a column are missing")
    return found.pooled


def _design_effect(moments: list[GroupMoments], sizes: GroupSizes, columns: Columns) -> float:
    """By how much the rows are too many, as those of a group depend on each other."""
    if sizes.n_groups < 2:
        raise ValueError(f"group must have at least two groups that count; all rows of {columns.group!r} are of one")
    return design_effect(moments, sizes)


def apply_frame(
    frame: Any,
    calibrator: Any,
    *,
    score: str | list[str],
    by: str | list[str] | None = None,
    output: str = "calibrated",
) -> Any:
    """Add calibrated probabilities to a data frame of any kind.

    The frame that comes back is of the kind that came in, with its rows and columns as they were and the new ones
    at the end. What is lazy stays lazy: polars' lazy frames, DuckDB relations, Dask, PySpark and ibis compute
    when asked.

    DuckDB, PySpark and ibis evaluate the calibrator as SQL, without Python. Several columns of scores
    are evaluated in Python on Arrow batches by PySpark. The others hand their columns to numpy,
    in batches where they have them.

    Parameters
    ----------
    frame : data frame
        Of pandas, polars (eager or lazy), pyarrow, DuckDB (a relation), Dask, PySpark or ibis.
    calibrator : fitted calibrator
        Of scores: what :func:`fit_frame` gives, or any other of this package.
    score : str or list of str
        The columns of the scores, as in :func:`fit_frame`; of two classes DuckDB and ibis take
        one column only. A null or NaN among them makes the result null.
        A score that the calibrator would refuse is an error, raised when the frame is computed: of DuckDB and
        PySpark as such, of PostgreSQL and SQLite, which have no function for it, as a value that cannot be
        read. Each names the column.
    by : str or list of str, optional
        The columns of segments, of a calibrator that was fitted with them. A null, and what the fit has not seen, gets
        the probability of a new segment. For a frame in memory a warning says how many rows that were. What is lazy
        does not warn, as to count them would take a pass over the rows; they are those whose label is not in
        ``calibrator.segments_["segment"]``. PySpark evaluates segments in Python, on Arrow batches.
    output : str, default="calibrated"
        The name of the new column, with the probability of ``calibrator.classes_[1]``. Three or more classes have
        a column each, named ``<output>_<class>``.

    Returns
    -------
    data frame

    Examples
    --------
    >>> import pandas as pd
    >>> from calspline import apply_frame, fit_frame
    >>> loans = pd.DataFrame({"p": [0.1, 0.3, 0.4, 0.6, 0.8, 0.9], "paid": ["no", "no", "yes", "no", "yes", "yes"]})
    >>> calibrator = fit_frame(loans, score="p", label="paid")
    >>> list(apply_frame(loans, calibrator, score="p").columns)
    ['p', 'paid', 'calibrated']
    """
    known, engine = open_frame(frame)
    schema = known.collect_schema()
    classes = classes_of_calibrator(calibrator)
    columns = check_column_list(score, "score", schema)
    check_text(output, "output")
    segments = [] if by is None else check_column_list(by, "by", schema, numbers=False)
    if segments and not hasattr(calibrator, "segments_"):
        raise ValueError("by must not be given: this calibrator was fitted without segments")
    if len(columns) != len(classes) and not (len(classes) == 2 and len(columns) == 1):
        one_or = "one column or " if len(classes) == 2 else ""
        raise ValueError(f"score must be {one_or}{len(classes)} columns, one for each class; got {len(columns)}")
    order = order_columns(columns, classes, "score")
    columns = columns if order is None else [columns[place] for place in order]
    outputs = [output] if len(classes) == 2 else [f"{output}_{label}" for label in classes.tolist()]
    taken = {name.lower() for name in schema}  # in SQL names differ by more than upper and lower case
    for name in outputs:
        if name.lower() in taken:
            raise ValueError(f"output must be a new column; frame already has {name!r}")
    native = known.to_native()
    if engine.assign is not None and (engine.select is None or len(columns) > 1 or segments):
        calibrate = Calibrate(calibrator, columns, outputs, segments)
        applied = engine.assign(native, calibrate)
        if isinstance(known, nw.DataFrame):
            calibrate.warn_of_new_segments()
        return applied
    if engine.select is None or engine.dialect is None:
        raise TypeError(f"engine {engine.name!r} must have assign, or select and dialect")
    if len(columns) == 2:
        raise ValueError(f"score must be one column in {engine.name}, that of {classes[1]!r}; got {columns!r}")
    if not segments:
        calibrator.warn_without_segments()
    projections = _projections(calibrator, columns, segments, outputs, engine.dialect(native), list(schema))
    return engine.select(native, projections, outputs)


def _projections(
    calibrator: Any, columns: list[str], by: list[str], outputs: list[str], dialect: Any, names: list[str]
) -> list[list[str]]:
    """Lists of what to select, each from the one before."""
    quoted = DIALECTS[dialect].identifier
    refusal = _refusal(calibrator, columns, DIALECTS[dialect])
    if DIALECTS[dialect].staged:
        stages, results = in_stages(calibrator, columns, dialect, taken=names, otherwise=refusal, by=by)
    else:
        known = by if hasattr(calibrator, "segments_") else None
        found = to_sql(calibrator, columns if len(columns) > 1 else columns[0], dialect=dialect, by=known)
        found = [found] if isinstance(found, str) else found
        # What to_sql makes null is no score.
        stages, results = [], [f"coalesce({value}, CASE {refusal} END)" for value in found]
    added = [["*", *(f"{value} AS {name}" for name, value in stage.items())] for stage in stages]
    last = [f"{value} AS {quoted(name)}" for value, name in zip(results, outputs, strict=True)]
    return [*added, [*map(quoted, names), *last]]


def _refusal(calibrator: Any, columns: list[str], dialect: Dialect) -> str:
    """A branch of a CASE for rows without a score: an error, unless one is missing."""
    wanted = "probabilities in [0, 1]" if calibrator.kind_ == "probability" else "finite"
    if len(columns) > 1 and calibrator.kind_ == "probability":
        wanted += " that sum to one in each row"
    # A name is a part of a string here, and how a string ends is up to the settings of the engine.
    names = ", ".join(UNSAFE.sub("_", name) for name in columns)
    quoted = [dialect.identifier(column) for column in columns]
    error = dialect.refuse.format(f"score must be {wanted}; column {names} has others", quoted[0])
    present = " AND ".join(f"{column} IS NOT NULL AND {dialect.not_nan.format(column)}" for column in quoted)
    return f"WHEN {present} THEN {error}"
