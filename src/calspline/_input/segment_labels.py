"""Labels of segments, compared by value: 1 and 1.0 are equal, 1 and "1" are not."""

from __future__ import annotations

import numbers
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from functools import cached_property
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from calspline._arrays import is_masked
from calspline._codec import check_fields
from calspline._domains import Labels
from calspline._input.class_columns import name_as_text
from calspline._input.labels import is_missing
from calspline._user_warnings import warn_user

Codes = NDArray[np.intp]


@dataclass(frozen=True)
class Column:
    """Labels of rows as ``codes`` into distinct ``values``, or -1 for none."""

    name: str | None
    values: list[Any]
    codes: Codes

    def of(self, rows: Any) -> Column:
        """Select rows, and drop labels that no longer occur."""
        codes = self.codes[rows]
        present = np.unique(codes[codes >= 0])
        place = np.full(len(self.values) + 1, -1, dtype=np.intp)
        place[present] = np.arange(len(present))
        return Column(self.name, [self.values[code] for code in present], place[codes])


@dataclass(frozen=True)
class By:
    """One or more columns of segment labels."""

    columns: list[Column]

    @property
    def names(self) -> list[str | None]:
        """Names of the columns, if any."""
        return [column.name for column in self.columns]

    def like(self, names: Sequence[str | None]) -> By:
        """Columns in the order of a fit."""
        return By([self.columns[place] for place in places_by_name(names, self.names)])

    def named(self, names: Sequence[str | None]) -> By:
        """Rename the columns."""
        return By(
            [
                replace(column, name=name)
                for column, name in zip(self.columns, names, strict=True)
            ]
        )

    def of(self, rows: Any) -> By:
        """Select some of the rows."""
        return By([column.of(rows) for column in self.columns])

    @cached_property
    def combined(self) -> Column:
        """A single column; labels of several columns are combined in tuples."""
        if len(self.columns) == 1:
            return self.columns[0]
        codes = np.column_stack([column.codes for column in self.columns])
        found, place = np.unique(codes, axis=0, return_inverse=True)
        values = [
            tuple(
                None if code < 0 else column.values[code]
                for code, column in zip(row, self.columns, strict=True)
            )
            for row in found.tolist()
        ]
        return Column(None, values, place.reshape(-1).astype(np.intp))


def places_by_name(
    known: Sequence[str | None], given: Sequence[str | None]
) -> list[int]:
    """Indices of the known columns among the given ones, by name or by position.

    Names of which only some are known are an error. A single column goes by position,
    and so do names that are all new.
    """
    if len(given) != len(known):
        raise ValueError(
            f"by must have {len(known)} columns, as in the fit; got {len(given)}"
        )
    places = list(range(len(known)))
    if len(known) == 1 or None in known or None in given or not set(known) & set(given):
        return places
    if set(known) != set(given) or len(set(known)) < len(known):
        raise ValueError(
            f"by must have the columns {list(known)}, as in the fit; got {list(given)}"
        )
    return [list(given).index(name) for name in known]


def check_by(
    by: Any, n: int, name: str = "by", *, some: bool = False, beside: str = "scores"
) -> By:
    """Validate columns of segments.

    One column of ``n`` labels or several: a frame, a 2-d array, or a list of columns.

    With ``some``, each column needs at least one label.
    """
    columns = [
        _column(each, label, n, name, beside) for each, label in _columns(by, name)
    ]
    if not columns:
        raise ValueError(f"{name} must have at least one column")
    if some and not all(column.values for column in columns):
        raise ValueError(f"{name} must have labels; all of a column are missing")
    return By(columns)


