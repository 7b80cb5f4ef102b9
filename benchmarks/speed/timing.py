"""Best of several rounds, the methods taking turns in each."""

from __future__ import annotations

import gc
import time
import warnings
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from benchmarks.speed.data import Data
from benchmarks.speed.peers import PEERS

MIN_SECONDS = 10.0
MAX_ROUNDS = 100
"""Beyond the rounds asked for, all methods go on together up to this much time or this many."""


class Seconds(NamedTuple):
    """Best times of one method on one data set."""

    fit: float
    predict: float


def time_peers(names: Iterable[str], data: Data, *, repeats: int) -> dict[str, Seconds]:
    """Best fit and predict time of each method.

    A noisy neighbour slows all methods of a round alike, and the best round has
    least of it. All have the same number of rounds: the best of more would look better.
    """
    taken: dict[str, list[Seconds]] = {name: [] for name in names}
    start = time.perf_counter()
    for done in range(max(repeats, MAX_ROUNDS)):
        if done >= repeats and time.perf_counter() - start > MIN_SECONDS:
            break
        for name, times in taken.items():
            peer = PEERS[name]()
            times.append(
                Seconds(_clock(peer.fit, data.p, data.y), _clock(peer.predict, data.p))
            )
    return {
        name: Seconds(min(t.fit for t in times), min(t.predict for t in times))
        for name, times in taken.items()
    }


class Passes(NamedTuple):
    """Best times of two plain passes over the rows, to set a fit's time against.

    Both are the log-odds and one weighted count; the cell of each row is worked out
    beforehand and not timed. They differ in the log-odds. ``accurate`` is ``log(p) -
    log1p(-p)``. ``quick`` is ``log(p / (1 - p))``, which spares ``log1p``, by far the
    slowest step. Neither is a bound: a fit that works in chunks can beat the first.
    """

    accurate: float
    quick: float


def time_passes(data: Data, *, repeats: int) -> Passes:
    """Time both passes, taking turns."""
    p = np.clip(data.p, 1e-16, 1.0 - 1e-16)
    cells = np.floor(128.0 * (np.log(p) - np.log1p(-p))).astype(np.intp)
    cells -= cells.min()

    def accurate() -> None:
        np.bincount(cells, weights=np.log(p) - np.log1p(-p))

    def quick() -> None:
        np.bincount(cells, weights=np.log(p / (1.0 - p)))

    taken = [Passes(_clock(accurate), _clock(quick)) for _ in range(max(repeats, 10))]
    return Passes(min(t.accurate for t in taken), min(t.quick for t in taken))


def _clock(call: Callable[..., Any], *args: Any) -> float:
    gc.disable()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            start = time.perf_counter()
            call(*args)
            return time.perf_counter() - start
    finally:
        gc.enable()
