"""Learning curves of calibrators: how much calibration data is enough."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from inspect import signature
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr, ndtri
from scipy.stats import nbinom
from sklearn.base import clone
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.utils import _safe_indexing

from calspline._arrays import Array
from calspline._formatting import Row, decimals, percent
from calspline._input.class_columns import check_matrix_labels
from calspline._input.options import (
    check_increasing,
    check_integer,
    check_number,
    check_seed,
)
from calspline._input.rows import LabelledRows, check_rows
from calspline._plots import draw
from calspline._results import Block, Result, Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Ints = NDArray[np.intp]

MIN_ROWS_FOR_RATE = 100
"""With fewer rows, priors matter more than the asymptotic ``a / n``."""
MIN_PROBABILITY = 1e-15
LEAST_SHOWN = 1e-5


@dataclass(frozen=True)
class CalibrationLearningCurve(Result):
    """Expected log-loss of a calibrator by the number of calibration rows.

    Attributes
    ----------
    sizes : array of shape (k,)
        Numbers of calibration rows, increasing; the last is the largest that
        cross-validation allows.
    log_loss : array of shape (k,)
        Expected log-loss on test rows.
    interval : array of shape (k, 2)
        Confidence limits of the log-loss, for each size separately. All sizes are
        evaluated on the same rows, so differences between them are much more precise.
    gain_left : array of shape (k,)
        Log-loss that unlimited data would still gain, by the fitted ``rate / n``.
    gain_left_interval : array of shape (k, 2)
        Confidence limits of ``gain_left``.
    rate : float
        Fitted ``a`` of ``log-loss(n) = limit + a / n``. For a fit with d effective
        parameters, theory predicts ``d / 2``.
    gain : float
        Gain in log-loss that does not justify more data.
    enough : int
        Number of rows beyond which unlimited data would gain less than ``gain``, and
        which contain ten rows of the rarest class (ten groups with such rows, if groups
        are counted) with a probability of 95%.
    uncalibrated : float
        Log-loss of the uncalibrated scores; NaN for margins.
    level : float
        Confidence level of the intervals.
    unit : {"rows", "groups"}
        Unit of the sizes: with ``groups``, whole groups are sampled and left out.
    events : int
        Expected number of rows of the rarest class among ``enough`` rows.
    rarest : str
        Name of the rarest class in a sentence: "events", "non-events" or "of class
        ...".
    """

    sizes: Ints
    log_loss: Array
    interval: Array
    gain_left: Array
    gain_left_interval: Array
    rate: float
    gain: float
    enough: int
    uncalibrated: float
    level: float
    unit: Literal["rows", "groups"] = "rows"
    events: int = 0
    rarest: str = "events"

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot the curve with matplotlib."""
        axes: Axes = draw(self, ax)
        return axes

    def to_dict(self) -> dict[str, Any]:
        """Return all attributes as a dict, with arrays as lists."""
        return {
            name: value.tolist() if isinstance(value, np.ndarray) else value
            for name, value in vars(self).items()
        }

    def _blocks(self) -> list[Block]:
        d = self.digits
        rows: list[Row] = []
        for i, n in enumerate(self.sizes):
            low, high = self.interval[i]
            loss = self.log_loss[i]
            left = self.gain_left[i]
            limits = f"{low:.{d}f} to {high:.{d}f}"
            rows.append((f"{n:,}", f"{loss:.{d}f}", limits, f"{left:.{d + 1}f}"))
        interval = f"{percent(self.level)} interval"
        header = (self.unit, "log-loss", interval, "possible gain")
        blocks: list[Block] = [Table(rows, header)]
        if np.isfinite(self.uncalibrated):
            blocks.append(f"Log-loss of the scores: {self.uncalibrated:.{d}f}")
        return [*blocks, self.verdict]

    def _columns(self) -> dict[str, Any]:
        return {
            self.unit: self.sizes,
            "log_loss": self.log_loss,
            "lower": self.interval[:, 0],
            "upper": self.interval[:, 1],
            "gain_left": self.gain_left,
        }

    @property
    def verdict(self) -> str:
        """Result as a sentence."""
        if self.enough <= self.sizes[0]:
            return (
                f"{self.sizes[0]:,} {self.unit} are enough: "
                f"more would gain less than {self.gain:g}."
            )
        if self.enough <= self.sizes[-1]:
            return (
                f"About {self.amount} are enough: "
                f"more would gain less than {self.gain:g}."
            )
        more = f"More than the {self.sizes[-1]:,} {self.unit} here would help"
        return f"{more}: about {self.amount} leave less than {self.gain:g} to gain."

    @property
    def amount(self) -> str:
        """Sufficient number of rows or groups and of events, rounded."""
        rows, events = (
            f"{float(f'{count:.2g}'):,.0f}" for count in (self.enough, self.events)
        )
        return f"{rows} {self.unit} ({events} {self.rarest})"

    @property
    def digits(self) -> int:
        """Decimals that show four significant digits of the log-loss, at least four."""
        return max(4, 2 + decimals(max(float(self.log_loss[-1]), LEAST_SHOWN)))


