"""Scores: finite numbers in one column, two, or one for each class."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Literal

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from calspline.arrays import Array, chunks
from calspline.transforms import log_odds, log_odds_from_pair

Kind = Literal["probability", "margin"]
MatrixKind = Literal["probability", "margin", "auto", "either"]

ROW_SUM_TOLERANCE = 5e-3  # ten probabilities rounded to three digits
ROUNDING = 1e-6  # of a sum of float32
LARGEST_MARGIN = 1e300
SCORE_LIMITS: dict[Kind, tuple[float, float]] = {
    "probability": (0.0, 1.0),
    "margin": (-LARGEST_MARGIN, LARGEST_MARGIN),
}
MARGIN_ADVICE = 'To calibrate margins, such as a decision_function gives, use transform="identity".'


@dataclass(frozen=True, eq=False)
class GivenScores:
    """Scores as they came in: finite numbers, not yet taken for probabilities or for margins.

    ``names`` are those of a data frame's columns. ``margins`` declares that they are margins,
    even if all of them lie in [0, 1]. What is checked once, here, is passed on.
    """

    values: NDArray[np.floating[Any]]
    names: list[str] | None = None
    margins: bool = False

    def __len__(self) -> int:
        return len(self.values)

    @property
    def n_columns(self) -> int:
        """Columns of scores."""
        return 1 if self.values.ndim == 1 else self.values.shape[1]

    @cached_property
    def limits(self) -> tuple[float, float]:
        """Least and largest score; NaN if there is one."""
        return (float(self.values.min()), float(self.values.max())) if self.values.size else (0.0, 0.0)

    @property
    def outside(self) -> bool:
        """Whether a score is outside [0, 1]."""
        return self.limits[0] < 0.0 or self.limits[1] > 1.0

    def of(self, rows: NDArray[np.bool_]) -> GivenScores:
        """Some of the rows."""
        return replace(self, values=self.values[rows])

    def in_class_order(self, classes: NDArray[Any]) -> GivenScores:
        """Columns in the order of the classes, where a frame's columns are named after them."""
        wanted = [str(value) for value in classes]
        if self.names is None or self.names == wanted or sorted(self.names) != sorted(wanted):
            return self
        return replace(self, values=self.values[:, [self.names.index(value) for value in wanted]], names=wanted)


@dataclass(frozen=True)
class BinaryScores:
    """Checked scores of a two-class problem.

    ``values`` has one number a row, of any float type: the probability of the second
    class, or a margin. ``first`` has the probability of the first class where two columns
    were given. ``difference`` says what the margin of two columns is: their difference,
    or, where they are probabilities, the second.
    """

    kind: Kind
    values: NDArray[np.floating[Any]]
    first: NDArray[np.floating[Any]] | None
    shape: tuple[int, ...]
    difference: bool = False

    def __len__(self) -> int:
        return len(self.values)

    def locations(self, rows: slice = slice(None)) -> Array:
        """Log-odds of probabilities, or the margins themselves."""
        if self.kind == "margin":
            return self.values[rows].astype(np.float64, copy=False)
        if self.first is None:
            return log_odds(self.values[rows])
        return log_odds_from_pair(self.first[rows], self.values[rows])


