"""Checks that a calibrator is fitted and has the right classes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError


def check_fitted(calibrator: Any) -> None:
    """Raise ``NotFittedError`` if a calibrator is not fitted."""
    if not calibrator.__sklearn_is_fitted__():
        raise NotFittedError(
            f"This {type(calibrator).__name__} instance is not fitted yet. Call 'fit' "
            "with appropriate arguments "
            "before using this estimator."
        )


def check_fitted_calibrator(value: Any, n_classes: int) -> None:
    """Check that an argument is a fitted calibrator with ``n_classes`` classes."""
    classes = classes_of_calibrator(value)
    if len(classes) != n_classes:
        raise ValueError(
            f"calibrator must have {n_classes} classes, like the predictions; it has "
            f"{len(classes)}"
        )


def classes_of_calibrator(value: Any) -> NDArray[Any]:
    """Classes of a fitted calibrator; anything else is an error."""
    methods = ("calibrate", "predict_proba", "get_params", "__sklearn_is_fitted__")
    if isinstance(value, type) or not all(
        callable(getattr(value, name, None)) for name in methods
    ):
        shown = value.__name__ if isinstance(value, type) else type(value).__name__
        raise TypeError(
            f"calibrator must be a fitted calibrator of calspline; got {shown}"
        )
    if not value.__sklearn_is_fitted__():
        raise ValueError(
            f"calibrator must be fitted; this {type(value).__name__} is not"
        )
    return np.asarray(value.classes_)
