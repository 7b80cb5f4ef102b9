"""FitInfo: how a map was fitted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from calspline._arrays import Array
from calspline._codec import NOT_STORED, check_fields
from calspline._domains import Integer, Number, Numbers
from calspline.histograms.score_histogram import ScoreHistogram
from calspline.histograms.segment_histogram import SegmentHistograms
from calspline.maps.curve import CalibrationCurve
from calspline.maps.reference import Reference


@dataclass(frozen=True, eq=False)
class CurveFit:
    """How a curve was fitted.

    ``grid`` has the smoothing parameters that were tried, and ``criterion`` their
    values. ``smoothing`` is infinite if all scores are equal.
    """

    smoothing: Annotated[float, Number(not_negative=True, infinite=True)]
    grid: Annotated[Array, Numbers("n")]
    criterion: Annotated[Array, Numbers("n")]
    edf: Annotated[float, Number(not_negative=True)]
    converged: bool
    n_iter: Annotated[int, Integer(least=0)]

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, eq=False)
class FittedCurve(CurveFit):
    """A curve, and how it was fitted."""

    curve: CalibrationCurve


@dataclass(frozen=True, eq=False)
class FitInfo:
    """How a map was fitted.

    ``n_effective`` is the effective number of rows. ``reference`` has the rows of the
    fit in bins of the probability. A fit of two classes that keeps its ``histogram``
    has none: it is computed on demand. Files have no histograms. ``columns`` are the
    names of the columns of scores, by class, if the fit was to a frame or a file.
    """

    n_effective: Annotated[float, Number(above=0.0)]
    design_effect: Annotated[float, Number(above=0.0)] = 1.0
    converged: bool = True
    curves: tuple[CurveFit, ...] = ()
    reference: Reference | None = None
    histogram: ScoreHistogram | None = field(default=None, metadata=NOT_STORED)
    segment_histograms: SegmentHistograms | None = field(
        default=None, metadata=NOT_STORED
    )
    columns: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def n_iter(self) -> int:
        """Newton steps of the longest fit."""
        return max((each.n_iter for each in self.curves), default=0)
