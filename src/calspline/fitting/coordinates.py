"""Coordinates in which the penalty of a spline is diagonal."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import log

import numpy as np

from calspline._arrays import Array


@dataclass(frozen=True)
class Coordinates:
    """``c = T u``, and both parts of the diagonal penalty on ``u``."""

    T: Array
    prior: Array
    strength: Array

    def precision(self, smoothing: float) -> Array:
        """Diagonal ``Q`` of the penalty at this smoothing."""
        return self.prior + smoothing * self.strength

    def log_precision(self, smoothing: float) -> float:
        """Log of the product of what is not zero in ``Q``."""
        constant, smoothed = self._log_parts
        return constant + smoothed * log(smoothing)

    @cached_property
    def _log_parts(self) -> tuple[float, int]:
        parts = np.concatenate([self.prior, self.strength])
        return float(np.log(parts[parts > 0.0]).sum()), int(
            np.count_nonzero(self.strength)
        )
