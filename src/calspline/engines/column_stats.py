"""What the rows hold, known from one pass: labels, ranges, and values that are missing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calspline.engines.checks import check_none_missing, names_in_class_order
from calspline.scores import ROW_SUM_TOLERANCE

MAX_LABELS = 1000


@dataclass(frozen=True)
class Columns:
    """The columns to fit, by their names in the frame; and in ours, ``s0``, ``s1`` ..., ``y`` and ``w``."""

    score: list[str]
    label: str
    weight: str | None

    @property
    def names(self) -> list[str]:
        """Our names of the scores."""
        return [f"s{j}" for j in range(len(self.score))]

    @property
    def numbers(self) -> dict[str, str]:
        """Columns of numbers, from our names to those of the frame."""
        known = dict(zip(self.names, self.score, strict=True))
        return known if self.weight is None else known | {"w": self.weight}

    def in_class_order(self, classes: NDArray[Any]) -> list[str]:
        """Our names of the scores, one for each class where there are as many."""
        ordered = names_in_class_order(self.score, classes)
        return [self.names[self.score.index(name)] for name in ordered]


@dataclass(frozen=True)
class Facts:
    """What one pass over the rows tells.

    ``labels`` are the distinct labels of the rows that count, ``count`` is how many these are, ``low`` and ``high``
    are the range of their scores, and ``worst_sum`` is how far from one the scores of a row sum, at most.
    """

    labels: NDArray[Any]
    count: int
    low: float
    high: float
    worst_sum: float

    @property
    def outside(self) -> bool:
        """Whether there are scores that are no probabilities."""
        return self.low < 0.0 or self.high > 1.0

    def check_sums(self) -> None:
        """Rows of probabilities sum to one."""
        if self.worst_sum > ROW_SUM_TOLERANCE:
            raise ValueError(
                f"score must be columns whose rows sum to one (within {ROW_SUM_TOLERANCE:g}); "
                f"one is off by {self.worst_sum:.6g}"
            )


def check_missing(columns: Columns, missing: Mapping[str, int], rows: int, *, drop: bool) -> None:
    """Missing values are an error, unless their rows are to be dropped; ``missing`` counts them by our names."""
    if not drop:
        frame_names = columns.numbers | {"y": columns.label}
        check_none_missing({frame_names[name]: count for name, count in missing.items()}, rows)


def check_count(count: int) -> None:
    """A fit takes two rows."""
    if count < 2:
        raise ValueError(f"frame must have at least two rows, of different classes; got {count}")


def check_labels(found: int) -> None:
    """Labels are few."""
    if found > MAX_LABELS:
        raise ValueError(f"label must be classes; the column has more than {MAX_LABELS} different values")


def label_array(labels: list[Any]) -> NDArray[Any]:
    """Labels as numpy has them: of one type, or as objects."""
    kinds = {type(value) for value in labels}
    if len(kinds) == 1 and kinds <= {bool, int, float, str}:
        return np.array(labels)
    array = np.empty(len(labels), dtype=object)
    array[:] = labels
    return array
