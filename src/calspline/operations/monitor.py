"""Sequential monitoring of the calibration.

A test that is repeated every day will eventually reject, even if nothing is wrong.
**Evidence** (an e-process) does not have this problem. It is the fortune of a gambler
who starts with 1 and bets on the outcomes. The odds are the calibrator's probabilities
``p``, the bets are probabilities ``q`` fitted to earlier days, so a day multiplies the
fortune by the likelihood ratio

    prod_i (q_i / p_i)^(y_i) ((1 - q_i) / (1 - p_i))^(1 - y_i).

If the calibrator is calibrated, the expected fortune does not grow, and the probability
that it ever exceeds ``1 / alpha`` is at most ``alpha`` (Ville's inequality). An alarm
at that point is therefore false with at most that probability, over all days together.
Labels may arrive late, as long as bets are made before they are known.

The fortune is divided among gamblers, who correct the log-odds by a constant (*level*),
by a line (*slope*) or by a spline (*shape*), fitted to all earlier days or to about the
last ten. Each starts betting with a small part of the money and adds the share ``1 / (n
log^2 n)`` on day ``n``, which leaves enough to detect a late change.

With segments, one half of the fortune is bet on all rows and the other half in the
segments, of which the ``n``-th to appear gets the share ``1 / (n log^2 n)``. All of it
is one fortune with one error rate.

References
----------
V. Vovk and R. Wang, *E-values: calibration, combination and applications*, Annals of
Statistics 49, 2021. A. Ramdas, P. Grünwald, V. Vovk and G. Shafer, *Game-theoretic
statistics and safe anytime-valid inference*, Statistical Science 38, 2023.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Annotated, Any, Self

import numpy as np
from scipy.special import expit

from calspline._arrays import Array, Counts, one_blas_thread
from calspline._codec import check_fields, from_json, to_json
from calspline._domains import Integer, Number, Numbers
from calspline._formatting import Row
from calspline._input.options import check_number, check_text
from calspline._plots import draw
from calspline._results import Block, Result, Table
from calspline._user_warnings import warn_user
from calspline.calibrators.checks import check_fitted_calibrator
from calspline.evaluation.recalibration import on_a_line, recalibration
from calspline.fits.options import Recipe
from calspline.fits.validated import fit_curve
from calspline.histograms.score_histogram import ScoreHistogram
from calspline.transforms import log_odds

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from calspline.calibrators.base import BaseCalibrator

FADING = 0.9
"""Factor by which the weight of a day decreases per day, for gamblers that consider
recent days only."""
REFIT = 3
"""The spline is refitted after this number of days."""
PRECISION = 4.0
"""Prior precision of corrections of log-odds: a standard deviation of one half."""
CELLS = 256
SUM_OF_SHARES = 2.1097428
"""``sum 1 / (n log^2 n)`` from 2 on."""
CLEARLY = float(np.log(10.0))
"""A simpler explanation is preferred unless its gambler is poorer by more than this
factor."""
MOST_DAYS = 10_000_000
GAMBLERS = (
    ("level", False),
    ("level", True),
    ("slope", False),
    ("slope", True),
    ("shape", True),
)
"""Correction and memory of each gambler, the simplest first."""


SHOWN = 10
"""Number of updates in a printed table."""
ENTRY_COLUMNS = ("when", "rows", "rate", "expected_rate", "evidence", "alarm")


def share(n: Any) -> Any:
    """Share that is bet from day ``n``, or in the ``n``-th segment, counted from 1."""
    return 1.0 / (SUM_OF_SHARES * (n + 1) * np.log(n + 1) ** 2)


def kept_back(n: int) -> float:
    """Share that is left after ``n`` days or segments."""
    return float(1.0 - share(np.arange(1, n + 1)).sum())


OnGrid = Annotated[Array, Numbers("n", least=2, most=CELLS)]


@dataclass
class Stream:
    """Accumulated data of rows that are monitored together, and the log-fortunes."""

    days: Annotated[int, Integer(0, MOST_DAYS)] = 0
    stakes: Annotated[Array, Numbers(len(GAMBLERS), infinite=True)] = field(
        default_factory=lambda: np.full(len(GAMBLERS), -np.inf)
    )
    past: ScoreHistogram | None = None
    lately: ScoreHistogram | None = None
    curve: tuple[OnGrid, OnGrid] | None = None
    """Grid of log-odds, and the same corrected by the spline."""

    def __post_init__(self) -> None:
        check_fields(self)
        if self.stakes.max() == np.inf:
            raise ValueError("stakes must not be infinity")

    @property
    def fortunes(self) -> Array:
        """Logarithm of each gambler's fortune."""
        return np.logaddexp(self.stakes, np.log(kept_back(self.days)))

    @property
    def evidence(self) -> float:
        """Logarithm of the mean fortune."""
        return float(np.logaddexp.reduce(self.fortunes) - np.log(len(GAMBLERS)))

    @property
    def what(self) -> str:
        """Simplest correction whose gambler is about as rich as the richest."""
        fortunes = self.fortunes
        return GAMBLERS[int(np.argmax(fortunes >= fortunes.max() - CLEARLY))][0]

    def update(self, day: ScoreHistogram) -> None:
        """Bet on the rows of a day, then learn from them."""
        self.days += 1
        self.stakes = np.logaddexp(self.stakes, np.log(share(self.days)))
        if self.past is None or self.lately is None:
            self.past = self.lately = day
            return
        for i, (what, lately) in enumerate(GAMBLERS):
            seen = self.lately if lately else self.past
            x = day.locations
            if what == "shape":
                corrected = self._bent(seen, x)
            else:
                corrected = on_a_line(
                    seen.counts.coarsened(CELLS),
                    x,
                    [PRECISION] * (1 if what == "level" else 2),
                )
            self.stakes[i] += log_ratio(day, corrected)
        w1 = FADING * self.lately.positives
        w0 = FADING * self.lately.negatives
        self.past, self.lately = (
            self.past + day,
            replace(self.lately, positives=w1, negatives=w0) + day,
        )

    def _bent(self, seen: ScoreHistogram, x: Array) -> Array:
        if self.curve is None or self.days % REFIT == 0:
            if not (seen.positives.any() and seen.negatives.any()):
                return x
            grid = np.linspace(
                float(seen.locations[0]), float(seen.locations[-1]), CELLS
            )
            self.curve = grid, log_odds(fit_curve(seen, Recipe()).curve(expit(grid)))
        grid, values = self.curve
        # # Beyond the observed range, the correction is constant.
        inside = np.clip(x, grid[0], grid[-1])
        return np.asarray(np.interp(inside, grid, values) + x - inside)


