"""What is known about the errors of a curve."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from calspline._arrays import Array
from calspline._codec import Record, check_fields, stored_fields
from calspline._domains import Number, Numbers, Sizes
from calspline.fitting.fit import CurveSpread


@dataclass(frozen=True, eq=False)
class Posterior:
    """Errors of a curve of log-odds, in numbers.

    Attributes
    ----------
    variance : array of shape (7, K + 1)
        Posterior variance of the curve, as its coefficients are laid out, with powers
        6 to 0.
    tube : float
        Length of the normalized basis on the sphere, for simultaneous bands.
    modes : array of shape (r, K)
        Main directions of the posterior covariance, at the breaks: their squares add up
        to the variance there, but for a hundredth. They tell how errors at different
        scores go together.
    """

    variance: Annotated[Array, Numbers(7, "K+1")]
    tube: Annotated[float, Number(not_negative=True)]
    modes: Annotated[Array, Numbers("r", "K")]

    def __post_init__(self) -> None:
        check_fields(self)


CurvePosterior = Posterior | CurveSpread
"""Numbers of a file, or the posterior of a fit, which computes them when asked."""


class PosteriorRecord(Record):
    """The posterior of a curve; JSON has its numbers."""

    def __init__(self) -> None:
        super().__init__(Posterior)

    def check(self, value: Any, name: str, also: str = "") -> Any:
        """Return a posterior of either kind; anything else is an error."""
        if isinstance(value, CurveSpread):
            return value
        return super().check(value, name, also)

    def check_sizes(self, value: Any, name: str, sizes: Sizes) -> None:
        """Check the sizes of numbers against those of the curve."""
        if isinstance(value, Posterior):
            for field, domain in stored_fields(Posterior).items():
                domain.check_sizes(getattr(value, field), f"{name}.{field}", sizes)


def shifted(posterior: CurvePosterior, variance: float) -> Posterior:
    """The posterior of a curve to which an error of this variance is added."""
    powers = posterior.variance.copy()
    powers[-1] += variance
    modes = posterior.modes
    if variance > 0.0:
        error = np.full((1, modes.shape[1]), np.sqrt(variance))
        modes = np.vstack([modes, error])
    return Posterior(powers, posterior.tube, modes)
