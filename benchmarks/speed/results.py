"""What was measured, and which targets it meets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from benchmarks.speed.data import Variant
from benchmarks.speed.memory import Megabytes
from benchmarks.speed.timing import Passes, Seconds

MILLION, TEN_MILLION = 1_000_000, 10_000_000


@dataclass
class Results:
    """Best times and peak memory; a method that was left out at a size is absent."""

    seconds: dict[int, dict[str, Seconds]] = field(default_factory=dict)
    passes: dict[int, Passes] = field(default_factory=dict)
    megabytes: dict[int, dict[str, Megabytes]] = field(default_factory=dict)
    variants: dict[tuple[Variant, int], dict[str, Seconds]] = field(
        default_factory=dict
    )


class Check(NamedTuple):
    """A target and what came out; ``value`` is None where it was not measured."""

    what: str
    value: float | None
    limit: float

    @property
    def verdict(self) -> str:
        """In a word."""
        if self.value is None:
            return "not measured"
        return "holds" if self.value <= self.limit else "MISSED"


def checks(results: Results) -> list[Check]:
    """All targets."""
    return [Check(what, value, limit) for what, value, limit in _targets(results)]


def _targets(results: Results) -> Iterator[tuple[str, float | None, float]]:
    def fit(name: str, n: int) -> float | None:
        row = results.seconds.get(n, {})
        return row[name].fit if name in row else None

    def predict(name: str, n: int) -> float | None:
        row = results.seconds.get(n, {})
        return row[name].predict if name in row else None

    def one_pass(n: int) -> float | None:
        return results.passes[n].accurate if n in results.passes else None

    ours, big, huge = "calspline", MILLION, TEN_MILLION
    yield (
        "1M rows: fit / isotonic fit",
        _ratio(fit(ours, big), fit("isotonic", big)),
        0.25,
    )
    yield (
        "1M rows: fit / one pass over the data",
        _ratio(fit(ours, big), one_pass(big)),
        2.5,
    )
    yield (
        "1M rows: calibrate / isotonic predict",
        _ratio(predict(ours, big), predict("isotonic", big)),
        1.0,
    )
    yield (
        "1k rows: fit / sigmoid fit",
        _ratio(fit(ours, 1000), fit("sigmoid", 1000)),
        4.0,
    )
    memory = results.megabytes.get(huge, {}).get(ours)
    yield (
        "10M rows: memory of a fit beyond its input, MB",
        memory.fit if memory else None,
        128.0,
    )
    yield (
        "10M rows: memory of calibrate beyond input and output, MB",
        memory.predict if memory else None,
        128.0,
    )
    # Linear growth is 10; the rest is allowance for noise and cache.
    yield "fit time, 10M rows / 1M rows", _ratio(fit(ours, huge), fit(ours, big)), 12.0
    yield (
        "calibrate time, 10M rows / 1M rows",
        _ratio(predict(ours, huge), predict(ours, big)),
        12.0,
    )


def _ratio(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else a / b
