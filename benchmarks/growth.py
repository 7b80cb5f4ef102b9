"""How time and memory grow with rows, classes and segments.

``python -m benchmarks.growth`` measures all of it, and ``--only segments`` one part;
the rest of the page stays.

Rows are made in chunks of a million. Beyond ten million there is no array of all of
them: a fit adds up the histograms of the chunks, and a chunk is calibrated at a time.
Only the calibration is timed, not the making of the data. Time is that of the
processor, so that other work on the machine matters less. Memory is the most that a fit
holds at once, besides its arguments (tracemalloc).
"""

from __future__ import annotations

import argparse
import time
import tracemalloc
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax
from sklearn.calibration import _SigmoidCalibration
from sklearn.isotonic import IsotonicRegression

from benchmarks.tables import table
from calspline import ScoreHistogram, SplineCalibrator

Array = NDArray[np.float64]
Labels = NDArray[np.int64]

SIZES = [10**k for k in range(2, 9)]
LARGEST_ARRAY = 10_000_000
CHUNK = 1_000_000
CLASSES = [2, 3, 10, 30, 100, 300, 1000]
SEGMENTS = [10**k for k in range(7)]
ROWS = 5000
ROUNDS, LEAST_SECONDS = 3, 1.0
LONG = 20.0
"""Seconds of a round that is not repeated."""
MILLI, MEGA = 1e3, 1e-6
PARTS = ("rows", "classes", "segments")


class Cost(NamedTuple):
    """Seconds of one method, and the bytes that its fit needs."""

    fit: float
    calibrate: float
    memory: float = 0.0


Methods = Mapping[str, Callable[[], Cost]]
Table = dict[int, dict[str, Cost]]
Last = dict[str, tuple[int, float]]
"""The largest size that a method was timed at, and the seconds of its fit."""


def rows(n: int) -> Iterator[tuple[Array, Labels]]:
    """Two classes: log-odds u ~ N(-1, 2), true log-odds 0.7 u + 0.2, in chunks."""
    rng = np.random.default_rng(n)
    for start in range(0, n, CHUNK):
        u = rng.normal(-1.0, 2.0, min(CHUNK, n - start))
        yield expit(u), (rng.random(len(u)) < expit(0.7 * u + 0.2)).astype(np.int64)


def matrix(m: int) -> tuple[Array, Labels]:
    """Several classes: an over-confident model of ``ROWS`` rows."""
    rng = np.random.default_rng(m)
    z = 2.0 * rng.normal(size=(ROWS, m))
    y = (softmax(z, axis=1).cumsum(axis=1) > rng.random((ROWS, 1))).argmax(axis=1)
    return softmax(1.5 * z, axis=1), y


def clock(call: Callable[[], Any]) -> float:
    """Seconds that a call takes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.process_time()
        call()
        return time.process_time() - start


def cost(fit: Callable[[], Any], calibrate: Callable[[], Any]) -> Cost:
    """Time and memory of a fit, and the time of its use."""
    memory = traced(fit)
    return Cost(clock(fit), clock(calibrate), memory)


def traced(call: Callable[[], Any]) -> float:
    """The most bytes that a call holds at once."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tracemalloc.start()
        call()
        memory = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return memory


def take_turns(methods: Methods) -> dict[str, Cost]:
    """The best of several rounds, in which all methods take turns."""
    found: dict[str, list[Cost]] = {name: [] for name in methods}
    start = time.perf_counter()
    done, elapsed = 0, 0.0
    while done == 0 or (elapsed < LONG and done < ROUNDS) or elapsed < LEAST_SECONDS:
        for name, method in methods.items():
            found[name].append(method())
        done += 1
        elapsed = time.perf_counter() - start
    best = {}
    for name, costs in found.items():
        fits, uses, memories = zip(*costs, strict=True)
        best[name] = Cost(min(fits), min(uses), min(memories))
    return best


def spline(p: Array, y: Labels, by: Labels | None = None, **options: Any) -> Cost:
    """The calibrator of calspline."""
    model = SplineCalibrator(**options)
    return cost(lambda: model.fit(p, y, by=by), lambda: model.predict_proba(p, by=by))


