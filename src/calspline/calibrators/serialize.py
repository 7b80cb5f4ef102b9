"""Parameters and class labels as plain JSON values, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from calspline.binary_fit import FittedCurve
from calspline.curve import CalibrationCurve
from calspline.options import check_integer, check_not_negative, check_one_of
from calspline.scores import check_numeric_array

LARGEST_CLASSES = 64 * 2**20


def plain_parameters(estimator: BaseEstimator) -> dict[str, Any]:
    """Constructor parameters as JSON values; a RandomState has none, and becomes null."""
    return {name: _plain(value) for name, value in estimator.get_params(deep=False).items()}


def _plain(value: Any) -> Any:
    if isinstance(value, np.random.RandomState):
        return None
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return value if np.isfinite(value) else "infinity"  # JSON has no number for it
    return np.asarray(value, dtype=np.float64).tolist()


def parameters_from(values: Any, cls: type[BaseEstimator]) -> dict[str, Any]:
    """Check that parameters read from a file are those of ``cls``."""
    names = set(cls._get_param_names())
    if not isinstance(values, dict) or set(values) != names:
        raise ValueError(f"parameters must be exactly {', '.join(sorted(names)) or 'none'}")
    return {name: np.inf if value == "infinity" else value for name, value in values.items()}


def plain_classes(classes: NDArray[Any]) -> dict[str, Any]:
    """Class labels with their dtype, so that the same labels come back."""
    values = classes.tolist()
    if not all(isinstance(value, (bool, int, float, str)) for value in values):
        kinds = ", ".join(sorted({type(value).__name__ for value in values}))
        raise TypeError(f"classes of type {kinds} cannot be saved; use strings or numbers")
    return {"dtype": classes.dtype.str if classes.dtype.kind != "O" else "object", "values": values}


def classes_from(data: Any) -> NDArray[Any]:
    """The labels that :func:`plain_classes` described."""
    if not isinstance(data, dict) or set(data) != {"dtype", "values"} or not isinstance(data["dtype"], str):
        raise ValueError("classes must be a dict with dtype and values")
    values = data["values"]
    if not isinstance(values, list) or not all(isinstance(value, (bool, int, float, str)) for value in values):
        raise ValueError("classes must be strings or numbers")
    if len(values) < 2 or len(set(values)) != len(values):
        raise ValueError("classes must be two or more different labels")
    dtype = np.dtype(data["dtype"])
    if dtype.kind not in "biufUO":
        raise ValueError(f"classes cannot have dtype {dtype}")
    if dtype.itemsize * len(values) > LARGEST_CLASSES:
        # A file of a few bytes may name a dtype of gigabytes.
        raise ValueError(f"classes must take at most {LARGEST_CLASSES >> 20} MB; dtype {dtype} takes more")
    classes = np.array(values, dtype=dtype)
    if classes.tolist() != values:
        raise ValueError(f"classes must be labels that dtype {dtype} can hold")
    return classes


def plain_fit(fit: FittedCurve) -> dict[str, Any]:
    """How a curve came about, as JSON values; an infinite smoothing becomes null."""
    return {
        "smoothing": fit.smoothing if np.isfinite(fit.smoothing) else None,
        "grid": fit.grid.tolist(),
        "criterion": fit.criterion.tolist(),
        "edf": fit.edf,
        "converged": fit.converged,
        "n_iter": fit.n_iter,
    }


def fits_from(facts: Any, curves: Any) -> list[FittedCurve]:
    """The fits that :func:`plain_fit` and the curves' own dicts described."""
    if not isinstance(facts, list) or not isinstance(curves, list) or len(facts) != len(curves):
        raise ValueError("fits and curves must be lists of the same length")
    return [_fit_from(fact, curve) for fact, curve in zip(facts, curves, strict=True)]


def _fit_from(fact: Any, curve: Any) -> FittedCurve:
    fields = {"smoothing", "grid", "criterion", "edf", "converged", "n_iter"}
    if not isinstance(fact, dict) or set(fact) != fields:
        raise ValueError(f"a fit must be a dict with the keys {', '.join(sorted(fields))}")
    check_one_of(fact["converged"], "converged", (True, False))
    fit = FittedCurve(
        CalibrationCurve.from_dict(curve),
        np.inf if fact["smoothing"] is None else check_not_negative(fact["smoothing"], "smoothing"),
        check_numeric_array(fact["grid"], "grid"),
        check_numeric_array(fact["criterion"], "criterion"),
        check_not_negative(fact["edf"], "edf"),
        fact["converged"],
        check_integer(fact["n_iter"], "n_iter", least=0),
    )
    if fit.grid.shape != fit.criterion.shape:
        raise ValueError("grid and criterion must have the same length")
    return fit


def curves_from(curves: Any) -> list[CalibrationCurve]:
    """The curves that their own dicts described."""
    if not isinstance(curves, list):
        raise ValueError("curves must be a list")
    return [CalibrationCurve.from_dict(curve) for curve in curves]
