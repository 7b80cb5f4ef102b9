"""Evaluation by segment: a table, a joint test, and the miscalibrated segments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtri
from scipy.stats import false_discovery_control
from scipy.stats import t as student

from calspline._arrays import Array, run_starts
from calspline._formatting import (
    Row,
    format_number,
    p_equals,
    p_value,
    percent,
)
from calspline._input.segment_labels import By
from calspline._plots import draw
from calspline._results import Block, Result, Table
from calspline.evaluation.coin_flips import Ints
from calspline.evaluation.losses import row_log_losses
from calspline.evaluation.predictions import Predictions, cell_sums, group_squares
from calspline.evaluation.protocols import LossDifference, PairedSets
from calspline.evaluation.segment_test import SegmentSums, root

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEVEL = 0.95
FALSE_SHARE = 0.05
"""Expected share of false discoveries among the segments reported as miscalibrated."""
SHOWN = 20
"""Number of rows in a printed table."""
FEWEST_ROWS = 10
"""Segments with fewer rows do not count for the multicalibration error, as in
MCGrad."""
PRIOR_PRECISION = 0.25
"""Prior precision of the shift of a segment, which keeps it finite."""
FARTHEST_SHIFT = 40.0
ANYWHERE = 1e12
"""Search range for limits, in standard errors, if the standard error is unknown."""
NO_SEGMENT = "(none)"


class Coded(NamedTuple):
    """Segments of one or more columns as codes.

    Rows without a label form a segment of their own, None.

    ``code`` has one row per column. ``names`` are the names of the segments and
    ``table`` the first columns of a table; both include the name of the column if there
    are several.
    """

    code: Ints
    labels: list[Any]
    names: list[str]
    table: dict[str, Any]

    @classmethod
    def of(cls, by: By) -> Coded:
        """Encode the segments of all columns."""
        columns: list[str] = []
        labels: list[Any] = []
        codes = []
        for k, column in enumerate(by.columns):
            values = [*column.values, *([None] if np.any(column.codes < 0) else [])]
            codes.append(
                np.where(column.codes < 0, len(column.values), column.codes)
                + len(labels)
            )
            labels += values
            columns += [str(k) if column.name is None else column.name] * len(values)
        code = np.array(codes, dtype=np.intp)
        names = [NO_SEGMENT if one is None else str(one) for one in labels]
        if len(codes) == 1:
            return cls(code, labels, names, {"segment": labels})
        names = [
            f"{column}: {name}" for column, name in zip(columns, names, strict=True)
        ]
        return cls(code, labels, names, {"column": columns, "segment": labels})


@dataclass(frozen=True, eq=False)
class JudgedSegments(Result):
    """Table with one entry per segment, and the names of the segments."""

    table: dict[str, Any]
    names: list[str]

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def order(self) -> list[int]:
        """Indices of the segments, worst first: by p-value, then by shift."""
        shift = self.table.get("shift", np.zeros(len(self)))
        return np.lexsort([-np.abs(shift), self.table["p_value"]]).tolist()  # type: ignore[no-any-return]

    def _columns(self) -> Mapping[str, Any]:
        return self.table


@dataclass(frozen=True, eq=False)
class SegmentEvaluation(JudgedSegments):
    """Calibration by segment, as computed by :func:`evaluate` with ``by``.

    ``print`` shows a table of the worst segments.

    For three or more classes, the event is that the most probable class is correct.

    Attributes
    ----------
    table : dict
        Columns with one value per segment; see :meth:`to_frame`. ``column`` (if there
        are several) and ``segment``; ``rows`` and ``events``, sums of weights;
        ``mean_score`` and ``event_rate``, the mean predicted probability and the
        observed frequency of the event; ``log_loss``; ``ratio``, which is
        ``event_rate / mean_score``, with its limits ``lower`` and ``upper``; ``shift``
        of the log-odds that makes the mean equal to the observed frequency;
        ``p_value`` of the hypothesis that the segment is calibrated; ``adjusted``, the
        p-value corrected for the number of segments; ``miscalibrated``, whether
        ``adjusted`` is below 0.05; and ``verdict``: the scores are ``"too low"``,
        ``"too high"``, ``"over-confident"`` or ``"under-confident"``.
    names : list of str
        Names of the segments.
    p_value : float
        P-value of the hypothesis that every segment is calibrated.
    multicalibration_error : float
        Largest cumulative calibration error of a segment in its standard deviations,
        times the standard deviation of all rows: ``mce`` of MCGrad's
        ``MulticalibrationError`` for these segments and all rows. Segments with fewer
        than ten rows do not count.
    multicalibration_sigmas : float
        The same in standard deviations, as MCGrad's ``mce_sigma``. It grows with the
        number of segments, for which ``p_value`` is corrected.
    """

    p_value: float
    multicalibration_error: float
    multicalibration_sigmas: float

    @property
    def miscalibrated(self) -> list[int]:
        """Indices of the miscalibrated segments, worst first.

        The false discovery rate is controlled at 5% (Benjamini and Hochberg).
        """
        return [i for i in self.order if self.table["miscalibrated"][i]]

    @property
    def verdict(self) -> str:
        """Result of the joint test and the number of miscalibrated segments."""
        p = self.p_value
        n = len(self)
        if p >= FALSE_SHARE:
            return (
                "No evidence of miscalibration in any of the "
                f"{n:,} segments ({p_equals(p)})."
            )
        count = len(self.miscalibrated)
        which = f"{count:,} of {n:,} are miscalibrated"
        if not count:
            which = "there are too few rows to identify which"
        return f"Not every segment is calibrated ({p_equals(p)}): {which}."

    def to_dict(self) -> dict[str, float]:
        """Return the numbers that refer to all segments as a flat dict."""
        return {
            "n_segments": float(len(self)),
            "segments_miscalibrated": float(len(self.miscalibrated)),
            "segments_p_value": self.p_value,
            "multicalibration_error": self.multicalibration_error,
            "multicalibration_sigmas": self.multicalibration_sigmas,
        }

    def records(self) -> list[dict[str, Any]]:
        """Return the table as a list of dicts, one per segment."""
        columns = [
            np.asarray(values, dtype=object).tolist() for values in self.table.values()
        ]
        return [
            dict(zip(self.table, row, strict=True))
            for row in zip(*columns, strict=True)
        ]

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot the worst segments as a forest plot with matplotlib."""
        axes: Axes = draw(self, ax)
        return axes

    def _blocks(self) -> list[Block]:
        t = self.table
        rows: list[Row] = []
        for i in self.order[:SHOWN]:
            means = (t[key][i] for key in ("mean_score", "event_rate", "log_loss"))
            rows.append(
                (
                    self.names[i],
                    f"{t['rows'][i]:g}",
                    f"{t['events'][i]:g}",
                    *(format_number(float(mean)) for mean in means),
                    f"{t['ratio'][i]:.2f}",
                    f"{t['lower'][i]:.2f} to {t['upper'][i]:.2f}",
                    p_value(float(t["p_value"][i])),
                    t["verdict"][i],
                )
            )
        header = (
            "segment",
            "rows",
            "events",
            "mean score",
            "event rate",
            "log-loss",
            "ratio",
            percent(LEVEL),
            "p-value",
            "scores",
        )
        error = format_number(self.multicalibration_error)
        sigmas = f"{self.multicalibration_sigmas:.1f} standard deviations"
        return [
            Table(rows, header, total=len(self)),
            self.verdict,
            f"Multicalibration error: {error} ({sigmas}).",
        ]

    def __repr__(self) -> str:
        return (
            f"SegmentEvaluation({len(self)} segments: "
            f"miscalibrated={len(self.miscalibrated)}, p_value={self.p_value:.3g})"
        )


