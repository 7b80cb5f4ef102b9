"""Calibration curves that are a line, or the same probability everywhere."""

from __future__ import annotations

import numpy as np

from calspline.curve import CalibrationCurve
from calspline.scores import Kind
from calspline.transforms import Transform


def line(transform: Transform, slope: float, intercept: float, *, origin: float = 0.0) -> CalibrationCurve:
    """``log-odds = intercept + slope * (x - origin)``."""
    coefficients = np.zeros((4, 3))
    coefficients[2] = slope
    coefficients[3] = intercept, intercept, intercept + slope
    return CalibrationCurve(transform, np.array([0.0, 1.0]), coefficients, origin=origin)


def constant(kind: Kind, rate: float) -> CalibrationCurve:
    """The probability ``rate`` for every score."""
    transform = Transform("logit" if kind == "probability" else "identity")
    return line(transform, 0.0, float(np.log(rate / (1.0 - rate))))


def slope_and_intercept(curve: CalibrationCurve) -> tuple[float, float]:
    """``a`` and ``b`` of a curve that is the line ``a x + b``."""
    slope = float(curve.coefficients[2, 0])
    return slope, float(curve.coefficients[3, 0]) - slope * curve.origin