def _columns(by: Any, name: str) -> Iterable[tuple[Any, str | None]]:
    labels = (str, bytes, tuple, set, frozenset, dict)  # which are no columns
    if (
        isinstance(by, (list, tuple))
        and by
        and all(hasattr(e, "__len__") and not isinstance(e, labels) for e in by)
    ):
        return [(each, _name_of(each)) for each in by]
    if hasattr(by, "iloc") and hasattr(
        by, "columns"
    ):  # of pandas, whose names may be of any type
        names = [name_as_text(each) for each in by.columns]
        for each in names:
            if names.count(each) > 1:
                raise ValueError(
                    f"{name} must have columns of different names; {names.count(each)} "
                    f"are named {each!r}"
                )
        return [(by.iloc[:, j], each) for j, each in enumerate(names)]
    import narwhals as nw

    frame = nw.from_native(by, eager_only=True, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        return [
            (column.to_native(), str(column.name)) for column in frame.iter_columns()
        ]
    if isinstance(by, (str, bytes)):
        raise TypeError(f"{name} must be labels, one for each row; got the text {by!r}")
    if isinstance(by, np.ndarray) and by.ndim == 2:
        return [(by[:, j], None) for j in range(by.shape[1])]
    return [(by, _name_of(by))]


def _name_of(column: Any) -> str | None:
    name = getattr(column, "name", None)
    return name_as_text(name) if isinstance(name, (str, tuple)) and name else None


SMALL_RANGE = 1 << 20
"""Integers within this range are counted instead of looked up."""


def _column(given: Any, label: str | None, n: int, name: str, beside: str) -> Column:
    import narwhals as nw

    series = nw.from_native(given, series_only=True, pass_through=True)
    if (
        isinstance(series, nw.Series)
        and series.dtype.is_integer()
        and series.null_count()
    ):
        given = (
            series.to_list()
        )  # numpy would make floats of them, and large numbers equal
    if is_masked(given):
        given = given.tolist()  # with None where a label is masked
    array = given if isinstance(given, (list, tuple)) else np.asarray(given)
    if isinstance(array, np.ndarray) and array.ndim != 1:
        raise ValueError(
            f"{name} must be a column of labels, or several; got shape {array.shape}"
        )
    if len(array) != n:
        raise ValueError(
            f"{beside} and {name} must have the same length; got {n} and {len(array)}"
        )
    if isinstance(array, np.ndarray) and array.dtype.kind in "iu" and n:
        low = int(array.min())
        high = int(array.max())
        if high - low < SMALL_RANGE:
            shifted = array.astype(np.int64) - array.min().astype(
                np.int64
            )  # large unsigned ones wrap, both alike
            seen = np.bincount(shifted, minlength=high - low + 1) > 0
            codes = shifted if seen.all() else (np.cumsum(seen) - 1)[shifted]
            return Column(
                label, [low + each for each in np.flatnonzero(seen).tolist()], codes
            )
    if isinstance(array, np.ndarray):
        array = _python_values(array)
    return _looked_up(list(array), label, name)


def _python_values(array: NDArray[Any]) -> list[Any]:
    """Values of an array of any library as Python objects."""
    if array.dtype.kind in "mM":
        rounded = array
        if np.datetime_data(array.dtype)[0] != "D":
            rounded = array.astype(f"{array.dtype.kind}8[us]")
        # Python has microseconds only: of anything finer it would make equal labels.
        if np.any((rounded != array) & ~np.isnat(array)):
            return list(array)
        return rounded.tolist()  # type: ignore[no-any-return]
    return array.tolist()  # type: ignore[no-any-return]


def _looked_up(values: list[Any], label: str | None, name: str) -> Column:
    try:
        found = dict.fromkeys(values)
    except TypeError:
        row = next(
            row for row, value in enumerate(values) if not isinstance(value, Hashable)
        )
        raise TypeError(
            f"{name} must be labels; row {row} is {values[row]!r}"
        ) from None
    plain = {value: _plain(value) for value in found if not is_missing(value)}
    known = in_order(dict.fromkeys(plain.values()))
    code = {value: place for place, value in enumerate(known)}
    place = dict.fromkeys(found, -1) | {
        value: code[own] for value, own in plain.items()
    }
    codes = np.fromiter(
        map(place.__getitem__, values), dtype=np.intp, count=len(values)
    )
    return Column(label, known, codes)


def _plain(value: Any) -> Any:
    """Convert numbers of databases and NumPy to integers or floats."""
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, (np.datetime64, np.timedelta64)):
        return _python_values(np.array([value]))[0]
    return value.item() if isinstance(value, (np.bool_, np.number, np.str_)) else value