@dataclass(frozen=True, eq=False)
class SegmentDifferences(JudgedSegments):
    """Difference of the log-loss from the reference, by segment; negative is better.

    Attributes
    ----------
    table : dict
        Columns with one value per segment: ``column`` (if there are several) and
        ``segment``; ``rows``; ``difference`` with its limits ``lower`` and ``upper``;
        ``p_value`` of the hypothesis of no difference; ``adjusted``, the p-value
        corrected for the number of segments and sets; and ``verdict``, "better" or
        "worse" if ``adjusted`` is below 0.05, otherwise "unclear". The false discovery
        rate of these verdicts is controlled at 5%.
    names : list of str
        Names of the segments.
    """

    @property
    def verdict(self) -> str:
        """Numbers of segments that are better and worse, as a sentence."""
        better, worse, rest = (
            self.table["verdict"].count(one) for one in ("better", "worse", "unclear")
        )
        return (
            f"Segments that are better: {better:,} of {len(self):,}; worse: {worse:,}; "
            f"unclear: {rest:,}."
        )

    def to_dict(self) -> dict[str, float]:
        """Number of segments by verdict."""
        return {
            f"segments_{one}": float(self.table["verdict"].count(one))
            for one in ("better", "worse", "unclear")
        }

    def _blocks(self) -> list[Block]:
        t = self.table
        rows: list[Row] = [
            (
                self.names[i],
                f"{t['rows'][i]:g}",
                f"{t['difference'][i]:+.4f}",
                f"{t['lower'][i]:+.4f} to {t['upper'][i]:+.4f}",
                p_value(float(t["p_value"][i])),
                t["verdict"][i],
            )
            for i in self.order[:SHOWN]
        ]
        header = "segment", "rows", "log-loss", percent(LEVEL), "p-value", "verdict"
        return [Table(rows, header, total=len(self)), self.verdict]


