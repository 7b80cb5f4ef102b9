"""``Monitor``: whether a calibrator is still right, looked at as often as one likes.

A test that is repeated every day finds something some day, whatever is the case.
**Evidence** does not: it is the fortune of a gambler who starts with 1 and bets on what
will happen. His odds are the calibrator's probabilities ``p``, his bets are
probabilities ``q`` that were fitted to the days before, so that a day multiplies his
fortune by the likelihood ratio

    prod_i (q_i / p_i)^(y_i) ((1 - q_i) / (1 - p_i))^(1 - y_i).

If the calibrator is right nobody gains by this in the mean, and the chance that the
fortune ever exceeds ``1 / alpha`` is at most ``alpha`` (Ville's inequality): an alarm
at that point is false with at most that probability, over all days together. It does
not matter when labels arrive, as long as they are bet on before they are known.

The fortune is divided among gamblers, who correct the log-odds by a constant (*level*),
by a line (*slope*) or by a spline (*shape*), fitted to all days before or to the last
ten or so. Each keeps most of his money back and puts in more every day, a share ``1 /
(n log^2 n)`` of it on day ``n``: so he has something to bet after a change that comes
late.

With segments one half of the fortune is bet on all rows, the other half in the
segments, in which the ``n``-th to appear gets the share ``1 / (n log^2 n)``. All of it
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
from calspline.evaluation.calibration import on_a_line, recalibration
from calspline.fits.options import Recipe
from calspline.fits.validated import fit_curve
from calspline.histograms.score_histogram import ScoreHistogram
from calspline.transforms import log_odds

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from calspline.calibrators.base import BaseCalibrator

FADING = 0.9
"""What a day before counts, for those who look at the last days."""
REFIT = 3
"""A spline is fitted every so many days."""
PRECISION = 4.0
"""Of the corrections of log-odds: a standard deviation of one half."""
CELLS = 256
SUM_OF_SHARES = 2.1097428
"""``sum 1 / (n log^2 n)`` from 2 on."""
CLEARLY = float(np.log(10.0))
"""A simpler explanation is preferred if its gambler is not poorer by more than this factor."""
MOST_DAYS = 10_000_000
GAMBLERS = (
    ("level", False),
    ("level", True),
    ("slope", False),
    ("slope", True),
    ("shape", True),
)
"""What each corrects, and whether it looks at the last days only; the simplest first."""


SHOWN = 10
"""Updates that are printed."""
ENTRY_COLUMNS = ("when", "rows", "rate", "expected_rate", "evidence", "alarm")


def share(n: Any) -> Any:
    """What is put in on day ``n``, or in the ``n``-th segment, counted from 1."""
    return 1.0 / (SUM_OF_SHARES * (n + 1) * np.log(n + 1) ** 2)


def kept_back(n: int) -> float:
    """What is left after ``n`` days or segments."""
    return float(1.0 - share(np.arange(1, n + 1)).sum())


OnGrid = Annotated[Array, Numbers("n", least=2, most=CELLS)]


@dataclass
class Stream:
    """Rows that are watched together: what they showed so far, and the logarithm of what each gambler has at stake."""

    days: Annotated[int, Integer(0, MOST_DAYS)] = 0
    stakes: Annotated[Array, Numbers(len(GAMBLERS), infinite=True)] = field(
        default_factory=lambda: np.full(len(GAMBLERS), -np.inf)
    )
    past: ScoreHistogram | None = None
    lately: ScoreHistogram | None = None
    curve: tuple[OnGrid, OnGrid] | None = None
    """Log-odds of a grid of probabilities, and the same corrected by the spline."""

    def __post_init__(self) -> None:
        check_fields(self)
        if self.stakes.max() == np.inf:
            raise ValueError("stakes must not be infinity")

    @property
    def fortunes(self) -> Array:
        """The logarithm of what each gambler has."""
        return np.logaddexp(self.stakes, np.log(kept_back(self.days)))

    @property
    def evidence(self) -> float:
        """The logarithm of what they have in the mean."""
        return float(np.logaddexp.reduce(self.fortunes) - np.log(len(GAMBLERS)))

    @property
    def what(self) -> str:
        """The simplest correction whose gambler is about as rich as the richest."""
        fortunes = self.fortunes
        return GAMBLERS[int(np.argmax(fortunes >= fortunes.max() - CLEARLY))][0]

    def update(self, day: ScoreHistogram) -> None:
        """Bet on a day, and learn from it."""
        self.days += 1
        self.stakes = np.logaddexp(self.stakes, np.log(share(self.days)))
        if self.past is None or self.lately is None:
            self.past = self.lately = day
            return
        for i, (what, lately) in enumerate(GAMBLERS):
            seen, x = self.lately if lately else self.past, day.locations
            if what == "shape":
                corrected = self._bent(seen, x)
            else:
                corrected = on_a_line(
                    seen.counts.coarsened(CELLS),
                    x,
                    [PRECISION] * (1 if what == "level" else 2),
                )
            self.stakes[i] += log_ratio(day, corrected)
        w1, w0 = FADING * self.lately.positives, FADING * self.lately.negatives
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
        # Beyond what was seen, the same correction as at the end.
        inside = np.clip(x, grid[0], grid[-1])
        return np.asarray(np.interp(inside, grid, values) + x - inside)


def log_ratio(day: ScoreHistogram, corrected: Array) -> float:
    """The logarithm of the likelihood of a day with corrected log-odds, less that with those given."""
    up = np.logaddexp(0.0, -day.locations) - np.logaddexp(0.0, -corrected)
    down = np.logaddexp(0.0, day.locations) - np.logaddexp(0.0, corrected)
    return float(day.positives @ up + day.negatives @ down)


@dataclass(frozen=True)
class Update:
    """An update of a monitor."""

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
    """What identifies the rows of an update, and what the update was called."""

    id: str
    when: str


@dataclass(frozen=True)
class SegmentStream:
    """The rows of a segment."""

    segment: str
    stream: Stream


@dataclass(frozen=True)
class MonitorState:
    """What a file has of a monitor besides its calibrator."""

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
    """Watch a calibrator day by day; an alarm is false with a probability of at most ``alpha``, over all days together.

    Parameters
    ----------
    calibrator : fitted calibrator of two classes
        The one in use.
    alpha : float in (0, 1), default=0.05
        Probability of a false alarm, ever.

    Attributes
    ----------
    log : list of dict
        For every update what it was called (``when``), ``rows``, ``rate``,
        ``expected_rate``, ``evidence`` and ``alarm``.
    batches : dict of str to str
        The ``batch`` of every update that had one, and what the update was called.

    See Also
    --------
    calspline.drift : Two data sets, compared once.

    Notes
    -----
    What is tested is that the calibrator's probabilities are right. They never are to
    the last digit: of very many rows there will be an alarm because of differences that
    do not matter. :attr:`verdict` says how large they are.

    Whole weights count rows. Others are unequal weights of rows, which count for what
    they are worth (``row_weight`` of the histogram); the promise of ``alpha`` is then
    as good as that number.

    Examples
    --------
    >>> import numpy as np
    >>> from calspline import Monitor, ScoreHistogram, SplineCalibrator
    >>> rng = np.random.default_rng(0)
    >>> def day(rows, change=0.0):
    ...     u = rng.normal(size=rows)
    ...     return 1 / (1 + np.exp(-u)), rng.random(rows) < 1 / (1 + np.exp(-u - change))
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
        """Take in rows whose labels have become known since the last update.

        Parameters
        ----------
        histogram : ScoreHistogram, or mapping of str to ScoreHistogram
            Scores as the calibrator takes them, with labels; by segment, if there are
            any. A calibrator fitted with ``by=`` judges each by its own curve: names
            are its labels as text. Days whose labels are late come when they come, in
            any order.
        when : str, optional
            What to call the update; its number by default.
        batch : str, optional
            What identifies the rows, such as the date or a digest of their file. If an
            update with the same ``batch`` was taken in before, nothing is done but to
            warn, so that a job may be repeated: rows that count twice would look like
            twice the evidence.

        Returns
        -------
        self
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
        """The rows by the log-odds that the calibrator gives them, in the segment of that name if it knows segments."""
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
        """Evidence that the calibrator is wrong: 1 is none, ``1 / alpha`` an alarm."""
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
        """Evidence in each segment, with its share in the whole: from ``1 / alpha`` on, it is one that changed."""
        streams = enumerate(self._parts.items(), start=1)
        return {
            name: float(0.5 * share(i)) * _exp(stream.evidence)
            for i, (name, stream) in streams
        }

    @property
    def alarm(self) -> bool:
        """Whether there was an alarm."""
        return bool(self.log) and bool(self.log[-1]["alarm"])

    @property
    def what(self) -> str:
        """What changed, if anything: ``"level"``, ``"slope"`` or ``"shape"``."""
        return self._worst.what

    @property
    def _worst(self) -> Stream:
        """The rows that say most: a segment's, or all."""
        found = max(self.segments.items(), key=lambda item: item[1], default=("", 0.0))
        return (
            self._parts[found[0]]
            if found[1] > 0.5 * _exp(self._all.evidence)
            else self._all
        )

    @property
    def verdict(self) -> str:
        """What is the case, and what to do about it, in words."""
        if not self.log:
            return "There are no data yet."
        if not self.alarm:
            so_far = (
                f"evidence {self.evidence:.3g} of {1.0 / self.alpha:g} "
                f"after {len(self.log)} updates"
            )
            return f"No alarm: {so_far}; the calibrator may be right."
        stream, h = self._worst, self._worst.lately
        assert h is not None
        found = recalibration(
            Counts.from_sums(expit(h.locations), h.positives, h.negatives)
        )
        lately = f"log-odds off by {found.in_the_large:+.2f}, slope {found.slope:.2f}"
        changed = [
            name for name, value in self.segments.items() if value >= 1.0 / self.alpha
        ]
        where = f" in {', '.join(changed)}" if changed else ""
        cure = "Fit it again on the rows since the change."
        if stream.what == "level":
            cure = (
                "A shift will do if rows of either class still have the scores they "
                "had: calibrator.shifted("
                "base_rate=...), with the rate since the change; otherwise fit it "
                "again."
            )
        return f"Alarm: the {stream.what} has changed{where} (lately {lately}). {cure}"

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the evidence with matplotlib, into ``ax`` or a new figure."""
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
        """Everything in plain JSON values; :func:`~calspline.save` writes it."""
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
        """The monitor of a calibrator that :meth:`to_dict` described."""
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
