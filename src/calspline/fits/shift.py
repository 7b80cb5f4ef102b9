"""Shifts of the base rate: given, or estimated from scores without labels.

If events become more or less frequent, but rows of either class have the scores they
always had (*label shift*), the probability ``P_j`` of a class becomes proportional to
``P_j r_j``, with ``r_j`` its new share divided by the one that the probabilities were
made for. Rows that were kept with probability ``k_j`` before the fit are the same case,
with ``r_j = 1 / k_j``.

**From scores alone** the new shares maximise the likelihood of the scores,

    sum_i w_i log(sum_j P_ij pi'_j / pi_j),

a concave function. For two classes its derivative has one zero; for more,
expectation-maximisation finds it (Saerens, Latinne and Decaestecker 2002). The variance
of the shares has two parts: the scores are a sample, by the information ``sum_i w_i
u_i^2`` with ``u_i`` the terms of the derivative, and the calibrator has errors of its
own. An error of the log-odds that is the same at all scores does no harm, since the
base rate of the fit has it, too; so errors are counted from their mean over the rows of
the fit, which are the new ones, weighted by how much more frequent their scores were
then. (What is left is chance in which scores the rows of the fit had.)

**Whether a mere shift explains the new scores** is a chi-square test. A calibrator
remembers how many rows of each class were in 20 bins of equal weight of its probability
(of three or more classes: of its highest). With the new shares that gives the expected
numbers of new rows. Both samples count in the variance.

References
----------
M. Saerens, P. Latinne and C. Decaestecker, *Adjusting the outputs of a classifier to
new a priori probabilities: a simple procedure*, Neural Computation 14, 2002.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from calspline._arrays import Array
from calspline._input.options import check_number
from calspline._user_warnings import warn_user
from calspline.histograms.score_histogram import ScoreHistogram
from calspline.maps.model import ADVICE, Model
from calspline.maps.reference import Reference
from calspline.maps.shifted import Shifted, log_odds_error

LEAST_SHARE = 1e-9
"""Smallest share of a class that does not occur in a fit."""


@dataclass(frozen=True, eq=False)
class Unlabelled:
    """Calibrated probabilities of rows whose labels are not known.

    Of two classes ``p`` has the probability of the second for each row, of more a
    column for each class. ``noise``, of shape (r, n), has independent errors of the
    log-odds, one standard deviation each: none (r = 0) where a calibrator does not know
    its own uncertainty.
    """

    p: Array
    weight: Array
    noise: Array

    @property
    def total(self) -> float:
        """Sum of the weights."""
        return float(self.weight.sum())


def check_unlabelled(
    model: Model, given: Any, name: str, advice: str = ADVICE
) -> Unlabelled:
    """Take a histogram, whose labels do not count, or scores as for ``calibrate``."""
    weight = None
    if isinstance(given, ScoreHistogram):
        if model.n_classes > 2:
            raise ValueError(
                f"{name} must be an array of scores, as a histogram is of two classes"
            )
        kind = model.kind.value_kind
        if given.kind != kind:
            raise ValueError(
                f"{name} must hold {kind} scores, as the calibrator takes; "
                f"it has {given.kind}"
            )
        histogram = given.in_rows()
        given = histogram.scores
        weight = histogram.positives + histogram.negatives
    model.warn_without_segments()
    scores = model.check(given, advice)
    p = model.map.probabilities(scores)
    if not len(p):
        raise ValueError(f"{name} must hold rows; it is empty")
    if weight is None:
        weight = np.ones(len(p))
    return Unlabelled(p, weight, model.map.noise(scores))


def shift_model(
    model: Model,
    base_rate: Any = None,
    kept: Any = None,
    unlabelled: Any = None,
    advice: str = ADVICE,
) -> Model:
    """The model for other base rates; exactly one of the three says which.

    ``kept`` is applied on top of an earlier shift. The others replace it, and its
    uncertainty: they say what the base rate is, whatever it was taken for before.
    """
    given = [value for value in (base_rate, kept, unlabelled) if value is not None]
    if len(given) != 1:
        raise ValueError("shifted takes one of base_rate, kept and unlabelled")
    if kept is not None:
        return replace(model, map=_before_sampling(model, kept))
    reference = model.reference
    if reference is None:
        raise ValueError(
            "this calibrator does not know the base rate of its fit; "
            "use kept, or fit it again"
        )
    if base_rate is not None:
        rates = check_rates(base_rate, model.classes)
        log_ratios = _log_ratios(rates, reference.base_rates)
        return replace(model, map=Shifted(model.base, log_ratios, 0.0, rates))
    return replace(
        model, map=_estimated_shift(model.unshifted(), reference, unlabelled, advice)
    )


def _before_sampling(model: Model, kept: Any) -> Shifted:
    """The shift to the data before rows were left out, or repeated."""
    if not isinstance(kept, Mapping):
        raise TypeError(
            "kept must be a mapping of label to share, such as {0: 0.1, 1: 1.0}; "
            f"got {kept!r}"
        )
    ratios = 1.0 / _by_label(kept, model.classes, "kept")
    variance = 0.0
    if model.shift is not None:
        ratios = ratios * np.exp(model.shift.log_ratios)
        variance = model.shift.variance
    reference = model.reference
    rates = None
    if reference is not None:
        rates = reference.base_rates * ratios / float(reference.base_rates @ ratios)
    return Shifted(model.base, np.log(ratios), variance, rates)


def _log_ratios(new: Array, old: Array) -> Array:
    """Logarithms of the ratios of shares; zero for a class that the fit did not see."""
    return np.log(np.divide(new, old, out=np.ones_like(new), where=old > 0.0))


MIN_P_VALUE = 0.01
"""Below this, another base rate does not explain new scores."""


def _estimated_shift(
    model: Model, reference: Reference, unlabelled: Any, advice: str
) -> Shifted:
    """The shift that explains scores without labels best."""
    old = reference.base_rates
    rows = check_unlabelled(model, unlabelled, "unlabelled", advice)
    effect = model.fit.design_effect
    n_fitted = float(reference.counts.sum()) / effect
    rates, errors = estimate(rows, np.maximum(old, LEAST_SHARE), n_fitted)
    p = rows.p if rows.p.ndim == 1 else rows.p.max(axis=1)
    p_value = reference.p_value(p, rows.weight, rates, effect)
    if p_value < MIN_P_VALUE:
        warn_user(
            "another base rate does not explain the scores in unlabelled "
            f"(p-value {p_value:.2g}): rows of the same class have other scores than "
            "before, and the shifted calibrator is not to be trusted; get labels and "
            "refit"
        )
    variance = 0.0
    if len(rates) == 2:
        variance = log_odds_error(float(rates[1]), float(errors[1])) ** 2
    return Shifted(
        model.base, _log_ratios(rates, old), variance, rates, errors, p_value
    )


def check_rates(value: Any, classes: NDArray[Any]) -> Array:
    """New shares of the classes: that of the second of two, or a mapping by label."""
    if not isinstance(value, Mapping):
        if len(classes) > 2:
            raise TypeError(
                f"base_rate must be a mapping of label to share for {len(classes)} "
                f"classes; got {value!r}"
            )
        rate = check_number(value, "base_rate", above=0.0, below=1.0)
        return np.array([1.0 - rate, rate])
    rates = _by_label(value, classes, "base_rate")
    if abs(rates.sum() - 1.0) > 1e-6:
        raise ValueError(
            f"base_rate must be shares that sum to 1; they sum to {rates.sum():g}"
        )
    return np.asarray(rates / rates.sum())


def _by_label(given: Mapping[Any, Any], classes: NDArray[Any], name: str) -> Array:
    labels = classes.tolist()
    if set(given) != set(labels):
        raise ValueError(
            f"{name} must have a number for each of the classes {labels!r}; "
            f"got {list(given)!r}"
        )
    return np.array(
        [
            check_number(given[label], f"{name}[{label!r}]", above=0.0)
            for label in labels
        ]
    )


def estimate(rows: Unlabelled, rates: Array, fitted: float) -> tuple[Array, Array]:
    """Shares of the classes among rows without labels, and their standard errors.

    ``rates`` are the shares that the probabilities are for, and ``fitted`` is the
    number of rows that these were found in: the shares among all rows differ from them
    by what chance does to the scores of so many.
    """
    if rows.p.ndim == 2:
        return _estimate_many(rows.p / rates, rows.weight, rates)
    old = float(rates[1])
    w = rows.weight
    ratio = (
        rows.p / (1.0 - rows.p) * (1.0 - old) / old
    )  # of the densities of scores of either class

    def terms(rate: float) -> Array:
        return np.asarray((ratio - 1.0) / (1.0 + rate * (ratio - 1.0)))

    low = 1.0 / (rows.total + 2.0)  # the rule of succession
    high = 1.0 - low
    if w @ terms(low) <= 0.0:
        new = low
    elif w @ terms(high) >= 0.0:
        new = high
    else:
        new = float(
            scipy.optimize.brentq(
                lambda rate: float(w @ terms(rate)), low, high, xtol=1e-15, rtol=1e-12
            )
        )
    information = float(w @ terms(new) ** 2)
    if information == 0.0:  # scores that say nothing
        return np.array([1.0 - new, new]), np.array([1.0, 1.0])
    mixed = 1.0 + new * (ratio - 1.0)
    # The rows of the fit: the same scores, as frequent as at the old base rate.
    then = w / (new * rows.p / old + (1.0 - new) * (1.0 - rows.p) / (1.0 - old))
    level = (
        rows.noise @ (then * rows.p * (1.0 - rows.p)) / (then.sum() * old * (1.0 - old))
    )
    pull = w * ratio / mixed**2 / information
    moved = (rows.noise - level[:, None]) @ pull
    chance = (
        float(then @ (rows.p - old) ** 2 / then.sum())
        / fitted
        / (old * (1.0 - old)) ** 2
    )
    error = float(
        np.sqrt(1.0 / information + (moved**2).sum() + chance * pull.sum() ** 2)
    )
    return np.array([1.0 - new, new]), np.array([error, error])


MAX_STEPS, STEP = 10_000, 1e-10


def _estimate_many(ratio: Array, w: Array, start: Array) -> tuple[Array, Array]:
    """Expectation-maximization.

    ``ratio`` has the densities of scores by class, up to a factor for each row.
    """
    share = w / w.sum()
    new = start
    for _ in range(MAX_STEPS):
        joint = ratio * new
        before = new
        new = share @ (joint / joint.sum(axis=1, keepdims=True))
        if np.abs(new - before).max() < STEP:
            break
    new = np.maximum(new, LEAST_SHARE)
    new /= new.sum()
    u = ratio / (ratio @ new)[:, None]
    # Shares sum to one: the information in the directions that keep the sum.
    Z = np.linalg.svd(np.ones((1, len(new))))[2][1:].T
    covariance = Z @ np.linalg.pinv(Z.T @ ((u.T * w) @ u) @ Z, hermitian=True) @ Z.T
    return new, np.sqrt(np.maximum(np.diag(covariance), 0.0))
