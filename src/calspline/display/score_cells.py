"""How probabilities spread, on the probability and on the log-odds scale."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit

from calspline.arrays import Array
from calspline.evaluation.predictions import Predictions
from calspline.evaluation.reliability import Reliability
from calspline.transforms import log_odds

STEP, REACH = 0.5, 28
"""Cells of half a unit of log-odds, to a probability of about a millionth on either side."""


@dataclass(frozen=True, eq=False)
class Cells:
    """Weight of the probabilities in cells; ``edges`` are probabilities, the ends being 0 and 1."""

    edges: Array
    weight: Array

    @classmethod
    def even_in_log_odds(cls, p: Array, weight: Array | None) -> Cells:
        """Cells of equal width in log-odds; the outermost take all that is beyond."""
        cell = np.clip(np.floor(log_odds(p) / STEP).astype(np.intp) + REACH, 0, 2 * REACH - 1)
        edges = expit(STEP * np.arange(-REACH, REACH + 1.0))
        edges[0], edges[-1] = 0.0, 1.0
        return cls(edges, np.bincount(cell, weights=weight, minlength=2 * REACH).astype(np.float64))

    @classmethod
    def even(cls, diagram: Reliability) -> Cells:
        """Cells of equal width in probability."""
        return cls(diagram.histogram_edges, diagram.histogram_weight)

    def within(self, low: float, high: float) -> Cells:
        """The same between two limits: the end cells take what is beyond."""
        edges = np.unique(np.clip(self.edges, low, high))
        middle = np.clip(0.5 * (self.edges[:-1] + self.edges[1:]), low, high)
        cell = np.clip(np.searchsorted(edges, middle, side="right") - 1, 0, len(edges) - 2)
        return Cells(edges, np.bincount(cell, weights=self.weight, minlength=len(edges) - 1).astype(np.float64))

    def heights(self, *, log_odds_scale: bool) -> Array:
        """Weight per width, so that areas are weights; the highest is 1."""
        width = np.diff(logit(self.edges) if log_odds_scale else self.edges)
        density = self.weight / width
        return np.asarray(density / density.max())


def log_odds_cells(rows: Predictions) -> tuple[Cells, ...]:
    """Of two classes: the second's. Of more: the top label's, then each class's, in the order of ``Reliability``."""
    if rows.binary:
        return (Cells.even_in_log_odds(rows.probs, rows.weight),)
    columns = [rows.probs.max(axis=1), *rows.probs.T]
    return tuple(Cells.even_in_log_odds(p, rows.weight) for p in columns)
