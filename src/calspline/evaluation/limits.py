"""Confidence limits of what ``evaluate`` measures.

**Means** (log-loss, Brier score, refinement) have the variance of a mean over
independent units; limits are symmetric on the logarithmic scale, which suits skewed
losses. **Calibration in the large** and **slope** have symmetric limits. The variance
of the former is that of its influence, which does not need the shift to be right (93%
coverage for over-confident probabilities with the standard error of maximum
likelihood). **Shares** (accuracy, base rate) have Wilson's limits for as many
independent rows as would have the same variance. **AUC**: the variance is DeLong's, as
the squared sums of the influence of each unit, and limits are symmetric in log-odds.

**Calibration component.** The simulated overfit of isotonic regression
(:mod:`calspline.evaluation.overfit`) is subtracted from the component and added to the
refinement. Its spread is part of the limits, beside the variance of the difference of
the losses of the probabilities and of the spline's curve. The upper limit is at least
that of Wilson's kind for a mean whose variance grows with it. We also tried: symmetric
limits, which miss large components above (84 to 93% coverage with curved truths); the
quantile of curves drawn from the posterior, which is too far with 200 rows (99 to
100%); and inverting both limits, whose lower one misses in 6 to 20%.

**Distances** (ECE, smooth ECE, ICI, E50, E90, Emax) are functions of the true curve at
the rows, and limits are quantiles of these functions over curves drawn from the
spline's posterior. Drawn curves always differ from the diagonal, so the lower limit is
0 unless the calibration test rejects at the same level. Those of the maximum differ:
the lower is the largest lower limit at any row, since noise adds to the maximum of a
drawn curve (87% coverage with its quantiles), and the upper covers the lines at the
limits of the calibration slope, since a spline of few rows is too close to the diagonal
at its ends. We also tried upper limits of 95% where the lower one is 0: the median
distance is covered as often as before, but E90 of curved truths only in 90%. The
bootstrap does not help: the plain ECE of a resampled data set is biased twice. Limits
are widened to contain the estimate, where a debiased or binned one is less than a
plausible curve gives.

``python -m benchmarks.metrics`` measures the coverage of all limits.

References
----------
E. R. DeLong, D. M. DeLong and D. L. Clarke-Pearson, *Comparing the areas under two or
more correlated receiver operating characteristic curves*, Biometrics 44, 1988.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy.fft import dct
from scipy.special import expit, logit, ndtri, stdtrit

from calspline._arrays import Array, Counts, one_blas_thread, run_starts
from calspline._input.scores import check_binary_scores
from calspline.evaluation.calibration_error import ECE_BINS, equal_width_bins
from calspline.evaluation.losses import row_briers, row_log_losses
from calspline.evaluation.overfit import line
from calspline.transforms import Transform

if TYPE_CHECKING:
    from calspline.evaluation.predictions import Predictions
    from calspline.evaluation.protocols import EvaluatedNumbers

Limits = tuple[float, float]
UNKNOWN = (float("nan"), float("nan"))

LEVEL = 0.95
TAIL = 0.5 - 0.5 * LEVEL
Z = float(ndtri(1.0 - TAIL))
CURVE_DRAWS, CURVE_CELLS = 200, 256
SMOOTH_CELLS, SMOOTH_WAVES, CHORDS = 128, 64, 4
LOSSES = ("log_loss", "brier")
PARTS = ("calibration", "refinement", "uncertainty", "discrimination")
VARIANCE_OF_SAVINGS = 0.9
"""Variance of the mean log-loss that calibration saves, over itself, times the rows.

