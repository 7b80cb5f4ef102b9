"""What a model keeps of the rows it was fitted on."""

from __future__ import annotations

from typing import Any

import numpy as np

from calspline._arrays import blocks
from calspline._input.scores import MatrixScores
from calspline.fits.rows import BinaryRows, MatrixRows
from calspline.maps.base import CalibrationMap
from calspline.maps.reference import Reference

VALUES_AT_ONCE = 1 << 21
"""Probabilities that are computed at a time, in memory that is used again."""


def reference_of_classes(
    rows: MatrixRows, fitted_map: CalibrationMap[Any]
) -> Reference:
    """Bins of the highest probability of each row, by class."""
    n, m = rows.scores.values.shape
    highest = np.empty(n)
    for some in blocks(n, m, VALUES_AT_ONCE):
        part = MatrixScores(rows.scores.kind, rows.scores.values[some])
        highest[some] = fitted_map.probabilities(part).max(axis=1)
    return Reference.of_rows(highest, rows.codes, rows.weight, m)


def reference_of_two(rows: BinaryRows, fitted_map: CalibrationMap[Any]) -> Reference:
    """Bins of the probability of the second class, by class."""
    p = fitted_map.probabilities(rows.scores)
    return Reference.of_rows(p, rows.codes, rows.weight)
