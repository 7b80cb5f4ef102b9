"""One fit of one data set, and what is wrong with it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from benchmarks.stress.shapes import Rows
from calspline import SplineCalibrator
from calspline.fitting.newton import Newton, Solution
from calspline.multiclass.scale import MAX_EXPONENT, MAX_LOG_BETA
from calspline.transforms import log_odds_from_pair

Array = NDArray[np.float64]

MAX_STEPS = 200
"""Newton steps that any one fit, in a search or at its end, may take."""
MAX_HARM, MAX_HARM_AVERAGED, MAX_HARM_PER_CLASS = 1.0, 4.5, 3.0
PER_ROW, PER_ROW_MONOTONE = 1e-6, 1e-4
"""Nats, summed over all rows, by which the loss on the fitted rows may exceed that of the base rate: for two classes
beyond what the weak prior takes there, and of an averaged fit what eight priors can
take at most for leaving the scores alone, ``log 8 + log(128) / 2``; for more so much
per class, and in either case so much more per unit of weight (under constraints the
steps are solved to fewer digits). With the Brier loss: half the squared error."""
DOCUMENTED = (
    "all scores are equal",
    "scores are lower where",
    "scores lie between 0 and 100",
    "the class of the largest",
    "sample_weight sums to",
)
"""What data of these shapes rightly bring about: labels are turned round on purpose, and weights are tiny or huge."""

TWO_CLASSES: tuple[dict[str, Any], ...] = (
    {"monotone": True},
    {"loss": "brier"},
    {"smoothing": "cv"},
    {"loss": "brier", "monotone": True},
    {"smoothing": 0.0},
    {"smoothing": np.inf},
    {"penalty": "ridge", "smoothing": 1.0},
    {"n_knots": 200},
    {"scale": "identity"},
    {"monotone": True, "smoothing": 1e-8},
)
MORE_CLASSES: tuple[dict[str, Any], ...] = (
    {"multiclass": "ovr"},
    {"monotone": True},
    {"multiclass": "ovr", "monotone": True},
    {"smoothing": 1e-3},
    {"multiclass": "ovr", "loss": "brier"},
)


class Outcome(NamedTuple):
    """How a fit went."""

    name: str
    options: dict[str, Any]
    n: int
    steps: int
    harm: float
    problems: tuple[str, ...]


def options_at(seed: int, rows: Rows) -> dict[str, Any]:
    """The options that are tried beside the defaults."""
    choices = (
        MORE_CLASSES
        if rows.scores.ndim == 2 and rows.scores.shape[1] > 2
        else TWO_CLASSES
    )
    return choices[seed // 7 % len(choices)]


def trial(rows: Rows, options: dict[str, Any]) -> Outcome:
    """Fit, and look at everything that has to hold."""
    problems: list[str] = []
    cal = SplineCalibrator(**options)
    with warnings.catch_warnings(record=True) as said, counted() as steps:
        warnings.simplefilter("always")
        try:
            cal.fit(rows.scores, rows.y, rows.weight)
            p = cal.predict_proba(rows.scores)
        except Exception as error:
            # One margin among few rows that lie in [0, 1] is refused: it may be a
            # mistake.
            refused = str(error).startswith(
                "scores must be probabilities"
            ) and " 1 of " in str(error)
            failed = () if refused else (f"{type(error).__name__}: {error}",)
            return Outcome(rows.name, options, len(rows.y), 0, np.nan, failed)
    problems += [
        f"warned: {w.message}"
        for w in said
        if not str(w.message).startswith(DOCUMENTED)
    ]
    if not cal.converged_:
        problems.append("not converged")
    if max(steps, default=0) > MAX_STEPS:
        problems.append(f"{max(steps)} steps")
    if not np.isfinite(p).all() or p.min() <= 0.0 or p.max() >= 1.0:
        problems.append(f"probabilities from {p.min()} to {p.max()}")
    if np.abs(p.sum(axis=1) - 1.0).max() > 1e-12:
        problems.append("rows that do not sum to one")
    if options.get("monotone") and turned(rows.scores, p, ovr=bool(cal.curves_)):
        problems.append("not monotone")
    harm = harm_done(cal, rows, p)
    total = len(rows.y) if rows.weight is None else rows.weight.sum()
    averaged = (
        cal.smoothing == "reml" and cal.loss == "log" and cal.penalty == "curvature"
    )
    allowed = MAX_HARM_AVERAGED if averaged else MAX_HARM
    allowed = allowed if p.shape[1] == 2 else MAX_HARM_PER_CLASS * p.shape[1]
    allowed += total * (PER_ROW_MONOTONE if options.get("monotone") else PER_ROW)
    # Scores go through log-odds, and a Brier fit takes them back: they may move by a
    # rounding, which is all there is.
    exempt = options.get("loss") == "brier" and rows.name.startswith("within rounding")
    if not harm <= allowed and not exempt:
        problems.append(f"{harm:.3g} nats worse than the base rate")
    return Outcome(
        rows.name, options, len(rows.y), max(steps, default=0), harm, tuple(problems)
    )


@contextmanager
def counted() -> Iterator[list[int]]:
    """Newton steps of every minimisation that runs meanwhile."""
    steps: list[int] = []
    plain = Newton.minimum

    def recording(self: Newton, tolerance: float) -> Solution:
        solution = plain(self, tolerance)
        steps.append(solution.n_iter)
        return solution

    Newton.minimum = recording  # type: ignore[method-assign]
    try:
        yield steps
    finally:
        Newton.minimum = plain  # type: ignore[method-assign]


def turned(scores: NDArray[Any], p: Array, *, ovr: bool) -> bool:
    """Whether a larger score got a smaller probability, beyond rounding."""
    if (
        p.shape[1] > 2
    ):  # a curve for each class keeps its order over rows, but not once rows are made to sum to one
        ranked = np.take_along_axis(
            p, np.argsort(scores, axis=1, kind="stable"), axis=1
        )
        return not ovr and bool(np.diff(ranked, axis=1).min() < -1e-14)
    x = log_odds_from_pair(*scores.T) if scores.ndim == 2 else scores
    return bool(np.diff(p[np.argsort(x, kind="stable"), 1]).min() < -1e-14)


def harm_done(cal: SplineCalibrator, rows: Rows, p: Array) -> float:
    """Loss on the fitted rows less that of the base rates, summed, and less what the prior takes there.

    A structured fit that is monotone keeps every row's ranking and has no base rates:
    it is held to the flattest temperature that it may use.
    """
    w = np.ones(len(rows.y)) if rows.weight is None else rows.weight
    seen = w > 0.0
    w, p, scores = w[seen], p[seen], rows.scores[seen]
    codes = np.searchsorted(cal.classes_, rows.y[seen])
    at = np.arange(len(codes)), codes
    rates = np.bincount(codes, w, len(cal.classes_)) / w.sum()
    if cal.monotone is True and not cal.curves_:
        t = min(MAX_LOG_BETA, float(np.log(MAX_EXPONENT / np.log(len(rates)))))
        flat = softmax(
            np.exp(-t) * np.log(np.maximum(scores, np.exp(cal.structure_.scale.floor))),
            axis=1,
        )
        return float(w @ (np.log(flat[at]) - np.log(p[at]))) - 0.5 * t * t
    if cal.loss == "brier":
        one = np.eye(len(rates))[codes]
        excess = (
            0.25 * w @ (((p - one) ** 2).sum(axis=1) - ((rates - one) ** 2).sum(axis=1))
        )
    else:
        excess = w @ (np.log(rates[codes]) - np.log(p[at]))
    return float(excess) - prior_at_base_rate(cal, scores, w, float(rates[-1]))


def prior_at_base_rate(
    cal: SplineCalibrator, scores: NDArray[Any], w: Array, rate: float
) -> float:
    """``0.1 (a^2 + b^2)`` for the line ``x + a + b (x - mean) / sd`` that is constant at the base rate.

    That is what the documented prior takes for distrusting a model. Scores beyond the
    end knots count as those, here as in the fit. Margins have none: their prior is
    about the base rate itself. Nor has the paper's penalty.
    """
    if len(cal.classes_) > 2 or cal.penalty == "ridge":
        return 0.0
    curve = cal.curves_[0]
    transform = curve.transform
    if transform.name == "identity" and (
        cal.loss == "log" or scores.min() < 0.0 or scores.max() > 1.0
    ):
        return 0.0
    pair = scores.ndim == 2
    x = (
        transform.from_log_odds(log_odds_from_pair(*scores.T))
        if pair
        else transform(scores.astype(float))
    )
    x = np.clip(x, *(curve.origin + curve.unit * curve.breaks[[0, -1]]))
    mean = w @ x / w.sum()
    variance = w @ (x - mean) ** 2 / w.sum()
    level = rate if cal.loss == "brier" else np.log(rate / (1.0 - rate))
    weakened = min(1.0, 16.0 / variance) if variance > 0.0 else 1.0
    return float(0.1 * weakened * ((level - mean) ** 2 + variance))