It is 2 where there is little to save and nothing to fit."""
SHARES = ("accuracy", "base_rate")
DISTANCES = ("ece", "ece_debiased", "smooth_ece", "ici", "e50", "e90", "emax")
NAMES = (
    *LOSSES,
    *(f"{part}_{loss}" for loss in LOSSES for part in PARTS),
    *SHARES,
    "mean_probability",
    "auc",
    "calibration_in_the_large",
    "calibration_slope",
    *DISTANCES,
)
CLASS_WISE = ("class_wise_ece", "class_wise_ece_debiased", "class_wise_smooth_ece")


class LimitsOfEvaluation(Mapping[str, Limits]):
    """Limits of the numbers of an evaluation by name, computed on access."""

    def __init__(self, result: EvaluatedNumbers) -> None:
        self.result = result
        self.rows: Predictions = result.rows
        self._known: dict[str, Limits] = {}

    def __len__(self) -> int:
        return len(self._names)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __repr__(self) -> str:
        return repr(dict(self))

    @property
    def _names(self) -> tuple[str, ...]:
        return NAMES if self.rows.binary else NAMES + CLASS_WISE

    def __getitem__(self, name: str) -> Limits:
        if name not in self._names:
            raise KeyError(name)
        if name not in self._known:
            with one_blas_thread():
                self._known |= self._compute(name)
            if name in DISTANCES + CLASS_WISE:
                value = float(getattr(self.result, name))
                self._known[name] = including(self._known[name], value)
        return self._known[name]

    def _compute(self, name: str) -> dict[str, Limits]:
        """Limits of a number, and of others that are computed with it."""
        rows, result = self.rows, self.result
        for loss in LOSSES:
            if name.endswith(loss):
                return loss_limits(rows, result, loss)
        if name == "auc":
            few = rows.condensed
            return {name: auc_limits(few, result.auc, mean_auc_influence(few))}
        if name in CLASS_WISE:
            kind = name.removeprefix("class_wise_")
            p = result.class_wise_p_value
            drawn = [one.drawn[kind.removesuffix("_debiased")] for one in self._parts]
            return {name: mean_distance_limits(drawn, p)}
        if result.top_label is not None:
            of_event = "base_rate" if name == "accuracy" else name
            return {name: result.top_label.limits[of_event]}
        z = reach(rows)
        if name in SHARES:
            hit = rows.codes == 1
            if name == "accuracy":
                hit = (rows.probs > 0.5) == hit
            return {name: share_limits(rows, hit, z)}
        if name == "mean_probability":
            few = rows.condensed
            half = z * float(np.sqrt(variance_of_mean(few, few.probs)))
            low, high = result.mean_probability - half, result.mean_probability + half
            return {name: (max(0.0, low), min(1.0, high))}
        if name == "calibration_in_the_large":
            value = result.calibration_in_the_large
            half = z * shift_error(rows.condensed, value)
            return {name: (value - half, value + half)}
        if name == "calibration_slope":
            value = result.calibration_slope
            half = z * result.calibration_slope_se
            return {name: (value - half, value + half)}
        drawn_values = self.drawn[name.removesuffix("_debiased")]
        low, high = distance_limits(drawn_values, result.calibration_p_value)
        if name == "emax" and self.drawn.gaps is not None:
            if low > 0.0:
                # The maximum of a drawn curve is too large: noise adds to it.
                distance = np.quantile(np.abs(self.drawn.gaps), TAIL, axis=0)
                low = float(distance.max())
            high = max(high, self._farthest_line(z))
        return {name: (low, high)}

    @cached_property
    def drawn(self) -> DrawnDistances:
        """Distances of curves drawn from the posterior."""
        return DrawnDistances(self.rows)

    def _farthest_line(self, z: float) -> float:
        """Largest distance of the lines in log-odds at the limits of the slope.

        With few rows, the spline is close to the diagonal at the ends.
        """
        f, error = self.rows.condensed.counts, self.result.calibration_slope_se
        if np.isnan(error):
            return 0.0
        q = line(self.rows.condensed, f.x)
        x = Transform("logit")(f.x)
        away = x - np.average(x, weights=f.w * q * (1.0 - q))
        slopes = np.array([[-z * error], [z * error]])
        return float(np.abs(expit(logit(q) + slopes * away) - f.x).max())

    @property
    def _parts(self) -> list[LimitsOfEvaluation]:
        limits = [one.limits for one in self.result.per_class.values()]
        return [one for one in limits if isinstance(one, LimitsOfEvaluation)]


def including(limits: Limits, value: float) -> Limits:
    """Widen limits to contain the estimate itself."""
    low, high = limits
    return min(low, value), max(high, value)


def mean_auc_influence(rows: Predictions) -> Array | None:
    """The influence of each row on the AUC, or on the mean of those of the classes."""
    if rows.binary:
        return auc_influence(rows)
    influences = [auc_influence(problem) for problem in rows.against_rest]
    known = [influence for influence in influences if influence is not None]
    return np.mean(known, axis=0) if known else None


def reach(rows: Predictions, level: float = LEVEL) -> float:
    """Standard errors of limits: Student's where there are groups."""
    freedom = np.inf if rows.n_groups is None else max(rows.n_groups - 1, 1)
    return float(stdtrit(freedom, 0.5 + 0.5 * level))


