"""Fits of challenging data next to simple methods.

A result fails if its expected loss on new rows exceeds that of the best simple method
by more than ``LIMIT`` nats, and no warning was given. Simple methods are the raw
scores, the default without segments and groups ("pooled"), Platt's sigmoid and a
temperature; a curve for each class ("ovr") is not compared with the last. A fit with
segments also fails if it is worse on its own rows than the pooled curve.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from benchmarks.stress.challenges import Challenge, challenge_at
from calspline import SigmoidCalibrator, SplineCalibrator, TemperatureCalibrator

Array = NDArray[np.float64]

LIMIT = 0.01
IN_SAMPLE_LIMIT = 0.002
"""Nats a row that segments may lose on their own rows: labels are weighted."""
TINY = 1e-15
UNRELATED = ("segments that the fit has not seen", "scores are lower where")
"""Warnings that say nothing about the quality of a fit."""


class Verdict(NamedTuple):
    """Expected losses of ours and of simple methods, in nats, and what ours warned of."""

    family: str
    name: str
    seed: int
    ours: float
    simple: dict[str, float]
    in_sample: float
    arguments: tuple[str, ...]
    warned: tuple[str, ...]

    @property
    def best(self) -> str:
        """The simple method with the least loss."""
        return min(self.simple, key=lambda name: self.simple[name])

    @property
    def harm(self) -> float:
        """By how much our loss exceeds that of the best simple method."""
        return self.ours - self.simple[self.best]

    @property
    def harmed(self) -> bool:
        """Whether the harm is large."""
        return not (self.harm <= LIMIT and self.in_sample <= IN_SAMPLE_LIMIT)

    @property
    def failed(self) -> bool:
        """Whether the harm is large, and came without a warning."""
        return self.harmed and not self.warned

    @property
    def gain_over_pooled(self) -> float:
        """By how much the loss is below that of the pooled curve, if there is one."""
        return self.simple.get("pooled", self.ours) - self.ours


def expected_loss(truth: Array, p: Array) -> float:
    """Mean log-loss to be expected of predictions, given true probabilities."""
    p = np.clip(p, TINY, 1.0 - TINY)
    if truth.ndim == 1:
        return float(-np.mean(truth * np.log(p) + (1.0 - truth) * np.log1p(-p)))
    return float(-np.mean((truth * np.log(p)).sum(axis=1)))


NUMBERS = {
    "segments": 2000,
    "confounded columns": 600,
    "segments of classes": 400,
    "groups": 100,
    "weights": 300,
    "one curve": 500,
    "small logits": 150,
}
"""How many challenges of each family there are; the first three, with ``by``, make 3,000."""
REPEATS = {"groups": 10}
"""How often rows are drawn anew: one group may happen to be like all others."""


def verdict_at(family: str, seed: int) -> Verdict:
    """The verdict on the challenge of a seed; losses are means over its repeats."""
    verdicts = []
    for repeat in range(REPEATS.get(family, 1)):
        verdicts.append(judge(challenge_at(family, seed, repeat), seed))
    simple = {}
    for name in verdicts[0].simple:
        simple[name] = float(np.mean([each.simple[name] for each in verdicts]))
    return verdicts[0]._replace(
        ours=float(np.mean([each.ours for each in verdicts])),
        simple=simple,
        in_sample=max(each.in_sample for each in verdicts),
        warned=tuple(message for each in verdicts for message in each.warned),
    )


def run(share: float, *, first: int = 0, show: bool = True) -> list[Verdict]:
    """The verdicts on this share of all challenges, of seeds from ``first`` on."""
    verdicts = []
    for family, number in NUMBERS.items():
        for seed in range(first, first + round(share * number)):
            verdict = verdict_at(family, seed)
            verdicts.append(verdict)
            if verdict.failed:
                print(
                    f"{seed} {verdict.name}: {verdict.harm:.4f} behind {verdict.best}"
                )
        if show:
            print(f"{family}: {round(share * number)} challenges", flush=True)
    return verdicts


def judge(challenge: Challenge, seed: int) -> Verdict:
    """Fit ours and the simple methods, and compare their expected losses."""
    new = challenge.new
    by = challenge.arguments.get("by")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        cal = SplineCalibrator(**challenge.options)
        cal.fit(challenge.scores, challenge.y, **challenge.arguments)
        p = predict(cal, new.scores, new.by)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        simple = simple_predictions(challenge)
        in_sample = 0.0
        if by is not None:
            fitted = predict(cal, challenge.scores, by)
            in_sample = worse_in_sample(challenge, fitted)
    messages = [str(each.message) for each in caught]
    return Verdict(
        challenge.family,
        challenge.name,
        seed,
        ours=expected_loss(new.truth, p),
        simple={name: expected_loss(new.truth, q) for name, q in simple.items()},
        in_sample=in_sample,
        arguments=tuple(challenge.arguments),
        warned=tuple(text for text in messages if not is_unrelated(text)),
    )


def is_unrelated(message: str) -> bool:
    """Whether a warning says nothing about the quality of a fit."""
    return any(part in message for part in UNRELATED)


def predict(cal: Any, scores: Array, by: Any) -> Array:
    """Probabilities of the second class, or of all if there are more."""
    given = {} if by is None else {"by": by}
    p = cal.predict_proba(scores, **given)
    return np.asarray(p[:, 1] if p.shape[1] == 2 else p)


def fit_pooled(challenge: Challenge) -> SplineCalibrator:
    """The default without segments and groups; only ratios of weights count."""
    cal = SplineCalibrator(**challenge.options | {"weights": "importance"})
    weight = challenge.arguments.get("sample_weight")
    return cal.fit(challenge.scores, challenge.y, weight)


def worse_in_sample(challenge: Challenge, fitted: Array) -> float:
    """By how much the loss on the fitted rows exceeds that of the pooled curve."""
    pooled = predict(fit_pooled(challenge), challenge.scores, None)
    y = challenge.y
    labels = np.eye(fitted.shape[1])[y] if fitted.ndim == 2 else y.astype(np.float64)
    return expected_loss(labels, fitted) - expected_loss(labels, pooled)


def simple_predictions(challenge: Challenge) -> dict[str, Array]:
    """What simple methods, fitted to the same rows, say of the new ones."""
    new = challenge.new.scores
    weight = challenge.arguments.get("sample_weight")
    predictions = {"raw": raw(challenge, new)}
    if challenge.arguments:
        predictions["pooled"] = predict(fit_pooled(challenge), new, None)
    rivals: dict[str, Any] = {"Platt": SigmoidCalibrator()}
    if challenge.options.get("multiclass") != "ovr":
        rivals["temperature"] = TemperatureCalibrator()
    for name, rival in rivals.items():
        rival.fit(challenge.scores, challenge.y, weight)
        predictions[name] = predict(rival, new, None)
    return predictions


def raw(challenge: Challenge, scores: Array) -> Array:
    """The scores as they are: probabilities, or margins and logits as log-odds."""
    if scores.ndim == 2:
        inside = np.allclose(scores.sum(axis=1), 1.0)
        return np.asarray(scores if inside else softmax(scores, axis=1))
    margins = bool(challenge.scores.min() < 0.0 or challenge.scores.max() > 1.0)
    return np.asarray(expit(scores) if margins else scores)
