"""The rows to fit: columns under names of our own, what they hold, and which of them count."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from calspline import _validation

MOST_LABELS = 1000
Frame = nw.DataFrame[Any] | nw.LazyFrame[Any]


@dataclass(frozen=True)
class Rows:
    """Columns ``s0``, ``s1`` ... (scores), ``y`` and ``w`` of a frame, with NaN as null, and facts about them.

    ``labels`` are the distinct labels of the rows that count, ``count`` is how many these are.
    """

    frame: Frame
    score: list[str]
    label: str
    labels: NDArray[Any]
    count: int
    low: float
    high: float

    @property
    def names(self) -> list[str]:
        """The columns of scores."""
        return [f"s{j}" for j in range(len(self.score))]

    @property
    def outside(self) -> bool:
        """Whether there are scores that are no probabilities."""
        return self.low < 0.0 or self.high > 1.0


def rows_of(frame: Frame, score: list[str], label: str, weight: str | None, *, drop: bool) -> Rows:
    """Choose the columns, look at what they hold (one pass), and leave out rows that do not count."""
    schema = frame.collect_schema()
    names = [f"s{j}" for j in range(len(score))]
    own = {name: _number(column) for name, column in zip(names, score, strict=True)}
    own["y"] = _label(label, schema[label])
    own["w"] = nw.lit(1.0) if weight is None else _number(weight)
    rows: Any = frame.select(**own)
    if weight is None:
        counted = dict(zip(names, score, strict=True))
    else:
        counted = dict(zip(names, score, strict=True)) | {"w": weight}
    found = _facts(rows, names, list(counted))
    missing_label = np.array([_validation.is_missing(value) for value in found["y"]], dtype=bool)
    n = int(found["n"].sum())
    if not drop:
        counts = {column: int(found[f"no_{name}"].sum()) for name, column in counted.items()}
        _validation.none_missing(counts | {label: int(found["n"][missing_label].sum())}, n)
    rows = rows.filter(~reduce(or_, [nw.col(name).is_null() for name in [*counted, "y"]]))
    if weight is not None:
        weights = [value for key in ("w_low", "w_high") for value in found[key].tolist() if not np.isnan(value)]
        if weights:
            _validation.weight_range(min(weights), max(weights), weight)
        rows = rows.filter(nw.col("w") > 0.0)
    counts_here = ~missing_label & (found["rows"] > 0)
    low = min(float(np.nanmin(found[f"low_{name}"][counts_here], initial=np.inf)) for name in names)
    high = max(float(np.nanmax(found[f"high_{name}"][counts_here], initial=-np.inf)) for name in names)
    count = int(found["rows"][counts_here].sum())
    if count < 2:
        raise ValueError(f"frame must have at least two rows, of different classes; got {count}")
    return Rows(rows, score, label, _array(found["y"][counts_here].tolist()), count, low, high)


def _number(column: str) -> nw.Expr:
    value = nw.col(column).cast(nw.Float64)
    return nw.when(~value.is_nan()).then(value)


def _label(column: str, dtype: nw.dtypes.DType) -> nw.Expr:
    value = nw.col(column)
    if dtype.is_float():
        return nw.when(~value.is_nan()).then(value)
    return value.cast(nw.String) if isinstance(dtype, (nw.Categorical, nw.Enum)) else value


def _facts(rows: Frame, names: list[str], counted: list[str]) -> dict[str, NDArray[Any]]:
    """For each label: rows, missing values, the range of scores and weights, and rows that count."""
    absent = reduce(or_, [nw.col(name).is_null() for name in counted])
    used = nw.when(~absent & (nw.col("w") > 0.0))
    wide = rows.lazy().select(
        "y",
        "w",
        one=nw.lit(1.0),
        **{name: used.then(nw.col(name)) for name in names},
        rows=used.then(nw.lit(1.0)).otherwise(nw.lit(0.0)),
        **{f"no_{name}": nw.when(nw.col(name).is_null()).then(nw.lit(1.0)).otherwise(nw.lit(0.0)) for name in counted},
    )
    found = (
        wide.group_by("y")
        .agg(
            *[nw.col(name).min().alias(f"low_{name}") for name in names],
            *[nw.col(name).max().alias(f"high_{name}") for name in names],
            nw.col("rows").sum(),
            *[nw.col(f"no_{name}").sum() for name in counted],
            n=nw.col("one").sum(),
            w_low=nw.col("w").min(),
            w_high=nw.col("w").max(),
        )
        .head(MOST_LABELS + 1)
        .collect()
    )
    if len(found) > MOST_LABELS:
        raise ValueError(f"label must be classes; the column has more than {MOST_LABELS} different values")
    facts = {name: found[name].cast(nw.Float64).to_numpy() for name in found.columns if name != "y"}
    facts["y"] = np.empty(len(found), dtype=object)
    facts["y"][:] = found["y"].to_list()
    return facts


def _array(labels: list[Any]) -> NDArray[Any]:
    """Labels as numpy has them: of one type, or as objects."""
    kinds = {type(value) for value in labels}
    if len(kinds) == 1 and kinds <= {bool, int, float, str}:
        return np.array(labels)
    array = np.empty(len(labels), dtype=object)
    array[:] = labels
    return array
