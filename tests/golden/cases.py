"""Forty fits whose curves are kept: what is fitted, to which data, and where the curve is looked at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
from scipy.special import expit, ndtri, softmax

from calspline import (
    BetaCalibrator,
    ClippingCalibrator,
    IsotonicCalibrator,
    SigmoidCalibrator,
    SplineCalibrator,
    TemperatureCalibrator,
)


def uniform(seed, *shape):
    """Numbers in (0, 1) from Python's own generator, whose stream is the same in every version."""
    random = Random(seed)
    return np.array([random.random() for _ in range(int(np.prod(shape)))]).reshape(shape)


def normal(seed, *shape):
    return ndtri(uniform(seed, *shape))


@dataclass(frozen=True)
class Rows:
    """What is fitted, and the scores at which the curve is looked at."""

    scores: Any
    y: Any
    grid: Any
    weight: Any = None


def probabilities(u, chance, grid=None, weight=None, seed="labels"):
    """Rows of one column, given log-odds and the chance of a positive."""
    y = (uniform(seed, len(u)) < chance).astype(int)
    return Rows(expit(u), y, np.concatenate([[0.0, 1e-12], np.linspace(0.005, 0.995, 34), [1.0]]), weight)


def wavy(n=600, weight=None):
    u = -0.3 + 2.0 * normal("wavy", n)
    return probabilities(u, expit(0.5 * u + 0.4 * np.sin(u)), weight=weight)


def rare():
    u = -3.0 + 1.5 * normal("rare", 2000)
    return probabilities(u, expit(1.3 * u - 1.0))


def tied():
    score = np.round(uniform("tied", 800), 1)
    y = (uniform("tied labels", 800) < score**2).astype(int)
    return Rows(score, y, np.linspace(0, 1, 41))


def ends():
    """Half of the scores are an exact 0 or 1, as a small forest gives them."""
    score = np.clip(np.round(1.6 * uniform("ends", 700) - 0.3, 2), 0, 1)
    y = (uniform("ends labels", 700) < 0.1 + 0.75 * score).astype(int)
    return Rows(score, y, np.linspace(0, 1, 41))


def extreme():
    """Log-odds at hundreds in two columns, as naive Bayes gives them."""
    u = 80.0 * normal("extreme", 900)
    y = (uniform("extreme labels", 900) < expit(0.4 * np.sign(u) * np.sqrt(np.abs(u)))).astype(int)
    grid = np.linspace(-300, 300, 37)
    return Rows(np.column_stack([expit(-u), expit(u)]), y, np.column_stack([expit(-grid), expit(grid)]))


def margins():
    x = 3.0 * normal("margins", 500) + 1.0
    y = (uniform("margin labels", 500) < expit(0.8 * x - 0.05 * x * x)).astype(int)
    return Rows(x, y, np.linspace(-15, 15, 37))


def separated():
    score = uniform("separated", 60)
    return Rows(score, (score > 0.4).astype(int), np.linspace(0, 1, 41))


def few():
    return Rows(np.array([0.2, 0.7, 0.9]), np.array([0, 1, 1]), np.linspace(0, 1, 21))


def many_rows():
    """More distinct scores than a histogram keeps apart."""
    return wavy(12_000)


def weighted():
    return wavy(600, weight=10.0 ** (3.0 * uniform("weights", 600) - 2.0))


def classes(m, n, sharpness=2.0, seed="classes"):
    """Over-confident probabilities of ``m`` classes that are confused with their neighbours."""
    z = normal(seed, n, m)
    z[:, 0] += 0.5
    truth = softmax(0.9 * z + 0.3 * np.roll(z, 1, axis=1), axis=1)
    y = (uniform(seed + " labels", n, 1) > truth.cumsum(axis=1)).sum(axis=1).clip(max=m - 1)
    return Rows(softmax(sharpness * z, axis=1), y, softmax(3.0 * normal(seed + " grid", 12, m), axis=1))


def three():
    return classes(3, 700)


def logits():
    rows = classes(4, 600, seed="logits")
    return Rows(np.log(rows.scores) + 7.0, rows.y, np.log(rows.grid) - 2.0)


def one_absent():
    rows = classes(4, 500, seed="absent")
    return Rows(rows.scores, np.where(rows.y == 2, 1, rows.y), rows.grid)


def spline(**options):
    return lambda: SplineCalibrator(**options)


def paper(algorithm):
    return lambda: SplineCalibrator.paper(algorithm)


CASES: dict[str, tuple[Callable[[], Rows], Callable[[], Any]]] = {
    "default": (wavy, spline()),
    "default, weighted": (weighted, spline()),
    "default, rare positives": (rare, spline()),
    "default, heavy ties": (tied, spline()),
    "default, exact zeros and ones": (ends, spline()),
    "default, extreme scores in two columns": (extreme, spline()),
    "default, margins": (margins, spline()),
    "default, separated": (separated, spline()),
    "default, three rows": (few, spline()),
    "default, binned": (many_rows, spline()),
    "monotone": (wavy, spline(monotone=True)),
    "monotone, margins": (margins, spline(monotone=True)),
    "monotone, rough": (wavy, spline(monotone=True, smoothing=1e-7)),
    "brier": (wavy, spline(loss="brier")),
    "brier, monotone, heavy ties": (tied, spline(loss="brier", monotone=True)),
    "cross-validated": (wavy, spline(smoothing="cv", random_state=3)),
    "leave one out": (wavy, spline(smoothing="loo")),
    "leave one out, weighted, brier": (weighted, spline(smoothing="loo", loss="brier")),
    "fixed smoothing": (wavy, spline(smoothing=1e-4)),
    "a line": (rare, spline(smoothing=np.inf)),
    "many knots": (many_rows, spline(n_knots=100, smoothing=1e-5)),
    "given knots": (wavy, spline(knots=[0.05, 0.2, 0.5, 0.8, 0.95])),
    "compact logit": (ends, spline(transform="compact_logit")),
    "asinh logit": (extreme, spline(transform="asinh_logit")),
    "probabilities as they are": (wavy, spline(transform="identity")),
    "paper, algorithm 1": (lambda: wavy(150), paper(1)),
    "ridge": (ends, spline(penalty="ridge", smoothing=1e-2)),
    "structured": (three, spline()),
    "structured, monotone": (three, spline(monotone=True)),
    "structured, logits": (logits, spline()),
    "structured, 40 classes": (lambda: classes(40, 800, seed="forty"), spline()),
    "structured, a class absent": (one_absent, spline()),
    "one against the rest": (three, spline(multiclass="ovr")),
    "one against the rest, 12 classes": (lambda: classes(12, 600, seed="twelve"), spline(multiclass="ovr")),
    "paper, algorithm 3": (lambda: classes(3, 100), paper(3)),
    "sigmoid": (wavy, SigmoidCalibrator),
    "isotonic": (tied, IsotonicCalibrator),
    "beta": (weighted, BetaCalibrator),
    "temperature": (logits, TemperatureCalibrator),
    "clipping": (ends, ClippingCalibrator),
}