def in_chunks(n: int) -> Cost:
    """The same from the histograms of chunks, with ``fit`` the time of all but the making of the data."""
    fit = calibrate = memory = 0.0
    whole: list[ScoreHistogram] = []
    for p, y in rows(n):
        memory = max(memory, traced(lambda p=p, y=y: ScoreHistogram.from_scores(p, y)))  # type: ignore[misc]
        fit += clock(lambda p=p, y=y: whole.append(ScoreHistogram.from_scores(p, y)))  # type: ignore[misc]
        if len(whole) > 1:
            fit += clock(lambda: whole.append(whole.pop() + whole.pop()))
    model = SplineCalibrator()
    fit += clock(lambda: model.fit_histogram(whole[0]))
    for p, _ in rows(n):
        calibrate += clock(lambda p=p: model.calibrate(p))  # type: ignore[misc]
    return Cost(fit, calibrate, memory)


def each_class(make: Callable[[], Any], p: Array, y: Labels) -> Cost:
    """A calibrator of scikit-learn; for several classes, one against the rest."""
    columns = [p] if p.ndim == 1 else list(np.ascontiguousarray(p.T))
    targets = (
        [y] if p.ndim == 1 else [(y == j).astype(np.int64) for j in range(len(columns))]
    )
    models = [make() for _ in columns]

    def fit() -> None:
        for model, column, target in zip(models, columns, targets, strict=True):
            model.fit(column, target)

    def calibrate() -> None:
        out = np.column_stack(
            [
                model.predict(column)
                for model, column in zip(models, columns, strict=True)
            ]
        )
        out /= np.maximum(out.sum(axis=1, keepdims=True), 1e-300)

    return cost(fit, calibrate)


def each_segment(p: Array, y: Labels, by: Labels) -> Cost:
    """Isotonic regression of scikit-learn in each segment by itself."""
    order = np.argsort(by, kind="stable")
    starts = np.flatnonzero(np.diff(by[order])) + 1
    segments = np.split(order, starts)
    models = [isotonic() for _ in segments]

    def fit() -> None:
        for model, rows_of in zip(models, segments, strict=True):
            model.fit(p[rows_of], y[rows_of])

    def calibrate() -> None:
        out = np.empty_like(p)
        for model, rows_of in zip(models, segments, strict=True):
            out[rows_of] = model.predict(p[rows_of])

    return cost(fit, calibrate)


def isotonic() -> Any:
    """Isotonic regression of scikit-learn."""
    return IsotonicRegression(out_of_bounds="clip")


def within(methods: Methods, last: Last, size: int, cap: float) -> Methods:
    """The methods whose fit should not take longer than ``cap`` at this size, if it grows in proportion."""
    return {
        n: run
        for n, run in methods.items()
        if n not in last or last[n][1] * size / last[n][0] <= cap
    }


def by_rows(sizes: list[int], cap: float) -> Table:
    """Times for two classes."""
    found: Table = {}
    last: Last = {}
    for n in sizes:
        print(f"{n:,} rows", flush=True)
        if n > LARGEST_ARRAY:
            found[n] = {"calspline": in_chunks(n)}
            continue
        p, y = (np.concatenate(parts) for parts in zip(*rows(n), strict=True))
        methods = {
            "calspline": partial(spline, p, y),
            "isotonic": partial(each_class, isotonic, p, y),
            "sigmoid": partial(each_class, _SigmoidCalibration, p, y),
        }
        found[n] = take_turns(within(methods, last, n, cap))
        last |= {name: (n, seconds.fit) for name, seconds in found[n].items()}
    return found


def by_classes(classes: list[int], cap: float) -> Table:
    """Times for several classes."""
    found: Table = {}
    last: Last = {}
    for m in classes:
        print(f"{m} classes", flush=True)
        p, y = matrix(m)
        methods = {
            "calspline": partial(spline, p, y),
            "calspline, ovr": partial(spline, p, y, multiclass="ovr"),
            "isotonic, ovr": partial(each_class, isotonic, p, y),
            "sigmoid, ovr": partial(each_class, _SigmoidCalibration, p, y),
        }
        found[m] = take_turns(within(methods, last, m, cap))
        last |= {name: (m, seconds.fit) for name, seconds in found[m].items()}
    return found


