"""Formulas of fitted calibrators, validated for export."""

from __future__ import annotations

from typing import Any

from calspline._expression import Formula
from calspline.calibrators import homes
from calspline.calibrators.base import BaseCalibrator
from calspline.calibrators.checks import check_fitted
from calspline.maps.model import Model


def check_exportable(calibrator: Any) -> Model:
    """Model of a fitted calibrator; its segment labels must be exportable."""
    if not isinstance(calibrator, BaseCalibrator):
        raise TypeError(
            f"calibrator must be one of {', '.join(homes())}; "
            f"got {type(calibrator).__name__}"
        )
    check_fitted(calibrator)
    model = calibrator.model_
    for column in model.segment_columns:
        for label in column.known.labels:
            _check_label(label)
    return model


def _check_label(label: Any) -> None:
    if not isinstance(label, (int, float, str)):
        raise TypeError(
            f"segments of type {type(label).__name__} have no export; "
            "use texts or numbers"
        )
    if label in (float("inf"), float("-inf")):
        raise ValueError(f"segments must be finite to be exported; got {label}")


def formula_of(calibrator: Any) -> Formula:
    """Formula of a fitted calibrator, for SQL and ONNX."""
    return check_exportable(calibrator).formula()
