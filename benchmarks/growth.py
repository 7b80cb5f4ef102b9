"""How time grows with rows and with classes: ``python -m benchmarks.growth``.

Rows are made in chunks of a million. Beyond ten million there is no array of all of
them: a fit adds up the histograms of the chunks, and a chunk is calibrated at a time.
Only the calibration is timed, not the making of the data.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
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
ROWS = 5000
ROUNDS, LEAST_SECONDS = 3, 1.0


class Seconds(NamedTuple):
    """Best times of one method."""

    fit: float
    calibrate: float


Methods = Mapping[str, Callable[[], Seconds]]
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
        start = time.perf_counter()
        call()
        return time.perf_counter() - start


def take_turns(methods: Methods) -> dict[str, Seconds]:
    """The best of several rounds, in which all methods take turns."""
    found: dict[str, list[Seconds]] = {name: [] for name in methods}
    start = time.perf_counter()
    done = 0
    while done < ROUNDS or (time.perf_counter() - start < LEAST_SECONDS and done < 100):
        for name, method in methods.items():
            found[name].append(method())
        done += 1
    return {
        name: Seconds(*map(min, zip(*times, strict=True)))
        for name, times in found.items()
    }


def spline(p: Array, y: Labels, **options: Any) -> Seconds:
    """The calibrator of calspline."""
    model = SplineCalibrator(**options)
    return Seconds(
        clock(lambda: model.fit(p, y)), clock(lambda: model.predict_proba(p))
    )


def in_chunks(n: int) -> Seconds:
    """The same from the histograms of chunks, with ``fit`` the time of all but the making of the data."""
    fit = calibrate = 0.0
    whole: list[ScoreHistogram] = []
    for p, y in rows(n):
        fit += clock(lambda p=p, y=y: whole.append(ScoreHistogram.from_scores(p, y)))  # type: ignore[misc]
        if len(whole) > 1:
            fit += clock(lambda: whole.append(whole.pop() + whole.pop()))
    model = SplineCalibrator()
    fit += clock(lambda: model.fit_histogram(whole[0]))
    for p, _ in rows(n):
        calibrate += clock(lambda p=p: model.calibrate(p))  # type: ignore[misc]
    return Seconds(fit, calibrate)


def each_class(make: Callable[[], Any], p: Array, y: Labels) -> Seconds:
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

    return Seconds(clock(fit), clock(calibrate))


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


def by_rows(sizes: list[int], cap: float) -> dict[int, dict[str, Seconds]]:
    """Times for two classes."""
    found: dict[int, dict[str, Seconds]] = {}
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


def by_classes(classes: list[int], cap: float) -> dict[int, dict[str, Seconds]]:
    """Times for several classes."""
    found: dict[int, dict[str, Seconds]] = {}
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


def section(found: dict[int, dict[str, Seconds]], what: str) -> str:
    """One table: a line for each method, milliseconds."""
    names = list(dict.fromkeys(name for times in found.values() for name in times))
    lines = [
        [
            name,
            *(
                f"{1000.0 * getattr(times[name], what):.3g}" if name in times else "-"
                for times in found.values()
            ),
        ]
        for name in names
    ]
    return table(
        [
            "method",
            *(f"{n:g}" if n < 1000 else f"{n:.0e}".replace("e+0", "e") for n in found),
        ],
        lines,
    )


def main() -> None:
    """Measure and write the page."""
    cli = argparse.ArgumentParser(
        prog="python -m benchmarks.growth", description=__doc__
    )
    cli.add_argument(
        "--sizes", type=float, nargs="+", default=SIZES, help="numbers of rows"
    )
    cli.add_argument("--classes", type=int, nargs="+", default=CLASSES)
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
    command, load = (
        " ".join(["python -m benchmarks.growth", *sys.argv[1:]]),
        os.getloadavg()[0],
    )
    two, many = (
        by_rows([int(n) for n in args.sizes], args.cap_seconds),
        by_classes(args.classes, args.cap_seconds),
    )
    parts = [
        "# Growth with rows and classes",
        f"Made by `{command}`: milliseconds, the best of {ROUNDS} rounds or more in which all methods take "
        f"turns, BLAS with one thread; {os.cpu_count()} CPUs, load average {load:.1f} at the start. "
        f'Methods have their defaults; "-" is left out because a fit would take more than {args.cap_seconds:g} s. '
        f"Beyond {LARGEST_ARRAY:,} rows the histograms of chunks of a million are added up, once; "
        "the making of the data is not timed.",
        "## Rows: fit",
        section(two, "fit"),
        "## Rows: calibrate",
        section(two, "calibrate"),
        f"## Classes: fit\n\n{ROWS:,} rows. One against the rest (ovr) is what scikit-learn does with the other two.",
        section(many, "fit"),
        "## Classes: calibrate",
        section(many, "calibrate"),
    ]
    args.output.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    print(args.output.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
