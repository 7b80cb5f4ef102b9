"""Calibrators as SQL expressions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, overload

from calspline.export._statement import Statement
from calspline.export.dialects import DIALECTS
from calspline.export.plan import formula_of
from calspline.options import check_one_of

DialectName = Literal["duckdb", "postgres", "spark", "sqlite"]


@overload
def to_sql(calibrator: Any, column: str, *, dialect: DialectName = "duckdb") -> str: ...
@overload
def to_sql(calibrator: Any, column: Sequence[str], *, dialect: DialectName = "duckdb") -> list[str]: ...
def to_sql(calibrator: Any, column: str | Sequence[str], *, dialect: DialectName = "duckdb") -> str | list[str]:
    """A fitted calibrator as an SQL expression over a column.

    NULL gives NULL, and so does what is no score: NaN, a probability outside [0, 1], or a row of
    probabilities that do not sum to one. The expression finds the piece of the curve first, then its
    coefficients by index, so that the logarithm is taken once.

    Parameters
    ----------
    calibrator : fitted calibrator
    column : str, or list of str
        Name of the column with the probability of ``classes_[1]``, or the margin. For three or more
        classes a list of names, in the order of ``classes_``. Names are quoted, so that any will do.
    dialect : {"duckdb", "postgres", "spark", "sqlite"}, default="duckdb"
        DuckDB from 1.3. SQLite has to be built with its mathematical functions, as it mostly is.

    Returns
    -------
    str, or list of str
        An expression, or one for each class. Each of several needs all columns and all curves, so their
        length grows with the square of the number of classes.

    Examples
    --------
    >>> from calspline import SplineCalibrator
    >>> from calspline.export import to_sql
    >>> cal = SplineCalibrator(n_knots=3).fit([0.1, 0.3, 0.4, 0.6, 0.7, 0.9], [0, 0, 1, 0, 1, 1])
    >>> expression = to_sql(cal, "score")
    >>> query = f"SELECT score, {expression} AS calibrated FROM predictions"
    >>> print(to_sql(cal, "Alice's score", dialect="spark").splitlines()[0])
    CASE WHEN double(`Alice's score`) BETWEEN 0 AND 1 THEN
    """
    check_one_of(dialect, "dialect", tuple(DIALECTS))
    formula = formula_of(calibrator)
    columns = [column] if isinstance(column, str) else column
    wanted = 1 if len(formula.classes) == 2 else len(formula.classes)
    if (wanted == 1) != isinstance(column, str):
        expected = "the name of a column" if wanted == 1 else f"a list of {wanted} names of columns"
        raise TypeError(f"column must be {expected}; got {column!r}")
    for item in columns:
        if not isinstance(item, str) or not item or "\0" in item:
            raise ValueError(f"column must be the name of a column; got {item!r}")
    if len(columns) != wanted:
        raise ValueError(f"column must have {wanted} names, one for each class; got {len(columns)}")
    found = Statement(DIALECTS[dialect], columns).write(formula)
    return found[0] if wanted == 1 else found
