"""Run the defaults on every experiment and print the league table: ``python -m benchmarks.arena``."""

from __future__ import annotations

import argparse
import ast
import sys
import warnings
from pathlib import Path
from typing import Any

from benchmarks.arena import league
from benchmarks.arena.experiments import FAILED, Kind, Outcome, folder, frozen, run
from benchmarks.arena.report import render
from calspline import SplineCalibrator

KINDS: tuple[Kind, ...] = ("binary", "multiclass")


def run_kind(place: Path, kind: Kind, options: dict[str, Any], worst: int) -> str:
    """All experiments of a kind, as Markdown."""
    known = frozen(place, kind)
    outcomes: list[Outcome] = []
    for name in known.losses.index:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                outcomes.append(run(lambda: SplineCalibrator(**options), place / f"{name}.npz"))
            except Exception as error:  # an error loses the experiment, and is shown
                print(f"{name}: {type(error).__name__}: {error}")
                outcomes.append(FAILED)
    losses = known.losses.assign(**{league.OURS: [o.ours.log_loss for o in outcomes]})
    return render(kind, league.settled(losses), known, outcomes, worst=worst)


def option(text: str) -> tuple[str, Any]:
    """``name=value``, the value as Python writes it or else as it stands."""
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise argparse.ArgumentTypeError(f"expected name=value; got {text!r}")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value


def main() -> int:
    cli = argparse.ArgumentParser(prog="python -m benchmarks.arena", description=__doc__)
    cli.add_argument("--kw", type=option, action="append", default=[], metavar="NAME=VALUE", help="calibrator option")
    cli.add_argument("--worst", type=int, default=8, help="how many experiments to show where it lags")
    cli.add_argument("--output", type=Path, default=Path(__file__).with_name("RESULTS.md"))
    args = cli.parse_args()
    place = folder()
    if place is None:
        print("no arena: name its folder in CALSPLINE_ARENA", file=sys.stderr)
        return 2
    options = dict(args.kw)
    given = "".join(f" --kw {name}={value!r}" for name, value in options.items())
    parts = [
        "# The arena",
        f"Made by `python -m benchmarks.arena{given}`: {SplineCalibrator(**options)!r} fitted on the calibration rows "
        "of each experiment and judged by the log-loss of its test rows. The others' log-losses and times are "
        "frozen, the times taken on one busy core: compare their orders of magnitude, not more.",
    ]
    parts += [run_kind(place, kind, options, args.worst) for kind in KINDS]
    page = "\n\n".join(parts) + "\n"
    args.output.write_text(page, encoding="utf-8")
    print(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
