"""The ratio of two times: both take turns, and the best of each counts."""

from __future__ import annotations

import gc
import resource
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

Call = Callable[[], Any]
SHORTEST = 0.01
"""Seconds of a turn; a call that takes less is repeated within it."""
FEWEST_ROUNDS = 5


class Ratio(NamedTuple):
    """Seconds of ours by those of the alternative, and seconds of ours."""

    value: float
    ours: float


def processor_seconds() -> float:
    """Time of all processors on this process and on children that have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def measure(ours: Call, other: Call, *, seconds: float) -> Ratio:
    """Let both take turns until the time is up, at least a few rounds.

    What else the machine does slows some rounds. The best one has least of it.
    """
    repeats = [repeats_of(call) for call in (ours, other)]
    best = [float("inf"), float("inf")]
    start, rounds = time.perf_counter(), 0
    while rounds < FEWEST_ROUNDS or time.perf_counter() - start < seconds:
        for k, call in enumerate((ours, other)):
            best[k] = min(best[k], clock(call, repeats[k]))
        rounds += 1
    return Ratio(best[0] / best[1], best[0])


def repeats_of(call: Call) -> int:
    """How often a call is repeated in a turn, judging from its second run."""
    clock(call, 1)
    once = clock(call, 1)
    return max(1, min(10_000, int(SHORTEST / max(once, 1e-7))))


def clock(call: Call, repeats: int) -> float:
    """Seconds of the processor of one call."""
    gc.disable()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            start = processor_seconds()
            for _ in range(repeats):
                call()
            return (processor_seconds() - start) / repeats
    finally:
        gc.enable()