def variance_of_mean(rows: Predictions, values: Array) -> float:
    """Variance of the weighted mean of values by row."""
    mean = np.average(values, weights=rows.weight)
    return variance_of_sum(rows, (values - mean) / rows.total)


def variance_of_sum(rows: Predictions, influence: Array) -> float:
    """Variance of a weighted sum of values by row whose mean is zero."""
    units = float(rows.powers(0.0).sum()) if rows.n_groups is None else rows.n_groups
    return float(rows.squared_sums(influence)) * units / max(units - 1.0, 1.0)


def positive_limits(value: float, variance: float, z: float) -> Limits:
    """Limits of a positive mean, symmetric on the logarithmic scale."""
    if value <= 0.0:
        return 0.0, z * float(np.sqrt(variance))
    factor = float(np.exp(min(z * np.sqrt(variance) / value, 30.0)))
    return value / factor, value * factor


def share_limits(rows: Predictions, counted: Array, z: float) -> Limits:
    """Wilson's limits of a share, for rows that may be weighted or dependent."""
    values = np.asarray(counted, dtype=np.float64)
    share = float(np.average(values, weights=rows.weight))
    if 0.0 < share < 1.0:
        n = share * (1.0 - share) / variance_of_mean(rows, values)
    else:
        n = rows.total**2 / float(rows.squares.sum())
    middle = (share + 0.5 * z**2 / n) / (1.0 + z**2 / n)
    half = np.sqrt(share * (1.0 - share) / n + 0.25 * (z / n) ** 2)
    half = z * float(half) / (1.0 + z**2 / n)
    return max(0.0, middle - half), min(1.0, middle + half)


def shift_error(rows: Predictions, shift: float) -> float:
    """Standard error of a shift of the log-odds to the observed frequency.

    Unlike that of maximum likelihood, it is right where a shift does not calibrate the
    probabilities. NaN for an infinite shift.
    """
    if not np.isfinite(shift):
        return float("nan")
    q = expit(Transform("logit")(rows.probs) + shift)
    influence = (rows.codes - q) / float(rows.w @ (q * (1.0 - q)))
    return float(np.sqrt(variance_of_sum(rows, influence)))


def auc_influence(rows: Predictions) -> Array | None:
    """The influence of each row on the AUC (DeLong); None if only one class occurs."""
    f = rows.counts
    w1 = float(f.positives.sum())
    w0 = float(f.negatives.sum())
    if w1 == 0.0 or w0 == 0.0:
        return None
    below = (np.cumsum(f.negatives) - 0.5 * f.negatives) / w0
    above = 1.0 - (np.cumsum(f.positives) - 0.5 * f.positives) / w1
    auc = float(f.positives @ below) / w1
    place = np.searchsorted(f.x, rows.probs)
    of_events = (below[place] - auc) / w1
    of_others = (above[place] - auc) / w0
    return np.where(rows.codes == 1, of_events, of_others)


def auc_limits(rows: Predictions, auc: float, influence: Array | None) -> Limits:
    """Limits of the AUC, symmetric in log-odds."""
    if influence is None or np.isnan(auc):
        return UNKNOWN
    error = float(np.sqrt(variance_of_sum(rows, influence)))
    # One more pair, ordered either way: a perfect order is not certain to last.
    pairs = rows.total
    shrunk = (auc * pairs + 0.5) / (pairs + 1.0)
    half = reach(rows) * max(error, 0.5 / pairs) / (shrunk * (1.0 - shrunk))
    low, high = expit(logit(shrunk) + np.array([-half, half])).tolist()
    return min(low, auc), max(high, auc)


