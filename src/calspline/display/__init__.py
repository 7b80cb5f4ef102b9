"""Plots with matplotlib: displays hold the data, ``plot`` draws them."""

from calspline.display.curve import CalibrationCurveDisplay
from calspline.display.reliability import ReliabilityDisplay

__all__ = ["CalibrationCurveDisplay", "ReliabilityDisplay"]