def evaluate_segments(rows: Predictions, of_all_rows: float) -> SegmentEvaluation:
    """Evaluate by segment; ``of_all_rows`` is the p-value without segments."""
    assert rows.by is not None
    coded = Coded.of(rows.by)
    event = rows.event
    sums = SegmentSums(event, coded.code, len(coded.labels))
    n, events, expected = (
        sums.total(rows.w * values) for values in (1.0, event.codes, event.probs)
    )
    shift, lower, upper = _ratios(sums)
    adjusted = false_discovery_control(sums.segment_p_values)
    miscalibrated = adjusted < FALSE_SHARE
    error, sigmas = multicalibration_error(sums)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = events / expected
    table = coded.table | {
        "rows": n,
        "events": events,
        "mean_score": expected / n,
        "event_rate": events / n,
        "log_loss": sums.total(rows.w * row_log_losses(rows.probs, rows.codes)) / n,
        "ratio": ratio,
        "lower": np.minimum(lower, ratio),
        "upper": np.maximum(upper, ratio),
        "shift": shift,
        "p_value": sums.segment_p_values,
        "adjusted": adjusted,
        "miscalibrated": miscalibrated,
        "verdict": _verdicts(sums, miscalibrated),
    }
    return SegmentEvaluation(
        table, coded.names, sums.p_value(of_all_rows), error, sigmas
    )


def _verdicts(sums: SegmentSums, miscalibrated: NDArray[np.bool_]) -> list[str]:
    """Describe the miscalibration by level or slope, whichever is more significant."""
    level, slope = sums.sums
    p_level, p_slope = sums.p_values
    of_level = np.where(level > 0.0, "too low", "too high")
    of_slope = np.where(slope > 0.0, "under-confident", "over-confident")
    clearer = np.where(p_level <= p_slope, of_level, of_slope)
    verdicts: list[str] = np.where(miscalibrated, clearer, "").tolist()
    return verdicts


def _ratios(sums: SegmentSums) -> tuple[Array, Array, Array]:
    """Shifts of the log-odds, and limits of the ratio of event rate to mean score.

    The limits generalize Wilson's interval to rows with different probabilities: they
    are the expected ratios of the shifts that the observed rate just does not reject.
    """
    c = sums.cells

    def at(shift: Array) -> tuple[Array, Array]:
        q = expit(c.z + shift[c.code])
        return sums.over_cells(c.count * c.size * q), sums.over_cells(
            c.count * c.size**2 * q * (1.0 - q)
        )

    zero = np.zeros(sums.n)
    expected, _ = at(zero)
    events = expected + sums.sums[0]
    size = sums.total(sums.rows.powers()) / sums.total(sums.rows.w)
    side = np.sign(sums.sums[0])
    step = np.ones(sums.n)
    hold = PRIOR_PRECISION * size
    shift = side * root(
        lambda s: side * (at(side * s)[0] - events) + hold * s, step, FARTHEST_SHIFT
    )
    reach = np.full(sums.n, float(ndtri(0.5 + 0.5 * LEVEL)))
    if sums.rows.groups is not None:
        residual = sums.rows.w * (
            sums.rows.codes - expit(c.z[sums.place] + shift[sums.code])
        )
        shown, G = group_squares(residual, sums.code, sums.rows.groups, sums.n)
        effect = np.maximum(shown / np.maximum(at(shift)[1], 1e-300), 1.0)
        reach = student.ppf(0.5 + 0.5 * LEVEL, np.maximum(G - 1.0, 1.0)) * np.sqrt(
            effect
        )
        reach[G < 2.0] = ANYWHERE

    def end(sign: float) -> Array:
        def beyond(s: Array) -> Array:
            mean, variance = at(shift + sign * s)
            return np.asarray(sign * (mean - events) - reach * np.sqrt(variance))

        return np.asarray(
            at(shift + sign * root(beyond, step, FARTHEST_SHIFT))[0] / expected
        )

    return shift, end(-1.0), end(1.0)


