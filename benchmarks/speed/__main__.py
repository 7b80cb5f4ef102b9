"""Measure, print, and write the page: ``python -m benchmarks.speed``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.speed.data import Variant, make
from benchmarks.speed.memory import measure
from benchmarks.speed.peers import installed
from benchmarks.speed.report import render
from benchmarks.speed.results import MILLION, TEN_MILLION, Results, checks
from benchmarks.speed.timing import time_passes, time_peers

SIZES = (1000, 10_000, 100_000, MILLION, TEN_MILLION)
MEMORY_SIZES = (MILLION, TEN_MILLION)
VARIANTS: tuple[tuple[Variant, int], ...] = (
    ("votes", MILLION),
    ("overconfident", 1000),
    ("overconfident", MILLION),
)
VARIANT_PEERS = ("calspline", "isotonic", "sigmoid")


def run(sizes: list[int], *, repeats: int, cap: float) -> Results:
    """Everything, for the sizes asked for."""
    results = Results()
    peers, absent = installed()
    if absent:
        _say(
            f"not installed, and so not compared: {', '.join(absent)} (make bench-speed installs them)"
        )
    last: dict[str, tuple[int, float]] = {}
    for n in sorted(sizes):
        # Fits grow at least linearly, so what would exceed the cap is known beforehand.
        names = [
            name
            for name in peers
            if name not in last or last[name][1] * n / last[name][0] <= cap
        ]
        _say(f"{n:,} rows: {', '.join(names)}")
        data = make(n)
        results.seconds[n] = time_peers(names, data, repeats=repeats)
        results.passes[n] = time_passes(data, repeats=repeats)
        last |= {name: (n, seconds.fit) for name, seconds in results.seconds[n].items()}
        if n in MEMORY_SIZES:
            results.megabytes[n] = {name: measure(name, n) for name in names}
    for variant, n in VARIANTS:
        if n in sizes:
            _say(f"{n:,} rows, {variant}")
            results.variants[variant, n] = time_peers(
                VARIANT_PEERS, make(n, variant), repeats=repeats
            )
    return results


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    cli = argparse.ArgumentParser(
        prog="python -m benchmarks.speed", description=__doc__
    )
    cli.add_argument(
        "--sizes", type=int, nargs="+", default=list(SIZES), help="numbers of rows"
    )
    cli.add_argument(
        "--cap-seconds",
        type=float,
        default=20.0,
        help="leave out fits that would take longer",
    )
    cli.add_argument(
        "--repeats", type=int, default=5, help="rounds at least; small sizes have more"
    )
    cli.add_argument(
        "--output", type=Path, default=Path(__file__).with_name("RESULTS.md")
    )
    args = cli.parse_args()
    results = run(args.sizes, repeats=args.repeats, cap=args.cap_seconds)
    sizes = " ".join(map(str, args.sizes))
    options = (
        f"--sizes {sizes} --cap-seconds {args.cap_seconds:g} --repeats {args.repeats}"
    )
    command = f"python -m benchmarks.speed {options}"
    page = render(results, command=command, cap=args.cap_seconds, repeats=args.repeats)
    args.output.write_text(page, encoding="utf-8")
    print(page)
    for check in checks(results):
        value = "-" if check.value is None else f"{check.value:.3g}"
        print(f"{check.verdict:>12}  {check.what}: {value} (<= {check.limit:g})")


if __name__ == "__main__":
    main()
