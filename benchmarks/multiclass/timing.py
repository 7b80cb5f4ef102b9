"""Rounds in which all take turns."""

from __future__ import annotations

import gc
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

MIN_SECONDS = 15.0
MAX_ROUNDS = 40
"""Beyond the rounds asked for, all go on together up to this much time or this many."""


class Ratio(NamedTuple):
    """One time as a share of another."""

    best: float
    """Best round against best round."""
    median: float
    low: float
    high: float
    """Within the rounds: the median and the quartiles."""


class Times(dict[str, list[float]]):
    """Seconds of each round, by name."""

    def best(self, name: str) -> float:
        """Seconds of the best round, which has least of what else the machine did."""
        return min(self[name])

    def ratio(self, name: str, other: str) -> Ratio | None:
        """One's time as a share of the other's; None if one is missing."""
        if name not in self or other not in self:
            return None
        low, median, high = np.quantile(
            np.array(self[name]) / np.array(self[other]), [0.25, 0.5, 0.75]
        )
        return Ratio(
            self.best(name) / self.best(other), float(median), float(low), float(high)
        )


def take_turns(calls: Mapping[str, Callable[[], Any]], *, rounds: int) -> Times:
    """Time all calls, round by round, after one that does not count."""
    for call in calls.values():
        _clock(call)
    times = Times({name: [] for name in calls})
    start = time.perf_counter()
    for done in range(max(rounds, MAX_ROUNDS)):
        if done >= rounds and time.perf_counter() - start > MIN_SECONDS:
            break
        for name, call in calls.items():
            times[name].append(_clock(call))
    return times


@contextmanager
def one_core() -> Iterator[bool]:
    """Run on one core, as far as the system lets a process choose; the value says whether it does."""
    if sys.platform != "linux":
        yield False
        return
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        yield True
    finally:
        os.sched_setaffinity(0, cores)


def _clock(call: Callable[[], Any]) -> float:
    gc.disable()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            start = time.perf_counter()
            result = call()
            seconds = time.perf_counter() - start
    finally:
        gc.enable()
    del result
    return seconds
