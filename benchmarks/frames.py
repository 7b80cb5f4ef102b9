"""Fit and apply where the scores live: ``python -m benchmarks.frames``.

A Parquet file of scores and labels is fitted by each engine from the file, and the calibrated column is computed
and summed. Each engine runs in a process of its own, whose memory, with that of its children, is
watched from outside. ``--rows`` may be given several times. Writes ``FRAMES.md`` beside this file.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.tables import table
from calspline import SplineCalibrator, apply_frame, fit_frame

RESULT = Path(__file__).with_name("FRAMES.md")
ENGINES = ("numpy", "pyarrow", "pandas", "polars", "duckdb", "dask", "spark")
ROUNDS = 2
GROUP = 1 << 20


def write_rows(path: Path, n: int) -> None:
    """An over-confident model's scores, written group by group."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    schema = pa.schema([("score", pa.float64()), ("label", pa.int64())])
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, n, GROUP):
            u = rng.normal(-0.3, 2.0, min(GROUP, n - start))
            y = rng.random(len(u)) < 1.0 / (1.0 + np.exp(-0.5 * u - 0.4 * np.sin(u)))
            writer.write_table(
                pa.table({"score": 1.0 / (1.0 + np.exp(-u)), "label": y.astype(np.int64)}, schema=schema)
            )


Jobs = tuple[Callable[[], SplineCalibrator], Callable[[SplineCalibrator], float]]


def jobs(engine: str, path: str) -> Jobs:
    """A fit from the file, and the sum of the calibrated column."""
    if engine == "numpy":
        return _numpy(path)
    read, total = _engine(engine, path)

    def fit() -> SplineCalibrator:
        return fit_frame(read(), score="score", label="label")

    return fit, lambda calibrator: total(apply_frame(read(), calibrator, score="score"))


def _numpy(path: str) -> Jobs:
    import pyarrow.parquet as pq

    def fit() -> SplineCalibrator:
        rows = pq.read_table(path)
        return SplineCalibrator().fit(rows["score"].to_numpy(), rows["label"].to_numpy())

    def apply(calibrator: SplineCalibrator) -> float:
        return float(calibrator.calibrate(pq.read_table(path, columns=["score"])["score"].to_numpy()).sum())

    return fit, apply


def _engine(engine: str, path: str) -> tuple[Callable[[], Any], Callable[[Any], float]]:
    """How an engine reads the file and sums a column."""
    if engine == "pyarrow":
        import pyarrow.compute as pc
        import pyarrow.parquet as pq

        return lambda: pq.read_table(path), lambda frame: float(pc.sum(frame["calibrated"]).as_py())
    if engine == "pandas":
        import pandas as pd

        return lambda: pd.read_parquet(path), lambda frame: float(frame["calibrated"].sum())
    if engine == "polars":
        import polars as pl

        def by_streaming(frame: Any) -> float:
            return float(frame.select(pl.col("calibrated").sum()).collect(engine="streaming").item())

        return lambda: pl.scan_parquet(path), by_streaming
    if engine == "duckdb":
        import duckdb

        return lambda: duckdb.from_parquet(path), lambda frame: float(frame.sum("calibrated").fetchall()[0][0])
    if engine == "dask":
        import dask.dataframe as dd

        return lambda: dd.read_parquet(path), lambda frame: float(frame["calibrated"].sum().compute())
    return _spark(path)


def _spark(path: str) -> tuple[Callable[[], Any], Callable[[Any], float]]:
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master("local[*]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1")
    session = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return (
        lambda: session.read.parquet(path),
        lambda frame: float(frame.agg({"calibrated": "sum"}).collect()[0][0]),
    )


def work(engine: str, path: str) -> None:
    """Run the jobs of an engine and print seconds and results as JSON."""
    fit, apply = jobs(engine, path)
    fits, applies, cores = [], [], []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        calibrator = fit()
        fits.append(time.perf_counter() - start)
    for _ in range(ROUNDS):
        start, before = time.perf_counter(), core_seconds()
        total = apply(calibrator)
        applies.append(time.perf_counter() - start)
        cores.append(core_seconds() - before)
    probes = calibrator.calibrate(np.linspace(0.0, 1.0, 101)).tolist()
    seconds = {"fit": min(fits), "apply": min(applies), "core": min(cores)}
    print(json.dumps(seconds | {"sum": total, "probes": probes}))


def core_seconds() -> float:
    """Time that all cores have spent on this process and its children."""
    import psutil

    me = psutil.Process()
    times = [one.cpu_times() for one in (me, *me.children(recursive=True))]
    return float(sum(one.user + one.system for one in times))


def watched(engine: str, path: Path) -> dict[str, Any]:
    """The work in a process of its own, with the peak of its memory in bytes."""
    import psutil

    command = [sys.executable, "-m", "benchmarks.frames", "--work", engine, str(path)]
    with tempfile.TemporaryFile("w+") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.DEVNULL)
        peak = 0
        while process.poll() is None:
            try:
                parent = psutil.Process(process.pid)
                family = [parent, *parent.children(recursive=True)]
                peak = max(peak, sum(one.memory_info().rss for one in family))
            except psutil.Error:
                pass
            time.sleep(0.05)
        if process.returncode != 0:
            raise RuntimeError(f"{engine} ended with code {process.returncode}")
        out.seek(0)
        seen: dict[str, Any] = json.loads(out.read().splitlines()[-1])
        return seen | {"peak": peak}


def main() -> None:
    """Run all engines and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, action="append")
    parser.add_argument("--engines", nargs="+", default=list(ENGINES), choices=ENGINES)
    parser.add_argument("--work", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        work(*arguments.work)
        return
    lines = []
    for n in arguments.rows or [1_000_000]:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "rows.parquet"
            write_rows(path, n)
            base: dict[str, Any] | None = None
            for engine in arguments.engines:
                seen = watched(engine, path)
                base = base or seen
                apart = max(abs(a - b) for a, b in zip(seen["probes"], base["probes"], strict=True))
                rate = n / seen["core"] / 1e6
                lines.append(
                    [
                        f"{n:,}",
                        engine,
                        f"{seen['fit']:.2f}",
                        f"{seen['apply']:.2f}",
                        f"{rate:.1f}",
                        f"{seen['peak'] / 2**20:,.0f}",
                        f"{apart:.1e}",
                    ]
                )
                print(*lines[-1], flush=True)
    header = [
        "rows",
        "engine",
        "fit, s",
        "apply, s",
        "million rows per core second",
        "peak memory, MB",
        "largest difference",
    ]
    text = (
        "# Fit and apply where the scores live\n\n"
        "`python -m benchmarks.frames`: from a Parquet file, reading included; the better of two rounds, so that "
        "Spark's start is not counted. Rows per core second are of applying: they tell what it costs whatever else "
        "runs on the machine, as seconds do not. Peak memory is of the whole process and its children, "
        "Python and libraries included. The difference is of calibrated probabilities, at 101 scores, from "
        "the first engine's.\n\n"
        f"Python {platform.python_version()} on {os.cpu_count()} cores, with a load average of "
        f"{os.getloadavg()[0]:.1f} at the end.\n\n{table(header, lines)}\n"
    )
    RESULT.write_text(text)


if __name__ == "__main__":
    main()
