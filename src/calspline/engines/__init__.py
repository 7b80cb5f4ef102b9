"""Calibration where the scores live: data frames and databases, through narwhals.

A frame in memory (pandas, polars, pyarrow) is a set of arrays: ``in_memory.py`` reads
its columns, names them in errors, and calls the fit of arrays. Everything else is lazy:
``lazy.py`` looks at the columns in one aggregation (``ColumnStats``, the summary that
:func:`~calspline._input.scores.decide_kind` decides on) and sums the rows in cells of
the score in another (``aggregate.py``); Dask sums each partition as arrays. Each engine
is one record in ``backends.py``, which defines how rows are aggregated, and whether the
calibrated column comes from numpy (``calibrate.py``) or from SQL. ``frames.py`` has the
two public functions.

To change a rule about scores or labels, change it in ``scores.py`` or ``labels.py`` of
the package: engines only say where a wrong value is. To support another engine, add its
record and run ``tests/engines`` on it.
"""
