"""Pictures: displays for matplotlib, which hold data that ``plot`` draws, and the report as one HTML file."""

from calspline.display.curve import CalibrationCurveDisplay, LearningCurveDisplay, SmoothingDisplay
from calspline.display.reliability import ReliabilityDisplay
from calspline.display.results import DecisionDisplay, EpochsDisplay, MonitorDisplay, SegmentDisplay

__all__ = [
    "CalibrationCurveDisplay",
    "DecisionDisplay",
    "EpochsDisplay",
    "LearningCurveDisplay",
    "MonitorDisplay",
    "ReliabilityDisplay",
    "SegmentDisplay",
    "SmoothingDisplay",
]
