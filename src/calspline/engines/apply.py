"""Calibrated probabilities as columns of a data frame of any kind."""

from __future__ import annotations

import re
from typing import Any

from calspline.engines.backends import open_frame
from calspline.engines.checks import check_column_list, check_new_columns, names_in_class_order
from calspline.engines.in_memory import Calibrate
from calspline.export.dialects import DIALECTS, Dialect
from calspline.export.sql import in_stages, to_sql
from calspline.options import check_text, classes_of_calibrator

UNSAFE = re.compile(r"[^\w .-]")


def apply_frame(frame: Any, calibrator: Any, *, score: str | list[str], output: str = "calibrated") -> Any:
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
    if len(columns) != len(classes) and not (len(classes) == 2 and len(columns) == 1):
        one_or = "one column or " if len(classes) == 2 else ""
        raise ValueError(f"score must be {one_or}{len(classes)} columns, one for each class; got {len(columns)}")
    columns = names_in_class_order(columns, classes)
    outputs = [output] if len(classes) == 2 else [f"{output}_{label}" for label in classes.tolist()]
    check_new_columns(outputs, "output", schema)
    native = known.to_native()
    if engine.assign is not None and (engine.select is None or len(columns) > 1):
        return engine.assign(native, Calibrate(calibrator, columns, outputs))
    if engine.select is None or engine.dialect is None:
        raise TypeError(f"engine {engine.name!r} must have assign, or select and dialect")
    if len(columns) == 2:
        raise ValueError(f"score must be one column in {engine.name}, that of {classes[1]!r}; got {columns!r}")
    projections = _projections(calibrator, columns, outputs, engine.dialect(native), list(schema))
    return engine.select(native, projections, outputs)


def _projections(
    calibrator: Any, columns: list[str], outputs: list[str], dialect: Any, names: list[str]
) -> list[list[str]]:
    """Lists of what to select, each from the one before."""
    quoted = DIALECTS[dialect].identifier
    refusal = _refusal(calibrator, columns, DIALECTS[dialect])
    if DIALECTS[dialect].staged:
        staged = in_stages(calibrator, columns, dialect, taken=names, otherwise=refusal)
        stages, results = staged.stages, staged.results
    else:
        found = to_sql(calibrator, columns if len(columns) > 1 else columns[0], dialect=dialect)
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
