"""Honest probabilities from any classifier's scores.

>>> import numpy as np
>>> from calspline import SplineCalibrator
>>> scores = np.array([0.02, 0.10, 0.20, 0.35, 0.60, 0.80, 0.95, 0.99])
>>> happened = [0, 0, 0, 1, 0, 1, 1, 1]
>>> SplineCalibrator().fit(scores, happened).calibrate([0.5]).round(1)
array([0.5])
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from calspline.calibrators import homes

__version__ = "0.2.0"

if TYPE_CHECKING:  # "as" says that names are passed on
    from calspline.arrays import threads as threads
    from calspline.calibrators.beta import BetaCalibrator as BetaCalibrator
    from calspline.calibrators.clipping import ClippingCalibrator as ClippingCalibrator
    from calspline.calibrators.isotonic import IsotonicCalibrator as IsotonicCalibrator
    from calspline.calibrators.sigmoid import SigmoidCalibrator as SigmoidCalibrator
    from calspline.calibrators.spline import SplineCalibrator as SplineCalibrator
    from calspline.calibrators.temperature import TemperatureCalibrator as TemperatureCalibrator
    from calspline.classifier import CalibratedClassifierCV as CalibratedClassifierCV
    from calspline.curve import CalibrationCurve as CalibrationCurve
    from calspline.display.reliability import ReliabilityDisplay as ReliabilityDisplay
    from calspline.engines.frames import apply_frame as apply_frame
    from calspline.engines.frames import fit_frame as fit_frame
    from calspline.evaluation.compare import compare as compare
    from calspline.evaluation.decisions import decide as decide
    from calspline.evaluation.evaluate import evaluate as evaluate
    from calspline.evaluation.reliability import reliability as reliability
    from calspline.histogram import ScoreHistogram as ScoreHistogram
    from calspline.learning_curve import calibration_learning_curve as calibration_learning_curve
    from calspline.monitoring.drift import drift as drift
    from calspline.monitoring.expected import expected as expected
    from calspline.monitoring.monitor import Monitor as Monitor
    from calspline.persistence import load as load
    from calspline.persistence import save as save
    from calspline.reporting.report import report as report

# scikit-learn takes seconds to import on a slow machine, so names load when used.
_HOMES = homes() | {
    "CalibratedClassifierCV": "calspline.classifier",
    "CalibrationCurve": "calspline.curve",
    "Monitor": "calspline.monitoring.monitor",
    "ReliabilityDisplay": "calspline.display.reliability",
    "ScoreHistogram": "calspline.histogram",
    "apply_frame": "calspline.engines.frames",
    "calibration_learning_curve": "calspline.learning_curve",
    "compare": "calspline.evaluation.compare",
    "decide": "calspline.evaluation.decisions",
    "drift": "calspline.monitoring.drift",
    "evaluate": "calspline.evaluation.evaluate",
    "expected": "calspline.monitoring.expected",
    "fit_frame": "calspline.engines.frames",
    "load": "calspline.persistence",
    "reliability": "calspline.evaluation.reliability",
    "report": "calspline.reporting.report",
    "save": "calspline.persistence",
    "threads": "calspline.arrays",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'calspline' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
