"""Results as Markdown, and which targets they meet."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import NamedTuple

import calspline
from benchmarks.multiclass.data import CONFUSABLE, DESCRIPTION
from benchmarks.multiclass.large import Cost
from benchmarks.multiclass.peers import OURS, SMS
from benchmarks.multiclass.timing import Ratio, Times
from benchmarks.tables import table

PACKAGES = ("probmetrics", "torch", "numpy", "scipy", "scikit-learn")
MAX_SECONDS = 30.0
MAX_MEGABYTES = 3000.0
MAX_SOFTMAXES = 3.0
MAX_FITS = 1.0
MAX_LOOPS = 1.0


class Fits(NamedTuple):
    """Fit times, and the log-loss of rows held out, on one case; ``raw`` has only the latter."""

    case: str
    times: Times
    losses: dict[str, float]


@dataclass
class Results:
    """All that was measured."""

    rounds: int
    fits: list[Fits] = field(default_factory=list)
    one_vs_rest: dict[tuple[str, str], Times] = field(default_factory=dict)
    predict: dict[tuple[str, str], Times] = field(default_factory=dict)
    """Both by size and cores."""
    large: dict[tuple[str, str], Cost] = field(default_factory=dict)
    """By kind and size."""
    notes: list[str] = field(default_factory=list)


def render(results: Results, *, command: str) -> str:
    """The whole page."""
    parts = [
        "# Many classes",
        f"Made by `{command}`: BLAS and torch with one thread, at least {results.rounds} rounds in which all take "
        f"turns, {os.cpu_count()} CPUs. Times are the best round's. A ratio is that of the best rounds; in brackets "
        f"the quartiles of the rounds' ratios. {_versions()}.",
        f"Scores: {DESCRIPTION}. All methods have their defaults.",
        *results.notes,
        "## Targets",
        table(["", "measured", "target", ""], list(_targets(results))),
        "## Fit, milliseconds",
        f"`{SMS}` is structured matrix scaling of probmetrics. The log-loss is of rows held out.",
        _fits(results),
        "## One-vs-rest fit, milliseconds",
        'The loop is `[SplineCalibrator().fit(p[:, j], y == j) for j in range(m)]`, next to `multiclass="ovr"`, '
        "which reads the scores of several classes at a time.",
        _one_vs_rest(results),
        "## Predict",
        "The softmax is `x - max`, `exp` and `/ sum` of the same array, in plain numpy, which has one thread. "
        "A structured prediction of an array this large uses all cores there are, as far as they are free."
        " On one core it has no more than the softmax.",
        _predicts(results),
    ]
    if results.large:
        parts += [
            "## Large fits",
            "Each in a fresh process: the most resident memory of the whole process while it fits, and that beyond "
            f"the state before, in which the scores are. Confusable: {CONFUSABLE}.",
            _large(results),
        ]
    return "\n\n".join(parts) + "\n"


def _versions() -> str:
    found = [
        f"Python {platform.python_version()}",
        f"calspline {calspline.__version__}",
    ]
    for package in PACKAGES:
        try:
            found.append(f"{package} {version(package).partition('+')[0]}")
        except PackageNotFoundError:
            continue
    return ", ".join(found)


def _targets(results: Results) -> Iterator[list[str]]:
    def row(what: str, value: float, limit: float) -> list[str]:
        return [
            what,
            f"{value:,.3g}" if value < 1000 else f"{value:,.0f}",
            f"<= {limit:g}",
            _verdict(value, limit),
        ]

    for case, times, _ in results.fits:
        fitted = times.ratio(OURS, SMS)
        if fitted is not None:
            yield row(f"{case}: fit / {SMS}", fitted.best, MAX_FITS)
    for (case, cores), times in results.one_vs_rest.items():
        ratio = times.ratio("ovr", "loop")
        assert ratio is not None
        yield row(
            f"{case}: one-vs-rest fit / loop of binary fits, {cores}",
            ratio.best,
            MAX_LOOPS,
        )
    for (case, cores), times in results.predict.items():
        ratio = times.ratio("structured", "softmax")
        assert ratio is not None
        yield row(
            f"{case}: predict_proba / softmax, {cores}", ratio.best, MAX_SOFTMAXES
        )
    for (kind, case), cost in results.large.items():
        yield row(f"{case}: {kind} fit, seconds", cost.seconds, MAX_SECONDS)
        yield row(f"{case}: {kind} fit, MB of the process", cost.process, MAX_MEGABYTES)


def _verdict(value: float, limit: float) -> str:
    return "holds" if value <= limit else "MISSED"


def _fits(results: Results) -> str:
    rows = []
    for case, times, losses in results.fits:
        shown = [
            _milliseconds(times.best(name)) if name in times else "-"
            for name in (OURS, SMS)
        ]
        missed = [
            f"{losses[name]:.4f}" if name in losses else "-"
            for name in (OURS, SMS, "raw")
        ]
        rows.append([case, *shown, _ratio(times.ratio(OURS, SMS)), *missed])
    losses_of = [f"log-loss {name}" for name in (OURS, SMS, "raw")]
    return table(["rows x classes", OURS, SMS, "ratio", *losses_of], rows)


def _one_vs_rest(results: Results) -> str:
    rows = [
        [
            case,
            cores,
            _milliseconds(times.best("ovr")),
            _milliseconds(times.best("loop")),
            _ratio(times.ratio("ovr", "loop")),
        ]
        for (case, cores), times in results.one_vs_rest.items()
    ]
    return table(["rows x classes", "", "ovr", "loop", "ratio"], rows)


def _predicts(results: Results) -> str:
    rows = [
        [
            case,
            cores,
            name,
            _milliseconds(times.best(name)),
            _ratio(times.ratio(name, "softmax")),
        ]
        for (case, cores), times in results.predict.items()
        for name in times
    ]
    return table(["rows x classes", "", "", "milliseconds", "of softmax"], rows)


def _large(results: Results) -> str:
    rows = [
        [
            case,
            kind,
            f"{cost.seconds:.1f}",
            f"{cost.process:,.0f}",
            f"{cost.beyond:,.0f}",
        ]
        for (kind, case), cost in results.large.items()
    ]
    return table(
        ["rows x classes", "multiclass", "seconds", "MB of the process", "MB beyond"],
        rows,
    )


def _ratio(ratio: Ratio | None) -> str:
    return (
        "-"
        if ratio is None
        else f"{ratio.best:.2f} ({ratio.low:.2f} to {ratio.high:.2f})"
    )


def _milliseconds(seconds: float) -> str:
    value = 1000.0 * seconds
    return f"{value:,.0f}" if value >= 1000.0 else f"{value:.3g}"
