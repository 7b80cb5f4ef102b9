"""The rows to fit, held in memory: columns as arrays, summed as the fit of arrays sums them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from calspline.arrays import Array, chunks
from calspline.engines.checks import check_weight_range
from calspline.engines.column_stats import Columns, Facts, check_count, check_labels, check_missing, label_array
from calspline.engines.sample import chance
from calspline.histogram import ScoreHistogram
from calspline.multiclass.one_vs_rest import AgainstRest
from calspline.scores import BinaryScores, Kind, MatrixScores, is_missing


@dataclass(frozen=True)
class Held:
    """Scores, labels and weights of the rows that count, as arrays.

    ``codes`` are places in ``labels``, -1 where there is none. No weights are weights of one.
    """

    scores: dict[str, Array]
    codes: NDArray[np.intp]
    labels: list[Any]
    weight: Array | None

    def histogram(self, names: list[str], kind: Kind, *, difference: bool, positive: Any) -> ScoreHistogram:
        """The histogram of two classes, whose scores are in one column or two."""
        first, values = self.scores[names[0]], self.scores[names[-1]]
        pair = len(names) == 2
        if kind == "margin":
            margin = values - first if difference and pair else values
            scores = BinaryScores("margin", margin, None, margin.shape)
        else:
            scores = BinaryScores("probability", values, first if pair else None, values.shape)
        return ScoreHistogram.collect(scores, self._is(positive), self.weight)

    def one_vs_rest(
        self, names: list[str], classes: NDArray[Any], seen: Sequence[int], kind: Kind, transform: str
    ) -> dict[int, ScoreHistogram]:
        """A histogram for each class that is seen, by its number."""
        columns = AgainstRest(MatrixScores(kind, self._matrix(names)), transform)
        return {j: ScoreHistogram.collect(columns[j], self._is(classes[j]), self.weight) for j in seen}

    def sample(self, names: list[str], share: float) -> tuple[Array, NDArray[Any], Array]:
        """Scores, labels and weights of a share of the rows, which are the same ones in every engine."""
        taken = slice(None) if share >= 1.0 else chance([self.scores[name] for name in names]) < share
        matrix = np.column_stack([self.scores[name][taken] for name in names])
        weight = np.ones(len(matrix)) if self.weight is None else self.weight[taken]
        return matrix, label_array(self.labels)[self.codes[taken]], weight

    def counting(self, used: NDArray[np.bool_]) -> Held:
        """Some of the rows."""
        scores = {name: values[used] for name, values in self.scores.items()}
        return Held(scores, self.codes[used], self.labels, None if self.weight is None else self.weight[used])

    def _matrix(self, names: list[str]) -> Array:
        return np.column_stack([self.scores[name] for name in names])

    def _is(self, label: Any) -> NDArray[np.bool_]:
        """Which rows have a label."""
        return np.asarray(self.codes == self.labels.index(label)) if label in self.labels else self.codes < -1


def held(frame: nw.DataFrame[Any], numbers: dict[str, str], label: str) -> Held:
    """Columns of a frame, under our names, as arrays; what is missing is NaN, or -1."""
    arrays = {name: _number(frame[column]) for name, column in numbers.items()}
    weight = arrays.pop("w", None)
    codes, labels = _coded(frame[label])
    return Held(arrays, codes, labels, weight)


def held_rows(frame: nw.DataFrame[Any], columns: Columns, *, drop: bool) -> tuple[Held, Facts]:
    """Take the columns, look at what they hold, and leave out rows that do not count."""
    rows = held(frame, columns.numbers, columns.label)
    numbers = rows.scores if rows.weight is None else rows.scores | {"w": rows.weight}
    absent = {name: np.isnan(values) for name, values in numbers.items()} | {"y": rows.codes < 0}
    missing = {name: int(np.count_nonzero(where)) for name, where in absent.items()}
    check_missing(columns, missing, len(frame), drop=drop)
    if rows.weight is not None and missing["w"] < len(frame):
        low, high = float(np.nanmin(rows.weight)), float(np.nanmax(rows.weight))
        check_weight_range(low, high, str(columns.weight))
        absent["w"] |= rows.weight == 0.0
    used = ~np.logical_or.reduce(list(absent.values()))
    rows = rows if used.all() else rows.counting(used)
    scores = list(rows.scores.values())
    count = len(rows.codes)
    check_count(count)
    facts = Facts(
        labels=label_array([rows.labels[k] for k in np.flatnonzero(np.bincount(rows.codes))]),
        count=count,
        low=min(float(values.min()) for values in scores),
        high=max(float(values.max()) for values in scores),
        worst_sum=_worst_sum(scores) if len(scores) > 1 else 0.0,
    )
    return rows, facts


def _number(column: nw.Series[Any]) -> Array:
    """A column as an array; what is missing is NaN."""
    return np.asarray(column.cast(nw.Float64).to_numpy(), dtype=np.float64)


def _coded(column: nw.Series[Any]) -> tuple[NDArray[np.intp], list[Any]]:
    """Places of labels among the distinct ones, -1 where there is none; categories are words."""
    if isinstance(column.dtype, (nw.Categorical, nw.Enum)):
        column = column.cast(nw.String)
    found = column.unique()
    check_labels(len(found))
    labels = [value for value in found.to_list() if not is_missing(value)]
    codes = np.full(len(column), -1, dtype=np.intp)
    for k, label in enumerate(labels):
        codes[(column == label).fill_null(False).to_numpy().astype(bool)] = k
    return codes, labels


def _worst_sum(scores: list[Array]) -> float:
    """How far from one the scores of a row sum, at most."""
    with np.errstate(invalid="ignore"):  # infinite scores are an error of their own
        return max(float(np.abs(sum(one[rows] for one in scores) - 1.0).max()) for rows in chunks(len(scores[0])))