def log_ratio(day: ScoreHistogram, corrected: Array) -> float:
    """Log-likelihood of a day with corrected log-odds, relative to the given ones."""
    up = np.logaddexp(0.0, -day.locations) - np.logaddexp(0.0, -corrected)
    down = np.logaddexp(0.0, day.locations) - np.logaddexp(0.0, corrected)
    return float(day.positives @ up + day.negatives @ down)


@dataclass(frozen=True)
class Update:
    """One update of a monitor."""

    when: str
    rows: Annotated[float, Number(above=0.0)]
    rate: Annotated[float, Number(not_negative=True)]
    expected_rate: Annotated[float, Number(not_negative=True)]
    evidence: Annotated[float, Number(not_negative=True)]
    alarm: bool

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True)
class Batch:
    """Identifier of the rows of an update, and the name of the update."""

    id: str
    when: str


@dataclass(frozen=True)
class SegmentStream:
    """Monitored rows of a segment."""

    segment: str
    stream: Stream


@dataclass(frozen=True)
class MonitorState:
    """Stored state of a monitor without its calibrator."""

    alpha: Annotated[float, Number(above=0.0, below=1.0)]
    log: tuple[Update, ...]
    whole: Stream
    segments: tuple[SegmentStream, ...]
    batches: tuple[Batch, ...]

    def __post_init__(self) -> None:
        check_fields(self)
        names = [each.segment for each in self.segments]
        if len(set(names)) < len(names):
            raise ValueError("segments must have different names")
        ids = [each.id for each in self.batches]
        if len(set(ids)) < len(ids):
            raise ValueError("batches must have different ids")


