"""The calibrators, each with its defaults."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.multiclass.data import Array, Labels
from calspline import SplineCalibrator

Make = Callable[[], Any]
OURS, SMS = "calspline", "sms"

structured: Make = SplineCalibrator
one_vs_rest: Make = partial(SplineCalibrator, multiclass="ovr")


class Loop:
    """One binary calibrator for each class, in a loop."""

    def fit(self, p: Array, y: Labels) -> Loop:
        """Fit each class against the rest."""
        self.models = [
            SplineCalibrator().fit(p[:, j], y == j) for j in range(p.shape[1])
        ]
        return self


def sms() -> tuple[Make | None, str]:
    """Structured matrix scaling of probmetrics; None, and why, without it."""
    try:
        calibrators: Any = importlib.import_module("probmetrics.calibrators")
    except ImportError as error:
        return (
            None,
            f"probmetrics cannot be imported ({error}): nothing is compared with structured matrix scaling",
        )
    return partial(calibrators.get_calibrator, "sms"), ""
