"""The rows to fit, in an engine: columns under names of our own, and sums that the engine makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add, or_
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from calspline.arrays import Array
from calspline.engines import expressions
from calspline.engines.aggregate import histograms
from calspline.engines.barrier import once
from calspline.engines.checks import check_weight_range
from calspline.engines.column_stats import (
    MAX_LABELS,
    Columns,
    Facts,
    check_count,
    check_labels,
    check_missing,
    label_array,
)
from calspline.engines.sample import chance
from calspline.histogram import ScoreHistogram
from calspline.scores import Kind, is_missing

Frame = nw.LazyFrame[Any]

# PostgreSQL takes a literal with a point for a decimal.
ZERO, ONE = nw.lit(0).cast(nw.Float64), nw.lit(1).cast(nw.Float64)


@dataclass(frozen=True)
class EngineRows:
    """Columns ``s0``, ``s1`` ... (scores), ``y`` and ``w`` of the rows that count."""

    frame: Frame

    def histogram(self, names: list[str], kind: Kind, *, difference: bool, positive: Any) -> ScoreHistogram:
        """The histogram of two classes, whose scores are in one column or two."""
        scores = [nw.col(name) for name in names]
        if kind == "margin":
            location = scores[1] - scores[0] if difference and len(scores) == 2 else scores[-1]
        elif len(scores) == 1:
            location = expressions.log_odds(scores[0])
        else:
            location = expressions.log_odds_from_pair(scores[0], scores[1])
        code = nw.when(_equals(positive)).then(nw.lit(1)).otherwise(nw.lit(0))
        return histograms(self.frame.select("w", location.alias("1"), code=code), ["1"], kind)["1"]

    def one_vs_rest(
        self, names: list[str], classes: NDArray[Any], seen: Sequence[int], kind: Kind, transform: str
    ) -> dict[int, ScoreHistogram]:
        """A histogram for each class that is seen, by its number; all from the same pass."""
        located = expressions.one_vs_rest(self.frame, names, kind, transform)
        column_kind: Kind = "margin" if transform == "identity" else kind
        keys = [str(j) for j in range(len(names))]
        taken = located.select("w", *keys, code=_code(classes))
        found = histograms(taken, [str(j) for j in seen], column_kind)
        return {j: found[str(j)] for j in seen}

    def sample(self, names: list[str], share: float) -> tuple[Array, NDArray[Any], Array]:
        """Scores, labels and weights of a share of the rows, which are the same ones in every engine."""
        taken = self.frame if share >= 1.0 else self.frame.filter(chance([nw.col(name) for name in names]) < share)
        found = taken.select(*names, "y", "w").collect()
        scores = np.column_stack([found[name].to_numpy() for name in names])
        return scores, np.array(found["y"].to_list()), found["w"].to_numpy()


def engine_rows(frame: Frame, columns: Columns, *, drop: bool) -> tuple[EngineRows, Facts]:
    """Choose the columns, look at what they hold (one pass), and leave out rows that do not count."""
    schema = frame.collect_schema()
    nan = _has_nan(frame)
    own = {name: _number(column, nan=nan) for name, column in zip(columns.names, columns.score, strict=True)}
    own["y"] = _label(columns.label, schema[columns.label], nan=nan)
    own["w"] = ONE if columns.weight is None else _number(columns.weight, nan=nan)
    rows = once(frame.select(**own))
    found = _by_label(rows, columns.names, list(columns.numbers))
    missing_label = np.array([is_missing(value) for value in found["y"]], dtype=bool)
    missing = {name: int(found[f"no_{name}"].sum()) for name in columns.numbers}
    missing["y"] = int(found["n"][missing_label].sum())
    check_missing(columns, missing, int(found["n"].sum()), drop=drop)
    rows = rows.filter(~reduce(or_, [nw.col(name).is_null() for name in [*columns.numbers, "y"]]))
    if columns.weight is not None:
        weights = [value for key in ("w_low", "w_high") for value in found[key].tolist() if not np.isnan(value)]
        if weights:
            check_weight_range(min(weights), max(weights), columns.weight)
        rows = rows.filter(nw.col("w") > 0.0)
    here = ~missing_label & (found["rows"] > 0)
    count = int(found["rows"][here].sum())
    check_count(count)
    facts = Facts(
        labels=label_array(found["y"][here].tolist()),
        count=count,
        low=min(float(np.nanmin(found[f"low_{name}"][here])) for name in columns.names),
        high=max(float(np.nanmax(found[f"high_{name}"][here])) for name in columns.names),
        worst_sum=float(np.nanmax(found["off"][here])) if len(columns.names) > 1 else 0.0,
    )
    return EngineRows(rows), facts


def _has_nan(frame: Frame) -> bool:
    """Whether the engine has numbers that are NaN; SQLite makes them null, and has no test for them."""
    return not (frame.implementation.is_ibis() and frame.to_native().get_backend().name == "sqlite")


def _number(column: str, *, nan: bool) -> nw.Expr:
    value = nw.col(column).cast(nw.Float64)
    return nw.when(~value.is_nan()).then(value) if nan else value


def _label(column: str, dtype: nw.dtypes.DType, *, nan: bool) -> nw.Expr:
    value = nw.col(column)
    if dtype.is_float():
        return nw.when(~value.is_nan()).then(value) if nan else value
    return value.cast(nw.String) if isinstance(dtype, (nw.Categorical, nw.Enum)) else value


def _by_label(rows: Frame, names: list[str], counted: list[str]) -> dict[str, NDArray[Any]]:
    """For each label: rows, missing values, the range of scores and weights, and rows that count."""
    absent = reduce(or_, [nw.col(name).is_null() for name in counted])
    used = nw.when(~absent & (nw.col("w") > 0.0))
    off = (reduce(add, [nw.col(name) for name in names]) - 1.0).abs()
    wide = rows.select(
        "y",
        "w",
        one=ONE,
        **{name: used.then(nw.col(name)) for name in names},
        off=used.then(off),
        rows=used.then(ONE).otherwise(ZERO),
        **{f"no_{name}": nw.when(nw.col(name).is_null()).then(ONE).otherwise(ZERO) for name in counted},
    )
    found = (
        wide.group_by("y")
        .agg(
            *[nw.col(name).min().alias(f"low_{name}") for name in names],
            *[nw.col(name).max().alias(f"high_{name}") for name in names],
            nw.col("off").max(),
            nw.col("rows").sum(),
            *[nw.col(f"no_{name}").sum() for name in counted],
            n=nw.col("one").sum(),
            w_low=nw.col("w").min(),
            w_high=nw.col("w").max(),
        )
        .head(MAX_LABELS + 1)
        .collect()
    )
    check_labels(len(found))
    facts = {name: found[name].cast(nw.Float64).to_numpy() for name in found.columns if name != "y"}
    facts["y"] = np.empty(len(found), dtype=object)
    facts["y"][:] = found["y"].to_list()
    return facts


def _equals(label: Any) -> nw.Expr:
    value: object = label.item() if isinstance(label, np.generic) else label
    return nw.col("y") == value


def _code(classes: NDArray[Any]) -> nw.Expr:
    """The number of a row's class."""
    if classes.dtype.kind in "iu" and np.array_equal(classes, np.arange(len(classes))):
        return nw.col("y").cast(nw.Int64)
    code = nw.lit(0)
    for j, label in enumerate(classes.tolist()):
        code = nw.when(_equals(label)).then(nw.lit(j)).otherwise(code)
    return code
