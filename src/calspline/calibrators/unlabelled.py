"""Scores without labels: what a calibrator makes of them, and how sure it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from calspline.arrays import Array
from calspline.histogram import ScoreHistogram

if TYPE_CHECKING:
    from calspline.calibrators.base import BaseCalibrator


@dataclass(frozen=True, eq=False)
class Unlabelled:
    """Calibrated probabilities of rows whose labels are not known.

    Of two classes ``p`` has the probability of the second for each row, of more a column for each class. ``noise``, of
    shape (r, n), has independent errors of the log-odds, one standard deviation each: none (r = 0) where a calibrator
    does not know its own uncertainty.
    """

    p: Array
    weight: Array
    noise: Array

    @property
    def total(self) -> float:
        """Sum of the weights."""
        return float(self.weight.sum())


def check_unlabelled(calibrator: BaseCalibrator, given: Any, name: str) -> Unlabelled:
    """Take a histogram, whose labels do not count, or scores as for ``calibrate``."""
    if isinstance(given, ScoreHistogram):
        if len(calibrator.classes_) > 2:
            raise ValueError(f"{name} must be an array of scores, as a histogram is of two classes")
        if given.kind != calibrator.kind_:
            raise ValueError(
                f"{name} must hold {calibrator.kind_} scores, as the calibrator takes; it has {given.kind}"
            )
        given = given.in_rows()
        scores, weight = given.scores, given.positives + given.negatives
    else:
        scores, weight = given, None
    calibrator.warn_without_segments()
    p, _ = calibrator._probability(scores)
    if not len(p):
        raise ValueError(f"{name} must hold rows; it is empty")
    noise = calibrator.noise(scores) if p.ndim == 1 else np.empty((0, len(p)))
    return Unlabelled(p, np.ones(len(p)) if weight is None else weight, noise)