@dataclass(frozen=True)
class MatrixScores:
    """Checked scores of a problem with three or more classes: a column for each.

    Probabilities, whose rows sum to one, or margins such as a network's logits.
    """

    kind: Kind
    values: NDArray[np.floating[Any]]
    difference: ClassVar[bool] = False

    def __len__(self) -> int:
        return len(self.values)

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows and columns."""
        return self.values.shape


def check_numeric_array(values: Any, name: str) -> Array:
    """``values`` as float64, one or two dimensions, all finite."""
    return check_scores(values, name).values.astype(np.float64, copy=False)


def check_scores(values: Any, name: str = "scores", *, margins: bool = False) -> GivenScores:
    """``values`` as floats of the type they have, one or two dimensions, all finite."""
    if isinstance(values, GivenScores):
        return values
    if hasattr(values, "tocsr") and hasattr(values, "nnz"):
        raise TypeError(f"{name} must be a dense array; got a sparse {type(values).__name__}")
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        row = int(np.argwhere(np.ma.getmaskarray(values))[0][0])
        raise ValueError(f"{name} has missing values; the first is in row {row}")
    try:
        array = np.asarray(values)
    except ValueError:
        raise ValueError(f"{name} must have rows of equal length") from None
    if array.ndim not in (1, 2):
        raise ValueError(f"{name} must have one or two dimensions; got {type(values).__name__} of shape {array.shape}")
    if array.dtype.kind == "O":
        array = _object_to_float(array, name)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"{name} must be real numbers; got dtype {array.dtype}")
    if array.dtype.kind != "f":
        array = array.astype(np.float64)
    given = GivenScores(array, column_names(values, array.ndim), margins)
    if not np.isfinite(given.limits).all():
        row = int(np.argwhere(~np.isfinite(array))[0][0])
        bad = np.atleast_1d(array[row])
        bad = bad[~np.isfinite(bad)][0]
        raise ValueError(f"{name} must be finite; row {row} is {bad}")
    return given


def _object_to_float(array: NDArray[Any], name: str) -> Array:
    for index, value in np.ndenumerate(array):
        if isinstance(value, (str, bytes, complex)) or (
            isinstance(value, np.generic) and value.dtype.kind not in "fiub"
        ):
            raise TypeError(f"{name} must be real numbers; row {index[0]} is {value!r}")
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError):
        for index, value in np.ndenumerate(array):
            try:
                float(value)
            except (TypeError, ValueError):
                kind = ValueError if is_missing(value) else TypeError
                raise kind(f"{name} must be real numbers; row {index[0]} is {value!r}") from None
        raise TypeError(f"{name} must be real numbers, one row like the next") from None


def check_model_probabilities(values: NDArray[np.floating[Any]], model: str) -> NDArray[np.floating[Any]]:
    """What a model's ``predict_proba`` says: within [0, 1], but for rounding, which is put right."""
    if values.dtype.kind != "f" or not values.size or (values.min() >= 0.0 and values.max() <= 1.0):
        return values
    if not np.isfinite(values).all():
        return values  # which every calibrator refuses
    outside = (values < -ROUNDING) | (values > 1.0 + ROUNDING)
    if outside.any():
        row, column = np.argwhere(outside)[0]
        raise ValueError(
            f"predict_proba of {model} must give probabilities in [0, 1]; row {row} of those it was asked about has "
            f"{values[row, column]:g}"
        )
    return np.asarray(np.clip(values, 0.0, 1.0))


def check_binary_scores(
    scores: Any,
    *,
    kind: Kind | None,
    difference: bool | None = None,
    name: str = "scores",
    advice: str = MARGIN_ADVICE,
) -> BinaryScores:
    """Check scores of a two-class problem.

    Parameters
    ----------
    scores : array-like of shape (n,), (n, 1) or (n, 2)
    kind : {"probability", "margin"} or None
        What the scores have to be; None takes scores outside [0, 1] for margins.
    difference : bool or None
        What the margin of two columns is: their difference or the second. None: the
        second if they are probabilities whose rows sum to one.
    advice : str
        What to do about scores outside [0, 1].
    """
    given = check_scores(scores, name)
    array, outside = given.values, given.outside
    if given.n_columns > 2 or not given.n_columns:
        raise ValueError(f"{name} must have one or two columns for a two-class problem; got shape {array.shape}")
    if kind == "probability" and outside:
        raise ValueError(_outside_message(array, name, advice))
    two = given.n_columns == 2
    if kind == "probability" or (kind is None and not outside):
        if two:
            check_sums(array, name)
        first, values = (array[:, 0], array[:, 1]) if two else (None, array.reshape(-1))
        return BinaryScores("probability", values, first, array.shape)
    _check_size(given, name)
    if difference is None:
        difference = outside or (two and _first_bad_sum(array) is not None)
    if two:
        array = array.astype(np.float64, copy=False)
        values = array[:, 1] - array[:, 0] if difference else array[:, 1]
        return BinaryScores("margin", values, None, array.shape, difference)
    return BinaryScores("margin", array.reshape(-1), None, array.shape, difference)


