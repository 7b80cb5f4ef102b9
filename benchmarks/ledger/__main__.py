"""Print stored and present ratios side by side: ``python -m benchmarks.ledger``.

``--write`` stores the present ones, ``--only TEXT`` measures the entries whose name
contains a text. A ratio is processor time of ours by that of an alternative, so that it
means the same on another machine. Where the alternative is a fit of ours, as for
segments and evaluations, a faster fit makes the ratio larger.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from benchmarks.ledger.entries import ENTRIES
from benchmarks.ledger.measure import Ratio, measure
from benchmarks.tables import table

STORED = Path(__file__).parents[1] / "ledger.json"
NOTABLE = 15.0
"""Percent of change that are marked: on a busy machine, less is noise."""


def main() -> None:
    """Measure, print, and store on request."""
    cli = argparse.ArgumentParser(
        prog="python -m benchmarks.ledger", description=__doc__
    )
    cli.add_argument("--write", action="store_true", help="store the present ratios")
    cli.add_argument("--only", metavar="TEXT", default="", help="part of a name")
    cli.add_argument(
        "--seconds", type=float, default=4.0, help="of each entry, at most"
    )
    options = cli.parse_args()
    stored: dict[str, float] = json.loads(STORED.read_text()) if STORED.exists() else {}
    found: dict[str, float] = {}
    rows = []
    for name, prepare in ENTRIES.items():
        if options.only not in name:
            continue
        try:
            ours, other = prepare()
        except ImportError as error:
            print(f"{name}: left out, {error}", file=sys.stderr)
            continue
        ratio = measure(ours, other, seconds=options.seconds)
        found[name] = float(f"{ratio.value:.3g}")
        rows.append(line(name, stored.get(name), ratio))
        print("  ".join(rows[-1]), file=sys.stderr, flush=True)
    print(table(["ours by the alternative", "stored", "now", "change", "ours"], rows))
    if options.write:
        merged = {name: found.get(name, stored.get(name)) for name in ENTRIES}
        kept = {name: ratio for name, ratio in merged.items() if ratio is not None}
        STORED.write_text(json.dumps(kept, indent=1) + "\n")


def line(name: str, stored: float | None, ratio: Ratio) -> list[str]:
    """A line of the table."""
    change = ""
    if stored:
        percent = 100.0 * (ratio.value / stored - 1.0)
        change = f"{percent:+.0f}%" + (" !" if abs(percent) > NOTABLE else "")
    before = "" if stored is None else f"{stored:.3g}"
    return [name, before, f"{ratio.value:.3g}", change, f"{1e3 * ratio.ours:.3g} ms"]


if __name__ == "__main__":
    main()