def by_segments(segments: list[int], cap: float) -> Table:
    """Times for a million rows of two classes in segments of equal chances."""
    found: Table = {}
    last: Last = {}
    p, y = next(rows(CHUNK))
    for k in segments:
        print(f"{k:,} segments", flush=True)
        by = np.random.default_rng(k).integers(0, k, len(p))
        ours = {"calspline": partial(spline, p, y, by)}
        others = {"isotonic, each segment": partial(each_segment, p, y, by)}
        found[k] = take_turns(ours | dict(within(others, last, k, cap)))
        last |= {name: (k, seconds.fit) for name, seconds in found[k].items()}
    return found


def section(found: Table, what: str, unit: float = MILLI) -> str:
    """One table: a line for each method, milliseconds or other units."""
    names = list(dict.fromkeys(name for costs in found.values() for name in costs))
    lines = []
    for name in names:
        cells = [
            f"{unit * getattr(costs[name], what):.3g}" if name in costs else "-"
            for costs in found.values()
        ]
        lines.append([name, *cells])
    sizes = [f"{n:g}" if n < 1000 else f"{n:.0e}".replace("e+0", "e") for n in found]
    return table(["method", *sizes], lines)


NOTES = {
    "rows": "",
    "classes": f"{ROWS:,} rows. One against the rest (ovr) is what scikit-learn does "
    "with the other two.\n\n",
    "segments": f"{CHUNK:,} rows. Segments of calspline share a curve, of which they "
    "deviate.\n\n",
}


def page_of(part: str, found: Table) -> dict[str, str]:
    """The sections of a part of the page, by heading."""
    name = part.capitalize()
    return {
        f"{name}: fit": NOTES[part] + section(found, "fit"),
        f"{name}: calibrate": section(found, "calibrate"),
        f"{name}: memory of a fit, MB": section(found, "memory", MEGA),
    }


def sections_of(page: str) -> dict[str, str]:
    """The sections of a page, by heading."""
    pieces = page.split("\n## ")[1:]
    pairs = [piece.split("\n", 1) for piece in pieces]
    return {heading: text.strip() for heading, text in pairs}


def main() -> None:
    """Measure and write the page."""
    cli = argparse.ArgumentParser(
        prog="python -m benchmarks.growth", description=__doc__
    )
    cli.add_argument("--only", choices=PARTS, help="the part to measure")
    cli.add_argument(
        "--sizes", type=float, nargs="+", default=SIZES, help="numbers of rows"
    )
    cli.add_argument("--classes", type=int, nargs="+", default=CLASSES)
    cli.add_argument("--segments", type=float, nargs="+", default=SEGMENTS)
    cli.add_argument(
        "--cap-seconds",
        type=float,
        default=10.0,
        help="leave out fits that would take longer",
    )
    cli.add_argument(
        "--output", type=Path, default=Path(__file__).with_name("GROWTH.md")
    )
    args = cli.parse_args()
    measure = {
        "rows": partial(by_rows, [int(n) for n in args.sizes]),
        "classes": partial(by_classes, args.classes),
        "segments": partial(by_segments, [int(k) for k in args.segments]),
    }
    sections = {}
    if args.output.exists():
        sections = sections_of(args.output.read_text(encoding="utf-8"))
    for part in PARTS:
        if args.only in (None, part):
            sections |= page_of(part, measure[part](args.cap_seconds))
    order = [f"{part.capitalize()}: " for part in PARTS]
    texts = [
        f"## {heading}\n\n{text}"
        for start in order
        for heading, text in sections.items()
        if heading.startswith(start)
    ]
    head = [
        "# Growth with rows, classes and segments",
        "Made by `python -m benchmarks.growth`, each part by itself with `--only`: "
        f"milliseconds, the best of {ROUNDS} rounds or more in which all methods take "
        "turns, processor time, BLAS with one thread. Methods have their defaults; "
        '"-" is left out because a fit would take more than the cap, by default '
        f"10 s. Beyond {LARGEST_ARRAY:,} rows the histograms of chunks of a million "
        "are added up, once; the making of the data is not timed.",
    ]
    args.output.write_text("\n\n".join(head + texts) + "\n", encoding="utf-8")
    print(args.output.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
