"""Peak memory of one fit and one predict, each method in a fresh process.

    python -m benchmarks.speed.memory calspline 1000000

prints megabytes beyond the input (fit) and beyond input and output (predict): the
larger of what numpy and Python allocated and of what the process grew by.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tracemalloc
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

from benchmarks import resident
from benchmarks.speed.data import make
from benchmarks.speed.peers import PEERS

MEGABYTE = 1e6


class Megabytes(NamedTuple):
    """Peak memory of one method at one size."""

    fit: float
    predict: float


def measure(name: str, n: int) -> Megabytes:
    """Peak memory of a method, measured in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.speed.memory", name, str(n)],
        check=True,
        stdout=subprocess.PIPE,
    )
    return Megabytes(**json.loads(done.stdout))


def measure_here(name: str, n: int) -> Megabytes:
    """Peak memory of a method in this process, which should be fresh."""
    small = make(2000)
    warm = PEERS[name]()
    # Imports and caches are paid for here, not in what is measured.
    warm.fit(small.p, small.y)
    warm.predict(small.p)
    data = make(n)
    peer = PEERS[name]()
    fit = _peak(lambda: peer.fit(data.p, data.y))
    predict = _peak(lambda: peer.predict(data.p)) - data.p.nbytes
    return Megabytes(fit / MEGABYTE, max(predict, 0.0) / MEGABYTE)


def _peak(call: Callable[[], Any]) -> float:
    """Bytes above the present state that a call needs at its worst, its result included."""
    before = resident.start_of_peak()
    tracemalloc.start()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Held until the peaks are read: it is part of them.
        result = call()
    _, traced = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    grown = resident.peak() - before
    del result
    return float(max(traced, grown))


def main() -> None:
    cli = argparse.ArgumentParser(
        description="Peak memory of one method, in megabytes."
    )
    cli.add_argument("method", choices=list(PEERS))
    cli.add_argument("rows", type=int)
    args = cli.parse_args()
    print(json.dumps(measure_here(args.method, args.rows)._asdict()))


if __name__ == "__main__":
    main()
