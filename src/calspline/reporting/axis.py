"""Scales of a diagram: a probability or a margin becomes a place along an axis."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calspline.arrays import Array
from calspline.transforms import log_odds

LEAST = 1e-15
COARSE = (0.0001, 0.001, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999, 0.9999)
FINE = (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)
WIDE = 10.0
"""An axis longer than this, in log-odds, has the coarser ticks."""


@dataclass(frozen=True)
class Axis:
    """Places in [0, 1] along an axis from ``low`` to ``high``; what lies beyond stays at the end."""

    low: float
    high: float
    logit: bool = False

    def __call__(self, values: object) -> Array:
        """Places of values."""
        return np.clip(self._places(values), 0.0, 1.0)

    def holds(self, values: object) -> NDArray[np.bool_]:
        """Whether values lie between the ends."""
        places = self._places(values)
        return np.asarray((places >= 0.0) & (places <= 1.0))

    def _places(self, values: object) -> Array:
        x = np.atleast_1d(np.asarray(values, dtype=np.float64))
        if self.logit:
            x = log_odds(np.clip(x, LEAST, 1.0 - LEAST))
        return np.asarray((x - self.low) / (self.high - self.low))

    def ticks(self) -> list[tuple[float, str]]:
        """Place and label of each tick."""
        if not self.logit:
            probability = (self.low, self.high) == (0.0, 1.0)
            return [
                (float(self(v)[0]), f"{100.0 * v:.0f}%" if probability else f"{v:.3g}")
                for v in np.linspace(self.low, self.high, 6)
            ]
        marks = COARSE if self.high - self.low > WIDE else FINE
        values = [v for v in marks if self.low <= float(log_odds([v])[0]) <= self.high]
        return [(float(self(v)[0]), f"{100.0 * v:.10g}%") for v in values]


def linear() -> Axis:
    """Probabilities as they are."""
    return Axis(0.0, 1.0)


def logit(ends: tuple[float, float]) -> Axis:
    """Probabilities by their log-odds, which go from one end to the other."""
    return Axis(*ends, logit=True)
