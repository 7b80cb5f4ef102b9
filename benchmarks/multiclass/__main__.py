"""Measure, print, and write the page: ``python -m benchmarks.multiclass``."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.multiclass import peers
from benchmarks.multiclass.data import (
    Case,
    Rows,
    log_loss,
    make,
    real,
    softmax,
    synthetic,
)
from benchmarks.multiclass.large import measure
from benchmarks.multiclass.peers import OURS, SMS, Make
from benchmarks.multiclass.report import Fits, Results, render
from benchmarks.multiclass.timing import Times, one_core, take_turns
from calspline import SplineCalibrator

SIZES = ((10_000, 10), (5000, 100))
PREDICT = (5000, 50_000, 100)
"""Rows to fit, rows to predict, classes."""
LARGE = (
    ("structured", 20_000, False),
    ("structured", 20_000, True),
    ("structured", 50_000, True),
    ("ovr", 20_000, False),
)
"""Kind, rows and whether classes are confusable, of 1,000 classes; 50,000 rows are the size of ImageNet's."""


def run(*, rounds: int, large: bool) -> Results:
    """Everything."""
    results = Results(rounds)
    sms, problem = peers.sms()
    if sms is None:
        _say(problem)
        results.notes.append(problem + ".")
    for case in [*(synthetic(n, m) for n, m in SIZES), *real()]:
        _say(f"fit, {case.name}")
        results.fits.append(
            fits(case, {OURS: peers.structured} | ({SMS: sms} if sms else {}), rounds)
        )
    for n, m in SIZES:
        _say(f"one-vs-rest, {_size(n, m)}")
        results.one_vs_rest[_size(n, m), "all cores"] = one_vs_rest(n, m, rounds)
        with one_core() as held:
            if held:
                results.one_vs_rest[_size(n, m), "one core"] = one_vs_rest(n, m, rounds)
    _say("predict")
    size = _size(*PREDICT[1:])
    results.predict[size, "all cores"] = predict(*PREDICT, rounds)
    with one_core() as held:
        if held:
            results.predict[size, "one core"] = predict(*PREDICT, rounds)
    if large:
        for kind, n, confusable in LARGE:
            name = _size(n, 1000) + ", confusable" * confusable
            _say(f"{kind}, {name}")
            results.large[kind, name] = measure(kind, n, 1000, confusable=confusable)
    return results


def fits(case: Case, makes: dict[str, Make], rounds: int) -> Fits:
    """Fit times and the log-loss of rows held out."""
    times = take_turns(
        {name: partial(_fitted, made, case.fit) for name, made in makes.items()},
        rounds=rounds,
    )
    losses = {"raw": log_loss(*case.held)}
    for name, made in makes.items():
        losses[name] = log_loss(
            _fitted(made, case.fit).predict_proba(case.held.p), case.held.y
        )
    return Fits(case.name, times, losses)


def one_vs_rest(n: int, m: int, rounds: int) -> Times:
    """The calibrator's one-vs-rest fit, and a loop of binary ones."""
    rows = make(n, m)
    makes: dict[str, Make] = {"ovr": peers.one_vs_rest, "loop": peers.Loop}
    return take_turns(
        {name: partial(_fitted, made, rows) for name, made in makes.items()},
        rounds=rounds,
    )


def predict(n_fit: int, n: int, m: int, rounds: int) -> Times:
    """Predictions, and a plain softmax of the same array."""
    rows, p = make(n_fit, m), make(n, m).p
    models = {
        "structured": SplineCalibrator().fit(*rows),
        "structured, monotone": SplineCalibrator(monotone=True).fit(*rows),
        "ovr": SplineCalibrator(multiclass="ovr").fit(*rows),
    }
    calls = {name: partial(model.predict_proba, p) for name, model in models.items()}
    return take_turns({"softmax": partial(softmax, p)} | calls, rounds=rounds)


def _fitted(made: Make, rows: Rows) -> Any:
    return made().fit(*rows)


def _size(n: int, m: int) -> str:
    return f"{n:,} x {m:,}"


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    cli = argparse.ArgumentParser(
        prog="python -m benchmarks.multiclass", description=__doc__
    )
    cli.add_argument(
        "--rounds", type=int, default=7, help="rounds at least; quick calls have more"
    )
    cli.add_argument(
        "--no-large", action="store_true", help="leave out the fits of 1,000 classes"
    )
    cli.add_argument(
        "--output", type=Path, default=Path(__file__).parents[1] / "MULTICLASS.md"
    )
    args = cli.parse_args()
    results = run(rounds=args.rounds, large=not args.no_large)
    command = (
        f"python -m benchmarks.multiclass --rounds {args.rounds}"
        + " --no-large" * args.no_large
    )
    page = render(results, command=command)
    args.output.write_text(page, encoding="utf-8")
    print(page)


if __name__ == "__main__":
    main()
