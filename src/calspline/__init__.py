"""Calibrated probabilities from any classifier's scores.

>>> import numpy as np
>>> from calspline import SplineCalibrator
>>> scores = np.array([0.02, 0.10, 0.20, 0.35, 0.60, 0.80, 0.95, 0.99])
>>> y = [0, 0, 0, 1, 0, 1, 1, 1]
>>> SplineCalibrator().fit(scores, y).calibrate([0.5]).round(1)
array([0.5])
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from calspline._plots import Drawing, register_drawing
from calspline._version import __version__ as __version__
from calspline.calibrators import homes

if TYPE_CHECKING:  # "as" says that names are passed on
    from calspline._input.batches import sample_batches as sample_batches
    from calspline._persistence import load as load
    from calspline._persistence import save as save
    from calspline.calibrators.baselines import BetaCalibrator as BetaCalibrator
    from calspline.calibrators.baselines import ClippingCalibrator as ClippingCalibrator
    from calspline.calibrators.baselines import IsotonicCalibrator as IsotonicCalibrator
    from calspline.calibrators.baselines import SigmoidCalibrator as SigmoidCalibrator
    from calspline.calibrators.baselines import (
        TemperatureCalibrator as TemperatureCalibrator,
    )
    from calspline.calibrators.spline import SplineCalibrator as SplineCalibrator
    from calspline.classifier import CalibratedClassifierCV as CalibratedClassifierCV
    from calspline.display.reliability import ReliabilityDisplay as ReliabilityDisplay
    from calspline.engines.frames import apply_frame as apply_frame
    from calspline.engines.frames import fit_frame as fit_frame
    from calspline.evaluation.compare import compare as compare
    from calspline.evaluation.decisions import decide as decide
    from calspline.evaluation.evaluate import evaluate as evaluate
    from calspline.evaluation.evaluate import scorer as scorer
    from calspline.evaluation.reliability import reliability as reliability
    from calspline.histograms.score_histogram import ScoreHistogram as ScoreHistogram
    from calspline.maps.curve import CalibrationCurve as CalibrationCurve
    from calspline.operations.drift import drift as drift
    from calspline.operations.expected import expected as expected
    from calspline.operations.learning_curve import (
        calibration_learning_curve as calibration_learning_curve,
    )
    from calspline.operations.monitor import Monitor as Monitor
    from calspline.reporting.report import report as report

# scikit-learn takes seconds to import on a slow machine, so names load when used.
_HOMES = homes() | {
    "CalibratedClassifierCV": "calspline.classifier",
    "CalibrationCurve": "calspline.maps.curve",
    "Monitor": "calspline.operations.monitor",
    "ReliabilityDisplay": "calspline.display.reliability",
    "ScoreHistogram": "calspline.histograms.score_histogram",
    "apply_frame": "calspline.engines.frames",
    "calibration_learning_curve": "calspline.operations.learning_curve",
    "compare": "calspline.evaluation.compare",
    "decide": "calspline.evaluation.decisions",
    "drift": "calspline.operations.drift",
    "evaluate": "calspline.evaluation.evaluate",
    "expected": "calspline.operations.expected",
    "fit_frame": "calspline.engines.frames",
    "load": "calspline._persistence",
    "reliability": "calspline.evaluation.reliability",
    "report": "calspline.reporting.report",
    "sample_batches": "calspline._input.batches",
    "save": "calspline._persistence",
    "scorer": "calspline.evaluation.evaluate",
}

__all__ = sorted(_HOMES)


def _find_drawing() -> Drawing:
    drawing: Drawing = import_module("calspline.display.results").draw
    return drawing


register_drawing(_find_drawing)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'calspline' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(["__version__", "display", "export", *__all__])
