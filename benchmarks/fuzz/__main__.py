"""Hostile files for every reader: ``python -m benchmarks.fuzz``.

Spoils valid models, histograms and tables at random and gives them to ``load`` and to
``calspline fit``, under a limit of memory and of time. Only our errors may come out.
Writes ``FUZZ.md`` and fails if anything else did.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random

from benchmarks.fuzz.readers import (
    MAX_SECONDS,
    fit_hostile,
    load_hostile,
    model_file,
    table_file,
)
from benchmarks.tables import table

RESULT = Path(__file__).parents[1] / "FUZZ.md"
MAX_MEMORY = 4 << 30
MEMORY = Path("/dev/shm")
"""Files there cost no disk."""


def attack(
    name: str, count: int, once: Callable[[Random, Path], str | None]
) -> list[str]:
    """Run one reader on so many files; what went wrong."""
    failures = []
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        for seed in range(count):
            wrong = once(Random(seed), Path(folder))
            if wrong is not None:
                failures.append(f"{name} {seed}: {wrong}")
                print(failures[-1][:300], flush=True)
    return failures


READERS: dict[str, Callable[[Random, Path], str | None]] = {
    "`load`: models and histograms": lambda random, folder: load_hostile(
        model_file(random), folder
    ),
    "`calspline fit`: CSV": lambda random, folder: fit_hostile(
        table_file(random, "csv"), folder, "csv"
    ),
    "`calspline fit`: JSONL": lambda random, folder: fit_hostile(
        table_file(random, "jsonl"), folder, "jsonl"
    ),
}


def main() -> int:
    parser = argparse.ArgumentParser(description="Give hostile files to every reader.")
    parser.add_argument("--models", type=int, default=400_000)
    parser.add_argument("--tables", type=int, default=5_000, help="of each format")
    options = parser.parse_args()
    resource.setrlimit(
        resource.RLIMIT_AS, (MAX_MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1])
    )
    counts = [options.models, options.tables, options.tables]
    failures = {
        name: attack(name, count, READERS[name])
        for name, count in zip(READERS, counts, strict=True)
    }
    lines = [
        [name, f"{count:,}", f"{len(failures[name])}"]
        for name, count in zip(READERS, counts, strict=True)
    ]
    text = f"""# Hostile files

`python -m benchmarks.fuzz`: valid files spoilt at random, in their bytes or in what they say (models with a checksum
that is right again), read under a limit of {MAX_MEMORY >> 30} GB of memory and {MAX_SECONDS:g} seconds of work each.
A failure is any exception but our own error, a hang, memory run out, an error that does not name the file or does not
fit on one line, a file left behind, or a model that was taken and then does not answer with probabilities.

{table(["reader", "files", "failures"], lines)}
"""
    print(text)
    RESULT.write_text(text)
    return int(any(failures.values()))


if __name__ == "__main__":
    sys.exit(main())