def in_order(labels: Iterable[Any]) -> list[Any]:
    """Sort labels, first by family."""
    found = list(labels)
    try:
        return sorted(found)
    except TypeError:
        return sorted(
            found,
            key=lambda label: (
                family(label),
                label if family(label) == "number" else 0,
                repr(label),
            ),
        )


def family(label: Any) -> str:
    """Family of a label; labels of different families are never equal."""
    if isinstance(label, (numbers.Number, np.bool_)):
        return "number"
    if isinstance(label, str):
        return "text"
    return "datetime" if isinstance(label, datetime) else type(label).__name__


@dataclass(frozen=True)
class Known:
    """Labels of one column that were seen in a fit."""

    labels: Annotated[tuple[Any, ...], Labels("segments")]

    def __post_init__(self) -> None:
        check_fields(self)

    @cached_property
    def _place(self) -> dict[Any, int]:
        return {label: code for code, label in enumerate(self.labels)}

    @cached_property
    def _families(self) -> set[str]:
        return {family(label) for label in self.labels}

    def places(self, labels: Iterable[Any]) -> Codes:
        """Codes of labels; -1 for unseen ones and None."""
        return np.array([self._place.get(label, -1) for label in labels], dtype=np.intp)

    def check_family(self, kind: str | None, found: str) -> None:
        """Check that labels of some family may be known.

        None if the family is unknown.
        """
        if kind is not None and self._families and kind not in self._families:
            raise TypeError(
                f"by must have labels like those of the fit ({_shown(self._families)}, "
                f"such as {self.labels[0]!r}); "
                f"{found}"
            )

    def codes(self, column: Column) -> Codes:
        """Codes of the rows' labels; -1 for unseen ones and None.

        Labels of which none is even of a known kind are an error: nobody means 1 by
        "1".
        """
        kinds = {family(value) for value in column.values}
        if kinds and not kinds & self._families:
            first = int(np.argmax(column.codes >= 0))
            value = column.values[column.codes[first]]
            self.check_family(
                family(value), f"row {first} is {value!r}, a {family(value)}"
            )
        return np.asarray(self.places([*column.values, None])[column.codes])


@dataclass(frozen=True)
class SegmentCodes:
    """Codes of the rows' segments by column; -1 for unseen ones."""

    codes: list[Codes]

    def of(self, rows: Any) -> SegmentCodes:
        """Select some of the rows."""
        return SegmentCodes([code[rows] for code in self.codes])

    @property
    def n_new(self) -> int:
        """Number of rows with an unseen segment."""
        return int(np.count_nonzero(np.any([code < 0 for code in self.codes], axis=0)))


def warn_of_new(n_new: int, n: int) -> None:
    """Warn if rows have unseen segments."""
    if n_new:
        warn_user(
            f"{n_new} of {n} rows are of segments that the fit has not seen: they get "
            "the probability of a new segment"
        )


def check_alike(known: Iterable[Any], new: Iterable[Any]) -> None:
    """Check that new labels are of a known family."""
    ours, theirs = (
        [label for label in labels if label is not None] for labels in (known, new)
    )
    families = {family(label) for label in ours}
    if ours and theirs and not families & {family(label) for label in theirs}:
        raise TypeError(
            f"by must have labels like those of earlier rows ({_shown(families)}, such "
            f"as {ours[0]!r}); got "
            f"{theirs[0]!r}, a {family(theirs[0])}"
        )


def _shown(families: set[str]) -> str:
    return " or ".join(
        sorted(
            {"number": "numbers", "text": "texts"}.get(each, each) for each in families
        )
    )
