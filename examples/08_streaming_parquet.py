"""Fit a Parquet file that is larger than memory, batch by batch: ``--rows 100000000``.

Writes a file of that many scores and labels, streams it through ``partial_fit``, and
prints the time and the peak of memory, which does not grow with the file. Each batch
also leaves a histogram in a file, as one would keep one per day: their sum gives the
same fit, and two of them tell whether anything has changed.
"""

import argparse
import resource
import sys
import tempfile
import time
from functools import reduce
from multiprocessing import get_context
from operator import add
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from calspline import ScoreHistogram, SplineCalibrator, drift, load, save

BATCH = 1 << 18


def write(path, n):
    """Scores of an over-confident model, group by group."""
    rng = np.random.default_rng(0)
    schema = pa.schema([("score", pa.float64()), ("label", pa.int8())])
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, n, BATCH):
            u = rng.normal(-1.0, 2.0, min(BATCH, n - start))
            y = rng.random(len(u)) < 1 / (1 + np.exp(-0.5 * u))
            writer.write_table(
                pa.table(
                    {"score": 1 / (1 + np.exp(-u)), "label": y.astype(np.int8)},
                    schema=schema,
                )
            )


def batches(path):
    """Scores and labels of the file, a bounded number at a time."""
    # Buffers read ahead would hold the whole file.
    for batch in pq.ParquetFile(path, pre_buffer=False).iter_batches(BATCH):
        yield batch.column("score").to_numpy(), batch.column("label").to_numpy()


def peak_megabytes():
    """Most memory that this process has held."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / (2**20 if sys.platform == "darwin" else 2**10)


def draw(rows, held):
    """Draw the memory used, next to the memory that the rows would take."""
    figure, ax = plt.subplots(figsize=(7.5, 4.2), layout="constrained")
    ax.plot(
        rows / 1e6,
        9 * rows / 2**20,
        color="#d55e00",
        ls="--",
        label="the rows themselves, in memory",
    )
    ax.plot(
        rows / 1e6,
        held - held[0],
        color="#0072b2",
        lw=2,
        label="partial_fit, peak of memory",
    )
    ax.set(xlabel="million rows", ylabel="MB", xlim=(0, rows[-1] / 1e6), ylim=(0, None))
    ax.set_title(
        "A fit that does not grow with the file", loc="left", fontweight="bold"
    )
    ax.grid(color="#e8ecf0")
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False)
    figure.savefig(Path(__file__).with_suffix(".png"), dpi=110)


def main():
    """Write, stream, compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    n = parser.parse_args().rows
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scores.parquet"
        writer = get_context("spawn").Process(
            target=write, args=(path, n)
        )  # apart, so as not to count as ours
        writer.start()
        writer.join()
        size = path.stat().st_size / 2**20
        print(
            f"{n:,} rows, {size:,.0f} MB on disk; "
            f"peak memory so far {peak_megabytes():,.0f} MB"
        )

        start = time.perf_counter()
        calibrator, rows, held = SplineCalibrator(), [0], [peak_megabytes()]
        for scores, labels in batches(path):
            calibrator.partial_fit(scores, labels)
            rows.append(rows[-1] + len(scores))
            held.append(peak_megabytes())
        seconds = time.perf_counter() - start
        print(f"partial_fit: {seconds:.1f} s, peak memory {peak_megabytes():,.0f} MB")

        start = time.perf_counter()
        for day, batch in enumerate(batches(path)):
            save(
                ScoreHistogram.from_scores(*batch), Path(folder) / f"day_{day:05}.json"
            )
        days = sorted(Path(folder).glob("day_*.json"))
        total = reduce(add, map(load, days))
        print(
            f"a histogram a day: {time.perf_counter() - start:.1f} s, "
            f"peak memory {peak_megabytes():,.0f} MB"
        )
        start = time.perf_counter()
        merged = SplineCalibrator().fit_histogram(total)
        print(f"refit to all days: {1000 * (time.perf_counter() - start):.0f} ms")
        print(drift(load(days[0]), load(days[-1])))

    probes = np.linspace(0, 1, 101)
    apart = np.abs(merged.calibrate(probes) - calibrator.calibrate(probes)).max()
    print(f"largest difference of the two fits: {apart:.1e}")
    draw(np.array(rows), np.array(held))


if __name__ == "__main__":
    main()
