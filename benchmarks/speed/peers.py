"""One small adapter per calibrator, each with its defaults.

Imports stay inside, so that a fresh process loads only what it measures.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Labels = NDArray[np.int64]


class Peer(NamedTuple):
    """An unfitted calibrator: how to fit it, and how to calibrate scores with it."""

    fit: Callable[[Array, Labels], Any]
    predict: Callable[[Array], Any]


def spline() -> Peer:
    """The calibrator of calspline."""
    from calspline import SplineCalibrator

    model = SplineCalibrator()
    return Peer(model.fit, model.calibrate)


def isotonic() -> Peer:
    """Isotonic regression of scikit-learn."""
    from sklearn.isotonic import IsotonicRegression

    model = IsotonicRegression(out_of_bounds="clip")
    return Peer(model.fit, model.predict)


def sigmoid() -> Peer:
    """Platt's method as scikit-learn's CalibratedClassifierCV runs it."""
    from sklearn.calibration import _SigmoidCalibration

    model = _SigmoidCalibration()
    return Peer(model.fit, model.predict)


def beta() -> Peer:
    """Beta calibration with three parameters."""
    from betacal import BetaCalibration

    model = BetaCalibration(parameters="abm")
    return Peer(model.fit, model.predict)


def splinecalib() -> Peer:
    """Package of the paper's author."""
    from splinecalib import SplineCalib

    model = SplineCalib()
    return Peer(model.fit, model.calibrate)


def splinator() -> Peer:
    """Piecewise linear logistic regression, which wants a column."""
    from splinator.estimators import LinearSplineLogisticRegression

    model = LinearSplineLogisticRegression()
    return Peer(
        lambda p, y: model.fit(p.reshape(-1, 1), y),
        lambda p: model.predict(p.reshape(-1, 1)),
    )


PEERS: dict[str, Callable[[], Peer]] = {
    "calspline": spline,
    "isotonic": isotonic,
    "sigmoid": sigmoid,
    "betacal": beta,
    "splinecalib": splinecalib,
    "splinator": splinator,
}
PACKAGES = (
    "calspline",
    "scikit-learn",
    "betacal",
    "splinecalib",
    "splinator",
    "numpy",
    "scipy",
)


def installed() -> tuple[list[str], list[str]]:
    """Names of the peers that can be measured, and of those whose package is missing."""
    there, absent = [], []
    for name, peer in PEERS.items():
        try:
            peer()
        except ImportError:
            absent.append(name)
        else:
            there.append(name)
    return there, absent
