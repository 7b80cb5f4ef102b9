"""Another base rate: how probabilities change with it, and what scores without labels say of it.

If events become more or less frequent, but rows of either class have the scores they always had (*label shift*), the
probability ``P_j`` of a class becomes proportional to ``P_j r_j``, with ``r_j`` its new share divided by the one that
the probabilities were made for. Rows that were kept with probability ``k_j`` before the fit are the same case, with
``r_j = 1 / k_j``.

**From scores alone** the new shares maximise the likelihood of the scores,

    sum_i w_i log(sum_j P_ij pi'_j / pi_j),

a concave function. For two classes its derivative has one zero; for more, expectation-maximisation finds it (Saerens,
Latinne and Decaestecker 2002). The variance of the shares has two parts: the scores are a sample, by the information
``sum_i w_i u_i^2`` with ``u_i`` the terms of the derivative, and the calibrator has errors of its own. An error
of the log-odds that is the same at all scores does no harm, since the base rate of the fit has it, too; so errors are
counted from their mean over the rows of the fit, which are the new ones, weighted by how much more frequent their
scores were then. (What is left is chance in which scores the rows of the fit had.)

**Whether a mere shift explains the new scores** is a chi-square test. A calibrator remembers how many rows of
each class were in 20 bins of equal weight of its probability (of three or more classes: of its highest). With the new
shares that gives the expected numbers of new rows. Both samples count in the variance.

References
----------
M. Saerens, P. Latinne and C. Decaestecker, *Adjusting the outputs of a classifier to new a priori probabilities: a
simple procedure*, Neural Computation 14, 2002.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy
from numpy.typing import NDArray

from calspline.arrays import Array, Counts, run_starts
from calspline.expression import Constant, Program, call, name
from calspline.histogram import ScoreHistogram
from calspline.labels import warn_user
from calspline.options import BOOLEAN, Matrix, Number, Numbers, Record, check_number, optional

if TYPE_CHECKING:
    from calspline.calibrators.base import BaseCalibrator

BINS = 20
LEAST = 1e-15
LEAST_SHARE = 1e-9
"""Of a class that a fit did not see."""
TINY = 1e-12
MIN_P_VALUE = 0.01
"""Below this, another base rate does not explain new scores."""
MAX_STEPS, STEP = 10_000, 1e-10

REFERENCE = Record("reference", {"edges": Numbers(increasing=True, most=BINS), "counts": Matrix()})
SHIFT = Record(
    "shift",
    {
        "log_ratios": Numbers(least=2),
        "variance": Number(not_negative=True),
        "base_rates": optional(Numbers(least=2, positive=True)),
        "errors": optional(Numbers(least=2, not_negative=True)),
        "p_value": optional(Number(not_negative=True)),
        "inside": BOOLEAN,
    },
    added={"inside": False},
)


@dataclass(frozen=True, eq=False)
class Reference:
    """Weight of each class in bins of the calibrated (highest) probability of the rows of a fit, between ``edges``."""

    edges: Array
    counts: Array

    @classmethod
    def of_rows(cls, p: Array, codes: NDArray[np.intp], weight: Array | None, n_classes: int = 2) -> Reference:
        """Bins of equal weight of the calibrated probabilities of the rows of a fit, by class."""
        w = np.ones(len(p)) if weight is None else weight
        table = Counts.from_sums(p, w, np.zeros(len(p)))
        first = run_starts(table.equal_weight_bins(BINS))[1:]
        edges = np.unique(0.5 * (table.x[first - 1] + table.x[first]))
        cells = np.searchsorted(edges, p) * n_classes + codes
        counts = np.bincount(cells, w, minlength=(len(edges) + 1) * n_classes)
        return cls(edges, counts.reshape(-1, n_classes).astype(np.float64, copy=False))

    @property
    def base_rates(self) -> Array:
        """Share of each class."""
        return np.asarray(self.counts.sum(axis=0) / self.counts.sum())

    def p_value(self, p: Array, weight: Array, rates: Array, design_effect: float = 1.0) -> float:
        """P-value of "the rows differ from those of the fit by the shares of their classes alone".

        ``design_effect`` is how many rows of the fit are worth one, as they depend on each other.
        """
        seen = np.bincount(np.searchsorted(self.edges, p), weight, minlength=len(self.counts))
        share = seen.sum() / self.counts.sum()

        def statistic(rates: Array) -> float:
            ratios = np.divide(rates, self.base_rates, out=np.zeros_like(rates), where=self.base_rates > 0.0)
            variance = share * self.counts @ ratios + design_effect * share**2 * self.counts @ ratios**2
            return float(((seen - share * self.counts @ ratios) ** 2 / np.maximum(variance, TINY)).sum())

        least = statistic(rates)
        if len(rates) == 2:
            # The shares that fit these bins best: errors of the probabilities do not matter then.
            best = scipy.optimize.minimize_scalar(
                lambda rate: statistic(np.array([1.0 - rate, rate])), bounds=(0.0, 1.0), method="bounded"
            )
            least = min(least, float(best.fun))
        return float(scipy.special.chdtrc(max(len(seen) - 2, 1), least))

    @classmethod
    def from_dict(cls, read: dict[str, Any], n_classes: int) -> Reference:
        """What a file says, checked as ``REFERENCE``."""
        edges, counts = read["edges"], read["counts"]
        if counts.shape != (len(edges) + 1, n_classes) or counts.min() < 0.0 or not counts.any():
            raise ValueError("counts must have a row for each bin and a column for each class, none negative")
        return cls(edges, counts)


@dataclass(frozen=True, eq=False)
class Shift:
    """How the base rates of a calibrator were moved.

    Attributes
    ----------
    base_rates : array of shape (n_classes,) or None
        The shares of the classes that its probabilities are for, in the order of ``classes_``. None where
        neither they nor those of the fit are known.
    errors : array of shape (n_classes,) or None
        Standard errors of shares that were estimated.
    p_value : float or None
        Of "a mere shift of the base rates explains the new scores", where they were estimated.
    """

    log_ratios: Array
    """What is added to the log-probabilities."""
    variance: float
    """Of the shift of the log-odds of two classes."""
    base_rates: Array | None = None
    errors: Array | None = None
    p_value: float | None = None
    inside: bool = False
    """Whether curves have the shift in them already, so that nothing is left to do at the end."""

    @property
    def log_odds(self) -> float:
        """What is added to the log-odds of two classes."""
        return float(self.log_ratios[1] - self.log_ratios[0])

    @property
    def base_rate(self) -> float:
        """The share of the second of two classes."""
        return float("nan") if self.base_rates is None else float(self.base_rates[1])

    def limits(self, level: float = 0.95) -> Array:
        """Limits of the shares of the classes, shape (n_classes, 2); NaN where they were not estimated."""
        check_number(level, "level", above=0.0, below=1.0)
        if self.base_rates is None or self.errors is None:
            return np.full((len(self.log_ratios), 2), np.nan)
        reach = float(scipy.special.ndtri(0.5 + 0.5 * level)) * self.errors[:, None] * np.array([-1.0, 1.0])
        return np.asarray(np.clip(self.base_rates[:, None] + reach, 0.0, 1.0))

    def apply(self, p: Array) -> Array:
        """Probabilities for the new base rates, from those for the old ones."""
        if self.inside:
            return p
        if p.ndim == 1:
            odds = float(np.exp(self.log_odds))
            return np.asarray(np.clip(odds * p / (odds * p + (1.0 - p)), LEAST, 1.0 - LEAST))
        moved = p * np.exp(self.log_ratios)
        return np.asarray(moved / moved.sum(axis=1, keepdims=True))

    @property
    def log_odds_errors(self) -> Array:
        """Standard errors of the log-odds of each share, zero where shares were given."""
        if self.base_rates is None or self.errors is None:
            return np.zeros(len(self.log_ratios))
        return np.array([log_odds_error(*each) for each in zip(self.base_rates, self.errors, strict=True)])

    def apply_band(self, band: Array, level: float) -> Array:
        """Limits of the probability of the second of two classes, moved and, for the shift's own error, widened."""
        if self.inside:
            return band
        reach = float(scipy.special.ndtri(0.5 + 0.5 * level) * np.sqrt(self.variance)) * np.array([-1.0, 1.0])
        return np.asarray(scipy.special.expit(scipy.special.logit(band) + self.log_odds + reach))

    def program(self, program: Program) -> Program:
        """The same for what exports write."""
        if self.inside:
            return program
        steps = [*program.steps, ("unshifted", program.result)]
        before = name("unshifted")
        if len(self.log_ratios) == 2:
            odds = float(np.exp(self.log_odds))
            return Program([*steps, ("odds", odds * before)], name("odds") / (name("odds") + (1.0 - before)))
        ratios = np.exp(self.log_ratios).tolist()
        steps.append(("shifted", Constant("RATIOS", ratios).expression * before))
        return Program(steps, call("normalise", name("shifted")))

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and lists."""
        return SHIFT.described(self)

    @classmethod
    def from_dict(cls, read: dict[str, Any], n_classes: int) -> Shift:
        """What :meth:`to_dict` described, checked as ``SHIFT``."""
        for key in ("log_ratios", "base_rates", "errors"):
            if read[key] is not None and len(read[key]) != n_classes:
                raise ValueError(f"{key} must have a number for each class")
        return cls(**read)


@dataclass(frozen=True, eq=False)
class Unlabelled:
    """Calibrated probabilities of rows whose labels are not known.

    Of two classes ``p`` has the probability of the second for each row, of more a column for each class. ``noise``, of
    shape (r, n), has independent errors of the log-odds, one standard deviation each: none (r = 0) where a calibrator
    does not know its own uncertainty.
    """

    p: Array
    weight: Array
    noise: Array

    @property
    def total(self) -> float:
        """Sum of the weights."""
        return float(self.weight.sum())


def check_unlabelled(calibrator: BaseCalibrator, given: Any, name: str) -> Unlabelled:
    """Take a histogram, whose labels do not count, or scores as for ``calibrate``."""
    if isinstance(given, ScoreHistogram):
        if len(calibrator.classes_) > 2:
            raise ValueError(f"{name} must be an array of scores, as a histogram is of two classes")
        if given.kind != calibrator.kind_:
            raise ValueError(
                f"{name} must hold {calibrator.kind_} scores, as the calibrator takes; it has {given.kind}"
            )
        given = given.in_rows()
        scores, weight = given.scores, given.positives + given.negatives
    else:
        scores, weight = given, None
    calibrator.warn_without_segments()
    p, _ = calibrator._probability(scores)
    if not len(p):
        raise ValueError(f"{name} must hold rows; it is empty")
    noise = calibrator.noise(scores) if p.ndim == 1 else np.empty((0, len(p)))
    return Unlabelled(p, np.ones(len(p)) if weight is None else weight, noise)


def find_shift(
    calibrator: BaseCalibrator, base_rate: Any, kept: Any, unlabelled: Any, *, earlier: Shift | None = None
) -> Shift:
    """The shift that one of the three says of a calibrator that has none.

    ``kept`` is on top of an ``earlier`` one. The others replace it, and its uncertainty: they say what the base rate
    is, whatever it was taken for before.
    """
    if sum(value is not None for value in (base_rate, kept, unlabelled)) != 1:
        raise ValueError("shifted takes one of base_rate, kept and unlabelled")
    reference, classes = calibrator.reference_, calibrator.classes_
    rates = None if reference is None else reference.base_rates
    errors, p_value, variance = None, None, 0.0
    if kept is not None:
        if not isinstance(kept, Mapping):
            raise TypeError(f"kept must be a mapping of label to share, such as {{0: 0.1, 1: 1.0}}; got {kept!r}")
        ratios = 1.0 / _by_label(kept, classes, "kept")
        if earlier is not None:
            ratios, variance = ratios * np.exp(earlier.log_ratios), earlier.variance
        new = None if rates is None else rates * ratios / float(rates @ ratios)
    else:
        if reference is None or rates is None:
            raise ValueError("this calibrator does not know the base rate of its fit; use kept, or fit it again")
        if base_rate is not None:
            new = check_rates(base_rate, classes)
        else:
            rows = check_unlabelled(calibrator, unlabelled, "unlabelled")
            effect = float(getattr(calibrator, "design_effect_", 1.0))
            new, errors = estimate(rows, np.maximum(rates, LEAST_SHARE), float(reference.counts.sum()) / effect)
            p = rows.p if rows.p.ndim == 1 else rows.p.max(axis=1)
            p_value = reference.p_value(p, rows.weight, new, effect)
            if p_value < MIN_P_VALUE:
                warn_user(
                    f"another base rate does not explain the scores in unlabelled (p-value {p_value:.2g}): rows of "
                    "the same class have other scores than before, and the shifted calibrator is not to be trusted; "
                    "get labels and refit"
                )
            if len(new) == 2:
                variance = log_odds_error(float(new[1]), float(errors[1])) ** 2
        ratios = np.divide(new, rates, out=np.ones_like(new), where=rates > 0.0)
    return Shift(np.log(ratios), variance, new, errors, p_value)


def check_rates(value: Any, classes: NDArray[Any]) -> Array:
    """New shares of the classes: a number, that of the second of two, or a mapping by label."""
    if not isinstance(value, Mapping):
        if len(classes) > 2:
            raise TypeError(f"base_rate must be a mapping of label to share for {len(classes)} classes; got {value!r}")
        rate = check_number(value, "base_rate", above=0.0, below=1.0)
        return np.array([1.0 - rate, rate])
    rates = _by_label(value, classes, "base_rate")
    if abs(rates.sum() - 1.0) > 1e-6:
        raise ValueError(f"base_rate must be shares that sum to 1; they sum to {rates.sum():g}")
    return np.asarray(rates / rates.sum())


def _by_label(given: Mapping[Any, Any], classes: NDArray[Any], name: str) -> Array:
    labels = classes.tolist()
    if set(given) != set(labels):
        raise ValueError(f"{name} must have a number for each of the classes {labels!r}; got {list(given)!r}")
    return np.array([check_number(given[label], f"{name}[{label!r}]", above=0.0) for label in labels])


def estimate(rows: Unlabelled, rates: Array, fitted: float) -> tuple[Array, Array]:
    """Shares of the classes among rows without labels, and their standard errors.

    ``rates`` are the shares that the probabilities are for, and ``fitted`` is the number of rows that these were found
    in: the shares among all rows differ from them by what chance does to the scores of so many.
    """
    if rows.p.ndim == 2:
        return _estimate_many(rows.p / rates, rows.weight, rates)
    old, w = float(rates[1]), rows.weight
    ratio = rows.p / (1.0 - rows.p) * (1.0 - old) / old  # of the densities of scores of either class

    def terms(rate: float) -> Array:
        return np.asarray((ratio - 1.0) / (1.0 + rate * (ratio - 1.0)))

    low = 1.0 / (rows.total + 2.0)  # the rule of succession
    high = 1.0 - low
    if w @ terms(low) <= 0.0:
        new = low
    elif w @ terms(high) >= 0.0:
        new = high
    else:
        new = float(scipy.optimize.brentq(lambda rate: float(w @ terms(rate)), low, high, xtol=1e-15, rtol=1e-12))
    information = float(w @ terms(new) ** 2)
    if information == 0.0:  # scores that say nothing
        return np.array([1.0 - new, new]), np.array([1.0, 1.0])
    mixed = 1.0 + new * (ratio - 1.0)
    # The rows of the fit: the same scores, as frequent as at the old base rate.
    then = w / (new * rows.p / old + (1.0 - new) * (1.0 - rows.p) / (1.0 - old))
    level = rows.noise @ (then * rows.p * (1.0 - rows.p)) / (then.sum() * old * (1.0 - old))
    pull = w * ratio / mixed**2 / information
    moved = (rows.noise - level[:, None]) @ pull
    chance = float(then @ (rows.p - old) ** 2 / then.sum()) / fitted / (old * (1.0 - old)) ** 2
    error = float(np.sqrt(1.0 / information + (moved**2).sum() + chance * pull.sum() ** 2))
    return np.array([1.0 - new, new]), np.array([error, error])


def log_odds_error(rate: float, error: float) -> float:
    """Standard error of the log-odds of a share, half as far as twice that of the share reaches to either side.

    Of a share that may be zero the log-odds have no lower limit; a tenth of the share counts as one.
    """
    rate, reach = min(rate, 1.0 - rate), min(2.0 * error, 1.0)
    ends = max(rate - reach, 0.1 * rate), min(rate + reach, 1.0 - 0.1 * rate)
    return 0.25 * float(scipy.special.logit(ends[1]) - scipy.special.logit(ends[0]))


def _estimate_many(ratio: Array, w: Array, start: Array) -> tuple[Array, Array]:
    """Expectation-maximisation; ``ratio`` has the densities of scores by class, but for a factor of the row."""
    share, new = w / w.sum(), start
    for _ in range(MAX_STEPS):
        joint = ratio * new
        before, new = new, share @ (joint / joint.sum(axis=1, keepdims=True))
        if np.abs(new - before).max() < STEP:
            break
    new = np.maximum(new, LEAST_SHARE)
    new /= new.sum()
    u = ratio / (ratio @ new)[:, None]
    # Shares sum to one: the information in the directions that keep the sum.
    Z = np.linalg.svd(np.ones((1, len(new))))[2][1:].T
    covariance = Z @ np.linalg.pinv(Z.T @ ((u.T * w) @ u) @ Z, hermitian=True) @ Z.T
    return new, np.sqrt(np.maximum(np.diag(covariance), 0.0))
