"""Run the defaults on every experiment and print the league table: ``python -m benchmarks.arena``.

With ``--live`` the other methods run too, those that are installed; ``--data FOLDER``
names other experiments; ``--calibrated`` runs on models that are well calibrated
already, by number of rows.
"""

from __future__ import annotations

import argparse
import ast
import sys
import warnings
from pathlib import Path
from typing import Any

from benchmarks.arena import board, calibrated, league
from benchmarks.arena.experiments import FAILED, Kind, Outcome, folder, frozen, run
from benchmarks.arena.live import Journal, run_all
from benchmarks.arena.report import render
from benchmarks.arena.rivals import installed
from benchmarks.arena.sources import sources
from benchmarks.paper import cache
from calspline import SplineCalibrator

FROZEN, LIVE, CALIBRATED = (
    Path(__file__).with_name(name)
    for name in ("RESULTS.md", "LIVE.md", "CALIBRATED.md")
)
KINDS: tuple[Kind, ...] = ("binary", "multiclass")


def run_kind(place: Path, kind: Kind, options: dict[str, Any], worst: int) -> str:
    """All experiments of a kind, as Markdown."""
    known = frozen(place, kind)
    outcomes: list[Outcome] = []
    for name in known.losses.index:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                outcomes.append(
                    run(lambda: SplineCalibrator(**options), place / f"{name}.npz")
                )
            except Exception as error:  # an error loses the experiment, and is shown
                print(f"{name}: {type(error).__name__}: {error}")
                outcomes.append(FAILED)
    losses = known.losses.assign(**{league.OURS: [o.ours.log_loss for o in outcomes]})
    return render(kind, league.settled(losses), known, outcomes, worst=worst)


def run_live(place: Path, only: str, output: Path, flags: str) -> int:
    """All calibrators on all experiments of a folder: a page and, beside it, the leaderboard."""
    present = installed()
    for package, reason in present.missing.items():
        print(f"{package} is skipped: {reason}", file=sys.stderr)
    places = sources(place, only)
    if not places:
        print(f"no experiments in {place} match {only!r}", file=sys.stderr)
        return 2
    journal = Journal(cache.folder() / f"arena-{place.resolve().name}.jsonl")
    results = run_all(places, present.rivals, journal)
    flags += f" --only '{only}'" if only != "*" else ""
    page = board.render(results, present, f"python -m benchmarks.arena{flags}")
    output.write_text(page, encoding="utf-8")
    board.draw(results).savefig(output.with_name("live.png"))
    journal.close()
    print(page)
    return 0


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
    cli = argparse.ArgumentParser(
        prog="python -m benchmarks.arena", description=__doc__
    )
    cli.add_argument(
        "--kw",
        type=option,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="calibrator option",
    )
    cli.add_argument(
        "--worst",
        type=int,
        default=8,
        help="how many experiments to show where it lags",
    )
    cli.add_argument("--output", type=Path, help="the page to write")
    cli.add_argument(
        "--live",
        action="store_true",
        help="run all calibrators, ours and others, that are installed",
    )
    cli.add_argument(
        "--calibrated",
        action="store_true",
        help="run on the half whose models are well calibrated",
    )
    cli.add_argument(
        "--data",
        type=Path,
        metavar="FOLDER",
        help="experiments of your own, as .npz or CalArena's HDF5",
    )
    cli.add_argument(
        "--only",
        default="*",
        metavar="PATTERN",
        help="live: experiments so named, as 'm_*__rf'",
    )
    args = cli.parse_args()
    place = args.data or folder()
    if place is None or not place.is_dir():
        print(
            "no arena: name its folder in CALSPLINE_ARENA, or one of your own with --data",
            file=sys.stderr,
        )
        return 2
    if args.live or args.data:
        if args.kw:
            cli.error(
                "--kw is for the default run: all live calibrators have their defaults"
            )
        return run_live(
            place,
            args.only,
            args.output or LIVE,
            " --data FOLDER" if args.data else " --live",
        )
    options = dict(args.kw)
    given = "".join(f" --kw {name}={value!r}" for name, value in options.items())
    if args.calibrated:
        half = place.with_name("arena_calibrated")
        if not half.is_dir():
            print(f"no {half}", file=sys.stderr)
            return 2
        made_by = f"python -m benchmarks.arena --calibrated{given}"
        page = calibrated.render(half, lambda: SplineCalibrator(**options), made_by)
        (args.output or CALIBRATED).write_text(page, encoding="utf-8")
        print(page)
        return 0
    args.output = args.output or FROZEN
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