def multicalibration_error(sums: SegmentSums) -> tuple[float, float]:
    """Multicalibration error (Guy et al.), absolute and in standard deviations.

    The cumulative error of a segment is the range, 0 included, of the summed residuals
    in the order of their probabilities; rows with the same one count together.

    References
    ----------
    I. Guy et al., *Measuring multi-calibration*, arXiv 2506.11251, 2025.
    """
    variance = sums.rows.powers() * sums.rows.probs * (1.0 - sums.rows.probs)
    largest = 0.0
    of_all = float(np.sqrt(variance.sum()))
    for code in [np.zeros(len(variance), dtype=np.intp), *sums.code]:
        order = np.lexsort([sums.rows.probs, code])
        p = sums.rows.probs[order]
        segment = code[order]
        first = run_starts(segment)
        reached = np.cumsum(sums.residual[order])
        reached -= np.repeat(
            np.append(0.0, reached[first[1:] - 1]), np.diff(first, append=len(segment))
        )
        # Only the last row of those with the same probability is a place to stop.
        last = np.append((np.diff(p) != 0.0) | (np.diff(segment) != 0), True)
        stops = np.where(last, reached, 0.0)
        error = np.maximum.reduceat(
            np.maximum(stops, 0.0), first
        ) - np.minimum.reduceat(np.minimum(stops, 0.0), first)
        sd = np.sqrt(np.bincount(code, variance)[segment[first]])
        counts = np.bincount(code)[segment[first]] >= FEWEST_ROWS
        with np.errstate(divide="ignore", invalid="ignore"):
            sigmas = np.where(error == 0.0, 0.0, error / sd)
        largest = max(largest, float(sigmas[counts].max(initial=0.0)))
    return largest * of_all / sums.rows.total, largest


def segment_differences(
    paired: PairedSets,
) -> dict[str, SegmentDifferences]:
    """Differences of each set by segment; empty without segments."""
    by = next((one.rows.by for one in paired.values()), None)
    if by is None:
        return {}
    coded = Coded.of(by)
    parts = {name: _by_segment(one, coded) for name, one in paired.items()}
    adjusted = false_discovery_control(
        np.concatenate([part["p_value"] for part in parts.values()])
    )
    out = {}
    for (name, part), q in zip(
        parts.items(), np.split(adjusted, len(parts)), strict=True
    ):
        verdict = np.where(
            q < FALSE_SHARE,
            np.where(part["difference"] < 0.0, "better", "worse"),
            "unclear",
        )
        table = coded.table | part | {"adjusted": q, "verdict": verdict.tolist()}
        out[name] = SegmentDifferences(table, coded.names)
    return out


def _by_segment(one: LossDifference, coded: Coded) -> dict[str, Array]:
    """Mean difference, limits and p-value of each segment.

    For two classes, the variance is at least the one implied by the probabilities of
    both sets, because the outcomes of a few rows may all be equal.
    """
    rows = one.rows
    S = len(coded.labels)
    code = coded.code
    total = partial(cell_sums, cell=code, n=S)
    weight = total(rows.w)
    mean = total(rows.w * one.seen) / weight
    away = one.seen - mean[code]
    if rows.groups is None:
        squares = total(rows.powers() * away**2)
        freedom = np.full(S, np.inf)
    else:
        squares, G = group_squares(rows.w * away, code, rows.groups, S)
        freedom = G - 1.0
    if rows.binary:
        p = 0.5 * (rows.probs + one.reference.probs)
        stake = one.if_outcome(1) - one.if_outcome(0)
        squares = np.maximum(squares, total(rows.powers() * p * (1.0 - p) * stake**2))
    error = np.sqrt(squares) / weight
    known = freedom > 0.0
    z = np.divide(np.abs(mean), error, out=np.zeros(S), where=error > 0.0)
    t = student(np.where(known, freedom, 1.0))
    reach = np.where(known, t.isf(0.5 - 0.5 * LEVEL), np.inf)
    far = np.multiply(reach, error, out=np.zeros(S), where=error > 0.0)
    return {
        "rows": weight,
        "difference": mean,
        "lower": mean - far,
        "upper": mean + far,
        "p_value": np.where(known, 2.0 * t.sf(z), 1.0),
    }
