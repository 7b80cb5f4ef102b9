"""Calibrators fitted to data frames of any kind, and applied to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import narwhals as nw
import numpy as np

from calspline._arrays import one_blas_thread
from calspline._input.class_columns import (
    order_columns,
)
from calspline._input.hints import warn_if_reversed
from calspline._input.labels import distinct_labels
from calspline._input.options import check_one_of, check_text
from calspline._input.pandas_names import (
    has_odd_names,
    names_of,
    with_columns,
    with_text_names,
)
from calspline._input.scores import (
    GivenScores,
    ScoreKind,
    check_columns_are_scores,
    decide_kind,
)
from calspline._input.segment_labels import places_by_name
from calspline.calibrators.checks import classes_of_calibrator
from calspline.calibrators.spline import SplineCalibrator
from calspline.engines.backends import open_frame
from calspline.engines.calibrate import Calibrate
from calspline.engines.in_memory import fit_arrays
from calspline.engines.lazy import LazyRows
from calspline.engines.rows import (
    Columns,
    ColumnStats,
    Found,
    Locations,
    check_class_type,
    check_column,
    check_label_columns,
    check_label_type,
    check_number_columns,
    family_of_type,
)
from calspline.export.dialects import DIALECTS, UNSAFE, Dialect
from calspline.export.sql import in_stages, to_sql
from calspline.fits.accumulated import SeenRows
from calspline.fits.grouped import estimate_dependence, pooled_line
from calspline.fits.one_vs_rest import MOST_CLASSES, fit_histograms
from calspline.fits.options import Recipe, required_scores
from calspline.fits.spline import one_vs_rest_map
from calspline.histograms.score_histogram import ScoreHistogram
from calspline.histograms.segment_histogram import SegmentHistograms
from calspline.maps.model import Model


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
    """Fit a spline calibrator to columns of a data frame.

    For two classes, the engine aggregates the rows by score, and only a few thousand
    sums are transferred. This takes two passes over the rows, one for the contents of
    the columns and one for the sums, and a third if the scores are concentrated in a
    narrow range. The result equals that of ``SplineCalibrator.fit`` on the same rows.

    Parameters
    ----------
    frame : data frame
        Data frame of pandas, polars (eager or lazy), pyarrow, DuckDB (a relation),
        Dask, PySpark or ibis.
    score : str or list of str
        Column with the score of the second class, or a list of columns with the scores
        of all classes, in the order of the sorted labels or named after them. Columns
        of pandas may also be named by numbers or, for several levels, by tuples; names
        must be unique. In frames in memory, booleans and objects such as ``Decimal``
        are numbers, as in arrays.
    label : str
        Column with labels of any type but datetimes and time differences. Categories
        count by their values.
    weight : str, optional
        Column with weights, which count rows.
    positive : label, optional
        Class to which the score refers. By default the last of the two in sorted order;
        an error is raised if the labels are categories with another declared order.
    group : str, optional
        Column with groups of dependent rows; see :meth:`SplineCalibrator.fit
        <calspline.SplineCalibrator.fit>`. The engine sums residuals by group in another
        pass, and these sums are transferred. With ``by`` as well, rows are transferred
        instead, at most about 200,000. Not supported with ``smoothing="cv"``.
    by : str or list of str, optional
        Column with segments, or several columns whose effects are added; see
        :meth:`SplineCalibrator.fit <calspline.SplineCalibrator.fit>`. Rows with null
        contribute to the common curve only. In another pass (for
        ``multiclass="ovr"``, one per class) the engine sums the rows by segment and
        score. The number of sums is at most 1,048,576 or, if that is more, 64 per
        segment. At most 262,144 segments (combinations of all columns) are supported,
        unless the frame is in memory or of Dask.
    missing : {"error", "drop"}, default="error"
        Treatment of nulls and NaN in these columns: raise an error with their number,
        or leave out such rows.
    **spline_params : dict
        Parameters of :class:`~calspline.SplineCalibrator`. With three or more columns,
        ``multiclass="ovr"`` is fitted to all rows, in one pass, or some ten for logits.
        Of more than 200,000 rows of logits with masked classes (at -1e9, say), a sample
        determines the masks; probabilities then differ from those of arrays by about
        1e-6. The default,
        ``multiclass="structured"``, requires individual rows: it is fitted to all rows
        if the frame is in memory or has at most 200,000 rows, otherwise to a sample of
        about that many. The sample depends only on the scores, so it is the same in any
        order and engine. Scores that many rows share are aggregated.

    Returns
    -------
    calibrator : SplineCalibrator
        Fitted calibrator.

    See Also
    --------
    apply_frame : Add calibrated probabilities to a data frame.

    Examples
    --------
    >>> import pandas as pd
    >>> from calspline import fit_frame
    >>> p = [0.1, 0.3, 0.4, 0.6, 0.8, 0.9]
    >>> paid = ["no", "no", "yes", "no", "yes", "yes"]
    >>> loans = pd.DataFrame({"p": p, "paid": paid})
    >>> calibrator = fit_frame(loans, score="p", label="paid")
    >>> calibrator.classes_.tolist()
    ['no', 'yes']
    >>> fit_frame(loans, score="p", label="payed")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: label must be a column of frame; there is no 'payed'. ...
    """
    calibrator = SplineCalibrator(**spline_params)
    options = calibrator._recipe()
    check_one_of(missing, "missing", ("error", "drop"))
    if has_odd_names(frame):
        named = {
            "score": score,
            "label": label,
            "weight": weight,
            "group": group,
            "by": by,
        }
        frame, names = with_text_names(frame, **named)
        score, label, weight, group, by = (names[argument] for argument in named)
    known, engine = open_frame(frame)
    schema = known.collect_schema()
    columns = check_number_columns(score, "score", known)
    check_class_type(check_column(label, "label", schema), schema)
    if weight is not None:
        check_number_columns(check_column(weight, "weight", schema), "weight", known)
    if len(columns) > 2 and positive is not None:
        raise ValueError(
            f"positive is for two classes; score has {len(columns)} columns"
        )
    if group is not None:
        check_label_type(check_column(group, "group", schema), "group", schema)
        if options.smoothing == "cv":
            raise ValueError(
                'smoothing must be "reml" or a number with group; got '
                f"{calibrator.smoothing!r}. To leave out whole "
                "groups, fit arrays: SplineCalibrator.fit(scores, y, groups=...)."
            )
    segments = [] if by is None else check_label_columns(by, "by", schema)
    taken = Columns(columns, label, weight, group, segments)
    drop = missing == "drop"
    if isinstance(known, nw.DataFrame):
        fit_arrays(calibrator, known, taken, positive, drop=drop)
        return _with_columns(calibrator, columns)
    if engine.rows is None:
        raise TypeError(f"frame must not be lazy; got {type(frame).__name__}")
    rows, stats = engine.rows(engine, known, taken)
    stats.check(taken, drop=drop)
    if weight is not None and calibrator.weights == "importance":
        rows = rows.weighted(stats.importance())
    else:
        stats.check_weights_as_counts(rows.repetition)
    stats.check_finite()
    if len(columns) > 2:
        check_columns_are_scores(
            stats.n_improper,
            stats.n_rows,
            columns,
            len(columns),
            distinct_labels(stats.labels, "label"),
            scores="score",
            y="label",
        )
    classes = taken.classes(known, stats.labels, positive)
    (_fit_two if len(columns) <= 2 else _fit_many)(
        calibrator, rows, stats, taken, classes
    )
    return _with_columns(calibrator, columns)


def _with_columns(calibrator: SplineCalibrator, columns: list[str]) -> SplineCalibrator:
    """The calibrator, whose model knows the columns of scores by class."""
    classes = calibrator.model_.classes
    order = None
    if len(columns) > 1:
        order = order_columns(columns, classes, "score", known=True)
    names = columns if order is None else [columns[place] for place in order]
    return calibrator._name(classes, names)


def _fit_two(
    calibrator: SplineCalibrator,
    rows: LazyRows,
    stats: ColumnStats,
    columns: Columns,
    classes: Any,
) -> None:
    recipe = calibrator._recipe()
    kind = decide_kind(stats, required_scores(recipe.scale))
    rows = _clipped(rows, stats, kind)
    names = columns.in_class_order(classes)
    where = Locations(names, kind)
    [found] = rows.histograms(where, classes, [1]).values()
    histogram = _pooled(found).of_classes(classes)
    segments = None
    if isinstance(found, SegmentHistograms):
        segments = replace(found, pooled=histogram)
    seen = SeenRows(classes, kind, histogram, segments, histogram.total)
    if columns.group is None:
        calibrator._fit_seen(seen, recipe)
        return
    shared = _share_out(rows, where, classes, {1: histogram}, columns, recipe)
    n_effective = histogram.total / shared.recipe.design_effect
    seen = replace(seen, n_effective=n_effective)
    calibrator._fit_seen(seen, shared.recipe, shared.histograms[1])


def _fit_many(
    calibrator: SplineCalibrator,
    rows: LazyRows,
    stats: ColumnStats,
    columns: Columns,
    classes: Any,
) -> None:
    m = len(columns.score)
    recipe = calibrator._recipe()
    names = columns.in_class_order(classes)
    if calibrator.multiclass != "ovr":
        sample = rows.sample(names, classes, stats.n_rows)
        calibrator._fit_scores(
            GivenScores(sample.matrix(names), name="score"),
            sample.codes,
            sample.weight,
            groups=sample.groups,
            by=sample.by,
            classes=classes,
        )
        return
    kind = decide_kind(stats, required_scores(recipe.scale))
    rows = _clipped(rows, stats, kind)
    recipe = recipe.of_classes(kind.value_kind)
    unit = 1.0
    if kind.value_kind == "margin":
        unit = rows.unit_of_logits(names, classes, stats.n_rows)
    where = Locations(names, kind, recipe.scale, unit)
    seen = [j for j in range(m) if np.any(stats.labels == classes[j])]
    divided = rows.histograms(where, classes, range(m) if columns.by else seen)
    found = fitted_to = {j: _pooled(divided[j]) for j in seen}
    if columns.group is not None:
        frequent = sorted(seen, key=lambda j: -float(found[j].positives.sum()))[
            :MOST_CLASSES
        ]
        shared = _share_out(rows, where, classes, found, columns, recipe, frequent)
        recipe = shared.recipe
        fitted_to = shared.histograms
    with one_blas_thread():
        fits = fit_histograms(
            [fitted_to.get(j) for j in range(m)], where.column_kind, recipe
        )
        counts = [
            each for each in divided.values() if isinstance(each, SegmentHistograms)
        ]
        total = found[seen[0]].total
        fitted_map, info = one_vs_rest_map(fits, counts, total, recipe, unit)
    for j in seen:
        label = classes.tolist()[j]
        rest_or_class = np.array([f"not {label}", label], dtype=object)
        warn_if_reversed(found[j].counts, rest_or_class, remedy="")
    calibrator._set_model(Model(classes, kind, fitted_map, info))


def _clipped(rows: LazyRows, stats: ColumnStats, kind: ScoreKind) -> LazyRows:
    """The rows, with probabilities within [0, 1]."""
    low, high = stats.limits
    if kind.value_kind == "margin" or (low >= 0.0 and high <= 1.0):
        return rows
    return rows.clipped()


def _pooled(found: Found) -> ScoreHistogram:
    """The histogram of all rows; those of segments have labels."""
    if isinstance(found, ScoreHistogram):
        return found
    if any(all(label is None for label in labels) for labels in found.columns):
        raise ValueError("by must have labels; all of a column are missing")
    assert isinstance(found.pooled, ScoreHistogram)
    return found.pooled


class Shared(NamedTuple):
    """Histograms of rows by what they count for, and a recipe with design effects."""

    histograms: dict[int, ScoreHistogram]
    recipe: Recipe


def _share_out(
    rows: LazyRows,
    where: Locations,
    classes: Any,
    histograms: dict[int, ScoreHistogram],
    columns: Columns,
    recipe: Recipe,
    frequent: Sequence[int] = (1,),
) -> Shared:
    """Reduce the weights of grouped rows by the dependence in the frequent classes."""
    lines = {j: pooled_line(histograms[j]) for j in frequent}
    sums, contrasts = rows.group_sums(where, classes, lines)
    if len(sums[0].rows) < 2:
        raise ValueError(
            "group must have at least two groups that count; all rows of "
            f"{columns.group!r} are of one"
        )
    sizes = sums[0].weight
    dependence = estimate_dependence(sums, contrasts, sizes)
    recipe = dependence.in_recipe(recipe, sizes)
    if dependence.correlation == 0.0 or np.ptp(sizes) == 0.0:
        return Shared(histograms, recipe)
    shared = rows.shared(dependence.correlation)
    counted = shared.histograms(where, classes, list(histograms))
    pooled = {j: _pooled(each) for j, each in counted.items()}
    effect = recipe.design_effect
    scaled = {
        j: each.reweighted(effect * each.positives, effect * each.negatives)
        for j, each in pooled.items()
    }
    return Shared(scaled, recipe)


def apply_frame(
    frame: Any,
    calibrator: Any,
    *,
    score: str | list[str],
    by: str | list[str] | None = None,
    output: str = "calibrated",
) -> Any:
    """Add calibrated probabilities to a data frame.

    The result is a frame of the same kind, with new columns at the end. Lazy frames
    stay lazy: those of polars, DuckDB, Dask, PySpark and ibis are computed on demand.

    DuckDB, PySpark and ibis evaluate the calibrator in SQL, without Python, except for
    several columns of scores in PySpark, which are evaluated on Arrow batches. The
    other engines pass their columns to numpy, in batches if they have them.

    Parameters
    ----------
    frame : data frame
        Data frame of pandas, polars (eager or lazy), pyarrow, DuckDB (a relation),
        Dask, PySpark or ibis.
    calibrator : fitted calibrator
        Result of :func:`fit_frame`, or any other calibrator of this package.
    score : str or list of str
        Columns of scores, as in :func:`fit_frame`; for two classes, DuckDB and ibis
        support a single column only. The result is null if a score is null or NaN.
        Invalid scores raise an error that names the column, for lazy frames when they
        are computed.
    by : str or list of str, optional
        Columns of segments, if the calibrator was fitted with ``by``. Null and unseen
        labels get the probability of a new segment. For a frame in memory, a warning
        gives their number. Lazy frames do not warn, since counting would take another
        pass; unseen labels are those that are not in
        ``calibrator.segments_["segment"]``. PySpark evaluates segments on Arrow
        batches.
    output : str, default="calibrated"
        Name of the new column, which holds the probability of
        ``calibrator.classes_[1]``. For three or more classes, there is one column per
        class, named ``<output>_<class>``.

    Returns
    -------
    frame : data frame
        Frame of the same kind with the new columns.

    Examples
    --------
    >>> import pandas as pd
    >>> from calspline import apply_frame, fit_frame
    >>> p = [0.1, 0.3, 0.4, 0.6, 0.8, 0.9]
    >>> paid = ["no", "no", "yes", "no", "yes", "yes"]
    >>> loans = pd.DataFrame({"p": p, "paid": paid})
    >>> calibrator = fit_frame(loans, score="p", label="paid")
    >>> list(apply_frame(loans, calibrator, score="p").columns)
    ['p', 'paid', 'calibrated']
    """
    given = frame if has_odd_names(frame) else None
    if given is not None:
        frame, names = with_text_names(given, score=score, by=by)
        score = names["score"]
        by = names["by"]
    known, engine = open_frame(frame)
    schema = known.collect_schema()
    classes = classes_of_calibrator(calibrator)
    columns = check_number_columns(score, "score", known)
    check_text(output, "output")
    segments = [] if by is None else check_label_columns(by, "by", schema)
    if segments and not hasattr(calibrator, "segments_"):
        raise ValueError(
            "by must not be given: this calibrator was fitted without segments"
        )
    if segments and isinstance(known, nw.LazyFrame) and engine.typed:
        _check_segment_types(calibrator, segments, schema)
    if len(columns) != len(classes) and not (len(classes) == 2 and len(columns) == 1):
        one_or = "one column or " if len(classes) == 2 else ""
        raise ValueError(
            f"score must be {one_or}{len(classes)} columns, one for each class; got "
            f"{len(columns)}"
        )
    order = order_columns(columns, classes, "score")
    columns = columns if order is None else [columns[place] for place in order]
    if len(classes) == 2:
        outputs = [output]
    else:
        outputs = [f"{output}_{label}" for label in classes.tolist()]
    # In SQL names differ by more than upper and lower case.
    taken = {name.lower() for name in (schema if given is None else names_of(given))}
    for name in outputs:
        if name.lower() in taken:
            raise ValueError(f"output must be a new column; frame already has {name!r}")
    native = known.to_native()
    if engine.assign is not None and (
        engine.select is None or len(columns) > 1 or segments
    ):
        calibrate = Calibrate(
            calibrator,
            columns,
            outputs,
            segments,
            whole=isinstance(known, nw.DataFrame),
        )
        applied = engine.assign(native, calibrate)
        if isinstance(known, nw.DataFrame):
            calibrate.warn_of_new_segments()
        if given is not None:
            return with_columns(
                given, {name: applied[name].to_numpy() for name in outputs}
            )
        return applied
    if engine.select is None or engine.dialect is None:
        raise TypeError(
            f"engine {engine.name!r} must have assign, or select and dialect"
        )
    if len(columns) == 2:
        raise ValueError(
            f"score must be one column in {engine.name}, that of {classes[1]!r}; got "
            f"{columns!r}"
        )
    if not segments:
        calibrator.model_.warn_without_segments()
    projections = _projections(
        calibrator, columns, segments, outputs, engine.dialect(native), list(schema)
    )
    return engine.select(native, projections, outputs)


def _check_segment_types(calibrator: Any, by: list[str], schema: nw.Schema) -> None:
    """Check the types of columns of segments before a row is read."""
    known = calibrator.model_.segment_columns
    places = places_by_name([column.name for column in known], by)
    for column, place in zip(known, places, strict=True):
        dtype = schema[by[place]]
        column.known.check_family(
            family_of_type(dtype), f"column {by[place]!r} is of type {dtype}"
        )


def _projections(
    calibrator: Any,
    columns: list[str],
    by: list[str],
    outputs: list[str],
    dialect: Any,
    names: list[str],
) -> list[list[str]]:
    """Lists of what to select, each from the one before."""
    quoted = DIALECTS[dialect].identifier
    refusal = _refusal(calibrator, columns, DIALECTS[dialect])
    if DIALECTS[dialect].staged:
        stages, results = in_stages(
            calibrator, columns, dialect, taken=names, otherwise=refusal, by=by
        )
    else:
        known = by if hasattr(calibrator, "segments_") else None
        found = to_sql(
            calibrator,
            columns if len(columns) > 1 else columns[0],
            dialect=dialect,
            by=known,
        )
        found = [found] if isinstance(found, str) else found
        # What to_sql makes null is no score.
        stages = []
        results = [f"coalesce({value}, CASE {refusal} END)" for value in found]
    added = [
        ["*", *(f"{value} AS {name}" for name, value in stage.items())]
        for stage in stages
    ]
    last = [
        f"{value} AS {quoted(name)}"
        for value, name in zip(results, outputs, strict=True)
    ]
    return [*added, [*map(quoted, names), *last]]


def _refusal(calibrator: Any, columns: list[str], dialect: Dialect) -> str:
    """A branch of a CASE for rows without a score: an error, unless one is missing."""
    if calibrator.model_.kind.value_kind == "probability":
        wanted = "probabilities in [0, 1]"
    else:
        wanted = "finite"
    if len(columns) > 1 and calibrator.model_.kind.value_kind == "probability":
        wanted += " that sum to one in each row"
    names = ", ".join(UNSAFE.sub("_", name) for name in columns)
    quoted = [dialect.identifier(column) for column in columns]
    error = dialect.refuse.format(
        f"score must be {wanted}; column {names} has others", quoted[0]
    )
    present = " AND ".join(
        f"{column} IS NOT NULL AND {dialect.not_nan.format(column)}"
        for column in quoted
    )
    return f"WHEN {present} THEN {error}"
