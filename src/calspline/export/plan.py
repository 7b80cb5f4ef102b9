"""What an export has to write: the formula of a calibrator, and which scores it takes."""

from __future__ import annotations

import json
import re
from typing import Any

from calspline import registry
from calspline.calibrators.base import BaseCalibrator
from calspline.expression import Formula
from calspline.scores import LARGEST_MARGIN, Kind

UNSAFE = re.compile(r"[^\w .,+'\"\\-]", re.ASCII)


def formula_of(calibrator: Any) -> Formula:
    """What the calibrator computes; one that is not fitted, or has no export, is an error."""
    if not isinstance(calibrator, BaseCalibrator) or not calibrator.exported:
        names = ", ".join(name for name, cls in registry.classes().items() if cls.exported)
        raise TypeError(f"calibrator must be one of {names}; got {type(calibrator).__name__}")
    return calibrator.formula()


def domain(kind: Kind) -> tuple[float, float]:
    """Least and largest score."""
    return (0.0, 1.0) if kind == "probability" else (-LARGEST_MARGIN, LARGEST_MARGIN)


def title(classes: list[Any]) -> str:
    """One line of ASCII that says what comes out."""
    from calspline import __version__

    labels = [
        _escape_control(json.dumps(label if isinstance(label, (str, int, float)) else str(label))) for label in classes
    ]
    what = f"Probability of class {labels[1]}" if len(labels) == 2 else f"Probabilities of classes {', '.join(labels)}"
    return f"{what}, calibrated. Written by calspline {__version__}."


def _escape_control(label: str) -> str:
    """A label in JSON that ends no comment and no ``<script>``, and that Python does not take for ``coding: ...``."""
    return UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", label)
