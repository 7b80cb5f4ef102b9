"""Pictures: displays for matplotlib, which hold data that ``plot`` draws, and the report as one HTML file."""

from calspline.display.curve import CalibrationCurveDisplay
from calspline.display.epochs import EpochsDisplay
from calspline.display.learning import LearningCurveDisplay
from calspline.display.reliability import ReliabilityDisplay
from calspline.display.smoothing import SmoothingDisplay

__all__ = [
    "CalibrationCurveDisplay",
    "EpochsDisplay",
    "LearningCurveDisplay",
    "ReliabilityDisplay",
    "SmoothingDisplay",
]