def loss_limits(
    rows: Predictions, result: EvaluatedNumbers, name: str
) -> dict[str, Limits]:
    """Limits of a loss and its parts."""
    z = reach(rows)
    of_rows = {"log_loss": row_log_losses, "brier": row_briers}[name]
    few = rows.condensed
    own = of_rows(few.probs, few.codes)
    refined = of_rows(spline_probabilities(rows, few, name), few.codes)
    uncertain = _uncertainty_influence(few, name)
    overfit = getattr(rows.overfit, name)
    draws = len(overfit)
    # Their mean, which is subtracted, has an error of its own.
    extra = float(overfit.var(ddof=1)) * (1.0 + 1.0 / draws)

    def value(part: str) -> float:
        return float(getattr(result, f"{part}_{name}"))

    def around(part: str, variance: float) -> Limits:
        half = z * float(np.sqrt(variance))
        return value(part) - half, value(part) + half

    def with_overfit(of_rows: float) -> float:
        """The variance, larger since that of few draws is uncertain (Satterthwaite)."""
        variance = of_rows + extra
        if extra == 0.0:
            return variance
        freedom = (draws - 1.0) * (variance / extra) ** 2
        wider = float(stdtrit(freedom, 0.5 + 0.5 * LEVEL)) / Z
        return variance * wider**2

    variance = with_overfit(variance_of_mean(few, refined))
    low, high = around("uncertainty", variance_of_mean(few, uncertain))
    gains = with_overfit(variance_of_mean(few, own - refined))
    gained = with_overfit(variance_of_mean(few, uncertain - refined))
    # The more can be saved, the more it varies; the spline, which is smoother than the
    # truth, shows too little of that.
    per_unit = VARIANCE_OF_SAVINGS * rows.event.design_effect / rows.total
    if name == "brier":
        per_unit *= 2.0 * value("refinement") / (len(rows.classes) - 1)
    saved = value("calibration")
    shift = 0.5 * z**2 * per_unit
    spread = extra + per_unit * max(saved, 0.0) + shift**2 / z**2
    most = max(around("calibration", gains)[1], saved + shift + z * spread**0.5)
    return {
        name: positive_limits(getattr(result, name), variance_of_mean(few, own), z),
        f"calibration_{name}": (around("calibration", gains)[0], most),
        f"refinement_{name}": positive_limits(value("refinement"), variance, z),
        f"uncertainty_{name}": (max(0.0, low), high),
        f"discrimination_{name}": around("discrimination", gained),
    }


def spline_probabilities(rows: Predictions, few: Predictions, name: str) -> Array:
    """Probabilities recalibrated by splines, each class by its own."""
    if rows.binary:
        return few.probs if rows.spline is None else rows.spline.curve(few.probs)
    q = rows.probs.copy()
    for j, problem in enumerate(rows.against_rest):
        if problem.spline is not None:
            q[:, j] = problem.spline.curve(rows.probs[:, j])
    if name == "log_loss":
        q /= q.sum(axis=1, keepdims=True)
    return q


def _uncertainty_influence(rows: Predictions, name: str) -> Array:
    """The influence of each row on the loss of the base rates, up to a constant."""
    shares = np.bincount(rows.codes, weights=rows.weight, minlength=len(rows.classes))
    own = (shares / shares.sum())[rows.codes]
    if name == "log_loss":
        return np.asarray(-np.log(own))
    # With two classes the Brier score is that of one of them.
    return np.asarray(-own if rows.binary else -2.0 * own)


class DrawnDistances:
    """Distances of curves drawn from the spline's posterior, computed when read."""

    def __init__(self, rows: Predictions, seed: int = 0) -> None:
        self.rows, self.seed = rows, seed
        self._known: dict[str, Array] = {}

    def __getitem__(self, name: str) -> Array | None:
        """One distance of each curve; None without a curve."""
        if self.gaps is None:
            return None
        if name not in self._known:
            self._known |= self._compute(name, self.gaps)
        return self._known[name]

    @cached_property
    def counts(self) -> Counts:
        """Rows in cells."""
        return self.rows.condensed.counts.coarsened(CURVE_CELLS)

    @cached_property
    def gaps(self) -> Array | None:
        """Drawn curves minus probabilities, by curve and cell."""
        fit, f = self.rows.spline, self.counts
        if fit is None:
            return None
        x = np.clip(f.x, 1e-9, 1.0 - 1e-9)
        noise = fit.curve.noise(check_binary_scores(x, kind="probability"))
        rng = np.random.default_rng(self.seed)
        normal = rng.standard_normal((CURVE_DRAWS, len(noise)))
        curves = expit(logit(fit.curve(x)) + normal @ noise)
        return np.asarray(np.clip(curves, 1e-12, 1.0 - 1e-12) - f.x)

    def _compute(self, name: str, gaps: Array) -> dict[str, Array]:
        f = self.counts
        share = f.w / f.total
        if name == "ece":
            bins = equal_width_bins(f.x, ECE_BINS)
            in_bins = np.zeros((ECE_BINS, len(f)))
            in_bins[bins, np.arange(len(f))] = share
            return {name: np.abs(gaps @ in_bins.T).sum(axis=1)}
        if name == "smooth_ece":
            return {name: _smooth_distances(f.x, gaps * share)}
        distance = np.abs(gaps)
        if name == "ici":
            return {name: distance @ share}
        if name == "emax":
            return {name: distance.max(axis=1)}
        return _quantiles(distance, share)


