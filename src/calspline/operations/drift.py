"""Drift: changes of the scores and of the calibration between two data sets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit
from scipy.stats import chi2_contingency, norm

from calspline._arrays import Array, Counts, one_blas_thread, run_starts
from calspline._formatting import Row, format_number, p_value, percent
from calspline._input.options import check_number
from calspline._input.scores import check_scores
from calspline._input.segment_labels import check_by
from calspline._results import Block, Result, Table
from calspline.calibrators.checks import check_fitted_calibrator
from calspline.calibrators.spline import SplineCalibrator
from calspline.evaluation.calibration_test import calibration_p_value
from calspline.evaluation.recalibration import recalibration
from calspline.histograms.grid import cells_of, coarser
from calspline.histograms.score_histogram import ScoreHistogram

Interval = tuple[float, float]

SOME_SHIFT, MUCH_SHIFT = 0.1, 0.25
"""Customary limits of the index for some shift and for a large shift."""
NEARLY_CERTAIN = 1e-12


LABELS = {
    "reference_weight": "weight, reference",
    "current_weight": "weight, current",
    "psi": "scores: stability index (PSI)",
    "distance": "scores: largest difference of cumulative shares",
    "score_p_value": "scores: p-value",
    "reference_rate": "event rate, reference",
    "current_rate": "event rate, current",
    "expected_rate": "mean predicted probability, current",
    "difference": "event rate minus mean predicted probability",
    "in_the_large": "calibration in the large (0 if calibrated)",
    "slope": "calibration slope (1 if calibrated)",
    "calibration_p_value": "p-value of the calibration test",
}


@dataclass(frozen=True)
class Drift(Result):
    """Changes between two data sets; see :func:`drift`.

    Attributes
    ----------
    reference_weight, current_weight : float
        Sums of weights.
    reference_rate, current_rate : float
        Observed frequencies of the event.
    psi : float
        Population stability index of the scores, over ten quantile bins of the
        reference. Customarily, values below 0.1 are negligible and values above 0.25
        are a large shift.
    distance : float
        Largest difference of the cumulative distributions over these bins.
    score_p_value : float
        P-value of the hypothesis that the scores have the same distribution, from a
        chi-square test on the bins.
    expected_rate : float
        Mean calibrated probability of the current scores.
    difference : float
        ``current_rate - expected_rate``, with ``difference_interval``.
    in_the_large, slope : float
        Calibration in the large and calibration slope on the current data, with
        intervals ``in_the_large_interval`` and ``slope_interval``.
    calibration_p_value : float
        P-value of the hypothesis that the calibrator is calibrated on the current data.
    level : float
        Confidence level of the intervals; p-values below ``1 - level`` are significant.
    """

    reference_weight: float
    current_weight: float
    reference_rate: float
    current_rate: float
    psi: float
    distance: float
    score_p_value: float
    expected_rate: float
    difference: float
    difference_interval: Interval
    in_the_large: float
    in_the_large_interval: Interval
    slope: float
    slope_interval: Interval
    calibration_p_value: float
    level: float

    @property
    def moved(self) -> bool:
        """Whether the distribution of the scores has changed significantly."""
        return self.score_p_value < 1.0 - self.level

    @property
    def miscalibrated(self) -> bool:
        """Whether the calibrator is significantly miscalibrated on the current data."""
        return self.calibration_p_value < 1.0 - self.level

    @property
    def verdict(self) -> str:
        """Both results as a sentence."""
        size = "much"
        if self.psi < SOME_SHIFT:
            size = "little"
        elif self.psi < MUCH_SHIFT:
            size = "some"
        if self.moved:
            scores = f"The scores have moved ({size}: PSI {self.psi:.3f})"
        else:
            scores = "The scores have not moved"
        if not self.miscalibrated:
            return f"{scores}; the calibrator shows no evidence of miscalibration."
        low, high = self.difference_interval
        if low > 0.0:
            how = f"its probabilities are too low, by {self.difference:.2g} on average"
        elif high < 0.0:
            how = (
                f"its probabilities are too high, by {-self.difference:.2g} on average"
            )
        elif self.slope_interval[1] < 1.0:
            how = "its probabilities are over-confident"
        elif self.slope_interval[0] > 1.0:
            how = "its probabilities are under-confident"
        else:
            how = "its curve has another shape than the data"
        return f"{scores}; the calibrator is miscalibrated: {how}. Refit it."

    def to_dict(self) -> dict[str, Any]:
        """Return all attributes and the verdict as a dict."""
        return asdict(self) | {
            "moved": self.moved,
            "miscalibrated": self.miscalibrated,
            "verdict": self.verdict,
        }

    def _numbers(self) -> list[tuple[str, float, Interval]]:
        """Name, value and interval of each number."""
        unknown = (float("nan"), float("nan"))
        return [
            (name, getattr(self, name), getattr(self, f"{name}_interval", unknown))
            for name in LABELS
        ]

    def _blocks(self) -> list[Block]:
        rows: list[Row] = []
        for name, value, (low, high) in self._numbers():
            shown = format_number(value)
            if name.endswith("_weight"):
                shown = f"{value:g}"
            if name.endswith("p_value"):
                shown = p_value(value)
            limits = f"{format_number(low)} to {format_number(high)}"
            rows.append((LABELS[name], shown, "" if np.isnan(low) else limits))
        header = ("", "value", f"{percent(self.level)} interval")
        return [Table(rows, header), self.verdict]

    def _columns(self) -> dict[str, Any]:
        names, values, intervals = zip(*self._numbers(), strict=True)
        lower, upper = zip(*intervals, strict=True)
        return {"name": names, "value": values, "lower": lower, "upper": upper}


SHOWN = 20
"""Number of segments in a printed table."""


@dataclass(frozen=True, eq=False)
class SegmentDrift(Result, Mapping[Any, Drift]):
    """Changes by segment: a mapping from segments to :class:`Drift`.

    See :func:`drift`.

    Attributes
    ----------
    segments : dict
        Results for the segments of both data sets, at levels corrected for their number
        (Bonferroni).
    new, gone : list
        Segments that occur only in the current data, or only in the reference.
    level : float
        Joint confidence level of all intervals of one kind.
    """

    segments: dict[Any, Drift]
    new: list[Any]
    gone: list[Any]
    level: float

    def __getitem__(self, segment: Any) -> Drift:
        return self.segments[segment]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.segments)

    def __len__(self) -> int:
        return len(self.segments)

    @property
    def moved(self) -> list[Any]:
        """Segments whose distribution of scores has changed significantly."""
        return [segment for segment, one in self.items() if one.moved]

    @property
    def miscalibrated(self) -> list[Any]:
        """Segments on which the calibrator is significantly miscalibrated."""
        return [segment for segment, one in self.items() if one.miscalibrated]

    @property
    def verdict(self) -> str:
        """Numbers of segments that have changed, as a sentence."""
        sentence = (
            f"Of {len(self)} segments, the scores of {len(self.moved)} have moved, "
            f"and the calibrator is miscalibrated for {len(self.miscalibrated)}."
        )
        if self.new or self.gone:
            sentence += f" {len(self.new)} are new, {len(self.gone)} are gone."
        return sentence

    def to_dict(self) -> dict[str, Any]:
        """Return all attributes and the verdict as a dict."""
        return {
            "segments": {segment: one.to_dict() for segment, one in self.items()},
            "new": self.new,
            "gone": self.gone,
            "level": self.level,
            "verdict": self.verdict,
        }

    def _blocks(self) -> list[Block]:
        changed = sorted(
            self.items(),
            key=lambda item: min(item[1].calibration_p_value, item[1].score_p_value),
        )
        rows: list[Row] = [
            (
                str(segment),
                f"{one.current_weight:g}",
                format_number(one.psi) + " *" * one.moved,
                format_number(one.expected_rate),
                format_number(one.current_rate),
                p_value(one.calibration_p_value) + " *" * one.miscalibrated,
            )
            for segment, one in changed[:SHOWN]
        ]
        header = ("segment", "weight", "PSI", "expected", "event rate", "p-value")
        return [Table(rows, header, total=len(self)), self.verdict]

    def _columns(self) -> dict[str, Any]:
        records = [one._columns() for one in self.values()]
        columns: dict[str, Any] = {"segment": list(self)}
        for i, name in enumerate(LABELS):
            columns[name] = [one["value"][i] for one in records]
        columns["moved"] = [one.moved for one in self.values()]
        columns["miscalibrated"] = [one.miscalibrated for one in self.values()]
        return columns


@overload
def drift(
    reference: ScoreHistogram,
    current: ScoreHistogram,
    *,
    calibrator: Any = None,
    level: float = 0.95,
) -> Drift: ...
@overload
def drift(
    reference: Mapping[Any, ScoreHistogram],
    current: Mapping[Any, ScoreHistogram],
    *,
    calibrator: Any = None,
    level: float = 0.95,
) -> SegmentDrift: ...
def drift(
    reference: Any, current: Any, *, calibrator: Any = None, level: float = 0.95
) -> Drift | SegmentDrift:
    """Detect changes of the scores and of their calibration.

    The data are given as histograms, for example of a day or a year, which can be saved
    with :func:`~calspline.save` and added. No rows are needed.

    Parameters
    ----------
    reference, current : ScoreHistogram, or mapping from segments to histograms
        Mappings, as returned by ``ScoreHistogram.from_scores(..., by=country)``, are
        compared segment by segment, with levels corrected for their number
        (Bonferroni). Weights that are whole numbers count rows. For other weights, the
        effective sample size follows from ``row_weight`` of the histogram, which is
        assumed to be the same at all scores.
    calibrator : fitted calibrator of two classes, optional
        Calibrator in use. By default, a :class:`~calspline.SplineCalibrator` is fitted
        to the reference, with its segments if there are any.
    level : float in (0, 1), default=0.95
        Confidence level of the intervals and of the verdict.

    Returns
    -------
    result : Drift or SegmentDrift
        Numbers as attributes; ``print`` shows a table and the verdict. For mappings, a
        mapping from segments to :class:`Drift`.

    See Also
    --------
    calspline.Monitor : Sequential test for repeated use.
    calspline.evaluate : Evaluate probabilities row by row.

    Notes
    -----
    The test of the calibrator is that of :func:`~calspline.evaluate`, on the cells of
    the histogram. The interval of the difference treats the outcomes as random and the
    scores as fixed. The calibrator is itself an estimate, so it is not exactly
    calibrated for new rows even if nothing changes. All variances are therefore
    multiplied by one plus the variance of the curve, summed over the current rows and
    divided by its effective degrees of freedom, which is about the number of current
    rows over the number of calibration rows. A calibrator without a variance is treated as if
    fitted to as many rows as the reference has. In large data sets, the tests detect
    differences that are irrelevant in practice: look at the index and the intervals.
    Repeating the test every day will eventually produce a false alarm; use
    :class:`~calspline.Monitor` for that.

    Examples
    --------
    >>> import numpy as np
    >>> from calspline import ScoreHistogram, drift
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(size=(2, 4000))
    >>> january = ScoreHistogram.from_scores(p[0], rng.random(4000) < p[0])
    >>> june = ScoreHistogram.from_scores(p[1], rng.random(4000) < p[1] ** 1.5)
    >>> seen = drift(january, june)
    >>> seen.moved, seen.miscalibrated
    (False, True)
    >>> seen.verdict.split("; ")[1]
    'the calibrator is miscalibrated: its probabilities are too high, by 0.11 on average. Refit it.'
    """  # noqa: E501
    check_number(level, "level", above=0.0, below=1.0)
    several = isinstance(reference, Mapping) and isinstance(current, Mapping)
    before, now = (
        (reference, current) if several else ({None: reference}, {None: current})
    )
    both = [segment for segment in before if segment in now]
    if not both:
        raise ValueError("reference and current must have a segment in common")
    for segment in both:
        _check_histograms(before[segment], now[segment])
    if calibrator is not None:
        check_fitted_calibrator(calibrator, 2)
        for segment in both:
            now[segment].check_classes(calibrator.classes_.tolist(), "current")
        if not several:
            calibrator.model_.warn_without_segments()
    else:
        rows = {segment: one.in_rows() for segment, one in before.items()}
        _check_both_classes(rows.values())
        calibrator = SplineCalibrator().fit_histogram(rows if several else rows[None])
    each = 1.0 - (1.0 - level) / len(both)
    found = {
        segment: _drift_of(before[segment], now[segment], calibrator, each, segment)
        for segment in both
    }
    if not several:
        return found[None]
    new, gone = (
        [one for one in some if one not in others]
        for some, others in ((now, before), (before, now))
    )
    return SegmentDrift(found, new, gone, level)


def _check_histograms(reference: Any, current: Any) -> None:
    for value, name in ((reference, "reference"), (current, "current")):
        if not isinstance(value, ScoreHistogram):
            raise TypeError(
                f"{name} must be a ScoreHistogram; got {type(value).__name__}"
            )
        if not len(value):
            raise ValueError(f"{name} must hold rows; it is empty")
    if reference.kind != current.kind:
        raise ValueError(
            f"reference and current must be of one kind; got {reference.kind} and "
            f"{current.kind} scores"
        )


def _check_both_classes(reference: Iterable[ScoreHistogram]) -> None:
    """Check that a calibrator can be fitted to the histograms."""
    histograms = list(reference)
    for name in ("positives", "negatives"):
        if not any(getattr(one, name).any() for one in histograms):
            raise ValueError(
                "reference must hold both classes for a calibrator to be fitted to it; "
                "otherwise, pass calibrator"
            )


ROWS_TOGETHER = 4


def _drift_of(
    reference: ScoreHistogram,
    current: ScoreHistogram,
    calibrator: Any,
    level: float,
    segment: Any = None,
) -> Drift:
    """Changes between a pair of histograms, of all rows or of one segment."""
    weights = reference.total, current.total
    reference = reference.in_rows()
    current = current.in_rows()
    psi, distance, score_p_value = _score_shift(reference, current)
    w = current.positives + current.negatives
    # Of a segment it is less, since it shares what others have shown.
    extra = current.total / reference.total
    with one_blas_thread():
        if segment is not None and hasattr(calibrator, "segments_"):
            places = _places(calibrator, segment, len(current))
            scores = check_scores(current.scores)
            p = calibrator.model_.probabilities(scores, places)
        else:
            p = calibrator.calibrate(current.scores)
            known = _curve_variance(calibrator, current.scores, w, p)
            if known is not None:
                extra = known
        f = Counts.from_sums(p, current.positives, current.negatives, (1.0 + extra) * w)
        cox = recalibration(f)
        # Flips that are larger than rows are too few and too large, so rows are taken
        # together.
        n_bins = max(int(f.effective.sum() / ROWS_TOGETHER), 2)
        p_right = calibration_p_value(f.coarsened(n_bins))
    z = float(norm.isf(0.5 * (1.0 - level)))

    def around(value: float, error: float) -> Interval:
        return value - z * error, value + z * error

    difference = current.base_rate - f.mean
    return Drift(
        reference_weight=weights[0],
        current_weight=weights[1],
        reference_rate=reference.base_rate,
        current_rate=current.base_rate,
        psi=psi,
        distance=distance,
        score_p_value=score_p_value,
        expected_rate=f.mean,
        difference=difference,
        difference_interval=around(difference, _rate_error(f, cox.in_the_large)),
        in_the_large=cox.in_the_large,
        in_the_large_interval=around(cox.in_the_large, cox.in_the_large_se),
        slope=cox.slope,
        slope_interval=around(cox.slope, cox.slope_se),
        calibration_p_value=p_right,
        level=level,
    )


def _places(calibrator: Any, segment: Any, n: int) -> Any:
    """Segment indices of ``n`` rows; the segment may be unseen."""
    if isinstance(segment, tuple):
        by = [[label] * n for label in segment]
    else:
        by = [segment] * n
    return calibrator.model_.find_segments(check_by(by, n))


N_BINS = 10
"""Number of quantile bins, as is customary for the population stability index."""


def _score_shift(
    reference: ScoreHistogram, current: ScoreHistogram
) -> tuple[float, float, float]:
    """Stability index, largest difference of cumulative shares, and p-value.

    The bins are quantiles of the reference, made of cells of a common grid so that
    equal scores share a bin.
    """
    level = (reference + current).level
    keys = np.concatenate([_cells(one, level) for one in (reference, current)])
    weights = np.concatenate(
        [one.positives + one.negatives for one in (reference, current)]
    )
    old = np.arange(len(keys)) < len(reference)
    cells = Counts.from_sums(keys, weights * old, weights * ~old)
    share = cells.positives / reference.total
    first = run_starts(
        np.minimum(
            ((np.cumsum(share) - 0.5 * share) * N_BINS).astype(np.intp), N_BINS - 1
        )
    )
    before, now = (
        np.add.reduceat(weight, first) for weight in (cells.positives, cells.negatives)
    )
    distance = float(
        np.abs(np.cumsum(now / current.total - before / reference.total)).max()
    )
    if len(first) == 1:
        test = 1.0
    else:
        test = float(chi2_contingency([before, now], correction=False).pvalue)
    # Half a row more in each bin, so that an empty one has a logarithm.
    a, b = ((weight + 0.5) / (weight + 0.5).sum() for weight in (before, now))
    return float(((b - a) * np.log(b / a)).sum()), distance, test


def _cells(histogram: ScoreHistogram, level: int | None) -> NDArray[Any]:
    if level is None:
        return histogram.locations
    if histogram.level is None:
        return cells_of(histogram.locations, histogram.kind, level)
    return coarser(histogram.cells, level - histogram.level)


def _rate_error(f: Counts, shift: float) -> float:
    """Standard error of the event rate, given the scores."""
    p = np.clip(f.x, NEARLY_CERTAIN, 1.0 - NEARLY_CERTAIN)
    q = expit(logit(p) + shift) if np.isfinite(shift) else p
    return float(np.sqrt(f.squares @ (q * (1.0 - q)))) / f.total


LEAST_PARAMETERS, MORE_PARAMETERS = 2.0, 1.4
"""Effective parameters of a curve: at least those of a line, and an allowance for bends
that were smoothed away."""


def _curve_variance(
    calibrator: Any, scores: Array, weight: Array, p: Array
) -> float | None:
    """Variance of the calibration curve, relative to that of the outcomes.

    None if the calibrator has no variance.

    For a curve with ``k`` effective parameters fitted to ``n`` rows, the variances of
    the log-odds times ``p (1 - p)`` sum to ``k`` over these rows, and to ``k m / n``
    over ``m`` others.
    """
    curve = calibrator.curves_[0] if getattr(calibrator, "curves_", None) else None
    if curve is None or not curve.has_band or not hasattr(calibrator, "edf_"):
        return None
    parameters = max(float(np.max(calibrator.edf_)), LEAST_PARAMETERS) + MORE_PARAMETERS
    # Far from the rows of the fit it may overflow, but that of a probability between 0
    # and 1 is at most that of an outcome.
    variance = np.minimum(curve.variance_at(scores), np.finfo(float).max)
    return float(weight @ np.minimum(p * (1.0 - p) * variance, 1.0)) / parameters
