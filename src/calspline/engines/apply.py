"""Calibrated probabilities as columns of a data frame of any kind."""

from __future__ import annotations

from typing import Any

from narwhals import Implementation

from calspline.engines import apply_batches, apply_sql
from calspline.engines.checks import check_column_list, check_frame, check_new_columns, names_in_class_order
from calspline.options import check_text, classes_of_calibrator


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
    known = check_frame(frame)
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
    engine = known.implementation
    if engine in (Implementation.DUCKDB, Implementation.IBIS) or (engine.is_spark_like() and len(columns) == 1):
        if len(columns) == 2:
            raise ValueError(f"score must be one column in {engine.value}, that of {classes[1]!r}; got {columns!r}")
        return apply_sql.add_columns(known, calibrator, columns, outputs)
    return apply_batches.add_columns(known, calibrator, columns, outputs)