def _quantiles(distance: Array, share: Array) -> dict[str, Array]:
    """Median and 90th percentile of the distances of each curve."""
    order = np.argsort(distance, axis=1)
    reached = np.cumsum(share[order], axis=1)
    ordered = np.take_along_axis(distance, order, axis=1)
    draw = np.arange(len(distance))
    quantiles = {}
    for name, level in (("e50", 0.5), ("e90", 0.9)):
        place = (reached < level - 1e-12).sum(axis=1)
        quantiles[name] = ordered[draw, np.minimum(place, len(share) - 1)]
    return quantiles


def _smooth_distances(x: Array, residuals: Array) -> Array:
    """Smooth ECE of many sets of residuals at ``x``, on a coarse grid."""
    cell = np.minimum((x * SMOOTH_CELLS).astype(np.intp), SMOOTH_CELLS - 1)
    first = run_starts(cell)
    on_grid = np.zeros((len(residuals), SMOOTH_CELLS))
    on_grid[:, cell[first]] = np.add.reduceat(residuals, first, axis=1)
    waves = dct(on_grid, axis=1)[:, :SMOOTH_WAVES]
    frequency = np.pi * np.arange(SMOOTH_WAVES)
    centres = (np.arange(SMOOTH_CELLS) + 0.5) / SMOOTH_CELLS
    cosines = np.cos(np.outer(frequency, centres)) / SMOOTH_CELLS
    cosines[0] *= 0.5

    def excess(width: Array) -> Array:
        """Smoothed distance minus the width, which falls as the width grows."""
        damped = waves * np.exp(-0.5 * np.outer(width, frequency) ** 2)
        return np.asarray(np.abs(damped @ cosines).sum(axis=1) - width)

    # The fixed point is at most the mean distance, and at least the smoothed one there.
    high = np.abs(on_grid).sum(axis=1)
    above = np.minimum(excess(high), 0.0)
    low = high + above
    below = np.maximum(excess(low), 0.0)
    for _ in range(CHORDS):
        share = np.divide(
            below, below - above, out=np.ones_like(low), where=above < 0.0
        )
        width = low + share * (high - low)
        value = excess(width)
        is_low = value > 0.0
        # The value at an end that stays counts half at the next step (Illinois).
        above = np.where(is_low, 0.5 * above, value)
        below = np.where(is_low, value, 0.5 * below)
        low = np.where(is_low, width, low)
        high = np.where(is_low, high, width)
    return np.asarray(width)


def mean_distance_limits(drawn: list[Array | None], p_value: float) -> Limits:
    """Limits of the mean of a distance over classes.

    Curves of classes are drawn independently, but their errors are not independent:
    splines of few rows are too smooth for all classes alike. So the variance is the
    mean of those of independent and of perfectly correlated errors, as if the
    correlation were about one half.
    """
    known = [one for one in drawn if one is not None]
    if len(known) < len(drawn):
        return UNKNOWN
    middle = float(np.median(np.mean(known, axis=0)))
    independent = distance_limits(np.mean(known, axis=0), 0.0)
    correlated = np.mean([distance_limits(one, 0.0) for one in known], axis=0)
    halves = np.sqrt(
        np.mean(np.square(np.subtract([independent, correlated], middle)), axis=0)
    )
    low = max(0.0, middle - float(halves[0]))
    return (0.0 if p_value > 1.0 - LEVEL else low), middle + float(halves[1])


def distance_limits(drawn: Array | None, p_value: float) -> Limits:
    """Limits of a distance; the lower one is 0 unless the test rejects."""
    if drawn is None:
        return UNKNOWN
    low, high = np.quantile(drawn, [TAIL, 1.0 - TAIL]).tolist()
    return (0.0 if p_value > 1.0 - LEVEL else low), high
