"""The reliability diagram as data."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression
from scipy.special import betaincinv, expit

from calspline._arrays import Array, Counts, one_blas_thread, run_starts
from calspline._formatting import (
    Row,
    grouping,
    percent,
    rows_in_groups,
)
from calspline._input.options import check_integer, check_number, check_one_of
from calspline._plots import draw
from calspline._results import Block, Result, Table
from calspline.evaluation.calibration_error import equal_width_bins
from calspline.evaluation.coin_flips import flips_like
from calspline.evaluation.predictions import (
    Predictions,
    check_predictions,
    group_squares,
)
from calspline.maps.curve import CalibrationCurve
from calspline.maps.fit_info import FittedCurve
from calspline.transforms import log_odds

BAND_CELLS, BAND_DRAWS = 256, 500
GRID_POINTS = 101
HISTOGRAM_CELLS = 50


@dataclass(frozen=True, eq=False)
class Bins:
    """Bins of probabilities; bins without rows are left out."""

    lower: Array
    upper: Array
    """Edges of the bins."""
    count: NDArray[np.intp]
    """Number of rows."""
    weight: Array
    """Total weight."""
    mean_score: Array
    """Mean predicted probability."""
    observed: Array
    """Observed frequency of the event."""
    interval_lower: Array
    interval_upper: Array
    """Exact binomial (Clopper-Pearson) limits of ``observed``, for the effective sample
    size if weights are not whole numbers."""

    def __len__(self) -> int:
        return len(self.weight)


@dataclass(frozen=True, eq=False)
class CorpCurve:
    """Isotonic regression of the outcomes, with its consistency band."""

    lower: Array
    upper: Array
    """Lowest and highest probability of each step."""
    weight: Array
    value: Array
    """Weight of each step and its observed frequency."""
    score: Array
    """Increasing probabilities at which the band is given: all that occur, or
    quantiles."""
    recalibrated: Array
    """Isotonic regression at these probabilities."""
    band_lower: Array
    band_upper: Array
    """Consistency band: a calibrated model's regression lies within it with the given
    probability at each score."""


@dataclass(frozen=True, eq=False)
class SplineBand:
    """Calibration curve of a spline fitted to the evaluated rows, with its bands."""

    score: Array
    """Grid over the range of the probabilities, even in probability and in log-odds."""
    value: Array
    """Value of the curve."""
    lower: Array
    upper: Array
    """Pointwise band."""
    simultaneous_lower: Array
    simultaneous_upper: Array
    """Simultaneous band."""
    curve: CalibrationCurve
    edf: float
    """Effective degrees of freedom; 2 for a straight line in the log-odds."""


@dataclass(frozen=True, eq=False)
class Reliability(Result):
    """Reliability diagram as data; for three or more classes, one per class as well.

    Attributes
    ----------
    name : str
        The event: a label, or ``"top label"``.
    n_rows : int
        Number of rows with positive weight.
    total_weight : float
        Sum of the weights.
    level : float
        Confidence level of intervals and bands.
    strategy : {"quantile", "uniform"}
        How the bins were chosen.
    bins : Bins
        Mean predicted probability and observed frequency by bin.
    corp : CorpCurve
        Isotonic regression with its consistency band.
    spline : SplineBand or None
        Spline curve with its bands; None if only one class occurs.
    histogram_edges, histogram_weight : array
        Histogram of the probabilities, with 50 cells of equal width.
    classes : tuple of Reliability
        For three or more classes, the diagram of each class against the rest; this
        diagram is then that of the top label. Empty for two classes.
    n_groups : int or None
        Number of groups of dependent rows; None without ``groups``.
    design_effect : float
        Number of rows divided by the effective sample size. Intervals and bands take it
        into account.
    """

    name: str
    n_rows: int
    total_weight: float
    level: float
    strategy: Literal["quantile", "uniform"]
    bins: Bins
    corp: CorpCurve
    spline: SplineBand | None
    histogram_edges: Array
    histogram_weight: Array
    classes: tuple[Reliability, ...] = ()
    n_groups: int | None = None
    design_effect: float = 1.0

    @property
    def grouping(self) -> str:
        """Effect of the groups on these rows, as a sentence; empty without groups."""
        return grouping(
            self.n_rows, self.n_groups, self.total_weight / self.design_effect
        )

    @property
    def top_label(self) -> Reliability | None:
        """Diagram of the most probable class alone; None for two classes."""
        return replace(self, classes=()) if self.classes else None

    def to_dict(self) -> dict[str, Any]:
        """Return a dict that JSON can represent."""
        return {f.name: _plain(getattr(self, f.name)) for f in fields(self)}

    def plot(self, ax: Any = None, **options: Any) -> Any:
        """Plot the diagram as a :class:`calspline.ReliabilityDisplay`.

        Options are those of its ``plot``.
        """
        return draw(self, ax, **options)

    def _blocks(self) -> list[Block]:
        tables = [one._table() for one in (self, *self.classes)]
        return [*tables, self.grouping]

    def _table(self) -> Table:
        b = self.bins
        rows: list[Row] = [
            (
                f"{b.lower[i]:.3g} to {b.upper[i]:.3g}",
                f"{b.count[i]:,}",
                f"{b.mean_score[i]:.4f}",
                f"{b.observed[i]:.4f}",
                f"{b.interval_lower[i]:.4f} to {b.interval_upper[i]:.4f}",
            )
            for i in range(len(b))
        ]
        interval = f"{percent(self.level)} interval"
        header = ("bin", "rows", "mean probability", "observed frequency", interval)
        title = f"Reliability of {self.name}, "
        title += rows_in_groups(self.n_rows, self.n_groups)
        return Table(rows, header, title)

    def _columns(self) -> dict[str, Any]:
        diagrams = (self, *self.classes)
        columns: dict[str, Any] = {}
        if self.classes:
            columns["name"] = [one.name for one in diagrams for _ in one.bins.weight]
        for f in fields(Bins):
            parts = [getattr(one.bins, f.name) for one in diagrams]
            columns[f.name] = np.concatenate(parts)
        return columns

    def __repr__(self) -> str:
        rows = rows_in_groups(self.n_rows, None)
        bins = "1 bin" if len(self.bins) == 1 else f"{len(self.bins)} bins"
        return f"Reliability({self.name}, {rows}, {bins})"


def reliability(
    y: Any,
    probs: Any,
    *,
    n_bins: int = 10,
    strategy: Literal["quantile", "uniform"] = "quantile",
    sample_weight: Any = None,
    labels: Any = None,
    pos_label: Any = None,
    groups: Any = None,
    level: float = 0.95,
) -> Reliability:
    """Compute a reliability diagram.

    The result has bins, the CORP curve (isotonic regression) and a spline curve, each
    with confidence limits.

    Parameters
    ----------
    y, probs, sample_weight, labels, pos_label, groups
        As for :func:`evaluate`.
    n_bins : int, default=10
        Number of bins.
    strategy : {"quantile", "uniform"}
        Bins of about equal weight, or of equal width. Equal probabilities share a bin,
        so there may be fewer than ``n_bins``.
    level : float in (0, 1), default=0.95
        Confidence level of intervals and bands.

    Returns
    -------
    diagram : Reliability
        Bins and curves; ``print`` shows the bins, ``plot`` draws the diagram.

    See Also
    --------
    evaluate : Numerical measures of calibration.
    ReliabilityDisplay : Plot reliability diagrams.

    Examples
    --------
    >>> import numpy as np
    >>> from calspline import reliability
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(size=1000)
    >>> print(reliability(rng.random(1000) < p**2, p, n_bins=4, strategy="uniform"))
    Reliability of True, 1,000 rows
    bin          rows  mean probability  observed frequency      95% interval
    -------------------------------------------------------------------------
    0 to 0.25     231            0.1281              0.0390  0.0180 to 0.0727
    0.25 to 0.5   242            0.3805              0.1694  0.1244 to 0.2227
    0.5 to 0.75   260            0.6263              0.4154  0.3548 to 0.4779
    0.75 to 1     267            0.8703              0.7828  0.7284 to 0.8307
    """
    rows = check_predictions(
        y, probs, sample_weight, labels, groups=groups, pos_label=pos_label
    )
    return diagram_predictions(rows, n_bins, strategy, level)


def diagram_predictions(
    rows: Predictions,
    n_bins: int = 10,
    strategy: Literal["quantile", "uniform"] = "quantile",
    level: float = 0.95,
    *,
    band_draws: int = BAND_DRAWS,
) -> Reliability:
    """Compute the reliability diagram of validated predictions."""
    check_integer(n_bins, "n_bins", least=1)
    check_one_of(strategy, "strategy", ("quantile", "uniform"))
    check_number(level, "level", above=0.0, below=1.0)
    options = n_bins, strategy, level, band_draws
    with one_blas_thread():
        if rows.binary:
            return _diagram(rows, str(rows.classes[1]), *options)
        problems = zip(rows.against_rest, map(str, rows.classes.tolist()), strict=True)
        each = tuple(_diagram(problem, name, *options) for problem, name in problems)
        return replace(_diagram(rows.event, "top label", *options), classes=each)


def _diagram(
    rows: Predictions,
    name: str,
    n_bins: int,
    strategy: Literal["quantile", "uniform"],
    level: float,
    band_draws: int,
) -> Reliability:
    """Compute the diagram of a two-class problem."""
    f = rows.counts
    histogram = np.bincount(
        equal_width_bins(f.x, HISTOGRAM_CELLS), weights=f.w, minlength=HISTOGRAM_CELLS
    )
    return Reliability(
        name=name,
        n_rows=len(rows.codes),
        total_weight=f.total,
        level=level,
        strategy=strategy,
        bins=_bins(f, rows, n_bins, strategy, level),
        corp=_corp(f, rows, level, band_draws),
        spline=_spline(f, rows.spline, level),
        histogram_edges=np.linspace(0.0, 1.0, HISTOGRAM_CELLS + 1),
        histogram_weight=histogram.astype(np.float64),
        n_groups=rows.n_groups,
        design_effect=rows.design_effect,
    )


def _bins(
    f: Counts, rows: Predictions, n_bins: int, strategy: str, level: float
) -> Bins:
    bins = (
        equal_width_bins(f.x, n_bins)
        if strategy == "uniform"
        else f.equal_weight_bins(n_bins)
    )
    first = run_starts(bins)
    used, binned = bins[first], f.merged(first)
    of_rows = np.searchsorted(f.x[first], rows.probs, side="right") - 1
    count = np.bincount(of_rows)
    if strategy == "uniform":
        lower, upper = used / n_bins, (used + 1) / n_bins
    else:
        between = 0.5 * (f.x[first[1:] - 1] + f.x[first[1:]])
        lower, upper = np.append(f.x[0], between), np.append(between, f.x[-1])
    # As many rows as would say as much.
    share = np.divide(
        binned.w, binned.squares, out=np.ones_like(binned.w), where=binned.squares > 0.0
    )
    if rows.groups is not None:
        share *= rows.design_effect / _bin_effects(rows, of_rows)
    low, high = clopper_pearson(
        share * binned.positives, share * binned.negatives, level
    )
    return Bins(
        lower, upper, count, binned.w, binned.x, binned.positives / binned.w, low, high
    )


def _bin_effects(rows: Predictions, bins: NDArray[np.intp]) -> Array:
    """Design effects of the bins; that of all rows for bins with equal outcomes."""
    assert rows.groups is not None
    n, w, happened = int(bins.max()) + 1, rows.w, rows.codes == 1
    rate = np.bincount(bins, w * happened) / np.maximum(np.bincount(bins, w), 1e-300)
    away = happened - rate[bins]
    of_groups, _ = group_squares(w * away, bins, rows.groups, n)
    of_rows = np.bincount(bins, rows.powers() * away**2)
    found = np.divide(
        of_groups, of_rows, out=np.full(n, rows.design_effect), where=of_rows > 0.0
    )
    return np.asarray(np.maximum(found, 1.0))


def clopper_pearson(
    positives: Array, negatives: Array, level: float
) -> tuple[Array, Array]:
    """Exact binomial limits of a share; numbers of rows need not be whole."""
    tail = 0.5 * (1.0 - level)
    none, all_ = positives == 0.0, negatives == 0.0
    lower = np.where(
        none, 0.0, betaincinv(np.where(none, 1.0, positives), negatives + 1.0, tail)
    )
    upper = np.where(
        all_,
        1.0,
        betaincinv(positives + 1.0, np.where(all_, 1.0, negatives), 1.0 - tail),
    )
    return lower, upper


def _corp(f: Counts, rows: Predictions, level: float, draws: int) -> CorpCurve:
    found = isotonic_regression(f.positives / f.w, weights=f.w)
    first, last = found.blocks[:-1], found.blocks[1:] - 1
    cells, flips = flips_like(f, rows, BAND_CELLS)
    rates = np.clip(cells.x + flips.deviations(draws) / cells.w, 0.0, 1.0)
    curves = _isotonic_regressions(rates, cells.w)
    tail = 0.5 * (1.0 - level)
    low, high = np.quantile(curves.T.copy(), [tail, 1.0 - tail], axis=1)
    at = np.searchsorted(f.x, cells.x, side="right") - 1
    return CorpCurve(
        f.x[first],
        f.x[last],
        found.weights,
        found.x[first],
        cells.x,
        found.x[at],
        low,
        high,
    )


def _isotonic_regressions(rates: Array, w: Array) -> Array:
    """Isotonic regression of each row of rates between 0 and 1.

    Rows are regressed end to end, each so far above the last that none share a value.
    """
    apart = 2.0 * np.arange(len(rates))[:, None]
    end_to_end = (rates + apart).ravel()
    found = isotonic_regression(end_to_end, weights=np.tile(w, len(rates)))
    return np.asarray(found.x.reshape(rates.shape) - apart)


def _spline(f: Counts, fit: FittedCurve | None, level: float) -> SplineBand | None:
    if fit is None:
        return None
    grid = probability_grid(float(f.x[0]), float(f.x[-1]), GRID_POINTS)
    lower, upper = fit.curve.band(grid, level).T
    whole_lower, whole_upper = fit.curve.band(grid, level, simultaneous=True).T
    return SplineBand(
        grid,
        fit.curve(grid),
        lower,
        upper,
        whole_lower,
        whole_upper,
        fit.curve,
        fit.edf,
    )


def probability_grid(low: float, high: float, count: int) -> Array:
    """Probabilities from ``low`` to ``high``, even in probability and in log-odds."""
    ends = log_odds([max(low, 1e-9), min(high, 1.0 - 1e-9)])
    even = expit(np.linspace(ends[0], ends[1], count))
    return np.unique(
        np.clip(np.concatenate([np.linspace(low, high, count), even]), low, high)
    )


def _plain(value: Any) -> Any:
    """Convert arrays and tuples to lists, and dataclasses to dicts."""
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if isinstance(value, np.ndarray):
        return value.tolist()
    if is_dataclass(value):
        return {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
    return value
