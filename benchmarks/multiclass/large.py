"""One large fit in a fresh process: its seconds and its peak memory.

    python -m benchmarks.multiclass.large structured 20000 1000 [--confusable]

prints seconds, the most resident megabytes of the whole process, and those beyond the
state before the fit, in which the scores are.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from typing import NamedTuple

from benchmarks import resident
from benchmarks.multiclass.data import make
from benchmarks.multiclass.peers import Make, one_vs_rest, structured

KINDS: dict[str, Make] = {"structured": structured, "ovr": one_vs_rest}
MEGABYTE = 1e6


class Cost(NamedTuple):
    """What a fit took."""

    seconds: float
    process: float
    beyond: float


def measure(kind: str, n: int, m: int, *, confusable: bool = False) -> Cost:
    """Measured in a process of its own."""
    command = [
        sys.executable,
        "-m",
        "benchmarks.multiclass.large",
        kind,
        str(n),
        str(m),
    ]
    command += ["--confusable"] * confusable
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    return Cost(**json.loads(done.stdout))


def measure_here(kind: str, n: int, m: int, *, confusable: bool = False) -> Cost:
    """Measured in this process, which should be fresh."""
    data = make(n, m, confusable=confusable)
    before = resident.start_of_peak()
    start = time.perf_counter()
    KINDS[kind]().fit(data.p, data.y)
    seconds = time.perf_counter() - start
    peak = resident.peak()
    return Cost(seconds, peak / MEGABYTE, (peak - before) / MEGABYTE)


def main() -> None:
    cli = argparse.ArgumentParser(description="Seconds and megabytes of one large fit.")
    cli.add_argument("kind", choices=list(KINDS))
    cli.add_argument("rows", type=int)
    cli.add_argument("classes", type=int)
    cli.add_argument("--confusable", action="store_true")
    args = cli.parse_args()
    print(
        json.dumps(
            measure_here(
                args.kind, args.rows, args.classes, confusable=args.confusable
            )._asdict()
        )
    )


if __name__ == "__main__":
    main()
