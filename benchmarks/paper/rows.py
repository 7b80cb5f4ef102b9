"""The calibrators of table 1 of the paper, and more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from calspline import (
    BetaCalibrator,
    IsotonicCalibrator,
    SigmoidCalibrator,
    SplineCalibrator,
    TemperatureCalibrator,
)


class Row(NamedTuple):
    """A line of the table: how to calibrate, and what the paper found."""

    name: str
    calibrator: Callable[[], Any] | None
    mimic: float | None = None
    adult: float | None = None


ROWS = [
    Row("uncalibrated", None, 0.2525, 0.7448),
    Row("isotonic regression", IsotonicCalibrator, 0.2592, 0.3976),
    Row(
        "Platt, on the probability",
        lambda: SigmoidCalibrator(on="probability"),
        0.2535,
        0.4287,
    ),
    Row("Platt, on the log-odds", SigmoidCalibrator),
    Row("beta", BetaCalibrator),
    Row("temperature", TemperatureCalibrator),
    Row(
        "SplineCalib, untransformed: `paper(1)`",
        lambda: SplineCalibrator.paper(1),
        0.2442,
        0.4032,
    ),
    Row(
        "SplineCalib, compact logit: `paper(2)`",
        lambda: SplineCalibrator.paper(2),
        None,
        0.3934,
    ),
    Row("calspline's default", SplineCalibrator),
]