class Monitor(Result):
    """Monitor a calibrator continuously, with a bounded probability of false alarms.

    Parameters
    ----------
    calibrator : fitted calibrator of two classes
        Calibrator in use.
    alpha : float in (0, 1), default=0.05
        Upper limit of the probability of a false alarm over all updates.

    Attributes
    ----------
    log : list of dict
        For each update its name (``when``), ``rows``, ``rate``, ``expected_rate``,
        ``evidence`` and ``alarm``.
    batches : dict of str to str
        Names of the updates that had a ``batch``, by ``batch``.

    See Also
    --------
    calspline.drift : Compare two data sets once.

    Notes
    -----
    The hypothesis is that the calibrator's probabilities are exactly correct. With very
    many rows, irrelevant differences will raise an alarm; :attr:`verdict` gives their
    size.

    Weights that are whole numbers count rows. For other weights, the effective sample
    size follows from ``row_weight`` of the histogram, and the limit ``alpha`` is
    approximate.

    Examples
    --------
    >>> import numpy as np
    >>> from calspline import Monitor, ScoreHistogram, SplineCalibrator
    >>> rng = np.random.default_rng(0)
    >>> def day(rows, change=0.0):
    ...     u = rng.normal(size=rows)
    ...     y = rng.random(rows) < 1 / (1 + np.exp(-u - change))
    ...     return 1 / (1 + np.exp(-u)), y
    >>> monitor = Monitor(SplineCalibrator().fit(*day(20_000)))
    >>> for _ in range(30):
    ...     monitor = monitor.update(ScoreHistogram.from_scores(*day(200)))
    >>> monitor.alarm
    False
    >>> while not monitor.alarm:
    ...     monitor = monitor.update(ScoreHistogram.from_scores(*day(200, change=0.5)))
    >>> monitor.what, len(monitor.log) < 50
    ('level', True)
    """

    def __init__(self, calibrator: BaseCalibrator, *, alpha: float = 0.05) -> None:
        check_fitted_calibrator(calibrator, 2)
        self.calibrator = calibrator
        self.alpha = check_number(alpha, "alpha", above=0.0, below=1.0)
        self.log: list[dict[str, Any]] = []
        self.batches: dict[str, str] = {}
        self._all = Stream()
        self._parts: dict[str, Stream] = {}

    def update(
        self,
        histogram: ScoreHistogram | Mapping[str, ScoreHistogram],
        *,
        when: str | None = None,
        batch: str | None = None,
    ) -> Self:
        """Add rows whose labels have become known since the last update.

        Parameters
        ----------
        histogram : ScoreHistogram, or mapping of str to ScoreHistogram
            Scores and labels, by segment if there are any. A calibrator that was fitted
            with ``by`` applies the curve of each segment; keys are its labels as
            strings. Updates may arrive in any order.
        when : str, optional
            Name of the update; by default its number.
        batch : str, optional
            Identifier of the rows, such as a date or a digest of their file. If an
            update with the same ``batch`` was added before, the rows are ignored with a
            warning, so that a failed job can be repeated.

        Returns
        -------
        self : Monitor
            The monitor, updated.
        """
        if batch is not None:
            before = self.batches.get(check_text(batch, "batch"))
            if before is not None:
                warn_user(
                    f"batch {batch!r} was taken in before, as update {before!r}; it "
                    "does not count again"
                )
                return self
        if when is not None:
            check_text(when, "when")
        named = isinstance(histogram, Mapping)
        parts: dict[Any, Any] = (
            dict(histogram) if isinstance(histogram, Mapping) else {None: histogram}
        )
        for name, part in parts.items():
            if named and not isinstance(name, str):
                raise TypeError(f"the names of segments must be strings; got {name!r}")
            if not isinstance(part, ScoreHistogram):
                raise TypeError(
                    "histogram must be a ScoreHistogram, or a mapping of them; got "
                    f"{type(part).__name__}"
                )
            if len(part) and part.kind != self.calibrator.model_.kind.value_kind:
                raise ValueError(
                    f"histogram must hold {self.calibrator.model_.kind.value_kind} "
                    "scores, as the calibrator takes"
                )
            part.check_classes(self.calibrator.classes_.tolist(), "histogram")
        with one_blas_thread():
            days = {
                name: self._judged(part, name)
                for name, part in parts.items()
                if len(part)
            }
            if not days:
                raise ValueError("histogram must hold rows; it is empty")
            whole = reduce(add, days.values())
            self._all.update(whole)
            for name, day in days.items() if named else ():
                self._parts.setdefault(name, Stream()).update(day)
        weight = whole.positives + whole.negatives
        update = Update(
            when=str(len(self.log) + 1) if when is None else when,
            rows=whole.total,
            rate=whole.base_rate,
            expected_rate=float(weight @ expit(whole.locations)) / whole.total,
            evidence=self.evidence,
            alarm=self.alarm or self.evidence >= 1.0 / self.alpha,
        )
        self.log.append(asdict(update))
        if batch is not None:
            self.batches[batch] = self.log[-1]["when"]
        return self

    def _judged(self, part: ScoreHistogram, segment: str | None) -> ScoreHistogram:
        """Counts by calibrated log-odds, for the segment of that name if given."""
        table: Mapping[str, Any] = getattr(self.calibrator, "segments_", {})
        by = {}
        if segment is not None and table and "column" not in table:
            known = {str(label): label for label in table["segment"]}
            by = {"by": [known.get(segment)] * len(part)}
        else:
            self.calibrator.model_.warn_without_segments()
        part = part.in_rows()
        p = self.calibrator.calibrate(part.scores, **by)
        return ScoreHistogram.from_locations(
            "probability",
            log_odds(p),
            positives=part.positives,
            negatives=part.negatives,
        )

    @property
    def evidence(self) -> float:
        """Evidence of miscalibration: 1 is none, ``1 / alpha`` an alarm."""
        whole = _exp(self._all.evidence)
        if not self._parts:
            return whole
        return (
            0.5 * whole
            + sum(self.segments.values())
            + 0.5 * kept_back(len(self._parts))
        )

    @property
    def segments(self) -> dict[str, float]:
        """Evidence by segment with its share, significant from ``1 / alpha`` on."""
        streams = enumerate(self._parts.items(), start=1)
        return {
            name: float(0.5 * share(i)) * _exp(stream.evidence)
            for i, (name, stream) in streams
        }

    @property
    def alarm(self) -> bool:
        """Whether an alarm was raised."""
        return bool(self.log) and bool(self.log[-1]["alarm"])

    @property
    def what(self) -> str:
        """Kind of change, if any: ``"level"``, ``"slope"`` or ``"shape"``."""
        return self._worst.what

    @property
    def _worst(self) -> Stream:
        """Stream with the strongest evidence: that of a segment, or of all rows."""
        found = max(self.segments.items(), key=lambda item: item[1], default=("", 0.0))
        if found[1] > 0.5 * _exp(self._all.evidence):
            return self._parts[found[0]]
        return self._all

    @property
    def verdict(self) -> str:
        """Result and recommended action, as a sentence."""
        if not self.log:
            return "There are no data yet."
        if not self.alarm:
            n = len(self.log)
            return (
                f"No alarm after {n} {'update' if n == 1 else 'updates'}: the evidence "
                f"of miscalibration is {self.evidence:.3g}, and an alarm needs "
                f"{1.0 / self.alpha:g}."
            )
        stream = self._worst
        h = self._worst.lately
        assert h is not None
        found = recalibration(
            Counts.from_sums(expit(h.locations), h.positives, h.negatives)
        )
        lately = f"log-odds off by {found.in_the_large:+.2f}, slope {found.slope:.2f}"
        changed = [
            name for name, value in self.segments.items() if value >= 1.0 / self.alpha
        ]
        where = f" in {', '.join(changed)}" if changed else ""
        cure = "Refit it to the rows since the change."
        if stream.what == "level":
            cure = (
                "If only the base rate has changed, calibrator.shifted(base_rate=...) "
                "with the rate since the change is enough; otherwise refit it."
            )
        return f"Alarm: the {stream.what} has changed{where} (lately {lately}). {cure}"

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot the evidence with matplotlib."""
        axes: Axes = draw(self, ax)
        return axes

    def _blocks(self) -> list[Block]:
        if not self.log:
            return [self.verdict]
        rows: list[Row] = [
            (
                str(entry["when"]),
                f"{entry['rows']:g}",
                f"{entry['rate']:.4f}",
                f"{entry['expected_rate']:.4f}",
                f"{entry['evidence']:.3g}",
            )
            for entry in self.log[-SHOWN:]
        ]
        header = ("update", "rows", "event rate", "mean probability", "evidence")
        return [Table(rows, header), self.verdict]

    def _columns(self) -> dict[str, Any]:
        names = ENTRY_COLUMNS
        return {name: [entry[name] for entry in self.log] for name in names}

    def __repr__(self) -> str:
        state = "alarm" if self.alarm else "no alarm"
        return (
            f"Monitor({len(self.log)} updates, evidence {self.evidence:.3g}, {state})"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return a dict that JSON can represent; :func:`~calspline.save` writes it."""
        segments = self._parts.items()
        state = MonitorState(
            self.alpha,
            tuple(Update(**update) for update in self.log),
            self._all,
            tuple(SegmentStream(name, stream) for name, stream in segments),
            tuple(Batch(batch, when) for batch, when in self.batches.items()),
        )
        return {"calibrator": self.calibrator.to_dict(), **to_json(state)}

    @classmethod
    def from_dict(cls, data: dict[str, Any], calibrator: BaseCalibrator) -> Self:
        """Create the monitor from the result of :meth:`to_dict`."""
        described = {key: value for key, value in data.items() if key != "calibrator"}
        state = from_json(MonitorState, described)
        monitor = cls(calibrator, alpha=state.alpha)
        monitor.log = [asdict(update) for update in state.log]
        monitor.batches = {each.id: each.when for each in state.batches}
        monitor._all = state.whole
        monitor._parts = {each.segment: each.stream for each in state.segments}
        return monitor


def _exp(log: float) -> float:
    return float(np.exp(min(log, 700.0)))