GAIN = 1e-3
"""Default gain for a balanced outcome; it is reduced for rare events in proportion to
the entropy of their rate."""
MIN_EVENTS = 10
SURELY = 0.95
"""Probability with which enough rows contain ``MIN_EVENTS`` rows of the rarest
class."""


def calibration_learning_curve(
    calibrator: Any,
    scores: Any,
    y: Any,
    *,
    sample_weight: Any = None,
    groups: Any = None,
    sizes: Any = None,
    gain: float | None = None,
    cv: int = 5,
    n_repeats: int = 5,
    level: float = 0.95,
    random_state: Any = None,
) -> CalibrationLearningCurve:
    """Compute the learning curve of a calibrator, without refitting the model.

    In each fold of a repeated cross-validation, the calibrator is fitted to nested
    random subsamples of the other folds and evaluated on the fold left out. The
    log-loss approaches its limit like ``a / n``. The rate ``a`` is estimated from the
    differences between sizes on the same rows, and determines the n beyond which less
    than ``gain`` can be gained. For rare classes, n is at least the number of rows that
    contain ten rows of each class with a probability of 95%.

    Parameters
    ----------
    calibrator : calibrator
        Calibrator to fit; it is cloned.
    scores, y, sample_weight
        As for ``calibrator.fit``.
    groups : array-like of shape (n,), optional
        Group of each row; groups are independent. Whole groups are sampled and left
        out, and sizes count groups. They are passed to ``calibrator.fit`` if it takes
        groups.
    sizes : array-like of int, optional
        Numbers of rows (or groups) to fit on. By default eight, evenly spaced on a log
        scale.
    gain : float, optional
        Gain in log-loss, in nats per row, that does not justify more data. By default
        0.001 for balanced classes, and less for rare events, in proportion to the
        entropy of their rate: 0.00088 for 30%, 0.00008 for 1%.
    cv : int, default=5
        Number of folds.
    n_repeats : int, default=5
        Number of repetitions of the cross-validation.
    level : float, default=0.95
        Confidence level of the intervals.
    random_state : int, RandomState or None, default=None
        Random state of the folds and subsamples. None is the same as 0.

    Returns
    -------
    result : CalibrationLearningCurve
        Numbers as attributes; ``print`` shows a table and the verdict.

    Examples
    --------
    >>> import numpy as np
    >>> from calspline import SplineCalibrator, calibration_learning_curve
    >>> rng = np.random.default_rng(0)
    >>> u = rng.normal(size=2000)
    >>> y = rng.random(2000) < 1 / (1 + np.exp(1 - u / 2))
    >>> curve = calibration_learning_curve(SplineCalibrator(), 1 / (1 + np.exp(-u)), y)
    >>> print(curve.verdict)
    About 1,500 rows (420 events) are enough: more would gain less than 0.00085.
    """
    if gain is not None:
        check_number(gain, "gain", above=0.0)
    check_integer(cv, "cv", least=2)
    check_integer(n_repeats, "n_repeats", least=1)
    check_number(level, "level", above=0.0, below=1.0)
    seed = check_seed(random_state, "random_state")
    data = check_rows(scores, y, sample_weight, groups)
    if data.weight is None:
        present = np.arange(len(data.labels))
    else:
        present = np.flatnonzero(np.asarray(sample_weight))
    classes, codes = np.unique(data.labels, return_inverse=True)
    n = len(codes)
    fewest = int(np.bincount(codes).min())
    if fewest < cv:
        raise ValueError(
            f"y must have at least {cv} rows of each class, as cv is {cv}; the rarest "
            f"has {fewest}"
        )
    units = np.arange(n) if data.groups is None else data.groups
    n_units = int(units.max()) + 1
    if n_units < min(2 * cv, n):
        raise ValueError(
            f"groups must be at least {2 * cv}, two for each fold; got {n_units}"
        )
    sizes = _sizes(sizes, n_units - -(-n_units // cv), len(classes))
    w = np.ones(n) if data.weight is None else data.weight
    takes_groups = False
    if data.groups is not None:
        takes_groups = "groups" in signature(calibrator.fit).parameters
    losses = np.zeros((len(sizes), n))
    block_means = []
    for test, nested in _subsamples(codes, units, sizes, cv, n_repeats, seed):
        judged = _safe_indexing(scores, present[test])
        block = []
        for rows in nested:
            arguments = [_safe_indexing(scores, present[rows]), data.labels[rows]]
            if data.weight is not None:
                arguments.append(w[rows])
            if takes_groups:
                fitted = clone(calibrator).fit(*arguments, groups=units[rows])
            else:
                fitted = clone(calibrator).fit(*arguments)
            own = np.searchsorted(fitted.classes_, data.labels[test])
            p = fitted.predict_proba(judged)[np.arange(len(test)), own]
            block.append(-np.log(p))
        losses[:, test] += np.array(block) / n_repeats
        block_means.append(np.average(block, axis=1, weights=w[test]))
    if gain is None:
        entropy = entr(np.bincount(codes, w) / w.sum()).sum() / np.log(2.0)
        gain = float(f"{GAIN * min(entropy, 1.0):.2g}")
    by_block = np.array(block_means).T
    mean, interval, rate, limits = _summary(sizes, losses, by_block, w, units, level)
    # The class that the fewest rows, or groups, hold: enough of them surely hold it
    # MIN_EVENTS times.
    holding = np.bincount(np.unique(units * len(classes) + codes) % len(classes))
    k = int(np.flatnonzero(holding == holding.min())[-1])
    surely = MIN_EVENTS + int(nbinom.ppf(SURELY, MIN_EVENTS, holding[k] / n_units))
    enough = max(int(np.ceil(rate / gain)), surely)
    return CalibrationLearningCurve(
        sizes=sizes,
        log_loss=mean,
        interval=interval,
        gain_left=rate / sizes,
        gain_left_interval=limits / sizes[:, None],
        rate=rate,
        gain=gain,
        enough=enough,
        uncalibrated=_uncalibrated(data, w),
        level=level,
        unit="rows" if data.groups is None else "groups",
        events=round(enough * (np.count_nonzero(codes == k) / n_units)),
        rarest=f"of class {classes[k]}"
        if len(classes) > 2
        else ["non-events", "events"][k],
    )


MIN_ROWS = 20
N_SIZES = 8


def _sizes(given: Any, most: int, n_classes: int) -> Ints:
    """Validate the sizes, or choose them."""
    fewest = min(max(MIN_ROWS, 4 * n_classes), most // 2)
    if given is None:
        return np.unique(np.geomspace(fewest, most, N_SIZES).round().astype(np.intp))
    sizes = check_increasing(given, "sizes", least=2)
    if sizes[0] < 2 * n_classes or sizes[-1] > most or np.any(sizes != np.floor(sizes)):
        raise ValueError(
            f"sizes must be whole numbers between {2 * n_classes} (two rows a class) "
            f"and {most} (the rows "
            f"outside a fold); got {np.asarray(given).tolist()}"
        )
    return sizes.astype(np.intp)


MIN_ROWS_PER_FOLD = 10
"""With fewer rows of a class in each fold, the folds are stratified."""


def _subsamples(
    codes: Ints, units: Ints, sizes: Ints, cv: int, n_repeats: int, seed: int
) -> Iterator[tuple[Ints, list[Ints]]]:
    """Test rows and nested subsamples for each fold of each repetition.

    Whole units are drawn: rows or groups.

    Subsamples are simple random samples, like new data; stratified ones would hide the
    sampling error of the base rate. However, each subsample starts with a row of each
    class, and rare classes are spread evenly over the folds.
    """
    n_units = int(units.max()) + 1
    counts = np.bincount(codes)
    spread = n_units == len(codes) and counts.min() < MIN_ROWS_PER_FOLD * cv
    kind = StratifiedKFold if spread else KFold
    for repeat in range(n_repeats):
        rng = np.random.default_rng([seed, repeat])
        folds: Any = kind(cv, shuffle=True, random_state=int(rng.integers(2**31)))
        for train, test in folds.split(np.arange(n_units), codes if spread else None):
            pool = rng.permutation(train)
            place = np.full(n_units, n_units)
            place[pool] = np.arange(len(pool))
            first = np.full(len(counts), n_units)
            np.minimum.at(first, codes, place[units])
            first = np.unique(first[first < n_units])
            place[np.r_[pool[first], np.delete(pool, first)]] = np.arange(len(pool))
            yield (
                np.flatnonzero(np.isin(units, test)),
                [np.flatnonzero(place[units] < size) for size in sizes],
            )


def _summary(
    sizes: Ints, losses: Array, block_means: Array, w: Array, units: Ints, level: float
) -> tuple[Array, Array, float, Array]:
    """Means and the rate of ``a / n``, each with its limits.

    The variance of a mean is the sum of two: that of the test rows, and that of the
    fits, which all rows of a fold share.
    """
    share = w / w.sum()

    def variance(by_row: Array, by_block: Array) -> Array:
        parts = (by_row - (by_row @ share)[:, None]) * share
        sums = np.array([np.bincount(units, weights=one) for one in parts])
        return np.asarray(
            (sums**2).sum(axis=1) + by_block.var(axis=1, ddof=1) / by_block.shape[1]
        )

    reach = float(ndtri(0.5 + level / 2.0)) * np.array([-1.0, 1.0])
    mean = losses @ share
    spread = variance(losses, block_means)
    steps = 1.0 / sizes - 1.0 / sizes[-1]
    by_row = losses - losses[-1]
    by_block = block_means - block_means[-1]
    uncertain = variance(by_row, by_block)
    usable = (uncertain > 0.0) & (sizes >= min(MIN_ROWS_FOR_RATE, sizes[-3:][0]))
    pull = np.where(usable, steps / np.where(usable, uncertain, 1.0), 0.0)
    pull /= max(pull @ steps, np.finfo(float).tiny)
    rate = max(float(pull @ (by_row @ share)), 0.0)
    error = np.sqrt(variance((pull @ by_row)[None], (pull @ by_block)[None]))
    return (
        mean,
        mean[:, None] + np.sqrt(spread)[:, None] * reach,
        rate,
        np.maximum(rate + reach * error, 0.0),
    )


def _uncalibrated(data: LabelledRows, w: Array) -> float:
    """Log-loss of the uncalibrated probabilities; NaN for margins."""
    given = data.scores
    n = len(data.labels)
    if given.n_outside:
        return float("nan")
    if given.n_columns > 2:
        classes, codes = check_matrix_labels(data.labels, given.n_columns, given.names)
    else:
        classes, codes = np.unique(data.labels, return_inverse=True)
    p = given.in_class_order(classes).probabilities().astype(np.float64).reshape(n, -1)
    p = np.column_stack([1.0 - p, p]) if p.shape[1] == 1 else p
    return float(
        np.average(
            -np.log(np.maximum(p[np.arange(n), codes], MIN_PROBABILITY)), weights=w
        )
    )
