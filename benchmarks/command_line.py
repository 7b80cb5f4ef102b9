"""The command line on a Parquet file, next to a plain copy of it: ``python -m benchmarks.command_line``.

The copy is DuckDB's ``COPY (SELECT * FROM 'rows.parquet') TO 'copy.parquet'``. Each
runs in a process of its own, start included, in turns; the most memory that the process
held is what the system says. ``--rows`` may be given several times. On a thousand rows,
the start, commands are compared with a process that imports what they stand on. Writes
``COMMAND_LINE.md`` beside this file.
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

from benchmarks.tables import table
from calspline import __version__

RESULT = Path(__file__).with_name("COMMAND_LINE.md")
COPY = "import duckdb; duckdb.sql(\"COPY (SELECT * FROM 'rows.parquet') TO 'copy.parquet' (FORMAT parquet)\")"
IMPORTS = "import numpy, scipy.linalg, duckdb"
PYTHON, FEW = sys.executable, 1000
COMMANDS = {
    "fit": [
        PYTHON,
        "-m",
        "calspline",
        "fit",
        "rows.parquet",
        "-o",
        "model.json",
        "--force",
    ],
    "apply": [
        PYTHON,
        "-m",
        "calspline",
        "apply",
        "model.json",
        "rows.parquet",
        "-o",
        "calibrated.parquet",
        "--force",
    ],
    "duckdb COPY": [PYTHON, "-c", COPY],
}
START = {
    IMPORTS: [PYTHON, "-c", IMPORTS],
    "fit": [
        PYTHON,
        "-m",
        "calspline",
        "fit",
        "few.parquet",
        "-o",
        "few.json",
        "--force",
    ],
    "apply": [
        PYTHON,
        "-m",
        "calspline",
        "apply",
        "few.json",
        "few.parquet",
        "-o",
        "few-out.parquet",
        "--force",
    ],
    "export": [
        PYTHON,
        "-m",
        "calspline",
        "export",
        "few.json",
        "--to",
        "sql",
        "-o",
        "few.sql",
        "--force",
    ],
}


def write_rows(path: Path, n: int) -> None:
    """Write rows in another process: what this one holds would count as the most that its children held."""
    code = "import sys; from pathlib import Path; from benchmarks.frames import write_rows as write; "
    subprocess.run(
        [
            PYTHON,
            "-c",
            f"{code} write(Path(sys.argv[1]), int(sys.argv[2]))",
            str(path),
            str(n),
        ],
        check=True,
    )


def run(
    command: list[str], folder: Path, environment: dict[str, str] | None = None
) -> tuple[float, float, int]:
    """Seconds that a command took, seconds of the processor, and the most bytes that it held."""
    start = time.perf_counter()
    process = subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.DEVNULL
    )
    _, status, used = os.wait4(process.pid, 0)
    if status != 0:
        raise RuntimeError(f"{' '.join(command)} ended with status {status}")
    return (
        time.perf_counter() - start,
        used.ru_utime + used.ru_stime,
        used.ru_maxrss * 1024,
    )


def started(rounds: int) -> list[list[str]]:
    """Lines of the table of the start: seconds and seconds of the processor, best of many, and their ratios."""
    best = {name: [float("inf"), float("inf")] for name in START}
    with tempfile.TemporaryDirectory() as name:
        write_rows(Path(name) / "few.parquet", FEW)
        # What is installed has its bytecode; a development environment may forbid to
        # write it.
        environment = {
            key: value
            for key, value in os.environ.items()
            if key != "PYTHONDONTWRITEBYTECODE"
        }
        environment["PYTHONPYCACHEPREFIX"] = str(Path(name) / "bytecode")
        for i in range(rounds + 1):
            for what, command in START.items():
                taken = run(command, Path(name), environment)[:2]
                if i > 0:  # the first writes the bytecode
                    best[what] = [
                        min(pair) for pair in zip(best[what], taken, strict=True)
                    ]
    base = best[IMPORTS]
    return [
        [
            what,
            f"{wall:.2f}",
            f"{wall / base[0]:.2f}",
            f"{cpu:.2f}",
            f"{cpu / base[1]:.2f}",
        ]
        for what, (wall, cpu) in best.items()
    ]


def measured(n: int, rounds: int) -> list[list[str]]:
    """Lines of the table for so many rows."""
    best = {name: float("inf") for name in COMMANDS}
    most = dict.fromkeys(COMMANDS, 0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_rows(folder / "rows.parquet", n)
        for i in range(rounds):
            for what, command in COMMANDS.items():
                seconds, _, peak = run(command, folder)
                best[what], most[what] = min(best[what], seconds), max(most[what], peak)
                print(
                    f"{n:,} rows, round {i + 1} of {rounds}: {what} {seconds:.2f} s",
                    file=sys.stderr,
                )
        size = (folder / "rows.parquet").stat().st_size / 2**20
    copy = best["duckdb COPY"]
    lines = []
    for what, seconds in best.items():
        rate = f"{n / seconds / 1e6:.1f}"
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
    parser.add_argument("--starts", type=int, default=15)
    options = parser.parse_args()
    sizes = options.rows or [1_000_000, 10_000_000]
    load = os.getloadavg()[0]
    start = started(options.starts)
    lines = [line for n in sizes for line in measured(n, options.rounds)]
    header = [
        "rows",
        "",
        "seconds",
        "million rows a second",
        "of the copy's time",
        "peak MB",
    ]
    said = " ".join(
        [
            "python -m benchmarks.command_line",
            *(f"--rows {n}" for n in options.rows or []),
        ]
    )
    others = [
        f"{name} {version(name)}" for name in ("duckdb", "pyarrow", "scikit-learn")
    ]
    versions = ", ".join([f"calspline {__version__}", *others])
    RESULT.write_text(
        f"""# The command line next to a plain copy

Made by `{said}`: best of {options.rounds} rounds, in which all take turns;
{os.cpu_count()} CPUs, load average {load:.1f} at the start. Python {platform.python_version()}, {versions}.

A Parquet file of scores and labels. `fit` reads it and writes a model; `apply` writes the file again with one more
column; the copy is `COPY (SELECT * FROM 'rows.parquet') TO 'copy.parquet'` in DuckDB, from Python. Times are of whole
processes, start included. Memory is the most that the process held.

{table(header, lines)}

The start: a thousand rows, best of {options.starts} rounds, next to `python -c "{IMPORTS}"`. Processor time counts all
threads; it depends less on what else the machine does.

{table(["", "seconds", "of the imports' time", "processor seconds", "of the imports'"], start)}
""",
        encoding="utf-8",
    )
    print(RESULT.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
