"""Memory and time of ``sample_batches`` on images of logits: ``python -m benchmarks.batches`` writes BATCHES.md.

Images of 512 x 512 pixels with 19 classes in float32, two in a batch, are generated as
they are read. Each line is a process of its own; its peak is the most that it had
resident, Python and its libraries included.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.resident import peak
from benchmarks.tables import table
from calspline import SplineCalibrator, sample_batches

SIZE, CLASSES, IN_A_BATCH = 512, 19, 2
IMAGES = 2, 16, 64
HEADER = [
    "images",
    "pixels",
    "rows in the sample",
    "peak, MB",
    "seconds",
    "of these in sampling and fit",
]


def loader(images: int, spent: list[float]) -> Iterator[tuple[Any, Any]]:
    """Batches of logits and labels, and the time it took to make them."""
    rng = np.random.default_rng(0)
    for _ in range(images // IN_A_BATCH):
        start = time.perf_counter()
        logits = rng.standard_normal(
            (IN_A_BATCH, CLASSES, SIZE, SIZE), dtype=np.float32
        )
        labels = logits[:, 0].astype(np.intp)
        best = np.full(labels.shape, -np.inf, dtype=np.float32)
        for j in range(
            CLASSES
        ):  # class by class, so that making images takes less than reading them
            score = logits[:, j] - np.log(
                rng.standard_exponential(labels.shape, dtype=np.float32) + 1e-30
            )
            labels[score > best] = j
            np.maximum(best, score, out=best)
        logits *= 2.0
        spent.append(time.perf_counter() - start)
        yield logits, labels


def measured(images: int) -> list[str]:
    """A line of the table."""
    spent: list[float] = []
    start = time.perf_counter()
    scores, y, groups = sample_batches(loader(images, spent))
    SplineCalibrator().fit(scores, y, groups=groups)
    seconds = time.perf_counter() - start
    return [
        f"{images:,}",
        f"{images * SIZE**2:,}",
        f"{len(y):,}",
        f"{peak() / 2**20:.0f}",
        f"{seconds:.0f}",
        f"{seconds - sum(spent):.0f}",
    ]


def main() -> None:
    """Measure each in a process of its own, and write the table."""
    lines = []
    for images in IMAGES:
        command = [sys.executable, "-m", "benchmarks.batches", str(images)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        lines.append(json.loads(done.stdout))
        print(*lines[-1])
    largest = max(int(line[3]) for line in lines)
    text = f"""# Memory of fits from batches

`python -m benchmarks.batches`: images of {SIZE} x {SIZE} pixels with {CLASSES} classes, {IN_A_BATCH} in a batch
({IN_A_BATCH * CLASSES * SIZE**2 * 4 / 2**20:.0f} MB of logits in float32), generated as they are read. The peak is of
the whole process, Python and its libraries included. One thread of a busy processor.

{table(HEADER, lines)}

The most was {largest} MB. The peak depends on the size of a batch and on `max_rows` (100,000), not on the number of
images: one batch and at most twice `max_rows` rows are held in memory.
"""
    (Path(__file__).parent / "BATCHES.md").write_text(text)


if __name__ == "__main__":
    if len(sys.argv) == 2:
        print(json.dumps(measured(int(sys.argv[1]))))
    else:
        main()
