"""The command line on a Parquet file, next to a plain copy of it: ``python -m benchmarks.command_line``.

The copy is DuckDB's ``COPY (SELECT * FROM 'rows.parquet') TO 'copy.parquet'``. Each runs in a process of its own, start
included, in turns; the memory of the process and its children is watched from outside. ``--rows`` may be given
several times. Writes ``COMMAND_LINE.md`` beside this file.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

from benchmarks.frames import write_rows
from benchmarks.tables import table

RESULT = Path(__file__).with_name("COMMAND_LINE.md")
COPY = "import duckdb; duckdb.sql(\"COPY (SELECT * FROM 'rows.parquet') TO 'copy.parquet' (FORMAT parquet)\")"
PYTHON, FEW = sys.executable, 1000
COMMANDS = {
    "fit": [PYTHON, "-m", "calspline", "fit", "rows.parquet", "-o", "model.json", "--force"],
    "apply": [PYTHON, "-m", "calspline", "apply", "model.json", "rows.parquet", "-o", "calibrated.parquet", "--force"],
    "duckdb COPY": [PYTHON, "-c", COPY],
    "fit, 1,000 rows": [PYTHON, "-m", "calspline", "fit", "few.parquet", "-o", "few.json", "--force"],
}


def watched(command: list[str], folder: Path) -> tuple[float, int]:
    """Seconds that a command took, and the most bytes that it and its children held."""
    import psutil

    start, peak = time.perf_counter(), 0
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL)
    while process.poll() is None:
        try:
            parent = psutil.Process(process.pid)
            peak = max(peak, sum(one.memory_info().rss for one in (parent, *parent.children(recursive=True))))
        except psutil.Error:
            pass
        time.sleep(0.02)
    seconds = time.perf_counter() - start
    if process.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} ended with code {process.returncode}")
    return seconds, peak


def measured(n: int, rounds: int) -> list[list[str]]:
    """Lines of the table for so many rows."""
    best = {name: float("inf") for name in COMMANDS}
    most = dict.fromkeys(COMMANDS, 0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_rows(folder / "rows.parquet", n)
        write_rows(folder / "few.parquet", FEW)
        for i in range(rounds):
            for what, command in COMMANDS.items():
                seconds, peak = watched(command, folder)
                best[what], most[what] = min(best[what], seconds), max(most[what], peak)
                print(f"{n:,} rows, round {i + 1} of {rounds}: {what} {seconds:.2f} s", file=sys.stderr)
        size = (folder / "rows.parquet").stat().st_size / 2**20
    copy = best["duckdb COPY"]
    lines = []
    for what, seconds in best.items():
        rate = "-" if "1,000" in what else f"{n / seconds / 1e6:.1f}"
        lines.append(
            [
                f"{n:,} ({size:,.0f} MB)",
                what,
                f"{seconds:.2f}",
                rate,
                f"{seconds / copy:.2f}",
                f"{most[what] / 2**20:,.0f}",
            ]
        )
    return lines


def main() -> None:
    """Measure and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, action="append")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    sizes = options.rows or [1_000_000, 10_000_000]
    load = os.getloadavg()[0]
    lines = [line for n in sizes for line in measured(n, options.rounds)]
    header = ["rows", "", "seconds", "million rows a second", "of the copy's time", "peak MB"]
    said = " ".join(["python -m benchmarks.command_line", *(f"--rows {n}" for n in options.rows or [])])
    versions = ", ".join(f"{name} {version(name)}" for name in ("calspline", "duckdb", "pyarrow", "scikit-learn"))
    RESULT.write_text(
        f"""# The command line next to a plain copy

Made by `{said}`: best of {options.rounds} rounds, in which all take turns;
{os.cpu_count()} CPUs, load average {load:.1f} at the start. Python {platform.python_version()}, {versions}.

A Parquet file of scores and labels. `fit` reads it and writes a model; `apply` writes the file again with one more
column; the copy is `COPY (SELECT * FROM 'rows.parquet') TO 'copy.parquet'` in DuckDB, from Python. Times are of whole
processes, start included; most of the start is scikit-learn's, as the fit of a thousand rows shows. Memory is that of
the process and its children.

{table(header, lines)}
""",
        encoding="utf-8",
    )
    print(RESULT.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