def check_matrix_scores(
    scores: Any,
    *,
    kind: MatrixKind,
    n_columns: int | None = None,
    name: str = "scores",
    advice: str = MARGIN_ADVICE,
) -> MatrixScores:
    """Check scores of a problem with three or more classes.

    Parameters
    ----------
    scores : array-like of shape (n, m)
    kind : {"probability", "margin", "auto", "either"}
        What the scores have to be. ``"auto"`` takes scores outside [0, 1] for margins, and
        ``"either"`` also rows that do not sum to one.
    n_columns : int, optional
        How many columns there have to be.
    advice : str
        What to do about scores outside [0, 1].
    """
    given = check_scores(scores, name)
    array, outside = given.values, given.outside
    if array.ndim != 2 or (n_columns is not None and array.shape[1] != n_columns):
        wanted = "a column for each class" if n_columns is None else f"{n_columns} columns, one for each class"
        raise ValueError(f"{name} must have {wanted}; got shape {array.shape}")
    if (
        kind == "margin"
        or (kind != "probability" and outside)
        or (kind == "either" and _first_bad_sum(array) is not None)
    ):
        _check_size(given, name)
        return MatrixScores("margin", array)
    if outside:
        raise ValueError(_outside_message(array, name, advice))
    check_sums(array, name)
    return MatrixScores("probability", array)


def column_names(scores: Any, n_dimensions: int) -> list[str] | None:
    """Names of the columns of a data frame; None for anything else."""
    if n_dimensions != 2 or isinstance(scores, (np.ndarray, list, tuple)):
        return None
    frame = nw.from_native(scores, eager_only=True, pass_through=True)
    return list(frame.columns) if isinstance(frame, nw.DataFrame) else None


def check_sums(array: NDArray[np.floating[Any]], name: str) -> None:
    """Check that every row sums to one."""
    bad_row = _first_bad_sum(array)
    if bad_row is not None:
        raise ValueError(
            f"each row of {name} must sum to one (within {ROW_SUM_TOLERANCE:g}); "
            f"row {bad_row} sums to {array[bad_row].sum():.6g}"
        )


def _first_bad_sum(array: NDArray[np.floating[Any]]) -> int | None:
    for rows in chunks(len(array)):
        bad = np.abs(array[rows].sum(axis=1, dtype=np.float64) - 1.0) > ROW_SUM_TOLERANCE
        if bad.any():
            return int(rows.start) + int(np.argmax(bad))
    return None


def _outside_message(array: NDArray[np.floating[Any]], name: str, advice: str) -> str:
    row = int(np.argwhere((array < 0.0) | (array > 1.0))[0][0])
    values = np.atleast_1d(array[row])
    value = values[(values < 0.0) | (values > 1.0)][0]
    return f"{name} must be probabilities in [0, 1]; row {row} is {value:g}. {advice}"


def _check_size(given: GivenScores, name: str) -> None:
    if max(-given.limits[0], given.limits[1]) > LARGEST_MARGIN:
        row = int(np.argwhere(np.abs(given.values) > LARGEST_MARGIN)[0][0])
        raise ValueError(f"{name} must be at most {LARGEST_MARGIN:g} in size; row {row} is larger")


def is_missing(value: Any) -> bool:
    """Whether a value stands for none: None, NaN, NA or NaT."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, (float, np.floating)) and bool(np.isnan(value))
