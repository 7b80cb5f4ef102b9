"""Logistic regression on a handful of features, to the last digits.

scikit-learn's stops at a gradient, takes no soft targets and warns where classes
separate; two or three parameters are few enough for Newton's method to run to the end.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from calspline.arrays import Array

MAX_STEPS = 200
DECREMENT = 1e-13
"""Newton decrement, as a share of the loss, from which one more full step is the last."""


@dataclass(frozen=True)
class LogisticFit:
    """Coefficients, the loss they reach per unit of weight, and whether that is the least."""

    theta: Array
    loss: float
    converged: bool


def fit_logistic(X: Array, positives: Array, negatives: Array, ridge: Array, start: Array) -> LogisticFit:
    """Minimise ``sum positives log(1 + exp(-eta)) + negatives log(1 + exp(eta)) + ridge theta^2 / 2``.

    Damped Newton, with ``eta = X theta``. A row may be part positive, part negative.
    """
    total = float(positives.sum() + negatives.sum())
    positives, negatives, ridge = positives / total, negatives / total, ridge / total

    def loss(theta: Array) -> float:
        eta = X @ theta
        return float(positives @ np.logaddexp(0.0, -eta) + negatives @ np.logaddexp(0.0, eta) + 0.5 * ridge @ theta**2)

    theta, value = start, loss(start)
    for _ in range(MAX_STEPS):
        eta = X @ theta
        p, q = expit(eta), expit(-eta)  # 1 - p would round to 0
        gradient = X.T @ (negatives * p - positives * q) + ridge * theta
        hessian = (X.T * ((positives + negatives) * p * q)) @ X + np.diag(ridge)
        step = _solve(hessian, gradient)
        decrement = float(gradient @ step)
        if decrement <= DECREMENT * value:
            last = loss(theta - step)
            return LogisticFit(theta - step, last, True) if last <= value else LogisticFit(theta, value, True)
        length = 1.0
        while (trial := loss(theta - length * step)) > value - 1e-4 * length * decrement and length > 1e-12:
            length /= 2.0
        if trial >= value:
            break
        theta, value = theta - length * step, trial
    return LogisticFit(theta, value, False)


def _solve(H: Array, g: Array) -> Array:
    """``H^-1 g``, on parameters scaled alike, with a trace of a ridge for directions that rounding left flat."""
    scale = 1.0 / np.sqrt(np.maximum(H.diagonal(), 1e-300))
    scaled = H * scale[:, None] * scale
    scaled[np.diag_indices_from(scaled)] = 1.0 + 1e-14
    return np.asarray(scale * np.linalg.solve(scaled, scale * g))
